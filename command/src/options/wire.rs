//! The wire of a run: threads of this process, several processes, or a machine in virtual time.

use super::numbers::{at_least_one, count, number, one_to, seed};
use crate::Failure;
use crate::files::Files;
use crate::machines::file::{MachineFile, STDIN};
use clap::ValueEnum;
use maniple::runtime::{Runtime, VirtualMachine};
use std::cell::OnceCell;
use std::collections::HashMap;

/// The wire of a run: it carries the messages and drives the processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Wire {
    /// Workers are threads of this process
    Threads,
    /// Workers are threads of several processes of this host, which the first one starts
    Processes,
    /// Workers are threads of the processes that a launcher of MPI has started
    Mpi,
    /// Processors, network and time are simulated. Each run gives the same times
    Virtual,
}

/// The processes of a run on several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processes {
    /// How many there are.
    pub number: usize,
    /// How many there are on the host that has most of them.
    pub on_host: usize,
    /// Whether a launcher of MPI has started them. Else the first one starts the others, on this host.
    pub launched: bool,
    /// Who sees to the messages between hosts.
    pub progress: maniple::runtime::Progress,
}

impl Processes {
    /// The name of the wire.
    pub fn wire(&self) -> &'static str {
        if self.launched { "mpi" } else { "processes" }
    }

    /// A runtime on them, with `workers` workers in each.
    pub fn runtime(&self, workers: u32) -> Runtime {
        let number = u32::try_from(self.number).unwrap_or(u32::MAX);
        let runtime = if self.launched { Runtime::mpi() } else { Runtime::processes(number) };
        runtime.workers(workers).progress(self.progress)
    }
}

/// A number of processes, for messages.
pub fn processes(count: usize) -> String {
    if count == 1 { "1 process".into() } else { format!("{count} processes") }
}

/// Checks the number of processes, of which the first one starts the others.
pub fn started(processes: usize) -> Result<usize, Failure> {
    one_to(Runtime::MOST_PROCESSES as usize, "processes", processes)
}

/// Who drives MPI between hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Progress {
    /// The workers: whoever is idle, and the others between two tasks
    Poll,
    /// An extra thread in each process
    Dedicated,
}

/// The wire of commands that have only one.
#[derive(Debug, clap::Args)]
pub struct InVirtualTime {
    /// Wire
    #[arg(long = "wire", value_name = "WIRE", default_value = "virtual")]
    _wire: VirtualWire,
}

/// The only wire of those commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum VirtualWire {
    /// A simulated machine, in virtual time
    Virtual,
}

/// The wire of programs drawn from seeds, if all have the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ExploredWire {
    /// Workers are threads of several processes of this host, which the first one starts. Links between them are slow now and
    /// then
    Processes,
    /// A simulated machine, in virtual time
    Virtual,
}

/// The machine in virtual time.
#[derive(Debug, Clone, clap::Args)]
pub struct NamedMachine {
    /// Machine in virtual time, by name or as a file that ends in .toml. Names: ideal (nothing takes any time), local (the
    /// development machine), infiniband, slingshot and ethernet (nodes like local with a network), titan-legion and titan-mpi
    /// (the founding paper's platform), gpi-fdr, gpi-fdr-mpi, gpi-qdr and gpi-qdr-mpi (clusters of 2015 under GPI-2 and under
    /// MPI), aspen-gigabit (a cluster of 2008 under Aspen) [default: ideal]
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
}

impl NamedMachine {
    /// The machine, if one is named. One node of it has to be a machine that programs can run on.
    pub fn load_host(&self) -> Result<Option<MachineFile>, Failure> {
        self.machine.as_deref().map(MachineFile::load_host).transpose()
    }
}

/// Options of commands that run programs, on this host or on a machine in virtual time.
#[derive(Debug, Clone, clap::Args)]
pub struct OnWire {
    /// What carries messages between workers [default: mpi under an MPI launcher with several processes, otherwise threads]
    #[arg(long, value_name = "WIRE")]
    wire: Option<Wire>,

    /// Number of processes, with --wire processes; --workers is the number in each [default: 2]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    processes: Option<usize>,

    /// Who drives MPI between hosts, with --wire mpi [default: poll]
    #[arg(long, value_name = "WHO")]
    progress: Option<Progress>,

    #[command(flatten)]
    named: NamedMachine,

    /// Nodes of the machine in virtual time [default: as many as its file says, or one for each shard]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    nodes: Option<usize>,

    /// Noise in virtual time: each latency and each leaf task takes longer by a random part of it, up to this one (0.1 for
    /// up to 10 % longer) [default: 0]
    #[arg(long, value_name = "PART", value_parser = number, allow_negative_numbers = true)]
    noise: Option<f64>,

