//! `maniple compare mpi`.

use super::launcher::Launcher;
use crate::Failure;
use crate::micro::allreduce::{Op, Spec};
use crate::micro::exchange::yardstick_ns;
use crate::micro::{Common, OnWorkers, at_least_one, check_memory, field, shards};
use crate::output::{Field, Output, Record};
use crate::stencil::failure;
use clap::ValueEnum;
use maniple::prelude::{Algorithm, Runtime};
use maniple_stencil::{Config, DEFAULT_CELLS, Session};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The allreduce and the stencil here and in plain MPI, in turn
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A run is a pair: the MPI reference under mpirun, one rank for each shard, and then the same here. Both start from the \
same values, share the kernel of the stencil, verify their results and are measured at the same points:
  collective  allreduce: the time of all calls divided by their number, after a tenth as many to warm up, on the shard or \
rank that took longest; filling and checking the elements is part of it
              stencil: the median time from the local sum to the total, on shard or rank 0
  iteration   stencil: the median time of an iteration, on shard or rank 0; each side has run once before
Of more shards than workers, both times of the stencil here are of means of two iterations, one after the other.
The reports say:
  result, mpi_result                  what the last call or iteration gave here and with MPI
  verified                            whether each side has what it must have, and both have the same
  iteration_us, mpi_iteration_us      the iteration here and with MPI; the allreduce has none
  collective_us, mpi_collective_us    the collective here and with MPI
  iteration_ratio, collective_ratio   ours divided by MPI's: below 1, ours is faster
  exchange_ns                         the exchange of a cache line between two threads right after the pair, one way: the \
yardstick that `maniple exchange` measures; none with one processor
  mpi                                 the MPI library

Open MPI gets --oversubscribe, since there may be more ranks than cores, and the environment variables that it wants to \
see where it runs as root. With more ranks than cores MPI mostly waits for the kernel's scheduler: such ratios are for \
information.

Exit codes: 0, every run was verified; 1, one was not, or failed; 2, the arguments are at fault, or this maniple was built \
without MPI.")]
pub struct Args {
    /// What is compared
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "allreduce,stencil")]
    program: Vec<Program>,

    /// Shards, and ranks of MPI; several numbers are compared one after the other
    #[arg(long, visible_alias = "ranks", value_name = "P,…", value_delimiter = ',', default_value = "2")]
    #[arg(value_parser = crate::count, allow_negative_numbers = true)]
    shards: Vec<usize>,

    /// Elements of each contribution to the allreduce
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::count, allow_negative_numbers = true)]
    elements: usize,

    /// Cells a shard of the stencil, at least 4
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CELLS, value_parser = crate::count)]
    #[arg(allow_negative_numbers = true)]
    cells: usize,

    /// Calls or iterations a run
    #[arg(long, value_name = "I", default_value_t = 1000, value_parser = crate::count, allow_negative_numbers = true)]
    iterations: usize,

    /// The operator of the allreduce: sum, product, min or max
    #[arg(long, value_name = "NAME", default_value = "sum")]
    op: Op,

    /// The algorithm here: recursive-doubling or two-level; MPI chooses its own
    #[arg(long, value_name = "NAME", default_value_t = Algorithm::RecursiveDoubling)]
    collective: Algorithm,

    /// The launcher of MPI with arguments of its own, as in "mpirun --bind-to none"
    #[arg(long, value_name = "COMMAND", default_value = "mpirun")]
    mpirun: String,

    /// How long a run of MPI may take before it is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = crate::count)]
    #[arg(allow_negative_numbers = true)]
    timeout: usize,

    #[command(flatten)]
    on: OnWorkers,

    #[command(flatten)]
    common: Common,
}

/// The programs that exist on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// Allreduces, each of which depends on the one before
    Allreduce,
    /// The stencil
    Stencil,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Allreduce => "allreduce",
            Program::Stencil => "stencil",
        }
    }
}

/// What stands before the answer of rank 0 on its line, wherever the launcher puts that line.
pub const MARK: &str = "maniple-mpi-answer ";

/// What rank 0 has to say. A figure that is NaN is lost on the way.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The MPI library, with its version.
    pub mpi: String,
    /// What verification found wrong.
    pub failure: Option<String>,
    /// The last result.
    pub result: Option<f64>,
    /// The median time of an iteration, of the stencil.
    pub iteration_us: Option<f64>,
    /// The time of an allreduce.
    pub collective_us: Option<f64>,
}

