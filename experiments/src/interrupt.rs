//! Ctrl-C: the command says that it was interrupted, and ends with exit code 130.

/// Listens for Ctrl-C from now on. A command that ignores it, as in the background of a script, goes on ignoring it.
pub fn listen() {
    #[cfg(unix)]
    unix::listen();
}

#[cfg(unix)]
mod unix {
    use crate::note;
    use maniple::runtime::Runtime;
    use signal_hook::consts::SIGINT;
    use signal_hook::iterator::Signals;
    use std::{fs, process, thread};

    /// The exit code that shells give to a command that was interrupted: 128 and the number of the signal.
    const INTERRUPTED: i32 = 128 + SIGINT;

    pub fn listen() {
        if is_ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default()) {
            return;
        }
        // Registered by the thread, so that without a thread the signal still ends the process.
        let wait = || {
            let Ok(mut signals) = Signals::new([SIGINT]) else { return };
            if signals.forever().next().is_some() {
                if Runtime::reports_errors() {
                    note("interrupted: the run is not finished, and nothing more is written");
                }
                process::exit(INTERRUPTED);
            }
        };
        let _ = thread::Builder::new().name("interrupt".into()).stack_size(1 << 17).spawn(wait);
    }

    /// Whether the process ignores the signal, by the mask that Linux reports.
    fn is_ignored(status: &str) -> bool {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & (1 << (SIGINT - 1)) != 0)
    }

    #[cfg(test)]
    #[test]
    fn the_mask_says_whether_the_signal_is_ignored() {
        let status = |mask: &str| format!("SigBlk:\t0000000000000002\nSigIgn:\t{mask}\n");
        assert!(is_ignored(&status("0000000000000002")) && is_ignored(&status("0000000000001006")));
        assert!(!is_ignored(&status("0000000000001005")) && !is_ignored(""));
    }
}
