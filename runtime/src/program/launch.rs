//! The launch of a leaf task: its parameters, its waits and its arrivals.

use crate::Error;
use crate::data::UseAt;
use crate::diagnose::races::{Past, Races};
use crate::future::{FutureCell, Maker, Poison, TaskFuture};
use crate::ids::{ArrivalAt, CellAddress, ProcessorId, TaskId, WaitAt};
use crate::message::{SendTask, UNSAID};
use crate::names::TaskName;
use crate::payload::Payload;
use crate::program::apart;
use crate::program::param::{Bindings, Declaring, Param, Taking};
use crate::program::phase::{PhaseArriver, PhaseWaiter};
use crate::program::shard::Shard;
use crate::task::{Body, LeafTask, Mapped, Tasks};
use maniple_barriers::{Arriver, Role, Waiter};
use maniple_mapper::Priority;
use maniple_regions::{Coherence, Lease};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

/// An ordinary function or closure that can be launched as a leaf task.
///
/// It takes up to eight parameters by value, each a [`Param`]: an accessor of a region, an [`Arg`](crate::Arg), or a
/// value of an edge. It is not `async`. Its captures must be `Send` and `Sync`, its result `Send`. It can't return an
/// accessor. The compiler infers `Marker`. The documentation of [`Launch`] shows a function that takes any leaf task.
///
/// ```
/// # use maniple_runtime::*; use maniple_regions::*;
/// const U: Field<f64> = Field::new(0, "u");
/// fn sum(u: Read<f64>, scale: Arg<f64>) -> f64 { u.as_slice().iter().sum::<f64>() * *scale }
/// async fn shard(shard: Shard, u: RegionView) -> Result<f64, Error> {
///     let first = shard.launch(sum, (u.read(U), 2.0.into())).go()?;
///     shard.launch(sum, (u.read(U), (&first).into())).go()?.await
/// }
/// ```
///
/// The compiler refuses an argument for another accessor than the function's:
///
/// ```compile_fail
/// # use maniple_runtime::*; use maniple_regions::*;
/// const U: Field<f64> = Field::new(0, "u");
/// fn reads(_: Read<f64>) {}
/// async fn shard(shard: Shard, u: RegionView) { let _ = shard.launch(reads, (u.write(U),)).go(); }
/// ```
///
/// It refuses a field of another element type:
///
/// ```compile_fail
/// # use maniple_runtime::*; use maniple_regions::*;
/// const U: Field<f64> = Field::new(0, "u");
/// fn reads(_: Read<f32>) {}
/// async fn shard(shard: Shard, u: RegionView) { let _ = shard.launch(reads, (u.read(U),)).go(); }
/// ```
///
/// It refuses a closure that captures an `Rc`:
///
/// ```compile_fail
/// # use maniple_runtime::*; use maniple_regions::*;
/// const U: Field<f64> = Field::new(0, "u");
/// async fn shard(shard: Shard, u: RegionView) {
///     let rc = std::rc::Rc::new(1.0);
///     let _ = shard.launch(move |_: Read<f64>| *rc, (u.read(U),)).go();
/// }
/// ```
///
/// It refuses a function that returns its accessor:
///
/// ```compile_fail
/// # use maniple_runtime::*; use maniple_regions::*;
/// const U: Field<f64> = Field::new(0, "u");
/// fn leaks<'a>(u: Read<'a, f64>) -> Read<'a, f64> { u }
/// async fn shard(shard: Shard, u: RegionView) { let _ = shard.launch(leaks, (u.read(U),)).go(); }
/// ```
#[diagnostic::on_unimplemented(
    note = "a leaf task takes up to eight parameters by value, each an accessor (`Read`, `Write`, …), an `Arg<T>` or a \
            value of an edge (`Get`, `Put`); it is not async"
)]
pub trait Leaf<Marker>: Send + 'static {
    /// The result of the function; if it [may fail](MayFail), its value.
    type Output: Send + 'static;
    /// The arguments of a launch: a tuple with one entry for each parameter.
    type Args: 'static;
    #[doc(hidden)]
    type Kept: 'static;
    #[doc(hidden)]
    type Sent: Clone + Send + 'static;
    #[doc(hidden)]
    fn declare(args: &Self::Args, declaring: &mut Declaring<'_>) -> Result<(), Error>;
    /// The number of regions that each argument names.
    #[doc(hidden)]
    fn regions(args: &Self::Args) -> Vec<usize>;
    #[doc(hidden)]
    fn take(args: Self::Args, taking: &mut Taking<'_>) -> Self::Kept;
    #[doc(hidden)]
    fn resolve(kept: Self::Kept) -> Result<Self::Sent, Error>;
    #[doc(hidden)]
    fn call(&self, sent: Self::Sent, bindings: Bindings<'_>) -> Result<Self::Output, Box<Error>>;
    #[doc(hidden)]
    fn call_here(&self, kept: Self::Kept, bindings: Bindings<'_>) -> Result<Self::Output, Box<Error>>;
}

/// What a leaf task's function returns. `Fails` says whether an error in it is the failure of the task.
pub trait Outcome<Fails> {
    /// The result of the task.
    type Value: Send + 'static;
    #[doc(hidden)]
    fn ended(self) -> Result<Self::Value, Box<Error>>;
}

/// Says of a leaf task that it fails only by a panic.
#[derive(Debug)]
pub enum NeverFails {}

/// Says of a leaf task that it fails when it returns an error. See [`Shard::try_launch`].
#[derive(Debug)]
pub enum MayFail {}

impl<T: Send + 'static> Outcome<NeverFails> for T {
    type Value = T;
    #[inline(always)]
    fn ended(self) -> Result<T, Box<Error>> {
        Ok(self)
    }
}

impl<T: Send + 'static> Outcome<MayFail> for Result<T, Error> {
    type Value = T;
    #[inline]
    fn ended(self) -> Result<T, Box<Error>> {
        self.map_err(Box::new)
    }
}

macro_rules! leaf {
    ($($P:ident $a:ident),*) => {
        #[allow(non_snake_case, unused_variables, unused_mut, clippy::too_many_arguments, clippy::unused_unit)]
        impl<Func, O, Fails, $($P: Param),*> Leaf<(fn($($P),*) -> O, Fails)> for Func
        where
            Func: Send + Sync + 'static,
            O: Outcome<Fails>,
            for<'x> &'x Func: Fn($($P),*) -> O + Fn($($P::Item<'_>),*) -> O,
        {
            type Output = O::Value;
            type Args = ($($P::Arg,)*);
            type Kept = ($($P::Kept,)*);
            type Sent = ($($P::Sent,)*);

            #[inline(always)]
            fn declare(args: &Self::Args, declaring: &mut Declaring<'_>) -> Result<(), Error> {
                let ($($a,)*) = args;
                $($P::declare($a, declaring)?;)*
                Ok(())
            }

            #[cold]
            fn regions(args: &Self::Args) -> Vec<usize> {
                let ($($a,)*) = args;
                vec![$($P::regions($a)),*]
            }

            #[inline(always)]
            fn take(args: Self::Args, taking: &mut Taking<'_>) -> Self::Kept {
                let ($($a,)*) = args;
                ($($P::take($a, taking),)*)
            }

            fn resolve(kept: Self::Kept) -> Result<Self::Sent, Error> {
                let ($($a,)*) = kept;
                Ok(($($P::resolve($a)?,)*))
            }

            #[inline]
            fn call_here(&self, kept: Self::Kept, mut bindings: Bindings<'_>) -> Result<O::Value, Box<Error>> {
                #[inline]
                fn run<O, $($P),*>(f: impl Fn($($P),*) -> O, $($a: $P),*) -> O {
                    f($($a),*)
                }
                let ($($a,)*) = kept;
                $(let $a = $P::bind_here(&mut bindings, $a)?;)*
                run(self, $($a),*).ended()
            }

            fn call(&self, sent: Self::Sent, mut bindings: Bindings<'_>) -> Result<O::Value, Box<Error>> {
                fn run<O, $($P),*>(f: impl Fn($($P),*) -> O, $($a: $P),*) -> O {
                    f($($a),*)
                }
                let ($($a,)*) = sent;
                $(let $a = $P::bind(&mut bindings, $a).map_err(Error::unbound)?;)*
                run(self, $($a),*).ended()
            }
        }
    };
}

leaf!();
leaf!(A a);
leaf!(A a, B b);
leaf!(A a, B b, C c);
leaf!(A a, B b, C c, D d);
leaf!(A a, B b, C c, D d, E e);
leaf!(A a, B b, C c, D d, E e, G g);
leaf!(A a, B b, C c, D d, E e, G g, H h);
leaf!(A a, B b, C c, D d, E e, G g, H h, I i);

/// How far a leaf task is.
enum LeafStage<F: Leaf<M>, M> {
    /// The function and its arguments, not resolved yet.
    Waits(F, F::Kept),
    /// The result, while it is held back.
    Done(F::Output),
    /// Running, elsewhere, or over.
    Gone,
}

/// The task itself, which a leaf task's future holds in addition to the promise. It runs without being borrowed, as the
/// function may do anything.
struct Work<F: Leaf<M>, M> {
    id: TaskId,
    stage: Cell<LeafStage<F, M>>,
}

impl<F: Leaf<M>, M: 'static> Maker<F::Output> for Work<F, M> {
    fn leaf(&self) -> Option<TaskId> {
        Some(self.id)
    }
}

/// A function with everything resolved, so that it can move to another thread.
struct Detached<F: Leaf<M>, M> {
    call: Option<(F, F::Sent)>,
    output: Option<F::Output>,
    /// Whether a planted bug has it run twice.
    twice: bool,
    marker: PhantomData<fn() -> M>,
}

impl<F: Leaf<M>, M: 'static> LeafTask for FutureCell<F::Output, Work<F, M>> {
    fn run(&self, leases: &mut [Lease], values: &mut [Payload]) -> Result<(), Box<Error>> {
        // The function is dropped here, where a panic of its destructor is caught.
        if let LeafStage::Waits(function, kept) = self.task().stage.replace(LeafStage::Gone) {
            let bindings = Bindings::new(leases, values);
            let output = function.call_here(kept, bindings)?;
            self.task().stage.set(LeafStage::Done(output));
        }
        Ok(())
    }

    fn detach(&self, twice: bool) -> Result<Box<dyn SendTask>, Error> {
        let call = match self.task().stage.replace(LeafStage::Gone) {
            LeafStage::Waits(function, kept) => Some((function, F::resolve(kept)?)),
            _ => None,
        };
        Ok(Box::new(Detached { call, output: None, twice, marker: PhantomData }))
    }

    fn take_back(&self, ran: &mut dyn SendTask) {
        if let Some(output) = ran.output().downcast_mut::<Option<F::Output>>().and_then(Option::take) {
            self.task().stage.set(LeafStage::Done(output));
        }
    }

    fn succeed(&self, tasks: &Tasks) {
        let outcome = match self.task().stage.replace(LeafStage::Gone) {
            LeafStage::Done(output) => Ok(output),
            _ => Err(Poison::of_the_run(&Error::Stopped { what: "a task had a result".into() })),
        };
        self.settle(outcome, tasks.teller());
    }

    fn fail(&self, tasks: &Tasks, poison: Rc<Poison>) {
        self.settle(Err(poison), tasks.teller());
    }

    fn discard(&self) {
        self.task().stage.set(LeafStage::Gone);
    }

    fn clear(&self) {
        self.discard();
        FutureCell::clear(self);
    }

    fn may_stay(&self) -> bool {
        !std::mem::needs_drop::<F::Output>()
    }
}

impl<F: Leaf<M>, M: 'static> SendTask for Detached<F, M> {
    fn run(&mut self, leases: &mut [Lease], values: &mut [Payload]) -> Result<(), Box<Error>> {
        if let Some((function, sent)) = self.call.take() {
            if cfg!(feature = "plant") && self.twice {
                drop(function.call(sent.clone(), Bindings::new(leases, values)));
            }
            let bindings = Bindings::new(leases, values);
            self.output = Some(function.call(sent, bindings)?);
        }
        Ok(())
    }

    fn output(&mut self) -> &mut dyn Any {
        &mut self.output
    }
}

