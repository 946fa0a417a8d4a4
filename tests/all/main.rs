//! The tests of the whole framework, as one program.

#[cfg(target_os = "linux")]
#[path = "../common/denied.rs"]
mod denied;
#[path = "../common/mappers.rs"]
mod mappers;
#[path = "../common/stuck.rs"]
mod stuck;

use maniple_runtime_tests::{processes, say, size, stacks, watched};

mod documents;
mod every_failure;
mod examples;
mod explore;
mod failures_travel;
mod halos;
mod hangs;
mod on_mpi;
mod on_processes;
mod output;
#[cfg(feature = "rayon")]
mod rayon;
