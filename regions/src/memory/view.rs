//! Access through references.

use std::array;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use super::layout::Layout;
use crate::Rect;

/// The bytes of a lease: runs of neighbours, in row-major order.
pub(crate) struct ByteView<'a> {
    first: NonNull<u8>,
    /// The offset and the length of each run.
    runs: Vec<(usize, usize)>,
    lease: PhantomData<&'a mut u8>,
}

impl ByteView<'_> {
    /// # Safety
    ///
    /// The runs are disjoint, and belong to a rectangle of a plain storage that begins at `first` and outlives the view. Nobody
    /// writes to that rectangle meanwhile, and if [`run_mut`](Self::run_mut) is called nobody else reads there.
    pub unsafe fn new(first: NonNull<u8>, runs: Vec<(usize, usize)>) -> Self {
        ByteView { first, runs, lease: PhantomData }
    }

    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// Run number `run`, which must be below `count()`.
    pub fn run(&self, run: usize) -> &[u8] {
        let (at, len) = self.runs[run];
        // SAFETY: initialised bytes that `new` was promised for this view.
        unsafe { slice::from_raw_parts(self.first.add(at).as_ptr(), len) }
    }

    /// The same, mutably.
    pub fn run_mut(&mut self, run: usize) -> &mut [u8] {
        let (at, len) = self.runs[run];
        // SAFETY: as in `run`; nobody else is there, and the view is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.first.add(at).as_ptr(), len) }
    }
}

/// An element that can be set but never read. [`Write`](crate::Write) gives slices of them.
///
/// ```compile_fail,E0599
/// fn peek(slot: &maniple_regions::WriteOnly<f64>) -> f64 {
///     slot.get()
/// }
/// ```
///
/// ```compile_fail,E0616
/// fn peek(slot: &maniple_regions::WriteOnly<f64>) -> f64 {
///     slot.value
/// }
/// ```
#[repr(transparent)]
pub struct WriteOnly<T> {
    value: T,
}

impl<T> WriteOnly<T> {
    /// Sets the element.
    #[inline(always)]
    pub fn set(&mut self, value: T) {
        self.value = value;
    }
}

impl<T: Copy> WriteOnly<T> {
    /// Sets a slice of elements to `values`. Panics if the lengths differ.
    #[inline]
    #[track_caller]
    pub fn copy_from_slice(elements: &mut [WriteOnly<T>], values: &[T]) {
        assert_eq!(elements.len(), values.len(), "as many values as elements are needed");
        elements.iter_mut().zip(values).for_each(|(element, value)| element.value = *value);
    }
}

/// The elements of a lease, to be read.
pub(crate) struct View<'a, T, const D: usize> {
    first: NonNull<T>,
    layout: Layout<D>,
    lease: PhantomData<&'a T>,
}

impl<'a, T, const D: usize> View<'a, T, D> {
    /// # Safety
    ///
    /// `first` and `layout` belong to a rectangle of a plain storage with elements `T`, which outlives `'a`, and
    /// nobody writes to that rectangle during `'a`.
    #[inline]
    pub unsafe fn new(first: NonNull<T>, layout: Layout<D>) -> Self {
        View { first, layout, lease: PhantomData }
    }

    #[inline]
    pub fn layout(&self) -> &Layout<D> {
        &self.layout
    }

