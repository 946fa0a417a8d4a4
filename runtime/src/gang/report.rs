//! Launches in the report of a deadlock.

use super::Gangs;
use super::batches::BatchOrigin;
use super::orders::{OfLaunch, Order};
use crate::diagnose::deadlock::{Node, On, ReportPart, Wait, some_shards, waits_for};
use crate::effects::Effects;
use crate::message::Transfer;
use crate::object::Object;
use crate::task::Tasks;
use maniple_regions::Region;
use std::collections::HashSet;

impl Gangs {
    /// Adds the waits for launches, and the waits of launches.
    pub fn report(&self, tasks: &Tasks, part: &mut ReportPart) {
        let effects = &tasks.effects;
        let batches = self.batches().borrow();
        for (origin, left, over) in batches.unfinished() {
            let launch = Node::Launch(origin.launch);
            part.names.push((launch, name_of(effects, &origin)));
            part.over.extend(over.into_iter().map(|shard| origin.shard(shard)));
            let on = left.iter().map(|&shard| origin.shard(shard)).collect();
            let what = format!(": {} not over on processor {}", some_shards(left), effects.id);
            part.waits.push((launch, Wait { what, on: On::Nodes(on) }));
        }
        for gang in batches.ended(tasks) {
            effects.objects.with(gang, |object| {
                if let Some(table) = object.and_then(Object::table) {
                    let shards = table.members[effects.id.index()].iter();
                    part.over.extend(shards.map(|&shard| Node::Shard { gang, shard, launch: None }));
                }
            });
        }
        for queued in batches.orders.waiting(tasks) {
            let (launch, name) = (Node::Launch(queued.origin.launch), name_of(effects, &queued.origin));
            let data = match &queued.missing[..] {
                [] => String::new(),
                [from] => format!(" or data from processor {from}"),
                several => {
                    let several: Vec<String> = several.iter().map(ToString::to_string).collect();
                    format!(" or data from processors {}", several.join(", "))
                }
            };
            let what = format!(" waits on processor {} for earlier launches{data}", effects.id);
            part.waits.push((launch, Wait { what, on: On::Nodes(queued.after.clone()) }));
            for shard in queued.shards {
                let what = format!(" has not been started: {name}");
                // It waits for the shards here only: the launch's shards on other processors may be running.
                part.waits.push((queued.origin.shard(shard), Wait { what, on: On::Nodes(queued.after.clone()) }));
            }
            part.names.push((launch, name));
        }
        for (id, of, order) in batches.orders.moves() {
            let name = name_of_move(effects, of, order);
            // A receiver knows a send by the launch and its own number.
            let nodes: Vec<Node> = match order {
                Order::Send(recipients, _) => {
                    recipients.iter().map(|to| Node::Move { launch: to.launch, number: to.number }).collect()
                }
                _ => vec![tasks.node_of_task(id)],
            };
            for after in tasks.leaves_after(id) {
                part.waits.push((after, waits_for(format!("the {name}"), nodes.clone())));
            }
            let before = batches.orders.before(tasks, id);
            for &node in &nodes {
                if let Order::Receive(number, moved) = order
                    && batches.orders.awaits(of.launch, *number)
                {
                    let sent = Node::Move { launch: of.launch, number: *number };
                    part.waits.push((node, waits_for(format!("processor {}", moved.from), vec![sent])));
                }
                for before in &before {
                    part.waits.push((node, waits_for("what comes before it", vec![*before])));
                }
                part.names.push((node, name.clone()));
            }
        }
        // An inner task without another known wait is taken to wait for its launches.
        let busy: HashSet<Node> = part.waits.iter().map(|(node, _)| *node).collect();
        let idle: Vec<(Node, String)> = part.names.iter().filter(|(node, _)| !busy.contains(node)).cloned().collect();
        for state in self.launches.borrow().values() {
            let by = state.by().to_string();
            // The top-level task is no shard, so it is found by its name.
            let is_it = |(node, name): &&(Node, String)| match state.node() {
                Some(shard) => *node == shard,
                None => *name == by,
            };
            for (node, _) in idle.iter().filter(is_it) {
                part.waits.push((*node, waits_for("a launch", vec![Node::Launch(state.key())])));
            }
        }
    }
}

/// What moves data, in words.
fn name_of_move(effects: &Effects, of: &OfLaunch, order: &Order) -> String {
    let (what, moved, to) = match order {
        Order::Send(recipients, moved) => {
            let to: Vec<String> = recipients.iter().map(|recipient| recipient.to.to_string()).collect();
            let many = if to.len() == 1 { "processor" } else { "processors" };
            ("send", moved, format!(" to {many} {}", to.join(", ")))
        }
        Order::Copy(moved) => ("copy", moved, String::new()),
        Order::Receive(_, moved) => ("receive", moved, String::new()),
        Order::Start(_) | Order::GiveUp(_) | Order::Free(_) => return String::new(),
    };
    let objects = &effects.objects;
    let shown = |t: &Transfer| {
        let region = Region { tree: t.tree, rect: t.rect };
        format!("{} on {}", objects.field_name(t.tree, t.field), objects.shown(region))
    };
    let regions: Vec<String> = moved.transfers.iter().take(2).map(shown).collect();
    let more = if moved.transfers.len() > 2 { " and others" } else { "" };
    let number = of.launch & u64::from(u32::MAX);
    format!("{what} of {}{more}{to}, launch {number} of `{}`", regions.join(" and "), of.by)
}

/// The name of a launch, with the number that its launcher gave it.
fn name_of(effects: &Effects, origin: &BatchOrigin<'_>) -> String {
    let (number, by) = (origin.launch & u64::from(u32::MAX), origin.by);
    effects.objects.with(origin.task, |object| match object {
        Some(task) if task.task().is_some() => format!("{}, launch {number} of `{by}`", task.describe()),
        // Mapping is a launch without a task.
        _ => format!("mapping, launch {number} of `{by}`"),
    })
}
