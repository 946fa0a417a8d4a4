#![deny(unsafe_op_in_unsafe_fn)]
#![deny(missing_docs)]
#![doc = include_str!("../README.md")]

pub mod broadcast;
pub mod cholesky;
pub mod fft;
