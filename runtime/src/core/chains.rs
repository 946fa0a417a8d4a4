//! The chains of a replayed object on one processor: its cells, arrivals at them, and the running of subtasks.

use super::objects::Local;
use super::{Core, Owner, queue};
use crate::error::panic_message;
use crate::message::{Message, ObjectId, ProcessorId};
use crate::object::{EMPTY, GangTable, ReplayObject};
use crate::payload::Payload;
use crate::replay::{Chained, Replay, ReplayCx, ReplaySpec, RunningValue, Subtask};
use crate::{Error, Place};
use maniple_barriers::BarrierError;
use maniple_mapper::{Access, ExchangeOutput, MemoryKind};
use maniple_regions::Buffer;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// Values larger than this share two buffers in turn, because a buffer for every update would cost more memory than the
/// wait for the update before the last one costs time.
const BUFFER_EACH_UPDATE: usize = 4096;

/// A subtask with everything worked out that is the same in every call and slot.
#[derive(Debug, Clone, Copy)]
struct Planned {
    task: Task,
    /// The cell of this chain that it waits for.
    waits: u16,
    /// The wait is for this many generations after the call's own.
    ahead: u8,
    peer: u32,
    /// The peer's processor, and the cell there that it arrives at, in slot 0.
    to: ProcessorId,
    cell: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Update,
    Read { how: u8 },
}

/// One slot of one shard.
#[derive(Debug, Clone, Copy)]
struct Chain {
    /// Calls of this slot that are over: the generation of the present one.
    generation: u64,
    /// Its subtasks in the plan, and the next of them.
    first: u32,
    end: u32,
    next: u32,
    /// Where its own cells begin, and how far those of its slot lie behind those of slot 0.
    cells: u32,
    offset: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Running,
    /// A call runs that has failed: it hands its error on instead of a value.
    Poisoned,
    /// No call runs again.
    Failed,
}

/// Which half of a cell a chain waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Ready,
    Empty,
}

/// Number k of a chain: the ready half of its read k, with the value that came, and the empty half of its update k.
///
/// One cache line. The waiter can only be the chain itself, and only for the next generation.
#[repr(align(64))]
struct Cell {
    ready: u64,
    empty: u64,
    value: Payload,
    chain: u32,
    awaited: Option<Half>,
}

const _: () = assert!(size_of::<Cell>() == 64);

impl Cell {
    #[inline]
    fn completed(&mut self, half: Half) -> &mut u64 {
        match half {
            Half::Ready => &mut self.ready,
            Half::Empty => &mut self.empty,
        }
    }

    /// Counts the arrival for `generation`; true if the chain waits for it.
    #[inline]
    fn arrive(&mut self, half: Half, generation: u64) -> Result<bool, BarrierError> {
        let completed = self.completed(half);
        if generation != *completed {
            return Err(BarrierError::OutOfOrder { arriver: 0, expected: *completed, came: generation });
        }
        *completed += 1;
        let wakes = self.awaited == Some(half);
        if wakes {
            self.awaited = None;
        }
        Ok(wakes)
    }
}

/// What changes from call to call.
pub(crate) struct Links {
    chains: Vec<Chain>,
    cells: Vec<Cell>,
    /// The buffer that the reader of each update gave back, where values are lent.
    returned: Vec<Payload>,
    /// Cells whose generations from the given one on will never complete.
    poison: HashMap<u32, (u64, Error)>,
    /// Why calls of poisoned chains have failed.
    errors: HashMap<u32, Error>,
    /// The launched shard behind each position.
    owners: Vec<Option<Rc<Owner>>>,
    /// Calls that each has made.
    calls: Vec<u64>,
    /// Calls of each that are not over.
    under_way: Vec<u32>,
}

impl Links {
    /// A call of the shard at `position` is over; whose it was.
    #[inline]
    pub fn call_over(&mut self, position: u32) -> Option<&Rc<Owner>> {
        if let Some(n) = self.under_way.get_mut(position as usize) {
            *n = n.saturating_sub(1);
        }
        self.owners.get(position as usize)?.as_ref()
    }

