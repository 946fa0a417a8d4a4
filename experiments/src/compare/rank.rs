//! `maniple mpi-rank`: one rank of the MPI reference, as the launcher starts it.

use super::mpi::Program;
use super::sides::{Answer, MARK};
use crate::Failure;
use crate::micro::allreduce::{Op, Spec};
use crate::micro::remote::{add, changes, warm_up};
use crate::output::Stdout;
use maniple::collectives::Algorithm;
use maniple_stencil::mpi::{Operation, World};
use maniple_stencil::reference::{DominantMode, verify_mode};
use maniple_stencil::{StencilError, Times, plural};
use std::panic;

/// The options that `maniple compare mpi` gives to a rank.
#[derive(Debug, clap::Args)]
pub struct RankOptions {
    program: Program,

    #[arg(long)]
    ranks: u32,

    #[arg(long)]
    elements: usize,

    #[arg(long)]
    cells: usize,

    #[arg(long)]
    iterations: usize,

    #[arg(long)]
    op: Op,
}

/// Runs the program with all other ranks. Rank 0 prints the answer.
pub fn execute(args: &RankOptions) -> Result<(), Failure> {
    // Ending otherwise would finalise MPI, and wait there for ranks that wait for this one.
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
    let world = World::join().map_err(|e| Failure::Run(e.to_string()))?;
    let (size, library) = (world.size(), World::library());
    let answer = if size != args.ranks as usize {
        let ranks = plural(args.ranks as usize, "rank");
        Err(format!(
            "expected {ranks}, found {size}; this program was built with {library}: is the launcher of the same MPI?"
        ))
    } else {
        measure(args, &world, library)
    };
    // All ranks have the same answer.
    if world.rank() != 0 {
        return Ok(());
    }
    let answer = serde_json::to_string(&answer.map_err(Failure::Run)?).map_err(|e| Failure::Run(e.to_string()))?;
    Stdout::new().write(&format!("{MARK}{answer}\n"))
}

fn measure(args: &RankOptions, world: &World, mpi: String) -> Result<Answer, String> {
    match args.program {
        Program::Allreduce => Ok(allreduce(args, world, mpi)),
        Program::Stencil => stencil(args, world, mpi).map_err(|e| e.to_string()),
        Program::Remote => Ok(remote(args, world, mpi)),
    }
}

fn allreduce(args: &RankOptions, world: &World, mpi: String) -> Answer {
    let operation = match args.op {
        Op::Sum => Operation::Sum,
        Op::Product => Operation::Product,
        Op::Min => Operation::Min,
        Op::Max => Operation::Max,
    };
    let (elements, iterations, rank) = (args.elements, args.iterations, world.rank() as u32);
    // MPI chooses its own algorithm; this one is only for the specification.
    let algorithm = Algorithm::RecursiveDoubling;
    let spec = Spec { shards: args.ranks, elements, iterations, op: args.op, algorithm };
    let own = |last| args.op.own(last, rank);
    let (result, us) = world.allreduce(operation, elements, spec.warm_up(), iterations, own);
    Answer { mpi, failure: None, result: Some(result), iteration_us: None, collective_us: Some(us) }
}

fn remote(args: &RankOptions, world: &World, mpi: String) -> Answer {
    let (elements, iterations) = (args.elements, args.iterations);
    let change = |iteration, x: &mut [f64]| changes(iteration, elements).for_each(|(at, value)| x[at] = value);
    let sum = |x: &[f64]| {
        let mut lanes = [0.0; 8];
        add(x, &mut lanes);
        lanes.iter().sum()
    };
    let (result, wrong, us) = world.remote(elements, (warm_up(iterations), iterations), change, sum);
    let failure = (wrong > 0).then(|| format!("{} wrong", plural(wrong, "sum")));
    Answer { mpi, failure, result: Some(result), iteration_us: None, collective_us: Some(us) }
}

fn stencil(args: &RankOptions, world: &World, mpi: String) -> Result<Answer, StencilError> {
    // The first run makes connections, and is not measured.
    world.stencil(args.cells, args.iterations)?;
    let outcome = world.stencil(args.cells, args.iterations)?;
    let mode = DominantMode::new(world.size() * args.cells);
    Ok(Answer {
        mpi,
        failure: outcome.vectors.first().and_then(|last| verify_mode(&mode, &outcome.roots, last).failure),
        result: outcome.roots.last().copied(),
        iteration_us: Some(Times::of(&outcome.iteration_us).median),
        collective_us: Some(Times::of(&outcome.collective_us).median),
    })
}
