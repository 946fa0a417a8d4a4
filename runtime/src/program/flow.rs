//! Leaf tasks that the top-level task launches: a flow of tasks over all nodes.
//!
//! Every copy of the top-level task goes through the whole flow. For each task it finds out where the task runs and what data
//! moves for it. It keeps the task if it runs on its own node, sends and receives are kept by the nodes that they concern, and
//! nothing is sent for a task but its data.

use super::launch::{InShard, Launch, Leaf, MayFail, NOWHERE};
use super::launcher::Launcher;
use super::param::Declaring;
use super::region::RegionView;
use super::shard::{FillArgs, FillMarker, Shard};
use super::top::Top;
use crate::diagnose::deadlock::Node;
use crate::diagnose::races::Actor;
use crate::effects::{Resident, polling};
use crate::error::Failure;
use crate::future::{FutureCell, Maker, Poison, TaskFuture};
use crate::gang::{LaunchState, Settle, TaskUse, Uses};
use crate::ids::{LaunchKey, NodeId, ObjectId, ProcessorId, TaskId};
use crate::message::{BatchDone, LaunchPart, Message, Results};
use crate::parcel::{Parcel, Portable};
use crate::processor::Core;
use crate::task::{ANYWHERE, Pool, Tasks};
use crate::{Error, Place, Requirement};
use maniple_regions::{Element, Region, Write};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;

/// Says of a [`Launch`] that it is the top-level task's.
#[derive(Debug)]
pub enum InFlow {}

/// The future of a task that may run on another node. The value comes when somebody awaits it.
struct Relay(Cell<Option<Box<dyn FnOnce()>>>);

impl Maker for Relay {
    fn leaf(&self) -> Option<TaskId> {
        None
    }
    fn is_awaited(&self) {
        if let Some(start) = self.0.take() {
            start();
        }
    }
}

/// Sends a result to the other nodes.
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
    ///   both only read it, and for a node that does not exist.
    /// - [`Error::Mapper`] for an illegal decision of the mapper.
    pub fn go(mut self) -> Result<TaskFuture<F::Output>, Error> {
        let (shard, name) = (self.shard, self.name);
        let core = shard.core();
        let Some(flow) = shard.flow() else { unreachable!("made by `Top::launch`") };
        let uses = declared(shard, |declaring| F::declare(&self.args, declaring)).map_err(|e| e.of_launch(name))?;
        let effects = core.effects();
        let at = match self.target {
            NOWHERE => flow.planner.home_of_task(effects, &uses),
            at if at.0 < effects.machine().processors() => at,
            at => {
                let nodes = effects.copies().nodes();
                let node = effects.copies().node_of(at);
                return Err(Error::misuse(format!("a launch of {name}"), format!("a node in 0..{nodes}"), node));
            }
        };
        self.target = at;
        let launch = flow.move_for(&uses, at)?;
        let here = at == effects.id;
        let own = match here {
            true => {
                let mut mapped = self.map().map_err(|e| *e)?;
                if mapped.mapped.processor == at && core.tasks.pool.get().is_some() {
                    mapped.mapped.processor = ANYWHERE;
                }
                Some(self.go_mapped(mapped, &[]))
            }
            false => None,
        };
        Ok(match own {
            Some(own) if effects.copies().nodes() == 1 => own,
            own => relay(flow, launch, own),
        })
    }
}

