use crate::BarrierError;
use smallvec::SmallVec;

/// A single-assignment value with waiters `W` and errors `E`.
#[derive(Debug)]
pub struct Promise<T, W, E> {
    state: PromiseState<T, W, E>,
}

/// Who waits for a [`Promise`], in the order they came. Two waiters, the usual number, need no allocation.
pub type Waiters<W> = SmallVec<[W; 2]>;

/// Where a [`Promise`] stands.
#[derive(Debug)]
pub enum PromiseState<T, W, E> {
    /// No value yet, and who waits for it.
    Pending(Waiters<W>),
    /// The value.
    Ready(T),
    /// There will be no value, and why.
    Poisoned(E),
}

impl<T, W, E> Default for Promise<T, W, E> {
    fn default() -> Self {
        Self { state: PromiseState::Pending(SmallVec::new()) }
    }
}

impl<T, W, E> Promise<T, W, E> {
    /// The present state.
    #[inline]
    pub fn state(&self) -> &PromiseState<T, W, E> {
        &self.state
    }

    /// Takes the outcome out; afterwards the promise is as it was at first. None while there is none.
    pub fn take(&mut self) -> Option<Result<T, E>> {
        if !self.is_settled() {
            return None;
        }
        match std::mem::replace(&mut self.state, PromiseState::Pending(SmallVec::new())) {
            PromiseState::Pending(_) => None,
            PromiseState::Ready(value) => Some(Ok(value)),
            PromiseState::Poisoned(error) => Some(Err(error)),
        }
    }

    /// True once there is a value or an error.
    #[inline]
    pub fn is_settled(&self) -> bool {
        !matches!(self.state, PromiseState::Pending(_))
    }

    /// Registers a waiter unless the promise is settled; true when it was registered.
    #[must_use]
    #[inline]
    pub fn wait(&mut self, waiter: W) -> bool {
        let PromiseState::Pending(waiters) = &mut self.state else { return false };
        waiters.push(waiter);
        true
    }

    /// Who waits, in the order they came.
    pub fn waiters(&self) -> &[W] {
        if let PromiseState::Pending(waiters) = &self.state { waiters } else { &[] }
    }

    /// The same, to be replaced by others.
    pub fn waiters_mut(&mut self) -> &mut [W] {
        if let PromiseState::Pending(waiters) = &mut self.state { waiters } else { &mut [] }
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
        assert!(p.wait('c'));
        let mut told = Vec::new();
        told.extend(p.settle(Ok(4)).unwrap());
        assert_eq!(told, ['a', 'b', 'c']);
        assert_eq!(p.settle(Err("late".into())), Err(BarrierError::AssignedTwice));
        assert!(matches!(p.state(), PromiseState::Ready(4)));
        assert!(!p.wait('d') && p.waiters().is_empty());
    }
}
