//! The watch, which names a run that does not end.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The runs under way.
#[derive(Default)]
struct State {
    /// The number of times that the watch has woken up. Time itself would go on while the whole process is stopped.
    wakes: u64,
    /// The seeds of the runs, each with that number at its beginning.
    begun: Vec<(u64, u64)>,
}

/// Watches runs from a thread of its own, which ends when this is dropped.
pub struct Watch {
    state: Arc<Mutex<State>>,
    _until: Sender<()>,
}

impl Watch {
    /// The time after which a run hangs. It must hang within a step, because steps are counted. Most runs take less
    /// than a millisecond.
    pub const LIMIT: Duration = Duration::from_secs(60);

    /// Starts a watch. It calls `late` once, with the seed of a run that takes longer than `limit`, before that has
    /// taken twice as long.
    pub fn start(limit: Duration, late: impl FnOnce(u64) + Send + 'static) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let (until, over) = channel();
        let seen = state.clone();
        std::thread::spawn(move || {
            while over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let mut state = locked(&seen);
                state.wakes += 1;
                // The first was some time after the run began, the second a limit later.
                let found = state.begun.iter().find(|(_, at)| state.wakes - at >= 2).map(|(seed, _)| *seed);
                drop(state);
                if let Some(seed) = found {
                    return late(seed);
                }
            }
        });
        Self { state, _until: until }
    }

    /// Watches a run of this seed while the guard lives.
    pub fn over(&self, seed: u64) -> Watched<'_> {
        let mut state = locked(&self.state);
        let wakes = state.wakes;
        state.begun.push((seed, wakes));
        Watched(&self.state, seed)
    }
}

/// The guard of a run under way.
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
        // Its thread has ended, too.
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Err(RecvTimeoutError::Disconnected));
    }
}
