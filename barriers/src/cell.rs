//! The cell of a barrier of several arrivers: arrivals, the values they carry, waiters, and poison.

use crate::arrivers::Arrivers;
use crate::waits::Waits;
use crate::{Arrivals, BarrierError};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// The state of a barrier on one processor: arrivals, waiters, and the error that poisons later generations.
///
/// `W` names a waiter, `V` is a value that an arrival may carry, and `E` is the error of a generation that will never
/// complete. The cell is plain data. Its owner tells the waiters that it releases.
///
/// | | arrivers | waiters | carries |
/// |---|---|---|---|
/// | member of a combining tree, towards the root | its own arrivers and its children | none: the owner tells the parent | the values to fold |
/// | member of a combining tree, from the root | its parent | any | the folded value |
#[derive(Debug)]
pub struct BarrierCell<W, V, E> {
    all: Arrivers,
    waits: Waits<W>,
    /// The first generation that will never complete, and the error.
    poison: Option<(u64, E)>,
    carried: Carried<V>,
}

/// The values that arrivals carried, by generation from `first` on.
#[derive(Debug)]
struct Carried<V> {
    first: u64,
    values: VecDeque<SmallVec<[V; 1]>>,
}

impl<V> Carried<V> {
    fn position(&self, generation: u64) -> Option<usize> {
        let at = generation.checked_sub(self.first)? as usize;
        (at < self.values.len()).then_some(at)
    }

    /// No generation before `first` can still carry anything.
    fn add(&mut self, first: u64, generation: u64, value: V) {
        if self.values.is_empty() {
            self.first = self.first.max(first);
        }
        let Some(at) = generation.checked_sub(self.first) else { return };
        while self.values.len() as u64 <= at {
            self.values.push_back(SmallVec::new());
        }
        self.values[at as usize].push(value);
    }

    fn forget_before(&mut self, generation: u64) {
        while self.first < generation && self.values.pop_front().is_some() {
            self.first += 1;
        }
        if self.values.is_empty() {
            self.first = self.first.max(generation);
        }
    }
}

/// The effect of an arrival.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Arrived<W> {
    /// The number of generations that it completed.
    pub completed: u64,
    /// The first waiter that it releases.
    pub first: Option<W>,
    /// Whether [`BarrierCell::release_others`] has more waiters to release.
    pub others: bool,
}

/// The state of a generation for a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Waited<E> {
    /// It is complete.
    Complete,
    /// It is not complete yet. After [`BarrierCell::wait`] the waiter is registered, and the arrival that completes the
    /// generation releases it.
    Registered,
    /// It will never complete.
    Poisoned(E),
}

impl<E> Waited<E> {
    /// Changes the error.
    #[inline]
    pub fn map<F>(self, f: impl FnOnce(E) -> F) -> Waited<F> {
        match self {
            Waited::Complete => Waited::Complete,
            Waited::Registered => Waited::Registered,
            Waited::Poisoned(e) => Waited::Poisoned(f(e)),
        }
    }
}

impl<W, V, E> BarrierCell<W, V, E> {
    /// Makes a barrier of `arrivers` arrivers, each of which may run ahead of the slowest by `window` generations.
    /// However wide the window, an arrival may come at most [`Arrivals::WINDOW`] generations before its turn.
    ///
    /// With no arrivers, no generation ever completes.
    pub fn new(arrivers: u32, window: u64) -> Self {
        let carried = Carried { first: 0, values: VecDeque::new() };
        Self { all: Arrivers::new(arrivers, window), waits: Waits::default(), poison: None, carried }
    }

    /// The number of complete generations: `0..completed` are complete.
    #[inline]
    pub fn completed(&self) -> u64 {
        self.all.completed()
    }

    /// The arrivals of each arriver, by position in the list.
    pub fn arrivals(&self) -> &[Arrivals] {
        self.all.arrivals()
    }