/// The longest time-out: later points in time may have no representation.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// How far the results of the stencil may be apart, relatively: each is at most 1e-12 from what it must be.
const TOLERANCE: f64 = 2e-12;

const WITHOUT_MPI: &str = "this maniple was built without MPI. With an MPI library and libclang (on Debian, as root: \
    apt-get install openmpi-bin libopenmpi-dev libclang-dev) build it with:
    cargo build --release --features mpi --bin maniple";

/// One side of a pair.
struct Side {
    result: f64,
    failure: Option<String>,
    iteration_us: Option<f64>,
    collective_us: f64,
}

/// One program with one number of shards.
struct Case<'a> {
    args: &'a Args,
    program: Program,
    shards: u32,
    workers: usize,
    runtime: &'a Runtime,
}

/// Measures and reports.
pub fn execute(args: &Args) -> Result<(), Failure> {
    if !cfg!(feature = "mpi") {
        return Err(Failure::Usage(WITHOUT_MPI.into()));
    }
    let repeats = at_least_one("repeat", args.common.repeat)?;
    at_least_one("iterations", args.iterations)?;
    let timeout = Duration::from_secs(at_least_one("timeout", args.timeout)? as u64);
    if timeout > YEAR {
        let (most, found) = (YEAR.as_secs(), args.timeout);
        return Err(Failure::Usage(format!("expected at most {most} seconds (a year) for timeout, found {found}")));
    }
    args.on.workers.only_threads("compare")?;
    let (workers, runtime) = args.on.runtime(1)?;
    let counts = args.shards.iter().map(|&count| ranks(args, count)).collect::<Result<Vec<_>, _>>()?;
    let launcher = Launcher::new(&args.mpirun, timeout)?;
    let mut output = Output::new(args.common.format);
    let mut wrong = Vec::new();
    for &program in &args.program {
        for &shards in &counts {
            let case = Case { args, program, shards, workers, runtime: &runtime };
            case.pairs(&launcher, repeats, &mut output, &mut wrong)?;
        }
    }
    output.finish()?;
    match wrong.first() {
        None => Ok(()),
        Some(first) => {
            let pairs = repeats * counts.len() * args.program.len();
            Err(Failure::Run(format!("{} of {pairs} pairs not verified; {first}", wrong.len())))
        }
    }
}

/// What a rank takes up at least: a process with an MPI library in it.
const RANK_BYTES: u128 = 8 << 20;

/// As many ranks as shards, if MPI can count what they hold and memory can hold it.
fn ranks(args: &Args, count: usize) -> Result<u32, Failure> {
    let ranks = shards(count)?;
    let most = i32::MAX as usize;
    let cells = args.cells.saturating_mul(count);
    match [("elements", args.elements), ("cells in all ranks", cells)].into_iter().find(|&(_, held)| held > most) {
        Some((what, held)) => Err(Failure::Usage(format!("MPI counts up to {most} {what}, found {held}"))),
        None => {
            // The contribution and the result; the vector and its derivative.
            let held = 16 * args.elements.max(args.cells) as u128;
            check_memory("ranks of MPI", count, RANK_BYTES + held)?;
            Ok(ranks)
        }
    }
}

