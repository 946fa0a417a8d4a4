//! Independent answers: an analytic one for the operator's dominant mode, and sequential code for any other vector.
//!
//! This code shares no computation with [`kernel`](crate::kernel). Indices are taken modulo N, the sum of squares is compensated
//! (Neumaier 1974), and the operator is written as it is defined.
//!
//! # The dominant mode
//!
//! The operator multiplies `sin(θi)` by the factor `λ(θ) = (8 sin θ − sin 2θ) / (6h)` and shifts it by a quarter turn. λ is
//! largest near θ = 2π · 0.2861. So the mode is `m = round(0.2861·N)`, with `θ = 2πm/N`.
//!
//! A run starts from `u[i] = √(2/N)·sin(θi)`, a vector of norm 1. Iteration k gives `u[i] = √(2/N)·sin(θi + kπ/2)` and
//! `√S = λ`. In any other mode rounding noise would grow.
//!
//! Angles are reduced in integers to a fraction of a quarter turn before a sine is taken. So the answer is as accurate at
//! i = 4,000,000 as at i = 0.
//!
//! # Tolerances
//!
//! *Dominant mode:* a cell may be off by [`CELL_TOLERANCE`] times the amplitude √(2/N), and √S by [`ROOT_TOLERANCE`] times
//! λ. The kernel stays far below both: by a factor of 30,000 below the first, and of 250 below the second. That was measured
//! for N from 4 to 4,096,000 and up to 20,000 iterations.
//!
//! *Any vector:* each step is checked from the run's own previous vector. The bounds are these, with ε = 2⁻⁵²:
//!
//! - Rounding may move `d[i]` by about 8ε · 18·max|u| / (12h). Relative to √S, that moves the norm by 8ε · 1.5·‖u‖ / (h√S).
//! - The rounding of the sum adds 10⁻¹², and its underflow for tiny vectors N·2⁻¹⁰⁷⁴/S.
//! - A cell may be off by [`CELL_TOLERANCE`]·max|next| in addition.
//!
//! These bounds exceed the tolerances above noticeably only for a vector that is nearly constant. There the operator cancels
//! all but the last digits, and two correct programs may differ by that much.

use crate::plural;
use serde::{Deserialize, Serialize};
use std::f64::consts::FRAC_PI_2;

/// The error allowed in a cell, relative to the largest cell.
pub const CELL_TOLERANCE: f64 = 1e-10;

/// The relative error allowed in √S.
pub const ROOT_TOLERANCE: f64 = 1e-12;

/// The mode of N cells that the operator amplifies most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DominantMode {
    cells: usize,
    mode: usize,
}

impl DominantMode {
    /// The mode for `cells` cells, at least 3.
    ///
    /// # Panics
    ///
    /// With fewer than 3 cells: the operator has no such mode.
    pub fn new(cells: usize) -> Self {
        assert!(cells >= 3, "no dominant mode on {}", plural(cells, "cell"));
        Self { cells, mode: (0.2861 * cells as f64).round() as usize }
    }

    /// The number of waves along the line.
    pub fn mode(&self) -> usize {
        self.mode
    }

    /// The amplitude √(2/N).
    pub fn amplitude(&self) -> f64 {
        (2.0 / self.cells as f64).sqrt()
    }

    /// λ, the value of √S in every iteration.
    pub fn lambda(&self) -> f64 {
        let (one, two) = (self.sine(self.mode as u128, 0), self.sine(2 * self.mode as u128, 0));
        (8.0 * one - two) * self.cells as f64 / 6.0
    }

    /// Cell `i` after `iteration` iterations; 0 is the start.
    pub fn value(&self, i: usize, iteration: usize) -> f64 {
        self.amplitude() * self.unit(i, iteration)
    }

    /// The vector after `iteration` iterations; 0 is the start.
    pub fn vector(&self, iteration: usize) -> impl ExactSizeIterator<Item = f64> {
        let (mode, amplitude) = (*self, self.amplitude());
        (0..self.cells).map(move |i| amplitude * mode.unit(i, iteration))
    }

