//! `maniple compare mpi`.

use super::launcher::Launcher;
use super::sides::{Case, Side};
use crate::Failure;
use crate::machines::file::MachineFile;
use crate::measure::turns::{Order, Rounds, When};
use crate::measure::yardstick::Yardstick;
use crate::micro::allreduce::{CombinedBy, Elements};
use crate::options::help::exit_codes;
use crate::options::numbers::{at_least_one, check_memory, count, shards};
use crate::options::wire::{Loaded, OnWire};
use crate::options::workers::OnWorkers;
use crate::options::{AllreduceAlgorithm, Cells, Iterations, ReportedRuns};
use crate::output::{Field, Output, Record, field};
use clap::{ArgAction, ValueEnum};
use maniple::runtime::VirtualMachine;
use std::path::Path;
use std::time::Duration;

/// The allreduce and the stencil here and in plain MPI, in turn
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
A run is a pair: the MPI reference under mpirun, one rank for each shard, and then the same here. Both start from the \
same values, share the kernel of the stencil, verify their results and are measured at the same points:
  collective  allreduce: the time of all calls divided by their number, after a tenth as many to warm up, on the shard or \
rank that took longest; filling and checking the elements is part of it
              stencil: the median time from the local sum to the total, on shard or rank 0
  iteration   stencil: the median time of an iteration, on shard or rank 0; each side has run once before
Of more shards than workers, both times of the stencil here are of means of two iterations, one after the other.

With --wire virtual this side is on --machine and MPI's on --mpi-machine, on which the same program runs by recursive \
doubling: no MPI and no launcher is needed, and all times are of virtual time. --nodes says how many nodes this side has; \
MPI has as many as its machine's file says, or one a rank.

The reports say:
  machine, nodes                      in virtual time: --machine's name, and its nodes
  result, mpi_result                  what the last call or iteration gave here and with MPI
  verified                            whether each side has what it must have, and both have the same
  iteration_us, mpi_iteration_us      the iteration here and with MPI; the allreduce has none
  collective_us, mpi_collective_us    the collective here and with MPI
  iteration_ratio, collective_ratio   ours divided by MPI's: below 1, ours is faster; none where MPI takes no \
virtual time
  exchange_ns                         the exchange of a cache line between two threads right after the pair, one way: the \
yardstick that `maniple exchange` measures; in virtual time a message of 32 bytes on the link of --machine; none with one \
processor
  mpi                                 the MPI library, or the machine in virtual time

Open MPI gets --oversubscribe, since there may be more ranks than cores, and the environment variables that it wants to \
see where it runs as root. With more ranks than cores MPI mostly waits for the kernel's scheduler: such ratios are for \
information.

", exit_codes!("the arguments are at fault, or this maniple was built without MPI")))]
#[command(mut_arg("elements", |arg| arg.help("Elements of each contribution to the allreduce")))]
#[command(mut_arg("iterations", |arg| arg.default_value("1000").help("Calls or iterations a run")))]
#[command(mut_arg("op", |arg| arg.help("The operator of the allreduce: sum, product, min or max")))]
#[command(mut_arg("collective", |arg| {
    arg.help("The algorithm here: recursive-doubling or two-level; MPI chooses its own")
}))]
pub struct CompareMpiOptions {
    /// What is compared
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "allreduce,stencil", action = ArgAction::Set)]
    program: Vec<Program>,

    /// Shards, and ranks of MPI; several numbers are compared one after the other
    #[arg(long, visible_alias = "ranks", value_name = "P,…", value_delimiter = ',', default_value = "2")]
    #[arg(value_parser = count, allow_negative_numbers = true, action = ArgAction::Set)]
    shards: Vec<usize>,

    #[command(flatten)]
    pub elements: Elements,

    #[command(flatten)]
    pub cells: Cells,

    #[command(flatten)]
    pub iterations: Iterations,

    #[command(flatten)]
    pub op: CombinedBy,

    #[command(flatten)]
    pub collective: AllreduceAlgorithm,

    /// The launcher of MPI with arguments of its own, as in "mpirun --bind-to none" [default: mpirun]
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,

    /// How long a run of MPI may take before it is ended [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = count, allow_negative_numbers = true)]
    timeout: Option<usize>,

    #[command(flatten)]
    pub mpi: MpiMachine,

    #[command(flatten)]
    pub on: OnWorkers,

    #[command(flatten)]
    runs: ReportedRuns,
}

/// What MPI runs on in virtual time.
#[derive(Debug, clap::Args)]
pub struct MpiMachine {
    /// The machine of MPI in virtual time, as for --machine: costs of an MPI library on the same network [default: titan-mpi,
    /// where --machine is titan-legion]
    #[arg(long, value_name = "NAME|FILE")]
    mpi_machine: Option<String>,

