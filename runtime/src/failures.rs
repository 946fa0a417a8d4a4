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
    /// By number, so that the first does not depend on the order in which they came.
    untold: BTreeMap<u64, Failure>,
    /// Failures that an await has returned: what fails later because of one is nothing new.
    told: Numbers,
    /// The number of the shard's own failure, once it has one.
    own: Option<FailureNumber>,
}

/// A set of numbers, as ranges: a task that tries again and again handles one failure after the other.
#[derive(Default)]
struct Numbers {
    /// The last number of each range, by its first.
    last: BTreeMap<u64, u64>,
}

impl Numbers {
    fn have(&self, number: u64) -> bool {
        self.last.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    fn add(&mut self, number: u64) {
        if self.have(number) {
            return;
        }
        let before = self.last.range(..number).next_back().filter(|(_, last)| **last + 1 == number);
        let first = before.map_or(number, |(first, _)| *first);
        let last = number.checked_add(1).and_then(|next| self.last.remove(&next)).unwrap_or(number);
        self.last.insert(first, last);
    }
}

impl Failures {
    /// Something has failed. It may be known already, as other things may have failed for the same reason.
    #[cold]
    pub fn add(&self, failure: &Failure) {
        let list = &mut *self.0.borrow_mut();
        let number = failure.number().get();
        if !list.told.have(number) {
            list.untold.entry(number).or_insert_with(|| failure.clone());
        }
    }

    /// An await returns `error` to the program.
    #[cold]
    pub fn tell(&self, error: &Error) {
        let list = &mut *self.0.borrow_mut();
        let number = error.number().get();
        list.untold.remove(&number);
        list.told.add(number);
    }

    /// The first failure that no await has returned.
    pub fn first_untold(&self) -> Option<Failure> {
        self.0.borrow().untold.values().next().cloned()
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

#[cfg(test)]
mod tests {
    use super::Numbers;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn numbers_are_a_set_of_few_ranges(added in prop::collection::vec(prop_oneof![0u64..40, u64::MAX - 3..], 0..60)) {
            let (mut numbers, mut set) = (Numbers::default(), BTreeSet::new());
            for number in added {
                numbers.add(number);
                set.insert(number);
                let near = |n: &u64| [n.saturating_sub(1), *n, n.saturating_add(1)];
                prop_assert!(set.iter().flat_map(near).all(|n| numbers.have(n) == set.contains(&n)));
                let begins = set.iter().filter(|n| **n == 0 || !set.contains(&(**n - 1)));
                prop_assert_eq!(numbers.last.len(), begins.count());
            }
        }
    }
}
