//! `maniple weak-scaling`.

mod fit;
mod page;
mod plan;
mod plots;
mod point;
mod report;
mod table;

use crate::Failure;
use crate::options::help::exit_codes;
use crate::options::numbers::count;
use crate::options::workers::OnWorkers;
use crate::options::{Cells, GrowingShards, Iterations, Repeat, Reported};
use crate::output::{Output, progress};
use indicatif::ProgressBar;
use maniple_stencil::{Collective, Config};
use plan::Plan;
use point::Point;
use report::Report;
use std::path::PathBuf;

/// The stencil over growing numbers of shards, with a collective and with the aggregation baseline in turns
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
For each number of shards both versions of the stencil run in turns, and the one that goes first in a pair of runs goes \
second in the next. Every run is verified. What is reported, as minimum, median and maximum over all runs, in \
microseconds:
  collective  one collective inside the application: on shard 0, from its local sum to the total
  iteration   one iteration of the application: on shard 0, from one total to the next
  baseline    one iteration of the version with the aggregation region
  ratio       for each pair of runs, the median iteration of the baseline divided by the median iteration
With more shards than workers shard 0 is early in every other iteration and late in those between; a sample is then the \
mean of two iterations, one after the other. The first --warmup iterations of each run are not counted. Of the rest, outliers are dropped and their number reported: \
what lies more than 3 interquartile ranges below the first or above the third quartile (Tukey's outer fences; quartiles \
by linear interpolation).

The summary (JSON, CSV) has a line for each number of shards, in whose columns are the four of above with:
  _us_min, _us_median, _us_max; ratio_min, ratio_median, ratio_max   what is left after outliers are dropped
  _kept, _dropped   samples that are left, and outliers
  exchange_ns       median over the pairs of the exchange of a cache line between two threads before each, one way; none \
with one processor
In samples.csv a line is one iteration of one run of one version, and in samples.jsonl one run:
  version           the collective, or aggregation for the baseline
  run               the pair of runs that it belongs to, from 0
  iteration         the number of the iteration, from 0
  warmup            whether it is one of those not counted

With --report the directory gets every sample (samples.csv, samples.jsonl), the summary (summary.csv, summary.json), the \
parameters, the machine and the toolchain, plots (SVG) with the cost model of the collective fitted and extrapolated, and \
a page with all of it (index.html). Samples are written as each run is done and the rest after each number of shards, so \
that an interrupted run leaves what it measured.

", exit_codes!("the arguments or the directory are at fault")))]
#[command(mut_arg("shards", |arg| arg.default_value("1..512")))]
#[command(mut_arg("cells", |arg| arg.help("Cells a shard, at least 4")))]
#[command(mut_arg("repeat", |arg| arg.help("Runs of each version for each number of shards")))]
#[command(mut_arg("format", |arg| {
    let how = "How results are reported: table, at the end; json or csv, a line as soon as a number of shards is measured";
    arg.help(how).hide_possible_values(true)
}))]
pub struct WeakScalingOptions {
    #[command(flatten)]
    shards: GrowingShards,

    #[command(flatten)]
    cells: Cells,

    #[command(flatten)]
    iterations: Iterations,

    /// Iterations at the start of each run that are not counted, fewer than there are [default: a quarter]
    #[arg(long, value_name = "I", value_parser = count, allow_negative_numbers = true)]
    warmup: Option<usize>,

    #[command(flatten)]
    repeat: Repeat,

    /// What is compared with the baseline: recursive-doubling or two-level
    #[arg(long, value_name = "NAME", default_value_t = Config::default().collective, value_parser = compared)]
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
    let legal = "recursive-doubling or two-level";
    match name.parse() {
        Ok(Collective::Aggregation) => Err(format!("expected {legal}, found aggregation: that is the baseline")),
        Ok(collective) => Ok(collective),
        Err(_) => Err(format!("unknown collective `{name}`; expected {legal}")),
    }
}

