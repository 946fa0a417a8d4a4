//! Scans: each rank gets the combination of the contributions up to its own, or before it.

use crate::goal::Ranks;
use crate::schedule::{Combine, Part, Schedule};

/// The steps of `rank` in a scan by doubling: ⌈log₂ m⌉ rounds for m contributors.
///
/// In round k each rank sends what it has to the rank 2^k after it. An exclusive scan combines what comes in another
/// register too, without the own contribution.
///
/// Contributions stay in rank order. Their brackets differ from rank to rank, but the combination that each rank wants is
/// its own. So the operator needs no laws.
///
/// ```
/// # use maniple_collectives::{Goal, Ranks, check, scan};
/// let goal = Goal::exscan(6, Ranks::all(6), 1);
/// let report = check(&goal, |rank| scan(rank, 6, &Ranks::all(6), false)).unwrap();
/// assert_eq!(report.messages, 5 + 4 + 2);
/// ```
pub fn scan(rank: u32, ranks: u32, of: &Ranks, inclusive: bool) -> Schedule {
    // What it has, what has come, and what came before the own contribution.
    let [mine, came, before] = [0, 1, 2].map(|register| Part::block(register, 0));
    let mut schedule = Schedule::new(rank, ranks, 1).with_result(if inclusive { 0 } else { 2 });
    let Some(position) = of.position(rank) else { return schedule };
    for round in (0..u32::BITS).take_while(|round| (of.len() - 1) >> round > 0) {
        let distance = 1 << round;
        if position + distance < of.len() {
            schedule.update(of.at(position + distance), round, mine.clone());
        }
        if position < distance {
            continue;
        }
        let from = of.at(position - distance);
        let how = if round == 0 { Combine::Replace } else { Combine::IncomingIsLower };
        let passes_on = position + 2 * distance < of.len();
        match (inclusive, passes_on) {
            (true, _) => schedule.read(from, round, mine.clone(), Combine::IncomingIsLower),
            (false, false) => schedule.read(from, round, before.clone(), how),
            (false, true) => {
                schedule.read(from, round, came.clone(), Combine::Replace);
                schedule.local(came.clone(), mine.clone(), Combine::IncomingIsLower);
                schedule.local(came.clone(), before.clone(), how);
            }
        }
    }
    schedule
}
