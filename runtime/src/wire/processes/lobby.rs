//! Where the processes of this host meet. The first process starts the others, as copies of itself, and shares a piece
//! of memory with them. There they exchange bytes: what they must agree on before a run, and its outcome.

use super::segment::Segment;
use crate::Error;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open, test_kill_process};
use rustix::thread::futex;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Tells a process that it is a copy: its number, how many there are, and where the lobby is.
const VARIABLE: &str = "MANIPLE_PROCESS";
/// The most processes that are started.
pub const MOST: u32 = 256;
/// The room for what a process gives to an exchange: a length and so many bytes.
const GIFT: usize = 64 << 20;
/// The most bytes that a process can give.
pub const MOST_BYTES: usize = GIFT - size_of::<AtomicU64>();
const LINE: usize = 128;

/// Set in the count of a process that has ended.
const ENDED: u32 = 1 << 31;

/// Ends a run at once, for all processes.
pub type GiveUp = Arc<dyn Fn() + Send + Sync>;

/// The processes of this program on this host. They live as long as the first one.
pub struct Lobby {
    /// This process's number.
    pub rank: u32,
    /// How many there are.
    pub size: u32,
    memory: Segment,
    /// The run under way: the number of the exchange at its end, and how to end it at once.
    run: Mutex<Option<(u32, GiveUp)>>,
    /// Exchanges that this process has taken part in.
    done: AtomicU32,
    /// How processes have ended, as far as this one knows.
    ends: Mutex<Vec<(u32, String)>>,
}

/// The lobby of this process, once it has been in one.
static LOBBY: Mutex<Option<Arc<Lobby>>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lobby {
    /// The lobby of `processes` processes. The first call starts the copies, or meets the process that started this one.
    pub fn of(processes: u32) -> Result<Arc<Self>, Error> {
        let mut lobby = lock(&LOBBY);
        if lobby.is_none() {
            *lobby = Some(match Self::called()? {
                Some(called) => called,
                None => Self::found(processes)?,
            });
        }
        let Some(lobby) = lobby.as_ref() else { unreachable!("set above") };
        if lobby.size != processes {
            let expected = format!("{}, as in the first run of this program with several processes", lobby.size);
            return Err(Error::misuse("number of processes", expected, processes));
        }
        Ok(lobby.clone())
    }

    fn in_memory(rank: u32, size: u32, memory: Segment) -> Arc<Self> {
        let (run, done, ends) = (Mutex::default(), AtomicU32::new(0), Mutex::default());
        Arc::new(Self { rank, size, memory, run, done, ends })
    }

    fn bytes(size: u32) -> usize {
        size as usize * (LINE + 2 * GIFT)
    }

    /// The lobby of the process that started this one, if it is a copy.
    fn called() -> Result<Option<Arc<Self>>, Error> {
        let &Some(Call { rank, size, parent, file, orphan }) = Call::here() else { return Ok(None) };
        let Some(first) = getppid().filter(|_| !orphan) else {
            return Err(Error::ProcessLost { process: 0, why: "it is gone".into() });
        };
        let memory = Segment::open(parent, file, Self::bytes(size)).map_err(|e| cannot("meet", &e))?;
        let lobby = Self::in_memory(rank, size, memory);
        let watched =
            pidfd_open(first, PidfdFlags::empty()).map_err(|e| cannot("watch the first process", &e.into()))?;
        let of = lobby.clone();
        spawn(move || {
            while poll(&mut [PollFd::new(&watched, PollFlags::IN)], None).is_err() {}
            // The first one outlives every exchange that it takes part in, and nobody else watches the others.
            (0..of.size).for_each(|rank| of.has_ended(rank, "the first process is gone".into()));
        })?;
        Ok(Some(lobby))
    }

    /// Makes a lobby and starts the copies.
    fn found(size: u32) -> Result<Arc<Self>, Error> {
        if !(1..=MOST).contains(&size) {
            return Err(Error::misuse("number of processes", format!("1 to {MOST}"), size));
        }
        let memory = Segment::new("maniple lobby", Self::bytes(size)).map_err(|e| cannot("share memory", &e))?;
        let lobby = Self::in_memory(0, size, memory);
        let program = std::env::current_exe().map_err(|e| cannot("be started", &e))?;
        let mut copies = Vec::new();
        let start = |rank| {
            let call = format!("{rank} {size} {} {}", std::process::id(), lobby.memory.file());
            Command::new(&program).args(std::env::args_os().skip(1)).env(VARIABLE, call).stdin(Stdio::null()).spawn()
        };
        for rank in 1..size {
            match start(rank) {
                Ok(copy) => copies.push(copy),
                Err(e) => {
                    // Nobody else knows of them yet.
                    copies.iter_mut().for_each(|copy| drop(copy.kill().and_then(|()| copy.wait())));
                    return Err(cannot("be started", &e));
                }
            }
        }
        for (rank, copy) in (1..).zip(copies) {
            let of = lobby.clone();
            spawn(move || of.wait_for(rank, copy))?;
        }
        Ok(lobby)
    }

    /// Waits until a copy ends.
    fn wait_for(&self, rank: u32, mut copy: Child) {
        let pid = copy.id();
        let how = match copy.wait() {
            Ok(status) => how_it_ended(status),
            Err(e) => e.to_string(),
        };
        self.has_ended(rank, format!("process {pid} of the system, {how}"));
    }

    /// A process has ended: nobody waits for it any more.
    fn has_ended(&self, rank: u32, how: String) {
        lock(&self.ends).push((rank, how));
        let count = self.count(rank).fetch_or(ENDED, Ordering::Release);
        let _ = futex::wake(self.count(rank), futex::Flags::empty(), i32::MAX as u32);
        let run = lock(&self.run).clone();
        if let Some((end, give_up)) = run
            && count & !ENDED < end
        {
            give_up();
        }
    }

    /// The exchanges that a process has taken part in.
    fn count(&self, rank: u32) -> &AtomicU32 {
        let place = self.memory.at(rank as usize * LINE, LINE).cast();
        // SAFETY: Within the memory, aligned, and used as this word only.
        unsafe { place.as_ref() }
    }

    /// The length of a process's gift to an exchange, and the place of its bytes.
    fn gift(&self, rank: u32, exchange: u32) -> (&AtomicU64, usize) {
        let gifts = self.size as usize * LINE;
        let at = gifts + (2 * rank as usize + exchange as usize % 2) * GIFT;
        let place = self.memory.at(at, size_of::<AtomicU64>()).cast();
        // SAFETY: Within the memory, aligned, and used as this word only.
        (unsafe { place.as_ref() }, at + size_of::<AtomicU64>())
    }

    /// Gives bytes to all processes, and returns those of all, in their order. Waits for all of them.
    ///
    /// Gifts have two places in turn. One is used again only in the exchange after the next, which nobody begins before
    /// all have read this one.
    ///
    /// # Errors
    ///
    /// A process has ended without taking part.
    ///
    /// # Panics
    ///
    /// For more than [`MOST_BYTES`].
    pub fn exchange(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let exchange = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let (len, at) = self.gift(self.rank, exchange);
        let place = self.memory.at(at, bytes.len());
        // SAFETY: Within the memory. Nobody reads it before the count says so.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
        len.store(bytes.len() as u64, Ordering::Relaxed);
        self.count(self.rank).fetch_add(1, Ordering::Release);
        let _ = futex::wake(self.count(self.rank), futex::Flags::empty(), i32::MAX as u32);
        (0..self.size).map(|rank| self.take(rank, exchange)).collect()
    }

    fn take(&self, rank: u32, exchange: u32) -> Result<Vec<u8>, Error> {
        let count = self.count(rank);
        loop {
            let seen = count.load(Ordering::Acquire);
            if seen & !ENDED >= exchange {
                break;
            }
            if seen & ENDED != 0 {
                return Err(self.lost(rank));
            }
            // Woken, or the count has changed, or interrupted: looks again.
            let _ = futex::wait(count, futex::Flags::empty(), seen, None);
        }
        let (len, at) = self.gift(rank, exchange);
        let len = len.load(Ordering::Relaxed) as usize;
        // SAFETY: Within the memory. The process wrote it before it counted, and leaves it until the next exchange.
        Ok(unsafe { std::slice::from_raw_parts(self.memory.at(at, len).as_ptr(), len) }.to_vec())
    }

    /// The error of a process that has ended too early.
    fn lost(&self, rank: u32) -> Error {
        let known = lock(&self.ends).iter().find(|(other, _)| *other == rank).map(|(_, how)| how.clone());
        Error::ProcessLost { process: rank, why: known.unwrap_or_else(|| "it is gone".into()) }
    }

    /// A run begins that ends with the next exchange. `give_up` ends it at once, for all processes.
    pub fn begin(&self, give_up: GiveUp) {
        let end = self.done.load(Ordering::Relaxed) + 1;
        *lock(&self.run) = Some((end, give_up.clone()));
        if (0..self.size).any(|rank| {
            let count = self.count(rank).load(Ordering::Acquire);
            count & ENDED != 0 && count & !ENDED < end
        }) {
            give_up();
        }
    }

    pub fn end(&self) {
        *lock(&self.run) = None;
    }
}

