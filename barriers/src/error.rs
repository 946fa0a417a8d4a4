//! The errors of barriers and promises.

use serde::{Deserialize, Serialize};

/// A mistake that a barrier or a promise refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum BarrierError {
    /// An arriver is too far ahead: of the slowest arriver by more than the window, or of a missing arrival of its own
    /// by more than [`Arrivals::WINDOW`](crate::Arrivals::WINDOW).
    #[error(
        "over-arrival: arriver {arriver} arrived for generation {generation}, but generation {current} is not \
         complete and the window is {window} generations; wait for the barrier before arriving again, and look for \
         an arrival for generation {current} that was lost or is still to come"
    )]
    OverArrival {
        /// The arriver's position in the barrier's list.
        arriver: u32,
        /// The generation that the arrival counts for.
        generation: u64,
        /// The first generation that is not complete.
        current: u64,
        /// The number of generations beyond `current` that are allowed.
        window: u64,
    },
    /// An arriver arrived for the same generation again.
    #[error(
        "arriver {arriver} arrived for generation {generation} twice, expected one arrival for each generation; look \
         for an arrival that is made twice, or a handle that is moved back with `seek`"
    )]
    ArrivedTwice {
        /// The arriver's position in the barrier's list.
        arriver: u32,
        /// The generation of both arrivals.
        generation: u64,
    },
    /// An arrival was lost, doubled or overtaken, at a cell whose arrivals come strictly one by one.
    #[error(
        "arriver {arriver}: expected its arrival for generation {expected}, got one for generation {came}; look for \
         an arrival that is lost or made twice"
    )]
    OutOfOrder {
        /// The arriver's position in the barrier's list.
        arriver: u32,
        /// The next generation of the arriver.
        expected: u64,
        /// The generation of the arrival.
        came: u64,
    },
    /// A value came where the one before it in its place has not been taken.
    #[error(
        "a value for generation {generation} came, but an earlier value has not been taken: the consumer arrived at \
         `empty` without a `Get`; take each value with a `Get`, or use edges without values"
    )]
    ValueNotTaken {
        /// The generation of the arrival.
        generation: u64,
    },
    /// A task takes the value of a generation whose arrival carried none.
    #[error(
        "generation {generation} came without a value: the producer arrived at `ready` without a `Put`; send each value \
         with a `Put`, or wait for `ready` without a `Get`"
    )]
    NoValue {
        /// The generation.
        generation: u64,
    },
    /// The arriver is not in the list that the barrier was made with.
    #[error("arriver {arriver} is not one of the {arrivers} arrivers that this barrier was made with")]
    NotAnArriver {
        /// The position that was given.
        arriver: u32,
        /// The length of the barrier's list.
        arrivers: u32,
    },
    /// A promise was assigned twice.
    #[error("a future can be assigned only once, and this one already holds a value or an error")]
    AssignedTwice,
}
