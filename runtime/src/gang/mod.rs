//! Gangs: the planning of launches, the orders of a processor, batches of shards, and the results of
//! launches.
//!
//! `check`: the checks of a launch, with `claims`. `plan`: the homes of regions and the data to copy. `memo`: plans of
//! launches that come again. `flow`: the data of leaf tasks that the top-level task or an inner task launches. `versions`: the launcher's knowledge of its regions, in `pieces`. `kept`: the instances, and
//! which of them go. `orders`: what a processor does for launches, in order. `dispatch`: the messages of a launch. `batches`:
//! shards of launches on this processor. `results`: a launch until its shards have ended. `gather`: how results get to all
//! nodes. `gangs`: the state of this module. `report`: launches in the report of a deadlock.

mod batches;
mod check;
mod claims;
mod dispatch;
mod flow;
mod gangs;
mod gather;
mod kept;
mod memo;
mod orders;
mod pieces;
mod plan;
mod report;
mod results;
mod versions;

pub(crate) use claims::{Claim, Claimants, conflict};
pub(crate) use dispatch::Dispatch;
pub(crate) use flow::{PlacedUse, TaskDoes, TaskUse};
pub(crate) use gangs::Gangs;
pub(crate) use orders::{Due, OfLaunch, Order, Urgency};
pub(crate) use plan::{LaunchPlan, PlanInput, Planner};
pub(crate) use results::{LaunchState, Settle, Uses};
pub(crate) use versions::{Slot, Versions};