/// An end of a barrier that a launch or a shard can wait at. It stands for the next generation.
///
/// These are [`Consumer::ready`](crate::Consumer::ready), [`Producer::empty`](crate::Producer::empty) and
/// [`PhaseWaiter`].
pub trait Waitable {
    /// Takes the next generation.
    #[doc(hidden)]
    fn next_wait(&self) -> WaitPoint;
    /// Gives the generation back that was taken last, when nobody waits for it any more.
    #[doc(hidden)]
    fn give_back(&self, point: &WaitPoint);
}
/// An end of a barrier at which a task or a shard can arrive.
///
/// These are [`Producer::ready`](crate::Producer::ready), [`Consumer::empty`](crate::Consumer::empty) and
/// [`PhaseArriver`].
pub trait Arrivable {
    /// Takes the next generation.
    #[doc(hidden)]
    fn next_arrival(&self) -> ArrivalPoint;
}
/// One generation to wait for.
#[doc(hidden)]
pub struct WaitPoint(pub(crate) WaitAt);
/// One generation to arrive at.
#[doc(hidden)]
pub struct ArrivalPoint(pub(crate) ArrivalAt);

impl<R: Role> Waitable for Waiter<R, CellAddress> {
    fn next_wait(&self) -> WaitPoint {
        let CellAddress { object, cell, .. } = self.address();
        WaitPoint(WaitAt::Cell { object, cell, generation: self.take() })
    }
    fn give_back(&self, point: &WaitPoint) {
        Waiter::give_back(self, point.0.generation());
    }
}
impl<R: Role> Arrivable for Arriver<R, CellAddress> {
    fn next_arrival(&self) -> ArrivalPoint {
        ArrivalPoint(ArrivalAt::Cell(self.address(), self.take()))
    }
}
impl Waitable for PhaseWaiter {
    fn next_wait(&self) -> WaitPoint {
        WaitPoint(WaitAt::Phase { object: self.address().object, generation: self.take() })
    }
    fn give_back(&self, point: &WaitPoint) {
        Waiter::give_back(self, point.0.generation());
    }
}
impl Arrivable for PhaseArriver {
    fn next_arrival(&self) -> ArrivalPoint {
        let (object, (arriver, generation)) = (self.0.arriver.address().object, self.0.take());
        ArrivalPoint(ArrivalAt::Phase { object, arriver, generation, value: 0 })
    }
}

