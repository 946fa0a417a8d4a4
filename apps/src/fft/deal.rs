//! How the indices of an axis are dealt to shards.

use std::ops::Range;

/// An axis whose transform is still to come. Its indices are dealt by their residues modulo the least divisor of its length that
/// is at least the number of shards. So what a shard has is complete transforms of every K-th value.
#[derive(Debug, Clone, Copy)]
pub struct Residues {
    /// The length of the axis.
    pub length: usize,
    /// The divisor K.
    pub modulus: usize,
    shards: usize,
}

impl Residues {
    /// The axis for so many shards, both at least 1. With more shards than indices, some have none.
    pub fn new(length: usize, shards: usize) -> Self {
        let modulus = (shards..length).find(|k| length.is_multiple_of(*k)).unwrap_or(length);
        Self { length, modulus, shards }
    }

    /// The residues of a shard.
    pub fn of(&self, shard: usize) -> Range<usize> {
        share(self.modulus, self.shards, shard)
    }

    /// The values with one residue.
    pub fn each(&self) -> usize {
        self.length / self.modulus
    }

    /// The number of indices of a shard.
    pub fn count(&self, shard: usize) -> usize {
        self.of(shard).len() * self.each()
    }

    /// The indices of a shard, one residue after the other.
    pub fn indices(&self, shard: usize) -> impl Iterator<Item = usize> {
        let Self { modulus, .. } = *self;
        let each = self.each();
        self.of(shard).flat_map(move |residue| (0..each).map(move |j| modulus * j + residue))
    }
}

/// A part of an axis that has been transformed: one of `parts` runs of nearly equal length.
pub fn share(length: usize, parts: usize, part: usize) -> Range<usize> {
    let start = |part: usize| (length as u128 * part as u128 / parts as u128) as usize;
    start(part)..start(part + 1)
}
