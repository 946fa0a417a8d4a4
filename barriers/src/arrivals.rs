//! The arrivals of one arriver, which may come out of order within a window.

use crate::BarrierError;
use serde::{Deserialize, Serialize};

/// The arrivals of one arriver: those for all generations below [`next`](Self::next), and those that came early.
///
/// Tasks that arrive may overtake each other. An arrival up to [`WINDOW`](Self::WINDOW) generations before its turn is
/// kept, and counts when all earlier ones have come. Plain data of two words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrivals {
    next: u64,
    /// Bit i: generation `next + 1 + i` has come.
    early: u64,
}

impl Arrivals {
    /// The most generations that an arrival may be ahead of the first missing one.
    pub const WINDOW: u64 = u64::BITS as u64;

    /// The state in which the arrivals for the first `generations` generations count as made, and others came early: bit
    /// i of `early` is for generation `generations` + 1 + i.
    pub fn with_early(generations: u64, early: u64) -> Self {
        Self { next: generations, early }
    }

    /// The generations whose arrivals came early, as [`with_early`](Self::with_early) takes them.
    pub fn early_bits(&self) -> u64 {
        self.early
    }

    /// The first generation whose arrival is missing.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The generations whose arrivals came early, in ascending order.
    pub fn early(&self) -> impl Iterator<Item = u64> + use<> {
        let Self { next, early } = *self;
        (0..Self::WINDOW).filter(move |i| early >> i & 1 == 1).map(move |i| next + 1 + i)
    }

    /// Takes in the arrival for `generation` if that is the next one and no arrival has come early. Otherwise it
    /// returns false and changes nothing.
    #[inline]
    pub fn arrive_in_turn(&mut self, generation: u64) -> bool {
        let in_turn = generation == self.next && self.early == 0;
        self.next += u64::from(in_turn);
        in_turn
    }

    /// Takes in the arrival for `generation`, which counts as soon as no earlier one is missing. `arriver` appears in
    /// errors only.
    ///
    /// # Errors
    /// [`BarrierError::ArrivedTwice`], or [`BarrierError::OverArrival`] beyond the window. Nothing is changed then.
    #[inline]
    pub fn arrive(&mut self, arriver: u32, generation: u64) -> Result<(), BarrierError> {
        if self.arrive_in_turn(generation) { Ok(()) } else { self.arrive_unordered(arriver, generation) }
    }

    fn arrive_unordered(&mut self, arriver: u32, generation: u64) -> Result<(), BarrierError> {
        let Some(ahead) = generation.checked_sub(self.next) else {
            return Err(BarrierError::ArrivedTwice { arriver, generation });
        };
        if ahead == 0 {
            let run = self.early.trailing_ones();
            self.next += 1 + u64::from(run);
            self.early = self.early.checked_shr(run + 1).unwrap_or(0);
            return Ok(());
        }
        if ahead > Self::WINDOW {
            let (current, window) = (self.next, Self::WINDOW);
            return Err(BarrierError::OverArrival { arriver, generation, current, window });
        }
        let bit = 1 << (ahead - 1);
        if self.early & bit != 0 {
            return Err(BarrierError::ArrivedTwice { arriver, generation });
        }
        self.early |= bit;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_whole_window_may_come_before_the_one_that_is_missing() {
        let mut a = Arrivals::with_early(3, 0);
        for g in (4..=67).rev() {
            assert_eq!((a.arrive(0, g), a.next()), (Ok(()), 3));
        }
        assert_eq!(a.early().collect::<Vec<_>>(), (4..=67).collect::<Vec<_>>());
        let over = BarrierError::OverArrival { arriver: 7, generation: 68, current: 3, window: 64 };
        assert_eq!(a.arrive(7, 68), Err(over));
        assert_eq!((a.arrive(0, 3), a.next(), a.early().count()), (Ok(()), 68, 0));
        assert_eq!((a.arrive(0, 68), a.next()), (Ok(()), 69));
    }

    #[test]
    fn no_generation_comes_twice() {
        let mut a = Arrivals::default();
        let twice = |generation| Err(BarrierError::ArrivedTwice { arriver: 2, generation });
        assert_eq!((a.arrive(2, 0), a.arrive(2, 0)), (Ok(()), twice(0)));
        assert_eq!((a.arrive(2, 2), a.arrive(2, 2)), (Ok(()), twice(2)));
        assert_eq!((a.arrive(2, 1), a.next(), a.arrive(2, 2)), (Ok(()), 3, twice(2)));
    }

    proptest! {
        /// Against the set of all generations that have come.
        #[test]
        fn counts_like_a_set(first in 0u64..4, steps in prop::collection::vec(0u64..70, 0..400)) {
            let mut a = Arrivals::with_early(first, 0);
            let mut came: BTreeSet<u64> = (0..first).collect();
            let missing = |came: &BTreeSet<u64>| (0..).find(|g| !came.contains(g)).unwrap_or(0);
            for step in steps {
                let next = missing(&came);
                // Mostly near what is due, so that the due one comes too.
                let generation = (next + step % 67).saturating_sub(step / 67);
                let answer = a.arrive(1, generation);
                if came.contains(&generation) {
                    prop_assert_eq!(answer, Err(BarrierError::ArrivedTwice { arriver: 1, generation }));
                } else if generation > next + 64 {
                    let over = BarrierError::OverArrival { arriver: 1, generation, current: next, window: 64 };
                    prop_assert_eq!(answer, Err(over));
                } else {
                    prop_assert_eq!(answer, Ok(()));
                    came.insert(generation);
                }
                let next = missing(&came);
                prop_assert_eq!(a.next(), next);
                prop_assert_eq!(a.early().collect::<Vec<_>>(), came.range(next..).copied().collect::<Vec<_>>());
            }
        }
    }
}
