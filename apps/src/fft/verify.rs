//! A check of a transform that looks at every value: a weighted sum of the spectrum, which follows from the array alone.
//!
//! With weights a^k, where a = exp(iπ (2u + 1) / N), the sum Σ a^k X[k] over a spectrum is Σ x[n] 2 / (1 − a exp(−2πi n / N)) over
//! the array. In several dimensions weights are products. A value that is wrong or in a wrong place changes the sum.

use super::C;
use super::grid::Grid;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;
use std::ops::Range;

/// How many sums there are, each with its own numbers u.
const SUMS: usize = 3;

/// Weighted sums of a shard's values, and the sum of the squares of their absolute values.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Sums {
    /// The largest part of a value, by which all are divided before they are added: then no square overflows.
    scale: f64,
    weighted: [C; SUMS],
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

/// A sum in pairs, whose rounding error does not grow with the number of terms, as that of one term after the other does.
fn sum<T: std::iter::Sum + std::ops::Add<Output = T>>(range: Range<usize>, of: &impl Fn(usize) -> T) -> T {
    if range.len() <= 16 {
        return range.map(of).sum();
    }
    let middle = range.start + range.len() / 2;
    sum(range.start..middle, of) + sum(middle..range.end, of)
}

impl Sums {
    /// The sums of a shard's lines, after so many exchanges.
    pub fn of(grid: &Grid, shard: u32, exchanges: usize, lines: &[&[C]]) -> Self {
        let of_spectrum = exchanges == grid.exchanges();
        let [first, second] = grid.lines(shard, exchanges);
        let place = |line: usize| [first[line / second.len()], second[line % second.len()]];
        let parts = lines.iter().flat_map(|line| line.iter()).flat_map(|x| [x.re.abs(), x.im.abs()]);
        let scale = parts.fold(f64::MIN_POSITIVE, f64::max);
        let weighted = |number: usize| {
            let weights = weights(grid.shape(), number, of_spectrum);
            let of_line = |line: usize| {
                let at = |n: usize| Grid::indices(exchanges, place(line), n);
                let weight = |n: usize| weights.iter().zip(at(n)).map(|(table, at)| table[at]).product::<C>();
                sum(0..lines[line].len(), &|n| lines[line][n] / scale * weight(n))
            };
            sum(0..lines.len(), &of_line)
        };
        let of_line = |line: usize| sum(0..lines[line].len(), &|n| (lines[line][n] / scale).norm_sqr());
        Self { scale, weighted: std::array::from_fn(weighted), squares: sum(0..lines.len(), &of_line) }
    }

    /// The sums of all shards.
    pub fn all(parts: &[Self]) -> Self {
        let scale = parts.iter().fold(0.0, |largest, part| part.scale.max(largest));
        let part = |n: usize| parts[n].scale / scale;
        let weighted = |number: usize| sum(0..parts.len(), &|n| parts[n].weighted[number] * part(n));
        let squares = sum(0..parts.len(), &|n| parts[n].squares * part(n).powi(2));
        Self { scale, weighted: std::array::from_fn(weighted), squares }
    }
}

/// The largest error of a sum of the spectrum, as a part of the most that it can be, and of the sum of its squares.
pub fn error([before, after]: [Sums; 2], values: usize) -> f64 {
    let most = (after.squares * values as f64).sqrt().max(f64::MIN_POSITIVE);
    let scale = before.scale / after.scale;
    let apart = |(a, b): (&C, &C)| (a * scale - b).norm() / most;
    let squares = before.squares * values as f64 * scale.powi(2);
    let of_squares = (squares - after.squares).abs() / squares.max(f64::MIN_POSITIVE);
    // What is no number is the largest.
    let larger = |a: f64, b: f64| if b <= a { a } else { b };
    before.weighted.iter().zip(&after.weighted).map(apart).fold(of_squares, larger)
}

/// The most that the error of a transform of so many values is.
pub fn most(values: usize) -> f64 {
    16.0 * f64::EPSILON * (values.max(2) as f64).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_spectrum_is_found() {
        let (grid, shape) = (Grid::new([1, 4, 6], 1), [1, 4, 6]);
        let sums = |values: &[C], exchanges: usize| {
            let place = grid.places(0, exchanges);
            let line = |line: usize| {
                let length = grid.length(exchanges);
                let at = |n: usize| place(line * length + n);
                (0..length).map(|n| values[at(n)[1] * 6 + at(n)[2]]).collect::<Vec<C>>()
            };
            let lines: Vec<Vec<C>> = (0..24 / grid.length(exchanges)).map(line).collect();
            Sums::of(&grid, 0, exchanges, &lines.iter().map(|line| &line[..]).collect::<Vec<_>>())
        };
        let array: Vec<C> = (0..24).map(|n| C::new((n * n % 7) as f64, (n * 5 % 11) as f64)).collect();
        let value = |k: usize| {
            let turn = |n: usize| C::cis(-2.0 * PI * ((n / 6 * (k / 6)) as f64 / 4.0 + (n % 6 * (k % 6)) as f64 / 6.0));
            (0..24).map(|n| array[n] * turn(n)).sum::<C>()
        };
        let spectrum: Vec<C> = (0..24).map(value).collect();
        let error = |spectrum: &[C]| error([sums(&array, 0), sums(spectrum, 1)], shape.iter().product());
        assert!(error(&spectrum) < most(24), "{}", error(&spectrum));
        for at in 0..24 {
            let (mut changed, mut turned, mut swapped) = (spectrum.clone(), spectrum.clone(), spectrum.clone());
            changed[at] *= 1.0 + 1e-9;
            turned[at] = -spectrum[at];
            swapped.swap(at, (at + 1) % 24);
            for wrong in [changed, turned, swapped] {
                assert!(error(&wrong) > most(24), "{at}: {}", error(&wrong));
            }
        }
    }
}
