//! The parameters of a leaf task and the arguments of its launch: regions, values, values of edges, and any number of
//! each.

use crate::Error;
use crate::barrier::Waited;
use crate::data::UseAt;
use crate::effects::Waiting;
use crate::future::TaskFuture;
use crate::ids::{ArrivalAt, CellAddress, TaskId, ValueAt, WaitAt};
use crate::payload::Payload;
use crate::plant::Bug;
use crate::program::flow::{Named, Names};
use crate::program::region::RegionView;
use crate::program::shard::{LocalRegion, Shard};
use crate::task::{Body, Tasks, Unmet};
use maniple_regions::{
    Coherence, Element, Field, FieldInfo, Lease, Operator, Privilege, Read, ReadShared, ReadWrite, ReadWriteShared,
    Reduce, RegionError, Use, Write, WriteShared,
};
use smallvec::SmallVec;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A region argument of a leaf task: the region, the field, the privilege and the coherence. `A` is the accessor that
/// the task gets. The methods of [`RegionView`](crate::RegionView) make one.
///
/// The region may be empty: the task then runs with an accessor of no values.
#[derive(Debug)]
pub struct Requirement<A> {
    region: RegionView,
    /// The accessor's type says its element type.
    field: Field<()>,
    privilege: Privilege,
    coherence: Coherence,
    accessor: PhantomData<fn() -> A>,
}

impl<A> Clone for Requirement<A> {
    fn clone(&self) -> Self {
        Self { region: self.region.clone(), ..*self }
    }
}

impl<A> Requirement<A> {
    pub(crate) fn new<T: Element>(
        region: RegionView,
        field: Field<T>,
        privilege: Privilege,
        coherence: Coherence,
    ) -> Self {
        Self { region, field: field.with_element(), privilege, coherence, accessor: PhantomData }
    }

    /// The same requirement with atomic coherence: tasks on the same data run one at a time, in launch order.
    pub fn atomic(self) -> Self {
        Self { coherence: Coherence::Atomic, ..self }
    }

    #[inline]
    fn declare<T: Element>(&self, declaring: &mut Declaring<'_>) -> Result<(), Error> {
        declaring.region(self.region.local(), &self.field.with_element::<T>().info(), self.privilege, self.coherence)
    }
}

/// A region argument of a leaf task that folds values in: a [`Requirement`] with the operator that the task's [`Reduce`]
/// accessor folds with. [`RegionView::reduce`](crate::RegionView::reduce) makes one.
#[derive(Debug, Clone)]
pub struct ReduceRequirement<T, const D: usize> {
    /// The accessor's type does not matter here.
    requirement: Requirement<[(); D]>,
    operator: Operator<T>,
}

impl<T: Element, const D: usize> ReduceRequirement<T, D> {
    pub(crate) fn new(region: RegionView, field: Field<T>, operator: Operator<T>) -> Self {
        let privilege = Privilege::Reduce(operator.id());
        Self { requirement: Requirement::new(region, field, privilege, Coherence::Exclusive), operator }
    }

    /// The same requirement with atomic coherence: tasks on the same data run one at a time, in launch order.
    pub fn atomic(self) -> Self {
        Self { requirement: self.requirement.atomic(), ..self }
    }
}

/// A parameter of a leaf task that is a value. Its argument is an [`Input`]: a value given at the launch, or a future
/// whose value the task gets. Dereferences to `T`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Arg<T>(pub T);

impl<T> Deref for Arg<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The argument for an [`Arg`] parameter, or for a call of a collective: `value.into()` or `(&future).into()`. For a
/// parameter, `future.into()` saves the clone of the value if nobody else holds the future.
#[derive(Debug)]
pub enum Input<T> {
    /// A value that is known now.
    Now(T),
    /// The value of a future. The task waits for it, and fails if the future does.
    Later(TaskFuture<T>),
}

impl<T> From<T> for Input<T> {
    fn from(value: T) -> Self {
        Input::Now(value)
    }
}
impl<T: 'static> From<TaskFuture<T>> for Input<T> {
    fn from(future: TaskFuture<T>) -> Self {
        Input::Later(future)
    }
}
impl<T: 'static> From<&TaskFuture<T>> for Input<T> {
    fn from(future: &TaskFuture<T>) -> Self {
        Input::Later(future.clone())
    }
}

