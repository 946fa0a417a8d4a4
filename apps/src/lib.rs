#![deny(unsafe_op_in_unsafe_fn)]
#![deny(missing_docs)]
#![doc = include_str!("../README.md")]

pub mod broadcast;
pub mod cg;
pub mod cholesky;
pub mod fft;
mod gather;

/// When a shard's tasks on what comes from others start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// When everything has come.
    Whole,
    /// When their own part has come.
    Partial,
}
