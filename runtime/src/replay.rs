//! Pre-mapped chains of subtasks that persistent objects replay on each call.
//!
//! A collective does not launch its rounds as fresh leaf tasks: the mapper was asked once, when the object was made, and
//! each call replays the same chain. A chain is an explicit state machine: [`Replay::run`] runs exactly one subtask and
//! says which barrier generation the next one waits for. The runtime does the rest: it queues ready subtasks by
//! priority, delivers arrivals, counts, catches panics and passes poison.

use crate::core::Core;
use crate::core::Waited;
use crate::future::{Resolver, TaskFuture};
use crate::message::ObjectId;
use crate::object::{CellAddress, EMPTY, Object, ReplayObject};
use crate::payload::Payload;
use crate::{Error, Place};
use maniple_mapper::{ExchangeOutput, MemoryKind};
use std::any::Any;
use std::rc::Rc;

/// What a replayed object is, the same on every process.
///
/// Each participating shard has [`chains`](Self::chains) chains (slots), [`ready_cells`](Self::ready_cells) cells that
/// it waits on for data and [`empty_cells`](Self::empty_cells) cells that it waits on for room.
pub trait ReplaySpec: Send + Sync + 'static {
    /// Name of the object.
    fn name(&self) -> &str;
    /// Chains of a shard: calls that can be in flight.
    fn chains(&self) -> u32;
    /// Ready cells of a shard.
    fn ready_cells(&self) -> u32;
    /// Empty cells of a shard.
    fn empty_cells(&self) -> u32;
    /// Bytes of one cell of the exchange region.
    fn cell_bytes(&self) -> usize;
    /// The state of `shards` (ascending), which live on one processor, out of `participants`.
    fn materialise(&self, shards: &[u32], participants: u32) -> Box<dyn Replay>;
}

/// The chains of one object on one processor. Chain numbers are (position among the local shards) × chains + slot.
pub trait Replay: Any {
    /// Runs one subtask of a chain.
    ///
    /// # Errors
    /// What makes the call fail; the runtime then calls [`fail`](Self::fail).
    fn run(&mut self, chain: u32, cx: &mut ReplayCx<'_>) -> Result<Next, Error>;

    /// Ends the chain's call with an error and poisons every arrival the chain still owes, in this call and later ones.
    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>);

    /// What the chain is doing, for reports: `None` when it is idle.
    fn doing(&self, chain: u32) -> Option<String>;
}

/// What the next subtask of a chain waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// A generation of ready cell `.0` of the chain's own shard.
    Ready(u32, u64),
    /// A generation of empty cell `.0` of the chain's own shard.
    Empty(u32, u64),
    /// Nothing: it can run.
    Now,
    /// Somebody else wakes the chain (its input future does), or the call is over.
    Later,
}

/// What a subtask of a chain may do.
pub struct ReplayCx<'a> {
    core: &'a Rc<Core>,
    object: ObjectId,
    spec: &'a ReplayObject,
    shard_position: u32,
}

impl<'a> ReplayCx<'a> {
    pub(crate) fn new(core: &'a Rc<Core>, object: ObjectId, spec: &'a ReplayObject, shard_position: u32) -> Self {
        Self { core, object, spec, shard_position }
    }

    /// How the mapper placed the object.
    #[inline]
    pub fn mapping(&self) -> ExchangeOutput {
        self.spec.mapping
    }

    /// Arrives at ready cell `cell` of `shard`, lending `payload`.
    #[inline]
    pub fn arrive_ready(&mut self, shard: u32, cell: u32, generation: u64, payload: Payload) {
        if self.spec.mapping.memory == MemoryKind::Ordinary && self.spec.gang.at[shard as usize].0 != self.core.id {
            self.core.counters.staged_bytes.add(payload.bytes().len() as u64);
        }
        let at = self.address(shard, self.spec.spec.ready_cells(), cell, 0);
        self.core.arrive(at, generation, payload);
    }

    /// Arrives at empty cell `cell` of `shard`, giving back `payload`.
    #[inline]
    pub fn arrive_empty(&mut self, shard: u32, cell: u32, generation: u64, payload: Payload) {
        let at = self.address(shard, self.spec.spec.empty_cells(), cell, EMPTY);
        self.core.arrive(at, generation, payload);
    }

    #[inline]
    fn address(&self, shard: u32, per_shard: u32, cell: u32, half: u32) -> CellAddress {
        let (processor, local) = self.spec.gang.at[shard as usize];
        CellAddress { processor, object: self.object, cell: half | (local * per_shard + cell) }
    }

    /// Takes what the last arrival at this shard's ready cell `cell` carried.
    #[inline]
    pub fn take_ready(&mut self, cell: u32) -> Payload {
        let cell = self.shard_position * self.spec.spec.ready_cells() + cell;
        self.core.take_payload(self.object, cell)
    }

