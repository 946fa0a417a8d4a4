//! Access through relaxed atomic words.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::layout::Layout;
use super::storage::{Access, Storage};
use crate::{Element, Rect};

/// The width of the words of elements of `size` bytes, in bytes: the largest power of two up to 8 that divides it.
const fn width(size: usize) -> usize {
    let zeros = size.trailing_zeros();
    1 << if zeros > 3 { 3 } else { zeros }
}

/// Reads the words at `from` into `into`.
///
/// # Safety
///
/// `from` is a multiple of `width` bytes into the bytes of an atomic storage, `into` a multiple of `width` bytes long
/// and the storage at least as long from there; `width` is the storage's.
#[inline(always)]
unsafe fn load(from: NonNull<u8>, width: usize, into: &mut [u8]) {
    macro_rules! words {
        ($atomic:ty) => {
            for (i, word) in into.chunks_exact_mut(width).enumerate() {
                // SAFETY: the caller's promise: the word lies within the storage, and storages are aligned to 64 bytes,
                // so that it is aligned to its width. It is accessed atomically and with this width only (rule 5).
                let atomic = unsafe { <$atomic>::from_ptr(from.add(i * width).cast().as_ptr()) };
                word.copy_from_slice(&atomic.load(Relaxed).to_ne_bytes());
            }
        };
    }
    match width {
        8 => words!(AtomicU64),
        4 => words!(AtomicU32),
        2 => words!(AtomicU16),
        _ => words!(AtomicU8),
    }
}

/// Writes the words of `from` to `to`.
///
/// # Safety
///
/// As for [`load`].
#[inline(always)]
unsafe fn store(to: NonNull<u8>, width: usize, from: &[u8]) {
    macro_rules! words {
        ($atomic:ty, $word:ty) => {
            for (i, word) in from.chunks_exact(width).enumerate() {
                let mut bytes = <$word>::to_ne_bytes(0);
                bytes.copy_from_slice(word);
                // SAFETY: as in `load`.
                let atomic = unsafe { <$atomic>::from_ptr(to.add(i * width).cast().as_ptr()) };
                atomic.store(<$word>::from_ne_bytes(bytes), Relaxed);
            }
        };
    }
    match width {
        8 => words!(AtomicU64, u64),
        4 => words!(AtomicU32, u32),
        2 => words!(AtomicU16, u16),
        _ => words!(AtomicU8, u8),
    }
}

/// Panics unless `len` bytes from byte `at` are whole elements of the atomic `storage`.
fn whole_elements(storage: &Storage, at: usize, len: usize) -> usize {
    let size = storage.field().size;
    assert!(storage.access() == Access::Atomic, "the storage is not atomic");
    assert!(at.is_multiple_of(size) && len.is_multiple_of(size), "not a whole number of elements");
    assert!(at.checked_add(len).is_some_and(|end| end <= storage.bytes()), "outside the storage");
    width(size)
}

/// Reads whole elements of an atomic storage, from byte `at`.
pub(super) fn load_run(storage: &Storage, at: usize, into: &mut [u8]) {
    let width = whole_elements(storage, at, into.len());
    // SAFETY: the storage is atomic, the width its own; offset and length are multiples of the element size, which the
    // width divides, and lie within the storage.
    unsafe { load(storage.base().add(at), width, into) };
}

/// Writes whole elements of an atomic storage, from byte `at`.
pub(super) fn store_run(storage: &Storage, at: usize, from: &[u8]) {
    let width = whole_elements(storage, at, from.len());
    // SAFETY: as in `load_run`.
    unsafe { store(storage.base().add(at), width, from) };
}

/// The elements of a lease, through atomic words.
pub(crate) struct SharedView<'a, T, const D: usize> {
    first: NonNull<T>,
    layout: Layout<D>,
    lease: PhantomData<&'a T>,
}

