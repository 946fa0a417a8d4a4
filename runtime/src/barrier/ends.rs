//! The generations that the ends of barriers are at, kept across the launches of a gang.

use super::Barriers;
use std::cell::Cell;
use std::rc::Rc;

/// The next generation of one end of a barrier.
pub(crate) type GenerationCounter = Rc<Cell<u64>>;

/// Which counter of a pair's end, kept across the launches of a gang.
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
    pub fn counter(&self, object: u32, shard: u32, end: End) -> GenerationCounter {
        // A region starts empty: generation 0 of its empty barrier has arrived already.
        let first = u64::from(end == End::ConsumerArrive);
        let mut counters = self.counters.borrow_mut();
        counters.entry((object, shard, end)).or_insert_with(|| Rc::new(Cell::new(first))).clone()
    }
}
