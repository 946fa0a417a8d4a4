//! `maniple mpi-rank`: one rank of the MPI reference, as the launcher starts it.

use super::mpi::Program;
use super::sides::{MARK, Side, mean_and_most};
use super::world;
use crate::Failure;
use crate::collective::chain::own;
use crate::collective::kind::kinds;
use crate::collective::oracle::{Oracle, VARIANTS};
use crate::collective::run::{Clock, Found, Workload, first_difference};
use crate::collective::values::Op;
use crate::collective::wrong;
use crate::measure::stats::median;
use crate::micro::remote::{add, changes, warm_up};
use crate::output::Stdout;
use maniple::collectives::Kind;
use maniple_runtime::mpi::{Communicator, Operation};
use maniple_stencil::reference::{DominantMode, verify_mode};
use maniple_stencil::{StencilError, plural};
use std::panic;
use std::time::Instant;

/// The options that `maniple compare mpi` gives to a rank.
#[derive(Debug, clap::Args)]
pub struct RankOptions {
    program: Option<Program>,

    /// A kind of collective, instead of a program
    #[arg(long, required_unless_present = "program", value_parser = kinds())]
    kind: Option<Kind>,

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
    // For this thread alone, which is the fastest way. It is finalised when the program ends.
    let world = maniple_runtime::mpi::world().map_err(|e| Failure::Run(e.to_string()))?;
    let (size, library) = (world.size() as usize, maniple_runtime::mpi::library());
    let answer = if size != args.ranks as usize {
        let ranks = plural(args.ranks as usize, "rank");
        Err(format!(
            "expected {ranks}, found {size}; this program has loaded {library}: is the launcher of the same MPI?"
        ))
    } else {
        measure(args, &world, library)
    };
    // All ranks have the same answer, or rank 0 alone knows it.
    if world.rank() != 0 {
        return Ok(());
    }
    let answer = serde_json::to_string(&answer.map_err(Failure::Run)?).map_err(|e| Failure::Run(e.to_string()))?;
    Stdout::lock().write(&format!("{MARK}{answer}\n"))
}

fn measure(args: &RankOptions, world: &Communicator, mpi: String) -> Result<Side, String> {
    match (args.program, args.kind) {
        (Some(Program::Allreduce), _) => Ok(allreduce(args, world, mpi)),
        (Some(Program::Stencil), _) => stencil(args, world, mpi).map_err(|e| e.to_string()),
        (Some(Program::Remote), _) => Ok(remote(args, world, mpi)),
        (Some(Program::Collective(kind)), _) | (None, Some(kind)) => Ok(collective(args, kind, world, mpi)),
        (None, None) => Err("neither a program nor a kind of collective is named".into()),
    }
}

/// MPI's operator under the same name.
fn operation(op: Op) -> Operation {
    match op {
        Op::Sum => Operation::Sum,
        Op::Product => Operation::Product,
        Op::Min => Operation::Min,
        Op::Max => Operation::Max,
    }
}

/// A kind of collective. Only rank 0 learns what all ranks found.
fn collective(args: &RankOptions, kind: Kind, world: &Communicator, mpi: String) -> Side {
    let workload = Workload::usual(kind, args.ranks, args.elements, args.op, args.iterations);
    let found = if kind == Kind::Barrier { passes(&workload, world) } else { calls(&workload, world) };
    let own = words(&found);
    let mut all = vec![0; if world.rank() == 0 { own.len() * world.size() as usize } else { 0 }];
    world.gather(&own, &mut all, 0);
    let found: Vec<Found> = all.chunks_exact(own.len()).map(from_words).collect();
    let (mean, most) = mean_and_most(found.iter().map(|found| found.us(workload.iterations)));
    let failure = (world.rank() == 0).then(|| wrong(&workload.parties, &found)).flatten();
    Side { mpi, failure, collective_us: Some(most), mean_us: Some(mean), ..Side::default() }
}

