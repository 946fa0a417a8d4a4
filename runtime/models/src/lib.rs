//! The files of the wires, and the files of the runtime that they use, on loom's atomics, cells, locks and channels. What is not
//! the file itself stands for what the runtime has in its place. The models are in `tests`.

// The tests within the files need the atomics of `std`.
#![cfg(all(target_os = "linux", not(test)))]
// The files are linted where they belong. Models use a part of them, without the feature `mpi`.
#![allow(dead_code, missing_docs, private_interfaces, unexpected_cfgs, clippy::all)]

#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/ids.rs"]
mod ids;
pub mod message;
#[path = "../../src/names.rs"]
mod names;
#[path = "../../src/payload.rs"]
pub mod payload;
pub mod wire;

pub use error::Error;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq)]
pub enum Idle {
    Adapts,
    Looks(Duration),
}

#[derive(Clone, Copy, PartialEq)]
pub enum Progress {
    Poll,
    Dedicated,
}
