//! Handles of phase barriers, and their options.

use crate::Error;
use crate::barrier::PhaseEnd;
use crate::diagnose::deadlock::ReportPart;
use crate::diagnose::replicas::list;
use crate::ids::{ObjectId, PhaseAddress, ProcessorId, Run};
use crate::object::{Defined, GangTable, Object, PhaseSpec};
use crate::processor::Core;
use crate::program::gang::Gang;
use crate::program::shard::Shard;
use maniple_barriers::{Phase, Waiter};
use maniple_regions::{Element, Operator};
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// A shard's right to arrive at a phase barrier. Each arrival counts for the next generation, or for the same one while
/// [`PhaseOptions::arrivals`] asks for more. [`PhaseBarrier::arriver`] gives it.
#[derive(Debug)]
#[must_use = "an arriver that never arrives leaves the waiters waiting"]
pub struct PhaseArriver(pub(crate) Rc<PhaseEnd>);

/// A shard's right to wait for a phase barrier. Each wait is for the next generation. [`PhaseBarrier::waiter`] gives
/// it.
#[derive(Debug)]
pub struct PhaseWaiter(pub(crate) Rc<PhaseEnd>);

impl PhaseArriver {
    /// The generation that the next arrival counts for.
    pub fn generation(&self) -> u64 {
        self.0.generation()
    }

    /// Takes the next arrival without making it, and returns its generation. That generation never completes.
    #[doc(hidden)]
    pub fn take(&self) -> u64 {
        self.0.take().1
    }

    /// Moves to the first arrival of another generation, for callers that count generations themselves.
    #[doc(hidden)]
    pub fn seek(&self, generation: u64) {
        self.0.arriver.seek(generation * self.0.times);
    }
}
impl Deref for PhaseWaiter {
    type Target = Waiter<Phase, PhaseAddress>;
    fn deref(&self) -> &Self::Target {
        &self.0.waiter
    }
}

pub(super) fn of_another_run(what: impl std::fmt::Display, maker: &str) -> Error {
    Error::misuse(what, format!("one made with {maker} in this run"), "one of another run")
}

/// A phase barrier between shards of one gang. [`Top::phase_barrier`](crate::Top::phase_barrier) makes one. It is plain
/// data and may travel in arguments of shard tasks.
///
/// Some shards arrive, some wait, and a shard may do both. The barrier has generations, numbered from 0. A generation
/// is complete when every arriver has arrived for it and for all earlier ones. Arriving never waits, and waiting is no
/// arrival.
///
/// ```
/// use maniple_regions::Operator;
/// use maniple_runtime::{Error, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch};
///
/// /// All shards learn the largest index.
/// async fn shard(shard: Shard, barrier: PhaseBarrier) -> Result<u64, Error> {
///     shard.arrive_with(&barrier.arriver(&shard)?, u64::from(shard.index()));
///     shard.wait_value(&barrier.waiter(&shard)?).await
/// }
/// # let (largest, _) = Runtime::threads(2).run(|top| async move {
/// let gang = top.gang("all", 4)?;
/// let barrier = top.phase_barrier("largest", &gang, PhaseOptions::all(&gang).reduce(Operator::<u64>::max()))?;
/// let task = top.register("shard", shard);
/// let done = top.launch_gang(&gang, &task, |_| ShardLaunch::new(barrier))?;
/// # done.all().await
/// # })?;
/// assert_eq!(largest, [3; 4]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PhaseBarrier {
    pub(crate) id: ObjectId,
    #[serde(skip)]
    pub(crate) run: Run,
}

impl PhaseBarrier {
    /// The right of `shard` to arrive. Local; never waits. All arrivers that a shard takes share their count of
    /// generations.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the shard is not in the list of arrivers, or the barrier was made for another gang.
    pub fn arriver(&self, shard: &Shard) -> Result<PhaseArriver, Error> {
        self.end(shard, ("arriver", "a shard in its list of arrivers"), |spec| &spec.arrivers).map(PhaseArriver)
    }

