//! Compares the top-level tasks of all nodes, which must do the same.
//!
//! Every node describes each call of its top-level task in words, and sends them to the node above it, which compares.
//! Nothing else would show that one node has made, for example, a collective of another length. Debug builds always
//! compare; others do so on request (`Check::ControlReplication`). Without it, several processes compare a hash of their
//! calls so far at each launch.
//!
//! Node 0 is above all others if words are compared, so that errors name what it has done. Hashes are compared along a tree.

use crate::Error;
use crate::ids::NodeId;
use crate::message::ReplicatedCall;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

#[derive(Default)]
pub(crate) struct Replicas {
    /// How many calls this node has made.
    made: u64,
    /// The calls so far.
    hash: u64,
    /// For the nodes below this one: its own last calls, each with the number of those compared. A call that all have made
    /// is removed.
    own: VecDeque<(ReplicatedCall, u32)>,
    /// For each node below: how many calls are compared, and the calls that this node has not made yet.
    others: BTreeMap<NodeId, (u64, VecDeque<ReplicatedCall>)>,
    diverged: bool,
}

impl Replicas {
    /// Compares as many calls of another node as possible. Returns the run's first difference, if this is it.
    pub fn compare(&mut self, (reference, node): (NodeId, NodeId)) -> Option<Error> {
        let first = self.made - self.own.len() as u64;
        let (compared, ahead) = self.others.get_mut(&node)?;
        let mut difference = None;
        while *compared < self.made
            && let Some(theirs) = ahead.pop_front()
        {
            let (own, others) = &mut self.own[(*compared - first) as usize];
            *others += 1;
            let shards = own.given.differs(&theirs.given);
            if own.what != theirs.what || shards.is_some() {
                let shown = |c: &ReplicatedCall| match shards {
                    Some(at) => format!("{}{}{}", c.what, c.given.shown(at), c.detail),
                    None => c.to_string(),
                };
                let (call, expected, came) = (*compared, shown(own), shown(&theirs));
                difference.get_or_insert(Error::Divergence { call, reference, expected, node, came });
            }
            *compared += 1;
        }
        difference.filter(|_| !std::mem::replace(&mut self.diverged, true))
    }

    /// How many calls this node has made, and the hash of all.
    pub fn calls(&self) -> (u64, u64) {
        (self.made, self.hash)
    }

    /// Adds a call to the hash of all so far.
    pub fn add_to_hash(&mut self, call: impl Hash) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        (self.hash, call).hash(&mut hasher);
        self.hash = hasher.finish();
        self.hash
    }

    /// Adds numbers to the hash.
    #[inline]
    pub fn mix(&mut self, numbers: impl Iterator<Item = u64>) {
        let mix = |hash: u64, number: u64| (hash.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash = numbers.fold(self.hash, mix);
    }

    /// This node makes a call. If there are nodes below, it keeps the call for the comparison. Returns those that it has
    /// heard of.
    pub fn make(&mut self, call: Option<ReplicatedCall>) -> Vec<NodeId> {
        self.made += 1;
        let Some(call) = call else { return Vec::new() };
        self.own.push_back((call, 0));
        self.others.keys().copied().collect()
    }

    /// Another node has made a call.
    pub fn hear(&mut self, node: NodeId, call: ReplicatedCall) {
        self.others.entry(node).or_default().1.push_back(call);
    }

    /// Removes the calls that all `others` nodes below have made.
    pub fn forget(&mut self, others: u32) {
        while self.own.front().is_some_and(|(_, made)| *made >= others) {
            self.own.pop_front();
        }
    }
}

/// A list in a description. A long one is shortened to its first numbers, length and hash.
pub(crate) fn list<T: std::fmt::Debug + Hash>(numbers: &[T]) -> String {
    const SHOWN: usize = 16;
    match numbers.len() {
        0..=SHOWN => format!("{numbers:?}"),
        n => format!("{:?} and {} more, hash {:016x}", &numbers[..SHOWN], n - SHOWN, hash(&numbers)),
    }
}

/// A hash that is the same in every process of the same program.
pub(crate) fn hash(of: &impl Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
