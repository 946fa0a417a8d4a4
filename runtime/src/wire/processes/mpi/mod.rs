//! MPI: it introduces the processes that a launcher has started to each other, and carries what goes between hosts.
//!
//! MPI is initialised once a process, for any thread that holds the lock of [`World`], and finalised when the process
//! ends in an orderly way.

mod abi;
mod carrier;
mod communicator;
mod functions;
mod library;
mod self_test;

pub use communicator::{Communicator, Element, Operation};

use super::link::Carrier;
use super::lobby::Lobby;
use super::meeting::{Between, Meeting, Started};
use super::watch::{Watched, life, watch};
use crate::Error;
use carrier::MpiCarrier;
use functions::{Failed, Mpi, Request};
use rustix::process::{Pid, getpid};
use rustix::thread::gettid;
use std::ffi::c_int;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A run is under way: the others may never come to finalise MPI.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);
/// The thread that has initialised MPI.
static INITIALISER: OnceLock<Pid> = OnceLock::new();

/// Nobody may call MPI any more. Set while the lock of [`World`] is held.
static FINALISED: AtomicBool = AtomicBool::new(false);

/// What a process does before it finalises MPI. Its end is orderly as far as this process is concerned, or it is not;
/// returns whether it is for all.
type Leave = Box<dyn Fn(bool) -> bool + Send + Sync>;
static LEAVE: OnceLock<Leave> = OnceLock::new();

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// Called when the process ends by `exit` or by the end of `main`.
extern "C" fn finalise() {
    // Another thread ends the process for a signal, whatever this one and that one are in.
    let thread = gettid();
    let by_program = thread == getpid() || INITIALISER.get() == Some(&thread);
    let orderly = by_program && !UNDER_WAY.load(Ordering::SeqCst);
    let orderly = LEAVE.get().map_or(orderly, |leave| leave(orderly));
    // A thread may be about to tell others of a lost process. Whoever has the lock for longer is in the middle of meeting.
    if orderly
        && let Some(Ok(world)) = WORLD.get()
        && let Some(_calls) = world.calls_soon()
    {
        FINALISED.store(true, Ordering::SeqCst);
        world.mpi.finalise();
    }
}

/// A communicator that any thread may use, one at a time.
struct Shared(Communicator);

// SAFETY: Whoever uses it holds the lock of `World`, and MPI was initialised for any thread, one at a time.
unsafe impl Send for Shared {}
// SAFETY: As for `Send`.
unsafe impl Sync for Shared {}

impl Deref for Shared {
    type Target = Communicator;
    fn deref(&self) -> &Communicator {
        &self.0
    }
}

/// The processes of a launcher.
struct World {
    mpi: &'static Mpi,
    /// All processes of the job, apart from what the program sends.
    all: Shared,
    rank: u32,
    size: u32,
    /// Whether the thread that has initialised MPI uses it alone.
    alone: bool,
    /// Held during each call of MPI.
    calls: Mutex<()>,
}

static WORLD: OnceLock<Result<World, Error>> = OnceLock::new();

