//! Edges between shards of a gang: a barrier for values, a barrier for free buffers, and the values themselves.

use crate::Error;
use crate::barrier::{ConsumerEnd, ProducerEnd, ShardEnds};
use crate::diagnose::deadlock::ReportPart;
use crate::diagnose::replicas::list;
use crate::effects::Waiting;
use crate::ids::{ArrivalAt, CellAddress, EMPTY, ObjectId, ProcessorId, Run, ValueAt, WaitAt};
use crate::object::{Defined, EdgeTable, GangTable, Object, half};
use crate::payload::{Length, Payload, VecKind, filled_in};
use crate::plant::Bug;
use crate::processor::Core;
use crate::program::param::{Bindings, Declaring, Param, Taking};
use crate::program::shard::Shard;
use maniple_barriers::{Arriver, Empty, Ready, Waiter};
use maniple_regions::{Element, RegionError, Vector};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;

/// Edges between shards of a gang. Values of type `T` travel along them; with `Edges<()>` only barriers.
/// [`Top::edges`](crate::Top::edges) makes them. They are plain data and may travel in arguments of shard tasks.
///
/// An edge leads from a producing shard to a consuming one. A shard may be its own consumer. Two shards may have
/// several edges, with different tags.
///
/// An edge has two barriers. Each generation of the *ready* barrier announces a value. Each generation of the *empty*
/// barrier announces that one more may be sent. The first `depth` generations of the empty barrier are complete from the start,
/// so a producer may be `depth` values ahead of its consumer.
///
/// Arguments made with [`Producer::put`], [`Producer::put_vec`] and [`Consumer::get`] use both barriers. The task waits for a free
/// buffer or for a value, and its end announces the next value or the next free buffer. An edge that a launch does not name is left
/// alone.
///
/// ```
/// use maniple_runtime::{Edges, Error, Get, Put, Runtime, Shard, ShardLaunch, Arg};
///
/// /// Each shard sends its number, doubled, to the next.
/// async fn shard(shard: Shard, ring: Edges<u64>) -> Result<u64, Error> {
///     let (me, all) = (shard.index(), shard.shards());
///     let next = ring.producer(&shard, (me + 1) % all)?;
///     let previous = ring.consumer(&shard, (me + all - 1) % all)?;
///     shard.launch(|mut out: Put<u64>, me: Arg<u32>| out[0] = 2 * u64::from(*me), (next.put(1), me.into())).go()?.detach();
///     shard.launch(|came: Get<u64>| came[0], (previous.get(),)).go()?.await
/// }
/// # let (came, _) = Runtime::threads(2).run(|top| async move {
/// let gang = top.gang("ring", 3)?;
/// let ring = top.edges("ring", &gang, (0..3).map(|s| (s, (s + 1) % 3)), 1)?;
/// let task = top.register("send", shard);
/// let came = top.launch_gang(&gang, &task, |_| ShardLaunch::new(ring))?.all().await?;
/// # Ok(came)
/// # })?;
/// assert_eq!(came, [4, 0, 2]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Edges<T = ()> {
    pub(crate) id: ObjectId,
    #[serde(skip)]
    pub(crate) run: Run,
    #[serde(skip)]
    pub(crate) values: PhantomData<fn(T) -> T>,
}

impl<T> Clone for Edges<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Edges<T> {}
impl<T> PartialEq for Edges<T> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}
impl<T> Eq for Edges<T> {}
impl<T> std::hash::Hash for Edges<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}
impl<T> fmt::Debug for Edges<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Edges({})", self.id)
    }
}

/// The producing shard's end of an edge.
pub struct Producer<T = ()> {
    ends: Rc<ShardEnds>,
    number: u32,
    values: PhantomData<fn(T)>,
}

/// The consuming shard's end of an edge.
pub struct Consumer<T = ()> {
    ends: Rc<ShardEnds>,
    number: u32,
    values: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.end().fmt(f)
    }
}
impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.end().fmt(f)
    }
}

