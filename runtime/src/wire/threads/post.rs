//! The post office: the state that the processors of a run share. Each processor has a place to sleep, published counts,
//! and a hall where others leave the rings they open to it. The post does not know what a message is.
//!
//! The places and counts may be in memory that several processes share; the halls belong to one process.

use super::super::faults::SlowLink;
use super::super::park::Parker;
use super::super::ring::{Receiver, slot_bytes};
use super::super::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use super::super::sync::{MODEL, Mutex};
use crate::Progress;
use crate::ids::ProcessorId;
use std::any::Any;
use std::ops::Index;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Most slots of a ring. Fewer are slower at hundreds of shards.
pub const RING: usize = if MODEL { 2 } else { 256 };
/// Most bytes of all rings together, if every processor talks to every other.
const RINGS: usize = 256 << 20;

/// The public state of one processor. Each has cache lines of its own, because its neighbours write theirs.
#[repr(C, align(128))]
pub struct Public {
    pub parker: Parker,
    /// Set while the processor has nothing to do. The counts below do not change while it is set.
    pub idle: AtomicBool,
    pub sent: AtomicU64,
    pub received: AtomicU64,
    /// Somebody outside holds a waker of one of its shards, or a timer of its own is set.
    pub awaits_outside: AtomicBool,
    /// Its node is done. It may still receive for the sake of other processes.
    pub done: AtomicBool,
    /// It has left its loop and reads no more.
    pub gone: AtomicBool,
    /// How many rings have been opened to this processor.
    pub opened: AtomicUsize,
    /// The run can't go on: everybody was idle with nothing in flight, or a processor crashed.
    pub given_up: AtomicBool,
}

impl Public {
    pub fn new() -> Self {
        Self {
            parker: Parker::new(),
            idle: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            awaits_outside: AtomicBool::new(false),
            done: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            opened: AtomicUsize::new(0),
            given_up: AtomicBool::new(false),
        }
    }
}

/// The public states of all processors, in order. They are in memory of this process, or in memory that several share.
pub struct Publics {
    all: Vec<NonNull<Public>>,
    /// Keeps the memory.
    _memory: Arc<dyn Any + Send + Sync>,
}

// SAFETY: They are shared references to `Public`, which is `Sync`, in memory that is kept.
unsafe impl Send for Publics {}
// SAFETY: As for `Send`.
unsafe impl Sync for Publics {}

impl Publics {
    /// Public states in memory that `memory` keeps.
    ///
    /// # Safety
    ///
    /// Each pointer leads to one that has been made, in this process or in another one, and `memory` keeps all.
    #[cfg(target_os = "linux")]
    pub unsafe fn in_memory(all: Vec<NonNull<Public>>, memory: Arc<dyn Any + Send + Sync>) -> Self {
        Self { all, _memory: memory }
    }

    fn own(processors: usize) -> Self {
        let memory: Arc<[Public]> = (0..processors).map(|_| Public::new()).collect();
        let all = memory.iter().map(NonNull::from).collect();
        Self { all, _memory: Arc::new(memory) }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Ends the run for everybody.
    pub fn give_up(&self) {
        self.iter().for_each(|p| p.given_up.store(true, Ordering::SeqCst));
        self.iter().for_each(|p| p.parker.wake());
    }

    pub fn iter(&self) -> impl Iterator<Item = &Public> {
        // SAFETY: They lead to memory that is kept.
        self.all.iter().map(|public| unsafe { public.as_ref() })
    }
}

impl Index<usize> for Publics {
    type Output = Public;

