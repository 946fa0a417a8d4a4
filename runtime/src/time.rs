//! The run's own clock, for the program: the host's on threads, virtual time elsewhere.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

thread_local! {
    /// The clock of the processor that this thread drives now.
    static CLOCK: RefCell<Option<Source>> = const { RefCell::new(None) };
}

enum Source {
    Host(Instant),
    Run(Rc<dyn Ticks>),
}

/// A clock that is not the host's.
pub(crate) trait Ticks {
    /// Nanoseconds since the run began.
    fn ns(&self) -> u64;
}

/// Sets the clock of this thread for as long as this lives.
pub(crate) struct Clock(Option<Source>);

impl Clock {
    pub fn host(start: Instant) -> Self {
        Self(CLOCK.replace(Some(Source::Host(start))))
    }

    pub fn of(ticks: Rc<dyn Ticks>) -> Self {
        Self(CLOCK.replace(Some(Source::Run(ticks))))
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        CLOCK.set(self.0.take());
    }
}

/// Time since the run began, by the run's own clock. Local; never waits.
///
/// On threads it is the host's clock. In virtual time it is virtual time, and on the seeded driver the number of steps
/// in microseconds. Outside a run it is the time since the process first called this function. Times of processors of
/// the same node can be compared.
pub fn now() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    CLOCK.with_borrow(|clock| match clock {
        None => START.elapsed(),
        Some(Source::Host(start)) => start.elapsed(),
        Some(Source::Run(ticks)) => Duration::from_nanos(ticks.ns()),
    })
}
