//! The schedules of all ranks of one collective.

use crate::algorithms::{Case, Cells, Ranked, cells};
use crate::{Algorithm, Goal, Groups, Laws, Order, Schedule, Survivors};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The schedules of a collective's ranks, each made when it is asked for. Local and pure: no rank talks to another.
///
/// ```
/// use maniple_schedules::{Algorithm, Goal, Ranks, Schedules, check};
///
/// // Six ranks gather their blocks at rank 0.
/// let goal = Goal::gather(6, Ranks::all(6), Ranks::one(0));
/// let schedules = Schedules::new(&goal, Algorithm::Binomial);
/// assert_eq!(check(&goal, |rank| schedules.of(rank)).unwrap().messages, 5);
/// ```
#[derive(Clone)]
pub struct Schedules {
    goal: Goal,
    source: Source,
    /// The cells of each rank of a class, when they are known.
    of_class: [OnceLock<u32>; 3],
}

#[derive(Clone)]
enum Source {
    Algorithm {
        algorithm: Algorithm,
        order: Order,
        groups: Groups,
        prepared: Option<Arc<dyn Ranked>>,
    },
    /// With choices that depend on other collectives.
    Planned(Arc<Survivors>),
    Own(Arc<str>, Arc<Make>),
}

/// A function that gives the schedule of each rank.
pub type Make = dyn Fn(&Goal, u32) -> Schedule + Send + Sync;

impl Schedules {
    /// The schedules of an algorithm. Every rank is in a [group](Groups) of its own, and the brackets are the ones of
    /// recursive doubling.
    ///
    /// # Panics
    ///
    /// If the algorithm [is not for](Algorithm::is_for) the goal, also because of the algorithm's number or the number
    /// of ranks. [`Algorithm::check`] says so without a panic.
    pub fn new(goal: &Goal, algorithm: Algorithm) -> Self {
        Self::with(goal, algorithm, Order::Doubling, Groups::of(goal.ranks(), 1))
    }

    /// The same with other brackets, for `direct` and `sliced`, and with groups of ranks, for `two-level`.
    ///
    /// # Panics
    ///
    /// If the algorithm [is not for](Algorithm::is_for) the goal, also because of the algorithm's number or the number
    /// of ranks. [`Algorithm::check`] says so without a panic.
    pub fn with(goal: &Goal, algorithm: Algorithm, order: Order, groups: Groups) -> Self {
        if let Err((expected, came)) = algorithm.check(goal, Laws::ALL) {
            panic!("{algorithm} for {} of {} ranks: expected {expected}, got {came}", goal.named(), goal.ranks());
        }
        let source = Source::Algorithm { algorithm, order, groups, prepared: algorithm.method().prepared(goal) };
        Self { goal: goal.clone(), source, of_class: Default::default() }
    }

    fn case<'a>(&'a self, algorithm: Algorithm, order: Order, groups: &'a Groups) -> Case<'a> {
        Case { goal: &self.goal, number: algorithm.number().unwrap_or(0), order, groups }
    }

    /// Schedules that a function makes, with a name for reports.
    pub fn own(goal: &Goal, name: &str, make: impl Fn(&Goal, u32) -> Schedule + Send + Sync + 'static) -> Self {
        Self::made(goal, name, Arc::new(make))
    }

    /// The same with a function that others use, too.
    pub fn made(goal: &Goal, name: &str, make: Arc<Make>) -> Self {
        Self { goal: goal.clone(), source: Source::Own(name.into(), make), of_class: Default::default() }
    }

    /// The survivors, if there are several choices of them with the same bits.
    pub fn survivors(&self) -> Option<Survivors> {
        match &self.source {
            Source::Algorithm { prepared: Some(prepared), .. } => prepared.survivors().cloned(),
            Source::Algorithm { algorithm, .. } => algorithm.method().survivors(&self.goal),
            Source::Planned(survivors) => Some((**survivors).clone()),
            Source::Own(..) => None,
        }
    }

    /// The same reduction by other survivors.
    pub fn by_survivors(&self, survivors: Survivors) -> Self {
        Self { goal: self.goal.clone(), source: Source::Planned(Arc::new(survivors)), of_class: Default::default() }
    }

    /// What they are to reach.
    pub fn goal(&self) -> &Goal {
        &self.goal
    }

