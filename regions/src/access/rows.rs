//! Rows of a block by the coordinates of its tree.

use super::outside;
use crate::{Element, Read, ReadWrite, Write, WriteOnly};

/// `$start` stands for the coordinates of a row: those of its points, without the last one.
macro_rules! rows {
    ($($dimensions:literal, $start:ty, $slice:expr;)*) => {$(
        impl<'a, T: Element> Read<'a, T, $dimensions> {
            /// The row whose points begin with these coordinates of the tree. A row runs along the last dimension.
            ///
            /// # Panics
            ///
            /// If the row is outside the leased rectangle.
            #[inline]
            #[track_caller]
            pub fn row_at(&self, row: $start) -> &'a [T] {
                match self.view.row_at($slice(&row)) {
                    Some(elements) => elements,
                    None => outside(&row, self.rect()),
                }
            }
        }

        impl<T: Element> ReadWrite<'_, T, $dimensions> {
            /// A row by its coordinates; see [`Read::row_at`].
            ///
            /// # Panics
            ///
            /// If the row is outside the leased rectangle.
            #[inline]
            #[track_caller]
            pub fn row_at(&self, row: $start) -> &[T] {
                match self.view.reading().row_at($slice(&row)) {
                    Some(elements) => elements,
                    None => outside(&row, self.rect()),
                }
            }

            /// A row by its coordinates, mutably; see [`Read::row_at`].
            ///
            /// # Panics
            ///
            /// If the row is outside the leased rectangle.
            #[inline]
            #[track_caller]
            pub fn row_at_mut(&mut self, row: $start) -> &mut [T] {
                let rect = self.rect();
                match self.view.row_at_mut($slice(&row)) {
                    Some(elements) => elements,
                    None => outside(&row, rect),
                }
            }

            /// Two rows by their coordinates: one to change, and another one to read.
            ///
            /// # Panics
            ///
            /// If a row is outside the leased rectangle, or both are the same.
            #[inline]
            #[track_caller]
            pub fn two_rows(&mut self, changed: $start, read: $start) -> (&mut [T], &[T]) {
                let rect = self.rect();
                assert!(changed != read, "two different rows are needed, and {changed:?} is given twice");
                match self.view.two_rows($slice(&changed), $slice(&read)) {
                    Some(rows) => rows,
                    None => outside(&(changed, read), rect),
                }
            }
        }

        impl<T: Element> Write<'_, T, $dimensions> {
            /// A row by its coordinates, to be set; see [`Read::row_at`].
            ///
            /// # Panics
            ///
            /// If the row is outside the leased rectangle.
            #[inline]
            #[track_caller]
            pub fn row_at_mut(&mut self, row: $start) -> &mut [WriteOnly<T>] {
                let rect = self.rect();
                match self.view.row_at_mut($slice(&row)) {
                    Some(elements) => elements,
                    None => outside(&row, rect),
                }
            }
        }
    )*};
}

rows! {
    2, i64, std::slice::from_ref;
    3, [i64; 2], <[i64; 2]>::as_slice;
}
