use crate::message::ObjectId;
use maniple_mapper::Priority;
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
    levels: [VecDeque<Item>; Priority::LEVELS as usize],
    /// Bit i is set when level i is not empty.
    filled: u32,
}

impl ReadyQueue {
    #[inline]
    pub fn push(&mut self, priority: Priority, item: Item) {
        self.filled |= 1 << priority.0;
        self.levels[usize::from(priority.0)].push_back(item);
    }

    /// Takes one of the highest level's items: number `pick(how many)`, the oldest being number 0.
    #[inline]
    pub fn pop_nth(&mut self, pick: impl FnOnce(usize) -> usize) -> Option<Item> {
        let level = self.highest()?;
        let queue = &mut self.levels[usize::from(level)];
        let item = match pick(queue.len()) {
            0 => queue.pop_front(),
            n => queue.remove(n % queue.len()),
        };
        if queue.is_empty() {
            self.filled &= !(1 << level);
        }
        item
    }

    #[inline]
    pub fn highest(&self) -> Option<u8> {
        self.filled.checked_ilog2().map(|l| l as u8)
    }

    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_first_and_fifo_within_a_level() {
        let mut q = ReadyQueue::default();
        for (p, i) in [(3, 0), (3, 1), (6, 2), (0, 3), (6, 4)] {
            q.push(Priority(p), Item::Shard(i));
        }
        let order: Vec<_> = std::iter::from_fn(|| q.pop_nth(|_| 0)).collect();
        assert_eq!(order, [2, 4, 0, 1, 3].map(Item::Shard));
        assert!(q.is_empty());
    }
}
