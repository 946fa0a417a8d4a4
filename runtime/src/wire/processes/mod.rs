//! The wire between processes, of one host or several. Each process is a node with its own copy of the top-level task.
//! Within a process the processors talk through the rings of the threads wire. Processes of a host talk through rings in
//! memory that they share, processes of different hosts through a [`Carrier`](link::Carrier).
//!
//! | file | what is in it |
//! |---|---|
//! | `meeting.rs` | the processes, and how they agree |
//! | `copies.rs`, `launcher.rs`, `mpi/` | who starts them: the first process, or a launcher of MPI |
//! | `lobby.rs`, `watch.rs` | the memory in which the processes of a host gather bytes; which of them have ended |
//! | `segment.rs`, `segments.rs`, `memory.rs` | shared memory, what lies in it, instances in it |
//! | `rings.rs`, `packet.rs` | rings between processes of a host, and what is in their slots |
//! | `traces.rs`, `clocks.rs` | gathers traces; compares the clocks of hosts |
//! | `link.rs` | messages between hosts |
//! | `agreement.rs` | how hosts find out that all are idle, or done |

mod agreement;
mod clocks;
mod copies;
mod launcher;
mod link;
mod lobby;
mod meeting;
mod memory;
pub(crate) mod mpi;
mod packet;
mod rings;
mod segment;
mod segments;
mod traces;
mod watch;

use super::bind::Binding;
use super::threads::post::{Post, Publics, slots_between};
use super::threads::{self, Ended, RunOn};
use super::{AnyResult, Begin, Faults, crashed};
use crate::config::Config;
use crate::counters::Stats;
use crate::diagnose::deadlock::ReportPart;
use crate::ids::{NodeId, ProcessorId};
use crate::message::{Message, SharedMemory};
use crate::{Error, Processes, Progress};
pub(crate) use launcher::launched;
use link::{Hosts, Link};
use lobby::GiveUp;
use meeting::Meeting;
pub(crate) use meeting::{Started, count, last_words, number, reports};
use memory::Registered;
use rings::{Failure, Ways};
use segment::Segment;
use segments::{LARGEST, Layout, Segments};
use serde::{Deserialize, Serialize};
use std::hash::Hasher;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::time::{Duration, Instant};
use traces::Traced;

/// How often a thread for messages of other hosts looks before it naps, and its first nap, which doubles six times.
const BRISK: u32 = 1000;
const SHORTEST_NAP: Duration = Duration::from_micros(20);

/// Tells allgathers apart, so that processes that are at different points of their program do not take one for the other.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    /// Before a run.
    Hello(Hello),
    /// The segments of the others are open, at this time of the host; or could not be opened.
    Opened(Result<Duration, Error>),
    /// Before and after a run with a trace: the times around the allgathers of this kind so far.
    Clocks(Vec<clocks::Around>),
    /// After a run.
    Ended(Box<Outcome>),
}

/// What the processes tell each other before a run.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    /// What must be the same in all processes.
    common: Common,
    /// An error of this process.
    error: Option<Error>,
    /// The process's number of the system, and the number of its segment's file.
    process: u32,
    file: i32,
}

/// What must be the same in all processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Common {
    /// The number of the run among the program's runs on several processes.
    pub run: u32,
    /// The number of processes that the run wants.
    pub processes: u32,
    /// A hash of the program's file.
    pub program: u64,
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// Processors of the process.
    pub workers: u32,
    /// How many of them run no leaf tasks.
    pub utility: u32,
    /// The name of the mapper, and its number in the slot.
    pub mapper: String,
    pub number: u64,
    pub binding: String,
    pub faults: String,
    /// Whether there is a trace.
    pub traced: bool,
}

