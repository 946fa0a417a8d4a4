//! `maniple weak-scaling`.

mod fit;
mod page;
mod plots;
mod point;
mod report;
mod sweep;
mod table;

use crate::Failure;
use crate::machines::reduced::warn_without_costs;
use crate::options::help::exit_codes;
use crate::options::numbers::count;
use crate::options::workers::OnWorkers;
use crate::options::{Cells, GrowingShards, Iterations, Repeat, Reported};
use crate::output::{Output, progress};
use indicatif::ProgressBar;
use maniple::runtime::Runtime;
use maniple_stencil::{Collective, plural};
use point::Point;
use report::Report;
use std::path::PathBuf;
use sweep::Sweep;

/// Measure the stencil as the number of shards grows, with a collective and with the aggregation baseline
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
For each number of shards both versions of the stencil run in turns. The version that goes first in a pair of runs goes second \
in the next pair. Every run is verified.

The report has the minimum, median and maximum of:
  collective  one collective inside the application, in microseconds: on shard 0, from its local sum to the total
  iteration   one iteration of the application, in microseconds: on shard 0, from one total to the next
  baseline    one iteration of the aggregation version, in microseconds
  ratio       for each pair of runs, the baseline's median iteration divided by the application's
With more shards than workers, shard 0 is early in every other iteration and late in those between. So a sample is then the \
mean of two iterations, one after the other. The first --warmup iterations of each run do not count.

Outliers are dropped, and their number is reported. They are samples more than 3 interquartile ranges below the first or above \
the third quartile (Tukey's outer fences; quartiles by linear interpolation).

JSON and CSV have a line for each number of shards. For each of the four above, columns end in:
  _min, _median, _max   statistics without outliers; times have the unit before it, as in collective_us_min
  _kept, _dropped       number of samples kept, and of outliers
  cache_line_ns         (a column of its own) the time of a cache line between two threads, one way, before each pair of \
runs: the median. It is empty with one processor

With --report, the directory gets:
  index.html                     a page with all results
  samples.csv, samples.jsonl     every sample: a line for each iteration, or for each run
  summary.csv, summary.json      the results
  parameters.json, machine.json  the options, and the machine with the toolchain
  collective.svg, metrics.svg, ratio.svg
                                 plots, with the fitted and extrapolated cost model of the collective
Samples are written after each run, and the other files after each number of shards. So an interrupted run leaves its results.

Columns of samples.csv:
  version    the collective, or aggregation for the baseline
  run        the number of the pair of runs, from 0
  iteration  the number of the iteration, from 0
  warmup     whether the iteration does not count

", exit_codes!("the arguments or the directory are at fault")))]
#[command(mut_arg("shards", |arg| arg.default_value("1..512")))]
#[command(mut_arg("cells", |arg| arg.help("Cells of each shard, at least 4")))]
#[command(mut_arg("repeat", |arg| arg.help("Number of runs of each version with each number of shards")))]
#[command(mut_arg("format", |arg| {
    let how = "Format of the report: table, at the end; json or csv, a line as soon as a number of shards is measured";
    arg.help(how).hide_possible_values(true)
}))]
pub struct WeakScalingOptions {
    #[command(flatten)]
    shards: GrowingShards,

    #[command(flatten)]
    cells: Cells,

    #[command(flatten)]
    iterations: Iterations,

    /// Iterations at the start of each run that do not count, fewer than --iterations [default: a quarter of them]
    #[arg(long, value_name = "I", value_parser = count, allow_negative_numbers = true)]
    warmup: Option<usize>,

    #[command(flatten)]
    repeat: Repeat,

    /// Algorithm that is compared with the baseline: recursive-doubling or two-level
    #[arg(long, value_name = "NAME", default_value_t, value_parser = compared)]
    collective: Collective,

    #[command(flatten)]
    on: OnWorkers,

    /// Write samples, summary, plots and a page to this directory, which must be new or empty
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,

    #[command(flatten)]
    reported: Reported,
}

/// A collective that is not the baseline.
fn compared(name: &str) -> Result<Collective, String> {
    let compared = Collective::ALL.iter().filter(|collective| **collective != Collective::Aggregation);
    let compared = compared.map(|collective| collective.name()).collect::<Vec<_>>().join(", ");
    match name.parse() {
        Ok(Collective::Aggregation) => Err(format!("aggregation is the baseline; expected one of {compared}")),
        Ok(collective) => Ok(collective),
        Err(_) => Err(format!("unknown collective `{name}`; expected one of {compared}")),
    }
}

