//! What is to happen in virtual time, in order: by time, and what happens at the same time in the order it was put in.
//!
//! A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, 1990): nothing is put in before the time of what was last taken out, so
//! that it is enough to keep items apart by the highest bit in which their times differ from that one. All of the same time
//! are always in one bucket, in order.

use super::machine::Ps;
use std::collections::VecDeque;

const BUCKETS: usize = Ps::BITS as usize;

/// Items that happen at the same time or later than the last one taken out.
pub(super) struct Queue<T> {
    /// When the last one happened.
    now: Ps,
    /// Those that happen now.
    present: VecDeque<T>,
    /// Of the others, bucket i has those whose times differ from `now` in bit i, and in none above it.
    later: [Vec<(Ps, T)>; BUCKETS],
    /// Bit i is set when bucket i is not empty.
    filled: u64,
}

impl<T> Queue<T> {
    pub fn new() -> Self {
        Self { now: 0, present: VecDeque::new(), later: std::array::from_fn(|_| Vec::new()), filled: 0 }
    }

    /// What has no place in time any more happens now.
    #[inline]
    pub fn push(&mut self, at: Ps, item: T) {
        match (at.max(self.now) ^ self.now).checked_ilog2() {
            None => self.present.push_back(item),
            Some(bucket) => {
                self.filled |= 1 << bucket;
                self.later[bucket as usize].push((at, item));
            }
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(Ps, T)> {
        if self.present.is_empty() && !self.go_on() {
            return None;
        }
        self.present.pop_front().map(|item| (self.now, item))
    }

    /// The last item taken out does not count: now is `now`, if that was before it.
    pub fn go_back(&mut self, now: Ps) {
        if now >= self.now {
            return;
        }
        let before = std::mem::replace(self, Self { now, ..Self::new() });
        before.present.into_iter().for_each(|item| self.push(before.now, item));
        before.later.into_iter().flatten().for_each(|(at, item)| self.push(at, item));
    }

    /// Goes on to the time of the next items; false if there are none.
    fn go_on(&mut self) -> bool {
        if self.filled == 0 {
            return false;
        }
        let bucket = self.filled.trailing_zeros() as usize;
        self.filled &= !(1 << bucket);
        let mut items = std::mem::take(&mut self.later[bucket]);
        let Some(next) = items.iter().map(|(at, _)| *at).min() else { return false };
        self.now = next;
        items.drain(..).for_each(|(at, item)| self.push(at, item));
        // All went to lower buckets: the memory of this one is for its next items, unless it is much.
        if items.capacity() <= 1024 {
            self.later[bucket] = items;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    proptest! {
        /// It gives out what a heap of times and numbers does.
        #[test]
        fn by_time_and_then_by_number(
            steps in prop::collection::vec(prop::option::weighted(0.6, prop_oneof![
                Just(0), 0u64..4, 0u64..1000, 0u64..u64::MAX / 600
            ]), 0..500)
        ) {
            let (mut queue, mut heap) = (Queue::new(), BinaryHeap::new());
            let mut now = 0;
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Some(later) if number % 17 == 16 => {
                        now -= now.min(later);
                        queue.go_back(now);
                    }
                    Some(later) => {
                        queue.push(now + later, number);
                        heap.push(Reverse((now + later, number)));
                    }
                    None => {
                        let next = heap.pop().map(|Reverse(next)| next);
                        prop_assert_eq!(queue.pop(), next);
                        now = next.map_or(now, |next| next.0);
                    }
                }
            }
            while let Some(Reverse(next)) = heap.pop() {
                prop_assert_eq!(queue.pop(), Some(next));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
