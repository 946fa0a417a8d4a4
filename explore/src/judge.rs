//! The judge, which compares a run with the interpreter.

use crate::leaf::name;
use crate::oracle::{Cause, Expected, Known, Stuck};
use crate::phases::Progress;
use crate::program::{Program, Step, TOP_BOMB};
use crate::tasks::bomb;
use crate::wild::Wild;
use maniple::barriers::BarrierError;
use maniple::prelude::*;
use maniple::runtime::{Place, Stats};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The kind of mistake of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// A value is wrong.
    Value,
    /// There is an error where there must be none, or an error with a wrong cause.
    Cause,
    /// There is no error where there must be one.
    Unnoticed,
    /// The run ended in a deadlock, or the report of an expected deadlock is wrong.
    Deadlock,
    /// The run did not end.
    Endless,
    /// Something has outlived the run.
    Leak,
    /// The driver panicked.
    Crash,
    /// The processes of a run have come to different ends.
    Discord,
    /// A process has ended, for which the program is not to blame.
    Lost,
}

/// The mistake of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Wrong {
    /// The kind of mistake.
    pub kind: Mistake,
    /// A description: the place, the value or error found, and the expected one.
    pub what: String,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            Mistake::Value => "a wrong value",
            Mistake::Cause => "an unexpected error",
            Mistake::Unnoticed => "an unnoticed failure",
            Mistake::Deadlock => "a deadlock",
            Mistake::Endless => "no end",
            Mistake::Leak => "a leak",
            Mistake::Crash => "a crash of the driver",
            Mistake::Discord => "discord between processes",
            Mistake::Lost => "a lost process",
        };
        write!(f, "{kind}: {}", self.what)
    }
}

/// The results of a run without mistakes.
#[derive(Debug, Default, Clone)]
pub struct Right {
    pub(crate) stats: Option<Stats>,
    /// A processor was lost.
    pub(crate) lost: bool,
    /// A mapper was at fault.
    pub(crate) mapper: bool,
    /// The top-level task failed, as it should.
    pub(crate) top_failed: bool,
    /// Shards were stuck, as they should be.
    pub(crate) stuck: bool,
    /// An arrival was refused, as it should be.
    pub(crate) refused: bool,
    /// The number of values that failed as they should.
    pub(crate) failed: u64,
    pub(crate) values: u64,
    /// The number of deadlines that were over before the awaited value came.
    pub(crate) time_outs: u64,
}

pub type Outcome = Result<i64, Error>;

/// The values that the shards of each launch saw, by shard. The inner task follows, if there is one.
pub type Records = Vec<Vec<Option<Vec<Outcome>>>>;

/// A node's news of a shard's end: the launch, the shard, and the values that it saw.
pub type End = (usize, usize, Result<Vec<Outcome>, Error>);

/// The end of a loose launch's shard: the stage, the launch, the shard, and its value.
pub type LooseEnd = (usize, usize, usize, Outcome);

/// What the shards of a run have seen, in one process or in all.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Seen {
    pub records: Records,
    /// The ends of shards, from every node.
    pub ends: Vec<End>,
    pub loose: Vec<LooseEnd>,
    pub time_outs: u64,
    /// The calls of a wild mapper that it has not answered as it must.
    pub struck: Vec<String>,
    /// For each process, the end of the run, as a text.
    pub outcomes: Vec<String>,
    /// Closures of tasks and handles of the mapper that have outlived the run.
    pub left: (usize, usize),
}

impl Seen {
    /// What both have seen. Each shard has run in one process.
    pub fn with(mut self, other: Self) -> Self {
        if self.records.is_empty() {
            self.records = other.records;
        } else {
            for (own, other) in self.records.iter_mut().flatten().zip(other.records.into_iter().flatten()) {
                *own = own.take().or(other);
            }
        }
        self.ends.extend(other.ends);
        self.loose.extend(other.loose);
        self.time_outs += other.time_outs;
        self.struck.extend(other.struck);
        self.outcomes.extend(other.outcomes);
        self.left = (self.left.0 + other.left.0, self.left.1 + other.left.1);
        self
    }
}

pub struct Judge<'a> {
    pub program: &'a Program,
    pub expected: &'a Expected,
    pub wild: Option<&'a Wild>,
}

