//! Pre-mapped chains of subtasks that persistent objects replay on each call.
//!
//! A collective does not launch its rounds as fresh leaf tasks: the mapper was asked once, when the object was made, and
//! each call replays the same chain of [`Subtask`]s. An **update** waits until the value it stored before has been read,
//! stores the chain's running value in the exchange region, and arrives at the ready barrier of the peer's read; a **read**
//! waits for that barrier, combines what it finds, and arrives at the empty barrier of the peer's update. The object says
//! what the running value is and how values combine ([`Replay`]); the runtime does the rest: it waits, stores, arrives,
//! queues ready subtasks by priority, counts, catches panics and passes poison.

mod calls;
mod chains;
mod replays;
mod report;
mod subtasks;

use crate::diagnose::Event;
use crate::effects::Waiting;
use crate::future::{Resolver, TaskFuture};
use crate::task::Tasks;
use crate::{Error, Lent};

pub(crate) use chains::{Chains, Progress, ReplayObject};
pub(crate) use replays::{Caller, Refused, Replays};

use maniple_regions::Buffer;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// One subtask of a chain, the same in every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subtask {
    /// Store the running value for `peer`, whose read number `at` takes it.
    Update {
        /// The shard that reads.
        peer: u32,
        /// Which of its reads, from 0.
        at: u16,
    },
    /// Read what `peer` stored in its update number `at`.
    Read {
        /// The shard that updates.
        peer: u32,
        /// Which of its updates, from 0.
        at: u16,
        /// Handed to [`RunningValue::combine`].
        how: u8,
    },
}

/// What a replayed object is, the same on every process.
pub trait ReplaySpec: Send + Sync + 'static {
    /// Name of the object.
    fn name(&self) -> &str;
    /// Chains of a shard: calls that can be in flight, at least 1.
    fn slots(&self) -> u32;
    /// Most updates, or reads if they are more, of any shard.
    fn cells(&self) -> u32;
    /// Bytes of a running value.
    fn cell_bytes(&self) -> usize;
    /// The chain of a shard.
    fn subtasks(&self, shard: u32) -> Vec<Subtask>;
    /// The block of a shard: consecutive shards of one processor whose running values are combined in place before the
    /// first one's chain runs, and which all take its result. The others have no subtasks.
    fn block(&self, shard: u32) -> Range<u32> {
        shard..shard + 1
    }
    /// What the object is made with, beside its name: what must be the same on every process, for people to read.
    fn parameters(&self) -> String {
        format!("{} bytes, {} slots", self.cell_bytes(), self.slots())
    }
    /// The values of the chains of `shards` shards, which live on one processor.
    fn materialise(&self, shards: u32) -> Box<dyn Chained>;
}

/// What a chain's subtasks store and combine.
pub trait RunningValue {
    /// What an update stores: [`ReplaySpec::cell_bytes`] bytes.
    fn bytes(&self) -> &[u8];

    /// Lends these bytes to a reader, for values larger than [`Payload::INLINE`](crate::Payload::INLINE). They must not change
    /// for as long as somebody else holds them; a copy will do.
    fn lend(&mut self) -> Arc<dyn Lent> {
        Arc::new(Buffer::from_bytes(self.bytes()))
    }

    /// Combines what a read found with the running value; `how` is the subtask's. A panic fails the call.
    fn combine(&mut self, how: u8, incoming: &[u8]);
}

/// The values of an object's chains on one processor. Chain numbers are (position among the local shards) × slots + slot.
pub trait Replay: Any {
    /// The running value of a chain, on loan.
    type Running<'a>: RunningValue
    where
        Self: 'a;

    /// The running value of a chain.
    fn running(&mut self, chain: u32) -> Self::Running<'_>;

    /// Combines the running value of a chain with that of `higher`, which belongs to the next shards. A panic fails the
    /// call. Only asked where there are [blocks](ReplaySpec::block).
    fn join(&mut self, chain: u32, higher: u32) {
        let _ = (chain, higher);
    }

    /// Replaces the running value of a chain by that of its block's first, `leader`, which has the result.
    fn follow(&mut self, chain: u32, leader: u32) {
        let _ = (chain, leader);
    }

    /// The chain was started: takes the next call's input. False if there is none to take now. `shard` tells whose chain
    /// it is, for errors.
    ///
    /// # Errors
    /// What makes the call fail: every shard that should combine its value then fails with it.
    fn begin(&mut self, chain: u32, shard: impl FnOnce() -> u32) -> Result<bool, Error>;

    /// The call is over: gives its result out, or why there is none, and makes the next call, if there is one, ready
    /// for [`begin`](Self::begin).
    fn end(&mut self, chain: u32, outcome: Result<(), Box<Error>>, cx: &mut ReplayCx<'_>);

    /// A shard that takes part is lost: ends the chain's call with an error, and those that come after.
    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>);

    /// Whether there is a call that [`begin`](Self::begin) has yet to take.
    fn awaits_input(&self, chain: u32) -> bool;

