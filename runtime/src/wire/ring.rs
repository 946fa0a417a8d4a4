//! A lock-free ring between one producer and one consumer. The protocol is in this folder's README.
//!
//! The stamp inside a slot says whether the slot is full, so a message moves the cache line of its slot and nothing else.
//! The consumer never writes to a slot. It publishes its position on another cache line. The producer reads that line only
//! when it runs out of slots known to be free, at best once a lap.

use super::sync::atomic::{AtomicUsize, Ordering};
use super::sync::{Arc, UnsafeCell};
#[cfg(target_os = "linux")]
use std::any::Any;
use std::mem::{self, MaybeUninit};
use std::ptr::NonNull;

/// A value and its stamp, alone on a cache line, or on as few as a larger value needs.
#[repr(align(64))]
struct RingSlot<T> {
    /// `position + 1` once the value of `position` is in place. Written by the producer only.
    stamp: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// The size of a slot in bytes.
pub const fn slot_bytes<T>() -> usize {
    size_of::<RingSlot<T>>()
}

/// A word on a cache line of its own.
#[repr(align(64))]
struct CacheLine(AtomicUsize);

/// The state shared by producer and consumer. Positions count values since the start and wrap around with `usize`.
///
/// It is read for each value and each look, so nothing that somebody writes may be on its cache lines, or on the line that
/// processors fetch together with one.
#[repr(align(128))]
struct Ring<T> {
    slots: NonNull<[RingSlot<T>]>,
    /// The consumer is done with every position before this one. Written by the consumer only.
    consumed: NonNull<CacheLine>,
    /// Keeps the memory of both.
    _memory: Memory<T>,
}

enum Memory<T> {
    Own {
        _ring: std::sync::Arc<Own<T>>,
    },
    #[cfg(target_os = "linux")]
    Shared {
        _mapping: std::sync::Arc<dyn Any + Send + Sync>,
    },
}

/// The memory of a ring within a process.
struct Own<T> {
    slots: Box<[RingSlot<T>]>,
    consumed: CacheLine,
}

// SAFETY: The cells are reached only through the one `Sender` and the one `Receiver`, which take `&mut self` to do so.
// The stamps and `consumed` order their accesses (README, rules 1 to 5), so no two threads touch a cell at once. Values
// move from thread to thread, hence `T: Send`. No `&T` is ever handed out, hence no `T: Sync`.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: As for `Sync`. The pointers lead to memory that the ring keeps, and that any thread may use.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    #[inline(always)]
    fn slot(&self, position: usize) -> &RingSlot<T> {
        // SAFETY: The ring keeps the memory. Its length is a power of two, so the mask leaves an index below the length.
        unsafe { self.slots.cast::<RingSlot<T>>().add(position & (self.slots.len() - 1)).as_ref() }
    }

    #[inline(always)]
    fn consumed(&self) -> &AtomicUsize {
        // SAFETY: The ring keeps the memory.
        unsafe { &self.consumed.as_ref().0 }
    }

    #[inline(always)]
    fn is_full(&self, position: usize) -> bool {
        self.slot(position).stamp.load(Ordering::Acquire) == position.wrapping_add(1)
    }

    /// For the producer: makes an empty ring of new memory. Zeros are one, but not in a model.
    #[cfg(target_os = "linux")]
    fn make(&self) {
        // SAFETY: New memory, of which nobody else knows.
        unsafe {
            self.consumed.write(CacheLine(AtomicUsize::new(0)));
            for i in 0..self.slots.len() {
                let slot = RingSlot { stamp: AtomicUsize::new(0), value: UnsafeCell::new(MaybeUninit::uninit()) };
                self.slots.cast::<RingSlot<T>>().add(i).write(slot);
            }
        }
    }

    /// Moves out the value at `position`.
    ///
    /// # Safety
    ///
    /// `is_full(position)` was true, the caller is the consumer (or the last owner), and it takes each position once.
    #[inline(always)]
    unsafe fn take(&self, position: usize) -> T {
        self.slot(position).value.with(|value| {
            // SAFETY: The stamp, loaded with Acquire, says that the value was written. The producer does not write
            // again until this position is published as consumed, and the caller takes it only this once.
            unsafe { value.read().assume_init() }
        })
    }

