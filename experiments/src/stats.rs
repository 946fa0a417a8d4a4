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
    fn microseconds_keep_three_digits() {
        let written = [0.0524, 1.5, 12.345, 123.45, 12345.6, f64::NAN].map(microseconds);
        assert_eq!(written, ["0.052", "1.500", "12.35", "123.5", "12346", "-"]);
    }
}
