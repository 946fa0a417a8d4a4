//! A table by object number, for look-ups in every round of a collective. Objects come and go, so their numbers grow while
//! the table does not.

use crate::ids::ObjectId;

/// Values by object number: a hash table whose hash is the number's low bits. Numbers are given out in order. So an object
/// is nearly always in its own place, where a look-up compares one number.
pub(crate) struct Table<T> {
    /// None, or a power of two of them, of which at least half are free. A value is in its own place or after it, with no
    /// free place between.
    places: Vec<(ObjectId, Option<T>)>,
    len: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { places: Vec::new(), len: 0 }
    }
}

impl<T> Table<T> {
    /// The number's own place.
    #[inline(always)]
    fn own(&self, object: ObjectId) -> usize {
        object as usize & self.places.len().wrapping_sub(1)
    }

    #[inline]
    pub fn get(&self, object: ObjectId) -> Option<&T> {
        match self.places.get(self.own(object)) {
            Some((number, value)) if *number == object => value.as_ref(),
            _ => self.places[self.find(object)?].1.as_ref(),
        }
    }

    #[inline]
    pub fn get_mut(&mut self, object: ObjectId) -> Option<&mut T> {
        let own = self.own(object);
        if self.places.get(own).is_some_and(|(number, _)| *number == object) {
            return self.places[own].1.as_mut();
        }
        let at = self.find(object)?;
        self.places[at].1.as_mut()
    }

    /// The place of a value.
    #[inline(never)]
    fn find(&self, object: ObjectId) -> Option<usize> {
        let mut at = self.own(object);
        while let (number, Some(_)) = self.places.get(at)? {
            if *number == object {
                return Some(at);
            }
            at = (at + 1) & (self.places.len() - 1);
        }
        None
    }

    /// Adds a value under a number that has none.
    pub fn insert(&mut self, object: ObjectId, value: T) {
        if 2 * (self.len + 1) > self.places.len() {
            self.resize(2 * (self.len + 1).next_power_of_two());
        }
        self.put(object, value);
        self.len += 1;
    }

    fn put(&mut self, object: ObjectId, value: T) {
        let last = self.places.len() - 1;
        let mut at = self.own(object);
        while self.places[at].1.is_some() {
            at = (at + 1) & last;
        }
        self.places[at] = (object, Some(value));
    }

    fn resize(&mut self, places: usize) {
        let new = (0..places).map(|_| (0, None)).collect();
        for (object, value) in std::mem::replace(&mut self.places, new) {
            value.into_iter().for_each(|value| self.put(object, value));
        }
    }

    pub fn remove(&mut self, object: ObjectId) -> Option<T> {
        let at = self.find(object)?;
        let removed = self.places[at].1.take();
        self.len -= 1;
        if self.len * 8 < self.places.len() {
            self.resize(if self.len == 0 { 0 } else { 2 * self.len.next_power_of_two() });
            return removed;
        }
        // Those behind move up, as a look-up ends at a free place.
        let last = self.places.len() - 1;
        let mut behind = (at + 1) & last;
        while let (object, Some(value)) = std::mem::take(&mut self.places[behind]) {
            self.put(object, value);
            behind = (behind + 1) & last;
        }
        removed
    }

    /// The numbers, in ascending order.
    pub fn numbers(&self) -> Vec<ObjectId> {
        let there = self.places.iter().filter(|(_, value)| value.is_some());
        let mut numbers: Vec<ObjectId> = there.map(|(object, _)| *object).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Numbers that share their low bits are among them.
        #[test]
        fn a_table_is_a_map(steps in prop::collection::vec((any::<bool>(), 0u32..6, 0u32..5), 1..200)) {
            let (mut table, mut map) = (Table::default(), BTreeMap::new());
            for (at, (add, low, high)) in steps.into_iter().enumerate() {
                let number = low + (high << 6);
                if add && !map.contains_key(&number) {
                    table.insert(number, at);
                    map.insert(number, at);
                } else {
                    prop_assert_eq!(table.remove(number), map.remove(&number));
                }
                for number in (0..5).flat_map(|high| (0..7).map(move |low| low + (high << 6))) {
                    prop_assert_eq!(table.get(number), map.get(&number));
                    prop_assert_eq!(table.get_mut(number), map.get_mut(&number));
                }
                prop_assert_eq!(table.numbers(), map.keys().copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_table_is_as_small_as_what_is_in_it() {
        let mut table = Table::default();
        for step in 0..100_000 {
            table.insert(step, step);
            if step >= 10 {
                assert_eq!(table.remove(step - 10), Some(step - 10));
            }
            assert!(table.places.len() <= 64, "{} places in step {step}", table.places.len());
        }
        (99_990..100_000).for_each(|number| assert!(table.remove(number).is_some()));
        assert!(table.places.is_empty() && table.numbers().is_empty());
    }
}
