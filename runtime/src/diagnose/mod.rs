//! The observers of a run: reports of deadlocks, the check for races, the comparison of nodes, and traces.

pub(crate) mod deadlock;
pub(crate) mod digest;
mod events;
pub(crate) mod races;
pub(crate) mod replicas;
pub(crate) mod trace;

pub(crate) use events::Event;