impl Common {
    /// An error that shows the first difference.
    fn check(&self, other: &Self, rank: usize) -> Result<(), Error> {
        let parts = |common: &Self| {
            [
                ("number of the run", common.run.to_string()),
                ("program's file", format!("one with hash {:016x}", common.program)),
                ("number of processes", common.processes.to_string()),
                ("arguments", format!("{:?}", common.arguments)),
                ("workers of a process", common.workers.to_string()),
                ("utility processors", common.utility.to_string()),
                ("mapper", format!("`{}`", common.mapper)),
                ("replacements of the mapper", common.number.to_string()),
                ("binding", common.binding.clone()),
                ("faults", common.faults.clone()),
                ("trace", if common.traced { "one" } else { "none" }.into()),
            ]
        };
        match parts(self).into_iter().zip(parts(other)).find(|(mine, its)| mine != its) {
            None => Ok(()),
            Some(((what, mine), (_, its))) => {
                let (expected, came) = (format!("{mine}, as in process 0"), format!("{its} in process {rank}"));
                Err(Error::misuse(format!("{what} (must be the same in all processes)"), expected, came))
            }
        }
    }
}

/// What the processes tell each other after a run.
#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    error: Option<Error>,
    stats: Stats,
    calls: Option<(u64, u64)>,
    reports: Option<Vec<ReportPart>>,
    /// The frames that have been sent to processes of other hosts.
    sent: Vec<(u32, u64)>,
    /// The bytes of the recordings that go to the first process, with a trace.
    recorded: u64,
}

/// Meets the other processes; collective in the first call. Without a number of workers each process has the part of its
/// host's processors that all can have at least.
pub(crate) fn meet(started: Started, workers: Option<u32>) -> Result<Processes, Error> {
    let meeting = Meeting::of(started)?;
    let (hosts, first_of, cpus) = (meeting.names.clone(), meeting.hosts.clone(), meeting.cpus.clone());
    Ok(Processes { hosts, first_of, cpus, workers: workers.unwrap_or(meeting.share) })
}

/// How a program runs on several processes.
pub(crate) struct How<'a> {
    pub started: Started,
    /// How many processors of each process run no leaf tasks.
    pub utility: u32,
    pub binding: &'a Binding,
    pub progress: Progress,
    pub faults: &'a Faults,
}

/// Runs a program on several processes. The first call starts them, or meets them; collective.
pub(crate) fn run(config: Arc<Config>, how: How<'_>, begin: &Begin<'_>) -> Result<(AnyResult, Stats), Error> {
    // The processes would mix up the allgathers of two.
    static ONE: Mutex<u32> = Mutex::new(0);
    let mut one = match ONE.try_lock() {
        Ok(one) => one,
        Err(TryLockError::Poisoned(after_a_panic)) => after_a_panic.into_inner(),
        Err(TryLockError::WouldBlock) => {
            return Err(Error::misuse("runs on several processes", "one at a time", "another that is under way"));
        }
    };
    *one += 1;
    let meeting = Meeting::of(how.started)?;
    mpi::under_way(true);
    let ended = run_of(&meeting, config, how, *one, begin);
    mpi::under_way(false);
    ended
}

