//! Accessors that read, or read and write, through slices under exclusive and atomic coherence.

use std::fmt;

use super::{outside, shape};
use crate::memory::{View, ViewMut};
use crate::{Element, Lease, Privilege, Rect, RegionError, Rows, RowsMut};

/// Reads a leased rectangle in `D` dimensions (1 unless stated).
///
/// ```
/// use maniple_regions::Read;
/// fn total(u: Read<f64>) -> f64 {
///     u.as_slice().iter().sum()
/// }
/// ```
///
/// It cannot outlive the borrow of its lease, nor go to another thread. Its slices can.
///
/// ```compile_fail,E0505
/// # use maniple_regions::*;
/// fn keep(instance: &Instance, mut lease: Lease) -> f64 {
///     let u = Read::<f64>::bind(&mut lease).unwrap();
///     instance.release(lease).unwrap();
///     u.get([0])
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use maniple_regions::*;
/// fn send(u: Read<f64>) {
///     std::thread::scope(|scope| {
///         scope.spawn(move || u.get([0]));
///     });
/// }
/// ```
///
/// ```compile_fail,E0308
/// # use maniple_regions::*;
/// fn wrong_element(u: Read<f64>) -> &[f32] {
///     u.as_slice()
/// }
/// ```
pub struct Read<'a, T, const D: usize = 1> {
    pub(super) view: View<'a, T, D>,
}

impl<'a, T: Element, const D: usize> Read<'a, T, D> {
    /// Binds an accessor to a lease that holds read or read-write, with exclusive or atomic coherence.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongCoherence`], [`RegionError::WrongElement`], [`RegionError::WrongDimension`],
    /// [`RegionError::WrongPrivilege`].
    #[inline]
    pub fn bind(lease: &'a mut Lease) -> Result<Self, RegionError> {
        Ok(Read { view: lease.view("Read")? })
    }

    /// The element at `point`.
    ///
    /// # Panics
    ///
    /// If `point` is outside the leased rectangle.
    #[inline]
    #[track_caller]
    pub fn get(&self, point: [i64; D]) -> T {
        match self.view.get(point) {
            Some(value) => *value,
            None => outside(&point, self.rect()),
        }
    }

    /// The element at `point`; `None` outside the leased rectangle.
    #[inline]
    pub fn try_get(&self, point: [i64; D]) -> Option<T> {
        self.view.get(point).copied()
    }

    /// All elements in row-major order, if they are contiguous in memory. In one dimension they always are. In more,
    /// they are if the rectangle spans the instance in all dimensions but the first, and the field has no padding.
    #[inline]
    pub fn slice(&self) -> Option<&'a [T]> {
        self.view.slice()
    }

    /// Row number `row`, or `None` past the last row. Rows run along the last dimension and are numbered row-major from
    /// 0.
    #[inline]
    pub fn row(&self, row: usize) -> Option<&'a [T]> {
        self.view.row(row)
    }

    /// The rows, from first to last. A row runs along the last dimension. In one dimension there is one.
    #[inline]
    pub fn rows(&self) -> Rows<'a, T, D> {
        self.view.rows()
    }
}

impl<'a, T: Element> Read<'a, T> {
    /// The elements as a slice: `as_slice()[0]` is the one at the leased rectangle's first point.
    #[inline]
    pub fn as_slice(&self) -> &'a [T] {
        self.view.line()
    }
}

impl<T: Element> Read<'_, T, 2> {
    /// The first element, and the number of elements from the start of one row to the start of the next: what a library of
    /// kernels takes. Other tasks may write what lies between rows, so this is no slice. [`slice`](Self::slice) is one,
    /// where nothing lies between.
    ///
    /// ```
    /// use maniple_regions::Read;
    /// fn sum(a: Read<f64, 2>) -> f64 {
    ///     let ((first, stride), rect) = (a.strided(), a.rect());
    ///     let at = |r: usize, c: usize| unsafe { *first.add(r * stride + c) };
    ///     (0..rect.extent(0)).flat_map(|r| (0..rect.extent(1)).map(move |c| at(r, c))).sum()
    /// }
    /// ```
    #[inline]
    pub fn strided(&self) -> (*const T, usize) {
        let (first, _, [stride, _]) = self.view.parts();
        (first.as_ptr(), stride)
    }
}

