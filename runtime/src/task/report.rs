//! Leaf tasks in the report of a deadlock.

use super::Tasks;
use crate::diagnose::deadlock::{Node, ReportPart, waits_for};
use crate::effects::Waiting;
use crate::ids::{ArrivalAt, EMPTY, ObjectId, TaskId, ValueAt};
use crate::task::slab::Stage;

impl Tasks {
    /// A leaf task in the graph of a deadlock.
    pub fn node_of_task(&self, id: TaskId) -> Node {
        Node::Task { processor: self.effects.id, index: id.index }
    }

    /// Whether a waiter for a generation of an edge is a task that gets its value, or that will put the value for which the
    /// generation announces a free buffer.
    pub fn moves_value(&self, waiting: &Waiting, (object, cell, generation): (ObjectId, u32, u64)) -> bool {
        let Waiting::Task(id) = waiting else { return false };
        let leaves = self.leaves.borrow();
        let Some(body) = leaves.busy().find(|(other, ..)| other == id).map(|(.., body)| body) else { return false };
        let gets = |v: &ValueAt| match *v {
            ValueAt::Get { object: o, cell: c, generation: g } => (o, c, g) == (object, cell, generation),
            _ => false,
        };
        let puts = |a: &ArrivalAt| match a {
            ArrivalAt::Value(at, g, _) => (at.object, *g) == (object, generation) && cell & EMPTY != 0,
            ArrivalAt::Cell(..) | ArrivalAt::Phase { .. } => false,
        };
        body.values_at.iter().any(gets) || body.arrivals.iter().any(puts)
    }

    /// The leaf tasks that wait for an order.
    pub fn leaves_after(&self, id: TaskId) -> Vec<Node> {
        let leaves = self.leaves.borrow();
        let Some(entry) = leaves.slab.get(id.index as usize) else { return Vec::new() };
        let is_task =
            |next: &TaskId| leaves.slab[next.index as usize].stage == Stage::Waiting && leaves.is_there(*next);
        entry.successors.iter().filter(|next| is_task(next)).map(|next| self.node_of_task(*next)).collect()
    }

    /// Adds the waits of leaf tasks, and the waits for them.
    pub fn report(&self, node_of: &dyn Fn(&Waiting) -> Node, part: &mut ReportPart) {
        let leaves = self.leaves.borrow();
        for (id, leaf, body) in leaves.busy() {
            let node = self.node_of_task(id);
            let name = body.place().to_string();
            let of_its = |what: &str| waits_for(format!("{what} {name}"), vec![node]);
            // Orders are explained beside their launches.
            let is_task = |next: &&TaskId| leaves.is_there(**next) && !leaves.is_order(**next);
            for next in leaf.successors.iter().filter(is_task) {
                part.waits.push((self.node_of_task(*next), of_its("what comes before it,")));
            }
            if let Some(task) = &body.task {
                task.each_waiter(&mut |w| part.waits.push((node_of(w), of_its("the result of"))));
            }
            if let Some(owner) = &body.owner {
                owner.each_waiter(&mut |w| part.waits.push((node_of(w), of_its("the end of"))));
            }
            part.owed.extend(body.arrivals.iter().filter_map(|arrival| match *arrival {
                ArrivalAt::Cell(at, generation) | ArrivalAt::Value(at, generation, _) => {
                    Some(((at.processor, at.object, at.cell, generation), node))
                }
                ArrivalAt::Phase { .. } => None,
            }));
            part.names.push((node, name.clone()));
            if matches!(leaf.stage, Stage::Finishing | Stage::Staging) {
                part.waits.push((node, waits_for("data of other processors", Vec::new())));
            }
        }
    }

    /// Adds the waits of leaf tasks that nothing else explains, such as inputs that the program itself settles.
    pub fn report_others(&self, part: &mut ReportPart) {
        let explained: std::collections::HashSet<Node> = part.waits.iter().map(|(node, _)| *node).collect();
        let leaves = self.leaves.borrow();
        for (id, leaf, _) in leaves.busy().filter(|(id, ..)| !explained.contains(&self.node_of_task(*id))) {
            let what = match leaf.unmet {
                1 => "1 earlier task or input".into(),
                n => format!("{n} earlier tasks or inputs"),
            };
            part.waits.push((self.node_of_task(id), waits_for(what, Vec::new())));
        }
    }
}
