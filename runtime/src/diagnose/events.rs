//! The events on a processor, for observers of a run: the trace and the check for races.

use super::races::{Actor, Past};
use crate::ids::{Ancestors, ArrivalAt, LaunchKey, ObjectId, ProcessorId, TaskId, WaitAt};
use crate::names::TaskName;

/// An event. Leaf tasks belong to this processor; a shard is an [`Actor`].
pub(crate) enum Event<'a> {
    /// A message goes to another processor.
    Sent {
        to: ProcessorId,
        name: &'static str,
    },
    /// A message has come from another processor.
    Received {
        from: ProcessorId,
        name: &'static str,
    },
    /// The processor handles messages to itself.
    OwnReceived,
    /// A message came that was sent without an event: it compares top-level tasks, or says that values have left.
    NoticeReceived,
    /// A turn had nothing to do.
    Idle,
    /// The processor sleeps until there is something to do.
    Parked,
    /// An object's memory is given back: it was destroyed, and its last users have ended.
    Freed {
        object: ObjectId,
    },
    /// The top-level task begins. It is in no slot of the executor yet.
    TopLevelBegan,
    /// A future is put in a slot of the executor: a shard's, or another one.
    InSlot {
        slot: u32,
        task: &'a str,
        shard: Option<u32>,
    },
    /// The future in a slot is polled.
    Polled {
        slot: u32,
    },
    /// The future that is being polled has ended.
    LastPolled {
        slot: u32,
    },
    /// A chain is run; `first` gives its shard and the number of its call.
    ChainRan {
        object: ObjectId,
        first: &'a dyn Fn() -> Option<(u32, u64)>,
    },
    /// An arrival lets a chain go on.
    ChainReleased {
        object: ObjectId,
    },
    /// An arrival, or the end of a generation, lets a leaf task go on.
    TaskReleased {
        object: ObjectId,
        generation: u64,
        task: TaskId,
    },
    /// An arrival, or the end of a generation, lets a shard go on.
    ShardReleased {
        object: ObjectId,
        generation: u64,
        slot: u32,
    },
    /// A leaf task waits for a generation; `waiters` is how many wait for it.
    TaskWaits {
        task: TaskId,
        at: WaitAt,
        waiters: usize,
    },
    /// A leaf task is called. It has a number unless it is called for another processor.
    TaskCalled {
        name: TaskName,
        shard: u32,
        task: Option<TaskId>,
    },
    /// A leaf task has its turn but is not called here: it has failed before, or runs on another processor.
    TaskDispatched {
        task: TaskId,
    },
    /// A leaf task has succeeded, and some of its arrivals are under way with its changes.
    TaskArrives {
        task: TaskId,
        arrivals: &'a [ArrivalAt],
    },
    /// A leaf task has succeeded, and arrives.
    TaskEnded {
        task: TaskId,
        arrivals: &'a [ArrivalAt],
    },
    /// A leaf task has failed, and its arrivals are poisoned.
    TaskFailed {
        task: TaskId,
        arrivals: &'a [ArrivalAt],
    },
    /// A waiting leaf task is given up, because its shard has failed.
    TaskDropped {
        task: TaskId,
    },
    ShardStarted {
        shard: Actor,
        within: &'a Ancestors,
    },
    ShardEnded {
        shard: Actor,
    },
    /// A shard has failed: the arrivals that it owes will not come.
    ShardFailed {
        shard: Actor,
    },
    /// A shard has waited for its leaf tasks.
    TasksAwaited {
        shard: Actor,
    },
    Arrived {
        shard: Actor,
        at: ArrivalAt,
    },
    /// A shard begins to wait for a generation.
    Waits {
        at: WaitAt,
    },
    /// A shard has waited for a generation; `waiters` is how many wait for it.
    Waited {
        shard: Actor,
        at: WaitAt,
        waiters: usize,
    },
    /// A shard has waited for a generation that will not come.
    WaitedInVain {
        shard: Actor,
        at: WaitAt,
    },
    /// A shard gives up its wait for a generation.
    WaitGivenUp {
        at: WaitAt,
    },
    /// A shard makes this call of a collective. Until [`Event::CallMade`] it sees no futures.
    Calls {
        shard: Actor,
        object: ObjectId,
        call: u64,
    },
    CallMade,
    /// A shard's part of a call takes a future as its input.
    CallTakes {
        object: ObjectId,
        call: u64,
        shard: u32,
        /// The number of a block, 0 for a whole input, and its future.
        input: (u32, Past),
    },
    /// The future that is being polled launches shards. If none is being polled, this processor's top-level task does.
    Launched {
        launch: LaunchKey,
    },
    /// An inner task has ended.
    LauncherEnded {
        launcher: u32,
    },
}