    /// The element at `point`; `None` outside.
    #[inline]
    pub fn get(&self, point: [i64; D]) -> Option<&'a T> {
        let at = self.layout.offset(point)?;
        // SAFETY: the layout's offsets lie within the rectangle that `new` was promised for `'a`.
        Some(unsafe { self.first.add(at).as_ref() })
    }

    /// Row `row`; `None` past the last.
    #[inline]
    pub fn row(&self, row: usize) -> Option<&'a [T]> {
        if row >= self.layout.rows() {
            return None;
        }
        let first = self.layout.row_offset(row);
        // SAFETY: as in `get`, for all elements of the row, which are neighbours.
        Some(unsafe { slice::from_raw_parts(self.first.add(first).as_ptr(), self.layout.row_len()) })
    }

    /// The row whose points begin with these coordinates; `None` outside. There is one for each dimension but the last.
    #[inline]
    pub fn row_at(&self, start: &[i64]) -> Option<&'a [T]> {
        let first = self.layout.row_at(start)?;
        // SAFETY: as in `row`.
        Some(unsafe { slice::from_raw_parts(self.first.add(first).as_ptr(), self.layout.row_len()) })
    }

    /// The first element, and the extents and the distances between neighbours in each dimension.
    #[inline]
    pub fn parts(&self) -> (NonNull<T>, [usize; D], [usize; D]) {
        (self.first, self.layout.extents(), self.layout.strides())
    }

    /// All elements, if there is no gap between them.
    #[inline]
    pub fn slice(&self) -> Option<&'a [T]> {
        // SAFETY: as in `get`, for all elements, which are neighbours.
        self.layout.contiguous().then(|| unsafe { slice::from_raw_parts(self.first.as_ptr(), self.layout.len()) })
    }

    #[inline]
    pub fn rows(&self) -> Rows<'a, T, D> {
        Rows { view: View { first: self.first, layout: self.layout, lease: PhantomData }, next: 0 }
    }
}

impl<'a, T> View<'a, T, 1> {
    /// All elements.
    #[inline]
    pub fn line(&self) -> &'a [T] {
        // SAFETY: as in `slice`; in one dimension there are no gaps.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.layout.row_len()) }
    }
}

/// The elements of a lease, to be read and written.
pub(crate) struct ViewMut<'a, T, const D: usize> {
    first: NonNull<T>,
    layout: Layout<D>,
    /// The cells on each side for which there is room.
    padding: usize,
    lease: PhantomData<&'a mut T>,
}

impl<'a, T, const D: usize> ViewMut<'a, T, D> {
    /// # Safety
    ///
    /// `first` and `layout` belong to a rectangle of a plain storage with elements `T`, which outlives `'a`, and
    /// nobody else reads or writes that rectangle, with so much padding around it, during `'a`.
    #[inline]
    pub unsafe fn new(first: NonNull<T>, layout: Layout<D>, padding: usize) -> Self {
        ViewMut { first, layout, padding, lease: PhantomData }
    }