    /// The right of `shard` to wait. Local; never waits itself. All waiters that a shard takes share their count of
    /// generations.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the shard is not in the list of waiters, or the barrier was made for another gang.
    pub fn waiter(&self, shard: &Shard) -> Result<PhaseWaiter, Error> {
        self.end(shard, ("waiter", "a shard in its list of waiters"), |spec| &spec.waiters).map(PhaseWaiter)
    }

    fn end(
        &self,
        shard: &Shard,
        (method, expected): (&str, &str),
        listed: impl Fn(&PhaseSpec) -> &[u32],
    ) -> Result<Rc<PhaseEnd>, Error> {
        let me = shard.index();
        self.with(shard, |spec| {
            if !listed(spec).contains(&me) {
                let what = format!("PhaseBarrier::{method} of `{}`", spec.name);
                return Err(Error::misuse(what, expected, format!("shard {me}")));
            }
            Ok(shard.core().tasks.barriers.phase_end(self.id, me, spec))
        })?
    }

    fn with<R>(&self, shard: &Shard, f: impl FnOnce(&PhaseSpec) -> R) -> Result<R, Error> {
        let what = || format!("a phase barrier's handle in shard {} of {}", shard.index(), shard.gang_name());
        shard.core().effects().objects.check(self.id, shard.part_of(), what)?;
        shard.core().effects().objects.with(self.id, |object| match (object.and_then(Object::phase), object) {
            (Some(spec), _) if !spec.gang.run.may_be(self.run) => {
                Err(of_another_run("a phase barrier's handle", "`Top::phase_barrier`"))
            }
            (Some(spec), _) if shard.in_gang(&spec.gang) => Ok(f(spec)),
            (_, Some(o)) => Err(Error::misuse(
                "a phase barrier's handle",
                "a barrier made for the gang of this shard",
                o.describe(),
            )),
            (_, None) => Err(Error::misuse("a phase barrier's handle", "one made with `Top::phase_barrier`", self.id)),
        })
    }
}

/// The options of a phase barrier: its arrivers and waiters, its window, its tree, and its reduction.
#[derive(Clone)]
pub struct PhaseOptions {
    pub(crate) arrivers: Vec<u32>,
    /// The number of arrivals of each in a generation; empty if all arrive once.
    pub(crate) times: Vec<u32>,
    pub(crate) waiters: Vec<u32>,
    pub(crate) window: u64,
    pub(crate) arity: usize,
    pub(crate) fold: Option<crate::object::PhaseFold>,
}

impl PhaseOptions {
    /// The most arrivals that a generation may have, of all shards together: 2²⁴.
    pub const MAX_ARRIVALS: u32 = 1 << 24;

    /// A barrier at which all shards of a gang arrive and wait. The [window](Self::window) is 64 generations, the
    /// [arity](Self::arity) 4.
    pub fn all(gang: &Gang) -> Self {
        Self::between(0..gang.shards(), 0..gang.shards())
    }

    /// A barrier of the given arrivers and waiters. The [window](Self::window) is 64 generations, the
    /// [arity](Self::arity) 4.
    pub fn between(arrivers: impl IntoIterator<Item = u32>, waiters: impl IntoIterator<Item = u32>) -> Self {
        let (arrivers, waiters) = (arrivers.into_iter().collect(), waiters.into_iter().collect());
        Self { arrivers, times: Vec::new(), waiters, window: 64, arity: 4, fold: None }
    }

    /// Sets how many times each shard arrives in a generation, at least once. Without this each shard arrives once.
    ///
    /// A generation is complete when every shard has made all its arrivals. It has at most
    /// [`MAX_ARRIVALS`](Self::MAX_ARRIVALS) of them. Values of one shard are combined in the
    /// order in which the arrivals were taken.
    pub fn arrivals(mut self, times: impl Fn(u32) -> u32) -> Self {
        self.times = self.arrivers.iter().map(|&shard| times(shard)).collect();
        self
    }

