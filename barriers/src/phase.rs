use crate::BarrierError;

/// The state of a phase barrier with a known list of arrivers, each with its own generation.
///
/// Memory is one counter an arriver, however many generations pass. Waiters are kept by `W`, one entry a waiter.
#[derive(Debug, Clone)]
pub struct PhaseCell<W> {
    /// Arrivals of each arriver so far.
    counts: Box<[u64]>,
    /// Arrivers that have not arrived for generation `completed`.
    missing: u32,
    completed: u64,
    window: u64,
    waiters: Vec<(u64, W)>,
}

impl<W> PhaseCell<W> {
    /// A barrier of `arrivers` arrivers, each of which may run ahead of the slowest by `window` generations.
    ///
    /// With no arrivers, nothing ever arrives.
    pub fn new(arrivers: u32, window: u64) -> Self {
        Self { counts: vec![0; arrivers as usize].into(), missing: arrivers, completed: 0, window, waiters: Vec::new() }
    }

    /// Generations complete so far.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Arrivers still missing for the first generation that is not complete, by position in the list.
    pub fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.counts).filter(|&(_, &n)| n <= self.completed).map(|(i, _)| i)
    }

    /// Arrivals of each arriver so far, by position in the list.
    pub fn arrivals(&self) -> &[u64] {
        &self.counts
    }

    /// Who waits, and for which generation.
    pub fn waiting(&self) -> &[(u64, W)] {
        &self.waiters
    }

    /// Counts arrival number `generation` of `arriver`; returns how many generations it completed.
    ///
    /// # Errors
    /// [`BarrierError::NotAnArriver`], [`BarrierError::OutOfOrder`], [`BarrierError::OverArrival`]; the cell is then
    /// unchanged.
    pub fn arrive(&mut self, arriver: u32, generation: u64) -> Result<u64, BarrierError> {
        let arrivers = self.counts.len() as u32;
        let count = self.counts.get_mut(arriver as usize).ok_or(BarrierError::NotAnArriver { arriver, arrivers })?;
        if *count != generation {
            return Err(BarrierError::OutOfOrder { arriver, expected: *count, came: generation });
        }
        if generation - self.completed > self.window {
            return Err(BarrierError::OverArrival {
                arriver,
                generation,
                current: self.completed,
                window: self.window,
            });
        }
        *count += 1;
        if generation > self.completed {
            return Ok(0);
        }
        self.missing -= 1;
        let before = self.completed;
        while self.missing == 0 {
            self.completed += 1;
            self.missing = self.counts.iter().filter(|&&n| n <= self.completed).count() as u32;
        }
        Ok(self.completed - before)
    }

    /// True when `generation` is complete; otherwise registers `waiter` for it.
    #[must_use]
    pub fn wait(&mut self, generation: u64, waiter: W) -> bool {
        if generation < self.completed {
            return true;
        }
        self.waiters.push((generation, waiter));
        false
    }

    /// Takes out the waiters of generations below `until`, in the order they came.
    pub fn release(&mut self, until: u64) -> Vec<W> {
        if self.waiters.iter().all(|&(g, _)| g >= until) {
            return Vec::new();
        }
        let (out, keep) = std::mem::take(&mut self.waiters).into_iter().partition::<Vec<_>, _>(|&(g, _)| g < until);
        self.waiters = keep;
        out.into_iter().map(|(_, w)| w).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_runs_ahead_to_the_window_and_no_further() {
        let mut cell = PhaseCell::<()>::new(2, 3);
        for g in 0..4 {
            assert_eq!(cell.arrive(0, g), Ok(0));
        }
        assert_eq!(
            cell.arrive(0, 4),
            Err(BarrierError::OverArrival { arriver: 0, generation: 4, current: 0, window: 3 })
        );
        assert_eq!(cell.missing().collect::<Vec<_>>(), [1]);
        assert_eq!(cell.arrive(1, 0), Ok(1));
        assert_eq!(cell.arrive(0, 4), Ok(0));
        assert_eq!(cell.arrive(1, 2), Err(BarrierError::OutOfOrder { arriver: 1, expected: 1, came: 2 }));
        assert_eq!(cell.arrive(2, 0), Err(BarrierError::NotAnArriver { arriver: 2, arrivers: 2 }));
    }

    proptest! {
        /// Against the definition: generation g is complete when every arriver has arrived more than g times.
        #[test]
        fn completes_exactly_when_all_have_arrived(
            arrivers in 1u32..6,
            order in prop::collection::vec(0u32..6, 0..200),
            waits in prop::collection::vec(0u64..20, 0..8),
        ) {
            let window = 5;
            let mut cell = PhaseCell::new(arrivers, window);
            let mut counts = vec![0u64; arrivers as usize];
            let mut released = Vec::new();
            for (i, &g) in waits.iter().enumerate() {
                prop_assert!(!cell.wait(g, i));
            }
            for a in order.into_iter().map(|a| a % arrivers) {
                let slowest = *counts.iter().min().unwrap();
                let answer = cell.arrive(a, counts[a as usize]);
                if counts[a as usize] > slowest + window {
                    prop_assert!(matches!(answer, Err(BarrierError::OverArrival { .. })), "{answer:?}");
                    continue;
                }
                counts[a as usize] += 1;
                let now = *counts.iter().min().unwrap();
                prop_assert_eq!(answer, Ok(now - slowest));
                prop_assert_eq!(cell.completed(), now);
                released.extend(cell.release(now));
                let mut due: Vec<_> = (0..waits.len()).filter(|&i| waits[i] < now).collect();
                let mut got = released.clone();
                due.sort_unstable();
                got.sort_unstable();
                prop_assert_eq!(got, due);
            }
        }
    }
}
