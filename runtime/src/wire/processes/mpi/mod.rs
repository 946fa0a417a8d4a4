//! MPI: it introduces the processes that a launcher has started to each other, and carries what goes between hosts.
//!
//! MPI is initialised once a process, for any thread that holds the lock of [`World`], and finalised when the process
//! ends in an orderly way.

mod carrier;

use super::link::Carrier;
use super::lobby::Lobby;
use super::meeting::{Between, Meeting, Started};
use super::watch::{Watched, life, watch};
use crate::Error;
use carrier::MpiCarrier;
use mpi::collective::SystemOperation;
use mpi::environment::{Threading, Universe};
use mpi::ffi;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::*;
use rustix::process::{Pid, getpid};
use rustix::thread::gettid;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// MPI, once it has been initialised. Dropping it finalises MPI.
static UNIVERSE: Mutex<Option<Universe>> = Mutex::new(None);
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
    let universe = UNIVERSE.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Another thread ends the process for a signal, whatever this one and that one are in.
    let thread = gettid();
    let by_program = thread == getpid() || INITIALISER.get() == Some(&thread);
    let orderly = by_program && !UNDER_WAY.load(Ordering::SeqCst);
    let orderly = LEAVE.get().map_or(orderly, |leave| leave(orderly));
    match orderly {
        true => {
            // A thread may be about to tell others of a lost process. Whoever has the lock for longer is in the middle of meeting.
            match WORLD.get().and_then(|world| world.as_ref().ok()).map(World::calls_soon) {
                Some(None) => std::mem::forget(universe),
                _calls => {
                    FINALISED.store(true, Ordering::SeqCst);
                    drop(universe);
                }
            }
        }
        false => std::mem::forget(universe),
    }
}

/// A communicator, to be used by one thread at a time.
struct Handle(SimpleCommunicator);

// SAFETY: A handle of MPI, which allows calls from any thread, one at a time: the lock of `World` sees to that.
unsafe impl Send for Handle {}
// SAFETY: As for `Send`.
unsafe impl Sync for Handle {}

/// The processes of a launcher.
struct World {
    /// All processes of the job, apart from what the program sends.
    all: Handle,
    rank: u32,
    size: u32,
    threads: Threading,
    /// Held during each call of MPI.
    calls: Mutex<()>,
}

static WORLD: OnceLock<Result<World, Error>> = OnceLock::new();

