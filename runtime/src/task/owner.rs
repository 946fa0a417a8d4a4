//! The state that a shard shares with its leaf tasks and its calls of collectives.

use crate::data::Poisons;
use crate::effects::Waiting;
use crate::effects::polling::Poller;
use crate::error::Failure;
use crate::failures::Failures;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// The state that a shard shares with its leaf tasks and its calls of collectives. The shard ends when all of them have ended.
#[derive(Default)]
#[allow(clippy::box_collection)] // There is one for each shard: it is small.
pub(crate) struct Owner {
    running: Cell<u32>,
    /// The waiters are told when fewer than this many are left. 0 if nobody waits.
    enough: Cell<u32>,
    /// The waiters for enough tasks to be over. There is rarely one.
    waiting: RefCell<Option<Box<Vec<Waiting>>>>,
    /// What has failed, once something has.
    failed: OnceCell<Box<Failed>>,
}

#[derive(Default)]
struct Failed {
    /// Failures of its tasks, calls and gangs.
    failures: Failures,
    /// The values that its tasks which failed should have written.
    poisons: Rc<Poisons>,
}

impl Owner {
    /// Its tasks use the instances that launches use, with their poisons. To be called before anything has failed.
    pub fn shares(&self, poisons: &Rc<Poisons>) {
        let failed = || Box::new(Failed { failures: Failures::default(), poisons: poisons.clone() });
        self.failed.get_or_init(failed);
    }

    fn failed(&self) -> &Failed {
        self.failed.get_or_init(Box::default)
    }

    /// Failures of its tasks, calls and gangs.
    pub fn failures(&self) -> &Failures {
        &self.failed().failures
    }

    /// The first failure that no await of the shard has returned.
    #[inline]
    pub fn first_untold(&self) -> Option<Failure> {
        self.failed.get()?.failures.first_untold()
    }

    pub fn is_over(&self) -> bool {
        self.running.get() == 0
    }

    /// How many tasks and calls have not ended.
    #[inline]
    pub fn running(&self) -> u32 {
        self.running.get()
    }

    /// Whether no more than `left` are unfinished. If not, `waiting` is told later. It may be told too early, because
    /// all waiters are told at the largest number; it then asks again.
    pub fn poll(&self, left: u32, waiting: Waiting) -> bool {
        let over = self.running.get() <= left;
        if !over {
            self.enough.set(left.saturating_add(1).max(self.enough.get()));
            let mut list = self.waiting.borrow_mut();
            let list = list.get_or_insert_default();
            // A waiter that gives up and comes again is listed once.
            let waiter = Poller::of(&waiting);
            if list.iter().all(|w| Poller::of(w) != waiter) {
                list.push(waiting);
            }
        }
        over
    }

    /// Shows each waiter.
    pub fn each_waiter(&self, each: &mut dyn FnMut(&Waiting)) {
        self.waiting.borrow().iter().flat_map(|waiting| waiting.iter()).for_each(each);
    }

    /// What tasks that failed should have written.
    #[cold]
    pub fn poisons(&self) -> &Poisons {
        &self.failed().poisons
    }

    /// The same, if there is any.
    #[inline]
    pub fn some_poison(&self) -> Option<&Poisons> {
        self.failed.get().map(|failed| &*failed.poisons).filter(|poisons| !poisons.are_none())
    }

    #[inline]
    pub fn one_more(&self) {
        self.running.set(self.running.get() + 1);
    }

    #[inline]
    pub fn one_over(&self, tell: impl FnMut(Waiting)) {
        self.running.set(self.running.get() - 1);
        if self.running.get() < self.enough.get() {
            self.enough_over(tell);
        }
    }

    #[inline(never)]
    fn enough_over(&self, mut tell: impl FnMut(Waiting)) {
        self.enough.set(0);
        // The list's memory is kept for the next time.
        let mut all = self.waiting.borrow_mut().as_mut().map(|all| std::mem::take(&mut **all)).unwrap_or_default();
        all.drain(..).for_each(&mut tell);
        if let Some(list) = self.waiting.borrow_mut().as_mut()
            && list.is_empty()
        {
            **list = all;
        }
    }
}
