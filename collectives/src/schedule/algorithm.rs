//! The algorithms that a mapper can choose from.

use super::Schedule;
use crate::algorithms::{
    Adaption, Groups, Order, direct, dissemination, five_cases, halving_doubling, radix, recursive_doubling, sliced,
    two_level,
};
use crate::goal::{Goal, Laws};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// An algorithm for an allreduce. A mapper can choose it.
///
/// Each has the laws that an operator must obey for it, see [`Self::laws`]. Those without laws leave the same bits on every
/// rank for any operator. Those that [group by doubling](Self::groups_by_doubling) leave the same bits as each other. The
/// result never depends on timing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum Algorithm {
    /// Pairwise exchanges at doubling distance; see [`recursive_doubling`].
    #[default]
    RecursiveDoubling,
    /// The ranks of each processor first, then the processors; see [`two_level`]. The grouping depends on the mapper's
    /// placement. It is that of recursive doubling if each processor has the same power of two of ranks.
    TwoLevel,
    /// Exchanges in groups of so many ranks, a power of two; see [`radix`].
    Radix(u8),
    /// Each rank combines some blocks of the vector, half of them in each round; see [`halving_doubling`].
    HalvingDoubling,
    /// Each rank combines its block of the vector; see [`sliced`].
    Sliced,
    /// Everybody sends to everybody; see [`direct`].
    Direct,
    /// Dissemination with so many messages a round; see [`dissemination`].
    Dissemination(u8),
    /// Dissemination with so many messages a round as the paper does it, without an inverse; see [`five_cases`].
    FiveCases(u8),
}

impl Algorithm {
    /// All algorithms, in the order of help texts, with the numbers that they have if none is given.
    pub const ALL: &'static [Algorithm] = &[
        Algorithm::RecursiveDoubling,
        Algorithm::TwoLevel,
        Algorithm::Radix(4),
        Algorithm::HalvingDoubling,
        Algorithm::Sliced,
        Algorithm::Direct,
        Algorithm::Dissemination(3),
        Algorithm::FiveCases(3),
    ];

    /// The most ranks for which a mapper is offered an algorithm in which everybody sends to everybody.
    const MOST_OFFERED: u32 = 64;
    /// The most ranks for it: steps and parts have small numbers, and each rank looks at all.
    const MOST: u32 = 1024;

    /// The name without its number, as on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::RecursiveDoubling => "recursive-doubling",
            Algorithm::TwoLevel => "two-level",
            Algorithm::Radix(_) => "radix",
            Algorithm::HalvingDoubling => "halving-doubling",
            Algorithm::Sliced => "sliced",
            Algorithm::Direct => "direct",
            Algorithm::Dissemination(_) => "dissemination",
            Algorithm::FiveCases(_) => "five-cases",
        }
    }

    /// The number after the name: the radix, or the messages a round.
    pub fn number(self) -> Option<u8> {
        match self {
            Algorithm::Radix(n) | Algorithm::Dissemination(n) | Algorithm::FiveCases(n) => Some(n),
            _ => None,
        }
    }

    /// The schedule of `rank` among ranks in `groups`. Local and pure: no rank talks to another.
    ///
    /// # Panics
    ///
    /// If `rank` is not below the number of ranks, or the algorithm [is not for](Self::is_for) so many.
    pub fn schedule(self, rank: u32, groups: &Groups) -> Schedule {
        let ranks = groups.ranks();
        match self {
            Algorithm::RecursiveDoubling => recursive_doubling(rank, ranks),
            Algorithm::TwoLevel => two_level(rank, groups),
            Algorithm::Radix(of) => radix(rank, ranks, of.into()),
            Algorithm::HalvingDoubling => halving_doubling(rank, ranks),
            Algorithm::Sliced => sliced(rank, ranks, Order::Doubling),
            Algorithm::Direct => direct(&Goal::allreduce(ranks, 1), rank, Order::Doubling),
            Algorithm::Dissemination(n) => dissemination(rank, ranks, n.into()),
            Algorithm::FiveCases(n) => five_cases(rank, ranks, n.into(), false).expect("it is for so many ranks"),
        }
    }

    /// Whether the algorithm is for so many ranks. The five cases do not exist for some, and where everybody sends to
    /// everybody there may be 1024 at most.
    pub fn is_for(self, ranks: u32) -> bool {
        match self {
            Algorithm::FiveCases(n) => Adaption::exists(ranks, n.into()),
            Algorithm::Sliced | Algorithm::Direct => ranks <= Self::MOST,
            _ => true,
        }
    }

    /// Checks that the algorithm is for so many ranks, and that an operator with these laws has the same bits on all of
    /// them.
    ///
    /// # Errors
    ///
    /// What was expected, and what came in its place, in words.
    pub fn check(self, ranks: u32, laws: Laws) -> Result<(), (String, String)> {
        let missing = self.laws().without(laws);
        if missing != Laws::NONE {
            let expected = format!("an operator that is {missing} bit for bit, as {self} needs");
            return Err((expected, "one that is not".into()));
        }
        match self {
            _ if self.is_for(ranks) => Ok(()),
            Algorithm::FiveCases(_) => Err((format!("a number of shards that {self} exists for"), ranks.to_string())),
            _ => Err((format!("at most {} shards for {self}", Self::MOST), ranks.to_string())),
        }
    }

    /// Whether a mapper is offered it for so many ranks.
    pub(crate) fn is_offered(self, ranks: u32) -> bool {
        let few = !matches!(self, Algorithm::Sliced | Algorithm::Direct) || ranks <= Self::MOST_OFFERED;
        few && self.is_for(ranks)
    }

    /// The laws that an operator must obey bit for bit, or ranks end with different bits.
    pub fn laws(self) -> Laws {
        match self {
            Algorithm::Dissemination(_) | Algorithm::FiveCases(_) => {
                Laws { associative: true, commutative: true, ..Laws::NONE }
            }
            _ => Laws::NONE,
        }
    }

    /// Whether contributions are grouped as in recursive doubling, so that any operator gives the same bits.
    pub fn groups_by_doubling(self, groups: &Groups) -> bool {
        match self {
            Algorithm::TwoLevel => groups.are_alike(),
            _ => self.laws() == Laws::NONE,
        }
    }

    /// The [group](Schedule::group) of `rank` in that schedule.
    pub(crate) fn group(self, rank: u32, groups: &Groups) -> Range<u32> {
        match self {
            Algorithm::TwoLevel => groups.of_rank(rank),
            _ => rank..rank + 1,
        }
    }
}