/// The uses of the regions that the arguments of a task name.
fn declared(
    shard: &Shard,
    declare: impl FnOnce(&mut Declaring<'_>) -> Result<(), Error>,
) -> Result<Vec<TaskUse>, Error> {
    shard.check_running("a launch")?;
    let tasks = &shard.core().tasks;
    let (task, mut body) = tasks.reserve_leaf();
    let mut declaring = Declaring::new(shard, task, &mut body);
    declaring.uses = Some(Vec::new());
    let declared = declare(&mut declaring);
    let uses = declaring.uses.take().unwrap_or_default();
    tasks.cancel_leaf(task, body);
    declared?;
    let clash = |(at, a): (usize, &TaskUse)| {
        let meets = |b: &&TaskUse| (a.privilege.writes() || b.privilege.writes()) && a.key.overlaps(&b.key);
        uses[at + 1..].iter().find(meets).map(|b| (a.key, b.key))
    };
    if let Some((a, b)) = uses.iter().enumerate().find_map(clash) {
        let objects = &shard.core().effects().objects;
        let shown = |region: Region| objects.shown(region);
        let came = format!("{} and {}", shown(a.region(a.rect)), shown(b.region(b.rect)));
        return Err(Error::misuse("a launch", "arguments on different data, unless all only read it", came));
    }
    Ok(uses)
}

impl Launcher {
    /// Moves the data of a task that runs on a processor, as far as this node takes part. Returns the number of the launch.
    fn move_for(&self, uses: &[TaskUse], at: ProcessorId) -> Result<LaunchKey, Error> {
        let (core, effects) = (&self.core, self.core.effects());
        if let Some(e) = effects.lost_processor() {
            return Err(e.poisons(self.planner.place()));
        }
        let moves = self.planner.plan_task(effects, uses, at)?;
        let launch = self.number_launch();
        if !self.has_flow.replace(true) {
            core.gangs.begin_flow(&core.tasks);
            let others = effects.machine().leaf_processors_of(effects.machine().node_of(effects.id));
            let others: Vec<ProcessorId> = others.into_iter().filter(|at| *at != effects.id).collect();
            if !others.is_empty() {
                core.tasks.pool.get_or_init(|| Box::new(Pool::new(others)));
            }
        }
        for (number, moved) in (0u32..).zip(moves) {
            for at in moved.ends().filter(|at| self.planner.starts(effects, *at)) {
                let part = self.planner.part(effects, (launch, &self.within), at);
                core.gangs.send_part(&core.tasks, at, LaunchPart { moves: vec![(number, moved.clone())], ..part });
            }
        }
        Ok(launch)
    }
}

/// A future that is settled on each node once it is awaited there. `own` is the task, if it runs here.
fn relay<R: Portable + Clone>(flow: &Rc<Launcher>, launch: LaunchKey, own: Option<TaskFuture<R>>) -> TaskFuture<R> {
    let flow = flow.clone();
    let cell = Rc::new_cyclic(|cell: &Weak<FutureCell<R, Relay>>| {
        let cell = cell.clone();
        let settle = {
            let failures = flow.failures.clone();
            move |tasks: &Tasks, outcome: Result<R, Failure>| {
                if let Some(cell) = cell.upgrade() {
                    cell.settle(outcome.map_err(|failure| Poison::new(failure, &failures)), tasks.teller());
                }
            }
        };
        let start = move || match own {
            Some(own) => flow.send_when_there(launch, own, settle),
            None => flow.await_from_elsewhere(launch, settle),
        };
        FutureCell::new(Relay(Cell::new(Some(Box::new(start)))))
    });
    TaskFuture::of(cell)
}

impl Launcher {
    /// Sends the result of a task of this node to all other nodes, and settles it here.
    fn send_when_there<R: Portable + Clone>(
        &self,
        launch: LaunchKey,
        own: TaskFuture<R>,
        settle: impl FnOnce(&Tasks, Result<R, Failure>) + 'static,
    ) {
        let (core, place) = (self.core.clone(), self.planner.place());
        let future = async move {
            let outcome = own.await;
            send_result(&core, launch, &outcome);
            let failed = |e| Failure::new(e, || place, || core.effects().next_failure());
            settle(&core.tasks, outcome.map_err(failed));
        };
        self.core.effects().spawn(Rc::new(Sender), Box::pin(future));
    }

    /// Settles the result of a task of another node when it comes.
    fn await_from_elsewhere<R: Portable>(
        &self,
        launch: LaunchKey,
        settle: impl FnOnce(&Tasks, Result<R, Failure>) + 'static,
    ) {
        let (core, by) = (&self.core, self.planner.place());
        let (place, mut settle) = (by.clone(), Some(settle));
        let settle: Settle = Box::new(move |tasks, _, result, _| {
            let number = || tasks.effects.next_failure();
            let opened = |parcel: Parcel| parcel.open().map_err(|e| Failure::new(e, || by.clone(), number));
            if let Some(settle) = settle.take() {
                settle(tasks, result.and_then(opened));
            }
        });
        let uses = Uses { gang: ObjectId::MAX, task: ObjectId::MAX, inner: false, trees: Arc::new([]) };
        let (over, done) = TaskFuture::pending();
        let versions = self.planner.versions.clone();
        let state = LaunchState::new((launch, uses), (place, None), (1, 1), Vec::new(), settle, versions, over);
        core.gangs.register(&core.tasks, Rc::new(state));
        self.add_pending(done);
    }
}

/// Sends the result of a task to all other nodes, which await it too.
fn send_result<R: Portable + Clone>(core: &Core, launch: LaunchKey, outcome: &Result<R, Error>) {
    let effects = core.effects();
    let copies = effects.copies();
    let own = copies.node_of(effects.id);
    let place = || Place { task: "a task".into(), shard: None };
    for node in (0..copies.nodes()).map(NodeId).filter(|node| *node != own) {
        let result = outcome.clone().map(Parcel::new);
        let result = result.map_err(|e| Failure::new(e, place, || effects.next_failure()));
        let done = BatchDone { launch, results: vec![(0, result)], valid: Vec::new() };
        let results = Results { launch, round: 0, blocks: vec![vec![done]] };
        effects.send(copies.first_of(node), Message::Results(Box::new(results)));
    }
}

/// Waits until the leaf tasks of this node's flow have ended. Fails with the first failure that nobody has learned of.
pub(super) async fn flow_ends(shard: Shard, (): ()) -> Result<(), Error> {
    let Some(owner) = shard.core().flow.get().cloned() else { return Ok(()) };
    poll_fn(|cx| if owner.poll(0, polling::waiting(cx.waker())) { Poll::Ready(()) } else { Poll::Pending }).await;
    let Some(first) = owner.first_untold() else { return Ok(()) };
    while let Some(failure) = owner.first_untold() {
        owner.failures().tell(failure.poison());
    }
    Err(first.error().clone())
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

    /// Begins the launch of `function` as a leaf task, on some node. [`Launch::go`] launches it. Collective; never waits.
    #[track_caller]
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

    /// Begins the launch of a leaf task that sets every value of a field of a region. Collective; never waits.
    pub fn fill<T: Element>(
        &self,
        into: Requirement<Write<'static, T>>,
        value: T,
    ) -> Launch<'_, impl Leaf<FillMarker<T>, Output = (), Args = FillArgs<T>>, FillMarker<T>, InFlow> {
        self.flow().fill(into, value).of_flow()
    }

    /// Waits until no more than `tasks` leaf tasks of the flow on this node have not ended. Collective; may wait.
    pub async fn window(&self, tasks: u32) {
        self.flow().window(tasks).await;
    }

    /// Waits for all leaf tasks that were launched before, on all nodes. Collective; may wait.
    ///
    /// # Errors
    /// The first failure of a task that no await has returned.
    pub async fn done(&self) -> Result<(), Error> {
        let (gang, task) = self.end_of_flow()?;
        self.launch_gang(&gang, &task, |_| crate::ShardLaunch::new(()))?.all().await.map(|_| ())
    }
}

impl<'s, F: Leaf<M>, M: 'static> Launch<'s, F, M, InShard> {
    fn of_flow(self) -> Launch<'s, F, M, InFlow> {
        self.turned(NOWHERE)
    }
}