impl Judge<'_> {
    /// The causes that an error may name, of those that the program has. Several bombs have the same message.
    fn causes(&self, e: &Error) -> Vec<Cause> {
        let of_top = |message: &str| (message == bomb(TOP_BOMB)).then_some(Cause::Bomb(TOP_BOMB));
        match e.origin() {
            Error::Panicked { place, message } if place.shard.is_none() => {
                of_top(message).filter(|_| place.task == "top level").into_iter().collect()
            }
            Error::Panicked { place, message } => self.bombs(message, place),
            Error::User(message) => match failed(e) {
                Some(Error::Failed { place, .. }) => self.bombs(message, place),
                _ => of_top(message).into_iter().collect(),
            },
            _ => self.cause(e).into_iter().collect(),
        }
    }

    /// The cause that an error names, if it is no bomb.
    fn cause(&self, e: &Error) -> Option<Cause> {
        match e.origin() {
            Error::Lost { processor, .. } => {
                let dies = self.program.faults.losses.iter().any(|d| d.processor == *processor);
                dies.then_some(Cause::Lost(*processor))
            }
            Error::Mapper(_) | Error::MapperFailed { .. } => self.wild?.owns(e).then_some(Cause::Mapper),
            Error::Barrier { barrier, source: BarrierError::OverArrival { arriver, generation, window, .. } } => {
                let at: usize = barrier.strip_prefix("phase barrier `phase ")?.strip_suffix('`')?.parse().ok()?;
                let stage = self.program.stages.last()?;
                let phase = stage.phases.get(at).filter(|phase| phase.window == *window)?;
                let shard = *phase.arrivers.get(*arriver as usize)?;
                let overruns = self.program.overrun().is_some_and(|(step, refused)| {
                    step.at_phase() == Some((shard, at)) && refused.contains(generation)
                });
                let dares =
                    || Progress::through(stage).is_some_and(|all| all[at].dared.contains(&(shard, *generation)));
                (overruns || dares()).then_some(Cause::Refused)
            }
            _ => None,
        }
    }

    fn is_loss(&self, e: &Error) -> bool {
        self.causes(e).iter().any(|cause| matches!(cause, Cause::Lost(_)))
    }

    /// The bombs with this message that may go off in this task.
    fn bombs(&self, message: &str, Place { task, shard }: &Place) -> Vec<Cause> {
        let there = self.program.steps().filter_map(|step| {
            let (number, of, is_it) = match *step {
                Step::Leaf { shard, op, bomb, .. } => (bomb, shard, *task == name(op)),
                Step::Index { shard, bomb, .. } => (bomb.map(|b| b.0), shard, task.contains("run")),
                Step::Exchange { bomb: Some((b, s)), .. } => (Some(b), s, task == "put"),
                Step::Barrier { bomb: Some((b, s)), .. } => (Some(b), s, task == "arrive"),
                Step::Arrive { shard, bomb, .. } => (bomb, shard, task == "mark"),
                Step::Board { bomb: Some((b, s)), .. } => (Some(b), s, task == "board"),
                Step::Call { bomb: Some((b, s)), .. } | Step::Contribute { bomb: Some((b, s)), .. } => {
                    (Some(b), s, task == "make")
                }
                Step::Crash { shard, bomb, .. } => (Some(bomb), shard, task == "stage"),
                _ => return None,
            };
            number.filter(|n| is_it && Some(of) == *shard && bomb(*n) == message)
        });
        there.map(Cause::Bomb).collect()
    }

    /// Whether any value of the program may fail for this cause.
    fn is_anywhere(&self, cause: Cause) -> bool {
        match cause {
            Cause::Lost(_) => true,
            Cause::Mapper => self.program.is_wild(),
            Cause::Refused => true,
            Cause::Stuck => false,
            Cause::Bomb(b) => b == TOP_BOMB && self.program.top_fails.is_some(),
        }
    }

    pub fn outcome(&self, outcome: Result<((), Stats), Error>, seen: &Seen) -> Result<Right, Wrong> {
        let mut right = Right { time_outs: seen.time_outs, ..Right::default() };
        let stats = match outcome {
            Ok(((), stats)) => Some(stats),
            Err(e) if matches!(e.origin(), Error::Deadlock { .. }) && !self.expected.stopped.is_empty() => {
                let Error::Deadlock { report, .. } = e.origin() else { return Ok(right) };
                let untold = self.expected.stuck.iter().find(|stuck| !is_told(report, stuck));
                if let Some(stuck) = untold {
                    let what = format!("the report leaves out {stuck:?}:\n{report}");
                    return Err(Wrong { kind: Mistake::Deadlock, what });
                }
                right.stuck = true;
                None
            }
            Err(e) => {
                let kind = match e.origin() {
                    Error::Deadlock { .. } => Mistake::Deadlock,
                    Error::Stopped { what } if what.contains("steps") => Mistake::Endless,
                    _ => Mistake::Cause,
                };
                match self.causes(&e).into_iter().find(|&c| self.is_anywhere(c)) {
                    Some(Cause::Lost(_)) => right.lost = true,
                    Some(Cause::Mapper) => right.mapper = true,
                    Some(Cause::Bomb(_)) => right.top_failed = true,
                    Some(Cause::Refused) => right.refused = true,
                    _ => return Err(Wrong { kind, what: format!("the run: {e}") }),
                }
                None
            }
        };
        let ended = stats.is_some();
        if ended && self.program.top_fails.is_some() {
            return Err(Wrong {
                kind: Mistake::Unnoticed,
                what: "the top-level task failed, but the run did not".into(),
            });
        }
        if ended && !self.expected.stopped.is_empty() {
            let what = format!("the run ended, but {:?} cannot go on", self.expected.stuck);
            return Err(Wrong { kind: Mistake::Unnoticed, what });
        }
        if ended && self.program.overrun().is_some() {
            return Err(Wrong { kind: Mistake::Unnoticed, what: "no arrival was refused".into() });
        }
        let Seen { records, ends, loose, .. } = seen;
        for (i, stage) in records.iter().enumerate() {
            for (s, seen) in stage.iter().enumerate() {
                match seen {
                    Some(seen) => {
                        self.compare(i, s, seen, &mut right)?;
                        if let Some(e) = seen.iter().filter_map(|v| v.as_ref().err()).find(|e| ended && self.is_loss(e))
                        {
                            let what = format!("the run succeeded, but shard {s} of launch {i} saw: {e}");
                            return Err(Wrong { kind: Mistake::Unnoticed, what });
                        }
                    }
                    None if !ended && !right.stuck || self.program.is_wild() => {}
                    None if i + 1 == records.len() && self.expected.stopped.contains(&(s as u32)) => {}
                    None => {
                        let what = format!("shard {s} of launch {i} has not come to its end");
                        return Err(Wrong { kind: Mistake::Unnoticed, what });
                    }
                }
            }
        }
        for (i, s, end) in ends {
            let stage = self.program.launches().nth(*i).unwrap_or(0);
            let crash = self.program.stages[stage].steps.iter().find_map(|step| match *step {
                Step::Crash { shard, bomb, .. } if shard as usize == *s => Some(Cause::Bomb(bomb)),
                _ => None,
            });
            let told = |what: String| format!("the end of shard {s} of launch {i}: {what}");
            let own = &self.expected.ends[*i][*s];
            match end {
                Ok(_) if crash.is_some() || own.value.is_none() => {
                    return Err(Wrong { kind: Mistake::Unnoticed, what: told("no error, expected one".into()) });
                }
                Ok(seen) => self.compare(*i, *s, seen, &mut Right::default())?,
                Err(e) => {
                    let right = |c: &Cause| Some(*c) == crash || own.causes.contains(c) || self.is_anywhere(*c);
                    if !self.causes(e).iter().any(right) {
                        return Err(Wrong { kind: Mistake::Cause, what: told(e.to_string()) });
                    }
                    if ended && self.is_loss(e) {
                        return Err(Wrong {
                            kind: Mistake::Unnoticed,
                            what: told(format!("the run succeeded, but {e}")),
                        });
                    }
                }
            }
        }
        for (stage, launch, shard, end) in loose {
            let expected = self.expected.loose[*stage][*launch][*shard];
            let at = || format!("shard {shard} of loose launch {launch} of stage {stage}");
            match end {
                Ok(v) if *v == expected => right.values += 1,
                Ok(v) => {
                    return Err(Wrong { kind: Mistake::Value, what: format!("{}: {v}, expected {expected}", at()) });
                }
                Err(e) if self.causes(e).iter().any(|&c| self.is_anywhere(c)) => {}
                Err(e) => return Err(Wrong { kind: Mistake::Cause, what: format!("{}: {e}", at()) }),
            }
        }
        let errors = records.iter().flatten().flatten().flatten().filter_map(|seen| seen.as_ref().err());
        let mut told = errors.chain(ends.iter().filter_map(|(_, _, end)| end.as_ref().err()));
        let strikes = self.wild.map_or(0, Wild::strikes);
        if ended && strikes > 0 && !told.any(|e| self.causes(e).contains(&Cause::Mapper)) {
            let what = format!("{strikes} answers of the mapper were illegal, and nobody got an error");
            return Err(Wrong { kind: Mistake::Unnoticed, what });
        }
        if let Some(left) = stats.as_ref().map(|s| s.left_over).filter(|&n| n > 0) {
            let what = format!("{left} objects of the runtime have outlived their users");
            return Err(Wrong { kind: Mistake::Leak, what });
        }
        if seen.left != (0, 0) {
            let (closures, handles) = seen.left;
            let what =
                format!("{closures} closures of tasks and {handles} handles of the mapper have outlived the run");
            return Err(Wrong { kind: Mistake::Leak, what });
        }
        right.stats = stats;
        Ok(right)
    }

    /// Compares the values that a shard saw with the expected ones.
    fn compare(&self, launch: usize, shard: usize, seen: &[Outcome], right: &mut Right) -> Result<(), Wrong> {
        let expected = &self.expected.seen[launch][shard];
        let shards = self.program.launches().nth(launch).map_or(0, |stage| self.program.stages[stage].shards as usize);
        let who = if shard == shards { "the inner task".to_string() } else { format!("shard {shard}") };
        let at = |i: usize| format!("value {i} of {who} of launch {launch}");
        if seen.len() != expected.len() {
            let what = format!("{who} of launch {launch} saw {} values, expected {}", seen.len(), expected.len());
            return Err(Wrong { kind: Mistake::Value, what });
        }
        for (i, (seen, Known { value, causes })) in seen.iter().zip(expected).enumerate() {
            right.values += 1;
            match seen {
                Ok(v) if *value == Some(*v) => {}
                Ok(v) => {
                    let expected = value.map_or_else(|| format!("an error from {causes:?}"), |v| v.to_string());
                    let kind = if value.is_some() { Mistake::Value } else { Mistake::Unnoticed };
                    return Err(Wrong { kind, what: format!("{}: {v}, expected {expected}", at(i)) });
                }
                Err(e) => {
                    right.failed += 1;
                    if !self.causes(e).iter().any(|&c| causes.contains(&c) || self.is_anywhere(c)) {
                        let expected = value.map_or_else(String::new, |v| format!("{v} or "));
                        let expected = format!("expected {expected}an error from {}", show(causes));
                        return Err(Wrong { kind: Mistake::Cause, what: format!("{}: {e}; {expected}", at(i)) });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether a deadlock's report names the waiter, the barrier and the shards that do not arrive.
fn is_told(report: &str, stuck: &Stuck) -> bool {
    let has = |words: &[&str]| report.lines().any(|line| words.iter().all(|word| line.contains(word)));
    let waiter = format!("`{}` of shard {} ", if stuck.own { "stage" } else { "look" }, stuck.shard);
    let (generation, phase) = (format!("generation {} ", stuck.generation), format!("`phase {}`", stuck.phase));
    let missing: Vec<String> = stuck.missing.iter().map(u32::to_string).collect();
    let missing = format!(": shard {}", missing.join(", "));
    let names_them = |line: &str| {
        line.contains("missing") && line.contains(&generation) && line.contains(&phase) && line.ends_with(&missing)
    };
    has(&[&waiter, "waits for", &generation, &phase]) && report.lines().any(names_them)
}

fn show(causes: &BTreeSet<Cause>) -> String {
    if causes.is_empty() { "nowhere".into() } else { format!("{causes:?}") }
}
/// The failed task or shard from which an error came.
fn failed(e: &Error) -> Option<&Error> {
    let mut chain = std::iter::successors(Some(e), |e| e.cause());
    chain.find(|e| matches!(e, Error::Failed { .. }))
}
