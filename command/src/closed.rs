//! Whether stdout was closed when the program was started (`>&-`).
//!
//! Before `main` begins, Rust opens `/dev/null` in place of a closed stdout. Text written there is lost without an error. So
//! this module looks earlier, in a function that the C library calls before `main`.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether stdout was closed at the start. False on systems other than Linux, where it is not known.
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Makes one system call and stores its answer. Nothing of Rust's own is ready yet.
#[cfg(target_os = "linux")]
extern "C" fn look() {
    let closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
    CLOSED.store(closed, Ordering::Relaxed);
}

// Sound: the section is a list of functions of this type, which may ignore their arguments.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
