//! Statistics over several runs, and figures for people.

/// The median; of an even number of values, the mean of the middle two. NaN without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    middle(&sorted(values))
}

/// The median of sorted values.
pub fn middle(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n => (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
    }
}

/// Values in order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// A quantile of samples, linearly between the two nearest. NaN without samples.
pub fn quantile_of(samples: &[f64], q: f64) -> f64 {
    quantile(&sorted(samples.iter().copied()), q)
}

/// The time on a host that is not disturbed: the lower decile of the samples.
///
/// Other programs can only make a host slower. If they run for about half of the time, the median is sometimes with them and
/// sometimes without. The lower decile of twenty samples is without them, and a single sample that is too short does not
/// move it far.
pub fn undisturbed(samples: &[f64]) -> f64 {
    quantile_of(samples, 0.1)
}

/// A quantile of sorted samples, linearly between the two nearest. NaN without samples.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = q * last as f64;
    let below = sorted[place.floor() as usize];
    below + place.fract() * (sorted[place.ceil() as usize] - below)
}

/// Microseconds with three digits or more, or in powers of ten if there is hardly anything; `-` for NaN.
pub fn microseconds(us: f64) -> String {
    match us {
        us if us.is_nan() => "-".into(),
        us if 0.0 < us && us < 0.0005 => format!("{us:.1e}"),
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
    fn microseconds_keep_three_digits() {
        let written = [0.0524, 1.5, 12.345, 123.45, 12345.6, f64::NAN, 0.0, 3.21e-16].map(microseconds);
        assert_eq!(written, ["0.052", "1.500", "12.35", "123.5", "12346", "-", "0.000", "3.2e-16"]);
    }
}
