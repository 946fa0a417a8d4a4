//! A launch until all of its shards have ended, and the receivers of its results.

use super::gather::{Gather, Send};
use super::versions::Versions;
use crate::diagnose::deadlock::Node;
use crate::diagnose::races::VectorClock;
use crate::effects::{Effects, Known};
use crate::error::Failure;
use crate::future::{Poison, Resolver};
use crate::ids::{LaunchKey, NodeId, ObjectId, ProcessorId, TOP, launcher};
use crate::message::{BatchDone, Message, Results};
use crate::parcel::Parcel;
use crate::plant::Bug;
use crate::task::Tasks;
use crate::{Error, Place};
use maniple_regions::TreeId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Takes one shard's result. If races are checked, also the events that came before it.
pub(crate) type Settle = Box<dyn FnMut(&Tasks, u32, Result<Parcel, Failure>, Option<&VectorClock>)>;

/// What a launch may use of the objects that the top-level task makes.
pub(crate) struct Uses {
    pub gang: ObjectId,
    pub task: ObjectId,
    /// The task is an inner task: it may launch any gang with any task.
    pub inner: bool,
    /// The trees of the regions that it holds.
    pub trees: Arc<[TreeId]>,
}

impl Uses {
    fn have(&self, known: &Known) -> bool {
        // Only shards of its gang use an object that has one.
        let id = known.object.gang().map_or(known.id, |gang| gang.id);
        match known.object.tree() {
            Some(_) => self.trees.contains(&TreeId(id)),
            None => self.inner || [self.gang, self.task].contains(&id),
        }
    }
}

/// Objects that were destroyed while launches under way may use them.
pub(crate) struct Leaving {
    objects: Arc<[ObjectId]>,
    /// Launches that have not ended, and the order that follows what a flow has launched.
    users: Cell<usize>,
}

impl Leaving {
    pub fn new(objects: Arc<[ObjectId]>, users: usize) -> Rc<Self> {
        Rc::new(Self { objects, users: Cell::new(users) })
    }

    /// One of the users has ended.
    pub fn one_over(&self, effects: &Effects) {
        self.users.set(self.users.get() - 1);
        if self.users.get() == 0 {
            self.free(effects);
        }
    }

    /// No launch uses the objects, on any node. Each node tells its own processors. A message about one of the objects may
    /// still be under way from another processor: whoever gets it drops it, as nobody waits for it.
    fn free(&self, effects: &Effects) {
        effects.send_to_node(|| Message::Free(self.objects.clone()));
    }
}

/// A launch that has not ended.
pub(crate) struct LaunchState {
    key: LaunchKey,
    uses: Uses,
    /// Destroyed objects that it may use.
    leaving: RefCell<Vec<Rc<Leaving>>>,
    /// The launcher, for reports, and its node if it is a shard.
    by: Place,
    node: Option<Node>,
    /// Batches that have not reported.
    left: Cell<usize>,
    /// How this node gathers the results of all nodes, if it does.
    gather: Option<RefCell<Gather>>,
    /// Processors that wait for the end of the whole launch.
    homes: Vec<ProcessorId>,
    shards: u32,
    settle: RefCell<Settle>,
    /// The errors of shards that have ended. An inner task that awaits all shards may have seen one and still wait for
    /// the others.
    failed: RefCell<Vec<Error>>,
    versions: Rc<RefCell<Versions>>,
    over: RefCell<Option<Resolver<()>>>,
}

impl LaunchState {
    /// A launch with this many batches and shards. At its end, `homes` are told and `over` is settled.
    pub fn new(
        (key, uses): (LaunchKey, Uses),
        (by, node): (Place, Option<Node>),
        (batches, shards): (usize, u32),
        homes: Vec<ProcessorId>,
        settle: Settle,
        versions: Rc<RefCell<Versions>>,
        over: Resolver<()>,
    ) -> Self {
        Self {
            key,
            uses,
            leaving: RefCell::default(),
            by,
            node,
            left: Cell::new(batches),
            gather: None,
            homes,
            shards,
            settle: RefCell::new(settle),
            failed: RefCell::default(),
            versions,
            over: RefCell::new(Some(over)),
        }
    }

