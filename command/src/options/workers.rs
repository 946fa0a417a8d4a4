//! The processors of a run: workers on threads or a machine in virtual time, and the mapper.

use super::Traced;
use super::numbers::{at_least_one, count};
use super::wire::{Invocation, OnWire, Processes, Wire};
use crate::Failure;
use crate::files::{Files, untraced};
use maniple::mapper::{MapperSlot, MapperSpec, SpecError};
use maniple::runtime::{Binding, Runtime, TraceFile, VirtualMachine};
use maniple_stencil::plural;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// The most worker threads of all processes.
pub const MAX_WORKERS: usize = 1024;

/// The number of workers where the user gives none: the processors that this process may use.
pub fn workers_of_host() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether workers are bound to processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Bind {
    /// The operating system may move them
    None,
    /// Each stays on a processor of its own, if there are enough
    Cores,
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if *self == Bind::None { "none" } else { "cores" })
    }
}

/// The number of workers.
#[derive(Debug, clap::Args)]
pub struct Threads {
    /// Worker threads, of each process if there are several [default: its share of the host's processors]
    #[arg(long, value_name = "W", value_parser = count, allow_negative_numbers = true)]
    pub workers: Option<usize>,
}

/// Where a run is.
#[derive(Debug)]
pub enum Place {
    /// In this process.
    Threads,
    /// On several processes.
    Processes(Processes),
    /// In virtual time.
    Machine(Arc<VirtualMachine>),
}

impl Place {
    /// The machine of a run in virtual time.
    pub fn machine(self) -> Option<Arc<VirtualMachine>> {
        match self {
            Place::Machine(machine) => Some(machine),
            Place::Threads | Place::Processes(_) => None,
        }
    }

    /// The name of the wire.
    pub fn wire(&self) -> &'static str {
        match self {
            Place::Threads => "threads",
            Place::Processes(processes) => processes.wire(),
            Place::Machine(_) => "virtual",
        }
    }
}

/// The processors of a run.
#[derive(Debug)]
pub struct Processors {
    /// Where they are.
    pub place: Place,
    /// Workers of each process; at least 1 and at most [`MAX_WORKERS`] in all. A machine in virtual time stands in their place,
    /// however many processors it has.
    pub workers: usize,
    /// Whether workers are bound to processors.
    pub bind: Bind,
    /// Utility processors of each process, fewer than the workers.
    pub utility: usize,
}

impl Processors {
    /// The number of processors that run leaf tasks: the workers of all processes, or the processors of the machine.
    pub fn count(&self) -> usize {
        match &self.place {
            Place::Threads => self.workers,
            Place::Processes(processes) => self.workers.saturating_mul(processes.number),
            Place::Machine(machine) => machine.leaf_processors(),
        }
    }

    /// Checks the number of workers and of utility processors.
    pub fn check(&self) -> Result<(), Failure> {
        if let Place::Machine(_) = self.place {
            return Ok(());
        }
        at_least_one("workers", self.workers)?;
        match self.count() {
            all if all > MAX_WORKERS => {
                Err(Failure::Usage(format!("expected at most {MAX_WORKERS} workers, found {all}")))
            }
            _ => check_utility(self.utility, self.workers),
        }
    }

    /// A runtime on them, if they were checked.
    pub fn runtime(&self) -> Runtime {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let workers = number(self.workers);
        let runtime = match &self.place {
            Place::Machine(machine) => return Runtime::virtual_time(VirtualMachine::clone(machine)),
            Place::Processes(processes) => processes.runtime(workers),
            Place::Threads => Runtime::threads(workers),
        };
        let binding = if self.bind == Bind::None { Binding::None } else { Binding::Cores };
        runtime.binding(binding).utility(number(self.utility))
    }
}

/// Checks that a worker is left for leaf tasks.
pub fn check_utility(utility: usize, workers: usize) -> Result<(), Failure> {
    if utility < workers {
        return Ok(());
    }
    let workers = plural(workers, "worker");
    Err(Failure::Usage(format!("expected fewer utility processors than {workers}, found {utility}")))
}

/// Options of commands that run on workers.
#[derive(Debug, clap::Args)]
pub struct Workers {
    #[command(flatten)]
    threads: Threads,

    /// Binding of workers
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = Bind::None)]
    pub bind: Bind,

    /// Number of utility processors in each process: the last workers, which run no leaf tasks and only shards that the mapper
    /// places there
    #[arg(long, value_name = "U", default_value_t = 0, value_parser = count, allow_negative_numbers = true)]
    pub utility: usize,

    #[command(flatten)]
    pub wire: OnWire,
}

impl Workers {
    /// The number of workers.
    pub fn count(&self) -> usize {
        self.threads.workers.unwrap_or_else(workers_of_host)
    }

    /// The number of workers that the user gave.
    pub fn given(&self) -> Option<usize> {
        self.threads.workers
    }

    /// Where a run of `shards` shards is, and its workers in each process.
    ///
    /// # Errors
    /// Options of workers in virtual time, and options of a machine on threads. Processes that can't meet.
    pub fn place(&self, shards: usize) -> Result<(Place, usize), Failure> {
        if let Some((processes, share)) = self.wire.processes()? {
            return Ok((Place::Processes(processes), self.threads.workers.unwrap_or(share)));
        }
        Ok((self.machine(shards)?.map_or(Place::Threads, |machine| Place::Machine(Arc::new(machine))), self.count()))
    }

