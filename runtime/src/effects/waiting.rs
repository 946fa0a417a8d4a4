//! Who waits for something, and is told when it is there.

use crate::ids::{ObjectId, TaskId};
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
