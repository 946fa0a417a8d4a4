//! Launches in the report of a deadlock.

use super::Gangs;
use super::batches::Asked;
use crate::diagnose::deadlock::{Node, On, Part, Wait, some_shards, waits_for};
use crate::effects::Effects;
use crate::ids::ObjectId;
use crate::object::Object;
use std::collections::HashSet;

impl Gangs {
    /// Who waits for launches, and what these wait for.
    pub fn report(&self, effects: &Effects, part: &mut Part) {
        let batches = self.batches().borrow();
        let gang_id = |gang: ObjectId, shard: u32| Node::Shard { gang, shard };
        for (asked, left, over) in batches.unfinished() {
            let launch = Node::Launch(asked.launch);
            part.names.push((launch, asked_for(effects, &asked)));
            part.over.extend(over.into_iter().map(|shard| gang_id(asked.gang, shard)));
            let on = left.iter().map(|&shard| gang_id(asked.gang, shard)).collect();
            let what = format!(": {} not over on processor {}", some_shards(left), effects.id);
            part.waits.push((launch, Wait { what, on: On::Nodes(on) }));
        }
        for gang in batches.ended() {
            if let Some(Object::Gang(table)) = effects.objects.get(gang).as_ref().map(|k| &*k.object) {
                part.over.extend(table.members[effects.id as usize].iter().map(|&shard| gang_id(gang, shard)));
            }
        }
        for queued in batches.waiting() {
            let launch = Node::Launch(queued.asked.launch);
            part.names.push((launch, asked_for(effects, &queued.asked)));
            let (id, columns, came) = (effects.id, queued.columns, queued.came);
            let what = format!(" waits on processor {id} for earlier launches or data ({came} of {columns} came)");
            let after = queued.after.into_iter().map(Node::Launch).collect();
            part.waits.push((launch, Wait { what, on: On::Nodes(after) }));
            for shard in queued.shards {
                let what = " has not been started".into();
                part.waits.push((gang_id(queued.asked.gang, shard), Wait { what, on: On::Nodes(vec![launch]) }));
            }
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
}

/// What a parent has launched, by the number the parent gave it.
fn asked_for(effects: &Effects, asked: &Asked<'_>) -> String {
    let (number, by) = (asked.launch & u64::from(u32::MAX), asked.by);
    match effects.objects.get(asked.task).as_ref().map(|k| &*k.object) {
        Some(task @ Object::Task(_)) => format!("{}, launch {number} of `{by}`", task.describe()),
        // Mapping is a launch without a task.
        _ => format!("mapping, launch {number} of `{by}`"),
    }
}
