//! A vector that changes in one place while another is on loan.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

/// A vector, of whose elements its owner can lend ranges. A range on loan does not change. The others may.
///
/// Made from a shared vector, it can lend, and nothing of it changes.
///
/// ```
/// use maniple_regions::Lendable;
///
/// let mut all = Lendable::from(vec![1, 2, 3, 4]);
/// let loan = all.lend(0..2);
/// assert!(all.change(1..3).is_none());
/// all.change(2..4).unwrap().fill(7);
/// assert_eq!(loan.as_slice(), [1, 2]);
/// drop(loan);
/// all.change(1..3).unwrap().fill(8);
/// assert_eq!(all.into_vec().unwrap(), [1, 8, 8, 7]);
/// ```
pub struct Lendable<T> {
    elements: Arc<Elements<T>>,
    loans: Loans,
}

/// The ranges that are or were on loan. There may be thousands, each lent to thousands of readers.
#[derive(Default)]
struct Loans {
    /// By start and end. Every loan of a range holds its token, which the owner alone holds when all of them have ended.
    tokens: BTreeMap<(usize, usize), Arc<()>>,
    /// The length of the longest of them: those that overlap with a range begin at most so far before it.
    longest: usize,
    /// When there are this many, the loans that have ended are looked for.
    limit: usize,
}

impl Loans {
    /// The token of a range.
    fn lend(&mut self, range: &Range<usize>) -> Arc<()> {
        let key = (range.start, range.end);
        if let Some(token) = self.tokens.get(&key) {
            return token.clone();
        }
        if self.tokens.len() >= self.limit {
            self.forget_what_is_over();
            // Looking at all costs as much as the loans that came since the last time.
            self.limit = 2 * self.tokens.len() + 8;
        }
        self.longest = self.longest.max(range.len());
        self.tokens.entry(key).or_default().clone()
    }

    /// Whether some of a range is on loan. If not, its readers have read it before.
    fn overlap(&mut self, range: &Range<usize>) -> bool {
        let first = range.start.saturating_sub(self.longest);
        let near = self.tokens.range_mut((first, 0)..(range.end, 0));
        near.into_iter()
            .any(|(&(start, end), token)| start.max(range.start) < end.min(range.end) && Arc::get_mut(token).is_none())
    }

    /// Whether nothing is on loan.
    fn are_over(&mut self) -> bool {
        self.forget_what_is_over();
        self.tokens.is_empty()
    }

    fn forget_what_is_over(&mut self) {
        self.tokens.retain(|_, token| Arc::get_mut(token).is_none());
        if self.tokens.is_empty() {
            self.longest = 0;
        }
    }
}

/// Some elements on loan. Dropping it gives them back.
pub struct Loan<T> {
    elements: Arc<Elements<T>>,
    range: Range<usize>,
    /// While it is held, the owner does not change the range.
    _token: Arc<()>,
}

/// The parts of a vector. Nobody makes a reference to all of it while some of it changes.
struct Elements<T> {
    /// Where the elements are: a pointer, as there may be references to several of them, some of which change them.
    start: UnsafeCell<*mut T>,
    len: usize,
    capacity: usize,
    /// The vector whose elements they are, if others may read it too. Then nobody changes them.
    shared: Option<Arc<Vec<T>>>,
}

// SAFETY: the elements are reached through a `Lendable` or a `Loan` only. Loans give shared references, which other threads
// may have as `T: Sync`. The owner changes elements, and drops them on any thread, as `T: Send`; see `change`.
#[allow(unsafe_code)]
unsafe impl<T: Send + Sync> Sync for Elements<T> {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl<T: Send + Sync> Send for Elements<T> {}

impl<T> Elements<T> {
    /// Some of the elements.
    ///
    /// # Safety
    ///
    /// Nobody changes them while the reference lives.
    #[allow(unsafe_code)]
    unsafe fn slice(&self, range: &Range<usize>) -> &[T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} elements", self.len);
        // SAFETY: the range lies in the vector, whose elements are initialised; the caller says that nobody changes them.
        unsafe { std::slice::from_raw_parts((*self.start.get()).add(range.start), range.len()) }
    }
}

