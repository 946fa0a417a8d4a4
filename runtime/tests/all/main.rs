//! The tests of the runtime that need no process of their own. They are one program because most of them use the same types:
//! separate programs take twice as long to build.

#[path = "../common/mod.rs"]
mod common;

mod arrivals;
mod barriers;
mod deadlines;
mod destroy;
mod edges;
mod failures;
mod faults;
mod gangs;
mod handles;
mod mapping;
mod parents;
mod priorities;
mod races;
mod replicas;
mod reports;
mod shards;
mod trace;
mod unawaited;
mod utility;
mod wakers;
mod wires;
mod words;
