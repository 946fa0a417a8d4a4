//! What this processor waits for, in words; and what a shard that dies leaves behind.

use super::batches::Asked;
use super::{Core, Waiting};
use crate::Error;
use crate::message::ObjectId;
use crate::object::{GangTable, Object};
use crate::phase::{Counter, End};
use maniple_barriers::Arrivals;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// What one processor knows of a deadlock.
#[derive(Default)]
pub(crate) struct Report {
    /// One for each waiter.
    lines: Vec<String>,
    phases: Vec<(ObjectId, PhaseReport)>,
    replays: Vec<(ObjectId, ReplayReport)>,
}

/// One processor's part of a collective; who has made fewer calls than others shows when all are joined.
#[derive(Default)]
struct ReplayReport {
    name: String,
    waits: bool,
    /// Shards, and how many calls each has made.
    calls: Vec<(u32, u64)>,
}

/// One processor's part of a phase barrier; who is missing shows when all are joined.
#[derive(Default)]
struct PhaseReport {
    name: String,
    awaited: BTreeSet<u64>,
    /// Shards, and what has come of each.
    arrived: Vec<(u32, Arrivals)>,
}

impl Core {
    /// What this processor waits for.
    pub fn report(&self) -> Report {
        let (mut lines, mut phases, mut replays) = (Vec::new(), Vec::new(), Vec::new());
        let leaves = self.waiting_leaves();
        let who = |w: &Waiting| match w {
            Waiting::Task(id) => leaves
                .iter()
                .find(|(i, ..)| i == id)
                .map_or("a task".into(), |(_, name, shard, _)| format!("task `{name}` of shard {shard}")),
            Waiting::Chain { object, chain, .. } => self.chain_name(*object, *chain),
            Waiting::Shard(slot) => self.slot_place(*slot),
            Waiting::Waker(_) => "a shard".into(),
        };
        let mut named = Vec::new();
        for (local, phase) in self.objects.borrow().iter() {
            for (cell, generation, arrivals, waiting) in local.bank.borrow().waiting() {
                let (name, early) = (local.cell_name(self.id, cell), list(arrivals.early()));
                let complete = so_far(arrivals.next(), "complete");
                let early = if early.is_empty() { early } else { format!(", arrived early: {early}") };
                lines.push(format!("{} waits for generation {generation} of {name}; {complete}{early}", who(waiting)));
                if let Waiting::Task(t) = waiting {
                    named.push(*t);
                }
            }
            if let (Object::Replay(replay), Some(chains)) = (&*local.object, &local.chains) {
                let waiting = chains.waiting();
                let (name, waits, calls) = (replay.spec.name().into(), !waiting.is_empty(), chains.calls());
                lines.extend(waiting);
                replays.push((local.id, ReplayReport { name, waits, calls }));
            }
            if let (Object::Phase(spec), Some(phase)) = (&*local.object, phase) {
                let over = so_far(phase.released(), "over");
                for (generation, waiting) in &phase.waiters {
                    lines.push(format!(
                        "{} waits for generation {generation} of phase barrier `{}`; {over}",
                        who(waiting),
                        spec.name
                    ));
                    if let Waiting::Task(t) = waiting {
                        named.push(*t);
                    }
                }
                let report = PhaseReport {
                    name: spec.name.clone(),
                    awaited: phase.waiters.iter().map(|(generation, _)| *generation).collect(),
                    arrived: phase.arrived().map(|(a, n)| (spec.arrivers[a as usize], n)).collect(),
                };
                phases.push((local.id, report));
            }
        }
        for (id, name, shard, unmet) in &leaves {
            if !named.contains(id) {
                lines.push(format!("task `{name}` of shard {shard} waits for {unmet} predecessors or inputs"));
            }
        }
        let batches = self.batches.borrow();
        for (asked, left) in batches.unfinished() {
            let (asked, left) = (self.asked_for(&asked), some_shards(left));
            lines.push(format!("{asked}: {left} not over on processor {}", self.id));
        }
        for (asked, expected, came) in batches.waiting() {
            lines.push(format!(
                "{} waits on processor {} for earlier launches or data ({came} of {expected} came)",
                self.asked_for(&asked),
                self.id
            ));
        }
        Report { lines, phases, replays }
    }

    /// What a parent has launched, by the number the parent gave it.
    fn asked_for(&self, asked: &Asked<'_>) -> String {
        let (number, by) = (asked.launch & u64::from(u32::MAX), asked.by);
        match self.local(asked.task).as_ref().map(|l| &*l.object) {
            Some(task @ Object::Task(_)) => format!("{}, launch {number} of `{by}`", task.describe()),
            // Mapping is a launch without a task.
            _ => format!("mapping, launch {number} of `{by}`"),
        }
    }

    fn chain_name(&self, object: u32, chain: u32) -> String {
        let local = self.local(object);
        let chains = local.as_ref().and_then(|l| l.chains.as_ref());
        chains.map_or_else(|| "a call".into(), |c| c.describe(chain))
    }

