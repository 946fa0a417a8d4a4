//! Recursive doubling, for any number of participants.

use super::method::{Case, Cells, Method, Needs, Ranked};
use super::{Scan, Survivors};
use crate::schedule::{Combine, Part, Schedule};
use crate::{Goal, Kind};
use std::sync::Arc;

/// See [`recursive_doubling`], [`Survivors`] and [`Scan`].
pub(crate) struct RecursiveDoubling;

impl Method for RecursiveDoubling {
    fn name(&self) -> &'static str {
        "recursive-doubling"
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        matches!(kind, Kind::Allreduce | Kind::Reduce | Kind::Scan | Kind::Exscan).then_some(Needs::Nothing)
    }
    fn sends_both_ways(&self, _: Kind) -> bool {
        true
    }
    fn survivors(&self, goal: &Goal) -> Option<Survivors> {
        // Of each pair of ranks beyond a power of two either one can go on.
        let is_open = !is_among_all(goal) || !goal.ranks().is_power_of_two();
        let reduces = matches!(goal.kind(), Kind::Allreduce | Kind::Reduce);
        (reduces && is_open)
            .then(|| Survivors::new(goal.ranks(), goal.contributors().clone(), goal.receivers().clone()))
    }
    fn prepared(&self, goal: &Goal) -> Option<Arc<dyn Ranked>> {
        match goal.kind() {
            Kind::Scan | Kind::Exscan => {
                let (from, to) = (goal.contributors().clone(), goal.receivers().clone());
                Some(Arc::new(Scan::new(goal.ranks(), from, to, goal.kind() == Kind::Scan)))
            }
            _ if is_among_all(goal) => None,
            _ => Some(Arc::new(self.survivors(goal)?)),
        }
    }
    fn schedule(&self, case: &Case, rank: u32) -> Schedule {
        recursive_doubling(rank, case.goal.ranks())
    }
    fn cells(&self, case: &Case, rank: u32) -> Cells {
        case.cells_by_place(rank)
    }
}

/// Whether all ranks contribute, and all receive.
fn is_among_all(goal: &Goal) -> bool {
    goal.contributors().len() == goal.ranks() && goal.receivers().len() == goal.ranks()
}

/// The steps of `rank` in an allreduce by recursive doubling.
///
/// If P is a power of two, there are log₂ P rounds of one update and one read. In round k the
/// partner is `rank ^ 2^k`. See §I-C and Figure 2 of "Scalable collectives for distributed asynchronous many-task
/// runtimes".
///
/// For any other P, let B be the largest power of two below P, and s = P − B. Ranks 2i and 2i + 1 with i < s form
/// pairs. The odd one hands its value to the even one. The even one takes part in the exchange of B ranks for both, and
/// hands the result back.
///
/// Pairs are neighbours. So each of the B ranks stands for a block of consecutive ranks, blocks stay in rank order, and
/// the operator need not commute. Both partners of an exchange compute lower ⊕ higher on the same two values. So all
/// ranks end with the same bits, even if the operator is not associative.
///
/// Takes O(log P) time and memory. Local: no rank talks to another.
///
/// ```
/// # use maniple_schedules::{Goal, check, recursive_doubling};
/// let report = check(&Goal::allreduce(8, 1), |rank| recursive_doubling(rank, 8)).unwrap();
/// assert_eq!((report.rounds, report.messages, report.subtasks), (3, 24, 48));
/// ```
///
/// # Panics
///
/// If `rank >= ranks`.
pub fn recursive_doubling(rank: u32, ranks: u32) -> Schedule {
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    let value = || Part::block(0, 0);
    let rounds = ranks.ilog2();
    let surplus = ranks - (1 << rounds);
    let paired = rank / 2 < surplus;
    let mut schedule = Schedule::new(rank, ranks, 1);

    if paired && rank % 2 == 1 {
        let even = rank - 1;
        schedule.update(even, 0, value());
        schedule.read(even, rounds, value(), Combine::Replace);
        return schedule;
    }

    if paired {
        schedule.read(rank + 1, 0, value(), Combine::IncomingIsHigher);
    }
    let place = if paired { rank / 2 } else { rank - surplus };
    for round in 0..rounds {
        let partner = place ^ (1 << round);
        // The partner's read number `round` comes one later where a fold came first.
        let (peer, folds) = if partner < surplus { (2 * partner, 1) } else { (partner + surplus, 0) };
        let combine = if partner > place { Combine::IncomingIsHigher } else { Combine::IncomingIsLower };
        schedule.update(peer, round + folds, value());
        schedule.read(peer, round, value(), combine);
    }
    if paired {
        schedule.update(rank + 1, 0, value());
    }
    schedule
}