    #[cold]
    fn poison_call(&mut self, chain: u32, error: Error) {
        self.chains[chain as usize].state = State::Poisoned;
        self.errors.entry(chain).or_insert(error);
    }
}

#[cfg(feature = "plant")]
impl Links {
    pub fn forget(&mut self, chain: u32) {
        let c = &mut self.chains[chain as usize];
        (c.next, c.state) = (c.first, State::Idle);
    }
}

/// The chains of one object on one processor.
pub(crate) struct Chains {
    state: RefCell<Box<dyn Chained>>,
    links: RefCell<Links>,
    plan: Vec<Planned>,
    pub mapping: ExchangeOutput,
    id: ObjectId,
    name: String,
    gang: Arc<GangTable>,
    processor: ProcessorId,
    slots: u32,
    cells: u32,
    bytes: usize,
}

impl Chains {
    pub fn new(object: &ReplayObject, id: ObjectId, processor: ProcessorId) -> Self {
        let ReplayObject { spec, gang, mapping } = object;
        let (slots, cells, bytes) = (spec.slots().max(1), spec.cells(), spec.cell_bytes());
        let shards = &gang.members[processor as usize];
        let (mut plan, mut chains) = (Vec::new(), Vec::new());
        for (position, &shard) in (0u32..).zip(shards) {
            let first = plan.len() as u32;
            let subtasks = spec.subtasks(shard);
            let updates = subtasks.iter().filter(|s| matches!(s, Subtask::Update { .. })).count() as u16;
            // Small values have a cell for each update, free when the same update of the slot's previous call has been
            // read. Large ones share two buffers: the one before the last of this call, or of the previous one.
            let depth = if bytes > BUFFER_EACH_UPDATE { updates.min(2) } else { updates };
            let (mut update, mut read) = (0, 0);
            for subtask in subtasks {
                let (task, waits, ahead, peer, at) = match subtask {
                    Subtask::Update { peer, at } => {
                        let u = update;
                        update += 1;
                        let (waits, ahead) = if u >= depth { (u - depth, 1) } else { (updates - depth + u, 0) };
                        (Task::Update, waits, ahead, peer, at)
                    }
                    Subtask::Read { peer, at, how } => {
                        read += 1;
                        (Task::Read { how }, read - 1, 0, peer, at)
                    }
                };
                let (to, peer_position) = gang.at[peer as usize];
                let cell = peer_position * slots * cells + u32::from(at);
                plan.push(Planned { task, waits, ahead, peer, to, cell });
            }
            let end = plan.len() as u32;
            for slot in 0..slots {
                let (cells, offset) = ((position * slots + slot) * cells, slot * cells);
                chains.push(Chain { generation: 0, first, end, next: first, cells, offset, state: State::Idle });
            }
        }
        // A region starts empty: generation 0 of its empty barrier has arrived.
        let cell = |chain| Cell { ready: 0, empty: 1, value: Payload::None, chain, awaited: None };
        let all: Vec<Cell> = (0..chains.len() as u32).flat_map(|c| (0..cells).map(move |_| cell(c))).collect();
        let returned = if bytes > Payload::INLINE { all.iter().map(|_| Payload::None).collect() } else { Vec::new() };
        Self {
            state: RefCell::new(spec.materialise(shards.len() as u32)),
            links: RefCell::new(Links {
                chains,
                cells: all,
                returned,
                poison: HashMap::new(),
                errors: HashMap::new(),
                owners: vec![None; shards.len()],
                calls: vec![0; shards.len()],
                under_way: vec![0; shards.len()],
            }),
            plan,
            mapping: *mapping,
            id,
            name: spec.name().into(),
            gang: gang.clone(),
            processor,
            slots,
            cells,
            bytes,
        }
    }

