//! One processor. It handles messages, runs ready items, and passes both to the modules they belong to. It owns the modules'
//! state and is the only place that knows all of them. This is the place to start reading.
//!
//! A processor owns its state: its shards, the leaf tasks they launch, the barrier cells and futures they wait on, and
//! the instances in its memory. Nobody else touches that state, so it has no locks. Processors communicate by messages.
//! They share only a few other things: instances of simultaneous regions within a node, wake-ups from other threads,
//! the check for races, finished recordings of traces, and the slot of the mapper.
//!
//! [`Core::deliver`] passes each message to its module, and [`Core::turn`] does the same for ready items: a subtask of a
//! chain, a leaf task, a shard that can go on. Nothing here does I/O or reads a clock other than the wire's. Messages
//! come in through [`Core::receive`] and leave through the wire. The time comes in through [`Core::time_is`].
//!
//! `launches`: orders, and the start and end of shards. `failure`: what follows from failures. `replicas`: the
//! comparison of nodes. `report`: this processor's part in the report of a deadlock.

mod failure;
mod launches;
mod outgoing;
mod replicas;
mod report;

use crate::Place;
use crate::config::Config;
use crate::data::{Came, Request};
use crate::diagnose::Event;
use crate::diagnose::deadlock::ReportPart;
use crate::diagnose::replicas::Replicas;
use crate::effects::{Effects, Item, Objects, Signal};
use crate::gang::Gangs;
use crate::ids::{ColumnKey, LaunchKey, ObjectId, ProcessorId};
use crate::message::{Destroying, Message, Put, Wire};
use crate::object::{Above, Object, Types};
use crate::replay::{ReplayObject, Replays};
use crate::task::{Owner, Tasks};

pub(crate) use launches::{Origin, Seat, ShardCode};

use outgoing::Outgoing;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// One processor.
pub(crate) struct Core {
    pub tasks: Tasks,
    pub replays: Replays,
    pub gangs: Gangs,
    /// Messages about objects that this processor does not know yet.
    early: RefCell<Vec<(ProcessorId, Message)>>,
    replicas: OnceCell<Box<RefCell<Replicas>>>,
    outgoing: OnceCell<Box<RefCell<Outgoing>>>,
    /// The leaf tasks that this node's copy of the top-level task has launched here.
    pub flow: OnceCell<Rc<Owner>>,
}

impl Types for Above {
    type Core = Core;
    type Report = ReportPart;
    type Code = ShardCode;
    type Replay = ReplayObject;
}

impl Core {
    pub fn new(id: ProcessorId, config: Arc<Config>, wire: Box<dyn Wire>, signal: Signal) -> Rc<Self> {
        Rc::new(Self {
            tasks: Tasks::new(Effects::new(id, config, wire, signal)),
            replays: Replays::default(),
            gangs: Gangs::new(id),
            early: RefCell::default(),
            replicas: OnceCell::new(),
            outgoing: OnceCell::new(),
            flow: OnceCell::new(),
        })
    }

    fn outgoing(&self) -> &RefCell<Outgoing> {
        self.outgoing.get_or_init(Box::default)
    }

    #[inline]
    pub fn effects(&self) -> &Effects {
        &self.tasks.effects
    }

    /// Handles a message that the wire brings from another processor.
    #[inline]
    pub fn receive(self: &Rc<Self>, from: ProcessorId, message: Message) {
        self.effects().event(|| match message {
            Message::Replicated(_) | Message::Left { .. } => Event::NoticeReceived,
            _ => Event::Received { from, name: message.name() },
        });
        self.deliver(from, message);
    }

    /// Handles one message.
    pub fn deliver(self: &Rc<Self>, from: ProcessorId, mut message: Message) {
        if let Message::Arrive { object, cell, generation, payload, also } = &mut message
            && *object < self.effects().objects.made()
        {
            // By reference, so that the payload moves once: from the message to its cell.
            let (tasks, at, came) = (&self.tasks, (*object, *cell), (payload, *also));
            tasks.barriers.take_arrival(&tasks.effects, at, *generation, came, &mut tasks.teller());
        } else if is_early(&message, &self.effects().objects) {
            self.early.borrow_mut().push((from, message));
        } else {
            self.deliver_rare(from, message);
            self.carry_out_orders();
            // A task that it ended may have arrived somewhere, and there may be no turn now.
            self.effects().send_what_is_late();
        }
    }

