//! The mappers `default`, `collective`, `first`, `round-robin` and `any`, which look at little of their inputs.

use crate::slot::name_of;
use crate::{
    Access, AlgorithmInput, ChoiceTable, CollectiveInput, CollectiveOutput, InstanceChoice, InstanceInput, KeepInput,
    LeafInput, LeafOutput, Mapper, MemoryKind, NodeId, PlaceShardsInput, PlaceSharedInput, PlaceTaskInput, Placement,
    Priority, ProcessorId, ProfileInput, Route, RouteInput, SliceInput, Slicing, SourceInput,
};
use maniple_regions::{Coherence, Privilege};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The defaults of every call, as the calls of [`Mapper`] document them.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultMapper;

impl Mapper for DefaultMapper {
    fn name(&self) -> &str {
        "default"
    }

    fn place_shards(&self, _input: &PlaceShardsInput<'_>) -> Placement {
        Placement::Blocked
    }

    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> ProcessorId {
        let reader = input.namers.iter().find(|(_, p)| *p == Privilege::Read);
        reader.or(input.namers.first()).map_or(ProcessorId(0), |n| n.0)
    }

    fn map_instance(&self, input: &InstanceInput<'_>) -> InstanceChoice {
        match input.found {
            Some(_) => InstanceChoice::Find,
            None => InstanceChoice::Create(MemoryKind::Ordinary),
        }
    }

    fn select_source(&self, input: &SourceInput<'_>) -> ProcessorId {
        let near = input.holders.iter().find(|&&p| input.machine.same_node(p, input.to));
        near.or(input.holders.first()).copied().unwrap_or(input.to)
    }

    fn keep_instance(&self, _input: &KeepInput<'_>) -> bool {
        true
    }

    fn route(&self, _input: &RouteInput<'_>) -> Route {
        Route::Binomial
    }

    fn slice_index(&self, _input: &SliceInput<'_>) -> Slicing {
        Slicing::Here
    }

    fn place_task(&self, input: &PlaceTaskInput<'_>) -> NodeId {
        input.node
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let mut out = LeafOutput::local(input);
        let processor = out.processor;
        for (i, r) in (0..).zip(input.requirements.iter()) {
            let elsewhere = input.machine.owner(r.memory).0 != processor;
            if elsewhere && r.is_copyable() {
                out.copied.push(i);
            }
        }
        out
    }

    fn choose_algorithm(&self, _input: &AlgorithmInput<'_>) -> usize {
        0
    }

    fn map_collective(&self, _input: &CollectiveInput<'_>) -> CollectiveOutput {
        CollectiveOutput::default()
    }

    fn profile(&self, _input: &ProfileInput<'_>) {}
}

/// The founding paper's mapper (§II-C), and the mapper of a program that sets none.
///
/// - Exchange regions are in registered memory and are read in place. Subtasks of collectives have
///   [raised priority](Priority::RAISED).
/// - Leaf tasks read all regions in place. Regions of several shards (simultaneous coherence) are in registered memory, so
///   that other processes of the host can do so too.
/// - A [table](ChoiceTable::built_in) gives the algorithm of a collective. If two participants in a row are on one processor,
///   an allreduce uses `two-level`, where that is a choice: the participants of a processor combine their values first.
///   Otherwise the size and the number of nodes decide. [`with_table`](Self::with_table) takes another table.
///
/// All else is decided by [`DefaultMapper`].
#[derive(Debug, Clone, Copy, Default)]
pub struct CollectiveMapper;

impl Mapper for CollectiveMapper {
    fn name(&self) -> &str {
        "collective"
    }

    fn base(&self) -> &dyn Mapper {
        &DefaultMapper
    }

    fn map_instance(&self, input: &InstanceInput<'_>) -> InstanceChoice {
        match (input.found, input.coherence) {
            (None, Coherence::Simultaneous) => InstanceChoice::Create(MemoryKind::Registered),
            _ => DefaultMapper.map_instance(input),
        }
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        LeafOutput::local(input)
    }

    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        ChoiceTable::built_in().choose(input)
    }

    fn map_collective(&self, _input: &CollectiveInput<'_>) -> CollectiveOutput {
        CollectiveOutput { memory: MemoryKind::Registered, access: Access::InPlace, priority: Priority::RAISED }
    }
}

impl CollectiveMapper {
    /// This mapper with another table of algorithms. The built-in one stays in use for collectives that it has no row for.
    pub fn with_table(table: ChoiceTable) -> TableMapper {
        TableMapper { table }
    }
}

/// The [`CollectiveMapper`] with another table of algorithms; see [`with_table`](CollectiveMapper::with_table).
#[derive(Debug, Clone)]
pub struct TableMapper {
    table: ChoiceTable,
}

