//! The algorithms of Bruck et al. ("Efficient algorithms for all-to-all communications in multiport message-passing systems",
//! 1997): messages over distances that double, in a circle.

use super::method::{self, Case, Cells, Method, Needs};
use crate::schedule::{Combine, Part, Schedule};
use crate::{Kind, Ranks};
use std::ops::Range;

/// See [`bruck_allgather`] and [`bruck_all_to_all`].
pub(crate) struct Bruck;

impl Method for Bruck {
    fn name(&self) -> &'static str {
        "bruck"
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        matches!(kind, Kind::Gather | Kind::Allgather | Kind::AllToAll).then_some(Needs::Together)
    }
    fn most(&self, kind: Kind) -> Option<u32> {
        (kind == Kind::AllToAll).then_some(method::MOST)
    }
    fn needs_equal_blocks(&self, kind: Kind) -> bool {
        kind == Kind::AllToAll
    }
    fn joins_blocks(&self, _: Kind) -> bool {
        true
    }
    fn schedule(&self, Case { goal, .. }: &Case, rank: u32) -> Schedule {
        match goal.kind() {
            Kind::AllToAll => bruck_all_to_all(rank, goal.ranks(), goal.contributors()),
            _ => bruck_allgather(rank, goal.ranks(), goal.contributors()),
        }
    }
    fn cells(&self, case: &Case, rank: u32) -> Cells {
        let all = case.contributors();
        match case.goal.contributors().position(rank) {
            None => Cells::Made,
            Some(_) if case.goal.kind() == Kind::AllToAll => Cells::Number(all.next_power_of_two().trailing_zeros()),
            Some(position) => Cells::Number(cells_of_allgather(position, all)),
        }
    }
}

/// A round in which each position of a circle sends what it has to a position before it, and receives from one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircleRound {
    /// How far away the two others are.
    pub distance: u32,
    /// The number of blocks that each sends: the block of the sender and the blocks of the positions after it.
    pub count: u32,
}

/// The ⌈log₂ `all`⌉ rounds in which all positions of a circle gather the blocks of all.
pub fn circle_rounds(all: u32) -> impl Iterator<Item = CircleRound> {
    let rounds = std::iter::successors(Some(1_u32), |have| have.checked_mul(2)).take_while(move |&have| have < all);
    rounds.map(move |have| CircleRound { distance: have, count: have.min(all - have) })
}

/// The blocks of `count` positions from one on, in a circle of `all`: one run, or two.
pub fn circle(start: u32, count: u32, all: u32) -> impl Iterator<Item = Range<u32>> {
    let first = start..(start + count).min(all);
    let rest = 0..count - first.len() as u32;
    [first, rest].into_iter().filter(|run| !run.is_empty())
}

/// The steps of `rank` in an allgather as Bruck does it: ⌈log₂ m⌉ rounds for m contributors. In each round a rank sends
/// all blocks that it has, or as many as are missing, to one rank, in one or two messages.
///
/// The contributors are the receivers; other ranks have no steps.
pub fn bruck_allgather(rank: u32, ranks: u32, of: &Ranks) -> Schedule {
    let all = of.len();
    Schedule::linked(rank, |rank| {
        let mut schedule = Schedule::new(rank, ranks, all);
        if let Some(position) = of.position(rank) {
            circle_steps(&mut schedule, (position, all), |blocks| blocks, |position| of.at(position));
        }
        schedule
    })
}

/// The steps of a position of a circle in the rounds in which all gather the blocks of all. Each position has the blocks that `of` gives,
/// and the rank that `at` gives.
pub fn circle_steps(
    schedule: &mut Schedule,
    (position, all): (u32, u32),
    of: impl Fn(Range<u32>) -> Range<u32>,
    at: impl Fn(u32) -> u32,
) {
    let around = |distance: u32| (position + distance) % all;
    for CircleRound { distance, count } in circle_rounds(all) {
        // It has the blocks from its own on.
        for blocks in circle(position, count, all) {
            schedule.send(at(around(all - distance)), Part::new(0, of(blocks)));
        }
        for blocks in circle(around(distance), count, all) {
            schedule.receive(at(around(distance)), Part::new(0, of(blocks)), Combine::Replace);
        }
    }
}

/// The cells of a contributor in an allgather: in each round one message each way, or two if it goes round the end.
fn cells_of_allgather(position: u32, all: u32) -> u32 {
    let (mut updates, mut reads) = (0, 0);
    for CircleRound { distance, count } in circle_rounds(all) {
        updates += 1 + u32::from(position + count > all);
        reads += 1 + u32::from((position + distance) % all + count > all);
    }
    updates.max(reads)
}

/// The steps of `rank` in an all-to-all as Bruck does it: ⌈log₂ m⌉ messages from each of m ranks, with half of all blocks in
/// each. Good for small blocks.
///
/// A block whose way has the length d, in the circle of ranks, goes 2^k ranks on in round k if d has that bit. What a rank
/// sends in a round is packed together first.
///
/// The contributors are the receivers; other ranks have no steps.
///
/// ```
/// # use maniple_schedules::{Goal, Ranks, bruck_all_to_all, check};
/// let all = Ranks::all(6);
/// let goal = Goal::all_to_all(6, all.clone(), all.clone());
/// let report = check(&goal, |rank| bruck_all_to_all(rank, 6, &all)).unwrap();
/// assert_eq!((report.rounds, report.messages), (3, 18));
/// ```
pub fn bruck_all_to_all(rank: u32, ranks: u32, of: &Ranks) -> Schedule {
    // The contribution; by the length of a block's way; what is sent; what comes; the result.
    let [mine, ways_of, sent, came, result]: [u8; 5] = [0, 1, 2, 3, 4];
    let all = of.len();
    let mut schedule = Schedule::new(rank, ranks, all).with_result(result);
    let Some(position) = of.position(rank) else { return schedule };
    let around = |distance: u32| (position + distance) % all;
    let copy = |schedule: &mut Schedule, from: Part, to: Part| schedule.local(from, to, Combine::Replace);
    let mut done = 0;
    for run in circle(position, all, all) {
        let ways = done..done + run.len() as u32;
        done = ways.end;
        copy(&mut schedule, Part::new(mine, run), Part::new(ways_of, ways));
    }
    for round in (0..u32::BITS).take_while(|round| all > 1 && (all - 1) >> round > 0) {
        let distance = 1 << round;
        // The ways that have the bit come in runs; with them, where their blocks are when packed.
        let mut count = 0;
        let runs: Vec<_> = (distance..all)
            .step_by(2 * distance as usize)
            .map(|start| {
                let run = start..(start + distance).min(all);
                count += run.len() as u32;
                (count - run.len() as u32..count, run)
            })
            .collect();
        for (packed, run) in &runs {
            copy(&mut schedule, Part::new(ways_of, run.clone()), Part::new(sent, packed.clone()));
        }
        schedule.update(of.at(around(distance)), round, Part::new(sent, 0..count));
        schedule.read(of.at(around(all - distance)), round, Part::new(came, 0..count), Combine::Replace);
        for (packed, run) in runs {
            copy(&mut schedule, Part::new(came, packed), Part::new(ways_of, run));
        }
    }
    for way in 0..all {
        // It comes from as far before.
        copy(&mut schedule, Part::block(ways_of, way), Part::block(result, around(all - way)));
    }
    schedule
}