impl<T> Edges<T> {
    /// This shard's end of its only edge to shard `to`. Local; never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is no such edge or more than one (use [`outgoing`](Self::outgoing)), or when the
    /// shard is not in the edges' gang.
    pub fn producer(&self, shard: &Shard, to: u32) -> Result<Producer<T>, Error> {
        let ends = self.ends(shard)?;
        match ends.only_to(to) {
            Ok(number) => Ok(Producer { ends, number, values: PhantomData }),
            Err(came) => {
                let listed = ends.out.iter().map(|end| format!("shard {} with tag {}", end.to, end.tag));
                Err(self.not_the_only(shard, format!("one edge to shard {to}"), listed.collect(), came))
            }
        }
    }

    /// This shard's end of its only edge from shard `from`. Local; never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is no such edge or more than one (use [`incoming`](Self::incoming)), or when the
    /// shard is not in the edges' gang.
    pub fn consumer(&self, shard: &Shard, from: u32) -> Result<Consumer<T>, Error> {
        let ends = self.ends(shard)?;
        match ends.only_from(from) {
            Ok(number) => Ok(Consumer { ends, number, values: PhantomData }),
            Err(came) => {
                let listed = ends.into.iter().map(|end| format!("shard {} with tag {}", end.from, end.tag));
                Err(self.not_the_only(shard, format!("one edge from shard {from}"), listed.collect(), came))
            }
        }
    }

    /// This shard's ends of all edges that lead from it, in the order in which [`Top::edges`](crate::Top::edges) got
    /// them. Local; never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the shard is not in the edges' gang.
    pub fn outgoing(&self, shard: &Shard) -> Result<Vec<Producer<T>>, Error> {
        let ends = self.ends(shard)?;
        let end = |number| Producer { ends: ends.clone(), number, values: PhantomData };
        Ok((0..ends.out.len() as u32).map(end).collect())
    }

    /// This shard's ends of all edges that lead to it, in the order in which [`Top::edges`](crate::Top::edges) got
    /// them. Local; never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the shard is not in the edges' gang.
    pub fn incoming(&self, shard: &Shard) -> Result<Vec<Consumer<T>>, Error> {
        let ends = self.ends(shard)?;
        let end = |number| Consumer { ends: ends.clone(), number, values: PhantomData };
        Ok((0..ends.into.len() as u32).map(end).collect())
    }

    fn ends(&self, shard: &Shard) -> Result<Rc<ShardEnds>, Error> {
        self.with(shard, |table| shard.core().tasks.barriers.ends(self.id, shard.index(), table))
    }

    /// All ends of this shard, for parameters that use all of its edges.
    #[doc(hidden)]
    pub fn all_ends(&self, shard: &Shard) -> Result<AllEnds<T>, Error> {
        Ok(AllEnds { ends: self.ends(shard)?, values: PhantomData })
    }

    #[cold]
    fn not_the_only(&self, shard: &Shard, expected: String, listed: Vec<String>, came: &str) -> Error {
        let name = shard.core().effects().objects.name(self.id);
        let listed = if listed.is_empty() { "none".into() } else { listed.join(", ") };
        let what = format!("an end of {name} in shard {}", shard.index());
        Error::misuse(what, expected, format!("{came}; the shard's edges on this side: {listed}"))
    }

    fn with<R>(&self, shard: &Shard, f: impl FnOnce(&EdgeTable) -> R) -> Result<R, Error> {
        let what = || format!("an end of an edge in shard {} of {}", shard.index(), shard.gang_name());
        shard.core().effects().objects.check(self.id, shard.part_of(), what)?;
        shard.core().effects().objects.with(self.id, |object| match (object.and_then(Object::edges), object) {
            (Some(table), _) if !table.gang.run.may_be(self.run) => {
                Err(super::phase::of_another_run(what(), "`Top::edges`"))
            }
            (Some(table), _) if shard.in_gang(&table.gang) => Ok(f(table)),
            (_, Some(o)) => Err(Error::misuse(what(), "edges made for the gang of this shard", o.describe())),
            (_, None) => Err(Error::misuse(what(), "edges made with `Top::edges`", format!("object {}", self.id))),
        })
    }
}

