//! Allreduces of large vectors in two rounds.

use super::method::{self, Case, Cells, Method, Needs};
use super::order::{self, Fold, Order};
use crate::Kind;
use crate::schedule::{Combine, Part, Schedule};

/// See [`sliced`].
pub(crate) struct Sliced;

impl Method for Sliced {
    fn name(&self) -> &'static str {
        "sliced"
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        matches!(kind, Kind::Allreduce | Kind::Reduce).then_some(Needs::Together)
    }
    fn most(&self, _: Kind) -> Option<u32> {
        Some(method::MOST)
    }
    fn most_offered(&self, _: Kind) -> u32 {
        method::MOST_OFFERED_COMBINING
    }
    fn has_order(&self) -> bool {
        true
    }
    fn schedule(&self, case: &Case, rank: u32) -> Schedule {
        case.among(rank, case.contributors(), |rank, ranks| sliced(rank, ranks, case.order))
    }
    fn cells(&self, case: &Case, _: u32) -> Cells {
        Cells::Number(2 * (case.contributors() - 1))
    }
}

/// The steps of `rank` in an allreduce in two rounds: each rank combines its block of all contributions, and then sends
/// that to all others.
///
/// The vector is cut into P blocks. Each rank sends and receives 2·(P − 1) blocks in as many messages. With few ranks no
/// algorithm moves less, and none needs fewer rounds for that. Combinations have the brackets of `order`.
///
/// ```
/// # use maniple_schedules::{Goal, Order, check, sliced};
/// let report = check(&Goal::allreduce(5, 5), |rank| sliced(rank, 5, Order::Left)).unwrap();
/// assert_eq!((report.rounds, report.messages, report.blocks), (2, 5 * 8, 5 * 8));
/// assert!(report.by_loop);
/// ```
///
/// # Panics
///
/// If `rank >= ranks`.
pub fn sliced(rank: u32, ranks: u32, order: Order) -> Schedule {
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    // The contribution stays as it is while others read it. The result has a register of its own.
    let mut schedule = Schedule::new(rank, ranks, ranks).with_result(1);
    // In turn, so that not all begin with the same rank.
    let others = || (1..ranks).map(move |turn| (rank + turn) % ranks);
    // A rank's block for others is its update number `turn` from 0.
    let turn = |from: u32, to: u32| (to + ranks - from) % ranks - 1;
    for to in others() {
        schedule.update(to, order::number_of_read(order, ranks, Some(to), rank), Part::block(0, to));
    }
    schedule.local(Part::block(0, rank), Part::block(1, rank), Combine::Replace);
    let read = |schedule: &mut Schedule, from: u32, part: Part, how: Combine| {
        schedule.read(from, turn(from, rank), part, how);
    };
    Fold { schedule: &mut schedule, order, all: ranks, blocks: rank..rank + 1, read }.add(1, Some(rank));
    for to in others() {
        // It reads them from the rank before it on, downwards.
        schedule.update(to, ranks - 1 + turn(rank, to), Part::block(1, rank));
    }
    for before in 1..ranks {
        let from = (rank + ranks - before) % ranks;
        schedule.read(from, ranks - 1 + turn(from, rank), Part::block(1, from), Combine::Replace);
    }
    schedule
}
