//! The elements of a lease as views of the crate `ndarray`.

use ndarray::{ArrayView, ArrayViewMut, Ix1, Ix2, Ix3, ShapeBuilder};

use super::{View, ViewMut};

macro_rules! arrays {
    ($($dimensions:literal: $index:ty;)*) => {$(
        impl<'a, T> View<'a, T, $dimensions> {
            /// All elements.
            pub fn array(&self) -> ArrayView<'a, T, $index> {
                let (first, extents, strides) = self.parts();
                // SAFETY: the elements that `new` was promised for `'a`.
                unsafe { ArrayView::from_shape_ptr(extents.strides(strides), first.as_ptr()) }
            }
        }

        impl<T> ViewMut<'_, T, $dimensions> {
            /// All elements, mutably.
            pub fn array_mut(&mut self) -> ArrayViewMut<'_, T, $index> {
                let (first, extents, strides) = self.reading().parts();
                // SAFETY: these elements are this view's alone during `'a`; this view is borrowed mutably meanwhile.
                unsafe { ArrayViewMut::from_shape_ptr(extents.strides(strides), first.as_ptr()) }
            }
        }
    )*};
}

arrays! {
    1: Ix1;
    2: Ix2;
    3: Ix3;
}
