//! A two-level allreduce: first the ranks of each processor, then the processors.

use crate::recursive_doubling::recursive_doubling;
use crate::schedule::{Combine, Schedule, Step};
use std::ops::Range;

/// The participants as blocks of consecutive ranks that are close to each other: those of one processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Where each block starts, and where the last one ends.
    bounds: Vec<u32>,
}

impl Blocks {
    /// The longest runs of ranks with the same value in `place`, which says where each rank is.
    pub fn runs(place: &[u32]) -> Self {
        let starts = (0..place.len()).filter(|&r| r == 0 || place[r] != place[r - 1]);
        let mut bounds: Vec<u32> = starts.map(|r| r as u32).collect();
        bounds.push(place.len() as u32);
        Self { bounds }
    }

    /// Blocks of `size` ranks; the last one may be shorter.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    pub fn of(participants: u32, size: u32) -> Self {
        let mut bounds: Vec<u32> = (0..participants).step_by(size as usize).collect();
        bounds.push(participants);
        Self { bounds }
    }

    /// Number of ranks.
    pub fn participants(&self) -> u32 {
        self.bounds.last().copied().unwrap_or(0)
    }

    /// Number of blocks.
    pub fn len(&self) -> u32 {
        self.bounds.len() as u32 - 1
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn block(&self, number: u32) -> Range<u32> {
        self.bounds[number as usize]..self.bounds[number as usize + 1]
    }

    fn block_of(&self, rank: u32) -> u32 {
        self.bounds.partition_point(|&start| start <= rank) as u32 - 1
    }
}

/// A rank within its block, as a node of the block's binomial tree.
///
/// Node i has its children at i + 2ᵏ for every k below the number of trailing zeros of i, as far as they exist, and its
/// parent at i without its lowest bit. The subtree of a node is a run of nodes, and the k-th child's comes right after
/// those of the children before it, so that a node that takes its children in the order of k combines in rank order.
#[derive(Clone, Copy)]
struct Node {
    number: u32,
    of: u32,
}

impl Node {
    fn children(self) -> u16 {
        let powers = if self.number == 0 { 32 } else { self.number.trailing_zeros() };
        (0..powers).take_while(|&k| (u64::from(self.number) + (1 << k)) < u64::from(self.of)).count() as u16
    }

    fn child(self, k: u16) -> Node {
        Node { number: self.number + (1 << k), ..self }
    }

    /// The parent, and which of its children this is.
    fn parent(self) -> Option<(Node, u16)> {
        let k = self.number.checked_ilog2().map(|_| self.number.trailing_zeros())?;
        Some((Node { number: self.number & (self.number - 1), ..self }, k as u16))
    }
}

/// The steps of `rank` in an allreduce in which the ranks of a block combine along a binomial tree, the first ranks of the
/// blocks by [`recursive_doubling`], and the result goes back along the trees.
///
/// A processor's shards exchange nothing but with neighbours in memory, and between processors there are as many messages
/// as blocks, times their logarithm, rather than ranks. Blocks are runs of ranks and trees combine in rank order, so the
/// operator need not commute; where all blocks have the same power of two of ranks, the grouping is that of recursive
/// doubling over all ranks, and so are the bits.
///
/// Takes O(log P) time and memory. Local: no rank talks to another.
///
/// ```
/// # use maniple_collectives::{Blocks, check, two_level};
/// let blocks = Blocks::of(8, 4);
/// let report = check(8, |rank| two_level(rank, &blocks)).unwrap();
/// assert_eq!((report.rounds, report.messages), (5, 14));
/// ```
///
/// # Panics
///
/// If `rank` is not below the number of participants.
pub fn two_level(rank: u32, blocks: &Blocks) -> Schedule {
    let participants = blocks.participants();
    assert!(rank < participants, "rank {rank} is not below the {participants} participants");
    let number = blocks.block_of(rank);
    let node_of = |block: u32, rank: u32| {
        let ranks = blocks.block(block);
        Node { number: rank - ranks.start, of: ranks.end - ranks.start }
    };
    let first = blocks.block(number).start;
    let node = node_of(number, rank);
    let (children, parent) = (node.children(), node.parent());

    let mut steps = Vec::new();
    for k in 0..children {
        let peer = first + node.child(k).number;
        steps.push(Step::Read { peer, at: 0, combine: Combine::IncomingIsHigher });
    }
    // The updates a node has made before it hands the result to its children.
    let updates_before = |node: Node, leader: &Schedule| if node.number == 0 { leader.updates() as u16 } else { 1 };
    let among_leaders = recursive_doubling(number, blocks.len());
    match parent {
        None => {
            let leader = |block: u32| blocks.block(block).start;
            for step in among_leaders.steps() {
                steps.push(match *step {
                    // A leader's reads of its children come first.
                    Step::Update { peer, at } => {
                        let peer_node = node_of(peer, leader(peer));
                        Step::Update { peer: leader(peer), at: at + peer_node.children() }
                    }
                    Step::Read { peer, at, combine } => Step::Read { peer: leader(peer), at, combine },
                });
            }
        }
        Some((parent, k)) => {
            let peer = first + parent.number;
            steps.push(Step::Update { peer, at: k });
            // Parents serve the child with the largest subtree first.
            let at = updates_before(parent, &among_leaders) + (parent.children() - 1 - k);
            steps.push(Step::Read { peer, at, combine: Combine::Replace });
        }
    }
    for k in (0..children).rev() {
        let child = node.child(k);
        steps.push(Step::Update { peer: first + child.number, at: child.children() });
    }
    Schedule::new(rank, participants, steps)
}