/// A launch of a leaf task that is being put together. [`go`](Self::go) launches the task.
///
/// [`Shard::launch`] begins one. It takes no generation of a barrier before `go`. A launch that is dropped does
/// nothing.
///
/// A function that takes any launch has two type parameters, the leaf task and its marker:
///
/// ```
/// use maniple_runtime::{Edges, Error, Launch, Leaf, Producer, Runtime, Shard, ShardLaunch, TaskFuture};
///
/// /// Launches a task that waits for a free buffer of an edge, and then announces a value.
/// fn fill<'s, F: Leaf<M>, M: 'static>(
///     launch: Launch<'s, F, M>,
///     to: &'s Producer,
/// ) -> Result<TaskFuture<F::Output>, Error> {
///     launch.wait(to.empty()).arrive(to.ready()).go()
/// }
///
/// /// Each shard is its own consumer.
/// async fn shard(shard: Shard, edges: Edges) -> Result<u32, Error> {
///     let to = edges.producer(&shard, shard.index())?;
///     let from = edges.consumer(&shard, shard.index())?;
///     let filled = fill(shard.launch(|| 42, ()), &to)?;
///     shard.wait(from.ready()).await?;
///     filled.await
/// }
/// # let (filled, _) = Runtime::threads(1).run(|top| async move {
/// #     let gang = top.gang("both", 2)?;
/// #     let edges = top.edges("own", &gang, [(0, 0), (1, 1)], 1)?;
/// #     let task = top.register("shard", shard);
/// #     top.launch_gang(&gang, &task, |_| ShardLaunch::new(edges))?.all().await
/// # })?;
/// # assert_eq!(filled, [42, 42]);
/// # Ok::<(), Error>(())
/// ```
#[must_use = "nothing is launched before `go`"]
pub struct Launch<'s, F: Leaf<M>, M, W = InShard> {
    pub(super) shard: &'s Shard,
    function: F,
    pub(super) args: F::Args,
    pub(super) name: TaskName,
    /// The processor it is meant for. In a flow, the node's home if the program names a node, or else [`NOWHERE`].
    pub(super) target: ProcessorId,
    pub(super) priority: Option<Priority>,
    /// In virtual time, in nanoseconds; [`UNSAID`] if the machine is to say.
    takes: u64,
    waits: SmallVec<[&'s dyn Waitable; 2]>,
    arrivals: SmallVec<[&'s dyn Arrivable; 2]>,
    marker: PhantomData<fn() -> (M, W)>,
}

/// No processor.
pub(super) const NOWHERE: ProcessorId = ProcessorId(u32::MAX);

/// Says of a [`Launch`] that it is a shard's.
#[derive(Debug)]
pub enum InShard {}

impl<'s, F: Leaf<M>, M: 'static, W> Launch<'s, F, M, W> {
    #[inline]
    #[track_caller]
    pub(crate) fn new(shard: &'s Shard, function: F, args: F::Args) -> Self {
        Self {
            shard,
            function,
            args,
            name: TaskName::new(std::any::type_name::<F>()),
            target: shard.processor(),
            priority: None,
            takes: UNSAID,
            waits: SmallVec::new(),
            arrivals: SmallVec::new(),
            marker: PhantomData,
        }
    }

    /// Names the task in reports, errors and traces. Without this it has the name of its function. A closure is named after
    /// the function around it and the line of its launch.
    #[inline]
    pub fn named(mut self, name: &'static str) -> Self {
        self.name.of_type = name;
        self
    }

    /// Names the task as the launch of several tasks that it is part of.
    pub(crate) fn called(mut self, name: TaskName) -> Self {
        self.name = name;
        self
    }

    /// The same launch as one of another kind, meant for a processor.
    #[inline(always)]
    pub(super) fn turned<V>(self, target: ProcessorId) -> Launch<'s, F, M, V> {
        let Self { shard, function, args, name, priority, takes, waits, arrivals, .. } = self;
        Launch { shard, function, args, name, target, priority, takes, waits, arrivals, marker: PhantomData }
    }

    /// Tells the mapper that the task is meant for a processor of the node.
    pub(crate) fn meant_for(mut self, processor: ProcessorId) -> Self {
        self.target = processor;
        self
    }

    /// Sets the priority, in place of the mapper's answer. A priority beyond the last of the [`Priority::LEVELS`]
    /// levels counts as the last.
    #[inline]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(Priority(priority.0.min(Priority::LEVELS - 1)));
        self
    }

    /// Sets the time that the task takes in virtual time. Without this, or with `None`, it takes the time that the
    /// [machine](crate::VirtualMachine) gives for it. Other drivers ignore it.
    #[inline]
    pub fn takes(mut self, time: impl Into<Option<Duration>>) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(UNSAID - 1).min(UNSAID - 1);
        self.takes = time.into().map_or(UNSAID, ns);
        self
    }

    /// Declares the arguments and asks the mapper. All that can refuse the launch is here.
    #[inline(always)]
    pub(crate) fn map(&self) -> Result<MappedLeaf, Box<Error>> {
        let &Launch { shard, name, .. } = self;
        let tasks = &shard.core().tasks;
        let (id, mut body) = tasks.reserve_leaf();
        let mut declaring = Declaring::new(shard, id, &mut body);
        let declared = shard.check_running("a launch").and_then(|()| F::declare(&self.args, &mut declaring));
        let unmet = declaring.unmet;
        let apart = declared.and_then(|()| match apart::clash(&body.uses) {
            None => Ok(()),
            Some(two) => {
                let regions = F::regions(&self.args);
                Err(apart::refusal(shard.place(), &tasks.effects.objects, &body.uses, two, &regions))
            }
        });
        match apart {
            Ok(()) => self.map_declared(id, unmet, body),
            Err(refused) => {
                tasks.cancel_leaf(id, body);
                Err(Box::new(refused.of_launch(name)))
            }
        }
    }

    /// Asks the mapper about a launch whose arguments are declared.
    #[inline(always)]
    pub(super) fn map_declared(&self, id: TaskId, unmet: u32, mut body: Box<Body>) -> Result<MappedLeaf, Box<Error>> {
        let &Launch { shard, name, target, priority, .. } = self;
        let tasks = &shard.core().tasks;
        (body.name, body.shard, body.takes) = (name, shard.index(), self.takes);
        match tasks.map_leaf(target, priority, &mut body) {
            Ok(mapped) => Ok(MappedLeaf { id, unmet, mapped, body }),
            Err(refused) => {
                tasks.cancel_leaf(id, body);
                Err(Box::new(refused.of_launch(name)))
            }
        }
    }

    /// Launches a task that only sends a value. It has nothing to map: it runs here, before what takes time.
    pub(crate) fn go_sending(self) -> Result<TaskFuture<F::Output>, Error> {
        let &Launch { shard, name, takes, .. } = &self;
        shard.check_running("a call of `Shard::send`")?;
        let tasks = &shard.core().tasks;
        let (id, mut body) = tasks.reserve_leaf();
        (body.name, body.shard, body.takes) = (name, shard.index(), takes);
        let mapped = Mapped { processor: tasks.effects.id, priority: Priority::RAISED };
        Ok(self.go_mapped(MappedLeaf { id, unmet: 0, mapped, body }, &[]))
    }

    /// Gives a mapped launch other arguments, which name no regions.
    pub(crate) fn with_args(mut self, args: F::Args, leaf: &mut MappedLeaf) -> Result<Self, Error> {
        let mut declaring = Declaring::new(self.shard, leaf.id, &mut leaf.body);
        F::declare(&args, &mut declaring)?;
        leaf.unmet += declaring.unmet;
        self.args = args;
        Ok(self)
    }

    /// Takes the generations of barriers and launches the task, also after the generations `after`, which were taken
    /// for several tasks. It can't fail.
    #[inline(always)]
    pub(crate) fn go_mapped(self, leaf: MappedLeaf, after: &[WaitAt]) -> TaskFuture<F::Output> {
        // Field by field: as a whole it would be copied.
        let Launch { shard, function, args, waits, arrivals, .. } = self;
        let MappedLeaf { id, unmet, mapped, mut body } = leaf;
        let tasks = &shard.core().tasks;
        let past = tasks.effects.races().map(|races| tell_races(races, shard, id, &mut body));
        let mut taking = Taking::new(tasks, id, &mut body, unmet);
        let kept = F::take(args, &mut taking);
        after.iter().for_each(|at| taking.wait(*at));
        for barrier in &waits {
            taking.wait(barrier.next_wait().0);
        }
        for barrier in &arrivals {
            taking.arrive(barrier.next_arrival().0);
        }
        let unmet = taking.unmet;
        let work = Work { id, stage: Cell::new(LeafStage::Waits(function, kept)) };
        let task = FutureCell::renewed(body.task.take().map(|task| task as Rc<dyn Any>), work);
        body.task = Some(task.clone());
        if let Some(past) = past {
            task.begins(past);
        }
        tasks.launch_leaf(id, unmet, mapped, body, &shard.inner.owner);
        TaskFuture::of(task)
    }
}

