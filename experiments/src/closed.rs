//! Whether stdout was closed when the program was started (`>&-`).
//!
//! Rust opens `/dev/null` in place of what is closed before `main` begins, and what is written there is lost without an error.
//! So it is looked at earlier, among the functions that the C library calls before `main`.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether there was no stdout. Systems other than Linux don't say.
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Nothing of Rust's own is ready yet: this makes one system call and stores what it says.
#[cfg(target_os = "linux")]
extern "C" fn look() {
    let closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
    CLOSED.store(closed, Ordering::Relaxed);
}

// Sound, since the section is a list of functions of this type, which take no notice of their arguments.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
