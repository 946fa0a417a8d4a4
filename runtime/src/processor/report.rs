//! What this processor waits for, as its part of a deadlock's graph.

use super::Core;
use crate::diagnose::deadlock::{Calls, Node, Part, waits_for};
use crate::effects::Waiting;
use crate::object::Object;
use std::collections::HashSet;

impl Core {
    /// Who it is that waits.
    fn node_of(&self, waiting: &Waiting) -> Node {
        let other = Node::Other { processor: self.effects().id, slot: u32::MAX };
        match waiting {
            Waiting::Task(id) => self.tasks.node_of_task(*id),
            Waiting::Chain { object, chain, .. } => self.replays.with(*object, |c| c.node(*chain)).unwrap_or(other),
            Waiting::Shard(slot) => self.effects().slot_node(*slot),
            Waiting::Waker(_) => other,
        }
    }

    /// What this processor waits for.
    pub fn report(&self) -> Part {
        let mut part = Part::default();
        let (effects, barriers) = (self.effects(), &self.tasks.barriers);
        let node_of = &|waiting: &Waiting| self.node_of(waiting);
        effects.name_slots(&mut part);
        effects.objects.each(|known| match &*known.object {
            Object::Pairs(pairs) => barriers.report_pairs(effects, (known, pairs), node_of, &mut part),
            Object::Phase(spec) => barriers.report_phase((known, spec), node_of, &mut part),
            Object::Replay(replay) => {
                self.replays.with(known.id, |chains| {
                    let before = part.waits.len();
                    chains.report(node_of, &mut part);
                    let (name, gang) = (replay.name().into(), replay.gang().id);
                    let (waits, slots) = (part.waits.len() > before, chains.slots().into());
                    part.replays.push((known.id, Calls { name, gang, waits, slots, made: chains.calls() }));
                });
            }
            Object::Tree(_) | Object::Task(_) | Object::Gang(_) => {}
        });
        self.tasks.report(node_of, &mut part);
        self.gangs.report(effects, &mut part);
        // Each of them waits, and what it waits for is here.
        let explained: HashSet<Node> = part.waits.iter().map(|(node, _)| *node).collect();
        let is_future = |node: &Node| matches!(node, Node::Shard { .. } | Node::Other { .. });
        for (node, _) in part.names.iter().filter(|(node, _)| is_future(node) && !explained.contains(node)) {
            part.waits.push((*node, waits_for("something that is not the framework's", Vec::new())));
        }
        part
    }
}
