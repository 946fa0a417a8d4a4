//! `maniple compare mpi`.

use super::launcher::Launcher;
use super::sides::{Case, Side};
use crate::Failure;
use crate::collective::kind::{Parties, check_once, kinds};
use crate::collective::values::Op;
use crate::machines::file::{MachineFile, under_mpi};
use crate::machines::reduced::warn_without_costs;
use crate::measure::turns::{Order, Rounds, When};
use crate::measure::yardstick::Yardstick;
use crate::options::help::exit_codes;
use crate::options::numbers::{at_least_one, check_memory, count, shards};
use crate::options::wire::{Loaded, OnWire, Wire};
use crate::options::workers::OnWorkers;
use crate::options::{AllreduceAlgorithm, Cells, Elements, Iterations, ReportedRuns, algorithm};
use crate::output::{Field, Output, Record, expect_verified, field};
use clap::{ArgAction, ValueEnum};
use maniple::collectives::{Algorithm, Kind};
use maniple::runtime::VirtualMachine;
use maniple_stencil::plural;
use std::path::Path;
use std::time::Duration;

/// Compare the stencil and collectives here and in plain MPI, in turns
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
A run is a pair: the MPI reference under mpirun, with one rank for each shard, and then the same program here. Both start from \
the same values, share the stencil's kernel, verify their results, and are measured at the same points:
  collective  allreduce: the mean time of a call, on the shard or rank that took longest, including the time to fill and check \
the elements. A tenth as many calls come before to warm up
              stencil: the median time from the local sum to the total, on shard or rank 0
              remote: the mean time from one sum to the next, on shard or rank 1
              --kind: the mean time of a call, on the shard or rank that took longest. Each call begins after a barrier of all, \
and results are checked after another one. Filling and checking the elements is not included. A tenth as many calls come before to \
warm up
  mean        --kind: the same, the mean over all shards or ranks
  iteration   stencil: the median time of an iteration, on shard or rank 0. Each side has run once before
With more shards than workers, the stencil's samples here are means of two iterations, one after the other.

--kind compares kinds of collectives as `maniple collective` measures them: each result of each call is compared with the result of a \
sequential loop, on every shard and rank. Shard 0 is the root, and blocks have --elements each. These are MPI_Allreduce, \
MPI_Reduce, MPI_Bcast, MPI_Barrier, MPI_Gather, MPI_Allgather, MPI_Scatter, MPI_Reduce_scatter_block, MPI_Alltoall, MPI_Scan and \
MPI_Exscan. --program allreduce is another allreduce, as with `maniple collective --chained`: each call depends on the one before, \
and no barrier is between them.

With --wire processes or --wire mpi this side runs in --processes processes, each time as a program of its own: this one starts \
itself, or the launcher of MPI starts it. MPI always has one rank for each shard. Without --processes, this side has one process for \
each shard.

With --wire virtual this side runs on --machine. The same program by recursive doubling stands for MPI and runs on \
--mpi-machine. For --kind, MPI's side uses the algorithm that the default mapper chooses there. So no MPI and no launcher is needed, and all times are virtual. --nodes is for this side. MPI has as many nodes \
as its machine's file says, or one for each rank.

Columns of the report:
  processes, workers                  of this side: its processes if they are several, and the workers of all of them
  machine, nodes                      in virtual time: the name of --machine, and the number of its nodes
  kind                                of a collective by --kind
  collective                          the algorithm here
  result, mpi_result                  result of the last call or iteration, here and with MPI; empty for --kind
  verified                            whether both results are right, and the same
  iteration_us, mpi_iteration_us      time of an iteration here and with MPI; empty for collectives
  collective_us, mpi_collective_us    time of the collective here and with MPI
  mean_us, mpi_mean_us                --kind: time of the collective as the mean over all shards or ranks
  iteration_ratio, collective_ratio   our time divided by MPI's: below 1, ours is faster. Empty if MPI takes no virtual time
  copied_bytes                        remote: bytes that the runtime has copied for each sum
  cache_line_ns                       the time of a cache line between two threads, one way, right after the \
