//! The state of one processor and the steps it is made of. Nothing here does I/O or reads a clock but the wire's: messages
//! come in through [`Core::receive`], leave through the wire, and [`Core::turn`] runs what is ready. Time comes in through
//! [`Core::time_is`]; the wire says what it is when a timer is set.

mod ask;
mod barriers;
mod batches;
mod cells;
mod chains;
mod data;
mod exec;
mod leaves;
mod lost;

mod objects;
mod queue;
pub(crate) mod replicas;
mod report;
mod timers;
mod trace;

pub(crate) use ask::Asker;
pub(crate) use cells::{Bank, Waited};
pub(crate) use chains::{Chains, Links, Refused};
pub(crate) use exec::Signal;
pub(crate) use leaves::{ArrivalAt, Body, LeafTask, Offloaded, Owner, SendTask, Staged, Start, UseAt, WaitAt};
pub(crate) use objects::Local;
pub(crate) use queue::TaskId;
pub(crate) use timers::Timer;
pub(crate) use trace::{Event, Kind, Recording};

use crate::config::Config;
use crate::counters::Counters;
use crate::future::Failures;
use crate::gang::Order;
use crate::maps::HashMap;
use crate::message::{Also, LaunchKey, Message, ObjectId, ProcessorId};
use crate::payload::Payload;
use crate::wire::Wire;
use crate::{Error, Place};
use maniple_mapper::{Machine, Priority};
use maniple_regions::Lease;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;

/// Who is told when something completes.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A leaf task has one thing less to wait for.
    Task(TaskId),
    /// A replayed chain may run its next subtask.
    Chain { object: ObjectId, chain: u32, priority: Priority },
    /// A shard of this processor is to be polled.
    Shard(u32),
    /// A future is polled by somebody else's waker (a combinator, say).
    Waker(Box<Waker>),
}

/// An arrival at an empty half, on another processor, of a chain's cell.
pub(crate) struct Late {
    pub object: ObjectId,
    pub cell: u32,
    pub generation: u64,
}

/// One processor.
pub(crate) struct Core {
    pub id: ProcessorId,
    pub config: Arc<Config>,
    pub wire: Box<dyn Wire>,
    pub counters: Counters,
    mappers: ask::Mappers,
    trace: Option<Box<RefCell<trace::Recorder>>>,
    queue: queue::ReadyQueue,
    inbox: RefCell<VecDeque<Message>>,
    /// Arrivals that nobody is in a hurry for, sent at the end of the turn.
    late: RefCell<Vec<(ProcessorId, Late)>>,
    objects: RefCell<objects::Objects>,
    leaves: RefCell<leaves::Leaves>,
    /// Those of the leaf task that is called now.
    leases: RefCell<Vec<Lease>>,
    exec: RefCell<exec::Executor>,
    /// Other wakers to be called once no chains are borrowed: their code is not ours.
    wakers: RefCell<Vec<Waker>>,
    /// Chains are borrowed.
    in_chains: Cell<bool>,
    timers: timers::Timers,
    /// Of a processor that has been asked to start shards or to send values to some.
    batches: OnceCell<Box<RefCell<batches::Batches>>>,
    data: RefCell<data::Data>,
    launches: RefCell<HashMap<LaunchKey, Rc<crate::gang::LaunchState>>>,
    launches_early: RefCell<HashMap<LaunchKey, Vec<crate::message::BatchDone>>>,
    next_parent: Cell<u32>,
    counters_of_ends: RefCell<HashMap<(ObjectId, u32, crate::phase::End), crate::phase::Counter>>,
    failure: OnceCell<Box<Error>>,
    /// Those of launchers some of whose shards failed, for reports.
    failures: RefCell<Vec<Weak<Failures>>>,
    /// Why nothing that comes from others can be relied on any more, once a processor is lost.
    lost: OnceCell<Box<Error>>,
    replicas: OnceCell<Box<RefCell<replicas::Replicas>>>,
}

impl Core {
    pub fn new(id: ProcessorId, config: Arc<Config>, wire: Box<dyn Wire>, signal: Signal) -> Rc<Self> {
        let recorder =
            |t: &crate::trace::Tracing| trace::Recorder::new(t.list(), t.most, config.machine.processors(), &*wire);
        Rc::new(Self {
            id,
            trace: config.trace.as_ref().map(recorder),
            wire,
            counters: Counters::default(),
            mappers: ask::Mappers::new(config.mapper.reader()),
            queue: queue::ReadyQueue::default(),
            inbox: RefCell::default(),
            late: RefCell::default(),
            objects: RefCell::default(),
            leaves: RefCell::default(),
            leases: RefCell::default(),
            wakers: RefCell::default(),
            in_chains: Cell::new(false),
            exec: RefCell::new(exec::Executor::new(signal)),
            timers: timers::Timers::default(),
            batches: OnceCell::new(),
            data: RefCell::default(),
            launches: RefCell::default(),
            launches_early: RefCell::default(),
            next_parent: Cell::new(id + 1),
            counters_of_ends: RefCell::default(),
            failure: OnceCell::new(),
            failures: RefCell::default(),
            lost: OnceCell::new(),
            replicas: OnceCell::new(),
            config,
        })
    }