    /// The elements and so many cells around them in each dimension, if there is room. An empty rectangle has no cells around it.
    pub fn padded(&mut self, width: [usize; D]) -> Option<ViewMut<'_, T, D>> {
        let mut padded = ViewMut { first: self.first, layout: self.layout, padding: 0, lease: PhantomData };
        if self.layout.len() > 0 {
            let before = padded.layout.widen(width.iter().all(|width| *width <= self.padding).then_some(width)?);
            // SAFETY: `new` was promised that the storage has these cells, too.
            padded.first = unsafe { self.first.sub(before) };
        }
        Some(padded)
    }

    /// The same elements, never to be read.
    #[inline]
    pub fn write_only(self) -> ViewMut<'a, WriteOnly<T>, D> {
        // A write-only element has the layout of the element itself (`repr(transparent)`), so the promise given to
        // `new` carries over.
        ViewMut { first: self.first.cast(), layout: self.layout, padding: self.padding, lease: PhantomData }
    }

    #[inline]
    pub fn layout(&self) -> &Layout<D> {
        &self.layout
    }

    /// The elements, to be read as long as this view is borrowed.
    #[inline]
    pub fn reading(&self) -> View<'_, T, D> {
        // SAFETY: the rectangle is this view's alone during `'a`, and this view is borrowed immutably meanwhile.
        unsafe { View::new(self.first, self.layout) }
    }

    /// The element at `point`; `None` outside.
    #[inline]
    pub fn get_mut(&mut self, point: [i64; D]) -> Option<&mut T> {
        let at = self.layout.offset(point)?;
        // SAFETY: the layout's offsets lie within the rectangle that is this view's alone during `'a`; this view is
        // borrowed mutably meanwhile.
        Some(unsafe { self.first.add(at).as_mut() })
    }

    /// Row `row`; `None` past the last.
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> Option<&mut [T]> {
        if row >= self.layout.rows() {
            return None;
        }
        let first = self.layout.row_offset(row);
        // SAFETY: as in `get_mut`, for all elements of the row, which are neighbours.
        Some(unsafe { slice::from_raw_parts_mut(self.first.add(first).as_ptr(), self.layout.row_len()) })
    }

    /// A row, mutably; see [`View::row_at`].
    #[inline]
    pub fn row_at_mut(&mut self, start: &[i64]) -> Option<&mut [T]> {
        let first = self.layout.row_at(start)?;
        // SAFETY: as in `row_mut`.
        Some(unsafe { slice::from_raw_parts_mut(self.first.add(first).as_ptr(), self.layout.row_len()) })
    }

    /// Two different rows, the first of them mutably; see [`View::row_at`].
    #[inline]
    pub fn two_rows(&mut self, changed: &[i64], read: &[i64]) -> Option<(&mut [T], &[T])> {
        let (changed, read) = (self.layout.row_at(changed)?, self.layout.row_at(read)?);
        let len = self.layout.row_len();
        if changed == read {
            return None;
        }
        // SAFETY: as in `row_mut`; different rows have no element in common.
        Some(unsafe {
            let changed = slice::from_raw_parts_mut(self.first.add(changed).as_ptr(), len);
            (changed, slice::from_raw_parts(self.first.add(read).as_ptr(), len))
        })
    }

    /// All elements, if there is no gap between them.
    #[inline]
    pub fn slice_mut(&mut self) -> Option<&mut [T]> {
        if !self.layout.contiguous() {
            return None;
        }
        // SAFETY: as in `get_mut`, for all elements, which are neighbours.
        Some(unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.layout.len()) })
    }

    #[inline]
    pub fn rows_mut(&mut self) -> RowsMut<'_, T, D> {
        let view = ViewMut { first: self.first, layout: self.layout, padding: 0, lease: PhantomData };
        RowsMut { view, next: 0 }
    }

    /// Calls `each` with every element and its point, in row-major order.
    #[inline]
    pub fn for_each(&mut self, mut each: impl FnMut([i64; D], &mut T)) {
        let rect = self.layout.rect();
        if rect.is_empty() {
            return;
        }
        let hi = |d: usize| if d == D - 1 { rect.lo(d) + 1 } else { rect.hi(d) };
        let first_column = Rect::new::<D>(array::from_fn(|d| rect.lo(d)), array::from_fn(hi));
        for (row, first) in self.rows_mut().zip(first_column.points::<D>()) {
            for (i, element) in row.iter_mut().enumerate() {
                let mut point = first;
                point[D - 1] += i as i64;
                each(point, element);
            }
        }
    }
}

impl<T> ViewMut<'_, T, 1> {
    /// All elements.
    #[inline]
    pub fn line_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `slice_mut`; in one dimension there are no gaps.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.layout.row_len()) }
    }
}

/// The rows of a lease, from first to last. A row is a run of elements along the last dimension.
pub struct Rows<'a, T, const D: usize> {
    view: View<'a, T, D>,
    next: usize,
}

impl<'a, T, const D: usize> Iterator for Rows<'a, T, D> {
    type Item = &'a [T];

    #[inline]
    fn next(&mut self) -> Option<&'a [T]> {
        let row = self.view.row(self.next)?;
        self.next += 1;
        Some(row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.view.layout.rows() - self.next;
        (left, Some(left))
    }
}

impl<T, const D: usize> ExactSizeIterator for Rows<'_, T, D> {}

/// The rows of a lease, from first to last, mutably.
pub struct RowsMut<'a, T, const D: usize> {
    view: ViewMut<'a, T, D>,
    next: usize,
}

impl<'a, T, const D: usize> Iterator for RowsMut<'a, T, D> {
    type Item = &'a mut [T];

    #[inline]
    fn next(&mut self) -> Option<&'a mut [T]> {
        let row = self.view.row_mut(self.next)?;
        self.next += 1;
        // SAFETY: rows do not overlap, and each is given once, because `next` only grows; so the longer life, `'a`, for
        // which this iterator has all rows for itself, makes no two references to one element.
        Some(unsafe { slice::from_raw_parts_mut(row.as_mut_ptr(), row.len()) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.view.layout.rows() - self.next;
        (left, Some(left))
    }
}

impl<T, const D: usize> ExactSizeIterator for RowsMut<'_, T, D> {}
