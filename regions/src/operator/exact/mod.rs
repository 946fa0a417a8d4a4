//! Exact sums of floats.
//!
//! The sum is kept as one wide integer, in units of the smallest positive float. Additions of integers are exact, and
//! their order does not matter, down to the bits of the state. Rounding happens once, in [`ExactSum::value`].
//!
//! Adding to a wide integer may carry through all its words. So slices are first added to *chunks*, one for each word,
//! which are so wide that nothing can carry out of them within a block of elements. This is the small superaccumulator of
//! R. M. Neal, *Fast exact summation using small and large superaccumulators* (2015). Unlike Neal, we carry the chunks into
//! one wide integer: it is smaller, and each number has one representation.

mod float;
#[cfg(test)]
mod tests;
mod wide;

use std::fmt;

use bytemuck::{Pod, Zeroable};

use super::builtin::Builtin;
use super::{Laws, Operator, Stateful};

pub use float::Summand;

/// A sum of `f64`s or `f32`s without rounding errors, until [`value`](Self::value) rounds it once.
///
/// The state has the same bits for the same elements, in whatever order they are added, and however the partial sums are
/// merged. It is plain data: 280 bytes for `f64`, 56 for `f32`. The sum of no elements is all zero bytes, so a new region
/// of exact sums is ready for use. Up to 2⁷⁷ elements can be added to one `f64` sum, 2¹⁰⁶ to an `f32` one.
///
/// | elements | value |
/// |---|---|
/// | finite | the exact sum, rounded to nearest, ties to even; beyond the greatest finite number ±∞ |
/// | a NaN, or +∞ and −∞ | the positive quiet NaN without payload |
/// | one or more +∞, or −∞ | +∞, or −∞ |
/// | an exact sum of zero | +0 |
/// | only −0, or none | −0, as in a loop that starts with −0, the identity of the sum |
///
/// ```
/// use maniple_regions::ExactSum;
///
/// let mut sum = ExactSum::zero();
/// sum.add_slice(&[1e300, 1.0, -1e300, 1e-300]);
/// sum.add(-1.0);
/// assert_eq!(sum.value(), 1e-300);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct ExactSum<T>(T::Words)
where
    T: Summand;

/// What has been added, beside finite numbers: bits of the last word.
mod seen {
    /// Anything but −0.
    pub const NOT_MINUS_ZERO: u64 = 1;
    pub const NAN: u64 = 2;
    pub const INFINITY: u64 = 4;
    pub const MINUS_INFINITY: u64 = 8;
}

impl<T: Summand> ExactSum<T> {
    /// The sum of no elements.
    pub fn zero() -> Self {
        Self::zeroed()
    }

    /// Adds one element.
    pub fn add(&mut self, x: T) {
        let (words, seen) = self.split();
        *seen |= see(x);
        if let Some((mantissa, position)) = float::finite(x) {
            let value = u128::from(mantissa) << (position % 64);
            wide::add(words, (position / 64) as usize, value, x.is_negative());
        }
    }

    /// Adds all elements of a slice. Much faster than one by one.
    pub fn add_slice(&mut self, elements: &[T]) {
        /// Below this many elements the chunks cost more than they save.
        const FEW: usize = 8;
        if elements.len() < FEW {
            elements.iter().for_each(|&x| self.add(x));
            return;
        }
        let (words, seen) = self.split();
        for block in elements.chunks(T::BLOCK) {
            if !T::accumulate(words, seen, block) {
                *seen |= block.iter().fold(0, |seen, &x| seen | see(x));
            }
        }
    }

    /// Adds all elements of another sum.
    pub fn merge(&mut self, other: &Self) {
        let (words, seen) = self.split();
        if let [others @ .., others_seen] = other.0.as_ref() {
            wide::add_all(words, others);
            *seen |= others_seen;
        }
    }

    /// The sum, rounded.
    pub fn value(&self) -> T {
        let mut copy = *self;
        let (words, seen) = copy.split();
        let seen = *seen;
        match (seen & seen::INFINITY != 0, seen & seen::MINUS_INFINITY != 0) {
            _ if seen & seen::NAN != 0 => T::NAN,
            (true, true) => T::NAN,
            (true, false) => T::GREATEST,
            (false, true) => T::LEAST,
            // A sum of only −0s is −0, which is the sum's identity.
            _ if seen & seen::NOT_MINUS_ZERO == 0 => T::ZERO,
            _ => {
                let negative = wide::take_sign(words);
                float::round(words, negative)
            }
        }
    }

    /// The operator that [merges](Self::merge) sums. It is associative and commutative bit for bit.
    pub fn operator() -> Operator<Self> {
        Operator::builtin::<Merge>()
    }

    /// The wide integer, and what has been seen.
    fn split(&mut self) -> (&mut [u64], &mut u64) {
        match self.0.as_mut() {
            [words @ .., seen] => (words, seen),
            [] => unreachable!("the state has words"),
        }
    }
}

/// The marks of an element.
fn see<T: Summand>(x: T) -> u64 {
    let special = match () {
        () if x.is_nan() => seen::NAN,
        () if x.is_same(T::GREATEST) => seen::INFINITY,
        () if x.is_same(T::LEAST) => seen::MINUS_INFINITY,
        () => 0,
    };
    special | if x.is_same(T::ZERO) { 0 } else { seen::NOT_MINUS_ZERO }
}

impl<T: Summand> Default for ExactSum<T> {
    fn default() -> Self {
        Self::zero()
    }
}

/// For example `ExactSum(1.5)`.
impl<T: Summand> fmt::Debug for ExactSum<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExactSum({:?})", self.value())
    }
}

struct Merge;

impl<T: Summand> Builtin<ExactSum<T>> for Merge {
    const NAME: &'static str = "exact_sum";
    const LAWS: Laws = Laws::ORDER_IS_FREE;
    const IDENTITY: Option<ExactSum<T>> = Some(ExactSum(T::NO_WORDS));

    fn fold(running: &mut [ExactSum<T>], incoming: &[ExactSum<T>]) {
        running.iter_mut().zip(incoming).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    fn fold_into(out: &mut [ExactSum<T>], lower: &[ExactSum<T>], higher: &[ExactSum<T>]) {
        out.copy_from_slice(lower);
        Self::fold(out, higher);
    }
}

/// A sum of floats that is exact until it is rounded at the end, with [`ExactSum`] as its state.
///
/// ```
/// use maniple_regions::{ExactSum, exact_sum};
///
/// let sum = exact_sum::<f64>();
/// let mut states = [ExactSum::zero(); 3];
/// sum.lift_into(&mut states, &[1e16, 1.0, -1e16]);
/// let all = states.into_iter().reduce(|a, b| sum.operator().combine(&a, &b)).unwrap();
/// let mut result = [0.0];
/// sum.lower_into(&mut result, &[all]);
/// assert_eq!(result, [1.0]);
/// ```
pub fn exact_sum<T: Summand>() -> Stateful<T, ExactSum<T>> {
    let lift = |sum: &mut ExactSum<T>, x: &T| {
        *sum = ExactSum::zero();
        sum.add(*x);
    };
    Stateful::in_place(ExactSum::operator(), lift, ExactSum::value)
}
