//! Cells of the program's own ready/empty pairs, and arrivals at them.

use super::objects::Local;
use super::{Core, Waiting};
use crate::Error;
use crate::current::Poller;
use crate::message::{Also, Message, ObjectId};
use crate::object::{CellAddress, EMPTY};
use crate::payload::Payload;
use maniple_barriers::{Arrivals, BarrierError, PairCell, PairWait};
use std::rc::Rc;

/// The cells of one object that live on this processor.
#[derive(Default)]
pub(crate) struct Bank {
    ready: Vec<Place>,
    empty: Vec<Place>,
}

/// A cell and, once it has needed it, what there may be beside it.
struct Place {
    cell: PairCell<Waiting>,
    beside: Option<Box<Beside>>,
}

#[derive(Default)]
struct Beside {
    /// Waiters while the cell has one already: launches that run ahead wait for later generations.
    later: Vec<(u64, Waiting)>,
    /// Generations from this one on will never complete, and why.
    poison: Option<Box<(u64, Error)>>,
}

impl Place {
    fn starting_at(completed: u64) -> Self {
        Self { cell: PairCell::starting_at(completed), beside: None }
    }

    fn later(&self) -> &[(u64, Waiting)] {
        self.beside.as_ref().map_or(&[], |b| &b.later)
    }

    /// Why a generation will never complete, if it is known not to.
    #[inline]
    fn poisoned(&self, generation: u64) -> Option<&Error> {
        let (from, error) = &**self.beside.as_ref()?.poison.as_ref()?;
        (generation >= *from).then_some(error)
    }

    /// A waiter beside the cell's own whose generation is complete; when there is none, the earliest of the others moves
    /// into the cell if that is free.
    fn next_waiter(&mut self) -> Option<Waiting> {
        let later = &mut self.beside.as_mut()?.later;
        let first = (0..later.len()).min_by_key(|&i| later[i].0)?;
        let due = later[first].0 < self.cell.completed();
        if !due && self.cell.waiting().is_some() {
            return None;
        }
        let (generation, waiting) = later.remove(first);
        if due {
            return Some(waiting);
        }
        let registered = self.cell.wait(generation, waiting);
        debug_assert_eq!(registered, Ok(PairWait::Registered));
        None
    }
}

