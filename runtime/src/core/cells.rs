//! Cells of the program's own ready/empty pairs, and arrivals at them.

use super::objects::Local;
use super::{Core, Waiting};
use crate::Error;
use crate::current::Poller;
use crate::message::{Message, ObjectId};
use crate::object::{CellAddress, EMPTY};
use crate::payload::Payload;
use maniple_barriers::{BarrierError, PairCell, PairWait};
use std::collections::HashMap;
use std::rc::Rc;

/// The cells of one object that live on this processor.
#[derive(Default)]
pub(crate) struct Bank {
    ready: Vec<PairCell<Waiting>>,
    empty: Vec<PairCell<Waiting>>,
    /// Waiters of cells that have one already: launches that run ahead wait for later generations.
    later: HashMap<u32, Vec<(u64, Waiting)>>,
    /// Cells whose generations from the given one on will never complete.
    poison: HashMap<u32, (u64, Error)>,
}

impl Bank {
    pub fn new(ready: usize, empty: usize) -> Self {
        Self {
            ready: (0..ready).map(|_| PairCell::default()).collect(),
            // A region starts empty: generation 0 of its empty barrier has arrived.
            empty: (0..empty).map(|_| PairCell::starting_at(1)).collect(),
            later: HashMap::new(),
            poison: HashMap::new(),
        }
    }

    fn cell(&mut self, cell: u32) -> Option<&mut PairCell<Waiting>> {
        if cell & EMPTY == 0 { self.ready.get_mut(cell as usize) } else { self.empty.get_mut((cell & !EMPTY) as usize) }
    }

    fn arrive(&mut self, cell: u32, generation: u64) -> Result<Option<Waiting>, BarrierError> {
        match self.cell(cell) {
            Some(c) => c.arrive(generation),
            None => Err(BarrierError::NotAnArriver { arriver: cell, arrivers: 0 }),
        }
    }

    /// After an arrival: moves the earliest later waiter into the cell, or returns it if its generation is complete.
    fn next_waiter(&mut self, cell: u32) -> Option<Waiting> {
        let waiters = self.later.get_mut(&cell)?;
        let free = if cell & EMPTY == 0 { &mut self.ready } else { &mut self.empty };
        let place = free.get_mut((cell & !EMPTY) as usize)?;
        if place.waiting().is_some() {
            return None;
        }
        let first = (0..waiters.len()).min_by_key(|&i| waiters[i].0)?;
        let (generation, waiting) = waiters.remove(first);
        if waiters.is_empty() {
            self.later.remove(&cell);
        }
        if generation < place.completed() {
            return Some(waiting);
        }
        let registered = place.wait(generation, waiting);
        debug_assert_eq!(registered, Ok(PairWait::Registered));
        None
    }

    /// Registers a waiter beside the one the cell has.
    fn wait_later(&mut self, cell: u32, generation: u64, waiting: Waiting) {
        self.later.entry(cell).or_default().push((generation, waiting));
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
        if let Some((g, w)) = self.cell(cell).and_then(PairCell::waiting_mut)
            && is_earlier(g, w)
        {
            return Ok(std::mem::replace(w, waiting));
        }
        match self.later.get_mut(&cell).and_then(|list| list.iter_mut().find(|(g, w)| is_earlier(*g, w))) {
            Some((_, w)) => Ok(std::mem::replace(w, waiting)),
            None => Err(waiting),
        }
    }

    /// Poisons a cell from `generation` on; returns the waiters that this concerns.
    fn poison(&mut self, cell: u32, generation: u64, error: &Error) -> Vec<Waiting> {
        let entry = self.poison.entry(cell).or_insert_with(|| (generation, error.clone()));
        if generation < entry.0 {
            *entry = (generation, error.clone());
        }
        let from = entry.0;
        let mut due: Vec<Waiting> = Vec::new();
        if let Some(later) = self.later.remove(&cell) {
            let (poisoned, keep) = later.into_iter().partition::<Vec<_>, _>(|&(g, _)| g >= from);
            due.extend(poisoned.into_iter().map(|(_, w)| w));
            if !keep.is_empty() {
                self.later.insert(cell, keep);
            }
        }
        if let Some(c) = self.cell(cell)
            && c.waiting().is_some_and(|(g, _)| g >= from)
        {
            due.extend(c.cancel());
        }
        due
    }

    /// Every cell somebody waits on: its number, the generation, generations complete, and who.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, u64, u64, &Waiting)> {
        let cells = (0u32..).zip(&self.ready).chain((EMPTY..).zip(&self.empty));
        let first = cells.filter_map(|(i, c)| c.waiting().map(|(g, w)| (i, g, c.completed(), w)));
        let later = self.later.iter().flat_map(|(&i, list)| list.iter().map(move |(g, w)| (i, *g, w)));
        first.chain(later.map(|(i, g, w)| (i, g, self.completed(i), w)))
    }

    fn completed(&self, cell: u32) -> u64 {
        let half = if cell & EMPTY == 0 { &self.ready } else { &self.empty };
        half.get((cell & !EMPTY) as usize).map_or(0, PairCell::completed)
    }

    fn poisoned(&self, cell: u32, generation: u64) -> Option<&Error> {
        self.poison.get(&cell).filter(|(from, _)| generation >= *from).map(|(_, e)| e)
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
            _ => self.send(processor, Message::Arrive { object, cell, generation, payload: Payload::None }),
        }
    }

    /// Takes in an arrival at a cell of this processor.
    #[inline]
    pub(super) fn arrive_here(self: &Rc<Self>, local: &Local, cell: u32, generation: u64) {
        let (result, later) = {
            let mut bank = local.bank.borrow_mut();
            let result = bank.arrive(cell, generation);
            (result, if bank.later.is_empty() { None } else { bank.next_waiter(cell) })
        };
        if let Some(waiting) = later {
            self.notify(waiting);
        }
        match result {
            Ok(None) => {}
            Ok(Some(waiting)) => self.notify(waiting),
            Err(source) => self.refuse_arrival(local, cell, generation, source),
        }
    }

    #[cold]
    fn refuse_arrival(self: &Rc<Self>, local: &Local, cell: u32, generation: u64, source: BarrierError) {
        let from = match &source {
            BarrierError::OutOfOrder { expected, .. } => *expected,
            _ => generation,
        };
        let error = Error::Barrier { barrier: local.cell_name(self.id, cell), source };
        self.note_failure(&error);
        self.poison_here(local.id, cell, from, error);
    }

    /// Asks for a generation of a cell of this processor.
    #[inline]
    pub fn wait_cell(&self, local: &Local, cell: u32, generation: u64, waiting: Waiting) -> Waited {
        let mut bank = local.bank.borrow_mut();
        let bank = &mut *bank;
        if !bank.poison.is_empty()
            && let Some(e) = bank.poisoned(cell, generation)
        {
            return Waited::Poisoned(Box::new(e.clone()));
        }
        let Some(c) = bank.cell(cell) else {
            return Waited::Poisoned(Box::new(Error::misuse("waiting for a barrier", "a cell of this shard", cell)));
        };
        if generation < c.completed() {
            return Waited::Complete;
        }
        if c.waiting().is_some() {
            bank.wait_later(cell, generation, waiting);
        } else {
            let registered = c.wait(generation, waiting);
            debug_assert_eq!(registered, Ok(PairWait::Registered));
        }
        Waited::Registered
    }

    /// Where a generation of a cell stands, without waiting for it.
    pub fn cell_state(&self, local: &Local, cell: u32, generation: u64) -> Waited {
        let bank = local.bank.borrow();
        match bank.poisoned(cell, generation) {
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
