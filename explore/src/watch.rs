//! Says which run does not end.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The runs under way.
#[derive(Default)]
struct State {
    /// How often the watch has woken up. It counts these and not time, which goes on where the whole process is stopped.
    wakes: u64,
    /// Seeds, and how often it had when they began.
    begun: Vec<(u64, u64)>,
}

/// Watches runs from a thread of its own, which ends with it.
pub struct Watch {
    state: Arc<Mutex<State>>,
    _until: Sender<()>,
}

impl Watch {
    /// A run that takes this long hangs within a step, as the steps themselves are counted: most runs take less than a
    /// millisecond.
    pub const LIMIT: Duration = Duration::from_secs(60);

    /// Calls `late` once, with the seed of a run that takes longer than `limit`, before it took twice that.
    pub fn start(limit: Duration, late: impl FnOnce(u64) + Send + 'static) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let (until, over) = channel();
        let seen = state.clone();
        std::thread::spawn(move || {
            while over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let mut state = locked(&seen);
                state.wakes += 1;
                // The first was any time after it began, the second a limit later.
                let found = state.begun.iter().find(|(_, at)| state.wakes - at >= 2).map(|(seed, _)| *seed);
                drop(state);
                if let Some(seed) = found {
                    return late(seed);
                }
            }
        });
        Self { state, _until: until }
    }

    /// Watches a run of this seed for as long as the guard lives.
    pub fn over(&self, seed: u64) -> Watched<'_> {
        let mut state = locked(&self.state);
        let wakes = state.wakes;
        state.begun.push((seed, wakes));
        Watched(&self.state, seed)
    }
}

/// A run under way.
pub struct Watched<'a>(&'a Mutex<State>, u64);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let begun = &mut locked(self.0).begun;
        if let Some(at) = begun.iter().position(|(seed, _)| *seed == self.1) {
            begun.swap_remove(at);
        }
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_does_not_end_is_told_and_one_that_does_is_not() {
        let (tell, told) = channel();
        let watch = Watch::start(Duration::from_millis(5), move |seed| tell.send(seed).unwrap_or_default());
        drop(watch.over(6));
        let _hangs = watch.over(7);
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(7));

        let (tell, told) = channel();
        let watch = Watch::start(Duration::from_millis(1), move |seed| tell.send(seed).unwrap_or_default());
        drop(watch.over(8));
        std::thread::sleep(Duration::from_millis(20));
        drop(watch);
        // Its thread is over, too.
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Err(RecvTimeoutError::Disconnected));
    }
}
