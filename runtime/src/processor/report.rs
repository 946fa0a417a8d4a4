//! This processor's part in the report of a deadlock.

use super::Core;
use crate::diagnose::deadlock::{Node, ReportPart, waits_for};
use crate::effects::Waiting;
use std::collections::{BTreeSet, HashSet};

impl Core {
    /// The node of a waiter.
    pub fn node_of(&self, waiting: &Waiting) -> Node {
        let other = Node::Other { processor: self.effects().id, slot: u32::MAX };
        match waiting {
            Waiting::Task(id) => self.tasks.node_of_task(*id),
            Waiting::Chain { object, chain, .. } => self.replays.with(*object, |c| c.node(*chain)).unwrap_or(other),
            Waiting::Shard(slot) => self.effects().slot_node(*slot),
            Waiting::Waker(_) | Waiting::Offer { .. } | Waiting::OneOf { .. } => other,
        }
    }

    /// The waits on this processor. The run has ended, so futures with an unknown wait are dropped to find out.
    pub fn report(&self) -> ReportPart {
        let effects = self.effects();
        let names = effects.futures().into_iter().map(|(_, named)| named).collect();
        let mut part = ReportPart { names, failed: self.failed_shards(), ..ReportPart::default() };
        let node_of = &|waiting: &Waiting| self.node_of(waiting);
        effects.objects.all().iter().for_each(|known| known.object.report(known.id, self, &mut part));
        self.tasks.report(node_of, &mut part);
        self.gangs.report(&self.tasks, &mut part);
        self.tasks.report_others(&mut part);
        // The other modules have explained these waits.
        let explained: HashSet<Node> = part.waits.iter().map(|(node, _)| *node).collect();
        for (slot, (node, _)) in effects.futures().into_iter().filter(|(_, (node, _))| !explained.contains(node)) {
            // A future of ours that nobody on this processor settles is settled by nobody.
            let what = if effects.ends_awaiting_future(slot) {
                "a future that nobody will settle: no task makes it, and its `Resolver` was dropped or is idle"
            } else {
                "something that is not the framework's"
            };
            part.waits.push((node, waits_for(what, Vec::new())));
        }
        part
    }

    /// The errors of failed shards that the program has not dealt with: other shards of the launch have not ended, or
    /// nobody has looked at the error.
    pub fn failed_shards(&self) -> BTreeSet<String> {
        let failed = self.gangs.failed().into_iter().chain(self.tasks.untold_failures());
        failed.map(|error| error.first().to_string()).collect()
    }
}
