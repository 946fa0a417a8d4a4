//! Sleeping until a word changes, with the kernel's futex. It also works in memory that processes share.

use super::sync::atomic::AtomicU32;
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};
use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// Nanoseconds on a clock that all processes of the host share.
pub fn moment() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Wakes those that sleep on a word. It has no state, as the kernel compares the word itself.
#[derive(Default)]
pub struct Alarm;

impl Alarm {
    pub fn new() -> Self {
        Self
    }

    /// Sleeps unless `word` has another value than `awaited`, which somebody may store and then [ring](Self::ring).
    /// May return early. True if the deadline has passed.
    pub fn sleep(&self, word: &AtomicU32, awaited: u32, deadline: Option<Instant>) -> bool {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        // A time that the kernel can't express is for ever.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        futex::wait(word, Flags::empty(), awaited, left.as_ref()) == Err(Errno::TIMEDOUT)
    }

    /// Ends the sleep on `word`, whose value has changed.
    pub fn ring(&self, word: &AtomicU32) {
        // Fails only for a word that is not there.
        let _ = futex::wake(word, Flags::empty(), 1);
    }

    /// Ends the sleep of all on `word`, whose value has changed.
    pub fn ring_for_all(&self, word: &AtomicU32) {
        let _ = futex::wake(word, Flags::empty(), i32::MAX as u32);
    }
}
