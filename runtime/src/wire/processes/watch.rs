//! Watches other processes of the host. This process waits for those that it has started. Any other one holds a pipe open for
//! as long as it lives.

use super::copies::cannot;
use super::lobby::Lobby;
use super::meeting::number;
use crate::Error;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// The end of a pipe that only this process has. It closes when the process ends, however it does.
static LIFE: Mutex<Option<PipeWriter>> = Mutex::new(None);

/// The number by which other processes open the pipe of this one.
pub fn life() -> io::Result<i32> {
    let mut life = LIFE.lock().unwrap_or_else(PoisonError::into_inner);
    let pipe = match life.take() {
        Some(pipe) => pipe,
        None => io::pipe()?.1,
    };
    Ok(life.insert(pipe).as_raw_fd())
}

/// A process to be watched.
pub struct Watched {
    life: OwnedFd,
    /// Its place in the lobby.
    index: usize,
}

impl Watched {
    /// A process, with its number in the system and the number of its [`life`].
    pub fn process((process, life): (u32, i32), index: usize) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(Self { life: rustix::fs::open(format!("/proc/{process}/fd/{life}"), flags, Mode::empty())?, index })
    }
}

/// How long the copies of a first process that is lost may still be in a run: leaf tasks can't be interrupted.
const GRACE: Duration = Duration::from_secs(1);

/// Tells the lobby, for as long as this process lives, which of these have ended. If `is_last`, nobody is left for whom this
/// process should finish its leaf tasks.
pub fn watch(lobby: &Arc<Lobby>, mut watched: Vec<Watched>, is_last: bool) -> Result<(), Error> {
    let lobby = lobby.clone();
    let body = move || {
        while !watched.is_empty() {
            let mut ends: Vec<PollFd<'_>> = watched.iter().map(|w| PollFd::new(&w.life, PollFlags::empty())).collect();
            if poll(&mut ends, None).is_err() {
                continue;
            }
            let over: Vec<bool> = ends.iter().map(|end| !end.revents().is_empty()).collect();
            for i in (0..over.len()).rev().filter(|i| over[*i]) {
                lobby.has_ended(watched.swap_remove(i).index, None);
            }
        }
        if is_last {
            std::thread::sleep(GRACE);
            if lobby.has_failed() && lobby.is_in_run() {
                log::error!("process 0 has ended, and process {} is still in a run: it ends too", number());
                std::process::exit(1);
            }
        }
    };
    let thread = Builder::new().name("maniple watch".into()).spawn(body);
    thread.map(drop).map_err(|e| cannot("be watched", &e))
}

/// Tells the lobby when a process that this one has started ends, and how. A thread for each: a process can wait for one
/// child or for all, and those that the program has started are its own.
pub fn watch_child(lobby: &Arc<Lobby>, mut child: Child, index: usize) -> Result<(), Error> {
    let lobby = lobby.clone();
    let body = move || lobby.has_ended(index, child.wait().ok());
    let thread = Builder::new().name("maniple watch".into()).stack_size(1 << 17).spawn(body);
    thread.map(drop).map_err(|e| cannot("be watched", &e))
}
