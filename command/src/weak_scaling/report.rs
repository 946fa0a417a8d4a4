//! The directory of the report. Samples are added after each run. All other files are written again after each number of shards,
//! so an interrupted run leaves a report of its results.

use super::fit::Fit;
use super::point::Point;
use super::sweep::Sweep;
use super::{page, plots};
use crate::Failure;
use crate::measure::directory::{Directory, pretty};
use crate::measure::samples::{RunSamples, SampleFiles};
use crate::output::Line;
use std::path::Path;

/// A report in a directory that was empty.
pub struct Report(SampleFiles);

impl Report {
    /// Makes the directory, or takes an empty one, and writes all that is known before the first run.
    pub fn prepare(path: &Path, sweep: &Sweep) -> Result<Self, Failure> {
        let report = Self(SampleFiles::prepare(Directory::prepare(path)?, &sweep.parameters())?);
        report.publish(sweep, &[], &plots::fits(sweep, &[]))?;
        Ok(report)
    }

    /// Adds the samples of a run, at once.
    pub fn keep(&mut self, sweep: &Sweep, run: &RunSamples) -> Result<(), Failure> {
        self.0.keep(run, sweep.warmup)
    }

    /// Writes the summary, the plots and the page again.
    pub fn publish(&self, sweep: &Sweep, points: &[Point], fits: &[Fit]) -> Result<(), Failure> {
        let SampleFiles { directory, environment, .. } = &self.0;
        let records: Vec<_> = points.iter().map(|p| p.record(sweep)).collect();
        let header = records.first().map(Line::csv_header).unwrap_or_default();
        directory.write("summary.csv", header + &records.iter().map(Line::csv).collect::<String>())?;
        let line = |record| Ok(format!("  {}", Line::json(record)?));
        let lines: Vec<String> = records.iter().map(line).collect::<Result<_, Failure>>()?;
        let (complete, fits_json) = (points.len() == sweep.counts.len(), pretty(&fits)?);
        let fits_json = fits_json.trim_end();
        let points_json = lines.join(",\n");
        directory.write(
            "summary.json",
            format!("{{\"complete\": {complete},\n\"points\": [\n{points_json}\n],\n\"fits\": {fits_json}}}\n"),
        )?;
        let mut pictures = Vec::new();
        if !points.is_empty() {
            for (name, picture) in plots::draw(sweep, points, fits).map_err(Failure::Run)? {
                directory.write(name, &picture)?;
                pictures.push(picture);
            }
        }
        directory.write("index.html", page::page(sweep, environment, points, fits, &pictures))
    }
}
