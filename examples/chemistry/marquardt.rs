//! The method of Levenberg and Marquardt, as plain sequential code.

use super::linear::Lu;
use super::mechanism::{CONSTANTS, Constants, SAMPLES, Samples, measure, simulate};
use bytemuck::{Pod, Zeroable};
use maniple::regions::ExactSum;
use serde::{Deserialize, Serialize};
use std::array::from_fn;
use std::ops::Range;

/// A sum over experiments. It is rounded once, so it has the same bits however the experiments are dealt.
pub type Total = ExactSum<f64>;

/// Where the fit starts.
const START: [f64; CONSTANTS] = [0.05, 0.15, 1.5, 400.0, 0.01];

/// The length of the lower triangle of JᵀJ, and with Jᵀr.
const TRIANGLE: usize = CONSTANTS * (CONSTANTS + 1) / 2;
pub const EQUATIONS: usize = TRIANGLE + CONSTANTS;

/// The judge's word on a trial.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable, Serialize, Deserialize)]
#[repr(C)]
pub struct Ruling {
    /// The least sum of squares so far.
    pub squares: f64,
    pub damping: f64,
    pub accepted: u32,
    pub over: u32,
}

impl Ruling {
    pub const FIRST: Self = Self { squares: f64::INFINITY, damping: 0.1, accepted: 0, over: 0 };

    /// Accepts a trial if it is better. The fit ends when a trial changes the sum no more, or nothing helps.
    pub fn next(&self, squares: &[Total]) -> Self {
        let squares = squares[0].value();
        let over = u32::from((self.squares - squares).abs() <= 1e-9 * squares || self.damping > 1e9);
        if squares < self.squares {
            return Self { squares, damping: self.damping / 10.0, accepted: 1, over };
        }
        Self { damping: self.damping * 10.0, accepted: 0, over, ..*self }
    }
}

/// The solver's next trial. With it, the best constants so far and the equations there.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable, Serialize, Deserialize)]
#[repr(C)]
pub struct Step {
    pub trial: Constants,
    pub best: Constants,
    equations: [f64; EQUATIONS],
}

impl Step {
    pub fn first() -> Self {
        let start = START.map(f64::ln);
        Self { trial: start, best: start, equations: [0.0; EQUATIONS] }
    }

    /// Solves the damped normal equations at the best constants.
    pub fn next(&self, equations: &[Total], ruling: &Ruling) -> Self {
        let (best, equations) = match ruling.accepted {
            1 => (self.trial, from_fn(|i| equations[i].value())),
            _ => (self.best, self.equations),
        };
        let change = damped(&equations, ruling.damping).solve(from_fn(|i| equations[TRIANGLE + i]));
        Self { trial: from_fn(|i| best[i] - change[i]), best, equations }
    }

    /// The standard errors of the best constants, if measurements deviate by so much.
    pub fn errors(&self, deviation: f64) -> Constants {
        let lu = damped(&self.equations, 0.0);
        from_fn(|i| deviation * lu.solve(from_fn(|r| f64::from(r == i)))[i].sqrt())
    }
}

fn damped(equations: &[f64; EQUATIONS], damping: f64) -> Lu<CONSTANTS> {
    let product = |r: usize, c: usize| equations[r.max(c) * (r.max(c) + 1) / 2 + r.min(c)];
    Lu::of(from_fn(|r| from_fn(|c| product(r, c) * if r == c { 1.0 + damping } else { 1.0 })))
}

/// Much less than the errors of measurements.
const TOLERANCE: f64 = 1e-5;

/// The sum of squares over some experiments, of which `first` is the first one.
pub fn squares(measured: &[Samples], first: u32, at: &Constants) -> Vec<Total> {
    let mut total = Total::zero();
    for (experiment, measured) in (first..).zip(measured) {
        let [computed] = simulate(experiment, [*at], TOLERANCE);
        (0..2 * SAMPLES).for_each(|i| total.add((computed[i] - measured[i]).powi(2)));
    }
    vec![total]
}

/// The normal equations over some experiments. Derivatives are differences.
pub fn equations(measured: &[Samples], first: u32, at: &Constants) -> Vec<Total> {
    const BY: f64 = 1e-6;
    let mut totals = vec![Total::zero(); EQUATIONS];
    let near: [Constants; 1 + CONSTANTS] = from_fn(|n| from_fn(|i| at[i] + if n == i + 1 { BY } else { 0.0 }));
    for (experiment, measured) in (first..).zip(measured) {
        let [computed, changed @ ..] = simulate(experiment, near, TOLERANCE);
        for i in 0..2 * SAMPLES {
            let row = changed.map(|changed| (changed[i] - computed[i]) / BY);
            let products = (0..CONSTANTS).flat_map(|r| (0..=r).map(move |c| row[r] * row[c]));
            let right = row.map(|derivative| derivative * (computed[i] - measured[i]));
            totals.iter_mut().zip(products.chain(right)).for_each(|(total, product)| total.add(product));
        }
    }
    totals
}

/// The fit in one loop over all experiments.
pub fn fit(experiments: Range<u32>) -> (Step, Ruling, u32) {
    let measured: Vec<Samples> = experiments.clone().map(measure).collect();
    let (mut step, mut ruling) = (Step::first(), Ruling::FIRST);
    let mut trials = 0;
    while ruling.over == 0 {
        ruling = ruling.next(&squares(&measured, experiments.start, &step.trial));
        step = step.next(&equations(&measured, experiments.start, &step.trial), &ruling);
        trials += 1;
    }
    (step, ruling, trials)
}