    /// For the last owner: moves out the next value that is left.
    fn take_rest(&mut self) -> Option<T> {
        let position = self.consumed().load(Ordering::Relaxed);
        if !self.is_full(position) {
            return None;
        }
        self.consumed().store(position.wrapping_add(1), Ordering::Relaxed);
        // SAFETY: `&mut self`: no handle is left. `consumed` was beyond everything ever popped, and has moved past this
        // position before its value is taken.
        Some(unsafe { self.take(position) })
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        /// Drops the rest if the drop of one value panics.
        struct Rest<'a, T>(&'a mut Ring<T>);

        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                while self.0.take_rest().is_some() {}
            }
        }

        #[cfg(target_os = "linux")]
        if matches!(self._memory, Memory::Shared { .. }) {
            // The other end may still be in use, in another process. The values are plain words.
            return;
        }
        while let Some(value) = self.take_rest() {
            let rest = Rest(self);
            drop(value);
            mem::forget(rest);
        }
    }
}

/// The producer's end of a ring; see [`ring`].
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    /// Where the next value goes.
    position: usize,
    /// The first position not known to be free.
    limit: usize,
}

/// The consumer's end of a ring; see [`ring`].
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
    /// Where the next value is expected.
    position: usize,
}

/// A ring of `capacity` slots for one producer and one consumer, which may be on different threads.
///
/// Values arrive in the order in which they were pushed. Values still inside are dropped with the second of the two
/// handles. Neither handle learns that the other is gone.
///
/// # Panics
///
/// If `capacity` is not a power of two of at least 2.
#[must_use]
pub fn ring<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    ring_at(capacity, 0)
}

/// A [`ring`] whose first position can be chosen, so that tests see positions wrap around.
pub fn ring_at<T: Send>(capacity: usize, start: usize) -> (Sender<T>, Receiver<T>) {
    assert!(
        capacity >= 2 && capacity.is_power_of_two(),
        "the capacity of a ring is a power of two of at least 2, not {capacity}"
    );
    // The stamps of the first lap run from `start + 1` to `start + capacity`, so `start` means empty in every slot.
    let slots = (0..capacity)
        .map(|_| RingSlot { stamp: AtomicUsize::new(start), value: UnsafeCell::new(MaybeUninit::uninit()) });
    let own = std::sync::Arc::new(Own { slots: slots.collect(), consumed: CacheLine(AtomicUsize::new(start)) });
    let (slots, consumed) = (NonNull::from(&*own.slots), NonNull::from(&own.consumed));
    let ring = Arc::new(Ring { slots, consumed, _memory: Memory::Own { _ring: own } });
    let sender = Sender { ring: Arc::clone(&ring), position: start, limit: start.wrapping_add(capacity) };
    let receiver = Receiver { ring, position: start };
    (sender, receiver)
}

/// The bytes of a ring in memory that processes share.
#[cfg(target_os = "linux")]
pub const fn ring_bytes<T>(capacity: usize) -> usize {
    size_of::<CacheLine>() + capacity * size_of::<RingSlot<T>>()
}

/// A ring in memory that processes share. Each of the two makes it for its own end.
///
/// # Safety
///
/// `at` leads to [`ring_bytes`] bytes that `memory` keeps, aligned to a cache line. They were zero before the first of the
/// two ends was made. In all processes together there are one sender and one receiver, with the same type and capacity.
#[cfg(target_os = "linux")]
unsafe fn ring_in<T: Send + Copy>(
    at: NonNull<u8>,
    capacity: usize,
    memory: std::sync::Arc<dyn Any + Send + Sync>,
) -> Arc<Ring<T>> {
    assert!(capacity >= 2 && capacity.is_power_of_two());
    // SAFETY: Within the bytes of the ring. Zeros are a slot that is empty in the first lap.
    let first = unsafe { at.add(size_of::<CacheLine>()) };
    let slots = NonNull::slice_from_raw_parts(first.cast(), capacity);
    Arc::new(Ring { slots, consumed: at.cast(), _memory: Memory::Shared { _mapping: memory } })
}

