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
    let (Some(place), places) = (place_of(rank, root, receivers), places(root, receivers)) else { return schedule };
    let value = || Part::block(0, 0);
    // The round in which it gets the value is that of its highest bit.
    let first = |place: u32| if place == 0 { 0 } else { place.ilog2() + 1 };
    if place > 0 {
        let round = place.ilog2();
        let parent = place - (1 << round);
        schedule.read(at(parent, root, receivers), round - first(parent), value(), Combine::Replace);
    }
    for round in first(place).. {
        let child = u64::from(place) + (1 << round);
        if child >= u64::from(places) {
            return schedule;
        }
        schedule.update(at(child as u32, root, receivers), 0, value());
    }
    schedule
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