pair: the yardstick that `maniple cache-line` measures. In virtual time it is a message of 32 bytes on the link of --machine. It is \
empty with one processor
  mpi                                 the MPI library, or the machine in virtual time

Open MPI gets --oversubscribe, since there may be more ranks than cores, and the environment variables that it demands of root. \
With more ranks than cores MPI mostly waits for the kernel's scheduler, so such ratios are for information.

", exit_codes!("the arguments are at fault")))]
#[command(mut_arg("elements", |arg| arg.help("Elements of each contribution to a collective, or of each of its blocks, at least 1 [default: 1]")))]
#[command(mut_arg("iterations", |arg| arg.default_value("1000").help("Calls or iterations of each run")))]
#[command(mut_arg("collective", |arg| {
    arg.help("Algorithm of the allreduce and the stencil here, such as recursive-doubling or direct. MPI chooses its own")
}))]
pub struct CompareMpiOptions {
    /// Programs to compare, with commas between them [default: allreduce,stencil; with --kind none]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', action = ArgAction::Set)]
    program: Vec<Program>,

    /// Kinds of collectives to compare, with commas between them
    #[arg(long, value_name = "KINDS", value_delimiter = ',', action = ArgAction::Set, value_parser = kinds())]
    kind: Vec<Kind>,

    /// Algorithm of --kind here, by its full name, such as chain-8 or bruck [default: the mapper's choice]
    #[arg(long, value_name = "NAME", value_parser = algorithm, requires = "kind")]
    pub algorithm: Option<Algorithm>,

    /// Number of shards, and of ranks of MPI. Several numbers, with commas between them, are compared one after the other
    #[arg(long, visible_alias = "ranks", value_name = "P,…", value_delimiter = ',', default_value = "2")]
    #[arg(value_parser = count, allow_negative_numbers = true, action = ArgAction::Set)]
    shards: Vec<usize>,

    #[command(flatten)]
    pub elements: Elements,

    #[command(flatten)]
    pub cells: Cells,

    #[command(flatten)]
    pub iterations: Iterations,

    /// Operator of collectives
    #[arg(long, value_name = "NAME", default_value = "sum")]
    pub op: Op,

    #[command(flatten)]
    pub collective: AllreduceAlgorithm,

    /// Launcher of MPI, which may have arguments, as in "mpirun --bind-to none" [default: mpirun]
    #[arg(long, value_name = "COMMAND")]
    mpirun: Option<String>,

    /// Seconds after which a run of MPI is ended [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = count, allow_negative_numbers = true)]
    timeout: Option<usize>,

    #[command(flatten)]
    pub mpi: MpiMachine,

    #[command(flatten)]
    pub on: OnWorkers,

    #[command(flatten)]
    runs: ReportedRuns,
}

/// The machine of MPI in virtual time.
#[derive(Debug, clap::Args)]
pub struct MpiMachine {
    /// Machine of MPI in virtual time, with the costs of an MPI library on the same network; names as for --machine [default:
    /// titan-mpi for titan-legion, gpi-fdr-mpi for gpi-fdr, gpi-qdr-mpi for gpi-qdr, and each of these for itself]
    #[arg(long, value_name = "NAME|FILE")]
    mpi_machine: Option<String>,

    #[arg(skip)]
    loaded: Loaded,
}

impl MpiMachine {
    /// The path of the machine's file, if it has one.
    pub fn path(&self) -> Option<&Path> {
        self.mpi_machine.as_deref().and_then(MachineFile::path)
    }

