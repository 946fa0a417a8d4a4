//! The rule for noise: which measurements count, and the warnings about a disturbed host.
//!
//! Other programs take processors away, and a virtual machine may move its processors apart. Both show in the
//! [yardstick](super::yardstick) beside a measurement: the time of a cache line. A measurement counts if its yardstick is near the
//! usual one. If too few count, all of them do, and the result is called disturbed. A doubtful figure is better than one
//! chosen from a handful.
//!
//! Commands choose how near it must be, as a [`Noise`]:
//!
//! | command | within a factor of | on a busy host | outliers |
//! |---|---|---|---|
//! | `benchmarks` | 1.5: targets are in yardsticks, so an error of the yardstick is an error of the target | disturbed | kept |
//! | `calibrate`, `predict` | 2.5: few prices depend on the yardstick; it tells near processors from distant ones | a warning | kept |
//! | `weak-scaling` | any: both versions take the same turns | a warning | dropped |
//!
//! `allreduce`, `barrier`, `gang` and `cache-line` report the yardstick of each run, and keep all runs. They warn by the rule
//! of `benchmarks`. `stencil` and `collective` warn of a busy host.

use super::stats::{microseconds, middle, quantile, sorted};

/// A measurement, and the time of a cache line beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside<T> {
    /// The measurement.
    pub found: T,
    /// Nanoseconds; NaN with one processor. `None` if the result does not depend on the yardstick.
    pub cache_line_ns: Option<f64>,
}

/// The rule, with the choices of a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// The factor by which the yardstick beside a measurement may differ from the usual one; `None` for any factor.
    pub within: Option<f64>,
    /// Whether measurements count if even the usual yardstick shows a busy host.
    pub busy_counts: bool,
    /// Whether outliers among the values that count are dropped.
    pub drops_outliers: bool,
}

/// The rule where measurements are compared in yardsticks: an error of the one is an error of the other.
pub const IN_YARDSTICKS: Noise = Noise { within: Some(1.5), busy_counts: false, drops_outliers: false };

/// The measurements that count.
#[derive(Debug, Clone, PartialEq)]
pub struct Sifted<'a, T> {
    /// The measurements; all of them if disturbed.
    pub kept: Vec<&'a T>,
    /// Whether too few had a yardstick near the usual one.
    pub disturbed: bool,
}

impl Noise {
    /// Whether a measurement counts, by the yardstick beside it. It does if one of the yardsticks is missing.
    pub fn counts(self, cache_line_ns: Option<f64>, usual_ns: Option<f64>) -> bool {
        let Some((yardstick, usual)) = cache_line_ns.zip(usual_ns) else { return true };
        let near = |factor| yardstick <= usual * factor && yardstick * factor >= usual;
        (self.busy_counts || !is_busy(usual)) && self.within.is_none_or(near)
    }

    /// The measurements that count.
    pub fn quiet<T>(self, all: &[Beside<T>], usual_ns: Option<f64>) -> impl Iterator<Item = &T> {
        all.iter().filter(move |one| self.counts(one.cache_line_ns, usual_ns)).map(|one| &one.found)
    }

    /// The measurements that count, or all of them if fewer than half of the number `asked` for count.
    pub fn sift<T>(self, all: &[Beside<T>], usual_ns: Option<f64>, asked: usize) -> Sifted<'_, T> {
        let quiet: Vec<&T> = self.quiet(all, usual_ns).collect();
        let disturbed = 2 * quiet.len() < asked;
        Sifted { kept: if disturbed { all.iter().map(|one| &one.found).collect() } else { quiet }, disturbed }
    }

    /// The spread of values that count.
    pub fn spread(self, values: impl IntoIterator<Item = f64>) -> Spread {
        if self.drops_outliers { Spread::without_outliers(values) } else { Spread::of(values) }
    }
}

/// The usual yardstick: the median, or the lower of the middle two. `None` if there are none.
///
/// It is a yardstick that was measured. If a host changes between two states, the mean of the middle two is near neither.
pub fn usual_ns(yardsticks: impl IntoIterator<Item = f64>) -> Option<f64> {
    let yardsticks = sorted(yardsticks.into_iter().filter(|ns| !ns.is_nan()));
    yardsticks.get(yardsticks.len().saturating_sub(1) / 2).copied()
}

/// The longest yardstick, in nanoseconds, that a distance between processors explains. If it takes longer, other programs are
/// running.
const BUSY_NS: f64 = 1000.0;

/// Whether a yardstick shows a host that other programs keep busy.
pub fn is_busy(cache_line_ns: f64) -> bool {
    cache_line_ns > BUSY_NS
}

/// The warning about a busy host, if it is one.
pub fn busy(cache_line_ns: f64) -> Option<String> {
    is_busy(cache_line_ns).then(|| {
        format!(
            "a cache line took {} µs from one processor to another: other programs were running, so the times include \
             the scheduler's",
            microseconds(cache_line_ns / 1000.0)
        )
    })
}