impl Defined for EdgeTable {
    fn name(&self) -> &str {
        &self.name
    }
    fn parameters(&self) -> String {
        let Self { gang, depth, values: (values, length), edges, .. } = self;
        format!("of gang `{}`, depth {depth}, values of {values}{length}: {}", gang.name, list(edges))
    }
    fn gang(&self) -> Option<&Arc<GangTable>> {
        Some(&self.gang)
    }
    fn length(&self) -> Length {
        self.values.1
    }
    fn cell_name(&self, processor: ProcessorId, cell: u32) -> String {
        match self.edge_of(processor, cell) {
            Some(edge) => format!("`{}` {} of {edge}", self.name, half(cell)),
            None => format!("`{}` {} cell {}", self.name, half(cell), cell & !EMPTY),
        }
    }
    fn define(&self, id: ObjectId, core: &Core) {
        core.tasks.barriers.add_edges(core.effects(), id, self);
    }
    fn give_up(&self, id: ObjectId, core: &Core, error: &Error) {
        core.tasks.barriers.give_up(id, error, &mut core.tasks.teller());
    }
    fn abandon(&self, id: ObjectId, core: &Core, shard: u32, error: &Error) {
        let ends = core.tasks.barriers.ends(id, shard, self);
        for end in &ends.out {
            core.tasks.poison_cell(end.ready.address(), end.ready.generation(), error);
        }
        for end in &ends.into {
            core.tasks.poison_cell(end.empty.address(), end.empty.generation(), error);
        }
    }
    fn report(&self, id: ObjectId, core: &Core, part: &mut ReportPart) {
        let node_of = &|waiting: &Waiting| core.node_of(waiting);
        let moves_value = &|waiting: &Waiting, at| core.tasks.moves_value(waiting, at);
        core.tasks.barriers.report_edges(core.effects(), (id, self), node_of, moves_value, part);
    }
}

/// All ends that a shard has of a set of edges.
#[doc(hidden)]
pub struct AllEnds<T> {
    ends: Rc<ShardEnds>,
    values: PhantomData<fn() -> T>,
}

impl<T> AllEnds<T> {
    /// The end of edge `number` of those that lead to the shard, if there are so many.
    pub fn incoming(&self, number: usize) -> Option<Consumer<T>> {
        let end = Consumer { ends: self.ends.clone(), number: number as u32, values: PhantomData };
        (number < self.ends.into.len()).then_some(end)
    }

    /// Number of edges that lead to the shard, and of those that lead from it.
    pub fn count(&self) -> (usize, usize) {
        (self.ends.into.len(), self.ends.out.len())
    }

    /// Does what a [`Get`] argument does, for each edge that leads to the shard.
    #[inline]
    pub fn take_incoming(&self, taking: &mut Taking<'_>) {
        if taking.strikes(Bug::SwappedGhosts) {
            return self.ends.into.iter().rev().for_each(|end| take_consumer(end, taking));
        }
        self.ends.into.iter().for_each(|end| take_consumer(end, taking));
    }

    /// Does what a [`Put`] argument does, for each edge that leads from the shard. `lengths` are their numbers of
    /// values.
    #[inline]
    pub fn take_outgoing(&self, lengths: impl Iterator<Item = usize>, taking: &mut Taking<'_>) {
        for (end, len) in self.ends.out.iter().zip(lengths) {
            let value = taking.value(put_at::<T>(len));
            take_producer(end, value, taking);
        }
    }
}

impl<T> Producer<T> {
    #[inline]
    fn end(&self) -> &ProducerEnd {
        &self.ends.out[self.number as usize]
    }

    /// The consuming shard.
    pub fn to(&self) -> u32 {
        self.end().to
    }

    /// The edge's tag.
    pub fn tag(&self) -> u32 {
        self.end().tag
    }

    /// The barrier that announces free buffers: wait for generation g before value number g is made. For launches and shards
    /// that wait without a [`Put`] argument.
    pub fn empty(&self) -> &Waiter<Empty, CellAddress> {
        &self.end().empty
    }

    /// The barrier that announces values: arrive for generation g when value number g is there. For launches and shards
    /// that arrive without a [`Put`] argument.
    pub fn ready(&self) -> &Arriver<Ready, CellAddress> {
        &self.end().ready
    }
}

