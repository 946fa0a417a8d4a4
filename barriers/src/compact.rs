//! A ready half and an empty half in little memory, for one arriver and one waiter each.

use crate::BarrierError;

/// One half of a ready/empty pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// It says that data may be read.
    Ready,
    /// It says that data has been read and may be overwritten.
    Empty,
}

impl Half {
    /// The bit that marks this half in the number of a cell or of a waiter.
    #[inline]
    pub const fn bit(self) -> u32 {
        match self {
            Half::Ready => 0,
            Half::Empty => 1 << 31,
        }
    }

    /// The half that is marked in a number.
    #[inline]
    pub const fn of(number: u32) -> Self {
        if number & Half::Empty.bit() == 0 { Half::Ready } else { Half::Empty }
    }
}

/// A ready half and an empty half that belong to one waiter, in 16 bytes and a value.
///
/// They behave like two [`BarrierCell`](crate::BarrierCell)s of one arriver each, with these limits:
///
/// - Arrivals come strictly one by one. The owner may keep those that come early, and [skip](Self::skip) ahead.
/// - The waiter waits for one half at a time, and only for its next generation. The owner may keep others.
/// - The owner keeps the poison.
///
/// The two need not be halves of the same pair. The ready half holds the value that came last, the empty half holds
/// none.
#[derive(Debug, Clone)]
pub struct CompactCells<V> {
    /// The number of complete generations of the ready half.
    ready: u64,
    /// The same of the empty half in 32 bits. Callers know about how many there are.
    empty: u32,
    /// The waiter, with the bit of its half, or `NOBODY`.
    waiter: u32,
    /// The value of the last arrival at the ready half.
    pub value: V,
}

const NOBODY: u32 = u32::MAX;

impl<V> CompactCells<V> {
    /// Makes cells without arrivals. A region starts empty, so generation 0 of the empty half is complete.
    pub const fn new(value: V) -> Self {
        Self { ready: 0, empty: 1, waiter: NOBODY, value }
    }

    /// The number of complete generations of a half. For the empty half, `near` must be less than 2³¹ away from it.
    #[inline]
    pub fn completed(&self, half: Half, near: u64) -> u64 {
        match half {
            Half::Ready => self.ready,
            Half::Empty => nearest(self.empty, near),
        }
    }

    /// Takes in the arrival at a half for `generation`, and returns the waiter that it releases. The caller may then
    /// put the arrival's value into [`value`](Self::value).
    ///
    /// # Errors
    /// [`BarrierError::OutOfOrder`]. Nothing is changed then.
    #[inline]
    pub fn arrive(&mut self, half: Half, generation: u64) -> Result<Option<u32>, BarrierError> {
        let completed = self.completed(half, generation);
        if generation != completed {
            return Err(BarrierError::OutOfOrder { arriver: 0, expected: completed, came: generation });
        }
        match half {
            Half::Ready => self.ready += 1,
            Half::Empty => self.empty = self.empty.wrapping_add(1),
        }
        Ok(self.release(half))
    }

    /// Makes the first `completed` generations of the ready half complete: arrivals that the owner kept count now.
    pub fn skip(&mut self, completed: u64) {
        self.ready = completed;
    }

    /// Registers the waiter, a number below 2³¹ − 1, for the next generation of a half.
    #[inline]
    pub fn wait(&mut self, half: Half, waiter: u32) {
        self.waiter = waiter | half.bit();
    }

    /// Takes out the waiter of a half.
    #[inline]
    pub fn release(&mut self, half: Half) -> Option<u32> {
        let waiter = self.waiter ^ half.bit();
        (waiter < NOBODY ^ Half::Empty.bit()).then(|| {
            self.waiter = NOBODY;
            waiter
        })
    }

    /// The waiter, and the half that it waits for.
    pub fn waiting(&self) -> Option<(Half, u32)> {
        (self.waiter != NOBODY).then(|| (Half::of(self.waiter), self.waiter & !Half::Empty.bit()))
    }

    /// Removes the waiter and replaces the value.
    pub fn clear(&mut self, value: V) {
        (self.waiter, self.value) = (NOBODY, value);
    }
}

/// The number closest to `near` that has these low 32 bits.
#[inline]
pub fn nearest(low: u32, near: u64) -> u64 {
    near.wrapping_add_signed(i64::from(low.wrapping_sub(near as u32) as i32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BarrierCell, Waited};
    use proptest::prelude::*;

    #[test]
    fn an_empty_half_counts_past_32_bits() {
        for start in [u64::from(i32::MAX as u32) - 2, u64::from(u32::MAX) - 2] {
            let mut cells = CompactCells { empty: start as u32, ..CompactCells::new(()) };
            for generation in start..start + 5 {
                assert_eq!(cells.arrive(Half::Empty, generation), Ok(None));
                let refused = BarrierError::OutOfOrder { arriver: 0, expected: generation + 1, came: generation };
                assert_eq!(cells.arrive(Half::Empty, generation), Err(refused));
            }
        }
    }

    #[test]
    fn whoever_gives_up_is_not_released() {
        let mut cells = CompactCells::new('a');
        cells.wait(Half::Empty, 5);
        cells.clear('b');
        assert_eq!((cells.arrive(Half::Empty, 1), cells.waiting(), cells.value), (Ok(None), None, 'b'));
    }

    proptest! {
        /// Against a cell for each half.
        #[test]
        fn does_what_two_cells_do(steps in prop::collection::vec((any::<bool>(), 0u8..4, 0u32..3), 0..100)) {
            let mut cells = CompactCells::new(());
            let mut halves = [(); 2].map(|()| BarrierCell::<u32, (), ()>::new(1, 64));
            prop_assert_eq!(halves[1].arrive(0, 0, None).unwrap().completed, 1);
            let mut waits = None;
            for (empty, what, waiter) in steps {
                let half = if empty { Half::Empty } else { Half::Ready };
                let own = &mut halves[usize::from(empty)];
                let next = own.completed();
                match what {
                    0 if waits.is_none() => {
                        cells.wait(half, waiter);
                        prop_assert_eq!(own.wait(next, waiter), Waited::Registered);
                        waits = Some((half, waiter));
                    }
                    0 | 1 => {
                        let arrived = own.arrive(0, next, None).unwrap();
                        prop_assert_eq!(cells.arrive(half, next), Ok(arrived.first));
                        waits = waits.filter(|(of, _)| *of != half);
                    }
                    2 => {
                        let came = next + 1 + u64::from(waiter);
                        let refused = BarrierError::OutOfOrder { arriver: 0, expected: next, came };
                        prop_assert_eq!(cells.arrive(half, came), Err(refused));
                    }
                    _ => {
                        let released = own.waits_mut().withdraw(next, |_| true);
                        prop_assert_eq!(cells.release(half), released);
                        waits = waits.filter(|(of, _)| *of != half);
                    }
                }
                prop_assert_eq!(cells.waiting(), waits);
                let near = |cell: &BarrierCell<u32, (), ()>| cell.completed() + u64::from(waiter);
                prop_assert_eq!(cells.completed(Half::Ready, near(&halves[0])), halves[0].completed());
                prop_assert_eq!(cells.completed(Half::Empty, near(&halves[1])), halves[1].completed());
            }
        }
    }
}
