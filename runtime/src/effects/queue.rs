//! The ready queue: everything that can run on a processor now, by priority.

use crate::ids::{ObjectId, TaskId};
use maniple_mapper::Priority;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// An item that can run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Chain {
        object: ObjectId,
        chain: u32,
    },
    /// A value that came for a chain's cell before the chain's turn to read it.
    Offer {
        object: ObjectId,
        cell: u32,
    },
    Leaf(TaskId),
    /// A leaf task that runs on another processor.
    Away(TaskId),
    Shard(u32),
}

/// A level above all priorities: a task for another processor is sent before anything runs here, so that it starts
/// early.
const AWAY: usize = Priority::LEVELS as usize;

/// Ready items by priority, first in first out within one priority.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    levels: RefCell<[VecDeque<Item>; AWAY + 1]>,
    /// Bit i is set when level i is not empty.
    filled: Cell<u32>,
}

impl ReadyQueue {
    #[inline]
    pub fn push(&self, priority: Priority, item: Item) {
        self.push_at(usize::from(priority.0), item);
    }

    /// Adds a leaf task that runs on another processor.
    pub fn push_away(&self, task: TaskId) {
        self.push_at(AWAY, Item::Away(task));
    }

    #[inline]
    fn push_at(&self, level: usize, item: Item) {
        self.filled.set(self.filled.get() | 1 << level);
        self.levels.borrow_mut()[level].push_back(item);
    }

    /// Takes one of the highest level's items. `pick` gets their number and returns an index; the oldest is 0.
    #[inline]
    pub fn pop_nth(&self, pick: impl FnOnce(usize) -> usize) -> Option<Item> {
        let level = self.filled.get().checked_ilog2()?;
        let queue = &mut self.levels.borrow_mut()[level as usize];
        let item = match pick(queue.len()) {
            0 => queue.pop_front(),
            n => {
                let n = n % queue.len();
                queue.remove(n)
            }
        };
        if queue.is_empty() {
            self.filled.set(self.filled.get() & !(1 << level));
        }
        item
    }

    /// Whether there is an item of a higher priority.
    #[inline]
    pub fn has_above(&self, priority: Priority) -> bool {
        self.filled.get() >> priority.0 > 1
    }

    pub fn is_empty(&self) -> bool {
        self.filled.get() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_first_and_fifo_within_a_level() {
        let q = ReadyQueue::default();
        for (p, i) in [(3, 0), (3, 1), (6, 2), (0, 3), (6, 4)] {
            q.push(Priority(p), Item::Shard(i));
        }
        assert!(q.has_above(Priority(5)) && !q.has_above(Priority(6)));
        let away = TaskId { index: 5, turn: 0 };
        q.push_away(away);
        assert!(q.has_above(Priority(Priority::LEVELS - 1)));
        assert_eq!(q.pop_nth(|_| 0), Some(Item::Away(away)));
        let order: Vec<_> = std::iter::from_fn(|| q.pop_nth(|_| 0)).collect();
        assert_eq!(order, [2, 4, 0, 1, 3].map(Item::Shard));
        assert!(q.is_empty());
    }
}
