//! The wire between processes of one host. Each process is a node with its own copy of the top-level task. Within a
//! process the processors talk through the rings of the threads wire; between processes, through rings in memory that
//! they share.
//!
//! `meeting.rs`: the processes, and how they agree. `copies.rs` starts them, or `mpi.rs` meets those that a launcher has
//! started (`launcher.rs`). `lobby.rs`: the memory in which those of a host exchange bytes; `watch.rs` finds out which
//! have ended. `segment.rs`: shared memory. `segments.rs`: what lies in it. `memory.rs`: instances in them. `rings.rs`: rings between processes. `packet.rs`: what is in their slots.

mod agreement;
mod copies;
mod launcher;
mod link;
mod lobby;
mod meeting;
mod memory;
#[cfg(feature = "mpi")]
pub(crate) mod mpi;
mod packet;
mod rings;
mod segment;
mod segments;
mod watch;

use super::bind::Binding;
use super::threads::post::{Post, Publics, slots_between};
use super::threads::{self, Ended, RunOn};
use super::{AnyResult, Begin, Faults, crashed};
use crate::config::Config;
use crate::counters::Stats;
use crate::diagnose::deadlock::ReportPart;
use crate::ids::ProcessorId;
use crate::message::Message;
use crate::{Error, Processes, Progress};
pub(crate) use launcher::launched;
use link::{Hosts, Link};
use lobby::GiveUp;
use meeting::Meeting;
pub(crate) use meeting::{Started, last_words, number, reports};
use memory::Registered;
use rings::{Failure, Ways};
use segment::Segment;
use segments::{Layout, SEGMENT, Segments};
use serde::{Deserialize, Serialize};
use std::hash::Hasher;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How often a thread for messages of other hosts looks before it naps, and its first nap, which doubles six times.
const BRISK: u32 = 1000;
const SHORTEST_NAP: Duration = Duration::from_micros(20);

/// Tells exchanges apart, so that processes that are at different points of their program do not take one for the other.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    /// Before a run.
    Hello(Hello),
    /// The segments of the others are open, at this time of the host; or could not be opened.
    Opened(Result<Duration, Error>),
    /// After a run.
    Ended(Box<Outcome>),
}

/// What the processes tell each other before a run.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    /// What all must have alike.
    alike: Alike,
    /// An error of this process.
    error: Option<Error>,
    /// The process's number of the system, and that of its segment's file.
    process: u32,
    file: i32,
}

/// What the processes must have alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Alike {
    /// The number of the run among those of the program on several processes.
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
    /// The name of the mapper.
    pub mapper: String,
    pub binding: String,
    pub faults: String,
}

impl Alike {
    /// An error that shows the first difference.
    fn check(&self, other: &Self, rank: usize) -> Result<(), Error> {
        let parts = |alike: &Self| {
            [
                ("number of the run", alike.run.to_string()),
                ("program's file", format!("one with hash {:016x}", alike.program)),
                ("number of processes", alike.processes.to_string()),
                ("arguments", format!("{:?}", alike.arguments)),
                ("workers of a process", alike.workers.to_string()),
                ("utility processors", alike.utility.to_string()),
                ("mapper", format!("`{}`", alike.mapper)),
                ("binding", alike.binding.clone()),
                ("faults", alike.faults.clone()),
            ]
        };
        match parts(self).into_iter().zip(parts(other)).find(|(mine, its)| mine != its) {
            None => Ok(()),
            Some(((what, mine), (_, its))) => {
                let (expected, came) = (format!("{mine}, as in process 0"), format!("{its} in process {rank}"));
                Err(Error::misuse(format!("{what}, which all processes have alike"), expected, came))
            }
        }
    }
}

/// What the processes tell each other after a run.
#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    error: Option<Error>,
    stats: Stats,
    reports: Option<Vec<ReportPart>>,
    /// The frames that have been sent to processes of other hosts.
    sent: Vec<(u32, u64)>,
}

/// Meets the other processes; collective in the first call. Without a number of workers each process has the part of its
/// host's processors that all can have at least.
pub(crate) fn meet(started: Started, workers: Option<u32>) -> Result<Processes, Error> {
    let meeting = Meeting::of(started)?;
    let (hosts, cpus) = (meeting.names.clone(), meeting.cpus.clone());
    Ok(Processes { hosts, cpus, workers: workers.unwrap_or_else(|| meeting.share()) })
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
    // The processes would mix up the exchanges of two.
    static ONE: Mutex<u32> = Mutex::new(0);
    let Ok(mut one) = ONE.try_lock() else {
        return Err(Error::misuse("runs on several processes", "one at a time", "another that is under way"));
    };
    *one += 1;
    let meeting = Meeting::of(how.started)?;
    under_way(true);
    let ended = run_of(&meeting, config, how, *one, begin);
    under_way(false);
    ended
}