    /// Refuses chains that name what is not there.
    pub fn check(spec: &dyn ReplaySpec, shards: u32) -> Result<(), Error> {
        let cells = spec.cells() as usize;
        for shard in 0..shards {
            let (mut updates, mut reads) = (0, 0);
            let wrong = |expected: String, came: String| {
                Err(Error::misuse(format!("the chain of shard {shard} of `{}`", spec.name()), expected, came))
            };
            for subtask in spec.subtasks(shard) {
                let (peer, at, count) = match subtask {
                    Subtask::Update { peer, at } => (peer, at, &mut updates),
                    Subtask::Read { peer, at, .. } => (peer, at, &mut reads),
                };
                *count += 1;
                if peer >= shards {
                    return wrong(format!("peers in 0..{shards}"), format!("{subtask:?}"));
                }
                if usize::from(at) >= cells {
                    return wrong(format!("updates and reads in 0..{cells}"), format!("{subtask:?}"));
                }
            }
            if updates.max(reads) > cells {
                return wrong(format!("at most {cells} updates or reads"), format!("{updates} and {reads}"));
            }
        }
        Ok(())
    }

    #[inline]
    pub fn position(&self, chain: u32) -> u32 {
        // Slots are few, and a power of two nearly always.
        if self.slots.is_power_of_two() { chain >> self.slots.trailing_zeros() } else { chain / self.slots }
    }

    fn shard_of(&self, chain: u32) -> u32 {
        let members = &self.gang.members[self.processor as usize];
        members.get(self.position(chain) as usize).copied().unwrap_or(u32::MAX)
    }

    pub fn place(&self, chain: u32) -> Place {
        Place { task: self.name.clone(), shard: Some(self.shard_of(chain)) }
    }

    #[cold]
    fn wrong_size(&self, chain: u32, peer: u32, came: usize) -> Error {
        let what = format!("{}: the value of shard {peer}", self.place(chain));
        Error::misuse(what, format!("{} bytes", self.bytes), format!("{came} bytes"))
    }

    /// What a cell is called in reports.
    pub fn cell_name(&self, cell: u32) -> String {
        let half = if cell & EMPTY == 0 { "ready" } else { "empty" };
        let (cell, per_chain) = (cell & !EMPTY, self.cells.max(1));
        let (chain, number) = (cell / per_chain, cell % per_chain);
        format!("`{}` {half} {number} of slot {} of shard {}", self.name, chain % self.slots, self.shard_of(chain))
    }

    /// What a chain is doing, for reports.
    pub fn describe(&self, chain: u32) -> String {
        let input = self.state.try_borrow().is_ok_and(|s| s.awaits_input(chain));
        let links = self.links.try_borrow();
        let doing = match links.as_ref().ok().and_then(|l| l.chains.get(chain as usize)) {
            Some(Chain { generation, .. }) if input => format!("call {generation}, waiting for its input"),
            Some(c) if matches!(c.state, State::Running | State::Poisoned) => {
                let (step, steps) = (c.next - c.first, c.end - c.first);
                format!("call {} of slot {}, before step {step} of {steps}", c.generation, chain % self.slots)
            }
            Some(c) if c.state == State::Failed => "failed".into(),
            _ => "idle".into(),
        };
        format!("shard {}, `{}` ({doing})", self.shard_of(chain), self.name)
    }

    /// Every cell a chain waits on: the chain, its cell, the generation awaited.
    pub fn waiting(&self) -> Vec<(u32, u32, u64)> {
        let links = self.links.borrow();
        let waits = |(i, c): (u32, &Cell)| match c.awaited? {
            Half::Ready => Some((c.chain, i, c.ready)),
            Half::Empty => Some((c.chain, i | EMPTY, c.empty)),
        };
        (0u32..).zip(&links.cells).filter_map(waits).collect()
    }

    /// How many calls each shard of this processor has made.
    pub fn calls(&self) -> Vec<(u32, u64)> {
        let members = &self.gang.members[self.processor as usize];
        members.iter().copied().zip(self.links.borrow().calls.iter().copied()).collect()
    }

    /// Takes in an arrival from another processor.
    #[inline]
    pub fn arrive(&self, core: &Rc<Core>, cell: u32, generation: u64, payload: Payload) {
        let Links { cells, returned, .. } = &mut *self.links.borrow_mut();
        self.take_arrival(core, cells, returned, cell, generation, payload);
    }

