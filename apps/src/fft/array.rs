//! The array that is transformed.

use super::{C, FftError};
use std::sync::Arc;

/// An array of complex numbers with 2 or 3 dimensions. Each process has one.
#[derive(Debug, Clone)]
pub struct Array {
    shape: Vec<usize>,
    /// The lengths of three axes, of which the first may be added.
    lengths: [usize; 3],
    /// In row-major order, if they are given.
    values: Option<Arc<Vec<C>>>,
}

impl Array {
    /// An array of this shape with generated values: pseudo-random numbers, with real and imaginary part between −1 and 1.
    ///
    /// # Errors
    /// There are not 2 or 3 dimensions, or one has length 0.
    pub fn generated(shape: &[usize]) -> Result<Self, FftError> {
        let lengths = match *shape {
            [a, b] => [1, a, b],
            [a, b, c] => [a, b, c],
            _ => return Err(FftError::Dimensions { found: shape.len() }),
        };
        match lengths.contains(&0) {
            true => Err(FftError::Zero { what: "length of an axis" }),
            false => Ok(Self { shape: shape.into(), lengths, values: None }),
        }
    }

    /// An array of this shape with these values, in row-major order.
    ///
    /// # Errors
    /// Those of [`generated`](Self::generated), and another number of values.
    pub fn given(shape: &[usize], values: Vec<C>) -> Result<Self, FftError> {
        let array = Self::generated(shape)?;
        let expected = array.values();
        if values.len() != expected {
            return Err(FftError::Values { shape: shape.into(), expected, found: values.len() });
        }
        Ok(Self { values: Some(values.into()), ..array })
    }

    /// The length of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of values.
    pub fn values(&self) -> usize {
        self.lengths.iter().product()
    }

    /// The lengths of three axes. The first axis of a 2D array has length 1.
    pub(super) fn lengths(&self) -> [usize; 3] {
        self.lengths
    }

    /// The position of a value in row-major order.
    pub(super) fn position(&self, [a, b, c]: [usize; 3]) -> usize {
        let [_, rows, columns] = self.lengths;
        (a * rows + b) * columns + c
    }

    /// A value.
    pub(super) fn get(&self, at: [usize; 3]) -> C {
        let at = self.position(at);
        match &self.values {
            Some(values) => values[at],
            None => C::new(generated(2 * at as u64), generated(2 * at as u64 + 1)),
        }
    }
}

/// A number between −1 and 1, by SplitMix64 (Steele, Lea and Flood, 2014).
fn generated(number: u64) -> f64 {
    let mut z = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}
