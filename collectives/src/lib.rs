#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod algorithms;
mod allreduce;
mod builder;
mod checker;
mod collective;
mod engine;
mod goal;
mod parts;
mod schedule;
mod sizes;
mod spec;

#[doc = include_str!("../PROTOCOL.md")]
pub mod protocol {}

pub use algorithms::*;
pub use allreduce::{Allreduce, CollectiveOptions};
pub use builder::CollectiveBuilder;
pub use checker::{Channels, CheckError, Report, check};
pub use collective::{Collective, Value};
pub use goal::{Goal, Ranks, Want};
pub use maniple_regions::{Laws, Number, Operator};
pub use schedule::{Algorithm, Combine, Link, Part, Schedule, Schedules, Step, UnknownAlgorithm};
