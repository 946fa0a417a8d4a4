use serde::{Deserialize, Serialize};

/// What a barrier or a promise refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum BarrierError {
    /// An arriver is further ahead of the slowest one than the barrier allows.
    #[error(
        "over-arrival: arriver {arriver} arrived for generation {generation}, but generation {current} is not \
         complete and the window allows running ahead by {window}; wait for the barrier before arriving again"
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
    /// An arrival was lost, delivered twice or overtaken: generations of one arriver must come one by one.
    #[error(
        "arriver {arriver}: expected its arrival for generation {expected}, got one for generation {came}; \
         an arrival was lost or doubled, or tasks that arrive ran in another order than they were launched in"
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
    /// A second waiter on a cell that serves one.
    #[error(
        "generation {generation} is already waited for by another subtask; a ready/empty pair has one waiter a \
         generation: use a phase barrier for several"
    )]
    SecondWaiter {
        /// Generation asked for.
        generation: u64,
    },
    /// A promise was given a value twice.
    #[error("a future is assigned once; this one already holds a value or an error")]
    AssignedTwice,
}
