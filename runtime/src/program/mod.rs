//! What users call.

pub(crate) mod deadline;
pub(crate) mod gang;
pub(crate) mod index;
pub(crate) mod launch;
pub(crate) mod launcher;
pub(crate) mod parent;
pub(crate) mod phase;
pub(crate) mod region;
pub(crate) mod runtime;
pub(crate) mod shard;
pub(crate) mod top;