/// Makes the calls of a rank as `maniple collective` makes the calls of a shard: each begins after a barrier, and its
/// result is compared after another one.
fn calls(workload: &Workload, world: &Communicator) -> Found {
    let (kind, rank) = (workload.parties.kind, world.rank());
    let oracle = Oracle::<f64>::new(&workload.parties, workload.elements, workload.op);
    let contributions = workload.parties.participants.position(rank).map(|position| oracle.contributions(position));
    let right = workload.parties.receivers.position(rank).map(|position| oracle.results(position));
    let mut own = contributions.unwrap_or_default();
    let mut received = vec![0.0; workload.elements * workload.parties.blocks_out() as usize];
    let mut found = Found::default();
    for call in 0..workload.warm_up + workload.iterations {
        let (given, into, with) = (&mut own[call % VARIANTS][..], &mut received[..], operation(workload.op));
        // Who sends a broadcast has the result before.
        let sends = kind == Kind::Broadcast && rank == 0;
        world.barrier();
        let began = Instant::now();
        match kind {
            Kind::Allreduce => world.all_reduce(given, into, with),
            Kind::Reduce => world.reduce(given, into, with, 0),
            Kind::Broadcast => world.broadcast(if sends { &mut *given } else { &mut *into }, 0),
            Kind::Barrier => world.barrier(),
            Kind::Gather => world.gather(given, into, 0),
            Kind::Allgather => world.all_gather(given, into),
            Kind::Scatter => world.scatter(given, into, 0),
            Kind::ReduceScatter => world.reduce_scatter(given, into, with),
            Kind::AllToAll => world.all_to_all(given, into),
            Kind::Scan => world.scan(given, into, with),
            Kind::Exscan => world.exclusive_scan(given, into, with),
        }
        let ns = began.elapsed().as_nanos() as u64;
        if call >= workload.warm_up {
            found.ns += ns;
        }
        world.barrier();
        // MPI leaves undefined what rank 0 receives in an exclusive scan.
        let right = right.as_ref().filter(|_| kind != Kind::Exscan || rank > 0);
        if let (Some(right), None) = (right, found.wrong) {
            let result = if sends { &*given } else { &*into };
            found.wrong = first_difference(result, &right[call % VARIANTS]).map(|element| (call as u64, element));
        }
    }
    found
}

/// The passes of a rank through a barrier.
fn passes(workload: &Workload, world: &Communicator) -> Found {
    let clock = Clock::Host;
    let mut found = Found { clock: clock.number(), ..Found::default() };
    for call in 0..workload.warm_up + workload.iterations {
        let (began, entered) = (Instant::now(), clock.ns());
        world.barrier();
        let (left, ns) = (clock.ns(), began.elapsed().as_nanos() as u64);
        found.passes(workload, call, (entered, left), ns);
    }
    found
}

/// What a rank found as numbers, as many on each rank.
fn words(found: &Found) -> Vec<u64> {
    let (call, element) = found.wrong.unwrap_or_default();
    let wrong = u64::from(found.wrong.is_some());
    let passed = found.passed.iter().flat_map(|&(entered, left)| [entered, left]);
    [found.ns, found.clock, wrong, call, element].into_iter().chain(passed).collect()
}

fn from_words(words: &[u64]) -> Found {
    let passed = words[5..].chunks_exact(2).map(|of| (of[0], of[1])).collect();
    let wrong = (words[2] == 1).then_some((words[3], words[4]));
    Found { ns: words[0], clock: words[1], wrong, passed }
}

fn allreduce(args: &RankOptions, world: &Communicator, mpi: String) -> Side {
    let (iterations, rank) = (args.iterations, world.rank());
    let workload = Workload::usual(Kind::Allreduce, args.ranks, args.elements, args.op, iterations);
    let own = |last| own(args.op, last, rank);
    let (result, us) = world::allreduce(world, operation(args.op), args.elements, workload.warm_up, iterations, own);
    Side { mpi, result: Some(result), collective_us: Some(us), ..Side::default() }
}

fn remote(args: &RankOptions, world: &Communicator, mpi: String) -> Side {
    let (elements, iterations) = (args.elements, args.iterations);
    let change = |iteration, x: &mut [f64]| changes(iteration, elements).for_each(|(at, value)| x[at] = value);
    let sum = |x: &[f64]| {
        let mut lanes = [0.0; 8];
        add(x, &mut lanes);
        lanes.iter().sum()
    };
    let (result, wrong, us) = world::remote(world, elements, (warm_up(iterations), iterations), change, sum);
    let failure = (wrong > 0).then(|| format!("{} wrong", plural(wrong, "sum")));
    Side { mpi, failure, result: Some(result), collective_us: Some(us), ..Side::default() }
}

fn stencil(args: &RankOptions, world: &Communicator, mpi: String) -> Result<Side, StencilError> {
    // The first run makes connections, and is not measured.
    world::stencil(world, args.cells, args.iterations)?;
    let outcome = world::stencil(world, args.cells, args.iterations)?;
    let mode = DominantMode::new(args.ranks as usize * args.cells);
    Ok(Side {
        mpi,
        failure: outcome.last.and_then(|last| verify_mode(&mode, &outcome.roots, &last).failure),
        result: outcome.roots.last().copied(),
        iteration_us: Some(median(outcome.iteration_us)),
        collective_us: Some(median(outcome.collective_us)),
        ..Side::default()
    })
}
