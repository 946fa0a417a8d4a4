//! Barriers on one processor: the cells of its edges and chains, and its members of combining trees. Arrivals are routed
//! to the processor that has the cell.
//!
//! `bank`: cells of edges and chains. `buffers`: memory of large values of edges. `phases`: combining trees. `ends`: the
//! generations of handles. `report`: barriers in the report of a deadlock.

mod bank;
mod buffers;
mod ends;
mod phases;
mod report;

use crate::Error;
use crate::barrier::buffers::Buffers;
use crate::effects::polling::Poller;
use crate::effects::{Effects, Tell, Waiting};
use crate::ids::{CellAddress, EMPTY, ObjectId, ValueAt, WaitAt};
use crate::maps::HashMap;
use crate::message::Also;
use crate::object::{EdgeTable, Object, PhaseSpec};
use crate::payload::{Lent, Payload};
use crate::plant::Bug;
use crate::table::Table;

use bank::no_cell;
pub(crate) use bank::{Bank, Cell, Poisons, Wanted};
pub(crate) use ends::{ConsumerEnd, PhaseEnd, ProducerEnd, ShardEnds};
pub(crate) use phases::{PhaseMember, Phases};

use maniple_barriers::{BarrierError, Waits};
use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

/// The result of waiting for one generation of a barrier.
pub(crate) type Waited = maniple_barriers::Waited<Box<Error>>;

fn owned(waited: maniple_barriers::Waited<&Error>) -> Waited {
    waited.map(|e| Box::new(e.clone()))
}

/// The error of a cell of this processor.
#[cold]
fn cell_error(effects: &Effects, object: ObjectId, cell: u32, source: BarrierError) -> Error {
    let name = |o: Option<&Object>| o.map_or_else(|| format!("object {object}"), |o| o.cell_name(effects.id, cell));
    Error::Barrier { barrier: effects.objects.with(object, name), source }
}

/// The error of an arrival that is refused, and the generation from which on it poisons the cell. It is also an error of
/// the run, because the waiter may ignore the error or never look at it.
#[cold]
pub(crate) fn refused(
    effects: &Effects,
    (object, cell): (ObjectId, u32),
    generation: u64,
    source: BarrierError,
) -> (Error, u64) {
    let from = match &source {
        BarrierError::OutOfOrder { expected, .. } => *expected,
        _ => generation,
    };
    let error = cell_error(effects, object, cell, source);
    effects.note_failure(&error);
    (error, from)
}

/// How many times an arrival is made: once, except with a planted bug.
#[inline(always)]
pub(crate) fn times(effects: &Effects) -> u32 {
    if effects.strikes(Bug::LostArrival) {
        return 0;
    }
    if effects.strikes(Bug::DoubledArrival) {
        return 2;
    }
    1
}

/// The state of an object's chains, with their bank.
pub(crate) trait WithBank {
    fn bank(&mut self) -> &mut Bank;
}

/// The bank of an object. The bank of chains lies in their state and is borrowed with it.
enum Keeper {
    Edges(Box<Bank>),
    Chains(Rc<RefCell<dyn WithBank>>),
}

/// The barriers of one processor.
#[derive(Default)]
pub(crate) struct Barriers {
    /// Cells of edges and chains, by object.
    banks: RefCell<Table<Keeper>>,
    pub phases: Phases,
    /// Ends of barriers, by object and shard.
    ends: RefCell<HashMap<(ObjectId, u32), Rc<ShardEnds>>>,
    phase_ends: RefCell<HashMap<(ObjectId, u32), Rc<PhaseEnd>>>,
    /// Memory of large values that tasks put.
    buffers: RefCell<Buffers>,
}

impl Barriers {
    /// Makes this processor's cells of edges.
    pub fn add_edges(&self, effects: &Effects, object: ObjectId, edges: &EdgeTable) {
        let counts = edges.counts[effects.id.index()];
        if counts != (0, 0) {
            let bank = Box::new(Bank::of_edges(counts, edges.depth));
            self.banks.borrow_mut().insert(object, Keeper::Edges(bank));
        }
    }

    /// Adds the cells of an object's chains.
    pub fn add_chains(&self, object: ObjectId, chains: Rc<RefCell<dyn WithBank>>) {
        self.banks.borrow_mut().insert(object, Keeper::Chains(chains));
    }