    /// Seed of the noise [default: 0]
    #[arg(long, value_name = "SEED", requires = "noise", value_parser = seed, allow_negative_numbers = true)]
    noise_seed: Option<u64>,

    #[arg(skip)]
    loaded: Loaded,
}

/// That a launcher has started several processes, and the ways out for a command that does not run on them.
pub fn launcher() -> Option<(String, String)> {
    let (size, variables) = (Runtime::launched()?, Runtime::launcher_variables()?);
    let started = format!("a launcher has started {size} processes of this command");
    let alone = "If there is no launcher, as in an interactive SLURM shell, or each process is to run alone";
    let once = format!("start the command once, without the launcher. {alone}, unset these variables: {variables}");
    Some((started, once))
}

/// The file of a machine. It is read once, since it may be stdin, or may change.
#[derive(Debug, Clone, Default)]
pub struct Loaded(OnceCell<MachineFile>);

impl Loaded {
    /// The file of this machine, as it was when it was first read.
    pub fn file(&self, machine: &str) -> Result<&MachineFile, Failure> {
        if let Some(file) = self.0.get() {
            return Ok(file);
        }
        let file = MachineFile::load(machine)?;
        Ok(self.0.get_or_init(|| file))
    }
}

impl OnWire {
    /// The wire.
    pub fn wire(&self) -> Wire {
        self.wire.unwrap_or(if Runtime::launched().is_some() { Wire::Mpi } else { Wire::Threads })
    }

    /// Refuses options that are for another wire.
    fn check(&self) -> Result<(), Failure> {
        if self.wire() != Wire::Processes && self.processes.is_some() {
            return Err(Failure::Usage("--processes is for --wire processes".into()));
        }
        self.check_wire()
    }

    fn check_wire(&self) -> Result<(), Failure> {
        let wire = self.wire();
        if wire != Wire::Virtual && (self.named.machine.is_some() || self.nodes.is_some() || self.noise.is_some()) {
            return Err(Failure::Usage("--machine, --nodes and --noise are for --wire virtual".into()));
        }
        if let (Wire::Processes | Wire::Threads | Wire::Virtual, Some((started, once))) = (wire, launcher()) {
            let refused = format!("--wire {} is refused: {started}", self.name());
            return Err(Failure::Usage(format!("{refused}. Use --wire mpi, or {once}")));
        }
        if wire != Wire::Mpi && self.progress.is_some() {
            return Err(Failure::Usage("--progress is for --wire mpi".into()));
        }
        Ok(())
    }

    /// The processes of a run that a command starts as a program of its own, if that is on several. For `--wire mpi` the
    /// command is its launcher.
    ///
    /// # Errors
    /// Options of another wire.
    pub fn to_start(&self, default: usize) -> Result<Option<usize>, Failure> {
        match self.wire() {
            Wire::Threads | Wire::Virtual => self.check().map(|()| None),
            Wire::Processes => self.check_wire().and_then(|()| started(self.processes.unwrap_or(default))).map(Some),
            Wire::Mpi => {
                self.check_wire()?;
                at_least_one("processes", self.processes.unwrap_or(default)).map(Some)
            }
        }
    }

    /// The arguments of such a run on `processes` processes.
    pub fn to_start_arguments(&self, processes: usize) -> Vec<String> {
        let processes = (self.wire() == Wire::Processes).then_some(processes);
        Self { processes, ..self.clone() }.arguments()
    }

    /// Whether runs are in virtual time, for commands that can't use several processes.
    ///
    /// # Errors
    /// Options of another wire, and several processes.
    pub fn in_virtual_time(&self) -> Result<bool, Failure> {
        self.check()?;
        match self.wire() {
            Wire::Processes | Wire::Mpi => {
                let more =
                    if self.wire() == Wire::Processes { ", compare mpi and explore" } else { " and compare mpi" };
                let commands = "stencil, weak-scaling, collective, barrier, gang, tasks, remote, machine";
                Err(Failure::Usage(format!("--wire {} is for the commands {commands}{more}", self.name())))
            }
            Wire::Threads => Ok(false),
            Wire::Virtual => Ok(true),
        }
    }

