//! The order of uses: vector clocks over lanes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// For each lane, how many of its uses come before. Clones share memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VectorClock(Arc<Vec<u64>>);

impl VectorClock {
    /// Whether a use comes before.
    pub fn has(&self, stamp: AccessNumber) -> bool {
        self.of(stamp.lane) >= stamp.count
    }

    fn of(&self, lane: u32) -> u64 {
        self.0.get(lane as usize).copied().unwrap_or(0)
    }

    /// Whether everything before `self` is also before `other`.
    fn within(&self, other: &VectorClock) -> bool {
        self.0.len() <= other.0.len() && self.0.iter().zip(&*other.0).all(|(a, b)| a <= b)
    }

    /// Adds everything before `other`.
    pub fn join(&mut self, other: &VectorClock) {
        if Arc::ptr_eq(&self.0, &other.0) || other.within(self) {
            return;
        }
        if self.within(other) {
            return *self = other.clone();
        }
        let own = Arc::make_mut(&mut self.0);
        own.resize(own.len().max(other.0.len()), 0);
        own.iter_mut().zip(&*other.0).for_each(|(a, b)| *a = (*a).max(*b));
    }

    fn set(&mut self, stamp: AccessNumber) {
        let (own, lane) = (Arc::make_mut(&mut self.0), stamp.lane as usize);
        own.resize(own.len().max(lane + 1), 0);
        own[lane] = stamp.count;
    }
}

/// A use: its lane, and its number in the lane, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AccessNumber {
    pub lane: u32,
    pub count: u64,
}

/// Chains of uses. Each use comes after the one before it in its lane.
#[derive(Debug, Default)]
pub(crate) struct Lanes(Vec<Lane>);

#[derive(Debug, Default)]
struct Lane {
    /// How many uses it has had.
    last: u64,
    /// How many of them may still be looked up.
    kept: u32,
}

impl Lanes {
    /// Adds a use that comes after `past` to a lane, and adds the use itself to `past`. A lane fits if its last use
    /// comes before `past`, or if none of its uses is kept. `favourite` is tried first, then the others, then a new
    /// lane is made.
    pub fn extend(&mut self, past: &mut VectorClock, favourite: u32) -> AccessNumber {
        let fits = |at: &u32| self.0.get(*at as usize).is_some_and(|lane| lane.kept == 0 || past.of(*at) == lane.last);
        let lane = Some(favourite).filter(fits).or_else(|| (0..self.0.len() as u32).find(fits));
        let lane = lane.unwrap_or_else(|| {
            self.0.push(Lane::default());
            self.0.len() as u32 - 1
        });
        let last = &mut self.0[lane as usize].last;
        *last += 1;
        let stamp = AccessNumber { lane, count: *last };
        past.set(stamp);
        stamp
    }

    /// A use may be looked up from now on.
    pub fn keep(&mut self, stamp: AccessNumber) {
        self.0[stamp.lane as usize].kept += 1;
    }

    /// A use is no longer looked up. Call it once for each [`Self::keep`].
    pub fn forget(&mut self, stamp: AccessNumber) {
        self.0[stamp.lane as usize].kept -= 1;
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// An event that happens once. When it does, it gets the clock of everything before it. It is freed with its last
/// handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past(Arc<Event>);

#[derive(Debug, Default)]
struct Event {
    clock: OnceLock<VectorClock>,
    awaited: AtomicBool,
}

impl Past {
    /// The event happens after everything in `clock`. Only the first call counts.
    pub fn happens(&self, clock: &VectorClock) {
        let _ = self.0.clock.set(clock.clone());
    }

    /// Everything before the event, if it has happened.
    pub fn past(&self) -> Option<&VectorClock> {
        self.0.clock.get()
    }

    /// The program has awaited the value.
    pub fn note_awaited(&self) {
        self.0.awaited.store(true, Ordering::Relaxed);
    }

    pub fn is_awaited(&self) -> bool {
        self.0.awaited.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Clocks agree with the transitive closure of a random graph for the uses that are kept, and lanes are chains
        /// of these.
        #[test]
        fn clocks_are_reachability(
            edges in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), 1..40),
            favourites in prop::collection::vec(0..6u32, 40),
            forgets in prop::collection::vec(prop::option::of(0..40usize), 40),
        ) {
            let n = edges.len();
            let mut lanes = Lanes::default();
            let (mut clocks, mut stamps, mut before) = (Vec::<VectorClock>::new(), Vec::new(), vec![vec![false; n]; n]);
            let mut kept = vec![true; n];
            for (i, sources) in edges.iter().enumerate() {
                let mut past = VectorClock::default();
                for source in sources.iter().filter(|_| i > 0).map(|s| s.index(i)) {
                    past.join(&clocks[source]);
                    before[i][source] = true;
                    let further = before[source].clone();
                    before[i].iter_mut().zip(further).for_each(|(b, f)| *b |= f);
                }
                stamps.push(lanes.extend(&mut past, favourites[i]));
                lanes.keep(stamps[i]);
                clocks.push(past);
                if let Some(j) = forgets[i].filter(|&j| j <= i && kept[j]) {
                    lanes.forget(stamps[j]);
                    kept[j] = false;
                }
            }
            for i in 0..n {
                for j in (0..i).filter(|&j| kept[j]) {
                    prop_assert_eq!(clocks[i].has(stamps[j]), before[i][j], "{} after {}", i, j);
                    prop_assert!(!clocks[j].has(stamps[i]));
                    prop_assert!(stamps[i].lane != stamps[j].lane || before[i][j]);
                }
            }
        }
    }
}
