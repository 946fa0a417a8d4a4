//! How a processor with nothing to do goes to sleep, and how a sender wakes it. The protocol is in this folder's
//! README.
//!
//! The sleeper announces itself, fences and looks again. The sender pushes, fences and looks for the announcement. One
//! of the two fences comes first, so at least one of the two sees the other.

use super::alarm::{Alarm, moment};
use super::sync::atomic;
use super::sync::atomic::{AtomicU32, Ordering};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// The owner is awake, or past its last look at the state.
const AWAKE: u32 = 0;
/// The owner has announced that it sleeps unless it is told otherwise.
const PARKED: u32 = 1;
/// Somebody wants the owner awake, and the owner has not noticed yet.
const NOTIFIED: u32 = 2;

/// Why [`Parker::park`] returned.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Somebody called for the owner, before it parked or while it slept.
    Notified,
    /// The second look found something to do; the owner did not sleep.
    NotIdle,
    /// The deadline passed.
    TimedOut,
}

/// The place where one processor sleeps. It is shared with everybody who may wake it.
///
/// Only the owner calls [`park`](Parker::park). All other methods are for everybody.
#[repr(align(64))]
pub struct Parker {
    /// `AWAKE`, `PARKED` or `NOTIFIED`.
    state: AtomicU32,
    alarm: Alarm,
    /// When somebody rang in the present park; 0 if nobody has. Only a measurement, which the models leave out.
    rung: AtomicU64,
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl Parker {
    /// A parker whose owner is awake.
    #[must_use]
    pub fn new() -> Self {
        Self { state: AtomicU32::new(AWAKE), alarm: Alarm::new(), rung: AtomicU64::new(0) }
    }

    /// For the owner: announces itself, asks `still_idle` once more, and sleeps until woken or until `deadline`.
    ///
    /// `still_idle` must look at everything that a sender may have pushed before it fenced and called
    /// [`nudge`](Parker::nudge). After a return with [`Wake::Notified`], writes before the call of
    /// [`wake`](Parker::wake) are visible. If a wake came since the last park, this returns [`Wake::Notified`] at once.
    pub fn park(&self, still_idle: impl FnMut() -> bool, deadline: Option<Instant>) -> Wake {
        // Whoever has called already did not wait for the owner to wake.
        self.rung.store(0, Ordering::Relaxed);
        if !self.announce() {
            return self.get_up(Wake::Notified);
        }
        let mut still_idle = still_idle;
        if !still_idle() {
            return self.get_up(Wake::NotIdle);
        }
        self.sleep(deadline)
    }

    /// For a sender, right after a push: wakes the owner if its announcement is visible.
    ///
    /// Costs one relaxed load while the owner is awake. It may miss an announcement made at the same moment, unless
    /// there is a [`fence`] between the push and this call.
    #[inline]
    pub fn nudge(&self) {
        if self.is_parked() {
            self.wake_announced();
        }
    }

    /// For a sender, before it idles or starts something long: [`fence`] and [`nudge`](Parker::nudge). Never misses.
    #[inline]
    #[cfg(test)]
    pub fn wake_if_parked(&self) {
        fence();
        self.nudge();
    }

    /// Ends the owner's present park, or else its next one, at once.
    pub fn wake(&self) {
        if self.is_parked() {
            self.rings();
        }
        // Release: the owner takes the notice with Acquire, and then sees the caller's earlier writes.
        if self.state.swap(NOTIFIED, Ordering::Release) == PARKED {
            self.alarm.ring(&self.state);
        }
    }

    /// Whether the owner has announced itself and nobody has called for it yet. This is a hint that may be out of date.
    #[inline]
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == PARKED
    }

    /// Notes when the owner was called.
    fn rings(&self) {
        self.rung.store(moment(), Ordering::Relaxed);
    }

