//! Owned bytes.
//!
//! Few bytes come from the allocator. Many are pages of their own. In the allocator's heap, blocks of changing sizes that
//! several threads take and give back leave holes that add up to several times their size. Pages that are given back are kept
//! for the next who needs some, as new ones cost more than it takes to fill them. With those in use they are never more
//! than were lately in use at once.
//!
//! For very many bytes Linux is asked for huge pages. With small ones a processor that reads all of them waits for translations of
//! addresses, too: an iteration of conjugate gradients on 64³ points then takes a tenth longer.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::field::CACHE_LINE;

/// From this many bytes on, they are pages of their own.
#[cfg(all(target_os = "linux", not(miri)))]
const LARGE: usize = 1 << 17;
#[cfg(not(all(target_os = "linux", not(miri))))]
const LARGE: usize = usize::MAX;

/// From this many bytes on, the system is asked for huge pages.
const HUGE: usize = 1 << 22;

/// A vector of these elements. If they have 4 MiB or more, Linux is asked for huge pages, as it is for
/// [buffers](crate::Buffer) and blocks of regions of this size. Aborts if memory is exhausted, as `Vec` does.
pub fn vec_in_huge_pages<T>(elements: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut vec = Vec::<T>::with_capacity(elements.len());
    pages::ask_if_many(vec.as_ptr().cast(), vec.capacity() * size_of::<T>());
    vec.extend(elements);
    vec
}

/// Owned, initialised bytes, which begin on a cache line.
pub(crate) struct Bytes {
    /// The first byte; dangling if there are none.
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: nothing else of this process uses the bytes, but through the pointer of `base`, as its user takes care of.
unsafe impl Send for Bytes {}
// SAFETY: as above; a shared reference gives references to read only.
unsafe impl Sync for Bytes {}

/// A cache line.
#[repr(align(64))]
struct Line;

const _: () = assert!(align_of::<Line>() == CACHE_LINE);

impl Bytes {
    /// Zeros. `None` if there is not enough memory.
    pub fn zeroed(len: usize) -> Option<Self> {
        let (mut bytes, are_zeros) = Self::any(len)?;
        if !are_zeros {
            bytes.as_mut_slice().fill(0);
        }
        Some(bytes)
    }

    /// A copy. `None` if there is not enough memory.
    pub fn copy_of(from: &[u8]) -> Option<Self> {
        let (mut bytes, _) = Self::any(from.len())?;
        bytes.as_mut_slice().copy_from_slice(from);
        Some(bytes)
    }

