//! The algorithms that a mapper can choose from.

use super::Schedule;
use crate::algorithms::{Groups, recursive_doubling, two_level};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// An algorithm for a collective. A mapper can choose it.
///
/// All algorithms combine in rank order and leave the same bits on every rank. The choice changes the speed and the
/// grouping. For operators that are not associative, another grouping may give other bits. The result never depends on
/// timing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Algorithm {
    /// Pairwise exchanges at doubling distance; see [`recursive_doubling`].
    #[default]
    RecursiveDoubling,
    /// The ranks of each processor first, then the processors; see [`two_level`]. The grouping depends on the mapper's
    /// placement. It is that of recursive doubling if each processor has the same power of two of ranks.
    TwoLevel,
}

impl Algorithm {
    /// All algorithms, in the order of help texts.
    pub const ALL: &'static [Algorithm] = &[Algorithm::RecursiveDoubling, Algorithm::TwoLevel];

    /// The name, as on command lines, in figures and in serialised form.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::RecursiveDoubling => "recursive-doubling",
            Algorithm::TwoLevel => "two-level",
        }
    }

    /// The schedule of `rank` among ranks in `groups`. Local and pure: no rank talks to another.
    ///
    /// # Panics
    ///
    /// If `rank` is not below the number of ranks.
    pub fn schedule(self, rank: u32, groups: &Groups) -> Schedule {
        match self {
            Algorithm::RecursiveDoubling => recursive_doubling(rank, groups.ranks()),
            Algorithm::TwoLevel => two_level(rank, groups),
        }
    }

    /// Whether contributions are grouped as in recursive doubling, so that any operator gives the same bits.
    pub fn groups_by_doubling(self, groups: &Groups) -> bool {
        match self {
            Algorithm::RecursiveDoubling => true,
            Algorithm::TwoLevel => groups.are_alike(),
        }
    }

    /// The [group](Schedule::group) of `rank` in that schedule.
    pub(crate) fn group(self, rank: u32, groups: &Groups) -> Range<u32> {
        match self {
            Algorithm::RecursiveDoubling => rank..rank + 1,
            Algorithm::TwoLevel => groups.of_rank(rank),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a name that belongs to no [`Algorithm`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown collective algorithm `{came}`, expected one of: {}", known())]
pub struct UnknownAlgorithm {
    /// The name that was given.
    pub came: String,
}

fn known() -> String {
    let names: Vec<_> = Algorithm::ALL.iter().map(|a| a.name()).collect();
    names.join(", ")
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Algorithm::ALL.iter().copied().find(|a| a.name() == name).ok_or_else(|| UnknownAlgorithm { came: name.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        let error = "ring".parse::<Algorithm>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown collective algorithm `ring`, expected one of: recursive-doubling, two-level"
        );
    }
}