impl World {
    /// The processes of this program's launcher. The first call initialises MPI; it is collective.
    ///
    /// # Errors
    ///
    /// The launcher belongs to another MPI library.
    fn here(threads: Threading) -> Result<&'static Self, Error> {
        let world = WORLD.get_or_init(|| Self::join(threads)).as_ref().map_err(Clone::clone)?;
        if world.threads < threads {
            let came = format!("initialised for {:?}", world.threads);
            return Err(Error::misuse("threads and MPI", format!("at least {threads:?}"), came));
        }
        Ok(world)
    }

    fn join(threads: Threading) -> Result<Self, Error> {
        // Some MPI libraries end the process if they do not find its launcher.
        if let Some(unfound) = super::launcher::unfound() {
            log::warn!("{unfound}");
        }
        let Some((universe, given)) = mpi::initialize_with_threading(threads) else {
            return Err(Error::misuse(
                "MPI",
                "to be initialised by maniple only",
                "initialised by the program before; remove that call",
            ));
        };
        let _ = INITIALISER.set(gettid());
        let world = universe.world();
        let (rank, size) = (world.rank() as u32, world.size() as u32);
        if let Some(job) = super::launcher::launched()
            && job.size != size
        {
            let expected = format!("the {} processes that its launcher ({}) has started", job.size, job.by);
            let came =
                format!("{size}: the program is built with {}, and the launcher belongs to another MPI", library());
            return Err(Error::misuse("a run on MPI", expected, job.explained(came)));
        }
        let all = Handle(world.duplicate());
        *UNIVERSE.lock().unwrap_or_else(PoisonError::into_inner) = Some(universe);
        // SAFETY: A function of the C library, which any program may call.
        unsafe { atexit(finalise) };
        Ok(Self { all, rank, size, threads: given, calls: Mutex::new(()) })
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

/// The world of MPI, for a program that uses MPI itself. The first call, of this or of a run on MPI, initialises MPI; it
/// is collective. With `threads` false, only the thread of that call may use MPI, and runs on MPI are errors. MPI is
/// finalised when the program ends by `exit` or at the end of `main`.
///
/// # Errors
///
/// MPI was initialised by somebody else, or its launcher belongs to another MPI library.
pub fn world(threads: bool) -> Result<SimpleCommunicator, Error> {
    World::here(if threads { Threading::Serialized } else { Threading::Single })?;
    Ok(SimpleCommunicator::world())
}

/// The name and version of the MPI library that this program is linked with.
pub fn library() -> String {
    let text = mpi::environment::library_version().unwrap_or_default();
    // Open MPI goes on with who built it, MPICH with tables.
    let name = text.split([',', '\n', '\0']).next().unwrap_or_default();
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Says whether a run is under way. Ending the process now would be out of order.
pub fn under_way(so: bool) {
    UNDER_WAY.store(so, Ordering::SeqCst);
}

/// Meets the processes of the launcher; collective.
pub fn meet() -> Result<Meeting, Error> {
    let world = World::here(Threading::Serialized)?;
    let _calls = world.calls();
    let all = &world.all.0;
    let host = all.split_shared(world.rank as c_int);
    let (lobby, unshared) = all_or_none(all, open_lobby(world, &host))?;
    let lobby = Arc::new(lobby);
    let of_host = lobby.ranks().len();
    let first = lobby.ranks()[0];
    let mut hosts = vec![0; world.size as usize];
    all.all_gather_into(&first, &mut hosts[..]);
    let several = hosts.iter().any(|host| *host != hosts[0]);
    // All of them: MPI may not get through to one that this process has never talked to.
    let others = || (0..).zip(&hosts).filter(|(_, host)| **host != first).map(|(rank, _)| rank);
    let carrier = several.then(|| {
        let carrier = MpiCarrier::new(world, Handle(all.duplicate()), lobby.clone(), others().collect());
        Arc::new(carrier)
    });
    if let Some(carrier) = carrier.clone() {
        lobby.tell_with(Box::new(move |error, has_left| carrier.tell_loss(error, has_left)));
    }
    // Each process watches the others of its host.
    let life = life();
    let own = [std::process::id(), life.as_ref().map_or(u32::MAX, |life| life.cast_unsigned())];
    let mut lives = vec![0u32; 2 * host.size() as usize];
    host.all_gather_into(&own[..], &mut lives[..]);
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
    let firsts = all.split_by_color(if world.rank == first { Color::with_value(0) } else { Color::undefined() });
    let between = carrier.map(|carrier| {
        let between = Hosts { world, firsts: firsts.map(Handle), lobby: lobby.clone(), carrier };
        Arc::new(between) as Arc<dyn Between>
    });
    let mut met = Meeting::new(Started::Launcher, world.rank, hosts, lobby, between);
    met.unshared = unshared;
    Ok(met)
}

/// What this process has done, unless some process has an error; collective. Otherwise the others would wait for that one.
fn all_or_none<T>(all: &SimpleCommunicator, done: Result<T, Error>) -> Result<T, Error> {
    let (ok, mut all_ok) = (u8::from(done.is_ok()), 0u8);
    all.all_reduce_into(&ok, &mut all_ok, SystemOperation::min());
    match done {
        Ok(_) if all_ok == 0 => Err(Error::misuse(
            "processes of MPI",
            "all of them to meet",
            "another process that can't; its own message has the cause",
        )),
        done => done,
    }
}

/// The lobby of this host. Where processes of a host can't share memory, the lobby of this process alone; then the first one
/// that can't gets the cause, too.
fn open_lobby(world: &World, host: &SimpleCommunicator) -> Result<(Lobby, Option<String>), Error> {
    let unshared = |e: &std::io::Error| super::unshared(e);
    let mut ranks = vec![0; host.size() as usize];
    host.all_gather_into(&world.rank, &mut ranks[..]);
    let index = host.rank() as usize;
    let made = (index == 0).then(|| Lobby::new(ranks.clone()));
    // The number in the system, the file's number, and a token that only the right file has.
    let mut place = [0u64; 3];
    if let Some(Ok(lobby)) = &made {
        place = [u64::from(std::process::id()), lobby.file() as u64, lobby.token()];
    }
    host.process_at_rank(0).broadcast_into(&mut place[..]);
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
    let (refused, mut first_refused) = (if mine.is_ok() { u32::MAX } else { index as u32 }, 0);
    host.all_reduce_into(&refused, &mut first_refused, SystemOperation::min());
    match mine {
        Ok(lobby) if first_refused == u32::MAX => Ok((lobby, None)),
        alone => {
            let why = alone.err().filter(|_| first_refused == index as u32).map(|e| e.to_string());
            Ok((Lobby::new(vec![world.rank]).map_err(|e| unshared(&e))?, why))
        }
    }
}

/// The processes of several hosts.
struct Hosts {
    world: &'static World,
    /// The first processes of the hosts, if this is one.
    firsts: Option<Handle>,
    lobby: Arc<Lobby>,
    carrier: Arc<MpiCarrier>,
}

impl Between for Hosts {
    fn allgather(&self, bytes: &[u8], for_all: bool) -> Result<Vec<Vec<u8>>, Error> {
        let firsts = self.firsts.as_ref().map(|firsts| &firsts.0);
        let Some(firsts) = firsts else { return Err(Error::Stopped { what: "the first process had agreed".into() }) };
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
    fn gather(&self, firsts: &SimpleCommunicator, own: &[u8], lens: &[usize], for_all: bool) -> Result<Vec<u8>, Error> {
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
        let waited = self.wait(|request| unsafe {
            let (own_len, bytes) = (own.len() as c_int, ffi::RSMPI_UINT8_T);
            let (from, into) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
            let (counts, places, hosts) = (counts.as_ptr(), places.as_ptr(), firsts.as_raw());
            match for_all {
                true => ffi::MPI_Iallgatherv(from, own_len, bytes, into, counts, places, bytes, hosts, request),
                false => ffi::MPI_Igatherv(from, own_len, bytes, into, counts, places, bytes, 0, hosts, request),
            }
        });
        if let Err(e) = waited {
            // MPI may go on using them.
            Box::leak(buffers);
            return Err(e);
        }
        Ok(buffers.1)
    }

    /// Starts an operation and waits until it has ended, or a process of this host is lost.
    fn wait(&self, start: impl FnOnce(*mut ffi::MPI_Request) -> c_int) -> Result<(), Error> {
        // SAFETY: The null handle, which the operation replaces.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        {
            let _calls = self.world.calls();
            start(&mut request);
        }
        let mut pause = Duration::from_micros(1);
        loop {
            let mut over = 0;
            {
                let _calls = self.world.calls();
                // SAFETY: The request has been started and has not ended.
                unsafe { ffi::MPI_Test(&mut request, &mut over, ffi::RSMPI_STATUS_IGNORE) };
            }
            if over != 0 {
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
