//! Whether the top-level tasks of all nodes do the same: every other node tells node 0, which compares.

use crate::Error;
use crate::ids::ProcessorId;
use crate::message::{Message, ReplicatedCall};
use crate::processor::Core;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
pub(crate) struct Replicas {
    /// Calls that this node has made.
    made: u64,
    /// On node 0: of these the last ones, each with how many others have made it, which are not all.
    own: VecDeque<(ReplicatedCall, u32)>,
    /// On node 0: of each other node, how many calls are compared, and those that node 0 has not made.
    others: BTreeMap<u32, (u64, VecDeque<ReplicatedCall>)>,
    diverged: bool,
}

impl Replicas {
    /// Compares what can be compared of one other node; the first difference of the run.
    fn compare(&mut self, node: u32) -> Option<Error> {
        let first = self.made - self.own.len() as u64;
        let (compared, ahead) = self.others.get_mut(&node)?;
        let mut difference = None;
        while *compared < self.made
            && let Some(theirs) = ahead.pop_front()
        {
            let (own, others) = &mut self.own[(*compared - first) as usize];
            *others += 1;
            if own.what != theirs.what {
                let (call, expected, came) = (*compared, own.to_string(), theirs.to_string());
                difference.get_or_insert(Error::Divergence { call, expected, node, came });
            }
            *compared += 1;
        }
        difference.filter(|_| !std::mem::replace(&mut self.diverged, true))
    }

    /// Forgets what all `others` other nodes have made.
    fn forget(&mut self, others: u32) {
        while self.own.front().is_some_and(|(_, made)| *made >= others) {
            self.own.pop_front();
        }
    }
}

impl Core {
    fn replicas(&self) -> &RefCell<Replicas> {
        self.replicas.get_or_init(Box::default)
    }

    /// The top-level task of this node makes a call, which `what` describes: the same on every node.
    #[inline]
    pub fn replicated(&self, what: impl FnOnce() -> String) {
        if self.config.compares && self.copies().nodes() > 1 {
            self.compare(ReplicatedCall { what: what(), detail: String::new() });
        }
    }

    /// The top-level task of this node is over.
    pub fn replica_over(&self, error: Option<&Error>) {
        if self.config.compares && self.copies().nodes() > 1 {
            // Where several tasks failed, nodes may have heard of another first.
            let detail = error.map_or(String::new(), |e| format!(", with the error: {e}"));
            self.compare(ReplicatedCall { what: "the end".into(), detail });
        }
    }

    #[cold]
    fn compare(&self, call: ReplicatedCall) {
        if self.lost().is_some() {
            // Others may have heard of it later, or never, and go on.
            return;
        }
        let mut replicas = self.replicas().borrow_mut();
        replicas.made += 1;
        if self.copies().node_of(self.id) == 0 {
            replicas.own.push_back((call, 0));
            let others: Vec<u32> = replicas.others.keys().copied().collect();
            drop(replicas);
            others.into_iter().for_each(|node| self.compare_calls(node));
        } else {
            // Not counted: the same program in a release build sends as many messages.
            self.wire.send(0, Message::Replicated(Box::new(call)));
        }
    }

    /// Takes in the next call of another node's top-level task.
    pub(crate) fn take_replicated(&self, from: ProcessorId, call: ReplicatedCall) {
        let node = self.copies().node_of(from);
        self.replicas().borrow_mut().others.entry(node).or_default().1.push_back(call);
        self.compare_calls(node);
    }

    fn compare_calls(&self, node: u32) {
        let mut replicas = self.replicas().borrow_mut();
        let difference = replicas.compare(node);
        replicas.forget(self.copies().nodes() - 1);
        if let Some(error) = difference {
            self.note_failure(&error);
            self.wire.abort(error);
        }
    }
}

/// A list in a description: a long one by its first numbers, length and hash.
pub(crate) fn list(numbers: &[u32]) -> String {
    const SHOWN: usize = 16;
    match numbers.len() {
        0..=SHOWN => format!("{numbers:?}"),
        n => format!("{:?} and {} more, hash {:016x}", &numbers[..SHOWN], n - SHOWN, hash(&numbers)),
    }
}

/// A hash that is the same wherever the same program computes it.
pub(crate) fn hash(of: &impl std::hash::Hash) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
