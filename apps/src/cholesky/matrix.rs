//! Matrices to factor, and the tiles that they are dealt in.

use super::{CholeskyError, Real};
use maniple::prelude::*;
use std::sync::Arc;

/// A symmetric positive definite matrix, given by its lower triangle.
#[derive(Debug, Clone)]
pub struct Matrix<T> {
    size: usize,
    values: Values<T>,
}

#[derive(Debug, Clone)]
enum Values<T> {
    /// D + w wᵀ, whose factor is known in closed form.
    Generated(Arc<Generated>),
    /// All values, by rows. Those above the diagonal are not looked at.
    Given(Arc<[T]>),
}

/// The matrix D + w wᵀ with a positive diagonal D, and its factor: L[i, j] = w[i] p[j] below the diagonal, and r[j] on it.
#[derive(Debug)]
struct Generated {
    d: Vec<f64>,
    w: Vec<f64>,
    p: Vec<f64>,
    r: Vec<f64>,
}

impl Generated {
    fn new(size: usize) -> Self {
        // Between ½ and 1½, without a pattern that tiles could have, too.
        let drawn = |i: usize, salt: u64| {
            let bits = (i as u64 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            0.5 + ((bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1u64 << 53) as f64
        };
        let w: Vec<f64> = (0..size).map(|i| drawn(i, 1)).collect();
        let d: Vec<f64> = (0..size).map(|i| drawn(i, 1 << 40) * size as f64).collect();
        // After j columns are eliminated, what is left is D + t w wᵀ.
        let mut t = 1.0;
        let (mut p, mut r) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for (d, w) in d.iter().zip(&w) {
            let pivot: f64 = d + t * w * w;
            p.push(t * w / pivot.sqrt());
            r.push(pivot.sqrt());
            t *= d / pivot;
        }
        Self { d, w, p, r }
    }
}

impl<T: Real> Matrix<T> {
    /// A matrix of `size` rows whose factor is known in closed form.
    pub fn generated(size: usize) -> Self {
        Self { size, values: Values::Generated(Arc::new(Generated::new(size))) }
    }

    /// A matrix with these values, by rows. Those above the diagonal are not looked at.
    ///
    /// # Errors
    /// [`CholeskyError::NotSquare`] if their number is no square.
    pub fn given(values: Vec<T>) -> Result<Self, CholeskyError> {
        let size = values.len().isqrt();
        if size * size != values.len() {
            return Err(CholeskyError::NotSquare { values: values.len() });
        }
        Ok(Self { size, values: Values::Given(values.into()) })
    }

    /// The number of rows, and of columns.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The value in a row and a column, which is not above the diagonal.
    pub fn get(&self, row: usize, column: usize) -> T {
        match &self.values {
            Values::Given(values) => values[row * self.size + column],
            Values::Generated(g) => T::from_f64(g.w[row] * g.w[column] + if row == column { g.d[row] } else { 0.0 }),
        }
    }

    /// The value of the factor at the same place, if it is known.
    pub fn factor(&self, row: usize, column: usize) -> Option<f64> {
        match &self.values {
            Values::Given(_) => None,
            Values::Generated(g) if row == column => Some(g.r[row]),
            Values::Generated(g) => Some(g.w[row] * g.p[column]),
        }
    }
}

/// The tiles of the lower triangle of a matrix.
#[derive(Debug)]
pub struct Tiles<T> {
    /// `of[i][j]` is the tile in row i and column j of tiles, j ≤ i.
    pub of: Vec<Vec<RegionView>>,
    /// The values of the matrix, and later of its factor.
    pub field: Field<T>,
}

impl<T: Real> Tiles<T> {
    /// Makes a region tree for a matrix of `size` rows, with tiles of `tile` rows and columns. The last ones may have fewer.
    /// The points of the tree are columns and rows, in this order, so that a tile lies in memory by columns. In virtual time a
    /// number stands for `stands_for` bytes if that is more than it has. Collective; never waits.
    ///
    /// # Errors
    /// Those of [`Top::region_tree`].
    pub fn new(top: &Top, (size, tile): (usize, usize), stands_for: usize) -> Result<Self, Error> {
        let field: Field<T> = Field::new(0, "a");
        let info = field.info().standing_for(stands_for);
        let tree = top.region_tree("matrix", Rect::new([0, 0], [size as i64; 2]), &[info])?;
        let range = |k: usize| ((k * tile) as i64, size.min((k + 1) * tile) as i64);
        let tiles = size.div_ceil(tile);
        let at = |i: usize, j: usize| {
            let ((top_row, bottom), (left, right)) = (range(i), range(j));
            top.region(Region::new(tree.tree, Rect::new([left, top_row], [right, bottom])))
        };
        let of = (0..tiles).map(|i| (0..=i).map(|j| at(i, j)).collect()).collect::<Result<_, _>>()?;
        Ok(Self { of, field })
    }

    /// All of them with their places, column by column.
    pub fn all(&self) -> impl Iterator<Item = (usize, usize, &RegionView)> {
        (0..self.of.len()).flat_map(move |j| (j..self.of.len()).map(move |i| (i, j, &self.of[i][j])))
    }
}
