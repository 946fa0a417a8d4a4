//! The machine as mappers see it: nodes, processors and memories.

use crate::{NodeId, ProcessorId, ProcessorRange};
use maniple_regions::MemoryId;
use serde::{Deserialize, Serialize};

/// Whether a memory may be read and written by other nodes directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemoryKind {
    /// Ordinary memory, which the network cannot reach. Data that leaves it for another processor is staged through a
    /// buffer.
    ///
    /// Staging between two processors of one node counts too (`Stats::staged_bytes`), so a run in one process shows the
    /// cost of a mapping. Between shards of one processor nothing is staged.
    Ordinary,
    /// Memory that other processes of the host can map, or that the network can reach. Nothing is staged.
    Registered,
}

/// The processors of a run, their nodes and their memories.
///
/// Each processor has two memories of its own, one of each [`MemoryKind`]. With n processors a node, processors
/// `n·k .. n·(k+1)` form node k.
///
/// The last processors of each node may be **utility processors**, which run no leaf tasks. A shard or inner task there
/// never waits for a long leaf task to end. By default a utility processor has only the shards that a mapper puts there
/// by number; [`with_shards_on_utility`](Machine::with_shards_on_utility) puts all shards there.
///
/// ```
/// use maniple_mapper::{Machine, NodeId, ProcessorId};
///
/// // Two nodes of three processors, of which one is a utility processor.
/// let machine = Machine::new(6, 3).with_utility(1);
/// assert_eq!((machine.processors(), machine.nodes()), (6, 2));
/// assert_eq!(machine.node_of(ProcessorId(4)), NodeId(1));
/// let leaves: Vec<_> = machine.leaf_processors_of(NodeId(1)).collect();
/// assert_eq!(leaves, [ProcessorId(3), ProcessorId(4)]);
/// assert!(machine.is_utility(ProcessorId(5)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    processors: u32,
    per_node: u32,
    utility: u32,
    /// Whether shards are on utility processors where there are any.
    shards_on_utility: bool,
}

impl Machine {
    /// A machine of `processors` processors in nodes of `per_node`. A number below 1 counts as 1. The last node may be
    /// smaller.
    pub fn new(processors: u32, per_node: u32) -> Self {
        Self { processors: processors.max(1), per_node: per_node.max(1), utility: 0, shards_on_utility: false }
    }

    /// The same machine with `utility` utility processors on each node. Each node keeps at least one processor for leaf
    /// tasks.
    pub fn with_utility(self, utility: u32) -> Self {
        Self { utility, ..self }
    }

    /// The same machine with shards on the utility processors of each node that has some. They launch tasks, take
    /// messages in and run collectives; the other processors run leaf tasks only. A mapper may still put shards
    /// elsewhere by number. Runs in virtual time have such machines.
    pub fn with_shards_on_utility(self) -> Self {
        Self { shards_on_utility: true, ..self }
    }

    /// Number of processors on all nodes, utility processors included.
    ///
    /// A mapper that deals tasks out over all processors has to leave the utility processors out: see
    /// [`leaf_processors_of`](Self::leaf_processors_of).
    pub fn processors(&self) -> u32 {
        self.processors
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.processors.div_ceil(self.per_node)
    }

    /// The node of a processor.
    pub fn node_of(&self, processor: ProcessorId) -> NodeId {
        NodeId(processor.0 / self.per_node)
    }

    /// The first processor of a node.
    pub fn first_of(&self, node: NodeId) -> ProcessorId {
        ProcessorId(node.0.saturating_mul(self.per_node))
    }

    /// The processor that runs the node's copy of the top-level task, if the node has one: its first utility processor, or else
    /// its first. The data of leaf tasks that the top-level task launches is there.
    pub fn home_of(&self, node: NodeId) -> ProcessorId {
        let (all, leaves) = (self.processors_of(node), self.leaf_processors_of(node));
        all.at(if leaves.len() < all.len() { leaves.len() as u32 } else { 0 })
    }

