//! Accessors under exclusive and atomic coherence: slices.

use std::fmt;
use std::marker::PhantomData;

use crate::memory::{View, ViewMut};
use crate::{Element, Lease, Privilege, Rect, Reduction, ReductionId, RegionError, Rows, RowsMut};

pub use crate::memory::Slot;

#[cold]
#[track_caller]
pub(crate) fn outside(point: &dyn fmt::Debug, rect: Rect) -> ! {
    panic!("point {point:?} lies outside the leased rectangle {rect}")
}

#[cold]
#[track_caller]
pub(crate) fn wrong_len(came: usize, rect: Rect) -> ! {
    panic!(
        "expected {} values for the leased rectangle {rect}, got {came}",
        rect.volume()
    )
}

/// Implements what every accessor over a view has, and `Debug`.
macro_rules! shape {
    ($accessor:ident $(, $operator:ident)?) => {
        impl<T: Element $(, $operator: Reduction<T>)?, const D: usize> $accessor<'_, T $(, $operator)?, D> {
            /// The leased rectangle.
            pub fn rect(&self) -> Rect {
                self.view.layout().rect()
            }

            /// The number of elements.
            #[inline]
            pub fn len(&self) -> usize {
                self.view.layout().len()
            }

            /// Whether there are no elements.
            #[inline]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        impl<T: Element $(, $operator: Reduction<T>)?, const D: usize> fmt::Debug for $accessor<'_, T $(, $operator)?, D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($accessor), "({})"), self.rect())
            }
        }
    };
}
pub(crate) use shape;

/// Reads a leased rectangle in `D` dimensions (1 unless stated).
///
/// ```
/// use maniple_regions::Read;
/// fn total(u: Read<f64>) -> f64 {
///     u.as_slice().iter().sum()
/// }
/// ```
///
/// It cannot outlive its lease's borrow, nor go to another thread (its slices can):
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
    view: View<'a, T, D>,
}

impl<'a, T: Element, const D: usize> Read<'a, T, D> {
    /// The accessor of a lease that holds read or read-write, with exclusive or atomic coherence.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongCoherence`], [`RegionError::WrongElement`], [`RegionError::WrongDimension`],
    /// [`RegionError::WrongPrivilege`].
    #[inline]
    pub fn bind(lease: &'a mut Lease) -> Result<Self, RegionError> {
        Ok(Read {
            view: lease.view("Read")?,
        })
    }

    /// The element at `point`.
    ///
    /// # Panics
    ///
    /// Outside the leased rectangle.
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

    /// All elements, row-major, if they are neighbours in memory: always in one dimension, else where the rectangle
    /// spans the instance in all dimensions but the first.
    #[inline]
    pub fn slice(&self) -> Option<&'a [T]> {
        self.view.slice()
    }

    /// Row `row`, counted from 0 row-major over all dimensions but the last; `None` past the last row.
    #[inline]
    pub fn row(&self, row: usize) -> Option<&'a [T]> {
        self.view.row(row)
    }

    /// The rows, first to last: runs along the last dimension. In one dimension there is one.
    #[inline]
    pub fn rows(&self) -> Rows<'a, T, D> {
        self.view.rows()
    }
}

impl<'a, T: Element> Read<'a, T> {
    /// The elements: `as_slice()[0]` is the one at the leased rectangle's first point.
    #[inline]
    pub fn as_slice(&self) -> &'a [T] {
        self.view.line()
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
/// A slice cannot live beside another one:
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
    view: ViewMut<'a, T, D>,
}

impl<'a, T: Element, const D: usize> ReadWrite<'a, T, D> {
    /// The accessor of a lease that holds read-write, with exclusive or atomic coherence.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongCoherence`], [`RegionError::WrongElement`], [`RegionError::WrongDimension`],
    /// [`RegionError::WrongPrivilege`].
    #[inline]
    pub fn bind(lease: &'a mut Lease) -> Result<Self, RegionError> {
        Ok(ReadWrite {
            view: lease.view_mut("ReadWrite", Privilege::ReadWrite)?,
        })
    }

    /// The element at `point`.
    ///
    /// # Panics
    ///
    /// Outside the leased rectangle.
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
    /// Outside the leased rectangle.
    #[inline]
    #[track_caller]
    pub fn set(&mut self, point: [i64; D], value: T) {
        match self.view.get_mut(point) {
            Some(element) => *element = value,
            None => outside(&point, self.rect()),
        }
    }

    /// All elements, row-major, if they are neighbours in memory; see [`Read::slice`].
    #[inline]
    pub fn slice(&self) -> Option<&[T]> {
        self.view.reading().slice()
    }

    /// All elements, row-major, to be changed, if they are neighbours in memory; see [`Read::slice`].
    #[inline]
    pub fn slice_mut(&mut self) -> Option<&mut [T]> {
        self.view.slice_mut()
    }

    /// Row `row`; see [`Read::row`].
    #[inline]
    pub fn row(&self, row: usize) -> Option<&[T]> {
        self.view.reading().row(row)
    }

    /// Row `row`, to be changed; see [`Read::row`].
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> Option<&mut [T]> {
        self.view.row_mut(row)
    }

    /// The rows, first to last; see [`Read::rows`].
    #[inline]
    pub fn rows(&self) -> Rows<'_, T, D> {
        self.view.reading().rows()
    }

    /// The rows, first to last, to be changed; see [`Read::rows`].
    #[inline]
    pub fn rows_mut(&mut self) -> RowsMut<'_, T, D> {
        self.view.rows_mut()
    }
}