    /// The number of shards that the user gave, or else one for each processor that runs leaf tasks.
    ///
    /// # Errors
    /// Those of [`place`](Self::place), and without a number given those of [`Processors::check`].
    pub fn shards_or_processors(&self, given: Option<usize>) -> Result<usize, Failure> {
        match given {
            Some(shards) => Ok(shards),
            None => {
                let (place, workers) = self.place(1)?;
                let processors = Processors { place, workers, bind: self.bind, utility: self.utility };
                processors.check()?;
                Ok(processors.count())
            }
        }
    }

    /// In virtual time, the machine for a run of `shards` shards. For commands that can't use several processes.
    ///
    /// # Errors
    /// Options of workers in virtual time, and options of a machine on threads. Several processes.
    pub fn machine(&self, shards: usize) -> Result<Option<VirtualMachine>, Failure> {
        if self.wire.in_virtual_time()?
            && (self.threads.workers.is_some() || self.bind != Bind::None || self.utility > 0)
        {
            let refusal =
                "--workers, --bind and --utility are for --wire threads: a machine's file gives its processors";
            return Err(Failure::Usage(refusal.into()));
        }
        self.wire.machine(shards)
    }

    /// Arguments and input that give another process of this program the same workers.
    pub fn invocation(&self) -> Result<Invocation, Failure> {
        if self.wire.wire() == Wire::Virtual {
            return self.wire.invocation();
        }
        let (workers, bind, utility) = (self.count().to_string(), self.bind.to_string(), self.utility.to_string());
        let arguments = ["--workers", &workers, "--bind", &bind, "--utility", &utility].map(str::to_owned);
        Ok(Invocation { arguments: arguments.to_vec(), input: String::new() })
    }
}

/// Workers, and the mapper.
#[derive(Debug, clap::Args)]
pub struct OnWorkers {
    #[command(flatten)]
    pub workers: Workers,

    /// Mapper, which places tasks and data: NAME[,OPTION=VALUE]…, ./LIBRARY.so[,OPTIONS] or @FILE. Names: default, collective
    /// (table=FILE, as maniple tune writes it), first, round-robin, numa, random (seed=N), any (inner=MAPPER) and logging (file=PATH, and last
    /// inner=MAPPER). The mapper logging writes each decision of its inner mapper as a line of JSON. Without file= it writes to stderr. Of several
    /// processes, number 0 writes to PATH and number N to PATH.N. The first line of @FILE says which mapper it is. In a run
    /// of one process, FILE is read again on a hangup signal. Several processes keep the mapper, and warn
    #[arg(long, value_name = "MAPPER", default_value_t = MapperSpec::default(), value_parser = mapper)]
    pub mapper: MapperSpec,
}

/// A mapper of this process.
fn mapper(text: &str) -> Result<MapperSpec, SpecError> {
    Ok(text.parse::<MapperSpec>()?.in_process(Runtime::process_number()))
}

impl OnWorkers {
    /// The files of a command, with the machine's and the mapper's among them.
    pub fn files(&self) -> Result<Files, Failure> {
        self.workers.wire.files().mapper(&self.mapper)
    }

    /// Arguments and input that give another process of this program the same workers and mapper.
    pub fn invocation(&self) -> Result<Invocation, Failure> {
        let mut invocation = self.workers.invocation()?;
        invocation.arguments.extend(["--mapper".into(), self.mapper.to_string()]);
        Ok(invocation)
    }

    /// Refuses a check that does not go with several processes.
    pub fn refuse_check(&self, check: bool) -> Result<(), Failure> {
        let wire = &self.workers.wire;
        match wire.wire() {
            Wire::Processes | Wire::Mpi if check => {
                Err(Failure::Usage(format!("--check is not for --wire {}", wire.name())))
            }
            _ => Ok(()),
        }
    }

    /// The number of processors that run leaf tasks, a runtime on them for `shards` shards, and the file for its trace. The
    /// mapper begins its files, so everything else should have been checked before.
    pub fn runtime(&self, shards: usize, traced: &Traced) -> Result<(usize, Runtime, Option<TraceFile>), Failure> {
        self.runtime_with(shards, traced, |_| {})
    }

    /// The same, with a function that may change the mapper before anybody asks it.
    pub fn runtime_with(
        &self,
        shards: usize,
        traced: &Traced,
        change: impl FnOnce(&MapperSlot),
    ) -> Result<(usize, Runtime, Option<TraceFile>), Failure> {
        let trace = traced.trace.as_deref();
        self.files()?.writes("--trace", trace).check()?;
        let create = |path| TraceFile::create(path).map_err(|e| Failure::Usage(untraced(&e)));
        let trace = trace.map(create).transpose()?;
        let (processors, runtime) = self.processors(shards)?;
        let runtime = runtime.mapper(self.slot(change)?);
        let runtime = trace.iter().fold(runtime, |runtime, file| runtime.trace(file.clone()));
        Ok((processors, runtime, trace))
    }

    /// The mapper, changed before anybody asks it, and replaced on a signal.
    pub fn slot(&self, change: impl FnOnce(&MapperSlot)) -> Result<MapperSlot, Failure> {
        let mapper = self.mapper.slot(&maniple::plugin::load).map_err(|e| Failure::Usage(e.to_string()))?;
        change(&mapper);
        crate::swap::on_signal(&self.mapper)?;
        Ok(mapper)
    }

    fn processors(&self, shards: usize) -> Result<(usize, Runtime), Failure> {
        let (place, workers) = self.workers.place(shards)?;
        let on = Processors { place, workers, bind: self.workers.bind, utility: self.workers.utility };
        on.check()?;
        Ok((on.count(), on.runtime()))
    }
}
