//! The symbolic checker. It proves, for one number of ranks, that a set of schedules reaches a goal, and reports the
//! laws of the operator that this needs.
//!
//! All schedules run once on symbolic values. A value is a tree over the ranks' contributions. Equal trees are stored
//! once (hash-consing), so two values are the same expression exactly if they have the same index.
//!
//! Each rank is sequential, and each message has a cell of its own, because the matching is proved first. So the
//! schedules form a Kahn network: its values do not depend on the order of execution, nor does a deadlock. One order
//! proves all.

mod error;
mod execution;
mod trees;

pub use error::{Channels, CheckError};

use crate::schedule::{Link, Schedule, Step};
use crate::{Goal, Want};
use crate::{Kind, Laws};
use execution::Execution;
use std::collections::HashMap;
use std::ops::Range;
use trees::{Trees, Value, Wrong};

/// The numbers of a set of schedules that [`check`] has proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of ranks.
    pub ranks: u32,
    /// The length of the longest chain of dependent messages.
    pub rounds: u32,
    /// The messages of all ranks, including those within groups.
    pub messages: u64,
    /// The blocks in all these messages.
    pub blocks: u64,
    /// The update and read subtasks of all ranks.
    pub subtasks: u64,
    /// The steps of all ranks that combine two of their own parts.
    pub locals: u64,
    /// The laws that the operator must have. Without any, all receivers compute the same expression in rank order. The
    /// protocol of `maniple-collectives` lists the cases.
    pub laws: Laws,
    /// Whether every combination has the brackets of [recursive doubling](crate::recursive_doubling). Operands may be
    /// swapped, in which case `laws` says that the operator must be commutative. So operators with these laws give the same
    /// bits.
    pub by_doubling: bool,
    /// The same for the brackets of a loop over the contributors.
    pub by_loop: bool,
}

/// Proves that `schedule`, called for each rank of the goal, reaches it.
///
/// 1. Each schedule belongs to its rank, only ranks that contribute or receive have steps, every peer is another rank,
///    every part is in the rank's registers, and each read has one update with as many blocks.
/// 2. No execution deadlocks. This holds for small values, and for large ones that are lent where they are, with two
///    vectors for each register.
/// 3. No step reads a block that holds nothing, or takes out of a value what is not in it or all that is.
/// 4. Each receiver ends with what the goal wants. A combination has every contribution once, or more often if the
///    operator is idempotent.
///
/// The laws in the report are also those that the operator needs for steps which no result depends on: a step that takes
/// something out needs an inverse, and one that combines must not panic.
///
/// It runs one call. The empty barriers separate the calls of one slot; the protocol of `maniple-collectives` proves that part.
/// Pure and local. Takes time proportional to the number of blocks in all steps.
///
/// # Errors
///
/// The first mistake found, in the order above; see [`CheckError`].
///
/// ```
/// use maniple_schedules::{Goal, Laws, check, recursive_doubling};
///
/// let report = check(&Goal::allreduce(6, 1), |rank| recursive_doubling(rank, 6)).unwrap();
/// assert_eq!((report.rounds, report.messages, report.subtasks), (3, 12, 24));
/// assert_eq!(report.laws, Laws::NONE);
/// ```
pub fn check(goal: &Goal, schedule: impl FnMut(u32) -> Schedule) -> Result<Report, CheckError> {
    check_goal(goal)?;
    let schedules: Vec<Schedule> = (0..goal.ranks()).map(schedule).collect();
    let ranks: Vec<Rank<'_>> = schedules.iter().map(Rank::new).collect();
    for (rank, ends) in ranks.iter().enumerate() {
        ends.check_owner(rank as u32, goal)?;
        ends.check_steps(goal)?;
    }
    for ends in &ranks {
        ends.check_group(&ranks, goal)?;
        ends.check_matching(&ranks)?;
    }
    let mut execution = Execution::new(&ranks, goal, Channels::Unbounded);
    execution.run()?;
    Execution::new(&ranks, goal, Channels::TwoVectors).run()?;
    let Execution { mut trees, registers, depth, .. } = execution;
    let Brackets { laws, by_doubling, by_loop } = check_results(goal, &schedules, &mut trees, &registers)?;
    // Each rank that follows hands its contribution over and takes the result.
    let following: u64 = groups(&ranks).map(|g| g.len() as u64 - 1).sum();
    let in_place = 2 * following;
    let handed_over = if goal.kind().has_blocks() { 1 } else { goal.blocks() };
    let sum = |of: fn(&Schedule) -> u64| schedules.iter().map(of).sum::<u64>();
    let subtasks = sum(|s| (s.updates() + s.reads()) as u64);
    Ok(Report {
        ranks: goal.ranks(),
        rounds: depth.iter().copied().max().unwrap_or(0),
        messages: sum(|s| s.updates() as u64) + in_place,
        blocks: sum(blocks_sent) + following * u64::from(handed_over + goal.blocks()),
        subtasks: subtasks + 2 * in_place,
        locals: sum(|s| s.steps().len() as u64) - subtasks,
        laws,
        by_doubling,
        by_loop,
    })
}