    /// For the owner, right after a [`park`](Self::park) in which it was notified: how long ago it was called. 0 if
    /// that was before the park.
    pub fn lateness(&self) -> Duration {
        match self.rung.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            rung => Duration::from_nanos(moment().saturating_sub(rung)),
        }
    }

    /// False if there is a notice already, or an announcement left by a `still_idle` that panicked.
    fn announce(&self) -> bool {
        let announced = self.state.compare_exchange(AWAKE, PARKED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // Before the second look at the rings: README, rule 9.
        fence();
        announced
    }

    fn sleep(&self, deadline: Option<Instant>) -> Wake {
        // The state leaves PARKED before the alarm rings, and the alarm compares it before it lets the owner sleep. So a
        // notice is seen here or followed by an alarm. A sleep that ends early goes round again.
        while self.is_parked() {
            if self.alarm.sleep(&self.state, PARKED, deadline) {
                return self.get_up(Wake::TimedOut);
            }
        }
        self.get_up(Wake::Notified)
    }

    /// Withdraws the announcement and takes any notice with it. A notice outranks `otherwise`.
    fn get_up(&self, otherwise: Wake) -> Wake {
        // A swap, not a store: a notice of this moment must either be taken, with its writer's earlier writes, or stay.
        if self.state.swap(AWAKE, Ordering::Acquire) == NOTIFIED { Wake::Notified } else { otherwise }
    }

    /// Wakes the owner, unless it has withdrawn its announcement. Then it is awake and will look again before it
    /// sleeps.
    #[cold]
    fn wake_announced(&self) {
        self.rings();
        let called = self.state.compare_exchange(PARKED, NOTIFIED, Ordering::Release, Ordering::Relaxed);
        if called.is_ok() {
            self.alarm.ring(&self.state);
        }
    }
}