/// Reads and writes a leased rectangle in `D` dimensions (1 unless stated).
///
/// ```
/// use maniple_regions::ReadWrite;
/// fn double(mut u: ReadWrite<f64>) {
///     u.as_mut_slice().iter_mut().for_each(|u| *u *= 2.0);
/// }
/// ```
///
/// A mutable slice cannot live at the same time as another slice:
///
/// ```compile_fail,E0502
/// # use maniple_regions::*;
/// fn alias(mut u: ReadWrite<f64>) -> f64 {
///     let old = u.as_slice();
///     u.as_mut_slice()[0] = 1.0;
///     old[0]
/// }
/// ```
pub struct ReadWrite<'a, T, const D: usize = 1> {
    pub(super) view: ViewMut<'a, T, D>,
}

impl<'a, T: Element, const D: usize> ReadWrite<'a, T, D> {
    /// Binds an accessor to a lease that holds read-write, with exclusive or atomic coherence.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongCoherence`], [`RegionError::WrongElement`], [`RegionError::WrongDimension`],
    /// [`RegionError::WrongPrivilege`].
    #[inline]
    pub fn bind(lease: &'a mut Lease) -> Result<Self, RegionError> {
        Ok(ReadWrite { view: lease.view_mut("ReadWrite", Privilege::ReadWrite)? })
    }

    /// The element at `point`.
    ///
    /// # Panics
    ///
    /// If `point` is outside the leased rectangle.
    #[inline]
    #[track_caller]
    pub fn get(&self, point: [i64; D]) -> T {
        match self.view.reading().get(point) {
            Some(value) => *value,
            None => outside(&point, self.rect()),
        }
    }

    /// The element at `point`; `None` outside the leased rectangle.
    #[inline]
    pub fn try_get(&self, point: [i64; D]) -> Option<T> {
        self.view.reading().get(point).copied()
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
            Some(element) => *element = value,
            None => outside(&point, self.rect()),
        }
    }

    /// Sets each element to `value(point)`, in row-major order. Points are in the coordinates of the tree. To compute an element from
    /// its old value, use [`rows_mut`](Self::rows_mut).
    #[inline]
    pub fn fill_with(&mut self, mut value: impl FnMut([i64; D]) -> T) {
        self.view.for_each(|point, element| *element = value(point));
    }

    /// All elements in row-major order, if they are contiguous in memory; see [`Read::slice`].
    #[inline]
    pub fn slice(&self) -> Option<&[T]> {
        self.view.reading().slice()
    }

    /// All elements in row-major order, mutably, if they are contiguous in memory; see [`Read::slice`].
    #[inline]
    pub fn slice_mut(&mut self) -> Option<&mut [T]> {
        self.view.slice_mut()
    }

    /// Row number `row`; see [`Read::row`].
    #[inline]
    pub fn row(&self, row: usize) -> Option<&[T]> {
        self.view.reading().row(row)
    }

    /// Row number `row`, mutably; see [`Read::row`].
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> Option<&mut [T]> {
        self.view.row_mut(row)
    }

    /// The rows, from first to last; see [`Read::rows`].
    #[inline]
    pub fn rows(&self) -> Rows<'_, T, D> {
        self.view.reading().rows()
    }

    /// The rows, from first to last, mutably; see [`Read::rows`].
    #[inline]
    pub fn rows_mut(&mut self) -> RowsMut<'_, T, D> {
        self.view.rows_mut()
    }
}

impl<T: Element, const D: usize> ReadWrite<'_, T, D> {
    /// The elements and `width` cells around them in each dimension, in one array. The field of the tree has
    /// [padding](crate::FieldInfo::with_padding), and the task uses the whole region of its shard, or `None`.
    ///
    /// The cells around are the task's own: they have no values when it begins, and nobody sees them afterwards. An empty
    /// region has none.
    pub fn padded(&mut self, width: [usize; D]) -> Option<ReadWrite<'_, T, D>> {
        Some(ReadWrite { view: self.view.padded(width)? })
    }
}

impl<T: Element> ReadWrite<'_, T> {
    /// The elements as a slice: `as_slice()[0]` is the one at the leased rectangle's first point.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        self.view.reading().line()
    }

    /// The elements as a mutable slice.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self.view.line_mut()
    }
}

impl<T: Element> ReadWrite<'_, T, 2> {
    /// The first element, to be read and written, and the number of elements from the start of one row to the start of
    /// the next. See [`Read::strided`].
    #[inline]
    pub fn strided(&mut self) -> (*mut T, usize) {
        let (first, _, [stride, _]) = self.view.reading().parts();
        (first.as_ptr(), stride)
    }
}

shape!(Read);
shape!(ReadWrite);