fn run_of(
    meeting: &Meeting,
    config: Arc<Config>,
    How { started, utility, binding, progress, faults }: How<'_>,
    run: u32,
    begin: &Begin<'_>,
) -> Result<(AnyResult, Stats), Error> {
    let workers = config.machine.processors() / meeting.size();
    let me = meeting.rank as usize;
    let layout = Layout { processes: meeting.size(), workers };
    let bytes = segment_bytes(layout, meeting.on_host());
    let own = Segment::new("maniple", bytes, layout.heap(), meeting.on_host() > 1);
    let own = own.inspect(|own| Segments::prepare(layout, own));
    let places = meeting.places(binding, workers);
    let error = meeting.check(started).err();
    let error = error.or(own.as_ref().err().map(unshared)).or(places.as_ref().err().cloned());
    let file = own.as_ref().map_or(0, Segment::file);
    let arguments = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let processes = if let Started::Copies(wanted) = started { wanted } else { meeting.size() };
    let binding = format!("{binding:?}");
    let (mapper, number) = (config.first_mapper.name.to_string(), config.first_mapper.number);
    let (program, faults_text, traced) = (program(), faults.to_string(), config.trace.is_some());
    let common = Common {
        run,
        processes,
        program,
        arguments,
        workers,
        utility,
        mapper,
        number,
        binding,
        faults: faults_text,
        traced,
    };
    let hellos = meeting.all(&Told::Hello(Hello { common, error, process: std::process::id(), file }))?;
    let hellos = hellos.into_iter().map(|told| match told {
        Told::Hello(hello) => Ok(hello),
        other => Err(mixed(&other)),
    });
    let hellos = hellos.collect::<Result<Vec<_>, _>>()?;
    hellos.iter().enumerate().try_for_each(|(rank, hello)| hellos[0].common.check(&hello.common, rank))?;
    if let Some(error) = hellos.iter().find_map(|hello| hello.error.clone()) {
        return Err(error);
    }
    let mut own = own.ok();
    let open = |(rank, hello): (usize, &Hello)| match own.take_if(|_| rank == me) {
        Some(own) => Ok(Some(Arc::new(own))),
        None if meeting.hosts[rank] != meeting.hosts[me] => Ok(None),
        None => {
            let opened = Segment::open(hello.process, hello.file);
            opened.map(|of| Some(Arc::new(of))).map_err(|e| unshared(&e))
        }
    };
    let segments = hellos.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>();
    // Nobody goes on, and ends, before all have opened all segments.
    let mut opened = Vec::new();
    for told in meeting.all(&Told::Opened(segments.as_ref().map(|_| monotonic()).map_err(Clone::clone)))? {
        match told {
            Told::Opened(Ok(at)) => opened.push(at),
            Told::Opened(Err(e)) => {
                // It may belong to a process which has ended since. Then this allgather says so.
                meeting.all(&Told::Opened(Err(e.clone())))?;
                return Err(e);
            }
            other => return Err(mixed(&other)),
        }
    }
    // All processes of a host have one clock.
    let start = instant(opened[meeting.hosts[me] as usize]);
    let settings = config.clone();
    let traced = settings.trace.as_ref().map(|tracing| Traced::begin(meeting, tracing, &opened)).transpose()?;
    let segments = Arc::new(Segments::new(layout, (me, bytes), segments?));
    // SAFETY: Each process has made its own before it said so in the allgather; the segments keep them.
    let publics = unsafe { Publics::in_memory(segments.publics(), segments.clone()) };
    let failed = Arc::new(Failure::default());
    let slots = slots_between::<Message>(layout.processors());
    let link = meeting.carrier().map(|carrier| {
        let of_process = config.machine.processors_of(NodeId(meeting.rank));
        let utility = of_process.filter(|id| config.machine.is_utility(*id)).collect();
        let hosts = Hosts { layout, run, rank: meeting.rank, first_of: meeting.hosts.clone(), utility };
        Arc::new(Link::new(carrier, hosts, failed.clone()))
    });
    // Without another process on the host there is nobody to share memory with.
    let memory = (meeting.on_host() > 1).then(|| Arc::new(Registered(segments.clone())) as Arc<dyn SharedMemory>);
    let ways = Ways::new(segments, slots, failed.clone(), link.clone());
    let mut post = Post::of(publics, Some(Box::new(ways)), start);
    post.other_hosts = link.is_some().then_some(progress);
    post.slow.clone_from(&faults.slow);
    let post = Arc::new(post);
    // Weak, because the post office has the rings, which have this.
    let weak = Arc::downgrade(&post);
    let give_up: GiveUp = Arc::new(move || {
        if let Some(post) = weak.upgrade() {
            post.give_up();
        }
    });
    let _ = failed.give_up.set(give_up.clone());
    meeting.begin(give_up);
    let first = meeting.rank * workers;
    let on = RunOn {
        post: post.clone(),
        memory,
        places: places?,
        processors: first..first + workers,
        crowded: meeting.is_crowded(workers),
    };
    let run = || with_progress(&post, || threads::run_on(config, on, begin));
    let mut ended = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        // The others would wait for its processors.
        post.give_up();
        Ended { failure: Some(crashed(ProcessorId(first), panic)), ..Ended::default() }
    });
    if let Some(error) = failed.take() {
        ended.failure.get_or_insert(error);
    }
    let error = ended.error().cloned();
    // Tells other hosts if the run was given up.
    post.progress();
    let sent = link.as_ref().map_or_else(Vec::new, |link| link.sent());
    let placed = ended
        .reports
        .iter_mut()
        .flatten()
        .next()
        .map(|part| ReportPart { gangs: std::mem::take(&mut part.gangs), ..ReportPart::default() });
    let packed = traced.as_ref().map(Traced::packed).unwrap_or_default();
    let (stats, reports, recorded) = (ended.stats.clone(), ended.reports.take(), packed.left());
    let calls = ended.calls;
    let told = meeting.all(&Told::Ended(Box::new(Outcome { error, stats, calls, reports, sent, recorded })));
    if let Err(e) = &told {
        // Others may wait for the process that is lost.
        post.give_up();
        traced.iter().for_each(|traced| traced.without(e));
    }
    meeting.end();
    // All come to the same: the first error, or else the deadlock that all processors' waits make.
    let (mut stats, mut first, mut waits) = (Stats::default(), None, None::<Vec<ReportPart>>);
    let (mut calls, mut frames, mut lens) = (Vec::new(), Vec::new(), Vec::new());
    for (rank, told) in (0..).zip(told.map_err(|e| with_shards(e, placed.as_ref(), workers))?) {
        let Told::Ended(outcome) = told else { return Err(mixed(&told)) };
        let Outcome { error, stats: part, calls: made, reports, sent, recorded } = *outcome;
        calls.push(made);
        lens.push(recorded);
        frames.extend(sent.into_iter().filter(|(to, _)| *to == meeting.rank).map(|(_, n)| (rank, n)));
        log::debug!("process {rank} of {} has sent {} messages", meeting.size(), part.messages);
        stats.add(&part);
        first = first.into_iter().chain(error).reduce(Error::or_cause);
        waits = match (waits, reports) {
            (Some(waits), Some(more)) => Some(waits.into_iter().chain(more).collect()),
            (waits, more) => waits.or(more),
        };
    }
    if let Some(link) = link {
        link.drain(&frames, &post.processors, || meeting.has_failed());
    }
    if let Some(traced) = &traced {
        traced.gather(packed, &lens);
    }
    if waits.is_none() {
        first = first.or_else(|| calls.iter().zip(0..).find_map(|(made, node)| differ(calls[0], *made, node)));
    }
    let result = ended.result.filter(Result::is_ok);
    Ended { failure: first, stats, calls: None, reports: waits, result }.conclude()
}

