//! What is asked of algorithms.

#[cfg(doc)]
use crate::Order;
use crate::{Algorithm, Goal, Groups, Kind, Laws};
use std::fmt;
use std::str::FromStr;

impl Algorithm {
    /// The name without its number, as on command lines.
    pub fn name(self) -> &'static str {
        self.method().name()
    }

    /// The algorithms of [`ALL`](Self::ALL) that are for a goal.
    pub fn all_for(goal: &Goal) -> impl Iterator<Item = Algorithm> {
        Self::ALL.iter().copied().filter(|algorithm| algorithm.is_for(goal))
    }

    /// The variants worth trying. An algorithm without a number is its own only variant.
    pub fn variants(self) -> impl Iterator<Item = Algorithm> {
        let numbers = self.method().numbers().map_or(&[0][..], |numbers| numbers.usual);
        numbers.iter().map(move |&number| self.with_number(number))
    }

    /// The algorithms, with all their [variants](Self::variants), that are for some goals of a kind. A barrier has the
    /// algorithms of an allreduce.
    pub fn of_kind(kind: Kind) -> impl Iterator<Item = Algorithm> {
        let kind = if kind == Kind::Barrier { Kind::Allreduce } else { kind };
        let can = move |of: &Algorithm| of.method().needs(kind).is_some_and(|needs| needs.can_be_met(kind));
        Self::ALL.iter().copied().filter(can).flat_map(Algorithm::variants)
    }

    /// Whether the algorithm reaches a goal. Some are for one kind of collective only. `five-cases` and `five-cases-inverse`
    /// exist only for some numbers of ranks. `sliced`, `halving`, `direct` and `ring` are for at most 8192 ranks, as is
    /// `bruck` in an all-to-all. With a number that it can't have, such as 0 messages a round, an algorithm is for no goal.
    ///
    /// Where everybody sends to everybody, memory grows with the square of the number of ranks: at 8192 ranks some 13 GB for
    /// all processors together, with two slots.
    pub fn is_for(self, goal: &Goal) -> bool {
        self.check_number().is_ok() && self.is_for_kind(goal) && self.is_for_ranks(goal)
    }

    /// The algorithm that is run where this one is named. If there are no five cases for the number of ranks, `FiveCases` and
    /// `FiveCasesInverse` become `Dissemination` with the same number. If no value is left out, `FiveCasesInverse` becomes
    /// `FiveCases`. Otherwise it is the algorithm itself.
    pub fn taken_for(self, goal: &Goal) -> Self {
        if self.check_number().is_err() || !self.is_for_kind(goal) || self.is_for_ranks(goal) {
            return self;
        }
        let instead = self.number().and_then(|number| self.method().instead(number));
        instead.map_or(self, |instead| instead.taken_for(goal))
    }

    /// Checks the number after the name, if it has one.
    ///
    /// # Errors
    ///
    /// What was expected, and what came in its place, in words.
    pub fn check_number(self) -> Result<(), (String, String)> {
        match (self.number(), self.method().numbers()) {
            (Some(number), Some(numbers)) if !numbers.allow(number) => {
                Err((numbers.after(self.name()), self.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn is_for_kind(self, goal: &Goal) -> bool {
        self.method().needs(goal.kind()).is_some_and(|needs| needs.are_met(goal))
    }

    fn is_for_ranks(self, goal: &Goal) -> bool {
        self.method().exists(goal.most(), self.number().unwrap_or(0))
            && self.most_for(goal).is_none_or(|most| goal.most() <= most)
    }

    /// The most contributors or receivers for which it reaches a goal of this kind, if there is a limit.
    pub fn most_for(self, goal: &Goal) -> Option<u32> {
        self.method().most(goal.kind())
    }

    /// Whether it can combine in the order of a sequential loop.
    pub fn has_order(self, goal: &Goal) -> bool {
        self.method().has_order() && self.is_for(goal)
    }

    /// Whether it moves blocks through others' places, so that all must have the same size.
    pub fn needs_equal_blocks(self, goal: &Goal) -> bool {
        self.method().needs_equal_blocks(goal.kind())
    }

    /// Whether a message can have several blocks, so that all must have known sizes.
    pub fn joins_blocks(self, goal: &Goal) -> bool {
        self.method().joins_blocks(goal.kind())
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
            let needs = self.method().needs(goal.kind()).filter(|needs| !needs.are_met(goal));
            let needs = needs.map_or_else(String::new, |needs| format!(", which needs {}", needs.in_words()));
            return Err((format!("an algorithm for this {goal}: {}", or(&names)), format!("{self}{needs}")));
        }
        let missing = self.laws(goal).without(laws);
        if missing != Laws::NONE {
            let expected = format!("an operator that is {missing} bit for bit, as {self} needs");
            return Err((expected, "one that is not".into()));
        }
        if self.is_for_ranks(goal) {
            return Ok(());
        }
        let came = goal.most();
        match self.most_for(goal) {
            Some(most) => Err((format!("at most {most} shards for {self}"), came.to_string())),
            None => {
                let others = self.variants().filter(|other| other.is_for_ranks(goal));
                let others = others.chain([self.taken_for(goal)]).map(|a| a.to_string());
                let expected = format!("an algorithm for {came} shards, such as {}", or(&others.collect::<Vec<_>>()));
                Err((expected, format!("{self}, which does not exist for that number of shards")))
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
            Kind::Gather | Kind::Allgather => {
                "; let fewer take part, or take an allgather or a gather at one shard, which are for any number"
            }
            _ => "; let fewer take part, or make several collectives of fewer shards each",
        };
        Err((format!("at most {most} shards for {}", goal.named()), format!("{}{instead}", goal.most())))
    }

    /// Whether a rank reaches all others in one round, as it does with any larger number.
    pub fn is_in_one_round(self, goal: &Goal) -> bool {
        self.number().is_some_and(|number| self.method().is_in_one_round(number, goal.most()))
    }

    /// Whether a mapper is offered it for a goal that it is for, if there are others.
    pub fn is_offered(self, goal: &Goal) -> bool {
        goal.most() <= self.method().most_offered(goal.kind())
    }

    /// Checks that there is an algorithm that combines in the order of a loop.
    ///
    /// # Errors
    ///
    /// What was expected, and what came in its place, in words.
    pub fn check_order(goal: &Goal) -> Result<(), (String, String)> {
        if Self::ALL.iter().any(|algorithm| algorithm.has_order(goal)) {
            return Ok(());
        }
        let expected =
            format!("at most {} shards in the order of a loop, or an associative operator", crate::algorithms::MOST);
        Err((expected, goal.most().to_string()))
    }

    /// The laws that an operator must obey bit for bit, or receivers end with different bits. A scan by `direct` has other
    /// brackets than one by recursive doubling, so it needs associativity to have the same bits. With [`Order::Left`] it needs
    /// none, because it combines as a loop does.
    pub fn laws(self, goal: &Goal) -> Laws {
        self.method().laws(goal.kind())
    }

    /// Whether contributions are grouped as in recursive doubling, so that any operator gives the same bits.
    pub fn groups_by_doubling(self, goal: &Goal, groups: &Groups) -> bool {
        self.laws(goal) == Laws::NONE && self.method().groups_by_doubling(groups)
    }

    /// The names of all algorithms, with what their numbers can be.
    pub fn names() -> String {
        let name = |algorithm: &Algorithm| match algorithm.method().numbers() {
            Some(numbers) => format!("{algorithm} (or {})", numbers.others_in_words()),
            None => algorithm.to_string(),
        };
        Self::ALL.iter().map(name).collect::<Vec<_>>().join(", ")
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

/// A list with `or` before its last name.
pub fn or(names: &[String]) -> String {
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

/// The error for a text that names no [`Algorithm`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownAlgorithm {
    /// Not the name of an algorithm.
    #[error("unknown collective algorithm `{came}`, expected one of: {}", Algorithm::names())]
    Name {
        /// The name that was given.
        came: String,
    },
    /// The name of an algorithm with a number that it can't have.
    #[error("collective algorithm `{came}`: expected {expected}")]
    Number {
        /// The numbers that it can have, in words.
        expected: String,
        /// The name that was given.
        came: String,
    },
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        let unknown = || UnknownAlgorithm::Name { came: name.into() };
        let find = |name: &str| Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name);
        if let Some(known) = find(name) {
            return Ok(known);
        }
        let (stem, number) = name.rsplit_once('-').ok_or_else(unknown)?;
        let (of, numbers) = find(stem).and_then(|of| Some((of, of.method().numbers()?))).ok_or_else(unknown)?;
        let number = number.parse().ok().filter(|number| numbers.allow(*number));
        let refused = || UnknownAlgorithm::Number { expected: numbers.after(stem), came: name.into() };
        number.map(|number| of.with_number(number)).ok_or_else(refused)
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
        for name in ["star", "direct-2", "two-level-4", "radix4"] {
            let error = name.parse::<Algorithm>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown collective algorithm `{name}`, expected one of: ")), "{error}");
        }
        for (name, numbers) in [
            ("radix-3", "a power of two from 2 to 64 after `radix`"),
            ("radix-1", "a power of two from 2 to 64 after `radix`"),
            ("radix-128", "a power of two from 2 to 64 after `radix`"),
            ("radix-256", "a power of two from 2 to 64 after `radix`"),
            ("five-cases-", "a number from 1 to 64 after `five-cases`"),
            ("chain-x", "a number from 1 to 64 after `chain`"),
            ("dissemination-0", "a number from 1 to 64 after `dissemination`"),
            ("five-cases-inverse-65", "a number from 1 to 64 after `five-cases-inverse`"),
        ] {
            let error = name.parse::<Algorithm>().unwrap_err().to_string();
            assert_eq!(error, format!("collective algorithm `{name}`: expected {numbers}"));
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
        for algorithm in
            [Algorithm::Radix(4), Algorithm::HalvingDoubling, Algorithm::Sliced, Algorithm::Dissemination(3)]
        {
            let said = refused(algorithm, &Goal::reduce(8, Ranks::all(8), Ranks::one(0), 1));
            let needs = "which needs the shards that contribute to be those that receive";
            assert!(said.ends_with(&format!("got {algorithm}, {needs}")), "{said}");
        }
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
        assert!(
            said.ends_with(" or dissemination-1, got five-cases-1, which does not exist for that number of shards"),
            "{said}"
        );
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
                    let by_doubling = algorithm.groups_by_doubling(&goal, &groups);
                    assert!(report.by_doubling || !by_doubling, "{algorithm}, {ranks} ranks");
                    assert!((0..ranks).all(|rank| schedules.of(rank).group() == schedules.group(rank)));
                }
            }
        }
    }
}
