//! The executor of this processor's shards, inner tasks and copy of the top-level task.

use super::{Effects, Item, polling};
use crate::Place;
use crate::diagnose::Event;
use crate::diagnose::deadlock::Node;
use crate::diagnose::races::{Actor, Races};
use crate::error::panic_message;
use crate::ids::NOBODY;
use maniple_mapper::Priority;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{self, AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Shards are polled after subtasks of raised priority and before the application's leaf tasks.
const SHARD_PRIORITY: Priority = Priority(4);

/// A shard that yields is polled after everything else that is ready.
const YIELD_PRIORITY: Priority = Priority(0);

/// How another thread tells a parked processor that there is work.
pub(crate) type Signal = Arc<dyn Fn() + Send + Sync>;

/// A future that runs on a processor. It ends with its shard, inner task or top-level task.
pub(crate) type ShardFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The owner of the future in a slot: a shard, or the top-level task.
pub(crate) trait Resident {
    fn place(&self) -> Place;
    /// The owner's node in reports, if it is a shard.
    fn node(&self) -> Option<Node>;
    /// The owner as the check for races knows it, if it is a shard.
    fn actor(&self) -> Option<Actor>;
    /// The future has ended. Gets the panic's message if it panicked; otherwise the future has reported its own result.
    fn over(self: Rc<Self>, panic: Option<String>);
}

/// A slot for a future. There is one for each shard, so it is small.
struct FutureSlot {
    /// None if the slot is free.
    whose: Option<Rc<dyn Resident>>,
    /// The future, and the waker that it is polled with. None while it is polled.
    future: Option<(ShardFuture, Waker)>,
    handle: Arc<ShardWaker>,
    queued: bool,
}

const _: () = assert!(size_of::<FutureSlot>() == 64);

struct ShardWaker {
    slot: u32,
    /// A wake-up was sent since the last poll. Further ones are not needed.
    sent: AtomicBool,
    wakes: Arc<Wakes>,
}

/// The list to which the wakers of all shards send.
struct Wakes {
    woken: Mutex<Vec<u32>>,
    /// The list is not empty. Set and cleared with the list locked; reading it needs no lock.
    any: AtomicBool,
    signal: Signal,
}

impl Wakes {
    fn new(signal: Signal) -> Self {
        Self { woken: Mutex::default(), any: AtomicBool::new(false), signal }
    }

    fn list(&self) -> MutexGuard<'_, Vec<u32>> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, slot: u32) {
        let mut woken = self.list();
        woken.push(slot);
        self.any.store(true, Ordering::Relaxed);
        drop(woken);
        (self.signal)();
    }

    #[cold]
    fn take(&self) -> Vec<u32> {
        let mut woken = self.list();
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut woken)
    }
}

impl ShardWaker {
    fn new(slot: u32, wakes: Arc<Wakes>) -> Self {
        Self { slot, sent: AtomicBool::new(false), wakes }
    }

    /// A poll begins: wake-ups are sent again from now on.
    #[inline]
    fn polled(&self) {
        // A wake-up stays in the list until the processor takes it, and then this load sees `sent`. Wake-ups after the
        // first are not sent; the swap makes writes before them visible to the poll.
        if self.sent.load(Ordering::Relaxed) {
            self.sent.swap(false, Ordering::AcqRel);
        }
    }
}

impl Wake for ShardWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if self.sent.swap(true, Ordering::AcqRel) {
            return;
        }
        self.wakes.send(self.slot);
    }
}

pub(crate) struct Executor {
    slots: Vec<FutureSlot>,
    free: Vec<u32>,
    wakes: Arc<Wakes>,
    stopped: bool,
}

impl Executor {
    pub fn new(signal: Signal) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), wakes: Arc::new(Wakes::new(signal)), stopped: false }
    }

    /// Reserves memory for this many more shards, and no more.
    pub fn reserve(&mut self, shards: usize) {
        let new = shards.saturating_sub(self.free.len());
        self.slots.reserve_exact(new);
    }

    fn slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let slot = self.slots.len() as u32;
            let handle = Arc::new(ShardWaker::new(slot, self.wakes.clone()));
            self.slots.push(FutureSlot { whose: None, future: None, handle, queued: false });
            slot
        })
    }
}

impl Effects {
    /// Reserves memory for this many more shards, and no more.
    pub fn reserve_slots(&self, shards: usize) {
        self.exec.borrow_mut().reserve(shards);
    }

    /// Stops the processor: nothing more runs here.
    pub fn stop(&self) {
        self.exec.borrow_mut().stopped = true;
    }

    /// Adds a future to be polled.
    pub fn spawn(&self, whose: Rc<dyn Resident>, future: ShardFuture) {
        let place = self.is_observed().then(|| whose.place());
        let slot = {
            let mut exec = self.exec.borrow_mut();
            let slot = exec.slot();
            let s = &mut exec.slots[slot as usize];
            (s.whose, s.future) = (Some(whose), Some((future, Waker::from(s.handle.clone()))));
            slot
        };
        if let Some(place) = place {
            self.event(|| Event::InSlot { slot, task: &place.task, shard: place.shard });
        }
        self.wake_shard(slot);
    }

    #[inline]
    pub fn wake_shard(&self, slot: u32) {
        self.queue_shard(slot, SHARD_PRIORITY);
    }

    /// Polls a shard again after everything else that is ready.
    pub fn yield_shard(&self, slot: u32) {
        self.queue_shard(slot, YIELD_PRIORITY);
    }

    #[inline]
    fn queue_shard(&self, slot: u32, priority: Priority) {
        let mut exec = self.exec.borrow_mut();
        if let Some(s) = exec.slots.get_mut(slot as usize)
            && s.whose.is_some()
            && !s.queued
        {
            s.queued = true;
            self.queue.push(priority, Item::Shard(slot));
        }
    }

