//! The files of the wires, and the files of the runtime that they use, on loom's atomics, cells, locks and channels. The files
//! included by their paths are those of the runtime; the other modules stand in for the rest of it. The models are in `tests`.

// The tests within the files need the atomics of `std`.
#![cfg(all(target_os = "linux", not(test)))]
// The files are linted where they belong. Models use a part of them.
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
