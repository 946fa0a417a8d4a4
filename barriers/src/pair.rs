use crate::BarrierError;

/// The cell of one half of a ready/empty pair: one arriver, one waiter, and the generations complete so far.
///
/// `W` names whoever is to be told. The cell is plain data of three words; what an arrival carries is kept by its
/// owner.
#[derive(Debug, Clone)]
pub struct PairCell<W> {
    completed: u64,
    awaited: u64,
    waiter: Option<W>,
}

/// What [`PairCell::wait`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PairWait {
    /// The generation is complete: go on.
    Complete,
    /// The waiter is registered and will be returned by the arrival that completes the generation.
    Registered,
}

impl<W> Default for PairCell<W> {
    fn default() -> Self {
        Self { completed: 0, awaited: 0, waiter: None }
    }
}

impl<W> PairCell<W> {
    /// A cell whose first `completed` generations are complete from the start.
    pub fn starting_at(completed: u64) -> Self {
        Self { completed, ..Self::default() }
    }

    /// Generations complete so far: generations `0..completed` have arrived.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// The generation somebody waits for, and who.
    pub fn waiting(&self) -> Option<(u64, &W)> {
        self.waiter.as_ref().map(|w| (self.awaited, w))
    }

    /// The generation somebody waits for, and who, to be replaced by another.
    pub fn waiting_mut(&mut self) -> Option<(u64, &mut W)> {
        self.waiter.as_mut().map(|w| (self.awaited, w))
    }

    /// Counts the arrival for `generation` and returns the waiter it releases.
    ///
    /// # Errors
    /// [`BarrierError::OutOfOrder`] when `generation` is not the next one.
    #[inline]
    pub fn arrive(&mut self, generation: u64) -> Result<Option<W>, BarrierError> {
        if generation != self.completed {
            return Err(BarrierError::OutOfOrder { arriver: 0, expected: self.completed, came: generation });
        }
        self.completed += 1;
        match self.waiter {
            Some(_) if self.awaited == generation => Ok(self.waiter.take()),
            _ => Ok(None),
        }
    }

    /// Asks for `generation` on behalf of `waiter`.
    ///
    /// # Errors
    /// [`BarrierError::SecondWaiter`] when somebody else waits already.
    #[inline]
    pub fn wait(&mut self, generation: u64, waiter: W) -> Result<PairWait, BarrierError> {
        if generation < self.completed {
            return Ok(PairWait::Complete);
        }
        if self.waiter.is_some() {
            return Err(BarrierError::SecondWaiter { generation });
        }
        self.awaited = generation;
        self.waiter = Some(waiter);
        Ok(PairWait::Registered)
    }

    /// Takes the waiter away, whatever it waits for (poison, a deadline).
    pub fn cancel(&mut self) -> Option<W> {
        self.waiter.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrival_before_wait_and_wait_before_arrival() {
        let mut cell = PairCell::default();
        assert_eq!(cell.arrive(0), Ok(None));
        assert_eq!(cell.wait(0, 'a'), Ok(PairWait::Complete));
        assert_eq!(cell.wait(1, 'b'), Ok(PairWait::Registered));
        assert_eq!(cell.wait(2, 'c'), Err(BarrierError::SecondWaiter { generation: 2 }));
        assert_eq!(cell.arrive(1), Ok(Some('b')));
        assert_eq!(cell.completed(), 2);
    }

    #[test]
    fn a_wait_for_a_later_generation_sleeps_through_earlier_ones() {
        let mut cell = PairCell::default();
        assert_eq!(cell.wait(2, 'w'), Ok(PairWait::Registered));
        assert_eq!(cell.arrive(0), Ok(None));
        assert_eq!(cell.arrive(1), Ok(None));
        assert_eq!(cell.arrive(2), Ok(Some('w')));
    }

    #[test]
    fn lost_and_doubled_arrivals_are_seen() {
        let mut cell = PairCell::<()>::default();
        assert_eq!(cell.arrive(0), Ok(None));
        assert_eq!(cell.arrive(0), Err(BarrierError::OutOfOrder { arriver: 0, expected: 1, came: 0 }));
        assert_eq!(cell.arrive(2), Err(BarrierError::OutOfOrder { arriver: 0, expected: 1, came: 2 }));
    }
}
