//! The algorithms that a mapper can choose from.

use crate::Laws;
use crate::algorithms::{Adaption, Groups};
#[cfg(doc)]
use crate::algorithms::{
    Scan, Survivors, binomial_broadcast, binomial_gather, binomial_scatter, bruck_all_to_all, bruck_allgather,
    chain_broadcast, direct, dissemination, five_cases, halving_doubling, halving_reduce_scatter, pairwise_all_to_all,
    radix, recursive_doubling, ring_allgather, sliced, two_level,
};
use crate::goal::{Goal, Kind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An algorithm for collectives. A mapper can choose it.
///
/// | algorithm | kinds | laws that it needs |
/// |---|---|---|
/// | `recursive-doubling` | allreduce, reduce, scan, exscan, barrier | none |
/// | `two-level`, `radix`, `halving-doubling`, `sliced` | allreduce, barrier | none |
/// | `halving` | reduce-scatter with blocks of one size | none |
/// | `dissemination`, `five-cases` | allreduce, barrier | associative, commutative, infallible |
/// | `five-cases-inverse` | allreduce, barrier | associative, commutative, infallible, invertible |
/// | `binomial` | broadcast, gather, scatter | none |
/// | `chain` | broadcast | none |
/// | `bruck` | allgather, all-to-all with blocks of one size | none |
/// | `ring` | allgather | none |
/// | `pairwise` | all-to-all | none |
/// | `direct` | all | none, but scan and exscan: associative, unless in the [order](crate::Order) of a loop |
///
/// In a reduce-scatter or an all-to-all, `halving`, `bruck` and `pairwise` need the receivers to be the contributors.
///
/// An operator must obey the [laws](Self::laws) of the last column bit for bit. An algorithm that needs none gives every
/// rank the same bits for any operator. If the operator panics, the call fails on all ranks that receive the result. All of
/// these algorithms of a kind agree, except `two-level`
/// [unless all groups have the same power of two of ranks](Self::groups_by_doubling). The result never depends on timing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum Algorithm {
    /// Pairwise exchanges at doubling distance; see [`recursive_doubling`], [`Survivors`] and [`Scan`].
    #[default]
    RecursiveDoubling,
    /// The ranks of each processor first, then the processors; see [`two_level`]. The grouping depends on the mapper's
    /// placement. It is that of recursive doubling if each processor has the same power of two of ranks; otherwise it needs an
    /// associative operator or [`Order::Any`](crate::Order::Any).
    TwoLevel,
    /// Exchanges in groups of so many places, a power of two from 2 to 64. A place has one rank, or two if the number of ranks
    /// is no power of two; see [`radix`].
    Radix(u8),
    /// Each rank combines some blocks of the vector, half of them in each round; see [`halving_doubling`].
    HalvingDoubling,
    /// Each rank combines its block of the vector; see [`sliced`].
    Sliced,
    /// In each round a rank combines half of its remaining blocks, until only its own is left; see
    /// [`halving_reduce_scatter`].
    Halving,
    /// A binomial tree; see [`binomial_broadcast`], [`binomial_gather`] and [`binomial_scatter`].
    Binomial,
    /// From rank to rank in so many pieces, 1 to 64; see [`chain_broadcast`].
    Chain(u8),
    /// Distances that double, in a circle; see [`bruck_allgather`] and [`bruck_all_to_all`].
    Bruck,
    /// From neighbour to neighbour in a circle; see [`ring_allgather`].
    Ring,
    /// One block to another rank in each round; see [`pairwise_all_to_all`].
    Pairwise,
    /// Everybody sends to everybody; see [`direct`].
    Direct,
    /// Dissemination with so many messages a round, 1 to 64; see [`dissemination`].
    Dissemination(u8),
    /// Dissemination with so many messages a round as the paper does it, 1 to 64, without an inverse; see [`five_cases`]. A
    /// collective of a number of ranks for which it does not exist [takes](Self::taken_for) `Dissemination` instead.
    FiveCases(u8),
    /// `FiveCases` with the operator's inverse. It exists for numbers of ranks where a value is left out. For other numbers of
    /// ranks a collective [takes](Self::taken_for) what it would take for `FiveCases`.
    FiveCasesInverse(u8),
}