/// A type that a parameter of a leaf task can have.
///
/// | parameter | its argument |
/// |---|---|
/// | an accessor of a region, such as [`Read`] or [`WriteShared`] | [`Requirement`], from a [`RegionView`](crate::RegionView) |
/// | [`Reduce`] | [`ReduceRequirement`], from [`RegionView::reduce`](crate::RegionView::reduce) |
/// | [`Arg`] | [`Input`], from a value or a future |
/// | [`Get`](crate::Get), [`Put`](crate::Put) | [`Consumer::get`](crate::Consumer::get), [`Producer::put`](crate::Producer::put) |
/// | [`PutVec`](crate::PutVec) | [`Producer::put_vec`](crate::Producer::put_vec) |
/// | [`Many`] of a parameter | `Many` of its arguments |
/// | `Option` of a parameter | `Option` of its argument |
pub trait Param {
    /// The parameter with the lifetime of the task's run.
    type Item<'a>;
    /// The argument that the launch passes.
    type Arg: 'static;
    /// The part of the argument that is kept until the task runs.
    #[doc(hidden)]
    type Kept: 'static;
    /// The part of the argument that travels with the task to another processor. A planted bug uses it twice.
    type Sent: Clone + Send + 'static;
    /// Names the regions and futures of the argument, if it has any, and refuses it if it can't be.
    #[doc(hidden)]
    #[inline]
    fn declare(_: &Self::Arg, _: &mut Declaring<'_>) -> Result<(), Error> {
        Ok(())
    }
    /// The number of regions that the argument names.
    #[doc(hidden)]
    fn regions(_: &Self::Arg) -> usize {
        0
    }
    /// Takes the generations of barriers that the argument stands for. It can't fail.
    #[doc(hidden)]
    fn take(arg: Self::Arg, taking: &mut Taking<'_>) -> Self::Kept;
    #[doc(hidden)]
    fn resolve(kept: Self::Kept) -> Result<Self::Sent, Error>;
    #[doc(hidden)]
    fn bind<'a>(bindings: &mut Bindings<'a>, sent: Self::Sent) -> Result<Self::Item<'a>, RegionError>;
    /// The same on the shard's own processor, where nothing need be sent.
    #[doc(hidden)]
    #[inline(always)]
    fn bind_here<'a>(bindings: &mut Bindings<'a>, kept: Self::Kept) -> Result<Self::Item<'a>, Box<Error>> {
        Self::bind(bindings, Self::resolve(kept)?).map_err(Error::unbound)
    }
}

/// The leases and values that a task's parameters are made from, in the order in which its launch named them.
#[doc(hidden)]
pub struct Bindings<'a> {
    leases: std::slice::IterMut<'a, Lease>,
    values: std::slice::IterMut<'a, Payload>,
}

impl<'a> Bindings<'a> {
    #[inline]
    pub(crate) fn new(leases: &'a mut [Lease], values: &'a mut [Payload]) -> Self {
        Self { leases: leases.iter_mut(), values: values.iter_mut() }
    }

    #[inline]
    pub(super) fn lease(&mut self) -> &'a mut Lease {
        match self.leases.next() {
            Some(lease) => lease,
            None => unreachable!("one lease a region parameter"),
        }
    }

    /// The values of the next `count` parameters of edges.
    #[inline]
    pub fn values(&mut self, count: usize) -> &'a mut [Payload] {
        let all = std::mem::take(&mut self.values).into_slice();
        let (these, rest) = all.split_at_mut(count);
        self.values = rest.iter_mut();
        these
    }

    #[inline]
    pub(crate) fn value(&mut self) -> &'a mut Payload {
        match self.values.next() {
            Some(value) => value,
            None => unreachable!("one value a parameter of an edge"),
        }
    }
}

/// Takes the generations that a launch waits for, and the generations at which its task arrives.
#[doc(hidden)]
pub struct Taking<'a> {
    tasks: &'a Tasks,
    task: TaskId,
    body: &'a mut Body,
    /// Begins with the futures that the task waits for.
    pub(crate) unmet: Unmet,
}

impl<'a> Taking<'a> {
    #[inline]
    pub(crate) fn new(tasks: &'a Tasks, task: TaskId, body: &'a mut Body, unmet: u32) -> Self {
        Self { tasks, task, body, unmet: Unmet { count: unmet, poison: None } }
    }

    /// Whether a bug is planted for a test and strikes now.
    #[inline(always)]
    pub(crate) fn strikes(&self, bug: Bug) -> bool {
        self.tasks.effects.strikes(bug)
    }

