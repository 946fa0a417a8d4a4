//! What users call.

pub(crate) mod deadline;
pub(crate) mod index;
pub(crate) mod launch;
pub(crate) mod launcher;
pub(crate) mod phase;
pub(crate) mod region;
pub(crate) mod shard;
pub(crate) mod top;

pub(crate) use launcher::Launcher;
