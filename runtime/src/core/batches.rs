//! Batches of shards on this processor: their start, once their turn has come, and their end; and the results of launches.

use super::Core;
use crate::Error;
use crate::deadlock::Node;
use crate::error::panic_message;
use crate::gang::{LaunchState, Number, Operations, Order};
use crate::maps::{HashMap, HashSet};
use crate::message::{Batch, BatchDone, Columns, LaunchKey, Message, ObjectId, Reply, SendColumns, ShardStart, Valid};
use crate::object::{GangTable, Object, Task};
use crate::parcel::Parcel;
use crate::shard::{Origin, Shard};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// A started batch.
struct Running {
    number: Number,
    task: ObjectId,
    gang: ObjectId,
    by: Arc<str>,
    shards: Vec<u32>,
    hold: bool,
    reply: Reply,
    left: usize,
    results: Vec<(u32, Result<Parcel, Error>)>,
    /// Why shards failed, whether or not they are over.
    failed: Vec<Error>,
    valid: Vec<Valid>,
}

/// What a batch is part of, for reports.
pub(crate) struct Asked<'a> {
    pub launch: LaunchKey,
    pub task: ObjectId,
    pub gang: ObjectId,
    pub by: &'a str,
}

impl Asked<'_> {
    /// One of its shards.
    pub fn shard(&self, shard: u32) -> Node {
        Node::Shard { gang: self.gang, shard, launch: Some(self.launch) }
    }
}

/// A batch that waits, for reports.
pub(crate) struct Queued<'a> {
    pub asked: Asked<'a>,
    pub shards: Vec<u32>,
    /// Messages of data that it needs, and how many have come.
    pub columns: u32,
    pub came: usize,
    /// Earlier launches that use the same data.
    pub after: Vec<LaunchKey>,
}

#[derive(Default)]
pub(crate) struct Batches {
    operations: Operations,
    running: HashMap<LaunchKey, Box<Running>>,
    /// Gangs whose shards here have all been over once, for reports.
    ended: HashSet<ObjectId>,
    /// Operations whose own shards are over, but not those of other processors that use what is here.
    held: HashMap<LaunchKey, Number>,
}

impl Batches {
    /// Batches that are not over, with their shards that are not, and those that are.
    pub fn unfinished(&self) -> impl Iterator<Item = (Asked<'_>, Vec<u32>, HashSet<u32>)> {
        self.running.iter().map(|(launch, r)| {
            let over: HashSet<u32> = r.results.iter().map(|(shard, _)| *shard).collect();
            let left = r.shards.iter().copied().filter(|s| !over.contains(s)).collect();
            (Asked { launch: *launch, task: r.task, gang: r.gang, by: &r.by }, left, over)
        })
    }

    /// Why shards of batches that are not over failed.
    pub fn failed(&self) -> impl Iterator<Item = &Error> {
        self.running.values().flat_map(|r| &r.failed)
    }

    /// Gangs whose shards here are over and none of which runs.
    pub fn ended(&self) -> impl Iterator<Item = ObjectId> {
        let queued = |gang: ObjectId| self.operations.waiting().any(|(b, ..)| b.gang == gang);
        let runs = move |gang: &ObjectId| self.running.values().any(|r| r.gang == *gang) || queued(*gang);
        self.ended.iter().copied().filter(move |gang| !runs(gang))
    }

    /// How many entries there are, of any kind.
    pub fn entries(&self) -> usize {
        self.operations.entries() + self.running.len() + self.held.len()
    }

    /// Batches that wait for data or for earlier ones.
    pub fn waiting(&self) -> impl Iterator<Item = Queued<'_>> {
        self.operations.waiting().map(|(b, came, after)| Queued {
            asked: Asked { launch: b.launch, task: b.task, gang: b.gang, by: &b.by },
            shards: b.shards.iter().map(|s| s.shard).collect(),
            columns: b.columns,
            came,
            after,
        })
    }
}

/// The end of a shard that has failed or has leaf tasks left: whoever waits for one that failed learns of it at once, the launch when its leaf tasks are over.
async fn end_when_leaves_are(shard: Shard, result: Result<Parcel, Error>) {
    if let Err(e) = &result {
        shard.abandon(e);
    }
    let unseen = shard.leaves_over().await;
    let result = match (result, unseen) {
        (Ok(_), Some(e)) => {
            shard.abandon(&e);
            Err(e)
        }
        (result, _) => result,
    };
    shard.core().shard_over(&shard, result);
}

impl Core {
    pub(super) fn batches(&self) -> &RefCell<Batches> {
        self.batches.get_or_init(Box::default)
    }

    pub(super) fn take_order(self: &Rc<Self>, order: Order) {
        self.batches().borrow_mut().operations.push(order);
        self.start_operations();
    }

