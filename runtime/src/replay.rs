//! Pre-mapped chains of subtasks that persistent objects replay on each call.
//!
//! A collective does not launch its rounds as fresh leaf tasks: the mapper was asked once, when the object was made, and
//! each call replays the same chain. A chain is an explicit state machine: [`Replay::run`] runs exactly one subtask and
//! says which barrier generation the next one waits for. The runtime does the rest: it queues ready subtasks by
//! priority, delivers arrivals, counts, catches panics and passes poison.

use crate::core::{Core, Local, Waited, Waiting};
use crate::error::panic_message;
use crate::future::{Resolver, TaskFuture};
use crate::message::{ObjectId, ProcessorId};
use crate::object::{CellAddress, EMPTY, GangTable, Object, ReplayObject};
use crate::payload::Payload;
use crate::{Error, Place};
use maniple_mapper::{ExchangeOutput, MemoryKind};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

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
    fn run(&mut self, chain: u32, cx: &mut ReplayCx<'_>) -> Result<Next, Box<Error>>;

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

/// The chains of one object on one processor, with what every subtask needs at hand.
pub(crate) struct Chains {
    state: RefCell<Box<dyn Replay>>,
    gang: Arc<GangTable>,
    mapping: ExchangeOutput,
    processor: ProcessorId,
    per_shard: u32,
    ready_cells: u32,
    empty_cells: u32,
}

impl Chains {
    pub fn new(object: &ReplayObject, processor: ProcessorId) -> Self {
        let (spec, gang) = (&object.spec, object.gang.clone());
        Self {
            state: RefCell::new(spec.materialise(&gang.members[processor as usize], gang.shards())),
            gang,
            mapping: object.mapping,
            processor,
            per_shard: spec.chains().max(1),
            ready_cells: spec.ready_cells(),
            empty_cells: spec.empty_cells(),
        }
    }

    fn shard_at(&self, position: u32) -> u32 {
        self.gang.members[self.processor as usize].get(position as usize).copied().unwrap_or(u32::MAX)
    }

    /// The shard of a chain and what it is doing, for reports.
    pub fn describe(&self, chain: u32) -> (u32, String) {
        let doing = self.state.try_borrow().ok().and_then(|s| s.doing(chain));
        (self.shard_at(chain / self.per_shard), doing.unwrap_or_else(|| "idle".into()))
    }
}

/// What a subtask of a chain may do.
pub struct ReplayCx<'a> {
    core: &'a Rc<Core>,
    local: &'a Local,
    chains: &'a Chains,
    shard_position: u32,
}

impl ReplayCx<'_> {
    /// How the mapper placed the object.
    #[inline]
    pub fn mapping(&self) -> ExchangeOutput {
        self.chains.mapping
    }

    /// Arrives at ready cell `cell` of `shard`, lending `payload`.
    #[inline]
    pub fn arrive_ready(&mut self, shard: u32, cell: u32, generation: u64, payload: Payload) {
        if self.chains.mapping.memory == MemoryKind::Ordinary && self.chains.gang.at[shard as usize].0 != self.core.id {
            self.core.counters.staged_bytes.add(payload.bytes().len() as u64);
        }
        let at = self.address(shard, self.chains.ready_cells, cell, 0);
        self.core.arrive_near(self.local, at, generation, payload);
    }

    /// Arrives at ready cell `cell` of `shard` with a copy of at most [`Payload::INLINE`] bytes.
    #[inline]
    pub fn arrive_ready_with(&mut self, shard: u32, cell: u32, generation: u64, bytes: &[u8]) {
        let at = self.address(shard, self.chains.ready_cells, cell, 0);
        if self.chains.mapping.memory == MemoryKind::Ordinary && at.processor != self.core.id {
            self.core.counters.staged_bytes.add(bytes.len() as u64);
        }
        self.core.arrive_with_bytes(self.local, at, generation, bytes);
    }

    /// Arrives at empty cell `cell` of `shard`, giving back `payload`.
    #[inline]
    pub fn arrive_empty(&mut self, shard: u32, cell: u32, generation: u64, payload: Payload) {
        let at = self.address(shard, self.chains.empty_cells, cell, EMPTY);
        self.core.arrive_near(self.local, at, generation, payload);
    }

    #[inline]
    fn address(&self, shard: u32, per_shard: u32, cell: u32, half: u32) -> CellAddress {
        let (processor, local) = self.chains.gang.at[shard as usize];
        CellAddress { processor, object: self.local.id, cell: half | (local * per_shard + cell) }
    }

    /// Looks at what the last arrival at this shard's ready cell `cell` carried.
    #[inline]
    pub fn look_ready<R>(&mut self, cell: u32, look: impl FnOnce(&[u8]) -> R) -> R {
        let cell = self.shard_position * self.chains.ready_cells + cell;
        look(self.local.bank.borrow().carried(cell).bytes())
    }

    /// Takes what the last arrival at this shard's ready cell `cell` carried.
    #[inline]
    pub fn take_ready(&mut self, cell: u32) -> Payload {
        let cell = self.shard_position * self.chains.ready_cells + cell;
        self.local.bank.borrow_mut().take(cell)
    }

    /// Takes what the last arrival at this shard's empty cell `cell` gave back.
    #[inline]
    pub fn take_empty(&mut self, cell: u32) -> Payload {
        let cell = self.shard_position * self.chains.empty_cells + cell;
        self.local.bank.borrow_mut().take(EMPTY | cell)
    }

    /// Whether buffers can move to and from `shard` without being copied.
    #[inline]
    pub fn same_node(&self, shard: u32) -> bool {
        self.core.same_node(self.chains.gang.at[shard as usize].0)
    }

    /// Whether `shard` is on this processor.
    #[inline]
    pub fn same_processor(&self, shard: u32) -> bool {
        self.chains.gang.at[shard as usize].0 == self.core.id
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
        future.wait(self.waiting(chain))
    }

    /// Puts a chain of this object into the ready queue.
    pub fn start(&mut self, chain: u32) {
        self.core.notify(self.waiting(chain));
    }

    #[inline]
    fn waiting(&self, chain: u32) -> Waiting {
        Waiting::Chain { object: self.local.id, chain, priority: self.chains.mapping.priority }
    }

    /// Poisons ready cell `cell` of `shard` from `generation` on.
    pub fn poison_ready(&mut self, shard: u32, cell: u32, generation: u64, error: &Error) {
        let at = self.address(shard, self.chains.ready_cells, cell, 0);
        self.core.poison(at, generation, error);
    }

    /// Poisons empty cell `cell` of `shard` from `generation` on.
    pub fn poison_empty(&mut self, shard: u32, cell: u32, generation: u64, error: &Error) {
        let at = self.address(shard, self.chains.empty_cells, cell, EMPTY);
        self.core.poison(at, generation, error);
    }
}