impl<T: Element> Producer<T> {
    /// The argument for a [`Put`] parameter of `len` values. The task starts when the edge has a free buffer. When it is done
    /// its values travel along this edge.
    pub fn put(&self, len: usize) -> PutTo<T> {
        Put::to([self], len)
    }

    /// The argument for a [`PutVec`] parameter, of which the task decides the number of values. The task starts when the edge
    /// has a free buffer. When it is done its values travel along this edge.
    pub fn put_vec(&self) -> PutVecTo<T> {
        let () = T::FITS;
        PutVec::to([self])
    }
}

impl<T> Consumer<T> {
    #[inline]
    fn end(&self) -> &ConsumerEnd {
        &self.ends.into[self.number as usize]
    }

    /// The producing shard.
    pub fn from(&self) -> u32 {
        self.end().from
    }

    /// The edge's tag.
    pub fn tag(&self) -> u32 {
        self.end().tag
    }

    /// The barrier that announces values: wait for generation g before value number g is used. For launches and shards
    /// that wait without a [`Get`] argument.
    pub fn ready(&self) -> &Waiter<Ready, CellAddress> {
        &self.end().ready
    }

    /// The barrier that announces free buffers: arrive when a value has been used and may be overwritten. For launches and
    /// shards that arrive without a [`Get`] argument.
    pub fn empty(&self) -> &Arriver<Empty, CellAddress> {
        &self.end().empty
    }
}

impl<T: Element> Consumer<T> {
    /// The argument for a [`Get`] parameter: the next values that come along this edge. The task starts when they have
    /// come. When it is done others may be sent.
    pub fn get(&self) -> GetFrom<T> {
        GetFrom { ends: self.ends.clone(), number: self.number, values: PhantomData }
    }
}

#[inline]
fn take_consumer(ConsumerEnd { ready, empty, .. }: &ConsumerEnd, taking: &mut Taking<'_>) {
    let CellAddress { object, cell, .. } = ready.address();
    let generation = ready.take();
    taking.wait(WaitAt::Cell { object, cell, generation });
    taking.value(ValueAt::Get { object, cell, generation });
    taking.arrive(ArrivalAt::Cell(empty.address(), empty.take()));
}

#[inline]
fn take_producer(ProducerEnd { empty, ready, known_empty, .. }: &ProducerEnd, value: u32, taking: &mut Taking<'_>) {
    taking.wait_for_empty(empty.address(), empty.take(), known_empty);
    taking.arrive(ArrivalAt::Value(ready.address(), ready.take(), value));
}

#[inline]
fn put_at<T>(len: usize) -> ValueAt {
    ValueAt::Put { bytes: size_of::<T>() * len, inline: fits_inline::<T>() }
}

/// Whether elements may travel in the words of an arrival.
const fn fits_inline<T>() -> bool {
    align_of::<T>() <= align_of::<u64>()
}

/// A parameter of a leaf task: the slice of values that one [`Put`], [`PutVec`] or [`Shard::send`] sent along an edge.
/// [`Consumer::get`] makes its argument.
#[derive(Debug, Clone, Copy)]
pub struct Get<'a, T>(&'a [T]);

impl<T> Deref for Get<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.0
    }
}

/// A parameter of a leaf task: a slice of values to fill, which travel along edges when the task is done.
/// [`Producer::put`] makes its argument, or [`Put::to`] for several edges.
///
/// The values are unspecified at first, and the task has to write all of them. For consumers on the same node nothing
/// is copied: they read what was written here. All consumers of one `Put` read the same values.
#[derive(Debug)]
pub struct Put<'a, T>(&'a mut [T]);

impl<T> Deref for Put<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.0
    }
}
impl<T> DerefMut for Put<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0
    }
}