    /// Shows the futures of the calls of a chain that are not over, so that the report of a deadlock can say who awaits them.
    fn results(&self, chain: u32, watch: &mut Watch<'_>) {
        let _ = (chain, watch);
    }
}

/// Looks who awaits a future.
pub struct Watch<'a>(pub(crate) &'a mut dyn FnMut(&Waiting));

impl Watch<'_> {
    /// Looks at the future that a resolver settles.
    pub fn look<T: 'static>(&mut self, resolver: &Resolver<T>) {
        resolver.each_waiter(self.0);
    }
}

/// A [`Replay`] whose type is known to its maker alone. Every `Replay` is one.
pub trait Chained: Any {
    /// Runs subtasks of a chain for as long as the next one is ready and nothing more urgent is.
    #[doc(hidden)]
    fn run(&mut self, chain: u32, cx: &mut ReplayCx<'_>);
    #[doc(hidden)]
    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>);
    #[doc(hidden)]
    fn awaits_input(&self, chain: u32) -> bool;
    #[doc(hidden)]
    fn results(&self, chain: u32, watch: &mut Watch<'_>);
}

impl<R: Replay> Chained for R {
    fn run(&mut self, chain: u32, cx: &mut ReplayCx<'_>) {
        cx.run(self, chain);
    }
    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        cx.fail(self, chain, error);
    }
    fn awaits_input(&self, chain: u32) -> bool {
        Replay::awaits_input(self, chain)
    }
    fn results(&self, chain: u32, watch: &mut Watch<'_>) {
        Replay::results(self, chain, watch);
    }
}

/// The order in which a block of `n` running values is combined: the first with the second, the third with the fourth and
/// so on, then these sums likewise. Calls `combine(i, j)` for each: value number j, the higher one, goes into number i.
pub fn pairwise(n: u32, mut combine: impl FnMut(u32, u32)) {
    let mut distance = 1;
    while distance < n {
        let mut i = 0;
        while i + distance < n {
            combine(i, i + distance);
            i += 2 * distance;
        }
        distance *= 2;
    }
}

/// What an object may do while its chains run.
pub struct ReplayCx<'a> {
    pub(crate) tasks: &'a Tasks,
    pub(crate) chains: &'a Chains,
    pub(crate) progress: &'a mut Progress,
}

impl ReplayCx<'_> {
    /// Settles the future of a call of the chain's shard: the call is over.
    #[inline(always)]
    pub fn resolve<T: 'static>(&mut self, chain: u32, resolver: &Resolver<T>, outcome: Result<T, Error>) {
        if self.tasks.effects.is_observed() {
            self.happens(chain, resolver);
        }
        self.tasks.effects.counters.chain_calls.add(1);
        match self.progress.call_over(self.chains.position(chain)) {
            Some(owner) => {
                resolver.settle_watched(outcome, &owner.failures, self.tasks.teller());
                owner.one_over(|waiting| self.tasks.notify(waiting));
            }
            None => resolver.settle(outcome, self.tasks.teller()),
        }
    }

    /// Where races are looked for: what comes before the result of a chain's call, which is over. What a lost shard leaves
    /// comes after nothing.
    #[cold]
    fn happens<T: 'static>(&self, chain: u32, resolver: &Resolver<T>) {
        if let Some(races) = self.tasks.effects.races().filter(|_| !self.chains.is_lost(self.progress, chain)) {
            let (shards, slots) = (self.chains.shards(), self.chains.slots());
            let call = self.chains.call_of(self.progress, chain).saturating_sub(slots.into());
            let shard = self.chains.shard_of(chain);
            resolver.happens(&races.call_over((self.chains.id, call), shard, (shards, slots)));
        }
    }

    /// Has the chain started when `future` is settled; false when it is settled already.
    /// The object keeps the future until then: one that nobody holds may never be settled.
    #[must_use]
    pub fn start_after<T: 'static>(&mut self, chain: u32, future: &TaskFuture<T>) -> bool {
        self.tasks.effects.counters.inputs.add(1);
        self.tasks.effects.event(|| {
            let call = self.chains.call_of(self.progress, chain);
            Event::CallTakes { object: self.chains.id, call, input: future.event() }
        });
        future.wait(self.waiting(chain))
    }

    /// Puts a chain into the ready queue.
    pub fn start(&mut self, chain: u32) {
        self.tasks.notify(self.waiting(chain));
    }

    fn waiting(&self, chain: u32) -> Waiting {
        Waiting::Chain { object: self.chains.id, chain, priority: self.chains.mapping.get().priority }
    }

    /// Forgets the call that a chain is in the middle of, if that bug is planted for a test and strikes now.
    #[cfg(feature = "plant")]
    pub fn reuses_early(&mut self, chain: u32) -> bool {
        let strikes = self.tasks.effects.config.strikes(crate::plant::Bug::EarlySlotReuse);
        if strikes {
            self.progress.forget(chain);
        }
        strikes
    }
}
