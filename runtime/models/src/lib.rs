//! The files of the wires, as they are, on loom's atomics, cells, locks and channels. What else they use of the runtime is
//! the runtime's own where it is public, and otherwise a small module here that stands for it. The models are in `tests`.

// The files are linted where they belong. Models use a part of them, without the feature `mpi`.
#![cfg(target_os = "linux")]
#![allow(dead_code, missing_docs, private_interfaces, unexpected_cfgs, clippy::all)]

pub mod message;
pub mod wire;

pub mod ids {
    pub use maniple_mapper::ProcessorId;
    pub type ObjectId = u32;
}

pub mod payload {
    pub use maniple_runtime::{Lent, Payload};
}

pub use maniple_runtime::{Error, Idle, Progress};
