//! The kernels: computations on one to three tiles. faer does them.
//!
//! A tile is an accessor whose first dimension is the column, so its elements lie in memory by columns. faer is fastest so.

use super::Real;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{LltError, cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::matmul::{matmul, triangular};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::prelude::*;
use faer::{Accum, Par, Spec};
use maniple::prelude::*;
use triangular::BlockStructure::{Rectangular, TriangularLower, TriangularUpper};

/// A tile to read.
pub fn tile<'a, T: Real>(a: &'a Read<T, 2>) -> MatRef<'a, T> {
    let ((first, stride), rect) = (a.strided(), a.rect());
    // SAFETY: the accessor lends the elements of its rectangle for reading as long as it is borrowed.
    unsafe { MatRef::from_raw_parts(first, rect.extent(1), rect.extent(0), 1, stride as isize) }
}

/// A tile to read and write.
pub fn tile_mut<'a, T: Real>(a: &'a mut ReadWrite<T, 2>) -> MatMut<'a, T> {
    let (rect, (first, stride)) = (a.rect(), a.strided());
    // SAFETY: the accessor lends the elements of its rectangle, to nobody else, as long as it is borrowed mutably.
    unsafe { MatMut::from_raw_parts_mut(first, rect.extent(1), rect.extent(0), 1, stride as isize) }
}

/// Factors a tile on the diagonal. The rest of it, above the diagonal, stays as it is.
///
/// # Errors
/// The number of the first column, within the tile, whose pivot is not positive.
pub fn potrf<T: Real>(a: MatMut<T>) -> Result<(), usize> {
    let mut memory = MemBuffer::new(cholesky_in_place_scratch::<T>(a.nrows(), Par::Seq, Spec::default()));
    let factored = cholesky_in_place(a, Default::default(), Par::Seq, MemStack::new(&mut memory), Spec::default());
    factored.map(|_| ()).map_err(|LltError::NonPositivePivot { index }| index)
}

/// Divides a tile below the diagonal by the factor of the diagonal's: B becomes B L⁻ᵀ.
pub fn trsm<T: Real>(l: MatRef<T>, b: MatMut<T>) {
    solve_lower_triangular_in_place(l, b.transpose_mut(), Par::Seq);
}

/// Subtracts A Aᵀ from a tile on the diagonal.
pub fn syrk<T: Real>(a: MatRef<T>, c: MatMut<T>) {
    let (at, minus) = (a.transpose(), -T::one());
    triangular::matmul(c, TriangularLower, Accum::Add, a, Rectangular, at, Rectangular, minus, Par::Seq);
}

/// Subtracts A Bᵀ from a tile below the diagonal.
pub fn gemm<T: Real>(a: MatRef<T>, b: MatRef<T>, c: MatMut<T>) {
    matmul(c, Accum::Add, a, b.transpose(), -T::one(), Par::Seq);
}

/// Adds to `c` the product of tile k of row i and tile k of row j of the factor, the second one transposed; j ≤ i.
pub fn multiply<T: Real>((i, j, k): (usize, usize, usize), a: MatRef<T>, b: MatRef<T>, c: MatMut<T>) {
    // Above the diagonal, tiles of the factor have something else.
    let of = |on_diagonal: bool, structure| if on_diagonal { structure } else { Rectangular };
    let (left, right) = (of(i == k, TriangularLower), of(j == k, TriangularUpper));
    let into = of(i == j, TriangularLower);
    triangular::matmul(c, into, Accum::Add, a, left, b.transpose(), right, T::one(), Par::Seq);
}
