//! The handle of the top-level task.

use crate::Error;
use crate::effects::{Asker, Destroyed, Known};
use crate::future::FutureMap;
use crate::gang::OfLaunch;
use crate::ids::{ColumnKey, NodeId, ObjectId, ProcessorId, Run, TOP};
use crate::maps::HashSet;
use crate::message::{Destroying, Message};
use crate::object::{Edge, EdgeTable, GangTable, Object, PhaseSpec, TaskSpec, Tree};
use crate::parcel::{Parcel, Portable};
use crate::payload::Length;
use crate::processor::{Core, ShardCode};
use crate::program::destroy::{Destroy, Doomed};
use crate::program::edges::Edges;
use crate::program::flow::{Windows, on_each_node};
use crate::program::gang::{Gang, ShardLaunch, ShardTask};
use crate::program::inner::InnerTask;
use crate::program::launcher::Launcher;
use crate::program::phase::{PhaseBarrier, PhaseOptions, members};
use crate::program::shard::Shard;
use crate::replay::{Chains, Handle, ReplayObject, ReplaySpec, check};
use crate::task::Owner;
use maniple_barriers::Arrivals;
use maniple_mapper::{Algorithm, AlgorithmInput, Kind, Mapper, PlaceShardsInput, validate};
use maniple_regions::{Coherence, Element, FieldId, FieldInfo, Rect, Region, TreeId};
use maniple_schedules::CombiningTree;
use std::any::type_name;
use std::cell::OnceCell;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

pin_project_lite::pin_project! {
    /// The future of a shard task, and the end of its shard. It is written by hand because an `async` block that awaits
    /// a captured future stores it twice.
    struct ShardBody<F> {
        shard: Shard,
        // None when it has ended.
        #[pin]
        future: Option<F>,
    }
}

impl<R: Portable, F: Future<Output = Result<R, Error>>> Future for ShardBody<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Ready(()) };
        let result = ready!(future.poll(cx));
        // A destructor that panics is the shard's failure too.
        this.future.set(None);
        this.shard.end(result.map(Parcel::new));
        Poll::Ready(())
    }
}

/// Object 0 of every run: the gang of one shard, on processor 0, in which [`Top::run_inner`] runs its task.
pub(crate) const SINGLE: Gang = Gang { id: 0, shards: 1, run: Run::ANY };

/// The handle of the top-level task: it makes regions, gangs, tasks and barriers, and launches gangs.
///
/// | what you want to do | method |
/// |---|---|
/// | make a region, ask about one | [`region_tree`](Self::region_tree), [`tree`](Self::tree) |
/// | make a gang | [`gang`](Self::gang) |
/// | make a task for shards | [`register`](Self::register) |
/// | launch a gang | [`launch_gang`](Self::launch_gang) |
/// | launch leaf tasks: a flow | [`launch`](Self::launch), [`index_launch`](Self::index_launch), [`fill`](Self::fill), [`copy`](Self::copy) |
/// | join shards | [`edges`](Self::edges), [`edges_standing_for`](Self::edges_standing_for), [`phase_barrier`](Self::phase_barrier) |
/// | let one task launch gangs, without replication | [`register_inner`](Self::register_inner), [`run_inner`](Self::run_inner) |
/// | give memory back | [`destroy`](Self::destroy) |
/// | change the mapper during a run | [`replace_mapper`](Self::replace_mapper) |
///
/// Every node runs its own copy of the top-level task. All copies make the same calls in the same order, and so hold
/// the same handles without a message. The task must therefore be deterministic.
/// [`Check::ControlReplication`](crate::Check::ControlReplication) compares the copies. "Collective" below means that
/// every copy makes the call.
///
/// The top-level task can't set deadlines: a time may be over on one node and not on another. Set them in shards and
/// inner tasks with [`Shard::timeout`].
#[derive(Clone)]
pub struct Top {
    launcher: Rc<Launcher>,
    run: Run,
    /// Stands for it where it launches leaf tasks.
    flow: Shard,
    /// A gang of one shard on each node, and the task with which the flow waits for all of them, once it has to.
    each_node: Rc<OnceCell<(Gang, ShardTask<bool, ()>)>>,
    pub(super) windows: Rc<Windows>,
}

