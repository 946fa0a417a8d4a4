#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod arrivals;
mod error;
mod handle;
mod pair;
mod phase;
mod promise;
mod tree;

pub use arrivals::Arrivals;
pub use error::BarrierError;
pub use handle::{Arriver, Empty, Phase, Ready, Role, Waiter};
pub use pair::{PairCell, PairWait};
pub use phase::PhaseCell;
pub use promise::{Promise, PromiseState, Waiters};
pub use tree::CombiningTree;
