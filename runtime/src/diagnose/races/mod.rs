//! Races: two leaf tasks use the same values under simultaneous coherence, one of them writes, and nothing orders them.
//!
//! The check goes by what orders tasks, not by when they ran: it finds a race also where the two tasks ran far apart in
//! time, provided that both ran. It is debugging machinery, asked for with [`crate::Runtime::check`]:
//! one structure behind a lock for all processors of the run, which therefore must share an address space, and the one
//! exception to the rule that each processor owns its state. It slows a run down.
//!
//! **What comes before what.** A leaf task comes after what its shard had awaited when it launched it; after the tasks of
//! the shard that it follows because of their data; after the arrivals for the barrier generations it waits for; after
//! the tasks or calls that its input futures come from. The result of a collective's call comes after every shard's input
//! to it. A shard comes after what its parent had awaited at the launch, and its result after the shard and its leaf tasks.
//! Two launches of one parent that use the same data are kept apart by the runtime anyway. A call of a collective comes
//! after the call before it in its slot. Who learns of a failure comes after what failed, as it does after what succeeds.
//!
//! **What counts as a use** is the requirement: all points of its rectangle, as a task that may touch a point may race. Two
//! parts of a shard joined by `join!` are one: what the one has awaited comes before what the other launches afterwards.
//!
//! **How it is known.** Each use by a leaf task is put at the end of a *lane*, a chain of uses each after the one before,
//! and each event has a [`VectorClock`] that says of each lane how many of its uses come before. There are about as many
//! lanes as tasks that nothing orders. Kept are: a clock for each shard and each task that is not over; of each field the uses
//! that no later one stands for, but of those by one shard that are alike and that nothing orders only the newest 64; of each
//! barrier the generations that somebody may yet wait for, or 1024; of each collective the calls that are not over on all
//! shards. A
//! lane of which no use is kept is taken again. So nothing grows with the length of a run.

mod accesses;
mod clock;
mod generations;
mod hooks;
mod state;

#[cfg(all(test, not(loom)))]
pub(crate) use accesses::MOST_ALIKE;
pub(crate) use clock::{Past, VectorClock};
pub(crate) use hooks::{Races, seen};
pub(crate) use state::Actor;
