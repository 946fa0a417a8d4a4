//! Chains of subtasks that are mapped once, and which persistent objects such as collectives replay on each call.
//!
//! This module is for crates that define collectives. A collective does not launch its rounds as new leaf tasks. The
//! mapper is asked when the object is made, and again only after it was replaced. Each call replays the same chain of
//! [`Subtask`]s:
//!
//! - An **update** waits until its earlier value has been read. It stores the chain's running value in the exchange
//!   region, and arrives at the ready barrier of the peer's read.
//! - A **read** waits for that barrier. It combines the value that it finds with the running value, and arrives at the
//!   empty barrier of the peer's update.
//!
//! The object defines the running value and how values combine ([`Replay`]). The runtime does the rest: it waits,
//! stores, arrives, queues ready subtasks by priority, counts, catches panics and passes poison on.

mod calls;
mod chains;
pub(crate) mod check;
mod in_parts;
mod replays;
mod report;
mod subtasks;

use crate::diagnose::Event;
use crate::diagnose::races::VectorClock;
use crate::effects::Waiting;
use crate::error::panic_message;
use crate::future::{Poison, Resolver, TaskFuture};
use crate::ids::{ObjectId, Run};
use crate::task::{Owner, Tasks};
use crate::{Error, Length, Lent, Payload};

pub(crate) use chains::{Chains, Progress, ReplayObject};
pub(crate) use replays::{Caller, Refused, Replays};

use maniple_regions::Buffer;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// Values larger than this, in bytes, are given back at once when they have been read. For smaller ones that can wait,
/// because each update has a cell of its own. A collective with larger ones should [await](Subtask::Await) earlier loans
/// before it makes more copies of its value.
pub const LARGE: usize = 4096;

/// One subtask of a chain, the same in every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subtask {
    /// Store a part of the running value for read number `at` of `peer`.
    Update {
        /// The shard that reads.
        peer: u32,
        /// The number of its read, from 0.
        at: u16,
        /// A number that is passed to [`RunningValue::bytes`].
        part: u16,
    },
    /// Read the value that update number `at` of `peer` stored.
    Read {
        /// The shard that updates.
        peer: u32,
        /// The number of its update, from 0.
        at: u16,
        /// Numbers that are passed to [`RunningValue::combine`]: the part, and how, below 4.
        part: u16,
        /// See `part`.
        how: u8,
    },
    /// Combine a part of the running value with another one.
    Local {
        /// Numbers that are passed to [`RunningValue::combine_own`], as for a read.
        from: u16,
        /// See `from`.
        part: u16,
        /// See `from`.
        how: u8,
    },
    /// Wait until the value that update number `update` of this chain stored last has been read: in this call if it comes
    /// before this subtask, or else in the call before.
    Await {
        /// The number of the update, from 0.
        update: u16,
    },
}

/// The handle of a replayed object, plain data. [`Top::replayed`](crate::Top::replayed) makes the object.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Handle {
    pub(crate) id: ObjectId,
    #[serde(skip)]
    pub(crate) run: Run,
}

impl Handle {
    /// The number of the object in its run.
    pub fn number(&self) -> u32 {
        self.id
    }
}

/// The subtasks of each chain of one processor's shards, and the values of all.
pub type MadeChains = (Vec<Vec<Subtask>>, Box<dyn Chained>);

/// The definition of a replayed object. It is the same on every node.
pub trait ReplaySpec: Send + Sync + 'static {
    /// The name of the object.
    fn name(&self) -> &str;
    /// The number of chains of each shard, at least 1: this many calls can be in flight.
    fn slots(&self) -> u32;
    /// The number of updates of a shard, or of its reads if they are more. Every node asks about all shards.
    fn cells(&self, shard: u32) -> u32;
    /// The size of the largest part of a running value in bytes.
    fn cell_bytes(&self) -> usize;
    /// How much its values count for in virtual time, and to the mapper.
    fn length(&self) -> Length {
        Length::OWN
    }
    /// The group of a shard: consecutive shards of one processor. Their running values are combined in place before the
    /// chain of the first one runs, and all take its result. The others have no subtasks.
    fn group(&self, shard: u32) -> Range<u32> {
        shard..shard + 1
    }
    /// Whether a read tells the update that its value has been read. That is not needed if each chain ends only after every
    /// peer that it sends values to has begun the same call. Then no empty barriers are used, and each cell is there twice,
    /// for every other call of a slot.
    fn gives_back(&self) -> bool {
        true
    }
    /// Whether `shard` takes part in calls. Only the check for races asks.
    fn takes_part(&self, shard: u32) -> bool {
        let _ = shard;
        true
    }
    /// Whether the end of a call at `shard` always comes after the input of shard `other`, whatever the subtasks are. Only the
    /// check for races asks.
    fn depends_on(&self, shard: u32, other: u32) -> bool {
        let _ = (shard, other);
        true
    }
    /// The parameters of the object beside its name, in words. They must be the same on every node.
    fn parameters(&self) -> String {
        format!("{} bytes, {} slots", self.cell_bytes(), self.slots())
    }
    /// Makes the chains of these shards, which are on one processor: the subtasks of each, and the values of all. `laws` says
    /// whether the laws of operators are tried on them. Each processor asks once, if it has
    /// any of the shards.
    fn chains(&self, shards: &[u32], laws: bool) -> MadeChains;
}