impl<T: Element> ReadWrite<'_, T> {
    /// The elements: `as_slice()[0]` is the one at the leased rectangle's first point.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        self.view.reading().line()
    }

    /// The elements, to be changed.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self.view.line_mut()
    }
}

/// Writes a leased rectangle in `D` dimensions (1 unless stated), without a way to read it. Elements that are left
/// unwritten have some value of their type.
///
/// ```
/// use maniple_regions::{Read, Write};
/// fn halves(u: Read<f64>, mut half: Write<f64>) {
///     for (half, u) in half.as_mut_slots().iter_mut().zip(u.as_slice()) {
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
    view: ViewMut<'a, Slot<T>, D>,
}

impl<'a, T: Element, const D: usize> Write<'a, T, D> {
    /// The accessor of a lease that holds write-discard or read-write, with exclusive or atomic coherence.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongCoherence`], [`RegionError::WrongElement`], [`RegionError::WrongDimension`],
    /// [`RegionError::WrongPrivilege`].
    #[inline]
    pub fn bind(lease: &'a mut Lease) -> Result<Self, RegionError> {
        Ok(Write {
            view: lease
                .view_mut("Write", Privilege::WriteDiscard)?
                .write_only(),
        })
    }

    /// Sets the element at `point`.
    ///
    /// # Panics
    ///
    /// Outside the leased rectangle.
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
        self.view
            .rows_mut()
            .flatten()
            .for_each(|slot| slot.set(value));
    }

    /// Sets all elements, row-major, to `values`.
    ///
    /// # Panics
    ///
    /// Unless there are as many values as elements.
    #[inline]
    #[track_caller]
    pub fn copy_from_slice(&mut self, values: &[T]) {
        if values.len() != self.len() {
            wrong_len(values.len(), self.rect());
        }
        let len = self.view.layout().row_len();
        for (i, row) in self.view.rows_mut().enumerate() {
            Slot::copy_from_slice(row, &values[i * len..][..len]);
        }
    }

    /// Sets every element to what `value` gives for its row-major position, from 0.
    #[inline]
    pub fn write_with(&mut self, mut value: impl FnMut(usize) -> T) {
        let len = self.view.layout().row_len();
        for (i, row) in self.view.rows_mut().enumerate() {
            for (j, slot) in row.iter_mut().enumerate() {
                slot.set(value(i * len + j));
            }
        }
    }

    /// All elements, row-major, to be set, if they are neighbours in memory; see [`Read::slice`].
    #[inline]
    pub fn slots(&mut self) -> Option<&mut [Slot<T>]> {
        self.view.slice_mut()
    }

    /// Row `row`, to be set; see [`Read::row`].
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> Option<&mut [Slot<T>]> {
        self.view.row_mut(row)
    }

    /// The rows, first to last, to be set; see [`Read::rows`].
    #[inline]
    pub fn rows_mut(&mut self) -> RowsMut<'_, Slot<T>, D> {
        self.view.rows_mut()
    }
}

impl<T: Element> Write<'_, T> {
    /// The elements, to be set: `as_mut_slots()[0]` is the one at the leased rectangle's first point.
    #[inline]
    pub fn as_mut_slots(&mut self) -> &mut [Slot<T>] {
        self.view.line_mut()
    }
}

/// Folds contributions into a leased rectangle in `D` dimensions (1 unless stated) with the operator `R`, without a way
/// to read it.
///
/// ```
/// use maniple_regions::{Reduce, Sum};
/// fn count(mut bins: Reduce<u64, Sum>, bin: i64) {
///     bins.fold([bin], 1);
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use maniple_regions::*;
/// fn read(bins: Reduce<u64, Sum>) -> u64 {
///     bins.get([0])
/// }
/// ```
pub struct Reduce<'a, T, R, const D: usize = 1> {
    view: ViewMut<'a, T, D>,
    operator: PhantomData<fn() -> R>,
}

impl<'a, T: Element, R: Reduction<T>, const D: usize> Reduce<'a, T, R, D> {
    /// The accessor of a lease that holds this reduction or read-write, with exclusive or atomic coherence.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongCoherence`], [`RegionError::WrongElement`], [`RegionError::WrongDimension`],
    /// [`RegionError::WrongPrivilege`].
    #[inline]
    pub fn bind(lease: &'a mut Lease) -> Result<Self, RegionError> {
        let asked = Privilege::Reduce(ReductionId::of::<R, T>());
        Ok(Reduce {
            view: lease.view_mut("Reduce", asked)?,
            operator: PhantomData,
        })
    }

    /// Folds `value` into the element at `point`, as the higher of the two.
    ///
    /// # Panics
    ///
    /// Outside the leased rectangle.
    #[inline]
    #[track_caller]
    pub fn fold(&mut self, point: [i64; D], value: T) {
        match self.view.get_mut(point) {
            Some(element) => *element = R::combine(*element, value),
            None => outside(&point, self.rect()),
        }
    }

    /// Folds `values`, row-major, into all elements, as the higher of each two.
    ///
    /// # Panics
    ///
    /// Unless there are as many values as elements.
    #[inline]
    #[track_caller]
    pub fn fold_slice(&mut self, values: &[T]) {
        if values.len() != self.len() {
            wrong_len(values.len(), self.rect());
        }
        let len = self.view.layout().row_len();
        for (i, row) in self.view.rows_mut().enumerate() {
            for (element, value) in row.iter_mut().zip(&values[i * len..][..len]) {
                *element = R::combine(*element, *value);
            }
        }
    }
}

shape!(Read);
shape!(ReadWrite);
shape!(Write);
shape!(Reduce, R);
