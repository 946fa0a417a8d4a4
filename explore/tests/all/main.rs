//! The tests of generated programs, as one program.

mod planted;
mod programs;
mod wild;
