//! Broadcasts.

use crate::goal::Ranks;
use crate::schedule::{Combine, Part, Schedule};

/// The place of a rank in the order in which receivers get a value: the root has place 0.
fn place_of(rank: u32, root: u32, receivers: &Ranks) -> Option<u32> {
    if rank == root {
        return Some(0);
    }
    let position = receivers.position(rank)?;
    Some(position + 1 - u32::from(receivers.position(root).is_some_and(|root| root < position)))
}

/// The rank at a place.
fn at(place: u32, root: u32, receivers: &Ranks) -> u32 {
    match (place, receivers.position(root)) {
        (0, _) => root,
        (place, Some(root)) if place > root => receivers.at(place),
        (place, _) => receivers.at(place - 1),
    }
}

/// The places: those of all receivers and the root.
fn places(root: u32, receivers: &Ranks) -> u32 {
    receivers.len() + u32::from(!receivers.contains(root))
}

/// The steps of `rank` in a broadcast of `root` along a binomial tree.
///
/// At level k of the tree each of the 2^k ranks that have the value sends it to one more. With r receivers beside the root
/// there are r messages and ⌈log₂ (r + 1)⌉ levels. A value makes at most as many hops as a number up to r has binary ones;
/// so many are the rounds.
///
/// ```
/// # use maniple_collectives::{Goal, Ranks, binomial_broadcast, check};
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

/// The parent and the children of a place in the binomial tree of so many places. Place 0 is the root.
pub fn binomial(place: u32, places: u32) -> (Option<u32>, impl Iterator<Item = u32>) {
    let parent = (place > 0).then(|| place - (1 << place.ilog2()));
    let children = (first_round(place)..u32::BITS).map(move |round| u64::from(place) + (1 << round));
    (parent, children.take_while(move |&child| child < u64::from(places)).map(|child| child as u32))
}

/// The first round in which a place sends. It gets the value in the round before, that of its highest bit.
fn first_round(place: u32) -> u32 {
    if place == 0 { 0 } else { place.ilog2() + 1 }
}

/// The steps of `rank` in a broadcast of `root` along a chain, in `blocks` blocks.
///
/// Each rank sends a block on as soon as it has it. With r receivers beside the root there are r·b messages of one block,
/// and r rounds. If a rank handles one message at a time, the last block comes after the time of r + b − 1 messages. Good for
/// large values.
///
/// # Panics
///
/// If the root or a receiver is not below `ranks`.
pub fn chain_broadcast(rank: u32, ranks: u32, root: u32, receivers: &Ranks, blocks: u32) -> Schedule {
    let mut schedule = Schedule::new(rank, ranks, blocks);
    let Some(place) = place_of(rank, root, receivers) else { return schedule };
    for block in 0..blocks {
        if place > 0 {
            schedule.read(at(place - 1, root, receivers), block, Part::block(0, block), Combine::Replace);
        }
        if place + 1 < places(root, receivers) {
            schedule.update(at(place + 1, root, receivers), block, Part::block(0, block));
        }
    }
    schedule
}