    #[arg(skip)]
    loaded: Loaded,
}

impl MpiMachine {
    /// The path of its file, if it has one.
    pub fn path(&self) -> Option<&Path> {
        self.mpi_machine.as_deref().and_then(MachineFile::path)
    }

    /// The file of the machine, if there is to be one and it is known.
    pub fn file(&self, on: &OnWire) -> Result<Option<&MachineFile>, Failure> {
        let on_titan = ["titan-legion", "titan-mpi"].contains(&on.machine_name());
        match &self.mpi_machine {
            Some(_) if !on.in_virtual_time()? => {
                Err(Failure::Usage("--mpi-machine is for --wire virtual: on threads, MPI is on this host".into()))
            }
            Some(machine) => self.loaded.file(machine).map(Some),
            None if on_titan => self.loaded.file("titan-mpi").map(Some),
            None => Ok(None),
        }
    }

    /// The machine, if there is to be one and it is known, for so many ranks.
    pub fn load(&self, on: &OnWire, ranks: usize) -> Result<Option<VirtualMachine>, Failure> {
        self.file(on)?.map(|file| on.build(file, None, ranks)).transpose()
    }

    /// This as arguments of this program.
    pub fn arguments(&self) -> Vec<String> {
        self.mpi_machine.iter().flat_map(|machine| ["--mpi-machine".to_owned(), machine.clone()]).collect()
    }
}

/// What to do where no machine is known that stands for MPI.
pub const SAY_MPI_MACHINE: &str = "say --mpi-machine NAME|FILE: titan-mpi has the network of titan-legion, and no machine that \
    comes with the program has an MPI on another one";

/// The programs that exist on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// Allreduces, each of which depends on the one before
    Allreduce,
    /// The stencil
    Stencil,
}

impl Program {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Program::Allreduce => "allreduce",
            Program::Stencil => "stencil",
        }
    }
}

/// The longest time-out: later points in time may have no representation.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// How far the results of the stencil may be apart, relatively: each is at most 1e-12 from what it must be.
const TOLERANCE: f64 = 2e-12;

const WITHOUT_MPI: &str = "this maniple was built without MPI. With an MPI library and libclang (on Debian, as root: \
    apt-get install openmpi-bin libopenmpi-dev libclang-dev) build it with:
    cargo build --release --features mpi --bin maniple";

/// Measures and reports.
pub fn execute(args: &CompareMpiOptions) -> Result<(), Failure> {
    let repeats = args.runs.repeats(args.on.workers.wire.in_virtual_time()?)?;
    args.iterations.number()?;
    check_wire(args)?;
    let files = args.on.workers.wire.files().reads("--mpi-machine", args.mpi.path());
    files.mapper(&args.on.mapper)?.check()?;
    let counts = args.shards.iter().map(|&count| ranks(args, count)).collect::<Result<Vec<_>, _>>()?;
    let mut cases = Vec::new();
    for &program in &args.program {
        for &shards in &counts {
            cases.push(Case::new(args, program, shards)?);
        }
    }
    let mut output = Output::new(args.runs.reported.format);
    let mut wrong = Vec::new();
    for case in &cases {
        case.pairs(repeats, &mut output, &mut wrong)?;
    }
    output.finish()?;
    match wrong.first() {
        None => Ok(()),
        Some(first) => {
            let pairs = repeats * cases.len();
            Err(Failure::Run(format!("{} of {pairs} pairs not verified; {first}", wrong.len())))
        }
    }
}

/// Refuses what is not for this wire, and this host's MPI in a build without it.
fn check_wire(args: &CompareMpiOptions) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::Usage(why.into()));
    let wire = &args.on.workers.wire;
    let mpi = args.mpi.load(wire, 1)?;
    if wire.in_virtual_time()? {
        wire.file()?;
        return match (&args.mpirun, args.timeout) {
            (None, None) if mpi.is_some() => Ok(()),
            (None, None) => refuse(SAY_MPI_MACHINE),
            _ => refuse("--mpirun and --timeout are for --wire threads: in virtual time MPI has no launcher"),
        };
    }
    if !cfg!(feature = "mpi") {
        return refuse(WITHOUT_MPI);
    }
    args.timeout().map(|_| ())
}

impl CompareMpiOptions {
    /// How long a run of MPI may take.
    fn timeout(&self) -> Result<Duration, Failure> {
        let seconds = at_least_one("timeout", self.timeout.unwrap_or(300))?;
        match Duration::from_secs(seconds as u64) {
            timeout if timeout <= YEAR => Ok(timeout),
            _ => {
                let most = YEAR.as_secs();
                Err(Failure::Usage(format!("expected at most {most} seconds (a year) for timeout, found {seconds}")))
            }
        }
    }