/// Does the runs and reports them.
pub fn execute(args: &WeakScalingOptions) -> Result<(), Failure> {
    let sweep = Sweep::new(args)?;
    // The first of several processes writes it.
    let report = args.report.as_deref().filter(|_| Runtime::process_number() == 0);
    args.on.files()?.fills("--report", report).check()?;
    crate::swap::on_signal(&args.on.mapper)?;
    let mut directory = report.map(|path| Report::prepare(path, &sweep)).transpose()?;
    sweep.machine().into_iter().for_each(warn_without_costs);
    let progress = bar(&sweep);
    let mut output = Output::new(args.reported.format);
    let mut reported = Ok(());
    let mut points: Vec<Point> = Vec::new();
    let done = sweep.counts.iter().try_for_each(|&shards| {
        progress.set_message(plural(shards, "shard"));
        let point = point::point(&sweep, shards, |run| {
            // The bar is drawn only here, between runs: a thread that draws would disturb the measurement.
            progress.inc(weight(shards));
            directory.as_mut().map_or(Ok(()), |directory| directory.keep(&sweep, run))
        })?;
        if reported.is_ok() {
            reported = progress.suspend(|| output.add(point.record(&sweep)));
        }
        points.push(point);
        match &directory {
            Some(directory) => directory.publish(&sweep, &points, &plots::fits(&sweep, &points)),
            None => std::mem::replace(&mut reported, Ok(())),
        }
    });
    progress.finish_and_clear();
    let finish = || output.finish_with(|_| table::table(&sweep, &points, &plots::fits(&sweep, &points), report));
    reported = reported.and_then(|()| finish());
    done?;
    conclude(&points)?;
    reported
}

/// Fails if a run was not verified.
fn conclude(points: &[Point]) -> Result<(), Failure> {
    let mut failures = points.iter().filter_map(|p| p.failure.as_deref());
    match failures.next() {
        None => Ok(()),
        Some(first) => {
            let (wrong, all) = (1 + failures.count(), points.len());
            let all = plural(all, "number");
            Err(Failure::Run(format!("runs not verified at {wrong} of {all} of shards; {first}")))
        }
    }
}

/// The approximate time of a run, in units of the time for a shard. A part of it is the same for any number of shards.
fn weight(shards: usize) -> u64 {
    64 + shards as u64
}

/// The progress bar of all runs.
fn bar(sweep: &Sweep) -> ProgressBar {
    let runs = 2 * sweep.config.repeat as u64;
    let length =
        sweep.counts.iter().fold(0_u64, |sum, &shards| sum.saturating_add(runs.saturating_mul(weight(shards))));
    progress(length, "{elapsed_precise} [{bar:40}] {percent:>3}% {msg}, {eta} to go")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unverified_run_is_a_failure_that_every_report_names() {
        let (mut sweep, mut runs) = point::tests::example();
        let good = Point::of(&sweep, 4, &runs);
        assert!(conclude(std::slice::from_ref(&good)).is_ok());
        (runs[3].verified, runs[3].failure) = (false, Some("√S: 1 < 2".into()));
        let points = [good, Point::of(&sweep, 4, &runs)];
        sweep.counts = vec![4, 4];
        let Err(Failure::Run(message)) = conclude(&points) else { panic!("exit code 1") };
        let named = "4 shards, recursive-doubling, run 1: √S: 1 < 2";
        assert_eq!(message, format!("runs not verified at 1 of 2 numbers of shards; {named}"));
        assert!(table::table(&sweep, &points, &[], None).contains(" NO "));

        let directory = std::env::temp_dir().join(format!("maniple-unverified-{}", std::process::id()));
        Report::prepare(&directory, &sweep).and_then(|d| d.publish(&sweep, &points, &[])).expect("written");
        let page = std::fs::read_to_string(directory.join("index.html")).expect("a page");
        std::fs::remove_dir_all(&directory).expect("removed");
        assert!(page.contains(&named.replace('<', "&lt;")) && page.contains("<span class=\"bad\">NO</span>"), "{page}");
        assert!(!page.contains("were verified.") && !page.contains("Not complete"), "{page}");
    }

    #[test]
    fn a_machine_that_is_not_up_to_it_is_mentioned() {
        let (mut sweep, mut runs) = point::tests::example();
        sweep.config.workers = 1;
        let caveats = |sweep: &Sweep, runs: &[crate::measure::samples::RunSamples]| {
            sweep.caveats(&[Point::of(sweep, 4, runs)], &[])
        };
        assert!(caveats(&sweep, &runs).is_empty());
        runs.iter_mut().for_each(|run| run.cache_line_ns = 12_340.0);
        let found = caveats(&sweep, &runs);
        assert!(found.len() == 1 && found[0].starts_with("a cache line took 12.34 µs"), "{found:?}");
        sweep.config.workers = 1 << 20;
        assert!(caveats(&sweep, &runs)[0].starts_with("1048576 workers take turns on "));
        let point = Point { collective: point::NOISE.spread([1.0]), ..Point::of(&sweep, 4, &runs) };
        assert!(plots::fits(&sweep, &[point]).is_empty());
        // T/log₂P is 1 and 4: both are off by a factor of 2.
        let fit = fit::Fit::of(fit::Model::Spread, &[(2, 1.0), (4, 8.0)], 4).expect("a fit");
        let found = sweep.caveats(&[], &[fit]);
        assert!(found[1].starts_with("T = α′·log₂P does not fit: points are off by a factor of 2.00"), "{found:?}");
    }
}
