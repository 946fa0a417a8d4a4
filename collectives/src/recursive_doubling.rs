//! Recursive doubling, for any number of participants.

use crate::schedule::{Combine, Schedule, Step};

/// The steps of `rank` in an allreduce by recursive doubling.
///
/// If P is a power of two, there are log₂ P rounds of one [`Step::Update`] and one [`Step::Read`]. In round k the
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
/// # use maniple_collectives::{check, recursive_doubling};
/// let report = check(8, |rank| recursive_doubling(rank, 8)).unwrap();
/// assert_eq!((report.rounds, report.messages, report.subtasks), (3, 24, 48));
/// ```
///
/// # Panics
///
/// If `rank >= participants`.
pub fn recursive_doubling(rank: u32, participants: u32) -> Schedule {
    assert!(rank < participants, "rank {rank} is not below the {participants} participants");
    let rounds = participants.ilog2() as u16;
    let surplus = participants - (1 << rounds);
    let paired = rank / 2 < surplus;

    if paired && rank % 2 == 1 {
        let even = rank - 1;
        let steps =
            vec![Step::Update { peer: even, at: 0 }, Step::Read { peer: even, at: rounds, combine: Combine::Replace }];
        return Schedule::new(rank, participants, steps);
    }

    let mut steps = Vec::with_capacity(2 * usize::from(rounds) + 2 * usize::from(paired));
    if paired {
        steps.push(Step::Read { peer: rank + 1, at: 0, combine: Combine::IncomingIsHigher });
    }
    let block = if paired { rank / 2 } else { rank - surplus };
    for round in 0..rounds {
        let partner = block ^ (1 << round);
        // The partner's read number `round` comes one later where a fold came first.
        let (peer, folds) = if partner < surplus { (2 * partner, 1) } else { (partner + surplus, 0) };
        let combine = if partner > block { Combine::IncomingIsHigher } else { Combine::IncomingIsLower };
        steps.push(Step::Update { peer, at: round + folds });
        steps.push(Step::Read { peer, at: round, combine });
    }
    if paired {
        steps.push(Step::Update { peer: rank + 1, at: 0 });
    }
    Schedule::new(rank, participants, steps)
}
