//! What can run on a processor now, by priority.

use crate::message::ObjectId;
use maniple_mapper::Priority;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// A leaf task of this processor: a place in its slab and the use of that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub index: u32,
    pub turn: u32,
}

/// Something that can run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Chain { object: ObjectId, chain: u32 },
    Leaf(TaskId),
    Shard(u32),
}

/// Ready items by priority, first in first out within one.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    levels: RefCell<[VecDeque<Item>; Priority::LEVELS as usize]>,
    /// Bit i is set when level i is not empty.
    filled: Cell<u32>,
}

impl ReadyQueue {
    #[inline]
    pub fn push(&self, priority: Priority, item: Item) {
        self.filled.set(self.filled.get() | 1 << priority.0);
        self.levels.borrow_mut()[usize::from(priority.0)].push_back(item);
    }

    /// Takes one of the highest level's items: number `pick(how many)`, the oldest being number 0.
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

    /// Whether there is an item of a higher level.
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
        let order: Vec<_> = std::iter::from_fn(|| q.pop_nth(|_| 0)).collect();
        assert_eq!(order, [2, 4, 0, 1, 3].map(Item::Shard));
        assert!(q.is_empty());
    }
}
