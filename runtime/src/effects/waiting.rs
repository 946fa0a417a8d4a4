//! The kinds of waiters.
//!
//! A barrier or a future keeps its waiters but cannot wake them. It hands each waiter to the closure it was given
//! ([`Tell`]), and `Tasks::tell` acts on it: a leaf task waits for one thing less, a chain is queued, a shard or a
//! waker is woken.

use crate::Error;
use crate::effects::polling;
use crate::ids::{ObjectId, TaskId};
use maniple_mapper::Priority;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
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
    /// A map of futures, of which one is settled: the one with this number.
    OneOf { number: u32, arrivals: Rc<Arrivals> },
    /// A future that is polled with another waker, for example by a combinator.
    Waker(Box<Waker>),
}

/// Which of several futures are settled, in that order, and who awaits the next one.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    settled: RefCell<VecDeque<u32>>,
    waiter: RefCell<Option<Waiting>>,
}

impl Arrivals {
    /// One more is settled. Returns who has awaited it.
    pub fn arrive(&self, number: u32) -> Option<Waiting> {
        self.settled.borrow_mut().push_back(number);
        self.waiter.take()
    }

    /// Takes the next number, or waits for it in place of the one that waited before.
    pub fn next(&self, waker: &Waker) -> Option<u32> {
        let next = self.settled.borrow_mut().pop_front();
        let waiter = next.is_none().then(|| polling::waiting(waker));
        // Wakers are dropped while nothing is borrowed: their code is not ours.
        drop(self.waiter.replace(waiter));
        next
    }

    /// Nobody awaits the next one any more.
    pub fn give_up(&self) {
        // It is dropped while nothing is borrowed.
        if self.waiter.take().is_some() {
            polling::note_awaited();
        }
    }

    /// Shows who awaits the next one, if somebody does.
    pub fn look(&self, each: &mut dyn FnMut(&Waiting)) {
        self.waiter.borrow().iter().for_each(each);
    }
}

/// A closure that is told of each waiter that is done waiting. It gets the error if the wait failed.
pub(crate) trait Tell: FnMut(Waiting, Option<&Error>) {}
impl<F: FnMut(Waiting, Option<&Error>)> Tell for F {}
