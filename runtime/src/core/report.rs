//! What this processor waits for, in words; and what a shard that dies leaves behind.

use super::{Core, Waiting};
use crate::Error;
use crate::object::{GangTable, Object};
use crate::phase::{Counter, End};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

impl Core {
    /// One line for each waiter of this processor.
    pub fn report(&self) -> Vec<String> {
        let mut lines = Vec::new();
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
            for (cell, generation, completed, waiting) in local.bank.borrow().waiting() {
                let name = local.cell_name(self.id, cell);
                lines.push(format!(
                    "{} waits for generation {generation} of {name}; generations complete: {completed}",
                    who(waiting)
                ));
                if let Waiting::Task(t) = waiting {
                    named.push(*t);
                }
            }
            for (chain, cell, generation) in local.chains.iter().flat_map(|c| c.waiting().into_iter()) {
                let (who, name) = (self.chain_name(local.id, chain), local.chains.as_ref().map(|c| c.cell_name(cell)));
                lines.push(format!(
                    "{who} waits for generation {generation} of {}; generations complete: {generation}",
                    name.unwrap_or_default()
                ));
            }
            if let (Object::Phase(spec), Some(local)) = (&*local.object, phase) {
                let (over, missing) = local.progress();
                let shards: Vec<_> = missing
                    .iter()
                    .filter_map(|&c| local.arriver(c))
                    .map(|a| spec.arrivers[a as usize].to_string())
                    .collect();
                for (generation, waiting) in &local.waiters {
                    lines.push(format!(
                        "{} waits for generation {generation} of phase barrier `{}`; generations over: {over}",
                        who(waiting),
                        spec.name
                    ));
                }
                if !shards.is_empty() && !local.waiters.is_empty() {
                    lines.push(format!("  missing in phase barrier `{}` here: shard {}", spec.name, shards.join(", ")));
                }
            }
        }
        for (id, name, shard, unmet) in &leaves {
            if !named.contains(id) {
                lines.push(format!("task `{name}` of shard {shard} waits for {unmet} predecessors or inputs"));
            }
        }
        let batches = self.batches.borrow();
        for (launch, left) in batches.unfinished() {
            lines.push(format!("launch {launch:#x} has {left} shards that are not over on processor {}", self.id));
        }
        for (launch, expected, came) in batches.waiting() {
            lines.push(format!(
                "launch {launch:#x} waits on processor {} for earlier launches or data ({came} of {expected} came)",
                self.id
            ));
        }
        lines
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

/// Joins the reports of all processors; equal lines are counted, and only the first 200 are shown.
pub(crate) fn join(lines: impl IntoIterator<Item = String>) -> String {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines {
        *counted.entry(line).or_default() += 1;
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
