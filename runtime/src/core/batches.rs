//! What parents ask of this processor, in the order they ask it: start these shards, send that data.
//!
//! Two operations of which one writes what the other uses run in the order they came. Each processor orders its own;
//! nothing global is needed, because a launch's plan is the same wherever it is made.

use super::Core;
use super::maps::{HashMap, HashSet};
use crate::Error;
use crate::error::panic_message;
use crate::gang::LaunchState;
use crate::message::{
    Ancestors, Batch, BatchDone, BatchUse, ColumnKey, Columns, Does, LaunchKey, Message, NOBODY, ObjectId, Reply,
    SendColumns, ShardStart, Transfer, Valid,
};
use crate::object::{GangTable, Object, Task};
use crate::parcel::Parcel;
use crate::shard::{Origin, Shard};
use maniple_regions::{FieldId, Rect, TreeId};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

enum Work {
    Batch(Batch),
    Send(SendColumns),
}

struct Operation {
    number: u64,
    launch: LaunchKey,
    /// Who asked.
    parent: u64,
    within: Ancestors,
    after_within: bool,
    uses: Box<[Use]>,
    /// `None` once it has started.
    work: Option<Work>,
}

/// A [`BatchUse`] in less memory: it stays as long as its operation does, and its instance is mostly over the rectangle itself.
struct Use {
    tree: TreeId,
    field: FieldId,
    does: Does,
    rect: Rect,
    /// The instance's rectangle, where it is another one.
    other: Option<Box<Rect>>,
}

impl Use {
    fn of(full: BatchUse) -> Self {
        let BatchUse { tree, field, does, instance, rect } = full;
        Self { tree, field, does, rect, other: instance.filter(|i| *i != rect).map(Box::new) }
    }

    fn full(&self) -> BatchUse {
        let column = ColumnKey { tree: self.tree, field: self.field, rect: self.rect };
        BatchUse::of(&column, self.does, self.other.as_ref().map_or(self.rect, |other| **other))
    }
}

/// A started batch.
struct Running {
    number: u64,
    task: ObjectId,
    gang: ObjectId,
    by: Arc<str>,
    shards: Vec<u32>,
    hold: bool,
    reply: Reply,
    left: usize,
    results: Vec<(u32, Result<Parcel, Error>)>,
    valid: Vec<Valid>,
}

/// What a batch is part of, for reports.
pub(crate) struct Asked<'a> {
    pub launch: LaunchKey,
    pub task: ObjectId,
    pub gang: ObjectId,
    pub by: &'a str,
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
    operations: VecDeque<Operation>,
    next: u64,
    /// Data that has come for launches.
    columns: HashMap<LaunchKey, Vec<Columns>>,
    running: HashMap<LaunchKey, Box<Running>>,
    /// Launches under way that have started here and that others ask about: those with regions at home here.
    started: HashSet<LaunchKey>,
    /// Gangs whose shards here have all been over once, for reports.
    ended: HashSet<ObjectId>,
    /// Operations whose own shards are over, but not those of other processors that use what is here.
    held: HashMap<LaunchKey, u64>,
}

impl Operation {
    /// Whether this one cannot start because of an earlier one.
    fn comes_after(&self, earlier: &Operation) -> bool {
        let siblings = self.within == earlier.within;
        let brings = |u: &BatchUse| matches!(u.does, Does::Brings { .. });
        let lasting = |u: &BatchUse| matches!(u.does, Does::Reads | Does::Brings { lasting: true });
        let conflict = |a: &Use, b: &Use| {
            let (a, b) = (&a.full(), &b.full());
            if (a.does, b.does) == (Does::Reads, Does::Reads) || !a.meets(b) {
                return false;
            }
            if siblings && lasting(a) && lasting(b) {
                // Nobody writes these points, so that what comes is what others read there already: they need not wait
                // for it, nor it for them. Only what this parent knows to have come it may read then.
                return self.parent == earlier.parent && earlier.work.is_some() && brings(a);
            }
            true
        };
        earlier.uses.iter().any(|a| self.uses.iter().any(|b| conflict(a, b)))
    }
}

