//! Compares the nodes' top-level tasks. Each node sends the calls of its own to node 0, and node 0 passes them to the
//! comparison ([`crate::diagnose::replicas`]).

use super::Core;
use crate::Error;
use crate::diagnose::replicas::Replicas;
use crate::ids::ProcessorId;
use crate::message::{Message, ReplicatedCall};
use std::cell::RefCell;

impl Core {
    fn replicas(&self) -> &RefCell<Replicas> {
        self.replicas.get_or_init(Box::default)
    }

    fn compares(&self) -> bool {
        self.effects().config.compares && self.effects().copies().nodes() > 1
    }

    /// The top-level task of this node makes a call. `what` describes it, in the same words on every node.
    #[inline]
    pub fn replicated(&self, what: impl FnOnce() -> String) {
        if self.compares() {
            self.compare(ReplicatedCall { what: what(), detail: String::new() });
        }
    }

    /// The top-level task of this node is over.
    pub fn replica_over(&self, error: Option<&Error>) {
        if self.compares() {
            // If several tasks failed, nodes may have heard of a different one first.
            let detail = error.map_or(String::new(), |e| format!(", with the error: {e}"));
            self.compare(ReplicatedCall { what: "the end".into(), detail });
        }
    }

    #[cold]
    fn compare(&self, call: ReplicatedCall) {
        let effects = self.effects();
        if effects.lost_processor().is_some() {
            // Other nodes may hear of the loss later, or never, and go on.
            return;
        }
        if effects.copies().node_of(effects.id) == 0 {
            let others = self.replicas().borrow_mut().make(Some(call));
            others.into_iter().for_each(|node| self.compare_calls(node));
        } else {
            self.replicas().borrow_mut().make(None);
            // Not counted, so that a program in a release build counts as many messages.
            effects.wire.send(0, Message::Replicated(Box::new(call)));
        }
    }

    /// Handles the next call of another node's top-level task.
    pub(super) fn take_replicated(&self, from: ProcessorId, call: ReplicatedCall) {
        let node = self.effects().copies().node_of(from);
        self.replicas().borrow_mut().hear(node, call);
        self.compare_calls(node);
    }

    fn compare_calls(&self, node: u32) {
        let mut replicas = self.replicas().borrow_mut();
        let difference = replicas.compare(node);
        replicas.forget(self.effects().copies().nodes() - 1);
        if let Some(error) = difference {
            self.effects().note_failure(&error);
            self.effects().wire.abort(error);
        }
    }
}
