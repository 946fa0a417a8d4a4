//! What tests of several crates share by this path: a watchdog that turns a hang into a failure.

use std::sync::mpsc;
use std::time::Duration;

/// Far longer than any test takes, however busy the machine: it says nothing of how fast a program is.
pub const LIMIT: Duration = Duration::from_secs(600);

/// Runs `f`; a program that has not ended after ten minutes ends the process, because a hang is a failure too.
pub fn watched<R>(name: &str, f: impl FnOnce() -> R) -> R {
    let (over, wait) = mpsc::channel::<()>();
    let hanging = name.to_string();
    std::thread::spawn(move || {
        if wait.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("`{hanging}` hangs: not over after {LIMIT:?}");
            std::process::abort();
        }
    });
    let result = f();
    drop(over);
    result
}
