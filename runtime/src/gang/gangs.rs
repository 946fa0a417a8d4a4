//! The state of the gangs on one processor, and the calls of other modules: orders, data, the ends of shards, results.

use super::batches::{Batches, RunningBatch};
use super::orders::{Due, OfLaunch, Urgency};
use super::results::{LaunchState, Leaving};
use crate::Error;
use crate::effects::Known;
use crate::error::Failure;
use crate::ids::{Ancestors, ColumnKey, LaunchKey, ObjectId, ProcessorId, TaskId};
use crate::maps::HashMap;
use crate::message::{Batch, BatchDone, LaunchPart, Message, Move, Reply, Results, Valid, Values};
use crate::parcel::Parcel;
use crate::task::Tasks;
use maniple_regions::TreeId;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// The gangs of one processor.
pub(crate) struct Gangs {
    /// Made when this processor is first asked to start shards or to send values.
    batches: OnceCell<Box<RefCell<Batches>>>,
    /// Launches by tasks of this processor that have not ended.
    pub(super) launches: RefCell<HashMap<LaunchKey, Rc<LaunchState>>>,
    /// Results of launches that this node's top-level task has not made yet.
    early: RefCell<HashMap<LaunchKey, Vec<Results>>>,
    next_parent: Cell<u32>,
}

impl Gangs {
    /// The state of a processor without any gangs.
    pub fn new(processor: ProcessorId) -> Self {
        Self {
            batches: OnceCell::new(),
            launches: RefCell::default(),
            early: RefCell::default(),
            next_parent: Cell::new(processor.0 + 1),
        }
    }

    pub(super) fn batches(&self) -> &RefCell<Batches> {
        self.batches.get_or_init(Box::default)
    }

    /// How many entries there are, of any kind.
    pub fn entries(&self) -> usize {
        let batches = self.batches.get().map_or(0, |b| b.borrow().entries());
        self.launches.borrow().len() + self.early.borrow().len() + batches
    }

    /// A new number for an inner task, different from the numbers of all other processors; `processors` is the size of the
    /// machine. The top-level task has number 0.
    pub fn next_parent(&self, processors: u32) -> u32 {
        self.next_parent.replace(self.next_parent.get() + processors)
    }

    /// The top-level task destroys objects. Their memory is given back on this node when the launches that may use them
    /// have ended, those of a flow on this node.
    pub fn destroy(&self, tasks: &Tasks, objects: &[Rc<Known>], of: OfLaunch) {
        let effects = &tasks.effects;
        // Launches have been given up, but their shards may not be over. The run ends soon.
        if effects.lost_processor().is_some() {
            return;
        }
        let uses = |launch: &&Rc<LaunchState>| objects.iter().any(|known| launch.may_use(known));
        let launches = self.launches.borrow();
        let users: Vec<&Rc<LaunchState>> = launches.values().filter(uses).collect();
        // One more, so that it frees nothing before all are known.
        let leaving = Leaving::new(objects.iter().map(|known| known.id).collect(), users.len() + 1);
        users.iter().for_each(|launch| launch.last_use_of(&leaving));
        drop(launches);
        let trees: Vec<TreeId> =
            objects.iter().filter(|known| known.object.tree().is_some()).map(|known| TreeId(known.id)).collect();
        let batches = self.batches.get().filter(|_| !trees.is_empty());
        if !batches.is_some_and(|batches| batches.borrow_mut().orders.free_after(tasks, of, &trees, &leaving)) {
            leaving.one_over(effects);
        }
    }

    /// Columns have been given up, which nobody uses.
    pub fn forget_columns(&self) {
        self.batches.get().into_iter().for_each(|batches| batches.borrow().orders.forget_columns());
    }

    /// A gang is gone, which nobody uses.
    pub fn forget_gang(&self, gang: ObjectId) {
        if let Some(batches) = self.batches.get() {
            batches.borrow_mut().ended.remove(&gang);
        }
    }

    /// Queues what a processor does for a launch.
    pub fn take_part(&self, tasks: &Tasks, part: LaunchPart) {
        self.batches().borrow_mut().orders.push(tasks, part);
    }

    /// See [`Orders::begin_flow`](super::orders::Orders::begin_flow).
    pub fn begin_flow(&self, tasks: &Tasks) {
        self.batches().borrow_mut().orders.begin_flow(tasks);
    }

    /// A leaf task of an inner task comes, which follows the orders that are there.
    pub fn before_leaf(&self, tasks: &Tasks) {
        if let Some(batches) = self.batches.get() {
            batches.borrow_mut().orders.list(tasks);
        }
    }

    /// Values have come for a launch.
    pub fn take_values(&self, tasks: &Tasks, came: Values) {
        self.batches().borrow_mut().orders.take_values(tasks, came);
    }

    /// Whether a launch has started here, so that others can use its regions.
    pub fn has_started(&self, launch: LaunchKey) -> bool {
        self.batches().borrow().orders.has_started(launch)
    }

    /// See [`Orders::send_of`](super::orders::Orders::send_of).
    pub fn send_of<R>(&self, id: TaskId, look: impl FnOnce(&Move, Urgency) -> R) -> Option<R> {
        let batches = self.batches().borrow();
        let (moved, of) = batches.orders.send_of(id)?;
        Some(look(moved, of))
    }

