//! The bank of an object: the cells of its edges, or of its chains, that live on this processor.
//!
//! A cell counts the arrivals at its halves and holds the value that came with one. The halves of an edge lie on the two
//! processors of the edge, with the task or the shard that waits there. Arrivals at an edge may overtake each other, and
//! a shard that launches ahead has tasks that wait for generations g, g + 1, … at once. A chain's cell has both halves,
//! for the one wait that the chain is in, and arrivals come one by one.

use super::Waited;
use crate::Error;
use crate::effects::Waiting;
use crate::ids::{EMPTY, ObjectId};
use crate::maps::HashMap;
use crate::payload::Payload;
use maniple_barriers::{Arrivals, BarrierError, CompactCells, Half, Waits, nearest};
use maniple_mapper::Priority;
use std::rc::Rc;

/// One cell. There are many in the chains of a large collective, so they are small.
pub(crate) type Cell = CompactCells<Payload>;

const _: () = assert!(size_of::<Cell>() <= 48 && size_of::<Option<Waiting>>() == 16);

/// The waiters that an arrival releases: the first, and whether [`Bank::release_others`] has more.
pub(crate) type Released = (Option<Waiting>, bool);

/// The cells of one object that live on this processor. The number of a cell has a bit that marks its half.
pub(crate) struct Bank {
    /// Chains: by number. Edges: first the empty halves, then the ready halves, then further places for values. An edge
    /// has as many places as it is deep, rounded up. Value number g is in place g mod `slots` until it is taken.
    pub cells: Vec<Cell>,
    pub poisons: Poisons,
    waiters: Waiters,
}

/// The halves that are poisoned, each from the given generation on.
#[derive(Default)]
pub(crate) struct Poisons(HashMap<u32, (u64, Error)>);

impl Poisons {
    /// The error of a generation that will never complete.
    #[inline(always)]
    pub fn of(&self, number: u32, generation: u64) -> Option<&Error> {
        if self.0.is_empty() { None } else { self.find(number, generation) }
    }

    #[cold]
    #[inline(never)]
    fn find(&self, number: u32, generation: u64) -> Option<&Error> {
        self.0.get(&number).filter(|(from, _)| generation >= *from).map(|(_, error)| error)
    }
}

/// For each cell of an object's chains the chain that takes the value as soon as it is there, if one does. A chain waits at one
/// cell, and may want the values of many.
#[derive(Clone)]
pub(crate) struct Wanted(Rc<[std::cell::Cell<u32>]>);

impl Wanted {
    const BY_NOBODY: u32 = u32::MAX;

    /// The chain that wants the value of a cell.
    #[inline]
    pub fn by(&self, cell: u32) -> Option<u32> {
        Some(self.0[cell as usize].get()).filter(|chain| *chain != Self::BY_NOBODY)
    }

    /// From now on a chain wants the value of a cell.
    #[inline]
    pub fn add(&self, cell: usize, chain: u32) {
        self.0[cell].set(chain);
    }

    /// The value of a cell has been taken.
    #[inline]
    pub fn remove(&self, cell: usize) {
        self.0[cell].set(Self::BY_NOBODY);
    }
}

/// Who waits at the cells of a bank.
enum Waiters {
    /// The chains of an object. Each registers its number in the cell.
    Chains {
        object: ObjectId,
        priority: Priority,
        /// The chains that want values before their turns to read them, if there have been some.
        wanted: Option<Wanted>,
    },
    Edges(Edges),
}

struct Edges {
    lines: Vec<Line>,
    /// A waiter for each place of a value, and one for each empty half, so that an arrival finds its waiter with the place
    /// of its value. A waiter here came before those of the same generation in its line.
    waiters: Vec<Option<Waiting>>,
    ready: usize,
    empty: usize,
    /// A power of two.
    slots: usize,
}

/// The early arrivals at half of an edge, and its waiters without a place.
#[derive(Default)]
struct Line {
    /// The waiters that have no place: those too far ahead of the arrivals, and those that come while there are others.
    waits: Waits<Waiting>,
    /// The [bits](Arrivals::early_bits) of arrivals that came early.
    early: u64,
}

