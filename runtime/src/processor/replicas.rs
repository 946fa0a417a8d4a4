//! Compares the nodes' top-level tasks. Each node sends the calls of its own to the node above it, which passes them to the
//! comparison ([`crate::diagnose::replicas`]).

use super::Core;
use crate::Error;
use crate::config::Compares;
use crate::diagnose::replicas::Replicas;
use crate::ids::{NodeId, ProcessorId};
use crate::message::{Given, Message, ReplicatedCall};
use std::cell::RefCell;
use std::hash::Hash;

impl Core {
    fn replicas(&self) -> &RefCell<Replicas> {
        self.replicas.get_or_init(Box::default)
    }

    fn compares(&self) -> Compares {
        match self.effects().copies().nodes() {
            1 => Compares::Nothing,
            _ => self.effects().config.compares,
        }
    }

    /// Whether calls of top-level tasks are compared in this run.
    pub fn compares_copies(&self) -> bool {
        self.compares() != Compares::Nothing
    }

    /// The top-level task of this node makes a call. `what` describes it, in the same words on every node.
    #[inline]
    pub fn replicated(&self, what: impl FnOnce() -> String) {
        match self.compares() {
            Compares::Nothing => {}
            Compares::Hashes => {
                self.replicas().borrow_mut().add_to_hash(what());
            }
            Compares::Words => self.compare(what(), Given::default(), String::new()),
        }
    }

    /// The same for a leaf task. The tasks since the last call of another kind are compared with the next one.
    #[inline]
    pub fn replicated_task(&self, what: impl FnOnce() -> String, parts: impl Iterator<Item = u64>) {
        match self.compares() {
            Compares::Nothing => {}
            Compares::Hashes => self.replicas().borrow_mut().mix(parts),
            Compares::Words => self.compare(what(), Given::default(), String::new()),
        }
    }

    /// The same for a launch. `name` names it, and `parts` have all that must be the same on each node, but for what `given`
    /// has of the shards.
    pub fn replicated_launch<H: Hash>(
        &self,
        what: impl FnOnce() -> String,
        name: impl FnOnce() -> String,
        parts: impl FnOnce() -> H,
        given: impl FnOnce() -> Given,
    ) {
        match self.compares() {
            Compares::Nothing => {}
            Compares::Hashes => {
                let hash = self.replicas().borrow_mut().add_to_hash(parts());
                self.compare_hash(name(), hash, given(), String::new());
            }
            Compares::Words => self.compare(what(), given(), String::new()),
        }
    }

    /// The top-level task of this node has ended.
    pub fn replica_over(&self, error: Option<&Error>) {
        // If several tasks failed, nodes may have learned of a different one first.
        let detail = || error.map_or(String::new(), |e| format!(", with the error: {e}"));
        match self.compares() {
            Compares::Nothing => {}
            Compares::Hashes => {
                let hash = self.replicas().borrow_mut().add_to_hash(());
                self.compare_hash("the end".into(), hash, Given::default(), detail());
            }
            Compares::Words => self.compare("the end".into(), Given::default(), detail()),
        }
    }

    /// The calls of this node's top-level task: how many have been compared, and a hash of all. The run's end compares them
    /// once more, because a call after the last launch may not have come to another node.
    pub fn calls(&self) -> Option<(u64, u64)> {
        (self.compares() != Compares::Nothing).then(|| self.replicas().borrow().calls())
    }

    fn compare_hash(&self, name: String, hash: u64, given: Given, detail: String) {
        let what = format!("{name}, and the calls up to it have the hash {hash:016x}");
        self.compare(what, given, format!("{detail} (`Check::ControlReplication` shows each call)"));
    }

    /// The node above this one, and how many are below it.
    fn tree(&self) -> (Option<NodeId>, u32) {
        let copies = self.effects().copies();
        let (node, nodes) = (copies.node_of(self.effects().id).0, copies.nodes());
        match self.compares() {
            Compares::Hashes => {
                let below = (2 * node + 1..2 * node + 3).filter(|below| *below < nodes).count() as u32;
                (node.checked_sub(1).map(|before| NodeId(before / 2)), below)
            }
            _ => ((node > 0).then_some(NodeId(0)), if node == 0 { nodes - 1 } else { 0 }),
        }
    }

    #[cold]
    fn compare(&self, what: String, given: Given, detail: String) {
        let effects = self.effects();
        if effects.lost_processor().is_some() {
            // Other nodes may learn of the loss later, or never, and go on.
            return;
        }
        self.replicas().borrow_mut().add_to_hash((&what, &given));
        let call = ReplicatedCall { what, given, detail };
        let (above, below) = self.tree();
        let kept = (below > 0).then(|| call.clone());
        if let Some(above) = above {
            // Not counted, so that a program in a release build counts as many messages.
            effects.wire.send(effects.home_of(above), Message::Replicated(Box::new(call)));
        }
        let others = self.replicas().borrow_mut().make(kept);
        others.into_iter().for_each(|node| self.compare_calls(node));
    }

    /// Handles the next call of another node's top-level task.
    pub(super) fn take_replicated(&self, from: ProcessorId, call: ReplicatedCall) {
        let node = self.effects().copies().node_of(from);
        self.replicas().borrow_mut().hear(node, call);
        self.compare_calls(node);
    }

    fn compare_calls(&self, node: NodeId) {
        let mut replicas = self.replicas().borrow_mut();
        let own = self.effects().copies().node_of(self.effects().id);
        let difference = replicas.compare((own, node));
        replicas.forget(self.tree().1);
        if let Some(error) = difference {
            self.effects().note_failure(&error);
            self.effects().wire.abort(error);
        }
    }
}
