//! The allreduce that shards call.

use crate::engine::{Engine, Output, Running};
use crate::sizes::Sizes;
use crate::spec::{By, Wanted};
use crate::{Algorithm, Goal, Operator, Order};
use maniple_regions::Element;
use maniple_runtime::{Error, Gang, Input, Shard, TaskFuture, Top};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// The options of an [`Allreduce`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectiveOptions {
    /// The number of elements of each shard's contribution, from 0.
    pub elements: usize,
    /// The number of calls that can be in flight, K, at least 1. Call K starts when call 0 is over.
    pub slots: u32,
    /// The algorithm. Without one, the mapper chooses among those that give the same bits as recursive doubling.
    pub algorithm: Option<Algorithm>,
}

impl Default for CollectiveOptions {
    fn default() -> Self {
        Self { elements: 1, slots: 2, algorithm: None }
    }
}

/// A persistent allreduce of a gang. Every shard contributes a value, and gets the combination of all in rank order,
/// with the same bits everywhere.
///
/// It follows §II-A of "Scalable collectives for distributed asynchronous many-task runtimes": each round is an update
/// and a read subtask. The steps are explained in [`protocol`](crate::protocol).
///
/// The top-level task makes it. It is plain data, and may travel in arguments. A call is collective: every shard of the
/// gang makes the same calls in the same order. A call returns a future at once, and several may be in flight.
///
/// If an input of a call fails, or its operator panics, the call fails on every shard that was to combine that value.
/// Later calls are not affected. If a shard fails, the calls that it still owes fail, and later ones fail at once.
///
/// ```
/// use maniple_collectives::{Allreduce, Operator};
/// use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
///
/// async fn shard(shard: Shard, total: Allreduce<f64>) -> Result<f64, Error> {
///     total.call(&shard, f64::from(shard.index()))?.await
/// }
///
/// let (sums, _) = Runtime::threads(2).run(|top| async move {
///     let gang = top.gang("all", 5)?;
///     let total = Allreduce::new(&top, &gang, "total", Operator::sum())?;
///     let task = top.register("shard", shard);
///     top.launch(&gang, &task, |_| ShardLaunch::new(total))?.all().await
/// })?;
/// assert_eq!(sums, [10.0; 5]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Allreduce<T> {
    id: u32,
    #[serde(skip)]
    element: PhantomData<fn(T) -> T>,
}

impl<T> Clone for Allreduce<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Allreduce<T> {}
impl<T> std::fmt::Debug for Allreduce<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Allreduce({})", self.id)
    }
}

impl<T: Element> Allreduce<T> {
    /// Makes an allreduce of one element a shard. Collective among the nodes' top-level tasks; never waits.
    ///
    /// # Errors
    /// An illegal decision of the mapper.
    pub fn new(top: &Top, gang: &Gang, name: &str, operator: Operator<T>) -> Result<Self, Error> {
        Self::with(top, gang, name, operator, CollectiveOptions::default())
    }

    /// Makes an allreduce with options. Collective among the nodes' top-level tasks; never waits.
    ///
    /// # Errors
    /// No slots, more slots or elements than can be numbered, or an illegal decision of the mapper.
    pub fn with(
        top: &Top,
        gang: &Gang,
        name: &str,
        operator: Operator<T>,
        options: CollectiveOptions,
    ) -> Result<Self, Error> {
        let CollectiveOptions { elements, slots, algorithm } = options;
        let goal = Goal::allreduce(gang.shards(), 1);
        let by = algorithm.map_or(By::Mapper, By::Algorithm);
        let (sizes, order) = (Sizes::Whole(elements), Order::Doubling);
        let wanted = Wanted { goal, operator, identity: None, sizes, slots, order, by };
        Ok(Self { id: wanted.make(top, gang, name)?, element: PhantomData })
    }

    /// Contributes one element, as a value or as a future (`value` or `&future`). The future that it returns holds the
    /// combination. Collective; returns at once.
    ///
    /// # Errors
    /// A shard of another gang. Failures of the call itself are in the future.
    #[inline]
    pub fn call(&self, shard: &Shard, input: impl Into<Input<T>>) -> Result<TaskFuture<T>, Error> {
        // The caller's code, which must not run while the object is borrowed. A value by itself stays in a register.
        match input.into() {
            Input::Now(value) => {
                shard.replay(self.id, |_, _| Ok(None), |engine: &mut Engine<T>, at, cx| engine.call_now(at, value, cx))
            }
            Input::Later(input) => shard.replay(
                self.id,
                |_, _| Ok(None),
                |engine: &mut Engine<T>, at, cx| engine.call_later(at, input, cx),
            ),
        }
    }

    /// Contributes a vector with [`CollectiveOptions::elements`] elements, as a value or as a future. The future that
    /// it returns holds the combination. Collective; returns at once.
    ///
    /// # Errors
    /// A shard of another gang. Failures of the call itself, such as a wrong length, are in the future.
    pub fn call_vec(&self, shard: &Shard, input: impl Into<Input<Vec<T>>>) -> Result<TaskFuture<Vec<T>>, Error> {
        // The caller's code, which must not run while the object is borrowed.
        let input = input.into();
        shard.replay(
            self.id,
            |_, _| Ok(None),
            |engine: &mut Engine<T>, at, cx| {
                let (resolver, future) = TaskFuture::pending();
                engine.call(at, Running::many(input), Output::Many(resolver), cx);
                future
            },
        )
    }
}
