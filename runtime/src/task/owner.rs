//! The state that a shard shares with its leaf tasks and its calls of collectives.

use crate::Error;
use crate::effects::Waiting;
use crate::effects::polling::Poller;
use crate::error::Failure;
use crate::failures::Failures;
use maniple_regions::{FieldId, Region};
use std::cell::{Cell, OnceCell, RefCell};

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
    /// The data that tasks which failed should have written, and that no task has written since.
    poisoned: RefCell<Vec<Poisoned>>,
}

struct Poisoned {
    region: Region,
    field: FieldId,
    error: Error,
}

impl Owner {
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

    /// Poisons the data that a task should have written.
    #[cold]
    pub fn poison(&self, region: Region, field: FieldId, error: &Error) {
        self.rewritten(region, field);
        let poisoned = Poisoned { region, field, error: error.clone() };
        self.failed().poisoned.borrow_mut().push(poisoned);
    }

    /// Whether there is any data that is poisoned.
    #[inline]
    pub fn has_poison(&self) -> bool {
        self.failed.get().is_some_and(|failed| !failed.poisoned.borrow().is_empty())
    }

    /// All values of a field of a region were written, or will be.
    #[cold]
    pub fn rewritten(&self, region: Region, field: FieldId) {
        let Some(failed) = self.failed.get() else { return };
        let left = |p: Poisoned| {
            let meets = p.field == field && p.region.overlaps(&region);
            let parts = if meets { p.region.rect.subtract(&region.rect) } else { vec![p.region.rect] };
            parts.into_iter().map(move |rect| Poisoned {
                region: Region { rect, ..p.region },
                error: p.error.clone(),
                ..p
            })
        };
        let all = failed.poisoned.take();
        failed.poisoned.replace(all.into_iter().flat_map(left).collect());
    }

    /// The error of values of a field of a region, if some are poisoned.
    #[cold]
    pub fn poison_of(&self, region: Region, field: FieldId) -> Option<Error> {
        let poisoned = self.failed.get()?.poisoned.borrow();
        let is_it = |p: &&Poisoned| p.field == field && p.region.overlaps(&region);
        poisoned.iter().rfind(is_it).map(|p| p.error.clone())
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
