//! What runs are on: workers and a mapper.

use super::Traced;
use super::numbers::at_least_one;
use super::workers::{Told, Workers};
use crate::Failure;
use crate::files::Files;
use maniple::mapper::MapperSpec;
use maniple::runtime::{Runtime, TraceFile};

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
    pub fn told(&self) -> Result<Told, Failure> {
        let mut told = self.workers.told()?;
        told.arguments.extend(["--mapper".into(), self.mapper.to_string()]);
        Ok(told)
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
