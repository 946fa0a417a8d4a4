//! What comes before what: vector clocks over lanes.

use std::sync::{Arc, OnceLock};

/// Of each lane, how many of its accesses come before. Clones share memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VectorClock(Arc<Vec<u64>>);

impl VectorClock {
    /// Whether an access comes before.
    pub fn has(&self, stamp: AccessNumber) -> bool {
        self.of(stamp.lane) >= stamp.count
    }

    fn of(&self, lane: u32) -> u64 {
        self.0.get(lane as usize).copied().unwrap_or(0)
    }

    /// Whether all that comes before `self` comes before `other`.
    fn within(&self, other: &VectorClock) -> bool {
        self.0.len() <= other.0.len() && self.0.iter().zip(&*other.0).all(|(a, b)| a <= b)
    }

    /// Adds all that comes before `other`.
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

/// An access: its lane, and which of the lane's accesses it is, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AccessNumber {
    pub lane: u32,
    pub count: u64,
}

/// Chains of accesses, each after the one before it in its lane.
#[derive(Debug, Default)]
pub(crate) struct Lanes(Vec<Lane>);

#[derive(Debug, Default)]
struct Lane {
    /// How many accesses it has had.
    last: u64,
    /// Those that somebody may yet ask for.
    kept: u32,
}

impl Lanes {
    /// Puts the access that comes after `past` at the end of a lane whose last access comes before it, or of whose accesses
    /// none is kept: of `favourite`, if that is one, or of the first there is, or of a new one. From here on `past` contains
    /// the access itself.
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

    /// Somebody may ask for an access from now on.
    pub fn keep(&mut self, stamp: AccessNumber) {
        self.0[stamp.lane as usize].kept += 1;
    }

    /// Nobody asks for it any more: once for each [`Self::keep`].
    pub fn forget(&mut self, stamp: AccessNumber) {
        self.0[stamp.lane as usize].kept -= 1;
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Something that happens once, and what came before it, known when it does. Freed when nobody can ask any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past(Arc<OnceLock<VectorClock>>);

impl Past {
    /// It happens, after what is in `clock`. Only the first time counts.
    pub fn happens(&self, clock: &VectorClock) {
        let _ = self.0.set(clock.clone());
    }

    /// What came before it, if it has happened.
    pub fn past(&self) -> Option<&VectorClock> {
        self.0.get()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Clocks say what the transitive closure of a random graph says of the accesses that are kept, and lanes are chains
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
