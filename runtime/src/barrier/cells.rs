//! The cells of edges that live on this processor.
//!
//! A cell can have several waiters. A shard that launches ahead has tasks that wait for generations g, g + 1, … of the
//! same barrier at once. The first two are kept in the cell, the others in a list beside it.

use super::{Waited, owned};
use crate::Error;
use crate::effects::Waiting;
use crate::effects::polling::Poller;
use crate::ids::EMPTY;
use crate::payload::Payload;
use maniple_barriers::{Arrivals, Arrived, BarrierCell, BarrierError};

type EdgeCell = BarrierCell<Waiting, (), Error>;

/// The cells of one object that live on this processor.
#[derive(Default)]
pub(crate) struct Bank {
    ready: Vec<EdgeCell>,
    empty: Vec<EdgeCell>,
    /// Values that have come with ready arrivals: `slots` of them for each ready cell, and none before the first value
    /// comes. An edge has as many slots as it is deep, rounded up. Value number g is in slot g mod `slots` until it is
    /// taken.
    values: Vec<Payload>,
    /// How many slots a cell has. A power of two.
    slots: usize,
}

impl Bank {
    pub fn new((ready, empty): (u32, u32), depth: u32) -> Self {
        Self {
            ready: (0..ready).map(|_| EdgeCell::of_one(0)).collect(),
            // There is room for the first `depth` values from the start.
            empty: (0..empty).map(|_| EdgeCell::of_one(depth.into())).collect(),
            values: Vec::new(),
            slots: depth.next_power_of_two() as usize,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.empty.is_empty()
    }

    #[inline]
    pub fn cell(&self, number: u32) -> Option<&EdgeCell> {
        let half = if number & EMPTY == 0 { &self.ready } else { &self.empty };
        half.get((number & !EMPTY) as usize)
    }

    #[inline]
    fn cell_mut(&mut self, number: u32) -> Option<&mut EdgeCell> {
        let half = if number & EMPTY == 0 { &mut self.ready } else { &mut self.empty };
        half.get_mut((number & !EMPTY) as usize)
    }

    #[inline]
    pub fn arrive(&mut self, cell: u32, generation: u64, payload: Payload) -> Result<Arrived<Waiting>, BarrierError> {
        let refused = BarrierError::NotAnArriver { arriver: cell, arrivers: 0 };
        let carries = !matches!(payload, Payload::None) && cell & EMPTY == 0;
        if !carries {
            return self.cell_mut(cell).ok_or(refused)?.arrive(0, generation, None);
        }
        if self.values.is_empty() {
            self.make_room();
        }
        let slot = self.slot(cell, generation);
        if self.values.get(slot).is_some_and(|value| !matches!(value, Payload::None)) {
            return Err(BarrierError::ValueNotTaken { generation });
        }
        let arrived = self.cell_mut(cell).ok_or(refused)?.arrive(0, generation, None)?;
        self.values[slot] = payload;
        Ok(arrived)
    }

    #[cold]
    fn make_room(&mut self) {
        self.values.resize_with(self.ready.len() * self.slots, Payload::default);
    }

    #[inline]
    fn slot(&self, cell: u32, generation: u64) -> usize {
        cell as usize * self.slots + (generation as usize & (self.slots - 1))
    }

    /// Takes the value that came with a complete generation of a ready cell.
    #[inline]
    pub fn take(&mut self, cell: u32, generation: u64) -> Payload {
        let slot = self.slot(cell, generation);
        self.values.get_mut(slot).map(std::mem::take).unwrap_or_default()
    }

    #[inline]
    pub fn wait(&mut self, cell: u32, generation: u64, waiting: Waiting) -> Waited {
        match self.cell_mut(cell) {
            Some(cell) => owned(cell.wait(generation, waiting)),
            None => Waited::Poisoned(Box::new(Error::misuse(
                "waiting for a barrier",
                "an end of an edge of this shard",
                format!("number {cell}"),
            ))),
        }
    }

    pub fn release_others(&mut self, cell: u32) -> Vec<Waiting> {
        self.cell_mut(cell).map_or_else(Vec::new, EdgeCell::release_others)
    }

    /// The state of a generation. Does not register a wait.
    pub fn state(&self, cell: u32, generation: u64) -> Waited {
        self.cell(cell).map_or(Waited::Registered, |cell| owned(cell.state(generation)))
    }

    /// Replaces the waiter for `generation` by `waiting` and returns the old one. Without a waiter it gives `waiting`
    /// back.
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

    /// Removes a waiter for `generation`, if there is one.
    pub fn withdraw(&mut self, cell: u32, generation: u64, waiter: Poller) -> Option<Waiting> {
        self.cell_mut(cell)?.withdraw(generation, |w| Poller::of(w) == Some(waiter))
    }

    /// Poisons a cell from `generation` on, except for generations that are complete. Returns the waiters it affects.
    pub fn poison(&mut self, cell: u32, generation: u64, error: &Error) -> Vec<Waiting> {
        self.cell_mut(cell).map_or_else(Vec::new, |cell| cell.set_poison(generation, error.clone()))
    }

    /// Poisons every cell from its first incomplete generation on.
    pub fn poison_every_cell(&mut self, error: &Error) -> Vec<Waiting> {
        let cells = (0..self.ready.len() as u32).chain((0..self.empty.len() as u32).map(|c| c | EMPTY));
        cells.flat_map(|cell| self.poison(cell, 0, error)).collect()
    }

    /// Every cell with a waiter: its number, the generation, the arrivals so far, and the waiter.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, u64, Arrivals, &Waiting)> {
        let cells = (0u32..).zip(&self.ready).chain((EMPTY..).zip(&self.empty));
        cells.flat_map(|(i, cell)| cell.waiting().map(move |(g, w)| (i, g, cell.arrivals()[0], w)))
    }
}