/// Does the runs and reports them.
pub fn execute(args: &WeakScalingOptions) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    let report = args.report.as_deref();
    args.on.files()?.fills("--report", report).check()?;
    crate::swap::on_signal(&args.on.mapper)?;
    let mut directory = report.map(|path| Report::prepare(path, &plan)).transpose()?;
    let progress = bar(&plan);
    let mut output = Output::new(args.reported.format);
    let mut reported = Ok(());
    let mut points: Vec<Point> = Vec::new();
    let done = plan.counts.iter().try_for_each(|&shards| {
        progress.set_message(format!("{shards} shards"));
        let point = point::point(&plan, shards, |run| {
            // The bar is drawn here only, between runs: a thread that draws would be in the way of the measurement.
            progress.inc(weight(shards));
            directory.as_mut().map_or(Ok(()), |directory| directory.keep(&plan, run))
        })?;
        if reported.is_ok() {
            reported = progress.suspend(|| output.add(point.record(&plan)));
        }
        points.push(point);
        match &directory {
            Some(directory) => directory.publish(&plan, &points, &plots::fits(&plan, &points)),
            None => std::mem::replace(&mut reported, Ok(())),
        }
    });
    progress.finish_and_clear();
    let finish = || output.finish_with(|_| table::table(&plan, &points, &plots::fits(&plan, &points), report));
    reported = reported.and_then(|()| finish());
    done?;
    conclude(&points)?;
    reported
}

/// All is well if every run was verified.
fn conclude(points: &[Point]) -> Result<(), Failure> {
    let mut failures = points.iter().filter_map(|p| p.failure.as_deref());
    match failures.next() {
        None => Ok(()),
        Some(first) => {
            let (wrong, all) = (1 + failures.count(), points.len());
            Err(Failure::Run(format!("runs not verified at {wrong} of {all} numbers of shards; {first}")))
        }
    }
}

/// How long a run takes, about, in the time for a shard: it has a part that is the same for any number of shards.
fn weight(shards: usize) -> u64 {
    64 + shards as u64
}

/// A bar for all runs.
fn bar(plan: &Plan) -> ProgressBar {
    let runs = 2 * plan.config.repeat as u64;
    let length = plan.counts.iter().fold(0_u64, |sum, &shards| sum.saturating_add(runs.saturating_mul(weight(shards))));
    progress(length, "{elapsed_precise} [{bar:40}] {percent:>3}% {msg}, {eta} to go")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unverified_run_is_a_failure_that_every_report_names() {
        let (mut plan, mut runs) = point::tests::example();
        let good = Point::of(&plan, 4, &runs);
        assert!(conclude(std::slice::from_ref(&good)).is_ok());
        (runs[3].verified, runs[3].failure) = (false, Some("√S: 1 < 2".into()));
        let points = [good, Point::of(&plan, 4, &runs)];
        plan.counts = vec![4, 4];
        let Err(Failure::Run(message)) = conclude(&points) else { panic!("exit code 1") };
        let named = "4 shards, recursive-doubling, run 1: √S: 1 < 2";
        assert_eq!(message, format!("runs not verified at 1 of 2 numbers of shards; {named}"));
        assert!(table::table(&plan, &points, &[], None).contains(" NO "));

        let directory = std::env::temp_dir().join(format!("maniple-unverified-{}", std::process::id()));
        Report::prepare(&directory, &plan).and_then(|d| d.publish(&plan, &points, &[])).expect("written");
        let page = std::fs::read_to_string(directory.join("index.html")).expect("a page");
        std::fs::remove_dir_all(&directory).expect("removed");
        assert!(page.contains(&named.replace('<', "&lt;")) && page.contains("<span class=\"bad\">NO</span>"), "{page}");
        assert!(!page.contains("were verified.") && !page.contains("Not complete"), "{page}");
    }

    #[test]
    fn a_machine_that_is_not_up_to_it_is_mentioned() {
        let (mut plan, mut runs) = point::tests::example();
        plan.config.workers = 1;
        let caveats =
            |plan: &Plan, runs: &[crate::measure::samples::Run]| plan.caveats(&[Point::of(plan, 4, runs)], &[]);
        assert!(caveats(&plan, &runs).is_empty());
        runs.iter_mut().for_each(|run| run.exchange_ns = 12_340.0);
        let found = caveats(&plan, &runs);
        assert!(found.len() == 1 && found[0].starts_with("a cache line took 12.34 µs"), "{found:?}");
        plan.config.workers = 1 << 20;
        assert!(caveats(&plan, &runs)[0].starts_with("1048576 workers take turns on "));
        let point = Point { collective: point::NOISE.spread([1.0]), ..Point::of(&plan, 4, &runs) };
        assert!(plots::fits(&plan, &[point]).is_empty());
        // T/log₂P is 1 and 4: both are off by a factor of 2.
        let fit = fit::Fit::of(fit::Model::Spread, &[(2, 1.0), (4, 8.0)], 4).expect("a fit");
        let found = plan.caveats(&[], &[fit]);
        assert!(found[1].starts_with("T = α′·log₂P does not fit: points are off by a factor of 2.00"), "{found:?}");
    }
}
