//! Short notices between the processes of a program, in runs and between them. Each process has a pipe. The others of its
//! host write to it through `/proc`, and MPI carries the notices of other hosts. Those from one process to another keep their
//! order. A write to a pipe is whole if it is short (`PIPE_BUF`), and never waits: if the pipe is full, it fails, and the sender may try again.

use super::meeting::{Meeting, Started};
use crate::Error;
use rustix::fs::{Mode, OFlags};
#[cfg(feature = "mpi")]
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsRawFd;
#[cfg(feature = "mpi")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of a notice: with its length, what a pipe takes as a whole.
pub const MOST: usize = 4096 - size_of::<u16>();

/// The pipes of this process that take notices of other hosts, by the numbers of their [`Notices`].
static INLETS: Mutex<Vec<(u32, Arc<File>)>> = Mutex::new(Vec::new());

fn inlets() -> MutexGuard<'static, Vec<(u32, Arc<File>)>> {
    INLETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one service of this program says to itself in other processes.
pub struct Notices {
    meeting: Arc<Meeting>,
    /// Tells it from other services. All processes make them in the same order.
    number: u32,
    /// The pipe of each process of this host.
    pipes: Vec<Option<Arc<File>>>,
}

/// The notices that come to this process.
pub struct Inbox(PipeReader);

impl Notices {
    /// Meets the other processes; collective, and waits for all of them.
    ///
    /// # Errors
    ///
    /// They can't meet, or one of them has no pipe.
    pub fn open(started: Started) -> Result<(Self, Inbox), Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let meeting = Meeting::of(started)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let me = meeting.rank as usize;
        let pipe = io::pipe().and_then(|(read, _)| {
            let place = (std::process::id(), read.as_raw_fd());
            Ok((read, place, opened(place)?))
        });
        let text = |e: &io::Error| e.to_string();
        // Takes its pipe out of the list again if something goes wrong.
        let mut notices = Self { meeting: meeting.clone(), number, pipes: Vec::new() };
        if let Ok((.., own)) = &pipe {
            // Before another host can send anything.
            inlets().push((number, own.clone()));
        }
        let place = pipe.as_ref().map(|(_, place, _)| *place).map_err(text);
        let mut refused = None;
        for (rank, (of, place)) in meeting.all(&(number, place))?.into_iter().enumerate() {
            if of != number {
                return Err(no_pipe(
                    &"processes that make their mapper switches in different orders; make them in the same order everywhere",
                ));
            }
            let open = |place| match meeting.hosts[rank] == meeting.hosts[me] {
                true => opened(place).map(Some).map_err(|e| e.to_string()),
                false => Ok(None),
            };
            notices.pipes.push(place.and_then(open).unwrap_or_else(|e| {
                refused.get_or_insert(e);
                None
            }));
        }
        // Nobody goes on, and gives its number of the file to another one, before all have opened all pipes.
        if let Some(refused) = meeting.all(&refused)?.into_iter().flatten().next() {
            // It may be that of a process which has ended since. Then this exchange says so.
            meeting.all(&())?;
            return Err(no_pipe(&refused));
        }
        let (read, ..) = pipe.map_err(|e| no_pipe(&e))?;
        Ok((notices, Inbox(read)))
    }

    /// This process's number.
    pub fn rank(&self) -> u32 {
        self.meeting.rank
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        self.meeting.size()
    }

    /// The name of a process's host.
    pub fn host(&self, process: u32) -> &str {
        &self.meeting.names[process as usize]
    }

    /// Sends a notice of at most [`MOST`] bytes to a process. Never waits.
    ///
    /// # Errors
    ///
    /// The process does not take notices any more, or too many at once. That of another host may be gone without an error.
    pub fn send(&self, to: u32, notice: &[u8]) -> io::Result<()> {
        match &self.pipes[to as usize] {
            Some(pipe) => put(pipe, notice),
            None => {
                self.meeting.notify(to, [&self.number.to_le_bytes()[..], notice].concat());
                Ok(())
            }
        }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        inlets().retain(|(number, _)| *number != self.number);
    }
}

impl Inbox {
    /// Waits for the next notice.
    pub fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut len = [0; size_of::<u16>()];
        self.0.read_exact(&mut len)?;
        let mut notice = vec![0; u16::from_ne_bytes(len).into()];
        self.0.read_exact(&mut notice)?;
        Ok(notice)
    }
}

/// Notices of other hosts that a pipe has no room for yet, in order.
#[cfg(feature = "mpi")]
static LATE: Mutex<VecDeque<(Arc<File>, Vec<u8>)>> = Mutex::new(VecDeque::new());
/// Whether there are any, so that nobody has to take the lock to see it.
#[cfg(feature = "mpi")]
static IS_LATE: AtomicBool = AtomicBool::new(false);

/// Goes on with notices that a pipe had no room for.
#[cfg(feature = "mpi")]
pub fn go_on() {
    if !IS_LATE.load(Ordering::Relaxed) {
        return;
    }
    let mut late = LATE.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some((inlet, notice)) = late.front() {
        if put(inlet, notice).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock) {
            return;
        }
        late.pop_front();
    }
    IS_LATE.store(false, Ordering::Relaxed);
}

/// Takes in what has come from another host.
#[cfg(feature = "mpi")]
pub fn deliver(bytes: &[u8]) {
    let Some((number, notice)) = bytes.split_first_chunk() else { return };
    let number = u32::from_le_bytes(*number);
    let inlet = inlets().iter().find(|(of, _)| *of == number).map(|(_, inlet)| inlet.clone());
    if let Some(inlet) = inlet {
        let mut late = LATE.lock().unwrap_or_else(PoisonError::into_inner);
        late.push_back((inlet, notice.to_vec()));
        IS_LATE.store(true, Ordering::Relaxed);
        drop(late);
        go_on();
    }
}

/// The end of a process's pipe to write to.
fn opened((process, file): (u32, i32)) -> io::Result<Arc<File>> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let pipe = rustix::fs::open(format!("/proc/{process}/fd/{file}"), flags, Mode::empty())?;
    Ok(Arc::new(pipe.into()))
}

fn put(mut pipe: &File, notice: &[u8]) -> io::Result<()> {
    let len = u16::try_from(notice.len()).ok().filter(|len| usize::from(*len) <= MOST);
    let len = len.ok_or_else(|| io::Error::other(format!("a notice of {} bytes", notice.len())))?;
    pipe.write_all(&[&len.to_ne_bytes()[..], notice].concat())
}

fn no_pipe(e: &dyn std::fmt::Display) -> Error {
    Error::misuse("notices between processes", "a pipe of each process, opened by the others (/proc)", e)
}