    #[inline]
    fn take_arrival(
        &self,
        core: &Rc<Core>,
        cells: &mut [Cell],
        returned: &mut [Payload],
        cell: u32,
        generation: u64,
        payload: Payload,
    ) {
        let (half, at) = if cell & EMPTY == 0 { (Half::Ready, cell) } else { (Half::Empty, cell & !EMPTY) };
        let Some(c) = cells.get_mut(at as usize) else {
            return self.refuse(core, cell, generation, BarrierError::NotAnArriver { arriver: at, arrivers: 0 });
        };
        if self.arrive_here(core, c, half, cell, generation) && !matches!(payload, Payload::None) {
            match half {
                Half::Ready => c.value = payload,
                Half::Empty => returned[at as usize] = payload,
            }
        }
    }

    /// An arrival at half of a cell of this processor, which is `cell` among both; false if it is refused. What it
    /// carries may be stored afterwards: the chain it wakes runs later.
    #[inline]
    fn arrive_here(&self, core: &Rc<Core>, to: &mut Cell, half: Half, cell: u32, generation: u64) -> bool {
        match to.arrive(half, generation) {
            Ok(true) => self.queue(core, to.chain),
            Ok(false) => {}
            Err(source) => {
                self.refuse(core, cell, generation, source);
                return false;
            }
        }
        true
    }

    #[inline]
    fn queue(&self, core: &Core, chain: u32) {
        core.queue.push(self.mapping.priority, queue::Item::Chain { object: self.id, chain });
    }

    #[cold]
    fn refuse(&self, core: &Rc<Core>, cell: u32, generation: u64, source: BarrierError) {
        let from = match &source {
            BarrierError::OutOfOrder { expected, .. } => *expected,
            _ => generation,
        };
        let error = Error::Barrier { barrier: self.cell_name(cell), source };
        core.note_failure(&error);
        core.send(core.id, Message::Poison { object: self.id, cell, generation: from, error: Box::new(error) });
    }

    /// Generations of a cell from `generation` on will never complete.
    pub fn poison(&self, core: &Rc<Core>, cell: u32, generation: u64, error: Error) {
        let mut links = self.links.borrow_mut();
        let Links { cells, poison, .. } = &mut *links;
        let half = if cell & EMPTY == 0 { Half::Ready } else { Half::Empty };
        let Some(c) = cells.get_mut((cell & !EMPTY) as usize) else { return };
        let entry = poison.entry(cell).or_insert((generation, error));
        entry.0 = generation.min(entry.0);
        if c.awaited == Some(half) && *c.completed(half) >= entry.0 {
            // It looks for the reason itself.
            c.awaited = None;
            self.queue(core, c.chain);
        }
    }
}

/// A chain with everything its subtasks touch at hand.
struct Active<'a> {
    core: &'a Rc<Core>,
    chains: &'a Chains,
    chain: u32,
    now: &'a mut Chain,
    cells: &'a mut [Cell],
    returned: &'a mut [Payload],
    poison: &'a HashMap<u32, (u64, Error)>,
    errors: &'a mut HashMap<u32, Error>,
}

/// Why a chain has stopped before the end of its call.
enum Stop {
    /// It waits for a barrier.
    Waits,
    /// Something more urgent is ready.
    Yields,
    /// What it waits for will never come.
    Lost(Box<Error>),
}