    fn unit(&self, i: usize, iteration: usize) -> f64 {
        self.sine(self.mode as u128 * i as u128, iteration)
    }

    /// The sine of `parts`/N of a turn and `quarters` quarter turns.
    fn sine(&self, parts: u128, quarters: usize) -> f64 {
        let n = self.cells as u128;
        // In N-ths of a quarter turn.
        let angle = (4 * (parts % n) + (quarters as u128 % 4) * n) % (4 * n);
        let x = FRAC_PI_2 * ((angle % n) as f64 / n as f64);
        match angle / n {
            0 => x.sin(),
            1 => x.cos(),
            2 => -x.sin(),
            _ => -x.cos(),
        }
    }
}

/// The operator on a whole periodic vector.
pub fn derivative(u: &[f64]) -> Vec<f64> {
    let n = u.len();
    let h = 1.0 / n as f64;
    let at = |i: usize, offset: usize| u[(i + n + offset - 2) % n];
    (0..n).map(|i| (at(i, 0) - 8.0 * at(i, 1) + 8.0 * at(i, 3) - at(i, 4)) / (12.0 * h)).collect()
}

/// The compensated sum of squares, exact to about one unit in the last place.
pub fn sum_of_squares(d: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for square in d.iter().map(|d| d * d) {
        let next = sum + square;
        if !next.is_finite() {
            return next;
        }
        lost += if sum >= square { (sum - next) + square } else { (square - next) + sum };
        sum = next;
    }
    sum + lost
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Verdict {
    /// The expected value of the last √S.
    pub expected: f64,
    /// The relative error of the last √S.
    pub error: f64,
    /// The first thing that is wrong, if anything is.
    pub failure: Option<String>,
}

impl Verdict {
    fn new(result: Option<f64>, expected: f64, failure: Option<String>) -> Self {
        let error = ((result.unwrap_or(f64::NAN) - expected) / expected).abs();
        Self { expected, error, failure }
    }
}

/// What was found of a block of the vector after the last iteration, where the block is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockCheck {
    /// Cells of the block.
    pub cells: usize,
    /// A hash of their bits. Two blocks that differ in one cell have different ones.
    pub hash: u64,
    /// The first cell that differs from the mode: its number, the value expected, and the one found.
    pub wrong: Option<(usize, f64, f64)>,
}

impl BlockCheck {
    /// Adds the next cells of the block, and compares them with the mode after `iteration` iterations. The block begins
    /// at cell `first`.
    pub fn add(&mut self, mode: &DominantMode, first: usize, iteration: usize, u: &[f64]) {
        let tolerance = CELL_TOLERANCE * mode.amplitude();
        for (i, &found) in (first + self.cells..).zip(u) {
            let expected = mode.value(i, iteration);
            if self.wrong.is_none() && !close(found, expected, tolerance) {
                self.wrong = Some((i, expected, found));
            }
        }
        self.hash(u);
    }

    /// A block with these cells, which are not compared.
    pub fn of(u: &[f64]) -> Self {
        let mut block = Self::default();
        block.hash(u);
        block
    }

    fn hash(&mut self, u: &[f64]) {
        // FNV-1a, by words. Each step is a bijection of the hash before it.
        self.hash = u.iter().fold(self.hash, |hash, u| (hash ^ u.to_bits()).wrapping_mul(0x100_0000_01b3));
        self.cells += u.len();
    }
}

/// Verifies a run that started from the dominant mode: every √S, and the vector after the last iteration.
pub fn verify_mode(mode: &DominantMode, roots: &[f64], last: &[f64]) -> Verdict {
    let mut all = BlockCheck::default();
    all.add(mode, 0, roots.len(), last);
    verify_blocks(mode, roots, &[all])
}