/// The name, and the number after a hyphen.
impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number() {
            None => f.pad(self.name()),
            Some(number) => f.pad(&format!("{}-{number}", self.name())),
        }
    }
}

impl From<Algorithm> for String {
    fn from(algorithm: Algorithm) -> String {
        algorithm.to_string()
    }
}

impl TryFrom<String> for Algorithm {
    type Error = UnknownAlgorithm;

    fn try_from(name: String) -> Result<Self, UnknownAlgorithm> {
        name.parse()
    }
}

/// The error for a name that belongs to no [`Algorithm`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown collective algorithm `{came}`, expected one of: {}", Algorithm::names())]
pub struct UnknownAlgorithm {
    /// The name that was given.
    pub came: String,
}

impl Algorithm {
    /// The names of all algorithms, with what their numbers can be.
    pub fn names() -> String {
        let name = |algorithm: &Algorithm| match algorithm {
            Algorithm::Radix(_) => format!("{algorithm} (or another power of two up to 64)"),
            Algorithm::Dissemination(_) | Algorithm::FiveCases(_) => {
                format!("{algorithm} (or another number up to 64)")
            }
            _ => algorithm.to_string(),
        };
        Self::ALL.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        let unknown = || UnknownAlgorithm { came: name.into() };
        if let Some(&known) = Algorithm::ALL.iter().find(|algorithm| algorithm.name() == name) {
            return Ok(known);
        }
        let (kind, number) = name.rsplit_once('-').ok_or_else(unknown)?;
        let number = number.parse().ok().filter(|number| (1..=64).contains(number)).ok_or_else(unknown)?;
        match kind {
            "radix" if number > 1 && u8::is_power_of_two(number) => Ok(Algorithm::Radix(number)),
            "dissemination" => Ok(Algorithm::Dissemination(number)),
            "five-cases" => Ok(Algorithm::FiveCases(number)),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    #[test]
    fn names_round_trip() {
        for &algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
        assert_eq!("radix-16".parse(), Ok(Algorithm::Radix(16)));
        for name in
            ["ring", "radix-3", "radix-1", "radix-128", "dissemination-0", "five-cases-", "direct-2", "two-level-4"]
        {
            let error = name.parse::<Algorithm>().unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("unknown collective algorithm `{name}`, expected one of: "))
            );
        }
    }

    /// What it says of itself is what the checker finds.
    #[test]
    fn laws_and_brackets_are_those_of_the_schedules() {
        for ranks in (1..=33).chain([48, 64]) {
            for groups in [Groups::of(ranks, 1), Groups::of(ranks, 3), Groups::of(ranks, 4)] {
                for &algorithm in Algorithm::ALL.iter().filter(|algorithm| algorithm.is_for(ranks)) {
                    let made = |rank| algorithm.schedule(rank, &groups);
                    let report = check(&Goal::allreduce(ranks, made(0).blocks()), made).unwrap();
                    assert_eq!(report.laws.without(algorithm.laws()), Laws::NONE, "{algorithm}, {ranks} ranks");
                    assert!(report.by_doubling || !algorithm.groups_by_doubling(&groups), "{algorithm}, {ranks} ranks");
                    assert!((0..ranks).all(|rank| made(rank).group() == algorithm.group(rank, &groups)));
                }
            }
        }
    }
}
