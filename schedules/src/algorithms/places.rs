//! The tree of recursive doubling, which other algorithms keep.

use std::ops::Range;

/// The leaves of recursive doubling's tree for P ranks, in order. There are 2^m of them, the largest power of two up to
/// P. The first s = P − 2^m stand for two ranks each, the others for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// m, the depth of the tree over the places.
    pub bits: u32,
    /// s, the places that stand for two ranks.
    pub surplus: u32,
}

impl Places {
    pub fn of(ranks: u32) -> Self {
        let bits = ranks.ilog2();
        Self { bits, surplus: ranks - (1 << bits) }
    }

    /// The place of a rank.
    pub fn place(self, rank: u32) -> u32 {
        if rank < 2 * self.surplus { rank / 2 } else { rank - self.surplus }
    }

    /// The ranks of a place: one or two.
    pub fn ranks(self, place: u32) -> Range<u32> {
        if place < self.surplus { 2 * place..2 * place + 2 } else { place + self.surplus..place + self.surplus + 1 }
    }

    /// The first rank of a place, which takes part for all of it.
    pub fn first(self, place: u32) -> u32 {
        self.ranks(place).start
    }

    /// Whether a place stands for two ranks.
    pub fn is_pair(self, place: u32) -> bool {
        place < self.surplus
    }

    /// Cuts some ranks where the tree has its topmost node over them. They must be all the ranks of one node of the
    /// tree, and more than one.
    pub fn halves(self, of: Range<u32>) -> (Range<u32>, Range<u32>) {
        let (first, last) = (self.place(of.start), self.place(of.end - 1));
        let middle = if first == last { of.start + 1 } else { self.first(first.midpoint(last) + 1) };
        (of.start..middle, middle..of.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_hold_all_ranks_in_order() {
        for ranks in 1..=70 {
            let places = Places::of(ranks);
            let all: Vec<u32> = (0..1 << places.bits).flat_map(|place| places.ranks(place)).collect();
            assert_eq!(all, (0..ranks).collect::<Vec<_>>());
            for place in 0..1 << places.bits {
                assert!(places.ranks(place).all(|rank| places.place(rank) == place));
                assert_eq!(places.is_pair(place), places.ranks(place).len() == 2);
            }
        }
    }

    #[test]
    fn halves_are_the_nodes_of_the_tree() {
        assert_eq!(Places::of(6).halves(0..6), (0..4, 4..6));
        assert_eq!(Places::of(6).halves(0..4), (0..2, 2..4));
        assert_eq!(Places::of(6).halves(2..4), (2..3, 3..4));
        assert_eq!(Places::of(8).halves(0..8), (0..4, 4..8));
        assert_eq!(Places::of(9).halves(0..9), (0..5, 5..9));
        assert_eq!(Places::of(9).halves(0..5), (0..3, 3..5));
        assert_eq!(Places::of(9).halves(0..3), (0..2, 2..3));
    }
}
