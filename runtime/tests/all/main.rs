//! The tests of the runtime. They are one program because most of them use the same types: separate programs take twice as
//! long to build.

use maniple_runtime_tests as common;

mod arrivals;
mod barriers;
mod binding;
mod deadlines;
mod destroy;
mod edges;
mod failures;
mod faults;
mod flow;
mod gangs;
mod generations;
mod handles;
mod inner_tasks;
mod mapping;
mod memory;
mod parents;
mod priorities;
mod private_trees;
mod races;
mod replicas;
mod reports;
mod shards;
mod start_and_end;
mod trace;
mod unawaited;
mod utility;
mod virtual_time;
mod wakers;
mod wires;
mod words;
