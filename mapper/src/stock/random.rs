//! The mapper `random`, which draws its decisions among the legal ones.

use crate::{
    Access, AlgorithmInput, CollectiveInput, CollectiveOutput, InstanceChoice, InstanceInput, KeepInput, LeafInput,
    LeafOutput, Mapper, MemoryKind, NodeId, PlaceShardsInput, PlaceSharedInput, PlaceTaskInput, Placement, Priority,
    ProcessorId, ProcessorRange, Route, RouteInput, SliceInput, Slicing, SourceInput,
};
use maniple_regions::{FieldId, Region};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// Draws every decision among the legal ones. A program that is right under many seeds does not rely on its mapping.
///
/// A decision depends on the seed, the call and its subject. Decisions about leaf tasks, index launches, instances and
/// routes, which need not be the same on all nodes, also depend on the number of such decisions before.
#[derive(Debug, Default)]
pub struct RandomMapper {
    seed: u64,
    asked: AtomicU64,
}

impl RandomMapper {
    /// A mapper with this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, asked: AtomicU64::new(0) }
    }

    fn draw(&self, call: &str, subject: impl Hash) -> Draw {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        (self.seed, call, subject).hash(&mut hash);
        Draw(hash.finish())
    }

    /// The number of this decision, for calls whose answers may differ between nodes.
    fn nth(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed)
    }
}

/// FNV-1a: the same in every process and on every machine with this byte order.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A sequence of numbers (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ x >> 31) % n.max(1) as u64) as usize
    }

    fn processor(&mut self, among: &ProcessorRange) -> ProcessorId {
        among.at(self.below(among.len()) as u32)
    }

    fn priority(&mut self) -> Priority {
        Priority(self.below(usize::from(Priority::LEVELS)) as u8)
    }

    fn memory(&mut self) -> MemoryKind {
        [MemoryKind::Ordinary, MemoryKind::Registered][self.below(2)]
    }

    fn access(&mut self) -> Access {
        [Access::InPlace, Access::Copy][self.below(2)]
    }
}

/// A region and its field, as numbers.
fn field(region: &Region, field: FieldId) -> impl Hash + use<> {
    (region.tree.0, region.rect, field.0)
}

/// The parents of a legal tree.
fn tree(draw: &mut Draw, recipients: &[(ProcessorId, Priority)]) -> Vec<u32> {
    // When the sender and each recipient send for the next time.
    let mut next = vec![1];
    // The last round so far and who got the values in it; the same among the recipients of higher priority.
    let (mut latest, mut higher) = ((0, 0), (0, 0));
    let mut parents = Vec::with_capacity(recipients.len());
    for (i, (_, priority)) in recipients.iter().enumerate() {
        if i > 0 && *priority != recipients[i - 1].1 {
            higher = latest;
        }
        let drawn = draw.below(i + 1);
        let parent = if next[drawn] < higher.0 { higher.1 } else { drawn };
        let round = next[parent];
        next[parent] += 1;
        next.push(round + 1);
        latest = latest.max((round, i + 1));
        parents.push(parent as u32);
    }
    parents
}

impl Mapper for RandomMapper {
    fn name(&self) -> &str {
        "random"
    }

    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        let mut draw = self.draw("place_shards", (input.gang, input.shards));
        let all = ProcessorRange::new(0, input.machine.processors());
        Placement::Explicit((0..input.shards).map(|_| draw.processor(&all)).collect())
    }

    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> ProcessorId {
        let mut draw = self.draw("place_shared", field(&input.region, input.field));
        draw.processor(&ProcessorRange::new(0, input.machine.processors()))
    }

    fn map_instance(&self, input: &InstanceInput<'_>) -> InstanceChoice {
        let mut draw = self.draw("map_instance", (field(&input.region, input.field), input.processor, self.nth()));
        match input.found {
            Some(_) if draw.below(2) == 0 => InstanceChoice::Find,
            _ => InstanceChoice::Create(draw.memory()),
        }
    }

    fn select_source(&self, input: &SourceInput<'_>) -> ProcessorId {
        let mut draw = self.draw("select_source", (field(&input.region, input.field), input.to));
        input.holders[draw.below(input.holders.len())]
    }

    fn keep_instance(&self, input: &KeepInput<'_>) -> bool {
        let mut draw = self.draw("keep_instance", (field(&input.region, input.field), input.processor));
        draw.below(2) == 0
    }

    fn route(&self, input: &RouteInput<'_>) -> Route {
        let mut draw = self.draw("route", (field(&input.region, input.field), input.from, self.nth()));
        match draw.below(4) {
            0 => Route::Binomial,
            1 => Route::Linear,
            _ => Route::Tree(tree(&mut draw, input.recipients)),
        }
    }

    fn slice_index(&self, input: &SliceInput<'_>) -> Slicing {
        let mut draw = self.draw("slice_index", (input.task, input.shard, self.nth()));
        let node = input.machine.leaf_processors_of(input.machine.node_of(input.processor));
        let mut slices = Vec::new();
        let mut next = 0;
        while next < input.points {
            let end = next + 1 + draw.below(input.points - next);
            slices.push((next..end, draw.processor(&node)));
            next = end;
        }
        // Drawn last, as for a leaf task.
        for (_, processor) in &mut slices {
            if draw.below(8) == 0 {
                *processor = ProcessorId::ANYWHERE;
            }
        }
        Slicing::Explicit(slices)
    }

    fn place_task(&self, input: &PlaceTaskInput<'_>) -> NodeId {
        let first = input.requirements.get(0).map(|r| field(r.region, r.field));
        let mut draw = self.draw("place_task", (input.task, first, input.node));
        NodeId(draw.below(input.nodes as usize) as u32)
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let mut draw = self.draw("map_leaf", (input.task, input.shard, self.nth()));
        let node = input.machine.leaf_processors_of(input.machine.node_of(input.processor));
        let mut out = LeafOutput::local(input);
        out.processor = draw.processor(&node);
        out.priority = draw.priority();
        out.copies_in = draw.memory();
        out.profile = draw.below(8) == 0;
        for (i, r) in (0..).zip(input.requirements.iter()) {
            if r.is_copyable() && draw.access() == Access::Copy {
                out.copied.push(i);
            }
        }
        // Drawn last, so that the other decisions are those of a task that has a processor.
        if draw.below(8) == 0 {
            out.processor = ProcessorId::ANYWHERE;
        }
        out
    }

    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        let mut draw = self.draw("choose_algorithm", (input.collective, input.kind.name()));
        draw.below(input.choices.len())
    }

    fn map_collective(&self, input: &CollectiveInput<'_>) -> CollectiveOutput {
        let mut draw = self.draw("map_collective", (input.collective, input.shards));
        CollectiveOutput { memory: draw.memory(), access: draw.access(), priority: draw.priority() }
    }
}