/// A parameter of a leaf task: an empty vector to fill, whose elements travel along edges when the task is done. There may be
/// any number of them, or none. [`Producer::put_vec`] makes its argument, or [`PutVec::to`] for several edges.
///
/// For consumers on the same node nothing is copied: they read the elements where the task has put them. When they have ended,
/// a later task of the producer's processor gets the memory. So a loop whose lengths are similar allocates nothing.
///
/// The length is not known when the task starts. So the elements do not count in the time that a
/// [machine](crate::VirtualMachine) gives the task, if that depends on bytes. They count in the time of the message.
///
/// ```
/// use maniple_runtime::{Arg, Edges, Error, Get, PutVec, Runtime, Shard, ShardLaunch};
///
/// /// Shard 0 sends the divisors of a number to shard 1.
/// async fn shard(shard: Shard, (edges, number): (Edges<u64>, u64)) -> Result<Vec<u64>, Error> {
///     if shard.index() == 0 {
///         let divisors = |mut out: PutVec<u64>, n: Arg<u64>| out.extend((1..=*n).filter(|d| n.is_multiple_of(*d)));
///         shard.launch(divisors, (edges.producer(&shard, 1)?.put_vec(), number.into())).go()?.await?;
///         return Ok(Vec::new());
///     }
///     shard.launch(|came: Get<u64>| came.to_vec(), (edges.consumer(&shard, 0)?.get(),)).go()?.await
/// }
/// # let (came, _) = Runtime::threads(2).run(|top| async move {
/// let gang = top.gang("two", 2)?;
/// let edges = top.edges("divisors", &gang, [(0, 1)], 1)?;
/// let came = top.launch_gang(&gang, &top.register("divisors", shard), |_| ShardLaunch::new((edges, 12)))?.all().await?;
/// # Ok(came)
/// # })?;
/// assert_eq!(came[1], [1, 2, 3, 4, 6, 12]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct PutVec<'a, T>(&'a mut Vec<T>);

impl<T> Deref for PutVec<'_, T> {
    type Target = Vec<T>;
    fn deref(&self) -> &Vec<T> {
        self.0
    }
}
impl<T> DerefMut for PutVec<'_, T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        self.0
    }
}

/// The argument for a [`Get`] parameter. [`Consumer::get`] makes it.
#[derive(Debug)]
pub struct GetFrom<T> {
    ends: Rc<ShardEnds>,
    number: u32,
    values: PhantomData<fn() -> T>,
}

/// The argument for a [`Put`] parameter. [`Producer::put`] and [`Put::to`] make it.
#[derive(Debug)]
pub struct PutTo<T> {
    along: Along,
    len: usize,
    values: PhantomData<fn(T)>,
}

/// The argument for a [`PutVec`] parameter. [`Producer::put_vec`] and [`PutVec::to`] make it.
#[derive(Debug)]
pub struct PutVecTo<T> {
    along: Along,
    values: PhantomData<fn(T)>,
}

/// The edges along which a value travels.
#[derive(Debug)]
struct Along {
    /// Of all edges; none if there are no edges.
    ends: Option<Rc<ShardEnds>>,
    numbers: SmallVec<[u32; 6]>,
}

impl Along {
    fn these<'p, T: 'p>(producers: impl IntoIterator<Item = &'p Producer<T>>) -> Self {
        let mut along = Self { ends: None, numbers: SmallVec::new() };
        for Producer { ends, number, .. } in producers {
            match &along.ends {
                None => along.ends = Some(ends.clone()),
                Some(first) => assert!(Rc::ptr_eq(first, ends), "a `Put` is for edges of one `Edges`"),
            }
            along.numbers.push(*number);
        }
        along
    }

    #[inline]
    fn take(&self, value: ValueAt, taking: &mut Taking<'_>) {
        let value = taking.value(value);
        if let Some(ends) = &self.ends {
            self.numbers.iter().for_each(|&number| take_producer(&ends.out[number as usize], value, taking));
        }
    }
}

impl<'a, T: Element> Put<'a, T> {
    /// The argument for `len` values that travel along several edges, or along none.
    ///
    /// # Panics
    /// If the producers are not all of the same [`Edges`].
    pub fn to<'p>(producers: impl IntoIterator<Item = &'p Producer<T>>, len: usize) -> PutTo<T> {
        PutTo { along: Along::these(producers), len, values: PhantomData }
    }
}

impl<'a, T: Element> PutVec<'a, T> {
    /// The argument for values that travel along several edges, or along none.
    ///
    /// # Panics
    /// If the producers are not all of the same [`Edges`].
    pub fn to<'p>(producers: impl IntoIterator<Item = &'p Producer<T>>) -> PutVecTo<T> {
        PutVecTo { along: Along::these(producers), values: PhantomData }
    }
}