impl Core {
    /// Gives `f` the state of a replayed object, if it is of type `R`, and runs what became ready.
    pub(crate) fn with_replay<R: Replay, T>(
        self: &Rc<Self>,
        local: &Local,
        position: u32,
        f: impl FnOnce(&mut R, u32, &mut ReplayCx<'_>) -> T,
    ) -> Option<T> {
        let chains = local.chains.as_ref()?;
        let mut state = chains.state.borrow_mut();
        let any: &mut dyn Any = &mut **state;
        let state = any.downcast_mut::<R>()?;
        Some(f(state, position, &mut ReplayCx { core: self, local, chains, shard_position: position }))
    }

    /// Fails every chain of a shard that is over.
    pub(crate) fn fail_chains(self: &Rc<Self>, local: &Local, position: u32, error: &Error) {
        let Some(chains) = &local.chains else { return };
        let mut state = chains.state.borrow_mut();
        let mut cx = ReplayCx { core: self, local, chains, shard_position: position };
        for chain in position * chains.per_shard..(position + 1) * chains.per_shard {
            state.fail(chain, error.clone(), &mut cx);
        }
    }

    /// Runs subtasks of a chain for as long as the next one is ready and nothing more urgent is.
    pub(crate) fn run_chain(self: &Rc<Self>, object: ObjectId, chain: u32) {
        let Some(local) = self.local(object) else { return };
        let Some(chains) = &local.chains else { return };
        let mut state = chains.state.borrow_mut();
        let position = chain / chains.per_shard;
        let mut cx = ReplayCx { core: self, local: &local, chains, shard_position: position };
        if let Some(error) = self.chain_poison(object, chain) {
            return state.fail(chain, error, &mut cx);
        }
        let run = AssertUnwindSafe(|| self.run_steps(&mut **state, chain, &mut cx));
        let failed = match catch_unwind(run) {
            Ok(Ok(())) => return,
            Ok(Err(e)) => *e,
            Err(panic) => {
                let name = match &*local.object {
                    Object::Replay(r) => r.spec.name().into(),
                    o => o.describe(),
                };
                let place = Place { task: name, shard: Some(chains.shard_at(position)) };
                Error::Panicked { place, message: panic_message(panic) }
            }
        };
        state.fail(chain, failed, &mut cx);
    }

    fn run_steps(&self, state: &mut dyn Replay, chain: u32, cx: &mut ReplayCx<'_>) -> Result<(), Box<Error>> {
        let (local, chains) = (cx.local, cx.chains);
        let (ready, empty) = (cx.shard_position * chains.ready_cells, cx.shard_position * chains.empty_cells);
        loop {
            let (cell, generation) = match state.run(chain, cx)? {
                Next::Now => continue,
                Next::Later => return Ok(()),
                Next::Ready(cell, generation) => (ready + cell, generation),
                Next::Empty(cell, generation) => (EMPTY | (empty + cell), generation),
            };
            match self.wait_cell(local, cell, generation, cx.waiting(chain)) {
                Waited::Registered => return Ok(()),
                Waited::Poisoned(e) => return Err(e),
                Waited::Complete if self.more_urgent(chains.mapping.priority) => {
                    cx.start(chain);
                    return Ok(());
                }
                Waited::Complete => {}
            }
        }
    }
}