impl World {
    /// The processes of this program's launcher. The first call loads and initialises MPI; it is collective.
    ///
    /// # Errors
    ///
    /// There is no library of MPI, it can't be used, or the launcher belongs to another one.
    fn here(alone: bool) -> Result<&'static Self, Error> {
        let world = WORLD.get_or_init(|| Self::join(alone)).as_ref().map_err(Clone::clone)?;
        let came = match (alone, world.alone) {
            (false, true) => "a thread that uses MPI itself",
            (true, false) => "a run on MPI before",
            (true, true) if INITIALISER.get() != Some(&gettid()) => "a call by another thread",
            _ => return Ok(world),
        };
        Err(Error::misuse("MPI", "either runs on MPI, or one thread that uses MPI itself", came))
    }

    fn join(alone: bool) -> Result<Self, Error> {
        // Some MPI libraries end the process if they do not find its launcher.
        if let Some(unfound) = super::launcher::unfound() {
            log::warn!("{unfound}");
        }
        // For the rest of the program.
        let mpi: &'static Mpi = Box::leak(Box::new(library::load()?));
        mpi.initialise(!alone).map_err(|came| Error::misuse("MPI", "to be initialised by maniple", came))?;
        let _ = INITIALISER.set(gettid());
        let world = mpi.world();
        let (rank, size) = (world.rank(), world.size());
        let name = library::VARIABLE;
        if let Some(job) = super::launcher::launched()
            && job.size != size
        {
            let expected = format!("the {} processes that its launcher ({}) has started", job.size, job.by);
            let came = format!(
                "{size}: the launcher belongs to another MPI than {}, which was loaded from {}; name its library with {name}",
                mpi.version, mpi.path
            );
            return Err(Error::misuse("a run on MPI", expected, job.explained(came)));
        }
        let tested = world.duplicate();
        // Both tests in all processes: whoever finds something wrong does not leave the others alone.
        let (own, together) = (mpi.test_itself(&tested), mpi.test_together(&world));
        if let Err(wrong) = own.and(together) {
            let expected = format!("{} at {} to be what it says", mpi.version, mpi.path);
            return Err(Error::misuse("a run on MPI", expected, format!("{wrong}; name another library with {name}")));
        }
        tested.free();
        let all = Shared(world.duplicate());
        // SAFETY: A function of the C library, which any program may call.
        unsafe { atexit(finalise) };
        Ok(Self { mpi, all, rank, size, alone, calls: Mutex::new(()) })
    }

    /// The right to call MPI, unless another thread keeps it.
    fn calls_soon(&self) -> Option<MutexGuard<'_, ()>> {
        let until = Instant::now() + Duration::from_millis(50);
        loop {
            let calls = self.try_calls();
            if calls.is_some() || Instant::now() > until {
                return calls;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The right to call MPI, unless another thread has it.
    fn try_calls(&self) -> Option<MutexGuard<'_, ()>> {
        match self.calls.try_lock() {
            Ok(calls) => Some(calls),
            Err(TryLockError::Poisoned(calls)) => Some(calls.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The right to call MPI.
    fn calls(&self) -> MutexGuard<'_, ()> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The world of MPI, for a program that uses MPI itself, on one thread: that of the first call, which initialises MPI and is
/// collective. Runs on MPI are errors then. MPI is finalised when the program ends by `exit` or at the end of `main`.
///
/// # Errors
///
/// There is no library of MPI, it can't be used, or its launcher belongs to another one. MPI was initialised by somebody else, for
/// a run, or by another thread.
pub fn world() -> Result<Communicator, Error> {
    Ok(World::here(true)?.mpi.world())
}

/// The name and version of the MPI library that [`world`] has loaded; empty before.
pub fn library() -> String {
    WORLD.get().and_then(|world| world.as_ref().ok()).map(|world| world.mpi.version.clone()).unwrap_or_default()
}

/// Says whether a run is under way. Ending the process now would be out of order.
pub fn under_way(so: bool) {
    UNDER_WAY.store(so, Ordering::SeqCst);
}

/// Meets the processes of the launcher; collective.
pub fn meet() -> Result<Meeting, Error> {
    let world = World::here(false)?;
    let _calls = world.calls();
    let all = &world.all;
    let host = all.sharing_memory();
    let (lobby, unshared) = all_or_none(all, open_lobby(world, &host))?;
    let lobby = Arc::new(lobby);
    let of_host = lobby.ranks().len();
    let first = lobby.ranks()[0];
    let mut hosts = vec![0; world.size as usize];
    all.all_gather(&[first], &mut hosts);
    let several = hosts.iter().any(|host| *host != hosts[0]);
    // All of them: MPI may not get through to one that this process has never talked to.
    let others = || (0..).zip(&hosts).filter(|(_, host)| **host != first).map(|(rank, _)| rank);
    let carrier = several.then(|| {
        let carrier = MpiCarrier::new(world, Shared(all.duplicate()), lobby.clone(), others().collect());
        Arc::new(carrier)
    });
    if let Some(carrier) = carrier.clone() {
        lobby.tell_with(Box::new(move |error, has_left| carrier.tell_loss(error, has_left)));
    }
    // Each process watches the others of its host.
    let life = life();
    let own = [std::process::id(), life.as_ref().map_or(u32::MAX, |life| life.cast_unsigned())];
    let mut lives = vec![0u32; 2 * host.size() as usize];
    host.all_gather(&own, &mut lives);
    let watch_others = || {
        let unwatched = |e| super::copies::cannot("watch each other", &e);
        life.map_err(unwatched)?;
        let others = lives.as_chunks().0.iter().enumerate().filter(|(index, _)| *index != host.rank() as usize);
        let watched = others.map(|(index, &[pid, life])| Watched::process((pid, life.cast_signed()), index));
        watch(&lobby, watched.collect::<Result<_, _>>().map_err(unwatched)?, false)
    };
    all_or_none(all, if of_host > 1 { watch_others() } else { Ok(()) })?;
    let (of, carries) = (lobby.clone(), carrier.clone());
    let _ = LEAVE.set(Box::new(move |orderly| {
        let orderly = orderly && of.can_be_orderly();
        if (!orderly || of.has_failed())
            && let Some(carrier) = &carries
        {
            // The other hosts may still have to be told, and one of them to report.
            carrier.go_on_for(Duration::from_millis(if super::reports() { 20 } else { 500 }));
        }
        if !orderly {
            // A launcher ends all processes with the first that ends so, and one of them has to report.
            of.wait_for_report(Duration::from_secs(1));
        }
        // Who still waits for this process is told, and then comes here too.
        of.leave(orderly);
        if let Some(carrier) = carries.as_ref().filter(|_| orderly && !of.has_failed() && of.is_last()) {
            // Nobody of this host is left to miss the others.
            carrier.tell_host_left(of.allgather_number(), &of.own_end());
            carrier.go_on_for(Duration::from_millis(20));
        }
        orderly
    }));
    let firsts = all.of_those(world.rank == first).map(Shared);
    let between = carrier.map(|carrier| {
        let between = Hosts { world, firsts, lobby: lobby.clone(), carrier };
        Arc::new(between) as Arc<dyn Between>
    });
    let mut met = Meeting::new(Started::Launcher, world.rank, hosts, lobby, between);
    met.unshared = unshared;
    Ok(met)
}

/// What this process has done, unless some process has an error; collective. Otherwise the others would wait for that one.
fn all_or_none<T>(all: &Communicator, done: Result<T, Error>) -> Result<T, Error> {
    let (ok, mut all_ok) = (f64::from(u8::from(done.is_ok())), [0.0]);
    all.all_reduce(&[ok], &mut all_ok, Operation::Min);
    match done {
        Ok(_) if all_ok == [0.0] => Err(Error::misuse(
            "processes of MPI",
            "all of them to meet",
            "another process that can't; its own message has the cause",
        )),
        done => done,
    }
}

/// The lobby of this host. Where processes of a host can't share memory, the lobby of this process alone; then the first one
/// that can't gets the cause, too.
fn open_lobby(world: &World, host: &Communicator) -> Result<(Lobby, Option<String>), Error> {
    let unshared = |e: &std::io::Error| super::unshared(e);
    let mut ranks = vec![0; host.size() as usize];
    host.all_gather(&[world.rank], &mut ranks);
    let index = host.rank() as usize;
    let made = (index == 0).then(|| Lobby::new(ranks.clone()));
    // The number in the system, the file's number, and a token that only the right file has.
    let mut place = [0u64; 3];
    if let Some(Ok(lobby)) = &made {
        place = [u64::from(std::process::id()), lobby.file() as u64, lobby.token()];
    }
    host.broadcast(&mut place, 0);
    let [process, file, token] = place;
    let mine = match made {
        Some(made) => made,
        None => {
            Lobby::open(index, ranks, (process as u32, file as i32)).and_then(|lobby| match lobby.token() == token {
                true => Ok(lobby),
                false => Err(std::io::Error::other("another file")),
            })
        }
    };
    let (refused, mut first_refused) = (if mine.is_ok() { f64::INFINITY } else { index as f64 }, [0.0]);
    host.all_reduce(&[refused], &mut first_refused, Operation::Min);
    match mine {
        Ok(lobby) if first_refused == [f64::INFINITY] => Ok((lobby, None)),
        alone => {
            let why = alone.err().filter(|_| first_refused == [index as f64]).map(|e| e.to_string());
            Ok((Lobby::new(vec![world.rank]).map_err(|e| unshared(&e))?, why))
        }
    }
}

/// The processes of several hosts.
struct Hosts {
    world: &'static World,
    /// The first processes of the hosts, if this is one.
    firsts: Option<Shared>,
    lobby: Arc<Lobby>,
    carrier: Arc<MpiCarrier>,
}

impl Between for Hosts {
    fn allgather(&self, bytes: &[u8], for_all: bool) -> Result<Vec<Vec<u8>>, Error> {
        let Some(firsts) = &self.firsts else {
            return Err(Error::Stopped { what: "the first process had agreed".into() });
        };
        let each = vec![size_of::<u64>(); firsts.size() as usize];
        let lens = self.gather(firsts, &(bytes.len() as u64).to_ne_bytes(), &each, true)?;
        let lens: Vec<usize> = lens.as_chunks().0.iter().map(|len| u64::from_ne_bytes(*len) as usize).collect();
        let all = self.gather(firsts, bytes, &lens, for_all)?;
        let mut rest = &all[..];
        let gifts = lens.iter().map_while(|len| {
            let (gift, more) = rest.split_at_checked(*len)?;
            rest = more;
            Some(gift.to_vec())
        });
        Ok(gifts.collect())
    }

    fn listens(&self) -> bool {
        self.carrier.listens(Duration::from_millis(50))
    }

    fn carrier(&self) -> Arc<dyn Carrier> {
        self.carrier.clone()
    }
}

impl Hosts {
    /// The bytes of all hosts, of these lengths. If they are not for all, only the first one gets them.
    fn gather(&self, firsts: &Communicator, own: &[u8], lens: &[usize], for_all: bool) -> Result<Vec<u8>, Error> {
        let count = |len: usize| {
            c_int::try_from(len)
                .map_err(|_| Error::misuse("what hosts agree on", "at most 2 GiB", format!("{len} bytes")))
        };
        let mut places = Vec::new();
        let mut end = 0;
        for len in lens {
            places.push(count(end)?);
            end += len;
            count(end)?;
        }
        let counts = lens.iter().map(|len| count(*len)).collect::<Result<Vec<_>, _>>()?;
        let bytes = if for_all || firsts.rank() == 0 { end } else { 0 };
        let mut buffers = Box::new((own.to_vec(), vec![0u8; bytes], counts, places));
        let (own, all, counts, places) = &mut *buffers;
        // SAFETY: The buffers are as long as MPI is told, and live until the request has ended.
        let waited = self.wait(|| unsafe { firsts.start_gather(own, all, (counts, places), for_all) });
        if let Err(e) = waited {
            // MPI may go on using them.
            Box::leak(buffers);
            return Err(e);
        }
        Ok(buffers.1)
    }

    /// Starts an operation and waits until it has ended, or a process of this host is lost.
    fn wait(&self, start: impl FnOnce() -> Result<Request, Failed>) -> Result<(), Error> {
        let failed =
            |Failed(code)| Error::misuse("what hosts agree on", "MPI to carry it", format!("error {code} of MPI"));
        let mut request = {
            let _calls = self.world.calls();
            start().map_err(failed)?
        };
        let mut pause = Duration::from_micros(1);
        loop {
            let over = {
                let _calls = self.world.calls();
                self.world.mpi.has_ended(&mut request).map_err(failed)?
            };
            if over {
                return Ok(());
            }
            // Another host may say that a process is lost.
            self.carrier.go_on();
            self.lobby.miss_hosts();
            if self.lobby.has_failed() {
                return Err(Error::Stopped { what: "all hosts had agreed".into() });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }
}
