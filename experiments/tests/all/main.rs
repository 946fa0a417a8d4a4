//! The tests of the studies from outside, as one program.

/// The program with the studies, which has the commands of `maniple`, too.
const MANIPLE: &str = env!("CARGO_BIN_EXE_maniple-experiments");
/// Its name.
const NAME: &str = "maniple-experiments";

#[path = "../../../command/tests/common/mod.rs"]
mod common;

mod benchmarks;
mod calibrate;
mod figures;
mod files;
mod guide;
mod overlap;