impl Batches {
    /// Whether an earlier operation keeps operation `at` from starting.
    fn blocked(&self, at: usize) -> bool {
        // It may come before its parent's own launch, which another process sends, and is no earlier one then.
        let started = |o: &Operation| o.within.first().is_some_and(|parent| self.started.contains(parent));
        let early = |o: &Operation| o.after_within && !started(o);
        let operation = &self.operations[at];
        if early(operation) {
            return true;
        }
        let others = self.operations.iter().take(at);
        others
            .filter(|earlier| !operation.within.contains(&earlier.launch) && !early(earlier))
            .any(|earlier| operation.comes_after(earlier))
    }

    /// The parts of what has come for a batch that nobody uses yet who holds the same data to read.
    fn parts_to_write(&self, number: u64, transfer: &Transfer) -> Vec<Rect> {
        let mut parts = vec![transfer.rect];
        let Some(operation) = self.operations.iter().find(|o| o.number == number) else { return parts };
        let column = ColumnKey { tree: transfer.tree, field: transfer.field, rect: transfer.rect };
        let comes = BatchUse::of(&column, Does::Brings { lasting: true }, transfer.into);
        if !operation.uses.iter().any(|u| u.does == comes.does && u.full().meets(&comes)) {
            return parts;
        }
        let runs = |o: &&Operation| o.number != number && o.work.is_none();
        let reader = |o: &&Operation| o.within == operation.within || operation.within.first() == Some(&o.launch);
        for used in self.operations.iter().filter(runs).filter(reader).flat_map(|o| &o.uses) {
            if used.does == Does::Reads && used.full().meets(&comes) {
                parts = parts.iter().flat_map(|p| p.subtract(&used.rect)).collect();
            }
        }
        parts
    }

    fn push(&mut self, uses: Vec<BatchUse>, work: Work) {
        self.next += 1;
        let (launch, of, within, after_within) = match &work {
            Work::Batch(b) => (b.launch, b.launch, b.within.clone(), b.after_within),
            // Nothing is asked within an order.
            Work::Send(s) => (NOBODY, s.launch, s.within.clone(), s.after_within),
        };
        let parent = of >> 32;
        let uses = uses.into_iter().map(Use::of).collect();
        let number = self.next;
        if self.operations.is_empty() {
            // Mostly it stays the only one.
            self.operations.reserve_exact(1);
        }
        self.operations.push_back(Operation { number, launch, parent, within, after_within, uses, work: Some(work) });
    }

    fn end(&mut self, number: u64) {
        self.operations.retain(|o| o.number != number);
    }

    /// The next operation that can start, taken out of its place.
    fn startable(&mut self, lost: bool) -> Option<(u64, Work)> {
        let columns = &self.columns;
        let complete = |batch: &Batch| columns.get(&batch.launch).map_or(0, Vec::len) >= batch.columns as usize;
        let at = (0..self.operations.len()).find(|&i| {
            let waiting = match &self.operations[i].work {
                None => false,
                Some(Work::Send(_)) => true,
                Some(Work::Batch(b)) => complete(b),
            };
            // What is waited for may never come. Shards that are started then fail at once.
            waiting && !self.blocked(i) || lost && self.operations[i].work.is_some()
        })?;
        let operation = &mut self.operations[at];
        operation.work.take().map(|work| (operation.number, work))
    }

    /// Batches that are not over, with their shards that are not, and those that are.
    pub fn unfinished(&self) -> impl Iterator<Item = (Asked<'_>, Vec<u32>, HashSet<u32>)> {
        self.running.iter().map(|(launch, r)| {
            let over: HashSet<u32> = r.results.iter().map(|(shard, _)| *shard).collect();
            let left = r.shards.iter().copied().filter(|s| !over.contains(s)).collect();
            (Asked { launch: *launch, task: r.task, gang: r.gang, by: &r.by }, left, over)
        })
    }

    /// Gangs whose shards here are over and none of which runs.
    pub fn ended(&self) -> impl Iterator<Item = ObjectId> {
        let queued = |gang: ObjectId| self.queued().any(|(_, b)| b.gang == gang);
        let runs = move |gang: &ObjectId| self.running.values().any(|r| r.gang == *gang) || queued(*gang);
        self.ended.iter().copied().filter(move |gang| !runs(gang))
    }

