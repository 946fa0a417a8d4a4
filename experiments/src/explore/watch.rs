//! Says which run does not end.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A run that takes this long hangs within a step, as the steps themselves are counted: most runs take less than a
/// millisecond.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The seeds whose runs are under way, and since when.
type Begun = Arc<Mutex<Vec<(u64, Instant)>>>;

/// Watches runs from a thread of its own, which ends with it.
pub struct Watch {
    begun: Begun,
    _until: Sender<()>,
}

impl Watch {
    /// Calls `late` once, with the seed of a run that takes longer than `limit`, before it took twice that.
    pub fn start(limit: Duration, late: impl FnOnce(u64) + Send + 'static) -> Self {
        let begun = Begun::default();
        let (until, over) = channel();
        let seen = begun.clone();
        std::thread::spawn(move || {
            while over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let found = locked(&seen).iter().find(|(_, since)| since.elapsed() >= limit).map(|(seed, _)| *seed);
                if let Some(seed) = found {
                    return late(seed);
                }
            }
        });
        Self { begun, _until: until }
    }

    /// Watches a run of this seed for as long as the guard lives.
    pub fn over(&self, seed: u64) -> Watched<'_> {
        locked(&self.begun).push((seed, Instant::now()));
        Watched(&self.begun, seed)
    }
}

/// A run under way.
pub struct Watched<'a>(&'a Begun, u64);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut begun = locked(self.0);
        if let Some(at) = begun.iter().position(|(seed, _)| *seed == self.1) {
            begun.swap_remove(at);
        }
    }
}

fn locked(begun: &Begun) -> MutexGuard<'_, Vec<(u64, Instant)>> {
    begun.lock().unwrap_or_else(PoisonError::into_inner)
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
