//! Services that a processor offers its modules: sending, the ready queue, counters, questions to the mapper, notes for
//! reports. A module gets a reference to [`Effects`] and has no other way to the outside.
//!
//! `queue`: items that can run now. `executor`: shards and other futures. `timers`: deadlines. `waiting`: the kinds of
//! waiters. `polling`: the shard that is being polled. `mappers`: questions to the mapper. `objects`: the objects made
//! by the top-level task. `graves`: those that were destroyed. `observe`: calls to observers.

mod executor;
mod graves;
mod mappers;
mod objects;
mod observe;
pub(crate) mod polling;
mod queue;
mod timers;
mod waiting;

pub(crate) use executor::{Resident, ShardFuture, Signal};
pub(crate) use graves::Destroyed;
pub(crate) use mappers::Asker;
pub(crate) use objects::{Known, Objects, is_private};
use observe::Observers;

pub(crate) use queue::{Item, ReadyQueue};
pub(crate) use timers::Timer;
pub(crate) use waiting::{Arrivals, Tell, Waiting};

use crate::config::Config;
use crate::counters::Counters;
use crate::error::panic_message;
use crate::error::{Failure, FailureNumber};
use crate::ids::{CellAddress, NodeId, ObjectId, ProcessorId};
use crate::message::{Also, Message, Wire};
use crate::payload::Payload;
use crate::plant::Bug;
use crate::{Error, Place};
use maniple_mapper::{Machine, Priority};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

/// An arrival at the empty half of a cell on another processor.
struct Late {
    object: ObjectId,
    cell: u32,
    generation: u64,
}

/// The services of one processor.
pub(crate) struct Effects {
    pub id: ProcessorId,
    pub config: Arc<Config>,
    pub wire: Box<dyn Wire>,
    pub counters: Counters,
    observers: Option<Box<Observers>>,
    pub queue: ReadyQueue,
    pub objects: Objects,
    /// Messages of this processor to itself.
    inbox: RefCell<VecDeque<Message>>,
    /// Arrivals that are not urgent, sent at the end of the turn.
    late: RefCell<Vec<(ProcessorId, Late)>>,
    mappers: mappers::Mappers,
    exec: RefCell<executor::Executor>,
    /// Wakers to be called once no chains are borrowed, because they run user code.
    wakers: RefCell<Vec<Waker>>,
    /// Chains are borrowed.
    in_chains: Cell<bool>,
    timers: timers::Timers,
    failure: OnceCell<Box<Error>>,
    /// How many failures have begun here.
    failures: Cell<u64>,
    /// The error of a lost processor. Once it is set, nothing that comes from others can be relied on.
    lost: OnceCell<Box<Error>>,
}

impl Effects {
    pub fn new(id: ProcessorId, config: Arc<Config>, wire: Box<dyn Wire>, signal: Signal) -> Self {
        Self {
            id,
            observers: Observers::of(&config, &*wire),
            wire,
            counters: Counters::default(),
            queue: ReadyQueue::default(),
            objects: Objects::default(),
            inbox: RefCell::default(),
            // Not when the first comes: by then this thread may have freed memory of another one, whose own data is on the
            // same cache line.
            late: RefCell::new(Vec::with_capacity(4)),
            mappers: mappers::Mappers::new(&config),
            exec: RefCell::new(executor::Executor::new(signal)),
            wakers: RefCell::default(),
            in_chains: Cell::new(false),
            timers: timers::Timers::default(),
            failure: OnceCell::new(),
            failures: Cell::new(0),
            lost: OnceCell::new(),
            config,
        }
    }

    pub fn machine(&self) -> &Machine {
        &self.config.machine
    }

    /// See [`Config::copies`].
    pub fn copies(&self) -> &Machine {
        &self.config.copies
    }

    /// The processor that runs a copy of the top-level task.
    #[inline]
    pub fn home_of(&self, copy: NodeId) -> ProcessorId {
        self.config.homes[copy.index()]
    }

