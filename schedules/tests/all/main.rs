//! The tests of schedules, as one program.

mod interpreter;
mod proofs;
mod schedules;
#[path = "../../../runtime/tests/common/size.rs"]
mod size;
