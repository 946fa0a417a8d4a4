//! Cells of the program's own ready/empty pairs, and arrivals at them.

use crate::Error;
use crate::effects::Waiting;
use crate::effects::polling::Poller;
use crate::ids::ObjectId;
use crate::ids::{CellAddress, EMPTY};
use crate::message::{Also, Message};
use crate::payload::Payload;
use crate::processor::Core;
use crate::processor::objects::Local;
use maniple_barriers::{Arrivals, Arrived, BarrierCell, BarrierError};
use std::rc::Rc;

type Cell = BarrierCell<Waiting, Payload, Error>;

/// What waiting for one generation of a barrier found.
pub(crate) type Waited = maniple_barriers::Waited<Box<Error>>;

/// The cells of one object that live on this processor.
#[derive(Default)]
pub(crate) struct Bank {
    ready: Vec<Cell>,
    empty: Vec<Cell>,
}

impl Bank {
    pub fn new(ready: usize, empty: usize) -> Self {
        Self {
            ready: (0..ready).map(|_| Cell::of_one(0)).collect(),
            // A region starts empty: generation 0 of its empty barrier has arrived.
            empty: (0..empty).map(|_| Cell::of_one(1)).collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.empty.is_empty()
    }

    #[inline]
    fn cell(&self, number: u32) -> Option<&Cell> {
        let half = if number & EMPTY == 0 { &self.ready } else { &self.empty };
        half.get((number & !EMPTY) as usize)
    }

    #[inline]
    fn cell_mut(&mut self, number: u32) -> Option<&mut Cell> {
        let half = if number & EMPTY == 0 { &mut self.ready } else { &mut self.empty };
        half.get_mut((number & !EMPTY) as usize)
    }

    #[inline]
    fn arrive(&mut self, cell: u32, generation: u64, payload: Payload) -> Result<Arrived<Waiting>, BarrierError> {
        let refused = BarrierError::NotAnArriver { arriver: cell, arrivers: 0 };
        let carries = (!matches!(payload, Payload::None)).then_some(payload);
        self.cell_mut(cell).ok_or(refused)?.arrive(0, generation, carries)
    }

    #[inline]
    fn wait(&mut self, cell: u32, generation: u64, waiting: Waiting) -> Waited {
        match self.cell_mut(cell) {
            Some(cell) => cell.wait(generation, waiting).map(|e| Box::new(e.clone())),
            None => Waited::Poisoned(Box::new(Error::misuse("waiting for a barrier", "a cell of this shard", cell))),
        }
    }

    fn release_others(&mut self, cell: u32) -> Vec<Waiting> {
        self.cell_mut(cell).map_or_else(Vec::new, Cell::release_others)
    }

    /// Puts `waiting` in the place of a waiter for `generation`, which it returns; gives `waiting` back if there is none.
    pub fn replace(
        &mut self,
        cell: u32,
        generation: u64,
        earlier: Poller,
        waiting: Waiting,
    ) -> Result<Waiting, Waiting> {
        match self.cell_mut(cell) {
            Some(cell) => cell.replace(generation, |w| Poller::of(w) == Some(earlier), waiting),
            None => Err(waiting),
        }
    }

    /// Takes away a waiter for `generation`, if there is one.
    pub fn withdraw(&mut self, cell: u32, generation: u64, waiter: Poller) -> Option<Waiting> {
        self.cell_mut(cell)?.withdraw(generation, |w| Poller::of(w) == Some(waiter))
    }

    /// Poisons a cell from `generation` on, but for what is complete; returns the waiters that this concerns.
    fn poison(&mut self, cell: u32, generation: u64, error: &Error) -> Vec<Waiting> {
        self.cell_mut(cell).map_or_else(Vec::new, |cell| cell.set_poison(generation, error.clone()))
    }

    /// Poisons every cell from its first incomplete generation on.
    pub fn poison_all(&mut self, error: &Error) -> Vec<Waiting> {
        let cells = (0..self.ready.len() as u32).chain((0..self.empty.len() as u32).map(|c| c | EMPTY));
        cells.flat_map(|cell| self.poison(cell, 0, error)).collect()
    }

    /// Every cell somebody waits on: its number, the generation, what has arrived, and who.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, u64, Arrivals, &Waiting)> {
        let cells = (0u32..).zip(&self.ready).chain((EMPTY..).zip(&self.empty));
        cells.flat_map(|(i, cell)| cell.waiting().map(move |(g, w)| (i, g, cell.arrivals()[0], w)))
    }
}