    /// Takes an order that is to be carried out now.
    pub fn start_order(&self, id: TaskId) -> Option<Due> {
        self.batches().borrow_mut().orders.start(id)
    }

    /// An order is over.
    pub fn end_order(&self, tasks: &Tasks, id: TaskId) {
        self.batches().borrow_mut().orders.end(tasks, id);
    }

    /// See [`Orders::is_read`](super::orders::Orders::is_read).
    pub fn is_read(&self, within: &Ancestors, column: &ColumnKey) -> bool {
        self.batches().borrow().orders.is_read(within, column)
    }

    /// A batch runs from now on.
    pub fn batch_runs(&self, tasks: &Tasks, of: &Rc<OfLaunch>, order: TaskId, batch: &Batch) {
        self.batches().borrow_mut().start(tasks, of, order, batch);
    }

    /// A shard has ended. True if it was the last of its batch.
    pub fn end_shard(&self, launch: LaunchKey, shard: u32, result: Result<Parcel, Failure>, valid: Vec<Valid>) -> bool {
        self.batches().borrow_mut().end_shard(launch, shard, result, valid)
    }

    /// Notes the error of a shard, for reports.
    pub fn note_failed(&self, launch: LaunchKey, error: &Error) {
        self.batches().borrow_mut().note_failed(launch, error);
    }

    /// The errors of failed shards of launches that have not ended.
    pub fn failed(&self) -> Vec<Error> {
        let mut failed: Vec<Error> = self.batches().borrow().failed().cloned().collect();
        failed.extend(self.launches.borrow().values().flat_map(|launch| launch.failed()));
        failed
    }

    /// All shards of a batch have ended: sends the results.
    pub fn end_batch(&self, tasks: &Tasks, launch: LaunchKey) {
        let effects = &tasks.effects;
        let Some(running) = self.batches().borrow_mut().end(tasks, launch) else { return };
        let RunningBatch { reply, results, valid, .. } = *running;
        let copies = effects.copies();
        let here = effects.home_of(copies.node_of(effects.id));
        match reply {
            Reply::Processor(to) => {
                effects.send(to, Message::BatchDone(Box::new(BatchDone { launch, results, valid })));
            }
            Reply::EveryNode => effects.send(here, Message::BatchDone(Box::new(BatchDone { launch, results, valid }))),
        }
    }

    /// Every shard of a launch has ended, on all processors.
    pub fn launch_over(&self, tasks: &Tasks, launch: LaunchKey) {
        self.batches().borrow_mut().launch_over(tasks, launch);
    }

    /// Handles the results of one processor's shards, for a launch that this processor or this node has made.
    pub fn take_batch_done(&self, tasks: &Tasks, done: BatchDone) {
        let state = self.launches.borrow().get(&done.launch).cloned();
        // Without a state the launch has been given up.
        let Some(state) = state else { return };
        state.gather(&tasks.effects, |gather| gather.own(&done));
        self.settle(tasks, state, [done]);
    }

    /// Handles results from another node.
    pub fn take_results(&self, tasks: &Tasks, results: Results) {
        let state = self.launches.borrow().get(&results.launch).cloned();
        match state {
            Some(state) => {
                let Results { round, blocks, .. } = results;
                let all = match state.gathers_all() {
                    true => state.gather(&tasks.effects, |gather| gather.come(round, blocks)),
                    false => Some(blocks.into_iter().flatten().collect()),
                };
                self.settle(tasks, state, all.into_iter().flatten());
            }
            // The launch has been given up.
            None if tasks.effects.lost_processor().is_some() => {}
            // This node's top-level task has not made the launch yet.
            None => self.early.borrow_mut().entry(results.launch).or_default().push(results),
        }
    }

    /// Takes results for a launch, which may be over with them.
    fn settle(&self, tasks: &Tasks, state: Rc<LaunchState>, all: impl IntoIterator<Item = BatchDone>) {
        all.into_iter().for_each(|done| state.take(tasks, done));
        if state.is_over() {
            state.end(tasks);
            let (by, also) = (state.by(), self.launches.borrow_mut().remove(&state.key()));
            // This also drops results that nobody has kept.
            tasks.effects.drop_guarded(|| by, (also, state));
        }
    }

    /// Fails the results of all launches that have not ended.
    pub fn give_up(&self, tasks: &Tasks, error: &Error) {
        let mut all: Vec<_> = self.launches.borrow_mut().drain().collect();
        all.sort_unstable_by_key(|l| l.0);
        self.early.borrow_mut().clear();
        for (_, state) in all {
            let by = state.by();
            state.give_up(tasks, error);
            tasks.effects.drop_guarded(|| by, state);
        }
    }

    /// Registers a launch, and hands it any results that came early.
    pub fn register(&self, tasks: &Tasks, state: Rc<LaunchState>) {
        let key = state.key();
        self.launches.borrow_mut().insert(key, state);
        let early = self.early.borrow_mut().remove(&key);
        if let Some(state) = self.launches.borrow().get(&key).cloned() {
            // This node may have no shard of it.
            state.gather(&tasks.effects, |_| ());
        }
        early.into_iter().flatten().for_each(|results| self.take_results(tasks, results));
    }
}
