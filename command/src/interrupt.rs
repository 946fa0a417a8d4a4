//! Ctrl-C: the command says that it was interrupted, and ends with exit code 130. A request to end (SIGTERM) has the
//! same effect: a launcher of MPI sends it to its processes, and it would not end the first process of a container.

/// Listens for both from now on. A command that ignores one, as Ctrl-C in the background of a script, goes on ignoring it.
pub fn listen() {
    #[cfg(unix)]
    unix::listen();
}

#[cfg(unix)]
mod unix {
    use crate::{COMPLAINED, note};
    use maniple::runtime::Runtime;
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use std::ffi::c_int;
    use std::sync::PoisonError;
    use std::{fs, process, thread};

    /// Shells give a command that a signal has ended this number plus the signal's as exit code.
    const BY_SIGNAL: i32 = 128;

    pub fn listen() {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let heard: Vec<c_int> = [SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(&status, *signal)).collect();
        // Registered by the thread, so that without a thread the signal still ends the process.
        let wait = move || {
            let Ok(mut signals) = Signals::new(heard) else { return };
            if let Some(signal) = signals.forever().next() {
                let by = match Runtime::launched() {
                    _ if signal == SIGINT => "interrupted",
                    Some(_) => "ended by the launcher",
                    None => "ended by a signal (SIGTERM)",
                };
                let message = format!("{by}: the run is not finished, and nothing more is written");
                // First, so that a run that begins now changes nothing about who reports.
                Runtime::last_words(&message);
                let complained = COMPLAINED.lock().unwrap_or_else(PoisonError::into_inner);
                if !*complained && Runtime::reports_errors() {
                    note(message);
                }
                process::exit(BY_SIGNAL + signal);
            }
        };
        let _ = thread::Builder::new().name("interrupt".into()).stack_size(1 << 17).spawn(wait);
    }

    /// Whether the process ignores the signal, by the mask that Linux reports.
    fn is_ignored(status: &str, signal: c_int) -> bool {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
    }

    #[cfg(test)]
    #[test]
    fn the_mask_says_whether_the_signal_is_ignored() {
        let status = |mask: &str| format!("SigBlk:\t0000000000000002\nSigIgn:\t{mask}\n");
        let is_ignored = |mask: &str| [SIGINT, SIGTERM].map(|signal| is_ignored(&status(mask), signal));
        assert_eq!(is_ignored("0000000000000002"), [true, false]);
        assert_eq!(is_ignored("0000000000005006"), [true, true]);
        assert_eq!(is_ignored("0000000000005005"), [false, true]);
        assert_eq!(is_ignored(""), [false, false]);
    }
}