    /// The processors of a node. Empty if there is no such node.
    pub fn processors_of(&self, node: NodeId) -> ProcessorRange {
        let first = self.first_of(node).0;
        ProcessorRange::new(first, first.saturating_add(self.per_node).min(self.processors))
    }

    /// The processors of a node that run leaf tasks: all but its utility processors, and always at least one.
    pub fn leaf_processors_of(&self, node: NodeId) -> ProcessorRange {
        let (first, number) = (self.first_of(node).0, self.processors_of(node).len() as u32);
        let utility = self.utility.min(number.saturating_sub(1));
        ProcessorRange::new(first, first.saturating_add(number - utility))
    }

    /// The processors of a node that get shards from [`Placement::Blocked`](crate::Placement::Blocked) and `Cyclic`.
    fn shard_processors_of(&self, node: NodeId) -> ProcessorRange {
        let (all, leaves) = (self.processors_of(node), self.leaf_processors_of(node));
        let utility = ProcessorRange::new(all.at(leaves.len() as u32).0, all.at(all.len() as u32).0);
        if self.shards_on_utility && utility.len() > 0 { utility } else { leaves }
    }

    /// Number of processors, on all nodes, that get shards from [`Placement::Blocked`](crate::Placement::Blocked) and
    /// `Cyclic`: all but the utility processors. After [`with_shards_on_utility`](Self::with_shards_on_utility) it is
    /// the utility processors only.
    pub fn shard_processors(&self) -> u32 {
        let last = self.nodes() - 1;
        last * self.shard_processors_of(NodeId(0)).len() as u32 + self.shard_processors_of(NodeId(last)).len() as u32
    }

    /// The nth of these [shard processors](Self::shard_processors), modulo their number.
    pub fn shard_processor(&self, nth: u32) -> ProcessorId {
        let (nth, each) = (nth % self.shard_processors(), self.shard_processors_of(NodeId(0)).len() as u32);
        self.shard_processors_of(NodeId(nth / each)).at(nth % each)
    }

    /// Whether a processor is a utility processor, which runs no leaf tasks.
    #[inline]
    pub fn is_utility(&self, processor: ProcessorId) -> bool {
        self.utility > 0 && !self.leaf_processors_of(self.node_of(processor)).contains(processor)
    }

    /// A processor that may run a leaf task meant for `processor`: the same one, unless it is a utility processor. Then
    /// it is the nth of the node's processors that run leaf tasks, modulo their number. But where the node has as many
    /// utility processors or more, each has one of the others, so shards that are neighbours stay together.
    #[inline]
    pub fn near(&self, processor: ProcessorId, nth: u32) -> ProcessorId {
        if !self.is_utility(processor) {
            return processor;
        }
        let node = self.node_of(processor);
        let leaves = self.leaf_processors_of(node);
        let (number, utility) = (leaves.len() as u64, (self.processors_of(node).len() - leaves.len()) as u64);
        let place = u64::from(processor.0 - leaves.at(number as u32).0);
        leaves.at(if utility >= number { place * number / utility } else { u64::from(nth) % number } as u32)
    }

    /// Whether two processors are on one node, and so share an address space.
    pub fn same_node(&self, a: ProcessorId, b: ProcessorId) -> bool {
        self.node_of(a) == self.node_of(b)
    }

    /// The memory of `processor` of the given kind.
    pub fn memory(&self, processor: ProcessorId, kind: MemoryKind) -> MemoryId {
        MemoryId(2 * processor.0 + u32::from(kind == MemoryKind::Registered))
    }

