//! `maniple stencil`.

mod report;

use crate::Failure;
use crate::options::help::exit_codes;
use crate::options::numbers::count;
use crate::options::workers::OnWorkers;
use crate::options::{Iterations, Repeat, Reported, Shards, Traced};
use crate::output::Output;
use maniple_stencil::{Collective, Config, Session, StencilError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The 1D stencil whose every iteration depends on a collective: power iteration with the periodic fourth-order
/// derivative
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Each iteration computes the derivative d of a vector, S = the sum of d squared over all shards, and the next vector \
d / √S. The reports say:
  √S, result  the last √S, which tends to the largest eigenvalue
  error       how far it is from the expected √S, relative to that: from a closed form or, with --input, from sequential \
code
  iteration   time of an iteration on shard 0, from one total to the next
  collective  the part of it from shard 0's local sum to the total
              With more shards than workers shard 0 is early in every other iteration and late in those between: both \
times are then of means of two iterations, one after the other
  repeat      the number of the run, from 0 (JSON and CSV)
  events, digest, host_s, shard_rounds_per_s, peak_bytes
              in virtual time: the events of the run and a hash of them, which is the same each time; the seconds it took \
of this host; rounds of collectives, those of each shard counted, in a second of it; the most memory the process has had
  cells       cells of the largest block; total_cells: of all; input: the file, or null (JSON and CSV)

Files are .npy (one-dimensional, 32- or 64-bit floats), .csv or .txt (one number a line) or .f64 (raw 64-bit \
little-endian floats).

", exit_codes!("the arguments or the files are at fault")))]
pub struct StencilOptions {
    #[command(flatten)]
    shards: Shards,

    /// Cells a shard, at least 4; with --input the file says how many there are [default: 1000]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    cells: Option<usize>,

    #[command(flatten)]
    iterations: Iterations,

    #[command(flatten)]
    repeat: Repeat,

    /// How the shards' sums are combined: recursive-doubling, two-level or aggregation
    #[arg(long, value_name = "NAME", default_value_t = Config::default().collective)]
    collective: Collective,

    /// Iterations that a shard launches before it waits for the total of the oldest; at 0 it waits for each. Not with
    /// aggregation, where each is a task of its own [default: 2]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    ahead: Option<usize>,

    #[command(flatten)]
    on: OnWorkers,

    /// Look for mistakes of the program: races, of tasks on shared data that nothing orders (slower)
    #[arg(long, value_name = "WHAT")]
    check: Option<crate::Check>,

    /// Start from the numbers in this file, dealt to the shards evenly
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Write the last vector of the last run to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    traced: Traced,

    #[command(flatten)]
    reported: Reported,
}

impl StencilOptions {
    fn config(&self) -> Result<Config, Failure> {
        let (shards, workers) = (self.shards.shards, &self.on.workers);
        let machine = workers.machine(shards)?;
        Ok(Config {
            shards,
            cells: self.cells,
            iterations: self.iterations.iterations,
            repeat: self.repeat.repeat,
            collective: self.collective,
            ahead: self.ahead.unwrap_or(Config::default().ahead),
            workers: workers.count(),
            machine: machine.map(Arc::new),
            mapper: self.on.mapper.clone(),
            bind: workers.bind,
            utility: workers.utility,
            races: self.check.is_some(),
            input: self.input.clone(),
            output: self.output.clone(),
            trace: self.traced.trace.clone(),
        })
    }
}

/// Does the runs and reports them.
pub fn execute(args: &StencilOptions) -> Result<(), Failure> {
    if args.ahead.is_some() && args.collective == Collective::Aggregation {
        let refusal = "--ahead is not for --collective aggregation, where each iteration is a task of its own";
        return Err(Failure::Usage(refusal.into()));
    }
    let files = args.on.files()?.reads("--input", args.input.as_deref());
    files.writes("--output", args.output.as_deref()).writes("--trace", args.traced.trace.as_deref()).check()?;
    let config = args.config()?;
    let mut session = Session::prepare(&config).map_err(failure)?;
    crate::swap::on_signal(&config.mapper)?;
    let mut output = Output::new(args.reported.format);
    let mut reported = Ok(());
    let mut unverified = Vec::new();
    for _ in 0..config.repeat {
        let report = session.run_once().map_err(failure)?;
        if let Some(failure) = &report.failure {
            unverified.push(format!("run {}: {failure}", report.repeat));
        }
        reported = reported.and_then(|()| output.add(report));
        // Files are written all the same.
        if reported.is_err() && args.output.is_none() && args.traced.trace.is_none() {
            return reported;
        }
    }
    reported = reported.and_then(|()| output.finish());
    // A file that can't be written now could be before the first run.
    let written = session.finish().map_err(|e| Failure::Run(e.to_string()))?;
    conclude(config.repeat, &unverified, args.output.as_deref().filter(|_| !written))?;
    reported
}

/// Whether all is well: no run was left unverified. If one was, the output was not written.
fn conclude(runs: usize, unverified: &[String], unwritten: Option<&Path>) -> Result<(), Failure> {
    let Some(first) = unverified.first() else { return Ok(()) };
    let unwritten = unwritten.map_or(String::new(), |path| format!("; {} was not written", path.display()));
    Err(Failure::Run(format!("{} of {runs} runs not verified; {first}{unwritten}", unverified.len())))
}

/// Whose fault it is.
pub fn failure(e: StencilError) -> Failure {
    if e.is_usage() { Failure::Usage(e.to_string()) } else { Failure::Run(e.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unverified_run_is_a_failure_that_names_it() {
        assert!(conclude(3, &[], None).is_ok());
        let unverified = ["run 1: cell 7: wrong".to_owned(), "run 2: cell 7: wrong".to_owned()];
        let Err(Failure::Run(message)) = conclude(3, &unverified, Some(Path::new("out.csv"))) else {
            panic!("exit code 1");
        };
        assert_eq!(message, "2 of 3 runs not verified; run 1: cell 7: wrong; out.csv was not written");
    }
}