fn blocks_sent(schedule: &Schedule) -> u64 {
    let sent = schedule.steps().iter().filter_map(|step| match step {
        Step::Update { part, .. } => Some(schedule.parts()[usize::from(*part)].blocks.len() as u64),
        _ => None,
    });
    sent.sum()
}

/// The most blocks of a register, unless there are more ranks. An engine counts parts in 16 bits.
const MOST_BLOCKS: u32 = 1 << 16;

fn check_goal(goal: &Goal) -> Result<(), CheckError> {
    if goal.ranks() == 0 {
        return Err(CheckError::NoRanks);
    }
    if goal.contributors().is_empty() {
        return Err(CheckError::NoContributors);
    }
    let (ranks, most) = (goal.ranks(), MOST_BLOCKS.max(goal.ranks()));
    if goal.blocks() > most {
        return Err(CheckError::Blocks { most, came: goal.blocks() });
    }
    match goal.contributors().iter().chain(goal.receivers().iter()).find(|&rank| rank >= ranks) {
        Some(came) => Err(CheckError::NoSuchRank { ranks, came }),
        None => Ok(()),
    }
}

struct Brackets {
    laws: Laws,
    by_doubling: bool,
    by_loop: bool,
}

/// Compares what each rank has with what it wants.
fn check_results(
    goal: &Goal,
    schedules: &[Schedule],
    trees: &mut Trees,
    registers: &[Vec<Vec<Option<Value>>>],
) -> Result<Brackets, CheckError> {
    let mut all = Brackets { laws: Laws::NONE, by_doubling: true, by_loop: true };
    let (computed, mut results) = (trees.len(), Vec::new());
    // The same combination in the brackets of the first rank that has it, of recursive doubling and of a loop.
    let mut known: HashMap<((u32, u32), u32), [Value; 3]> = HashMap::new();
    for (rank, registers) in (0u32..).zip(registers) {
        // The other ranks of a group get their leader's result.
        let result = schedules[schedules[rank as usize].group().start as usize].result();
        for block in goal.result(rank) {
            let value = registers[usize::from(result)].get(block as usize).copied().flatten();
            let wrong = |trees: &Trees, expected: String| CheckError::Result {
                rank,
                block,
                expected,
                came: value.map_or("nothing".into(), |value| trees.show(value, goal)),
            };
            match goal.want(rank, block) {
                Want::Nothing => {}
                Want::Copy { of, block: from } => {
                    let expected = trees.leaf(of, from);
                    if value != Some(expected) {
                        return Err(wrong(trees, trees.show(expected, goal)));
                    }
                }
                Want::Fold { from, to } => {
                    let expected = || format!("the contributions at positions {from}..{to}");
                    let Some(value) = value else { return Err(wrong(trees, expected())) };
                    let laws = trees.laws(value, (from, to), block).map_err(|why| match why {
                        Wrong::Mixed((rank, step)) => CheckError::Mixed { rank, step },
                        Wrong::Misplaced => wrong(trees, format!("{} in this block", expected())),
                        Wrong::Lacks(of) => wrong(trees, format!("{}, with {of}", expected())),
                        Wrong::Extra(of) => wrong(trees, format!("{}, without {of}", expected())),
                    })?;
                    let [first, by_doubling, by_loop] = *known.entry(((from, to), block)).or_insert_with(|| {
                        [value, trees.by_doubling((from, to), block), trees.by_loop((from, to), block)]
                    });
                    all.laws = all.laws.and(laws);
                    all.laws.associative = all.laws.associative || !trees.equal_up_to_swaps(value, first);
                    all.by_doubling = all.by_doubling && trees.equal_up_to_swaps(value, by_doubling);
                    all.by_loop = all.by_loop && trees.equal_up_to_swaps(value, by_loop);
                    results.push(value);
                }
            }
        }
    }
    all.laws.invertible = all.laws.invertible || trees.take_out();
    // Otherwise each result fails exactly where its one expression does.
    all.laws.infallible = all.laws.associative || trees.has_others(computed, &results);
    Ok(all)
}

