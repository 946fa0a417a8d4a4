//! Traces: their files, and the events that a run collects. The module `record` notes events, `write` has the format.

mod record;
mod write;

pub(crate) use record::{Entry, Kind, Recorder, Recording};

use crate::Error;
use maniple_mapper::{Machine, files};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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
/// - runs of chains of collectives; runs that follow each other are one slice, which says how many they are;
/// - the taking in of messages, and sleep;
/// - calls of the mapper, within these.
///
/// Arrows lead from the sending of a message to its taking in, and from an arrival to the task, shard or chain that it
/// releases. A slice of the category `wait` lasts from one poll of a shard to the next.
///
/// Times are in microseconds since the run began. On the seeded driver a step takes one microsecond, and a seed gives
/// the same bytes each time.
///
/// Each processor keeps its newest events, 16 bytes each, up to the number that [`events`](Self::events) sets. The file
/// says how many older ones were dropped.
///
/// A run writes the file when it is over, well or not, in place of an earlier trace. The file is written as
/// [a whole](files::Whole): if that fails, its earlier content stays, and [`written`](Self::written) has the error. The
/// run gives its result all the same.
#[derive(Debug, Clone)]
pub struct TraceFile {
    path: Arc<Path>,
    file: files::Whole,
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
}

impl Tracing {
    /// A list for a processor's events, if there is one from an earlier run: its memory has been touched before.
    pub fn list(&self) -> Vec<Entry> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub fn add(&self, recording: Recording) {
        self.recordings.lock().unwrap_or_else(PoisonError::into_inner).push(recording);
    }
}

impl TraceFile {
    /// Prepares a file for traces, and makes sure that it can be written. Its present content stays until the first run
    /// ends.
    ///
    /// # Errors
    /// [`Error::Trace`] when the file can't be written, or the path leads to something other than a regular file.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path: PathBuf = path.into();
        match files::Whole::prepare(&path) {
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
    /// last clone of the file is dropped.
    ///
    /// # Errors
    /// [`Error::Trace`] when the file could not be written. The next call gives it no more.
    pub fn written(&self) -> Result<(), Error> {
        self.lost.0.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    pub(crate) fn tracing(&self) -> Tracing {
        Tracing { most: self.most, recordings: Mutex::default(), spare: self.spare.clone() }
    }

    /// Writes the events that a run has collected, in place of the file's content.
    pub(crate) fn write(&self, tracing: &Tracing, machine: &Machine, driver: &str, error: Option<&Error>) {
        let mut recordings = std::mem::take(&mut *tracing.recordings.lock().unwrap_or_else(PoisonError::into_inner));
        recordings.sort_by_key(|r| r.processor);
        let written = self.file.write(|out| write::write(out, &recordings, machine, driver, error));
        let dropped: u64 = recordings.iter().map(|r| r.dropped).sum();
        if dropped > 0 {
            let (path, most) = (self.path.display(), self.most);
            log::warn!("trace {path}: each processor kept its newest {most} events; {dropped} older ones were dropped");
        }
        let lists = recordings.into_iter().map(|r| r.events);
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(lists);
        let lost = written.err().map(|e| failed(&self.path, e));
        *self.lost.0.lock().unwrap_or_else(PoisonError::into_inner) = lost;
    }
}

fn failed(path: &Path, e: impl Display) -> Error {
    Error::Trace { path: path.display().to_string(), message: e.to_string() }
}
