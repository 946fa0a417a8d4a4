//! What carries the messages of a run: threads of this host, or a machine in virtual time.

use super::numbers::{at_least_one, count};
use crate::Failure;
use crate::files::Files;
use crate::machines::file::{MachineFile, STDIN};
use maniple::runtime::VirtualMachine;
use std::cell::OnceCell;

/// What carries the messages of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Wire {
    /// Workers are threads of this process
    Threads,
    /// Processors, network and time are those of a machine that exists in virtual time only; a run is the same each time
    Virtual,
}

/// The wire of commands that have no other.
#[derive(Debug, clap::Args)]
pub struct InVirtualTime {
    /// What carries the messages
    #[arg(long = "wire", value_name = "WIRE", default_value = "virtual")]
    _wire: VirtualWire,
}

/// The only wire there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum VirtualWire {
    /// A machine that exists in virtual time only
    Virtual,
}

/// Which machine in virtual time.
#[derive(Debug, Clone, clap::Args)]
pub struct NamedMachine {
    /// The machine in virtual time: ideal, on which nothing takes any time; local, the development machine; infiniband, slingshot
    /// and ethernet, such nodes with a network; titan-legion and titan-mpi; or a file that ends in .toml [default: ideal]
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
}

impl NamedMachine {
    /// The machine, if there is to be one, of which one node has to be a machine that can be run on.
    pub fn load_host(&self) -> Result<Option<MachineFile>, Failure> {
        self.machine.as_deref().map(MachineFile::load_host).transpose()
    }
}

/// Options of commands that run programs, on this host or on a machine in virtual time.
#[derive(Debug, Clone, clap::Args)]
pub struct OnWire {
    /// What carries the messages
    #[arg(long, value_name = "WIRE", default_value = "threads")]
    pub(super) wire: Wire,

    #[command(flatten)]
    named: NamedMachine,

    /// Nodes of that machine [default: what its file says, or one a shard]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    nodes: Option<usize>,

    /// Noise in virtual time: each latency and each leaf task takes up to this much longer, as a part of it [default: 0]
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    noise: Option<f64>,

    /// Seed of the noise [default: 0]
    #[arg(long, value_name = "SEED", requires = "noise")]
    noise_seed: Option<u64>,

    #[arg(skip)]
    loaded: Loaded,
}

/// The file of a machine, read once: it may be stdin, or be another one later.
#[derive(Debug, Clone, Default)]
pub struct Loaded(OnceCell<MachineFile>);

impl Loaded {
    /// The file of this machine, which is the same each time.
    pub fn file(&self, machine: &str) -> Result<&MachineFile, Failure> {
        if let Some(file) = self.0.get() {
            return Ok(file);
        }
        let file = MachineFile::load(machine)?;
        Ok(self.0.get_or_init(|| file))
    }
}

impl OnWire {
    /// Whether there is to be a machine in virtual time; refuses what is said of one where there is none.
    pub fn in_virtual_time(&self) -> Result<bool, Failure> {
        match self.wire {
            Wire::Threads if self.named.machine.is_some() || self.nodes.is_some() || self.noise.is_some() => {
                Err(Failure::Usage("--machine, --nodes and --noise are for --wire virtual".into()))
            }
            Wire::Threads => Ok(false),
            Wire::Virtual => Ok(true),
        }
    }

    /// The machine in virtual time, if there is to be one, for a run of so many shards.
    pub fn machine(&self, shards: usize) -> Result<Option<VirtualMachine>, Failure> {
        Ok(if self.in_virtual_time()? { Some(self.build(self.file()?, self.nodes, shards)?) } else { None })
    }

    /// The machine, as it is named on the command line.
    pub fn machine_name(&self) -> &str {
        self.named.machine.as_deref().unwrap_or("ideal")
    }

    /// The file of the machine in virtual time.
    pub fn file(&self) -> Result<&MachineFile, Failure> {
        self.loaded.file(self.machine_name())
    }

    /// What a file describes, for a run of so many shards, with this noise.
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

    /// The same with so many nodes.
    pub fn with_nodes(&self, nodes: u32) -> Self {
        Self { nodes: Some(nodes as usize), ..self.clone() }
    }

    /// Nodes, where the user says how many.
    pub fn nodes(&self) -> Option<usize> {
        self.nodes
    }

    /// What reports call the wire.
    pub fn name(&self) -> &'static str {
        match self.wire {
            Wire::Threads => "threads",
            Wire::Virtual => "virtual",
        }
    }

    /// What another process of this program is told to have the same machine: it reads the file from its input.
    pub fn invocation(&self) -> Result<Invocation, Failure> {
        let other = Self { named: NamedMachine { machine: Some(STDIN.into()) }, ..self.clone() };
        Ok(Invocation { arguments: other.arguments(), input: self.file()?.text.clone() })
    }

    /// The machine's file, among those that a command names.
    pub fn files(&self) -> Files {
        Files::new().reads("--machine", self.named.machine.as_deref().and_then(MachineFile::path))
    }

    /// These as arguments of this program.
    pub fn arguments(&self) -> Vec<String> {
        let machine = self.named.machine.iter().flat_map(|m| ["--machine".to_owned(), m.clone()]);
        let nodes = self.nodes.iter().flat_map(|n| ["--nodes".to_owned(), n.to_string()]);
        let noise = self.noise.iter().flat_map(|n| ["--noise".to_owned(), n.to_string()]);
        let seed = self.noise_seed.iter().flat_map(|n| ["--noise-seed".to_owned(), n.to_string()]);
        let wire = ["--wire", self.name()].map(str::to_owned).into_iter();
        wire.chain(machine).chain(nodes).chain(noise).chain(seed).collect()
    }
}

/// What a process of this program is told.
pub struct Invocation {
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What it finds on stdin.
    pub input: String,
}
