//! Accessors under simultaneous coherence: relaxed atomic words, never slices.

use std::fmt;

use super::{outside, shape, wrong_len};
use crate::memory::SharedView;
use crate::{Element, Lease, Privilege, Rect, RegionError};

/// Implements `bind` and, by word, what the privilege allows.
macro_rules! shared {
    ($accessor:ident, $privilege:expr $(, $ability:ident)*) => {
        impl<'a, T: Element, const D: usize> $accessor<'a, T, D> {
            /// The accessor of a lease that holds this accessor's privilege or read-write, with simultaneous coherence.
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
        /// The element at `point`, as it is now.
        ///
        /// # Panics
        ///
        /// Outside the leased rectangle.
        #[inline]
        #[track_caller]
        pub fn get(&self, point: [i64; D]) -> T {
            match self.view.get(point) {
                Some(value) => value,
                None => outside(&point, self.rect()),
            }
        }

        /// Copies all elements, row-major, to `values`.
        ///
        /// # Panics
        ///
        /// Unless `values` has as many elements.
        #[inline]
        #[track_caller]
        pub fn copy_to(&self, values: &mut [T]) {
            if values.len() != self.len() {
                wrong_len(values.len(), self.rect());
            }
            self.view.copy_to(values);
        }

        /// Copies the elements of a part of the leased rectangle, row-major, to `values`.
        ///
        /// # Panics
        ///
        /// When the part reaches outside, or `values` has another number of elements.
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
        /// Outside the leased rectangle.
        #[inline]
        #[track_caller]
        pub fn set(&mut self, point: [i64; D], value: T) {
            if self.view.set(point, value).is_none() {
                outside(&point, self.rect());
            }
        }

        /// Sets all elements, row-major, to `values`.
        ///
        /// # Panics
        ///
        /// Unless `values` has as many elements.
        #[inline]
        #[track_caller]
        pub fn copy_from(&mut self, values: &[T]) {
            if values.len() != self.len() {
                wrong_len(values.len(), self.rect());
            }
            self.view.copy_from(values);
        }

        /// Sets the elements of a part of the leased rectangle, row-major, to `values`.
        ///
        /// # Panics
        ///
        /// When the part reaches outside, or `values` has another number of elements.
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
/// There are no slices of it, and no way to write:
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

/// Writes a leased rectangle that others may be using, in `D` dimensions (1 unless stated), without a way to read it.
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
/// A `get` followed by a `set` is no atomic update: the program's barriers keep others away meanwhile.
pub struct ReadWriteShared<'a, T, const D: usize = 1> {
    view: SharedView<'a, T, D>,
}

shared!(ReadShared, Privilege::Read, reads);
shared!(WriteShared, Privilege::WriteDiscard, writes);
shared!(ReadWriteShared, Privilege::ReadWrite, reads, writes);