impl Edges {
    /// The index of half of an edge. The half has a cell of its own, and uses only that cell's ready half.
    #[inline]
    fn index(&self, number: u32) -> Option<usize> {
        let at = (number & !EMPTY) as usize;
        match Half::of(number) {
            Half::Empty => (at < self.empty).then_some(at),
            Half::Ready => (at < self.ready).then_some(self.empty + at),
        }
    }

    /// The place of the value that comes with a generation of the ready half with an index. An empty half has one place.
    #[inline]
    fn place(&self, index: usize, generation: u64) -> usize {
        if index < self.empty { index } else { index + (generation as usize & (self.slots - 1)) * self.ready }
    }

    /// The number of places of the half with an index.
    #[inline]
    fn places(&self, index: usize) -> u64 {
        if index < self.empty { 1 } else { self.slots as u64 }
    }

    /// Registers a waiter for a generation that is not complete.
    #[inline]
    fn add(&mut self, index: usize, completed: u64, generation: u64, waiting: Waiting) {
        let (place, waits) = (self.place(index, generation), &mut self.lines[index].waits);
        if waits.is_empty() && generation - completed < self.places(index) && self.waiters[place].is_none() {
            self.waiters[place] = Some(waiting);
        } else {
            self.lines[index].waits.add(generation, waiting);
        }
    }

    /// All waiters of a half in one list.
    #[cold]
    fn waits(&mut self, index: usize, completed: u64) -> &mut Waits<Waiting> {
        for generation in completed..completed + self.places(index) {
            let place = self.place(index, generation);
            if let Some(waiting) = self.waiters[place].take() {
                self.lines[index].waits.add_first(generation, waiting);
            }
        }
        &mut self.lines[index].waits
    }

    #[inline(always)]
    fn arrive(
        &mut self,
        cells: &mut [Cell],
        number: u32,
        generation: u64,
        value: Option<impl FnOnce() -> Payload>,
    ) -> Result<Released, BarrierError> {
        let at = self.index(number).ok_or_else(|| no_cell(number))?;
        let (value, place) = (value.filter(|_| number & EMPTY == 0), self.place(at, generation));
        if value.is_some() && !matches!(cells[place].value, Payload::None) {
            return Err(BarrierError::ValueNotTaken { generation });
        }
        let line = &mut self.lines[at];
        let in_turn = line.early == 0 && cells[at].arrive(Half::Ready, generation).is_ok();
        let released = if !in_turn {
            self.arrive_unordered(at, &mut cells[at], generation)?
        } else if let Some(waiting) = self.waiters[place].take() {
            (Some(waiting), line.waits.is_due(generation + 1))
        } else {
            line.waits.release(generation + 1)
        };
        if let Some(value) = value {
            // There is nothing to drop.
            std::mem::forget(std::mem::replace(&mut cells[place].value, value()));
        }
        Ok(released)
    }

    /// An arrival that comes early, or that others have overtaken.
    #[cold]
    fn arrive_unordered(&mut self, at: usize, cell: &mut Cell, generation: u64) -> Result<Released, BarrierError> {
        let (before, early) = (cell.completed(Half::Ready, generation), &mut self.lines[at].early);
        let mut arrivals = Arrivals::with_early(before, *early);
        arrivals.arrive(0, generation)?;
        cell.skip(arrivals.next());
        *early = arrivals.early_bits();
        Ok(self.waits(at, before).release(arrivals.next()))
    }
}

/// The chain that waits for half of its cell, or the offer to the one that wants the value before its turn.
#[inline(always)]
fn whom_it_concerns(
    waits: Option<u32>,
    number: u32,
    (object, priority, wanted): (ObjectId, Priority, &Option<Wanted>),
) -> Option<Waiting> {
    let is_wanted = || wanted.as_ref().is_some_and(|wanted| wanted.by(number).is_some());
    match waits {
        Some(chain) => Some(Waiting::Chain { object, chain, priority }),
        None if Half::of(number) == Half::Ready && is_wanted() => {
            Some(Waiting::Offer { object, cell: number, priority })
        }
        None => None,
    }
}

