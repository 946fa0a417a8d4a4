//! What the engine asks of a program's own schedules, beside what the check proves.

use crate::parts::Parts;
use crate::sizes::Sizes;
use crate::subtasks::subtasks;
use crate::{Groups, Schedule, Schedules, Step};

/// Refuses schedules that the engine can't run: says what was expected and what came. The largest vector has `most` elements,
/// which count for `bytes` bytes; `placed` are the runs of ranks on one processor. Every node gives the same answer.
///
/// - The ranks of a [group](Schedule::in_group) share a processor.
/// - A processor counts the steps of a rank in 16 bits.
/// - A part of all of register 0 is read as one of the largest vector.
/// - Blocks may differ in size, and a step must not take one for another.
/// - A message of several blocks does not tell where each begins, so their sizes must be known.
pub fn fit(
    schedules: &Schedules,
    sizes: &Sizes,
    placed: &Groups,
    most: usize,
    bytes: usize,
) -> Result<(), (String, String)> {
    let goal = schedules.goal();
    let of = |rank| {
        let schedule = schedules.of(rank);
        let parts = Parts::of(&schedule, goal, sizes);
        (schedule, parts)
    };
    let all: Vec<(Schedule, Parts)> = (0..goal.ranks()).map(of).collect();
    let reads: Vec<Vec<u16>> = all.iter().map(|(schedule, _)| reads(schedule)).collect();
    for (schedule, parts) in &all {
        let rank = schedule.rank();
        let (group, together) = (schedule.group(), placed.of_rank(rank));
        if group.start < together.start || group.end > together.end {
            let expected = "groups of ranks that share a processor";
            return Err((expected.into(), format!("the group {group:?}, of which {together:?} are with rank {rank}")));
        }
        let steps = subtasks(schedule, goal, bytes).len();
        if steps > usize::from(u16::MAX) {
            return Err((format!("at most {} steps of a rank", u16::MAX), format!("{steps} of rank {rank}")));
        }
        for (number, step) in schedule.steps().iter().enumerate() {
            if let Step::Update { part, .. } = *step
                && matches!(sizes, Sizes::Any)
                && goal.kind().has_blocks()
            {
                let joined = schedule.parts()[usize::from(part)].blocks.len();
                if joined > 1 {
                    let expected = "steps that send one block each, with blocks of any sizes".into();
                    return Err((expected, format!("step {number} of rank {rank}, of {joined} blocks: {step:?}")));
                }
            }
            let elements = |parts: &Parts, part| parts.at(part).1.len();
            let (from, to) = match *step {
                Step::Local { from, part, .. } => (elements(parts, from), elements(parts, part)),
                Step::Update { peer, at, part } => {
                    let (peer, at) = (peer as usize, usize::from(at));
                    (elements(parts, part), elements(&all[peer].1, reads[peer][at]))
                }
                Step::Read { part: 0, .. } if parts.at(0).1.len() != most => {
                    let expected = format!("reads of all of register 0 where that has {most} elements, as others do");
                    return Err((expected, format!("step {number} of rank {rank}, into {}", parts.at(0).1.len())));
                }
                Step::Read { .. } => continue,
            };
            if from != to {
                let expected = format!("steps with as many elements at both ends, with vectors of {sizes}");
                return Err((
                    expected,
                    format!("step {number} of rank {rank}, from {from} elements to {to}: {step:?}"),
                ));
            }
        }
    }
    Ok(())
}

/// The parts of a rank's reads, in their order.
fn reads(schedule: &Schedule) -> Vec<u16> {
    let part = |step: &Step| if let Step::Read { part, .. } = *step { Some(part) } else { None };
    schedule.steps().iter().filter_map(part).collect()
}
