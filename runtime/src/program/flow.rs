//! Leaf tasks that the top-level task launches: a flow of tasks over all nodes.
//!
//! Every copy of the top-level task goes through the whole flow. For each task it finds out where the task runs and what data
//! moves for it. It keeps the task if it runs on its own node, sends and receives are kept by the nodes that they concern, and
//! nothing is sent for a task but its data.

use super::index::IndexLaunch;
use super::launch::{InShard, Launch, Leaf, MayFail, NOWHERE};
use super::launcher::Launcher;
use super::param::Declaring;
use super::region::RegionView;
use super::shard::Shard;
use super::top::Top;
use super::whole::{CopyMarker, CopyTask, FillArgs, FillMarker};
use crate::diagnose::deadlock::Node;
use crate::diagnose::races::Actor;
use crate::effects::{Resident, polling};
use crate::error::Failure;
use crate::future::{FutureCell, FutureMap, Maker, Poison, TaskFuture};
use crate::gang::{Settle, TaskUse};
use crate::ids::{LaunchKey, NodeId, ProcessorId, TaskId};
use crate::message::{BatchDone, LaunchPart, Message, Move, Results};
use crate::names::TaskName;
use crate::parcel::{Parcel, Portable};
use crate::processor::Core;
use crate::task::{Body, Tasks};
use crate::{Error, Place, Requirement};
use maniple_mapper::Priority;
use maniple_regions::{Coherence, Element, Read, Region, Write};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;

/// Says of a [`Launch`] that it is the top-level task's.
#[derive(Debug)]
pub enum InFlow {}

/// The future of a task of a flow with several nodes. The value comes to the nodes where somebody awaits it or takes it.
struct Relay<R> {
    /// It may keep this future for its memory.
    flow: Weak<Launcher>,
    launch: LaunchKey,
    /// The task, if it runs here.
    own: Option<TaskFuture<R>>,
    /// The value is to come here.
    comes: Cell<bool>,
    sent: RefCell<Sent>,
}

/// The nodes that get a result.
#[derive(Default)]
struct Sent {
    all: bool,
    to: SmallVec<[ProcessorId; 4]>,
}

impl<R: Portable + Clone> Maker<R> for Relay<R> {
    fn leaf(&self) -> Option<TaskId> {
        None
    }

    /// Each node's copy of the program awaits it.
    fn is_awaited(&self, future: &TaskFuture<R>) {
        let Some(flow) = self.flow.upgrade() else { return };
        if self.own.is_some() && !self.sent.borrow().all {
            let effects = flow.core.effects();
            (0..flow.nodes).map(|node| effects.home_of(NodeId(node))).for_each(|home| self.send_to(&flow, home));
            self.sent.borrow_mut().all = true;
        }
        self.comes_here(&flow, future);
    }

    fn is_needed_at(&self, future: &TaskFuture<R>, at: ProcessorId) {
        let Some(flow) = self.flow.upgrade() else { return };
        match at == flow.core.effects().id {
            true => self.comes_here(&flow, future),
            false => self.send_to(&flow, at),
        }
    }
}

impl<R: Portable + Clone> Relay<R> {
    fn new(flow: &Rc<Launcher>, launch: LaunchKey, own: Option<TaskFuture<R>>) -> Rc<FutureCell<R, Self>> {
        let flow = Rc::downgrade(flow);
        Rc::new(FutureCell::new(Self { flow, launch, own, comes: Cell::new(false), sent: RefCell::default() }))
    }

    /// The future of a task of another node. Mostly nobody has asked for the value of the one before, or holds that.
    #[inline]
    fn elsewhere(flow: &Rc<Launcher>, launch: LaunchKey) -> TaskFuture<R> {
        let before = flow.relay.take().and_then(|cell| cell.downcast::<FutureCell<R, Self>>().ok());
        let mut cell = before.unwrap_or_else(|| Self::new(flow, launch, None));
        match Rc::get_mut(&mut cell).map(FutureCell::task_mut).filter(|relay| !relay.comes.get()) {
            Some(relay) => relay.launch = launch,
            None => cell = Self::new(flow, launch, None),
        }
        flow.relay.set(Some(cell.clone()));
        TaskFuture::on_demand(cell)
    }

