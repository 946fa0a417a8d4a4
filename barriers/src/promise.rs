//! A promise: a value that is assigned once, and its waiters.

use crate::BarrierError;
use slab::Slab;

/// A value that is assigned once, or an error in its place. `W` names a waiter, `E` is the error.
#[derive(Debug)]
pub struct Promise<T, W, E> {
    state: PromiseState<T, W, E>,
}

/// The waiters of a [`Promise`], in the order in which they came. A new one may take the place of one that was removed.
/// Two waiters, the usual number, need no allocation.
#[derive(Debug)]
pub struct Waiters<W> {
    first: Option<W>,
    second: Option<W>,
    /// Nearly always empty, and then only a pointer.
    rest: Option<Box<Slab<W>>>,
}

impl<W> Default for Waiters<W> {
    #[inline]
    fn default() -> Self {
        Self { first: None, second: None, rest: None }
    }
}

impl<W> Waiters<W> {
    /// Adds a waiter and returns its place, which it keeps.
    // Always inline: a waiter that is handed over in memory is read in other pieces than it was just written in, and the
    // processor then waits for all its earlier stores, messages to other processors among them.
    #[inline(always)]
    pub fn push(&mut self, waiter: W) -> usize {
        match (&self.first, &self.second) {
            (None, _) => {
                self.first = Some(waiter);
                0
            }
            (_, None) => {
                self.second = Some(waiter);
                1
            }
            _ => 2 + self.rest.get_or_insert_default().insert(waiter),
        }
    }

    /// Removes the waiter at a place, if there is one. A later waiter may get the place.
    pub fn remove(&mut self, place: usize) -> Option<W> {
        match place {
            0 => self.first.take(),
            1 => self.second.take(),
            place => self.rest.as_mut()?.try_remove(place - 2),
        }
    }

    /// The number of waiters.
    pub fn len(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.len());
        usize::from(self.first.is_some()) + usize::from(self.second.is_some()) + rest
    }

    /// Whether there are no waiters.
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.second.is_none() && self.rest.as_ref().is_none_or(|rest| rest.is_empty())
    }

    /// The waiter at a place, mutably.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut W> {
        match place {
            0 => self.first.as_mut(),
            1 => self.second.as_mut(),
            place => self.rest.as_mut()?.get_mut(place - 2),
        }
    }

    /// All waiters.
    pub fn iter(&self) -> impl Iterator<Item = &W> {
        self.first.iter().chain(&self.second).chain(self.rest.iter().flat_map(|rest| rest.iter().map(|(_, w)| w)))
    }

    /// Calls `f` with each waiter.
    #[inline(always)]
    pub fn for_each(mut self, mut f: impl FnMut(W)) {
        if let Some(first) = self.first.take() {
            f(first);
        }
        if let Some(second) = self.second.take() {
            f(second);
        }
        if let Some(rest) = self.rest.take() {
            each_of(*rest, f);
        }
    }
}

/// Most promises have no waiters when they go: the code that drops waiters is no part of theirs.
impl<W> Drop for Waiters<W> {
    #[inline(always)]
    fn drop(&mut self) {
        #[cold]
        #[inline(never)]
        fn drop_all<W>(_: Option<W>, _: Option<W>, _: Option<Box<Slab<W>>>) {}
        if self.first.is_some() || self.second.is_some() || self.rest.is_some() {
            drop_all(self.first.take(), self.second.take(), self.rest.take());
        }
    }
}

#[cold]
fn each_of<W>(waiters: Slab<W>, mut f: impl FnMut(W)) {
    waiters.into_iter().for_each(|(_, waiter)| f(waiter));
}

/// The state of a [`Promise`].
#[derive(Debug)]
pub enum PromiseState<T, W, E> {
    /// There is no value yet. These wait for it.
    Pending(Waiters<W>),
    /// There is a value.
    Ready(T),
    /// There is an error, and there will be no value.
    Poisoned(E),
}

impl<T, W, E> Default for Promise<T, W, E> {
    fn default() -> Self {
        Self { state: PromiseState::Pending(Waiters::default()) }
    }
}

impl<T, W, E> Promise<T, W, E> {
    /// The present state.
    #[inline]
    pub fn state(&self) -> &PromiseState<T, W, E> {
        &self.state
    }

    /// Takes the outcome out, and makes the promise pending again. `None` if there is no outcome yet.
    pub fn take(&mut self) -> Option<Result<T, E>> {
        if !self.is_settled() {
            return None;
        }
        match std::mem::replace(&mut self.state, PromiseState::Pending(Waiters::default())) {
            PromiseState::Pending(_) => None,
            PromiseState::Ready(value) => Some(Ok(value)),
            PromiseState::Poisoned(error) => Some(Err(error)),
        }
    }

    /// Makes the promise pending again, with no waiters. Mostly it has a value, which is dropped without the code for the rest.
    #[inline(always)]
    pub fn renew(&mut self) {
        #[cold]
        #[inline(never)]
        fn drop_rarely<T, W, E>(_: PromiseState<T, W, E>) {}
        match std::mem::replace(&mut self.state, PromiseState::Pending(Waiters::default())) {
            PromiseState::Ready(value) => drop(value),
            other => drop_rarely(other),
        }
    }