    // A call would have all fields in memory.
    #[inline(always)]
    pub(crate) fn wait(&mut self, at: WaitAt) {
        match self.tasks.wait_for(self.task, at) {
            Waited::Complete => {}
            Waited::Registered => self.unmet.count += 1,
            Waited::Poisoned(e) => self.unmet.poison = Some(e),
        }
    }

    /// Waits for a generation of an edge's empty barrier. `known` generations of it are known to be complete, often many.
    #[inline]
    pub(crate) fn wait_for_empty(&mut self, at: CellAddress, generation: u64, known: &Cell<u64>) {
        let CellAddress { object, cell, .. } = at;
        if generation >= known.get() {
            known.set(self.tasks.barriers.completed(object, cell));
        }
        // Observers are told of each wait.
        if generation >= known.get() || self.tasks.effects.is_observed() {
            self.wait(WaitAt::Cell { object, cell, generation });
        }
    }

    #[inline]
    pub(crate) fn arrive(&mut self, at: ArrivalAt) {
        self.body.arrivals.push(at);
    }

    /// Number of a value that the task gets or puts.
    #[inline]
    pub(crate) fn value(&mut self, at: ValueAt) -> u32 {
        self.tasks.effects.counters.edge_values.add(1);
        self.body.values_at.push(at);
        self.body.values_at.len() as u32 - 1
    }
}

/// Collects the columns and futures that a launch's arguments need.
#[doc(hidden)]
pub struct Declaring<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) task: TaskId,
    pub(crate) body: &'a mut Body,
    /// Futures the task waits for.
    pub(crate) unmet: u32,
    only: Only<'a>,
}

/// What is collected of a launch's arguments.
enum Only<'a> {
    /// All, for a task that runs here.
    All,
    /// Regions and futures, for a task of a flow whose place is not known yet.
    Names(&'a mut Names),
    /// The uses of regions, which are not checked.
    Uses(&'a mut Vec<Use>),
}

impl<'a> Declaring<'a> {
    #[inline]
    pub(crate) fn new(shard: &'a Shard, task: TaskId, body: &'a mut Body) -> Self {
        Self { shard, task, body, unmet: 0, only: Only::All }
    }

    /// Only finds out what the arguments of a task of a flow name.
    #[inline]
    pub(crate) fn of_flow(shard: &'a Shard, named: &'a mut Named) -> Self {
        let Named { body, names } = named;
        Self { shard, task: TaskId::NONE, body, unmet: 0, only: Only::Names(names) }
    }

    /// Only collects the uses of regions. `body` stays as it is.
    pub(crate) fn of_uses(shard: &'a Shard, body: &'a mut Body, uses: &'a mut Vec<Use>) -> Self {
        Self { shard, task: TaskId::NONE, body, unmet: 0, only: Only::Uses(uses) }
    }

    /// The task takes the outcome of a future, or at least waits for it.
    #[inline]
    fn input<T: 'static>(&mut self, future: &TaskFuture<T>) {
        let effects = self.shard.core().effects();
        match &mut self.only {
            Only::All => {}
            Only::Uses(_) => return,
            Only::Names(names) => {
                let future = future.clone();
                return names.inputs.push(Box::new(move |at| future.is_needed_at(at)));
            }
        }
        effects.counters.inputs.add(1);
        if effects.races().is_some() {
            self.body.inputs.push(future.event());
        }
        if future.wait(Waiting::Task(self.task)) {
            self.unmet += 1;
            self.body.after.extend(future.maker());
        }
    }

    /// As much memory as is needed: it stays with the entry of the slab, and with many processors there are many.
    #[cold]
    fn more_uses(&mut self) {
        self.body.uses.reserve_exact(1);
    }

    pub(super) fn region(
        &mut self,
        region: &LocalRegion,
        field: &FieldInfo,
        p: Privilege,
        c: Coherence,
    ) -> Result<(), Error> {
        match &mut self.only {
            Only::All => {}
            Only::Uses(uses) => {
                uses.push(Use { region: region.region, field: field.id, privilege: p, coherence: c });
                return Ok(());
            }
            Only::Names(names) => {
                let before = self.shard.add_use(&mut names.uses, region, field, (p, c))?;
                if let Some(column) = before {
                    self.body.uses.push(UseAt { column, privilege: p, coherence: c, access: None, staged: None });
                }
                return Ok(());
            }
        }
        let column = self.shard.column(region, p, c, field)?;
        if self.body.uses.len() == self.body.uses.capacity() {
            self.more_uses();
        }
        self.body.uses.push(UseAt { column, privilege: p, coherence: c, access: None, staged: None });
        Ok(())
    }
}

