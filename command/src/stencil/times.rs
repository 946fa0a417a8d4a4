//! Summaries of times.

use crate::measure::stats::{middle, sorted};
use serde_json::Value;

/// A summary of times, in microseconds. Without samples all of them are NaN, in JSON `null`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// The smallest.
    pub min: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The median; of an even number of samples, the mean of the middle two.
    pub median: f64,
    /// The 99th percentile by nearest rank: the smallest sample that at least 99% do not exceed. With fewer than 100
    /// samples it is the largest.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Times {
    /// The names of the statistics, in the order of columns.
    pub const NAMES: [&str; 5] = ["min", "mean", "median", "p99", "max"];

    /// Summarises samples.
    pub fn of(samples: &[f64]) -> Self {
        let n = samples.len();
        if n == 0 {
            return Self { min: f64::NAN, mean: f64::NAN, median: f64::NAN, p99: f64::NAN, max: f64::NAN };
        }
        let sorted = sorted(samples.iter().copied());
        Self {
            min: sorted[0],
            mean: sorted.iter().sum::<f64>() / n as f64,
            median: middle(&sorted),
            p99: sorted[(n * 99).div_ceil(100) - 1],
            max: sorted[n - 1],
        }
    }

    /// The statistics, in the order of their names.
    pub fn all(&self) -> [f64; 5] {
        [self.min, self.mean, self.median, self.p99, self.max]
    }

    /// A JSON object. Written by hand, so that the fields keep their order.
    pub fn json(&self) -> String {
        let field = |(name, us)| format!("\"{name}\":{}", Value::from(us));
        format!("{{{}}}", Self::NAMES.into_iter().zip(self.all()).map(field).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_samples() {
        let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let times = Times::of(&samples);
        assert_eq!(times, Times { min: 1.0, mean: 100.5, median: 100.5, p99: 198.0, max: 200.0 });
        // With fewer than 100, the largest.
        for n in [1, 2, 10, 99] {
            let times = Times::of(&samples[..n]);
            assert_eq!((times.p99, times.max), (200.0, 200.0), "{n}");
        }
        assert_eq!(Times::of(&samples[..100]).p99, 199.0);
        assert_eq!(Times::of(&[7.0]), Times { min: 7.0, mean: 7.0, median: 7.0, p99: 7.0, max: 7.0 });
        assert_eq!(Times::of(&[3.0, 1.0, 2.0]).median, 2.0);
        assert!(Times::of(&[]).median.is_nan());
    }
}