    /// Whether there is a value or an error.
    #[inline]
    pub fn is_settled(&self) -> bool {
        !matches!(self.state, PromiseState::Pending(_))
    }

    /// Registers a waiter unless the promise is settled. Returns whether it did.
    #[must_use]
    #[inline]
    pub fn wait(&mut self, waiter: W) -> bool {
        let PromiseState::Pending(waiters) = &mut self.state else { return false };
        waiters.push(waiter);
        true
    }

    /// The waiters, or `None` once the promise is settled.
    #[inline]
    pub fn waiters_mut(&mut self) -> Option<&mut Waiters<W>> {
        if let PromiseState::Pending(waiters) = &mut self.state { Some(waiters) } else { None }
    }

    /// Assigns a value if no more than one waits, which is the usual case. Returns that waiter.
    ///
    /// # Errors
    /// The value, if others wait too or if there is an outcome. Then nothing has changed.
    #[inline(always)]
    pub fn settle_for_one(&mut self, value: T) -> Result<Option<W>, T> {
        let PromiseState::Pending(Waiters { first, second: None, rest: None }) = &mut self.state else {
            return Err(value);
        };
        let waiter = first.take();
        // There is nothing to drop, which the compiler does not see.
        std::mem::forget(std::mem::replace(&mut self.state, PromiseState::Ready(value)));
        Ok(waiter)
    }

    /// Assigns the outcome, and returns the waiters.
    ///
    /// # Errors
    /// [`BarrierError::AssignedTwice`]. The first outcome stays.
    #[inline(always)]
    pub fn settle(&mut self, outcome: Result<T, E>) -> Result<Waiters<W>, BarrierError> {
        if self.is_settled() {
            return Err(BarrierError::AssignedTwice);
        }
        let settled = match outcome {
            Ok(value) => PromiseState::Ready(value),
            Err(error) => PromiseState::Poisoned(error),
        };
        match std::mem::replace(&mut self.state, settled) {
            PromiseState::Pending(waiters) => Ok(waiters),
            _ => unreachable!("looked at above"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assigned_once_and_waiters_told_once() {
        let mut p = Promise::<i32, char, String>::default();
        assert!(p.wait('a') && p.wait('b'));
        assert!(p.wait('c') && p.wait('d'));
        let waiters = p.waiters_mut().unwrap();
        assert_eq!((waiters.len(), waiters.get_mut(4)), (4, None));
        *waiters.get_mut(3).unwrap() = 'e';
        let mut told = Vec::new();
        p.settle(Ok(4)).unwrap().for_each(|w| told.push(w));
        assert_eq!(told, ['a', 'b', 'c', 'e']);
        assert_eq!(p.settle(Err("late".into())).unwrap_err(), BarrierError::AssignedTwice);
        assert!(matches!(p.state(), PromiseState::Ready(4)));
        assert!(!p.wait('d') && p.waiters_mut().is_none());
    }

    #[test]
    fn a_value_for_one_waiter_or_none() {
        let promise = |waiters: &[char]| {
            let mut p = Promise::<i32, char, String>::default();
            assert!(waiters.iter().all(|w| p.wait(*w)));
            p
        };
        for (waiters, told) in [(&[][..], None), (&['a'], Some('a'))] {
            let mut p = promise(waiters);
            assert_eq!(p.settle_for_one(4), Ok(told));
            assert!(matches!(p.state(), PromiseState::Ready(4)));
            assert_eq!(p.settle_for_one(5), Err(5));
            assert!(matches!(p.state(), PromiseState::Ready(4)));
        }
        for waiters in [&['a', 'b'][..], &['a', 'b', 'c']] {
            let mut p = promise(waiters);
            assert_eq!(p.settle_for_one(4), Err(4));
            let mut told = Vec::new();
            p.settle(Ok(4)).unwrap().for_each(|w| told.push(w));
            assert_eq!(told, waiters);
        }
        let mut alone = promise(&['a', 'b']);
        alone.waiters_mut().unwrap().remove(0);
        assert_eq!(alone.settle_for_one(4), Err(4), "the second waiter is still there");
    }

    /// Against a map from places to who is there, for a long mixed series of comings and goings.
    #[test]
    fn who_is_removed_leaves_room_and_the_others_keep_their_places() {
        let mut waiters = Waiters::default();
        let mut there = std::collections::BTreeMap::new();
        let mut most = 0;
        for i in 0u32..10_000 {
            // Up to six at a time, removed in an order that is not that in which they came.
            if there.len() == 6 || i % 3 == 2 {
                let at = *there.keys().nth(i as usize * 7 % there.len()).unwrap();
                assert_eq!(waiters.remove(at), there.remove(&at));
                assert_eq!((waiters.remove(at), waiters.get_mut(at)), (None, None));
            }
            let place = waiters.push(i);
            assert_eq!(there.insert(place, i), None);
            most = most.max(place);
            assert_eq!((waiters.len(), waiters.is_empty()), (there.len(), false));
        }
        assert!(most < 6, "a place beyond the most there ever were: {most}");
        let mut told = Vec::new();
        waiters.for_each(|w| told.push(w));
        assert_eq!(told, there.into_values().collect::<Vec<_>>());
    }
}
