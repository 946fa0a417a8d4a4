//! The recorder of a trace on one processor: its slices and their times, messages, and releases by arrivals.
//!
//! Most of the cost of a trace is reading the clock and touching memory. So a slice has only a beginning, and lasts
//! until the next one begins. Consecutive runs of chains of one object are one slice. Within a slice, events have no
//! time but only their place in the list. An event takes 16 bytes.

use crate::diagnose::Event;
use crate::ids::{ProcessorId, TaskId};
use crate::message::{CycleCounter, Wire};
use crate::names::{TaskName, short_name};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::panic::Location;

/// The kind of an event. The first ones begin slices, one after the other on their processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EventKind {
    /// A leaf task is called: its name, shard, [`task_key`].
    Leaf,
    /// A leaf task has its turn but is not called here: it has failed before, or runs on another processor.
    Dispatch,
    /// A poll of a shard: its name, shard, slot.
    Poll,
    /// The last poll of a shard.
    LastPoll,
    /// Runs of chains: the object, the first one's shard, [`Entry::runs`].
    Chains,
    /// Messages are handled.
    Messages,
    /// The processor sleeps.
    Parked,
    /// The processor has nothing to do.
    Idle,
    /// A mapper call: its name, nothing, the ticks that it took. With 0 ticks it was not measured.
    Mapper,
    /// A message sent: its name, the receiver, its number among the messages to that processor.
    Send,
    /// A message received: its name, the sender, its number among the messages from that processor.
    Receive,
    /// An arrival released a leaf task, a shard or a chain: the object, the generation, [`task_key`] or slot.
    ReleasedTask,
    ReleasedShard,
    ReleasedChain,
}

impl EventKind {
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

/// One entry of the list. There are many, so they are small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The low 48 bits of the time in ticks, and the number of a name or an object, or `UNKNOWN`.
    time_what: u64,
    /// The kind in 4 bits, and a number in 28 bits or `UNKNOWN`.
    kind_who: u32,
    pub key: u32,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    pub const TIME: u64 = u64::MAX >> 16;
    const MANY: u32 = u32::MAX >> 4;

    #[inline]
    fn new(kind: EventKind, ticks: u64, what: u32, who: u32, key: u32) -> Self {
        let what = u64::from(what.min(u32::from(u16::MAX)));
        Self { time_what: ticks & Self::TIME | what << 48, kind_who: (kind as u32) << 28 | who.min(Self::MANY), key }
    }

    /// The low bits of its time in ticks.
    pub fn time(&self) -> u64 {
        self.time_what & Self::TIME
    }

    pub fn what(&self) -> u32 {
        (self.time_what >> 48) as u32
    }

    /// A shard, a processor or a generation, if it is known.
    pub fn who(&self) -> Option<u32> {
        let who = self.kind_who & Self::MANY;
        (who < Self::MANY).then_some(who)
    }

    /// The other processor of a message.
    pub fn processor(&self) -> Option<ProcessorId> {
        self.who().map(ProcessorId)
    }

    #[inline]
    pub fn kind(&self) -> EventKind {
        EventKind::ALL[(self.kind_who >> 28) as usize % EventKind::ALL.len()]
    }

    #[inline]
    fn is(&self, kind: EventKind) -> bool {
        self.kind_who >> 28 == kind as u32
    }

    #[inline]
    fn set_kind(&mut self, kind: EventKind) {
        self.kind_who = (kind as u32) << 28 | self.kind_who & Self::MANY;
    }

    /// For chains: the number of runs, at most 255, and the call of the first one, if it is known.
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

/// Entries as bytes, for another process of the same program.
#[cfg(target_os = "linux")]
impl Entry {
    pub fn to_bytes(self) -> [u8; size_of::<Self>()] {
        let words = u128::from(self.time_what) | u128::from(self.kind_who) << 64 | u128::from(self.key) << 96;
        words.to_le_bytes()
    }

