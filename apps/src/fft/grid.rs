//! The shards as a grid, and the lines of values that each has between two exchanges.

use super::deal::{Residues, share};
use std::ops::Range;

/// The grid of shards of a transform, and the axes of the array. A 2D array has one index in its first axis.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    shape: [usize; 3],
    /// Shards along the first axis, and along the second.
    shards: [usize; 2],
    residues: [Residues; 2],
}

/// An exchange of a shard: it has lines along one axis, and gets lines along another.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The shards that exchange.
    pub group: Vec<u32>,
    /// The place of this one among them.
    pub place: usize,
    /// The axis of the lines that come.
    pub axis: Residues,
    /// The length of the lines that it has.
    pub length: usize,
    /// Lines that it has for each index of the axis, and how far two of them are apart.
    pub others: (usize, usize),
    /// How far the lines of two indices of the axis are apart.
    stride: usize,
}

/// The sides of the grid of so many shards for an array with these axes: shards along the first axis, and along the second. It is as
/// square as can be. A 2D array, whose first axis has length 1, has one row of shards.
pub fn sides(shape: [usize; 3], shards: usize) -> [usize; 2] {
    let square = || (1..=shards.isqrt()).rev().find(|n| shards.is_multiple_of(*n)).unwrap_or(1);
    let first = if shape[0] == 1 { 1 } else { square() };
    [first, shards / first]
}

impl Grid {
    /// The grid for an array with these axes. The first axis of a 2D array has length 1.
    pub fn new(shape: [usize; 3], shards: usize) -> Self {
        let shards = sides(shape, shards);
        Self { shape, shards, residues: [0, 1].map(|d| Residues::new(shape[d], shards[d])) }
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// The axis of the lines that come in an exchange.
    pub fn axis(&self, number: usize) -> Residues {
        self.residues[1 - number]
    }

    /// The number of exchanges.
    pub fn exchanges(&self) -> usize {
        if self.shape[0] == 1 { 1 } else { 2 }
    }

    /// The place of a shard along the first axis, and along the second.
    fn place(&self, shard: u32) -> [usize; 2] {
        [shard as usize / self.shards[1], shard as usize % self.shards[1]]
    }

    /// The length of the lines after so many exchanges.
    pub fn length(&self, exchanges: usize) -> usize {
        self.shape[2 - exchanges]
    }

    /// The indices in the array of the lines that a shard has after so many exchanges, in the order of the lines, without their own
    /// axis: along its two other axes in turn.
    pub fn lines(&self, shard: u32, exchanges: usize) -> [Vec<usize>; 2] {
        let [first, second] = self.place(shard);
        let last = || share(self.shape[2], self.shards[1], second).collect();
        match exchanges {
            0 => [self.residues[0].indices(first).collect(), self.residues[1].indices(second).collect()],
            1 => [self.residues[0].indices(first).collect(), last()],
            _ => [last(), share(self.shape[1], self.shards[0], first).collect()],
        }
    }

    /// The indices of a value in the array, by its line's indices and its place in the line.
    pub fn indices(exchanges: usize, [a, b]: [usize; 2], at: usize) -> [usize; 3] {
        match exchanges {
            0 => [a, b, at],
            1 => [a, at, b],
            _ => [at, b, a],
        }
    }

    /// The indices in the array of a shard's values after so many exchanges, by the values' positions on its lines.
    pub fn places(&self, shard: u32, exchanges: usize) -> impl Fn(usize) -> [usize; 3] + use<> {
        let ([first, second], length) = (self.lines(shard, exchanges), self.length(exchanges));
        move |at| {
            let (line, place) = (at / length, at % length);
            Self::indices(exchanges, [first[line / second.len()], second[line % second.len()]], place)
        }
    }

    /// The exchange number `number` of a shard.
    pub fn exchange(&self, shard: u32, number: usize) -> Exchange {
        let [first, second] = self.place(shard);
        let [one, two] = self.lines(shard, number).map(|lines| lines.len());
        let length = self.length(number);
        match number {
            0 => Exchange {
                group: self.group(shard, 0),
                place: second,
                axis: self.residues[1],
                length,
                others: (one, two),
                stride: 1,
            },
            _ => {
                let group = self.group(shard, 1);
                Exchange { group, place: first, axis: self.residues[0], length, others: (two, 1), stride: two }
            }
        }
    }

    /// The shards that exchange with this one, itself included.
    pub fn group(&self, shard: u32, number: usize) -> Vec<u32> {
        let [first, second] = self.place(shard);
        let shards = match number {
            0 => (0..self.shards[1]).map(|g| first * self.shards[1] + g).collect::<Vec<_>>(),
            _ => (0..self.shards[0]).map(|g| g * self.shards[1] + second).collect(),
        };
        shards.into_iter().map(|s| s as u32).collect()
    }
}

impl Exchange {
    /// The part of its lines that goes to a member of the group: every one of them gets the same number of lines for each value
    /// in it.
    pub fn share(&self, to: usize) -> Range<usize> {
        share(self.length, self.group.len(), to)
    }

    /// The places in a line of the values that come from a member of the group.
    pub fn columns(&self, from: usize) -> Range<usize> {
        let (residues, each) = (self.axis.of(from), self.axis.each());
        residues.start * each..residues.end * each
    }

    /// The number of values from one member of the group to another, for an equal number of other lines.
    pub fn values(&self, from: usize, to: usize) -> usize {
        self.others.0 * self.share(to).len() * self.axis.count(from)
    }

    /// The line with an index along the other axis, and a position among the indices of the axis of the exchange.
    pub fn line(&self, other: usize, position: usize) -> usize {
        other * self.others.1 + position * self.stride
    }
}
