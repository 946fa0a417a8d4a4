//! The event queue of virtual time. Events at the same time keep the order in which they were put in.
//!
//! It is a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, 1990). Nothing is put in before the time of the last event
//! taken out. So it is enough to sort events by the highest bit in which their time differs from that one. Events at
//! the same time are always in one bucket, in order.

use super::machine::Ps;
use std::collections::VecDeque;

const BUCKETS: usize = Ps::BITS as usize;

/// Items at the time of the last one taken out or later.
pub(super) struct Queue<T> {
    /// The time of the last item taken out.
    now: Ps,
    /// Items that happen now.
    present: VecDeque<T>,
    /// The other items. Bucket i has those whose highest bit that differs from `now` is bit i.
    later: [Vec<(Ps, T)>; BUCKETS],
    /// Bit i is set when bucket i is not empty.
    filled: u64,
}

impl<T> Queue<T> {
    pub fn new() -> Self {
        Self { now: 0, present: VecDeque::new(), later: std::array::from_fn(|_| Vec::new()), filled: 0 }
    }

    /// An item before the present time happens now.
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

    /// Sets the time back to `now`, if it is earlier than the last item taken out.
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
        // All items went to lower buckets. The memory is kept for this bucket's next items, unless it is a lot.
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
        /// It gives the same order as a heap of times and numbers.
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