macro_rules! accessor_param {
    ($accessor:ident) => {
        impl<T: Element, const D: usize> Param for $accessor<'_, T, D> {
            type Item<'a> = $accessor<'a, T, D>;
            type Arg = Requirement<$accessor<'static, T, D>>;
            type Kept = ();
            type Sent = ();
            fn declare(arg: &Self::Arg, declaring: &mut Declaring<'_>) -> Result<(), Error> {
                arg.declare::<T>(declaring)
            }
            fn regions(_: &Self::Arg) -> usize {
                1
            }
            fn take(_: Self::Arg, _: &mut Taking<'_>) {}
            fn resolve((): ()) -> Result<(), Error> {
                Ok(())
            }
            #[inline(always)]
            fn bind<'a>(bindings: &mut Bindings<'a>, (): ()) -> Result<Self::Item<'a>, RegionError> {
                $accessor::bind(bindings.lease())
            }
        }
    };
}

accessor_param!(Read);
accessor_param!(ReadWrite);
accessor_param!(Write);
accessor_param!(ReadShared);
accessor_param!(WriteShared);
accessor_param!(ReadWriteShared);

impl<T: Element, const D: usize> Param for Reduce<'_, T, D> {
    type Item<'a> = Reduce<'a, T, D>;
    type Arg = ReduceRequirement<T, D>;
    type Kept = Operator<T>;
    type Sent = Operator<T>;
    fn declare(arg: &Self::Arg, declaring: &mut Declaring<'_>) -> Result<(), Error> {
        arg.requirement.declare::<T>(declaring)
    }
    fn regions(_: &Self::Arg) -> usize {
        1
    }
    fn take(arg: Self::Arg, _: &mut Taking<'_>) -> Operator<T> {
        arg.operator
    }
    fn resolve(kept: Operator<T>) -> Result<Operator<T>, Error> {
        Ok(kept)
    }
    #[inline]
    fn bind<'a>(bindings: &mut Bindings<'a>, sent: Operator<T>) -> Result<Self::Item<'a>, RegionError> {
        Reduce::bind(bindings.lease(), sent)
    }
}

impl<T: Clone + Send + 'static> Param for Arg<T> {
    type Item<'a> = Arg<T>;
    type Arg = Input<T>;
    type Kept = Input<T>;
    type Sent = T;
    #[inline]
    fn declare(arg: &Self::Arg, declaring: &mut Declaring<'_>) -> Result<(), Error> {
        if let Input::Later(future) = arg {
            declaring.input(future);
        }
        Ok(())
    }
    #[inline]
    fn take(arg: Input<T>, _: &mut Taking<'_>) -> Input<T> {
        arg
    }
    #[inline]
    fn resolve(kept: Input<T>) -> Result<T, Error> {
        match kept {
            Input::Now(value) => Ok(value),
            Input::Later(mut future) => future.take_input().unwrap_or_else(unsettled),
        }
    }
    #[inline]
    fn bind<'a>(_: &mut Bindings<'a>, sent: T) -> Result<Arg<T>, RegionError> {
        Ok(Arg(sent))
    }
    #[inline(always)]
    fn bind_here<'a>(_: &mut Bindings<'a>, kept: Input<T>) -> Result<Arg<T>, Box<Error>> {
        match kept {
            Input::Now(value) => Ok(Arg(value)),
            later => Ok(Arg(Self::resolve(later)?)),
        }
    }
}

/// A parameter that stands for the end of another task, whatever its result.
#[doc(hidden)]
pub struct Done<T>(PhantomData<fn() -> T>);

impl<T: 'static> Param for Done<T> {
    type Item<'a> = Done<T>;
    type Arg = TaskFuture<T>;
    type Kept = TaskFuture<T>;
    type Sent = ();
    fn declare(arg: &Self::Arg, declaring: &mut Declaring<'_>) -> Result<(), Error> {
        declaring.input(arg);
        Ok(())
    }
    fn take(arg: Self::Arg, _: &mut Taking<'_>) -> Self::Kept {
        arg
    }
    fn resolve(kept: Self::Kept) -> Result<(), Error> {
        kept.peek(|outcome| outcome.map(|_| ()).map_err(Clone::clone)).unwrap_or_else(unsettled)
    }
    fn bind<'a>(_: &mut Bindings<'a>, (): ()) -> Result<Self::Item<'a>, RegionError> {
        Ok(Done(PhantomData))
    }
}

