//! Sleeping until a word changes, with a lock and a condition variable: in models, and where there is no futex.

use super::sync::atomic::{AtomicU32, Ordering};
use super::sync::{Condvar, MODEL, Mutex};
use std::time::Instant;

/// There is no clock that all processes share: nobody learns how late a sleeper wakes.
pub fn moment() -> u64 {
    0
}

/// Wakes those that sleep on a word.
#[derive(Default)]
pub struct Alarm {
    /// Held by the sleeper from its look at the word until it sleeps. Whoever rings takes it after changing the word.
    bed: Mutex<()>,
    bell: Condvar,
}

impl Alarm {
    pub fn new() -> Self {
        Self { bed: Mutex::new(()), bell: Condvar::new() }
    }

    /// Sleeps unless `word` has another value than `awaited`, which somebody may store and then [ring](Self::ring).
    /// May return early. True if the deadline has passed.
    pub fn sleep(&self, word: &AtomicU32, awaited: u32, deadline: Option<Instant>) -> bool {
        let bed = self.bed.lock().expect("nothing panics in bed");
        if word.load(Ordering::Relaxed) != awaited {
            return false;
        }
        let Some(deadline) = deadline else {
            drop(self.bell.wait(bed).expect("nothing panics in bed"));
            return false;
        };
        // In a model, which has no clock, every deadline has passed.
        let left = deadline.saturating_duration_since(Instant::now());
        if MODEL || left.is_zero() {
            return true;
        }
        drop(self.bell.wait_timeout(bed, left));
        false
    }

    /// Ends the sleep on `word`, whose value has changed.
    pub fn ring(&self, _: &AtomicU32) {
        // Once this lock has been taken, the owner is asleep or will see the new state.
        drop(self.bed.lock().expect("nothing panics in bed"));
        self.bell.notify_one();
    }

    /// Ends the sleep of all on `word`, whose value has changed.
    #[allow(dead_code)] // Only processes wait like that. They need Linux, or a model.
    pub fn ring_for_all(&self, _: &AtomicU32) {
        drop(self.bed.lock().expect("nothing panics in bed"));
        self.bell.notify_all();
    }
}
