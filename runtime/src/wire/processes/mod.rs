//! The wire between processes of one host. Each process is a node with its own copy of the top-level task. Within a
//! process the processors talk through the rings of the threads wire; between processes, through rings in memory that
//! they share.
//!
//! `lobby.rs`: where the processes meet. `segment.rs`: shared memory. `rings.rs`: rings between processes.
//! `packet.rs`: what is in their slots.

mod lobby;
mod packet;
mod rings;
mod segment;

use super::bind::Places;
use super::threads::post::{Post, Publics, slots_between};
use super::threads::{self, Ended, RunOn};
use super::{AnyResult, Begin};
use crate::Error;
use crate::config::Config;
use crate::counters::Stats;
use crate::diagnose::deadlock::ReportPart;
pub(crate) use lobby::number;
use lobby::{GiveUp, Lobby};
use rings::{Failure, Layout, Rings, SEGMENT, Segments};
use segment::Segment;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// What the processes tell each other before a run.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    /// The arguments of the program.
    arguments: Vec<String>,
    /// Processors of the process.
    workers: u32,
    /// Its number of the system, and that of its segment's file, if it has one.
    process: u32,
    file: Result<i32, Error>,
}

/// Runs a program on so many processes of this host. The first call starts them.
pub(crate) fn run(
    config: Arc<Config>,
    (processes, workers): (u32, u32),
    places: Places,
    begin: &Begin<'_>,
) -> Result<(AnyResult, Stats), Error> {
    // The processes would mix up the exchanges of two.
    static ONE: Mutex<()> = Mutex::new(());
    let Ok(_one) = ONE.try_lock() else {
        return Err(Error::misuse("runs on several processes", "one at a time", "another that is under way"));
    };
    let lobby = Lobby::of(processes)?;
    let layout = Layout { processes, workers };
    let own = Segment::new("maniple", SEGMENT).inspect(|own| Segments::prepare(layout, own));
    let arguments = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let file = own.as_ref().map(Segment::file).map_err(unshared);
    let hellos = all(&lobby, &Hello { arguments, workers, process: std::process::id(), file })?;
    let shown = |hello: &Hello| format!("{:?} and {} workers", hello.arguments, hello.workers);
    for (other, rank) in hellos.iter().zip(0..) {
        if shown(other) != shown(&hellos[0]) {
            let (expected, came) =
                (format!("{} in all", shown(&hellos[0])), format!("{} in process {rank}", shown(other)));
            return Err(Error::misuse("arguments and workers of the processes", expected, came));
        }
    }
    if let Some(error) = hellos.iter().find_map(|hello| hello.file.as_ref().err()) {
        return Err(error.clone());
    }
    let me = lobby.rank as usize;
    let mut own = own.ok();
    let open = |(rank, hello): (usize, &Hello)| match (own.take_if(|_| rank == me), &hello.file) {
        (Some(own), _) => Ok(Arc::new(own)),
        (None, Ok(file)) => Segment::open(hello.process, *file, SEGMENT).map(Arc::new).map_err(|e| unshared(&e)),
        (None, Err(error)) => Err(error.clone()),
    };
    let segments = hellos.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>();
    // Nobody goes on, and ends, before all have opened all segments.
    let opened = all(&lobby, &segments.as_ref().err().cloned())?;
    if let Some(error) = opened.into_iter().flatten().next() {
        return Err(error);
    }
    let segments = Arc::new(Segments::new(layout, me, segments?));
    // SAFETY: Each process has made its own before it said so in the exchange; the segments keep them.
    let publics = unsafe { Publics::in_memory(segments.publics(), segments.clone()) };
    let failed = Arc::new(Failure::default());
    let slots = slots_between::<crate::message::Message>(layout.processors());
    let post = Arc::new(Post::of(publics, Some(Box::new(Rings::new(segments, slots, failed.clone())))));
    // Weak, because the post office has the rings, which have this.
    let weak = Arc::downgrade(&post);
    let give_up: GiveUp = Arc::new(move || {
        if let Some(post) = weak.upgrade() {
            post.give_up();
        }
    });
    let _ = failed.give_up.set(give_up.clone());
    lobby.begin(give_up);
    let first = lobby.rank * workers;
    let on = RunOn { post: post.clone(), places, processors: first..first + workers, crowding: layout.processors() };
    let mut ended = threads::run_on(config, on, begin);
    if let Some(error) = failed.take() {
        ended.failure.get_or_insert(error);
    }
    let told = Told { error: ended.error().cloned(), stats: ended.stats.clone(), reports: ended.reports.take() };
    let told = all(&lobby, &told);
    if told.is_err() {
        // Others may wait for the process that is lost.
        post.give_up();
    }
    lobby.end();
    // All come to the same: the first error, or else the deadlock that all processors' waits make.
    let (mut stats, mut first, mut waits) = (Stats::default(), None, None::<Vec<ReportPart>>);
    for Told { error, stats: part, reports } in told? {
        stats.add(&part);
        first = first.or(error);
        waits = match (waits, reports) {
            (Some(waits), Some(more)) => Some(waits.into_iter().chain(more).collect()),
            (waits, more) => waits.or(more),
        };
    }
    Ended { failure: first, stats, reports: waits, result: ended.result.filter(Result::is_ok) }.conclude()
}

/// What the processes tell each other after a run.
#[derive(Serialize, Deserialize)]
struct Told {
    error: Option<Error>,
    stats: Stats,
    reports: Option<Vec<ReportPart>>,
}

/// Exchanges values.
fn all<T: Serialize + for<'a> Deserialize<'a>>(lobby: &Lobby, value: &T) -> Result<Vec<T>, Error> {
    let coded = |e: postcard::Error| Error::Encoding { what: "what processes agree on".into(), message: e.to_string() };
    let mut bytes = postcard::to_stdvec(value).map_err(coded)?;
    // The others then get what they can't decode, rather than nothing.
    bytes.truncate(lobby::MOST_BYTES);
    let bytes = lobby.exchange(&bytes)?;
    bytes.iter().map(|bytes| postcard::from_bytes(bytes).map_err(coded)).collect()
}

fn unshared(e: &std::io::Error) -> Error {
    Error::misuse("a run of several processes", "memory that processes can share (memfd and /proc)", e)
}
