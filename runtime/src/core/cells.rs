//! Cells of the program's own ready/empty pairs, and arrivals at them.

use super::objects::Local;
use super::{Core, Waiting};
use crate::Error;
use crate::current::Poller;
use crate::message::{Also, Message, ObjectId};
use crate::object::{CellAddress, EMPTY};
use crate::payload::Payload;
use maniple_barriers::{Arrivals, BarrierError, PairCell, PairWait};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

/// The cells of one object that live on this processor.
#[derive(Default)]
pub(crate) struct Bank {
    ready: Vec<PairCell<Waiting>>,
    empty: Vec<PairCell<Waiting>>,
    /// What most cells have none of. One map, so that an arrival asks once whether there is anything.
    beside: HashMap<u32, Beside>,
}

/// What there is to a cell beside the cell itself.
#[derive(Default)]
struct Beside {
    /// Waiters while the cell has one already: launches that run ahead wait for later generations.
    later: Vec<(u64, Waiting)>,
    /// Generations from this one on will never complete, and why.
    poison: Option<(u64, Error)>,
}

/// A cell among those of both halves.
fn place<'b>(
    ready: &'b mut [PairCell<Waiting>],
    empty: &'b mut [PairCell<Waiting>],
    cell: u32,
) -> Option<&'b mut PairCell<Waiting>> {
    if cell & EMPTY == 0 { ready.get_mut(cell as usize) } else { empty.get_mut((cell & !EMPTY) as usize) }
}

/// Why a generation of a cell will never complete, if it is known not to.
fn poisoned(beside: &HashMap<u32, Beside>, cell: u32, generation: u64) -> Option<&Error> {
    let (from, error) = beside.get(&cell)?.poison.as_ref()?;
    (generation >= *from).then_some(error)
}

impl Bank {
    pub fn new(ready: usize, empty: usize) -> Self {
        Self {
            ready: (0..ready).map(|_| PairCell::default()).collect(),
            // A region starts empty: generation 0 of its empty barrier has arrived.
            empty: (0..empty).map(|_| PairCell::starting_at(1)).collect(),
            beside: HashMap::new(),
        }
    }

    #[inline]
    fn arrive(&mut self, cell: u32, generation: u64) -> Result<Option<Waiting>, BarrierError> {
        if !self.beside.is_empty() && poisoned(&self.beside, cell, generation).is_some() {
            // Whoever waits is told of the failure; what still comes after it completes nothing.
            return Ok(None);
        }
        match place(&mut self.ready, &mut self.empty, cell) {
            Some(c) => c.arrive(generation),
            None => Err(BarrierError::NotAnArriver { arriver: cell, arrivers: 0 }),
        }
    }

    #[inline]
    fn wait(&mut self, cell: u32, generation: u64, waiting: Waiting) -> Waited {
        let Some(c) = place(&mut self.ready, &mut self.empty, cell) else {
            return Waited::Poisoned(Box::new(Error::misuse("waiting for a barrier", "a cell of this shard", cell)));
        };
        if generation < c.completed() {
            return Waited::Complete;
        }
        if !self.beside.is_empty()
            && let Some(e) = poisoned(&self.beside, cell, generation)
        {
            return Waited::Poisoned(Box::new(e.clone()));
        }
        if c.waiting().is_some() {
            self.beside.entry(cell).or_default().later.push((generation, waiting));
        } else {
            let registered = c.wait(generation, waiting);
            debug_assert_eq!(registered, Ok(PairWait::Registered));
        }
        Waited::Registered
    }

    /// A waiter beside the cell's own whose generation is complete; when there is none, the earliest of the others moves
    /// into the cell if that is free.
    fn next_waiter(&mut self, cell: u32) -> Option<Waiting> {
        let Self { ready, empty, beside } = self;
        let Entry::Occupied(mut entry) = beside.entry(cell) else { return None };
        let place = place(ready, empty, cell)?;
        let Beside { later, poison } = entry.get_mut();
        let first = (0..later.len()).min_by_key(|&i| later[i].0)?;
        let due = later[first].0 < place.completed();
        if !due && place.waiting().is_some() {
            return None;
        }
        let (generation, waiting) = later.remove(first);
        if later.is_empty() && poison.is_none() {
            entry.remove();
        }
        if due {
            return Some(waiting);
        }
        let registered = place.wait(generation, waiting);
        debug_assert_eq!(registered, Ok(PairWait::Registered));
        None
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
        if let Some((g, w)) = place(&mut self.ready, &mut self.empty, cell).and_then(PairCell::waiting_mut)
            && is_earlier(g, w)
        {
            return Ok(std::mem::replace(w, waiting));
        }
        let later = self.beside.get_mut(&cell).map(|b| &mut b.later);
        match later.and_then(|list| list.iter_mut().find(|(g, w)| is_earlier(*g, w))) {
            Some((_, w)) => Ok(std::mem::replace(w, waiting)),
            None => Err(waiting),
        }
    }

    /// Poisons a cell from `generation` on, but for what is complete; returns the waiters that this concerns.
    fn poison(&mut self, cell: u32, generation: u64, error: &Error) -> Vec<Waiting> {
        let from = generation.max(self.completed(cell));
        let Beside { later, poison } = self.beside.entry(cell).or_default();
        // What follows from the first error is not to hide it.
        if poison.as_ref().is_some_and(|(earlier, _)| *earlier <= from) {
            return Vec::new();
        }
        *poison = Some((from, error.clone()));
        let (poisoned, keep) = std::mem::take(later).into_iter().partition::<Vec<_>, _>(|&(g, _)| g >= from);
        *later = keep;
        let mut due: Vec<Waiting> = poisoned.into_iter().map(|(_, w)| w).collect();
        if let Some(c) = place(&mut self.ready, &mut self.empty, cell)
            && c.waiting().is_some_and(|(g, _)| g >= from)
        {
            due.extend(c.cancel());
        }
        due
    }

    /// Every cell somebody waits on: its number, the generation, what has arrived, and who.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, u64, Arrivals, &Waiting)> {
        let cells = (0u32..).zip(&self.ready).chain((EMPTY..).zip(&self.empty));
        let first = cells.filter_map(|(i, c)| c.waiting().map(|(g, w)| (i, g, c.arrivals(), w)));
        let later = self.beside.iter().flat_map(|(&i, b)| b.later.iter().map(move |(g, w)| (i, *g, w)));
        first.chain(later.map(|(i, g, w)| (i, g, self.arrivals(i), w)))
    }

    fn arrivals(&self, cell: u32) -> Arrivals {
        let half = if cell & EMPTY == 0 { &self.ready } else { &self.empty };
        half.get((cell & !EMPTY) as usize).map_or_else(Arrivals::default, PairCell::arrivals)
    }

    fn completed(&self, cell: u32) -> u64 {
        self.arrivals(cell).next()
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
        let (result, more) = {
            let mut bank = local.bank.borrow_mut();
            (bank.arrive(cell, generation), !bank.beside.is_empty())
        };
        match result {
            Ok(None) => {}
            Ok(Some(waiting)) => self.notify(waiting),
            Err(source) => return self.refuse_arrival(local, cell, generation, source),
        }
        if more {
            self.notify_later(local, cell);
        }
    }

    fn notify_later(self: &Rc<Self>, local: &Local, cell: u32) {
        loop {
            let due = local.bank.borrow_mut().next_waiter(cell);
            let Some(waiting) = due else { return };
            self.notify(waiting);
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
        match poisoned(&bank.beside, cell, generation) {
            _ if generation < bank.completed(cell) => Waited::Complete,
            Some(e) => Waited::Poisoned(Box::new(e.clone())),
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
