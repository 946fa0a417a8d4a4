//! Barriers on one processor: the cells of its edges and its members of combining trees. Arrivals are routed to the
//! processor that has the cell.
//!
//! `cells`: edges. `buffers`: memory of their large values. `phases`: combining trees. `ends`: the generations of
//! handles. `report`: barriers in the report of a deadlock.

mod buffers;
mod cells;
mod ends;
mod phases;
mod report;

use crate::Error;
use crate::barrier::buffers::Buffers;
use crate::effects::polling::Poller;
use crate::effects::{Effects, Late, Tell, Waiting};
use crate::ids::{CellAddress, EMPTY, ObjectId, ValueAt, WaitAt};
use crate::maps::HashMap;
use crate::message::{Also, Message};
use crate::object::{EdgeTable, Object, PhaseSpec};
use crate::payload::{Lent, Payload};
use crate::table::Table;

pub(crate) use cells::Bank;
pub(crate) use ends::{ConsumerEnd, PhaseEnd, ProducerEnd, ShardEnds};
pub(crate) use phases::{PhaseMember, Phases};

use maniple_barriers::{Arrived, BarrierCell, BarrierError, nearest};
use std::cell::RefCell;
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

/// The barriers of one processor.
#[derive(Default)]
pub(crate) struct Barriers {
    /// Cells of edges, by object.
    banks: RefCell<Table<Box<Bank>>>,
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
        let bank = Bank::new(edges.counts[effects.id.index()], edges.depth);
        if !bank.is_empty() {
            self.banks.borrow_mut().insert(object, Box::new(bank));
        }
    }

    /// Makes this processor's member of a phase barrier.
    pub fn add_phase(&self, effects: &Effects, object: ObjectId, spec: &PhaseSpec) {
        self.phases.add(object, PhaseMember::new(spec, effects.id));
    }

    /// Gives the memory of edges or of a phase barrier back. Returns what may have destructors of the program.
    pub fn remove(&self, object: ObjectId, shards: &[u32]) -> (Option<Box<Bank>>, Option<Box<PhaseMember>>) {
        for &shard in shards {
            self.ends.borrow_mut().remove(&(object, shard));
            self.phase_ends.borrow_mut().remove(&(object, shard));
        }
        (self.banks.borrow_mut().remove(object), self.phases.remove(object))
    }

    #[inline]
    fn with<T>(&self, object: ObjectId, f: impl FnOnce(&mut Bank) -> T) -> Option<T> {
        Some(f(self.banks.borrow_mut().get_mut(object)?))
    }

    /// Arrives at half of an edge, perhaps with a value. Sends a message if the cell is on another processor.
    #[inline]
    pub fn arrive(&self, effects: &Effects, at: CellAddress, generation: u64, payload: Payload, tell: &mut impl Tell) {
        effects.counters.arrivals.add(1);
        #[cfg(feature = "plant")]
        {
            use crate::plant::Bug;
            if effects.config.strikes(Bug::LostArrival) {
                return;
            }
            if effects.config.strikes(Bug::DoubledArrival) {
                self.route(effects, at, generation, payload.clone(), tell);
            }
        }
        self.route(effects, at, generation, payload, tell);
    }

    #[inline]
    fn route(&self, effects: &Effects, at: CellAddress, generation: u64, payload: Payload, tell: &mut impl Tell) {
        let CellAddress { processor, object, cell } = at;
        if processor == effects.id && object < effects.objects.made() {
            return self.arrive_here(effects, at, generation, payload, tell);
        }
        if cell & EMPTY != 0 {
            // It is not urgent: it goes with the next value to that processor, or at the end of this turn.
            return effects.arrive_late(processor, Late { object, cell, generation });
        }
        let also = effects.also(processor, object);
        effects.send(processor, Message::Arrive { object, cell, generation, payload, also });
    }

    /// Handles the arrival that came with another.
    #[inline]
    pub fn arrive_also(&self, effects: &Effects, object: ObjectId, also: Also, tell: &mut impl Tell) {
        if also == Also::NOTHING {
            return;
        }
        let completed = self.with(object, |bank| bank.cell(also.cell).map(BarrierCell::completed)).flatten();
        let generation = nearest(also.generation, completed.unwrap_or(0));
        let at = CellAddress { processor: effects.id, object, cell: also.cell };
        self.arrive_here(effects, at, generation, Payload::None, tell);
    }

    /// The value of a task that is about to run: one that has come, or room for one that it puts.
    #[inline]
    pub fn value(&self, effects: &Effects, at: ValueAt) -> Result<Payload, Box<Error>> {
        match at {
            ValueAt::Get { object, cell, generation } => {
                match self.with(object, |bank| bank.take(cell, generation)).unwrap_or_default() {
                    Payload::None => {
                        Err(Box::new(cell_error(effects, object, cell, BarrierError::NoValue { generation })))
                    }
                    value => Ok(value),
                }
            }
            ValueAt::Put { bytes, inline: true } if bytes <= Payload::INLINE => Ok(Payload::room(bytes)),
            ValueAt::Put { bytes, .. } => self.buffers.borrow_mut().take(bytes).ok_or_else(|| {
                Box::new(Error::misuse(
                    "a `Put`",
                    "memory for its value",
                    format!("{bytes} bytes, which are not there"),
                ))
            }),
        }
    }

    /// Keeps the memory of a value that was put, for the next value of the same size.
    #[cold]
    pub fn keep_buffer(&self, buffer: Arc<dyn Lent>) {
        self.buffers.borrow_mut().keep(buffer);
    }

    /// Handles an arrival at a cell of this processor.
    #[inline]
    pub fn arrive_here(
        &self,
        effects: &Effects,
        at: CellAddress,
        generation: u64,
        payload: Payload,
        tell: &mut impl Tell,
    ) {
        let CellAddress { object, cell, .. } = at;
        let arrived = self.with(object, |bank| bank.arrive(cell, generation, payload));
        let missing = Err(BarrierError::NotAnArriver { arriver: cell, arrivers: 0 });
        let Arrived { first, others, .. } = match arrived.unwrap_or(missing) {
            Ok(arrived) => arrived,
            // Nobody waited for it.
            Err(_) if effects.objects.is_gone(object) => return,
            Err(source) => return self.refuse(effects, at, generation, source, tell),
        };
        if let Some(waiting) = first {
            effects.releases(object, generation, &waiting);
            tell(waiting, None);
        }
        if others {
            for waiting in self.with(object, |bank| bank.release_others(cell)).unwrap_or_default() {
                effects.releases(object, generation, &waiting);
                tell(waiting, None);
            }
        }
    }

    /// A refused arrival is also an error of the run, because the waiter may ignore the error or never look at it.
    #[cold]
    fn refuse(&self, effects: &Effects, at: CellAddress, generation: u64, source: BarrierError, tell: &mut impl Tell) {
        let CellAddress { object, cell, .. } = at;
        let error = cell_error(effects, object, cell, source);
        effects.note_failure(&error);
        self.poison_here(object, cell, generation, &error, tell);
    }

    /// Poisons the cell of an edge from `generation` on, on any processor.
    pub fn poison(&self, effects: &Effects, at: CellAddress, generation: u64, error: &Error, tell: &mut impl Tell) {
        if !effects.passes_poison_on() {
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
        let due = self.with(object, |bank| bank.poison(cell, generation, error));
        due.into_iter().flatten().for_each(|waiting| tell(waiting, Some(error)));
    }

    /// Poisons the incomplete generations of an object.
    pub fn give_up(&self, known: &crate::effects::Known, error: &Error, tell: &mut impl Tell) {
        match &*known.object {
            Object::Edges(_) => {
                let due = self.with(known.id, |bank| bank.poison_every_cell(error));
                due.into_iter().flatten().for_each(|waiting| tell(waiting, Some(error)));
            }
            Object::Phase(_) => self.phases.poison(known.id, 0, error, tell),
            _ => {}
        }
    }

    /// Waits for a generation. If it is not complete, `waiting` is registered and told later.
    #[inline]
    pub fn wait(&self, effects: &Effects, at: WaitAt, waiting: Waiting) -> Waited {
        if let Waiting::Waker(_) = &waiting {
            // Checked first: if the wait is over, the waker is dropped here, while nothing is borrowed. Its destructor
            // is user code.
            match self.state(effects, at) {
                Waited::Registered => {}
                over => return over,
            }
        }
        match at {
            WaitAt::Cell { object, cell, generation } => {
                // Without a bank there is no such cell.
                let waited = self.with(object, |bank| bank.wait(cell, generation, waiting));
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
                self.with(object, |bank| bank.state(cell, generation)).unwrap_or(Waited::Registered)
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
        let replaced = match at {
            WaitAt::Phase { object, generation } => self.phases.replace(object, generation, earlier, waiting),
            WaitAt::Cell { object, cell, generation } => {
                let mut banks = self.banks.borrow_mut();
                match banks.get_mut(object) {
                    Some(bank) => bank.replace(cell, generation, earlier, waiting),
                    None => Err(waiting),
                }
            }
        };
        match replaced {
            // The old waiter is dropped here, while nothing is borrowed: the destructor of its waker is user code.
            Ok(_earlier) => Waited::Registered,
            Err(waiting) => self.wait(effects, at, waiting),
        }
    }

    /// Removes a waiter for a generation, if there is one.
    pub fn withdraw(&self, at: WaitAt, waiter: Poller) -> Option<Waiting> {
        match at {
            WaitAt::Phase { object, generation } => self.phases.withdraw(object, generation, waiter),
            WaitAt::Cell { object, cell, generation } => {
                self.with(object, |bank| bank.withdraw(cell, generation, waiter)).flatten()
            }
        }
    }
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