/// The running value of a chain, which its subtasks store and combine. It may have several parts, which have numbers. Part 0
/// has [`ReplaySpec::cell_bytes`].
pub trait RunningValue {
    /// The size of a part in bytes, the same in every call.
    fn size(&self, part: u16) -> usize;

    /// The bytes that an update stores: [`Self::size`] of them.
    fn bytes(&self, part: u16) -> &[u8];

    /// Lends these bytes to a reader, for values larger than [`Payload::INLINE`](crate::Payload::INLINE). They must not
    /// change while somebody else holds them. Without an implementation of its own it lends a copy.
    fn lend(&mut self, part: u16) -> Arc<dyn Lent> {
        Arc::new(Buffer::from_bytes(self.bytes(part)))
    }

    /// Combines the bytes that a read found with a part. `how` comes from the subtask. A panic fails the call.
    fn combine(&mut self, part: u16, how: u8, incoming: &[u8]);

    /// Makes a value on loan the part, in place of combining its bytes. Returns false if it can't, and then does nothing. What
    /// is on loan does not change while somebody holds it.
    fn take_loan(&mut self, part: u16, how: u8, lent: &Arc<dyn Lent>) -> bool {
        let _ = (part, how, lent);
        false
    }

    /// Combines a part with another one of the same value. A panic fails the call. It is called only for objects with
    /// [local](Subtask::Local) subtasks.
    fn combine_own(&mut self, from: u16, part: u16, how: u8) {
        let _ = (from, part, how);
    }

    /// Whether blocks of a part, or else of the input, are still to come, in a call [in parts](Replay::in_parts). They are of the
    /// input.
    fn lacks(&mut self, part: Option<u16>) -> bool {
        let _ = part;
        false
    }

    /// The value that an update stores, in a call in parts.
    fn block(&mut self, part: u16) -> Payload {
        Payload::copy_of(self.bytes(part))
    }

    /// Whether what a read finds may be taken as soon as it is there, whatever the chain has done: no earlier subtask uses the part.
    /// The number of the read is from 0, in a call in parts.
    fn is_free(&self, read: u16) -> bool {
        let _ = read;
        false
    }

    /// Whether what a read finds was taken before its turn.
    fn is_taken(&self, read: u16) -> bool {
        let _ = read;
        false
    }

    /// Takes what a read has found, in a call in parts.
    fn take(&mut self, read: u16, came: Payload) {
        let _ = (read, came);
    }
}

/// The values of an object's chains on one processor. The number of a chain is (position among the local shards) ×
/// slots + slot.
pub trait Replay: Any {
    /// A borrowed running value.
    type Running<'a>: RunningValue
    where
        Self: 'a;

    /// The running value of a chain.
    fn running(&mut self, chain: u32) -> Self::Running<'_>;

    /// Combines the running values of a group's chains in pairs into the value of the first one, `leader`. There are `size` of
    /// them, and `apart` is the distance between their numbers. Returns the bytes of the values that were combined with others. A
    /// panic fails the call. It is called only for objects with [groups](ReplaySpec::group).
    fn combine_group(&mut self, leader: u32, size: u32, apart: u32) -> usize {
        let _ = (leader, size, apart);
        0
    }

    /// Ends the chain's call as [`end`](Self::end) does, with the result that `leader` has, the first chain of its group.
    fn follow(&mut self, chain: u32, leader: u32, cx: &mut ReplayCx<'_>) -> bool {
        let _ = leader;
        self.end(chain, Ok(()), cx)
    }

    /// If the input of the chain's call is still to come, has the chain [started](ReplayCx::start_after) when it comes, and returns
    /// true.
    fn waits(&mut self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        let _ = (chain, cx);
        false
    }

    /// Makes the input of the chain's call its running value. Returns false if it has not come. `shard` gives the chain's
    /// shard, for errors.
    ///
    /// # Errors
    /// The reason why the call fails. Every shard that should combine its value then fails with it.
    fn begin(&mut self, chain: u32, shard: impl FnOnce() -> u32) -> Result<bool, Error>;