    pub fn same_node(&self, other: ProcessorId) -> bool {
        self.machine().same_node(self.id, other)
    }

    /// Whether the instances of another processor can be used in place, if their memory allows it.
    pub fn reaches(&self, other: ProcessorId) -> bool {
        self.same_node(other) || self.wire.shared_memory().is_some_and(|memory| memory.reaches(other))
    }

    /// Sends to any processor, this one included.
    pub fn send(&self, to: ProcessorId, message: Message) {
        if to == self.id {
            self.inbox.borrow_mut().push_back(message);
        } else {
            self.counters.messages.add(1);
            if self.observers.is_some() {
                return self.send_observed(to, message);
            }
            self.wire.send(to, message);
        }
    }

    /// Sends to all processors of this node, this one included.
    pub fn send_to_node(&self, message: impl Fn() -> Message) {
        for to in self.copies().processors_of(self.copies().node_of(self.id)) {
            self.send(to, message());
        }
    }

    /// Sends an arrival with a value of one word, or with none, to another processor.
    #[inline]
    fn send_plain(&self, at: CellAddress, generation: u64, also: Also, word: Option<u64>) {
        let CellAddress { processor, object, cell } = at;
        debug_assert!(processor != self.id, "its own go to its inbox");
        self.counters.messages.add(1);
        if self.observers.is_some() {
            return self.send_observed(processor, Message::plain(object, cell, generation, also, word));
        }
        self.wire.send_plain(processor, object, cell, generation, also, word);
    }

    /// Sends a ready arrival with a value of one word to another processor.
    #[inline]
    pub fn send_word(&self, at: CellAddress, generation: u64, word: u64) {
        self.send_plain(at, generation, self.also(at.processor, at.object), Some(word));
    }

    /// Sends a ready arrival to any processor.
    #[inline]
    pub fn send_ready(&self, at: CellAddress, generation: u64, payload: Payload) {
        let CellAddress { processor, object, cell } = at;
        let also = self.also(processor, object);
        match payload {
            Payload::None if processor != self.id => self.send_plain(at, generation, also, None),
            payload => self.send(processor, Message::Arrive { object, cell, generation, payload, also }),
        }
    }

    /// Sends an empty arrival, which frees the cell, to another processor. Seldom is it `urgent`: mostly it goes with the next
    /// ready arrival there, or at the end of this turn, after messages that somebody may be waiting for.
    #[inline]
    pub fn send_empty(&self, at: CellAddress, generation: u64, urgent: bool) {
        let CellAddress { processor, object, cell } = at;
        if urgent {
            self.send_plain(at, generation, Also::NOTHING, None);
        } else {
            self.late.borrow_mut().push((processor, Late { object, cell, generation }));
        }
    }

    /// The late arrival that can travel with an arrival of the same object to the same processor.
    #[inline]
    fn also(&self, to: ProcessorId, object: ObjectId) -> Also {
        let mut late = self.late.borrow_mut();
        match late.last() {
            Some((p, l)) if *p == to && l.object == object => {
                let also = Also { cell: l.cell, generation: l.generation as u32 };
                late.pop();
                also
            }
            _ => Also::NOTHING,
        }
    }

    #[inline]
    pub fn send_what_is_late(&self) {
        if !self.late.borrow().is_empty() {
            self.send_late_ones();
        }
    }

    #[cold]
    fn send_late_ones(&self) {
        let mut late = self.late.borrow_mut();
        for (processor, Late { object, cell, generation }) in late.drain(..) {
            self.send_plain(CellAddress { processor, object, cell }, generation, Also::NOTHING, None);
        }
    }

    /// Poisons a cell of any processor from `generation` on.
    #[cold]
    pub fn send_poison(&self, at: CellAddress, generation: u64, error: &Error) {
        let CellAddress { processor, object, cell } = at;
        self.send(processor, Message::Poison { object, cell, generation, error: Box::new(error.clone()) });
    }

