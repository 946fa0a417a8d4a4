use crate::BarrierError;

/// A single-assignment value with waiters `W` and errors `E`.
#[derive(Debug)]
pub struct Promise<T, W, E> {
    state: PromiseState<T, E>,
    waiters: Waiters<W>,
}

/// Who waits for a [`Promise`], in the order they came. One waiter, the usual number, needs no allocation.
#[derive(Debug, PartialEq, Eq)]
pub struct Waiters<W> {
    first: Option<W>,
    /// A vector of its own, because it is nearly always empty and then only a pointer to look at and move.
    #[allow(clippy::box_collection)]
    rest: Option<Box<Vec<W>>>,
}

impl<W> Default for Waiters<W> {
    fn default() -> Self {
        Self { first: None, rest: None }
    }
}

impl<W> Waiters<W> {
    #[inline]
    fn push(&mut self, waiter: W) {
        match self.first {
            None => self.first = Some(waiter),
            Some(_) => self.rest.get_or_insert_default().push(waiter),
        }
    }

    /// Calls `f` with each.
    #[inline]
    pub fn for_each(self, mut f: impl FnMut(W)) {
        if let Some(first) = self.first {
            f(first);
            if let Some(rest) = self.rest {
                rest.into_iter().for_each(f);
            }
        }
    }
}

/// Where a [`Promise`] stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromiseState<T, E> {
    /// No value yet.
    Pending,
    /// The value.
    Ready(T),
    /// There will be no value, and why.
    Poisoned(E),
}

impl<T, W, E> Default for Promise<T, W, E> {
    fn default() -> Self {
        Self { state: PromiseState::Pending, waiters: Waiters::default() }
    }
}

impl<T, W, E> Promise<T, W, E> {
    /// The present state.
    #[inline]
    pub fn state(&self) -> &PromiseState<T, E> {
        &self.state
    }

    /// Takes the outcome out; afterwards the promise is as it was at first, but for its waiters. None while there is none.
    pub fn take(&mut self) -> Option<Result<T, E>> {
        match std::mem::replace(&mut self.state, PromiseState::Pending) {
            PromiseState::Pending => None,
            PromiseState::Ready(value) => Some(Ok(value)),
            PromiseState::Poisoned(error) => Some(Err(error)),
        }
    }

    /// True once there is a value or an error.
    #[inline]
    pub fn is_settled(&self) -> bool {
        !matches!(self.state, PromiseState::Pending)
    }

    /// Registers a waiter unless the promise is settled; true when it was registered.
    #[must_use]
    #[inline]
    pub fn wait(&mut self, waiter: W) -> bool {
        let pending = !self.is_settled();
        if pending {
            self.waiters.push(waiter);
        }
        pending
    }

    /// How many wait.
    pub fn waiters(&self) -> usize {
        usize::from(self.waiters.first.is_some()) + self.waiters.rest.as_ref().map_or(0, |rest| rest.len())
    }

    /// Number `at` of those who wait.
    pub fn waiter(&self, at: usize) -> Option<&W> {
        if at == 0 { self.waiters.first.as_ref() } else { self.waiters.rest.as_ref()?.get(at - 1) }
    }

    /// The same, to be replaced by another.
    pub fn waiter_mut(&mut self, at: usize) -> Option<&mut W> {
        if at == 0 { self.waiters.first.as_mut() } else { self.waiters.rest.as_mut()?.get_mut(at - 1) }
    }

    /// Assigns the outcome and returns who waited, in the order they came.
    ///
    /// # Errors
    /// [`BarrierError::AssignedTwice`]; the first outcome stays.
    #[inline]
    pub fn settle(&mut self, outcome: Result<T, E>) -> Result<Waiters<W>, BarrierError> {
        if self.is_settled() {
            return Err(BarrierError::AssignedTwice);
        }
        self.state = match outcome {
            Ok(value) => PromiseState::Ready(value),
            Err(error) => PromiseState::Poisoned(error),
        };
        Ok(std::mem::take(&mut self.waiters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assigned_once_and_waiters_told_once() {
        let mut p = Promise::<i32, char, String>::default();
        assert!(p.wait('a') && p.wait('b'));
        assert!(p.wait('c'));
        let mut told = Vec::new();
        p.settle(Ok(4)).unwrap().for_each(|w| told.push(w));
        assert_eq!(told, ['a', 'b', 'c']);
        assert_eq!(p.settle(Err("late".into())), Err(BarrierError::AssignedTwice));
        assert_eq!(p.state(), &PromiseState::Ready(4));
        assert!(!p.wait('d'));
    }
}
