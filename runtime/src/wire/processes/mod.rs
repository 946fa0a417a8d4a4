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
use super::threads::{self, RunOn};
use super::{AnyResult, Begin};
use crate::Error;
use crate::config::Config;
use crate::counters::Stats;
use lobby::Lobby;
use rings::{Failure, Layout, Rings, SEGMENT, Segments};
use segment::Segment;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the processes tell each other before a run.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Hello {
    /// The arguments of the program.
    arguments: Vec<String>,
    /// Processors of the process.
    workers: u32,
    /// Its number of the system, and that of its segment's file.
    process: u32,
    file: i32,
}

/// Runs a program on so many processes of this host. The first call starts them.
pub(crate) fn run(
    config: Arc<Config>,
    (processes, workers): (u32, u32),
    places: Places,
    begin: &Begin<'_>,
) -> Result<(AnyResult, Stats), Error> {
    let lobby = Lobby::of(processes)?;
    let layout = Layout { processes, workers };
    let own = Segment::new("maniple", SEGMENT).map_err(|e| unshared(&e))?;
    Segments::prepare(layout, &own);
    let arguments = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let hello = Hello { arguments, workers, process: std::process::id(), file: own.file() };
    let hellos = all(&lobby, &hello)?;
    for (other, rank) in hellos.iter().zip(0..) {
        if (&other.arguments, other.workers) != (&hello.arguments, hello.workers) {
            let expected = format!("the same in all: process {} has {:?}", lobby.rank, hello.arguments);
            let came = format!("process {rank} with {:?} and {} workers", other.arguments, other.workers);
            return Err(Error::misuse("arguments and workers of the processes", expected, came));
        }
    }
    let me = lobby.rank as usize;
    let mut own = Some(own);
    let open = |(rank, hello): (usize, &Hello)| match own.take_if(|_| rank == me) {
        Some(own) => Ok(Arc::new(own)),
        None => Segment::open(hello.process, hello.file, SEGMENT).map(Arc::new).map_err(|e| unshared(&e)),
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
    let give_up = {
        let post = post.clone();
        Arc::new(move || post.give_up())
    };
    let for_rings = give_up.clone();
    let _ = failed.give_up.set(Box::new(move || for_rings()));
    lobby.begin(give_up);
    let first = lobby.rank * workers;
    let on = RunOn { post, places, processors: first..first + workers, crowding: layout.processors() };
    let result = threads::run_on(config, on, begin);
    let result = failed.take().map_or(result, Err);
    let told = all(&lobby, &result.as_ref().err().cloned());
    lobby.end();
    let errors: Vec<Error> = told?.into_iter().flatten().collect();
    // A process that was told to end reports what its own shards waited for, which is not the cause.
    let cause = errors.iter().find(|e| !matches!(e, Error::Deadlock { .. })).or(errors.first());
    match cause {
        Some(error) => Err(error.clone()),
        None => result,
    }
}

/// Exchanges values.
fn all<T: Serialize + for<'a> Deserialize<'a>>(lobby: &Lobby, value: &T) -> Result<Vec<T>, Error> {
    let coded = |e: postcard::Error| Error::Encoding { what: "what processes agree on".into(), message: e.to_string() };
    let bytes = lobby.exchange(&postcard::to_stdvec(value).map_err(coded)?)?;
    bytes.iter().map(|bytes| postcard::from_bytes(bytes).map_err(coded)).collect()
}

fn unshared(e: &std::io::Error) -> Error {
    Error::misuse("a run of several processes", "memory that processes can share (memfd and /proc)", e)
}
