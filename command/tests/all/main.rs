//! The tests of the command from outside, as one program.

/// The command.
const MANIPLE: &str = env!("CARGO_BIN_EXE_maniple");
/// Its name.
const NAME: &str = "maniple";

#[path = "../common/mod.rs"]
mod common;

mod beside_mpi;
mod cli;
mod collective;
mod exchanges;
mod explore;
mod explored_processes;
mod files;
mod flows;
mod guide;
mod micro;
mod on_mpi;
mod on_processes;
mod planted;
mod plugins;
mod product;
mod restart;
mod schedule;
mod swap;
mod trace;
mod tune;
mod vectors;
mod virtual_commands;
mod virtual_time;
mod weak_scaling;
