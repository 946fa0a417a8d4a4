//! What a processor notes for a trace: what it ran and when, whom it sent messages, whom an arrival released.
//!
//! Without a trace each hook is one branch on [`Core::trace`]; all else here is out of line, and what is hot ends with it, so
//! that nothing has to outlive the call. With one, readings of the clock
//! and pages of memory are what costs most. So a slice has a beginning only and lasts until the next one begins, runs of
//! chains of one object that follow each other are one slice, what happens within a slice has no time of its own but its
//! place in the list, and an event takes 16 bytes.

use super::objects::Local;
use super::queue::{Item, TaskId};
use super::{Core, Waiting};
use crate::message::{Message, ObjectId, ProcessorId};
use crate::names::short_name;
use crate::wire::{Counter, Wire};
use maniple_mapper::Priority;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// What an event says. The first ones begin slices, one after the other on their processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A leaf task is called: its name, shard, [`task_key`].
    Leaf,
    /// A leaf task whose turn it is and that is not called here: it has failed before, or runs on another processor.
    Dispatch,
    /// A poll of a shard: its name, shard, slot.
    Poll,
    /// The last poll of a shard.
    LastPoll,
    /// Runs of chains: the object, the first one's shard, [`Event::runs`].
    Chains,
    /// Taking in messages.
    Messages,
    /// Asleep.
    Parked,
    /// Nothing to do.
    Idle,
    /// A mapper call: its name, nothing, ticks that it took. With 0 of them it has no time of its own.
    Mapper,
    /// A message: its name, to whom, its number among those to that processor.
    Send,
    /// A message: its name, from whom, its number among those from that processor.
    Receive,
    /// An arrival released a leaf task, a shard or a chain: the object, the generation, [`task_key`] or slot.
    ReleasedTask,
    ReleasedShard,
    ReleasedChain,
}

impl Kind {
    const ALL: [Self; 14] = [
        Self::Leaf,
        Self::Dispatch,
        Self::Poll,
        Self::LastPoll,
        Self::Chains,
        Self::Messages,
        Self::Parked,
        Self::Idle,
        Self::Mapper,
        Self::Send,
        Self::Receive,
        Self::ReleasedTask,
        Self::ReleasedShard,
        Self::ReleasedChain,
    ];

    pub fn is_slice(self) -> bool {
        (self as u8) < Self::Mapper as u8
    }
}

/// One entry of the list. There are many: they are small.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    /// Ticks, of which the low 48 bits, and the number of a name or an object, or `UNKNOWN`.
    time_what: u64,
    /// The kind in 4 bits and 28 more, or `UNKNOWN`.
    kind_who: u32,
    pub key: u32,
}

const _: () = assert!(size_of::<Event>() == 16);

impl Event {
    pub const TIME: u64 = u64::MAX >> 16;
    const MANY: u32 = u32::MAX >> 4;

    #[inline]
    fn new(kind: Kind, ticks: u64, what: u32, who: u32, key: u32) -> Self {
        let what = u64::from(what.min(u32::from(u16::MAX)));
        Self { time_what: ticks & Self::TIME | what << 48, kind_who: (kind as u32) << 28 | who.min(Self::MANY), key }
    }

    /// When it was, in the low bits of ticks.
    pub fn time(&self) -> u64 {
        self.time_what & Self::TIME
    }

    pub fn what(&self) -> u32 {
        (self.time_what >> 48) as u32
    }

    /// A shard, a processor or a generation, if it can be told.
    pub fn who(&self) -> Option<u32> {
        let who = self.kind_who & Self::MANY;
        (who < Self::MANY).then_some(who)
    }

    #[inline]
    pub fn kind(&self) -> Kind {
        Kind::ALL[(self.kind_who >> 28) as usize % Kind::ALL.len()]
    }

    #[inline]
    fn is(&self, kind: Kind) -> bool {
        self.kind_who >> 28 == kind as u32
    }

    #[inline]
    fn set_kind(&mut self, kind: Kind) {
        self.kind_who = (kind as u32) << 28 | self.kind_who & Self::MANY;
    }

    /// Of chains, how many runs there were, 255 for that many or more, and which call the first one was of, if that can be
    /// told.
    pub fn runs(&self) -> (u32, Option<u32>) {
        let call = self.key & u32::MAX >> 8;
        (self.key >> 24, (call < u32::MAX >> 8).then_some(call))
    }

    fn first_run(call: u64) -> u32 {
        1 << 24 | call.min(u64::from(u32::MAX >> 8)) as u32
    }

