//! The failures that a shard, an inner task or the top-level task has to learn of.
//!
//! A failure has a number, which goes on with every error that follows from it: through futures, columns, cells, calls
//! and messages. Whoever launched the thing that failed keeps the number in a list until one of its own awaits returns
//! the failure, or an error that follows from it. Whoever ends with a number in the list fails with that failure. So it
//! goes up until somebody learns of it, in the end from the run.
//!
//! Only the launcher's own awaits count. What another shard sees of the failure, and when, depends on the order of
//! events, and the outcome of a run must not.

use crate::Error;
use crate::error::{Failure, FailureNumber};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// The failures of all that one shard, inner task or top-level task has launched.
#[derive(Clone, Default)]
pub(crate) struct Failures(Rc<RefCell<List>>);

#[derive(Default)]
struct List {
    /// By number, so that the first does not depend on the order in which they came. `None` if an await has returned
    /// it: what fails later because of it is nothing new.
    all: BTreeMap<u64, Option<Failure>>,
    /// The number of the shard's own failure, once it has one.
    own: Option<FailureNumber>,
}

impl Failures {
    /// Something has failed. It may be known already, as other things may have failed for the same reason.
    #[cold]
    pub fn add(&self, failure: &Failure) {
        let all = &mut self.0.borrow_mut().all;
        all.entry(failure.number().get()).or_insert_with(|| Some(failure.clone()));
    }

    /// An await returns `error` to the program.
    #[cold]
    pub fn tell(&self, error: &Error) {
        self.0.borrow_mut().all.insert(error.number().get(), None);
    }

    /// The first failure that no await has returned.
    pub fn first_untold(&self) -> Option<Failure> {
        self.0.borrow().all.values().flatten().next().cloned()
    }

    /// The number of the shard's own failure: the same each time.
    pub fn own(&self, fresh: impl FnOnce() -> FailureNumber) -> FailureNumber {
        *self.0.borrow_mut().own.get_or_insert_with(fresh)
    }

    pub fn downgrade(&self) -> WeakFailures {
        WeakFailures(Rc::downgrade(&self.0))
    }
}

/// The failures of a launcher that may be over.
pub(crate) struct WeakFailures(Weak<RefCell<List>>);

impl WeakFailures {
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    pub fn is(&self, other: &Failures) -> bool {
        self.0.as_ptr() == Rc::as_ptr(&other.0)
    }

    pub fn first_untold(&self) -> Option<Failure> {
        Failures(self.0.upgrade()?).first_untold()
    }
}
