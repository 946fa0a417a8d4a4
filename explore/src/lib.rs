#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod area;
mod block;
mod calls;
mod counts;
mod draw;
mod joint;
mod judge;
mod leaf;
mod loose;
mod oracle;
mod phases;
mod play;
mod program;
mod results;
mod run;
mod show;
mod shrink;
mod tasks;
mod top;
mod values;
mod watch;
mod wild;
mod worker;

pub use counts::Counts;
pub use draw::draw;
pub use judge::{Mistake, Right, Wrong};
pub use program::Program;
#[cfg(feature = "plant")]
pub use run::planted;
pub use run::{quiet, run};
pub use shrink::shrink;
pub use watch::{Watch, Watched};
pub use wild::Wild;