/// The warning about a disturbed host, if it was one, by the yardsticks beside some runs.
pub fn disturbed(yardsticks: &[f64]) -> Option<String> {
    let usual = usual_ns(yardsticks.iter().copied())?;
    let all: Vec<Beside<()>> = yardsticks.iter().map(|&ns| Beside { found: (), cache_line_ns: Some(ns) }).collect();
    let sifted = IN_YARDSTICKS.sift(&all, Some(usual), all.len());
    let apart = IN_YARDSTICKS.within.filter(|_| sifted.disturbed).map(|factor| {
        format!(
            "in more than half of the runs a cache line took longer or shorter than usual, by more than a factor of {factor}: \
             other programs were running, or the host's processors were moved"
        )
    });
    busy(usual).or(apart)
}

/// Warns of a busy host on stderr.
pub fn warn_if_busy(cache_line_ns: f64) {
    busy(cache_line_ns).into_iter().for_each(crate::warn);
}

/// The smallest, the median and the largest of samples. All are NaN without samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The median; of an even number of samples, the mean of the middle two.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// Samples kept.
    pub kept: usize,
    /// Samples dropped as outliers.
    pub dropped: usize,
}

/// The rule by which outliers are dropped, for reports.
pub const OUTLIER_RULE: &str = "outliers are samples more than 3 interquartile ranges below the first or above the third \
                                quartile (Tukey's outer fences; quartiles by linear interpolation)";

