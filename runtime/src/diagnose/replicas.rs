//! Compares the top-level tasks of all nodes, which must do the same.
//!
//! Every node describes each call of its top-level task in words. The others send the words to node 0, which compares.
//! Nothing else would show that one node has made, for example, a collective of another length. Debug builds always
//! compare; others do so on request (`Check::ControlReplication`).

use crate::Error;
use crate::message::ReplicatedCall;
use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
pub(crate) struct Replicas {
    /// How many calls this node has made.
    made: u64,
    /// On node 0: its own last calls, each with the number of other nodes compared. A call that all have made is
    /// removed.
    own: VecDeque<(ReplicatedCall, u32)>,
    /// On node 0: for each other node, how many calls are compared, and the calls that node 0 has not made yet.
    others: BTreeMap<u32, (u64, VecDeque<ReplicatedCall>)>,
    diverged: bool,
}

impl Replicas {
    /// Compares as many calls of another node as possible. Returns the run's first difference, if this is it.
    pub fn compare(&mut self, node: u32) -> Option<Error> {
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

    /// This node makes a call. Node 0 keeps it for the comparison and gets the known other nodes back.
    pub fn make(&mut self, call: Option<ReplicatedCall>) -> Vec<u32> {
        self.made += 1;
        let Some(call) = call else { return Vec::new() };
        self.own.push_back((call, 0));
        self.others.keys().copied().collect()
    }

    /// Another node has made a call.
    pub fn hear(&mut self, node: u32, call: ReplicatedCall) {
        self.others.entry(node).or_default().1.push_back(call);
    }

    /// Removes the calls that all `others` other nodes have made.
    pub fn forget(&mut self, others: u32) {
        while self.own.front().is_some_and(|(_, made)| *made >= others) {
            self.own.pop_front();
        }
    }
}

/// A list in a description. A long one is shortened to its first numbers, length and hash.
pub(crate) fn list<T: std::fmt::Debug + std::hash::Hash>(numbers: &[T]) -> String {
    const SHOWN: usize = 16;
    match numbers.len() {
        0..=SHOWN => format!("{numbers:?}"),
        n => format!("{:?} and {} more, hash {:016x}", &numbers[..SHOWN], n - SHOWN, hash(&numbers)),
    }
}

/// A hash that is the same in every process of the same program.
pub(crate) fn hash(of: &impl std::hash::Hash) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
