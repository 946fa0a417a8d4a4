#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod algorithm;
mod algorithms;
mod checker;
mod goal;
mod kind;
mod ranks;
mod schedule;
mod schedules;
mod tree;

pub use algorithm::{UnknownAlgorithm, or};
pub use algorithms::*;
pub use checker::{Channels, CheckError, Report, check};
pub use goal::{Goal, Want};
pub use kind::{Kind, UnknownKind};
pub use maniple_regions::Laws;
pub use ranks::Ranks;
pub use schedule::{Combine, Link, Part, Schedule, Step, fold_in_pairs};
pub use schedules::{Make, Schedules};
pub use tree::CombiningTree;
