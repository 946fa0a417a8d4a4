//! Handles: the rights to arrive at a barrier and to wait for it. Each counts its generation.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

/// The role of a barrier: it says that data is there ([`Ready`]), that a value may be replaced ([`Empty`]), or that a
/// phase has ended ([`Phase`]).
pub trait Role: 'static {
    /// The name of the role in reports.
    const NAME: &'static str;
}

/// The role of a barrier whose arrivals say that data may be read.
#[derive(Debug)]
pub enum Ready {}
/// The role of a barrier whose arrivals say that data has been read and may be overwritten.
#[derive(Debug)]
pub enum Empty {}
/// The role of a phase barrier with any arrivers and waiters.
#[derive(Debug)]
pub enum Phase {}

impl Role for Ready {
    const NAME: &'static str = "ready";
}
impl Role for Empty {
    const NAME: &'static str = "empty";
}
impl Role for Phase {
    const NAME: &'static str = "phase";
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $verb:literal) => {
        $(#[$doc])*
        pub struct $name<R: Role, A> {
            address: A,
            next: Cell<u64>,
            role: PhantomData<fn() -> R>,
        }

        impl<R: Role, A: Copy> $name<R, A> {
            /// Makes a handle whose first generation is `first`.
            pub fn new(address: A, first: u64) -> Self {
                Self { address, next: Cell::new(first), role: PhantomData }
            }

            /// The address of the barrier's cell.
            pub fn address(&self) -> A {
                self.address
            }

            #[doc = concat!("The generation of the next ", $verb, " through this handle.")]
            pub fn generation(&self) -> u64 {
                self.next.get()
            }

            #[doc = concat!("Takes the generation of one ", $verb, ". The next generation is one higher.")]
            pub fn take(&self) -> u64 {
                self.next.replace(self.next.get() + 1)
            }

            /// Moves the handle to another generation, for callers that count generations themselves.
            pub fn seek(&self, generation: u64) {
                self.next.set(generation);
            }
        }

        impl<R: Role, A: fmt::Debug> fmt::Debug for $name<R, A> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("role", &R::NAME)
                    .field("address", &self.address)
                    .field("generation", &self.next.get())
                    .finish()
            }
        }
    };
}

handle!(
    /// The right to arrive at a barrier. Its k-th use counts for generation k (from 0).
    ///
    /// An arriver cannot wait, and a ready arriver is not an empty one:
    ///
    /// ```compile_fail
    /// use maniple_barriers::{Arriver, Empty, Ready};
    /// fn fill(_: &Arriver<Ready, u32>) {}
    /// fill(&Arriver::<Empty, u32>::new(0, 0));
    /// ```
    #[must_use = "an arriver that never arrives leaves its waiters waiting"]
    Arriver,
    "arrival"
);
handle!(
    /// The right to wait for a barrier, for one generation after the other.
    ///
    /// ```compile_fail
    /// use maniple_barriers::{Arriver, Ready, Waiter};
    /// fn read_after(_: &Waiter<Ready, u32>) {}
    /// read_after(&Arriver::<Ready, u32>::new(0, 0));
    /// ```
    Waiter,
    "wait"
);

impl<R: Role, A: Copy> Waiter<R, A> {
    /// Gives back the generation that [`take`](Self::take) gave last, so that the next wait is for it again. Returns
    /// false, and changes nothing, if another one has been taken since.
    pub fn give_back(&self, generation: u64) -> bool {
        let is_last = self.next.get() == generation + 1;
        if is_last {
            self.next.set(generation);
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_takes_the_next_generation() {
        let ready = Arriver::<Ready, u32>::new(7, 3);
        assert_eq!((ready.take(), ready.take(), ready.generation()), (3, 4, 5));
        ready.seek(9);
        assert_eq!(ready.take(), 9);
        assert_eq!(ready.address(), 7);
    }

    #[test]
    fn the_last_generation_taken_can_be_given_back() {
        let ready = Waiter::<Ready, u32>::new(7, 3);
        let (earlier, last) = (ready.take(), ready.take());
        assert!(!ready.give_back(earlier));
        assert!(ready.give_back(last) && !ready.give_back(last));
        assert!(ready.give_back(earlier));
        assert_eq!(ready.take(), 3);
    }
}
