use crate::BarrierError;
use smallvec::SmallVec;

/// A single-assignment value with waiters `W` and errors `E`.
#[derive(Debug)]
pub struct Promise<T, W, E> {
    state: PromiseState<T, E>,
    /// Hardly ever more than one.
    waiters: SmallVec<[W; 1]>,
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
        Self { state: PromiseState::Pending, waiters: SmallVec::new() }
    }
}

impl<T, W, E> Promise<T, W, E> {
    /// The present state.
    pub fn state(&self) -> &PromiseState<T, E> {
        &self.state
    }

    /// True once there is a value or an error.
    pub fn is_settled(&self) -> bool {
        !matches!(self.state, PromiseState::Pending)
    }

    /// Registers a waiter unless the promise is settled; true when it was registered.
    #[must_use]
    pub fn wait(&mut self, waiter: W) -> bool {
        let pending = !self.is_settled();
        if pending {
            self.waiters.push(waiter);
        }
        pending
    }

    /// Who waits.
    pub fn waiting(&self) -> &[W] {
        &self.waiters
    }

    /// Who waits, each to be replaced by another.
    pub fn waiting_mut(&mut self) -> &mut [W] {
        &mut self.waiters
    }

    /// Assigns the outcome and returns who waited, in the order they came.
    ///
    /// # Errors
    /// [`BarrierError::AssignedTwice`]; the first outcome stays.
    pub fn settle(&mut self, outcome: Result<T, E>) -> Result<SmallVec<[W; 1]>, BarrierError> {
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
        assert_eq!(p.settle(Ok(4)), Ok(SmallVec::from_vec(vec!['a', 'b'])));
        assert_eq!(p.settle(Err("late".into())), Err(BarrierError::AssignedTwice));
        assert_eq!(p.state(), &PromiseState::Ready(4));
        assert!(!p.wait('c'));
    }
}
