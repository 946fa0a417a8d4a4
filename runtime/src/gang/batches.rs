//! Batches of shards on this processor: those that wait, those that run, and those whose launch has not ended.

use super::operations::{Number, Operations};
use crate::Error;
use crate::diagnose::deadlock::Node;
use crate::error::Failure;
use crate::ids::{LaunchKey, ObjectId};
use crate::maps::{HashMap, HashSet};
use crate::message::{Batch, Reply, Valid};
use crate::parcel::Parcel;
use std::sync::Arc;

/// A batch that has started.
pub(super) struct RunningBatch {
    pub(super) number: Number,
    task: ObjectId,
    pub(super) gang: ObjectId,
    by: Arc<str>,
    shards: Vec<u32>,
    pub(super) hold: bool,
    pub(super) reply: Reply,
    pub(super) left: usize,
    pub(super) results: Vec<(u32, Result<Parcel, Failure>)>,
    /// The errors of shards that failed, whether or not the shards have ended.
    pub(super) failed: Vec<Error>,
    pub(super) valid: Vec<Valid>,
}

/// The launch, task and gang of a batch, for reports.
pub(crate) struct BatchOrigin<'a> {
    pub launch: LaunchKey,
    pub task: ObjectId,
    pub gang: ObjectId,
    pub by: &'a str,
}

impl BatchOrigin<'_> {
    /// The node of one of its shards.
    pub fn shard(&self, shard: u32) -> Node {
        Node::Shard { gang: self.gang, shard, launch: Some(self.launch) }
    }
}

/// A batch that waits, for reports.
pub(crate) struct WaitingBatch<'a> {
    pub origin: BatchOrigin<'a>,
    pub shards: Vec<u32>,
    /// Messages of data that it needs, and how many have come.
    pub columns: u32,
    pub came: usize,
    /// Earlier launches that use the same data and have not ended.
    pub after: Vec<LaunchKey>,
}

#[derive(Default)]
pub(crate) struct Batches {
    pub(super) operations: Operations,
    pub(super) running: HashMap<LaunchKey, Box<RunningBatch>>,
    /// Gangs whose shards here have all ended at least once, for reports.
    pub(super) ended: HashSet<ObjectId>,
    /// Operations whose own shards have ended, but whose data here is still used by shards of other processors.
    pub(super) until_launch_over: HashMap<LaunchKey, Number>,
}

impl Batches {
    /// Batches that have not ended, each with its unfinished and its finished shards.
    pub fn unfinished(&self) -> impl Iterator<Item = (BatchOrigin<'_>, Vec<u32>, HashSet<u32>)> {
        self.running.iter().map(|(launch, r)| {
            let over: HashSet<u32> = r.results.iter().map(|(shard, _)| *shard).collect();
            let left = r.shards.iter().copied().filter(|s| !over.contains(s)).collect();
            (BatchOrigin { launch: *launch, task: r.task, gang: r.gang, by: &r.by }, left, over)
        })
    }

    /// The errors of failed shards in batches that have not ended.
    pub fn failed(&self) -> impl Iterator<Item = &Error> {
        self.running.values().flat_map(|r| &r.failed)
    }

    /// Notes the error of a shard, for reports. The batch may never end, because leaf tasks or other shards may hang.
    pub fn note_failed(&mut self, launch: LaunchKey, error: &Error) {
        if let Some(running) = self.running.get_mut(&launch) {
            running.failed.push(error.clone());
        }
    }

    /// Gangs whose shards here have ended, with none queued or running.
    pub fn ended(&self) -> impl Iterator<Item = ObjectId> {
        let queued = |gang: ObjectId| self.operations.waiting().any(|(b, ..)| b.gang == gang);
        let runs = move |gang: &ObjectId| self.running.values().any(|r| r.gang == *gang) || queued(*gang);
        self.ended.iter().copied().filter(move |gang| !runs(gang))
    }

    /// How many entries there are, of any kind.
    pub fn entries(&self) -> usize {
        self.operations.entries() + self.running.len() + self.until_launch_over.len()
    }

    /// Batches that wait for data or for earlier operations.
    pub fn waiting(&self) -> impl Iterator<Item = WaitingBatch<'_>> {
        self.operations.waiting().map(|(b, came, after)| WaitingBatch {
            origin: BatchOrigin { launch: b.launch, task: b.task, gang: b.gang, by: &b.by },
            shards: b.shards.iter().map(|s| s.shard).collect(),
            columns: b.columns,
            came,
            after,
        })
    }

    /// Starts a batch.
    pub fn start(&mut self, number: Number, batch: &Batch) {
        if batch.hold {
            self.operations.launch_started(batch.launch);
        }
        let running = RunningBatch {
            number,
            task: batch.task,
            gang: batch.gang,
            by: batch.by.clone(),
            shards: batch.shards.iter().map(|s| s.shard).collect(),
            hold: batch.hold,
            reply: batch.reply,
            left: batch.shards.len(),
            results: Vec::new(),
            failed: Vec::new(),
            valid: Vec::new(),
        };
        self.running.insert(batch.launch, Box::new(running));
    }

    /// A shard has ended. True if it was the last of its batch.
    pub fn end_shard(
        &mut self,
        launch: LaunchKey,
        shard: u32,
        result: Result<Parcel, Failure>,
        valid: Vec<Valid>,
    ) -> bool {
        let Some(running) = self.running.get_mut(&launch) else { return false };
        running.left -= 1;
        running.results.push((shard, result));
        running.valid.extend(valid);
        running.left == 0
    }

    /// Removes a batch whose shards are all over.
    pub(super) fn end(&mut self, launch: LaunchKey) -> Option<Box<RunningBatch>> {
        let running = self.running.remove(&launch)?;
        self.ended.insert(running.gang);
        match running.hold {
            true => drop(self.until_launch_over.insert(launch, running.number)),
            false => self.operations.end(running.number),
        }
        Some(running)
    }

    /// Every shard of a launch has ended, on all processors.
    pub fn launch_over(&mut self, launch: LaunchKey) {
        self.operations.launch_over(launch);
        if let Some(number) = self.until_launch_over.remove(&launch) {
            self.operations.end(number);
        }
    }
}