/// The difference between the calls of the first node's top-level task and of another's.
fn differ(of_first: Option<(u64, u64)>, made: Option<(u64, u64)>, node: u32) -> Option<Error> {
    let ((expected, hash), (came, other)) = of_first.zip(made)?;
    let shown = |calls: u64, hash: u64| format!("the end, after {calls} calls in all with the hash {hash:016x}");
    ((expected, hash) != (came, other)).then(|| Error::Divergence {
        call: expected.min(came),
        reference: NodeId(0),
        expected: shown(expected, hash),
        node: NodeId(node),
        came: format!("{} (`Check::ControlReplication` shows each call)", shown(came, other)),
    })
}

/// The bytes of a process's segment. Only those that are used take up memory. All segments of a host fit into the addresses
/// of a process, and into the limits that it has.
fn segment_bytes(layout: Layout, on_host: usize) -> usize {
    const ADDRESSES: usize = 32 << 40;
    const PAGE: usize = 4096;
    if on_host == 1 {
        return layout.heap();
    }
    let most = LARGEST.min(ADDRESSES / on_host).min(segment::limit() / 2 / on_host);
    (most / PAGE * PAGE).max(layout.heap())
}

/// Calls `run`, while a thread of its own sees to the messages of other hosts if that is wanted.
fn with_progress(post: &Post<Message>, run: impl FnOnce() -> Ended) -> Ended {
    if post.other_hosts != Some(Progress::Dedicated) {
        return run();
    }
    // Set when it is dropped, so that the thread ends after a panic too.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    let see = || {
        let mut idle = 0;
        while !over.load(Ordering::Relaxed) {
            idle = if post.progress() { 0 } else { idle + 1 };
            match idle {
                0..BRISK => std::thread::yield_now(),
                _ => std::thread::sleep(SHORTEST_NAP.saturating_mul(1 << (idle - BRISK).min(6))),
            }
        }
    };
    std::thread::scope(|scope| {
        let _over = Over(&over);
        match std::thread::Builder::new().name("maniple progress".into()).spawn_scoped(scope, see) {
            Ok(_) => run(),
            Err(e) => {
                post.give_up();
                let failure = Some(Error::misuse("a run", "a thread for messages of other hosts", e));
                Ended { failure, ..Ended::default() }
            }
        }
    })
}