/// For a sender: after this, every [`nudge`](Parker::nudge) sees an owner that missed an earlier push. One fence serves
/// many destinations.
#[inline]
pub fn fence() {
    atomic::fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::super::ring::ring;
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_wake_before_the_park_ends_it_at_once() {
        let parker = Parker::new();
        parker.wake();
        parker.wake();
        assert_eq!(parker.park(|| true, None), Wake::Notified);
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(parker.park(|| true, Some(soon)), Wake::TimedOut);
        assert!(Instant::now() >= soon);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_wake_counts_as_late_only_if_the_owner_waited_for_it() {
        const A_WHILE: Duration = Duration::from_millis(20);
        let parker = Parker::new();
        let while_parked = || {
            parker.wake();
            thread::sleep(A_WHILE);
            true
        };
        assert_eq!(parker.park(while_parked, None), Wake::Notified);
        assert!(parker.lateness() >= A_WHILE);
        // The owner works for a while, and is called meanwhile.
        thread::sleep(A_WHILE);
        parker.wake();
        assert_eq!(parker.park(|| true, None), Wake::Notified);
        assert_eq!(parker.lateness(), Duration::ZERO);
    }

    #[test]
    fn a_second_look_that_finds_something_withdraws_the_announcement() {
        let parker = Parker::new();
        let woken = parker.park(
            || {
                assert!(parker.is_parked());
                false
            },
            None,
        );
        assert_eq!(woken, Wake::NotIdle);
        assert!(!parker.is_parked());
        // Nobody has parked, so a nudge leaves no notice behind.
        parker.nudge();
        let past = Some(Instant::now());
        assert_eq!(parker.park(|| true, past), Wake::TimedOut);
    }

    #[test]
    fn a_notice_outranks_what_the_second_look_found() {
        let parker = Parker::new();
        let second_look = || {
            parker.wake();
            false
        };
        assert_eq!(parker.park(second_look, None), Wake::Notified);
        let past = Some(Instant::now());
        assert_eq!(parker.park(|| true, past), Wake::TimedOut);
    }

    #[test]
    fn a_second_look_that_panics_costs_one_notice_at_most() {
        let parker = Parker::new();
        let look = std::panic::AssertUnwindSafe(|| parker.park(|| panic!("asked to"), None));
        assert!(std::panic::catch_unwind(look).is_err());
        assert_eq!(parker.park(|| true, None), Wake::Notified);
        let past = Some(Instant::now());
        assert_eq!(parker.park(|| true, past), Wake::TimedOut);
    }

    /// Two processors exchange one value and park for each. A lost wake-up hangs the test.
    #[test]
    fn an_exchange_that_parks_for_every_value_gets_through() {
        const ROUNDS: u32 = 20_000;
        let parkers = Arc::new([Parker::new(), Parker::new()]);
        let (mut to_1, mut from_0) = ring(2);
        let (mut to_0, mut from_1) = ring(2);
        let here = Arc::clone(&parkers);
        let other = thread::spawn(move || {
            for i in 0..ROUNDS {
                while from_0.is_empty() {
                    let _ = here[1].park(|| from_0.is_empty(), None);
                }
                assert_eq!(from_0.pop(), Some(i));
                to_0.push(i).unwrap();
                here[0].wake_if_parked();
            }
        });
        for i in 0..ROUNDS {
            to_1.push(i).unwrap();
            parkers[1].wake_if_parked();
            while from_1.is_empty() {
                let _ = parkers[0].park(|| from_1.is_empty(), None);
            }
            assert_eq!(from_1.pop(), Some(i));
        }
        other.join().unwrap();
    }

    /// The deadlines are about the time between two values, so that time-outs and wake-ups race.
    #[test]
    fn time_outs_that_race_with_senders_lose_nothing() {
        const VALUES: u32 = 5_000;
        let parker = Arc::new(Parker::new());
        let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| ring(4)).unzip();
        let threads: Vec<_> = senders
            .into_iter()
            .map(|mut tx| {
                let parker = Arc::clone(&parker);
                thread::spawn(move || {
                    for i in 0..VALUES {
                        let mut value = i;
                        while let Err(back) = tx.push(value) {
                            value = back;
                            parker.wake_if_parked();
                            thread::yield_now();
                        }
                        parker.nudge();
                        if i % 3 == 0 {
                            thread::sleep(Duration::from_micros(u64::from(i % 7) * 10));
                        }
                        parker.wake_if_parked();
                    }
                })
            })
            .collect();
        let mut next = [0; 3];
        let mut reasons = [0_u32; 3];
        while next != [VALUES; 3] {
            for (rx, next) in receivers.iter_mut().zip(&mut next) {
                while let Some(value) = rx.pop() {
                    assert_eq!(value, *next);
                    *next += 1;
                }
            }
            if next != [VALUES; 3] {
                // Every other park has no deadline: there a lost wake-up hangs instead of timing out.
                let deadline =
                    (next[0] % 2 == 0).then(|| Instant::now() + Duration::from_micros(u64::from(next[1] % 100)));
                let idle = || receivers.iter().all(|rx| rx.is_empty());
                reasons[parker.park(idle, deadline) as usize] += 1;
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(reasons.iter().sum::<u32>() > 0, "{reasons:?}");
    }

    #[test]
    fn wakes_from_foreign_threads_all_count() {
        let parker = Arc::new(Parker::new());
        let inbox = Arc::new(Mutex::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (parker, inbox) = (Arc::clone(&parker), Arc::clone(&inbox));
                thread::spawn(move || {
                    for _ in 0..5_000 {
                        *inbox.lock().unwrap() += 1;
                        parker.wake();
                    }
                })
            })
            .collect();
        // The inbox is not looked at before sleeping, so the notices alone must suffice.
        let mut seen = 0;
        while seen < 20_000 {
            assert_eq!(parker.park(|| true, None), Wake::Notified);
            seen = *inbox.lock().unwrap();
        }
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn parkers_in_a_slice_share_no_line() {
        assert_eq!(align_of::<Parker>() % 64, 0);
        assert_eq!(size_of::<Parker>() % 64, 0);
    }
}