    fn one_more_run(&mut self) {
        self.key = self.key.checked_add(1 << 24).unwrap_or(self.key);
    }
}

/// No number.
const UNKNOWN: u32 = u32::MAX;

/// What tells tasks under way apart, and those of one place for a while.
fn task_key(id: TaskId) -> u32 {
    id.turn << 24 | id.index & u32::MAX >> 8
}

/// Names in the order in which they came up, that of the mapper's call for a leaf task first.
struct Names {
    list: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Of the names in one place of memory that have the same hash, the last one.
    recent: [(&'static str, u32); Self::RECENT],
}

impl Names {
    const RECENT: usize = 64;
    const MAP_LEAF: u32 = 0;

    fn new() -> Self {
        let mut names = Self { list: Vec::new(), numbers: HashMap::new(), recent: [("", UNKNOWN); Self::RECENT] };
        names.number("map_leaf");
        names
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.list.len() as u32;
        self.list.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    /// The same for the last part of a path, quickly.
    #[inline]
    fn number_of_static(&mut self, name: &'static str) -> u32 {
        let at = (name.as_ptr() as usize >> 3 ^ name.len()) % Self::RECENT;
        let (recent, number) = self.recent[at];
        if std::ptr::eq(recent, name) && number != UNKNOWN {
            return number;
        }
        self.is_recent(at, name)
    }

    #[cold]
    #[inline(never)]
    fn is_recent(&mut self, at: usize, name: &'static str) -> u32 {
        let number = self.number(&short_name(name));
        self.recent[at] = (name, number);
        number
    }
}

/// What one processor has noted.
pub(crate) struct Recorder {
    /// Full, it is a ring: the oldest event is at `next`.
    events: Vec<Event>,
    next: usize,
    most: usize,
    dropped: u64,
    /// The place of the slice that runs; `NONE` when none does, or its event is lost.
    slice: usize,
    idle: bool,
    counter: Option<Counter>,
    /// What the clock goes on by at once, if it does: a slice is over with its step.
    step: u64,
    names: Names,
    /// Name and shard of each slot of the executor.
    slots: Vec<(u32, u32)>,
    /// Messages so far, to and from each processor.
    sent: Vec<u32>,
    received: Vec<u32>,
    began: (u64, u64),
}

/// No place in the list.
const NONE: usize = usize::MAX;

/// What a processor hands over at the end.
pub(crate) struct Recording {
    pub processor: ProcessorId,
    pub events: Vec<Event>,
    /// How many events came before those.
    pub dropped: u64,
    pub names: Vec<String>,
    /// Names of objects.
    pub objects: Vec<String>,
    /// Two moments in ticks and in nanoseconds since the run began: its first and its last.
    pub moments: [(u64, u64); 2],
    /// Nanoseconds that the time goes on by at once, if it does.
    pub step: u64,
}

impl Recorder {
    /// `events` is a list to use again.
    pub fn new(mut events: Vec<Event>, most: usize, processors: u32, wire: &dyn Wire) -> Box<RefCell<Self>> {
        events.clear();
        events.reserve(most.min(1 << 12));
        Box::new(RefCell::new(Self {
            events,
            next: 0,
            most,
            dropped: 0,
            slice: NONE,
            idle: true,
            counter: wire.counter(),
            step: wire.step(),
            names: Names::new(),
            slots: Vec::new(),
            sent: vec![0; processors as usize],
            received: vec![0; processors as usize],
            began: wire.moment(),
        }))
    }

    #[inline]
    fn ticks(&self, wire: &dyn Wire) -> u64 {
        match self.counter {
            Some(counter) => counter.read(),
            None => wire.now(),
        }
    }

    /// Adds an event; its place.
    #[inline]
    fn add(&mut self, event: Event) -> usize {
        if self.events.len() < self.most {
            self.events.push(event);
            return self.events.len() - 1;
        }
        self.replace_oldest(event)
    }

    #[inline]
    fn replace_oldest(&mut self, event: Event) -> usize {
        let at = self.next;
        self.next = if at + 1 == self.most { 0 } else { at + 1 };
        self.events[at] = event;
        self.dropped += 1;
        if at == self.slice {
            // To what happened within it.
            self.slice = NONE;
        }
        at
    }

    /// The slice that runs, if it is not lost.
    #[inline]
    fn running(&mut self) -> Option<&mut Event> {
        self.events.get_mut(self.slice)
    }

    /// The slice that runs, if it is of this kind and goes on.
    #[inline]
    fn same(&mut self, kind: Kind) -> Option<&mut Event> {
        if self.step > 0 { None } else { self.running().filter(|s| s.is(kind)) }
    }

    /// Begins a slice, and so ends the one that runs.
    #[inline]
    fn begin(&mut self, wire: &dyn Wire, kind: Kind, what: u32, who: u32, key: u32) {
        let now = self.ticks(wire);
        self.slice = self.add(Event::new(kind, now, what, who, key));
        self.idle = false;
    }

    /// Ends the slice that runs, if one does.
    fn end(&mut self, wire: &dyn Wire) {
        if !self.idle {
            self.begin(wire, Kind::Idle, UNKNOWN, UNKNOWN, 0);
            (self.slice, self.idle) = (NONE, true);
        }
    }

    #[inline]
    fn within(&mut self, kind: Kind, what: u32, who: u32, key: u32) {
        self.add(Event::new(kind, 0, what, who, key));
    }
}

impl Core {
    /// A shard is polled, or a chain run. Of leaf tasks `note_call` and `note_dispatch` tell.
    #[cold]
    #[inline(never)]
    pub(super) fn note_item(&self, trace: &RefCell<Recorder>, item: Item) {
        let mut r = trace.borrow_mut();
        match item {
            Item::Leaf(_) | Item::Away(_) => {}
            Item::Shard(slot) => {
                let (name, shard) = r.slots.get(slot as usize).copied().unwrap_or((UNKNOWN, UNKNOWN));
                r.begin(&*self.wire, Kind::Poll, name, shard, slot);
            }
            Item::Chain { object, chain } => {
                if let Some(slice) = r.same(Kind::Chains).filter(|s| s.what() == object) {
                    return slice.one_more_run();
                }
                let chains = |local: Option<&Local>| local.and_then(|l| l.chains.as_ref()?.now(chain));
                let (shard, call) = self.with_object(object, chains).unwrap_or((UNKNOWN, u64::MAX));
                r.begin(&*self.wire, Kind::Chains, object, shard, Event::first_run(call));
            }
        }
    }

    /// A leaf task is called, for this processor or, with no number, for another one.
    #[cold]
    #[inline(never)]
    pub(super) fn note_call(&self, trace: &RefCell<Recorder>, name: &'static str, shard: u32, id: Option<TaskId>) {
        let mut r = trace.borrow_mut();
        let name = r.names.number_of_static(name);
        r.begin(&*self.wire, Kind::Leaf, name, shard, id.map_or(UNKNOWN, task_key));
    }

    /// A leaf task whose turn it is is not called here.
    pub(super) fn note_dispatch(&self, id: TaskId) {
        if let Some(trace) = &self.trace {
            trace.borrow_mut().begin(&*self.wire, Kind::Dispatch, UNKNOWN, UNKNOWN, task_key(id));
        }
    }

    /// In a turn there was nothing to do.
    #[cold]
    #[inline(never)]
    pub(super) fn note_idle(&self, trace: &RefCell<Recorder>) {
        trace.borrow_mut().end(&*self.wire);
    }

    /// A shard's future is in a slot.
    #[cold]
    #[inline(never)]
    pub(super) fn note_slot(&self, trace: &RefCell<Recorder>, slot: u32, task: &str, shard: Option<u32>) {
        let mut r = trace.borrow_mut();
        let name = r.names.number(task);
        if r.slots.len() <= slot as usize {
            r.slots.resize(slot as usize + 1, (UNKNOWN, UNKNOWN));
        }
        r.slots[slot as usize] = (name, shard.unwrap_or(UNKNOWN));
    }

    /// The shard that is polled is over.
    #[cold]
    #[inline(never)]
    pub(super) fn note_last_poll(&self, trace: &RefCell<Recorder>, slot: u32) {
        if let Some(slice) = trace.borrow_mut().running().filter(|s| s.is(Kind::Poll) && s.key == slot) {
            slice.set_kind(Kind::LastPoll);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn send_noted(&self, trace: &RefCell<Recorder>, to: ProcessorId, message: Message) {
        let name = message.name();
        // First, as somebody may be waiting for it.
        self.wire.send(to, message);
        let mut r = trace.borrow_mut();
        let (name, number) = (r.names.number_of_static(name), r.sent[to as usize]);
        r.sent[to as usize] = number.wrapping_add(1);
        r.within(Kind::Send, name, to, number);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn receive_noted(self: &Rc<Self>, trace: &RefCell<Recorder>, from: ProcessorId, message: Message) {
        let mut r = trace.borrow_mut();
        if r.same(Kind::Messages).is_none() {
            r.begin(&*self.wire, Kind::Messages, UNKNOWN, UNKNOWN, 0);
        }
        let (name, number) = (r.names.number_of_static(message.name()), r.received[from as usize]);
        r.received[from as usize] = number.wrapping_add(1);
        r.within(Kind::Receive, name, from, number);
        drop(r);
        self.deliver(from, message);
    }

    /// Messages of this processor to itself are taken in.
    #[cold]
    #[inline(never)]
    pub(super) fn note_own_messages(&self, trace: &RefCell<Recorder>) {
        trace.borrow_mut().begin(&*self.wire, Kind::Messages, UNKNOWN, UNKNOWN, 0);
    }

    /// An arrival, or the end of a phase barrier's generation, releases somebody.
    #[cold]
    #[inline(never)]
    pub(super) fn release_noted(
        self: &Rc<Self>,
        trace: &RefCell<Recorder>,
        object: ObjectId,
        generation: u64,
        released: Waiting,
    ) {
        let noted = match &released {
            Waiting::Task(id) => Some((Kind::ReleasedTask, task_key(*id))),
            Waiting::Shard(slot) => Some((Kind::ReleasedShard, *slot)),
            Waiting::Chain { .. } | Waiting::Waker(_) => None,
        };
        if let Some((kind, key)) = noted {
            trace.borrow_mut().within(kind, object, generation.min(u64::from(UNKNOWN)) as u32, key);
        }
        self.notify(released);
    }

    /// An arrival lets a chain go on.
    #[cold]
    #[inline(never)]
    pub(super) fn queue_noted(&self, trace: &RefCell<Recorder>, object: ObjectId, priority: Priority, chain: Item) {
        let mut r = trace.borrow_mut();
        // Within one slice there is nothing to show.
        if r.running().is_none_or(|s| !(s.is(Kind::Chains) && s.what() == object)) {
            r.within(Kind::ReleasedChain, object, UNKNOWN, 0);
        }
        self.queue.push(priority, chain);
    }

    /// Puts a question to the mapper.
    #[cold]
    #[inline(never)]
    pub(super) fn noted<A>(
        &self,
        trace: &RefCell<Recorder>,
        (mapper, call): (&str, &'static str),
        question: impl FnOnce() -> A,
    ) -> A {
        // To measure what these say of a leaf task takes longer than they do.
        if call == "map_leaf" && ["collective", "default"].contains(&mapper) {
            trace.borrow_mut().within(Kind::Mapper, Names::MAP_LEAF, UNKNOWN, 0);
            return question();
        }
        let start = trace.borrow_mut().ticks(&*self.wire);
        let answer = question();
        let mut r = trace.borrow_mut();
        let took = r.ticks(&*self.wire).saturating_sub(start).clamp(1, u64::from(u32::MAX));
        let name = r.names.number_of_static(call);
        r.add(Event::new(Kind::Mapper, start, name, UNKNOWN, took as u32));
        drop(r);
        answer
    }

    /// Runs `f`, which sleeps until there is something to do.
    pub fn parked(&self, f: impl FnOnce()) {
        let Some(trace) = &self.trace else { return f() };
        trace.borrow_mut().begin(&*self.wire, Kind::Parked, UNKNOWN, UNKNOWN, 0);
        f();
        trace.borrow_mut().end(&*self.wire);
    }

    /// The top-level task begins, which is on no executor yet.
    pub fn note_beginning(&self) {
        if let Some(trace) = &self.trace {
            let mut r = trace.borrow_mut();
            let name = r.names.number("top level");
            r.begin(&*self.wire, Kind::LastPoll, name, UNKNOWN, UNKNOWN);
        }
    }

    /// Hands over what was noted, if anything was.
    pub fn hand_over_trace(&self) {
        let (Some(trace), Some(tracing)) = (&self.trace, &self.config.trace) else { return };
        let mut r = trace.borrow_mut();
        let mut events = std::mem::take(&mut r.events);
        events.rotate_left(r.next);
        tracing.add(Recording {
            processor: self.id,
            events,
            dropped: r.dropped,
            names: std::mem::take(&mut r.names.list),
            objects: self.objects.borrow().iter().map(|(local, _)| local.object.describe()).collect(),
            moments: [r.began, self.wire.moment()],
            step: r.step,
        });
    }
}
