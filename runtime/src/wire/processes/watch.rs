//! Watches other processes of the host: one thread sleeps until one of them ends.

use super::copies::cannot;
use super::lobby::Lobby;
use super::meeting::number;
use crate::Error;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

/// A process to be watched.
pub struct Watched {
    end: OwnedFd,
    /// Its place in the lobby.
    index: usize,
    /// Says how it ended.
    child: Option<Child>,
}

impl Watched {
    pub fn process(pid: Pid, index: usize) -> io::Result<Self> {
        Ok(Self { end: pidfd_open(pid, PidfdFlags::empty())?, index, child: None })
    }

    pub fn child(child: Child, index: usize) -> Result<Self, Error> {
        let end = Pid::from_raw(child.id().cast_signed()).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        match end {
            Some(Ok(end)) => Ok(Self { end, index, child: Some(child) }),
            Some(Err(e)) => Err(cannot("be watched", &e.into())),
            None => Err(Error::misuse("a copy of this process", "a number of the system", child.id())),
        }
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
            let mut ends: Vec<PollFd<'_>> = watched.iter().map(|w| PollFd::new(&w.end, PollFlags::IN)).collect();
            if poll(&mut ends, None).is_err() {
                continue;
            }
            let over: Vec<bool> = ends.iter().map(|end| !end.revents().is_empty()).collect();
            for i in (0..over.len()).rev().filter(|i| over[*i]) {
                let Watched { index, child, .. } = watched.swap_remove(i);
                let status = child.and_then(|mut child| child.wait().ok());
                lobby.has_ended(index, status);
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
    let thread = std::thread::Builder::new().name("maniple watch".into()).spawn(body);
    thread.map(drop).map_err(|e| cannot("be watched", &e))
}