    #[inline(never)]
    fn deliver_rare(self: &Rc<Self>, from: ProcessorId, message: Message) {
        let (tasks, effects) = (&self.tasks, self.effects());
        let tell = &mut tasks.teller();
        match message {
            Message::Arrive { .. } => unreachable!("taken in `deliver`"),
            Message::Combine { object, contributor, generation, values } => {
                tasks.barriers.phases.combine(effects, (object, contributor), generation, values, tell);
            }
            Message::Release { object, generation, value } => {
                tasks.barriers.phases.release(effects, object, generation, value, tell);
            }
            Message::Poison { object, cell, generation, error } => {
                tasks.barriers.poison_here(object, cell, generation, &error, tell);
            }
            Message::Launch(part) => self.gangs.take_part(tasks, *part),
            Message::BatchDone(done) => self.gangs.take_batch_done(tasks, *done),
            Message::Results(results) => self.gangs.take_results(tasks, *results),
            Message::LaunchOver { launch } => self.take_launch_over(launch),
            Message::Values(came) => self.take_values(*came),
            Message::Left { to } => self.values_left(to),
            // The wire handles it.
            Message::Rendezvous { .. } => {}
            Message::Attach(ask) => self.serve(from, ask.0, ask.1, Request::Attach),
            Message::Attached(answer) => {
                let (launch, key, instance) = *answer;
                tasks.take_instance(launch, key, Ok(Some(instance)));
            }
            Message::Mapped(mapped) => {
                let instance = tasks.data.open(effects, from, &mapped);
                tasks.take_instance(mapped.launch, mapped.column, instance);
            }
            Message::Get(ask) => {
                self.serve(from, ask.launch, ask.column, Request::Get { rect: ask.rect, token: ask.token });
            }
            Message::Got { token, bytes } => {
                if let Some((task, came)) = tasks.data.take_got(effects, token, bytes) {
                    tasks.take_data(task, came);
                }
            }
            Message::Put(put, bytes) => {
                let Put { launch, column, parts, token, arrivals } = *put;
                self.serve(from, launch, column, Request::Put { parts, bytes, token, arrivals });
            }
            Message::PutDone { token } => {
                if let Some(task) = tasks.data.take_put_done(token) {
                    tasks.take_data(task, Came::Written);
                }
            }
            Message::Refused(refused) => {
                for task in tasks.data.refused(refused.launch, refused.column, refused.token) {
                    tasks.take_data(task, Came::Refused(refused.error.clone()));
                }
            }
            Message::Define(object) => self.define(object),
            Message::Destroy(call) => self.retire(&call),
            Message::Free(objects) => self.free(&objects),
            Message::Leaf(leaf) => tasks.run_for_other(from, leaf),
            Message::LeafDone(leaf) => tasks.take_back(from, *leaf),
            Message::Replicated(call) => self.take_replicated(from, *call),
            Message::Lost(error) => self.lose(&error),
            Message::Stop => effects.stop(),
        }
    }

    /// Serves another processor's request for a region that is at home here, now or when its launch starts.
    fn serve(&self, from: ProcessorId, launch: LaunchKey, key: ColumnKey, request: Request) {
        match self.gangs.has_started(launch) {
            true => self.tasks.serve(from, (launch, key), request),
            false => self.tasks.data.serve_later(from, launch, key, request),
        }
    }

    /// Adds the next object and handles the messages that came early for it.
    pub fn define(self: &Rc<Self>, object: Arc<Object>) {
        let effects = self.effects();
        let id = effects.objects.add(&object);
        effects.wire.made(id, object.length());
        object.define(id, self);
        self.take_early();
        if let Some(e) = effects.lost_processor() {
            object.give_up(id, self, e);
        }
    }

    /// Objects are destroyed: later launches of the top-level task may not use them.
    pub fn retire(self: &Rc<Self>, call: &Destroying) {
        self.effects().objects.retire(&call.objects, call.from);
        self.take_early();
    }

