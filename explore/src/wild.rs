//! A mapper whose answers are legal mostly, illegal now and then, and sometimes panics.

use maniple::mapper::{
    ExchangeInput, ExchangeOutput, LeafInput, LeafOutput, Mapper, PlaceShardsInput, PlaceSharedInput, Placement,
    Priority, RandomMapper, SliceInput, Slicing, SourceInput,
};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};

/// What its panics say.
pub const BOMB: &str = "a wild mapper's bomb";

/// Draws legal answers from a seed, with exceptions.
pub struct Wild {
    legal: RandomMapper,
    seed: u64,
    asked: AtomicU64,
}

impl Wild {
    pub fn new(seed: u64) -> Self {
        Self { legal: RandomMapper::new(seed), seed, asked: AtomicU64::new(0) }
    }

    /// Whether the answer about a subject, the same each time, is not legal: one in `rare`, in calls that the seed chooses.
    fn strikes(&self, call: &str, rare: u64, subject: impl Hash) -> bool {
        let drawn = |subject: &dyn Fn(&mut DefaultHasher)| {
            let mut hash = DefaultHasher::new();
            (self.seed, call).hash(&mut hash);
            subject(&mut hash);
            hash.finish()
        };
        if !drawn(&|_| {}).is_multiple_of(3) {
            return false;
        }
        let draw = drawn(&|hash| subject.hash(hash));
        if draw.is_multiple_of(rare) && (draw / rare).is_multiple_of(3) {
            // A panic that says nothing on stderr.
            resume_unwind(Box::new(BOMB.to_string()));
        }
        draw.is_multiple_of(rare)
    }

    fn nth(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed)
    }
}

impl Mapper for Wild {
    fn name(&self) -> &str {
        "wild"
    }

    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        match self.strikes("place_shards", 3, input.gang) {
            true => Placement::Explicit(vec![input.machine.processors(); input.shards as usize]),
            false => self.legal.place_shards(input),
        }
    }

    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> u32 {
        match self.strikes("place_shared", 5, input.region) {
            true => input.machine.processors(),
            false => self.legal.place_shared(input),
        }
    }

    fn select_source(&self, input: &SourceInput<'_>) -> u32 {
        match self.strikes("select_source", 5, (input.region, input.to)) {
            true => u32::MAX,
            false => self.legal.select_source(input),
        }
    }

    fn slice_index(&self, input: &SliceInput<'_>) -> Slicing {
        match self.strikes("slice_index", 4, self.nth()) {
            true => Slicing::Explicit(vec![(1..input.points, input.processor)]),
            false => self.legal.slice_index(input),
        }
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let out = self.legal.map_leaf(input);
        match self.strikes("map_leaf", 30, self.nth()) {
            true => LeafOutput { processor: input.machine.processors(), ..out },
            false => out,
        }
    }

    fn map_exchange(&self, input: &ExchangeInput<'_>) -> ExchangeOutput {
        let legal = self.legal.map_exchange(input);
        match self.strikes("map_exchange", 3, input.collective) {
            true => ExchangeOutput { priority: Priority(Priority::LEVELS), ..legal },
            false => legal,
        }
    }
}
