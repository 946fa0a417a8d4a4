//! Microbenchmarks: the costs of single operations of the framework.

pub mod barrier;
pub mod broadcast;
pub mod cache_line;
pub mod flow;
pub mod gang;
pub mod kernel;
pub mod memory;
pub mod remote;
pub mod tasks;

use crate::Failure;
use crate::files::check_trace;
use crate::machines::reduced::warn_without_costs;
use crate::measure::noise::disturbed;
use crate::measure::turns::{Order, Rounds, When};
use crate::measure::yardstick::Yardstick;
use crate::options::numbers::count;
use crate::options::wire::{OnWire, Wire};
use crate::options::workers::OnWorkers;
use crate::options::{IterationsByWire, Reported, ReportedRuns, Traced};
use crate::output::{Field, Output, Record, expect_verified, field, table};
use maniple::runtime::{Error, Runtime, TraceFile, VirtualMachine};

/// The options of microbenchmarks on workers that can write a trace.
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
    /// A microbenchmark of `shards` shards, the number of processors that run its leaf tasks, and the runtime on them.
    fn bench(&self, program: &'static str, shards: usize) -> Result<(Bench<'_>, usize, Traceable), Failure> {
        let (workers, runtime, trace) = self.on.runtime(shards, &self.traced)?;
        Ok((Bench::on(program, &self.on, shards, &self.runs)?, workers, Traceable { runtime, trace }))
    }
}

/// How many tasks a microbenchmark of tasks runs, and on how many regions.
#[derive(Debug, clap::Args)]
pub struct TaskSet {
    /// Tasks of each run
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = count)]
    #[arg(allow_negative_numbers = true)]
    count: usize,

    /// Regions in the working set
    #[arg(long, value_name = "R", default_value_t = 1024, value_parser = count, allow_negative_numbers = true)]
    working_set: usize,
}

/// A runtime, and the file that it writes its trace to.
struct Traceable {
    runtime: Runtime,
    trace: Option<TraceFile>,
}

/// The options of microbenchmarks without workers.
#[derive(Debug, clap::Args)]
pub struct WithoutWorkers {
    #[command(flatten)]
    iterations: IterationsByWire,

    #[command(flatten)]
    wire: OnWire,

    #[command(flatten)]
    runs: ReportedRuns,
}

/// A benchmark: its processors, and the report of its runs.
pub struct Bench<'a> {
    program: &'static str,
    wire: &'a OnWire,
    machine: Option<VirtualMachine>,
    reported: &'a Reported,
    /// The number of runs.
    repeats: usize,
    /// The yardstick after each run, if it is reported.
    yardstick: Option<Yardstick>,
}

impl<'a> Bench<'a> {
    /// A benchmark with one run, on this machine in virtual time, or else on this host.
    pub fn once(
        program: &'static str,
        wire: &'a OnWire,
        machine: Option<VirtualMachine>,
        reported: &'a Reported,
    ) -> Self {
        Self { program, wire, machine, reported, repeats: 1, yardstick: None }
    }

    /// A microbenchmark on this machine in virtual time, or else on this host.
    fn new(
        program: &'static str,
        wire: &'a OnWire,
        machine: Option<VirtualMachine>,
        runs: &'a ReportedRuns,
    ) -> Result<Self, Failure> {
        let repeats = runs.repeats(machine.is_some())?;
        Ok(Self { repeats, ..Self::once(program, wire, machine, &runs.reported) })
    }

    /// A microbenchmark on workers, for `shards` shards.
    fn on(program: &'static str, on: &'a OnWorkers, shards: usize, runs: &'a ReportedRuns) -> Result<Self, Failure> {
        let machine = on.workers.place(shards)?.0.machine().map(|machine| VirtualMachine::clone(&machine));
        Self::new(program, &on.workers.wire, machine, runs)
    }