impl<'s, F: Leaf<M>, M: 'static> Launch<'s, F, M> {
    /// [`arrive`](Self::arrive), for a barrier of any kind.
    #[inline]
    pub(crate) fn arrive_at(mut self, barrier: &'s dyn Arrivable) -> Self {
        self.arrivals.push(barrier);
        self
    }

    /// Lets the task start only after the next generation of `barrier`. [`go`](Self::go) takes the generation.
    #[inline]
    pub fn wait(mut self, barrier: &'s impl Waitable) -> Self {
        self.waits.push(barrier);
        self
    }

    /// Lets the task arrive at `barrier` when it is done. If it fails, that generation and all later ones are poisoned.
    ///
    /// [`go`](Self::go) fixes the generation: launches take generations in program order, and their tasks may end in
    /// another order. An early arrival counts when its turn comes. It may be at most 64 generations early and must be
    /// within the barrier's window; otherwise it is [`Error::Barrier`].
    #[inline]
    pub fn arrive(self, barrier: &'s impl Arrivable) -> Self {
        self.arrive_at(barrier)
    }

    /// Launches the task. Local, not collective; returns at once.
    ///
    /// The task runs when its barriers and its input futures are done, and with them all earlier tasks of the shard
    /// that use the same data, unless both only read it. Simultaneous uses of data are not ordered, not even within one
    /// shard.
    ///
    /// # Errors
    /// - [`Error::Misuse`] for a field, privilege or coherence that the shard does not hold. Data held with
    ///   simultaneous coherence needs shared accessors, and other data needs slices.
    /// - [`Error::Misuse`] for two arguments on the same data, unless both only read it or share it.
    /// - [`Error::Misuse`] in an inner task for data that another one writes which has not been awaited.
    /// - [`Error::Mapper`] for an illegal decision of the mapper, [`Error::MapperFailed`] if the mapper panics.
    ///
    /// After an error no generation has been taken: the next launch, or the shard itself, gets the one of this launch.
    #[inline]
    pub fn go(self) -> Result<TaskFuture<F::Output>, Error> {
        match self.map() {
            Ok(mut mapped) => {
                if let Some(inner) = self.shard.inner_launcher() {
                    match inner.plan_leaf(self.shard, &mapped.body, (mapped.id, mapped.mapped.priority)) {
                        Ok(unmet) => mapped.unmet += unmet,
                        Err(refused) => {
                            mapped.cancel(&self.shard.core().tasks);
                            return Err(refused);
                        }
                    }
                }
                Ok(self.go_mapped(mapped, &[]))
            }
            Err(refused) => Err(*refused),
        }
    }
}

