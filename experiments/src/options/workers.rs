//! What a run is on: workers on threads, or a machine in virtual time, and a mapper.

use super::Traced;
use super::numbers::{at_least_one, count};
use super::wire::{Invocation, OnWire, Wire};
use crate::Failure;
use crate::files::Files;
use maniple::mapper::MapperSpec;
use maniple::runtime::{Runtime, TraceFile, VirtualMachine};
use maniple_stencil::{Bind, Config};

/// How many workers.
#[derive(Debug, clap::Args)]
pub struct Threads {
    /// Worker threads [default: the processors this process may use]
    #[arg(long, value_name = "W", value_parser = count, allow_negative_numbers = true)]
    pub workers: Option<usize>,
}

/// Options of commands that run on workers.
#[derive(Debug, clap::Args)]
pub struct Workers {
    #[command(flatten)]
    threads: Threads,

    /// Where workers stay: none, where the operating system moves them; cores, each on a processor of its own if there are
    /// enough
    #[arg(long, value_name = "WHERE", default_value_t = Config::default().bind)]
    pub bind: Bind,

    /// Utility processors: so many of the workers, the last ones, run no leaf tasks and get no shards
    #[arg(long, value_name = "U", default_value_t = 0, value_parser = count, allow_negative_numbers = true)]
    pub utility: usize,

    #[command(flatten)]
    pub wire: OnWire,
}

impl Workers {
    /// How many.
    pub fn count(&self) -> usize {
        self.threads.workers.unwrap_or_else(|| Config::default().workers)
    }

    /// The machine in virtual time, if there is to be one, for a run of so many shards.
    pub fn machine(&self, shards: usize) -> Result<Option<VirtualMachine>, Failure> {
        if self.wire.in_virtual_time()?
            && (self.threads.workers.is_some() || self.bind != Bind::None || self.utility > 0)
        {
            let refusal =
                "--workers, --bind and --utility are for --wire threads: a machine says what processors it has";
            return Err(Failure::Usage(refusal.into()));
        }
        self.wire.machine(shards)
    }

    /// What another process of this program is told to have the same.
    pub fn invocation(&self) -> Result<Invocation, Failure> {
        if self.wire.wire == Wire::Virtual {
            return self.wire.invocation();
        }
        let (workers, bind, utility) = (self.count().to_string(), self.bind.to_string(), self.utility.to_string());
        let arguments = ["--workers", &workers, "--bind", &bind, "--utility", &utility].map(str::to_owned);
        Ok(Invocation { arguments: arguments.to_vec(), input: String::new() })
    }
}

/// Workers, and the mapper that gives them their work.
#[derive(Debug, clap::Args)]
pub struct OnWorkers {
    #[command(flatten)]
    pub workers: Workers,

    /// Who places tasks and data: a mapper's name and options, a library and its options (./libmine.so,…), or @FILE, which says which and is read again on a hangup signal
    #[arg(long, value_name = "MAPPER", default_value_t = MapperSpec::default())]
    pub mapper: MapperSpec,
}

impl OnWorkers {
    /// The files of the machine and of the mapper, among those that a command names.
    pub fn files(&self) -> Result<Files, Failure> {
        self.workers.wire.files().mapper(&self.mapper)
    }

    /// What another process of this program is told to have the same.
    pub fn invocation(&self) -> Result<Invocation, Failure> {
        let mut invocation = self.workers.invocation()?;
        invocation.arguments.extend(["--mapper".into(), self.mapper.to_string()]);
        Ok(invocation)
    }

    /// The processors that run leaf tasks, and a runtime on them for so many shards, which writes the trace that is wanted.
    /// The mapper begins its files: everything else should have been checked.
    pub fn runtime(&self, shards: usize, traced: &Traced) -> Result<(usize, Runtime), Failure> {
        let trace = traced.trace.as_deref();
        self.files()?.writes("--trace", trace).check()?;
        let (processors, mut runtime) = self.processors(shards)?;
        if let Some(path) = trace {
            runtime = runtime.trace(TraceFile::create(path).map_err(|e| Failure::Usage(e.to_string()))?);
        }
        crate::swap::on_signal(&self.mapper)?;
        let mapper = self.mapper.slot(&maniple::plugin::load).map_err(|e| Failure::Usage(e.to_string()))?;
        Ok((processors, runtime.mapper(mapper)))
    }

    fn processors(&self, shards: usize) -> Result<(usize, Runtime), Failure> {
        if let Some(machine) = self.workers.machine(shards)? {
            return Ok((machine.leaf_processors(), Runtime::virtual_time(machine)));
        }
        let workers = at_least_one("workers", self.workers.count())?;
        if workers > maniple_stencil::MAX_WORKERS {
            let most = maniple_stencil::MAX_WORKERS;
            return Err(Failure::Usage(format!("expected at most {most} workers, found {workers}")));
        }
        let utility = self.workers.utility;
        if utility >= workers {
            let found = format!("expected fewer utility processors than the {workers} workers, found {utility}");
            return Err(Failure::Usage(found));
        }
        Ok((workers, Runtime::threads(workers as u32).binding(self.workers.bind.into()).utility(utility as u32)))
    }
}
