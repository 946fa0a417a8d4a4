#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod arrivals;
mod arrivers;
mod cell;
mod compact;
mod error;
mod handle;
mod promise;
mod waits;

#[doc = include_str!("../PROTOCOL.md")]
pub mod protocol {}

pub use arrivals::Arrivals;
pub use cell::{Arrived, BarrierCell, Waited};
pub use compact::{CompactCells, Half, nearest};
pub use error::BarrierError;
pub use handle::{Arriver, Empty, Phase, Ready, Role, Waiter};
pub use promise::{Promise, PromiseState, Waiters};
pub use waits::Waits;