    /// Bytes of any values, and whether all are zeros.
    fn any(len: usize) -> Option<(Self, bool)> {
        if len >= LARGE {
            let (base, are_zeros) = pages::take(len)?;
            return Some((Self { base, len }, are_zeros));
        }
        let base = match len {
            0 => NonNull::<Line>::dangling().cast(),
            // SAFETY: the layout's size is not zero.
            _ => NonNull::new(unsafe { alloc_zeroed(Self::layout(len)?) })?,
        };
        Some((Self { base, len }, true))
    }

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len, CACHE_LINE).ok()
    }

    /// The first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes are there as long as this lives.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// The bytes, mutably.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if self.len >= LARGE {
            // SAFETY: `any` took the pages for this many bytes, and they are given back once.
            unsafe { pages::give(self.base, self.len) };
        } else if let Some(layout) = Self::layout(self.len).filter(|layout| layout.size() > 0) {
            // SAFETY: `any` allocated the bytes with this layout, and they are freed once.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

/// Pages of the system's, and those that are kept for the next use.
#[cfg(all(target_os = "linux", not(miri)))]
mod pages {
    use super::*;
    // Not the system calls themselves: libraries for networks know from these functions which pages are gone.
    use libc::{MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, MREMAP_MAYMOVE, PROT_READ, PROT_WRITE};
    use libc::{madvise, mmap, mremap, munmap};
    use std::ptr::null_mut;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Pages that are kept have no more bytes than this.
    const MOST: usize = 1 << 25;

    struct Pages {
        at: NonNull<u8>,
        bytes: usize,
    }

    // SAFETY: nobody uses the pages.
    unsafe impl Send for Pages {}

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: they were mapped, and nobody uses them.
            let unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.bytes) };
            debug_assert_eq!(unmapped, 0);
        }
    }

    struct Kept {
        /// Those given back first come first.
        spare: Vec<Pages>,
        /// Bytes of the pages in use.
        used: usize,
        /// The most bytes that were lately in use.
        most_used: usize,
    }

    static KEPT: Mutex<Kept> = Mutex::new(Kept { spare: Vec::new(), used: 0, most_used: 0 });

    /// All pages have a multiple of this many bytes, whatever the system's pages are.
    const GRAIN: usize = 1 << 16;

    fn whole(len: usize) -> Option<usize> {
        len.checked_next_multiple_of(GRAIN)
    }

    fn kept() -> MutexGuard<'static, Kept> {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pages for `len` bytes, and whether they are new, and so zeros. `None` if there is not enough memory.
    pub fn take(len: usize) -> Option<(NonNull<u8>, bool)> {
        let bytes = whole(len)?;
        let spare = kept().take(bytes);
        let old = spare.and_then(|pages| pages.resize(bytes)).map(|at| (at, false));
        let new = || map(bytes).map(|at| (at, true));
        let taken = old.or_else(new).or_else(|| {
            let _given_back = std::mem::take(&mut kept().spare);
            new()
        })?;
        let _too_many = kept().count(bytes);
        Some(taken)
    }

    /// # Safety
    /// `take` gave the pages for `len` bytes, and nobody uses them any more.
    pub unsafe fn give(at: NonNull<u8>, len: usize) {
        let bytes = whole(len).expect("it was taken");
        let _too_many = kept().give(Pages { at, bytes });
    }

    impl Kept {
        /// The spare pages whose size is nearest to `bytes`, if they are no more than twice as large or half as large.
        fn take(&mut self, bytes: usize) -> Option<Pages> {
            let fits = self.spare.iter().enumerate().filter(|(_, p)| bytes <= 2 * p.bytes && p.bytes <= 2 * bytes);
            let best = fits.rev().min_by_key(|(_, p)| p.bytes.abs_diff(bytes)).map(|(at, _)| at)?;
            Some(self.spare.remove(best))
        }

        /// Counts pages that are taken. Returns spare ones that are too many now.
        fn count(&mut self, bytes: usize) -> Vec<Pages> {
            self.used += bytes;
            self.most_used = self.most_used.max(self.used);
            self.too_many()
        }

        /// Keeps pages that are given back. Returns those that are too many.
        fn give(&mut self, pages: Pages) -> Vec<Pages> {
            self.used -= pages.bytes;
            self.most_used = self.used.max(self.most_used - self.most_used / 64);
            self.spare.push(pages);
            self.too_many()
        }

        fn too_many(&mut self) -> Vec<Pages> {
            let most = (self.most_used - self.used).min(MOST);
            let mut spare: usize = self.spare.iter().map(|pages| pages.bytes).sum();
            let mut all = 0;
            while spare > most {
                spare -= self.spare[all].bytes;
                all += 1;
            }
            self.spare.drain(..all).collect()
        }
    }

    impl Pages {
        /// Makes them larger or smaller, wherever they are then.
        fn resize(self, bytes: usize) -> Option<NonNull<u8>> {
            let mut at = self.at;
            if self.bytes != bytes {
                // SAFETY: they are mapped, and nobody uses them. Where this fails they stay as they are, and are unmapped.
                let resized = unsafe { mremap(at.as_ptr().cast(), self.bytes, bytes, MREMAP_MAYMOVE) };
                at = NonNull::new(resized.cast()).filter(|_| resized != MAP_FAILED)?;
                ask_if_many(at.as_ptr(), bytes);
            }
            std::mem::forget(self);
            Some(at)
        }
    }

    /// No more is mapped than was once in use, and no more is spare than may be.
    #[cfg(test)]
    pub fn check() {
        let kept = kept();
        let spare = kept.spare.iter().map(|pages| pages.bytes).sum::<usize>();
        assert!(spare + kept.used <= kept.most_used && spare <= MOST);
    }

    /// Ten blocks come and go again and again, one after the other: most are not mapped anew.
    #[test]
    fn what_comes_again_finds_spare_pages() {
        let mut kept = Kept { spare: Vec::new(), used: 0, most_used: 0 };
        for round in 0..3 {
            let mut held = Vec::new();
            let mut mapped = 0;
            for _ in 0..10 {
                held.push(kept.take(GRAIN).unwrap_or_else(|| {
                    mapped += 1;
                    Pages { at: map(GRAIN).expect("there is memory"), bytes: GRAIN }
                }));
                drop(kept.count(GRAIN));
            }
            assert!(mapped <= if round == 0 { 10 } else { 2 }, "round {round}: {mapped} of 10 mapped");
            held.into_iter().for_each(|pages| drop(kept.give(pages)));
        }
    }

    fn map(bytes: usize) -> Option<NonNull<u8>> {
        let (access, kind) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
        // SAFETY: a new mapping, at a place that the system chooses.
        let at = unsafe { mmap(null_mut(), bytes, access, kind, -1, 0) };
        let at = NonNull::new(at.cast()).filter(|_| at != MAP_FAILED)?;
        ask_if_many(at.as_ptr(), bytes);
        Some(at)
    }

    /// Asks for huge pages for bytes that this process has, if they are many. Where the system has none, nothing is lost.
    pub fn ask_if_many(at: *const u8, bytes: usize) {
        if bytes < HUGE {
            return;
        }
        // Whole pages, whatever the system's are.
        let before = at.align_offset(GRAIN).min(bytes);
        let whole = (bytes - before) / GRAIN * GRAIN;
        // SAFETY: within the bytes. The call changes none of them.
        let _ = unsafe { madvise(at.wrapping_add(before).cast_mut().cast(), whole, MADV_HUGEPAGE) };
    }

    /// Linux marks what it was asked for, whether or not it has huge pages.
    #[test]
    fn many_bytes_ask_for_huge_pages() {
        let is_asked = |at: *const u8| {
            let maps = std::fs::read_to_string("/proc/self/smaps").expect("the system's maps");
            let mut is_here = false;
            let flags = maps.lines().find_map(|line| {
                let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
                if let Some((start, end)) = range
                    && let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
                {
                    is_here = (start..end).contains(&at.addr());
                }
                line.strip_prefix("VmFlags:").filter(|_| is_here)
            });
            flags.expect("the flags of the map").split_whitespace().any(|flag| flag == "hg")
        };
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        let middle = |len: usize| Bytes::zeroed(len).map(|bytes| is_asked(bytes.base().as_ptr().wrapping_add(len / 2)));
        assert_eq!([HUGE - GRAIN, HUGE, 3 * HUGE + 1].map(middle), [Some(false), Some(true), Some(true)]);
        let vec = vec_in_huge_pages(0..HUGE as i32 / 4);
        assert!(vec.iter().copied().eq(0..HUGE as i32 / 4));
        assert!(is_asked(vec.as_ptr().wrapping_add(vec.len() / 2).cast()));
    }
}

