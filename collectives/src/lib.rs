#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod builder;
mod collective;
mod engine;
mod gathered;
mod own;
mod parts;
mod plan;
mod role;
mod samples;
mod sizes;
mod spec;
mod state;
mod tuned;
mod value;

#[doc = include_str!("../PROTOCOL.md")]
pub mod protocol {}

pub use builder::{CollectiveBuilder, OfOne};
pub use collective::Collective;
pub use maniple_regions::{Number, Operator};
pub use maniple_schedules::*;
pub use plan::{Balanced, Load, Members, Plan, Traffic, balance};
pub use state::{Plain, Reduction, State};
pub use tuned::{Tuned, Tuning};
pub use value::{Contribution, Value};