impl Active<'_> {
    /// Runs subtasks up to the end of the call.
    #[inline]
    fn run<V: RunningValue>(&mut self, mut value: V) -> Result<(), Stop> {
        let plan: &[Planned] = &self.chains.plan[self.now.next as usize..self.now.end as usize];
        for step in plan {
            let at = (self.now.cells + u32::from(step.waits)) as usize;
            let cell = &self.cells[at];
            let completed = if step.task == Task::Update { cell.empty } else { cell.ready };
            let awaited = self.now.generation + u64::from(step.ahead);
            if completed <= awaited && self.must_wait(step, at, awaited)? {
                return Err(Stop::Waits);
            }
            if self.core.more_urgent(self.chains.mapping.priority) {
                return Err(Stop::Yields);
            }
            match step.task {
                Task::Update => self.update(&value, step, at),
                Task::Read { how } => self.read(&mut value, how, step, at),
            }
            self.core.counters.chain_subtasks.add(1);
            self.now.next += 1;
        }
        Ok(())
    }

    /// Registers the chain's wait, unless it will never be over.
    #[inline]
    fn must_wait(&mut self, step: &Planned, at: usize, awaited: u64) -> Result<bool, Stop> {
        let half = if step.task == Task::Update { Half::Empty } else { Half::Ready };
        #[cfg(feature = "plant")]
        {
            use crate::plant::Bug;
            let skipped = if half == Half::Empty { Bug::SkippedEmptyWait } else { Bug::SkippedReadyWait };
            if self.core.config.strikes(skipped) {
                return Ok(false);
            }
        }
        if !self.poison.is_empty() {
            let number = if half == Half::Empty { at as u32 | EMPTY } else { at as u32 };
            if let Some((_, error)) = self.poison.get(&number).filter(|(from, _)| awaited >= *from) {
                return Err(Stop::Lost(Box::new(error.clone())));
            }
        }
        self.cells[at].awaited = Some(half);
        Ok(true)
    }

    /// The update subtask: stores the running value in the exchange region and lends it to the peer.
    #[inline]
    fn update<V: RunningValue>(&mut self, value: &V, step: &Planned, at: usize) {
        let (core, chains) = (self.core, self.chains);
        let cell = step.cell + self.now.offset;
        if self.now.state == State::Poisoned {
            let payload = self.error();
            return self.arrive(step, cell, self.now.generation, payload);
        }
        let mut value = value.bytes();
        let large = value.len() > Payload::INLINE;
        if step.to == core.id && !large && cfg!(not(feature = "plant")) {
            core.counters.arrivals.add(1);
            let to = &mut self.cells[cell as usize];
            if chains.arrive_here(core, to, Half::Ready, cell, self.now.generation) {
                to.value.set(value);
            }
            return;
        }
        let staged;
        if chains.mapping.memory == MemoryKind::Ordinary && step.to != core.id {
            // Memory that the network does not know: what leaves it goes through a buffer that the network does.
            core.counters.staged_bytes.add(value.len() as u64);
            if large {
                staged = Buffer::from_bytes(value);
                value = staged.as_bytes();
            }
        }
        let payload = if large {
            let mut buffer = match std::mem::take(&mut self.returned[at]) {
                Payload::Buffer(buffer) if buffer.len() == value.len() => buffer,
                // The first use of the cell, or the buffer's contents went to another node.
                _ => Buffer::zeroed(value.len()),
            };
            buffer.as_bytes_mut().copy_from_slice(value);
            Payload::Buffer(buffer)
        } else {
            Payload::copy_of(value)
        };
        self.arrive(step, cell, self.now.generation, payload);
    }

    /// The read subtask: combines the peer's value with the running one and gives the peer's region back.
    #[inline]
    fn read<V: RunningValue>(&mut self, value: &mut V, how: u8, step: &Planned, at: usize) {
        let (core, chains) = (self.core, self.chains);
        let large = chains.bytes > Payload::INLINE;
        let came = &mut self.cells[at].value;
        let bytes = came.bytes();
        if self.now.state == State::Poisoned {
            // Nothing to combine it with.
        } else if bytes.len() != chains.bytes || matches!(came, Payload::Failed(_)) {
            let error = match came {
                Payload::Failed(e) => (**e).clone(),
                _ => chains.wrong_size(self.chain, step.peer, bytes.len()),
            };
            self.now.state = State::Poisoned;
            self.errors.entry(self.chain).or_insert(error);
        } else if chains.mapping.access == Access::Copy && step.to != core.id {
            core.counters.region_copies.add(1);
            core.counters.region_copy_bytes.add(bytes.len() as u64);
            if large {
                value.combine(how, Buffer::from_bytes(bytes).as_bytes());
            } else {
                // A small value came with the arrival: the cell of this processor is the copy.
                value.combine(how, bytes);
            }
        } else {
            value.combine(how, bytes);
        }
        let (cell, generation) = (step.cell + self.now.offset, self.now.generation + 1);
        if step.to == core.id && !large && cfg!(not(feature = "plant")) {
            core.counters.arrivals.add(1);
            chains.arrive_here(core, &mut self.cells[cell as usize], Half::Empty, cell | EMPTY, generation);
            return;
        }
        let back = match came {
            Payload::Buffer(_) if core.same_node(step.to) => std::mem::take(came),
            _ => Payload::None,
        };
        self.arrive(step, cell | EMPTY, generation, back);
    }

    /// Arrives at a cell of the peer.
    #[inline]
    fn arrive(&mut self, step: &Planned, cell: u32, generation: u64, payload: Payload) {
        self.core.counters.arrivals.add(1);
        #[cfg(feature = "plant")]
        {
            use crate::plant::Bug;
            let config = &self.core.config;
            if config.strikes(Bug::LostArrival) {
                return;
            }
            if cell & EMPTY == 0 && config.strikes(Bug::WrongPartner) {
                let gang = &self.chains.gang;
                let (to, position) = gang.at[((step.peer + 1) % gang.shards()) as usize];
                let per_shard = self.chains.slots * self.chains.cells;
                let step = Planned { to, ..*step };
                return self.deliver(&step, position * per_shard + cell % per_shard, generation, payload);
            }
            if config.strikes(Bug::DoubledArrival) {
                self.deliver(step, cell, generation, payload.clone());
            }
        }
        self.deliver(step, cell, generation, payload);
    }

    #[inline]
    fn deliver(&mut self, step: &Planned, cell: u32, generation: u64, payload: Payload) {
        if step.to == self.core.id {
            return self.chains.take_arrival(self.core, self.cells, self.returned, cell, generation, payload);
        }
        let message = Message::Arrive { object: self.chains.id, cell, generation, payload };
        // The peer waits for a value now, and for room, if ever, a call later.
        if cell & EMPTY == 0 { self.core.send(step.to, message) } else { self.core.send_late(step.to, message) }
    }

    #[cold]
    fn error(&self) -> Payload {
        let error = self.errors.get(&self.chain).map(|e| e.origin().clone());
        Payload::Failed(Box::new(error.unwrap_or_else(unknown)))
    }
}

