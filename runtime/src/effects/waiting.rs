//! Who waits for something, and is told when it is there.

use crate::Error;
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

/// Is told who need not wait any more, with the reason if what they wait for will never be there.
pub(crate) trait Tell: FnMut(Waiting, Option<&Error>) {}
impl<F: FnMut(Waiting, Option<&Error>)> Tell for F {}
