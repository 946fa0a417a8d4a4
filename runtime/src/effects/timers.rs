//! Deadlines of this processor's shards. The driver says what time it is.

use super::polling::Poller;
use super::{Effects, Waiting, polling};
use crate::plant::Bug;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

/// The first deadline if there is none.
const NEVER: u64 = u64::MAX;

/// The waiters by deadline, in nanoseconds of [`crate::message::Wire::now`]. The second number distinguishes equal
/// deadlines.
pub(crate) struct Timers {
    set: RefCell<BTreeMap<(u64, u64), Waiting>>,
    made: Cell<u64>,
    /// The first deadline, so that a turn without timers looks at one number only.
    first: Cell<u64>,
}

impl Default for Timers {
    fn default() -> Self {
        Self { set: RefCell::default(), made: Cell::new(0), first: Cell::new(NEVER) }
    }
}

impl Timers {
    /// Changes the set of timers, and `first` with it.
    fn change<R>(&self, f: impl FnOnce(&mut BTreeMap<(u64, u64), Waiting>) -> R) -> R {
        let mut set = self.set.borrow_mut();
        let changed = f(&mut set);
        self.first.set(set.first_key_value().map_or(NEVER, |(key, _)| key.0));
        changed
    }

    /// How many timers are set.
    pub fn entries(&self) -> usize {
        self.set.borrow().len()
    }
}

/// A timer. Dropping it cancels it.
pub(crate) struct Timer<'a> {
    effects: &'a Effects,
    key: (u64, u64),
    /// The registered poller, once there is one.
    poller: Option<Poller>,
}

impl Timer<'_> {
    /// Whether the time has come. If not, the poller with `waker` will be woken then.
    pub fn is_over(&mut self, waker: &Waker) -> bool {
        if self.poller.is_some_and(|p| p.polls_with(waker)) {
            return !self.effects.timers.set.borrow().contains_key(&self.key);
        }
        // Wakers are cloned and dropped while nothing is borrowed, because they run user code.
        let waiting = polling::waiting(waker);
        let poller = Poller::of(&waiting);
        let mut set = self.effects.timers.set.borrow_mut();
        let Some(waiter) = set.get_mut(&self.key) else { return true };
        let earlier = std::mem::replace(waiter, waiting);
        drop(set);
        drop(earlier);
        self.poller = poller;
        false
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        let cancelled = self.effects.timers.change(|set| set.remove(&self.key));
        drop(cancelled);
    }
}

impl Effects {
    /// Sets a timer for the poller with `waker`; `None` if the clock ends before the deadline.
    pub fn timer(&self, limit: Duration, waker: &Waker) -> Option<Timer<'_>> {
        let limit = if self.strikes(Bug::EarlyDeadline) { limit / 2 } else { limit };
        let at = u64::try_from(limit.as_nanos()).ok().and_then(|limit| self.wire.now().checked_add(limit))?;
        let key = (at, self.timers.made.replace(self.timers.made.get() + 1));
        let waiting = polling::waiting(waker);
        let poller = Poller::of(&waiting);
        self.timers.change(|set| set.insert(key, waiting));
        Some(Timer { effects: self, key, poller })
    }

    /// When the next timer is due, if there is one.
    #[inline]
    pub fn next_deadline(&self) -> Option<u64> {
        Some(self.timers.first.get()).filter(|&at| at != NEVER)
    }

    /// The next waiter whose time has come at `now`, in nanoseconds of the run's clock.
    #[cold]
    pub fn next_due(&self, now: u64) -> Option<Waiting> {
        if self.timers.first.get() > now {
            return None;
        }
        let due = self.timers.change(BTreeMap::pop_first);
        if due.is_some() && self.strikes(Bug::LostDeadline) {
            return self.next_due(now);
        }
        due.map(|(_, waiting)| waiting)
    }

    /// How many timers are set.
    pub fn timers_set(&self) -> usize {
        self.timers.entries()
    }
}
