//! The cost model of a collective, fitted to what was measured.
//!
//! The model of recursive doubling, T = log₂P (α + nβ + nγ), has a processor for each shard. Where shards share a
//! processor, one shard's collective also waits while that processor does the others' rounds and what they do before
//! their first round; so another model stands for these.

use maniple_stencil::Collective;
use serde::{Serialize, Serializer};

/// A cost model with at most two coefficients, in which it is linear: α′ = α + nβ + nγ, n the 8 bytes of one element, and
/// κ. P are shards, W workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A processor for each shard: T = α′·log₂P.
    Spread,
    /// Processors shared, recursive doubling: T = P/W·(α′·log₂P + κ), with κ for what a shard does outside of rounds.
    SharedDoubling,
    /// Processors shared, two levels: T = α′·log₂W + P/W·κ, with κ for a shard's part in its processor.
    SharedTwoLevel,
}

impl Model {
    /// The models for a collective: of shards on processors of their own, and of shards that share them.
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

    /// The shards it is for.
    pub fn covers(self, shards: usize, workers: usize) -> bool {
        match self {
            Self::Spread => (2..=workers).contains(&shards),
            Self::SharedDoubling | Self::SharedTwoLevel => shards >= 2 && shards > workers,
        }
    }

    /// What α′ and κ are multiplied by.
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
pub const METHOD: &str = "least squares of the relative deviations from the medians of P ≥ 2, so that every point counts \
                          alike; coefficients not below 0";

/// A model with the coefficients that fit best.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// Which.
    pub model: Model,
    /// Workers.
    pub workers: usize,
    /// α′ in microseconds.
    pub alpha_us: f64,
    /// κ in microseconds; 0 in a model without it.
    pub kappa_us: f64,
    /// Points it was fitted to.
    pub points: usize,
    /// The largest number of shards among them.
    pub largest: usize,
    /// Root mean square of the relative deviations.
    pub deviation: f64,
}

impl Fit {
    /// Fits a model to times in microseconds, of which it takes those it is for. `None` if they are fewer than its
    /// coefficients, or not positive.
    pub fn of(model: Model, times: &[(usize, f64)], workers: usize) -> Option<Self> {
        let covered = |&&(shards, us): &&(usize, f64)| model.covers(shards, workers) && us > 0.0;
        let covered: Vec<(usize, f64)> = times.iter().filter(covered).copied().collect();
        if covered.len() < model.coefficients() {
            return None;
        }
        // Sums over the terms divided by the time: the model's relative value is to be 1 everywhere.
        let (mut aa, mut ak, mut kk, mut a1, mut k1) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(shards, us) in &covered {
            let [a, k] = model.terms(shards as f64, workers as f64).map(|term| term / us);
            (aa, ak, kk, a1, k1) = (aa + a * a, ak + a * k, kk + k * k, a1 + a, k1 + k);
        }
        let only = |one: f64, square: f64| if square > 0.0 { one / square } else { 0.0 };
        let determinant = aa * kk - ak * ak;
        let (alpha, kappa) = ((a1 * kk - k1 * ak) / determinant, (k1 * aa - a1 * ak) / determinant);
        // Not below 0, also where the two can't be told apart (no determinant): then one of them must be 0.
        let (alpha_us, kappa_us) = match (alpha >= 0.0, kappa >= 0.0) {
            (true, true) if determinant > 1e-12 * aa * kk => (alpha, kappa),
            (false, true) => (0.0, only(k1, kk)),
            _ if aa > 0.0 => (only(a1, aa), 0.0),
            _ => (0.0, only(k1, kk)),
        };
        let largest = covered.iter().map(|&(shards, _)| shards).max()?;
        let mut fit = Self { model, workers, alpha_us, kappa_us, points: covered.len(), largest, deviation: 0.0 };
        let squares = covered.iter().map(|&(shards, us)| (fit.at(shards as f64) / us - 1.0).powi(2));
        fit.deviation = (squares.sum::<f64>() / covered.len() as f64).sqrt();
        Some(fit)
    }

    /// Microseconds at a number of shards.
    pub fn at(&self, shards: f64) -> f64 {
        let [alpha, kappa] = self.model.terms(shards, self.workers as f64);
        self.alpha_us * alpha + self.kappa_us * kappa
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1e-9), "{found}, not {expected}");
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
        near(fit.deviation, 0.0);
        // Relative: log₂P/T is 1 and 1/2, so α′ = 1.5 / 1.25 and the deviations are 0.2 and -0.4.
        let fit = Fit::of(Model::Spread, &[(2, 1.0), (4, 4.0)], 4).expect("a fit");
        near(fit.alpha_us, 1.2);
        near(fit.deviation, 0.1_f64.sqrt());
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
        // Three points that no line goes through. 1 worker, P = 2, 4, 16 and T/P = 1, 2, 2: the relative terms are
        // (1, 1), (1, 1/2), (2, 1/2), the normal equations 6α′ + 2.5κ = 4 and 2.5α′ + 1.5κ = 2.
        let fit = Fit::of(Model::SharedDoubling, &[(2, 2.0), (4, 8.0), (16, 32.0)], 1).expect("a fit");
        near(fit.alpha_us, 1.0 / 2.75);
        near(fit.kappa_us, 2.0 / 2.75);
    }

    #[test]
    fn coefficients_are_not_below_zero() {
        // 1 worker, P·(α′ log₂P + κ): with T/P = 3, 1 the best κ alone would be positive and α′ negative.
        let fit = Fit::of(Model::SharedDoubling, &[(2, 6.0), (4, 4.0)], 1).expect("a fit");
        // κ: v = 1/3, 1, so κ = (4/3) / (10/9).
        assert_eq!(fit.alpha_us, 0.0);
        near(fit.kappa_us, 1.2);
        // T/P = 1, 4 = 3 log₂P - 2: α′ alone, u = 1, 1/2.
        let fit = Fit::of(Model::SharedDoubling, &[(2, 2.0), (4, 16.0)], 1).expect("a fit");
        assert_eq!(fit.kappa_us, 0.0);
        near(fit.alpha_us, 1.2);
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
