//! Runs of both versions in turns, and their results for one number of shards.

use super::sweep::Sweep;
use crate::Failure;
use crate::measure::noise::{Noise, Spread};
use crate::measure::samples::RunSamples;
use crate::measure::stats::median;
use crate::measure::turns::{Order, Rounds, When, counted};
use crate::measure::yardstick::Yardstick;
use crate::output::{Field, Record};
use crate::stencil::session::{Config, Session};
use maniple_stencil::{Collective, plural};

/// All runs with one number of shards.
#[derive(Debug, Clone)]
pub struct Point {
    /// The number of shards.
    pub shards: usize,
    /// The number of runs of both versions.
    pub runs: usize,
    /// The fault of the first run that was not verified.
    pub failure: Option<String>,
    /// One collective inside the application.
    pub collective: Spread,
    /// One iteration of the application.
    pub iteration: Spread,
    /// One iteration of the baseline.
    pub baseline: Spread,
    /// For each pair of runs, the baseline's median iteration divided by the application's.
    pub ratio: Spread,
    /// Median of the yardsticks.
    pub cache_line_ns: f64,
}

/// The median of the yardstick over the points; NaN if it was not measured.
pub fn cache_line_ns(points: &[Point]) -> f64 {
    median(points.iter().map(|p| p.cache_line_ns).filter(|e| !e.is_nan()))
}

/// The rule for rounds. All of them count, since both versions had the same host. A busy host is a warning. Outliers are
/// dropped.
pub const NOISE: Noise = Noise { within: None, busy_counts: true, drops_outliers: true };

/// Runs both versions in turns. The version that goes first in a pair goes second in the next. Hands each run to `keep` as soon
/// as it is done.
pub fn point(
    sweep: &Sweep,
    shards: usize,
    mut keep: impl FnMut(&RunSamples) -> Result<(), Failure>,
) -> Result<Point, Failure> {
    let session = |collective| {
        let at = sweep.counts.iter().position(|&count| count == shards);
        let machine = at.and_then(|at| sweep.machines.get(at)?.clone());
        let config = Config { shards, collective, machine, ..sweep.config.clone() };
        Session::prepare(&config)
    };
    let mut sessions = [session(sweep.config.collective)?, session(Collective::Aggregation)?];
    let mut runs = Vec::new();
    let mut turns = Rounds::new(Order::Swapped);
    // Several processes would measure at the same time.
    if sweep.machine().is_none() && sweep.config.processes.is_none() {
        turns = turns.beside(When::BeforeRound, Yardstick::Host);
    }
    for _ in 0..sweep.config.repeat {
        let run_once = |session: &mut Session| session.run_once();
        turns.take(&mut sessions, run_once, |turn| {
            let run = RunSamples::new(turn.found, turn.round, turn.cache_line_ns);
            keep(&run)?;
            runs.push(run);
            Ok(())
        })?;
    }
    Ok(Point::of(sweep, shards, &runs))
}

impl Point {
    /// Summarises runs. Runs that are not verified don't count, nor do the first iterations of each run.
    pub fn of(sweep: &Sweep, shards: usize, runs: &[RunSamples]) -> Self {
        let workers = sweep.config.processors();
        let counted = |samples: &[f64]| counted(samples, sweep.warmup, shards, workers);
        let of_version = |version| runs.iter().filter(move |r| r.version == version && r.verified);
        let spread = |version, samples: fn(&RunSamples) -> &[f64]| {
            NOISE.spread(of_version(version).flat_map(|r| counted(samples(r))))
        };
        let iteration = |r: &RunSamples| median(counted(&r.iteration_us));
        let ours = sweep.config.collective;
        let ratios = of_version(ours).filter_map(|r| {
            let baseline = of_version(Collective::Aggregation).find(|b| b.run == r.run)?;
            Some(iteration(baseline) / iteration(r))
        });
        let unverified = runs.iter().find(|r| !r.verified);
        Self {
            shards,
            runs: runs.len(),
            failure: unverified.map(|r| {
                let what = r.failure.as_deref().unwrap_or("not verified");
                format!("{}, {}, run {}: {what}", plural(shards, "shard"), r.version, r.run)
            }),
            collective: spread(ours, |r| &r.collective_us),
            iteration: spread(ours, |r| &r.iteration_us),
            baseline: spread(Collective::Aggregation, |r| &r.iteration_us),
            ratio: NOISE.spread(ratios),
            cache_line_ns: median(runs.iter().map(|r| r.cache_line_ns)),
        }
    }

