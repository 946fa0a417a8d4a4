//! The check for races. Two leaf tasks race if they use the same values under simultaneous coherence, one of them
//! writes, and nothing orders them.
//!
//! The check looks at what orders tasks, not at when they ran. So it finds a race even if the two tasks ran far apart
//! in time, provided that both ran. It is a debugging tool that [`crate::Runtime::check`] turns on, and it slows a run
//! down. It is one structure behind a lock for all processors of the run, so they must share an address space.
//! Processors share no other knowledge of the protocol.
//!
//! **Order.** A leaf task comes after everything that its shard had awaited at the launch. It comes after tasks of its
//! shard that it follows because of their data. It comes after the arrivals for the barrier generations that it waits
//! for, and after the tasks or calls of its input futures. A shard's part of a collective's call comes after its own
//! input, after the inputs of all shards on which its result depends, and after its part of the previous call in the slot. The
//! kind of the collective says which these are, and nothing else does: neither the algorithm, by which values may travel
//! through other shards, nor the number of elements, which may be 0. A shard comes after everything that its launcher had
//! awaited at the launch. The shard's result comes after the shard and its leaf tasks. Two launches of one launcher
//! that use the same data are kept apart by the runtime anyway. An observer of a failure comes after the failed task,
//! as it would after a successful one.
//!
//! **Uses.** A use is a requirement with all points of its rectangle, because a task that may touch a point may race.
//! Two parts of a shard joined by `join!` count as one: what one part has awaited comes before what the other launches
//! afterwards.
//!
//! **Clocks.** Each use by a leaf task is appended to a *lane*, a chain of uses in which each comes after the one
//! before. Each event has a [`VectorClock`]: for each lane, how many of its uses come before. There are about as many
//! lanes as tasks that nothing orders, not as many as tasks.
//!
//! **Memory.** Nothing grows with the length of a run. The check keeps:
//!
//! - a clock for each shard and each task that has not ended
//! - of each field, the uses that no later one stands for; of equal unordered uses by one shard, the newest 64
//! - of each barrier, the generations that somebody may still wait for, or 1024
//! - of each collective, the calls that have not ended on all shards that take part, and the next one of each slot
//!
//! A lane of which no use is kept is used again.

mod accesses;
mod clock;
mod generations;
mod hooks;
mod state;

#[cfg(test)]
pub(crate) use accesses::MOST_ALIKE;
pub(crate) use clock::{Past, VectorClock};
pub(crate) use hooks::{Races, awaited, seen};
pub(crate) use state::Actor;
