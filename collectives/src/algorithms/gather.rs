//! Gathers, scatters and allgathers.

use crate::goal::Ranks;
use crate::schedule::{Combine, Part, Schedule};
use std::ops::Range;

/// The blocks of `count` positions from one on, in a circle of `all`: one run, or two.
pub fn circle(start: u32, count: u32, all: u32) -> impl Iterator<Item = Range<u32>> {
    let first = start..(start + count).min(all);
    let rest = 0..count - first.len() as u32;
    [first, rest].into_iter().filter(|run| !run.is_empty())
}

/// The tree of a gather or scatter of the blocks of some ranks, rooted at any rank. A place p with k zeros at its end
/// stands for the places p to p + 2^k.
///
/// If the root has a block, the places are the distances from its position in the circle of positions. If it has none, it
/// is place 0, and position i is place i + 1.
#[derive(Clone, Copy)]
struct Tree<'a> {
    of: &'a Ranks,
    root: u32,
    position_of_root: Option<u32>,
}

impl<'a> Tree<'a> {
    fn new(root: u32, of: &'a Ranks) -> Self {
        Self { of, root, position_of_root: of.position(root) }
    }

    /// The number of places.
    fn all(self) -> u32 {
        self.of.len() + u32::from(self.position_of_root.is_none())
    }

    fn place(self, rank: u32) -> Option<u32> {
        match (self.of.position(rank), self.position_of_root) {
            (Some(position), Some(root)) => Some((position + self.of.len() - root) % self.of.len()),
            (Some(position), None) => Some(position + 1),
            (None, _) => (rank == self.root).then_some(0),
        }
    }

    /// The position of a place that has a block.
    fn position(self, place: u32) -> u32 {
        match self.position_of_root {
            Some(root) => (place + root) % self.of.len(),
            None => place - 1,
        }
    }

    fn rank(self, place: u32) -> u32 {
        if place == 0 { self.root } else { self.of.at(self.position(place)) }
    }

    /// The blocks of a place that is not the root and of all that it stands for.
    fn blocks(self, place: u32) -> impl Iterator<Item = Range<u32>> {
        let size = (1 << place.trailing_zeros()).min(self.all() - place);
        circle(self.position(place), size, self.of.len())
    }

    /// The places that send to a place, the nearest first.
    fn children(self, place: u32) -> impl DoubleEndedIterator<Item = u32> {
        let bits = if place == 0 { u32::BITS - 1 } else { place.trailing_zeros() };
        let all = self.all();
        (0..bits).map(move |bit| place | 1 << bit).filter(move |&child| child < all)
    }

    fn parent(self, place: u32) -> Option<u32> {
        (place > 0).then(|| place & (place - 1))
    }
}

/// The steps of `rank` in a gather of the blocks of m ranks at `root`, along a binomial tree. There is a message, in one or
/// two parts, from each of these ranks but the root, and at most ⌈log₂ (m + 1)⌉ rounds.
///
/// # Panics
///
/// If there is no rank with a block.
pub fn binomial_gather(rank: u32, ranks: u32, root: u32, of: &Ranks) -> Schedule {
    let tree = Tree::new(root, of);
    Schedule::linked(rank, |rank| {
        let mut schedule = Schedule::new(rank, ranks, of.len());
        let Some(place) = tree.place(rank) else { return schedule };
        for child in tree.children(place) {
            for blocks in tree.blocks(child) {
                schedule.receive(tree.rank(child), Part::new(0, blocks), Combine::Replace);
            }
        }
        if let Some(parent) = tree.parent(place) {
            tree.blocks(place).for_each(|blocks| schedule.send(tree.rank(parent), Part::new(0, blocks)));
        }
        schedule
    })
}

/// The steps of `rank` in a scatter of the blocks of `root` to m ranks, along the same tree from the root on.
///
/// # Panics
///
/// If there is no rank that gets a block.
pub fn binomial_scatter(rank: u32, ranks: u32, root: u32, of: &Ranks) -> Schedule {
    let tree = Tree::new(root, of);
    Schedule::linked(rank, |rank| {
        let mut schedule = Schedule::new(rank, ranks, of.len());
        let Some(place) = tree.place(rank) else { return schedule };
        if let Some(parent) = tree.parent(place) {
            for blocks in tree.blocks(place) {
                schedule.receive(tree.rank(parent), Part::new(0, blocks), Combine::Replace);
            }
        }
        // The largest part first: it has the longest way.
        for child in tree.children(place).rev() {
            tree.blocks(child).for_each(|blocks| schedule.send(tree.rank(child), Part::new(0, blocks)));
        }
        schedule
    })
}

/// The steps of `rank` in an allgather as Bruck does it: ⌈log₂ m⌉ rounds for m contributors. In each round a rank sends
/// all blocks that it has, or as many as are missing, to one rank, in one or two messages.
///
/// The contributors are the receivers; other ranks have no steps.
pub fn bruck_allgather(rank: u32, ranks: u32, of: &Ranks) -> Schedule {
    let all = of.len();
    Schedule::linked(rank, |rank| {
        let mut schedule = Schedule::new(rank, ranks, all);
        let Some(position) = of.position(rank) else { return schedule };
        let mut have = 1;
        while have < all {
            let count = have.min(all - have);
            let around = |distance: u32| (position + distance) % all;
            // It has the blocks from its own on.
            for blocks in circle(position, count, all) {
                schedule.send(of.at(around(all - have)), Part::new(0, blocks));
            }
            for blocks in circle(around(have), count, all) {
                schedule.receive(of.at(around(have)), Part::new(0, blocks), Combine::Replace);
            }
            have += count;
        }
        schedule
    })
}

/// The steps of `rank` in an allgather along a ring: m − 1 rounds for m contributors, each with one block from everybody
/// to the next one. Good for large blocks.
///
/// The contributors are the receivers; other ranks have no steps.
pub fn ring_allgather(rank: u32, ranks: u32, of: &Ranks) -> Schedule {
    let all = of.len();
    let mut schedule = Schedule::new(rank, ranks, all);
    let Some(position) = of.position(rank) else { return schedule };
    let around = |distance: u32| (position + distance) % all;
    for round in 0..all.saturating_sub(1) {
        schedule.update(of.at(around(1)), round, Part::block(0, around(all - round)));
        schedule.read(of.at(around(all - 1)), round, Part::block(0, around(all - round - 1)), Combine::Replace);
    }
    schedule
}