    /// Sets the window: the number of generations that an arriver may be ahead of the slowest one, 64 without this. An
    /// arrival may also overtake earlier ones of its own arriver, by the window and by 64 generations at most.
    ///
    /// Each processor of the combining tree checks those who report to it. So an arrival that is too far ahead may be refused
    /// late, by up to one window for each level of the tree. An arrival is safe if its task or shard has waited, itself or
    /// through others, for the generation that admits it. It is not enough that others have arrived for that generation.
    pub fn window(mut self, generations: u64) -> Self {
        self.window = generations;
        self
    }

    /// Sets the number of processors that report to one processor in the combining tree, at least 1; 4 without this.
    pub fn arity(mut self, children: usize) -> Self {
        self.arity = children;
        self
    }

    /// Lets arrivals carry values of 8 bytes, which `operator` combines: `u64`, `i64`, `f64`, or a type of your own.
    /// [`Shard::arrive_with`] gives a value, and [`Shard::wait_value`] gets the result of a generation, both as the bits of a
    /// `T` (for `f64` see [`f64::to_bits`]). An arrival without a value counts as 0.
    ///
    /// Values are combined in the order of the list of arrivers. So the result does not depend on where shards run.
    ///
    /// An operator on values of another size does not compile:
    ///
    /// ```compile_fail,E0080
    /// # use maniple_runtime::{Gang, PhaseOptions}; use maniple_regions::Operator;
    /// # fn options(gang: &Gang) -> PhaseOptions {
    /// PhaseOptions::all(gang).reduce(Operator::<u32>::sum())
    /// # }
    /// # std::hint::black_box(options as fn(&Gang) -> PhaseOptions);
    /// ```
    pub fn reduce<T: Element>(mut self, operator: Operator<T>) -> Self {
        const { assert!(size_of::<T>() == size_of::<u64>(), "a phase barrier reduces values of 8 bytes") };
        let value = |bits: u64| bytemuck::cast::<u64, T>(bits);
        self.fold = Some(Arc::new(move |lower, higher| {
            let lower = value(lower);
            bytemuck::cast::<T, u64>(match higher {
                Some(higher) => operator.combine(&lower, &value(higher)),
                None => operator.canonical(lower),
            })
        }));
        self
    }
}

/// The processors of a barrier's arrivers and waiters. The first is the processor of the first waiter, the root of the tree.
pub(crate) fn members(gang: &GangTable, options: &PhaseOptions) -> Vec<ProcessorId> {
    let mut listed = vec![false; gang.members.len()];
    let processors = options.waiters.iter().chain(&options.arrivers).map(|&s| gang.at[s as usize].0);
    processors.filter(|p| !std::mem::replace(&mut listed[p.index()], true)).collect()
}

impl Defined for PhaseSpec {
    fn name(&self) -> &str {
        &self.name
    }
    fn parameters(&self) -> String {
        let Self { gang, arrivers, waiters, window, arity, fold, .. } = self;
        let (gang, arrivers, waiters) = (&gang.name, list(arrivers), list(waiters));
        let values = if fold.is_some() { "with" } else { "without" };
        format!(
            "of gang `{gang}`, arrivers {arrivers}, waiters {waiters}, window {window}, arity {arity}, {values} values"
        )
    }
    fn gang(&self) -> Option<&Arc<GangTable>> {
        Some(&self.gang)
    }
    fn define(&self, id: ObjectId, core: &Core) {
        core.tasks.barriers.add_phase(core.effects(), id, self);
    }
    fn give_up(&self, id: ObjectId, core: &Core, error: &Error) {
        core.tasks.barriers.phases.poison(id, 0, error, &mut core.tasks.teller());
    }
    fn abandon(&self, id: ObjectId, core: &Core, shard: u32, error: &Error) {
        if self.arrivers.contains(&shard) {
            let end = core.tasks.barriers.phase_end(id, shard, self);
            core.tasks.poison_phase(id, end.generation(), error);
        }
    }
    fn report(&self, id: ObjectId, core: &Core, part: &mut ReportPart) {
        core.tasks.barriers.report_phase((id, self), &|waiting| core.node_of(waiting), part);
    }
}
