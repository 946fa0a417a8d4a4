//! Raw samples of runs, kept with the machine, the toolchain and the parameters that they are of.

use super::directory::{Directory, Growing, pretty};
use super::environment::Environment;
use crate::Failure;
use maniple_stencil::{Collective, RunReport};
use serde::Serialize;

/// One run of one side of a measurement: a line of the raw samples.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Shards.
    pub shards: usize,
    /// Which version.
    pub version: Collective,
    /// Which round it belongs to, from 0.
    pub run: usize,
    /// The result is what it must be.
    pub verified: bool,
    /// What is wrong, if it is not.
    pub failure: Option<String>,
    /// The exchange measured beside it; NaN where there is one processor only.
    pub exchange_ns: f64,
    /// Microseconds of each iteration.
    pub iteration_us: Vec<f64>,
    /// Microseconds of the collective in it.
    pub collective_us: Vec<f64>,
}

impl Run {
    /// What a run of the stencil reports, in a round with this exchange beside it.
    pub fn new(report: RunReport, run: usize, exchange_ns: f64) -> Self {
        Self {
            shards: report.shards,
            version: report.collective,
            run,
            verified: report.verified,
            failure: report.failure,
            exchange_ns,
            iteration_us: report.samples.iteration_us,
            collective_us: report.samples.collective_us,
        }
    }

    /// A line of CSV for each iteration, of which the first `warmup` don't count.
    fn csv(&self, warmup: usize) -> String {
        let Self { shards, version, run, verified, .. } = self;
        let samples = self.iteration_us.iter().zip(&self.collective_us).enumerate();
        let line = |(i, (iteration, collective)): (usize, (&f64, &f64))| {
            format!("{shards},{version},{run},{i},{verified},{},{iteration:?},{collective:?}\n", i < warmup)
        };
        samples.map(line).collect()
    }
}

/// The directory of a report with raw samples in it: those of each run are added as it is done.
pub struct SampleFiles {
    /// The other files of the report.
    pub directory: Directory,
    /// Where the samples come from.
    pub environment: Environment,
    csv: Growing,
    jsonl: Growing,
}

impl SampleFiles {
    /// Takes a directory and writes what is known before the first run: the environment and the parameters.
    pub fn prepare(directory: Directory, parameters: &impl Serialize) -> Result<Self, Failure> {
        let head = "shards,version,run,iteration,verified,warmup,iteration_us,collective_us\n";
        let (csv, jsonl) = (directory.begin("samples.csv", head)?, directory.begin("samples.jsonl", "")?);
        let environment = Environment::now();
        directory.write("machine.json", pretty(&environment)?)?;
        directory.write("parameters.json", pretty(parameters)?)?;
        Ok(Self { directory, environment, csv, jsonl })
    }

    /// Adds the samples of a run, at once.
    pub fn keep(&mut self, run: &Run, warmup: usize) -> Result<(), Failure> {
        let line = serde_json::to_string(run).map_err(|e| Failure::Run(e.to_string()))? + "\n";
        self.csv.add(&run.csv(warmup))?;
        self.jsonl.add(&line)
    }
}