/// Verifies a run that started from the dominant mode: every √S, and the blocks of the vector after the last iteration.
pub fn verify_blocks(mode: &DominantMode, roots: &[f64], blocks: &[BlockCheck]) -> Verdict {
    let expected = mode.lambda();
    let iteration = roots.len();
    let found: usize = blocks.iter().map(|block| block.cells).sum();
    let wrong_number = || {
        let cells = plural(mode.cells, "cell");
        (found != mode.cells).then(|| format!("iteration {iteration}: expected {cells}, found {found}"))
    };
    let wrong_block = || {
        let (i, expected, found) = blocks.iter().find_map(|block| block.wrong)?;
        Some(wrong_cell(iteration, i, (expected, found), CELL_TOLERANCE * mode.amplitude()))
    };
    let failure = roots
        .iter()
        .enumerate()
        .find_map(|(k, &root)| wrong_root(k + 1, root, expected, ROOT_TOLERANCE * expected))
        .or_else(wrong_number)
        .or_else(wrong_block);
    Verdict::new(roots.last().copied(), expected, failure)
}

/// Verifies any run step by step: each √S and each vector against one sequential iteration from the vector before.
/// `start` is the vector after iteration `done`, and `vectors` has the one after each later iteration.
pub fn verify_steps(done: usize, start: &[f64], roots: &[f64], vectors: &[Vec<f64>]) -> Verdict {
    let mut verdict = Verdict::new(None, f64::NAN, None);
    if roots.len() != vectors.len() {
        verdict.failure = Some(format!(
            "expected a vector for each of {}, found {}",
            plural(roots.len(), "iteration"),
            vectors.len()
        ));
        return verdict;
    }
    let mut previous = start;
    for (iteration, (&root, next)) in (done + 1..).zip(roots.iter().zip(vectors)) {
        let failure = verdict.failure.take();
        verdict = verify_step(iteration, previous, root, next);
        // The first failure counts, the last step's figures are reported.
        verdict.failure = failure.or(verdict.failure);
        previous = next;
    }
    verdict
}

/// Verifies one iteration against sequential code.
pub fn verify_step(iteration: usize, previous: &[f64], root: f64, next: &[f64]) -> Verdict {
    let d = derivative(previous);
    let s = sum_of_squares(&d);
    let expected = s.sqrt();
    let n = previous.len() as f64;
    let largest = max_abs(previous);
    let norm = largest * sum_of_squares(&previous.iter().map(|u| u / largest).collect::<Vec<_>>()).sqrt();
    let rounding = 8.0 * f64::EPSILON * 1.5 * n / expected;
    let relative = ROOT_TOLERANCE + rounding * norm + n * f64::from_bits(1) / s;
    let failure = wrong_root(iteration, root, expected, relative * expected).or_else(|| {
        let want: Vec<f64> = d.iter().map(|d| d / expected).collect();
        let tolerance = (CELL_TOLERANCE + relative) * max_abs(&want) + rounding * largest;
        wrong_vector(iteration, next, want.into_iter(), tolerance)
    });
    Verdict::new(Some(root), expected, failure)
}

fn max_abs(u: &[f64]) -> f64 {
    u.iter().fold(0.0, |max, u| u.abs().max(max))
}

/// Whether the difference is within the tolerance. A NaN is never close.
fn close(found: f64, expected: f64, tolerance: f64) -> bool {
    (found - expected).abs() <= tolerance
}

fn wrong_root(iteration: usize, root: f64, expected: f64, tolerance: f64) -> Option<String> {
    (!close(root, expected, tolerance))
        .then(|| format!("iteration {iteration}: expected √S = {expected:?} ± {tolerance:.1e}, found {root:?}"))
}

fn wrong_vector(
    iteration: usize,
    found: &[f64],
    expected: impl ExactSizeIterator<Item = f64>,
    tolerance: f64,
) -> Option<String> {
    if found.len() != expected.len() {
        let cells = plural(expected.len(), "cell");
        return Some(format!("iteration {iteration}: expected {cells}, found {}", found.len()));
    }
    let (i, (found, expected)) =
        found.iter().zip(expected).enumerate().find(|(_, (found, expected))| !close(**found, *expected, tolerance))?;
    Some(wrong_cell(iteration, i, (expected, *found), tolerance))
}

fn wrong_cell(iteration: usize, i: usize, (expected, found): (f64, f64), tolerance: f64) -> String {
    format!("iteration {iteration}, cell {i}: expected {expected:?} ± {tolerance:.1e}, found {found:?}")
}