#[cold]
pub(super) fn no_cell(number: u32) -> BarrierError {
    BarrierError::NotAnArriver { arriver: number & !EMPTY, arrivers: 0 }
}

fn cells(number: usize) -> Vec<Cell> {
    std::iter::repeat_with(|| Cell::new(Payload::None)).take(number).collect()
}

impl Bank {
    /// Makes the cells of an object's chains, which have a priority.
    pub fn of_chains(number: u32, object: ObjectId, priority: Priority) -> Self {
        let waiters = Waiters::Chains { object, priority, wanted: None };
        Self { cells: cells(number as usize), poisons: Poisons::default(), waiters }
    }

    /// Makes the halves of edges.
    pub fn of_edges((ready, empty): (u32, u32), depth: u32) -> Self {
        let (ready, empty, slots) = (ready as usize, empty as usize, depth.next_power_of_two() as usize);
        let mut cells = cells(empty + slots * ready);
        // The first `depth` values may be sent from the start.
        cells[..empty].iter_mut().for_each(|cell| cell.skip(depth.into()));
        let lines = std::iter::repeat_with(Line::default).take(empty + ready).collect();
        let waiters = std::iter::repeat_with(|| None).take(cells.len()).collect();
        let edges = Edges { lines, waiters, ready, empty, slots };
        Self { cells, poisons: Poisons::default(), waiters: Waiters::Edges(edges) }
    }

    /// The chains have another priority from now on.
    pub fn set_priority(&mut self, priority: Priority) {
        if let Waiters::Chains { priority: old, .. } = &mut self.waiters {
            *old = priority;
        }
    }

    /// Makes a place for each cell's chain that wants its value. A value that is wanted is offered when it comes.
    pub fn wanted(&mut self) -> Wanted {
        let all = Wanted(self.cells.iter().map(|_| std::cell::Cell::new(Wanted::BY_NOBODY)).collect());
        if let Waiters::Chains { wanted, .. } = &mut self.waiters {
            *wanted = Some(all.clone());
        }
        all
    }

    /// The half and the index of a cell's number.
    #[inline]
    fn find(&self, number: u32) -> Option<(Half, usize)> {
        match &self.waiters {
            Waiters::Chains { .. } => {
                let at = (number & !EMPTY) as usize;
                (at < self.cells.len()).then_some((Half::of(number), at))
            }
            Waiters::Edges(edges) => edges.index(number).map(|at| (Half::Ready, at)),
        }
    }

    /// Handles an arrival, perhaps with a value. One for a poisoned generation has no effect, because the waiters have been
    /// given the error.
    #[inline(always)]
    pub fn arrive(
        &mut self,
        number: u32,
        generation: u64,
        value: Option<impl FnOnce() -> Payload>,
    ) -> Result<Released, BarrierError> {
        if self.poisons.of(number, generation).is_some() {
            return Ok((None, false));
        }
        match &mut self.waiters {
            Waiters::Edges(edges) => edges.arrive(&mut self.cells, number, generation, value),
            Waiters::Chains { object, priority, wanted } => {
                let (object, priority, half) = (*object, *priority, Half::of(number));
                let cell = self.cells.get_mut((number & !EMPTY) as usize).ok_or_else(|| no_cell(number))?;
                let chain = cell.arrive(half, generation)?;
                if half == Half::Ready {
                    cell.value = value.map_or(Payload::None, |value| value());
                }
                Ok((whom_it_concerns(chain, number, (object, priority, wanted)), false))
            }
        }
    }

    /// Takes out the other waiters that an arrival at an edge releases.
    #[cold]
    pub fn release_others(&mut self, number: u32) -> Vec<Waiting> {
        let completed = self.completed(number, 0);
        self.waits(number).map_or_else(Vec::new, |waits| waits.release_all(completed))
    }