    #[inline]
    pub fn poll_shard(&self, slot: u32) {
        match self.races() {
            None => self.poll_future(slot),
            Some(races) => self.poll_observed(races, slot),
        }
    }

    #[cold]
    fn poll_observed(&self, races: &Arc<Races>, slot: u32) {
        let actor = self.exec.borrow().slots[slot as usize].whose.as_ref().and_then(|whose| whose.actor());
        let _observing = races.observe(actor.unwrap_or((NOBODY, self.id.0)));
        self.poll_future(slot);
    }

    #[inline(always)]
    fn poll_future(&self, slot: u32) {
        self.counters.polls.add(1);
        let (mut future, waker) = {
            let mut exec = self.exec.borrow_mut();
            let s = &mut exec.slots[slot as usize];
            s.queued = false;
            s.handle.polled();
            // The waker is moved out and back, too. A clone would cost an atomic operation.
            let Some(parked) = s.future.take() else { return };
            parked
        };
        let polled = polling::polling(slot, &waker, || {
            catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))))
        });
        let panic = match polled {
            Ok(Poll::Pending) => {
                let mut exec = self.exec.borrow_mut();
                let s = &mut exec.slots[slot as usize];
                // Nobody has put a future here meanwhile, which the compiler does not see.
                std::mem::forget(s.future.replace((future, waker)));
                return;
            }
            Ok(Poll::Ready(())) => None,
            Err(panic) => Some(panic_message(panic)),
        };
        self.event(|| Event::LastPolled { slot });
        // Dropping the future may run user code, which may panic too.
        let panic = match catch_unwind(AssertUnwindSafe(|| drop(future))) {
            Ok(()) => panic,
            Err(second) => panic.or(Some(panic_message(second))),
        };
        let whose = {
            let mut exec = self.exec.borrow_mut();
            let s = &mut exec.slots[slot as usize];
            let whose = s.whose.take();
            exec.free.push(slot);
            whose
        };
        if let Some(whose) = whose {
            whose.over(panic);
        }
    }

    /// The node of the future in a slot, for reports.
    pub fn slot_node(&self, slot: u32) -> Node {
        let exec = self.exec.borrow();
        let whose = exec.slots.get(slot as usize).and_then(|s| s.whose.as_ref());
        whose.and_then(|whose| whose.node()).unwrap_or(Node::Other { processor: self.id, slot })
    }

    /// All futures here: the slot, the node, and its name in reports.
    pub fn futures(&self) -> Vec<(u32, (Node, String))> {
        let exec = self.exec.borrow();
        let slots = (0u32..).zip(&exec.slots).filter_map(|(i, s)| Some((i, s.whose.as_ref()?)));
        let node = |slot, whose: &Rc<dyn Resident>| whose.node().unwrap_or(Node::Other { processor: self.id, slot });
        slots.map(|(slot, whose)| (slot, (node(slot, whose), whose.place().to_string()))).collect()
    }

    /// Drops the future in a slot. True if it was awaiting a [`TaskFuture`](crate::TaskFuture).
    pub fn ends_awaiting_future(&self, slot: u32) -> bool {
        let taken = {
            let slot = &mut self.exec.borrow_mut().slots[slot as usize];
            slot.whose.as_ref().map(|whose| whose.place()).zip(slot.future.take())
        };
        taken.is_some_and(|(place, future)| polling::awaits_future(|| self.drop_guarded(|| place, future)))
    }

    /// Queues the shards that other threads have woken; false if there were none.
    #[inline]
    pub fn collect_wakes(&self) -> bool {
        if !self.has_wakes() {
            return false;
        }
        let woken = self.exec.borrow().wakes.take();
        for slot in woken {
            self.wake_shard(slot);
        }
        true
    }

    #[inline]
    pub fn has_wakes(&self) -> bool {
        self.exec.borrow().wakes.any.load(Ordering::Relaxed)
    }

    /// Whether somebody outside holds a waker, so that something may still come. If not, all earlier wakes are in the
    /// list by now: look there after this call.
    pub fn has_foreign_waker(&self) -> bool {
        // Two references are the slot's own.
        let found = self.exec.borrow().slots.iter().any(|s| s.whose.is_some() && Arc::strong_count(&s.handle) > 2);
        // The counts are read with Relaxed. A dropped waker is counted down with Release, after its wakes.
        atomic::fence(Ordering::Acquire);
        found
    }

    pub fn stopped(&self) -> bool {
        self.exec.borrow().stopped
    }

    /// The largest number of shards, inner tasks and top-level tasks that have been here at the same time.
    pub fn most_there(&self) -> usize {
        self.exec.borrow().slots.len()
    }

    /// Drops every future that is still there, after a run that failed.
    pub fn drop_futures(&self) {
        let mut exec = self.exec.borrow_mut();
        // The owner refers to this processor as well.
        let futures: Vec<_> = exec.slots.iter_mut().filter_map(|s| Some((s.whose.take()?, s.future.take()))).collect();
        drop(exec);
        for (whose, future) in futures {
            let place = whose.place();
            self.drop_guarded(|| place, (future, whose));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_has_one_wake_up_under_way() {
        let wakes = Arc::new(Wakes::new(Arc::new(|| {})));
        let handle = Arc::new(ShardWaker::new(3, wakes.clone()));
        let waker = Waker::from(handle.clone());
        for _ in 0..3 {
            handle.polled();
            (0..1000).for_each(|_| waker.wake_by_ref());
            assert_eq!(wakes.take(), [3]);
        }
    }
}
