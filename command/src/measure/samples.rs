//! Raw samples of runs, kept with the machine, the toolchain and the parameters.

use super::directory::{Directory, Growing, pretty};
use super::environment::Environment;
use crate::Failure;
use crate::stencil::session::RunReport;
use maniple_stencil::Collective;
use serde::Serialize;

/// One run of one side of a measurement: a line of the raw samples.
#[derive(Debug, Clone, Serialize)]
pub struct RunSamples {
    /// Shards.
    pub shards: usize,
    /// The version of the application.
    pub version: Collective,
    /// The number of its round, from 0.
    pub run: usize,
    /// Whether the result is right.
    pub verified: bool,
    /// The first thing that is wrong, if the run is not verified.
    pub failure: Option<String>,
    /// The yardstick measured beside the run; NaN with one processor.
    pub cache_line_ns: f64,
    /// Microseconds of each iteration.
    pub iteration_us: Vec<f64>,
    /// Microseconds of the collective in each iteration.
    pub collective_us: Vec<f64>,
}

impl RunSamples {
    /// The samples in a report of the stencil, from a round with this yardstick beside it.
    pub fn new(report: RunReport, run: usize, cache_line_ns: f64) -> Self {
        Self {
            shards: report.shards,
            version: report.collective,
            run,
            verified: report.verified,
            failure: report.failure,
            cache_line_ns,
            iteration_us: report.samples.iteration_us,
            collective_us: report.samples.collective_us,
        }
    }

    /// A line of CSV for each iteration. The first `warmup` of them don't count.
    fn csv(&self, warmup: usize) -> String {
        let Self { shards, version, run, verified, .. } = self;
        let samples = self.iteration_us.iter().zip(&self.collective_us).enumerate();
        let line = |(i, (iteration, collective)): (usize, (&f64, &f64))| {
            format!("{shards},{version},{run},{i},{verified},{},{iteration:?},{collective:?}\n", i < warmup)
        };
        samples.map(line).collect()
    }
}

/// The directory of a report with raw samples. The samples of a run are added as soon as it is done.
pub struct SampleFiles {
    /// The other files of the report.
    pub directory: Directory,
    /// The origin of the samples.
    pub environment: Environment,
    csv: Growing,
    jsonl: Growing,
}

impl SampleFiles {
    /// Takes a directory, and writes the environment and the parameters.
    pub fn prepare(directory: Directory, parameters: &impl Serialize) -> Result<Self, Failure> {
        let head = "shards,version,run,iteration,verified,warmup,iteration_us,collective_us\n";
        let (csv, jsonl) = (directory.begin("samples.csv", head)?, directory.begin("samples.jsonl", "")?);
        let environment = Environment::now();
        directory.write("machine.json", pretty(&environment)?)?;
        directory.write("parameters.json", pretty(parameters)?)?;
        Ok(Self { directory, environment, csv, jsonl })
    }

    /// Adds the samples of a run, at once.
    pub fn keep(&mut self, run: &RunSamples, warmup: usize) -> Result<(), Failure> {
        let line = serde_json::to_string(run).map_err(|e| Failure::Run(e.to_string()))? + "\n";
        self.csv.add(&run.csv(warmup))?;
        self.jsonl.add(&line)
    }
}