    pub fn from_bytes(bytes: [u8; size_of::<Self>()]) -> Self {
        let words = u128::from_le_bytes(bytes);
        Self { time_what: words as u64, kind_who: (words >> 64) as u32, key: (words >> 96) as u32 }
    }
}

/// No number.
const UNKNOWN: u32 = u32::MAX;

/// A key that distinguishes the tasks under way, and for some time also the tasks of one place.
fn task_key(id: TaskId) -> u32 {
    id.turn << 24 | id.index & u32::MAX >> 8
}

/// Names in the order in which they came up. The first is the name of the mapper's call for a leaf task.
struct Names {
    list: Vec<String>,
    numbers: HashMap<String, u32>,
    /// The last name for each hash of an address in memory, with the line of a task's launch.
    recent: [(&'static str, Option<&'static Location<'static>>, u32); Self::RECENT],
}

impl Names {
    const RECENT: usize = 64;
    const MAP_LEAF: u32 = 0;

    fn new() -> Self {
        let mut names = Self { list: Vec::new(), numbers: HashMap::new(), recent: [("", None, UNKNOWN); Self::RECENT] };
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

    /// Like [`Self::number`], but quicker.
    #[inline]
    fn number_of_static(&mut self, name: &'static str) -> u32 {
        self.recent(name, None)
    }

    /// Like [`Self::number`] for a task, but quicker.
    #[inline]
    fn number_of_task(&mut self, name: TaskName) -> u32 {
        self.recent(name.of_type, Some(name.launched))
    }

    #[inline]
    fn recent(&mut self, name: &'static str, launched: Option<&'static Location<'static>>) -> u32 {
        let line = launched.map_or(0, |launched| std::ptr::from_ref(launched) as usize >> 3);
        let at = (name.as_ptr() as usize >> 3 ^ name.len() ^ line) % Self::RECENT;
        let (recent, its_launched, number) = self.recent[at];
        let same_line = launched.map(std::ptr::from_ref) == its_launched.map(std::ptr::from_ref);
        if std::ptr::eq(recent, name) && same_line && number != UNKNOWN {
            return number;
        }
        self.is_recent(at, name, launched)
    }

    #[cold]
    #[inline(never)]
    fn is_recent(&mut self, at: usize, name: &'static str, launched: Option<&'static Location<'static>>) -> u32 {
        let number = match launched {
            Some(launched) => self.number(&TaskName { of_type: name, launched }.to_string()),
            None => self.number(&short_name(name)),
        };
        self.recent[at] = (name, launched, number);
        number
    }
}

/// The recorder of one processor.
pub(crate) struct Recorder {
    /// When it is full, it is a ring: the oldest event is at `next`.
    events: Vec<Entry>,
    next: usize,
    most: usize,
    dropped: u64,
    /// The place of the present slice; `NONE` if there is none or its event is lost.
    slice: usize,
    idle: bool,
    counter: Option<CycleCounter>,
    /// Nanoseconds of one step of the clock, or 0. With steps, a slice ends with its step.
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

/// The recording that a processor hands over at the end.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recording {
    pub processor: ProcessorId,
    /// They go to another process as plain bytes, apart from the rest.
    #[serde(skip)]
    pub events: Vec<Entry>,
    /// How many earlier events were dropped.
    pub dropped: u64,
    pub names: Vec<String>,
    /// Names of objects.
    pub objects: Vec<String>,
    /// Two moments in ticks and in nanoseconds since the run began: the first and the last of the recording.
    pub moments: [(u64, u64); 2],
    /// Nanoseconds of one step of the clock, or 0.
    pub step: u64,
}

impl Recorder {
    /// `events` is a list to use again.
    pub fn new(mut events: Vec<Entry>, most: usize, processors: u32, wire: &dyn Wire) -> Self {
        events.clear();
        events.reserve(most.min(1 << 12));
        Self {
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
        }
    }

    #[inline]
    fn ticks(&self, wire: &dyn Wire) -> u64 {
        match self.counter {
            Some(counter) => counter.read(),
            None => wire.now(),
        }
    }

    /// Adds an event and returns its place.
    #[inline]
    fn add(&mut self, event: Entry) -> usize {
        if self.events.len() < self.most {
            self.events.push(event);
            return self.events.len() - 1;
        }
        self.replace_oldest(event)
    }

    #[inline]
    fn replace_oldest(&mut self, event: Entry) -> usize {
        let at = self.next;
        self.next = if at + 1 == self.most { 0 } else { at + 1 };
        self.events[at] = event;
        self.dropped += 1;
        if at == self.slice {
            // Events within the lost slice have none.
            self.slice = NONE;
        }
        at
    }

    /// The present slice, if it is not lost.
    #[inline]
    fn running(&mut self) -> Option<&mut Entry> {
        self.events.get_mut(self.slice)
    }

    /// The present slice, if it is of this kind and can be continued.
    #[inline]
    fn same(&mut self, kind: EventKind) -> Option<&mut Entry> {
        if self.step > 0 { None } else { self.running().filter(|s| s.is(kind)) }
    }

    /// Begins a slice, and so ends the present one.
    #[inline]
    fn begin(&mut self, wire: &dyn Wire, kind: EventKind, what: u32, who: u32, key: u32) {
        let now = self.ticks(wire);
        self.slice = self.add(Entry::new(kind, now, what, who, key));
        self.idle = false;
    }

    /// Messages are handled, in one slice with earlier ones.
    fn messages(&mut self, wire: &dyn Wire) {
        if self.same(EventKind::Messages).is_none() {
            self.begin(wire, EventKind::Messages, UNKNOWN, UNKNOWN, 0);
        }
    }

    /// Ends the present slice, if there is one.
    fn end(&mut self, wire: &dyn Wire) {
        if !self.idle {
            self.begin(wire, EventKind::Idle, UNKNOWN, UNKNOWN, 0);
            (self.slice, self.idle) = (NONE, true);
        }
    }

    #[inline]
    fn within(&mut self, kind: EventKind, what: u32, who: u32, key: u32) {
        self.add(Entry::new(kind, 0, what, who, key));
    }
}

impl Recorder {
    /// Handles an event. It is out of line, so that callers keep nothing alive across the call.
    #[cold]
    #[inline(never)]
    pub fn take(&mut self, wire: &dyn Wire, event: &Event<'_>) {
        match *event {
            Event::Polled { slot } => {
                let (name, shard) = self.slots.get(slot as usize).copied().unwrap_or((UNKNOWN, UNKNOWN));
                self.begin(wire, EventKind::Poll, name, shard, slot);
            }
            Event::LastPolled { slot } => {
                if let Some(slice) = self.running().filter(|s| s.is(EventKind::Poll) && s.key == slot) {
                    slice.set_kind(EventKind::LastPoll);
                }
            }
            Event::ChainRan { object, first } => {
                if let Some(slice) = self.same(EventKind::Chains).filter(|s| s.what() == object) {
                    return slice.one_more_run();
                }
                let (shard, call) = first().unwrap_or((UNKNOWN, u64::MAX));
                self.begin(wire, EventKind::Chains, object, shard, Entry::first_run(call));
            }
            Event::TaskCalled { name, shard, task } => {
                let name = self.names.number_of_task(name);
                self.begin(wire, EventKind::Leaf, name, shard, task.map_or(UNKNOWN, task_key));
            }
            Event::TaskDispatched { task } => self.begin(wire, EventKind::Dispatch, UNKNOWN, UNKNOWN, task_key(task)),
            Event::Idle => self.end(wire),
            Event::Parked => self.begin(wire, EventKind::Parked, UNKNOWN, UNKNOWN, 0),
            Event::TopLevelBegan => {
                let name = self.names.number("top level");
                self.begin(wire, EventKind::LastPoll, name, UNKNOWN, UNKNOWN);
            }
            Event::InSlot { slot, task, shard } => {
                let name = self.names.number(task);
                if self.slots.len() <= slot as usize {
                    self.slots.resize(slot as usize + 1, (UNKNOWN, UNKNOWN));
                }
                self.slots[slot as usize] = (name, shard.unwrap_or(UNKNOWN));
            }
            Event::Sent { to, name } => {
                let (name, number) = (self.names.number_of_static(name), self.sent[to.index()]);
                self.sent[to.index()] = number.wrapping_add(1);
                self.within(EventKind::Send, name, to.0, number);
            }
            Event::Received { from, name } => {
                self.messages(wire);
                let (name, number) = (self.names.number_of_static(name), self.received[from.index()]);
                self.received[from.index()] = number.wrapping_add(1);
                self.within(EventKind::Receive, name, from.0, number);
            }
            Event::NoticeReceived => self.messages(wire),
            Event::OwnReceived => self.begin(wire, EventKind::Messages, UNKNOWN, UNKNOWN, 0),
            Event::TaskReleased { object, generation, task } => {
                self.within(EventKind::ReleasedTask, object, generation.min(u64::from(UNKNOWN)) as u32, task_key(task));
            }
            Event::ShardReleased { object, generation, slot } => {
                self.within(EventKind::ReleasedShard, object, generation.min(u64::from(UNKNOWN)) as u32, slot);
            }
            // Within a slice of the same object there is nothing to show.
            Event::ChainReleased { object }
                if self.running().is_none_or(|s| !(s.is(EventKind::Chains) && s.what() == object)) =>
            {
                self.within(EventKind::ReleasedChain, object, UNKNOWN, 0);
            }
            _ => {}
        }
    }

    /// The mapper is asked. Returns the time, if the call is to be measured.
    pub fn asks(&mut self, wire: &dyn Wire, mapper: &str, call: &str) -> Option<u64> {
        // Measuring these mappers' answer about a leaf task takes longer than the answer.
        if call == "map_leaf" && ["collective", "default"].contains(&mapper) {
            self.within(EventKind::Mapper, Names::MAP_LEAF, UNKNOWN, 0);
            return None;
        }
        Some(self.ticks(wire))
    }

    /// The mapper has answered. It was asked at `start`.
    pub fn answers(&mut self, wire: &dyn Wire, call: &'static str, start: u64) {
        let took = self.ticks(wire).saturating_sub(start).clamp(1, u64::from(u32::MAX));
        let name = self.names.number_of_static(call);
        self.add(Entry::new(EventKind::Mapper, start, name, UNKNOWN, took as u32));
    }

    /// Hands the recording over.
    pub fn hand_over(&mut self, wire: &dyn Wire, processor: ProcessorId, objects: Vec<String>) -> Recording {
        let mut events = std::mem::take(&mut self.events);
        events.rotate_left(self.next);
        Recording {
            processor,
            events,
            dropped: self.dropped,
            names: std::mem::take(&mut self.names.list),
            objects,
            moments: [self.began, wire.moment()],
            step: self.step,
        }
    }
}
