//! The schedules of all ranks of one collective.

use super::{Algorithm, Schedule};
use crate::Laws;
use crate::algorithms::{
    Groups, Order, Places, Scan, Survivors, binomial_broadcast, binomial_gather, binomial_scatter, bruck_all_to_all,
    bruck_allgather, chain_broadcast, direct, dissemination, five_cases, halving_doubling, halving_reduce_scatter,
    pairwise_all_to_all, radix, radix_unlinked, recursive_doubling, ring_allgather, sliced, two_level,
};
use crate::goal::{Goal, Kind};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The schedules of a collective's ranks, each made when it is asked for. Local and pure: no rank talks to another.
///
/// ```
/// use maniple_collectives::{Algorithm, Goal, Ranks, Schedules, check};
///
/// // Six ranks gather their blocks at rank 0.
/// let goal = Goal::gather(6, Ranks::all(6), Ranks::one(0));
/// let schedules = Schedules::new(&goal, Algorithm::Binomial);
/// assert_eq!(check(&goal, |rank| schedules.of(rank)).unwrap().messages, 5);
/// ```
#[derive(Clone)]
pub struct Schedules {
    goal: Goal,
    by: By,
    /// The cells of ranks that have as many, when they are known.
    alike: [OnceLock<u32>; 3],
}

#[derive(Clone)]
enum By {
    Algorithm {
        algorithm: Algorithm,
        order: Order,
        groups: Groups,
    },
    Survivors(Arc<Survivors>),
    Scan(Arc<Scan>),
    /// With choices that depend on other collectives.
    Planned(Arc<Survivors>),
    Own(Arc<str>, Arc<Make>),
}

fn survivors(goal: &Goal) -> Survivors {
    Survivors::new(goal.ranks(), goal.contributors().clone(), goal.receivers().clone())
}

/// A function that gives the schedule of each rank.
pub(crate) type Make = dyn Fn(&Goal, u32) -> Schedule + Send + Sync;

impl Schedules {
    /// Those of an algorithm. Every rank is in a [group](Groups) of its own, and the brackets are those of recursive doubling.
    ///
    /// # Panics
    ///
    /// If the algorithm [is not for](Algorithm::is_for) the goal, also because of the algorithm's number or that of the ranks.
    /// [`Algorithm::check`] says so without a panic.
    pub fn new(goal: &Goal, algorithm: Algorithm) -> Self {
        Self::with(goal, algorithm, Order::Doubling, Groups::of(goal.ranks(), 1))
    }

    /// The same with other brackets, for `direct` and `sliced`, and with groups of ranks, for `two-level`.
    ///
    /// # Panics
    ///
    /// If the algorithm [is not for](Algorithm::is_for) the goal, also because of the algorithm's number or that of the ranks.
    /// [`Algorithm::check`] says so without a panic.
    pub fn with(goal: &Goal, algorithm: Algorithm, order: Order, groups: Groups) -> Self {
        if let Err((expected, came)) = algorithm.check(goal, Laws::ALL) {
            panic!("{algorithm} for {} of {} ranks: expected {expected}, got {came}", goal.named(), goal.ranks());
        }
        let all = goal.contributors().len() == goal.ranks() && goal.receivers().len() == goal.ranks();
        let by = match (algorithm, goal.kind()) {
            (Algorithm::RecursiveDoubling, Kind::Reduce) if !all => By::Survivors(Arc::new(survivors(goal))),
            (Algorithm::RecursiveDoubling, Kind::Scan { inclusive }) => {
                let (from, to) = (goal.contributors().clone(), goal.receivers().clone());
                By::Scan(Arc::new(Scan::new(goal.ranks(), from, to, inclusive)))
            }
            _ => By::Algorithm { algorithm, order, groups },
        };
        Self { goal: goal.clone(), by, alike: Default::default() }
    }

    /// Those that a function makes, with a name for reports.
    pub fn own(goal: &Goal, name: &str, make: impl Fn(&Goal, u32) -> Schedule + Send + Sync + 'static) -> Self {
        Self::made(goal, name, Arc::new(make))
    }