    /// The generation counter of one end of a barrier, kept across launches.
    pub fn counter(&self, object: u32, shard: u32, end: End) -> Counter {
        // A region starts empty: generation 0 of its empty barrier has arrived already.
        let first = u64::from(end == End::ConsumerArrive);
        let mut counters = self.counters_of_ends.borrow_mut();
        counters.entry((object, shard, end)).or_insert_with(|| Rc::new(std::cell::Cell::new(first))).clone()
    }

    /// Poisons everything a shard that failed still owes.
    pub fn abandon(self: &Rc<Self>, gang: &Arc<GangTable>, shard: u32, error: &Error) {
        for object in 0..self.known() {
            let Some(local) = self.local(object) else { continue };
            match &*local.object {
                Object::Pairs(pairs) if Arc::ptr_eq(&pairs.gang, gang) => {
                    let at = pairs.ready_address(object, shard);
                    self.poison(at, self.counter(object, shard, End::ProducerArrive).get(), error);
                    for from in (0u32..).zip(&pairs.to).filter(|&(_, &to)| to == shard).map(|(from, _)| from) {
                        let at = pairs.empty_address(object, from);
                        self.poison(at, self.counter(object, from, End::ConsumerArrive).get(), error);
                    }
                }
                Object::Phase(spec) if Arc::ptr_eq(&spec.gang, gang) && spec.arrivers.contains(&shard) => {
                    self.poison_tree(object, self.counter(object, shard, End::PhaseArrive).get(), error);
                }
                Object::Replay(spec) if Arc::ptr_eq(&spec.gang, gang) => {
                    self.fail_chains(&local, spec.gang.at[shard as usize].1, error);
                }
                _ => {}
            }
        }
    }
}

/// Which generations are `what`, of which there are `n`.
pub(super) fn so_far(n: u64, what: &str) -> String {
    match n {
        0 => format!("none is {what}"),
        1 => format!("generation 0 is {what}"),
        n => format!("generations 0 to {} are {what}", n - 1),
    }
}

/// Names shards, if they are few.
fn some_shards(mut shards: Vec<u32>) -> String {
    shards.sort_unstable();
    match shards.len() {
        1 => format!("shard {} is", shards[0]),
        n @ 2..=16 => {
            let list: Vec<_> = shards.iter().map(u32::to_string).collect();
            format!("shards {} and {} are", list[..n - 1].join(", "), list[n - 1])
        }
        n => format!("{n} shards are"),
    }
}

fn list<T: std::fmt::Display>(items: impl Iterator<Item = T>) -> String {
    items.map(|i| i.to_string()).collect::<Vec<_>>().join(", ")
}

/// Joins the reports of all processors; equal lines are counted, and only the first 200 are shown.
pub(crate) fn join(reports: impl IntoIterator<Item = Report>) -> String {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    let mut phases: BTreeMap<ObjectId, PhaseReport> = BTreeMap::new();
    let mut replays: BTreeMap<ObjectId, ReplayReport> = BTreeMap::new();
    for report in reports {
        for line in report.lines {
            *counted.entry(line).or_default() += 1;
        }
        for (id, part) in report.phases {
            let whole = phases.entry(id).or_default();
            whole.name = part.name;
            whole.awaited.extend(part.awaited);
            whole.arrived.extend(part.arrived);
        }
        for (id, part) in report.replays {
            let whole = replays.entry(id).or_default();
            whole.name = part.name;
            whole.waits |= part.waits;
            whole.calls.extend(part.calls);
        }
    }
    for ReplayReport { name, waits, mut calls } in replays.into_values() {
        let made = || calls.iter().map(|c| c.1);
        let (least, most) = (made().min().unwrap_or(0), made().max().unwrap_or(0));
        calls.retain(|c| c.1 == least);
        calls.sort_unstable();
        if waits && least < most {
            let (shards, more) = (list(calls.iter().take(16).map(|c| c.0)), calls.len().saturating_sub(16));
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            counted.insert(format!("missing in call {least} of `{name}`: shard {shards}{more}"), 1);
        }
    }
    for PhaseReport { name, awaited, mut arrived } in phases.into_values() {
        arrived.sort_unstable_by_key(|(shard, _)| *shard);
        for generation in awaited {
            let missing = list(arrived.iter().filter(|(_, a)| a.next() <= generation).map(|(shard, _)| shard));
            if !missing.is_empty() {
                counted.insert(
                    format!("missing for generation {generation} of phase barrier `{name}`: shard {missing}"),
                    1,
                );
            }
            // Otherwise it would not be seen why a shard that has arrived is missing.
            for (shard, a) in arrived.iter().filter(|(_, a)| a.next() <= generation) {
                let early = list(a.early());
                if !early.is_empty() {
                    let lacks = a.next();
                    counted.insert(
                        format!("shard {shard} arrived early at phase barrier `{name}`: {early}, but not for {lacks}"),
                        1,
                    );
                }
            }
        }
    }
    let total = counted.len();
    let shown = counted
        .into_iter()
        .take(200)
        .map(|(line, n)| if n > 1 { format!("  {line} (×{n})") } else { format!("  {line}") });
    let mut text = shown.collect::<Vec<_>>().join("\n");
    if total > 200 {
        text.push_str(&format!("\n  … and {} more", total - 200));
    }
    text
}
