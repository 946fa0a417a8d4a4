#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod allreduce;
mod checker;
mod engine;
mod operator;
mod recursive_doubling;
mod schedule;
mod two_level;

#[doc = include_str!("../PROTOCOL.md")]
pub mod protocol {}

pub use allreduce::{Allreduce, CollectiveOptions};
pub use checker::{Channels, CheckError, Report, check};
pub use operator::{Number, Operator};
pub use recursive_doubling::recursive_doubling;
pub use schedule::{Algorithm, Combine, Link, Schedule, Step, UnknownAlgorithm};
pub use two_level::{Blocks, two_level};