    /// Makes this processor's member of a phase barrier.
    pub fn add_phase(&self, effects: &Effects, object: ObjectId, spec: &PhaseSpec) {
        self.phases.add(object, PhaseMember::new(spec, effects.id));
    }

    /// Gives the memory of an object's barriers back. Returns what may have destructors of the program.
    pub fn remove(&self, object: ObjectId, shards: &[u32]) -> impl Sized + use<> {
        for &shard in shards {
            self.ends.borrow_mut().remove(&(object, shard));
            self.phase_ends.borrow_mut().remove(&(object, shard));
        }
        (self.banks.borrow_mut().remove(object), self.phases.remove(object))
    }

    /// The bank of an object's edges.
    #[inline(always)]
    fn edges(&self, object: ObjectId) -> Option<RefMut<'_, Bank>> {
        let banks = self.banks.borrow_mut();
        RefMut::filter_map(banks, |banks| match banks.get_mut(object) {
            Some(Keeper::Edges(bank)) => Some(&mut **bank),
            _ => None,
        })
        .ok()
    }

    /// Shows `f` the bank of an object.
    #[inline(always)]
    fn with<T>(&self, object: ObjectId, f: impl FnOnce(&mut Bank) -> T) -> Option<T> {
        let mut banks = self.banks.borrow_mut();
        let mut chains;
        let bank = match banks.get_mut(object)? {
            Keeper::Edges(bank) => &mut **bank,
            Keeper::Chains(state) => {
                chains = state.borrow_mut();
                chains.bank()
            }
        };
        Some(f(bank))
    }

    /// Arrives at half of an edge, perhaps with a value. Sends a message if the cell is on another processor.
    #[inline(always)]
    pub fn arrive(
        &self,
        effects: &Effects,
        at: CellAddress,
        generation: u64,
        value: Option<&Payload>,
        tell: &mut impl Tell,
    ) {
        debug_assert!(!matches!(value, Some(Payload::None)), "that is no value");
        effects.counters.arrivals.add(1);
        for _ in 0..times(effects) {
            let CellAddress { processor, object, cell } = at;
            if processor == effects.id && object < effects.objects.made() {
                // Cloned only in its place: to move a payload through the calls is slow.
                self.arrive_here(effects, (object, cell), generation, value.map(|value| || value.clone()), tell);
            } else if cell & EMPTY != 0 && processor != effects.id {
                effects.send_empty(at, generation, false);
            } else {
                effects.send_ready(at, generation, value.cloned().unwrap_or_default());
            }
        }
    }

    /// Handles an arrival from another processor, and the one that came with it. The object is known here.
    #[inline]
    pub fn take_arrival(
        &self,
        effects: &Effects,
        (object, cell): (ObjectId, u32),
        generation: u64,
        (payload, also): (&mut Payload, Also),
        tell: &mut impl Tell,
    ) {
        let value = (!matches!(payload, Payload::None)).then_some(|| std::mem::take(payload));
        self.arrive_here(effects, (object, cell), generation, value, tell);
        if also != Also::NOTHING {
            self.take_also(effects, (object, also), generation, tell);
        }
    }

    /// Handles the arrival that came with one for generation `near`.
    #[inline(never)]
    fn take_also(&self, effects: &Effects, (object, also): (ObjectId, Also), near: u64, tell: &mut impl Tell) {
        let generation = self.with(object, |bank| bank.generation(also.cell, also.generation, near));
        let none = None::<fn() -> Payload>;
        self.arrive_here(effects, (object, also.cell), generation.unwrap_or(near), none, tell);
    }

    /// Adds a value of a task that is about to run: one that has come, or memory for one that it puts.
    #[inline]
    pub fn add_value(&self, effects: &Effects, at: ValueAt, values: &mut Vec<Payload>) -> Result<(), Box<Error>> {
        match at {
            ValueAt::Get { object, cell, generation } => {
                values.push(self.take_value(effects, (object, cell), generation)?);
            }
            ValueAt::Put { bytes, inline: true } if bytes <= Payload::INLINE => values.push(Payload::zeroed(bytes)),
            ValueAt::Put { bytes, .. } => {
                let no_memory =
                    || Error::misuse("a `Put`", "memory for its value", format!("{bytes} bytes, which are not there"));
                values.push(self.buffers.borrow_mut().take(bytes).ok_or_else(|| Box::new(no_memory()))?);
            }
            ValueAt::Fill { kind, .. } => values.push(self.buffers.borrow_mut().take_vec(kind)),
            ValueAt::Send => values.push(Payload::None),
        }
        Ok(())
    }

    /// Takes the value that came with a generation of a ready cell, which is complete.
    #[inline]
    pub fn take_value(
        &self,
        effects: &Effects,
        (object, cell): (ObjectId, u32),
        generation: u64,
    ) -> Result<Payload, Box<Error>> {
        let mut edges = self.edges(object);
        let place = edges.as_mut().and_then(|bank| bank.value(cell, generation));
        match place.filter(|value| !matches!(value, Payload::None)) {
            Some(value) => Ok(std::mem::take(value)),
            None => Err(no_value(effects, object, cell, generation)),
        }
    }

    /// How many generations of a cell of this processor are complete.
    #[inline]
    pub fn completed(&self, object: ObjectId, cell: u32) -> u64 {
        self.with(object, |bank| bank.completed(cell, 0)).unwrap_or(0)
    }

    /// Keeps the memory of a value that was put, for the next value of the same size or type.
    #[cold]
    pub fn keep_buffer(&self, at: &ValueAt, buffer: Arc<dyn Lent>) {
        match at {
            ValueAt::Put { .. } => self.buffers.borrow_mut().keep(buffer),
            ValueAt::Fill { kind, .. } => self.buffers.borrow_mut().keep_vec(kind, buffer),
            // It was never the task's.
            ValueAt::Get { .. } | ValueAt::Send => {}
        }
    }

    /// Handles an arrival at a cell of this processor.
    #[inline(always)]
    fn arrive_here(
        &self,
        effects: &Effects,
        (object, cell): (ObjectId, u32),
        generation: u64,
        value: Option<impl FnOnce() -> Payload>,
        tell: &mut impl Tell,
    ) {
        // Not through `with`: its closure took as long as the arrival itself.
        let mut banks = self.banks.borrow_mut();
        let arrived = match banks.get_mut(object) {
            Some(Keeper::Edges(bank)) => bank.arrive(cell, generation, value),
            Some(Keeper::Chains(state)) => state.borrow_mut().bank().arrive(cell, generation, value),
            None => Err(no_cell(cell)),
        };
        drop(banks);
        let (first, others) = match arrived {
            Ok(released) => released,
            Err(source) => return self.refuse(effects, (object, cell), generation, source, tell),
        };
        if let Some(waiting) = first {
            effects.releases(object, generation, &waiting);
            tell(waiting, None);
        }
        if others {
            self.release_others(effects, (object, cell), generation, tell);
        }
    }

    #[cold]
    fn release_others(
        &self,
        effects: &Effects,
        (object, cell): (ObjectId, u32),
        generation: u64,
        tell: &mut impl Tell,
    ) {
        for waiting in self.with(object, |bank| bank.release_others(cell)).unwrap_or_default() {
            effects.releases(object, generation, &waiting);
            tell(waiting, None);
        }
    }

    #[cold]
    fn refuse(
        &self,
        effects: &Effects,
        (object, cell): (ObjectId, u32),
        generation: u64,
        source: BarrierError,
        tell: &mut impl Tell,
    ) {
        if effects.objects.is_gone(object) {
            // Nobody waited for it.
            return;
        }
        let (error, from) = refused(effects, (object, cell), generation, source);
        self.poison_here(object, cell, from, &error, tell);
    }

    /// Poisons the cell of an edge from `generation` on, on any processor.
    pub fn poison(&self, effects: &Effects, at: CellAddress, generation: u64, error: &Error, tell: &mut impl Tell) {
        if effects.has(Bug::MissingPoison) {
            return;
        }
        let CellAddress { processor, object, cell } = at;
        if processor == effects.id && object < effects.objects.made() {
            // At once, like arrivals here: later arrivals must not overtake the poison.
            return self.poison_here(object, cell, generation, error, tell);
        }
        effects.send_poison(at, generation, error);
    }

    /// Poisons a cell of this processor, or its member of a phase barrier.
    pub fn poison_here(&self, object: ObjectId, cell: u32, generation: u64, error: &Error, tell: &mut impl Tell) {
        if self.phases.has(object) {
            return self.phases.poison(object, generation, error, tell);
        }
        let due = self.with(object, |bank| bank.set_poison(cell, generation, error));
        due.into_iter().flatten().for_each(|waiting| tell(waiting, Some(error)));
    }

    /// Poisons the incomplete generations of edges.
    pub fn give_up(&self, object: ObjectId, error: &Error, tell: &mut impl Tell) {
        let due = self.edges(object).map(|mut bank| bank.poison_every_half(error));
        due.into_iter().flatten().for_each(|waiting| tell(waiting, Some(error)));
    }

    /// Waits for a generation. If it is not complete, `waiting` is registered and told later.
    #[inline]
    pub fn wait(&self, effects: &Effects, at: WaitAt, waiting: Waiting) -> Waited {
        if let Waiting::Waker(_) = &waiting {
            // Checked first: if the wait has ended, the waker is dropped here, while nothing is borrowed. Its destructor
            // is user code.
            match self.state(effects, at) {
                Waited::Registered => {}
                over => return over,
            }
        }
        match at {
            WaitAt::Cell { object, cell, generation } => {
                let waited = self.edges(object).and_then(|mut bank| bank.wait(cell, generation, waiting));
                waited.unwrap_or_else(|| no_such_cell(effects, object, cell))
            }
            WaitAt::Phase { object, generation } => self.phases.wait(object, generation, waiting),
        }
    }

    /// The state of a generation. Does not register a wait.
    pub fn state(&self, effects: &Effects, at: WaitAt) -> Waited {
        match at {
            WaitAt::Cell { object, .. } if object >= effects.objects.made() => no_such_cell(effects, object, 0),
            WaitAt::Cell { object, cell, generation } => {
                self.edges(object).and_then(|bank| bank.state(cell, generation)).unwrap_or(Waited::Registered)
            }
            WaitAt::Phase { object, generation } => self.phases.state(object, generation),
        }
    }

    /// Looks at a generation that `earlier` is registered for, and replaces that waiter by `waiting`.
    #[cold]
    pub fn wait_instead(&self, effects: &Effects, at: WaitAt, earlier: Poller, waiting: Waiting) -> Waited {
        match self.state(effects, at) {
            Waited::Registered => {}
            over => return over,
        }
        let mut waiting = Some(waiting);
        let earlier = self.with_waits(at, |waits| {
            let place = waits.find(at.generation(), |w| Poller::of(w) == Some(earlier))?;
            Some(std::mem::replace(place, waiting.take()?))
        });
        // The old waiter is dropped while nothing is borrowed: the destructor of its waker is user code.
        drop(earlier);
        waiting.map_or(Waited::Registered, |waiting| self.wait(effects, at, waiting))
    }

    /// Removes a waiter for a generation, if there is one.
    pub fn withdraw(&self, at: WaitAt, waiter: Poller) -> Option<Waiting> {
        self.with_waits(at, |waits| waits.withdraw(at.generation(), |w| Poller::of(w) == Some(waiter))).flatten()
    }

    /// Shows `f` the waiters of a barrier, if it is here.
    fn with_waits<T>(&self, at: WaitAt, f: impl FnOnce(&mut Waits<Waiting>) -> T) -> Option<T> {
        match at {
            WaitAt::Cell { object, cell, .. } => self.edges(object)?.waits(cell).map(f),
            WaitAt::Phase { object, .. } => self.phases.with_waits(object, f),
        }
    }
}

#[cold]
fn no_value(effects: &Effects, object: ObjectId, cell: u32, generation: u64) -> Box<Error> {
    Box::new(cell_error(effects, object, cell, BarrierError::NoValue { generation }))
}

#[cold]
fn no_such_cell(effects: &Effects, object: ObjectId, cell: u32) -> Waited {
    let what = || "waiting for a barrier".into();
    let error = match effects.objects.check(object, 0, what) {
        Err(destroyed) => destroyed,
        Ok(()) if object < effects.objects.made() => {
            Error::misuse(what(), "an end of an edge of this shard", format!("number {cell}"))
        }
        Ok(()) => Error::misuse("a wait", "a barrier of this run", object),
    };
    Waited::Poisoned(Box::new(error))
}
