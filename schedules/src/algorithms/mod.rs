//! The algorithms: functions that make the schedule of one rank. All are local and pure: no rank talks to another.
//!
//! To add an algorithm is to write its file, with a [`Method`], and its line in the list below.

mod from_root;
mod method;
mod order;
mod places;
mod scan;
mod survivors;

pub use binomial::{binomial_broadcast, binomial_gather, binomial_scatter};
pub use bruck::{CircleRound, bruck_all_to_all, bruck_allgather, circle_rounds};
pub use chain::chain_broadcast;
pub use direct::direct;
pub use dissemination::dissemination;
pub use five_cases::{Adaption, five_cases};
pub use halving::halving_reduce_scatter;
pub use halving_doubling::halving_doubling;
pub(crate) use method::{Case, Cells, MOST, Method, Ranked, cells};
pub use order::Order;
pub use radix::radix;
pub use recursive_doubling::recursive_doubling;
pub use ring::ring_allgather;
pub use scan::Scan;
pub use sliced::sliced;
pub use survivors::{Choose, Survivors};
pub use two_level::{Groups, two_level, two_level_allgather};

use serde::{Deserialize, Serialize};

/// Makes the files of the algorithms modules, and `Algorithm` of their names, each with the number it has if none is given.
macro_rules! algorithms {
    ($(#[$of_all:meta])* $($file:ident: { $($(#[$doc:meta])* $name:ident $(($number:literal))?),+ $(,)? })+) => {
        $(mod $file;)+

        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        #[non_exhaustive]
        pub enum Algorithm {
            $($($(#[$doc])* $name $((with!($number => u8)))?,)+)+
        }

        impl Algorithm {
            /// All algorithms, in the order of help texts, with the numbers that they have if none is given.
            pub const ALL: &'static [Algorithm] = &[$($(Algorithm::$name $(($number))?,)+)+];

            /// The number after the name: the radix, the pieces, or the messages a round.
            pub fn number(self) -> Option<u8> {
                match self {
                    $($(Algorithm::$name $((with!($number => number)))? => None $(.or(with!($number => Some(number))))?,)+)+
                }
            }

            /// The same algorithm with another number, if it has one.
            pub(crate) fn with_number(self, number: u8) -> Self {
                match self {
                    $($(Algorithm::$name { .. } => Algorithm::$name $((with!($number => number)))?,)+)+
                }
            }

            pub(crate) fn method(self) -> &'static dyn Method {
                match self {
                    $($(Algorithm::$name { .. } => &$file::$name,)+)+
                }
            }
        }
    };
}

/// What is written for an algorithm that has a number.
macro_rules! with {
    ($number:literal => $($it:tt)*) => { $($it)* };
}

algorithms! {
    /// An algorithm for collectives. A mapper can choose it.
    ///
    /// | algorithm | kinds | laws that it needs |
    /// |---|---|---|
    /// | `recursive-doubling` | allreduce, reduce, scan, exscan, barrier | none |
    /// | `two-level` | allreduce, allgather, barrier | none |
    /// | `radix`, `halving-doubling`, `sliced` | allreduce, barrier | none |
    /// | `halving` | reduce-scatter with blocks of one size | none |
    /// | `dissemination`, `five-cases` | allreduce, barrier | associative, commutative, infallible |
    /// | `five-cases-inverse` | allreduce, barrier | associative, commutative, infallible, invertible |
    /// | `binomial` | broadcast, gather, scatter | none |
    /// | `chain` | broadcast | none |
    /// | `bruck` | allgather, all-to-all with blocks of one size | none |
    /// | `ring` | allgather | none |
    /// | `direct` | all | none, but scan and exscan: associative, unless in the [order](crate::Order) of a loop |
    ///
    /// In a reduce-scatter or an all-to-all, `halving` and `bruck` need the receivers to be the contributors.
    ///
    /// An operator must obey the [laws](Self::laws) of the last column bit for bit. An algorithm that needs none gives every
    /// rank the same bits for any operator. If the operator panics, the call fails on all ranks that receive the result. All of
    /// these algorithms of a kind agree, except `two-level`
    /// [unless all groups have the same power of two of ranks](Self::groups_by_doubling). The result never depends on timing.
    recursive_doubling: {
        /// Pairwise exchanges at doubling distance; see [`recursive_doubling()`], [`Survivors`] and [`Scan`].
        #[default]
        RecursiveDoubling,
    }
    two_level: {
        /// The ranks of each processor first, then the processors; see [`two_level()`]. The grouping depends on the
        /// mapper's placement. It is the grouping of recursive doubling if each processor has the same power of two of
        /// ranks; otherwise it needs an associative operator or [`Order::Any`]. In an allgather, which combines nothing, nodes
        /// are a third level; see [`two_level_allgather()`].
        TwoLevel,
    }
    radix: {
        /// Exchanges in groups of that many places, a power of two from 2 to 64. A place has one rank, or two if the number of
        /// ranks is no power of two; see [`radix()`].
        Radix(4),
    }
    halving_doubling: {
        /// Each rank combines some blocks of the vector, half of them in each round; see [`halving_doubling()`].
        HalvingDoubling,
    }
    sliced: {
        /// Each rank combines its block of the vector; see [`sliced()`].
        Sliced,
    }
    halving: {
        /// In each round a rank combines half of its remaining blocks, until only its own is left; see
        /// [`halving_reduce_scatter`].
        Halving,
    }
    binomial: {
        /// A binomial tree; see [`binomial_broadcast`], [`binomial_gather`] and [`binomial_scatter`].
        Binomial,
    }
    chain: {
        /// From rank to rank in that many pieces, 1 to 64; see [`chain_broadcast`].
        Chain(16),
    }
    bruck: {
        /// Distances that double, in a circle; see [`bruck_allgather`] and [`bruck_all_to_all`].
        Bruck,
    }
    ring: {
        /// From neighbour to neighbour in a circle; see [`ring_allgather`].
        Ring,
    }
    direct: {
        /// Everybody sends to everybody; see [`direct()`].
        Direct,
    }
    dissemination: {
        /// Dissemination with that many messages a round, 1 to 64; see [`dissemination()`].
        Dissemination(3),
    }
    five_cases: {
        /// Dissemination with that many messages a round as the paper does it, 1 to 64, without an inverse; see
        /// [`five_cases()`]. A collective of a number of ranks for which it does not exist [takes](Self::taken_for)
        /// `Dissemination` instead.
        FiveCases(3),
        /// `FiveCases` with the operator's inverse. It exists for numbers of ranks where a value is left out. For other numbers
        /// of ranks a collective [takes](Self::taken_for) what it would take for `FiveCases`.
        FiveCasesInverse(3),
    }
}
