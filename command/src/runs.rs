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

impl AppOptions {
    /// Checks the files of a command, and that the output can be written. The first of several processes writes it.
    pub fn target(
        &self,
        inputs: &[(&'static str, Option<&Path>)],
        output: Option<&Path>,
    ) -> Result<Option<Target>, Failure> {
        let files = inputs.iter().fold(self.on.files()?, |files, (option, path)| files.reads(option, *path));
        files.writes("--output", output).writes("--trace", self.traced.trace.as_deref()).check()?;
        output.filter(|_| Runtime::process_number() == 0).map(Target::for_array).transpose()
    }

    /// Does the runs and reports them. `run` gets a runtime, and whether it is the last one.
    pub fn run(
        &self,
        program: &str,
        shards: usize,
        sends: Option<&Sends>,
        mut run: impl FnMut(&Runtime, bool) -> Result<Ran, Failure>,
    ) -> Result<(), Failure> {
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
            let ran = run(&runtime, number + 1 == runs)?;
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
        check_trace(trace.as_ref())
    }
}
