//! Pairwise exchange: all-to-alls of large blocks. Between few ranks [`direct`](super::direct) is good, too.

use super::method::{self, Case, Cells, Method, Needs};
use crate::schedule::{Combine, Part, Schedule};
use crate::{Kind, Ranks};

/// See [`pairwise_all_to_all`].
pub(crate) struct Pairwise;

impl Method for Pairwise {
    fn name(&self) -> &'static str {
        "pairwise"
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        (kind == Kind::AllToAll).then_some(Needs::Together)
    }
    fn most(&self, _: Kind) -> Option<u32> {
        Some(method::MOST)
    }
    fn most_offered(&self) -> u32 {
        method::MOST_IN_TURN
    }
    fn schedule(&self, Case { goal, .. }: &Case, rank: u32) -> Schedule {
        pairwise_all_to_all(rank, goal.ranks(), goal.contributors())
    }
    fn cells(&self, case: &Case, _: u32) -> Cells {
        Cells::Number(case.contributors() - 1)
    }
}

/// The steps of `rank` in an all-to-all by pairwise exchange: in each of m − 1 rounds, for m ranks, every rank sends a block to
/// one other and then reads one from another. Good for large blocks between many ranks, as no rank has more than one message
/// under way at a time.
///
/// In round k a rank sends to the one k + 1 places on in the circle of ranks, and reads from the one as far before.
///
/// The contributors are the receivers; other ranks have no steps.
///
/// ```
/// # use maniple_schedules::{Goal, Ranks, check, pairwise_all_to_all};
/// let all = Ranks::all(6);
/// let goal = Goal::all_to_all(6, all.clone(), all.clone());
/// let report = check(&goal, |rank| pairwise_all_to_all(rank, 6, &all)).unwrap();
/// assert_eq!((report.rounds, report.messages), (5, 30));
/// ```
pub fn pairwise_all_to_all(rank: u32, ranks: u32, of: &Ranks) -> Schedule {
    let [mine, result]: [u8; 2] = [0, 1];
    let all = of.len();
    let mut schedule = Schedule::new(rank, ranks, all).with_result(result);
    let Some(position) = of.position(rank) else { return schedule };
    schedule.local(Part::block(mine, position), Part::block(result, position), Combine::Replace);
    for round in 0..all - 1 {
        let distance = round + 1;
        let (to, from) = ((position + distance) % all, (position + all - distance) % all);
        schedule.update(of.at(to), round, Part::block(mine, to));
        schedule.read(of.at(from), round, Part::block(result, from), Combine::Replace);
    }
    schedule
}