/// What a copy is told.
struct Call {
    rank: u32,
    size: u32,
    /// The first process, and the number of the lobby's file there.
    parent: u32,
    file: i32,
    /// The first process had ended before this one asked.
    orphan: bool,
}

impl Call {
    /// The call of this process, if it is a copy.
    fn here() -> &'static Option<Self> {
        static CALL: OnceLock<Option<Call>> = OnceLock::new();
        CALL.get_or_init(Self::read)
    }

    fn read() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let mut numbers = text.split(' ').map_while(|n| n.parse::<u32>().ok());
        let (rank, size, parent, file) = (numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?);
        let first = Pid::from_raw(parent.cast_signed())?;
        // A program that a copy has started is no copy. Its first process is there, but is not its parent.
        let orphan = getppid() != Some(first) && test_kill_process(first).is_err();
        let is_copy = orphan || getppid() == Some(first);
        is_copy.then_some(Self { rank, size, parent, file: file.cast_signed(), orphan })
    }
}

/// The number of this process: 0, or that of a copy.
pub fn number() -> u32 {
    Call::here().as_ref().map_or(0, |call| call.rank)
}

fn cannot(what: &str, e: &io::Error) -> Error {
    Error::misuse("processes of this program", format!("a system on which they can {what}"), e)
}

fn spawn(body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let watch = std::thread::Builder::new().name("maniple watch".into()).spawn(body);
    watch.map(drop).map_err(|e| cannot("be watched", &e))
}

fn how_it_ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("ended with code {code}"),
        (None, None) => "ended".into(),
    }
}
