//! Gathers, scatters and allgathers.

use crate::goal::Ranks;
use crate::schedule::{Combine, Part, Schedule};
use std::ops::Range;

/// The blocks of `count` positions from one on, in a circle of `all`: one run, or two.
fn circle(start: u32, count: u32, all: u32) -> impl Iterator<Item = Range<u32>> {
    let first = start..(start + count).min(all);
    let rest = 0..count - first.len() as u32;
    [first, rest].into_iter().filter(|run| !run.is_empty())
}

/// The tree of a gather or scatter over `all` positions, rooted at position `root`. A position's *place* is its distance
/// from the root in the circle. Place p with k zeros at its end stands for the places p to p + 2^k.
#[derive(Clone, Copy)]
struct Tree {
    all: u32,
    root: u32,
}

impl Tree {
    fn place(self, position: u32) -> u32 {
        (position + self.all - self.root) % self.all
    }

    fn position(self, place: u32) -> u32 {
        (place + self.root) % self.all
    }

    /// The places that a place stands for.
    fn size(self, place: u32) -> u32 {
        if place == 0 { self.all } else { (1 << place.trailing_zeros()).min(self.all - place) }
    }

    /// The blocks of a place and all that it stands for.
    fn blocks(self, place: u32) -> impl Iterator<Item = Range<u32>> {
        circle(self.position(place), self.size(place), self.all)
    }

    /// The places that send to a place, the nearest first.
    fn children(self, place: u32) -> impl DoubleEndedIterator<Item = u32> {
        let bits = if place == 0 { u32::BITS - 1 } else { place.trailing_zeros() };
        (0..bits).map(move |bit| place | 1 << bit).filter(move |&child| child < self.all)
    }

    fn parent(self, place: u32) -> Option<u32> {
        (place > 0).then(|| place & (place - 1))
    }
}

/// The steps of `rank` in a gather of all ranks' blocks at `root`, along a binomial tree. There are P − 1 messages, some
/// of them in two parts, and ⌈log₂ P⌉ rounds.
///
/// # Panics
///
/// If `rank` or `root` is not below `ranks`.
pub fn binomial_gather(rank: u32, ranks: u32, root: u32) -> Schedule {
    assert!(rank < ranks && root < ranks, "rank {rank} or root {root} is not below the {ranks} ranks");
    let tree = Tree { all: ranks, root };
    Schedule::linked(rank, |rank| {
        let mut schedule = Schedule::new(rank, ranks, ranks);
        let place = tree.place(rank);
        for child in tree.children(place) {
            for blocks in tree.blocks(child) {
                schedule.receive(tree.position(child), Part::new(0, blocks), Combine::Replace);
            }
        }
        if let Some(parent) = tree.parent(place) {
            tree.blocks(place).for_each(|blocks| schedule.send(tree.position(parent), Part::new(0, blocks)));
        }
        schedule
    })
}

/// The steps of `rank` in a scatter of the blocks of `root` to all ranks, along the same tree from the root on.
///
/// # Panics
///
/// If `rank` or `root` is not below `ranks`.
pub fn binomial_scatter(rank: u32, ranks: u32, root: u32) -> Schedule {
    assert!(rank < ranks && root < ranks, "rank {rank} or root {root} is not below the {ranks} ranks");
    let tree = Tree { all: ranks, root };
    Schedule::linked(rank, |rank| {
        let mut schedule = Schedule::new(rank, ranks, ranks);
        let place = tree.place(rank);
        if let Some(parent) = tree.parent(place) {
            for blocks in tree.blocks(place) {
                schedule.receive(tree.position(parent), Part::new(0, blocks), Combine::Replace);
            }
        }
        // The largest part first: it has the longest way.
        for child in tree.children(place).rev() {
            tree.blocks(child).for_each(|blocks| schedule.send(tree.position(child), Part::new(0, blocks)));
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