    /// See [`Config::strikes`].
    #[inline(always)]
    pub fn strikes(&self, bug: Bug) -> bool {
        self.config.strikes(bug)
    }

    /// See [`Config::has`].
    #[inline(always)]
    pub fn has(&self, bug: Bug) -> bool {
        self.config.has(bug)
    }

    /// The next message of this processor to itself.
    pub fn next_own_message(&self) -> Option<Message> {
        self.inbox.borrow_mut().pop_front()
    }

    /// How many messages this processor has sent itself and not handled.
    #[inline]
    pub fn own_messages(&self) -> usize {
        self.inbox.borrow().len()
    }

    /// Whether an item of a higher priority is ready.
    #[inline]
    pub fn more_urgent(&self, than: Priority) -> bool {
        self.queue.has_above(than)
    }

    /// The failure of `place`, with a number of its own if `error` follows from no other failure.
    #[cold]
    pub fn failed(&self, error: Error, place: impl FnOnce() -> Place) -> Failure {
        Failure::new(error, place, || self.next_failure())
    }

    /// The error of `place`, which fails because of `cause`.
    #[cold]
    pub fn poisons(&self, cause: &Error, place: Place) -> Error {
        self.failed(cause.clone(), || place.clone()).poison().poisons(place)
    }

    /// A number for a failure that follows from no other.
    pub fn next_failure(&self) -> FailureNumber {
        self.failures.set(self.failures.get() + 1);
        FailureNumber::new(self.id, self.failures.get())
    }

    /// Remembers the first error that nobody may be awaiting.
    pub fn note_failure(&self, error: &Error) {
        self.failure.get_or_init(|| Box::new(error.clone()));
    }

    pub fn failure(&self) -> Option<Error> {
        self.failure.get().map(|e| (**e).clone())
    }

    /// The error of a lost processor, if there is one.
    #[inline]
    pub fn lost_processor(&self) -> Option<&Error> {
        self.lost.get().map(|e| &**e)
    }

    /// Notes that a processor is lost; false if one was lost before. The first one is the cause.
    pub fn lose(&self, error: &Error) -> bool {
        self.lost.set(Box::new(error.clone())).is_ok()
    }

    /// Whether the processor has something to do.
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty()
            || !self.inbox.borrow().is_empty()
            || self.has_wakes()
            || !self.wakers.borrow().is_empty()
    }

    /// Calls a waker, at once or when no chains are borrowed any more.
    pub fn wake(&self, waker: Waker) {
        if self.in_chains.get() { self.wakers.borrow_mut().push(waker) } else { waker.wake() }
    }

    /// Calls the wakers that are due; false if there were none.
    #[inline]
    pub fn call_wakers(&self) -> bool {
        !self.wakers.borrow().is_empty() && self.call_due_wakers()
    }

    #[cold]
    fn call_due_wakers(&self) -> bool {
        // Taken first, because a waker may notify others.
        let due = std::mem::take(&mut *self.wakers.borrow_mut());
        for waker in due {
            let place = || Place { task: "a waker".into(), shard: None };
            self.guarded(place, || waker.wake());
        }
        true
    }

    /// Puts wakers off while `f` has chains borrowed.
    #[inline]
    pub fn in_chains<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Restore<'a>(&'a Cell<bool>, bool);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let _restore = Restore(&self.in_chains, self.in_chains.replace(true));
        f()
    }

    /// Drops a value of the program, whose destructor may panic.
    #[inline]
    pub fn drop_guarded<T>(&self, place: impl FnOnce() -> Place, value: T) {
        self.guarded(place, || drop(value));
    }

    /// Runs code of the program that nobody awaits. A panic in it is an error of the run.
    #[inline]
    pub fn guarded(&self, place: impl FnOnce() -> Place, f: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
            self.note_failure(&Error::Panicked { place: place(), message: panic_message(panic) });
        }
    }
}