/// No number of bytes is this large.
#[cfg(not(all(target_os = "linux", not(miri))))]
mod pages {
    use std::ptr::NonNull;

    pub fn take(_: usize) -> Option<(NonNull<u8>, bool)> {
        None
    }
    pub unsafe fn give(_: NonNull<u8>, _: usize) {}
    pub fn ask_if_many(_: *const u8, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whatever was there before, zeros are zeros and a copy is a copy, and nobody else changes them.
        #[test]
        fn bytes_belong_to_one_owner(steps in prop::collection::vec((0usize..3 * (1 << 17), 0usize..4, 1u8..), 1..40)) {
            let mut held: Vec<(Bytes, u8)> = Vec::new();
            for (len, drops, value) in steps {
                held.drain(..drops.max(held.len().saturating_sub(6)).min(held.len()));
                let all = |bytes: &Bytes, value: u8| bytes.as_slice() == vec![value; bytes.as_slice().len()];
                let mut zeros = Bytes::zeroed(len).expect("there is memory");
                prop_assert!(all(&zeros, 0) && zeros.as_slice().len() == len);
                prop_assert!(zeros.base().as_ptr().addr().is_multiple_of(CACHE_LINE));
                zeros.as_mut_slice().fill(value);
                let copy = Bytes::copy_of(zeros.as_slice()).expect("there is memory");
                held.extend([(zeros, value), (copy, value)]);
                for (bytes, value) in &held {
                    prop_assert!(all(bytes, *value));
                }
                #[cfg(target_os = "linux")]
                pages::check();
            }
        }
    }

    #[test]
    fn more_than_there_is_gives_none() {
        assert!(Bytes::zeroed(usize::MAX).is_none() && Bytes::zeroed(isize::MAX as usize).is_none());
    }
}
