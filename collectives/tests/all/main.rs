//! The tests of collectives. They are one program because most of them use the same types: separate programs take twice as
//! long to build.

use maniple_collectives_tests as common;

mod allreduce;
mod calls;
mod choice;
mod collective;
mod contributions;
mod deadlines;
mod destroy;
mod destroyed;
mod dying;
mod kinds;
mod laws;
mod measure;
mod misuse;
mod mutated;
mod parts;
mod plans;
#[cfg(feature = "plant")]
mod planted;
mod races;
mod states;
mod swap;
mod undo;
mod vectors;
mod virtual_time;
