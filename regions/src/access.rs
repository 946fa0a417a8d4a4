//! Accessors: typed access to a lease. The type carries privilege and coherence.

use std::fmt;

use crate::Rect;

mod bytes;
#[cfg(feature = "ndarray")]
mod ndarray;
mod read;
mod rows;
mod shared;
mod write;

pub use bytes::{ReadBytes, WriteBytes};
pub use read::{Read, ReadWrite};
pub use shared::{ReadShared, ReadWriteShared, WriteShared};
pub use write::{Reduce, Write};

#[cold]
#[track_caller]
pub(crate) fn outside(point: &dyn fmt::Debug, rect: Rect) -> ! {
    panic!("point {point:?} lies outside the leased rectangle {rect}")
}

#[cold]
#[track_caller]
pub(crate) fn wrong_len(came: usize, rect: Rect) -> ! {
    panic!("expected {} values for the leased rectangle {rect}, got {came}", rect.volume())
}

/// Implements what every accessor over a view has, and `Debug`.
macro_rules! shape {
    ($accessor:ident) => {
        impl<T: Element, const D: usize> $accessor<'_, T, D> {
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

        impl<T: Element, const D: usize> fmt::Debug for $accessor<'_, T, D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($accessor), "({})"), self.rect())
            }
        }
    };
}
pub(crate) use shape;
