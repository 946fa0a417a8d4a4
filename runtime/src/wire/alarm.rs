//! Sleeping until a word changes. On Linux that is the kernel's futex, which also works in memory that processes share.
//! Elsewhere, and in models, it is a lock and a condition variable.

use super::sync::atomic::AtomicU32;
use std::time::Instant;

pub use imp::{Alarm, moment};

#[cfg(all(target_os = "linux", not(loom)))]
mod imp {
    use super::*;
    use rustix::io::Errno;
    use rustix::thread::futex::{self, Flags, Timespec};
    use rustix::time::{ClockId, clock_gettime};

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
}

#[cfg(not(all(target_os = "linux", not(loom))))]
mod imp {
    use super::super::sync::Mutex;
    use super::super::sync::atomic::Ordering;
    use super::*;
    #[cfg(loom)]
    use loom::sync::Condvar;
    #[cfg(not(loom))]
    use std::sync::Condvar;

    /// There is no such clock: nobody learns how late a sleeper wakes.
    pub fn moment() -> u64 {
        0
    }

    /// Wakes those that sleep on a word.
    #[derive(Default)]
    pub struct Alarm {
        /// Held by the sleeper from its look at the word until it sleeps. Whoever rings takes it after changing the
        /// word.
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
            if cfg!(loom) || left.is_zero() {
                return true;
            }
            #[cfg(not(loom))]
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
        #[cfg(all(test, loom))]
        pub fn ring_for_all(&self, _: &AtomicU32) {
            drop(self.bed.lock().expect("nothing panics in bed"));
            self.bell.notify_all();
        }
    }
}