    /// Whether the blocks of the chain's call are values of their own, each of which may come before others, or fail. The call has
    /// begun. Its subtasks replace blocks and combine nothing.
    fn in_parts(&self, chain: u32) -> bool {
        let _ = chain;
        false
    }

    /// Settles the futures of blocks that have come, in a call in parts.
    fn show(&mut self, chain: u32, cx: &mut ReplayCx<'_>) {
        let _ = (chain, cx);
    }

    /// Ends the chain's call: settles its future with the result or with the error. Puts the next call into the chain, and
    /// returns whether there is one.
    fn end(&mut self, chain: u32, outcome: Result<(), Box<Error>>, cx: &mut ReplayCx<'_>) -> bool;

    /// The shard at a position belongs to another launch from now on. It has no calls under way.
    fn new_launch(&mut self, position: u32) {
        let _ = position;
    }

    /// Shows the futures of the chain's calls that have not ended. The report of a deadlock then says who awaits them. `busy`
    /// says whether the chain has a call.
    fn results(&self, chain: u32, busy: bool, watch: &mut Watch<'_>) {
        let _ = (chain, busy, watch);
    }
}

/// Finds out who awaits a future, for the report of a deadlock.
pub struct Watch<'a>(pub(crate) &'a mut dyn FnMut(&Waiting));

impl Watch<'_> {
    /// Looks at the future that a resolver settles.
    pub fn look<T: 'static>(&mut self, resolver: &Resolver<T>) {
        resolver.each_waiter(self.0);
    }
}

/// A [`Replay`] of a type that only its maker knows. Every `Replay` implements it.
pub trait Chained: Any {
    /// Runs subtasks of a chain for as long as the next one is ready and nothing more urgent is.
    #[doc(hidden)]
    fn run(&mut self, chain: u32, cx: &mut ReplayCx<'_>);
    /// A value came for a cell before the chain's turn to read it.
    #[doc(hidden)]
    fn offer(&mut self, cell: u32, cx: &mut ReplayCx<'_>);
    #[doc(hidden)]
    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>);
    #[doc(hidden)]
    fn give_up(&mut self, chain: u32, owed: (u64, &Error), cx: &mut ReplayCx<'_>);
    #[doc(hidden)]
    fn results(&self, chain: u32, busy: bool, watch: &mut Watch<'_>);
}

impl<R: Replay> Chained for R {
    fn run(&mut self, chain: u32, cx: &mut ReplayCx<'_>) {
        cx.run(self, chain);
    }
    fn offer(&mut self, cell: u32, cx: &mut ReplayCx<'_>) {
        cx.offer(self, cell);
    }
    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        cx.fail(self, chain, error);
    }
    fn give_up(&mut self, chain: u32, owed: (u64, &Error), cx: &mut ReplayCx<'_>) {
        cx.give_up(self, chain, owed);
    }
    fn results(&self, chain: u32, busy: bool, watch: &mut Watch<'_>) {
        Replay::results(self, chain, busy, watch);
    }
}

/// What a chain can do for a new call.
pub enum SlotState {
    /// Take it: put the call into the chain, and [submit](ReplayCx::submit) or [begin](ReplayCx::begin) it.
    Free,
    /// Nothing before the present call has ended.
    Taken,
    /// Nothing any more. The call fails with this error.
    Failed(Error),
}

/// The calls that an object may make while its chains run.
pub struct ReplayCx<'a> {
    pub(crate) tasks: &'a Tasks,
    pub(crate) chains: &'a Chains,
    pub(crate) progress: &'a mut Progress,
}

/// Settles a call's future with an error, of which the calling shard has to learn.
#[cold]
fn poison<T: 'static>(
    (tasks, chains): (&Tasks, &Chains),
    owner: Option<&Rc<Owner>>,
    chain: u32,
    resolver: &Resolver<T>,
    error: Error,
) {
    resolver.settle(Err(poison_of((tasks, chains), owner, chain, error)), tasks.teller());
}

fn poison_of((tasks, chains): (&Tasks, &Chains), owner: Option<&Rc<Owner>>, chain: u32, error: Error) -> Rc<Poison> {
    match owner {
        Some(owner) => Poison::new(tasks.effects.failed(error, || chains.place(chain)), owner.failures()),
        None => Poison::of_the_run(&error),
    }
}