    #[inline(always)]
    fn index(&self, at: usize) -> &Public {
        // SAFETY: It leads to memory that is kept.
        unsafe { self.all[at].as_ref() }
    }
}

/// The ways between processors of different processes. What goes along them is encoded.
pub trait Abroad<M>: Send + Sync {
    /// The sending end of a new way to a processor of another process; `None` if both are in this process.
    fn open(&self, publics: &Publics, from: ProcessorId, to: ProcessorId) -> Option<Box<dyn Way<M>>>;
    /// The receiving ends of the ways that other processes have opened to `me`, without the ends from `known`.
    fn fetch(&self, me: ProcessorId, known: &[ProcessorId]) -> Vec<(ProcessorId, Box<dyn Origin<M>>)>;
    /// Goes on with messages to and from other hosts, and finds out with them whether the run can't go on. True if there
    /// was news, or some are still under way. Never waits.
    fn progress(&self, publics: &Publics) -> bool;
    /// Whether the sender of a large message is told when it has left.
    fn tells_when_left(&self, from: ProcessorId, to: ProcessorId) -> bool;
}

/// The sending end of a way to another process.
pub trait Way<M> {
    /// Appends a message, or gives it back if no slot is free. Never waits.
    fn push(&mut self, message: M) -> Result<(), M>;
}

/// The receiving end of a way from another process.
pub trait Origin<M> {
    /// Takes the oldest message, if there is one. Never waits.
    fn pop(&mut self) -> Option<M>;
    fn is_empty(&self) -> bool;
}

/// Rings that have been opened to a processor and that it has not fetched yet.
type Hall<M> = Mutex<Vec<(ProcessorId, Receiver<M>)>>;

pub struct Post<M> {
    pub processors: Publics,
    halls: Vec<Hall<M>>,
    /// The ways to other processes, if there are any.
    pub abroad: Option<Box<dyn Abroad<M>>>,
    /// Where there are other hosts: who sees to the messages to and from them.
    pub other_hosts: Option<Progress>,
    /// Slots of each ring.
    pub slots: usize,
    /// The links that are slow on purpose.
    pub slow: Vec<SlowLink>,
    /// When the run began.
    pub start: Instant,
}

impl<M> Post<M> {
    pub fn new(processors: usize) -> Self {
        Self::of(Publics::own(processors), None, Instant::now())
    }

    /// A post office of processors whose public state may be in other processes, for a run that has begun at `start`.
    pub fn of(publics: Publics, abroad: Option<Box<dyn Abroad<M>>>, start: Instant) -> Self {
        let processors = publics.len();
        Self {
            processors: publics,
            halls: (0..processors).map(|_| Mutex::new(Vec::new())).collect(),
            abroad,
            other_hosts: None,
            slots: slots_between::<M>(processors),
            slow: Vec::new(),
            start,
        }
    }

    /// For a sender: leaves the consumer's end of a new ring.
    pub fn leave(&self, source: ProcessorId, to: ProcessorId, ring: Receiver<M>) {
        let mut hall = self.halls[to.index()].lock().unwrap_or_else(PoisonError::into_inner);
        hall.push((source, ring));
        // Counted under the lock, so that a processor that fetches the ring finds it counted. This is like a push: the
        // README's argument for values holds for the ring too.
        self.processors[to.index()].opened.fetch_add(1, Ordering::Release);
    }

    /// The rings that have been left for a processor since the last call.
    pub fn fetch(&self, id: ProcessorId) -> Vec<(ProcessorId, Receiver<M>)> {
        std::mem::take(&mut *self.halls[id.index()].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the run for everybody.
    pub fn give_up(&self) {
        self.processors.give_up();
    }

    /// Goes on with messages to and from other hosts. True if there was news, or some are still under way.
    #[cold]
    pub fn progress(&self) -> bool {
        self.abroad.as_ref().is_some_and(|abroad| abroad.progress(&self.processors))
    }

    /// Whether the run was given up. A processor that was woken for it sees it.
    #[inline]
    pub fn is_given_up(&self) -> bool {
        self.processors[0].given_up.load(Ordering::Relaxed)
    }
}

/// Slots of a ring between two of `n` processors.
pub fn slots_between<M>(n: usize) -> usize {
    let slots = RINGS / slot_bytes::<M>() / (n * n);
    // The number is a power of two. A ring of fewer than four slots would be full nearly always.
    1 << slots.clamp(RING.min(4), RING).ilog2()
}

#[cfg(test)]
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
