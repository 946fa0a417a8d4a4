//! Blocks as views of the crate `ndarray`, in place.

use ndarray::{ArrayView, ArrayViewMut, Ix1, Ix2, Ix3};

use crate::{Element, Read, ReadWrite, Write, WriteOnly};

macro_rules! views {
    ($($dimensions:literal: $index:ty;)*) => {$(
        impl<'a, T: Element> Read<'a, T, $dimensions> {
            /// The elements as a view of the crate `ndarray`, in place: index 0 is the leased rectangle's first point. Without
            /// elements all its extents are 0. Needs the feature `ndarray`.
            pub fn view(&self) -> ArrayView<'a, T, $index> {
                self.view.array()
            }
        }

        impl<T: Element> ReadWrite<'_, T, $dimensions> {
            /// The elements as a view of the crate `ndarray`; see [`Read::view`].
            pub fn view(&self) -> ArrayView<'_, T, $index> {
                self.view.reading().array()
            }

            /// The elements as a mutable view of the crate `ndarray`; see [`Read::view`].
            pub fn view_mut(&mut self) -> ArrayViewMut<'_, T, $index> {
                self.view.array_mut()
            }
        }

        impl<T: Element> Write<'_, T, $dimensions> {
            /// The elements, to be set, as a view of the crate `ndarray`; see [`Read::view`].
            pub fn view_mut(&mut self) -> ArrayViewMut<'_, WriteOnly<T>, $index> {
                self.view.array_mut()
            }
        }
    )*};
}

views! {
    1: Ix1;
    2: Ix2;
    3: Ix3;
}
