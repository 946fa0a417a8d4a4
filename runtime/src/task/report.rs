//! Leaf tasks in the report of a deadlock.

use super::Tasks;
use crate::diagnose::deadlock::{Node, ReportPart, waits_for};
use crate::effects::Waiting;
use crate::ids::{ArrivalAt, TaskId};
use crate::task::Body;
use crate::task::slab::{Entry, Stage};

impl Tasks {
    /// A leaf task in the graph of a deadlock.
    pub fn node_of_task(&self, id: TaskId) -> Node {
        Node::Task { processor: self.effects.id, index: id.index }
    }

    /// Adds the waits of leaf tasks, and the waits for them.
    pub fn report(&self, node_of: &dyn Fn(&Waiting) -> Node, part: &mut ReportPart) {
        let leaves = self.leaves.borrow();
        let busy: Vec<(TaskId, &Entry, &Body)> = leaves.busy().collect();
        for (id, leaf, body) in &busy {
            let node = self.node_of_task(*id);
            let name = body.place().to_string();
            let of_its = |what: &str| waits_for(format!("{what} {name}"), vec![node]);
            for next in leaf.successors.iter().filter(|next| leaves.is_there(**next)) {
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
        // Waits that nothing else explains, such as inputs that the program itself settles.
        let explained: std::collections::HashSet<Node> = part.waits.iter().map(|(node, _)| *node).collect();
        for (id, leaf, _) in busy.iter().filter(|(id, ..)| !explained.contains(&self.node_of_task(*id))) {
            let what = format!("{} predecessors or inputs", leaf.unmet);
            part.waits.push((self.node_of_task(*id), waits_for(what, Vec::new())));
        }
    }
}
