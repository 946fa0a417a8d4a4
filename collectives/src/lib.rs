#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod algorithms;
mod allreduce;
mod checker;
mod engine;
mod goal;
mod operator;
mod parts;
mod schedule;

#[doc = include_str!("../PROTOCOL.md")]
pub mod protocol {}

pub use algorithms::*;
pub use allreduce::{Allreduce, CollectiveOptions};
pub use checker::{Channels, CheckError, Report, check};
pub use goal::{Goal, Laws, Ranks, Want};
pub use operator::{Number, Operator};
pub use schedule::{Algorithm, Combine, Link, Part, Schedule, Step, UnknownAlgorithm};