    /// Handles the messages that came early, as far as that is possible now.
    fn take_early(self: &Rc<Self>) {
        let early = std::mem::take(&mut *self.early.borrow_mut());
        for (from, message) in early {
            self.deliver(from, message);
        }
    }

    /// Gives the memory of destroyed objects back, which nobody uses any more.
    fn free(&self, objects: &[ObjectId]) {
        let effects = self.effects();
        for &object in objects {
            let Some(known) = effects.objects.remove(object) else { continue };
            let shards = known.object.gang().map_or_else(Vec::new, |gang| gang.members[effects.id.index()].clone());
            let barriers = self.tasks.barriers.remove(object, &shards);
            known.object.free(object, self);
            effects.event(|| Event::Freed { object });
            let place = Place { task: known.object.name().into(), shard: None };
            effects.drop_guarded(|| place, (barriers, self.replays.remove(object), known));
        }
    }

    /// Runs ready items, up to about `budget` subtasks. False if there were none.
    pub fn turn(self: &Rc<Self>, budget: u32) -> bool {
        let effects = self.effects();
        let mut ran = effects.call_wakers();
        ran |= effects.collect_wakes();
        // Messages sent during this turn wait for the next one.
        let own = effects.own_messages();
        if own > 0 {
            effects.event(|| Event::OwnReceived);
        }
        for _ in 0..own {
            let Some(message) = effects.next_own_message() else { break };
            ran = true;
            self.deliver(effects.id, message);
            effects.call_wakers();
        }
        for _ in 0..budget {
            let Some(item) = effects.queue.pop_nth(|n| effects.wire.pick(n)) else {
                break;
            };
            ran = true;
            if effects.is_observed() {
                self.show(item);
            }
            match item {
                Item::Chain { object, chain } => self.replays.run(&self.tasks, object, chain),
                Item::Offer { object, cell } => self.replays.offer(&self.tasks, object, cell),
                Item::Leaf(id) => {
                    effects.send_what_is_late();
                    self.tasks.run_leaf(id);
                    self.carry_out_orders();
                    effects.call_wakers();
                    break;
                }
                Item::Away(id) => {
                    self.tasks.run_leaf(id);
                    self.carry_out_orders();
                }
                Item::Shard(slot) => {
                    effects.poll_shard(slot);
                    self.carry_out_orders();
                }
            }
            effects.call_wakers();
        }
        effects.send_what_is_late();
        if !ran {
            effects.event(|| Event::Idle);
        }
        ran
    }

    /// Reports an item that is about to run to the observers. Leaf tasks are reported where they are called.
    #[cold]
    #[inline(never)]
    fn show(&self, item: Item) {
        match item {
            Item::Leaf(_) | Item::Away(_) | Item::Offer { .. } => {}
            Item::Shard(slot) => self.effects().event(|| Event::Polled { slot }),
            Item::Chain { object, chain } => {
                let first = || self.replays.call_now(object, chain);
                self.effects().event(|| Event::ChainRan { object, first: &first });
            }
        }
    }

    /// The run's clock says `now`: wakes those whose time has come.
    #[cold]
    pub fn time_is(&self, now: u64) {
        while let Some(waiting) = self.effects().next_due(now) {
            self.tasks.notify(waiting);
        }
    }

    /// Drops every future and every leaf task that is still there, after a run that failed.
    pub fn drop_futures(&self) {
        self.effects().drop_futures();
        self.tasks.drop_leaves();
    }

    /// See [`crate::Stats::left_over`].
    pub fn left_over(&self) -> u64 {
        (self.gangs.entries() + self.tasks.entries()) as u64
    }
}

/// Whether this processor does not know enough objects yet to handle a message.
fn is_early(message: &Message, objects: &Objects) -> bool {
    match message {
        Message::Arrive { object, .. }
        | Message::Combine { object, .. }
        | Message::Release { object, .. }
        | Message::Poison { object, .. } => *object >= objects.made(),
        // A batch needs its task, its gang and every object that its shards have handles to, and must not find what was
        // destroyed before. It waits for all that was known when it was made. Orders to move data must not overtake it.
        Message::Launch(part) => part.known > objects.changes(),
        _ => false,
    }
}