impl<T: Element, const D: usize> SharedView<'_, T, D> {
    /// # Safety
    ///
    /// `first` and `layout` belong to a rectangle of an atomic storage with elements `T`, which outlives the view.
    #[inline]
    pub unsafe fn new(first: NonNull<T>, layout: Layout<D>) -> Self {
        SharedView { first, layout, lease: PhantomData }
    }

    #[inline]
    pub fn layout(&self) -> &Layout<D> {
        &self.layout
    }

    /// The element at `point`; `None` outside.
    #[inline]
    pub fn get(&self, point: [i64; D]) -> Option<T> {
        let at = self.layout.offset(point)?;
        let mut value = T::zeroed();
        // SAFETY: the element at this offset lies within the atomic storage that `new` was promised; offsets are whole
        // elements from its aligned base, and the width is a function of the element size.
        unsafe { load(self.first.add(at).cast(), const { width(size_of::<T>()) }, bytemuck::bytes_of_mut(&mut value)) };
        Some(value)
    }

    /// Sets the element at `point`; `None` outside.
    #[inline]
    pub fn set(&self, point: [i64; D], value: T) -> Option<()> {
        let at = self.layout.offset(point)?;
        // SAFETY: as in `get`.
        unsafe { store(self.first.add(at).cast(), const { width(size_of::<T>()) }, bytemuck::bytes_of(&value)) };
        Some(())
    }

    /// Copies all elements, row-major, to `into`, which must be as long.
    #[inline]
    pub fn copy_to(&self, into: &mut [T]) {
        assert_eq!(into.len(), self.layout.len(), "the slice must be as long as the leased rectangle");
        let len = self.layout.row_len();
        for row in 0..self.layout.rows() {
            let at = self.layout.row_offset(row);
            let bytes = bytemuck::cast_slice_mut(&mut into[row * len..][..len]);
            // SAFETY: as in `get`, for all elements of a row, which are neighbours.
            unsafe { load(self.first.add(at).cast(), const { width(size_of::<T>()) }, bytes) };
        }
    }

    /// Copies `from`, which must be as long, to all elements, row-major.
    #[inline]
    pub fn copy_from(&self, from: &[T]) {
        assert_eq!(from.len(), self.layout.len(), "the slice must be as long as the leased rectangle");
        let len = self.layout.row_len();
        for row in 0..self.layout.rows() {
            let at = self.layout.row_offset(row);
            let bytes = bytemuck::cast_slice(&from[row * len..][..len]);
            // SAFETY: as in `copy_to`.
            unsafe { store(self.first.add(at).cast(), const { width(size_of::<T>()) }, bytes) };
        }
    }

    /// Offsets of the first element of each row of `part`, in order; `None` if it reaches outside.
    fn rows_of(&self, part: &Rect) -> Option<impl Iterator<Item = usize> + '_> {
        if part.dim() != D || !self.layout.rect().contains_rect(part) {
            return None;
        }
        let mut hi: [i64; D] = std::array::from_fn(|d| part.hi(d));
        let lo: [i64; D] = std::array::from_fn(|d| part.lo(d));
        hi[D - 1] = hi[D - 1].min(lo[D - 1].saturating_add(1));
        Some(Rect::new(lo, hi).points::<D>().filter_map(|first| self.layout.offset(first)))
    }

    /// Copies the elements of `part`, row-major, to `into`, which must be as long; `None` if it reaches outside.
    pub fn copy_part_to(&self, part: &Rect, into: &mut [T]) -> Option<()> {
        let rows = self.rows_of(part)?;
        assert_eq!(into.len(), part.volume(), "the slice must be as long as the part");
        let len = part.extent(D - 1).max(1);
        for (at, row) in rows.zip(into.chunks_exact_mut(len)) {
            let bytes = bytemuck::cast_slice_mut(row);
            // SAFETY: as in `get`, for elements of a row from `at` on, which are neighbours and lie within the rectangle.
            unsafe { load(self.first.add(at).cast(), const { width(size_of::<T>()) }, bytes) };
        }
        Some(())
    }

    /// Copies `from`, which must be as long, to the elements of `part`, row-major; `None` if it reaches outside.
    pub fn copy_part_from(&self, part: &Rect, from: &[T]) -> Option<()> {
        let rows = self.rows_of(part)?;
        assert_eq!(from.len(), part.volume(), "the slice must be as long as the part");
        let len = part.extent(D - 1).max(1);
        for (at, row) in rows.zip(from.chunks_exact(len)) {
            // SAFETY: as in `copy_part_to`.
            unsafe { store(self.first.add(at).cast(), const { width(size_of::<T>()) }, bytemuck::cast_slice(row)) };
        }
        Some(())
    }

    /// Sets all elements to `value`.
    #[inline]
    pub fn fill(&self, value: T) {
        for row in 0..self.layout.rows() {
            let first = self.layout.row_offset(row);
            for at in first..first + self.layout.row_len() {
                // SAFETY: as in `copy_to`.
                unsafe {
                    store(self.first.add(at).cast(), const { width(size_of::<T>()) }, bytemuck::bytes_of(&value))
                };
            }
        }
    }
}
