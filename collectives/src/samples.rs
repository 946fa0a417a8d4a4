//! Trying the laws of an operator.

use crate::Operator;
use maniple_regions::Element;

/// Some of the values that were combined last.
pub struct Samples<T> {
    last: Vec<T>,
    count: usize,
}

impl<T> Default for Samples<T> {
    fn default() -> Self {
        Self { last: Vec::new(), count: 0 }
    }
}

impl<T: Element> Samples<T> {
    /// Tries the laws on an element of these values and on two of others.
    ///
    /// # Panics
    ///
    /// If a law does not hold. The call then fails.
    pub fn sample(&mut self, operator: &Operator<T>, values: &[T]) {
        let Some(&next) = values.get(self.count % values.len().max(1)) else { return };
        self.count += 1;
        if let [a, b] = self.last[..] {
            self.last = vec![b, next];
            if let Err(broken) = operator.sample(a, b, next) {
                panic!("{broken}");
            }
        } else {
            self.last.push(next);
        }
    }
}