    /// How many entries there are, of any kind.
    pub fn entries(&self) -> usize {
        self.operations.len() + self.columns.len() + self.running.len() + self.held.len() + self.started.len()
    }

    /// Batches that have not started, with their place among the operations.
    fn queued(&self) -> impl Iterator<Item = (usize, &Batch)> {
        self.operations.iter().enumerate().filter_map(|(at, o)| match &o.work {
            Some(Work::Batch(b)) => Some((at, b)),
            _ => None,
        })
    }

    /// Batches that wait for data or for earlier ones.
    pub fn waiting(&self) -> impl Iterator<Item = Queued<'_>> {
        self.queued().map(|(at, b)| {
            let operation = &self.operations[at];
            let earlier = self.operations.iter().take(at).filter(|e| operation.comes_after(e));
            Queued {
                asked: Asked { launch: b.launch, task: b.task, gang: b.gang, by: &b.by },
                shards: b.shards.iter().map(|s| s.shard).collect(),
                columns: b.columns,
                came: self.columns.get(&b.launch).map_or(0, Vec::len),
                after: earlier.map(|e| e.launch).filter(|&launch| launch != NOBODY).collect(),
            }
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

    pub(super) fn take_batch(self: &Rc<Self>, mut batch: Batch) {
        let uses = std::mem::take(&mut batch.uses);
        self.batches().borrow_mut().push(uses, Work::Batch(batch));
        self.start_operations();
    }

    pub(super) fn take_send_order(self: &Rc<Self>, order: SendColumns) {
        let column = |t: &Transfer| ColumnKey { tree: t.tree, field: t.field, rect: t.rect };
        let uses = order.transfers.iter().map(|t| BatchUse::of(&column(t), Does::Reads, t.from)).collect();
        self.batches().borrow_mut().push(uses, Work::Send(order));
        self.start_operations();
    }

    pub(super) fn take_columns(self: &Rc<Self>, columns: Columns) {
        self.batches().borrow_mut().columns.entry(columns.launch).or_default().push(columns);
        self.start_operations();
    }

    pub(super) fn launch_started(&self, launch: LaunchKey) -> bool {
        self.batches().borrow().started.contains(&launch)
    }

    pub(super) fn start_operations(self: &Rc<Self>) {
        loop {
            let next = self.batches().borrow_mut().startable(self.starts_all());
            match next {
                None => return,
                Some((number, Work::Send(order))) => {
                    self.send_columns(order);
                    self.batches().borrow_mut().end(number);
                }
                Some((number, Work::Batch(batch))) => self.start_batch(number, batch),
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

    fn start_batch(self: &Rc<Self>, number: u64, batch: Batch) {
        let columns = self.batches().borrow_mut().columns.remove(&batch.launch).unwrap_or_default();
        let mut data_error = self.lost().cloned();
        for (transfer, bytes) in columns.iter().flat_map(|c| &c.columns) {
            #[cfg(feature = "plant")]
            if self.config.strikes(crate::plant::Bug::StaleCopy) {
                continue;
            }
            let parts = self.batches().borrow().parts_to_write(number, transfer);
            if let Err(e) = self.write_transfer(batch.launch, transfer, bytes, &parts) {
                data_error = Some(e);
            }
        }
        {
            let mut batches = self.batches().borrow_mut();
            if batch.hold {
                batches.started.insert(batch.launch);
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
                valid: Vec::new(),
            };
            batches.running.insert(batch.launch, Box::new(running));
        }
        self.serve_early();
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

    /// A shard and its leaf tasks are over.
    fn shard_over(self: &Rc<Self>, shard: &Shard, result: Result<Parcel, Error>) {
        let valid = shard.take_valid();
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
                Some(r) => batches.end(r.number),
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
            batches.started.remove(&launch);
            let held = batches.held.remove(&launch);
            held.into_iter().for_each(|number| batches.end(number));
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
            None => self.launches_early.borrow_mut().push(done),
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
        let early = std::mem::take(&mut *self.launches_early.borrow_mut());
        for done in early {
            self.take_batch_done(done);
        }
    }
}