impl<T> Drop for Elements<T> {
    fn drop(&mut self) {
        if self.shared.is_some() {
            return;
        }
        // SAFETY: these are the parts of a vector, and the last owner drops them. `into_vec` does not come here.
        #[allow(unsafe_code)]
        drop(unsafe { Vec::from_raw_parts(*self.start.get(), self.len, self.capacity) });
    }
}

impl<T> From<Vec<T>> for Lendable<T> {
    fn from(vector: Vec<T>) -> Self {
        let mut vector = ManuallyDrop::new(vector);
        let (start, len, capacity) = (vector.as_mut_ptr(), vector.len(), vector.capacity());
        Self {
            elements: Arc::new(Elements { start: start.into(), len, capacity, shared: None }),
            loans: Loans::default(),
        }
    }
}

impl<T> From<Arc<Vec<T>>> for Lendable<T> {
    fn from(vector: Arc<Vec<T>>) -> Self {
        let (start, len, capacity) = (vector.as_ptr().cast_mut(), vector.len(), vector.capacity());
        let elements = Elements { start: start.into(), len, capacity, shared: Some(vector) };
        Self { elements: Arc::new(elements), loans: Loans::default() }
    }
}

impl<T> Default for Lendable<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> Lendable<T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.elements.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All elements.
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: only `change` gives references that change elements. It borrows this mutably, so none of them lives.
        #[allow(unsafe_code)]
        unsafe {
            self.elements.slice(&(0..self.len()))
        }
    }

    /// Lends elements. They do not change until the loan is dropped.
    ///
    /// # Panics
    ///
    /// If the range does not lie in the vector.
    pub fn lend(&mut self, range: Range<usize>) -> Loan<T> {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {} elements", self.len());
        let token = self.loans.lend(&range);
        Loan { elements: self.elements.clone(), range, _token: token }
    }

    /// The elements of a range, to change them, unless some of them are on loan or the vector is shared.
    ///
    /// # Panics
    ///
    /// If the range does not lie in the vector.
    pub fn change(&mut self, range: Range<usize>) -> Option<&mut [T]> {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {} elements", self.len());
        if self.elements.shared.is_some() {
            return None;
        }
        if self.loans.overlap(&range) {
            return None;
        }
        // SAFETY: the range lies in the vector, which is not shared. Loans of its elements have ended: `Arc::get_mut` has given
        // their tokens to the owner alone, so whatever their holders did before they let go of a token comes before. Loans that
        // have not ended have other elements. The owner's own references come from borrows of this, which is borrowed mutably.
        #[allow(unsafe_code)]
        Some(unsafe { std::slice::from_raw_parts_mut((*self.elements.start.get()).add(range.start), range.len()) })
    }

    /// The vector.
    ///
    /// # Errors
    /// This again, if some of it is on loan or it is shared.
    pub fn into_vec(mut self) -> Result<Vec<T>, Self> {
        if !self.loans.are_over() || self.elements.shared.is_some() {
            return Err(self);
        }
        // The holders of loans that have ended have let go of the elements, too, and before their tokens.
        let Self { elements, loans } = self;
        match Arc::try_unwrap(elements) {
            Ok(elements) => {
                let elements = ManuallyDrop::new(elements);
                // SAFETY: these are the parts of a vector, nobody else has them, and they are not dropped.
                #[allow(unsafe_code)]
                Ok(unsafe { Vec::from_raw_parts(*elements.start.get(), elements.len, elements.capacity) })
            }
            Err(elements) => Err(Self { elements, loans }),
        }
    }

    /// Whether nothing is on loan, so that all of it can change.
    pub fn is_free(&mut self) -> bool {
        self.loans.are_over() && self.elements.shared.is_none()
    }

    /// Whether it was made from a shared vector.
    pub fn is_shared(&self) -> bool {
        self.elements.shared.is_some()
    }
}

impl<T> Loan<T> {
    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the owner does not change them while the loan lives, since it holds a token of them.
        #[allow(unsafe_code)]
        unsafe {
            self.elements.slice(&self.range)
        }
    }
}

impl<T> fmt::Debug for Lendable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lendable of {} elements, {} ranges lent", self.len(), self.loans.tokens.len())
    }
}