    /// The processor a memory belongs to, and its kind.
    pub fn owner(&self, memory: MemoryId) -> (ProcessorId, MemoryKind) {
        let kind = if memory.0 % 2 == 1 { MemoryKind::Registered } else { MemoryKind::Ordinary };
        (ProcessorId(memory.0 / 2), kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utility_processors_are_the_last_of_each_node() {
        for (processors, per_node, utility) in
            [(7, 3, 1), (7, 3, 2), (8, 4, 3), (5, 5, 0), (5, 5, 9), (4, 1, 1), (1, 1, 1)]
        {
            let m = Machine::new(processors, per_node).with_utility(utility);
            // One after the other, as the definition has it.
            let runs_leaves = |p: &ProcessorId| {
                let node = m.node_of(*p);
                *p == m.first_of(node) || m.processors_of(node).contains(ProcessorId(p.0 + utility))
            };
            let expected: Vec<_> = (0..processors).map(ProcessorId).filter(runs_leaves).collect();
            let shards = |m: Machine| (0..m.shard_processors()).map(|i| m.shard_processor(i)).collect::<Vec<_>>();
            assert_eq!(shards(m), expected, "{m:?}");
            assert_eq!(m.shard_processor(m.shard_processors() + 1), expected[1 % expected.len()]);
            let has_shards = |p: &ProcessorId| {
                let node = m.processors_of(m.node_of(*p));
                m.is_utility(*p) || node.len() == 1 || utility == 0
            };
            let on_utility: Vec<_> = (0..processors).map(ProcessorId).filter(has_shards).collect();
            assert_eq!(shards(m.with_shards_on_utility()), on_utility, "{m:?}");
            for p in (0..processors).map(ProcessorId) {
                assert_eq!(m.is_utility(p), !expected.contains(&p), "{p} of {m:?}");
                let near = m.near(p, 5);
                assert!(expected.contains(&near) && m.same_node(p, near) && (m.is_utility(p) || near == p));
            }
        }
    }

    #[test]
    fn as_many_utility_processors_as_others_have_one_of_them_each() {
        let near = |per_node, utility, place, nth| {
            let m = Machine::new(2 * per_node, per_node).with_utility(utility);
            m.near(ProcessorId(2 * per_node - utility + place), nth).0 - per_node
        };
        let of = |per_node, utility, place| [0, 1, 2, 3, 4, 5].map(|nth| near(per_node, utility, place, nth));
        assert_eq!(of(4, 1, 0), [0, 1, 2, 0, 1, 2]);
        assert_eq!([of(7, 3, 0), of(7, 3, 2)], [[0, 1, 2, 3, 0, 1]; 2]);
        assert_eq!([of(6, 3, 0), of(6, 3, 1), of(6, 3, 2)], [[0; 6], [1; 6], [2; 6]]);
        assert_eq!([of(5, 3, 0), of(5, 3, 1), of(5, 3, 2)], [[0; 6], [0; 6], [1; 6]]);
        assert_eq!(near(1 << 30, 1 << 29, (1 << 29) - 1, 9), (1 << 29) - 1);
    }

    #[test]
    fn a_node_that_does_not_exist_has_no_processors() {
        for per_node in [1, 2, 3] {
            let m = Machine::new(7, per_node).with_utility(1);
            for node in [m.nodes(), m.nodes() + 1, 1 << 30, 1 << 31, (1 << 31) + 1, u32::MAX / 3, u32::MAX].map(NodeId)
            {
                assert_eq!(m.processors_of(node).len(), 0, "{node:?} of {m:?}");
                assert_eq!(m.leaf_processors_of(node).len(), 0, "{node:?} of {m:?}");
                assert!(!m.processors_of(node).contains(m.first_of(node)));
            }
        }
    }

    #[test]
    fn nodes_and_memories() {
        let m = Machine::new(7, 3);
        assert_eq!(m.nodes(), 3);
        assert_eq!(m.processors_of(NodeId(2)).collect::<Vec<_>>(), [ProcessorId(6)]);
        let same = |a, b| m.same_node(ProcessorId(a), ProcessorId(b));
        assert!(same(3, 5) && !same(2, 3));
        for p in (0..7).map(ProcessorId) {
            for kind in [MemoryKind::Ordinary, MemoryKind::Registered] {
                assert_eq!(m.owner(m.memory(p, kind)), (p, kind));
            }
        }
    }
}
