//! Figures over several runs, and how figures are written for people.

/// The median; of an even number of values, the mean of the middle two. NaN where there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n => (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
    }
}

/// The smallest, the median and the largest of what is left of samples without their outliers. All are NaN where there
/// are no samples.
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

/// The rule by which [`Spread::of`] drops outliers, for reports.
pub const OUTLIER_RULE: &str = "outliers are what lies more than 3 interquartile ranges below the first or above the \
                                third quartile (Tukey's outer fences; quartiles by linear interpolation)";

impl Spread {
    /// Drops outliers by Tukey's outer fences: the inner ones, at 1.5 interquartile ranges, would cut into the long upper
    /// tail that times have by nature.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let all = sorted.len();
        let (first, third) = (quantile(&sorted, 0.25), quantile(&sorted, 0.75));
        // What is on a fence stays, however the fence is rounded.
        let rounding = 1e-12 * first.abs().max(third.abs());
        let (low, high) = (first - 3.0 * (third - first) - rounding, third + 3.0 * (third - first) + rounding);
        sorted.retain(|sample| (low..=high).contains(sample));
        let end = |sample: Option<&f64>| sample.copied().unwrap_or(f64::NAN);
        Self {
            min: end(sorted.first()),
            median: median(sorted.iter().copied()),
            max: end(sorted.last()),
            kept: sorted.len(),
            dropped: all - sorted.len(),
        }
    }
}

/// A quantile of samples, linearly between the two nearest. NaN where there are none.
pub fn quantile_of(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, q)
}

/// What something takes on a host that is not disturbed: the lower decile of its samples.
///
/// Others can only make a host slower. Where they do so for about half of the time, a median is now with them and now without;
/// the lower decile of twenty samples is without them, and a single one that is too short does not move it far.
pub fn undisturbed(samples: &[f64]) -> f64 {
    quantile_of(samples, 0.1)
}

/// A quantile of sorted samples, linearly between the two nearest. NaN where there are none.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = q * last as f64;
    let below = sorted[place.floor() as usize];
    below + place.fract() * (sorted[place.ceil() as usize] - below)
}

/// Microseconds with three digits or more, `-` where nothing was measured.
pub fn microseconds(us: f64) -> String {
    match us {
        us if us.is_nan() => "-".into(),
        us if us < 10.0 => format!("{us:.3}"),
        us if us < 100.0 => format!("{us:.2}"),
        us if us < 1000.0 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median([]).is_nan());
    }

    #[test]
    fn an_undisturbed_sample_is_neither_a_slow_one_nor_a_single_fast_one() {
        // The third of 21, in any order.
        let samples: Vec<f64> = (0..21).map(|i| f64::from((i * 8) % 21)).collect();
        assert_eq!(undisturbed(&samples), 2.0);
        assert_eq!(undisturbed(&[[7.0; 3].as_slice(), &[10.0; 18]].concat()), 7.0);
        assert_eq!(undisturbed(&[[1.0].as_slice(), &[7.0; 4], &[10.0; 16]].concat()), 7.0);
        assert_eq!(undisturbed(&[5.0]), 5.0);
        assert!(undisturbed(&[]).is_nan());
    }

    #[test]
    fn outliers_are_beyond_the_outer_fences() {
        // Quartiles 2 and 4, so the fences are at -4 and 10: 10 stays, 10.5 goes.
        let spread = |last: f64| Spread::of([last, 3.0, 1.0, 4.0, 2.0]);
        assert_eq!(spread(10.0), Spread { min: 1.0, median: 3.0, max: 10.0, kept: 5, dropped: 0 });
        assert_eq!(spread(10.5), Spread { min: 1.0, median: 2.5, max: 4.0, kept: 4, dropped: 1 });
        // Quartiles 11 and 13: 5 is on the fence, 4 beyond it.
        let spread = |first: f64| Spread::of([11.0, 12.0, first, 13.0, 14.0]);
        assert_eq!(spread(5.0).min, 5.0);
        assert_eq!((spread(4.0).min, spread(4.0).dropped), (11.0, 1));
        // Quartiles between samples: 1.75 and 3.25, fences at -2.75 and 7.75.
        assert_eq!(Spread::of([1.0, 2.0, 3.0, 4.0]).kept, 4);
        assert_eq!([quantile(&[1.0, 2.0, 3.0, 4.0], 0.25), quantile(&[1.0, 2.0, 3.0, 4.0], 0.75)], [1.75, 3.25]);
        // On the fence in any unit.
        for unit in 1..1000 {
            assert_eq!(Spread::of([2, 3, 4, 1, 10].map(|n| f64::from(n * unit) / 1000.0)).kept, 5, "{unit}");
        }
        // Where most are alike, anything else is an outlier.
        assert_eq!(Spread::of([7.0, 7.0, 7.0, 7.0, 7.1]).dropped, 1);
        assert_eq!(Spread::of([7.0]), Spread { min: 7.0, median: 7.0, max: 7.0, kept: 1, dropped: 0 });
        let none = Spread::of([]);
        assert!(none.min.is_nan() && none.median.is_nan() && none.max.is_nan() && (none.kept, none.dropped) == (0, 0));
    }

    #[test]
    fn microseconds_keep_three_digits() {
        let written = [0.0524, 1.5, 12.345, 123.45, 12345.6, f64::NAN].map(microseconds);
        assert_eq!(written, ["0.052", "1.500", "12.35", "123.5", "12346", "-"]);
    }
}
