//! Combining the values of a group.

use crate::Operator;
use maniple_regions::Element;

/// The values of a group, one after the other, and the lower and higher ones of each pair.
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
    /// Combines the values [pairwise](maniple_runtime::replay::pairwise).
    pub fn combine(&mut self, operator: &Operator<T>, values: impl Iterator<Item = T>) -> T {
        let Self { values: all, lower, higher } = self;
        all.clear();
        all.extend(values);
        while all.len() > 1 {
            let (pairs, half) = (all.chunks_exact(2), all.len() / 2);
            lower.clear();
            lower.extend(pairs.clone().map(|pair| pair[0]));
            higher.clear();
            higher.extend(pairs.map(|pair| pair[1]));
            operator.fold_into(&mut all[..half], lower, higher);
            if all.len() % 2 == 1 {
                all.swap(half, 2 * half);
                all.truncate(half + 1);
            } else {
                all.truncate(half);
            }
        }
        all[0]
    }
}