    /// The steps of a rank.
    ///
    /// # Panics
    ///
    /// If `rank` is not below the number of ranks.
    pub fn of(&self, rank: u32) -> Schedule {
        assert!(rank < self.goal.ranks(), "rank {rank} is not below the {} ranks", self.goal.ranks());
        match &self.source {
            Source::Algorithm { prepared: Some(prepared), .. } => prepared.of(rank),
            Source::Algorithm { algorithm, order, groups, .. } => {
                algorithm.method().schedule(&self.case(*algorithm, *order, groups), rank)
            }
            Source::Planned(survivors) => survivors.schedule(rank),
            Source::Own(_, make) => make(&self.goal, rank),
        }
    }

    /// The number of a rank's updates, or of its reads if they are more. Every node asks for all ranks, so schedules are made
    /// for this only where they are short.
    pub fn cells(&self, rank: u32) -> u32 {
        match &self.source {
            Source::Own(..) => cells(&self.of(rank)),
            _ if !self.goal.takes_part(rank) => 0,
            Source::Planned(survivors) => survivors.cells(rank),
            Source::Algorithm { prepared: Some(prepared), .. } => prepared.cells(rank),
            Source::Algorithm { algorithm, order, groups, .. } => {
                match algorithm.method().cells(&self.case(*algorithm, *order, groups), rank) {
                    Cells::Made => cells(&self.of(rank)),
                    Cells::Number(number) => number,
                    Cells::OfClass(class) => *self.of_class[class].get_or_init(|| cells(&self.of(rank))),
                }
            }
        }
    }

    /// Whether a rank that has read a value says so. Where partners exchange values it does, so that one set of cells is enough.
    /// Between two ranks this travels with the next value. Between more it mostly is a message of its own.
    pub fn give_back(&self) -> bool {
        match &self.source {
            Source::Algorithm { algorithm, .. } => {
                algorithm.method().sends_both_ways(self.goal.kind()) || !self.goal.is_mutual()
            }
            Source::Planned(_) | Source::Own(..) => true,
        }
    }

    /// The [group](Schedule::group) of a rank.
    pub fn group(&self, rank: u32) -> Range<u32> {
        match &self.source {
            Source::Algorithm { algorithm, order, groups, .. } => {
                algorithm.method().group(&self.case(*algorithm, *order, groups), rank)
            }
            Source::Planned(_) => rank..rank + 1,
            Source::Own(..) => self.of(rank).group(),
        }
    }
}

/// The algorithm. For one in a plan it tells choices apart, so that nodes whose plans differ find that out.
impl fmt::Display for Schedules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Algorithm { algorithm, order: Order::Left, prepared: None, .. } => {
                write!(f, "{algorithm} in the order of a loop")
            }
            Source::Algorithm { algorithm, .. } => write!(f, "{algorithm}"),
            Source::Planned(survivors) => {
                write!(f, "{} in a plan with choices {:08x}", Algorithm::RecursiveDoubling, survivors.digest())
            }
            Source::Own(name, _) => f.write_str(name),
        }
    }
}

