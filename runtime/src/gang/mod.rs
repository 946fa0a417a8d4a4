//! Gangs: how a launch is planned, the order of operations on a processor, batches of shards, and the results of launches.
//!
//! `check`: what is refused, with `claims`. `plan`: who gets what data from where. `memo`: plans of launches that come again.
//! `versions`: what a launcher knows of its regions, in `pieces`. `operations`: the order in which a processor does what it
//! is asked. `dispatch`: what a launch sends. `batches`: shards of launches on this processor. `results`: a launch until its
//! shards are over. `gangs`: all of that on one processor. `report`: launches in the report of a deadlock.

mod batches;
mod check;
mod claims;
mod dispatch;
mod gangs;
mod memo;
mod operations;
mod pieces;
mod plan;
mod report;
mod results;
mod versions;

pub(crate) use claims::{Claim, Claimants, conflict};
pub(crate) use dispatch::Dispatch;
pub(crate) use gangs::Gangs;
pub(crate) use operations::{Number, Order};
pub(crate) use plan::{Plan, Planner, Wanted};
pub(crate) use results::Settle;
pub(crate) use versions::{Right, Versions};