impl Core {
    /// Arrives at half of a pair, wherever its cell lives.
    pub fn arrive(self: &Rc<Self>, at: CellAddress, generation: u64) {
        self.counters.arrivals.add(1);
        #[cfg(feature = "plant")]
        {
            use crate::plant::Bug;
            if self.config.strikes(Bug::LostArrival) {
                return;
            }
            if self.config.strikes(Bug::DoubledArrival) {
                self.route(at, generation);
            }
        }
        self.route(at, generation);
    }

    fn route(self: &Rc<Self>, at: CellAddress, generation: u64) {
        let CellAddress { processor, object, cell } = at;
        match self.local(object) {
            Some(local) if processor == self.id => self.arrive_here(&local, cell, generation, Payload::None),
            _ => self.send(
                processor,
                Message::Arrive { object, cell, generation, payload: Payload::None, also: Also::NOTHING },
            ),
        }
    }

    /// Takes in an arrival at a cell of this processor.
    #[inline]
    pub(crate) fn arrive_here(self: &Rc<Self>, local: &Local, cell: u32, generation: u64, payload: Payload) {
        let arrived = local.bank.borrow_mut().arrive(cell, generation, payload);
        let Arrived { first, others, .. } = match arrived {
            Ok(arrived) => arrived,
            Err(source) => return self.refuse_arrival(local, cell, generation, source),
        };
        if let Some(waiting) = first {
            self.release_one(local.id, generation, waiting);
        }
        if others {
            let others = local.bank.borrow_mut().release_others(cell);
            others.into_iter().for_each(|waiting| self.release_one(local.id, generation, waiting));
        }
    }

    /// Tells a waiter of an arrival.
    #[inline]
    pub(crate) fn release_one(self: &Rc<Self>, object: ObjectId, generation: u64, waiting: Waiting) {
        match &self.trace {
            None => self.notify(waiting),
            Some(trace) => self.release_noted(trace, object, generation, waiting),
        }
    }

    /// What was refused is an error of the run, because who waits may be content with an error or not look at all.
    #[cold]
    fn refuse_arrival(self: &Rc<Self>, local: &Local, cell: u32, generation: u64, source: BarrierError) {
        let error = Error::Barrier { barrier: local.cell_name(self.id, cell), source };
        self.note_failure(&error);
        self.poison_here(local.id, cell, generation, error);
    }

    /// Asks for a generation of a cell of this processor.
    #[inline]
    pub fn wait_cell(&self, local: &Local, cell: u32, generation: u64, waiting: Waiting) -> Waited {
        local.bank.borrow_mut().wait(cell, generation, waiting)
    }

    /// Where a generation of a cell stands, without waiting for it.
    pub fn cell_state(&self, local: &Local, cell: u32, generation: u64) -> Waited {
        let bank = local.bank.borrow();
        bank.cell(cell).map_or(Waited::Registered, |c| c.state(generation).map(|e| Box::new(e.clone())))
    }

    /// Tells the cell of a pair that generations from `generation` on will never come.
    pub fn poison(self: &Rc<Self>, at: CellAddress, generation: u64, error: &Error) {
        #[cfg(feature = "plant")]
        if self.config.has(crate::plant::Bug::MissingPoison) {
            return;
        }
        let CellAddress { processor, object, cell } = at;
        if processor == self.id && self.local(object).is_some_and(|l| l.chains.is_none()) {
            // At once, as arrivals here are: those that follow must not get there before it. A chain may be running and
            // is told in its turn.
            return self.poison_here(object, cell, generation, error.clone());
        }
        self.send(processor, Message::Poison { object, cell, generation, error: Box::new(error.clone()) });
    }

    pub(crate) fn poison_here(self: &Rc<Self>, object: ObjectId, cell: u32, generation: u64, error: Error) {
        if self.is_phase(object) {
            return self.poison_phase(object, generation, error);
        }
        let Some(local) = self.local(object) else { return };
        if let Some(chains) = &local.chains {
            return chains.poison(self, cell, generation, error);
        }
        let due = local.bank.borrow_mut().poison(cell, generation, &error);
        for waiting in due {
            self.notify_poison(waiting, || error.clone());
        }
    }

    /// Tells a waiter that what it waits for will never be there. Shards and chains look for the reason themselves.
    pub fn notify_poison(self: &Rc<Self>, waiting: Waiting, error: impl FnOnce() -> Error) {
        match waiting {
            Waiting::Task(id) => self.poison_leaf(id, error()),
            other => self.notify(other),
        }
    }
}
