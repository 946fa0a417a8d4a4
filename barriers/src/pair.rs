use crate::{Arrivals, BarrierError};

/// The cell of one half of a ready/empty pair: one arriver, one waiter, and the generations that have come so far.
///
/// `W` names whoever is to be told. The cell is plain data of three words and a `W`; what an arrival carries is kept by
/// its owner.
#[derive(Debug, Clone)]
pub struct PairCell<W> {
    arrivals: Arrivals,
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
        Self::starting_at(0)
    }
}

impl<W> PairCell<W> {
    /// A cell whose first `completed` generations are complete from the start.
    pub fn starting_at(completed: u64) -> Self {
        Self { arrivals: Arrivals::starting_at(completed), awaited: 0, waiter: None }
    }

    /// Generations complete so far: generations `0..completed` have arrived.
    pub fn completed(&self) -> u64 {
        self.arrivals.next()
    }

    /// What has arrived, complete or early.
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals
    }

    /// The generation somebody waits for, and who.
    pub fn waiting(&self) -> Option<(u64, &W)> {
        self.waiter.as_ref().map(|w| (self.awaited, w))
    }

    /// The generation somebody waits for, and who, to be replaced by another.
    pub fn waiting_mut(&mut self) -> Option<(u64, &mut W)> {
        self.waiter.as_mut().map(|w| (self.awaited, w))
    }

    /// Takes in the arrival for `generation` and returns the waiter it releases.
    ///
    /// # Errors
    /// [`BarrierError::ArrivedTwice`], [`BarrierError::OverArrival`]; the cell is then unchanged.
    #[inline]
    pub fn arrive(&mut self, generation: u64) -> Result<Option<W>, BarrierError> {
        self.arrivals.arrive(0, generation)?;
        match self.waiter {
            Some(_) if self.awaited < self.arrivals.next() => Ok(self.waiter.take()),
            _ => Ok(None),
        }
    }

    /// Asks for `generation` on behalf of `waiter`.
    ///
    /// # Errors
    /// [`BarrierError::SecondWaiter`] when somebody else waits already.
    #[inline]
    pub fn wait(&mut self, generation: u64, waiter: W) -> Result<PairWait, BarrierError> {
        if generation < self.completed() {
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
    fn an_early_arrival_releases_nobody_before_its_turn() {
        let mut cell = PairCell::starting_at(1);
        assert_eq!(cell.wait(2, 'w'), Ok(PairWait::Registered));
        assert_eq!((cell.arrive(3), cell.arrive(2), cell.completed()), (Ok(None), Ok(None), 1));
        assert_eq!((cell.arrive(1), cell.completed()), (Ok(Some('w')), 4));
        assert_eq!(cell.wait(3, 'x'), Ok(PairWait::Complete));
    }

    #[test]
    fn doubled_arrivals_and_those_beyond_the_window_are_refused() {
        let mut cell = PairCell::<()>::default();
        assert_eq!(cell.arrive(0), Ok(None));
        assert_eq!(cell.arrive(0), Err(BarrierError::ArrivedTwice { arriver: 0, generation: 0 }));
        assert_eq!(cell.arrive(65), Ok(None));
        let over = BarrierError::OverArrival { arriver: 0, generation: 66, current: 1, window: 64 };
        assert_eq!(cell.arrive(66), Err(over));
    }
}
