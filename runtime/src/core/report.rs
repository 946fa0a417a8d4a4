//! What this processor waits for, as its part of a deadlock's graph; and what a shard that dies leaves behind.

use super::batches::Asked;
use super::{Core, TaskId, Waiting};
use crate::Error;
use crate::deadlock::{Calls, Node, On, Part, Phase, Wait, list, so_far, some_shards};
use crate::object::{EMPTY, GangTable, Object};
use crate::phase::{Counter, End};
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// What follows a name, and whom it names.
pub(super) fn waits_for(what: impl std::fmt::Display, on: Vec<Node>) -> Wait {
    Wait { what: format!(" waits for {what}"), on: On::Nodes(on) }
}

impl Core {
    pub(super) fn task_node(&self, id: TaskId) -> Node {
        Node::Task { processor: self.id, index: id.index }
    }

    /// Who it is that waits.
    pub(super) fn node_of(&self, waiting: &Waiting) -> Node {
        match waiting {
            Waiting::Task(id) => self.task_node(*id),
            Waiting::Chain { object, chain, .. } => {
                let local = self.local(*object);
                let chains = local.as_ref().and_then(|l| l.chains.as_ref());
                chains.map_or(Node::Other { processor: self.id, slot: u32::MAX }, |c| c.node(*chain))
            }
            Waiting::Shard(slot) => self.slot_node(*slot),
            Waiting::Waker(_) => Node::Other { processor: self.id, slot: u32::MAX },
        }
    }

    /// What this processor waits for. The run is over: futures of which nothing else is known are dropped to find out.
    pub fn report(&self) -> Part {
        let names = self.futures().into_iter().map(|(_, named)| named).collect();
        let mut part = Part { names, failed: self.failed_shards(), ..Part::default() };
        for (local, phase) in self.objects.borrow().iter() {
            match &*local.object {
                Object::Pairs(pairs) => {
                    for (cell, generation, arrivals, waiting) in local.bank.borrow().waiting() {
                        let (name, early) = (local.cell_name(self.id, cell), list(arrivals.early()));
                        let complete = so_far(arrivals.next(), "complete");
                        let early = if early.is_empty() { early } else { format!(", arrived early: {early}") };
                        let what = format!(" waits for generation {generation} of {name}; {complete}{early}");
                        let by = pairs.ends(self.id, cell).map(|(producer, consumer)| {
                            (pairs.gang.id, if cell & EMPTY == 0 { producer } else { consumer })
                        });
                        let arrival = (self.id, local.id, cell, generation);
                        let on = by.map_or(On::Nodes(Vec::new()), |by| On::Arrival { arrival, by });
                        part.waits.push((self.node_of(waiting), Wait { what, on }));
                    }
                }
                Object::Replay(replay) => {
                    let Some(chains) = &local.chains else { continue };
                    let before = part.waits.len();
                    chains.report(self, &mut part);
                    let (name, gang) = (replay.spec.name().into(), replay.gang.id);
                    let (waits, slots) = (part.waits.len() > before, replay.spec.slots().into());
                    part.replays.push((local.id, Calls { name, gang, waits, slots, made: chains.calls() }));
                }
                Object::Phase(spec) => {
                    let Some(phase) = phase else { continue };
                    let over = so_far(phase.released(), "over");
                    for (generation, waiting) in phase.waiting() {
                        let what = format!("generation {generation} of phase barrier `{}`; {over}", spec.name);
                        let on = Node::Phase { object: local.id, generation };
                        part.waits.push((self.node_of(waiting), waits_for(what, vec![on])));
                    }
                    let report = Phase {
                        name: spec.name.clone(),
                        gang: spec.gang.id,
                        awaited: phase.waiting().map(|(generation, _)| generation).collect(),
                        arrived: phase.arrived().map(|(a, n)| (spec.arrivers[a as usize], n)).collect(),
                    };
                    part.phases.push((local.id, report));
                }
                Object::Tree(_) | Object::Task(_) | Object::Gang(_) => {}
            }
        }
        self.report_leaves(&mut part);
        self.report_launches(&mut part);
        // Each of them waits, and what it waits for is here.
        let explained: HashSet<Node> = part.waits.iter().map(|(node, _)| *node).collect();
        for (slot, (node, _)) in self.futures().into_iter().filter(|(_, (node, _))| !explained.contains(node)) {
            // Nobody outside can settle a future of ours.
            let what = if self.ends_awaiting_future(slot) {
                "a future that nobody will settle: no task makes it, and its `Resolver` was dropped or is idle"
            } else {
                "something that is not the framework's"
            };
            part.waits.push((node, waits_for(what, Vec::new())));
        }
        part
    }

    /// Why shards failed, where the program has not dealt with it: other shards of the launch are not over, or nobody has seen
    /// it.
    pub fn failed_shards(&self) -> BTreeSet<String> {
        let mut failed: Vec<Error> = self.batches().borrow().failed().cloned().collect();
        failed.extend(self.launches.borrow().values().flat_map(|launch| launch.failed()));
        failed.extend(self.failures.borrow().iter().filter_map(|failures| failures.upgrade()?.unseen()));
        failed.iter().map(|error| error.first().to_string()).collect()
    }

    fn report_launches(&self, part: &mut Part) {
        let batches = self.batches().borrow();
        for (asked, left, over) in batches.unfinished() {
            let launch = Node::Launch(asked.launch);
            part.names.push((launch, self.asked_for(&asked)));
            part.over.extend(over.into_iter().map(|shard| asked.shard(shard)));
            let on = left.iter().map(|&shard| asked.shard(shard)).collect();
            let what = format!(": {} not over on processor {}", some_shards(left), self.id);
            part.waits.push((launch, Wait { what, on: On::Nodes(on) }));
        }
        for gang in batches.ended() {
            if let Some(Object::Gang(table)) = self.local(gang).as_ref().map(|l| &*l.object) {
                let shards = table.members[self.id as usize].iter();
                part.over.extend(shards.map(|&shard| Node::Shard { gang, shard, launch: None }));
            }
        }
        for queued in batches.waiting() {
            let (launch, name) = (Node::Launch(queued.asked.launch), self.asked_for(&queued.asked));
            let (id, columns, came) = (self.id, queued.columns, queued.came);
            let data = if columns > 0 { format!(" or data ({came} of {columns} came)") } else { String::new() };
            let what = format!(" waits on processor {id} for earlier launches{data}");
            let after: Vec<Node> = queued.after.iter().copied().map(Node::Launch).collect();
            part.waits.push((launch, Wait { what, on: On::Nodes(after.clone()) }));
            for shard in queued.shards {
                let what = format!(" has not been started: {name}");
                // Not for the launch, whose shards on other processors may run.
                part.waits.push((queued.asked.shard(shard), Wait { what, on: On::Nodes(after.clone()) }));
            }
            part.names.push((launch, name));
        }
        // Parents await their launches, for all that is known, unless they await something else.
        let busy: HashSet<Node> = part.waits.iter().map(|(node, _)| *node).collect();
        let idle: Vec<(Node, String)> = part.names.iter().filter(|(node, _)| !busy.contains(node)).cloned().collect();
        for state in self.launches.borrow().values() {
            let by = state.by().to_string();
            // The top-level task is no shard: it is known by its name.
            let is_it = |(node, name): &&(Node, String)| match state.node() {
                Some(shard) => *node == shard,
                None => *name == by,
            };
            for (node, _) in idle.iter().filter(is_it) {
                part.waits.push((*node, waits_for("a launch", vec![Node::Launch(state.key())])));
            }
        }
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
