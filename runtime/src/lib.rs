#![deny(unsafe_code)]
#![doc = include_str!("../README.md")]

mod barrier;
mod config;
mod counters;
mod data;
mod diagnose;
mod effects;
mod error;
mod failures;
mod future;
mod gang;
mod ids;
mod maps;
mod message;
mod names;
mod object;
mod parcel;
mod payload;
mod plant;
mod processor;
mod program;
pub mod replay;
mod table;
mod task;
#[cfg(test)]
mod tests;
mod time;

#[allow(unsafe_code)]
pub mod wire;

/// What a program that uses MPI itself has to know.
#[cfg(target_os = "linux")]
pub mod mpi {
    pub use crate::wire::processes::mpi::{Communicator, Element, Operation, library, world};
}

pub use config::UnderWay;
pub use counters::Stats;
pub use diagnose::trace::TraceFile;
pub use error::{Error, Place, RacingAccess};
pub use future::{FutureMap, Resolver, Stamp, TaskFuture};
pub use ids::{CellAddress, PhaseAddress};
pub use object::{Edge, Tree};
pub use parcel::Portable;
pub use payload::{Length, Lent, Payload, vector_in};
#[cfg(feature = "plant")]
pub use plant::Bug;
pub use program::bytes::ByteRequirement;
pub use program::destroy::Destroy;
#[doc(hidden)]
pub use program::destroy::Doomed;
#[doc(hidden)]
pub use program::edges::AllEnds;
pub use program::edges::{Consumer, Edges, Get, GetFrom, Producer, Put, PutTo, PutVec, PutVecTo};
pub use program::flow::InFlow;
pub use program::gang::{Gang, ShardLaunch, ShardTask};
pub use program::index::IndexLaunch;
pub use program::inner::InnerTask;
pub use program::launch::{Arrivable, InShard, Launch, Leaf, MayFail, NeverFails, Outcome, Waitable};
pub use program::param::{Arg, Input, Many, Param, ReduceRequirement, Requirement};
#[doc(hidden)]
pub use program::param::{Bindings, Declaring, Done, Taking};
pub use program::phase::{PhaseArriver, PhaseBarrier, PhaseOptions, PhaseWaiter};
pub use program::region::RegionView;
pub use program::runtime::{Check, Driver, Idle, Processes, Progress, Runtime};
pub use program::shard::Shard;
pub use program::top::Top;
pub use program::whole::Copied;
pub use time::now;
pub use wire::Team;
pub use wire::{Binding, CostLevel, Costs, Faults, Link, Pause, ProcessorLoss, SlowLink, TaskCost, VirtualMachine};