#[cold]
fn unsettled<T>() -> Result<T, Error> {
    Err(Error::Stopped { what: "an input future had a value".into() })
}

/// Any number of parameters of one kind, such as `Many<ReadShared<f64>>`, `Many<Arg<f64>>` or `Many<Get<f64>>`.
///
/// It is for a task whose number of regions, values or edges is known only at the launch. The argument is a `Many` of
/// single arguments, collected from an iterator. In the task it is a slice of single parameters.
///
/// ```
/// # use maniple_runtime::*; use maniple_regions::*;
/// const U: Field<f64> = Field::new(0, "u");
/// fn sum(parts: Many<Read<f64>>) -> f64 { parts.iter().flat_map(|part| part.as_slice()).sum() }
/// async fn shard(shard: Shard, parts: Vec<RegionView>) -> Result<f64, Error> {
///     shard.launch(sum, (parts.iter().map(|part| part.read(U)).collect(),)).go()?.await
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Many<P>(SmallVec<[P; 8]>);

impl<P> FromIterator<P> for Many<P> {
    fn from_iter<I: IntoIterator<Item = P>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}
impl<P> IntoIterator for Many<P> {
    type Item = P;
    type IntoIter = smallvec::IntoIter<[P; 8]>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
impl<P> Deref for Many<P> {
    type Target = [P];
    fn deref(&self) -> &[P] {
        &self.0
    }
}
impl<P> DerefMut for Many<P> {
    fn deref_mut(&mut self) -> &mut [P] {
        &mut self.0
    }
}

impl<P: Param> Param for Many<P> {
    type Item<'a> = Many<P::Item<'a>>;
    type Arg = Many<P::Arg>;
    // Nothing is kept for most parameters, and a list of nothing takes no memory.
    type Kept = Vec<P::Kept>;
    type Sent = Vec<P::Sent>;
    fn declare(arg: &Self::Arg, declaring: &mut Declaring<'_>) -> Result<(), Error> {
        arg.iter().try_for_each(|one| P::declare(one, declaring))
    }
    fn regions(arg: &Self::Arg) -> usize {
        arg.iter().map(P::regions).sum()
    }
    fn take(mut arg: Self::Arg, taking: &mut Taking<'_>) -> Self::Kept {
        let mut kept = Vec::with_capacity(arg.len());
        arg.0.drain(..).for_each(|one| kept.push(P::take(one, taking)));
        kept
    }
    fn resolve(kept: Self::Kept) -> Result<Self::Sent, Error> {
        kept.into_iter().map(P::resolve).collect()
    }
    fn bind<'a>(bindings: &mut Bindings<'a>, sent: Self::Sent) -> Result<Self::Item<'a>, RegionError> {
        sent.into_iter().map(|one| P::bind(bindings, one)).collect()
    }
    fn bind_here<'a>(bindings: &mut Bindings<'a>, kept: Self::Kept) -> Result<Self::Item<'a>, Box<Error>> {
        let mut all = SmallVec::new();
        for one in kept {
            all.push(P::bind_here(bindings, one)?);
        }
        Ok(Many(all))
    }
}

/// A parameter that a launch may leave out, with `None` as its argument.
impl<P: Param> Param for Option<P> {
    type Item<'a> = Option<P::Item<'a>>;
    type Arg = Option<P::Arg>;
    type Kept = Option<P::Kept>;
    type Sent = Option<P::Sent>;
    fn declare(arg: &Self::Arg, declaring: &mut Declaring<'_>) -> Result<(), Error> {
        arg.as_ref().map_or(Ok(()), |one| P::declare(one, declaring))
    }
    fn regions(arg: &Self::Arg) -> usize {
        arg.as_ref().map_or(0, P::regions)
    }
    fn take(arg: Self::Arg, taking: &mut Taking<'_>) -> Self::Kept {
        arg.map(|one| P::take(one, taking))
    }
    fn resolve(kept: Self::Kept) -> Result<Self::Sent, Error> {
        kept.map(P::resolve).transpose()
    }
    fn bind<'a>(bindings: &mut Bindings<'a>, sent: Self::Sent) -> Result<Self::Item<'a>, RegionError> {
        sent.map(|one| P::bind(bindings, one)).transpose()
    }
    fn bind_here<'a>(bindings: &mut Bindings<'a>, kept: Self::Kept) -> Result<Self::Item<'a>, Box<Error>> {
        kept.map(|one| P::bind_here(bindings, one)).transpose()
    }
}
