//! Rings: allgathers of large blocks.

use super::method::{self, Case, Cells, Method, Needs};
use crate::schedule::{Combine, Part, Schedule};
use crate::{Kind, Ranks};

/// See [`ring_allgather`].
pub(crate) struct Ring;

impl Method for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        matches!(kind, Kind::Gather | Kind::Allgather).then_some(Needs::Together)
    }
    fn most(&self, _: Kind) -> Option<u32> {
        Some(method::MOST)
    }
    fn most_offered(&self, _: Kind) -> u32 {
        method::MOST_OFFERED
    }
    fn schedule(&self, Case { goal, .. }: &Case, rank: u32) -> Schedule {
        ring_allgather(rank, goal.ranks(), goal.contributors())
    }
    fn cells(&self, case: &Case, _: u32) -> Cells {
        Cells::Number(case.contributors() - 1)
    }
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
