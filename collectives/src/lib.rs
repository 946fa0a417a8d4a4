#![forbid(unsafe_code)]
#![deny(missing_docs)]
//! Collective schedules as data, their proof, and the engine that runs them as subtasks.

mod checker;
mod operator;
mod recursive_doubling;
mod schedule;

pub use checker::{Channels, CheckError, Report, check};
pub use operator::{Number, Operator};
pub use recursive_doubling::recursive_doubling;
pub use schedule::{Algorithm, Combine, Link, Schedule, Step, UnknownAlgorithm};