    pub(crate) fn made(goal: &Goal, name: &str, make: Arc<Make>) -> Self {
        Self { goal: goal.clone(), by: By::Own(name.into(), make), alike: Default::default() }
    }

    /// The survivors, if there are several choices of them with the same bits.
    pub(crate) fn survivors(&self) -> Option<Survivors> {
        match &self.by {
            By::Survivors(survivors) | By::Planned(survivors) => Some((**survivors).clone()),
            // Of each pair of ranks beyond a power of two either one can go on.
            By::Algorithm { algorithm: Algorithm::RecursiveDoubling, .. } => {
                let is_open = self.goal.kind() == Kind::Reduce && !self.goal.ranks().is_power_of_two();
                is_open.then(|| survivors(&self.goal))
            }
            _ => None,
        }
    }

    /// The same reduction by other survivors.
    pub(crate) fn by_survivors(&self, survivors: Survivors) -> Self {
        Self { goal: self.goal.clone(), by: By::Planned(Arc::new(survivors)), alike: Default::default() }
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
        match &self.by {
            By::Survivors(survivors) | By::Planned(survivors) => survivors.schedule(rank),
            By::Scan(scan) => scan.schedule(rank),
            By::Own(_, make) => make(&self.goal, rank),
            By::Algorithm { algorithm, order, groups } => self.by_algorithm(rank, *algorithm, *order, groups),
        }
    }

    fn by_algorithm(&self, rank: u32, algorithm: Algorithm, order: Order, groups: &Groups) -> Schedule {
        let goal = &self.goal;
        let (ranks, from, to) = (goal.ranks(), goal.contributors(), goal.receivers());
        // Algorithms for all ranks run among the positions of those that take part.
        let among = |make: &dyn Fn(u32, u32) -> Schedule| match from.position(rank) {
            None => Schedule::new(rank, ranks, self.blocks_among(algorithm)),
            Some(position) => make(position, from.len()).among(rank, ranks, |position| from.at(position)),
        };
        match (algorithm, goal.kind()) {
            (Algorithm::RecursiveDoubling, _) => recursive_doubling(rank, ranks),
            (Algorithm::TwoLevel, _) => two_level(rank, groups),
            (Algorithm::Radix(of), _) => among(&|rank, ranks| radix(rank, ranks, of.into())),
            (Algorithm::HalvingDoubling, _) => among(&halving_doubling),
            (Algorithm::Sliced, _) => among(&|rank, ranks| sliced(rank, ranks, order)),
            (Algorithm::Dissemination(n), _) => among(&|rank, ranks| dissemination(rank, ranks, n.into())),
            (Algorithm::FiveCases(n), _) => {
                among(&|rank, ranks| five_cases(rank, ranks, n.into(), false).expect("it is for so many ranks"))
            }
            (Algorithm::FiveCasesInverse(n), _) => {
                among(&|rank, ranks| five_cases(rank, ranks, n.into(), true).expect("it is for so many ranks"))
            }
            (Algorithm::Halving, _) => among(&halving_reduce_scatter),
            (Algorithm::Binomial, Kind::Gather) => binomial_gather(rank, ranks, to.at(0), from),
            (Algorithm::Binomial, Kind::Scatter) => binomial_scatter(rank, ranks, from.at(0), to),
            (Algorithm::Binomial, _) => binomial_broadcast(rank, ranks, from.at(0), to),
            (Algorithm::Chain(pieces), _) => chain_broadcast(rank, ranks, from.at(0), to, pieces.into()),
            (Algorithm::Bruck, Kind::AllToAll) => bruck_all_to_all(rank, ranks, from),
            (Algorithm::Bruck, _) => bruck_allgather(rank, ranks, from),
            (Algorithm::Ring, _) => ring_allgather(rank, ranks, from),
            (Algorithm::Pairwise, _) => pairwise_all_to_all(rank, ranks, from),
            (Algorithm::Direct, _) => direct(goal, rank, order),
        }
    }