    /// Takes in the arrival of `arriver` for `generation`, with the values that it carries. An arrival for a poisoned
    /// generation has no effect, because the waiters have been given the error.
    ///
    /// # Errors
    /// [`BarrierError::NotAnArriver`], [`BarrierError::ArrivedTwice`] or [`BarrierError::OverArrival`]. The cell is
    /// then unchanged.
    pub fn arrive(
        &mut self,
        arriver: u32,
        generation: u64,
        carries: impl IntoIterator<Item = V>,
    ) -> Result<Arrived<W>, BarrierError> {
        if self.poison(generation).is_some() {
            return Ok(Arrived { completed: 0, first: None, others: false });
        }
        let before = self.completed();
        self.all.arrive(arriver, generation)?;
        for value in carries {
            self.carried.add(before, generation, value);
        }
        let now = self.completed();
        let (first, others) = self.waits.release(now);
        Ok(Arrived { completed: now - before, first, others })
    }

    /// Takes out all waiters of complete generations, the earliest generation first.
    pub fn release_others(&mut self) -> Vec<W> {
        self.waits.release_all(self.completed())
    }

    /// Registers `waiter` for `generation`, unless that is complete or poisoned. Returns at once.
    pub fn wait(&mut self, generation: u64, waiter: W) -> Waited<&E> {
        if matches!(self.state(generation), Waited::Registered) {
            self.waits.add(generation, waiter);
        }
        self.state(generation)
    }

    /// The state of a generation.
    pub fn state(&self, generation: u64) -> Waited<&E> {
        if generation < self.completed() {
            return Waited::Complete;
        }
        self.poison(generation).map_or(Waited::Registered, Waited::Poisoned)
    }

    /// The error that poisons a generation, if there is one.
    pub fn poison(&self, generation: u64) -> Option<&E> {
        self.poison.as_ref().filter(|(from, _)| generation >= *from).map(|(_, error)| error)
    }

    /// Poisons the incomplete generations from `generation` on, and returns their waiters. A generation that is
    /// poisoned already keeps its error, so that later errors do not hide the first.
    pub fn set_poison(&mut self, generation: u64, error: E) -> Vec<W> {
        let from = generation.max(self.completed());
        if self.poison(from).is_some() {
            return Vec::new();
        }
        self.poison = Some((from, error));
        self.waits.take_from(from)
    }

    /// The waiters.
    pub fn waits(&self) -> &Waits<W> {
        &self.waits
    }

    /// The waiters, to replace or withdraw one.
    pub fn waits_mut(&mut self) -> &mut Waits<W> {
        &mut self.waits
    }

    /// The values that arrivals for a generation have carried, in the order of arrival.
    pub fn carried(&self, generation: u64) -> &[V] {
        self.carried.position(generation).map_or(&[], |at| &self.carried.values[at])
    }

    /// Takes out the values that arrivals for a generation have carried, and forgets the values of earlier generations.
    pub fn take_carried(&mut self, generation: u64) -> Vec<V> {
        let at = self.carried.position(generation);
        let taken = at.map_or_else(Vec::new, |at| std::mem::take(&mut self.carried.values[at]).into_vec());
        self.carried.forget_before(generation + 1);
        taken
    }

