//! The allreduce that shards call.

use crate::engine::{Engine, subtasks};
use crate::{Algorithm, Groups, Laws, Operator};
use maniple_regions::Element;
use maniple_runtime::replay::{Chained, ReplaySpec, Subtask};
use maniple_runtime::{Error, Gang, Input, Shard, TaskFuture, Top};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

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

struct Spec<T> {
    name: String,
    operator: Operator<T>,
    options: CollectiveOptions,
    algorithm: Algorithm,
    groups: Groups,
    /// The largest number of updates, or of reads, of any rank.
    cells: u32,
}

impl<T: Element> ReplaySpec for Spec<T> {
    fn name(&self) -> &str {
        &self.name
    }
    fn slots(&self) -> u32 {
        self.options.slots
    }
    fn cells(&self) -> u32 {
        self.cells
    }
    fn cell_bytes(&self) -> usize {
        self.options.elements * size_of::<T>()
    }
    fn subtasks(&self, shard: u32) -> Vec<Subtask> {
        subtasks(&self.algorithm.schedule(shard, &self.groups), self.cell_bytes())
    }
    fn block(&self, shard: u32) -> Range<u32> {
        self.algorithm.group(shard, &self.groups)
    }
    fn parameters(&self) -> String {
        let (CollectiveOptions { elements, slots, .. }, element) = (self.options, std::any::type_name::<T>());
        let (operator, algorithm) = (self.operator.name(), self.algorithm);
        format!("allreduce of {elements} x {element} by operator `{operator}`, {slots} slots, {algorithm}")
    }
    fn materialise(&self, shards: &[u32]) -> Box<dyn Chained> {
        let CollectiveOptions { elements, slots, .. } = self.options;
        let schedules = shards.iter().map(|&shard| self.algorithm.schedule(shard, &self.groups));
        Box::new(Engine::new(&self.name, self.operator.clone(), (elements, slots), schedules))
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
        let refuse = |expected: &str, came: String| {
            Err(Error::Misuse { what: format!("allreduce `{name}`"), expected: expected.into(), came })
        };
        if slots == 0 {
            return refuse("at least one slot", "0".into());
        }
        if elements > isize::MAX as usize / size_of::<T>().max(1) {
            return refuse("a contribution that fits into memory", format!("{elements} elements"));
        }
        let groups = Groups::runs(&top.placement(gang)?);
        let laws = operator.laws();
        let algorithm = match algorithm {
            Some(algorithm) => {
                if let Err((expected, came)) = algorithm.check(gang.shards(), laws) {
                    return refuse(&expected, came);
                }
                algorithm
            }
            None => {
                // The mapper chooses among algorithms that give the same bits. Which ones do depends on whether the operator is
                // associative bit for bit, and on how the algorithm groups the ranks where they are placed.
                let alike = |a: &Algorithm| {
                    let any_grouping = laws.associative && a.laws().without(laws) == Laws::NONE;
                    (any_grouping || a.groups_by_doubling(&groups)) && a.is_offered(gang.shards())
                };
                let choices: Vec<Algorithm> = Algorithm::ALL.iter().copied().filter(alike).collect();
                let names: Vec<String> = choices.iter().map(Algorithm::to_string).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                choices[top.choose_algorithm(gang, (name, "allreduce"), elements * size_of::<T>(), &names)?]
            }
        };
        let cells = |s| {
            let schedule = algorithm.schedule(s, &groups);
            schedule.updates().max(schedule.reads()) as u32
        };
        let cells = (0..gang.shards()).map(cells).max().unwrap_or(0);
        // Cells are numbered through a processor's shards; the highest bit tells their halves apart.
        if u64::from(slots) * u64::from(cells.max(1)) * u64::from(gang.shards()) >= 1 << 31 {
            return refuse("fewer than 2^31 cells (slots × rounds × shards)", format!("{slots} slots"));
        }
        let spec = Spec { name: name.into(), operator, options, algorithm, groups, cells };
        Ok(Self { id: top.replayed(gang, Arc::new(spec))?, element: PhantomData })
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
            Input::Now(value) => shard.replay(self.id, |engine: &mut Engine<T>, at, cx| engine.call_now(at, value, cx)),
            Input::Later(input) => {
                shard.replay(self.id, |engine: &mut Engine<T>, at, cx| engine.call_later(at, input, cx))
            }
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
        shard.replay(self.id, |engine: &mut Engine<T>, at, cx| engine.call_many(at, input, cx))
    }
}
