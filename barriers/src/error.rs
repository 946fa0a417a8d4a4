//! What a barrier refuses.

use serde::{Deserialize, Serialize};

/// What a barrier or a promise refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum BarrierError {
    /// An arriver is further ahead than the barrier allows: of the slowest arriver, or of an arrival of its own that
    /// has not come.
    #[error(
        "over-arrival: arriver {arriver} arrived for generation {generation}, but generation {current} is not \
         complete and the window allows running ahead by {window}; wait for the barrier before arriving again, and \
         look for an arrival for generation {current} that was lost or is still to come"
    )]
    OverArrival {
        /// Position of the arriver in the barrier's list.
        arriver: u32,
        /// Generation the arrival counts for.
        generation: u64,
        /// First generation that is not complete.
        current: u64,
        /// How many generations beyond `current` are legal.
        window: u64,
    },
    /// An arriver arrived for the same generation again.
    #[error(
        "arriver {arriver} arrived for generation {generation} twice, expected one arrival for each generation; an \
         arrival was doubled, or its handle was moved back with `seek`"
    )]
    ArrivedTwice {
        /// Position of the arriver in the barrier's list.
        arriver: u32,
        /// Generation that came again.
        generation: u64,
    },
    /// At a cell whose arrivals come strictly one by one, one was lost, doubled or overtaken.
    #[error(
        "arriver {arriver}: expected its arrival for generation {expected}, got one for generation {came}; an arrival \
         was lost or doubled"
    )]
    OutOfOrder {
        /// Position of the arriver in the barrier's list.
        arriver: u32,
        /// Generation that was due.
        expected: u64,
        /// Generation that came.
        came: u64,
    },
    /// The arriver is not in the list the barrier was created with.
    #[error("arriver {arriver} is not one of the {arrivers} arrivers this barrier was created with")]
    NotAnArriver {
        /// Position that was given.
        arriver: u32,
        /// Length of the barrier's list.
        arrivers: u32,
    },
    /// A promise was given a value twice.
    #[error("a future is assigned once; this one already holds a value or an error")]
    AssignedTwice,
}
