use maniple_regions::MemoryId;
use serde::{Deserialize, Serialize};

/// Whether a memory may be read and written by other nodes directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemoryKind {
    /// Ordinary memory: the network cannot reach it, so what leaves it for another processor is staged through a buffer.
    /// The wire may be shared memory: it counts (`Stats::staged_bytes`) whenever the peer is on another processor, of the
    /// same node too, so that a run in one process shows what a mapping would cost. Between shards of one processor nothing
    /// is staged.
    Ordinary,
    /// Memory registered for remote direct access: nothing is staged.
    Registered,
}

/// The processors of a run, their nodes and their memories.
///
/// Every processor has two memories of its own, one of each [`MemoryKind`]; processors `n·k .. n·(k+1)` form node k.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    processors: u32,
    per_node: u32,
}

impl Machine {
    /// A machine of `processors` ≥ 1 processors in nodes of `per_node` ≥ 1.
    pub fn new(processors: u32, per_node: u32) -> Self {
        Self { processors: processors.max(1), per_node: per_node.max(1) }
    }

    /// Number of processors on all nodes.
    pub fn processors(&self) -> u32 {
        self.processors
    }

    /// Number of address spaces.
    pub fn nodes(&self) -> u32 {
        self.processors.div_ceil(self.per_node)
    }

    /// The node of a processor.
    pub fn node_of(&self, processor: u32) -> u32 {
        processor / self.per_node
    }

    /// The first processor of a node: the one that runs the node's copy of the top-level task.
    pub fn first_of(&self, node: u32) -> u32 {
        node * self.per_node
    }

    /// The processors of a node.
    pub fn processors_of(&self, node: u32) -> std::ops::Range<u32> {
        let first = self.first_of(node);
        first..(first + self.per_node).min(self.processors)
    }

    /// Whether two processors share an address space.
    pub fn same_node(&self, a: u32, b: u32) -> bool {
        self.node_of(a) == self.node_of(b)
    }

    /// The memory of `processor` of the given kind.
    pub fn memory(&self, processor: u32, kind: MemoryKind) -> MemoryId {
        MemoryId(2 * processor + u32::from(kind == MemoryKind::Registered))
    }

    /// The processor a memory belongs to, and its kind.
    pub fn owner(&self, memory: MemoryId) -> (u32, MemoryKind) {
        let kind = if memory.0 % 2 == 1 { MemoryKind::Registered } else { MemoryKind::Ordinary };
        (memory.0 / 2, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_memories() {
        let m = Machine::new(7, 3);
        assert_eq!(m.nodes(), 3);
        assert_eq!(m.processors_of(2), 6..7);
        assert!(m.same_node(3, 5) && !m.same_node(2, 3));
        for p in 0..7 {
            for kind in [MemoryKind::Ordinary, MemoryKind::Registered] {
                assert_eq!(m.owner(m.memory(p, kind)), (p, kind));
            }
        }
    }
}
