//! What a run can say of itself: why it is in a deadlock, races, nodes that differ, traces.

pub(crate) mod deadlock;
mod events;
pub(crate) mod races;
pub(crate) mod replicas;
pub(crate) mod trace;

pub(crate) use events::Event;