impl<T> fmt::Debug for Loan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loan of {:?}", self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    proptest! {
        /// Against a list of the loans that are out.
        #[test]
        fn what_is_on_loan_does_not_change(steps in prop::collection::vec((0..4u8, 0..9usize, 0..9usize), 0..60)) {
            let mut all = Lendable::from((0..8).collect::<Vec<usize>>());
            let mut model: Vec<usize> = (0..8).collect();
            let mut loans: Vec<(Range<usize>, Loan<usize>, Vec<usize>)> = Vec::new();
            for (number, (what, a, b)) in steps.into_iter().enumerate() {
                let range = a.min(b).min(8)..a.max(b).min(8);
                match what {
                    0 => {
                        let loan = all.lend(range.clone());
                        loans.push((range.clone(), loan, model[range].to_vec()));
                    }
                    1 if !loans.is_empty() => drop(loans.swap_remove(a % loans.len())),
                    _ => {
                        let on_loan = loans.iter().any(|(lent, ..)| lent.clone().any(|i| range.contains(&i)));
                        match all.change(range.clone()) {
                            Some(own) => {
                                prop_assert!(!on_loan);
                                own.fill(100 + number);
                                model[range].fill(100 + number);
                            }
                            None => prop_assert!(on_loan),
                        }
                    }
                }
                prop_assert_eq!(all.as_slice(), &model[..]);
                for (_, loan, seen) in &loans {
                    prop_assert_eq!(loan.as_slice(), &seen[..]);
                }
            }
            prop_assert_eq!(all.is_free(), loans.iter().all(|_| false));
            let all = match all.into_vec() {
                Ok(vector) => {
                    prop_assert!(loans.is_empty());
                    vector
                }
                Err(mut all) => {
                    prop_assert!(!loans.is_empty() && all.len() == 8);
                    loans.clear();
                    prop_assert!(all.is_free());
                    all.into_vec().unwrap()
                }
            };
            prop_assert_eq!(all, model);
        }
    }

    #[test]
    fn elements_are_dropped_once() {
        static ALIVE: AtomicUsize = AtomicUsize::new(0);
        struct Counted;
        impl Counted {
            fn new() -> Self {
                ALIVE.fetch_add(1, Ordering::Relaxed);
                Self
            }
        }
        impl Drop for Counted {
            fn drop(&mut self) {
                ALIVE.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let some = || Lendable::from((0..5).map(|_| Counted::new()).collect::<Vec<_>>());
        drop(some());
        drop(some().into_vec());
        let mut all = some();
        let loan = all.lend(1..3);
        drop(all);
        assert_eq!((ALIVE.load(Ordering::Relaxed), loan.as_slice().len()), (5, 2));
        drop(loan);
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn nothing_of_a_shared_vector_changes() {
        let own = Arc::new(vec![1, 2, 3]);
        let mut all = Lendable::from(own.clone());
        assert!(all.change(1..2).is_none() && !all.is_free() && all.is_shared());
        let loan = all.lend(1..3);
        let all = all.into_vec().expect_err("it is shared");
        assert_eq!(all.as_slice().as_ptr(), own.as_ptr());
        drop((all, own));
        assert_eq!(loan.as_slice(), [2, 3]);
        let own = Arc::new(vec![String::from("one")]);
        drop(Lendable::from(own.clone()));
        assert_eq!(Arc::into_inner(own).expect("nobody else holds it"), ["one"]);
    }

    /// For tools that watch memory: another thread reads a loan while the owner changes its neighbours, and then itself.
    #[test]
    fn another_thread_reads_while_the_owner_changes_the_rest() {
        let mut all = Lendable::from(vec![1u64; 64]);
        for round in 1..100u64 {
            let loan = all.lend(0..32);
            let reader = thread::spawn(move || loan.as_slice().iter().sum::<u64>());
            all.change(32..64).expect("not on loan").fill(round);
            while all.change(0..32).is_none() {
                thread::yield_now();
            }
            all.change(0..32).expect("the loan has ended").fill(round + 1);
            assert_eq!(reader.join().unwrap(), 32 * round);
        }
    }
}
