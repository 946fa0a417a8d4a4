//! The schedules of all ranks, with the round of each step.

use maniple_collectives::{Algorithm, CheckError, Goal, Groups, Order, Report, Schedule, Schedules, Step, check};

/// The proved schedules of a collective.
pub struct ProvedSchedules {
    /// What they reach.
    pub goal: Goal,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// What the check found.
    pub report: Report,
    /// The schedule of each rank.
    pub schedules: Vec<Schedule>,
    /// The round of each step of each rank, from 1. A step is not in an earlier round than the steps before it. So a value that
    /// comes early is read later. A local step is in the round of the step before it, or in 0.
    pub rounds: Vec<Vec<u32>>,
}

impl ProvedSchedules {
    /// The schedules of an algorithm that is for the goal, with this number of ranks on each processor. `goal` makes
    /// the goal with a number of blocks.
    ///
    /// # Errors
    /// Schedules that do not reach the goal, which would be a mistake of the library.
    pub fn new(goal: impl Fn(u32) -> Goal, algorithm: Algorithm, per_processor: u32) -> Result<Self, CheckError> {
        let one = goal(1);
        let groups = Groups::of(one.ranks(), per_processor);
        let all = Schedules::with(&one, algorithm, Order::Doubling, groups);
        let schedules: Vec<Schedule> = (0..one.ranks()).map(|rank| all.of(rank)).collect();
        let blocks = schedules[0].blocks();
        let goal = if one.blocks() == 1 { goal(blocks) } else { one };
        let report = check(&goal, |rank| schedules[rank as usize].clone())?;
        let rounds = rounds(&schedules);
        Ok(Self { goal, algorithm, report, schedules, rounds })
    }

    /// The round in which the ranks of a processor take the result of the first of them, after its last step.
    pub fn taken(&self, first: u32) -> u32 {
        // It has combined their contributions in round 1.
        self.rounds[first as usize].last().copied().unwrap_or(1) + 1
    }

    /// The rounds of all steps, and of the ends of groups. There may be one more than the longest chain has.
    pub fn columns(&self) -> u32 {
        let groups = self.schedules.iter().filter(|schedule| schedule.group().len() > 1);
        let ends = groups.map(|schedule| self.taken(schedule.group().start));
        self.rounds.iter().flatten().copied().chain(ends).max().unwrap_or(0)
    }

    /// All messages: the sender's step, the receiver's step and the round.
    pub fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        self.schedules.iter().zip(&self.rounds).flat_map(|(schedule, rounds)| {
            let mut updates = 0;
            schedule.steps().iter().zip(rounds).filter_map(move |(step, &round)| {
                let Step::Update { peer, at, part } = *step else { return None };
                updates += 1;
                Some(Message { schedule, update: updates - 1, to: peer, at: u32::from(at), part, round })
            })
        })
    }
}

/// A message.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The sender's schedule.
    pub schedule: &'a Schedule,
    /// The number of the update.
    pub update: u32,
    /// The receiver.
    pub to: u32,
    /// The number of the receiver's read.
    pub at: u32,
    /// The number of the part that is sent.
    pub part: u16,
    /// The round in which it is sent.
    pub round: u32,
}

/// The round of each step. A message is one round after the last one that its sender has read before. In a group of several
/// ranks the first has a round before its steps, to combine the others' contributions.
fn rounds(schedules: &[Schedule]) -> Vec<Vec<u32>> {
    let grouped = |schedule: &Schedule| u32::from(schedule.group().len() > 1);
    let mut depth: Vec<u32> = schedules.iter().map(grouped).collect();
    let mut rounds: Vec<Vec<u32>> = vec![Vec::new(); schedules.len()];
    let mut came: Vec<Vec<Option<u32>>> = schedules.iter().map(|s| vec![None; s.reads()]).collect();
    let mut reads = vec![0; schedules.len()];
    let mut ready: Vec<usize> = (0..schedules.len()).rev().collect();
    while let Some(rank) = ready.pop() {
        while let Some(step) = schedules[rank].steps().get(rounds[rank].len()) {
            let before = rounds[rank].last().copied().unwrap_or(0);
            let round = match *step {
                Step::Update { peer, at, .. } => {
                    came[peer as usize][usize::from(at)] = Some(depth[rank] + 1);
                    ready.push(peer as usize);
                    depth[rank] + 1
                }
                Step::Read { .. } => {
                    let Some(round) = came[rank][reads[rank]] else { break };
                    reads[rank] += 1;
                    depth[rank] = depth[rank].max(round);
                    round.max(before)
                }
                Step::Local { .. } => before,
            };
            rounds[rank].push(round);
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_collectives::Ranks;

    /// The last round of the steps is the number of rounds that the check finds.
    #[test]
    fn rounds_are_those_of_the_check() {
        for ranks in 1..=33 {
            let (root, all) = (ranks / 2, Ranks::all(ranks));
            let goals: [Box<dyn Fn(u32) -> Goal>; 8] = [
                Box::new(|blocks| Goal::allreduce(ranks, blocks)),
                Box::new(|blocks| Goal::reduce(ranks, Ranks::all(ranks), Ranks::one(root), blocks)),
                Box::new(|blocks| Goal::broadcast(ranks, root, blocks)),
                Box::new(|_| Goal::gather(ranks, all.clone(), all.clone())),
                Box::new(|_| Goal::scatter(ranks, root, all.clone())),
                Box::new(|_| Goal::reduce_scatter(ranks, all.clone(), all.clone())),
                Box::new(|_| Goal::all_to_all(ranks, all.clone(), all.clone())),
                Box::new(|blocks| Goal::exscan(ranks, all.clone(), Ranks::of((0..ranks).step_by(2)), blocks)),
            ];
            for goal in goals {
                for algorithm in Algorithm::all_for(&goal(1)) {
                    let proved = ProvedSchedules::new(&goal, algorithm, 4).expect("proved");
                    let name = format!("{algorithm}, {} of {ranks}", proved.goal);
                    let last = proved.rounds.iter().flatten().copied().max().unwrap_or(0);
                    match proved.schedules.iter().any(|s| s.group().len() > 1) {
                        false => assert_eq!((last, proved.columns()), (proved.report.rounds, last), "{name}"),
                        // What comes early to the first of a group is read late.
                        true => {
                            assert!(last <= proved.report.rounds && proved.report.rounds <= proved.columns(), "{name}")
                        }
                    }
                    let within = proved.schedules.iter().filter(|s| s.group().start != s.rank()).count();
                    assert_eq!(proved.messages().count() + 2 * within, proved.report.messages as usize, "{name}");
                    for (rounds, schedule) in proved.rounds.iter().zip(&proved.schedules) {
                        assert_eq!(rounds.len(), schedule.steps().len(), "{name}");
                    }
                }
            }
        }
    }
}