impl Case<'_> {
    fn pairs(
        &self,
        launcher: &Launcher,
        repeats: usize,
        output: &mut Output,
        wrong: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let mut ours = self.ours()?;
        for pair in 0..repeats {
            if output.closed() {
                break;
            }
            let (mpi, theirs) = self.theirs(launcher)?;
            let ours = ours()?;
            let failure = self.failure(&ours, &theirs);
            output.add(self.record(&ours, &theirs, &mpi, failure.is_none()))?;
            wrong.extend(failure.map(|f| format!("{}, {} shards, pair {pair}: {f}", self.program.name(), self.shards)));
        }
        output.end_group()
    }

    /// What measures this side, once a call.
    fn ours(&self) -> Result<Box<dyn FnMut() -> Result<Side, Failure> + '_>, Failure> {
        match self.program {
            Program::Allreduce => {
                let (spec, runtime) = (self.spec(), self.runtime);
                spec.check_memory()?;
                let expected = spec.expected();
                Ok(Box::new(move || {
                    let (results, collective_us) = spec.run(runtime)?;
                    let result = results.iter().copied().find(|r| *r != expected).unwrap_or(expected);
                    Ok(Side { result, failure: differs("here", result, expected), iteration_us: None, collective_us })
                }))
            }
            Program::Stencil => {
                let mut session = Session::prepare(&self.config()?).map_err(failure)?;
                // The first run allocates.
                session.run_once().map_err(failure)?;
                Ok(Box::new(move || {
                    let report = session.run_once().map_err(failure)?;
                    Ok(Side {
                        result: report.result,
                        failure: report.failure.map(|f| format!("here: {f}")),
                        iteration_us: Some(report.iteration_us.median),
                        collective_us: report.collective_us.median,
                    })
                }))
            }
        }
    }

    /// Runs the reference: the MPI library's name, and what it measured.
    fn theirs(&self, launcher: &Launcher) -> Result<(String, Side), Failure> {
        let args = self.args;
        let numbers = [
            ("--ranks", self.shards as usize),
            ("--elements", args.elements),
            ("--cells", args.cells),
            ("--iterations", args.iterations),
        ];
        let mut words: Vec<String> = ["mpi-rank", self.program.name(), "--op", args.op.name()].map(String::from).into();
        words.extend(numbers.into_iter().flat_map(|(name, number)| [name.to_owned(), number.to_string()]));
        let answer: Answer = launcher.run(self.shards, &words, MARK)?;
        let result = answer.result.unwrap_or(f64::NAN);
        let failure = match self.program {
            Program::Allreduce => differs("MPI", result, self.spec().expected()),
            Program::Stencil => answer.failure.map(|f| format!("MPI: {f}")),
        };
        let collective_us = answer.collective_us.unwrap_or(f64::NAN);
        Ok((answer.mpi, Side { result, failure, iteration_us: answer.iteration_us, collective_us }))
    }

    fn spec(&self) -> Spec {
        let Args { elements, iterations, op, collective, .. } = *self.args;
        Spec { shards: self.shards, elements, iterations, op, algorithm: collective }
    }

    fn config(&self) -> Result<Config, Failure> {
        let args = self.args;
        Ok(Config {
            shards: self.shards as usize,
            cells: Some(args.cells),
            iterations: args.iterations,
            // The stencil has every algorithm, under the same name.
            collective: args.collective.name().parse().map_err(|e| Failure::Usage(format!("stencil: {e}")))?,
            workers: self.workers,
            mapper: args.on.mapper.clone(),
            bind: args.on.workers.bind,
            utility: args.on.workers.utility,
            ..Config::default()
        })
    }

    /// What is wrong with a pair, if anything is.
    fn failure(&self, ours: &Side, theirs: &Side) -> Option<String> {
        let apart = || {
            let close = (ours.result - theirs.result).abs() <= TOLERANCE * theirs.result.abs();
            (!close).then(|| format!("found {:?} here and {:?} with MPI", ours.result, theirs.result))
        };
        ours.failure.clone().or_else(|| theirs.failure.clone()).or_else(apart)
    }

    fn record(&self, ours: &Side, theirs: &Side, mpi: &str, verified: bool) -> Record {
        let of = |program, value: usize| if self.program == program { value.into() } else { Field::Absent };
        let op = if self.program == Program::Allreduce { self.args.op.name().into() } else { Field::Absent };
        let absent = |us: Option<f64>| us.map_or(Field::Absent, Field::from);
        let ratio = ours.iteration_us.zip(theirs.iteration_us).map(|(ours, theirs)| ours / theirs);
        vec![
            field("program", self.program.name()),
            field("shards", self.shards),
            field("workers", self.workers),
            field("elements", of(Program::Allreduce, self.args.elements)),
            field("cells", of(Program::Stencil, self.args.cells)),
            field("iterations", self.args.iterations),
            field("op", op),
            field("collective", self.args.collective.name()),
            field("mapper", self.args.on.mapper.name()),
            // A CSV file has no room for a comma.
            field("mpi", &*mpi.replace(',', ";")),
            field("verified", verified),
            field("result", ours.result),
            field("mpi_result", theirs.result),
            field("iteration_us", absent(ours.iteration_us)),
            field("mpi_iteration_us", absent(theirs.iteration_us)),
            field("iteration_ratio", absent(ratio)),
            field("collective_us", ours.collective_us),
            field("mpi_collective_us", theirs.collective_us),
            field("collective_ratio", ours.collective_us / theirs.collective_us),
            field("exchange_ns", yardstick_ns()),
        ]
    }
}

fn differs(side: &str, result: f64, expected: f64) -> Option<String> {
    (result != expected).then(|| format!("{side}: expected {expected:?}, found {result:?}"))
}