    /// The waiters at half of an edge.
    #[inline]
    pub fn waits(&mut self, number: u32) -> Option<&mut Waits<Waiting>> {
        match &mut self.waiters {
            Waiters::Chains { .. } => None,
            Waiters::Edges(edges) => {
                let at = edges.index(number)?;
                Some(edges.waits(at, self.cells[at].completed(Half::Ready, 0)))
            }
        }
    }

    /// How many generations of a cell are complete. For a chain's, `near` must be less than 2³¹ away from that.
    #[inline]
    pub fn completed(&self, number: u32, near: u64) -> u64 {
        self.find(number).map_or(0, |(half, at)| self.cells[at].completed(half, near))
    }

    /// The generation of which the low half is known.
    pub fn generation(&self, number: u32, low: u32, near: u64) -> u64 {
        nearest(low, self.completed(number, near))
    }

    /// Poisons a cell from `generation` on, except for generations that are complete or poisoned already. Returns the
    /// waiters that it affects.
    pub fn set_poison(&mut self, number: u32, generation: u64, error: &Error) -> Vec<Waiting> {
        let Some((half, at)) = self.find(number) else { return Vec::new() };
        let completed = self.completed(number, generation);
        let from = generation.max(completed);
        if self.poisons.of(number, from).is_some() {
            return Vec::new();
        }
        self.poisons.0.insert(number, (from, error.clone()));
        match &mut self.waiters {
            Waiters::Edges(edges) => edges.waits(at, completed).take_from(from),
            // It waits for the first incomplete generation, or wants its value. It finds the error itself.
            Waiters::Chains { .. } if from != completed => Vec::new(),
            Waiters::Chains { object, priority, wanted } => {
                let chain = self.cells[at].release(half);
                whom_it_concerns(chain, number, (*object, *priority, wanted)).into_iter().collect()
            }
        }
    }

    /// Poisons every half of the edges from its first incomplete generation on.
    pub fn poison_every_half(&mut self, error: &Error) -> Vec<Waiting> {
        let Waiters::Edges(edges) = &self.waiters else { return Vec::new() };
        let halves = (0..edges.ready as u32).chain((0..edges.empty as u32).map(|c| c | EMPTY));
        halves.flat_map(|number| self.set_poison(number, 0, error)).collect()
    }

    /// The place of the value that came with a complete generation of an edge. `None` if there is no such cell.
    #[inline]
    pub fn value(&mut self, number: u32, generation: u64) -> Option<&mut Payload> {
        let Waiters::Edges(edges) = &self.waiters else { return None };
        let place = edges.place(edges.index(number)?, generation);
        Some(&mut self.cells[place].value)
    }

    /// Waits for a generation of an edge. `None` if there is no such cell.
    #[inline]
    pub fn wait(&mut self, number: u32, generation: u64, waiting: Waiting) -> Option<Waited> {
        let Waiters::Edges(edges) = &mut self.waiters else { return None };
        let at = edges.index(number)?;
        let completed = self.cells[at].completed(Half::Ready, generation);
        if generation < completed {
            return Some(Waited::Complete);
        }
        if let Some(error) = self.poisons.of(number, generation) {
            return Some(Waited::Poisoned(Box::new(error.clone())));
        }
        edges.add(at, completed, generation, waiting);
        Some(Waited::Registered)
    }

    /// The state of a generation of an edge. Does not register a wait.
    #[inline]
    pub fn state(&self, number: u32, generation: u64) -> Option<Waited> {
        let Waiters::Edges(edges) = &self.waiters else { return None };
        let completed = self.cells[edges.index(number)?].completed(Half::Ready, generation);
        if generation < completed {
            return Some(Waited::Complete);
        }
        let poison = self.poisons.of(number, generation);
        Some(poison.map_or(Waited::Registered, |error| Waited::Poisoned(Box::new(error.clone()))))
    }

