//! How the results of a launch get to all copies of the top-level task: each node gathers the results of all others in
//! the rounds of an allgather by Bruck ([`circle_rounds`]).
//!
//! A node begins when its own shards have ended. So each node's results go along a tree of their own.

use crate::Place;
use crate::error::{Failure, FailureNumber};
use crate::message::BatchDone;
use crate::parcel::Parcel;
use maniple_schedules::{CircleRound, circle_rounds};

/// The results of one node.
pub(crate) type Block = Vec<BatchDone>;

/// What a node sends in a round.
pub(super) struct Send {
    pub to: u32,
    pub round: u32,
    pub blocks: Vec<Block>,
}

/// The results that one node has of a launch.
pub(super) struct Gather {
    me: u32,
    nodes: u32,
    /// Batches of this node that have not ended.
    own_left: usize,
    /// The results of this node, of the node after it, and so on.
    blocks: Vec<Block>,
    rounds: Vec<CircleRound>,
    /// What has come for each round, until this node has come to it.
    came: Vec<Option<Vec<Block>>>,
    round: usize,
    /// The node has sent in this round.
    sent: bool,
}

impl Gather {
    pub fn new((me, nodes): (u32, u32), own_batches: usize) -> Self {
        let rounds: Vec<CircleRound> = circle_rounds(nodes).collect();
        let came = rounds.iter().map(|_| None).collect();
        Self { me, nodes, own_left: own_batches, blocks: vec![Vec::new()], rounds, came, round: 0, sent: false }
    }

    /// A batch of this node has ended.
    pub fn own(&mut self, done: &BatchDone) {
        self.own_left -= 1;
        if self.nodes > 1 {
            self.blocks[0].push(copy(done));
        }
    }

    /// Results have come from the node that sends in this round. Returns them.
    pub fn come(&mut self, round: u32, blocks: Vec<Block>) -> Block {
        let (rounds, round) = (self.came.len(), round as usize);
        let Some(came) = self.came.get_mut(round) else { return Vec::new() };
        // What comes last is sent to nobody.
        let (kept, returned) = match round + 1 == rounds {
            true => (Vec::new(), blocks),
            false => (blocks.iter().map(|block| block.iter().map(copy).collect()).collect(), blocks),
        };
        *came = Some(kept);
        returned.into_iter().flatten().collect()
    }

    /// Whether this node has received and sent everything.
    pub fn is_over(&self) -> bool {
        self.own_left == 0 && self.round == self.came.len()
    }

    /// What this node sends now. Called again until there is nothing.
    pub fn next(&mut self) -> Option<Send> {
        while self.own_left == 0 && self.round < self.rounds.len() {
            let CircleRound { distance, count } = self.rounds[self.round];
            if !std::mem::replace(&mut self.sent, true) {
                let to = (self.me + self.nodes - distance) % self.nodes;
                let count = count as usize;
                let last = self.round + 1 == self.rounds.len();
                let blocks = match last {
                    true => self.blocks.drain(..count).collect(),
                    false => self.blocks.iter().take(count).map(|block| block.iter().map(copy).collect()).collect(),
                };
                return Some(Send { to, round: self.round as u32, blocks });
            }
            let came = self.came[self.round].take()?;
            self.blocks.extend(came);
            self.round += 1;
            self.sent = false;
        }
        None
    }
}

fn of_shard(shard: u32) -> Place {
    Place { task: "result of a shard".into(), shard: Some(shard) }
}

/// A copy for another node.
fn copy(done: &BatchDone) -> BatchDone {
    let result = |(shard, result): &(u32, Result<Parcel, Failure>)| {
        let number = || FailureNumber::of_result(done.launch, *shard);
        let encoded = |parcel: &Parcel| parcel.encoded().map_err(|e| Failure::new(e, || of_shard(*shard), number));
        (*shard, result.as_ref().map_err(Clone::clone).and_then(encoded))
    };
    BatchDone { launch: done.launch, results: done.results.iter().map(result).collect(), valid: done.valid.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// The result of shard `node` on that node.
    fn batch(node: u32) -> BatchDone {
        let results = vec![(node, Ok(Parcel::new(u64::from(node) * 3)))];
        BatchDone { launch: 7, results, valid: Vec::new() }
    }

    #[test]
    fn every_node_gets_the_results_of_all_others_once_with_few_messages() {
        for nodes in 1..=40u32 {
            for seed in 0..20 {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut gathers: Vec<Gather> = (0..nodes).map(|n| Gather::new((n, nodes), 1)).collect();
                let mut got: Vec<Vec<u32>> = (0..nodes).map(|n| vec![n]).collect();
                let mut sent = vec![0u32; nodes as usize];
                let mut queue: VecDeque<(u32, Send)> = VecDeque::new();
                let mut ends: Vec<u32> = (0..nodes).collect();
                random.shuffle(&mut ends);
                // A node ends, or one of the messages under way comes.
                while !(ends.is_empty() && queue.is_empty()) {
                    let node = match ends.pop() {
                        Some(node) if queue.is_empty() || random.bool() => {
                            gathers[node as usize].own(&batch(node));
                            node
                        }
                        other => {
                            ends.extend(other);
                            let (_, send) = queue.remove(random.usize(..queue.len())).expect("not empty");
                            let came = gathers[send.to as usize].come(send.round, send.blocks);
                            got[send.to as usize].extend(came.iter().flat_map(|done| &done.results).map(|r| r.0));
                            send.to
                        }
                    };
                    while let Some(send) = gathers[node as usize].next() {
                        sent[node as usize] += 1;
                        queue.push_back((node, send));
                    }
                }
                for (node, got) in got.iter_mut().enumerate() {
                    got.sort_unstable();
                    assert_eq!(*got, (0..nodes).collect::<Vec<_>>(), "node {node} of {nodes}, seed {seed}");
                }
                let rounds = f64::from(nodes).log2().ceil() as u32;
                assert!(sent.iter().all(|sent| *sent == rounds), "{nodes} nodes: {sent:?}");
            }
        }
    }
}