/// The loss of a process, with the shards that it had.
fn with_shards(error: Error, placed: Option<&ReportPart>, workers: u32) -> Error {
    let Error::ProcessLost { process, host, mut why } = error else { return error };
    let first = process * workers;
    let shards = placed.map(|placed| placed.shards_of(first..first + workers)).unwrap_or_default();
    if !shards.is_empty() {
        why = format!("{why}. It had {shards}");
    }
    Error::ProcessLost { process, host, why }
}

/// The error of a process that is at another point of its program.
fn mixed(told: &Told) -> Error {
    let at = match told {
        Told::Hello(_) => "the start of a run",
        Told::Opened(_) => "the middle of the start of a run",
        Told::Clocks(_) => "the comparison of clocks for a trace",
        Told::Ended(_) => "the end of a run",
    };
    Error::misuse("processes of a run", "all at the same point of the program", format!("one at {at}"))
}

/// The time of this host since some moment, which is the same for all processes.
fn monotonic() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The instant of a time of [`monotonic`] that has passed.
fn instant(time: Duration) -> Instant {
    let once = |_| {
        let (before, now, after) = (monotonic(), Instant::now(), monotonic());
        (after.saturating_sub(before), before, now)
    };
    // The thread may lose its core in between. The quickest of several readings was not interrupted.
    let (took, before, now) = (0..8).map(once).min().unwrap_or_else(|| once(0));
    now.checked_sub((before + took / 2).saturating_sub(time)).unwrap_or(now)
}

/// A hash of this program's file. Copies of one file on several hosts have the same.
fn program() -> u64 {
    static HASH: OnceLock<u64> = OnceLock::new();
    *HASH.get_or_init(|| {
        let mut hasher = rustc_hash::FxHasher::default();
        // A part is full whatever a single read gives, so that the same bytes have the same hash on each file system.
        let mut hash_file = || {
            let mut file = std::fs::File::open("/proc/self/exe")?;
            let mut part = Vec::with_capacity(1 << 20);
            while file.by_ref().take(1 << 20).read_to_end(&mut part)? > 0 {
                hasher.write(&part);
                part.clear();
            }
            Ok::<_, std::io::Error>(hasher.finish())
        };
        hash_file().unwrap_or(0)
    })
}

/// The name of this host.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "this host".into(),
        name => name.into(),
    }
}

fn unshared(e: &std::io::Error) -> Error {
    Error::misuse(
        "a run on several processes",
        "memory that they can share (memfd_create, /proc, `ulimit -v`, `ulimit -f`)",
        e,
    )
}
