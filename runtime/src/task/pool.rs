//! The pool of a node: ready leaf tasks that any processor of the node may run.
//!
//! They wait at the node's home, which has their data. Another processor has at most two of them, so that it has one to go on
//! with while the home learns that it has ended one. The home runs one itself when all others have two.

use super::Tasks;
use crate::effects::{Item, ReadyQueue};
use crate::ids::{ProcessorId, TaskId};
use maniple_mapper::Priority;
use std::cell::RefCell;

/// Stands for any processor of the node.
pub(crate) const ANYWHERE: ProcessorId = ProcessorId(u32::MAX);

/// How many tasks of the pool another processor has at most.
const AHEAD: usize = 2;

pub(crate) struct Pool {
    ready: ReadyQueue,
    /// The processors that run its tasks, but for this one.
    others: Vec<ProcessorId>,
    /// Tasks that were given to processors, some of which may be over.
    given: RefCell<Vec<(TaskId, ProcessorId)>>,
}

impl Pool {
    /// A pool for these processors.
    pub fn new(others: Vec<ProcessorId>) -> Self {
        Self { ready: ReadyQueue::default(), others, given: RefCell::default() }
    }
}

impl Tasks {
    /// Adds a ready task to the pool. It is given to a processor with the next [`refill`](Self::refill).
    #[cold]
    pub(super) fn pool_leaf(&self, id: TaskId, priority: Priority) {
        if let Some(pool) = self.pool.get() {
            pool.ready.push(priority, Item::Leaf(id));
        }
    }

    /// Gives tasks of the pool to processors that have few.
    #[inline(always)]
    pub fn refill(&self) {
        if let Some(pool) = self.pool.get() {
            self.refill_from(pool);
        }
    }

    fn refill_from(&self, pool: &Pool) {
        if pool.ready.is_empty() {
            return;
        }
        let here = self.effects.id;
        let mut given = pool.given.borrow_mut();
        given.retain(|(id, _)| self.leaves.borrow().is_there(*id));
        while !pool.ready.is_empty() {
            let has = |at: ProcessorId| given.iter().filter(|(_, to)| *to == at).count();
            let fewest = pool.others.iter().map(|&at| (has(at), at)).min().filter(|(has, _)| *has < AHEAD);
            let to = match fewest {
                Some((_, at)) => at,
                None if has(here) == 0 => here,
                None => return,
            };
            let Some(Item::Leaf(id)) = pool.ready.pop_nth(|n| self.effects.wire.pick(n)) else { return };
            given.push((id, to));
            let mut leaves = self.leaves.borrow_mut();
            let Some(leaf) = leaves.get(id) else { continue };
            leaf.processor = to;
            let priority = leaf.priority;
            drop(leaves);
            match to == here {
                true => self.effects.queue.push(priority, Item::Leaf(id)),
                false => self.effects.queue.push_away(id),
            }
        }
    }
}
