//! The runtime's subtasks of a schedule.

use crate::{Goal, Schedule, Step};
use maniple_runtime::replay::{LARGE, Subtask};

/// Translates a schedule to a goal into the runtime's subtasks, for vectors of `bytes` bytes.
pub fn subtasks(schedule: &Schedule, goal: &Goal, bytes: usize) -> Vec<Subtask> {
    let awaits = if bytes > LARGE { schedule.awaits() } else { Vec::new() };
    let mut subtasks = Vec::with_capacity(schedule.steps().len());
    for (number, step) in schedule.steps().iter().enumerate() {
        let awaited = awaits.get(number).into_iter().flatten();
        subtasks.extend(awaited.map(|&update| Subtask::Await { update }));
        subtasks.push(match *step {
            Step::Update { peer, at, part } => Subtask::Update { peer, at, part },
            Step::Read { peer, at, part, combine } => Subtask::Read { peer, at, part, how: combine as u8 },
            // Nothing is there to combine, as in a barrier.
            Step::Local { .. } if bytes == 0 && goal.combines() => continue,
            Step::Local { from, part, combine } => Subtask::Local { from, part, how: combine as u8 },
        });
    }
    let at_the_end = awaits.last().into_iter().flatten();
    subtasks.extend(at_the_end.map(|&update| Subtask::Await { update }));
    subtasks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Goal, Groups, Order, Ranks, Schedules};

    /// The numbers of steps and parts are small enough, also where loans of large values are awaited.
    #[test]
    fn the_most_shards_have_schedules() {
        let most = 8192;
        let all = || Ranks::all(most);
        let goals = [
            Goal::allreduce(most, 1),
            Goal::reduce_scatter(most, all(), all()),
            Goal::gather(most, all(), all()),
            Goal::gather(most, all(), Ranks::all(2)),
            Goal::all_to_all(most, all(), all()),
            Goal::scan(most, all(), all(), 1),
        ];
        let mut tried = 0;
        for goal in goals {
            for algorithm in Algorithm::all_for(&goal).filter(|algorithm| algorithm.most_for(&goal).is_some()) {
                for order in [Order::Doubling, Order::Left] {
                    let schedules = Schedules::with(&goal, algorithm, order, Groups::of(most, 1));
                    for rank in [0, most / 2 + 1, most - 1] {
                        let subtasks = subtasks(&schedules.of(rank), &goal, usize::MAX);
                        assert!(subtasks.len() <= u16::MAX.into(), "{goal}, {algorithm}: {}", subtasks.len());
                        tried += 1;
                    }
                }
            }
        }
        assert_eq!(tried, 6 * 10);
    }
}