    /// In virtual time, the file of the machine, if it is known.
    pub fn file(&self, on: &OnWire) -> Result<Option<&MachineFile>, Failure> {
        match &self.mpi_machine {
            Some(_) if on.wire() != Wire::Virtual => {
                Err(Failure::Usage("--mpi-machine is for --wire virtual: on threads, MPI runs on this host".into()))
            }
            Some(machine) => self.loaded.file(machine).map(Some),
            None => under_mpi(on.machine_name()).map(|machine| self.loaded.file(machine)).transpose(),
        }
    }

    /// In virtual time, the machine for `ranks` ranks, if it is known.
    pub fn load(&self, on: &OnWire, ranks: usize) -> Result<Option<VirtualMachine>, Failure> {
        self.file(on)?.map(|file| on.build(file, None, ranks)).transpose()
    }

    /// This option as arguments of this program.
    pub fn arguments(&self) -> Vec<String> {
        self.mpi_machine.iter().flat_map(|machine| ["--mpi-machine".to_owned(), machine.clone()]).collect()
    }
}

/// The error where no machine is known that stands for MPI.
pub const SAY_MPI_MACHINE: &str = "give --mpi-machine NAME|FILE: titan-mpi has the network of titan-legion, gpi-fdr-mpi \
    and gpi-qdr-mpi the networks of gpi-fdr and gpi-qdr, and no other machine that comes with the program stands for MPI";

/// The programs that exist on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// Allreduces, each of which depends on the one before
    Allreduce,
    /// The stencil
    Stencil,
    /// Sums of a vector that belongs to another shard, as `maniple remote` makes them. MPI sends and receives the vector
    Remote,
    /// A kind of collective, named by --kind
    #[value(skip)]
    Collective(Kind),
}

impl Program {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Program::Allreduce => "allreduce",
            Program::Stencil => "stencil",
            Program::Remote => "remote",
            Program::Collective(_) => "collective",
        }
    }

    /// Whether contributions have elements, or blocks have.
    fn has_elements(self) -> bool {
        !matches!(self, Program::Stencil | Program::Collective(Kind::Barrier))
    }

    /// The kind, if it is a collective by `--kind`.
    pub fn kind(self) -> Option<Kind> {
        match self {
            Program::Collective(kind) => Some(kind),
            _ => None,
        }
    }
}

/// The longest time-out. Later points in time may have no representation.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The largest relative difference between the results of the stencil. Each has a relative error of at most 1e-12.
const TOLERANCE: f64 = 2e-12;

/// Measures and reports.
pub fn execute(args: &CompareMpiOptions) -> Result<(), Failure> {
    let repeats = args.runs.repeats(args.in_virtual_time())?;
    args.iterations.number()?;
    args.elements.number()?;
    check_once(&args.kind)?;
    let programs = args.programs();
    if args.elements.elements.is_some()
        && args.kind.contains(&Kind::Barrier)
        && !programs.iter().any(|program| program.has_elements())
    {
        return Err(Failure::Usage("--elements is not for barrier: it has no elements".into()));
    }
    check_wire(args)?;
    if programs.contains(&Program::Remote) && args.shards != [2] {
        return Err(Failure::Usage(
            "--program remote is for --shards 2: one changes the vector, the other sums it".into(),
        ));
    }
    let files = args.on.workers.wire.files().reads("--mpi-machine", args.mpi.path());
    files.mapper(&args.on.mapper)?.check()?;
    let counts = args.shards.iter().map(|&count| ranks(args, count)).collect::<Result<Vec<_>, _>>()?;
    let mut cases = Vec::new();
    for program in programs {
        for &shards in &counts {
            cases.push(Case::new(args, program, shards)?);
        }
    }
    cases.first().and_then(Case::machine).into_iter().for_each(warn_without_costs);
    let mut output = Output::new(args.runs.reported.format);
    let mut wrong = Vec::new();
    for case in &cases {
        case.pairs(repeats, &mut output, &mut wrong)?;
    }
    output.finish()?;
    expect_verified(repeats * cases.len(), "pair", &wrong)
}