impl Algorithm {
    /// All algorithms, in the order of help texts, with the numbers that they have if none is given.
    pub const ALL: &'static [Algorithm] = &[
        Algorithm::RecursiveDoubling,
        Algorithm::TwoLevel,
        Algorithm::Radix(4),
        Algorithm::HalvingDoubling,
        Algorithm::Sliced,
        Algorithm::Halving,
        Algorithm::Binomial,
        Algorithm::Chain(16),
        Algorithm::Bruck,
        Algorithm::Ring,
        Algorithm::Pairwise,
        Algorithm::Direct,
        Algorithm::Dissemination(3),
        Algorithm::FiveCases(3),
        Algorithm::FiveCasesInverse(3),
    ];

    /// The most ranks for which a mapper is offered an algorithm in which everybody sends to everybody.
    const MOST_OFFERED: u32 = 64;
    /// The same for rings and pairwise exchanges, in which each rank waits for as many others one after another.
    const MOST_IN_TURN: u32 = 1024;
    /// The most ranks where a rank has several steps or parts for each of the others: their numbers have 16 bits.
    const MOST: u32 = 8192;

    /// The name without its number, as on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::RecursiveDoubling => "recursive-doubling",
            Algorithm::TwoLevel => "two-level",
            Algorithm::Radix(_) => "radix",
            Algorithm::HalvingDoubling => "halving-doubling",
            Algorithm::Sliced => "sliced",
            Algorithm::Halving => "halving",
            Algorithm::Binomial => "binomial",
            Algorithm::Chain(_) => "chain",
            Algorithm::Bruck => "bruck",
            Algorithm::Ring => "ring",
            Algorithm::Pairwise => "pairwise",
            Algorithm::Direct => "direct",
            Algorithm::Dissemination(_) => "dissemination",
            Algorithm::FiveCases(_) => "five-cases",
            Algorithm::FiveCasesInverse(_) => "five-cases-inverse",
        }
    }

    /// The number after the name: the radix, the pieces, or the messages a round.
    pub fn number(self) -> Option<u8> {
        match self {
            Algorithm::Radix(n)
            | Algorithm::Chain(n)
            | Algorithm::Dissemination(n)
            | Algorithm::FiveCases(n)
            | Algorithm::FiveCasesInverse(n) => Some(n),
            _ => None,
        }
    }

    /// Those of [`ALL`](Self::ALL) that are for a goal.
    pub fn all_for(goal: &Goal) -> impl Iterator<Item = Algorithm> {
        Self::ALL.iter().copied().filter(|algorithm| algorithm.is_for(goal))
    }

    /// The variants worth trying. An algorithm without a number is its own only variant.
    pub fn variants(self) -> impl Iterator<Item = Algorithm> {
        let numbers: &[u8] = match self {
            Algorithm::Radix(_) => &[2, 4, 8, 16],
            Algorithm::Chain(_) => &[4, 16, 64],
            Algorithm::Dissemination(_) | Algorithm::FiveCases(_) | Algorithm::FiveCasesInverse(_) => {
                &[1, 2, 3, 4, 5, 6, 7]
            }
            _ => &[0],
        };
        numbers.iter().map(move |&number| match self {
            Algorithm::Radix(_) => Algorithm::Radix(number),
            Algorithm::Chain(_) => Algorithm::Chain(number),
            Algorithm::Dissemination(_) => Algorithm::Dissemination(number),
            Algorithm::FiveCases(_) => Algorithm::FiveCases(number),
            Algorithm::FiveCasesInverse(_) => Algorithm::FiveCasesInverse(number),
            alone => alone,
        })
    }

    /// Whether the algorithm reaches a goal. Some are for one kind of collective only. `five-cases` and `five-cases-inverse`
    /// exist only for some numbers of ranks. `sliced`, `halving`, `direct`, `ring` and `pairwise` are for at most 8192 ranks, as
    /// is `bruck` in an all-to-all. With a number that it can't have, such as 0 messages a round, an algorithm is for no goal.
    ///
    /// Where everybody sends to everybody, memory grows with the square of the number of ranks: at 8192 ranks some 13 GB for
    /// all processors together, with two [slots](crate::CollectiveBuilder::slots).
    pub fn is_for(self, goal: &Goal) -> bool {
        self.check_number().is_ok() && self.is_for_kind(goal) && self.is_for_so_many(goal)
    }

    /// The algorithm that is run where this one is named. If there are no five cases for so many ranks, `FiveCases` and
    /// `FiveCasesInverse` become `Dissemination` with the same number. If no value is left out, `FiveCasesInverse` becomes
    /// `FiveCases`. Otherwise it is the algorithm itself.
    pub fn taken_for(self, goal: &Goal) -> Self {
        if self.check_number().is_err() || !self.is_for_kind(goal) || self.is_for_so_many(goal) {
            return self;
        }
        match self {
            Algorithm::FiveCasesInverse(n) => Algorithm::FiveCases(n).taken_for(goal),
            Algorithm::FiveCases(n) => Algorithm::Dissemination(n),
            algorithm => algorithm,
        }
    }

    /// Checks the number after the name, if it has one.
    pub(crate) fn check_number(self) -> Result<(), (String, String)> {
        let (legal, expected) = match self {
            Algorithm::Radix(number) => {
                (number.is_power_of_two() && (2..=64).contains(&number), "a power of two from 2 to 64")
            }
            _ => (self.number().is_none_or(|number| (1..=64).contains(&number)), "a number from 1 to 64"),
        };
        if legal { Ok(()) } else { Err((format!("{expected} after `{}`", self.name()), self.to_string())) }
    }

    fn is_for_kind(self, goal: &Goal) -> bool {
        self.needs(goal.kind()).is_some_and(|needs| needs.are_met(goal))
    }

    /// What it needs of the contributors and receivers of goals of a kind. `None` if it is not for that kind.
    fn needs(self, kind: Kind) -> Option<Needs> {
        match (self, kind) {
            (Algorithm::Direct, _) => Some(Needs::Nothing),
            (Algorithm::RecursiveDoubling, Kind::Reduce | Kind::Scan { .. }) => Some(Needs::Nothing),
            (Algorithm::TwoLevel, Kind::Reduce) => Some(Needs::All),
            (
                Algorithm::Radix(_)
                | Algorithm::HalvingDoubling
                | Algorithm::Sliced
                | Algorithm::Dissemination(_)
                | Algorithm::FiveCases(_)
                | Algorithm::FiveCasesInverse(_),
                Kind::Reduce,
            )
            | (Algorithm::Halving, Kind::ReduceScatter) => Some(Needs::Together),
            (Algorithm::Binomial, Kind::Broadcast | Kind::Scatter) => Some(Needs::Nothing),
            (Algorithm::Binomial, Kind::Gather) => Some(Needs::OneReceiver),
            (Algorithm::Chain(_), Kind::Broadcast) => Some(Needs::Nothing),
            (Algorithm::Bruck, Kind::Gather | Kind::AllToAll)
            | (Algorithm::Ring, Kind::Gather)
            | (Algorithm::Pairwise, Kind::AllToAll) => Some(Needs::Together),
            _ => None,
        }
    }

    fn is_for_so_many(self, goal: &Goal) -> bool {
        match self {
            Algorithm::FiveCases(n) => Adaption::exists(goal.most(), n.into()),
            Algorithm::FiveCasesInverse(n) => Adaption::needs_inverse(goal.most(), n.into()),
            _ => self.most_for(goal).is_none_or(|most| goal.most() <= most),
        }
    }

    /// The most contributors or receivers for which it reaches a goal of this kind, if there is a limit.
    fn most_for(self, goal: &Goal) -> Option<u32> {
        match self {
            Algorithm::Sliced | Algorithm::Direct | Algorithm::Ring | Algorithm::Pairwise | Algorithm::Halving => {
                Some(Self::MOST)
            }
            Algorithm::Bruck if goal.kind() == Kind::AllToAll => Some(Self::MOST),
            _ => None,
        }
    }

    /// Whether it can combine in the order of a sequential loop.
    pub(crate) fn has_order(self, goal: &Goal) -> bool {
        matches!(self, Algorithm::Direct | Algorithm::Sliced) && self.is_for(goal)
    }

    /// Whether it moves blocks through others' places, so that all must have the same size.
    pub(crate) fn needs_equal_blocks(self, goal: &Goal) -> bool {
        self == Algorithm::Halving || self == Algorithm::Bruck && goal.kind() == Kind::AllToAll
    }

    /// Checks that the algorithm is for a goal, and that an operator with these laws has the same bits on all receivers.
    ///
    /// # Errors
    ///
    /// What was expected, and what came in its place, in words: a number that the algorithm can't have, a goal or a number
    /// of shards that it is not for, or a law that is missing.
    pub fn check(self, goal: &Goal, laws: Laws) -> Result<(), (String, String)> {
        self.check_number()?;
        if !self.is_for_kind(goal) {
            let names: Vec<String> = Self::all_for(goal).map(|a| a.to_string()).collect();
            let needs = self.needs(goal.kind()).filter(|needs| !needs.are_met(goal));
            let needs = needs.map_or_else(String::new, |needs| format!(", which needs {}", needs.in_words()));
            return Err((format!("an algorithm for this {goal}: {}", or(&names)), format!("{self}{needs}")));
        }
        let missing = self.laws(goal).without(laws);
        if missing != Laws::NONE {
            let expected = format!("an operator that is {missing} bit for bit, as {self} needs");
            return Err((expected, "one that is not".into()));
        }
        if self.is_for_so_many(goal) {
            return Ok(());
        }
        let came = goal.most();
        match self.most_for(goal) {
            Some(most) => Err((format!("at most {most} shards for {self}"), came.to_string())),
            None => {
                let others = self.variants().filter(|other| other.is_for_so_many(goal));
                let others = others.chain(self.number().map(Algorithm::Dissemination)).map(|a| a.to_string());
                let expected = format!("an algorithm for {came} shards, such as {}", or(&others.collect::<Vec<_>>()));
                Err((expected, format!("{self}, which does not exist for so many")))
            }
        }
    }

    /// Checks that there is an algorithm for a goal.
    ///
    /// # Errors
    ///
    /// What was expected, and what came in its place, in words: more shards than any algorithm for the goal can have.
    pub fn check_any(goal: &Goal) -> Result<(), (String, String)> {
        if Self::all_for(goal).next().is_some() {
            return Ok(());
        }
        let of_kind = Self::ALL.iter().filter(|algorithm| algorithm.is_for_kind(goal));
        let most = of_kind.filter_map(|algorithm| algorithm.most_for(goal)).max().unwrap_or(0);
        let instead = match goal.kind() {
            Kind::ReduceScatter => "; let fewer take part, or take an allreduce, which is for any number",
            Kind::Gather => {
                "; let fewer take part, or take an allgather or a gather at one shard, which are for any number"
            }
            _ => "; let fewer take part, or make several collectives of fewer shards each",
        };
        Err((format!("at most {most} shards for {}", goal.named()), format!("{}{instead}", goal.most())))
    }

    /// Whether a mapper is offered it for a goal that it is for, if there are others.
    pub(crate) fn is_offered(self, goal: &Goal) -> bool {
        goal.most()
            <= match self {
                Algorithm::Sliced | Algorithm::Direct => Self::MOST_OFFERED,
                Algorithm::Ring | Algorithm::Pairwise => Self::MOST_IN_TURN,
                _ => u32::MAX,
            }
    }

    /// Checks that there is an algorithm that combines in the order of a loop.
    pub(crate) fn check_order(goal: &Goal) -> Result<(), (String, String)> {
        if Self::ALL.iter().any(|algorithm| algorithm.has_order(goal)) {
            return Ok(());
        }
        let expected = format!("at most {} shards in the order of a loop, or an associative operator", Self::MOST);
        Err((expected, goal.most().to_string()))
    }

    /// The laws that an operator must obey bit for bit, or receivers end with different bits. A scan by `direct` has other
    /// brackets than one by recursive doubling, so it needs associativity to have the same bits. With
    /// [`Order::Left`](crate::Order::Left) it needs none, because it combines as a loop does.
    pub fn laws(self, goal: &Goal) -> Laws {
        match (self, goal.kind()) {
            (Algorithm::Dissemination(_) | Algorithm::FiveCases(_), _) => {
                Laws { associative: true, commutative: true, infallible: true, ..Laws::NONE }
            }
            (Algorithm::FiveCasesInverse(_), _) => Laws { idempotent: false, ..Laws::ALL },
            (Algorithm::Direct, Kind::Scan { .. }) => Laws { associative: true, ..Laws::NONE },
            _ => Laws::NONE,
        }
    }

    /// Whether nearly every rank that sends a value also reads one of the same partner.
    pub(crate) fn exchanges_in_pairs(self) -> bool {
        matches!(
            self,
            Algorithm::RecursiveDoubling | Algorithm::TwoLevel | Algorithm::HalvingDoubling | Algorithm::Halving
        )
    }

    /// Whether contributions are grouped as in recursive doubling, so that any operator gives the same bits.
    pub fn groups_by_doubling(self, goal: &Goal, groups: &Groups) -> bool {
        match self {
            Algorithm::TwoLevel => groups.are_alike(),
            _ => self.laws(goal) == Laws::NONE,
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

/// What an algorithm needs of the contributors and receivers.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    /// That the contributors are the receivers.
    Together,
    /// That all ranks are both.
    All,
    OneReceiver,
}

impl Needs {
    fn are_met(self, goal: &Goal) -> bool {
        let together = || goal.contributors() == goal.receivers();
        match self {
            Needs::Nothing => true,
            Needs::Together => together(),
            Needs::All => together() && goal.contributors().len() == goal.ranks(),
            Needs::OneReceiver => goal.receivers().len() == 1,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Needs::Nothing => "nothing",
            Needs::Together => "the shards that contribute to be those that receive",
            Needs::All => "all shards to take part, and all that contribute to receive",
            Needs::OneReceiver => "one receiver",
        }
    }
}

/// A list with `or` before its last name.
pub(crate) fn or(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => names.concat(),
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
            _ if algorithm.number().is_some() => format!("{algorithm} (or another number up to 64)"),
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
        let number = number.parse().map_err(|_| unknown())?;
        let named = match kind {
            "radix" => Algorithm::Radix(number),
            "chain" => Algorithm::Chain(number),
            "dissemination" => Algorithm::Dissemination(number),
            "five-cases" => Algorithm::FiveCases(number),
            "five-cases-inverse" => Algorithm::FiveCasesInverse(number),
            _ => return Err(unknown()),
        };
        named.check_number().map(|()| named).map_err(|_| unknown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Order, Ranks, Schedules, check};

    #[test]
    fn names_round_trip() {
        for &algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
        assert_eq!("radix-16".parse(), Ok(Algorithm::Radix(16)));
        for name in
            ["star", "radix-3", "radix-1", "radix-128", "dissemination-0", "five-cases-", "direct-2", "two-level-4"]
        {
            let error = name.parse::<Algorithm>().unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("unknown collective algorithm `{name}`, expected one of: "))
            );
        }
    }

    #[test]
    fn numbers_are_those_of_the_names() {
        let goals = [Goal::allreduce(8, 1), Goal::broadcast(8, 0, 1)];
        let make: [fn(u8) -> Algorithm; 4] =
            [Algorithm::Radix, Algorithm::Chain, Algorithm::Dissemination, Algorithm::FiveCases];
        for (goal, algorithm) in goals.iter().flat_map(|goal| make.iter().map(move |make| (goal, make))) {
            for number in 0..=255 {
                let algorithm = algorithm(number);
                let is_named = algorithm.to_string().parse() == Ok(algorithm);
                let checked = algorithm.check(goal, Laws::ALL);
                assert_eq!(algorithm.is_for(goal), checked.is_ok(), "{algorithm}");
                if !is_named {
                    let what = if algorithm.name() == "radix" { "a power of two from 2" } else { "a number from 1" };
                    let expected = format!("{what} to 64 after `{}`", algorithm.name());
                    assert_eq!(checked, Err((expected, algorithm.to_string())));
                }
            }
        }
    }

    #[test]
    fn what_is_not_for_a_goal_says_why() {
        let refused = |algorithm: Algorithm, goal: &Goal| {
            assert!(!algorithm.is_for(goal));
            let (expected, came) = algorithm.check(goal, Laws::ALL).unwrap_err();
            format!("expected {expected}, got {came}")
        };
        let some = || Ranks::all(7);
        assert_eq!(
            refused(Algorithm::TwoLevel, &Goal::reduce(8, some(), some(), 1)),
            "expected an algorithm for this allreduce: recursive-doubling, radix-4, halving-doubling, sliced, direct, \
             dissemination-3 or five-cases-3, got two-level, which needs all shards to take part, and all that contribute \
             to receive"
        );
        assert_eq!(
            refused(Algorithm::Binomial, &Goal::gather(8, some(), Ranks::all(2))),
            "expected an algorithm for this gather: direct, got binomial, which needs one receiver"
        );
        assert_eq!(
            refused(Algorithm::Ring, &Goal::allreduce(8, 1)),
            "expected an algorithm for this allreduce: recursive-doubling, two-level, radix-4, halving-doubling, sliced, \
             direct, dissemination-3 or five-cases-3, got ring"
        );
        let said = refused(Algorithm::FiveCases(1), &Goal::allreduce(13, 1));
        assert!(said.starts_with("expected an algorithm for 13 shards, such as five-cases-"), "{said}");
        assert!(said.contains(", five-cases-4, ") && !said.contains("five-cases-1, five"), "{said}");
        assert!(said.ends_with(" or dissemination-1, got five-cases-1, which does not exist for so many"), "{said}");
        assert_eq!(
            refused(Algorithm::Bruck, &Goal::all_to_all(8193, Ranks::all(8193), Ranks::all(8193))),
            "expected at most 8192 shards for bruck, got 8193"
        );
    }

    #[test]
    fn a_goal_of_too_many_shards_says_how_many_there_may_be() {
        let goals = |ranks| {
            let (all, two) = (Ranks::all(ranks), Ranks::all(2));
            [
                (Goal::all_to_all(ranks, all.clone(), all.clone()), "an all-to-all", "several collectives"),
                (Goal::reduce_scatter(ranks, all.clone(), all.clone()), "a reduce-scatter", "an allreduce"),
                (Goal::gather(ranks, all, two), "a gather", "a gather at one shard"),
            ]
        };
        for (goal, name, instead) in goals(8193) {
            let (expected, came) = Algorithm::check_any(&goal).unwrap_err();
            assert_eq!(expected, format!("at most 8192 shards for {name}"));
            assert!(came.starts_with("8193; let fewer take part, or ") && came.contains(instead), "{came}");
        }
        assert!(goals(8192).iter().all(|(goal, ..)| Algorithm::check_any(goal).is_ok()));
        // Other kinds are for any number.
        let all = || Ranks::all(10_000);
        for goal in [
            Goal::allreduce(10_000, 1),
            Goal::reduce(10_000, all(), Ranks::all(3), 1),
            Goal::broadcast(10_000, 7, 1),
            Goal::gather(10_000, all(), all()),
            Goal::gather(10_000, all(), Ranks::one(3)),
            Goal::scatter(10_000, 0, all()),
            Goal::scan(10_000, all(), all(), 1),
        ] {
            assert_eq!(Algorithm::check_any(&goal), Ok(()), "{goal}");
        }
    }

    /// The numbers of steps and parts are small enough, also where loans of large values are awaited.
    #[test]
    fn so_many_shards_have_schedules() {
        let most = Algorithm::MOST;
        let all = || Ranks::all(most);
        let goals = [
            Goal::allreduce(most, 1),
            Goal::reduce_scatter(most, all(), all()),
            Goal::gather(most, all(), all()),
            Goal::gather(most, all(), Ranks::all(2)),
            Goal::all_to_all(most, all(), all()),
            Goal::scan(most, all(), all(), 1),
        ];
        let mut tried = 0;
        for goal in goals {
            for algorithm in Algorithm::all_for(&goal).filter(|algorithm| algorithm.most_for(&goal).is_some()) {
                for order in [Order::Doubling, Order::Left] {
                    let schedules = Schedules::with(&goal, algorithm, order, Groups::of(most, 1));
                    for rank in [0, most / 2 + 1, most - 1] {
                        let subtasks = crate::engine::subtasks(&schedules.of(rank), usize::MAX);
                        assert!(subtasks.len() <= u16::MAX.into(), "{goal}, {algorithm}: {}", subtasks.len());
                        tried += 1;
                    }
                }
            }
        }
        assert_eq!(tried, 6 * 11);
    }

    /// What it says of itself is what the checker finds.
    #[test]
    fn laws_and_brackets_are_those_of_the_schedules() {
        for ranks in (1..=33).chain([48, 64]) {
            let goal = Goal::allreduce(ranks, 1);
            for groups in [Groups::of(ranks, 1), Groups::of(ranks, 3), Groups::of(ranks, 4)] {
                for algorithm in Algorithm::all_for(&goal) {
                    let schedules = Schedules::with(&goal, algorithm, Order::Doubling, groups.clone());
                    let goal = Goal::allreduce(ranks, schedules.of(0).blocks());
                    let report = check(&goal, |rank| schedules.of(rank)).unwrap();
                    assert_eq!(report.laws.without(algorithm.laws(&goal)), Laws::NONE, "{algorithm}, {ranks} ranks");
                    let alike = algorithm.groups_by_doubling(&goal, &groups);
                    assert!(report.by_doubling || !alike, "{algorithm}, {ranks} ranks");
                    assert!((0..ranks).all(|rank| schedules.of(rank).group() == schedules.group(rank)));
                }
            }
        }
    }
}