/// Says whether a run is under way. If this process ends meanwhile, it leaves the others alone.
fn under_way(so: bool) {
    #[cfg(feature = "mpi")]
    mpi::under_way(so);
    let _ = so;
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
    let own = Segment::new("maniple", SEGMENT).inspect(|own| Segments::prepare(layout, own));
    let places = meeting.places(binding, workers);
    let error = meeting.check(started).err();
    let error = error.or(own.as_ref().err().map(unshared)).or(places.as_ref().err().cloned());
    let file = own.as_ref().map_or(0, Segment::file);
    let arguments = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let processes = if let Started::Copies(wanted) = started { wanted } else { meeting.size() };
    let (mapper, binding) = (config.mapper.current().name.to_string(), format!("{binding:?}"));
    let (program, faults_text) = (program(), faults.to_string());
    let alike = Alike { run, processes, program, arguments, workers, utility, mapper, binding, faults: faults_text };
    let hellos = meeting.all(&Told::Hello(Hello { alike, error, process: std::process::id(), file }))?;
    let hellos = hellos.into_iter().map(|told| match told {
        Told::Hello(hello) => Ok(hello),
        other => Err(mixed(&other)),
    });
    let hellos = hellos.collect::<Result<Vec<_>, _>>()?;
    hellos.iter().enumerate().try_for_each(|(rank, hello)| hellos[0].alike.check(&hello.alike, rank))?;
    if let Some(error) = hellos.iter().find_map(|hello| hello.error.clone()) {
        return Err(error);
    }
    let mut own = own.ok();
    let open = |(rank, hello): (usize, &Hello)| match own.take_if(|_| rank == me) {
        Some(own) => Ok(Some(Arc::new(own))),
        None if meeting.hosts[rank] != meeting.hosts[me] => Ok(None),
        None => {
            Segment::open(hello.process, hello.file, SEGMENT).map(|of| Some(Arc::new(of))).map_err(|e| unshared(&e))
        }
    };
    let segments = hellos.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>();
    // Nobody goes on, and ends, before all have opened all segments.
    let mut opened = Vec::new();
    for told in meeting.all(&Told::Opened(segments.as_ref().map(|_| monotonic()).map_err(Clone::clone)))? {
        match told {
            Told::Opened(at) => opened.push(at?),
            other => return Err(mixed(&other)),
        }
    }
    // All processes of a host have one clock.
    let passed = monotonic().saturating_sub(opened[meeting.hosts[me] as usize]);
    let start = Instant::now().checked_sub(passed).unwrap_or_else(Instant::now);
    let segments = Arc::new(Segments::new(layout, me, segments?));
    // SAFETY: Each process has made its own before it said so in the exchange; the segments keep them.
    let publics = unsafe { Publics::in_memory(segments.publics(), segments.clone()) };
    let failed = Arc::new(Failure::default());
    let slots = slots_between::<Message>(layout.processors());
    let link = meeting.carrier().map(|carrier| {
        let hosts = Hosts { layout, run, rank: meeting.rank, first_of: meeting.hosts.clone() };
        Arc::new(Link::new(carrier, hosts, failed.clone()))
    });
    let memory = Arc::new(Registered(segments.clone()));
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
        memory: Some(memory),
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
    let outcome = Outcome { error: error.clone(), stats: ended.stats.clone(), reports: ended.reports.take(), sent };
    let told = meeting.all(&Told::Ended(Box::new(outcome)));
    if told.is_err() {
        // Others may wait for the process that is lost.
        post.give_up();
    }
    meeting.end();
    // All come to the same: the first error, or else the deadlock that all processors' waits make.
    let (mut stats, mut first, mut waits) = (Stats::default(), None, None::<Vec<ReportPart>>);
    let mut frames = Vec::new();
    for (rank, told) in (0..).zip(told.map_err(|e| with_shards(e, placed.as_ref(), workers))?) {
        let Told::Ended(outcome) = told else { return Err(mixed(&told)) };
        let Outcome { error, stats: part, reports, sent } = *outcome;
        frames.extend(sent.into_iter().filter(|(to, _)| *to == meeting.rank).map(|(_, n)| (rank, n)));
        log::debug!("process {rank} of {} has sent {} messages", meeting.size(), part.messages);
        stats.add(&part);
        first = first.or(error);
        waits = match (waits, reports) {
            (Some(waits), Some(more)) => Some(waits.into_iter().chain(more).collect()),
            (waits, more) => waits.or(more),
        };
    }
    if let Some(link) = link {
        link.drain(&frames, &post.processors, || meeting.has_failed());
    }
    Ended { failure: first, stats, reports: waits, result: ended.result.filter(Result::is_ok) }.conclude()
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
        Told::Ended(_) => "the end of a run",
    };
    Error::misuse("processes of a run", "all at the same point of the program", format!("one at {at}"))
}

/// The time of this host since some moment, which is the same for all processes.
fn monotonic() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// A hash of this program's file. Copies of one file on several hosts have the same.
fn program() -> u64 {
    static HASH: OnceLock<u64> = OnceLock::new();
    *HASH.get_or_init(|| {
        let mut hasher = rustc_hash::FxHasher::default();
        // Without the file there is nothing to compare.
        if let Ok(mut file) = std::fs::File::open("/proc/self/exe") {
            let mut part = vec![0; 1 << 20];
            while let Ok(len @ 1..) = file.read(&mut part) {
                hasher.write(&part[..len]);
            }
        }
        hasher.finish()
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
    Error::misuse("a run of several processes", "memory that processes can share (memfd and /proc)", e)
}