    /// The blocks of an algorithm that runs among the contributors.
    fn blocks_among(&self, algorithm: Algorithm) -> u32 {
        let all = self.goal.contributors().len();
        match algorithm {
            Algorithm::Sliced | Algorithm::Halving => all,
            Algorithm::HalvingDoubling => 1 << all.ilog2(),
            _ => 1,
        }
    }

    /// The number of a rank's updates, or of its reads if they are more. Every node asks for all ranks, so schedules are made
    /// for this only where they are short.
    pub(crate) fn cells(&self, rank: u32) -> u32 {
        let of = |schedule: Schedule| schedule.updates().max(schedule.reads()) as u32;
        let (from, to) = (self.goal.contributors(), self.goal.receivers());
        let algorithm = match &self.by {
            By::Own(..) => return of(self.of(rank)),
            By::Survivors(survivors) | By::Planned(survivors) => return of(survivors.unlinked(rank)),
            By::Scan(scan) => return of(scan.unlinked(rank)),
            By::Algorithm { algorithm, .. } => *algorithm,
        };
        let (position, all) = (from.position(rank), from.len());
        match (algorithm, self.goal.kind(), position) {
            (Algorithm::Direct, ..) => self.cells_of_direct(rank),
            (Algorithm::Ring | Algorithm::Pairwise, _, Some(_)) => all - 1,
            (Algorithm::Sliced, _, Some(_)) => 2 * (all - 1),
            (Algorithm::Bruck, Kind::AllToAll, Some(_)) => all.next_power_of_two().trailing_zeros(),
            (Algorithm::Bruck, _, Some(position)) => cells_of_bruck(position, all),
            (Algorithm::Radix(number), _, Some(position)) => of(radix_unlinked(position, all, number.into())),
            (Algorithm::HalvingDoubling | Algorithm::Halving, _, Some(position)) => self.cells_alike(rank, position),
            (Algorithm::RecursiveDoubling, Kind::Reduce, Some(position)) => self.cells_alike(rank, position),
            (Algorithm::Dissemination(_) | Algorithm::FiveCases(_) | Algorithm::FiveCasesInverse(_), _, Some(_)) => {
                *self.alike[2].get_or_init(|| of(self.of(rank)))
            }
            _ if position.is_none() && !to.contains(rank) => 0,
            _ => of(self.of(rank)),
        }
    }

    /// Ranks are alike that are the first of a pair which combines before the others, the second of one, or neither.
    fn cells_alike(&self, rank: u32, position: u32) -> u32 {
        let places = Places::of(self.goal.contributors().len());
        let place = places.place(position);
        let kind = if places.is_pair(place) { position - places.first(place) } else { 2 };
        *self.alike[kind as usize].get_or_init(|| {
            let schedule = self.of(rank);
            schedule.updates().max(schedule.reads()) as u32
        })
    }

    fn cells_of_direct(&self, rank: u32) -> u32 {
        let (from, to) = (self.goal.contributors(), self.goal.receivers());
        let (own, receives) = (from.position(rank), to.contains(rank));
        let (reads, updates) = match (self.goal.kind(), own) {
            (Kind::Scan { .. }, _) => {
                let combined = if receives { self.goal.combined(rank) } else { 0 };
                (combined - u32::from(own.is_some_and(|own| own < combined)), to.len() - to.below(rank + 1))
            }
            _ => (from.len() - u32::from(own.is_some()), to.len() - u32::from(receives)),
        };
        let (reads, updates) = (if receives { reads } else { 0 }, if own.is_some() { updates } else { 0 });
        reads.max(updates)
    }

    /// Whether a rank that has read a value says so. Where partners exchange values it does, so that one set of cells is enough.
    /// Between two ranks this travels with the next value. Between more it mostly is a message of its own.
    pub(crate) fn give_back(&self) -> bool {
        match &self.by {
            By::Algorithm { algorithm, .. } => algorithm.exchanges_in_pairs() || !self.goal.is_mutual(),
            By::Survivors(_) | By::Planned(_) | By::Scan(_) | By::Own(..) => true,
        }
    }

