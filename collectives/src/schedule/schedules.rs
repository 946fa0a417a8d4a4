//! The schedules of all ranks of one collective.

use super::{Algorithm, Schedule};
use crate::algorithms::{
    Groups, Order, Survivors, binomial_broadcast, binomial_gather, binomial_scatter, bruck_all_to_all, bruck_allgather,
    chain_broadcast, direct, dissemination, five_cases, halving_doubling, radix, recursive_doubling, ring_allgather,
    scan, sliced, two_level,
};
use crate::goal::{Goal, Kind};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

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
}

#[derive(Clone)]
enum By {
    Algorithm {
        algorithm: Algorithm,
        order: Order,
        groups: Groups,
    },
    Survivors(Arc<Survivors>),
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
    /// If the algorithm [is not for](Algorithm::is_for) the goal.
    pub fn new(goal: &Goal, algorithm: Algorithm) -> Self {
        Self::with(goal, algorithm, Order::Doubling, Groups::of(goal.ranks(), 1))
    }

    /// The same with other brackets, for `direct` and `sliced`, and with groups of ranks, for `two-level`.
    ///
    /// # Panics
    ///
    /// If the algorithm [is not for](Algorithm::is_for) the goal.
    pub fn with(goal: &Goal, algorithm: Algorithm, order: Order, groups: Groups) -> Self {
        assert!(algorithm.is_for(goal), "{algorithm} is not for a {goal} of {} ranks", goal.ranks());
        let all = goal.contributors().len() == goal.ranks() && goal.receivers().len() == goal.ranks();
        let by = match (algorithm, goal.kind()) {
            (Algorithm::RecursiveDoubling, Kind::Reduce) if !all => By::Survivors(Arc::new(survivors(goal))),
            _ => By::Algorithm { algorithm, order, groups },
        };
        Self { goal: goal.clone(), by }
    }

    /// Those that a function makes, with a name for reports.
    pub fn own(goal: &Goal, name: &str, make: impl Fn(&Goal, u32) -> Schedule + Send + Sync + 'static) -> Self {
        Self::made(goal, name, Arc::new(make))
    }

    pub(crate) fn made(goal: &Goal, name: &str, make: Arc<Make>) -> Self {
        Self { goal: goal.clone(), by: By::Own(name.into(), make) }
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
        Self { goal: self.goal.clone(), by: By::Planned(Arc::new(survivors)) }
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
            By::Own(_, make) => make(&self.goal, rank),
            By::Algorithm { algorithm, order, groups } => self.by_algorithm(rank, *algorithm, *order, groups),
        }
    }

    fn by_algorithm(&self, rank: u32, algorithm: Algorithm, order: Order, groups: &Groups) -> Schedule {
        let goal = &self.goal;
        let (ranks, from, to) = (goal.ranks(), goal.contributors(), goal.receivers());
        // Algorithms for all ranks run among the positions of those that take part.
        let among = |make: &dyn Fn(u32, u32) -> Schedule| match from.position(rank) {
            None => Schedule::new(rank, ranks, make(0, from.len()).blocks()),
            Some(position) => make(position, from.len()).among(rank, ranks, |position| from.at(position)),
        };
        match (algorithm, goal.kind()) {
            (Algorithm::RecursiveDoubling, Kind::Scan { inclusive }) => scan(rank, ranks, from, inclusive),
            (Algorithm::RecursiveDoubling, _) => recursive_doubling(rank, ranks),
            (Algorithm::TwoLevel, _) => two_level(rank, groups),
            (Algorithm::Radix(of), _) => among(&|rank, ranks| radix(rank, ranks, of.into())),
            (Algorithm::HalvingDoubling, _) => among(&halving_doubling),
            (Algorithm::Sliced, _) => among(&|rank, ranks| sliced(rank, ranks, order)),
            (Algorithm::Dissemination(n), _) => among(&|rank, ranks| dissemination(rank, ranks, n.into())),
            (Algorithm::FiveCases(n), _) => {
                among(&|rank, ranks| five_cases(rank, ranks, n.into(), false).expect("it is for so many ranks"))
            }
            (Algorithm::Binomial, Kind::Gather) => binomial_gather(rank, ranks, to.at(0), from),
            (Algorithm::Binomial, Kind::Scatter) => binomial_scatter(rank, ranks, from.at(0), to),
            (Algorithm::Binomial, _) => binomial_broadcast(rank, ranks, from.at(0), to),
            (Algorithm::Chain(pieces), _) => chain_broadcast(rank, ranks, from.at(0), to, pieces.into()),
            (Algorithm::Bruck, Kind::AllToAll) => bruck_all_to_all(rank, ranks, from),
            (Algorithm::Bruck, _) => bruck_allgather(rank, ranks, from),
            (Algorithm::Ring, _) => ring_allgather(rank, ranks, from),
            (Algorithm::Direct, _) => direct(goal, rank, order),
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

/// The algorithm. For one in a plan it tells choices apart, so that nodes whose plans differ find that out.
impl fmt::Display for Schedules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            By::Algorithm { algorithm, order: Order::Left, .. } => write!(f, "{algorithm} in the order of a loop"),
            By::Algorithm { algorithm, .. } => write!(f, "{algorithm}"),
            By::Survivors(_) => write!(f, "{}", Algorithm::RecursiveDoubling),
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
