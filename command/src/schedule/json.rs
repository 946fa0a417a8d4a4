//! The schedule as a JSON object.

use super::Shown;
use super::rounds::ProvedSchedules;
use super::text::how;
use crate::Failure;
use maniple_collectives::{Laws, Schedule, Step};
use serde::Serialize;

#[derive(Serialize)]
struct Whole<'a> {
    kind: &'a str,
    shards: u32,
    participants: Vec<u32>,
    receivers: Vec<u32>,
    algorithm: String,
    /// Why it is not the algorithm that was named, or null.
    instead: Option<&'a str>,
    rounds: u32,
    messages: u64,
    blocks_sent: u64,
    subtasks: u64,
    local_steps: u64,
    laws: Vec<&'static str>,
    by_doubling: bool,
    by_loop: bool,
    blocks: u32,
    ranks: Vec<OfRank>,
}

#[derive(Serialize)]
struct OfRank {
    rank: u32,
    /// The first rank of those that combine in place, and how many they are.
    group: [u32; 2],
    /// The register of the result.
    result: u8,
    steps: Vec<OfStep>,
}

#[derive(Serialize)]
#[serde(tag = "step", rename_all = "lowercase")]
enum OfStep {
    Update { round: u32, to: u32, read: u16, part: String },
    Read { round: u32, from: u32, update: u16, part: String, combine: &'static str },
    Local { round: u32, from: String, part: String, combine: &'static str },
}

/// The object, on one line.
pub fn json(shown: &Shown, kind: &str) -> Result<String, Failure> {
    let ProvedSchedules { goal, algorithm, report, schedules, rounds } = &shown.proved;
    let whole = Whole {
        kind,
        shards: goal.ranks(),
        participants: goal.contributors().iter().collect(),
        receivers: goal.receivers().iter().collect(),
        algorithm: algorithm.to_string(),
        instead: shown.instead.as_deref(),
        rounds: report.rounds,
        messages: report.messages,
        blocks_sent: report.blocks,
        subtasks: report.subtasks,
        local_steps: report.locals,
        laws: names(shown.laws),
        by_doubling: report.by_doubling,
        by_loop: report.by_loop,
        blocks: goal.blocks(),
        ranks: shown.ranks().map(|rank| of_rank(&schedules[rank], &rounds[rank])).collect(),
    };
    let text = serde_json::to_string(&whole).map_err(|e| Failure::Run(format!("the schedule has no JSON: {e}")))?;
    Ok(text + "\n")
}

fn names(laws: Laws) -> Vec<&'static str> {
    let Laws { associative, commutative, idempotent, invertible, infallible } = laws;
    let laws = [
        (associative, "associative"),
        (commutative, "commutative"),
        (idempotent, "idempotent"),
        (invertible, "invertible"),
        (infallible, "infallible"),
    ];
    laws.into_iter().filter(|(needed, _)| *needed).map(|(_, name)| name).collect()
}

fn of_rank(schedule: &Schedule, rounds: &[u32]) -> OfRank {
    let part = |number: u16| schedule.parts()[usize::from(number)].to_string();
    let step = |(step, &round): (&Step, &u32)| match *step {
        Step::Update { peer: to, at: read, part: of } => OfStep::Update { round, to, read, part: part(of) },
        Step::Read { peer: from, at: update, part: into, combine } => {
            OfStep::Read { round, from, update, part: part(into), combine: how(combine) }
        }
        Step::Local { from, part: into, combine } => {
            OfStep::Local { round, from: part(from), part: part(into), combine: how(combine) }
        }
    };
    let group = schedule.group();
    OfRank {
        rank: schedule.rank(),
        group: [group.start, group.end - group.start],
        result: schedule.result(),
        steps: schedule.steps().iter().zip(rounds).map(step).collect(),
    }
}