impl<T: Element> Param for Get<'_, T> {
    type Item<'a> = Get<'a, T>;
    type Arg = GetFrom<T>;
    type Kept = ();
    type Sent = ();
    #[inline]
    fn take(arg: Self::Arg, taking: &mut Taking<'_>) {
        take_consumer(&arg.ends.into[arg.number as usize], taking);
    }
    fn resolve((): ()) -> Result<(), Error> {
        Ok(())
    }
    #[inline]
    fn bind<'a>(bindings: &mut Bindings<'a>, (): ()) -> Result<Self::Item<'a>, RegionError> {
        Ok(Get(bytemuck::cast_slice(bindings.value().bytes())))
    }
}

impl<T: Element> Param for Put<'_, T> {
    type Item<'a> = Put<'a, T>;
    type Arg = PutTo<T>;
    type Kept = ();
    type Sent = ();
    #[inline]
    fn declare(arg: &Self::Arg, _: &mut Declaring<'_>) -> Result<(), Error> {
        let most = isize::MAX as usize / size_of::<T>().max(1);
        if arg.len > most {
            return Err(Error::misuse("a `Put`", format!("at most {most} values"), arg.len));
        }
        Ok(())
    }
    #[inline]
    fn take(arg: Self::Arg, taking: &mut Taking<'_>) {
        arg.along.take(put_at::<T>(arg.len), taking);
    }
    fn resolve((): ()) -> Result<(), Error> {
        Ok(())
    }
    #[inline]
    fn bind<'a>(bindings: &mut Bindings<'a>, (): ()) -> Result<Self::Item<'a>, RegionError> {
        Ok(Put(bytemuck::cast_slice_mut(Payload::bytes_mut(bindings.value()))))
    }
}

impl<T: Element> Param for PutVec<'_, T> {
    type Item<'a> = PutVec<'a, T>;
    type Arg = PutVecTo<T>;
    type Kept = ();
    type Sent = ();
    #[inline]
    fn take(arg: Self::Arg, taking: &mut Taking<'_>) {
        let kind = const { &VecKind::of::<T>() };
        arg.along.take(ValueAt::Fill { kind, inline: fits_inline::<T>() }, taking);
    }
    fn resolve((): ()) -> Result<(), Error> {
        Ok(())
    }
    #[inline]
    fn bind<'a>(bindings: &mut Bindings<'a>, (): ()) -> Result<Self::Item<'a>, RegionError> {
        match bindings.value() {
            Payload::Lent(vec) => Ok(PutVec(filled_in(Arc::get_mut(vec).expect("nobody else holds it")))),
            _ => unreachable!("an empty vector"),
        }
    }
}

/// A parameter of the leaf task of [`Shard::send`], which does nothing but bring a value.
pub(crate) struct Sending<T>(PhantomData<fn(T)>);

/// The argument for a [`Sending`] parameter.
pub(crate) struct SendingTo<T> {
    along: Along,
    value: Payload,
    values: PhantomData<fn(T)>,
}

impl<T: Element> Sending<T> {
    pub fn along(to: &Producer<T>, values: Vector<T>) -> SendingTo<T> {
        let () = T::FITS;
        let value = match size_of_val(&values[..]) {
            0..=Payload::INLINE if fits_inline::<T>() => Payload::copy_of(bytemuck::cast_slice(&values)),
            _ => Payload::lend(values),
        };
        SendingTo { along: Along::these([to]), value, values: PhantomData }
    }
}

impl<T: Element> Param for Sending<T> {
    type Item<'a> = Self;
    type Arg = SendingTo<T>;
    type Kept = Payload;
    type Sent = Payload;
    #[inline]
    fn take(arg: Self::Arg, taking: &mut Taking<'_>) -> Payload {
        arg.along.take(ValueAt::Send, taking);
        arg.value
    }
    fn resolve(kept: Payload) -> Result<Payload, Error> {
        Ok(kept)
    }
    #[inline]
    fn bind<'a>(bindings: &mut Bindings<'a>, sent: Payload) -> Result<Self, RegionError> {
        *bindings.value() = sent;
        Ok(Self(PhantomData))
    }
}
