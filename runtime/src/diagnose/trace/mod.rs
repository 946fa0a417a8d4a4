//! Traces: their files, and the events that a run collects. The module `record` notes events, `carry` takes them to the
//! process that writes the file, `write` has the format.

#[cfg(target_os = "linux")]
mod carry;
mod record;
mod write;

#[cfg(target_os = "linux")]
pub(crate) use carry::{Packed, Unpacking};
pub(crate) use record::{Entry, EventKind, Recorder, Recording};

use crate::Error;
use maniple_mapper::{Machine, files};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file for traces, for [`Runtime::trace`](crate::Runtime::trace). It is in the Trace Event Format, which
/// <https://ui.perfetto.dev> and `chrome://tracing` open.
///
/// ```
/// # use maniple_runtime::{Error, Runtime, TraceFile};
/// let path = std::env::temp_dir().join("maniple-doc.json");
/// let file = TraceFile::create(&path)?;
/// let runtime = Runtime::threads(2).trace(file.clone());
/// runtime.run(|top| async move { top.gang("all", 4).map(drop) })?;
/// file.written()?;
/// assert!(std::fs::read_to_string(&path).is_ok_and(|text| text.contains("traceEvents")));
/// # Ok::<(), Error>(())
/// ```
///
/// A node appears as a process and a processor as one of its threads, each numbered from 1. The row of a processor
/// shows:
///
/// - its leaf tasks, and polls of its shards;
/// - subtasks of collectives; subtasks that follow each other are one slice, with their number;
/// - the taking in of messages, and sleep;
/// - calls of the mapper, within these.
///
/// Arrows lead from the sending of a message to its taking in, and from an arrival to the task, shard or collective that
/// it releases. A slice of the category `wait` lasts from one poll of a shard to the next.
///
/// Times are in microseconds since the run began. On the seeded driver a step takes one microsecond, and a seed gives
/// the same bytes each time.
///
/// Each processor keeps its newest events, 16 bytes each, up to the number that [`events`](Self::events) sets. The file
/// says how many older ones were dropped.
///
/// A run writes the file when it ends, well or not, in place of an earlier trace. The file is written as
/// [a whole](files::Whole): if that fails, its earlier content stays, and [`written`](Self::written) has the error. The
/// run gives its result all the same.
///
/// # Several processes
///
/// Process 0 alone checks and writes the file. At the end of a run on several processes it gets the events of all, and
/// needs the memory for them. A process with [another number](crate::Runtime::process_number) does not touch the file,
/// whatever it runs. Either all processes of a run have a trace, or none has.
///
/// All times are on the clock of process 0's host. The processes of a host share a clock. Clocks of other hosts are compared
/// at the start and at the end of the run; `clock_error_us` in the file is the largest possible error between two hosts.
/// An arrow between hosts may end that much before it begins. If a process is lost, the file has what process 0 has, and
/// `missing` says why the rest is not there.
#[derive(Debug, Clone)]
pub struct TraceFile {
    path: Arc<Path>,
    /// `None` in a process that does not write it.
    file: Option<files::Whole>,
    /// The most events that one processor keeps.
    most: usize,
    spare: Arc<Mutex<Vec<Vec<Entry>>>>,
    lost: Arc<Lost>,
}

/// Why the trace of the last run is not in the file.
#[derive(Debug, Default)]
struct Lost(Mutex<Option<Error>>);

/// An error that nobody has asked for is logged.
impl Drop for Lost {
    fn drop(&mut self) {
        if let Some(error) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner) {
            log::error!("{error}");
        }
    }
}

/// The events that a traced run collects.
pub(crate) struct Tracing {
    /// The most events that one processor keeps.
    pub most: usize,
    recordings: Mutex<Vec<Recording>>,
    spare: Arc<Mutex<Vec<Vec<Entry>>>>,
    nodes: Mutex<Option<Nodes>>,
}

/// The nodes of a run on several processes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// For each node, the name of its host.
    pub hosts: Vec<String>,
    /// For each node, the first node of its host. Nodes of a host have one clock.
    pub first_of: Vec<u32>,
    /// For each node, the nanoseconds to add to times of its recordings: at the start and at the end of the run.
    pub shifts: Vec<[i64; 2]>,
    /// The largest error between times of two hosts, in nanoseconds, if there are several hosts.
    pub clock_error: Option<u64>,
    /// Why the recordings of other processes are missing.
    pub missing: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracing {
    /// A list for a processor's events, if there is one from an earlier run: its memory has been touched before.
    pub fn list(&self) -> Vec<Entry> {
        lock(&self.spare).pop().unwrap_or_default()
    }

    pub fn add(&self, recording: Recording) {
        lock(&self.recordings).push(recording);
    }

    /// Keeps the lists of recordings that are not needed any more.
    fn spare(&self, recordings: Vec<Recording>) {
        lock(&self.spare).extend(recordings.into_iter().map(|r| r.events));
    }

    /// Sets the nodes of a run on several processes.
    #[cfg(target_os = "linux")]
    pub fn set_nodes(&self, nodes: Nodes) {
        *lock(&self.nodes) = Some(nodes);
    }
}

impl TraceFile {
    /// A file that this process writes, or not.
    pub(crate) fn at(path: PathBuf, writes: bool) -> Result<Self, Error> {
        match writes.then(|| files::Whole::prepare(&path)).transpose() {
            Ok(file) => {
                Ok(Self { path: path.into(), file, most: 1 << 20, spare: Arc::default(), lost: Arc::default() })
            }
            Err(e) => Err(failed(&path, e)),
        }
    }

    /// Sets the most events that each processor keeps: 2²⁰ without this. As a guide, an iteration of the stencil makes
    /// about six events for each shard.
    pub fn events(mut self, most: usize) -> Self {
        self.most = most.max(1);
        self
    }

    /// Whether the trace of the last run is in the file. Never waits. An error that nobody asks for is logged when the
    /// last clone of the file is dropped. Process 0 alone knows: in others there is no error.
    ///
    /// # Errors
    /// [`Error::Trace`] when the file could not be written. Each error is returned once.
    pub fn written(&self) -> Result<(), Error> {
        lock(&self.lost.0).take().map_or(Ok(()), Err)
    }

    pub(crate) fn tracing(&self) -> Tracing {
        let (recordings, nodes) = Default::default();
        Tracing { most: self.most, recordings, spare: self.spare.clone(), nodes }
    }

    /// Writes the events that a run has collected, in place of the file's content, if this process writes it.
    pub(crate) fn write(&self, tracing: &Tracing, machine: &Machine, driver: &str, error: Option<&Error>) {
        let mut recordings = std::mem::take(&mut *lock(&tracing.recordings));
        // This process may have met the others since it made the file.
        if let Some(file) = self.file.as_ref().filter(|_| crate::Runtime::process_number() == 0) {
            recordings.sort_by_key(|r| r.processor);
            let nodes = lock(&tracing.nodes).take();
            let about = write::RunInfo { machine, driver, nodes, error };
            let written = file.write(|out| write::write(out, &recordings, about));
            let dropped: u64 = recordings.iter().map(|r| r.dropped).sum();
            if dropped > 0 {
                let (path, most) = (self.path.display(), self.most);
                log::warn!(
                    "trace {path}: each processor kept its newest {most} events; {dropped} older ones were dropped"
                );
            }
            *lock(&self.lost.0) = written.err().map(|e| failed(&self.path, e));
        }
        tracing.spare(recordings);
    }
}

fn failed(path: &Path, e: impl Display) -> Error {
    Error::Trace { path: path.display().to_string(), message: e.to_string() }
}