    pub(super) fn take_columns(self: &Rc<Self>, columns: Columns) {
        self.batches().borrow_mut().operations.take_columns(columns);
        self.start_operations();
    }

    pub(super) fn launch_started(&self, launch: LaunchKey) -> bool {
        self.batches().borrow().operations.has_started(launch)
    }

    pub(super) fn start_operations(self: &Rc<Self>) {
        loop {
            let next = self.batches().borrow_mut().operations.start_next(self.starts_all());
            match next {
                None => return,
                Some((number, Order::Send(order))) => {
                    self.send_columns(*order);
                    self.batches().borrow_mut().operations.end(number);
                }
                Some((number, Order::Start(batch))) => self.start_batch(number, *batch),
            }
        }
    }

    /// Whether operations are started that have to wait.
    fn starts_all(&self) -> bool {
        #[cfg(feature = "plant")]
        if self.config.strikes(crate::plant::Bug::EarlyStart) {
            return true;
        }
        self.lost().is_some()
    }

    fn send_columns(self: &Rc<Self>, order: SendColumns) {
        if self.lost().is_some() {
            return;
        }
        let mut columns = Vec::with_capacity(order.transfers.len());
        for transfer in order.transfers {
            match self.read_transfer(&transfer) {
                Ok(bytes) => columns.push((transfer, bytes)),
                Err(e) => self.note_failure(&e),
            }
        }
        self.send(order.to, Message::Columns(Box::new(Columns { launch: order.launch, columns })));
    }

    fn start_batch(self: &Rc<Self>, number: Number, batch: Batch) {
        let columns = self.batches().borrow_mut().operations.take_what_came(batch.launch);
        let mut data_error = self.lost().cloned();
        for (transfer, bytes) in columns.iter().flat_map(|c| &c.columns) {
            #[cfg(feature = "plant")]
            if self.config.strikes(crate::plant::Bug::StaleCopy) {
                continue;
            }
            let parts = self.batches().borrow().operations.parts_to_write(number, transfer);
            if let Err(e) = self.write_transfer(batch.launch, transfer, bytes, parts) {
                data_error = Some(e);
            }
        }
        {
            let mut batches = self.batches().borrow_mut();
            if batch.hold {
                batches.operations.launch_started(batch.launch);
            }
            let running = Running {
                number,
                task: batch.task,
                gang: batch.gang,
                by: batch.by,
                shards: batch.shards.iter().map(|s| s.shard).collect(),
                hold: batch.hold,
                reply: batch.reply,
                left: batch.shards.len(),
                results: Vec::new(),
                failed: Vec::new(),
                valid: Vec::new(),
            };
            batches.running.insert(batch.launch, Box::new(running));
        }
        self.serve_early(batch.launch);
        let launch = batch.launch;
        if batch.shards.is_empty() {
            return self.end_batch(launch);
        }
        let context = match (self.local(batch.task), self.local(batch.gang)) {
            (Some(task), Some(gang)) => Some((task, gang)),
            _ => None,
        };
        let Some((Object::Task(task), Object::Gang(gang))) =
            context.as_ref().map(|(task, gang)| (&*task.object, &*gang.object))
        else {
            for start in batch.shards {
                let e = Error::misuse("a launch", "a task and a gang made with `Top`", "another object");
                self.end_shard(launch, start.shard, Err(e), Vec::new());
            }
            return;
        };
        let within = std::iter::once(launch).chain(batch.within.iter().copied()).collect();
        let origin = Rc::new(Origin { task: task.name.clone(), launch, within });
        self.exec.borrow_mut().reserve(batch.shards.len());
        for start in batch.shards {
            self.start_shard(&origin, task, gang, start, data_error.as_ref());
        }
    }

    fn start_shard(
        self: &Rc<Self>,
        origin: &Rc<Origin>,
        task: &Task,
        gang: &Arc<GangTable>,
        start: ShardStart,
        data_error: Option<&Error>,
    ) {
        self.counters.shards.add(1);
        let ShardStart { shard: index, args, held } = start;
        let shard = Shard::new(self, origin, gang, index, held);
        if let Some(races) = &self.config.races {
            races.shard_starts(&shard, &origin.within);
        }
        let begun = shard.clone();
        // Decoding the argument is the program's code, and so is what a task function does before its first `async`.
        let started = catch_unwind(AssertUnwindSafe(move || match data_error {
            Some(e) => Err(e.clone()),
            None => (task.start)(begun, args),
        }));
        let panicked = |panic| Err(Error::Panicked { place: shard.place(), message: panic_message(panic) });
        match started.unwrap_or_else(panicked) {
            Ok(future) => self.spawn_shard(shard, future),
            Err(e) => self.end_later(shard, Err(e)),
        }
    }

    /// A shard's own code is over.
    pub(crate) fn end(self: &Rc<Self>, shard: &Shard, result: Result<Parcel, Error>) {
        if result.is_ok() && shard.is_over_well() {
            self.shard_over(shard, result);
        } else {
            self.end_later(shard.clone(), result.map_err(|e| e.returned_by(|| shard.place())));
        }
    }