fn unknown() -> Error {
    Error::Stopped { what: "a collective's call".into() }
}

impl ReplayCx<'_> {
    /// Runs subtasks of a chain for as long as the next one is ready and nothing more urgent is.
    #[inline]
    pub fn run<R: Replay>(&mut self, object: &mut R, chain: u32) {
        loop {
            let chains = self.chains;
            match self.links.chains[chain as usize].state {
                State::Running | State::Poisoned => {}
                State::Failed => return,
                State::Idle => match object.begin(chain, || chains.shard_of(chain)) {
                    Ok(true) => self.links.chains[chain as usize].state = State::Running,
                    Ok(false) => return,
                    Err(e) => self.links.poison_call(chain, e),
                },
            }
            let Links { chains: all, cells, returned, poison, errors, .. } = &mut *self.links;
            let now = &mut all[chain as usize];
            let mut active = Active { core: self.core, chains, chain, now, cells, returned, poison, errors };
            let value = object.running(chain);
            match catch_unwind(AssertUnwindSafe(|| active.run(value))) {
                Ok(Ok(())) => {}
                Ok(Err(Stop::Waits)) => return,
                Ok(Err(Stop::Yields)) => return self.start(chain),
                Ok(Err(Stop::Lost(error))) => return self.fail(object, chain, *error),
                // The read is done again, and hands the error on.
                Err(panic) => {
                    let error = Error::Panicked { place: chains.place(chain), message: panic_message(panic) };
                    if now.state == State::Poisoned {
                        // Not even its error can be handed on.
                        let first = self.links.errors.remove(&chain).unwrap_or(error);
                        return self.fail(object, chain, first);
                    }
                    self.links.poison_call(chain, error);
                    continue;
                }
            }
            let poisoned = now.state == State::Poisoned;
            (now.next, now.state) = (now.first, State::Idle);
            now.generation += 1;
            let outcome = if poisoned { Err(self.take_error(chain)) } else { Ok(()) };
            object.end(chain, outcome, self);
        }
    }

    #[cold]
    fn take_error(&mut self, chain: u32) -> Box<Error> {
        let error = self.links.errors.remove(&chain).unwrap_or_else(unknown);
        Box::new(error.poisons(self.chains.place(chain)))
    }

    /// Ends a chain's call with an error and poisons every arrival the chain still owes, in this call and later ones.
    pub(crate) fn fail<R: Replay>(&mut self, object: &mut R, chain: u32, error: Error) {
        let place = self.chains.place(chain);
        let c = &mut self.links.chains[chain as usize];
        if c.state == State::Failed {
            return;
        }
        c.state = State::Failed;
        let Chain { generation, first, next, end, cells, offset, .. } = *c;
        for cell in &mut self.links.cells[cells as usize..(cells + self.chains.cells) as usize] {
            cell.awaited = None;
        }
        let error = error.poisons(place);
        object.fail(chain, error.clone(), self);
        for i in first..end {
            // What this call has not done yet is owed in its generation, the rest in the next.
            let step = self.chains.plan[i as usize];
            let owed = generation + u64::from(i < next);
            let (cell, owed) = match step.task {
                Task::Update => (step.cell + offset, owed),
                Task::Read { .. } => ((step.cell + offset) | EMPTY, owed + 1),
            };
            let at = crate::CellAddress { processor: step.to, object: self.local.id, cell };
            self.core.poison(at, owed, &error);
        }
    }
}

