use crate::{Arrivals, BarrierError};

/// The state of a phase barrier with a known list of arrivers, each with its own generation.
///
/// Memory is two words an arriver, however many generations pass. Whoever waits is kept by the owner, which learns from
/// each arrival how many generations it completed.
#[derive(Debug, Clone)]
pub struct PhaseCell {
    arrivals: Box<[Arrivals]>,
    /// Arrivers that have not arrived for generation `completed`.
    missing: u32,
    completed: u64,
    window: u64,
}

impl PhaseCell {
    /// A barrier of `arrivers` arrivers, each of which may run ahead of the slowest by `window` generations. Of one
    /// arriver, an arrival may come at most [`Arrivals::WINDOW`] generations before its turn, however wide the window.
    ///
    /// With no arrivers, nothing ever arrives.
    pub fn new(arrivers: u32, window: u64) -> Self {
        let arrivals = vec![Arrivals::default(); arrivers as usize].into();
        Self { arrivals, missing: arrivers, completed: 0, window }
    }

    /// Generations complete so far.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// What has come of each arriver, by position in the list.
    pub fn arrivals(&self) -> &[Arrivals] {
        &self.arrivals
    }

    /// Takes in the arrival of `arriver` for `generation`; returns how many generations it completed.
    ///
    /// # Errors
    /// [`BarrierError::NotAnArriver`], [`BarrierError::ArrivedTwice`], [`BarrierError::OverArrival`]; the cell is then
    /// unchanged.
    pub fn arrive(&mut self, arriver: u32, generation: u64) -> Result<u64, BarrierError> {
        let arrivers = self.arrivals.len() as u32;
        let of = self.arrivals.get_mut(arriver as usize).ok_or(BarrierError::NotAnArriver { arriver, arrivers })?;
        if generation.saturating_sub(self.completed) > self.window {
            let (current, window) = (self.completed, self.window);
            return Err(BarrierError::OverArrival { arriver, generation, current, window });
        }
        let was_missing = of.next() <= self.completed;
        of.arrive(arriver, generation)?;
        if !was_missing || of.next() <= self.completed {
            return Ok(0);
        }
        self.missing -= 1;
        let before = self.completed;
        while self.missing == 0 {
            self.completed += 1;
            self.missing = self.arrivals.iter().filter(|a| a.next() <= self.completed).count() as u32;
        }
        Ok(self.completed - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn one_runs_ahead_to_the_window_and_no_further() {
        let mut cell = PhaseCell::new(2, 3);
        for g in 0..4 {
            assert_eq!(cell.arrive(0, g), Ok(0));
        }
        let over = BarrierError::OverArrival { arriver: 0, generation: 4, current: 0, window: 3 };
        assert_eq!(cell.arrive(0, 4), Err(over));
        assert_eq!(cell.arrivals().iter().map(Arrivals::next).collect::<Vec<_>>(), [4, 0]);
        assert_eq!(cell.arrive(1, 0), Ok(1));
        assert_eq!(cell.arrive(0, 4), Ok(0));
        assert_eq!(cell.arrive(1, 0), Err(BarrierError::ArrivedTwice { arriver: 1, generation: 0 }));
        assert_eq!(cell.arrive(2, 0), Err(BarrierError::NotAnArriver { arriver: 2, arrivers: 2 }));
        assert_eq!((cell.arrive(1, 3), cell.arrive(1, 2), cell.arrive(1, 1)), (Ok(0), Ok(0), Ok(3)));
    }

    #[test]
    fn a_wide_window_does_not_widen_what_one_arriver_may_leave_out() {
        let mut cell = PhaseCell::new(2, u64::MAX);
        (0..1000).for_each(|g| assert_eq!(cell.arrive(0, g), Ok(0)));
        assert_eq!(cell.arrive(0, 1064), Ok(0));
        let over = BarrierError::OverArrival { arriver: 0, generation: 1065, current: 1000, window: 64 };
        assert_eq!(cell.arrive(0, 1065), Err(over));
    }

    proptest! {
        /// Against the definition: a generation is complete when every arriver has arrived for it and all before it.
        #[test]
        fn completes_exactly_when_all_have_arrived(
            arrivers in 1u32..6,
            order in prop::collection::vec((0u32..6, 0u64..4), 0..300),
        ) {
            let window = 5;
            let mut cell = PhaseCell::new(arrivers, window);
            let mut came = vec![BTreeSet::<u64>::new(); arrivers as usize];
            let over = |came: &[BTreeSet<u64>]| (0..).find(|g| came.iter().any(|c| !c.contains(g))).unwrap_or(0);
            for (arriver, skip) in order {
                let arriver = arriver % arrivers;
                let own = &came[arriver as usize];
                // The first missing one, or one of those after it.
                let due = (0..).filter(|g| !own.contains(g)).nth(skip as usize).unwrap_or(0);
                let before = over(&came);
                let answer = cell.arrive(arriver, due);
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
                prop_assert_eq!(cell.completed(), now);
                prop_assert_eq!(
                    cell.arrive(arriver, due),
                    Err(BarrierError::ArrivedTwice { arriver, generation: due })
                );
            }
        }
    }
}
