//! Microbenchmarks: what one operation of the framework costs.

pub mod allreduce;
pub mod barrier;
pub mod exchange;
pub mod gang;
pub mod kernel;
pub mod memory;
pub mod tasks;

use crate::Failure;
use crate::output::{Field, Format, Output, Record};
use crate::workers::{Told, Workers};
use maniple::mapper::MapperSpec;
use maniple::runtime::{Runtime, TraceFile, VirtualMachine};
use maniple_stencil::{available_memory, bytes};
use std::path::PathBuf;

/// What all microbenchmarks are asked.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// Runs [default: 10, in virtual time 1]
    #[arg(long, value_name = "R", value_parser = crate::count, allow_negative_numbers = true)]
    repeat: Option<usize>,

    /// How runs are reported
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
}

impl Common {
    /// How many runs: in virtual time one is as good as many, since each takes as long.
    pub fn repeats(&self, in_virtual_time: bool) -> Result<usize, Failure> {
        at_least_one("repeat", self.repeat.unwrap_or(if in_virtual_time { 1 } else { 10 }))
    }
}

/// What those that run on workers are asked.
#[derive(Debug, clap::Args)]
pub struct OnWorkers {
    #[command(flatten)]
    pub workers: Workers,

    /// Who places tasks and data: a mapper's name and options, a library and its options (./libmine.so,…), or @FILE, which says which and is read again on a hangup signal
    #[arg(long, value_name = "MAPPER", default_value_t = MapperSpec::default())]
    pub mapper: MapperSpec,
}

impl OnWorkers {
    /// What another process of this program is told to have the same.
    pub fn told(&self) -> Result<Told, Failure> {
        let mut told = self.workers.told()?;
        told.arguments.extend(["--mapper".into(), self.mapper.to_string()]);
        Ok(told)
    }

    /// The yardstick beside each run of so many shards, in nanoseconds: of this host, as it is then, or of the machine in
    /// virtual time, where it is always the same. NaN with one processor.
    pub fn yardstick_ns(&self, shards: usize) -> Result<impl Fn() -> f64 + use<>, Failure> {
        let of_machine = self.workers.machine(shards)?.as_ref().map(exchange::beside_ns).transpose()?;
        Ok(move || of_machine.unwrap_or_else(exchange::yardstick_ns))
    }

    /// The processors that run leaf tasks, and a runtime on them for so many shards, which writes the trace that is wanted.
    /// The mapper begins its files: everything else should have been checked.
    pub fn runtime(&self, shards: usize, traced: &Traced) -> Result<(usize, Runtime), Failure> {
        let trace = traced.trace.as_deref();
        let files = self.workers.wire.files().mapper(&self.mapper)?;
        files.writes("--trace", trace).check()?;
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

/// What those are asked whose runs can be looked at.
#[derive(Debug, Default, clap::Args)]
pub struct Traced {
    /// Write what the last run did, and when, to this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// A count that must not be 0, and that a 64-bit float holds exactly, so that no arithmetic on counts overflows.
pub fn at_least_one(what: &str, count: usize) -> Result<usize, Failure> {
    const MOST: usize = 1 << f64::MANTISSA_DIGITS;
    match count {
        0 => Err(Failure::Usage(format!("expected at least 1 for {what}, found 0"))),
        1..=MOST => Ok(count),
        _ => Err(Failure::Usage(format!("expected at most {MOST} for {what}, found {count}"))),
    }
}

/// What a shard takes up at least while its task runs.
pub const SHARD_BYTES: u128 = 700;

/// Refuses what the memory available now can't hold: `each` bytes for so many of something, an estimate on the low side.
pub fn check_memory(what: &str, count: usize, each: u128) -> Result<(), Failure> {
    let (needed, available) = (each.saturating_mul(count as u128), u128::from(available_memory()));
    if needed <= available {
        return Ok(());
    }
    let (needed, available) = (bytes(needed), bytes(available));
    Err(Failure::Usage(format!("{count} {what} need at least {needed} of memory, and {available} are available")))
}

/// Shards, as many as can be numbered.
pub fn shards(count: usize) -> Result<u32, Failure> {
    let most = u32::MAX >> 8;
    match u32::try_from(at_least_one("shards", count)?) {
        Ok(shards) if shards <= most => Ok(shards),
        _ => Err(Failure::Usage(format!("expected at most {most} shards, found {count}"))),
    }
}

/// Nanoseconds since the run began, by its own clock.
fn now() -> u64 {
    maniple::runtime::now().as_nanos() as u64
}

/// Repeats a measurement, of a machine in virtual time or of this host, and reports each run.
fn repeat(
    common: &Common,
    machine: Option<&VirtualMachine>,
    mut once: impl FnMut(usize) -> Result<(Record, bool), Failure>,
) -> Result<(), Failure> {
    let repeats = common.repeats(machine.is_some())?;
    let mut output = Output::new(common.format);
    let mut wrong = 0;
    for run in 0..repeats {
        let (record, verified) = once(run)?;
        wrong += usize::from(!verified);
        output.add(record)?;
    }
    output.finish()?;
    if wrong > 0 {
        return Err(Failure::Run(format!("{wrong} of {repeats} runs not verified")));
    }
    Ok(())
}

fn run_error(e: maniple::runtime::Error) -> Failure {
    Failure::Run(e.to_string())
}

/// `field` for the names that all share.
pub fn field(name: &'static str, value: impl Into<Field>) -> (&'static str, Field) {
    (name, value.into())
}
