#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod algorithms;
mod builder;
mod checker;
mod collective;
mod engine;
mod gathered;
mod goal;
mod own;
mod parts;
mod plan;
mod role;
mod samples;
mod schedule;
mod sizes;
mod spec;
mod state;
mod tuned;
mod value;

#[doc = include_str!("../PROTOCOL.md")]
pub mod protocol {}

pub use algorithms::*;

pub use builder::CollectiveBuilder;
pub use checker::{Channels, CheckError, Report, check};
pub use collective::Collective;
pub use goal::{Goal, Ranks, Want};
pub use maniple_regions::{Laws, Number, Operator};
pub use plan::{Balanced, Load, Members, Plan, Traffic, balance};
pub use schedule::{Algorithm, Combine, Link, Part, Schedule, Schedules, Step, UnknownAlgorithm};
pub use state::{Plain, Reduction, State};
pub use tuned::{Tuned, Tuning};
pub use value::{Contribution, Value};