    pub fn machine(&self) -> &Machine {
        &self.config.machine
    }

    /// See [`Config::copies`].
    pub fn copies(&self) -> &Machine {
        &self.config.copies
    }

    pub fn same_node(&self, other: ProcessorId) -> bool {
        self.machine().same_node(self.id, other)
    }

    /// Sends to any processor, this one included.
    pub fn send(&self, to: ProcessorId, message: Message) {
        if to == self.id {
            self.inbox.borrow_mut().push_back(message);
        } else {
            self.counters.messages.add(1);
            if let Some(trace) = &self.trace {
                return self.send_noted(trace, to, message);
            }
            self.wire.send(to, message);
        }
    }

    /// Sends a ready arrival with a value of one word to another processor.
    #[inline]
    pub fn send_word(&self, to: ProcessorId, object: ObjectId, cell: u32, generation: u64, word: u64) {
        self.counters.messages.add(1);
        let also = self.also(to, object);
        if let Some(trace) = &self.trace {
            return self.send_noted(trace, to, Message::word(object, cell, generation, also, word));
        }
        self.wire.send_word(to, object, cell, generation, also, word);
    }

    /// Arrives at an empty half of a cell of another processor at the end of this turn, after what somebody may be waiting
    /// for, or with the next ready arrival there.
    #[inline]
    pub fn arrive_late(&self, to: ProcessorId, late: Late) {
        self.late.borrow_mut().push((to, late));
    }

    /// The late arrival that may travel with one of the same object to the same processor.
    #[inline]
    pub fn also(&self, to: ProcessorId, object: ObjectId) -> Also {
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
        for (to, Late { object, cell, generation }) in late.drain(..) {
            self.send(to, Message::Arrive { object, cell, generation, payload: Payload::None, also: Also::NOTHING });
        }
    }

    /// Takes in one message that the wire brings from another processor.
    #[inline]
    pub fn receive(self: &Rc<Self>, from: ProcessorId, message: Message) {
        match &self.trace {
            None => self.deliver(from, message),
            Some(trace) => self.receive_noted(trace, from, message),
        }
    }

    /// Takes in one message.
    pub fn deliver(self: &Rc<Self>, from: ProcessorId, message: Message) {
        match message {
            Message::Arrive { object, cell, generation, payload, also } => {
                let objects = self.objects.borrow();
                match objects.get(object) {
                    Some(Local { chains: Some(chains), .. }) => chains.arrive(self, cell, generation, payload, also),
                    _ => {
                        drop(objects);
                        match self.local(object) {
                            Some(local) => self.arrive_here(&local, cell, generation, payload),
                            None => self.stash(from, Message::Arrive { object, cell, generation, payload, also }),
                        }
                    }
                }
            }
            message => self.deliver_rare(from, message),
        }
    }

    fn deliver_rare(self: &Rc<Self>, from: ProcessorId, message: Message) {
        if let Some(object) = needs_object(&message)
            && !self.knows(object)
        {
            return self.stash(from, message);
        }
        match message {
            Message::Arrive { .. } => unreachable!("taken in `deliver`"),
            Message::Combine { object, contributor, generation, values } => {
                self.combine(object, contributor, generation, values);
            }
            Message::Release { object, generation, value } => self.release(object, generation, value),
            Message::Poison { object, cell, generation, error } => self.poison_here(object, cell, generation, *error),
            Message::Batch(batch) => self.take_order(Order::Start(batch)),
            Message::BatchDone(done) => self.take_batch_done(*done),
            Message::LaunchOver { launch } => self.take_launch_over(launch),
            Message::SendColumns(order) => self.take_order(Order::Send(order)),
            Message::Columns(columns) => self.take_columns(*columns),
            Message::Attach(ask) => self.take_attach(from, ask.0, ask.1),
            Message::Attached(answer) => self.take_attached(answer.0, answer.1, answer.2),
            Message::Get(ask) => self.take_get(from, *ask),
            Message::Got { token, bytes } => self.take_got(token, bytes),
            Message::Put(ask, bytes) => self.take_put(from, *ask, bytes),
            Message::PutDone { token } => self.take_put_done(token),
            Message::Refused(refused) => self.take_refused(*refused),
            Message::Define(object) => self.define_here(object),
            Message::Leaf(leaf) => self.run_for_other(from, leaf),
            Message::LeafDone(leaf) => self.take_back(from, *leaf),
            Message::Replicated(call) => self.take_replicated(from, *call),
            Message::Lost(error) => self.lose(*error),
            Message::Stop => self.exec.borrow_mut().stop(),
        }
    }