/// Why a call was not made.
pub(crate) enum Refused {
    /// The object is not of the type that the caller says.
    OtherKind,
    /// Calls of another launch's shard at the same position are under way.
    OtherLaunch,
}

impl Core {
    /// Gives `f` the state of a replayed object, if it is of type `R`, for a call of `owner`'s, which is the shard at
    /// `position`.
    pub(crate) fn with_replay<R: Replay, T>(
        self: &Rc<Self>,
        local: &Local,
        position: u32,
        owner: &Rc<Owner>,
        f: impl FnOnce(&mut R, (u32, u64), &mut ReplayCx<'_>) -> T,
    ) -> Result<T, Refused> {
        let chains = local.chains.as_ref().ok_or(Refused::OtherKind)?;
        let mut state = chains.state.borrow_mut();
        let any: &mut dyn Any = &mut **state;
        let state = any.downcast_mut::<R>().ok_or(Refused::OtherKind)?;
        let links = &mut *chains.links.borrow_mut();
        let Links { owners, calls, under_way, .. } = links;
        let at = position as usize;
        if !owners[at].as_ref().is_some_and(|o| Rc::ptr_eq(o, owner)) {
            if under_way[at] > 0 {
                return Err(Refused::OtherLaunch);
            }
            owners[at] = Some(owner.clone());
        }
        owner.one_more();
        under_way[at] += 1;
        let number = calls[at];
        calls[at] += 1;
        let mut cx = ReplayCx { core: self, local, chains, links };
        Ok(self.in_chains(|| f(state, (position, number), &mut cx)))
    }

    /// Fails every chain of a shard that is over.
    pub(crate) fn fail_chains(self: &Rc<Self>, local: &Local, position: u32, error: &Error) {
        let Some(chains) = &local.chains else { return };
        let mut state = chains.state.borrow_mut();
        let mut cx = ReplayCx { core: self, local, chains, links: &mut chains.links.borrow_mut() };
        for chain in position * chains.slots..(position + 1) * chains.slots {
            self.in_chains(|| state.fail(chain, error.clone(), &mut cx));
        }
    }

    /// Runs what is ready of a chain.
    #[inline]
    pub(super) fn run_chain(self: &Rc<Self>, object: ObjectId, chain: u32) {
        let Some(local) = self.local(object) else { return };
        let Some(chains) = &local.chains else { return };
        let mut cx = ReplayCx { core: self, local: &local, chains, links: &mut chains.links.borrow_mut() };
        self.in_chains(|| chains.state.borrow_mut().run(chain, &mut cx));
    }

    /// Puts wakers off while `f` has chains borrowed.
    #[inline]
    fn in_chains<T>(&self, f: impl FnOnce() -> T) -> T {
        let before = self.in_chains.replace(true);
        let result = f();
        self.in_chains.set(before);
        result
    }
}
