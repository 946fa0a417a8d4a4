//! What the engine asks of a program's own schedules, beside what the check proves.

use crate::parts::Parts;
use crate::sizes::Sizes;
use crate::{Schedule, Schedules, Step};

/// Refuses schedules that the engine can't run with vectors of these sizes: says what was expected and what came.
///
/// - A [group](Schedule::in_group) combines whole vectors in place, those of all its ranks.
/// - Blocks may differ in size, and a step must not take one for another.
pub fn fit(schedules: &Schedules, sizes: &Sizes) -> Result<(), (String, String)> {
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
        if schedule.group().len() > 1 && (parts.contribution.is_none() || parts.whole().is_none()) {
            let does = if parts.contribution.is_none() { "contributes nothing" } else { "has several parts" };
            let expected = "groups of ranks that contribute, and whose only part is the whole vector";
            return Err((expected.into(), format!("rank {rank} of the group {:?}, which {does}", schedule.group())));
        }
        for (number, step) in schedule.steps().iter().enumerate() {
            let elements = |parts: &Parts, part| parts.at(part).1.len();
            let (from, to) = match *step {
                Step::Local { from, part, .. } => (elements(parts, from), elements(parts, part)),
                Step::Update { peer, at, part } => {
                    let (peer, at) = (peer as usize, usize::from(at));
                    (elements(parts, part), elements(&all[peer].1, reads[peer][at]))
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
