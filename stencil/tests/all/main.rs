//! The tests of the stencil, as one program.

mod drivers;
mod kernel;
mod planted;
mod races;
mod reference;
mod runs;

use maniple_runtime_tests::{processes, size};