impl Mapper for TableMapper {
    fn name(&self) -> &str {
        "collective"
    }

    fn base(&self) -> &dyn Mapper {
        &CollectiveMapper
    }

    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        self.table.choose(input)
    }
}

/// Always gives the first legal answer, and so shows how much a program relies on a good mapping.
///
/// All shards and shared regions are on processor 0, leaf tasks of the top-level task on node 0, and leaf tasks on the
/// first processor of their node. Everything has the lowest priority, is in ordinary memory and is read in place.
#[derive(Debug, Clone, Copy, Default)]
pub struct FirstChoiceMapper;

impl Mapper for FirstChoiceMapper {
    fn name(&self) -> &str {
        "first"
    }

    fn base(&self) -> &dyn Mapper {
        &DefaultMapper
    }

    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        Placement::Explicit(vec![ProcessorId(0); input.shards as usize])
    }

    fn place_shared(&self, _input: &PlaceSharedInput<'_>) -> ProcessorId {
        ProcessorId(0)
    }

    fn select_source(&self, input: &SourceInput<'_>) -> ProcessorId {
        input.holders[0]
    }

    fn slice_index(&self, input: &SliceInput<'_>) -> Slicing {
        let first = input.machine.first_of(input.machine.node_of(input.processor));
        Slicing::Explicit(vec![(0..input.points, first)])
    }

    fn place_task(&self, _input: &PlaceTaskInput<'_>) -> NodeId {
        NodeId(0)
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let processor = input.machine.first_of(input.machine.node_of(input.processor));
        LeafOutput { processor, priority: Priority(0), ..LeafOutput::local(input) }
    }

    fn map_collective(&self, _input: &CollectiveInput<'_>) -> CollectiveOutput {
        CollectiveOutput { memory: MemoryKind::Ordinary, access: Access::InPlace, priority: Priority(0) }
    }
}

/// Gives each processor its turn. Shards are placed cyclically. Each leaf task, also each point of an index launch,
/// goes to the next processor of the node, whichever shard launches it. Shared regions and sources are spread over the
/// processors too, by functions of their inputs. A leaf task of the top-level task goes to the node after the one that has
/// its data. Values for several nodes are sent to one after the other.
#[derive(Debug, Default)]
pub struct RoundRobinMapper {
    turn: AtomicUsize,
}

impl Mapper for RoundRobinMapper {
    fn name(&self) -> &str {
        "round-robin"
    }

    fn base(&self) -> &dyn Mapper {
        &DefaultMapper
    }

    fn place_shards(&self, _input: &PlaceShardsInput<'_>) -> Placement {
        Placement::Cyclic
    }

    // A function of the region, because every node must get the same answer.
    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> ProcessorId {
        ProcessorId((input.region.rect.lo(0).unsigned_abs() % u64::from(input.machine.processors())) as u32)
    }

    fn select_source(&self, input: &SourceInput<'_>) -> ProcessorId {
        input.holders[input.to.index() % input.holders.len()]
    }

    fn route(&self, _input: &RouteInput<'_>) -> Route {
        Route::Linear
    }

    // Tasks that write one region come to all nodes in turn, because each takes the region along.
    fn place_task(&self, input: &PlaceTaskInput<'_>) -> NodeId {
        NodeId((input.node.0 + 1) % input.nodes)
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let mut node = input.machine.leaf_processors_of(input.machine.node_of(input.processor));
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % node.len();
        LeafOutput { processor: node.nth(turn).unwrap_or(input.processor), ..LeafOutput::local(input) }
    }
}

/// Leaves each leaf task to whichever processor of its node is free first. Another mapper decides all else.
///
/// This balances tasks that take different times. A task that runs elsewhere costs about a microsecond more, so while tasks
/// are shorter than that, those of a shard mostly stay on its own processor.
///
/// The processor of the shard gives each of the others one task and then a second one, to hide the way there and back. It does not
/// know what else they do, and takes nothing back: two tasks wait as long as their processor is in a long task that another
/// mapper, or another shard, has put there. So leave all long tasks of a node to any processor, or none.
pub struct AnyMapper {
    inner: Arc<dyn Mapper>,
    name: String,
}

impl AnyMapper {
    /// Leaf tasks run anywhere; `inner` decides the rest.
    pub fn new(inner: Arc<dyn Mapper>) -> Self {
        let name = format!("any,inner={}", name_of(&*inner));
        Self { inner, name }
    }
}

impl Mapper for AnyMapper {
    fn name(&self) -> &str {
        &self.name
    }

    fn base(&self) -> &dyn Mapper {
        &*self.inner
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        LeafOutput { processor: ProcessorId::ANYWHERE, ..self.inner.map_leaf(input) }
    }
}
