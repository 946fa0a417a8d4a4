//! The post office: the state that the processors of a run share. Each processor has a place to sleep, a hall where
//! others leave the rings they open to it, and published counts. The post does not know what a message is.

use super::super::park::Parker;
use super::super::ring::{Receiver, slot_bytes};
use super::super::sync::Mutex;
use super::super::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::ids::ProcessorId;
use std::sync::PoisonError;
use std::time::Instant;

/// Most slots of a ring. Fewer are slower at hundreds of shards.
pub const RING: usize = if cfg!(loom) { 2 } else { 256 };
/// Most bytes of all rings together, if every processor talks to every other.
const RINGS: usize = 256 << 20;

/// The public state of one processor. Each has cache lines of its own, because its neighbours write theirs.
#[repr(align(128))]
pub struct Public<M> {
    pub parker: Parker,
    /// Set while the processor has nothing to do. The counts below do not change while it is set.
    pub idle: AtomicBool,
    pub sent: AtomicU64,
    pub received: AtomicU64,
    /// Somebody outside holds a waker of one of its shards, or a timer of its own is set.
    pub awaits_outside: AtomicBool,
    /// It has left its loop and reads no more.
    pub gone: AtomicBool,
    /// How many rings have been opened to this processor. Those it has not fetched are in `hall`.
    pub opened: AtomicUsize,
    hall: Mutex<Vec<(ProcessorId, Receiver<M>)>>,
}

impl<M> Public<M> {
    pub fn new() -> Self {
        Self {
            parker: Parker::new(),
            idle: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            awaits_outside: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            opened: AtomicUsize::new(0),
            hall: Mutex::new(Vec::new()),
        }
    }

    /// For a sender: leaves the consumer's end of a new ring.
    pub fn leave(&self, source: ProcessorId, ring: Receiver<M>) {
        let mut hall = self.hall.lock().unwrap_or_else(PoisonError::into_inner);
        hall.push((source, ring));
        // Counted under the lock, so that a processor that fetches the ring finds it counted. This is like a push: the
        // README's argument for values holds for the ring too.
        self.opened.fetch_add(1, Ordering::Release);
    }

    /// The rings that have been left since the last call.
    pub fn fetch(&self) -> Vec<(ProcessorId, Receiver<M>)> {
        std::mem::take(&mut *self.hall.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub struct Post<M> {
    pub processors: Vec<Public<M>>,
    /// Slots of each ring.
    pub slots: usize,
    /// When the run began.
    pub start: Instant,
    /// The run can't go on: everybody was idle with nothing in flight, or a processor crashed.
    given_up: AtomicBool,
}

impl<M> Post<M> {
    pub fn new(processors: usize) -> Self {
        Self {
            processors: (0..processors).map(|_| Public::new()).collect(),
            slots: slots_between::<M>(processors),
            start: Instant::now(),
            given_up: AtomicBool::new(false),
        }
    }

    /// Ends the run for everybody.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
        self.processors.iter().for_each(|p| p.parker.wake());
    }

    /// Whether the run was given up. A processor that was woken for it sees it.
    #[inline]
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }
}

/// Slots of a ring between two of `n` processors.
fn slots_between<M>(n: usize) -> usize {
    let room = RINGS / slot_bytes::<M>() / (n * n);
    // The number is a power of two. A ring of fewer than four slots would be full nearly always.
    1 << room.clamp(RING.min(4), RING).ilog2()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::message::Message;

    #[test]
    fn all_rings_together_keep_within_bounds() {
        let slots = slots_between::<Message>;
        assert!((1..=16).all(|n| slots(n) == RING));
        for n in 1..=1024 {
            assert!(slots(n).is_power_of_two() && slots(n) >= 4);
            assert!(n * n * slots(n) * slot_bytes::<Message>() <= RINGS, "{n} processors, {} slots", slots(n));
        }
        assert_eq!(slots(100_000), 4);
    }
}