/// Checks that the options are for this wire.
fn check_wire(args: &CompareMpiOptions) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::Usage(why.into()));
    let wire = &args.on.workers.wire;
    let mpi = args.mpi.load(wire, 1)?;
    wire.to_start(1)?;
    if args.in_virtual_time() {
        wire.file()?;
        return match (&args.mpirun, args.timeout) {
            (None, None) if mpi.is_some() => Ok(()),
            (None, None) => refuse(SAY_MPI_MACHINE),
            _ => refuse("--mpirun and --timeout are for --wire threads: in virtual time MPI has no launcher"),
        };
    }
    if !cfg!(target_os = "linux") {
        return refuse("MPI is for Linux; --wire virtual compares anywhere");
    }
    args.timeout().map(|_| ())
}

impl CompareMpiOptions {
    /// What is compared.
    fn programs(&self) -> Vec<Program> {
        let named = match (&self.program[..], &self.kind[..]) {
            ([], []) => &[Program::Allreduce, Program::Stencil],
            (named, _) => named,
        };
        named.iter().copied().chain(self.kind.iter().copied().map(Program::Collective)).collect()
    }

    fn in_virtual_time(&self) -> bool {
        self.on.workers.wire.wire() == Wire::Virtual
    }

    /// The time-out of a run of MPI.
    pub fn timeout(&self) -> Result<Duration, Failure> {
        let seconds = at_least_one("timeout", self.timeout.unwrap_or(300))?;
        match Duration::from_secs(seconds as u64) {
            timeout if timeout <= YEAR => Ok(timeout),
            _ => {
                let most = YEAR.as_secs();
                Err(Failure::Usage(format!("--timeout: expected at most {most} seconds (a year), found {seconds}")))
            }
        }
    }

    /// The launcher of this host's MPI.
    pub fn launcher(&self) -> Result<Launcher, Failure> {
        Launcher::new(self.mpirun.as_deref().unwrap_or("mpirun"), self.timeout()?)
    }
}

/// The bytes that a rank takes up at least: a process with an MPI library.
const RANK_BYTES: u128 = 8 << 20;

/// As many ranks as shards. Checks that MPI can count their elements, and that memory can hold them.
fn ranks(args: &CompareMpiOptions, count: usize) -> Result<u32, Failure> {
    let ranks = shards(count)?;
    if args.in_virtual_time() {
        return Ok(ranks);
    }
    let most = i32::MAX as usize;
    let cells = args.cells.cells.saturating_mul(count);
    let elements = args.elements.count();
    // A kind and its vectors on a rank: three contributions, and the results in each of their variants.
    let vectors = |kind| {
        let parties = Parties::usual(kind, ranks);
        let common = if matches!(kind, Kind::Scan | Kind::Exscan) { ranks + 1 } else { 1 };
        let [given, received] = [parties.blocks_in(), parties.blocks_out()].map(u128::from);
        (given.max(received) as usize, 3 * given + received + 3 * received * u128::from(common))
    };
    let blocks = args.kind.iter().map(|&kind| vectors(kind).0).max().unwrap_or(1);
    let vectors = args.kind.iter().map(|&kind| vectors(kind).1).max().unwrap_or(2);
    let in_blocks = elements.saturating_mul(blocks);
    match [("elements", elements), ("elements in all blocks", in_blocks), ("cells in all ranks", cells)]
        .into_iter()
        .find(|&(_, held)| held > most)
    {
        Some((what, held)) => Err(Failure::Usage(format!("MPI counts up to {most} {what}, found {held}"))),
        None => {
            // The contribution and the result; the vector and its derivative.
            let held = (16 * args.cells.cells as u128).max(8 * vectors.max(2) * elements as u128);
            check_memory(&format!("{} of MPI", plural(count, "rank")), count, RANK_BYTES + held)?;
            Ok(ranks)
        }
    }
}