    /// Settles the future when the value is here.
    #[cold]
    fn comes_here(&self, flow: &Launcher, future: &TaskFuture<R>) {
        if self.comes.replace(true) {
            return;
        }
        let (future, failures) = (future.clone(), flow.failures.clone());
        let settle = move |tasks: &Tasks, outcome: Result<R, Failure>| {
            future.settle(outcome.map_err(|failure| Poison::new(failure, &failures)), tasks.teller());
        };
        let core = flow.core.clone();
        match self.own.clone() {
            Some(own) => when_over(&flow.core, own, move |outcome| settle(&core.tasks, outcome)),
            None => flow.await_from_elsewhere(self.launch, settle),
        }
    }

    /// Sends the value of a task of this node to another one.
    #[cold]
    fn send_to(&self, flow: &Launcher, home: ProcessorId) {
        let Some(own) = self.own.clone() else { return };
        let core = flow.core.clone();
        if home == core.effects().id || self.sent.borrow().to.contains(&home) {
            return;
        }
        self.sent.borrow_mut().to.push(home);
        let launch = self.launch;
        when_over(&flow.core, own, move |outcome| {
            let done = BatchDone { launch, results: vec![(0, outcome.map(Parcel::new))], valid: Vec::new() };
            let results = Results { launch, round: 0, blocks: vec![vec![done]] };
            core.effects().send(home, Message::Results(Box::new(results)));
        });
    }
}

fn when_over<R: Clone + 'static>(core: &Core, own: TaskFuture<R>, then: impl FnOnce(Result<R, Failure>) + 'static) {
    let future = async move { then(own.outcome().await) };
    core.effects().spawn(Rc::new(Sender), Box::pin(future));
}

/// Sends a result to another node.
struct Sender;

impl Resident for Sender {
    fn place(&self) -> Place {
        Place { task: "the result of a task".into(), shard: None }
    }
    fn node(&self) -> Option<Node> {
        None
    }
    fn actor(&self) -> Option<Actor> {
        None
    }
    fn over(self: Rc<Self>, _: Option<String>) {}
}

/// What the arguments of a task of a flow name.
pub(crate) struct Named {
    /// Its uses are those of regions that tasks of this node have used before.
    pub body: Box<Body>,
    pub names: Names,
}

/// Regions and futures that arguments name.
#[derive(Default)]
pub(crate) struct Names {
    pub uses: Vec<TaskUse>,
    /// Tells futures where their values are needed.
    pub inputs: Vec<Box<dyn Fn(ProcessorId)>>,
}

