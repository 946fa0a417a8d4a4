//! How the indices of an axis are dealt to shards.

use std::ops::Range;

/// The most groups of residues.
const GROUPS: usize = 8;

/// An axis whose transform is still to come. Its indices are dealt by their residues modulo the least divisor K of its length that
/// is at least the number of shards. So a shard can transform every K-th value. The residues are in G groups: first those that are
/// 0 modulo G, then those that are 1, and so on. A group's transforms are joined before the others are there. What is left when the
/// last value has come is to join G transforms.
#[derive(Debug, Clone, Copy)]
pub struct Residues {
    /// The length of the axis.
    pub length: usize,
    /// The divisor K.
    pub modulus: usize,
    /// The number G of groups, a divisor of K.
    pub groups: usize,
    shards: usize,
}

impl Residues {
    /// The axis for so many shards, both at least 1. With more shards than indices, some have none.
    pub fn new(length: usize, shards: usize) -> Self {
        let modulus = (shards..length).find(|k| length.is_multiple_of(*k)).unwrap_or(length);
        // Few residues have one group, because each way to join goes over all values once more.
        let groups = (4..=GROUPS).rev().find(|g| g * g <= modulus && modulus.is_multiple_of(*g)).unwrap_or(1);
        Self { length, modulus, groups, shards }
    }

    /// The places of a shard's residues among all.
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
        let Self { modulus, groups, .. } = *self;
        let (each, of_group) = (self.each(), modulus / groups);
        let residue = move |place: usize| place / of_group + groups * (place % of_group);
        self.of(shard).flat_map(move |place| (0..each).map(move |j| modulus * j + residue(place)))
    }
}

/// The pieces into which a shard that cuts its work into so many tasks cuts the part of each of some members.
pub fn pieces(groups: usize, members: usize) -> usize {
    (16 * groups).div_ceil(members).min(groups)
}

/// A part of an axis that has been transformed: one of `parts` runs of nearly equal length.
pub fn share(length: usize, parts: usize, part: usize) -> Range<usize> {
    let start = |part: usize| (length as u128 * part as u128 / parts as u128) as usize;
    start(part)..start(part + 1)
}