impl Top {
    pub(crate) fn new(core: &Rc<Core>) -> Self {
        let mut launcher = Launcher::new(core, "top level", 0, true);
        let owner = Rc::new(Owner::default());
        owner.shares(core.tasks.data.poisons());
        launcher.failures = owner.failures().clone();
        let launcher = Rc::new(launcher);
        let flow = Shard::of_flow(&launcher, owner.clone());
        core.flow.get_or_init(|| owner);
        let top =
            Self { launcher, run: core.effects().config.run, flow, each_node: Rc::default(), windows: Rc::default() };
        top.add(Object::Gang(Arc::new(GangTable::new(
            SINGLE.id,
            "single",
            &[ProcessorId(0)],
            core.effects().machine().processors(),
        ))));
        top
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.launcher.core
    }

    pub(super) fn flow(&self) -> &Shard {
        &self.flow
    }

    /// A gang of one shard on each node, and the task with which a flow waits for all of them.
    pub(super) fn each_node(&self) -> Result<(Gang, ShardTask<bool, ()>), Error> {
        if let Some(made) = self.each_node.get() {
            return Ok(*made);
        }
        let effects = self.core().effects();
        let homes: Vec<ProcessorId> = (0..effects.copies().nodes()).map(|node| effects.home_of(NodeId(node))).collect();
        let gang = self.define_gang("nodes", &homes);
        Ok(*self.each_node.get_or_init(|| (gang, self.register("flow", on_each_node))))
    }

    /// Adds an object, which must be the same on every node.
    fn define(&self, object: Object) -> ObjectId {
        self.core().replicated(|| format!("{} {}", object.describe(), object.parameters()));
        self.add(object)
    }

    fn add(&self, object: Object) -> ObjectId {
        let core = self.core();
        let id = core.effects().objects.made();
        let object = Arc::new(object);
        self.tell_others(|| Message::Define(object.clone()));
        core.define(object);
        id
    }

    /// Sends to the other processors of this node.
    fn tell_others(&self, message: impl Fn() -> Message) {
        let effects = self.core().effects();
        let node = effects.copies().node_of(effects.id);
        let others = effects.copies().processors_of(node).filter(|p| *p != effects.id);
        others.for_each(|p| effects.send(p, message()));
    }

    /// Number of nodes that have a copy of the top-level task. [`Launch::on`](crate::Launch::on) takes one of them. Local; never
    /// waits.
    pub fn nodes(&self) -> u32 {
        self.launcher.nodes
    }

    /// Number of processors of the machine.
    pub fn processors(&self) -> u32 {
        self.core().effects().machine().processors()
    }

    /// The node of a processor, whose workers share an address space. Local; never waits.
    pub fn node_of(&self, processor: ProcessorId) -> NodeId {
        self.core().effects().machine().node_of(processor)
    }

    /// Makes a region tree: the points of `rect`, each with `fields`. Returns the region of all points. All bytes of
    /// its values are zero at first. Collective; never waits. A shard makes one for itself with
    /// [`Shard::region_tree`](crate::Shard::region_tree).
    ///
    /// # Errors
    /// [`Error::Region`] for two fields with the same number or name, or for a field with more bytes than can be
    /// addressed.
    pub fn region_tree(&self, name: &str, rect: Rect, fields: &[FieldInfo]) -> Result<Region, Error> {
        let id = self.define(Object::Tree(Tree::new(name, rect, fields)?));
        Ok(Region { tree: TreeId(id), rect })
    }

    /// The name, the points and the fields of the tree of a region. Local; never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a region outside its tree, [`Error::Destroyed`] for a tree that was destroyed.
    pub fn tree(&self, region: Region) -> Result<Tree, Error> {
        let objects = &self.core().effects().objects;
        objects.in_tree(region, TOP, || "Top::tree".into())?;
        let found = objects.with(region.tree.0, |object| object.and_then(Object::tree).cloned());
        found.ok_or_else(|| Error::misuse("Top::tree", "a region of a tree made with `Top::region_tree`", region))
    }