impl<F: Leaf<M>, M: 'static> Launch<'_, F, M, InFlow>
where
    F::Output: Portable + Clone,
{
    /// Names the node on which the task runs, in place of the mapper's answer.
    pub fn on(mut self, node: NodeId) -> Self {
        self.target = self.shard.core().effects().copies().first_of(node);
        self
    }

    /// Launches the task. Collective; returns at once.
    ///
    /// # Errors
    /// - [`Error::Misuse`] for a field or coherence that the region does not have, for two arguments on the same data unless
    ///   both only read it, for a node that does not exist, and for data that an inner task writes which has not been awaited.
    /// - [`Error::Mapper`] for an illegal decision of the mapper.
    #[inline]
    pub fn go(mut self) -> Result<TaskFuture<F::Output>, Error> {
        let Some(flow) = self.shard.flow() else { unreachable!("made by `Top::launch`") };
        let mut named = flow.names.take().unwrap_or_else(Named::new);
        let declared = F::declare(&self.args, &mut Declaring::of_flow(self.shard, &mut named));
        let placed = match declared {
            Ok(()) => flow.place(&named.names, &self.name, (self.target, self.priority.unwrap_or(Priority::NORMAL))),
            Err(e) => Err(Box::new(e.of_launch(self.name))),
        };
        let tasks = &flow.core.tasks;
        let is_own = placed.as_ref().is_ok_and(|(at, _)| *at == tasks.effects.id);
        // Mostly its columns are known, and it waits for no futures.
        let known =
            (is_own && named.names.inputs.is_empty() && named.body.uses.len() == named.names.uses.len()).then(|| {
                let (id, mut body) = tasks.reserve_leaf();
                std::mem::swap(&mut body.uses, &mut named.body.uses);
                (id, body)
            });
        named.clear();
        flow.names.set(Some(named));
        let (at, launch) = placed.map_err(|e| *e)?;
        if !is_own {
            tasks.effects.counters.elsewhere.add(1);
            return Ok(Relay::elsewhere(flow, launch));
        }
        // A utility processor runs no leaf tasks.
        self.target = tasks.effects.machine().near(at, 0);
        let mapped = match known {
            Some((id, body)) => self.map_declared(id, 0, body),
            None => self.map(),
        };
        let mut mapped = mapped.map_err(|e| *e)?;
        if tasks.pool.get().is_some() {
            mapped.leave_to_pool(self.target);
        }
        if flow.nodes == 1 {
            return Ok(self.go_mapped(mapped, &[]));
        }
        Ok(TaskFuture::on_demand(Relay::new(flow, launch, Some(self.go_mapped(mapped, &[])))))
    }
}

impl Named {
    fn new() -> Box<Self> {
        Box::new(Self { body: Body::new(), names: Names::default() })
    }

    #[inline]
    fn clear(&mut self) {
        self.body.uses.clear();
        self.names.uses.clear();
        self.names.inputs.clear();
    }
}

impl Launcher {
    /// Decides where a task runs, and moves its data as far as this node takes part. Returns the task's home and the number of
    /// the launch.
    fn place(
        &self,
        Names { uses, inputs }: &Names,
        name: &TaskName,
        (target, priority): (ProcessorId, Priority),
    ) -> Result<(ProcessorId, LaunchKey), Box<Error>> {
        let effects = self.core.effects();
        if let Some((a, b)) = clash(uses) {
            let shown = |u: &TaskUse| effects.objects.shown(u.slot.region);
            let came = format!("{} and {}", shown(a), shown(b));
            let what = format!("the launch of `{name}`");
            let expected = "arguments on different data, unless all only read it (one `read_write` serves both)";
            return Err(Box::new(Error::misuse(what, expected, came)));
        }
        let at = match target {
            NOWHERE => self.planner.home_of_task(effects, uses, name).map_err(Box::new)?,
            at if effects.copies().node_of(at).0 < self.nodes => effects.home_of(effects.copies().node_of(at)),
            at => {
                let nodes = self.nodes;
                let node = effects.copies().node_of(at);
                let what = format!("the launch of `{name}`");
                return Err(Box::new(Error::misuse(what, format!("a node in 0..{nodes}"), node)));
            }
        };
        if let Some(e) = effects.lost_processor() {
            return Err(Box::new(e.poisons(self.planner.place())));
        }
        let columns = uses.iter().map(|u| (u.slot.key(), Coherence::Exclusive));
        self.check_awaited(|| format!("`{name}`"), columns).map_err(Box::new)?;
        if !self.has_flow.get() {
            self.begin_flow();
        }
        self.core.replicated_task(
            || self.described_task(uses, name, at),
            uses.iter().map(|u| u.slot.hash ^ u.does as u64).chain([u64::from(at.0)]),
        );
        let launch = self.next_launch();
        self.planner.plan_task(effects, uses, (at, priority), |number, moved| self.take_part(launch, number, moved))?;
        self.number_launch();
        inputs.iter().for_each(|input| input(at));
        Ok((at, launch))
    }

