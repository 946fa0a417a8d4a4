//! Accessors that write or fold without reading, under exclusive and atomic coherence.

use std::fmt;
use std::slice;

use super::{outside, shape, wrong_len};
use crate::memory::ViewMut;
use crate::{Element, Lease, Operator, Privilege, Rect, RegionError, RowsMut, WriteOnly};

/// Writes a leased rectangle in `D` dimensions (1 unless stated). It cannot read.
///
/// An element that is left unwritten has some value of its type.
///
/// ```
/// use maniple_regions::{Read, Write};
/// fn halves(u: Read<f64>, mut half: Write<f64>) {
///     for (half, u) in half.as_mut_slice().iter_mut().zip(u.as_slice()) {
///         half.set(u / 2.0);
///     }
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use maniple_regions::Write;
/// fn read(u: Write<f64>) -> f64 {
///     u.get([0])
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use maniple_regions::Write;
/// fn slice(u: Write<f64>) -> f64 {
///     u.as_slice()[0]
/// }
/// ```
pub struct Write<'a, T, const D: usize = 1> {
    pub(super) view: ViewMut<'a, WriteOnly<T>, D>,
}

impl<'a, T: Element, const D: usize> Write<'a, T, D> {
    /// Binds an accessor to a lease that holds write-discard or read-write, with exclusive or atomic coherence.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongCoherence`], [`RegionError::WrongElement`], [`RegionError::WrongDimension`],
    /// [`RegionError::WrongPrivilege`].
    #[inline]
    pub fn bind(lease: &'a mut Lease) -> Result<Self, RegionError> {
        Ok(Write { view: lease.view_mut("Write", Privilege::WriteDiscard)?.write_only() })
    }

    /// Sets the element at `point`.
    ///
    /// # Panics
    ///
    /// If `point` is outside the leased rectangle.
    #[inline]
    #[track_caller]
    pub fn set(&mut self, point: [i64; D], value: T) {
        match self.view.get_mut(point) {
            Some(slot) => slot.set(value),
            None => outside(&point, self.rect()),
        }
    }

    /// Sets all elements to `value`.
    #[inline]
    pub fn fill(&mut self, value: T) {
        self.view.rows_mut().flatten().for_each(|slot| slot.set(value));
    }

    /// Sets all elements to `values`, in row-major order.
    ///
    /// # Panics
    ///
    /// If the number of values differs from the number of elements.
    #[inline]
    #[track_caller]
    pub fn copy_from_slice(&mut self, values: &[T]) {
        if values.len() != self.len() {
            wrong_len(values.len(), self.rect());
        }
        let len = self.view.layout().row_len();
        for (i, row) in self.view.rows_mut().enumerate() {
            WriteOnly::copy_from_slice(row, &values[i * len..][..len]);
        }
    }

    /// Sets each element to `value(point)`, in row-major order. Points are in the coordinates of the tree.
    ///
    /// ```
    /// use maniple_regions::Write;
    /// fn product(mut table: Write<i64, 2>) {
    ///     table.fill_with(|[i, j]| i * j);
    /// }
    /// ```
    #[inline]
    pub fn fill_with(&mut self, mut value: impl FnMut([i64; D]) -> T) {
        self.view.for_each(|point, slot| slot.set(value(point)));
    }

    /// All elements in row-major order, to be set, if they are contiguous; see [`Read::slice`](crate::Read::slice).
    #[inline]
    pub fn slice_mut(&mut self) -> Option<&mut [WriteOnly<T>]> {
        self.view.slice_mut()
    }

    /// Row number `row`, to be set; see [`Read::row`](crate::Read::row).
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> Option<&mut [WriteOnly<T>]> {
        self.view.row_mut(row)
    }

    /// The rows, from first to last, to be set; see [`Read::rows`](crate::Read::rows).
    #[inline]
    pub fn rows_mut(&mut self) -> RowsMut<'_, WriteOnly<T>, D> {
        self.view.rows_mut()
    }
}

impl<T: Element> Write<'_, T> {
    /// The elements, to be set: `as_mut_slice()[0]` is the one at the leased rectangle's first point.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [WriteOnly<T>] {
        self.view.line_mut()
    }
}

/// Folds contributions into a leased rectangle in `D` dimensions (1 unless stated), with the operator of the launch. It
/// cannot read.
///
/// ```
/// use maniple_regions::Reduce;
/// fn count(mut bins: Reduce<u64>, bin: i64) {
///     bins.fold([bin], 1);
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use maniple_regions::*;
/// fn read(bins: Reduce<u64>) -> u64 {
///     bins.get([0])
/// }
/// ```
pub struct Reduce<'a, T, const D: usize = 1> {
    pub(super) view: ViewMut<'a, T, D>,
    operator: Operator<T>,
}

impl<'a, T: Element, const D: usize> Reduce<'a, T, D> {
    /// Binds an accessor to a lease that holds the reduction with this operator or read-write, with exclusive or atomic
    /// coherence.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongCoherence`], [`RegionError::WrongElement`], [`RegionError::WrongDimension`],
    /// [`RegionError::WrongPrivilege`].
    #[inline]
    pub fn bind(lease: &'a mut Lease, operator: Operator<T>) -> Result<Self, RegionError> {
        Ok(Reduce { view: lease.view_mut("Reduce", Privilege::Reduce(operator.id()))?, operator })
    }

    /// Folds `value` into the element at `point`, as the higher operand. It calls the operator through a pointer: prefer
    /// [`fold_slice`](Self::fold_slice) where there are many values.
    ///
    /// # Panics
    ///
    /// If `point` is outside the leased rectangle.
    #[inline]
    #[track_caller]
    pub fn fold(&mut self, point: [i64; D], value: T) {
        match self.view.get_mut(point) {
            Some(element) => self.operator.fold_higher(slice::from_mut(element), &[value]),
            None => outside(&point, self.rect()),
        }
    }

    /// Folds `values` into all elements, in row-major order, as the higher operands.
    ///
    /// # Panics
    ///
    /// If the number of values differs from the number of elements.
    #[inline]
    #[track_caller]
    pub fn fold_slice(&mut self, values: &[T]) {
        if values.len() != self.len() {
            wrong_len(values.len(), self.rect());
        }
        let len = self.view.layout().row_len();
        for (i, row) in self.view.rows_mut().enumerate() {
            self.operator.fold_higher(row, &values[i * len..][..len]);
        }
    }
}

shape!(Write);
shape!(Reduce);
