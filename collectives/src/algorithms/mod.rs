//! The algorithms: functions that make the schedule of one rank. All are local and pure: no rank talks to another.

mod all_to_all;
mod broadcast;
mod direct;
mod dissemination;
mod five_cases;
mod gather;
mod halving;
mod order;
mod places;
mod radix;
mod recursive_doubling;
mod scan;
mod survivors;
mod two_level;

pub use all_to_all::{bruck_all_to_all, pairwise_all_to_all};
pub use broadcast::{binomial_broadcast, chain_broadcast};
pub use direct::direct;
pub use dissemination::dissemination;
pub use five_cases::{Adaption, five_cases};
pub use gather::{binomial_gather, binomial_scatter, bruck_allgather, ring_allgather};
pub use halving::{halving_doubling, halving_reduce_scatter, sliced};
pub use order::Order;
pub(crate) use places::Places;
pub use radix::radix;
pub(crate) use radix::radix_unlinked;
pub use recursive_doubling::recursive_doubling;
pub use scan::Scan;
pub(crate) use survivors::Choose;
pub use survivors::Survivors;
pub use two_level::{Groups, two_level};