    /// The rectangles of the instances that hold the latest values of a field within a region, in the order of their points. Points
    /// that nobody has written are in none. All copies get the same. Local; never waits.
    ///
    /// # Errors
    /// As [`tree`](Self::tree); [`Error::Misuse`] for a field that the tree does not have, and for data of an inner task that has not
    /// been awaited.
    #[doc(hidden)]
    pub fn instances(&self, region: Region, field: FieldId) -> Result<Vec<Rect>, Error> {
        self.tree(region)?;
        self.core().effects().objects.field(region.tree, field)?;
        let key = ColumnKey { tree: region.tree, field, rect: region.rect };
        // What an inner task has left is known to each copy at another time, until it is awaited.
        self.launcher.check_awaited(|| "Top::instances", std::iter::once((key, Coherence::Exclusive)))?;
        let valid = self.launcher.planner.versions.borrow().within(&key);
        Ok(valid.iter().map(|valid| valid.from.intersect(&region.rect)).collect())
    }

    /// Makes a gang of `shards` shards. The mapper decides on which processors they run. Collective; never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] for no shards or more than [`Gang::MAX_SHARDS`], [`Error::Mapper`] for an illegal placement.
    pub fn gang(&self, name: &str, shards: u32) -> Result<Gang, Error> {
        if shards == 0 {
            return Err(Error::misuse(format!("gang `{name}`"), "at least one shard", 0));
        }
        // Before anything is made for each of them.
        if shards > Gang::MAX_SHARDS {
            let expected = format!("at most {} shards", Gang::MAX_SHARDS);
            return Err(Error::misuse(format!("gang `{name}`"), expected, shards));
        }
        let machine = self.core().effects().machine();
        let input = PlaceShardsInput { gang: name, shards, machine };
        let placement = self.core().effects().ask(
            Asker::EveryNode,
            ("place_shards", &format_args!("gang `{name}`")),
            |m| m.place_shards(&input),
            |name, answer| validate::placement(name, &input, answer),
        )?;
        Ok(self.define_gang(name, &placement))
    }

    /// Makes a gang of a shard on each of these processors.
    fn define_gang(&self, name: &str, placement: &[ProcessorId]) -> Gang {
        let effects = self.core().effects();
        let table = GangTable::new(effects.objects.made(), name, placement, effects.machine().processors());
        let id = self.define(Object::Gang(Arc::new(GangTable { run: self.run, ..table })));
        Gang { id, shards: placement.len() as u32, run: self.run }
    }

    /// The processor of each shard of a gang, as the mapper placed them. Collective; never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a gang of another run.
    pub fn placement(&self, gang: &Gang) -> Result<Vec<ProcessorId>, Error> {
        Ok(self.table("Top::placement", gang)?.at.iter().map(|at| at.0).collect())
    }

