//! The kinds of waiters.
//!
//! A barrier or a future keeps its waiters but cannot wake them. It hands each waiter to the closure it was given
//! ([`Tell`]), and `Tasks::tell` acts on it: a leaf task waits for one thing less, a chain is queued, a shard or a
//! waker is woken.

use crate::Error;
use crate::ids::{ObjectId, TaskId};
use maniple_mapper::Priority;
use std::task::Waker;

/// A waiter that is told when something completes.
// The tag has a word of its own. Beside a tag of one byte, the compiler copies a waiter in pieces that overlap. Who then reads
// a word of it waits for all earlier stores, messages to other processors among them.
#[derive(Debug)]
#[repr(u32)]
pub(crate) enum Waiting {
    /// A leaf task, which then waits for one thing less.
    Task(TaskId),
    /// A replayed chain, which may then run its next subtask.
    Chain { object: ObjectId, chain: u32, priority: Priority },
    /// Nobody yet: a value has come for a chain's cell before the chain's turn to read it, and is offered.
    Offer { object: ObjectId, cell: u32, priority: Priority },
    /// A shard of this processor, which is then polled.
    Shard(u32),
    /// A future that is polled with another waker, for example by a combinator.
    Waker(Box<Waker>),
}

/// A closure that is told of each waiter that is done waiting. It gets the error if the wait failed.
pub(crate) trait Tell: FnMut(Waiting, Option<&Error>) {}
impl<F: FnMut(Waiting, Option<&Error>)> Tell for F {}