    pub(super) fn end_later(&self, shard: Shard, result: Result<Parcel, Error>) {
        self.spawn_shard(shard.clone(), Box::pin(end_when_leaves_are(shard, result)));
    }

    /// A shard has failed, for reports: its leaf tasks, and other shards of the launch, may never be over.
    pub(crate) fn note_failed(&self, launch: LaunchKey, error: &Error) {
        if let Some(running) = self.batches().borrow_mut().running.get_mut(&launch) {
            running.failed.push(error.clone());
        }
    }

    /// A shard and its leaf tasks are over.
    fn shard_over(self: &Rc<Self>, shard: &Shard, result: Result<Parcel, Error>) {
        let valid = shard.take_valid();
        shard.give_up_columns();
        if let Some(races) = &self.config.races {
            races.shard_ends(shard);
        }
        self.end_shard(shard.launch_key(), shard.index(), result, valid);
    }

    fn end_shard(self: &Rc<Self>, launch: LaunchKey, shard: u32, result: Result<Parcel, Error>, valid: Vec<Valid>) {
        let over = {
            let mut batches = self.batches().borrow_mut();
            let Some(running) = batches.running.get_mut(&launch) else {
                return;
            };
            running.left -= 1;
            running.results.push((shard, result));
            running.valid.extend(valid);
            running.left == 0
        };
        if over {
            self.end_batch(launch);
        }
    }

    fn end_batch(self: &Rc<Self>, launch: LaunchKey) {
        let Some(running) = ({
            let mut batches = self.batches().borrow_mut();
            let running = batches.running.remove(&launch);
            batches.ended.extend(running.iter().map(|r| r.gang));
            match &running {
                Some(r) if r.hold => drop(batches.held.insert(launch, r.number)),
                Some(r) => batches.operations.end(r.number),
                None => {}
            }
            running
        }) else {
            return;
        };
        let Running { reply, results, valid, .. } = *running;
        let here = self.copies().first_of(self.copies().node_of(self.id));
        match reply {
            Reply::Processor(to) => {
                self.send(to, Message::BatchDone(Box::new(BatchDone { launch, results, valid })));
            }
            Reply::EveryNode => {
                for node in 0..self.copies().nodes() {
                    let to = self.copies().first_of(node);
                    if to == here {
                        continue;
                    }
                    let copies =
                        results.iter().map(|(s, r)| (*s, r.as_ref().map_err(Clone::clone).and_then(Parcel::encoded)));
                    let results = copies.collect();
                    self.send(to, Message::BatchDone(Box::new(BatchDone { launch, results, valid: valid.clone() })));
                }
                self.send(here, Message::BatchDone(Box::new(BatchDone { launch, results, valid })));
            }
        }
        self.start_operations();
    }

    pub(super) fn take_launch_over(self: &Rc<Self>, launch: LaunchKey) {
        #[cfg(feature = "plant")]
        if self.config.strikes(crate::plant::Bug::LostLaunchOver) {
            return;
        }
        {
            let mut batches = self.batches().borrow_mut();
            batches.operations.launch_over(launch);
            if let Some(number) = batches.held.remove(&launch) {
                batches.operations.end(number);
            }
        }
        self.start_operations();
    }

    pub(super) fn take_batch_done(self: &Rc<Self>, done: BatchDone) {
        let state = self.launches.borrow().get(&done.launch).cloned();
        match state {
            Some(state) => {
                if state.take(self, done) {
                    let by = state.by();
                    let also = self.launches.borrow_mut().remove(&state.key());
                    // With them go results that nobody has kept.
                    self.drop_guarded(|| by, (also, state));
                }
            }
            // It has been given up.
            None if self.lost().is_some() => {}
            // This node's top-level task has not come to the launch yet.
            None => self.launches_early.borrow_mut().entry(done.launch).or_default().push(done),
        }
    }

    /// The results of launches that are not over will not come.
    pub(super) fn give_up_launches(self: &Rc<Self>, error: &Error) {
        let mut all: Vec<_> = self.launches.borrow_mut().drain().collect();
        all.sort_unstable_by_key(|l| l.0);
        self.launches_early.borrow_mut().clear();
        for (_, state) in all {
            let by = state.by();
            state.give_up(self, error);
            self.drop_guarded(|| by, state);
        }
    }

    /// Makes a launch's results known to `state`, those that came early included.
    pub fn register_launch(self: &Rc<Self>, state: Rc<LaunchState>) {
        let key = state.key();
        self.launches.borrow_mut().insert(key, state);
        let early = self.launches_early.borrow_mut().remove(&key);
        early.into_iter().flatten().for_each(|done| self.take_batch_done(done));
    }
}