impl Case<'_> {
    /// The name of the program in errors.
    fn name(&self) -> &'static str {
        self.program.kind().map_or(self.program.name(), Kind::name)
    }

    fn pairs(&self, repeats: usize, output: &mut Output, wrong: &mut Vec<String>) -> Result<(), Failure> {
        // A missing launcher is found before anything is measured.
        let (mut theirs, mut ours) = (self.theirs()?, self.ours()?);
        // Both sides of a pair have their turn together, MPI first.
        let mut pairs = Rounds::new(Order::Same).beside(When::AfterTurn, Yardstick::of(self.machine())?);
        for _ in 0..repeats {
            let turn = pairs.single(|| Ok((theirs()?, ours()?)))?;
            let (theirs, ours) = turn.found;
            let failure = self.failure(&ours, &theirs);
            output.add(self.record(&ours, &theirs, failure.is_none(), turn.cache_line_ns))?;
            let (program, shards, pair) = (self.name(), self.shards, turn.round);
            let shards = plural(shards as usize, "shard");
            wrong.extend(failure.map(|f| format!("{program}, {shards}, pair {pair}: {f}")));
        }
        output.end_group()
    }

    /// The first thing that is wrong with a pair, if anything is.
    fn failure(&self, ours: &Side, theirs: &Side) -> Option<String> {
        let apart = || {
            let (ours, theirs) = ours.result.zip(theirs.result)?;
            let close = (ours - theirs).abs() <= TOLERANCE * theirs.abs();
            (!close).then(|| format!("found {ours:?} here and {theirs:?} with MPI"))
        };
        ours.failure.clone().or_else(|| theirs.failure.clone()).or_else(apart)
    }

    fn record(&self, ours: &Side, theirs: &Side, verified: bool, cache_line_ns: f64) -> Record {
        let elements = self.args.elements.count();
        let of = |program, value: usize| if self.program == program { value.into() } else { Field::Absent };
        let kind = self.program.kind();
        let combines = match kind {
            Some(kind) => Parties::usual(kind, self.shards).combines(),
            None => self.program == Program::Allreduce,
        };
        let has_elements = self.program.has_elements();
        let algorithm = match kind {
            Some(_) => ours.algorithm.clone(),
            None => Some(self.args.collective.collective.to_string()),
        };
        // In virtual time MPI may take no time.
        let ratio = |(ours, theirs): (f64, f64)| if theirs == 0.0 { f64::NAN } else { ours / theirs };
        vec![
            field("program", self.program.name()),
            field("kind", kind.map(Kind::name)),
            field("wire", self.args.on.workers.wire.name()),
            field("machine", self.machine().map(|m| &*m.name)),
            field("nodes", self.machine().map(|m| m.nodes)),
            field("shards", self.shards),
            field("processes", self.processes),
            field("workers", ours.workers.unwrap_or(self.workers)),
            field("elements", has_elements.then_some(elements)),
            field("cells", of(Program::Stencil, self.args.cells.cells)),
            field("iterations", self.args.iterations.iterations),
            field("op", combines.then(|| self.args.op.name())),
            field("collective", algorithm.as_deref()),
            field("mapper", self.args.on.mapper.name()),
            // A comma would end the field of a CSV file.
            field("mpi", theirs.mpi.replace(',', ";")),
            field("verified", verified),
            field("result", ours.result),
            field("mpi_result", theirs.result),
            field("iteration_us", ours.iteration_us),
            field("mpi_iteration_us", theirs.iteration_us),
            field("iteration_ratio", ours.iteration_us.zip(theirs.iteration_us).map(ratio)),
            field("collective_us", ours.collective_us),
            field("mpi_collective_us", theirs.collective_us),
            field("mean_us", ours.mean_us),
            field("mpi_mean_us", theirs.mean_us),
            field("copied_bytes", ours.copied_bytes),
            field("collective_ratio", ours.collective_us.zip(theirs.collective_us).map(ratio)),
            field("cache_line_ns", cache_line_ns),
        ]
    }
}
