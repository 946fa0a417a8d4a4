//! Accessors under simultaneous coherence. They use relaxed atomic words and never give slices.

use std::fmt;

use super::{outside, shape, wrong_len};
use crate::memory::SharedView;
use crate::{Element, Lease, Privilege, Rect, RegionError};

/// Implements `bind` and, by word, what the privilege allows.
macro_rules! shared {
    ($accessor:ident, $privilege:expr $(, $ability:ident)*) => {
        impl<'a, T: Element, const D: usize> $accessor<'a, T, D> {
            /// Binds an accessor to a lease that holds its privilege or read-write, with simultaneous coherence.
            ///
            /// # Errors
            ///
            /// [`RegionError::WrongCoherence`], [`RegionError::WrongElement`], [`RegionError::WrongDimension`],
            /// [`RegionError::WrongPrivilege`].
            #[inline]
            pub fn bind(lease: &'a mut Lease) -> Result<Self, RegionError> {
                Ok($accessor { view: lease.shared_view(stringify!($accessor), $privilege)? })
            }

            $(shared!(@$ability);)*
        }

        shape!($accessor);
    };

    (@reads) => {
        /// The present value of the element at `point`.
        ///
        /// # Panics
        ///
        /// If `point` is outside the leased rectangle.
        #[inline]
        #[track_caller]
        pub fn get(&self, point: [i64; D]) -> T {
            match self.view.get(point) {
                Some(value) => value,
                None => outside(&point, self.rect()),
            }
        }

        /// Copies all elements to `values`, in row-major order.
        ///
        /// # Panics
        ///
        /// If `values` has another number of elements.
        #[inline]
        #[track_caller]
        pub fn copy_to(&self, values: &mut [T]) {
            if values.len() != self.len() {
                wrong_len(values.len(), self.rect());
            }
            self.view.copy_to(values);
        }

        /// Copies the elements of a part of the leased rectangle to `values`, in row-major order.
        ///
        /// # Panics
        ///
        /// If the part reaches outside the leased rectangle, or `values` has another number of elements.
        #[track_caller]
        pub fn copy_part_to(&self, part: Rect, values: &mut [T]) {
            if self.view.copy_part_to(&part, values).is_none() {
                outside(&part, self.rect());
            }
        }
    };

    (@writes) => {
        /// Sets the element at `point`.
        ///
        /// # Panics
        ///
        /// If `point` is outside the leased rectangle.
        #[inline]
        #[track_caller]
        pub fn set(&mut self, point: [i64; D], value: T) {
            if self.view.set(point, value).is_none() {
                outside(&point, self.rect());
            }
        }

        /// Sets all elements to `values`, in row-major order.
        ///
        /// # Panics
        ///
        /// If `values` has another number of elements.
        #[inline]
        #[track_caller]
        pub fn copy_from(&mut self, values: &[T]) {
            if values.len() != self.len() {
                wrong_len(values.len(), self.rect());
            }
            self.view.copy_from(values);
        }

        /// Sets the elements of a part of the leased rectangle to `values`, in row-major order.
        ///
        /// # Panics
        ///
        /// If the part reaches outside the leased rectangle, or `values` has another number of elements.
        #[track_caller]
        pub fn copy_part_from(&mut self, part: Rect, values: &[T]) {
            if self.view.copy_part_from(&part, values).is_none() {
                outside(&part, self.rect());
            }
        }

        /// Sets all elements to `value`.
        #[inline]
        pub fn fill(&mut self, value: T) {
            self.view.fill(value);
        }
    };
}

/// Reads a leased rectangle that others may be writing, in `D` dimensions (1 unless stated).
///
/// ```
/// use maniple_regions::ReadShared;
/// fn edge(ghost: ReadShared<f64>) -> f64 {
///     let mut cells = [0.0; 2];
///     ghost.copy_to(&mut cells);
///     cells[1]
/// }
/// ```
///
/// It gives no slices, and it cannot write:
///
/// ```compile_fail,E0599
/// # use maniple_regions::ReadShared;
/// fn slice(ghost: ReadShared<f64>) -> f64 {
///     ghost.as_slice()[0]
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use maniple_regions::ReadShared;
/// fn write(mut ghost: ReadShared<f64>) {
///     ghost.set([0], 1.0);
/// }
/// ```
pub struct ReadShared<'a, T, const D: usize = 1> {
    view: SharedView<'a, T, D>,
}

/// Writes a leased rectangle that others may be using, in `D` dimensions (1 unless stated). It cannot read.
///
/// ```
/// use maniple_regions::WriteShared;
/// fn publish(mut ghost: WriteShared<f64>, edge: &[f64]) {
///     ghost.copy_from(edge);
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use maniple_regions::WriteShared;
/// fn read(ghost: WriteShared<f64>) -> f64 {
///     ghost.get([0])
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use maniple_regions::WriteShared;
/// fn slice(mut ghost: WriteShared<f64>) {
///     ghost.as_mut_slice();
/// }
/// ```
pub struct WriteShared<'a, T, const D: usize = 1> {
    view: SharedView<'a, T, D>,
}

/// Reads and writes a leased rectangle that others may be using, in `D` dimensions (1 unless stated).
///
/// A `get` followed by a `set` is not one atomic update. The program's barriers have to keep others away in between.
pub struct ReadWriteShared<'a, T, const D: usize = 1> {
    view: SharedView<'a, T, D>,
}

shared!(ReadShared, Privilege::Read, reads);
shared!(WriteShared, Privilege::WriteDiscard, writes);
shared!(ReadWriteShared, Privilege::ReadWrite, reads, writes);
