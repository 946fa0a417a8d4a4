//! Batches of shards on this processor: those that wait, those that run, and those whose launch has not ended.

use super::orders::{OfLaunch, Orders};
use crate::Error;
use crate::diagnose::deadlock::Node;
use crate::error::Failure;
use crate::ids::{LaunchKey, ObjectId, ProcessorId, TaskId};
use crate::maps::{HashMap, HashSet};
use crate::message::{Batch, Reply, Valid};
use crate::parcel::Parcel;
use crate::task::Tasks;
use std::rc::Rc;

/// A batch that has started.
pub(super) struct RunningBatch {
    /// Its order, which is over when all that use its data here are.
    pub(super) order: TaskId,
    task: ObjectId,
    pub(super) gang: ObjectId,
    of: Rc<OfLaunch>,
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
    /// The processors whose data has not come.
    pub missing: Vec<ProcessorId>,
    /// Earlier launches that use the same data and have not ended, and the moves of data and the leaf tasks that it waits for.
    pub after: Vec<Node>,
}

#[derive(Default)]
pub(crate) struct Batches {
    pub(super) orders: Orders,
    pub(super) running: HashMap<LaunchKey, Box<RunningBatch>>,
    /// Gangs whose shards here have all ended at least once, for reports.
    pub(super) ended: HashSet<ObjectId>,
    /// The orders of batches whose own shards have ended, but whose data here is still used by shards of other processors.
    pub(super) until_launch_over: HashMap<LaunchKey, TaskId>,
}

impl Batches {
    /// Batches that have not ended, each with its unfinished and its finished shards.
    pub fn unfinished(&self) -> impl Iterator<Item = (BatchOrigin<'_>, Vec<u32>, HashSet<u32>)> {
        self.running.iter().map(|(launch, r)| {
            let over: HashSet<u32> = r.results.iter().map(|(shard, _)| *shard).collect();
            let left = r.shards.iter().copied().filter(|s| !over.contains(s)).collect();
            (BatchOrigin { launch: *launch, task: r.task, gang: r.gang, by: &r.of.by }, left, over)
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
    pub fn ended(&self, tasks: &Tasks) -> impl Iterator<Item = ObjectId> {
        let queued: HashSet<ObjectId> = self.orders.waiting(tasks).iter().map(|batch| batch.origin.gang).collect();
        let runs = move |gang: &ObjectId| queued.contains(gang) || self.running.values().any(|r| r.gang == *gang);
        self.ended.iter().copied().filter(move |gang| !runs(gang))
    }

    /// How many entries there are, of any kind.
    pub fn entries(&self) -> usize {
        self.orders.entries() + self.running.len() + self.until_launch_over.len()
    }

    /// Starts the batch of a launch.
    pub fn start(&mut self, tasks: &Tasks, of: &Rc<OfLaunch>, order: TaskId, batch: &Batch) {
        let launch = of.launch;
        if batch.hold {
            self.orders.launch_started(tasks, launch);
        }
        let running = RunningBatch {
            order,
            task: batch.task,
            gang: batch.gang,
            of: of.clone(),
            shards: batch.shards.iter().map(|s| s.shard).collect(),
            hold: batch.hold,
            reply: batch.reply,
            left: batch.shards.len(),
            results: Vec::new(),
            failed: Vec::new(),
            valid: Vec::new(),
        };
        self.running.insert(launch, Box::new(running));
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
    pub(super) fn end(&mut self, tasks: &Tasks, launch: LaunchKey) -> Option<Box<RunningBatch>> {
        let running = self.running.remove(&launch)?;
        self.ended.insert(running.gang);
        match running.hold {
            true => drop(self.until_launch_over.insert(launch, running.order)),
            false => self.orders.end(tasks, running.order),
        }
        Some(running)
    }

    /// Every shard of a launch has ended, on all processors.
    pub fn launch_over(&mut self, tasks: &Tasks, launch: LaunchKey) {
        self.orders.launch_over(launch);
        if let Some(order) = self.until_launch_over.remove(&launch) {
            self.orders.end(tasks, order);
        }
    }
}
