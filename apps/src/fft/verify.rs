//! A check of a transform that looks at every value: a weighted sum of the spectrum, which follows from the array alone.
//!
//! With weights a^k, where a = exp(iπ (2u + 1) / N), the sum Σ a^k X[k] over a spectrum is Σ x[n] 2 / (1 − a exp(−2πi n / N)) over
//! the array. In several dimensions weights are products. A value that is wrong or in a wrong place changes the sum.

use super::C;
use super::grid::Grid;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// How many sums there are, each with its own numbers u.
const SUMS: usize = 3;

/// Weighted sums of a shard's values, and the sum of the squares of their absolute values.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Sums {
    weighted: [(f64, f64); SUMS],
    squares: f64,
}

/// The weights of one sum: a table for each axis.
type Weights = [Vec<C>; 3];

/// exp(iπ part / whole), for a part of any size.
fn half_turns(part: i64, whole: usize) -> C {
    C::cis(PI * part.rem_euclid(2 * whole as i64) as f64 / whole as f64)
}

/// The weights of the spectrum, or of the array before.
fn weights(shape: [usize; 3], number: usize, of_spectrum: bool) -> Weights {
    shape.map(|length| {
        // Any numbers will do that are not near each other.
        let odd = 2 * ((number + 1) * length * 5 / 17 % length) as i64 + 1;
        let weight = |at: i64| match of_spectrum {
            true => half_turns(odd * at, length),
            false => 2.0 / (1.0 - half_turns(odd - 2 * at, length)),
        };
        (0..length as i64).map(weight).collect()
    })
}

impl Sums {
    /// The sums of a shard's lines, after so many exchanges.
    pub fn of(grid: &Grid, shard: u32, exchanges: usize, lines: &[&[C]]) -> Self {
        let of_spectrum = exchanges == grid.exchanges();
        let [first, second] = grid.lines(shard, exchanges);
        let places = || first.iter().flat_map(|a| second.iter().map(move |b| [*a, *b]));
        let values = || places().zip(lines);
        let sum = |number: usize| {
            let weights = weights(grid.shape(), number, of_spectrum);
            let of_line = |(place, line): ([usize; 2], &&[C])| {
                let at = |n: usize| Grid::indices(exchanges, place, n);
                let weight = |n: usize| weights.iter().zip(at(n)).map(|(table, at)| table[at]).product::<C>();
                line.iter().enumerate().map(|(n, x)| x * weight(n)).sum::<C>()
            };
            let sum: C = values().map(of_line).sum();
            (sum.re, sum.im)
        };
        let squares = values().map(|(_, line)| line.iter().map(C::norm_sqr).sum::<f64>()).sum();
        Self { weighted: std::array::from_fn(sum), squares }
    }

    /// The sums of all shards.
    pub fn all(parts: impl Iterator<Item = Self>) -> Self {
        parts.fold(Self::default(), |all, part| {
            let add = |(a, b): ((f64, f64), (f64, f64))| (a.0 + b.0, a.1 + b.1);
            let weighted = std::array::from_fn(|n| add((all.weighted[n], part.weighted[n])));
            Self { weighted, squares: all.squares + part.squares }
        })
    }
}

/// The largest error of a sum of the spectrum, as a part of the most that it can be, and of the sum of its squares.
pub fn error([before, after]: [Sums; 2], values: usize) -> f64 {
    let most = (after.squares * values as f64).sqrt().max(f64::MIN_POSITIVE);
    let apart = |(a, b): (&(f64, f64), &(f64, f64))| (a.0 - b.0).hypot(a.1 - b.1) / most;
    let squares = before.squares * values as f64;
    let of_squares = (squares - after.squares).abs() / squares.max(f64::MIN_POSITIVE);
    // What is no number is the largest.
    let larger = |a: f64, b: f64| if b <= a { a } else { b };
    before.weighted.iter().zip(&after.weighted).map(apart).fold(of_squares, larger)
}

/// The most that the error of a transform of so many values is.
pub fn most(values: usize) -> f64 {
    16.0 * f64::EPSILON * (values.max(2) as f64).log2()
}
