//! The report directory. Samples are added as runs are done, and everything else is written anew after each number of
//! shards, so that a run that is interrupted leaves a report of what it measured.

use super::fit::Fit;
use super::measure::{Point, Run};
use super::plan::Plan;
use super::{figures, html};
use crate::Failure;
use crate::directory::{self, pretty};
use crate::machine::{Machine, Toolchain, utc_now};
use crate::output;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// What was measured where and with what.
#[derive(Debug, Clone, Serialize)]
pub struct Environment {
    /// When it began.
    pub began: String,
    /// Before the first run.
    pub machine: Machine,
    /// What this was built by.
    pub toolchain: Toolchain,
}

/// A directory that was empty.
pub struct Directory {
    files: directory::Directory,
    environment: Environment,
    csv: File,
    json: File,
}

impl Directory {
    /// Makes the directory, or takes one that is empty, and writes what is known before the first run.
    pub fn prepare(path: &Path, plan: &Plan) -> Result<Self, Failure> {
        let files = directory::Directory::prepare(path)?;
        let refuse = |e: io::Error| Failure::Usage(format!("{}: can't be written: {e}", path.display()));
        let mut csv = File::create_new(path.join("samples.csv")).map_err(refuse)?;
        csv.write_all(b"shards,version,run,iteration,verified,warmup,iteration_us,collective_us\n").map_err(refuse)?;
        let json = File::create_new(path.join("samples.jsonl")).map_err(refuse)?;
        let environment = Environment { began: utc_now(), machine: Machine::now(), toolchain: Toolchain::built() };
        let directory = Self { files, environment, csv, json };
        directory.files.write("machine.json", pretty(&directory.environment)?)?;
        directory.files.write("parameters.json", pretty(&plan.parameters())?)?;
        directory.publish(plan, &[], &figures::fits(plan, &[]))?;
        Ok(directory)
    }

    /// Adds the samples of a run, at once.
    pub fn keep(&mut self, plan: &Plan, run: &Run) -> Result<(), Failure> {
        let mut lines = String::new();
        for (i, (iteration, collective)) in run.iteration_us.iter().zip(&run.collective_us).enumerate() {
            let warmup = i < plan.warmup;
            let Run { shards, version, run, verified, .. } = run;
            lines += &format!("{shards},{version},{run},{i},{verified},{warmup},{iteration:?},{collective:?}\n");
        }
        let wrote = |name: &str, done: io::Result<()>| done.map_err(|e| self.files.unwritten(name, &e));
        wrote("samples.csv", (&self.csv).write_all(lines.as_bytes()))?;
        let line = serde_json::to_string(run).map_err(|e| Failure::Run(e.to_string()))? + "\n";
        wrote("samples.jsonl", (&self.json).write_all(line.as_bytes()))
    }

    /// Writes the summary, the plots and the page anew.
    pub fn publish(&self, plan: &Plan, points: &[Point], fits: &[Fit]) -> Result<(), Failure> {
        let records: Vec<_> = points.iter().map(|p| p.record(plan)).collect();
        let header = records.first().map(output::csv_header).unwrap_or_default();
        self.files.write("summary.csv", header + &records.iter().map(output::csv).collect::<String>())?;
        let lines: Vec<String> = records.iter().map(|r| format!("  {}", output::json(r))).collect();
        let (complete, fits_json) = (points.len() == plan.counts.len(), pretty(&fits)?);
        let fits_json = fits_json.trim_end();
        let points_json = lines.join(",\n");
        self.files.write(
            "summary.json",
            format!("{{\"complete\": {complete},\n\"points\": [\n{points_json}\n],\n\"fits\": {fits_json}}}\n"),
        )?;
        let mut pictures = Vec::new();
        if !points.is_empty() {
            for (name, picture) in figures::draw(plan, points, fits).map_err(Failure::Run)? {
                self.files.write(name, &picture)?;
                pictures.push(picture);
            }
        }
        self.files.write("index.html", html::page(plan, &self.environment, points, fits, &pictures))
    }
}