    /// Runs what is ready, up to about `budget` subtasks; false when there was nothing.
    pub fn turn(self: &Rc<Self>, budget: u32) -> bool {
        let mut ran = self.call_wakers();
        ran |= self.collect_wakes();
        // Those that are sent meanwhile are for the next turn.
        let own = self.inbox.borrow().len();
        if own > 0
            && let Some(trace) = &self.trace
        {
            self.note_own_messages(trace);
        }
        for _ in 0..own {
            let Some(message) = self.inbox.borrow_mut().pop_front() else { break };
            ran = true;
            self.deliver(self.id, message);
            self.call_wakers();
        }
        for _ in 0..budget {
            let Some(item) = self.queue.pop_nth(|n| self.wire.pick(n)) else {
                break;
            };
            ran = true;
            if let Some(trace) = &self.trace {
                self.note_item(trace, item);
            }
            match item {
                queue::Item::Chain { object, chain } => self.run_chain(object, chain),
                queue::Item::Leaf(id) => {
                    self.send_what_is_late();
                    self.run_leaf(id);
                    self.call_wakers();
                    break;
                }
                queue::Item::Away(id) => self.run_leaf(id),
                queue::Item::Shard(slot) => self.poll_shard(slot),
            }
            self.call_wakers();
        }
        self.send_what_is_late();
        if !ran && let Some(trace) = &self.trace {
            self.note_idle(trace);
        }
        ran
    }

    /// Whether [`Self::turn`] would find something.
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty()
            || !self.inbox.borrow().is_empty()
            || self.has_wakes()
            || !self.wakers.borrow().is_empty()
    }

    /// Calls the wakers that are due; false when there were none.
    #[inline]
    fn call_wakers(&self) -> bool {
        !self.wakers.borrow().is_empty() && self.call_due_wakers()
    }

    #[cold]
    fn call_due_wakers(&self) -> bool {
        // One of them may notify others.
        let due = std::mem::take(&mut *self.wakers.borrow_mut());
        for waker in due {
            let place = || Place { task: "a waker".into(), shard: None };
            self.guarded(place, || waker.wake());
        }
        true
    }

    /// Tells a waiter that what it waits for is there.
    #[inline]
    pub fn notify(self: &Rc<Self>, waiting: Waiting) {
        match waiting {
            Waiting::Chain { object, chain, priority } => {
                self.queue.push(priority, queue::Item::Chain { object, chain });
            }
            Waiting::Task(id) => self.leaf_has_one_less(id),
            #[cfg(feature = "plant")]
            Waiting::Shard(_) if self.config.strikes(crate::plant::Bug::DroppedWakeUp) => {}
            Waiting::Shard(slot) => self.wake_shard(slot),
            Waiting::Waker(waker) if !self.in_chains.get() => waker.wake(),
            Waiting::Waker(waker) => self.wakers.borrow_mut().push(*waker),
        }
    }

    /// Whether something of a higher priority is ready.
    #[inline]
    pub fn more_urgent(&self, than: Priority) -> bool {
        self.queue.has_above(than)
    }

    /// Remembers the first error that nobody may be awaiting.
    pub fn note_failure(&self, error: &Error) {
        self.failure.get_or_init(|| Box::new(error.clone()));
    }

    /// Remembers who has failures that perhaps nobody sees.
    #[cold]
    pub fn note_failures(&self, failures: &Rc<Failures>) {
        let mut all = self.failures.borrow_mut();
        all.retain(|other| other.strong_count() > 0);
        if !all.iter().any(|other| other.as_ptr() == Rc::as_ptr(failures)) {
            all.push(Rc::downgrade(failures));
        }
    }

    pub fn failure(&self) -> Option<Error> {
        self.failure.get().map(|e| (**e).clone())
    }

    /// See [`crate::Stats::left_over`].
    pub fn left_over(&self) -> u64 {
        let launches = self.launches.borrow().len() + self.launches_early.borrow().len();
        let batches = self.batches.get().map_or(0, |b| b.borrow().entries());
        let tasks = self.leaves.borrow().entries() + self.leases.borrow().len() + batches;
        (launches + tasks + self.data.borrow().entries() + self.timers.entries()) as u64
    }

    /// A number for a parent, which no parent of any processor has; the top-level task is number 0.
    pub fn next_parent(&self) -> u32 {
        self.next_parent.replace(self.next_parent.get() + self.machine().processors())
    }
}

/// The object a message is about, where it must be known before the message can be taken.
fn needs_object(message: &Message) -> Option<ObjectId> {
    match message {
        Message::Combine { object, .. } | Message::Release { object, .. } | Message::Poison { object, .. } => {
            Some(*object)
        }
        // A batch needs its task, its gang and every object its shards hold handles to; the launch number of objects
        // known when it was made stands for all of them.
        Message::Batch(batch) => Some(batch.known.saturating_sub(1)).filter(|_| batch.known > 0),
        Message::SendColumns(order) => Some(order.known.saturating_sub(1)).filter(|_| order.known > 0),
        _ => None,
    }
}
