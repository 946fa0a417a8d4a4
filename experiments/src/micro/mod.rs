//! Microbenchmarks: what one operation of the framework costs.

pub mod allreduce;
pub mod barrier;
pub mod exchange;
pub mod gang;
pub mod kernel;
pub mod memory;
pub mod tasks;

use crate::Failure;
use crate::measure::turns::{Order, Rounds, When};
use crate::measure::yardstick::Yardstick;
use crate::options::wire::OnWire;
use crate::options::workers::OnWorkers;
use crate::options::{IterationsByWire, ReportedRuns, Traced};
use crate::output::{Output, Record, field};
use maniple::runtime::{Runtime, VirtualMachine};

/// What microbenchmarks on workers are asked whose runs can be looked at.
#[derive(Debug, clap::Args)]
pub struct OnWorkersTraced {
    #[command(flatten)]
    on: OnWorkers,

    #[command(flatten)]
    traced: Traced,

    #[command(flatten)]
    runs: ReportedRuns,
}

impl OnWorkersTraced {
    /// A microbenchmark of so many shards, the processors that run its leaf tasks, and the runtime on them.
    fn bench(&self, program: &'static str, shards: usize) -> Result<(Bench<'_>, usize, Runtime), Failure> {
        let (workers, runtime) = self.on.runtime(shards, &self.traced)?;
        Ok((Bench::on(program, &self.on, shards, &self.runs)?, workers, runtime))
    }
}

/// What microbenchmarks are asked that need no workers.
#[derive(Debug, clap::Args)]
pub struct WithoutWorkers {
    #[command(flatten)]
    iterations: IterationsByWire,

    #[command(flatten)]
    wire: OnWire,

    #[command(flatten)]
    runs: ReportedRuns,
}

/// A microbenchmark: what it is on, and how its runs are reported.
struct Bench<'a> {
    program: &'static str,
    wire: &'a OnWire,
    machine: Option<VirtualMachine>,
    runs: &'a ReportedRuns,
    /// The exchange after each run, where it is reported.
    yardstick: Option<Yardstick>,
}

impl<'a> Bench<'a> {
    /// One that is on this machine in virtual time, or else on this host.
    fn new(program: &'static str, wire: &'a OnWire, machine: Option<VirtualMachine>, runs: &'a ReportedRuns) -> Self {
        Self { program, wire, machine, runs, yardstick: None }
    }

    /// One that is on workers, for so many shards.
    fn on(program: &'static str, on: &'a OnWorkers, shards: usize, runs: &'a ReportedRuns) -> Result<Self, Failure> {
        Ok(Self::new(program, &on.workers.wire, on.workers.machine(shards)?, runs))
    }

    /// The same with the exchange beside each run.
    fn with_exchange(self) -> Result<Self, Failure> {
        Ok(Self { yardstick: Some(Yardstick::of(self.machine.as_ref())?), ..self })
    }

    /// Measures, and reports each run: what was measured and the exchange beside it as fields, and whether it is verified.
    fn report<T>(
        &self,
        mut measure: impl FnMut() -> Result<T, Failure>,
        fields: impl Fn(T, f64) -> (Record, bool),
    ) -> Result<(), Failure> {
        let machine = self.machine.as_ref();
        let repeats = self.runs.repeats(machine.is_some())?;
        let mut output = Output::new(self.runs.reported.format);
        let mut wrong = 0;
        let mut rounds = Rounds::new(Order::Same);
        if let Some(yardstick) = self.yardstick {
            rounds = rounds.beside(When::AfterTurn, yardstick);
        }
        for _ in 0..repeats {
            let turn = rounds.single(&mut measure)?;
            let (fields, verified) = fields(turn.found, turn.exchange_ns);
            wrong += usize::from(!verified);
            let mut record = vec![
                field("program", self.program),
                field("wire", self.wire.name()),
                field("machine", machine.map(|m| &*m.name)),
                field("nodes", machine.map(|m| m.nodes)),
            ];
            record.extend(fields);
            output.add(record)?;
        }
        output.finish()?;
        if wrong > 0 {
            return Err(Failure::Run(format!("{wrong} of {repeats} runs not verified")));
        }
        Ok(())
    }
}

/// What a shard takes up at least while its task runs.
const SHARD_BYTES: u128 = 700;

/// Nanoseconds since the run began, by its own clock.
fn now() -> u64 {
    maniple::runtime::now().as_nanos() as u64
}

fn run_error(e: maniple::runtime::Error) -> Failure {
    Failure::Run(e.to_string())
}