impl Bank {
    pub fn new(ready: usize, empty: usize) -> Self {
        Self {
            ready: (0..ready).map(|_| Place::starting_at(0)).collect(),
            // A region starts empty: generation 0 of its empty barrier has arrived.
            empty: (0..empty).map(|_| Place::starting_at(1)).collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.empty.is_empty()
    }

    #[inline]
    fn place(&self, cell: u32) -> Option<&Place> {
        let half = if cell & EMPTY == 0 { &self.ready } else { &self.empty };
        half.get((cell & !EMPTY) as usize)
    }

    #[inline]
    fn place_mut(&mut self, cell: u32) -> Option<&mut Place> {
        let half = if cell & EMPTY == 0 { &mut self.ready } else { &mut self.empty };
        half.get_mut((cell & !EMPTY) as usize)
    }

    /// Whom an arrival releases, and whether others may be due too.
    #[inline]
    fn arrive(&mut self, cell: u32, generation: u64) -> Result<(Option<Waiting>, bool), BarrierError> {
        let Some(place) = self.place_mut(cell) else {
            return Err(BarrierError::NotAnArriver { arriver: cell, arrivers: 0 });
        };
        if place.poisoned(generation).is_some() {
            // Whoever waits is told of the failure; what still comes after it completes nothing.
            return Ok((None, false));
        }
        let released = place.cell.arrive(generation)?;
        Ok((released, !place.later().is_empty()))
    }

    #[inline]
    fn wait(&mut self, cell: u32, generation: u64, waiting: Waiting) -> Waited {
        let Some(place) = self.place_mut(cell) else {
            return Waited::Poisoned(Box::new(Error::misuse("waiting for a barrier", "a cell of this shard", cell)));
        };
        if generation < place.cell.completed() {
            return Waited::Complete;
        }
        if let Some(e) = place.poisoned(generation) {
            return Waited::Poisoned(Box::new(e.clone()));
        }
        if place.cell.waiting().is_some() {
            let later = &mut place.beside.get_or_insert_default().later;
            if later.is_empty() {
                // Mostly it stays the only one.
                later.reserve_exact(1);
            }
            later.push((generation, waiting));
        } else {
            let registered = place.cell.wait(generation, waiting);
            debug_assert_eq!(registered, Ok(PairWait::Registered));
        }
        Waited::Registered
    }

    fn next_waiter(&mut self, cell: u32) -> Option<Waiting> {
        self.place_mut(cell)?.next_waiter()
    }

    /// Puts `waiting` in the place of a waiter for `generation`, which it returns; gives `waiting` back if there is none.
    pub fn replace(
        &mut self,
        cell: u32,
        generation: u64,
        earlier: Poller,
        waiting: Waiting,
    ) -> Result<Waiting, Waiting> {
        let is_earlier = |g: u64, w: &Waiting| g == generation && Poller::of(w) == Some(earlier);
        let Some(Place { cell, beside }) = self.place_mut(cell) else { return Err(waiting) };
        let first = cell.waiting_mut().filter(|(g, w)| is_earlier(*g, w)).map(|(_, w)| w);
        let later = beside.iter_mut().flat_map(|b| &mut b.later).filter(|(g, w)| is_earlier(*g, w)).map(|(_, w)| w);
        match first.into_iter().chain(later).next() {
            Some(w) => Ok(std::mem::replace(w, waiting)),
            None => Err(waiting),
        }
    }

    /// Takes away a waiter for `generation`, if there is one.
    pub fn withdraw(&mut self, cell: u32, generation: u64, waiter: Poller) -> Option<Waiting> {
        let is_waiter = |g: u64, w: &Waiting| g == generation && Poller::of(w) == Some(waiter);
        let Place { cell, beside } = self.place_mut(cell)?;
        if cell.waiting().is_some_and(|(g, w)| is_waiter(g, w)) {
            // Those beside it are looked at with each arrival, whether or not the cell has a waiter.
            return cell.cancel();
        }
        let later = &mut beside.as_mut()?.later;
        let at = later.iter().position(|(g, w)| is_waiter(*g, w))?;
        Some(later.remove(at).1)
    }

    /// Poisons a cell from `generation` on, but for what is complete; returns the waiters that this concerns.
    fn poison(&mut self, cell: u32, generation: u64, error: &Error) -> Vec<Waiting> {
        let Some(Place { cell, beside }) = self.place_mut(cell) else { return Vec::new() };
        let from = generation.max(cell.completed());
        let Beside { later, poison } = &mut **beside.get_or_insert_default();
        // What follows from the first error is not to hide it.
        if poison.as_ref().is_some_and(|first| first.0 <= from) {
            return Vec::new();
        }
        *poison = Some(Box::new((from, error.clone())));
        let (poisoned, keep) = std::mem::take(later).into_iter().partition::<Vec<_>, _>(|&(g, _)| g >= from);
        *later = keep;
        let mut due: Vec<Waiting> = poisoned.into_iter().map(|(_, w)| w).collect();
        if cell.waiting().is_some_and(|(g, _)| g >= from) {
            due.extend(cell.cancel());
        }
        due
    }

    /// Poisons every cell from its first incomplete generation on.
    pub fn poison_all(&mut self, error: &Error) -> Vec<Waiting> {
        let cells = (0..self.ready.len() as u32).chain((0..self.empty.len() as u32).map(|c| c | EMPTY));
        cells.flat_map(|cell| self.poison(cell, 0, error)).collect()
    }

    /// Every cell somebody waits on: its number, the generation, what has arrived, and who.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, u64, Arrivals, &Waiting)> {
        let places = (0u32..).zip(&self.ready).chain((EMPTY..).zip(&self.empty));
        places.flat_map(|(i, p)| {
            let later = p.later().iter().map(|(g, w)| (*g, w));
            p.cell.waiting().into_iter().chain(later).map(move |(g, w)| (i, g, p.cell.arrivals(), w))
        })
    }
}

/// What waiting for one generation of a cell found.
pub(crate) enum Waited {
    Complete,
    Registered,
    Poisoned(Box<Error>),
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
            Some(local) if processor == self.id => self.arrive_here(&local, cell, generation),
            _ => self.send(
                processor,
                Message::Arrive { object, cell, generation, payload: Payload::None, also: Also::NOTHING },
            ),
        }
    }

    /// Takes in an arrival at a cell of this processor.
    #[inline]
    pub(super) fn arrive_here(self: &Rc<Self>, local: &Local, cell: u32, generation: u64) {
        let arrived = local.bank.borrow_mut().arrive(cell, generation);
        let (released, more) = match arrived {
            Ok(arrived) => arrived,
            Err(source) => return self.refuse_arrival(local, cell, generation, source),
        };
        if let Some(waiting) = released {
            self.release_one(local.id, generation, waiting);
        }
        if more {
            self.notify_later(local, cell, generation);
        }
    }

    /// Tells a waiter of an arrival.
    #[inline]
    pub(super) fn release_one(self: &Rc<Self>, object: ObjectId, generation: u64, waiting: Waiting) {
        match &self.trace {
            None => self.notify(waiting),
            Some(trace) => self.release_noted(trace, object, generation, waiting),
        }
    }

    fn notify_later(self: &Rc<Self>, local: &Local, cell: u32, generation: u64) {
        loop {
            let due = local.bank.borrow_mut().next_waiter(cell);
            let Some(waiting) = due else { return };
            self.release_one(local.id, generation, waiting);
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
        match bank.place(cell) {
            Some(p) if generation < p.cell.completed() => Waited::Complete,
            Some(p) => p.poisoned(generation).map_or(Waited::Registered, |e| Waited::Poisoned(Box::new(e.clone()))),
            None => Waited::Registered,
        }
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

    pub(super) fn poison_here(self: &Rc<Self>, object: ObjectId, cell: u32, generation: u64, error: Error) {
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