impl Spread {
    /// The spread of all samples.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Self {
        Self::of_sorted(sorted(samples), 0)
    }

    /// The spread without outliers, by Tukey's outer fences. The inner fences, at 1.5 interquartile ranges, would cut into
    /// the long upper tail that times have by nature.
    fn without_outliers(samples: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted = sorted(samples);
        let all = sorted.len();
        let (first, third) = (quantile(&sorted, 0.25), quantile(&sorted, 0.75));
        // A sample on a fence stays, however the fence is rounded.
        let rounding = 1e-12 * first.abs().max(third.abs());
        let (low, high) = (first - 3.0 * (third - first) - rounding, third + 3.0 * (third - first) + rounding);
        sorted.retain(|sample| (low..=high).contains(sample));
        let dropped = all - sorted.len();
        Self::of_sorted(sorted, dropped)
    }

    fn of_sorted(sorted: Vec<f64>, dropped: usize) -> Self {
        let end = |sample: Option<&f64>| sample.copied().unwrap_or(f64::NAN);
        let (min, max, kept) = (end(sorted.first()), end(sorted.last()), sorted.len());
        Self { min, median: middle(&sorted), max, kept, dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN_TWO: Noise = Noise { within: Some(2.0), busy_counts: false, drops_outliers: false };

    /// Pairs of a measurement and its yardstick.
    fn beside(all: &[(u32, f64)]) -> Vec<Beside<u32>> {
        all.iter().map(|&(found, ns)| Beside { found, cache_line_ns: Some(ns) }).collect()
    }

    /// By the logarithms, which the rule does not take: a yardstick is near if they differ by ln 2 at most.
    #[test]
    fn measurements_count_that_are_near_the_usual_yardstick_on_either_side() {
        let yardsticks = [1.0, 24.9, 25.1, 49.0, 50.0, 51.0, 99.9, 100.1, 900.0, 2100.0];
        for usual in [1.0, 50.0, 999.0] {
            for ns in yardsticks {
                let near = (f64::ln(ns) - f64::ln(usual)).abs() < 2_f64.ln();
                assert_eq!(WITHIN_TWO.counts(Some(ns), Some(usual)), near, "{ns} beside {usual}");
            }
        }
        // Without a usual yardstick, and with one processor, where the usual yardstick is of several.
        assert!(WITHIN_TWO.counts(None, Some(50.0)) && WITHIN_TWO.counts(Some(9e9), None));
        assert!(!WITHIN_TWO.counts(Some(f64::NAN), Some(50.0)));
        // Where any distance will do, and where the host is busy.
        assert!(Noise { within: None, ..WITHIN_TWO }.counts(Some(9e9), Some(50.0)));
        assert!(!WITHIN_TWO.counts(Some(1001.0), Some(1001.0)) && WITHIN_TWO.counts(Some(1000.0), Some(1000.0)));
        assert!(Noise { busy_counts: true, ..WITHIN_TWO }.counts(Some(1001.0), Some(1001.0)));
    }

    #[test]
    fn with_fewer_than_half_all_count_and_are_disturbed() {
        let all = beside(&[(1, 50.0), (2, 500.0), (3, 60.0), (4, 5.0)]);
        let sifted = |asked| WITHIN_TWO.sift(&all, Some(50.0), asked);
        assert_eq!(sifted(4), Sifted { kept: vec![&1, &3], disturbed: false });
        assert_eq!(sifted(5), Sifted { kept: vec![&1, &2, &3, &4], disturbed: true });
        assert_eq!(WITHIN_TWO.sift::<u32>(&[], None, 0), Sifted { kept: vec![], disturbed: false });
        assert!(WITHIN_TWO.sift::<u32>(&[], None, 1).disturbed);
    }

    /// A host whose processors are near each other half of the time and then far apart: 20 ns and 200 ns.
    #[test]
    fn the_usual_yardstick_is_one_that_there_was() {
        for runs in 1..20 {
            let yardsticks: Vec<f64> = (0..runs).map(|i| if i % 2 == 0 { 200.0 } else { 20.0 }).collect();
            // At least half are no longer and at least half no shorter, and the shorter one is taken where both are.
            let expected = if runs % 2 == 0 { 20.0 } else { 200.0 };
            assert_eq!(usual_ns(yardsticks), Some(expected), "{runs}");
        }
        assert_eq!(usual_ns([f64::NAN, 7.0, f64::NAN]), Some(7.0));
        assert_eq!(usual_ns([f64::NAN]), None);
    }

    #[test]
    fn a_busy_host_is_said_to_be_one() {
        assert_eq!(busy(1000.0).or(busy(f64::NAN)), None);
        assert!(busy(12_340.0).is_some_and(|said| said.starts_with("a cache line took 12.34 µs")));
    }

    #[test]
    fn runs_on_a_disturbed_host_are_said_to_be_so() {
        let quiet = [50.0, 55.0, 60.0, 500.0];
        assert_eq!(disturbed(&quiet).or(disturbed(&[])).or(disturbed(&[f64::NAN])), None);
        assert!(disturbed(&[20.0, 200.0, 2.0]).is_some_and(|said| said.starts_with("in more than half of the runs")));
        assert!(disturbed(&[50.0, 2000.0, 2100.0]).is_some_and(|said| said.starts_with("a cache line took 2.000 µs")));
    }

    #[test]
    fn outliers_are_dropped_where_the_rule_says_so() {
        let values = [7.0, 7.0, 7.0, 7.0, 9.0];
        let spread = |drops_outliers| Noise { drops_outliers, ..WITHIN_TWO }.spread(values);
        assert_eq!(spread(true), Spread { min: 7.0, median: 7.0, max: 7.0, kept: 4, dropped: 1 });
        assert_eq!(spread(false), Spread { min: 7.0, median: 7.0, max: 9.0, kept: 5, dropped: 0 });
    }

    #[test]
    fn outliers_are_beyond_the_outer_fences() {
        // Quartiles 2 and 4, so the fences are at -4 and 10: 10 stays, 10.5 goes.
        let spread = |last: f64| Spread::without_outliers([last, 3.0, 1.0, 4.0, 2.0]);
        assert_eq!(spread(10.0), Spread { min: 1.0, median: 3.0, max: 10.0, kept: 5, dropped: 0 });
        assert_eq!(spread(10.5), Spread { min: 1.0, median: 2.5, max: 4.0, kept: 4, dropped: 1 });
        // Quartiles 11 and 13: 5 is on the fence, 4 beyond it.
        let spread = |first: f64| Spread::without_outliers([11.0, 12.0, first, 13.0, 14.0]);
        assert_eq!(spread(5.0).min, 5.0);
        assert_eq!((spread(4.0).min, spread(4.0).dropped), (11.0, 1));
        // Quartiles between samples: 1.75 and 3.25, fences at -2.75 and 7.75.
        assert_eq!(Spread::without_outliers([1.0, 2.0, 3.0, 4.0]).kept, 4);
        assert_eq!([quantile(&[1.0, 2.0, 3.0, 4.0], 0.25), quantile(&[1.0, 2.0, 3.0, 4.0], 0.75)], [1.75, 3.25]);
        // On the fence in any unit.
        for unit in 1..1000 {
            assert_eq!(
                Spread::without_outliers([2, 3, 4, 1, 10].map(|n| f64::from(n * unit) / 1000.0)).kept,
                5,
                "{unit}"
            );
        }
        // If most are the same, anything else is an outlier.
        assert_eq!(Spread::without_outliers([7.0, 7.0, 7.0, 7.0, 7.1]).dropped, 1);
        assert_eq!(Spread::without_outliers([7.0]), Spread { min: 7.0, median: 7.0, max: 7.0, kept: 1, dropped: 0 });
        let none = Spread::without_outliers([]);
        assert!(none.min.is_nan() && none.median.is_nan() && none.max.is_nan() && (none.kept, none.dropped) == (0, 0));
    }
}
