//! What a run can say of itself: why it is in a deadlock, races, nodes that differ, traces.

pub(crate) mod deadlock;
pub(crate) mod races;
pub(crate) mod replicas;
pub(crate) mod trace;
