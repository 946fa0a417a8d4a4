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
use std::thread;
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
    let (text, how) = watch(child, &mut said).map_err(Fault::NoChild)?;
    // At most one byte a stage was written, and the child writes no more; a grandchild could, so no more is asked for.
    let mut reached = [0; 16];
    let n = if readable([&stages], Duration::ZERO) == [true] { stages.read(&mut reached).unwrap_or(0) } else { 0 };
    let stage = match reached[..n].last() {
        Some(&last) if last == Stage::Done as u8 => return Ok(()),
        Some(&last) if last == Stage::Create as u8 => "in `create`, when tried in a child process",
        Some(&last) if last == Stage::Entry as u8 => "in `maniple_mapper_library`, when tried in a child process",
        _ => "while being loaded, when tried in a child process",
    };
    let text = text.trim();
    let said = if text.is_empty() { String::new() } else { format!("; it wrote: {text}") };
    Err(Fault::Crashed { how, stage, said })
}

/// In the child: what the library writes goes to `say`, there is nothing to read, a crash is a crash, and leaves no core.
fn prepare(say: i32) {
    // SAFETY: system calls on numbers, on a text that ends with NUL, and on structures that outlive the calls.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        libc::dup2(nothing, libc::STDIN_FILENO);
        libc::dup2(say, libc::STDOUT_FILENO);
        libc::dup2(say, libc::STDERR_FILENO);
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP] {
            libc::signal(signal, libc::SIG_DFL);
        }
        // Meant for the parent, whose handler would act for it here.
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        // Should the parent be gone by then.
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(2 * LIMIT.as_secs() as u32);
    }
}

/// Waits for the child, which is killed after [`LIMIT`]: the last of what it said, and how it ended. Whoever else has its
/// pipes, a grandchild say, is not waited for.
fn watch(child: libc::pid_t, said: &mut PipeReader) -> io::Result<(String, String)> {
    let mut text = Vec::new();
    let in_time = thread::scope(|scope| {
        let gone = pipe().and_then(|(gone, end)| {
            let waiter = thread::Builder::new().name("mapper library".into());
            waiter.spawn_scoped(scope, move || {
                await_end(child);
                drop(end);
            })?;
            Ok(gone)
        });
        let deadline = Instant::now() + LIMIT;
        let in_time = gone.as_ref().is_ok_and(|gone| listen(said, gone, deadline, &mut text));
        if !in_time {
            // SAFETY: the child is ours, and has not been reaped.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        gone.map(|_| in_time)
    });
    let mut status = 0;
    // SAFETY: as above; it has ended, or been killed.
    let reaped = again(|| unsafe { libc::waitpid(child, &mut status, 0) });
    let how = if !in_time? {
        format!("did not return within {LIMIT:?}")
    } else if reaped == -1 {
        "ended the process".into()
    } else if libc::WIFSIGNALED(status) {
        crashed(libc::WTERMSIG(status))
    } else {
        format!("ended the process with exit code {}", libc::WEXITSTATUS(status))
    };
    Ok((String::from_utf8_lossy(&text).into_owned(), how))
}

/// Waits until the child has ended, and leaves it to be reaped: its number stays its own.
fn await_end(child: libc::pid_t) {
    // SAFETY: plain data, for which zeros are a value.
    let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the child is ours, and the structure outlives the call.
    again(|| unsafe { libc::waitid(libc::P_PID, child as libc::id_t, &mut about, libc::WEXITED | libc::WNOWAIT) });
}

/// A system call, as often as a signal interrupts it.
fn again(mut call: impl FnMut() -> i32) -> i32 {
    loop {
        let result = call();
        if result != -1 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return result;
        }
    }
}

/// Keeps the last of what is said until the other end of `gone` is closed: true; or until the deadline: false.
fn listen(said: &mut PipeReader, gone: &PipeReader, deadline: Instant, text: &mut Vec<u8>) -> bool {
    let mut bytes = [0; 4096];
    // Others may go on writing: no more is read after its end than a pipe holds.
    let (mut silent, mut rest) = (false, 64 * 1024 / bytes.len());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let [ended, speaks] = match silent {
            true => [readable([gone], left)[0], false],
            false => readable([gone, said], left),
        };
        if ended && (!speaks || rest == 0) {
            return true;
        }
        rest -= usize::from(ended);
        if speaks {
            match said.read(&mut bytes) {
                Ok(0) | Err(_) => silent = true,
                Ok(n) => text.extend_from_slice(&bytes[..n]),
            }
            text.drain(..text.len().saturating_sub(SAID));
        }
        if left.is_zero() {
            return false;
        }
    }
}

/// From which there is something to read, or will never be: at once if there is one, else after at most that time.
fn readable<const N: usize>(from: [&PipeReader; N], left: Duration) -> [bool; N] {
    let mut polls = from.map(|pipe| libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let milliseconds = left.as_nanos().div_ceil(1_000_000);
    // SAFETY: so many structures, which outlive the call. An interruption looks like nothing: the caller asks again.
    unsafe { libc::poll(polls.as_mut_ptr(), N as libc::nfds_t, i32::try_from(milliseconds).unwrap_or(i32::MAX)) };
    polls.map(|poll| poll.revents != 0)
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
