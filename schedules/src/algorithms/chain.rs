//! Chains: broadcasts of large values.

use super::from_root::{at, place_of, places};
use super::method::{Case, Method, Needs, Numbers};
use crate::schedule::{Combine, Part, Schedule};
use crate::{Kind, Ranks};

/// See [`chain_broadcast`].
pub(crate) struct Chain;

impl Method for Chain {
    fn name(&self) -> &'static str {
        "chain"
    }
    fn numbers(&self) -> Option<Numbers> {
        Some(Numbers { usual: &[4, 16, 64], powers_of_two: false })
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        (kind == Kind::Broadcast).then_some(Needs::Nothing)
    }
    fn schedule(&self, Case { goal, number, .. }: &Case, rank: u32) -> Schedule {
        chain_broadcast(rank, goal.ranks(), goal.contributors().at(0), goal.receivers(), (*number).into())
    }
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
