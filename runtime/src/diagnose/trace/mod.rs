//! Traces: where they go, and what a run collects for one. What is noted is in `record`, the format in `write`.

mod record;
mod write;

pub(crate) use record::{Entry, Kind, Recorder, Recording};

use crate::Error;
use maniple_mapper::{Machine, files};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A file for traces, in the Trace Event Format that <https://ui.perfetto.dev> and `chrome://tracing` open.
///
/// ```
/// # use maniple_runtime::{Error, Runtime, TraceFile};
/// let path = std::env::temp_dir().join("maniple-doc.json");
/// let runtime = Runtime::threads(2).trace(TraceFile::create(&path)?);
/// runtime.run(|top| async move { top.gang("all", 4).map(drop) })?;
/// assert!(std::fs::read_to_string(&path).is_ok_and(|text| text.contains("traceEvents")));
/// # Ok::<(), Error>(())
/// ```
///
/// A node is a process there and a processor one of its threads, each numbered from 1. On a processor's row are its leaf
/// tasks, polls of shards, runs of chains of collectives (those that follow each other are one slice, which says how many
/// they are), the taking in of messages, and its sleep; within them the mapper's calls. Arrows lead from where a message is
/// sent to where it is taken in, and from an arrival to the task, shard or chain that it releases. From poll to poll a shard
/// waits: slices of the category `wait`.
///
/// Times are in microseconds since the run began. Under the seeded driver a step takes one; there a seed gives the same
/// bytes each time.
///
/// Each processor keeps its newest events, at most [as many as it may](Self::events), in 16 bytes each, and the file says
/// how many came before them. Nothing is written before the run is over, well or not. Several runs write the file anew,
/// each when it ends: it holds the last one's trace. It is written as [a whole](files::Whole): what it held before stays if that
/// fails.
#[derive(Debug, Clone)]
pub struct TraceFile {
    path: Arc<Path>,
    file: files::Whole,
    /// The most events that one processor keeps.
    most: usize,
    spare: Arc<Mutex<Vec<Vec<Entry>>>>,
}

/// What a run that is traced collects.
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
    /// Makes sure that runs can write the file. What it holds stays until the first of them ends.
    ///
    /// # Errors
    /// [`Error::Trace`] when the file can't be written, or the path leads to something other than a regular file.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path: PathBuf = path.into();
        match files::Whole::prepare(&path) {
            Ok(file) => Ok(Self { path: path.into(), file, most: 1 << 20, spare: Arc::default() }),
            Err(e) => Err(failed(&path, e)),
        }
    }

    /// How many events each processor keeps at most, instead of 2²⁰. An iteration of the stencil makes about six a shard.
    pub fn events(mut self, most: usize) -> Self {
        self.most = most.max(1);
        self
    }

    pub(crate) fn tracing(&self) -> Tracing {
        Tracing { most: self.most, recordings: Mutex::default(), spare: self.spare.clone() }
    }

    /// Writes what a run has collected, in place of what is there.
    pub(crate) fn write(
        &self,
        tracing: &Tracing,
        machine: &Machine,
        driver: &str,
        error: Option<&Error>,
    ) -> Result<(), Error> {
        let mut recordings = std::mem::take(&mut *tracing.recordings.lock().unwrap_or_else(PoisonError::into_inner));
        recordings.sort_by_key(|r| r.processor);
        let written = self.file.write(|out| write::write(out, &recordings, machine, driver, error));
        let dropped: u64 = recordings.iter().map(|r| r.dropped).sum();
        if dropped > 0 {
            let (path, most) = (self.path.display(), self.most);
            log::warn!("trace {path}: the newest {most} events of each processor; {dropped} before them were dropped");
        }
        let lists = recordings.into_iter().map(|r| r.events);
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(lists);
        written.map_err(|e| failed(&self.path, e))
    }
}

fn failed(path: &Path, e: impl Display) -> Error {
    Error::Trace { path: path.display().to_string(), message: e.to_string() }
}
