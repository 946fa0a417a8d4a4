//! The values that tasks which failed should have written.

use crate::Error;
use crate::ids::ColumnKey;
use crate::maps::HashMap;
use maniple_regions::Rect;
use std::cell::RefCell;

/// The values that tasks which failed should have written, and that nothing has written since. They are known by instance, as
/// tasks on different instances may run in any order.
#[derive(Default)]
pub(crate) struct Poisons(RefCell<HashMap<ColumnKey, Vec<(Rect, Error)>>>);

impl Poisons {
    pub fn are_none(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Poisons the values in a rectangle of an instance.
    #[cold]
    pub fn add(&self, instance: ColumnKey, rect: Rect, error: &Error) {
        self.rewritten(&instance, rect);
        if !rect.is_empty() {
            self.0.borrow_mut().entry(instance).or_default().push((rect, error.clone()));
        }
    }

    /// All values in a rectangle of an instance were written, or will be.
    #[cold]
    pub fn rewritten(&self, instance: &ColumnKey, rect: Rect) {
        let mut all = self.0.borrow_mut();
        let Some(poisoned) = all.get_mut(instance) else { return };
        let left = |(of, error): (Rect, Error)| {
            let parts = if of.overlaps(&rect) { of.subtract(&rect) } else { vec![of] };
            parts.into_iter().map(move |part| (part, error.clone()))
        };
        *poisoned = std::mem::take(poisoned).into_iter().flat_map(left).collect();
        if poisoned.is_empty() {
            all.remove(instance);
        }
    }

    /// The error of values in a rectangle of an instance, if some are poisoned.
    #[cold]
    pub fn of(&self, instance: &ColumnKey, rect: Rect) -> Option<Error> {
        let all = self.0.borrow();
        all.get(instance)?.iter().rfind(|(of, _)| of.overlaps(&rect)).map(|(_, error)| error.clone())
    }
}