    /// The launch is made by all nodes, which gather its results.
    pub(super) fn gathers(&mut self, gather: Gather) {
        self.gather = Some(RefCell::new(gather));
    }

    /// Whether this node gathers results. If not, they come from one processor.
    pub(super) fn gathers_all(&self) -> bool {
        self.gather.is_some()
    }

    pub fn key(&self) -> LaunchKey {
        self.key
    }

    /// Whether the top-level task has made the launch.
    fn is_of_top(&self) -> bool {
        launcher(self.key) == 0
    }

    /// Whether it is a launch of the top-level task that may use an object.
    pub(super) fn may_use(&self, known: &Known) -> bool {
        self.is_of_top() && self.uses.have(known)
    }

    /// Later launches do not use these objects.
    pub(super) fn last_use_of(&self, leaving: &Rc<Leaving>) {
        self.leaving.borrow_mut().push(leaving.clone());
    }

    pub fn by(&self) -> Place {
        self.by.clone()
    }

    pub fn node(&self) -> Option<Node> {
        self.node
    }

    /// The errors of failed shards.
    pub fn failed(&self) -> Vec<Error> {
        self.failed.borrow().clone()
    }

    /// Fails every shard whose result has not come.
    pub fn give_up(&self, tasks: &Tasks, error: &Error) {
        for shard in 0..self.shards {
            (self.settle.borrow_mut())(tasks, shard, Err(Failure::of_the_run_by(error, self.by())), None);
        }
        if let Some(over) = self.over.borrow_mut().take() {
            over.settle(Err(Poison::of_the_run(error)), tasks.teller());
        }
    }

    /// Goes on gathering after `change`.
    pub(super) fn gather<T>(&self, effects: &Effects, change: impl FnOnce(&mut Gather) -> T) -> Option<T> {
        let gather = self.gather.as_ref()?;
        let changed = change(&mut gather.borrow_mut());
        loop {
            let next = gather.borrow_mut().next();
            let Some(Send { to, round, blocks }) = next else { return Some(changed) };
            let results = Results { launch: self.key, round, blocks };
            effects.send(effects.home_of(NodeId(to)), Message::Results(Box::new(results)));
        }
    }

    /// Whether all results have come, and nothing is left to pass on.
    pub(super) fn is_over(&self) -> bool {
        self.left.get() == 0 && self.gather.as_ref().is_none_or(|gather| gather.borrow().is_over())
    }

    /// Handles one processor's results.
    pub fn take(&self, tasks: &Tasks, mut done: BatchDone) {
        let Some(left) = self.left.get().checked_sub(1) else {
            // Copies of the top-level task that differ may have more batches than this one knows of.
            return tasks.effects.drop_guarded(|| self.by(), done);
        };
        self.left.set(left);
        if let [(a, _), (b, _), ..] = &mut *done.results
            && tasks.effects.strikes(Bug::SwappedResults)
        {
            std::mem::swap(a, b);
        }
        let objects = &tasks.effects.objects;
        for v in &done.valid {
            // The top-level task has forgotten the trees that it has destroyed.
            if !self.is_of_top() || objects.get(v.column.tree.0).is_some_and(|tree| tree.serves(TOP)) {
                self.versions.borrow_mut().write(&v.column, v.from, v.at);
            }
        }
        for (shard, result) in done.results {
            if let Err(failure) = &result {
                self.failed.borrow_mut().push(failure.error().clone());
            }
            let past = tasks.effects.races().map(|races| races.end_of(self.key, shard));
            (self.settle.borrow_mut())(tasks, shard, result, past.as_ref());
        }
        if left == 0 {
            for &p in &self.homes {
                tasks.effects.send(p, Message::LaunchOver { launch: self.key });
            }
        }
    }

    /// The launch has ended, and this node has nothing left to pass on.
    pub(super) fn end(&self, tasks: &Tasks) {
        if let Some(over) = self.over.borrow_mut().take() {
            if let Some(races) = tasks.effects.races() {
                over.happens(&races.launch_over(self.key, tasks.effects.copies().nodes()));
            }
            over.settle(Ok(()), tasks.teller());
        }
        self.leaving.take().iter().for_each(|leaving| leaving.one_over(&tasks.effects));
    }
}