/// One schedule with its links, and its steps found by their number among their kind.
struct Rank<'a> {
    schedule: &'a Schedule,
    links: Vec<Option<Link>>,
    updates: Vec<usize>,
    reads: Vec<usize>,
}

impl<'a> Rank<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        let of = |kind: fn(&Step) -> bool| {
            schedule.steps().iter().enumerate().filter(move |(_, step)| kind(step)).map(|(at, _)| at).collect()
        };
        Rank {
            schedule,
            links: schedule.links().collect(),
            updates: of(|step| matches!(step, Step::Update { .. })),
            reads: of(|step| matches!(step, Step::Read { .. })),
        }
    }

    fn check_owner(&self, rank: u32, goal: &Goal) -> Result<(), CheckError> {
        let schedule = self.schedule;
        let (expected, came) =
            ((rank, goal.ranks(), goal.blocks()), (schedule.rank(), schedule.ranks(), schedule.blocks()));
        if expected == came { Ok(()) } else { Err(CheckError::Foreign { expected, came }) }
    }

    /// Checks peers and parts.
    fn check_steps(&self, goal: &Goal) -> Result<(), CheckError> {
        let (rank, ranks, blocks) = (self.schedule.rank(), goal.ranks(), self.schedule.blocks());
        // It makes no call, so its steps would never run.
        if !goal.takes_part(rank) && !self.schedule.steps().is_empty() {
            return Err(CheckError::Idle { rank, came: self.schedule.steps().len() });
        }
        for (step, of) in self.schedule.steps().iter().enumerate() {
            if let Some(came) = of.peer().filter(|&peer| peer == rank || peer >= ranks) {
                return Err(CheckError::Peer { rank, step, ranks, came });
            }
            let parts = match *of {
                Step::Update { part, .. } | Step::Read { part, .. } => [part, part],
                Step::Local { from, part, .. } => [from, part],
            };
            let mut sizes = [0; 2];
            for (size, number) in sizes.iter_mut().zip(parts) {
                let part = self.schedule.parts().get(usize::from(number));
                let Some(part) = part.filter(|p| p.blocks.start < p.blocks.end && p.blocks.end <= blocks) else {
                    let came = part.map_or(format!("part {number}"), |part| part.to_string());
                    return Err(CheckError::Part { rank, step, blocks, came });
                };
                *size = part.blocks.len();
            }
            if sizes[0] != sizes[1] {
                return Err(CheckError::Size { rank, step, expected: sizes[1], came: sizes[0] });
            }
        }
        Ok(())
    }

    /// Checks that only the first rank of a group has steps, that all name the same group, and that they combine whole
    /// vectors, or gather blocks into one.
    fn check_group(&self, ranks: &[Rank<'_>], goal: &Goal) -> Result<(), CheckError> {
        let (rank, group, steps) = (self.schedule.rank(), self.schedule.group(), self.schedule.steps().len());
        let wrong = |expected: String, came: String| Err(CheckError::Group { rank, expected, came });
        if !group.contains(&rank) || group.end as usize > ranks.len() {
            return wrong(format!("a group below {} with this rank in it", ranks.len()), format!("{group:?}"));
        }
        let of = |rank: u32| ranks[rank as usize].schedule.group();
        // The first of a group looks at the others, and each of these at the first.
        let others = if rank == group.start { group.clone() } else { group.start..group.start + 1 };
        if let Some(other) = others.into_iter().find(|&other| of(other) != group) {
            return wrong(format!("the group of rank {other}, {:?}", of(other)), format!("{group:?}"));
        }
        if rank > group.start && steps > 0 {
            return wrong(format!("no steps, as it follows rank {}", group.start), format!("{steps} steps"));
        }
        if group.len() == 1 {
            return Ok(());
        }
        // In place of a value in parts, an engine combines the vectors that the shards have. Blocks that nothing is combined with
        // have places of their own.
        let (whole, result) = (0..self.schedule.blocks(), goal.result(rank));
        let gathers = goal.kind() == Kind::Allgather;
        let has_locals = self.schedule.steps().iter().any(|step| matches!(step, Step::Local { .. }));
        let came = if goal.contribution(rank) != whole && !(gathers && goal.contributors().contains(rank)) {
            "no whole vector as its contribution"
        } else if !gathers && (self.schedule.registers() > 1 || self.schedule.parts().len() > 1) || has_locals {
            "several parts, or local steps"
        } else if !result.is_empty() && result != whole {
            "no whole vector as its result"
        } else {
            return Ok(());
        };
        wrong(format!("whole vectors only, as it is in the group {group:?}"), came.into())
    }

    /// Checks that both ends of a message name the same link, so that no two steps can claim the same one, and as many
    /// blocks.
    fn check_matching(&self, ranks: &[Rank<'_>]) -> Result<(), CheckError> {
        let rank = self.schedule.rank();
        for (step, &link) in self.links.iter().enumerate() {
            let Some(expected) = link else { continue };
            let (peer, other) = match self.schedule.steps()[step] {
                Step::Update { .. } => {
                    let peer = &ranks[expected.to as usize];
                    (peer, peer.reads.get(expected.read as usize))
                }
                _ => {
                    let peer = &ranks[expected.from as usize];
                    (peer, peer.updates.get(expected.update as usize))
                }
            };
            let came = other.and_then(|&at| peer.links[at]);
            if came != link {
                return Err(CheckError::Unmatched { rank, step, expected, came });
            }
            let blocks = |of: &Rank<'_>, at: usize| of.part_of(at).len();
            let (mine, theirs) = (blocks(self, step), other.map_or(0, |&at| blocks(peer, at)));
            if mine != theirs {
                return Err(CheckError::Size { rank, step, expected: mine, came: theirs });
            }
        }
        Ok(())
    }

    /// The blocks of the part that a step stores or changes.
    fn part_of(&self, step: usize) -> Range<u32> {
        let (Step::Update { part, .. } | Step::Read { part, .. } | Step::Local { part, .. }) =
            self.schedule.steps()[step];
        self.schedule.parts()[usize::from(part)].blocks.clone()
    }
}

/// The groups of more than one rank.
fn groups<'a>(ranks: &'a [Rank<'_>]) -> impl Iterator<Item = Range<u32>> + 'a {
    ranks
        .iter()
        .map(|r| (r.schedule.rank(), r.schedule.group()))
        .filter(|(r, g)| *r == g.start && g.len() > 1)
        .map(|(_, g)| g)
}

#[cfg(test)]
mod tests;
