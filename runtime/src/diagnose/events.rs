//! What happens on a processor, by name, for those who observe a run: the trace and the check for races.

use super::races::{Actor, Past};
use crate::ids::{Ancestors, ArrivalAt, LaunchKey, ObjectId, ProcessorId, TaskId, WaitAt};

/// Something that happens. Leaf tasks are this processor's; a shard is an [`Actor`].
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
    /// Messages of this processor to itself are taken in.
    OwnReceived,
    /// In a turn there was nothing to do.
    Idle,
    /// The processor sleeps until there is something to do.
    Parked,
    /// The top-level task begins, which is on no executor yet.
    TopLevelBegan,
    /// A future is in a slot of the executor: a shard's, or another one.
    InSlot {
        slot: u32,
        task: &'a str,
        shard: Option<u32>,
    },
    /// The future in a slot is polled.
    Polled {
        slot: u32,
    },
    /// The future that is polled is over.
    LastPolled {
        slot: u32,
    },
    /// A chain is run; `first` tells whose it is and which call it is at.
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
    /// The same lets a shard go on.
    ShardReleased {
        object: ObjectId,
        generation: u64,
        slot: u32,
    },
    /// A leaf task waits for a generation, for which so many wait.
    TaskWaits {
        task: TaskId,
        at: WaitAt,
        waiters: usize,
    },
    /// A leaf task is called, for this processor or, with no number, for another one.
    TaskCalled {
        name: &'static str,
        shard: u32,
        task: Option<TaskId>,
    },
    /// A leaf task whose turn it is is not called here: it has failed before, or runs on another processor.
    TaskDispatched {
        task: TaskId,
    },
    /// A leaf task has succeeded, and arrives.
    TaskEnded {
        task: TaskId,
        arrivals: &'a [ArrivalAt],
    },
    /// A leaf task has failed, and so do its arrivals.
    TaskFailed {
        task: TaskId,
        arrivals: &'a [ArrivalAt],
    },
    /// A leaf task that waits is not waited for any more, as its shard has failed.
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
    /// A shard has failed: what it owes will not come.
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
    /// A shard has taken a generation that it waits for.
    Waits {
        at: WaitAt,
    },
    /// A shard has waited for a generation, for which so many wait.
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
    /// A shard gives back a generation that it has taken.
    WaitGivenUp {
        at: WaitAt,
    },
    /// A shard makes a call of a collective, its call number so. It sees no futures before [`Event::CallMade`].
    Calls {
        shard: Actor,
        object: ObjectId,
        call: u64,
    },
    CallMade,
    /// A call takes a future as its input.
    CallTakes {
        object: ObjectId,
        call: u64,
        input: Past,
    },
    /// Whoever is polled launches shards; if nobody is, this processor's top-level task does.
    Launched {
        launch: LaunchKey,
    },
    /// Whoever is polled has mapped a region, and launches as number `launcher`.
    Mapped {
        launcher: u32,
    },
    /// A parent is over.
    LauncherEnded {
        launcher: u32,
    },
}