    #[cold]
    fn described_task(&self, uses: &[TaskUse], name: &TaskName, at: ProcessorId) -> String {
        let describe = |u: &TaskUse| format!("{} of {}, {:?}", u.slot.key().field, u.slot.region.rect, u.does);
        let uses: Vec<String> = uses.iter().map(describe).collect();
        format!("launch of {name} at processor {at} on [{}]", uses.join("; "))
    }

    #[cold]
    fn begin_flow(&self) {
        let core = &self.core;
        self.has_flow.set(true);
        core.gangs.begin_flow(&core.tasks);
        core.tasks.pool_flow();
    }

    /// Gives the processors of this node their parts of a move.
    #[cold]
    pub(super) fn take_part(&self, launch: LaunchKey, number: u32, moved: Arc<Move>) {
        let (core, effects) = (&self.core, self.core.effects());
        for at in moved.ends().filter(|at| self.planner.starts(*at)) {
            let part = self.planner.part(effects, (launch, &self.within), at);
            core.gangs.send_part(&core.tasks, at, LaunchPart { moves: vec![(number, moved.clone())], ..part });
        }
    }

    /// Settles the result of a task of another node when it comes.
    fn await_from_elsewhere<R: Portable>(
        &self,
        launch: LaunchKey,
        settle: impl FnOnce(&Tasks, Result<R, Failure>) + 'static,
    ) {
        let (by, mut settle) = (self.planner.place(), Some(settle));
        let settle: Settle = Box::new(move |tasks, _, result, _| {
            let number = || tasks.effects.next_failure();
            let opened = |parcel: Parcel| parcel.open().map_err(|e| Failure::new(e, || by.clone(), number));
            if let Some(settle) = settle.take() {
                settle(tasks, result.and_then(opened));
            }
        });
        self.await_results(launch, (1, 1), settle).detach();
    }
}

/// Two uses of the same data of which one writes.
#[inline]
fn clash(uses: &[TaskUse]) -> Option<(&TaskUse, &TaskUse)> {
    if uses.len() < 2 {
        return None;
    }
    let meets = |a: &TaskUse, b: &TaskUse| {
        let same = match a.slot.is_live() && b.slot.is_live() {
            // Pieces are disjoint.
            true => Rc::ptr_eq(&a.slot, &b.slot),
            false => a.slot.key().overlaps(&b.slot.key()),
        };
        same && (a.writes() || b.writes())
    };
    let with_later = |(at, a)| uses[at + 1..].iter().find(|b| meets(a, b)).map(|b| (a, b));
    uses.iter().enumerate().find_map(with_later)
}

/// A shard on each node. At the end of a window all have to come here. At the end of a flow they wait until the leaf tasks of
/// their nodes have ended, and fail with the first failure that nobody has learned of.
pub(super) async fn on_each_node(shard: Shard, ends: bool) -> Result<(), Error> {
    if !ends {
        return Ok(());
    }
    let Some(owner) = shard.core().flow.get().cloned() else { return Ok(()) };
    poll_fn(|cx| if owner.poll(0, polling::waiting(cx.waker())) { Poll::Ready(()) } else { Poll::Pending }).await;
    let Some(first) = owner.first_untold() else { return Ok(()) };
    while let Some(failure) = owner.first_untold() {
        owner.failures().tell(failure.poison());
    }
    Err(first.error().clone())
}

type FlowCopy<T> = CopyMarker<Read<'static, T>, Write<'static, T>>;

/// How far the windows of a flow are.
#[derive(Default)]
pub(super) struct Windows {
    /// The launches before the present one.
    begun: Cell<u32>,
    /// What all nodes have to come to, one window ago.
    last: RefCell<Option<FutureMap<()>>>,
}

impl Top {
    /// A number of tasks for [`window`](Self::window) that suits most flows.
    pub const WINDOW: u32 = 4096;

    /// The view of a region for leaf tasks of the top-level task. Collective; never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a region outside its tree, [`Error::Destroyed`] for a tree that was destroyed.
    pub fn region(&self, region: Region) -> Result<RegionView, Error> {
        self.flow().region_of_flow(region)
    }