#[cfg(target_os = "linux")]
impl<T: Send + Copy> Sender<T> {
    /// The producer's end of a ring in memory that processes share.
    ///
    /// # Safety
    ///
    /// See [`ring_in`].
    pub unsafe fn in_memory(at: NonNull<u8>, capacity: usize, memory: std::sync::Arc<dyn Any + Send + Sync>) -> Self {
        // SAFETY: The caller's duty.
        let ring = unsafe { ring_in(at, capacity, memory) };
        if super::sync::MODEL {
            ring.make();
        }
        Self { ring, position: 0, limit: capacity }
    }
}

#[cfg(target_os = "linux")]
impl<T: Send + Copy> Receiver<T> {
    /// The consumer's end of a ring in memory that processes share.
    ///
    /// # Safety
    ///
    /// See [`ring_in`].
    pub unsafe fn in_memory(at: NonNull<u8>, capacity: usize, memory: std::sync::Arc<dyn Any + Send + Sync>) -> Self {
        // SAFETY: The caller's duty.
        Self { ring: unsafe { ring_in(at, capacity, memory) }, position: 0 }
    }
}

#[cfg(target_os = "linux")]
impl<T> Sender<T> {
    /// The position of the next value.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The first position whose value the consumer has not taken yet.
    pub fn taken(&self) -> usize {
        self.ring.consumed().load(Ordering::Acquire)
    }
}

impl<T: Send> Sender<T> {
    /// Appends `value`; never waits.
    ///
    /// # Errors
    ///
    /// Gives `value` back when every slot is in use.
    #[inline(always)]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if !self.has_free_slot() {
            return Err(value);
        }
        self.put(value);
        Ok(())
    }

    /// Appends `value` to a ring that [has a free slot](Self::has_free_slot).
    ///
    /// # Panics
    ///
    /// If [`Self::has_free_slot`] was not called for this push.
    #[inline(always)]
    pub fn put(&mut self, value: T) {
        assert!(self.position != self.limit, "a ring takes a value when it has a free slot");
        let slot = self.ring.slot(self.position);
        slot.value.with_mut(|cell| {
            // SAFETY: `position` is below `limit`, so the consumer has published (Release, read with Acquire) that it
            // is done with the value of a lap ago. It does not look at the new one before the stamp below says so.
            // There is one producer, and `&mut self` makes it one call at a time. The consumer moved the old value out,
            // so it is overwritten without a drop.
            unsafe { cell.write(MaybeUninit::new(value)) };
        });
        self.position = self.position.wrapping_add(1);
        slot.stamp.store(self.position, Ordering::Release);
    }

    /// Whether the next push takes its value.
    #[inline(always)]
    #[must_use]
    pub fn has_free_slot(&mut self) -> bool {
        self.position != self.limit || self.extend_limit()
    }

    /// Reads the consumer's position. False if no slot is free even so.
    #[cold]
    fn extend_limit(&mut self) -> bool {
        let consumed = self.ring.consumed().load(Ordering::Acquire);
        self.limit = consumed.wrapping_add(self.ring.slots.len());
        self.position != self.limit
    }
}