    /// The [group](Schedule::group) of a rank.
    pub(crate) fn group(&self, rank: u32) -> Range<u32> {
        match &self.by {
            By::Algorithm { algorithm: Algorithm::TwoLevel, groups, .. } => groups.of_rank(rank),
            By::Own(..) => self.of(rank).group(),
            _ => rank..rank + 1,
        }
    }
}

/// The cells of a contributor in an allgather by Bruck: in each round one message each way, or two if it goes round the end.
fn cells_of_bruck(position: u32, all: u32) -> u32 {
    let (mut updates, mut reads, mut have) = (0, 0, 1);
    while have < all {
        let count = have.min(all - have);
        updates += 1 + u32::from(position + count > all);
        reads += 1 + u32::from((position + have) % all + count > all);
        have += count;
    }
    updates.max(reads)
}

/// The algorithm. For one in a plan it tells choices apart, so that nodes whose plans differ find that out.
impl fmt::Display for Schedules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            By::Algorithm { algorithm, order: Order::Left, .. } => write!(f, "{algorithm} in the order of a loop"),
            By::Algorithm { algorithm, .. } => write!(f, "{algorithm}"),
            By::Survivors(_) | By::Scan(_) => write!(f, "{}", Algorithm::RecursiveDoubling),
            By::Planned(survivors) => {
                write!(f, "{} in a plan with choices {:08x}", Algorithm::RecursiveDoubling, survivors.digest())
            }
            By::Own(name, _) => f.write_str(name),
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

    #[test]
    fn cells_are_those_of_the_schedules() {
        for ranks in 1..=20 {
            let some = Ranks::of((0..ranks).filter(|rank| rank % 3 != 1));
            let rest = Ranks::of((0..ranks).filter(|rank| rank % 4 == 1).chain([0]));
            for (from, to) in [(Ranks::all(ranks), some.clone()), (some.clone(), some.clone()), (some.clone(), rest)] {
                let goals = [
                    Goal::reduce(ranks, from.clone(), to.clone(), 1),
                    Goal::reduce_scatter(ranks, from.clone(), to.clone()),
                    Goal::gather(ranks, from.clone(), to.clone()),
                    Goal::all_to_all(ranks, from.clone(), to.clone()),
                    Goal::scan(ranks, from.clone(), to.clone(), 1),
                    Goal::exscan(ranks, from.clone(), to.clone(), 1),
                    Goal::broadcast_to(ranks, from.at(0), to.clone(), 1),
                    Goal::scatter(ranks, from.at(0), to.clone()),
                ];
                for goal in goals {
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

    /// Cells are used again without being given back only where each rank ends after those it sends to have begun.
    #[test]
    fn what_is_not_given_back_is_over() {
        let mut without = HashSet::new();
        for ranks in 1..=20 {
            let some = Ranks::of((0..ranks).filter(|rank| rank % 3 != 1));
            for of in [Ranks::all(ranks), some, Ranks::one(ranks - 1)] {
                let goals = [
                    Goal::reduce(ranks, of.clone(), of.clone(), 1),
                    Goal::reduce_scatter(ranks, of.clone(), of.clone()),
                    Goal::gather(ranks, of.clone(), of.clone()),
                    Goal::all_to_all(ranks, of.clone(), of.clone()),
                    Goal::scan(ranks, of.clone(), of.clone(), 1),
                    Goal::exscan(ranks, of.clone(), of.clone(), 1),
                    Goal::broadcast_to(ranks, of.at(0), of.clone(), 1),
                    Goal::scatter(ranks, of.at(0), of.clone()),
                    Goal::gather(ranks, of.clone(), Ranks::one(0)),
                    Goal::reduce(ranks, of.clone(), Ranks::one(0), 1),
                ];
                for goal in goals {
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
                "pairwise",
                "radix",
                "ring",
                "sliced"
            ]
        );
    }
}
