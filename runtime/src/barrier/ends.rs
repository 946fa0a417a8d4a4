//! The generations that the ends of barriers are at, kept across the launches of a gang.

use super::Barriers;
use std::cell::Cell;
use std::rc::Rc;

/// The next generation of one end of a barrier.
pub(crate) type GenerationCounter = Rc<Cell<u64>>;

/// Which counter of an edge's or a phase barrier's end, kept across the launches of a gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum End {
    ProducerWait,
    ProducerArrive,
    ConsumerWait,
    ConsumerArrive,
    PhaseArrive,
    PhaseWait,
}

impl Barriers {
    /// The generation counter of one end of a barrier, kept across launches.
    /// `number` is that of the edge, or of the shard at a phase barrier; `first` the generation to begin with.
    pub fn counter(&self, object: u32, number: u32, end: End, first: u64) -> GenerationCounter {
        let mut counters = self.counters.borrow_mut();
        counters.entry((object, number, end)).or_insert_with(|| Rc::new(Cell::new(first))).clone()
    }
}