impl ReplayCx<'_> {
    /// Ends a call of the chain's shard, and settles its future.
    #[inline(always)]
    pub fn resolve<T: 'static>(&mut self, chain: u32, resolver: &Resolver<T>, outcome: Result<T, Error>) {
        if self.tasks.effects.is_observed() {
            self.happens(chain, resolver);
        }
        self.tasks.effects.counters.chain_calls.add(1);
        let owner = self.progress.call_over(self.chains.position(chain));
        match outcome {
            Ok(value) => resolver.settle(Ok(value), self.tasks.teller()),
            Err(error) => poison((self.tasks, self.chains), owner, chain, resolver, error),
        }
        if let Some(owner) = owner {
            owner.one_over(|waiting| self.tasks.notify(waiting));
        }
    }

    /// Ends a call of the chain's shard whose futures have been [settled](Self::settle).
    #[inline(never)]
    pub fn over(&mut self, chain: u32) {
        // The shard comes after it.
        self.past(chain);
        self.tasks.effects.counters.chain_calls.add(1);
        if let Some(owner) = self.progress.call_over(self.chains.position(chain)) {
            owner.one_over(|waiting| self.tasks.notify(waiting));
        }
    }

    /// The same where inlined code would take more space than it is worth.
    #[inline(never)]
    pub fn resolve_rarely<T: 'static>(&mut self, chain: u32, resolver: &Resolver<T>, outcome: Result<T, Error>) {
        self.resolve(chain, resolver, outcome);
    }

    /// Runs code of the program for a chain's call. Its panic becomes an error.
    ///
    /// # Errors
    /// [`Error::Panicked`].
    pub fn guarded<T>(&self, chain: u32, code: impl FnOnce() -> T) -> Result<T, Error> {
        catch_unwind(AssertUnwindSafe(code))
            .map_err(|panic| Error::Panicked { place: self.chains.place(chain), message: panic_message(panic) })
    }

    /// Settles another future than that with which the call ended. It is a second one of the same call, so an error counts as
    /// seen when somebody sees it in either.
    #[inline(never)]
    pub fn settle<T: 'static>(&mut self, chain: u32, resolver: &Resolver<T>, outcome: Result<T, Error>) {
        match outcome {
            Ok(value) => resolver.settle(Ok(value), self.tasks.teller()),
            Err(error) => {
                let owner = self.progress.owner(self.chains.position(chain));
                poison((self.tasks, self.chains), owner, chain, resolver, error);
            }
        }
    }

    /// Says that `other` is going to be [settled](Self::settle) after `result`, for the check for races.
    pub fn follows<T: 'static, U: 'static>(&self, other: &TaskFuture<T>, result: &TaskFuture<U>) {
        if self.tasks.effects.races().is_some() {
            other.follows(result);
        }
    }

    /// Notes the events before the result of a call that has ended, for the check for races.
    #[cold]
    fn happens<T: 'static>(&self, chain: u32, resolver: &Resolver<T>) {
        if let Some(past) = self.past(chain) {
            resolver.happens(&past);
        }
    }

    /// The events before the result of a call that has ended. A call of a lost shard has none.
    fn past(&self, chain: u32) -> Option<VectorClock> {
        let races = self.tasks.effects.races()?;
        let (object, shard, slots) = (self.chains.id, self.chains.shard_of(chain), self.chains.slots());
        if self.chains.is_lost(self.progress, chain) {
            races.call_lost(object, shard, (chain % slots, slots));
            return None;
        }
        let spec = &self.chains.spec;
        let parties = (0..self.chains.shards()).filter(|&shard| spec.takes_part(shard)).count();
        let call = self.chains.call_of(self.progress, chain).saturating_sub(slots.into());
        let depends_on = |other| spec.depends_on(shard, other);
        Some(races.call_over((object, call), shard, (parties, slots), depends_on))
    }

    /// Starts the chain when `future` is settled. Returns false if it is settled already. The object must keep the
    /// future until then, as one that nobody holds may never be settled.
    #[must_use]
    pub fn start_after<T: 'static>(&mut self, chain: u32, future: &TaskFuture<T>) -> bool {
        self.tasks.effects.counters.inputs.add(1);
        future.wait(self.waiting(chain))
    }

    /// Says, for the check for races, that call number `call` of the chain's shard takes a future as block number `block` of its
    /// input. A whole input is block 0.
    pub fn takes<T: 'static>(&self, chain: u32, call: u64, block: u32, future: &TaskFuture<T>) {
        self.tasks.effects.event(|| {
            let shard = self.chains.shard_of(chain);
            Event::CallTakes { object: self.chains.id, call, shard, input: (block, future.event()) }
        });
    }

    /// Puts a chain into the ready queue.
    fn start(&mut self, chain: u32) {
        self.tasks.notify(self.waiting(chain));
    }

    fn waiting(&self, chain: u32) -> Waiting {
        Waiting::Chain { object: self.chains.id, chain, priority: self.chains.mapping.get().priority }
    }
}
