#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod blocks;
mod builder;
mod chain;
mod collective;
mod engine;
mod fold;
mod gathered;
mod layout;
mod measure;
mod own;
mod parts;
mod plan;
mod reduction;
mod registers;
mod role;
mod samples;
mod shared;
mod sizes;
mod spares;
mod spec;
mod subtasks;
mod value;

#[doc = include_str!("../PROTOCOL.md")]
pub mod protocol {}

pub use builder::{CollectiveBuilder, OfOne};
pub use collective::Collective;
pub use maniple_regions::{Number, Operator};
pub use maniple_schedules::*;
pub use measure::measure;
pub use plan::{Balanced, Load, Members, Plan, Traffic, balance};
pub use reduction::{Plain, Reduction, State};
pub use value::{Contribution, Value};