    /// The launcher of this host's MPI.
    pub fn launcher(&self) -> Result<Launcher, Failure> {
        Launcher::new(self.mpirun.as_deref().unwrap_or("mpirun"), self.timeout()?)
    }
}

/// What a rank takes up at least: a process with an MPI library in it.
const RANK_BYTES: u128 = 8 << 20;

/// As many ranks as shards, if MPI can count what they hold and memory can hold it.
fn ranks(args: &CompareMpiOptions, count: usize) -> Result<u32, Failure> {
    let ranks = shards(count)?;
    if args.on.workers.wire.in_virtual_time()? {
        return Ok(ranks);
    }
    let most = i32::MAX as usize;
    let cells = args.cells.cells.saturating_mul(count);
    match [("elements", args.elements.elements), ("cells in all ranks", cells)]
        .into_iter()
        .find(|&(_, held)| held > most)
    {
        Some((what, held)) => Err(Failure::Usage(format!("MPI counts up to {most} {what}, found {held}"))),
        None => {
            // The contribution and the result; the vector and its derivative.
            let held = 16 * args.elements.elements.max(args.cells.cells) as u128;
            check_memory("ranks of MPI", count, RANK_BYTES + held)?;
            Ok(ranks)
        }
    }
}

impl Case<'_> {
    fn pairs(&self, repeats: usize, output: &mut Output, wrong: &mut Vec<String>) -> Result<(), Failure> {
        // A launcher that is not there shows before anything is measured.
        let (mut theirs, mut ours) = (self.theirs()?, self.ours()?);
        // Both sides of a pair have their turn together, MPI first.
        let mut pairs = Rounds::new(Order::Same).beside(When::AfterTurn, Yardstick::of(self.machine())?);
        for _ in 0..repeats {
            let turn = pairs.single(|| Ok((theirs()?, ours()?)))?;
            let ((mpi, theirs), ours) = turn.found;
            let failure = self.failure(&ours, &theirs);
            output.add(self.record(&ours, &theirs, &mpi, failure.is_none(), turn.exchange_ns))?;
            let (program, shards, pair) = (self.program.name(), self.shards, turn.round);
            wrong.extend(failure.map(|f| format!("{program}, {shards} shards, pair {pair}: {f}")));
        }
        output.end_group()
    }

    /// What is wrong with a pair, if anything is.
    fn failure(&self, ours: &Side, theirs: &Side) -> Option<String> {
        let apart = || {
            let close = (ours.result - theirs.result).abs() <= TOLERANCE * theirs.result.abs();
            (!close).then(|| format!("found {:?} here and {:?} with MPI", ours.result, theirs.result))
        };
        ours.failure.clone().or_else(|| theirs.failure.clone()).or_else(apart)
    }

    fn record(&self, ours: &Side, theirs: &Side, mpi: &str, verified: bool, exchange_ns: f64) -> Record {
        let of = |program, value: usize| if self.program == program { value.into() } else { Field::Absent };
        let op = if self.program == Program::Allreduce { self.args.op.op.name().into() } else { Field::Absent };
        let absent = |us: Option<f64>| us.map_or(Field::Absent, Field::from);
        // In virtual time MPI may take none at all.
        let ratio = |(ours, theirs): (f64, f64)| if theirs == 0.0 { f64::NAN } else { ours / theirs };
        vec![
            field("program", self.program.name()),
            field("machine", self.machine().map(|m| &*m.name)),
            field("nodes", self.machine().map(|m| m.nodes)),
            field("shards", self.shards),
            field("workers", self.workers),
            field("elements", of(Program::Allreduce, self.args.elements.elements)),
            field("cells", of(Program::Stencil, self.args.cells.cells)),
            field("iterations", self.args.iterations.iterations),
            field("op", op),
            field("collective", self.args.collective.collective.name()),
            field("mapper", self.args.on.mapper.name()),
            // A CSV file has no room for a comma.
            field("mpi", &*mpi.replace(',', ";")),
            field("verified", verified),
            field("result", ours.result),
            field("mpi_result", theirs.result),
            field("iteration_us", absent(ours.iteration_us)),
            field("mpi_iteration_us", absent(theirs.iteration_us)),
            field("iteration_ratio", absent(ours.iteration_us.zip(theirs.iteration_us).map(ratio))),
            field("collective_us", ours.collective_us),
            field("mpi_collective_us", theirs.collective_us),
            field("collective_ratio", ratio((ours.collective_us, theirs.collective_us))),
            field("exchange_ns", exchange_ns),
        ]
    }
}