    /// The metrics with their names, in the order of reports.
    pub fn metrics(&self) -> [(&'static str, Spread); 4] {
        [
            ("collective_us", self.collective),
            ("iteration_us", self.iteration),
            ("baseline_us", self.baseline),
            ("ratio", self.ratio),
        ]
    }

    /// The fields of a line of the report.
    pub fn record(&self, sweep: &Sweep) -> Record {
        let config = &sweep.config;
        let mut record: Record = vec![
            ("program", "weak-scaling".into()),
            ("wire", sweep.wire().into()),
            ("shards", self.shards.into()),
            ("workers", config.processors().into()),
            ("cells", sweep.cells().into()),
            ("iterations", config.iterations.into()),
            ("warmup", sweep.warmup.into()),
            ("repeat", config.repeat.into()),
            ("collective", config.collective.name().into()),
            ("mapper", config.mapper.name().into()),
            ("verified", self.failure.is_none().into()),
        ];
        let names = [
            ["collective_us_min", "collective_us_median", "collective_us_max", "collective_kept", "collective_dropped"],
            ["iteration_us_min", "iteration_us_median", "iteration_us_max", "iteration_kept", "iteration_dropped"],
            ["baseline_us_min", "baseline_us_median", "baseline_us_max", "baseline_kept", "baseline_dropped"],
            ["ratio_min", "ratio_median", "ratio_max", "ratio_kept", "ratio_dropped"],
        ];
        for ([min, middle, max, kept, dropped], (_, spread)) in names.into_iter().zip(self.metrics()) {
            record.extend([(min, spread.min.into()), (middle, spread.median.into()), (max, spread.max.into())]);
            record.extend([(kept, Field::from(spread.kept)), (dropped, spread.dropped.into())]);
        }
        record.push(("cache_line_ns", self.cache_line_ns.into()));
        record
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Two pairs of runs with 4 shards and three iterations, of which the first does not count.
    pub fn example() -> (Sweep, Vec<RunSamples>) {
        let config = Config { repeat: 2, iterations: 3, workers: 4, mapper: Default::default(), ..Config::default() };
        let run = |version, run, iteration: [f64; 3], collective: [f64; 3]| RunSamples {
            shards: 4,
            version,
            run,
            verified: true,
            failure: None,
            cache_line_ns: 40.0 + 20.0 * run as f64,
            iteration_us: iteration.into(),
            collective_us: collective.into(),
        };
        let runs = vec![
            run(Collective::RecursiveDoubling, 0, [90.0, 4.0, 6.0], [30.0, 1.0, 2.0]),
            run(Collective::Aggregation, 0, [900.0, 40.0, 60.0], [300.0, 10.0, 20.0]),
            run(Collective::Aggregation, 1, [900.0, 50.0, 70.0], [300.0, 10.0, 20.0]),
            run(Collective::RecursiveDoubling, 1, [90.0, 2.0, 8.0], [30.0, 3.0, 5.0]),
        ];
        (Sweep { counts: vec![4], machines: vec![None], config, warmup: 1 }, runs)
    }

    #[test]
    fn a_point_summarises_the_samples_that_count() {
        let (sweep, runs) = example();
        let point = Point::of(&sweep, 4, &runs);
        let all = |s: Spread| (s.min, s.median, s.max, s.kept, s.dropped);
        assert_eq!(all(point.collective), (1.0, 2.5, 5.0, 4, 0));
        assert_eq!(all(point.iteration), (2.0, 5.0, 8.0, 4, 0));
        assert_eq!(all(point.baseline), (40.0, 55.0, 70.0, 4, 0));
        // 50 / 5 and 60 / 5.
        assert_eq!(all(point.ratio), (10.0, 11.0, 12.0, 2, 0));
        assert_eq!((point.runs, point.failure, point.cache_line_ns), (4, None, 50.0));

        // Where shards share workers, 1 and 2 in one run and 3 and 5 in the other are one sample each.
        let shared = Sweep { config: Config { workers: 3, ..sweep.config }, ..sweep };
        let point = Point::of(&shared, 4, &runs);
        assert_eq!(all(point.collective), (1.5, 2.75, 4.0, 2, 0));
        assert_eq!(all(point.ratio), (10.0, 11.0, 12.0, 2, 0));
    }

    #[test]
    fn an_unverified_run_does_not_count_and_is_named() {
        let (sweep, mut runs) = example();
        assert_eq!(cache_line_ns(&[Point::of(&sweep, 4, &runs)]), 50.0);
        (runs[2].verified, runs[2].failure) = (false, Some("cell 7: wrong".into()));
        let point = Point::of(&sweep, 4, &runs);
        assert_eq!((point.baseline.max, point.baseline.kept), (60.0, 2));
        assert_eq!((point.ratio.median, point.ratio.kept), (10.0, 1));
        assert_eq!(point.failure.as_deref(), Some("4 shards, aggregation, run 1: cell 7: wrong"));
        let record = point.record(&sweep);
        assert!(record.contains(&("verified", false.into())), "{record:?}");
        // Without any verified run of a version there is nothing to report, and it is no panic.
        runs[1].verified = false;
        let point = Point::of(&sweep, 4, &runs);
        assert!(point.baseline.median.is_nan() && point.ratio.median.is_nan() && point.iteration.median == 5.0);
    }
}
