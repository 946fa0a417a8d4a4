//! Each receiver takes what it wants from each contributor.

use super::method::{self, Case, Cells, Method, Needs};
use super::order::{self, Fold, Order};
use crate::schedule::{Combine, Part, Schedule};
use crate::{Goal, Kind, Laws};

/// See [`direct`].
pub(crate) struct Direct;

impl Method for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }
    fn needs(&self, _: Kind) -> Option<Needs> {
        Some(Needs::Nothing)
    }
    fn most(&self, _: Kind) -> Option<u32> {
        Some(method::MOST)
    }
    /// Where values are combined, every receiver combines all of them, and other algorithms share that work. A block that is
    /// not combined has to come to its receiver in any case, and here it is sent only once.
    fn most_offered(&self, kind: Kind) -> u32 {
        if kind.combines() { method::MOST_OFFERED_COMBINING } else { method::MOST_OFFERED }
    }
    /// Its scans have other brackets than scans by recursive doubling, so the same bits need associativity. In the order of a
    /// loop no law is needed, because a loop combines so.
    fn laws(&self, kind: Kind) -> Laws {
        match kind {
            Kind::Scan | Kind::Exscan => Laws { associative: true, ..Laws::NONE },
            _ => Laws::NONE,
        }
    }
    fn has_order(&self) -> bool {
        true
    }
    fn schedule(&self, case: &Case, rank: u32) -> Schedule {
        direct(case.goal, rank, case.order)
    }
    fn cells(&self, Case { goal, .. }: &Case, rank: u32) -> Cells {
        let (from, to) = (goal.contributors(), goal.receivers());
        let (own, receives) = (from.position(rank), to.contains(rank));
        let (reads, updates) = match goal.kind() {
            Kind::Scan | Kind::Exscan => {
                let combined = if receives { goal.combined(rank) } else { 0 };
                (combined - u32::from(own.is_some_and(|own| own < combined)), to.len() - to.below(rank + 1))
            }
            _ => (from.len() - u32::from(own.is_some()), to.len() - u32::from(receives)),
        };
        let (reads, updates) = (if receives { reads } else { 0 }, if own.is_some() { updates } else { 0 });
        Cells::Number(reads.max(updates))
    }
}

/// The steps of `rank` to any goal, in one round: each contributor sends each receiver what this wants of it.
///
/// With few ranks nothing is faster. There are as many messages as pairs of a contributor and another rank that receives
/// from it. Combinations have the brackets of `order`, for any contributors and receivers.
///
/// ```
/// # use maniple_schedules::{Goal, Order, Ranks, check, direct};
/// // Ranks 1 to 3 contribute; ranks 0 and 3 receive.
/// let goal = Goal::reduce(4, Ranks::of(1..4), Ranks::of([0, 3]), 1);
/// let report = check(&goal, |rank| direct(&goal, rank, Order::Left)).unwrap();
/// assert_eq!((report.rounds, report.messages), (1, 5));
/// assert!(report.by_loop);
/// ```
pub fn direct(goal: &Goal, rank: u32, order: Order) -> Schedule {
    let (contributors, receivers) = (goal.contributors(), goal.receivers());
    let own = contributors.position(rank);
    // Where the result has other blocks than the contribution, it goes to another register.
    let result = u8::from(!goal.combines() || goal.result(rank) != goal.contribution(rank));
    let mut schedule = Schedule::new(rank, goal.ranks(), goal.blocks()).with_result(result);
    if let Some(own) = own {
        // The ranks after this one first, so that not all begin with the same receiver.
        let start = receivers.below(rank + 1);
        for turn in 0..receivers.len() {
            let to = receivers.at((start + turn) % receivers.len());
            if let Some((sent, _)) = goal.message(own, to).filter(|_| to != rank) {
                schedule.update(to, number_of_read(goal, to, own, order), Part::new(0, sent));
            }
        }
    }
    let blocks = goal.result(rank);
    if blocks.is_empty() {
        return schedule;
    }
    let update = |position: u32| {
        let from = contributors.at(position);
        (from, turn_of(receivers.below(from + 1), receivers.below(rank), receivers.len()))
    };
    if goal.combines() {
        let all = goal.combined(rank);
        let own = own.filter(|&own| own < all);
        if own.is_some() && result != 0 {
            schedule.local(Part::new(0, blocks.clone()), Part::new(result, blocks.clone()), Combine::Replace);
        }
        let read = |schedule: &mut Schedule, position: u32, part: Part, how: Combine| {
            let (from, at) = update(position);
            schedule.read(from, at, part, how);
        };
        Fold { schedule: &mut schedule, order, all, blocks, read }.add(result, own);
        return schedule;
    }
    for turn in 0..contributors.len() {
        // In the order in which they send: ranks before this one first.
        let position = (first(goal, rank) + contributors.len() - turn) % contributors.len();
        let Some((sent, into)) = goal.message(position, rank) else { continue };
        let into = Part::new(result, into);
        if own == Some(position) {
            schedule.local(Part::new(0, sent), into, Combine::Replace);
        } else {
            let (from, at) = update(position);
            schedule.read(from, at, into, Combine::Replace);
        }
    }
    schedule
}

/// The position of the contributor that a receiver begins with: itself, or the last one before it.
fn first(goal: &Goal, receiver: u32) -> u32 {
    let count = goal.contributors().len();
    (goal.contributors().below(receiver + 1) + count - 1) % count
}

/// How many turns after `start` a position has its turn, in a circle of `count` positions.
fn turn_of(start: u32, position: u32, count: u32) -> u32 {
    (position + count - start % count) % count
}

/// The number of the contribution at a position among the reads of a receiver.
fn number_of_read(goal: &Goal, receiver: u32, position: u32, order: Order) -> u32 {
    let own = goal.contributors().position(receiver);
    if goal.combines() {
        let all = goal.combined(receiver);
        return order::number_of_read(order, all, own.filter(|&own| own < all), position);
    }
    // Turns go down. What it has itself comes first, and is not read.
    turn_of(position, first(goal, receiver), goal.contributors().len()) - u32::from(own.is_some())
}
