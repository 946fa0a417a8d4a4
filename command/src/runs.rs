//! The runs of an application: its options, its runs one after the other, and their report.

use crate::Failure;
use crate::arrays::Target;
use crate::files::check_trace;
use crate::host::HostRun;
use crate::machines::reduced::warn_without_costs;
use crate::options::sends::Sends;
use crate::options::workers::OnWorkers;
use crate::options::{RepeatByWire, Reported, Traced};
use crate::output::{Output, Record, expect_verified, field, table};
use maniple::runtime::{Runtime, Stats};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The options of every application.
#[derive(Debug, clap::Args)]
pub struct AppOptions {
    #[command(flatten)]
    repeat: RepeatByWire,

    #[command(flatten)]
    pub on: OnWorkers,

    #[command(flatten)]
    traced: Traced,

    #[command(flatten)]
    reported: Reported,
}

/// What a run gave.
pub struct Ran {
    /// Its fields of the report.
    pub fields: Record,
    /// What is wrong with its result, if something is.
    pub failure: Option<String>,
    /// The runtime's counters.
    pub stats: Stats,
}

/// Where the result of the last run goes.
pub struct Wanted {
    /// Whether the user asked for it. Then all processes give it to the first one.
    is_asked: bool,
    /// The file, in the process that writes it.
    target: Option<Target>,
}

/// The values of a result, once a run has put them together.
pub type Values<T> = Arc<Mutex<Vec<T>>>;

impl AppOptions {
    /// Checks the files of a command, and that the output can be written. The first of several processes writes it.
    pub fn target(&self, inputs: &[(&'static str, Option<&Path>)], output: Option<&Path>) -> Result<Wanted, Failure> {
        let files = inputs.iter().fold(self.on.files()?, |files, (option, path)| files.reads(option, *path));
        files.writes("--output", output).writes("--trace", self.traced.trace.as_deref()).check()?;
        let target = output.filter(|_| Runtime::process_number() == 0).map(Target::for_array).transpose()?;
        Ok(Wanted { is_asked: output.is_some(), target })
    }

    /// Does the runs, reports them, and writes what the last one gave. `run` gets a runtime, and where the result goes if it is wanted.
    pub fn run<T>(
        &self,
        program: &str,
        (shards, sends): (usize, Option<&Sends>),
        wanted: Wanted,
        mut run: impl FnMut(&Runtime, Option<Values<T>>) -> Result<Ran, Failure>,
        write: impl FnOnce(&Target, &[T]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let values = Values::default();
        let machine = self.on.workers.place(shards)?.0.machine();
        let runs = self.repeat.or(3, machine.is_some())?;
        let change = |mapper: &_| sends.into_iter().for_each(|sends| sends.change(mapper));
        let (workers, runtime, trace) = self.on.runtime_with(shards, &self.traced, change)?;
        let runtime = sends.into_iter().fold(runtime, |runtime, sends| sends.on(runtime));
        machine.as_deref().into_iter().for_each(warn_without_costs);
        let mut output = Output::new(self.reported.format);
        let mut unverified = Vec::new();
        let mut reported = |number: usize| {
            let began = Instant::now();
            let is_wanted = wanted.is_asked && number + 1 == runs;
            let ran = run(&runtime, is_wanted.then(|| values.clone()))?;
            let host = HostRun::of(&ran.stats, began.elapsed());
            unverified.extend(ran.failure.as_ref().map(|failure| format!("run {number}: {failure}")));
            let mut record = vec![
                field("program", program),
                field("wire", self.on.workers.wire.name()),
                field("machine", machine.as_ref().map(|machine| &*machine.name)),
                field("nodes", machine.as_ref().map(|machine| machine.nodes)),
                field("workers", workers),
            ];
            record.extend(ran.fields);
            record.extend(host.iter().flat_map(HostRun::fields));
            output.add(record)
        };
        let done = (0..runs).try_for_each(&mut reported);
        let finished = output.finish_with(table);
        done?;
        finished?;
        expect_verified(runs, "run", &unverified)?;
        if let Some(target) = &wanted.target {
            write(target, &values.lock().unwrap_or_else(PoisonError::into_inner))?;
        }
        check_trace(trace.as_ref())
    }
}
