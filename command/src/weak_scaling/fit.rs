//! The cost model of a collective, fitted to measurements.
//!
//! The model of recursive doubling, T = log₂P (α + nβ + nγ), has a processor for each shard. If shards share a processor, a
//! collective also waits while the processor does the work of other shards, before and in their rounds. That needs another
//! model.

use maniple_stencil::Collective;
use serde::{Serialize, Serializer};

/// A cost model, linear in one or two coefficients: κ and α′ = α + nβ + nγ, where n is the 8 bytes of one element. P is the
/// number of shards, W the number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A processor for each shard: T = α′·log₂P.
    Spread,
    /// Shared processors, recursive doubling: T = P/W·(α′·log₂P + κ), where κ is a shard's work outside of rounds.
    SharedDoubling,
    /// Shared processors, two levels: T = α′·log₂W + P/W·κ, where κ is a shard's work within its processor.
    SharedTwoLevel,
}

impl Model {
    /// The models for a collective: with shards on processors of their own, and with shards that share processors.
    pub fn of(collective: Collective) -> [Self; 2] {
        let shared = if collective == Collective::TwoLevel { Self::SharedTwoLevel } else { Self::SharedDoubling };
        [Self::Spread, shared]
    }

    /// The formula for people.
    pub fn formula(self) -> &'static str {
        match self {
            Self::Spread => "T = α′·log₂P",
            Self::SharedDoubling => "T = P/W·(α′·log₂P + κ)",
            Self::SharedTwoLevel => "T = α′·log₂W + P/W·κ",
        }
    }

    /// Whether the model is for this number of shards.
    pub fn covers(self, shards: usize, workers: usize) -> bool {
        match self {
            Self::Spread => (2..=workers).contains(&shards),
            Self::SharedDoubling | Self::SharedTwoLevel => shards >= 2 && shards > workers,
        }
    }

    /// The factors of α′ and κ.
    fn terms(self, shards: f64, workers: f64) -> [f64; 2] {
        let share = shards / workers;
        match self {
            Self::Spread => [shards.log2(), 0.0],
            Self::SharedDoubling => [share * shards.log2(), share],
            Self::SharedTwoLevel => [workers.log2(), share],
        }
    }

    fn coefficients(self) -> usize {
        if self == Self::Spread { 1 } else { 2 }
    }
}

impl Serialize for Model {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.formula())
    }
}

/// How coefficients are found, for reports.
pub const METHOD: &str = "least squares between the logarithms of the model and of the medians of P ≥ 2, so that a factor \
                          counts the same everywhere; coefficients are at least 0";

/// A model with the coefficients that fit best.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// The model.
    pub model: Model,
    /// The number of workers.
    pub workers: usize,
    /// α′ in microseconds.
    pub alpha_us: f64,
    /// κ in microseconds; 0 in a model without it.
    pub kappa_us: f64,
    /// The number of points it was fitted to.
    pub points: usize,
    /// The largest number of shards among these points.
    pub largest: usize,
    /// The factor by which points are off: the exponential of the root mean square of the differences of logarithms.
    pub off_by: f64,
}

impl Fit {
    /// Fits a model to the positive times, in microseconds, that the model is for. `None` if there are fewer
    /// than its coefficients.
    pub fn of(model: Model, times: &[(usize, f64)], workers: usize) -> Option<Self> {
        let covered = |&&(shards, us): &&(usize, f64)| model.covers(shards, workers) && us > 0.0;
        let covered: Vec<(usize, f64)> = times.iter().filter(covered).copied().collect();
        if covered.len() < model.coefficients() {
            return None;
        }
        // The differences between measured and modelled logarithms with coefficients (1 − t, t). A common factor takes away
        // their mean. The squares of the rest are to be least.
        let differences = |t: f64| -> Vec<f64> {
            let shape = |shards: usize| {
                let [alpha, kappa] = model.terms(shards as f64, workers as f64);
                (1.0 - t) * alpha + t * kappa
            };
            covered.iter().map(|&(shards, us)| (us / shape(shards)).ln()).collect()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let variance = |t: f64| {
            let differences = differences(t);
            let mean = mean(&differences);
            let sum = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / differences.len() as f64;
            if sum.is_finite() { sum } else { f64::INFINITY }
        };
        let t = if model.coefficients() == 1 { 0.0 } else { lowest(variance) };
        let factor = mean(&differences(t)).exp();
        let largest = covered.iter().map(|&(shards, _)| shards).max()?;
        Some(Self {
            model,
            workers,
            alpha_us: (1.0 - t) * factor,
            kappa_us: t * factor,
            points: covered.len(),
            largest,
            off_by: variance(t).sqrt().exp(),
        })
    }

    /// The time with a number of shards, in microseconds.
    pub fn at(&self, shards: f64) -> f64 {
        let [alpha, kappa] = self.model.terms(shards, self.workers as f64);
        self.alpha_us * alpha + self.kappa_us * kappa
    }
}

/// The place between 0 and 1 where a function is lowest: near the best point of a grid, by thirds. An end wins if it is as good.
fn lowest(f: impl Fn(f64) -> f64) -> f64 {
    const GRID: i32 = 256;
    let place = |i: i32| f64::from(i) / f64::from(GRID);
    let better = |a: f64, b: f64| f(a) < f(b);
    let best = (0..=GRID).map(place).fold(0.0, |best, t| if better(t, best) { t } else { best });
    let (mut low, mut high) = ((best - place(1)).max(0.0), (best + place(1)).min(1.0));
    for _ in 0..100 {
        let third = (high - low) / 3.0;
        if better(low + third, high - third) { high -= third } else { low += third }
    }
    let middle = (low + high) / 2.0;
    [1.0, 0.0].into_iter().find(|&end| f(end) <= f(middle) + 1e-15).unwrap_or(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs(), "{found}, not {expected}");
    }