impl fmt::Debug for Schedules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedules({} by {self})", self.goal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ranks, Step};
    use std::collections::{HashMap, HashSet};

    /// For each rank, the ranks whose begin comes before its end, and those it sends values to.
    fn before(schedules: &Schedules) -> Vec<(HashSet<u32>, HashSet<u32>)> {
        let all: Vec<Schedule> = (0..schedules.goal.ranks()).map(|rank| schedules.of(rank)).collect();
        let mut ranks: Vec<_> = (0u32..).zip(&all).map(|(rank, _)| (HashSet::from([rank]), HashSet::new())).collect();
        let (mut done, mut reads, mut sent) = (vec![0; all.len()], vec![0; all.len()], HashMap::new());
        loop {
            let mut moved = false;
            for (at, schedule) in all.iter().enumerate() {
                let rank = at as u32;
                while let Some(step) = schedule.steps().get(done[at]) {
                    match *step {
                        Step::Update { peer, at: read, .. } => {
                            sent.insert((peer, read), ranks[at].0.clone());
                            ranks[at].1.insert(peer);
                        }
                        Step::Read { .. } => {
                            let Some(came) = sent.remove(&(rank, reads[at])) else { break };
                            reads[at] += 1;
                            ranks[at].0.extend(came);
                        }
                        Step::Local { .. } => {}
                    }
                    done[at] += 1;
                    moved = true;
                }
            }
            if !moved {
                assert!(all.iter().zip(done).all(|(s, done)| s.steps().len() == done), "{schedules}: a deadlock");
                return ranks;
            }
        }
    }

    /// Goals of all kinds among some of the ranks; where one rank contributes, it is the first of `from`.
    fn goals(ranks: u32, from: &Ranks, to: &Ranks) -> [Goal; 8] {
        [
            Goal::reduce(ranks, from.clone(), to.clone(), 1),
            Goal::reduce_scatter(ranks, from.clone(), to.clone()),
            Goal::gather(ranks, from.clone(), to.clone()),
            Goal::all_to_all(ranks, from.clone(), to.clone()),
            Goal::scan(ranks, from.clone(), to.clone(), 1),
            Goal::exscan(ranks, from.clone(), to.clone(), 1),
            Goal::broadcast_to(ranks, from.at(0), to.clone(), 1),
            Goal::scatter(ranks, from.at(0), to.clone()),
        ]
    }

    #[test]
    fn cells_are_those_of_the_schedules() {
        for ranks in 1..=20 {
            let some = Ranks::of((0..ranks).filter(|rank| rank % 3 != 1));
            let rest = Ranks::of((0..ranks).filter(|rank| rank % 4 == 1).chain([0]));
            for (from, to) in [(Ranks::all(ranks), some.clone()), (some.clone(), some.clone()), (some.clone(), rest)] {
                for goal in goals(ranks, &from, &to) {
                    for algorithm in Algorithm::all_for(&goal) {
                        let schedules = Schedules::new(&goal, algorithm);
                        for rank in 0..ranks {
                            let made = schedules.of(rank);
                            let cells = made.updates().max(made.reads());
                            assert_eq!(
                                schedules.cells(rank) as usize,
                                cells,
                                "{goal}, {algorithm}, rank {rank} of {ranks}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Also where an algorithm for all ranks runs among the contributors.
    #[test]
    fn schedules_among_some_ranks_hold() {
        for ranks in 1..=12 {
            let some = Ranks::of((0..ranks).filter(|rank| rank % 3 != 1));
            for goal in goals(ranks, &some, &some) {
                for algorithm in Algorithm::all_for(&goal) {
                    // The algorithm says how many blocks it divides a vector into.
                    let schedules = Schedules::new(&goal, algorithm);
                    let goal = goal.clone().in_blocks(schedules.of(0).blocks());
                    let proof = crate::check(&goal, |rank| schedules.of(rank));
                    assert!(proof.is_ok(), "{goal}, {algorithm} among {some} of {ranks}: {}", proof.unwrap_err());
                }
            }
        }
    }

    /// Cells are used again without being given back only where each rank ends after those it sends to have begun.
    #[test]
    fn what_is_not_given_back_is_over() {
        let mut without = HashSet::new();
        for ranks in 1..=20 {
            let some = Ranks::of((0..ranks).filter(|rank| rank % 3 != 1));
            for of in [Ranks::all(ranks), some, Ranks::one(ranks - 1)] {
                let to_one =
                    [Goal::gather(ranks, of.clone(), Ranks::one(0)), Goal::reduce(ranks, of.clone(), Ranks::one(0), 1)];
                for goal in goals(ranks, &of, &of).into_iter().chain(to_one) {
                    for algorithm in Algorithm::all_for(&goal) {
                        let schedules = Schedules::new(&goal, algorithm);
                        if schedules.give_back() {
                            continue;
                        }
                        without.insert(algorithm.name());
                        for (rank, (begun, receivers)) in before(&schedules).into_iter().enumerate() {
                            let early: Vec<u32> = receivers.difference(&begun).copied().collect();
                            assert!(early.is_empty(), "{goal} of {of}, {algorithm}: rank {rank} before {early:?}");
                        }
                    }
                }
            }
        }
        let mut without: Vec<_> = without.into_iter().collect();
        without.sort_unstable();
        assert_eq!(
            without,
            [
                "binomial",
                "bruck",
                "direct",
                "dissemination",
                "five-cases",
                "five-cases-inverse",
                "radix",
                "ring",
                "sliced",
                "two-level"
            ]
        );
    }
}
