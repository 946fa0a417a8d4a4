#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![doc = include_str!("../README.md")]

mod aggregation;
mod allreduce;
pub mod blocks;
mod error;
pub mod kernel;
mod problem;
pub mod reference;
mod run;
pub mod shards;

pub use blocks::Blocks;
pub use error::{MIN_CELLS, StencilError, plural};
pub use problem::{AHEAD, Checkpoints, Collective, Keep, Output, Problem, Sink, Start, Take};
pub use run::{Outcome, alternating, run, simulate};
