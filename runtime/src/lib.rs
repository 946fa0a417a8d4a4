#![deny(unsafe_code)]
//! WHO runs it: shard tasks, subtasks, launches, processors and the wires that join them.
//!
//! A program is a top-level task, run alike by every process ([`Runtime::run`], [`Top`]), which makes regions, gangs,
//! barriers and tasks and launches gangs of **shard tasks** ([`Shard`]). Shards touch no data: they launch **leaf tasks**
//! ([`Leaf`]) on regions, ordered by what they declare and by barriers, and pass values in **futures** ([`TaskFuture`]).
//!
//! Each processor owns its state and talks to others in messages only; see the `wire` module for what carries them.

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod config;
mod core;
mod counters;
mod current;
mod deadline;
mod deadlock;
mod error;
mod future;
mod gang;
mod index;
mod launch;
mod maps;
mod message;
mod names;
mod object;
mod parcel;
mod payload;
mod phase;
#[cfg(feature = "plant")]
pub mod plant;
mod races;
mod region;
pub mod replay;
mod shard;
mod time;
mod top;
mod trace;

#[allow(unsafe_code)]
pub mod wire;

pub use counters::Stats;
pub use error::{Access, Error, Place};
pub use future::{FutureMap, Resolver, Stamp, TaskFuture};
pub use gang::{Gang, ShardTask, Start};
pub use launch::{Arrivable, Launch, Leaf, Param, Requirement, Val, Value, Waitable};
pub use object::CellAddress;
pub use parcel::Portable;
pub use payload::{Lent, Payload};
pub use phase::{Consumer, Pairs, PhaseAddress, PhaseBarrier, PhaseOptions, Producer};
pub use region::Local;
pub use shard::Shard;
pub use time::now;
pub use top::{Parent, Top};
pub use trace::TraceFile;
pub use wire::{
    Binding, Check, Costs, Crowded, Death, Driver, Faults, Link, Pause, Runtime, Slow, TaskCost, VirtualMachine,
};