    /// Forgets the values carried for generations before `generation`.
    pub fn forget_before(&mut self, generation: u64) {
        self.carried.forget_before(generation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Cell = BarrierCell<char, u32, &'static str>;

    fn released(released: impl Into<Option<char>>, completed: u64) -> Result<Arrived<char>, BarrierError> {
        Ok(Arrived { completed, first: released.into(), others: false })
    }

    #[test]
    fn what_has_come_of_each_arriver_is_told() {
        let come = |cell: &Cell| -> Vec<(u64, Vec<u64>)> {
            cell.arrivals().iter().map(|a| (a.next(), a.early().collect())).collect()
        };
        let mut two = Cell::new(2, 8);
        assert_eq!(come(&two), vec![(0, vec![]); 2]);
        for (arriver, generation) in [(1, 0), (1, 2)] {
            let _ = two.arrive(arriver, generation, None).expect("in the window");
        }
        assert_eq!(come(&two), vec![(0, vec![]), (1, vec![2])]);
    }

    #[test]
    fn arrival_before_wait_and_wait_before_arrival() {
        let mut cell = Cell::new(1, 64);
        assert_eq!(cell.arrive(0, 0, None), released(None, 1));
        assert_eq!(cell.wait(0, 'a'), Waited::Complete);
        assert_eq!(cell.wait(1, 'b'), Waited::Registered);
        assert_eq!(cell.arrive(0, 1, None), released('b', 1));
        assert_eq!(cell.arrive(1, 2, None), Err(BarrierError::NotAnArriver { arriver: 1, arrivers: 1 }));
        assert_eq!(cell.completed(), 2);
    }

    #[test]
    fn a_wait_for_a_later_generation_sleeps_through_earlier_ones() {
        let mut cell = Cell::new(1, 64);
        assert_eq!(cell.wait(2, 'w'), Waited::Registered);
        assert_eq!(cell.arrive(0, 0, None), released(None, 1));
        assert_eq!(cell.arrive(0, 2, None), released(None, 0));
        assert_eq!(cell.arrive(0, 1, None), released('w', 2));
    }

    #[test]
    fn poison_takes_the_waiters_from_its_generation_on_and_stays_with_its_first_reason() {
        let mut cell = Cell::new(1, 64);
        assert_eq!(cell.arrive(0, 0, None), released(None, 1));
        for (generation, waiter) in [(2, 'a'), (1, 'b'), (3, 'c')] {
            assert_eq!(cell.wait(generation, waiter), Waited::Registered);
        }
        assert_eq!(cell.set_poison(2, "second"), ['a', 'c']);
        assert_eq!((cell.set_poison(3, "later"), cell.state(3)), (vec![], Waited::Poisoned(&"second")));
        assert_eq!(cell.wait(2, 'd'), Waited::Poisoned(&"second"));
        assert_eq!(cell.state(1), Waited::Registered);
        // What comes after the failure completes nothing.
        assert_eq!(cell.arrive(0, 2, Some(7)), released(None, 0));
        assert_eq!((cell.arrive(0, 1, None), cell.completed()), (released('b', 1), 2));
        // What is complete stays so.
        assert_eq!((cell.set_poison(0, "all"), cell.state(1)), (vec![], Waited::Complete));
        let mut cell = Cell::new(1, 64);
        assert_eq!((cell.set_poison(5, "fifth"), cell.set_poison(0, "first")), (vec![], vec![]));
        assert_eq!(cell.state(6), Waited::Poisoned(&"first"));
    }

    #[test]
    fn what_arrivals_carry_is_kept_by_generation() {
        let mut cell = Cell::new(2, 64);
        for (arriver, generation, value) in [(0, 0, 1), (0, 2, 2), (1, 2, 3), (1, 0, 4)] {
            assert!(cell.arrive(arriver, generation, [value, value + 10]).is_ok());
        }
        assert_eq!((cell.completed(), cell.carried(2), cell.carried(1)), (1, &[2, 12, 3, 13][..], &[][..]));
        assert_eq!((cell.take_carried(0), cell.take_carried(0)), (vec![1, 11, 4, 14], vec![]));
        // An arrival that is refused carries nothing.
        assert!(cell.arrive(1, 2, Some(9)).is_err());
        assert_eq!((cell.arrive(0, 1, None).unwrap().completed, cell.arrive(1, 1, None).unwrap().completed), (0, 2));
        assert_eq!(cell.carried(2).len(), 4);
        cell.forget_before(3);
        assert!(cell.carried(2).is_empty());
        assert!(cell.arrive(0, 3, Some(5)).is_ok());
        assert_eq!(cell.carried(3), [5]);
    }

    /// What a cell is asked to do.
    #[derive(Debug, Clone)]
    enum Step {
        Arrive(u32, u64),
        Wait(u64),
        Poison(u64),
        Withdraw(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0u32..3, 0u64..3).prop_map(|(arriver, ahead)| Step::Arrive(arriver, ahead)),
            4 => (0u64..4).prop_map(Step::Wait),
            1 => (0u64..6).prop_map(Step::Poison),
            1 => (0u64..4).prop_map(Step::Withdraw),
        ]
    }

    proptest! {
        /// Against the definition: sets of generations, a list of waiters, the first poison of each generation.
        #[test]
        fn does_what_its_definition_says(arrivers in 1u32..4, steps in prop::collection::vec(step(), 0..120)) {
            type Numbered = BarrierCell<usize, (u32, u64), usize>;
            let mut cell = Numbered::new(arrivers, 64);
            let mut came = vec![BTreeSet::<u64>::new(); arrivers as usize];
            let mut brought: Vec<(u32, u64)> = Vec::new();
            let mut waiters: Vec<(u64, usize)> = Vec::new();
            let mut poison: Option<(u64, usize)> = None;
            for (number, step) in steps.into_iter().enumerate() {
                let complete = |came: &[BTreeSet<u64>]| {
                    (0..).find(|g| came.iter().any(|c| !c.contains(g))).unwrap_or(u64::MAX)
                };
                let now = complete(&came);
                let state = |g: u64, now: u64, poison: Option<(u64, usize)>| match poison {
                    _ if g < now => Waited::Complete,
                    Some((from, why)) if g >= from => Waited::Poisoned(why),
                    _ => Waited::Registered,
                };
                match step {
                    Step::Arrive(arriver, skip) => {
                        let arriver = arriver % arrivers;
                        let own = &mut came[arriver as usize];
                        let due = (0..).filter(|g| !own.contains(g)).nth(skip as usize).unwrap_or(0);
                        let dropped = poison.is_some_and(|(from, _)| due >= from);
                        if !dropped {
                            own.insert(due);
                            brought.push((arriver, due));
                        }
                        let after = complete(&came);
                        let arrived = cell.arrive(arriver, due, [(arriver, due)]).unwrap();
                        prop_assert_eq!(arrived.completed, after - now);
                        let (mut told, kept) = waiters.iter().copied().partition::<Vec<_>, _>(|(g, _)| *g < after);
                        waiters = kept;
                        let mut released: Vec<usize> = arrived.first.into_iter().collect();
                        if arrived.others {
                            released.extend(cell.release_others());
                        }
                        released.sort_unstable();
                        told.sort_unstable_by_key(|(_, w)| *w);
                        prop_assert_eq!(released, told.into_iter().map(|(_, w)| w).collect::<Vec<_>>());
                        let of: Vec<_> = brought.iter().copied().filter(|(_, g)| *g == due).collect();
                        prop_assert_eq!(cell.carried(due), &of[..]);
                    }
                    Step::Wait(ahead) => {
                        let generation = (now + ahead).saturating_sub(1);
                        let expected = state(generation, now, poison);
                        prop_assert_eq!(cell.wait(generation, number).map(|e| *e), expected);
                        if expected == Waited::Registered {
                            waiters.push((generation, number));
                        }
                    }
                    Step::Poison(ahead) => {
                        let from = (now + ahead).saturating_sub(1).max(now);
                        let mut told = cell.set_poison(from, number);
                        if poison.is_none_or(|(first, _)| from < first) {
                            poison = Some((from, number));
                            let (due, kept) = waiters.iter().copied().partition::<Vec<_>, _>(|(g, _)| *g >= from);
                            waiters = kept;
                            told.sort_unstable();
                            prop_assert_eq!(told, due.into_iter().map(|(_, w)| w).collect::<Vec<_>>());
                        } else {
                            prop_assert_eq!(told, Vec::<usize>::new());
                        }
                    }
                    Step::Withdraw(ahead) => {
                        let generation = now + ahead;
                        let at = waiters.iter().position(|(g, _)| *g == generation);
                        let who = at.map(|at| waiters.remove(at).1);
                        prop_assert_eq!(cell.waits_mut().withdraw(generation, |w| Some(*w) == who), who);
                    }
                }
                let mut there: Vec<_> = cell.waits().iter().map(|(g, w)| (g, *w)).collect();
                there.sort_unstable_by_key(|(_, w)| *w);
                prop_assert_eq!(&there, &waiters);
                for generation in 0..now + 6 {
                    prop_assert_eq!(cell.state(generation).map(|e| *e), state(generation, complete(&came), poison));
                }
            }
        }
    }
}
