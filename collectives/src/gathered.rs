//! Combining the values of a group.

use crate::Operator;
use maniple_regions::Element;
use std::ops::Range;

/// The most values that are combined level by level, in buffers. The results of larger groups are combined one by one, which
/// takes no memory.
const BLOCK: u32 = 64;

/// The values of a level of the tree, and the lower and higher ones of the pairs that they come from.
pub struct Gathered<T> {
    values: Vec<T>,
    lower: Vec<T>,
    higher: Vec<T>,
}

impl<T> Gathered<T> {
    pub const fn new() -> Self {
        Self { values: Vec::new(), lower: Vec::new(), higher: Vec::new() }
    }
}

impl<T: Element> Gathered<T> {
    /// Combines values [in pairs](crate::fold_in_pairs). There is at least one.
    pub fn combine(&mut self, operator: &Operator<T>, range: Range<u32>, value: &impl Fn(u32) -> T) -> T {
        let Range { start, end } = range;
        let size = end - start;
        if size > BLOCK {
            let middle = start + size.next_power_of_two() / 2;
            let below = self.combine(operator, start..middle, value);
            return operator.combine(&below, &self.combine(operator, middle..end, value));
        }
        let Self { values, lower, higher } = self;
        lower.resize(size as usize / 2, T::zeroed());
        higher.resize(size as usize / 2, T::zeroed());
        for (i, (low, high)) in (0..).zip(lower.iter_mut().zip(&mut *higher)) {
            (*low, *high) = (value(start + 2 * i), value(start + 2 * i + 1));
        }
        let mut odd = (size % 2 == 1).then(|| value(end - 1));
        loop {
            values.resize(lower.len(), T::zeroed());
            operator.fold_into(values, lower, higher);
            // The last one of the next level.
            values.extend(odd);
            if values.len() < 2 {
                return values[0];
            }
            let pairs = values.chunks_exact(2);
            odd = pairs.remainder().first().copied();
            lower.clear();
            lower.extend(pairs.clone().map(|pair| pair[0]));
            higher.clear();
            higher.extend(pairs.map(|pair| pair[1]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold_in_pairs;

    #[test]
    fn values_are_combined_as_pairs_are() {
        // Every other operand order and every other bracket gives another value.
        let hash = |a: &u64, b: &u64| (a.wrapping_mul(31) ^ b.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let operator = Operator::user("hash", hash);
        let mut gathered = Gathered::new();
        for n in (1..=300).chain([511, 512, 513, 1000, 4096]) {
            let mut expected: Vec<u64> = (0..n).map(|i| u64::from(i) + 7).collect();
            fold_in_pairs(n, |i, j| expected[i as usize] = hash(&expected[i as usize], &expected[j as usize]));
            assert_eq!(gathered.combine(&operator, 0..n, &|i| u64::from(i) + 7), expected[0], "{n}");
        }
    }
}