impl<T: Send> Receiver<T> {
    /// Takes the oldest value, if there is one; never waits.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.pop_with(|value| value)
    }

    /// Calls `f` with the oldest value, if there is one; never waits. The slot is free before `f` runs, which may panic. No
    /// `Option` of the value is made, which the compiler might copy once more, and in other pieces.
    #[inline(always)]
    pub fn pop_with<R>(&mut self, f: impl FnOnce(T) -> R) -> Option<R> {
        if !self.ring.is_full(self.position) {
            return None;
        }
        // SAFETY: The slot is full, this is the one consumer, and both its position and `consumed` move on just below.
        // Nothing in between can panic.
        let value = unsafe { self.ring.take(self.position) };
        self.position = self.position.wrapping_add(1);
        self.ring.consumed().store(self.position, Ordering::Release);
        Some(f(value))
    }

    /// Whether there is nothing to pop at present. Costs one Acquire load.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.ring.is_full(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    /// Starts at which positions wrap around within a few pushes, and the ordinary one.
    const STARTS: [usize; 5] = [0, 1, usize::MAX - 3, usize::MAX - 1, usize::MAX];

    #[test]
    fn a_full_ring_gives_the_value_back() {
        for capacity in [2, 4, 64] {
            for start in STARTS {
                let (mut tx, mut rx) = ring_at(capacity, start);
                for i in 0..capacity {
                    assert_eq!(tx.push(i), Ok(()));
                }
                assert_eq!(tx.push(99), Err(99));
                for i in 0..capacity {
                    assert_eq!(rx.pop(), Some(i));
                }
                assert_eq!(rx.pop(), None);
            }
        }
    }

    #[test]
    fn each_pop_frees_a_slot_for_one_push() {
        for capacity in [2, 4, 64] {
            for start in STARTS {
                let (mut tx, mut rx) = ring_at(capacity, start);
                for i in 0..capacity {
                    assert_eq!(tx.push(i), Ok(()));
                }
                for i in 0..3 * capacity {
                    assert_eq!(rx.pop(), Some(i));
                    assert_eq!(tx.push(i + capacity), Ok(()));
                    assert_eq!(tx.push(0), Err(0));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a power of two of at least 2, not 3")]
    fn an_odd_capacity_is_refused() {
        let _ = ring::<u8>(3);
    }

    #[test]
    #[ignore = "takes long; `./check full` runs it"]
    fn a_million_values_cross_threads_in_order() {
        for (capacity, start) in [(2, usize::MAX - 9), (256, 0)] {
            let (mut tx, mut rx) = ring_at::<[u64; 8]>(capacity, start);
            let producer = thread::spawn(move || {
                for i in 0..1_000_000 {
                    let mut value = [i; 8];
                    while let Err(back) = tx.push(value) {
                        value = back;
                        thread::yield_now();
                    }
                }
            });
            for i in 0..1_000_000 {
                let value = loop {
                    match rx.pop() {
                        Some(value) => break value,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(value, [i; 8]);
            }
            producer.join().unwrap();
            assert!(rx.is_empty());
        }
    }

    /// Notes its drop, and panics in it if told to.
    struct Noted<'a>(&'a [AtomicUsize], usize, bool);

    impl Drop for Noted<'_> {
        fn drop(&mut self) {
            self.0[self.1].fetch_add(1, Ordering::Relaxed);
            assert!(!self.2, "asked to");
        }
    }

    fn notes(n: usize) -> Vec<AtomicUsize> {
        (0..n).map(|_| AtomicUsize::new(0)).collect()
    }

    #[test]
    fn every_value_is_dropped_exactly_once() {
        for start in STARTS {
            for popped in 0..=8 {
                for sender_first in [false, true] {
                    let drops = notes(8);
                    let (mut tx, mut rx) = ring_at(8, start);
                    for i in 0..8 {
                        assert!(tx.push(Noted(&drops, i, false)).is_ok());
                    }
                    for _ in 0..popped {
                        drop(rx.pop());
                    }
                    if sender_first {
                        drop(tx);
                        drop(rx);
                    } else {
                        drop(rx);
                        drop(tx);
                    }
                    assert!(drops.iter().all(|d| d.load(Ordering::Relaxed) == 1));
                }
            }
        }
    }

    #[test]
    fn values_pushed_to_a_gone_receiver_are_dropped_with_the_sender() {
        let drops = notes(3);
        let (mut tx, rx) = ring(4);
        assert!(tx.push(Noted(&drops, 0, false)).is_ok());
        drop(rx);
        assert!(tx.push(Noted(&drops, 1, false)).is_ok());
        assert!(tx.push(Noted(&drops, 2, false)).is_ok());
        assert!(drops.iter().all(|d| d.load(Ordering::Relaxed) == 0));
        drop(tx);
        assert!(drops.iter().all(|d| d.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn a_drop_that_panics_does_not_stop_the_others() {
        let drops = notes(4);
        let (mut tx, rx) = ring(4);
        for i in 0..4 {
            assert!(tx.push(Noted(&drops, i, i == 1)).is_ok());
        }
        drop(rx);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(tx))).is_err());
        assert!(drops.iter().all(|d| d.load(Ordering::Relaxed) == 1));
    }
}
