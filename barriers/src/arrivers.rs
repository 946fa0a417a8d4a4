//! All arrivers of one barrier: the arrivals of each, and the number of complete generations.

use crate::{Arrivals, BarrierError};

/// The arrivals of a list of arrivers, each with a generation of its own. It takes two words an arriver, for any number
/// of generations.
#[derive(Debug, Clone)]
pub(crate) struct Arrivers {
    arrivals: Box<[Arrivals]>,
    /// Arrivers that have not arrived for generation `completed`.
    missing: u32,
    completed: u64,
    window: u64,
}

impl Arrivers {
    /// See [`BarrierCell::new`](crate::BarrierCell::of_several).
    pub fn new(arrivers: u32, window: u64) -> Self {
        let arrivals = vec![Arrivals::default(); arrivers as usize].into();
        Self { arrivals, missing: arrivers, completed: 0, window }
    }

    /// The number of complete generations.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// The arrivals of each arriver, by position in the list.
    pub fn arrivals(&self) -> &[Arrivals] {
        &self.arrivals
    }

    /// Takes in the arrival of `arriver` for `generation`.
    ///
    /// # Errors
    /// [`BarrierError::NotAnArriver`], [`BarrierError::ArrivedTwice`] or [`BarrierError::OverArrival`]. Nothing is
    /// changed then.
    pub fn arrive(&mut self, arriver: u32, generation: u64) -> Result<(), BarrierError> {
        let arrivers = self.arrivals.len() as u32;
        let of = self.arrivals.get_mut(arriver as usize).ok_or(BarrierError::NotAnArriver { arriver, arrivers })?;
        if generation.saturating_sub(self.completed) > self.window {
            let (current, window) = (self.completed, self.window);
            return Err(BarrierError::OverArrival { arriver, generation, current, window });
        }
        let was_missing = of.next() <= self.completed;
        of.arrive(arriver, generation)?;
        if !was_missing || of.next() <= self.completed {
            return Ok(());
        }
        self.missing -= 1;
        while self.missing == 0 {
            self.completed += 1;
            self.missing = self.arrivals.iter().filter(|a| a.next() <= self.completed).count() as u32;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn arrive(all: &mut Arrivers, arriver: u32, generation: u64) -> Result<u64, BarrierError> {
        let before = all.completed();
        all.arrive(arriver, generation).map(|()| all.completed() - before)
    }

    #[test]
    fn one_runs_ahead_to_the_window_and_no_further() {
        let all = &mut Arrivers::new(2, 3);
        for g in 0..4 {
            assert_eq!(arrive(all, 0, g), Ok(0));
        }
        let over = BarrierError::OverArrival { arriver: 0, generation: 4, current: 0, window: 3 };
        assert_eq!(arrive(all, 0, 4), Err(over));
        assert_eq!(all.arrivals().iter().map(Arrivals::next).collect::<Vec<_>>(), [4, 0]);
        assert_eq!(arrive(all, 1, 0), Ok(1));
        assert_eq!(arrive(all, 0, 4), Ok(0));
        assert_eq!(arrive(all, 1, 0), Err(BarrierError::ArrivedTwice { arriver: 1, generation: 0 }));
        assert_eq!(arrive(all, 2, 0), Err(BarrierError::NotAnArriver { arriver: 2, arrivers: 2 }));
        assert_eq!([3, 2, 1].map(|g| arrive(all, 1, g)), [Ok(0), Ok(0), Ok(3)]);
    }

    #[test]
    fn a_wide_window_does_not_widen_what_one_arriver_may_leave_out() {
        let all = &mut Arrivers::new(2, u64::MAX);
        (0..1000).for_each(|g| assert_eq!(arrive(all, 0, g), Ok(0)));
        assert_eq!(arrive(all, 0, 1064), Ok(0));
        let over = BarrierError::OverArrival { arriver: 0, generation: 1065, current: 1000, window: 64 };
        assert_eq!(arrive(all, 0, 1065), Err(over));
    }

    proptest! {
        /// Against the definition: a generation is complete when every arriver has arrived for it and all before it.
        #[test]
        fn completes_exactly_when_all_have_arrived(
            arrivers in 1u32..6,
            order in prop::collection::vec((0u32..6, 0u64..4), 0..300),
        ) {
            let window = 5;
            let all = &mut Arrivers::new(arrivers, window);
            let mut came = vec![BTreeSet::<u64>::new(); arrivers as usize];
            let over = |came: &[BTreeSet<u64>]| (0..).find(|g| came.iter().any(|c| !c.contains(g))).unwrap_or(0);
            for (arriver, skip) in order {
                let arriver = arriver % arrivers;
                let own = &came[arriver as usize];
                // The first missing one, or one of those after it.
                let due = (0..).filter(|g| !own.contains(g)).nth(skip as usize).unwrap_or(0);
                let before = over(&came);
                let answer = arrive(all, arriver, due);
                if due > before + window {
                    let current = before;
                    prop_assert_eq!(
                        answer,
                        Err(BarrierError::OverArrival { arriver, generation: due, current, window })
                    );
                    continue;
                }
                came[arriver as usize].insert(due);
                let now = over(&came);
                prop_assert_eq!(answer, Ok(now - before));
                prop_assert_eq!(all.completed(), now);
                prop_assert_eq!(
                    arrive(all, arriver, due),
                    Err(BarrierError::ArrivedTwice { arriver, generation: due })
                );
            }
        }
    }
}