    /// Takes what the last arrival at this shard's empty cell `cell` gave back.
    #[inline]
    pub fn take_empty(&mut self, cell: u32) -> Payload {
        let cell = self.shard_position * self.spec.spec.empty_cells() + cell;
        self.core.take_payload(self.object, EMPTY | cell)
    }

    /// Whether buffers can move to and from `shard` without being copied.
    #[inline]
    pub fn same_node(&self, shard: u32) -> bool {
        self.core.same_node(self.spec.gang.at[shard as usize].0)
    }

    /// Whether `shard` is on this processor.
    #[inline]
    pub fn same_processor(&self, shard: u32) -> bool {
        self.spec.gang.at[shard as usize].0 == self.core.id
    }

    /// Counts one subtask run.
    #[inline]
    pub fn count_subtask(&mut self) {
        self.core.counters.chain_subtasks.add(1);
    }

    /// Counts a region copied into local memory.
    #[inline]
    pub fn count_copy(&mut self, bytes: usize) {
        self.core.counters.region_copies.add(1);
        self.core.counters.region_copy_bytes.add(bytes as u64);
    }

    /// Whether a protocol bug is planted for a test.
    #[cfg(feature = "plant")]
    pub fn planted(&self, bug: crate::plant::Bug) -> bool {
        self.core.config.strikes(bug)
    }

    /// Settles a future of this processor.
    pub fn resolve<T: 'static>(&mut self, resolver: Resolver<T>, outcome: Result<T, Error>) {
        resolver.settle(self.core, outcome);
    }

    /// Has the chain run again when `future` is settled; false when it is settled already.
    #[must_use]
    pub fn wake_after<T: 'static>(&mut self, chain: u32, future: &TaskFuture<T>) -> bool {
        future.wait(crate::core::Waiting::Chain { object: self.object, chain })
    }

    /// Puts a chain of this object into the ready queue.
    pub fn start(&mut self, chain: u32) {
        self.core.notify(crate::core::Waiting::Chain { object: self.object, chain });
    }

    /// Poisons ready cell `cell` of `shard` from `generation` on.
    pub fn poison_ready(&mut self, shard: u32, cell: u32, generation: u64, error: &Error) {
        let at = self.address(shard, self.spec.spec.ready_cells(), cell, 0);
        self.core.poison(at, generation, error);
    }

    /// Poisons empty cell `cell` of `shard` from `generation` on.
    pub fn poison_empty(&mut self, shard: u32, cell: u32, generation: u64, error: &Error) {
        let at = self.address(shard, self.spec.spec.empty_cells(), cell, EMPTY);
        self.core.poison(at, generation, error);
    }
}

impl Core {
    #[inline]
    fn take_payload(&self, object: ObjectId, cell: u32) -> Payload {
        self.with_bank(object, |bank| bank.take(cell))
    }

    /// Runs subtasks of a chain for as long as the next one is ready and nothing more urgent is.
    pub(crate) fn run_chain(self: &Rc<Self>, object: ObjectId, chain: u32) {
        let Some(entry) = self.object(object) else {
            return;
        };
        let Object::Replay(spec) = &**entry else {
            return;
        };
        let Some(mut replay) = self.take_replay(object) else {
            return;
        };
        let position = chain / spec.spec.chains();
        let mut cx = ReplayCx::new(self, object, spec, position);
        if let Some(error) = self.chain_poison(object, chain) {
            replay.fail(chain, error, &mut cx);
            return self.put_replay(object, replay);
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            loop {
                let (cell, generation) = match replay.run(chain, &mut cx)? {
                    Next::Now => continue,
                    Next::Later => return Ok(()),
                    Next::Ready(cell, generation) => (position * spec.spec.ready_cells() + cell, generation),
                    Next::Empty(cell, generation) => (EMPTY | (position * spec.spec.empty_cells() + cell), generation),
                };
                match self.wait_cell(object, cell, generation, crate::core::Waiting::Chain { object, chain }) {
                    Waited::Registered => return Ok(()),
                    Waited::Poisoned(e) => return Err(e),
                    Waited::Complete if self.more_urgent(spec.mapping.priority) => {
                        cx.start(chain);
                        return Ok(());
                    }
                    Waited::Complete => {}
                }
            }
        }));
        let failed = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(e)) => Some(e),
            Err(panic) => Some(Error::Panicked {
                place: Place {
                    task: spec.spec.name().into(),
                    shard: spec.gang.members[self.id as usize].get(position as usize).copied(),
                },
                message: crate::error::panic_message(panic),
            }),
        };
        if let Some(error) = failed {
            replay.fail(chain, error, &mut cx);
        }
        self.put_replay(object, replay);
    }
}
