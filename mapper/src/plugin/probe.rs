//! Tries what may crash in a child process.
//!
//! The child is forked, not started anew, so that any program can do this. Of a program with threads the child has only
//! the one that forked, and whatever lock another thread held at that moment stays locked in the child: the C library puts
//! its own (of `malloc` and of the loader) in order, others may make the child hang. The time limit then ends it.

use super::{Fault, Stage};
use std::io::{self, PipeReader, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the child may take.
const LIMIT: Duration = Duration::from_secs(10);

/// How much of what the library writes is kept.
const SAID: usize = 400;

/// Runs `try_out` in a child process, which tells the stages it gets to. Whatever it returns there is dropped: what is not a
/// crash will happen here again.
pub fn probe(try_out: impl FnOnce(&mut dyn FnMut(Stage)) -> Result<(), Fault>) -> Result<(), Fault> {
    // One at a time: another child would keep this one's pipes open.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut stages, mut tell) = pipe().map_err(Fault::NoChild)?;
    let (mut said, say) = pipe().map_err(Fault::NoChild)?;
    // SAFETY: what the child may do is said at the head of this file; it never returns from this function.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(Fault::NoChild(io::Error::last_os_error())),
        0 => {
            prepare(say.as_raw_fd());
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let mut reached = |stage| drop(tell.write_all(&[stage as u8]));
                let _ = try_out(&mut reached);
                reached(Stage::Done);
            }));
            // SAFETY: ends the process without running anybody's destructors.
            unsafe { libc::_exit(0) }
        }
        child => child,
    };
    drop((tell, say));
    let deadline = Instant::now() + LIMIT;
    let text = listen(&mut said, deadline);
    let ended = wait(child, Instant::now() < deadline);
    let mut reached = Vec::new();
    // At most one byte a stage was written, and nobody is left to write more; a grandchild could be, so no more is asked for.
    if readable(&stages, Instant::now()) {
        let mut bytes = [0; 16];
        let n = stages.read(&mut bytes).unwrap_or(0);
        reached.extend_from_slice(&bytes[..n]);
    }
    let stage = match reached.last() {
        Some(&last) if last == Stage::Done as u8 => return Ok(()),
        Some(&last) if last == Stage::Create as u8 => "in `create`, when tried in a child process",
        Some(&last) if last == Stage::Entry as u8 => "in `maniple_mapper_library`, when tried in a child process",
        _ => "while being loaded, when tried in a child process",
    };
    let text = text.trim();
    let said = if text.is_empty() { String::new() } else { format!("; it wrote: {text}") };
    Err(Fault::Crashed { how: ended, stage, said })
}

/// In the child: what the library writes goes to `say`, a crash is a crash, and leaves no core.
fn prepare(say: i32) {
    // SAFETY: system calls on numbers, and on a structure that outlives the call.
    unsafe {
        libc::dup2(say, libc::STDOUT_FILENO);
        libc::dup2(say, libc::STDERR_FILENO);
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP] {
            libc::signal(signal, libc::SIG_DFL);
        }
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        // Should the parent be gone by then.
        libc::alarm(2 * LIMIT.as_secs() as u32);
    }
}

/// Whether there is something to read, or will never be, by then.
fn readable(from: &PipeReader, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which outlives the call.
        match unsafe { libc::poll(&mut poll, 1, i32::try_from(left.as_millis()).unwrap_or(i32::MAX)) } {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            0 | -1 => return false,
            _ => return true,
        }
    }
}

/// What comes until the other end is closed, or until the deadline: the last of it.
fn listen(said: &mut PipeReader, deadline: Instant) -> String {
    let mut text = Vec::new();
    let mut bytes = [0; 4096];
    while readable(said, deadline) {
        match said.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(n) => text.extend_from_slice(&bytes[..n]),
        }
        text.drain(..text.len().saturating_sub(SAID));
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// How the child ended. If it did not in time, it is made to.
fn wait(child: libc::pid_t, in_time: bool) -> String {
    let mut status = 0;
    let wait = |status: &mut i32, options| loop {
        // SAFETY: the child is ours, and was not waited for.
        let ended = unsafe { libc::waitpid(child, status, options) };
        if ended != -1 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return ended;
        }
    };
    // Its pipe closed in time: it has ended, or closed its output and is given what is left of a second limit by `alarm`.
    let ended = wait(&mut status, if in_time { 0 } else { libc::WNOHANG });
    if ended == 0 {
        // SAFETY: as above.
        unsafe { libc::kill(child, libc::SIGKILL) };
        wait(&mut status, 0);
        return format!("did not return within {LIMIT:?}");
    }
    if ended == -1 {
        return "ended the process".into();
    }
    if libc::WIFSIGNALED(status) {
        return crashed(libc::WTERMSIG(status));
    }
    format!("ended the process with exit code {}", libc::WEXITSTATUS(status))
}

fn crashed(signal: i32) -> String {
    let name = match signal {
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGALRM => " (SIGALRM: too slow)",
        _ => "",
    };
    format!("crashed with signal {signal}{name}")
}
