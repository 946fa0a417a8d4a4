#![deny(unsafe_op_in_unsafe_fn)]
#![deny(missing_docs)]
#![doc = include_str!("../README.md")]

pub mod broadcast;
pub mod cg;
pub mod cholesky;
pub mod fft;
mod gather;

/// A duration of so many nanoseconds, rounded.
pub fn nanoseconds(ns: f64) -> std::time::Duration {
    std::time::Duration::from_nanos(ns.round() as u64)
}

/// When a shard's tasks on what comes from others start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// When everything has come.
    Whole,
    /// When their own part has come.
    Partial,
}