    /// Begins the launch of `function` as a leaf task. It runs on the node that has the first region which it writes, or else the
    /// first one which it reads; without regions on the first node. The mapper or [`Launch::on`] may say otherwise.
    /// [`Launch::go`] launches it. Collective; never waits.
    #[track_caller]
    #[inline]
    pub fn launch<F: Leaf<M>, M: 'static>(&self, function: F, args: F::Args) -> Launch<'_, F, M, InFlow> {
        self.flow().launch(function, args).of_flow()
    }

    /// Begins the launch of a leaf task that fails if its function returns an error, as [`Shard::try_launch`] does. What
    /// depends on it fails on all nodes. Collective; never waits.
    #[track_caller]
    pub fn try_launch<F: Leaf<(M, MayFail)>, M: 'static>(
        &self,
        function: F,
        args: F::Args,
    ) -> Launch<'_, F, (M, MayFail), InFlow> {
        self.flow().try_launch(function, args).of_flow()
    }

    /// Begins the launch of a leaf task that sets every value of a field of a region, of any dimension. Collective; never waits.
    pub fn fill<T: Element>(
        &self,
        into: Requirement<Write<'static, T>>,
        value: T,
    ) -> Launch<'_, impl Leaf<FillMarker<T>, Output = (), Args = FillArgs<T>>, FillMarker<T>, InFlow> {
        self.flow().fill(into, value).of_flow()
    }

    /// Begins the launch of a leaf task that copies a field of a region to another one with as many points, in row-major order.
    /// They may have any dimensions. Collective; never waits.
    ///
    /// If the lengths differ the task panics.
    pub fn copy<T: Element>(
        &self,
        from: Requirement<Read<'static, T>>,
        into: Requirement<Write<'static, T>>,
    ) -> Launch<'_, CopyTask<Read<'static, T>, Write<'static, T>>, FlowCopy<T>, InFlow> {
        self.flow().copy(from, into).of_flow()
    }

    /// Begins the launch of `function` once for each point in `0..points`, each on some node.
    /// [`IndexLaunch::go`](crate::IndexLaunch::go) launches the tasks. Collective; never waits.
    ///
    /// `args` gives the arguments of each point; it is called once for each.
    #[track_caller]
    pub fn index_launch<F: Leaf<M> + Clone, M: 'static>(
        &self,
        points: usize,
        function: F,
        args: impl FnMut(usize) -> F::Args,
    ) -> IndexLaunch<'_, F, M, InFlow> {
        self.flow().index_launch_of(points, function, args)
    }

    /// Waits until at most `tasks` leaf tasks of the flow are unfinished on this node, and until no node is more than two windows
    /// behind. A window is `tasks` launches of the whole flow. So the memory for tasks is bounded on all nodes. Collective; may
    /// wait.
    pub async fn window(&self, tasks: u32) {
        self.flow().window(tasks).await;
        let launched = self.launcher().launches.get();
        if self.launcher().nodes == 1 || launched - self.windows.begun.get() < tasks.max(1) {
            return;
        }
        self.windows.begun.set(launched);
        // What comes of it is known to `done`.
        let Ok((gang, task)) = self.each_node() else { return };
        let Ok(all) = self.launch_gang(&gang, &task, |_| crate::ShardLaunch::new(false)) else { return };
        if let Some(before) = self.windows.last.replace(Some(all)) {
            drop(before.all().await);
        }
    }

    /// Waits for all leaf tasks that were launched before, on all nodes. Collective; may wait.
    ///
    /// # Errors
    /// The first task's failure that no await has returned.
    pub async fn done(&self) -> Result<(), Error> {
        let (gang, task) = self.each_node()?;
        self.launch_gang(&gang, &task, |_| crate::ShardLaunch::new(true))?.all().await.map(|_| ())
    }
}

impl<'s, F: Leaf<M>, M: 'static> Launch<'s, F, M, InShard> {
    #[inline(always)]
    pub(super) fn of_flow(self) -> Launch<'s, F, M, InFlow> {
        self.turned(NOWHERE)
    }
}