    /// Registers an `async fn(Shard, A) -> Result<R, Error>` as a shard task. Collective; never waits.
    ///
    /// The argument `A` and the result `R` must be [`Portable`]: a struct of yours needs
    /// `#[derive(serde::Serialize, serde::Deserialize)]`. Use a tuple or a struct for several arguments.
    pub fn register<A, R, F, Fut>(&self, name: &str, function: F) -> ShardTask<A, R>
    where
        A: Portable,
        R: Portable,
        F: Fn(Shard, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Error>> + 'static,
    {
        self.register_as(name, false, function)
    }

    fn register_as<A, R, F, Fut>(&self, name: &str, inner: bool, function: F) -> ShardTask<A, R>
    where
        A: Portable,
        R: Portable,
        F: Fn(Shard, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Error>> + 'static,
    {
        let code: ShardCode = Box::new(move |core, seat| {
            Shard::start(core, seat, |shard, args| {
                let future = Some(function(shard.clone(), args.open()?));
                Ok(Box::pin(ShardBody { shard, future }))
            });
        });
        let types = (type_name::<A>(), type_name::<R>());
        let id = self.define(Object::Task(TaskSpec { run: self.run, name: name.into(), inner, types, code }));
        ShardTask { id, run: self.run, types: PhantomData }
    }

    /// Registers an `async fn(InnerTask, A) -> Result<R, Error>` as an inner task, for [`run_inner`](Self::run_inner).
    /// Collective; never waits.
    ///
    /// [`launch_gang`](Self::launch_gang) can run several inner tasks side by side, which hold disjoint regions. In this case the
    /// top-level task has two duties. It must await earlier launches that use these regions before it launches the inner tasks. And
    /// it must await the inner tasks before it uses the regions again, because only then is it known where their gangs have left
    /// the data. Until it has, a launch that uses what an inner task writes is [`Error::Misuse`], unless both share it.
    pub fn register_inner<A, R, F, Fut>(&self, name: &str, function: F) -> ShardTask<A, R>
    where
        A: Portable,
        R: Portable,
        F: Fn(InnerTask, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Error>> + 'static,
    {
        self.register_as(name, true, move |shard, args| {
            let inner = InnerTask::new(shard);
            let future = function(inner.clone(), args);
            inner.run(future)
        })
    }

    fn table(&self, what: &str, gang: &Gang) -> Result<Arc<GangTable>, Error> {
        gang.table(self.core(), TOP, what)
    }

    /// Makes [`Edges`] between shards of a gang, from a list of `(from, to)` or `(from, to, tag)`. Collective; never
    /// waits.
    ///
    /// A producer may be up to `depth` values ahead of its consumer; `depth` is from 1 to 64. Two shards can have
    /// several edges, with different tags. A shard may be its own consumer. An edge that nobody uses is harmless.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a shard that is not in the gang, an edge listed twice, or another depth.
    pub fn edges<T: Element>(
        &self,
        name: &str,
        gang: &Gang,
        edges: impl IntoIterator<Item = impl Into<Edge>>,
        depth: u32,
    ) -> Result<Edges<T>, Error> {
        self.edges_standing_for(name, gang, edges, depth, 0)
    }

    /// The same, where in virtual time each element of a value counts as `bytes` bytes: in messages, and where leaf tasks get and
    /// put it. 0 means its own size. So a small program shows how long a large one would take, as with
    /// [`FieldInfo::standing_for`]. Outside virtual time nothing changes.
    ///
    /// # Errors
    /// As [`edges`](Self::edges).
    pub fn edges_standing_for<T: Element>(
        &self,
        name: &str,
        gang: &Gang,
        edges: impl IntoIterator<Item = impl Into<Edge>>,
        depth: u32,
        bytes: usize,
    ) -> Result<Edges<T>, Error> {
        let table = self.table(name, gang)?;
        let what = || format!("edges `{name}`");
        if depth == 0 || u64::from(depth) > Arrivals::WINDOW {
            return Err(Error::misuse(what(), format!("a depth from 1 to {}", Arrivals::WINDOW), depth));
        }
        let edges: Vec<Edge> = edges.into_iter().map(Into::into).collect();
        if let Some(edge) = edges.iter().find(|edge| edge.from.max(edge.to) >= gang.shards) {
            return Err(Error::misuse(what(), format!("shards in 0..{}", gang.shards), edge));
        }
        let table = EdgeTable::new(name, table, edges, depth, (type_name::<T>(), Length::new(size_of::<T>(), bytes)));
        if let Some(edge) = table.listed_twice() {
            return Err(Error::misuse(what(), "each edge once", format!("{edge} twice")));
        }
        let id = self.define(Object::Edges(table));
        Ok(Edges { id, run: self.run, values: PhantomData })
    }

    /// Makes a [`PhaseBarrier`] for shards of a gang. Collective; never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] for no arrivers or no waiters, a shard listed twice, a shard that is not in the gang, a
    /// shard with no arrivals in a generation, or more than [`PhaseOptions::MAX_ARRIVALS`] arrivals in a generation.
    pub fn phase_barrier(&self, name: &str, gang: &Gang, options: PhaseOptions) -> Result<PhaseBarrier, Error> {
        let table = self.table(name, gang)?;
        for (role, list) in [("arrivers", &options.arrivers), ("waiters", &options.waiters)] {
            let what = format!("{role} of phase barrier `{name}`");
            if list.is_empty() {
                return Err(Error::misuse(what, "at least one shard", "none"));
            }
            let mut sorted = list.clone();
            sorted.sort_unstable();
            if let Some(&s) = sorted.iter().find(|&&s| s >= gang.shards) {
                return Err(Error::misuse(what, format!("shards in 0..{}", gang.shards), s));
            }
            if let Some(pair) = sorted.windows(2).find(|w| w[0] == w[1]) {
                return Err(Error::misuse(what, "each shard once", format!("shard {} twice", pair[0])));
            }
        }
        let tree = CombiningTree::new(members(&table, &options), options.arity);
        let PhaseOptions { mut arrivers, times, waiters, window, arity, fold } = options;
        if !times.is_empty() {
            if let Some(at) = times.iter().position(|&times| times == 0) {
                let what = format!("arrivals of shard {} at phase barrier `{name}`", arrivers[at]);
                return Err(Error::misuse(what, "at least one in a generation", 0));
            }
            // Before anything is made for each of them.
            let all: u64 = times.iter().map(|&times| u64::from(times)).sum();
            if all > u64::from(PhaseOptions::MAX_ARRIVALS) {
                let expected = format!("at most {} in a generation", PhaseOptions::MAX_ARRIVALS);
                return Err(Error::misuse(format!("arrivals at phase barrier `{name}`"), expected, all));
            }
            let several = arrivers.iter().zip(&times);
            arrivers = several.flat_map(|(&shard, &times)| std::iter::repeat_n(shard, times as usize)).collect();
        }
        let spec = PhaseSpec { name: name.into(), gang: table, arrivers, waiters, window, tree, arity, fold };
        Ok(PhaseBarrier { id: self.define(Object::Phase(spec)), run: self.run })
    }

    /// Makes a replayed object for a gang (see [`crate::replay`]). The mapper places its exchange regions. Returns the
    /// object's handle, for [`Shard::replay`]. Collective; never waits.
    ///
    /// # Errors
    /// [`Error::Mapper`] for an illegal decision of the mapper, and [`Error::Misuse`] for a chain that names a peer or
    /// a cell that does not exist.
    #[doc(hidden)]
    pub fn replayed(&self, gang: &Gang, spec: Arc<dyn ReplaySpec>) -> Result<Handle, Error> {
        let table = self.table(spec.name(), gang)?;
        let (cells, of_shards) = check::cells(&*spec, &table)?;
        let cells = Arc::new(cells);
        let effects = self.core().effects();
        let number = effects.mapper_number(Asker::EveryNode);
        let shards = &table.members[effects.id.index()];
        let made = (!shards.is_empty()).then(|| spec.chains(shards, effects.config.laws));
        if let Some((subtasks, _)) = &made {
            check::chains(&*spec, (&table, &of_shards), (effects.id, subtasks))?;
        }
        let mapping = Chains::map(effects, Asker::EveryNode, &*spec, &table)?;
        self.core().replays.prepare(made);
        let object = Object::Replay(ReplayObject { spec, gang: table, mapping, number, cells });
        Ok(Handle { id: self.define(object), run: self.run })
    }

    /// Asks the mapper which algorithm a collective of a gang uses, for the crate that defines the collective. Returns
    /// a position in `choices`. All choices must give the same bits. `takes_part` says of each shard whether it is a
    /// participant. `bytes` is the size of a value.
    /// Collective; never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a gang of another run, [`Error::Mapper`] for an illegal decision of the mapper.
    #[doc(hidden)]
    pub fn choose_algorithm(
        &self,
        gang: &Gang,
        takes_part: impl Fn(u32) -> bool,
        (collective, kind): (&str, Kind),
        bytes: usize,
        choices: &[Algorithm],
    ) -> Result<usize, Error> {
        let placed = (0..).zip(self.placement(gang)?).filter(|&(shard, _)| takes_part(shard));
        let placement = &placed.map(|(_, processor)| processor).collect::<Vec<_>>();
        let input =
            AlgorithmInput { collective, kind, placement, bytes, choices, machine: self.core().effects().machine() };
        let chosen = self.core().effects().ask(
            Asker::EveryNode,
            ("choose_algorithm", &format_args!("collective `{collective}`")),
            |m| m.choose_algorithm(&input),
            |name, answer| validate::algorithm(name, &input, answer),
        )?;
        self.core().replicated(|| {
            let names: Vec<String> = choices.iter().map(Algorithm::to_string).collect();
            format!("algorithm `{}` of {names:?} for {kind} `{collective}` of {bytes} bytes", choices[chosen])
        });
        Ok(chosen)
    }

    /// Launches every shard of a gang. `start(shard)` gives the argument and the requirements of each. Collective;
    /// returns at once.
    ///
    /// A launch gets the values that earlier launches leave, as if each had ended before. It starts once its data is there, and
    /// may so start before an earlier launch that only uses the same points in other memory has ended. What an inner task leaves is
    /// known only when the program has awaited that inner task: see [`register_inner`](Self::register_inner).
    ///
    /// Barriers and collectives made for the gang belong to one launch at a time. A later launch goes on with their
    /// generations where the earlier one left off. So if the shards of two launches use them, await the first launch
    /// before the second. A barrier or an edge that a failure has poisoned stays poisoned: make a new one.
    ///
    /// # Errors
    /// - [`Error::Interference`] for requirements of two shards that interfere.
    /// - [`Error::Misuse`] for a region outside its tree, a field that the tree does not have, a gang or a task of another run,
    ///   or data that an inner task writes which has not been awaited.
    /// - [`Error::Mapper`] for an illegal decision of the mapper.
    ///
    /// After an error nothing is launched. An error of a shard comes with its future.
    pub fn launch_gang<A: Portable, R: Portable>(
        &self,
        gang: &Gang,
        task: &ShardTask<A, R>,
        start: impl Fn(u32) -> ShardLaunch<A>,
    ) -> Result<FutureMap<R>, Error> {
        self.launcher.launch(gang, task, start)
    }

    /// Runs an inner task (see [`register_inner`](Self::register_inner)) on processor 0 and gives its result to every
    /// copy of the top-level task. Collective; waits for earlier launches, for the inner task, and for all that it
    /// launches.
    ///
    /// # Errors
    /// The error of the inner task, and the errors of [`launch_gang`](Self::launch_gang).
    pub async fn run_inner<A: Portable + Clone, R: Portable + Clone>(
        &self,
        task: &ShardTask<A, R>,
        start: impl Fn() -> ShardLaunch<A>,
    ) -> Result<R, Error> {
        self.launcher.settle().await;
        let results = self.launcher.launch(&SINGLE, task, |_| start())?;
        let result = results.get(0)?.clone().await;
        self.launcher.settle().await;
        result
    }

    /// Destroys objects: region trees, gangs, tasks, edges, phase barriers, collectives, [halos](Destroy), or several of them
    /// in a tuple, an array or a vector. Their memory is given back on all processors. Collective; never waits.
    ///
    /// The call takes effect in order with launches. Earlier launches go on to use the objects, and the memory is given back
    /// when the last of them has ended. Later ones are refused: see the errors. An object that is not destroyed stays until
    /// the run ends.
    ///
    /// - A gang takes along what was made for it: its edges, phase barriers and collectives.
    /// - A region tree is named by its whole region, as [`region_tree`](Self::region_tree) returned it.
    /// - A task's captured values are dropped.
    ///
    /// A launch of an inner task may use any gang, and what belongs to it. So the memory of these is kept at least until the
    /// inner tasks that were launched before have ended.
    ///
    /// ```
    /// # use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
    /// # let (texts, _) = Runtime::threads(2).run(|top| async move {
    /// let index = top.register("index", |shard: Shard, ()| async move { Ok(shard.index()) });
    /// for step in 0..100 {
    ///     let gang = top.gang("step", 1 + step % 3)?;
    ///     top.launch_gang(&gang, &index, |_| ShardLaunch::new(()))?.all().await?;
    ///     top.destroy(gang)?;
    /// }
    /// let gang = top.gang("all", 2)?;
    /// top.destroy(gang)?;
    /// let late = top.launch_gang(&gang, &index, |_| ShardLaunch::new(()));
    /// # Ok(late.err().map(|e| e.to_string()))
    /// # })?;
    /// # let text = texts.expect("an error");
    /// # assert!(text.starts_with("a gang launch: gang `all` is no longer there: it was destroyed at "), "{text}");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::Destroyed`] for an object that was destroyed before. Any later use of a destroyed object gets the same
    ///   error: a launch, or a call by a shard of a later launch that has got the handle.
    /// - [`Error::Misuse`] for an object of another run, and for a part of a region tree.
    ///
    /// After an error nothing is destroyed.
    #[track_caller]
    pub fn destroy(&self, objects: impl Destroy) -> Result<(), Error> {
        let mut named = Doomed::default();
        objects.name(&mut named);
        self.destroy_all(named, Location::caller())
    }

    fn destroy_all(&self, Doomed(named): Doomed, at: &'static Location<'static>) -> Result<(), Error> {
        let (core, objects) = (self.core(), &self.core().effects().objects);
        let mut list: Vec<Rc<Known>> = Vec::with_capacity(named.len());
        let mut destroying =
            Destroying { objects: Vec::with_capacity(named.len()), from: self.launcher.launches.get() };
        let mut seen = HashSet::default();
        let mut add = |known: &Rc<Known>, with: Option<&Arc<str>>| {
            if seen.insert(known.id) {
                destroying.objects.push((known.id, Destroyed { at, with: with.cloned() }));
                list.push(known.clone());
            }
        };
        for doomed in &named {
            let known = doomed.find(core)?;
            add(&known, None);
            if let Some(gang) = known.object.table() {
                let name: Arc<str> = known.object.describe().into();
                objects.of_gang(gang.id, TOP).iter().for_each(|known| add(known, Some(&name)));
            }
        }
        core.replicated(|| {
            let names = list.iter().map(|known| format!("{} (object {})", known.object.describe(), known.id));
            format!("destruction of [{}]", names.collect::<Vec<_>>().join(", "))
        });
        list.iter().for_each(|known| self.launcher.planner.forget(known));
        let destroying = Arc::new(destroying);
        self.tell_others(|| Message::Destroy(destroying.clone()));
        core.retire(&destroying);
        let (launch, within) = (self.launcher.next_launch(), self.launcher.within.clone());
        core.gangs.destroy(&core.tasks, &list, OfLaunch { launch, by: "top level".into(), within });
        Ok(())
    }

    /// Replaces the mapper of the run. From here on the new one places gangs and shared regions and chooses algorithms,
    /// and each processor asks it from its next decision on. Later runs with the same slot begin with it. Collective; never waits.
    ///
    /// Each copy puts the mapper into the [slot](maniple_mapper::MapperSlot) of its process. A mapper can't be sent, so
    /// every copy makes its own, and all must be the same. If what a copy makes it of is known on one node only, a shard can
    /// return it: all copies get the results of shards.
    ///
    /// # Errors
    /// The run ends with [`Error::Divergence`] if a copy does not make this call, or if its mapper has another name or
    /// answers otherwise.
    pub fn replace_mapper(&self, mapper: Arc<dyn Mapper>) {
        let name = self.core().effects().replace_mapper(mapper);
        self.core().replicated(|| format!("replacement of the mapper by `{name}`"));
    }

    pub(crate) fn launcher(&self) -> &Launcher {
        &self.launcher
    }
}