    #[test]
    fn one_coefficient() {
        // Through one point, and exactly through three on a line; what is beyond the workers, and P = 1, don't count.
        let fit = Fit::of(Model::Spread, &[(1, 9.0), (2, 0.4), (4, 77.0)], 2).expect("a fit");
        assert_eq!((fit.points, fit.largest, fit.kappa_us), (1, 2, 0.0));
        near(fit.alpha_us, 0.4);
        near(fit.at(1024.0), 4.0);
        let fit = Fit::of(Model::Spread, &[(2, 3.0), (4, 6.0), (16, 12.0)], 16).expect("a fit");
        near(fit.alpha_us, 3.0);
        near(fit.off_by, 1.0);
        // T/log₂P is 1 and 4: the geometric mean is 2, and both are off by a factor of 2.
        let fit = Fit::of(Model::Spread, &[(2, 1.0), (4, 8.0)], 4).expect("a fit");
        near(fit.alpha_us, 2.0);
        near(fit.off_by, 2.0);
    }

    #[test]
    fn two_coefficients() {
        // 2 workers, α′ = 3, κ = 5: P/2·(3 log₂P + 5).
        let times = [(2, 99.0), (4, 22.0), (8, 56.0), (16, 136.0)];
        let fit = Fit::of(Model::SharedDoubling, &times, 2).expect("a fit");
        assert_eq!((fit.points, fit.largest), (3, 16));
        near(fit.alpha_us, 3.0);
        near(fit.kappa_us, 5.0);
        near(fit.at(32.0), 320.0);
        // 4 workers, α′ = 2, κ = 1: 4 + P/4.
        let fit = Fit::of(Model::SharedTwoLevel, &[(8, 6.0), (16, 8.0), (64, 20.0)], 4).expect("a fit");
        near(fit.alpha_us, 2.0);
        near(fit.kappa_us, 1.0);
        near(fit.off_by, 1.0);
    }

    /// Points that no line goes through: no other pair of coefficients is better.
    #[test]
    fn nothing_fits_better() {
        let times = [(4, 9.0), (8, 61.0), (16, 100.0), (32, 420.0), (64, 800.0)];
        let fit = Fit::of(Model::SharedDoubling, &times, 2).expect("a fit");
        let squares = |alpha: f64, kappa: f64| {
            let model = |p: f64| p / 2.0 * (alpha * p.log2() + kappa);
            times.iter().map(|&(p, us)| (model(p as f64) / us).log2().powi(2)).sum::<f64>()
        };
        let best = squares(fit.alpha_us, fit.kappa_us);
        let others = (0..200).flat_map(|i| (0..200).map(move |k| (f64::from(i) / 20.0, f64::from(k) / 20.0)));
        let (closest, alpha, kappa) = others
            .filter(|other| *other != (0.0, 0.0))
            .map(|(alpha, kappa)| (squares(alpha, kappa), alpha, kappa))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .expect("some");
        assert!(best <= closest && closest < 1.01 * best, "{best} for {fit:?}, {closest} for {alpha}, {kappa}");
    }

    #[test]
    fn coefficients_are_not_below_zero() {
        // 1 worker, P·(α′ log₂P + κ): T/P = 4, 1 falls, so κ alone, their geometric mean.
        let fit = Fit::of(Model::SharedDoubling, &[(2, 8.0), (4, 4.0)], 1).expect("a fit");
        assert_eq!(fit.alpha_us, 0.0);
        near(fit.kappa_us, 2.0);
        near(fit.off_by, 2.0);
        // T/P = 1, 8 grows faster than log₂P: α′ alone, the geometric mean of T/(P log₂P) = 1, 4.
        let fit = Fit::of(Model::SharedDoubling, &[(2, 2.0), (4, 32.0)], 1).expect("a fit");
        assert_eq!(fit.kappa_us, 0.0);
        near(fit.alpha_us, 2.0);
        // On one worker two levels have no rounds between processors.
        let fit = Fit::of(Model::SharedTwoLevel, &[(2, 4.0), (8, 16.0)], 1).expect("a fit");
        assert_eq!(fit.alpha_us, 0.0);
        near(fit.kappa_us, 2.0);
    }

    #[test]
    fn too_little_to_fit() {
        assert_eq!(Fit::of(Model::Spread, &[(1, 1.0), (4, 2.0)], 2), None);
        assert_eq!(Fit::of(Model::SharedDoubling, &[(2, 1.0), (4, 2.0)], 2), None);
        assert_eq!(Fit::of(Model::Spread, &[(2, f64::NAN), (4, 0.0)], 4), None);
    }

    #[test]
    fn each_shard_count_has_one_model() {
        for workers in 1..5 {
            for shards in 2..20 {
                let [spread, shared] = Model::of(Collective::RecursiveDoubling);
                assert!(spread.covers(shards, workers) != shared.covers(shards, workers));
            }
        }
    }
}
