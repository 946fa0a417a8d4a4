//! Binomial trees: broadcasts, gathers and scatters.

use super::bruck::circle;
use super::from_root::{at, place_of, places};
use super::method::{Case, Method, Needs};
use crate::schedule::{Combine, Part, Schedule};
use crate::{Kind, Ranks};
use std::ops::Range;

/// See [`binomial_broadcast`], [`binomial_gather`] and [`binomial_scatter`].
pub(crate) struct Binomial;

impl Method for Binomial {
    fn name(&self) -> &'static str {
        "binomial"
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        match kind {
            Kind::Broadcast | Kind::Scatter => Some(Needs::Nothing),
            Kind::Gather | Kind::Allgather => Some(Needs::OneReceiver),
            _ => None,
        }
    }
    fn joins_blocks(&self, kind: Kind) -> bool {
        kind != Kind::Broadcast
    }
    fn schedule(&self, Case { goal, .. }: &Case, rank: u32) -> Schedule {
        let (ranks, from, to) = (goal.ranks(), goal.contributors(), goal.receivers());
        match goal.kind() {
            Kind::Gather | Kind::Allgather => binomial_gather(rank, ranks, to.at(0), from),
            Kind::Scatter => binomial_scatter(rank, ranks, from.at(0), to),
            _ => binomial_broadcast(rank, ranks, from.at(0), to),
        }
    }
}

/// The steps of `rank` in a broadcast of `root` along a binomial tree.
///
/// At level k of the tree each of the 2^k ranks that have the value sends it to one more. With r receivers beside the
/// root there are r messages and ⌈log₂ (r + 1)⌉ levels. A value makes at most as many hops as a number up to r has
/// binary ones; that is the number of rounds.
///
/// ```
/// # use maniple_schedules::{Goal, Ranks, binomial_broadcast, check};
/// let goal = Goal::broadcast(6, 2, 1);
/// let report = check(&goal, |rank| binomial_broadcast(rank, 6, 2, &Ranks::all(6))).unwrap();
/// assert_eq!((report.rounds, report.messages), (2, 5));
/// ```
///
/// # Panics
///
/// If the root or a receiver is not below `ranks`.
pub fn binomial_broadcast(rank: u32, ranks: u32, root: u32, receivers: &Ranks) -> Schedule {
    let mut schedule = Schedule::new(rank, ranks, 1);
    let Some(place) = place_of(rank, root, receivers) else { return schedule };
    let (value, (parent, children)) = (|| Part::block(0, 0), binomial(place, places(root, receivers)));
    if let Some(parent) = parent {
        let update = place.ilog2() - first_round(parent);
        schedule.read(at(parent, root, receivers), update, value(), Combine::Replace);
    }
    children.for_each(|child| schedule.update(at(child, root, receivers), 0, value()));
    schedule
}

/// The parent and the children of a place in the binomial tree of `places` places. Place 0 is the root.
pub fn binomial(place: u32, places: u32) -> (Option<u32>, impl Iterator<Item = u32>) {
    let parent = (place > 0).then(|| place - (1 << place.ilog2()));
    let children = (first_round(place)..u32::BITS).map(move |round| u64::from(place) + (1 << round));
    (parent, children.take_while(move |&child| child < u64::from(places)).map(|child| child as u32))
}

/// The first round in which a place sends. It gets the value in the round before, the round of its highest bit.
fn first_round(place: u32) -> u32 {
    if place == 0 { 0 } else { place.ilog2() + 1 }
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
