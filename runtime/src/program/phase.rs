//! Phase barriers as users hold them.

use crate::Error;
use crate::barrier::PhaseEnd;
use crate::ids::{ObjectId, PhaseAddress, ProcessorId, Run};
use crate::object::{GangTable, Object, PhaseSpec};
use crate::program::gang::Gang;
use crate::program::shard::Shard;
use maniple_barriers::{Phase, Waiter};
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// A shard's right to arrive at a phase barrier, one generation an arrival. Made by [`PhaseBarrier::arriver`].
#[derive(Debug)]
#[must_use = "an arriver that never arrives leaves the waiters waiting"]
pub struct PhaseArriver(pub(crate) Rc<PhaseEnd>);

/// A shard's right to wait for a phase barrier, one generation a wait. Made by [`PhaseBarrier::waiter`].
#[derive(Debug)]
pub struct PhaseWaiter(pub(crate) Rc<PhaseEnd>);

impl PhaseArriver {
    /// Generation that the next arrival counts for.
    pub fn generation(&self) -> u64 {
        self.0.generation()
    }

    /// Takes the next arrival without making it; its generation. Whoever waits for that waits for ever.
    pub fn take(&self) -> u64 {
        self.0.take().1
    }

    /// Moves to the first arrival of another generation, for callers that keep count themselves.
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

/// A phase barrier with any arrivers and waiters of one gang. Made by [`crate::Top::phase_barrier`]; plain data that may
/// travel in arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PhaseBarrier {
    pub(crate) id: ObjectId,
    #[serde(skip)]
    pub(crate) run: Run,
}

impl PhaseBarrier {
    /// The right to arrive. Local; never waits.
    ///
    /// # Errors
    /// When this shard is not in the list of arrivers.
    pub fn arriver(&self, shard: &Shard) -> Result<PhaseArriver, Error> {
        self.end(shard, ("arriver", "a shard in its list of arrivers"), |spec| &spec.arrivers).map(PhaseArriver)
    }

    /// The right to wait. Local; never waits itself.
    ///
    /// # Errors
    /// When this shard is not in the list of waiters.
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
        shard.core().effects().objects.with(self.id, |object| match object {
            Some(Object::Phase(spec)) if !spec.gang.run.may_be(self.run) => {
                Err(of_another_run("a phase barrier's handle", "`Top::phase_barrier`"))
            }
            Some(Object::Phase(spec)) if shard.in_gang(&spec.gang) => Ok(f(spec)),
            Some(o) => Err(Error::misuse(
                "a phase barrier's handle",
                "a barrier made for the gang of this shard",
                o.describe(),
            )),
            None => Err(Error::misuse("a phase barrier's handle", "one made with `Top::phase_barrier`", self.id)),
        })
    }
}

/// What a phase barrier is made of.
#[derive(Clone)]
pub struct PhaseOptions {
    pub(crate) arrivers: Vec<u32>,
    /// How often each of them arrives; none if all do once.
    pub(crate) times: Vec<u32>,
    pub(crate) waiters: Vec<u32>,
    pub(crate) window: u64,
    pub(crate) arity: usize,
    pub(crate) fold: Option<crate::object::PhaseFold>,
}

impl PhaseOptions {
    /// A barrier of all shards of a gang that all of them wait for; arrivers may run 64 generations ahead; processors
    /// combine four at a time.
    pub fn all(gang: &Gang) -> Self {
        Self::between(0..gang.shards(), 0..gang.shards())
    }

    /// A barrier of the given arrivers and waiters.
    pub fn between(arrivers: impl IntoIterator<Item = u32>, waiters: impl IntoIterator<Item = u32>) -> Self {
        let (arrivers, waiters) = (arrivers.into_iter().collect(), waiters.into_iter().collect());
        Self { arrivers, times: Vec::new(), waiters, window: 64, arity: 4, fold: None }
    }

    /// How many times a shard arrives in each generation: once without this. A generation is complete when all shards have
    /// arrived so often; with values, those of a shard fold in the order in which they were taken.
    pub fn arrivals(mut self, times: impl Fn(u32) -> u32) -> Self {
        self.times = self.arrivers.iter().map(|&shard| times(shard)).collect();
        self
    }

    /// How many generations an arriver may be ahead of the slowest, and of an arrival of its own that is still to come;
    /// of the latter by 64 at most.
    ///
    /// Every processor of the combining tree checks those who report to it, so what is too far ahead may be refused later,
    /// by up to one window a level. An arrival is safe when its task or shard has, itself or through others, waited for the
    /// generation that makes room for it; that others have arrived for that generation is not enough.
    pub fn window(mut self, generations: u64) -> Self {
        self.window = generations;
        self
    }

    /// How many processors report to one.
    pub fn arity(mut self, children: usize) -> Self {
        self.arity = children;
        self
    }

    /// Arrivals carry 64-bit values that fold in the order of the arriver list (so the result does not depend on where
    /// shards run); waiters get the result of each generation.
    pub fn reduce(mut self, fold: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> Self {
        self.fold = Some(Arc::new(fold));
        self
    }
}

/// Processors a barrier concerns, the first waiter's (the root of the tree) first.
pub(crate) fn members(gang: &GangTable, options: &PhaseOptions) -> Vec<ProcessorId> {
    let mut members = Vec::new();
    for &s in options.waiters.iter().chain(&options.arrivers) {
        let p = gang.at[s as usize].0;
        if !members.contains(&p) {
            members.push(p);
        }
    }
    members
}
