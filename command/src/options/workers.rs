//! The processors of a run: workers on threads or a machine in virtual time, and the mapper.

use super::Traced;
use super::numbers::{at_least_one, count};
use super::wire::{Invocation, OnWire, Wire};
use crate::Failure;
use crate::files::Files;
use maniple::mapper::{MapperSlot, MapperSpec, SpecError};
use maniple::runtime::{Runtime, TraceFile, VirtualMachine};
use maniple_stencil::{Bind, Config, Processes, StencilError};
use std::sync::Arc;

/// The number of workers.
#[derive(Debug, clap::Args)]
pub struct Threads {
    /// Worker threads, of each process if there are several [default: its share of the host's processors]
    #[arg(long, value_name = "W", value_parser = count, allow_negative_numbers = true)]
    pub workers: Option<usize>,
}

/// Where a run is.
pub enum Place {
    /// In this process.
    Threads,
    /// On several processes.
    Processes(Processes),
    /// In virtual time.
    Machine(Arc<VirtualMachine>),
}

/// Options of commands that run on workers.
#[derive(Debug, clap::Args)]
pub struct Workers {
    #[command(flatten)]
    threads: Threads,

    /// Binding of workers. none: the operating system may move them; cores: each stays on a processor of its own, if there
    /// are enough
    #[arg(long, value_name = "WHERE", default_value_t = Config::default().bind)]
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
        self.threads.workers.unwrap_or_else(|| Config::default().workers)
    }

    /// The number of workers that the user gave.
    pub fn given(&self) -> Option<usize> {
        self.threads.workers
    }

    /// Where a run of so many shards is, and its workers in each process.
    ///
    /// # Errors
    /// Options of workers in virtual time, and options of a machine on threads. Processes that can't meet.
    pub fn place(&self, shards: usize) -> Result<(Place, usize), Failure> {
        if let Some((processes, share)) = self.wire.processes()? {
            return Ok((Place::Processes(processes), self.threads.workers.unwrap_or(share)));
        }
        Ok((self.machine(shards)?.map_or(Place::Threads, |machine| Place::Machine(Arc::new(machine))), self.count()))
    }

    /// In virtual time, the machine for a run of so many shards. For commands that can't use several processes.
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
    /// (table=FILE, as maniple tune writes it), first, round-robin, numa, random (seed=N) and logging (file=PATH, and last
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
    /// The files of a command, with those of the machine and of the mapper among them.
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

    /// The number of processors that run leaf tasks, a runtime on them for so many shards, and the file for its trace. The
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
        let create = |path| TraceFile::create(path).map_err(|e| Failure::Usage(StencilError::Trace(e).to_string()));
        let trace = trace.map(create).transpose()?;
        let (processors, runtime) = self.processors(shards)?;
        let mapper = self.mapper.slot(&maniple::plugin::load).map_err(|e| Failure::Usage(e.to_string()))?;
        change(&mapper);
        crate::swap::on_signal(&self.mapper)?;
        let runtime = runtime.mapper(mapper);
        let runtime = trace.iter().fold(runtime, |runtime, file| runtime.trace(file.clone()));
        Ok((processors, runtime, trace))
    }

    fn processors(&self, shards: usize) -> Result<(usize, Runtime), Failure> {
        let (place, workers) = self.workers.place(shards)?;
        let processes = match &place {
            Place::Machine(machine) => {
                return Ok((machine.leaf_processors(), Runtime::virtual_time(VirtualMachine::clone(machine))));
            }
            Place::Processes(processes) => processes.number,
            Place::Threads => 1,
        };
        let workers = at_least_one("workers", workers)?;
        let all = workers.saturating_mul(processes);
        if all > maniple_stencil::MAX_WORKERS {
            return Err(Failure::Usage(StencilError::TooManyWorkers { workers: all }.to_string()));
        }
        let utility = self.workers.utility;
        if utility >= workers {
            return Err(Failure::Usage(StencilError::TooManyUtility { utility, workers }.to_string()));
        }
        let runtime = match place {
            Place::Processes(processes) => processes.runtime(workers as u32),
            _ => Runtime::threads(workers as u32),
        };
        Ok((all, runtime.binding(self.workers.bind.into()).utility(utility as u32)))
    }
}