/// Tells the check for races of a launch, and returns the event of the task's beginning. It is compiled once, and not for
/// each function that is launched.
#[cold]
fn tell_races(races: &Races, shard: &Shard, id: TaskId, body: &mut Body) -> Past {
    let inputs = std::mem::take(&mut body.inputs);
    let exclusive = body.uses.iter().filter(|u| u.coherence != Coherence::Simultaneous).map(UseAt::as_use);
    let after = shard.inner_launcher().filter(|inner| inner.take_follower(id)).map(|inner| inner.number);
    races.leaf_launched((shard.core().tasks.effects.id, id), shard.actor(), (inputs, after), exclusive)
}

/// A leaf task that the mapper has decided about. It is not launched yet and has taken no generation of a barrier.
pub(crate) struct MappedLeaf {
    pub(super) id: TaskId,
    /// The number of events that the task waits for.
    pub(super) unmet: u32,
    pub(super) mapped: Mapped,
    pub(super) body: Box<Body>,
}

impl MappedLeaf {
    /// Leaves the task to the pool of its node, if the mapper has left it on the processor that it was meant for.
    pub fn leave_to_pool(&mut self, meant_for: ProcessorId) {
        if self.mapped.processor == meant_for {
            self.mapped.processor = ProcessorId::ANYWHERE;
        }
    }

    /// Gives the launch up.
    #[cold]
    pub fn cancel(self, tasks: &Tasks) {
        tasks.cancel_leaf(self.id, self.body);
    }
}
