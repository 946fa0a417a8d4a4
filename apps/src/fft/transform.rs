//! The local transforms: of whole lines, of every K-th value of a line, and of those to the whole.

use super::C;
use super::deal::Residues;
use super::grid::{Exchange, Grid};
use rustfft::{Fft, FftPlanner};
use std::f64::consts::TAU;
use std::sync::Arc;

/// What all shards of a process use.
pub struct Plans {
    /// Of the lines before the first exchange.
    pub lines: Whole,
    /// Of the lines after each exchange.
    pub exchanges: Vec<Arc<Joined>>,
}

/// Transforms of whole lines.
#[derive(Clone)]
pub struct Whole(Arc<dyn Fft<f64>>);

/// Transforms of lines whose values come by their residues modulo K: first those with each residue, then those of each group of
/// residues, then all of them.
pub struct Joined {
    /// The number of values with one residue.
    length: usize,
    /// Of these.
    each: Arc<dyn Fft<f64>>,
    /// Of groups, if there are several, and of all.
    joins: Vec<Arc<Join>>,
}

/// Makes several transforms, one after the other in a line, one transform: those of the values with each residue.
pub struct Join {
    /// How many.
    count: usize,
    /// The length of each.
    each: usize,
    /// Of a value of each.
    across: Arc<dyn Fft<f64>>,
    /// exp(−2πi s j / length) for residue s and place j, residue by residue.
    twiddles: Vec<C>,
}

impl Plans {
    /// The plans for a grid.
    pub fn new(grid: &Grid) -> Self {
        let planner = &mut FftPlanner::new();
        let lines = Whole(planner.plan_fft_forward(grid.length(0)));
        let exchanges = (0..grid.exchanges()).map(|number| Arc::new(Joined::new(grid.axis(number), planner))).collect();
        Self { lines, exchanges }
    }
}

fn scratch(length: usize) -> Vec<C> {
    vec![C::ZERO; length]
}

impl Whole {
    /// Transforms each line in place.
    pub fn transform<'r>(&self, lines: impl Iterator<Item = &'r mut [C]>) {
        let scratch = &mut scratch(self.0.get_inplace_scratch_len());
        lines.for_each(|line| self.0.process_with_scratch(line, scratch));
    }
}

impl Joined {
    fn new(axis: Residues, planner: &mut FftPlanner<f64>) -> Self {
        let (length, groups) = (axis.each(), axis.groups);
        let mut joins = Vec::new();
        for (count, each) in [(axis.modulus / groups, length), (groups, axis.length / groups)] {
            if count > 1 {
                joins.push(Arc::new(Join::new(count, each, planner)));
            }
        }
        Self { length, each: planner.plan_fft_forward(length), joins }
    }

    /// What is to be joined, in turn.
    pub fn joins(&self) -> &[Arc<Join>] {
        &self.joins
    }

    /// Transforms a part that has come: for each line the values with some residues, one residue after the other.
    pub fn transform<'r>(&self, part: &[C], lines: impl Iterator<Item = &'r mut [C]>) {
        let scratch = &mut scratch(self.each.get_immutable_scratch_len());
        let mut left = part;
        for line in lines {
            let (values, rest) = left.split_at(line.len());
            left = rest;
            match self.length {
                1 => line.copy_from_slice(values),
                _ => self.each.process_immutable_with_scratch(values, line, scratch),
            }
        }
    }
}

impl Join {
    fn new(count: usize, each: usize, planner: &mut FftPlanner<f64>) -> Self {
        let places = (0..count).flat_map(|s| (0..each).map(move |j| s * j));
        let twiddles = places.map(|place| C::cis(-TAU * place as f64 / (count * each) as f64)).collect();
        Self { count, each, across: planner.plan_fft_forward(count), twiddles }
    }

    /// The number of transforms that become one, and its length.
    pub fn size(&self) -> (usize, usize) {
        (self.count, self.count * self.each)
    }

    /// Joins the transforms on each line, or on a part of it that starts at the first of them, in place.
    pub fn join<'r>(&self, lines: impl Iterator<Item = &'r mut [C]>) {
        let (count, each) = (self.count, self.each);
        if count == 2 {
            return lines.for_each(|line| self.join_two(line));
        }
        let (across, inner) = (&mut scratch(count * each), &mut scratch(self.across.get_inplace_scratch_len()));
        for line in lines {
            transpose(count, each, |s, j| {
                let at = s * each + j;
                across[j * count + s] = line[at] * self.twiddles[at];
            });
            self.across.process_with_scratch(across, inner);
            transpose(count, each, |s, j| line[s * each + j] = across[j * count + s]);
        }
    }

    fn join_two(&self, line: &mut [C]) {
        let (even, odd) = line.split_at_mut(self.each);
        let twiddles = &self.twiddles[self.each..];
        for ((even, odd), twiddle) in even.iter_mut().zip(odd).zip(twiddles) {
            let turned = *odd * twiddle;
            (*even, *odd) = (*even + turned, *even - turned);
        }
    }
}

impl Exchange {
    /// The values for a member of the group: for each other line and each value of the member's share, those of all indices that
    /// this shard has. They are put into `block`.
    pub fn pack(&self, lines: &[&[C]], to: usize, mut block: Vec<C>) -> Vec<C> {
        let (share, count) = (self.share(to), self.axis.count(self.place));
        block.resize(self.values(self.place, to), C::ZERO);
        for other in 0..self.others.0 {
            let block = &mut block[other * share.len() * count..];
            transpose(count, share.len(), |position, n| {
                block[n * count + position] = lines[self.line(other, position)][share.start + n];
            });
        }
        block
    }
}

/// Calls a function for all pairs of a row and a column, in squares, so that neither array leaves the cache between two uses of
/// a line of it.
fn transpose(rows: usize, columns: usize, mut each: impl FnMut(usize, usize)) {
    const SIDE: usize = 16;
    for row in (0..rows).step_by(SIDE) {
        for column in (0..columns).step_by(SIDE) {
            for r in row..rows.min(row + SIDE) {
                (column..columns.min(column + SIDE)).for_each(|c| each(r, c));
            }
        }
    }
}
