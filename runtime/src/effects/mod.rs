//! What a processor does next and what it has to send.

pub(crate) mod executor;
pub(crate) mod mappers;
pub(crate) mod polling;
pub(crate) mod queue;
pub(crate) mod timers;

pub(crate) use executor::Signal;
pub(crate) use mappers::Asker;
pub(crate) use timers::Timer;

use crate::ids::ObjectId;
use crate::ids::TaskId;
use maniple_mapper::Priority;
use std::task::Waker;

/// Who is told when something completes.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A leaf task has one thing less to wait for.
    Task(TaskId),
    /// A replayed chain may run its next subtask.
    Chain { object: ObjectId, chain: u32, priority: Priority },
    /// A shard of this processor is to be polled.
    Shard(u32),
    /// A future is polled by somebody else's waker (a combinator, say).
    Waker(Box<Waker>),
}

/// An arrival at an empty half, on another processor, of a chain's cell.
pub(crate) struct Late {
    pub object: ObjectId,
    pub cell: u32,
    pub generation: u64,
}