    /// The waiters at edges: the number of the half, the generation, the arrivals so far, and the waiter.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, u64, Arrivals, &Waiting)> {
        let edges = match &self.waiters {
            Waiters::Edges(edges) => Some(edges),
            Waiters::Chains { .. } => None,
        };
        edges.into_iter().flat_map(move |edges| {
            let ready = (0..).zip(edges.empty..edges.empty + edges.ready);
            let halves = ready.chain((EMPTY..).zip(0..edges.empty));
            halves.flat_map(move |(number, at)| {
                let (line, completed) = (&edges.lines[at], self.cells[at].completed(Half::Ready, 0));
                let arrivals = Arrivals::with_early(completed, line.early);
                let placed = (completed..completed + edges.places(at)).filter_map(move |generation| {
                    Some((generation, edges.waiters[edges.place(at, generation)].as_ref()?))
                });
                let mut all: Vec<_> = placed.chain(line.waits.iter()).collect();
                all.sort_by_key(|(generation, _)| *generation);
                all.into_iter().map(move |(generation, waiting)| (number, generation, arrivals, waiting))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_barriers::BarrierCell;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const READY: u32 = 2;
    const NONE: Option<fn() -> Payload> = None;
    const HALVES: [u32; 3] = [0, 1, EMPTY];

    fn slots(released: impl IntoIterator<Item = Waiting>) -> Vec<u32> {
        let slot = |waiting| match waiting {
            Waiting::Shard(slot) => slot,
            other => panic!("only shards wait here, and not {other:?}"),
        };
        released.into_iter().map(slot).collect()
    }

    fn told(state: Option<Waited>) -> maniple_barriers::Waited<String> {
        state.expect("the cell is there").map(|error| error.to_string())
    }

    fn stopped(number: usize) -> Error {
        Error::Stopped { what: number.to_string() }
    }

    proptest! {
        /// Against a barrier of one arriver for each half, and a map of the values that have come.
        #[test]
        fn halves_of_edges_do_what_barriers_do(
            depth in 1u32..6,
            steps in prop::collection::vec((0usize..3, 0u8..9, 0u64..4), 0..150),
        ) {
            let mut bank = Bank::of_edges((READY, 1), depth);
            let mut barriers = HALVES.map(|_| BarrierCell::<u32, (), Error>::new(1, Arrivals::WINDOW));
            (0..u64::from(depth)).for_each(|g| assert_eq!(barriers[2].arrive(0, g, None).unwrap().completed, 1));
            let mut values = BTreeMap::new();
            for (at, (half, what, ahead)) in steps.into_iter().enumerate() {
                let (number, barrier) = (HALVES[half], &mut barriers[half]);
                let generation = (barrier.completed() + ahead).saturating_sub(1);
                match what {
                    0..4 => {
                        let place = (number, generation % u64::from(depth.next_power_of_two()));
                        let poisoned = barrier.poison(generation).is_some();
                        let carries = what < 2 && !poisoned && number & EMPTY == 0;
                        let arrived = bank.arrive(number, generation, (what < 2).then_some(|| Payload::copy_of(&at.to_ne_bytes())));
                        if carries && values.contains_key(&place) {
                            prop_assert_eq!(arrived.unwrap_err(), BarrierError::ValueNotTaken { generation });
                            continue;
                        }
                        match barrier.arrive(0, generation, None) {
                            Ok(expected) => {
                                let (first, others) = arrived.unwrap();
                                prop_assert_eq!((slots(first), others), (Vec::from_iter(expected.first), expected.others));
                                if carries {
                                    values.insert(place, at);
                                }
                            }
                            Err(expected) => prop_assert_eq!(arrived.unwrap_err(), expected),
                        }
                        prop_assert_eq!(slots(bank.release_others(number)), barrier.release_others());
                    }
                    4..6 => {
                        let waiting = Waiting::Shard(at as u32);
                        let expected = barrier.wait(generation, at as u32).map(ToString::to_string);
                        prop_assert_eq!(told(bank.wait(number, generation, waiting)), expected);
                    }
                    6 => {
                        let whom = barrier.waits().iter().find(|(g, _)| *g == generation).map_or(0, |(_, w)| *w);
                        let expected = barrier.waits_mut().withdraw(generation, |w| *w == whom);
                        let is = |waiting: &Waiting| matches!(waiting, Waiting::Shard(slot) if *slot == whom);
                        let withdrawn = bank.waits(number).unwrap().withdraw(generation, is);
                        prop_assert_eq!(slots(withdrawn), Vec::from_iter(expected));
                    }
                    7 => {
                        let place = (number, generation % u64::from(depth.next_power_of_two()));
                        let taken = if number & EMPTY == 0 { values.remove(&place) } else { None };
                        let expected = taken.map_or(vec![], |value| value.to_ne_bytes().to_vec());
                        let value = bank.value(number, generation).filter(|_| number & EMPTY == 0);
                        let taken = value.map(std::mem::take).unwrap_or_default();
                        prop_assert_eq!(taken.bytes(), expected);
                    }
                    // Seldom, as nothing goes on afterwards.
                    _ if at % 3 == 0 => {
                        let told = slots(bank.set_poison(number, generation, &stopped(at)));
                        prop_assert_eq!(told, barrier.set_poison(generation, stopped(at)));
                    }
                    _ => {}
                }
                for (number, barrier) in HALVES.into_iter().zip(&barriers) {
                    prop_assert_eq!(bank.completed(number, 0), barrier.completed());
                    for generation in 0..barrier.completed() + 4 {
                        let expected = barrier.state(generation).map(ToString::to_string);
                        prop_assert_eq!(told(bank.state(number, generation)), expected);
                    }
                }
                let there = bank.waiting().map(|(n, g, arrivals, w)| (n, g, arrivals, format!("{w:?}")));
                let expected = HALVES.into_iter().zip(&barriers).flat_map(|(n, barrier)| {
                    let waits = barrier.waits().iter();
                    waits.map(move |(g, w)| (n, g, barrier.arrivals()[0], format!("{:?}", Waiting::Shard(*w))))
                });
                prop_assert_eq!(there.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn numbers_that_no_cell_has_are_refused() {
        let edges = || Bank::of_edges((2, 1), 4);
        let chains = || Bank::of_chains(3, 7, Priority::NORMAL);
        for (mut bank, number) in [(edges(), 2), (edges(), EMPTY | 1), (chains(), 3), (chains(), EMPTY | 3)] {
            let refused = BarrierError::NotAnArriver { arriver: number & !EMPTY, arrivers: 0 };
            assert_eq!(bank.arrive(number, 0, NONE).unwrap_err(), refused);
            assert!(bank.wait(number, 0, Waiting::Shard(1)).is_none() && bank.value(number, 0).is_none());
            assert!(bank.set_poison(number, 0, &stopped(1)).is_empty());
        }
    }

    #[test]
    fn a_chain_is_released_with_its_priority_and_by_poison() {
        let mut bank = Bank::of_chains(3, 7, Priority::NORMAL);
        bank.set_priority(Priority(5));
        let is_chain =
            |waiting: &Waiting| matches!(waiting, Waiting::Chain { object: 7, chain: 4, priority: Priority(5) });
        bank.cells[2].wait(Half::Ready, 4);
        let (first, others) = bank.arrive(2, 0, Some(|| Payload::copy_of(&[1]))).unwrap();
        assert!(first.as_ref().is_some_and(is_chain) && !others);
        assert_eq!(bank.cells[2].value.bytes(), [1]);
        let out_of_order = BarrierError::OutOfOrder { arriver: 0, expected: 1, came: 2 };
        assert_eq!(bank.arrive(2, 2, NONE).unwrap_err(), out_of_order);
        bank.cells[2].wait(Half::Empty, 4);
        assert!(bank.set_poison(EMPTY | 2, 3, &stopped(0)).is_empty(), "it waits for generation 1");
        assert!(bank.set_poison(EMPTY | 2, 1, &stopped(0)).iter().all(is_chain));
        assert_eq!(bank.cells[2].waiting(), None);
        assert!(bank.poisons.of(EMPTY | 2, 0).is_none() && bank.poisons.of(EMPTY | 2, 1).is_some());
        assert!(bank.arrive(EMPTY | 2, 1, NONE).unwrap().0.is_none());
    }
}
