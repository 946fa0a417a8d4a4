//! The mapper `numa`: leaf tasks and data by the host's NUMA nodes.

use crate::{LeafInput, LeafOutput, Machine, Mapper, NodeId, ProcessorId, SourceInput, Topology};
use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The [collective mapper](crate::CollectiveMapper) with regard to the host's NUMA nodes:
///
/// - Leaf tasks take turns over the processors in the NUMA node of the processor they are meant for.
/// - A leaf task copies the shared regions that it reads from another NUMA node.
/// - In a run with one node, values come from the nearest holder.
///
/// On a host with one NUMA node it decides as the collective mapper does, and also with more workers than hardware
/// threads. It assumes that worker `w` of a process runs on the hardware thread that [`Topology::binding`] gives it.
#[derive(Debug)]
pub struct NumaMapper {
    host: Topology,
    turn: AtomicUsize,
    /// A number of workers, and for each of them the position in [`Topology::numa`] of its NUMA node.
    first: OnceLock<(usize, Option<Vec<usize>>)>,
}

impl NumaMapper {
    /// A mapper for this host.
    pub fn here() -> Self {
        Self::on(Topology::here())
    }

    /// A mapper for a given host.
    pub fn on(host: Topology) -> Self {
        Self { host, turn: AtomicUsize::new(0), first: OnceLock::new() }
    }

    /// For each processor of `node` the position in [`Topology::numa`] of its NUMA node. None if the workers are not
    /// bound, or all in one NUMA node.
    fn numa_of(&self, machine: &Machine, node: NodeId) -> Option<Cow<'_, [usize]>> {
        if self.host.numa.len() < 2 {
            return None;
        }
        let workers = machine.processors_of(node).len();
        let (known, numa) = self.first.get_or_init(|| (workers, self.numa_of_workers(workers)));
        if *known == workers {
            return numa.as_deref().map(Cow::Borrowed);
        }
        self.numa_of_workers(workers).map(Cow::Owned)
    }

    fn numa_of_workers(&self, workers: usize) -> Option<Vec<usize>> {
        let of = |cpu: &u32| self.host.numa.iter().position(|n| n.cpus.contains(cpu));
        let numa = self.host.binding(workers)?.iter().map(of).collect::<Option<Vec<_>>>()?;
        numa.iter().any(|&n| n != numa[0]).then_some(numa)
    }

    /// The distance of two NUMA nodes. An unknown distance counts as far.
    fn distance(&self, a: usize, b: usize) -> u32 {
        self.host.numa[a].distances.get(b).copied().unwrap_or(if a == b { 10 } else { u32::MAX })
    }
}

impl Mapper for NumaMapper {
    fn name(&self) -> &str {
        "numa"
    }

    fn select_source(&self, input: &SourceInput<'_>) -> ProcessorId {
        let near = || {
            // All nodes must give the same answer, and their hosts may differ. So only the one node of a run looks at
            // its host.
            let numa = self.numa_of(input.machine, NodeId(0)).filter(|_| input.machine.nodes() == 1)?;
            let at = |p: ProcessorId| numa.get(p.index()).copied();
            let to = at(input.to)?;
            input.holders.iter().copied().min_by_key(|&p| at(p).map_or(u32::MAX, |from| self.distance(to, from)))
        };
        near().unwrap_or_else(|| self.base().select_source(input))
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let mut out = LeafOutput::local(input);
        let node = input.machine.node_of(input.processor);
        let Some(numa) = self.numa_of(input.machine, node) else { return out };
        let first = input.machine.first_of(node).index();
        let numa_of = |p: ProcessorId| p.index().checked_sub(first).and_then(|worker| numa.get(worker));
        // `local` has chosen no utility processor.
        let own = numa_of(out.processor);
        let near = || input.machine.leaf_processors_of(node).filter(|&p| numa_of(p) == own);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % near().count();
        out.processor = near().nth(turn).unwrap_or(input.processor);
        for (i, r) in (0..).zip(input.requirements.iter()) {
            let home = input.machine.owner(r.memory).0;
            if numa_of(home) != own && r.is_copyable() {
                out.copied.push(i);
            }
        }
        out
    }
}