    /// The processes of the run, if it is on several, with their default number of workers; collective for processes of MPI.
    ///
    /// # Errors
    /// Options of another wire. Processes that can't meet.
    pub fn processes(&self) -> Result<Option<(Processes, usize)>, Failure> {
        self.check()?;
        match self.wire() {
            Wire::Threads | Wire::Virtual => Ok(None),
            Wire::Processes => {
                let number = started(self.processes.unwrap_or(2))?;
                let share = (super::workers::workers_of_host() / number).max(1);
                Ok(Some((Processes { number, on_host: number, launched: false, progress: Default::default() }, share)))
            }
            Wire::Mpi => {
                let met = Runtime::mpi().meet().map_err(|e| Failure::Usage(e.to_string()))?;
                let progress = match self.progress {
                    Some(Progress::Dedicated) => maniple::runtime::Progress::Dedicated,
                    Some(Progress::Poll) | None => maniple::runtime::Progress::Poll,
                };
                let mut of_host = HashMap::new();
                met.first_of.iter().for_each(|first| *of_host.entry(first).or_insert(0) += 1);
                let (number, on_host) = (met.hosts.len(), of_host.into_values().max().unwrap_or(1));
                let processes = Processes { number, on_host, launched: true, progress };
                Ok(Some((processes, met.workers as usize)))
            }
        }
    }

    /// In virtual time, the machine for a run of `shards` shards.
    pub fn machine(&self, shards: usize) -> Result<Option<VirtualMachine>, Failure> {
        Ok(if self.in_virtual_time()? { Some(self.build(self.file()?, self.nodes, shards)?) } else { None })
    }

    /// The name of the machine on the command line.
    pub fn machine_name(&self) -> &str {
        self.named.machine.as_deref().unwrap_or("ideal")
    }

    /// The file of the machine in virtual time.
    pub fn file(&self) -> Result<&MachineFile, Failure> {
        self.loaded.file(self.machine_name())
    }

    /// The machine that a file describes, for a run of `shards` shards, with the noise of these options.
    pub fn build(&self, file: &MachineFile, nodes: Option<usize>, shards: usize) -> Result<VirtualMachine, Failure> {
        let number = |what: &str, n: usize| {
            let most = u32::MAX;
            u32::try_from(n).map_err(|_| Failure::Usage(format!("expected at most {most} {what}, found {n}")))
        };
        let nodes = nodes.map(|n| number("nodes", at_least_one("nodes", n)?)).transpose()?;
        let shards = number("shards", at_least_one("shards", shards)?)?;
        let machine = VirtualMachine {
            noise: self.noise.unwrap_or(0.0),
            seed: self.noise_seed.unwrap_or(0),
            ..file.machine(nodes, shards)
        };
        machine.check().map_err(|e| Failure::Usage(e.to_string()))?;
        Ok(machine)
    }

    /// The same options with `nodes` nodes.
    pub fn with_nodes(&self, nodes: u32) -> Self {
        Self { nodes: Some(nodes as usize), ..self.clone() }
    }

    /// The number of nodes that the user gave.
    pub fn nodes(&self) -> Option<usize> {
        self.nodes
    }

    /// The name of the wire in reports.
    pub fn name(&self) -> &'static str {
        match self.wire() {
            Wire::Threads => "threads",
            Wire::Processes => "processes",
            Wire::Mpi => "mpi",
            Wire::Virtual => "virtual",
        }
    }

    /// Arguments and input that give another process of this program the same machine. It reads the file from its input.
    pub fn invocation(&self) -> Result<Invocation, Failure> {
        let other = Self { named: NamedMachine { machine: Some(STDIN.into()) }, ..self.clone() };
        Ok(Invocation { arguments: other.arguments(), input: self.file()?.text.clone() })
    }

    /// The files of a command, with the machine's file among them.
    pub fn files(&self) -> Files {
        Files::new().reads("--machine", self.named.machine.as_deref().and_then(MachineFile::path))
    }

    /// These options as arguments of this program.
    pub fn arguments(&self) -> Vec<String> {
        let machine = self.named.machine.iter().flat_map(|m| ["--machine".to_owned(), m.clone()]);
        let nodes = self.nodes.iter().flat_map(|n| ["--nodes".to_owned(), n.to_string()]);
        let noise = self.noise.iter().flat_map(|n| ["--noise".to_owned(), n.to_string()]);
        let seed = self.noise_seed.iter().flat_map(|n| ["--noise-seed".to_owned(), n.to_string()]);
        let wire = ["--wire", self.name()].map(str::to_owned).into_iter();
        let processes = self.processes.iter().flat_map(|n| ["--processes".to_owned(), n.to_string()]);
        let progress = self.progress.and_then(|who| who.to_possible_value()).map(|who| who.get_name().to_owned());
        let progress = progress.into_iter().flat_map(|who| ["--progress".to_owned(), who]);
        wire.chain(processes).chain(progress).chain(machine).chain(nodes).chain(noise).chain(seed).collect()
    }
}

/// The invocation of another process of this program.
pub struct Invocation {
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its stdin.
    pub input: String,
}