    /// The same microbenchmark with the yardstick beside each run.
    pub fn with_yardstick(self) -> Result<Self, Failure> {
        let yardstick = match self.wire.wire() {
            // The other processes would measure at the same time.
            Wire::Processes | Wire::Mpi => Yardstick::Fixed(f64::NAN),
            Wire::Threads | Wire::Virtual => Yardstick::of(self.machine.as_ref())?,
        };
        Ok(Self { yardstick: Some(yardstick), ..self })
    }

    /// Measures on a runtime that may write a trace, and reports as [`Self::report`] does. If the trace can't be written
    /// the report is complete, and the failure follows it.
    fn report_on<T>(
        &self,
        Traceable { runtime, trace }: &Traceable,
        mut measure: impl FnMut(&Runtime) -> Result<T, Failure>,
        fields: impl Fn(T, f64) -> (Record, bool),
    ) -> Result<(), Failure> {
        self.report(|| measure(runtime), fields)?;
        check_trace(trace.as_ref())
    }

    /// Measures, and reports each run. `fields` makes its fields of the result and of the yardstick beside it, and says
    /// whether it is verified. If a run fails, the runs before it are reported.
    fn report<T>(
        &self,
        mut measure: impl FnMut() -> Result<T, Failure>,
        fields: impl Fn(T, f64) -> (Record, bool),
    ) -> Result<(), Failure> {
        let fields = |found, cache_line_ns| {
            let (record, verified) = fields(found, cache_line_ns);
            (record, (!verified).then(String::new))
        };
        self.report_each(0..self.repeats, |_| measure(), fields, table)
    }

    /// The same with a run for each of some cases, and another table. `fields` also says what is wrong, if something is.
    pub fn report_each<C: Copy, T>(
        &self,
        cases: impl IntoIterator<Item = C>,
        mut measure: impl FnMut(C) -> Result<T, Failure>,
        fields: impl Fn(T, f64) -> (Record, Option<String>),
        table: impl FnOnce(&[Record]) -> String,
    ) -> Result<(), Failure> {
        let machine = self.machine.as_ref();
        // What `memory` measures is not a time.
        if self.program != "memory" {
            machine.into_iter().for_each(warn_without_costs);
        }
        let mut output = Output::new(self.reported.format);
        let (mut unverified, mut yardsticks) = (Vec::new(), Vec::new());
        let mut rounds = Rounds::new(Order::Same);
        if let Some(yardstick) = self.yardstick {
            rounds = rounds.beside(When::AfterTurn, yardstick);
        }
        let mut runs = 0;
        let mut run = |case: C| {
            let turn = rounds.single(|| measure(case))?;
            let (fields, wrong) = fields(turn.found, turn.cache_line_ns);
            runs += 1;
            unverified.extend(wrong);
            yardsticks.extend(fields.iter().find_map(|(name, field)| match field {
                _ if self.yardstick.is_some() => Some(turn.cache_line_ns),
                Field::Measured(ns) if *name == "cache_line_ns" => Some(*ns),
                _ => None,
            }));
            let mut record = vec![
                field("program", self.program),
                field("wire", self.wire.name()),
                field("machine", machine.map(|m| &*m.name)),
                field("nodes", machine.map(|m| m.nodes)),
            ];
            record.extend(fields);
            output.add(record)
        };
        let done = cases.into_iter().try_for_each(&mut run);
        // The yardstick of a machine in virtual time is always the same.
        let warning = machine.is_none().then(|| disturbed(&yardsticks)).flatten();
        let finished = output.finish_with(|records| {
            let warning = warning.map_or(String::new(), |warning| format!("Warning: {warning}.\n"));
            table(records) + &warning
        });
        done?;
        finished?;
        expect_verified(runs, "run", &unverified)
    }
}

/// The bytes that a shard takes up at least while its task runs.
const SHARD_BYTES: u128 = 700;

/// Nanoseconds since the run began, by its own clock.
pub fn now() -> u64 {
    maniple::runtime::now().as_nanos() as u64
}

/// The failure of a run.
pub fn run_error(e: Error) -> Failure {
    Failure::Run(e.to_string())
}
