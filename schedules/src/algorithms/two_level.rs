//! Two levels: first the ranks of each processor, then the processors.

use super::method::{Case, Method, Needs};
use super::{bruck_allgather, recursive_doubling};
use crate::schedule::Schedule;
use crate::{Kind, Ranks};
use std::ops::Range;

/// See [`two_level`] and [`two_level_allgather`].
pub(crate) struct TwoLevel;

impl Method for TwoLevel {
    fn name(&self) -> &'static str {
        "two-level"
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        matches!(kind, Kind::Allreduce | Kind::Reduce | Kind::Allgather | Kind::Gather).then_some(Needs::All)
    }
    fn groups_by_doubling(&self, groups: &Groups) -> bool {
        groups.are_equal()
    }
    fn sends_both_ways(&self, kind: Kind) -> bool {
        !kind.has_blocks()
    }
    fn joins_blocks(&self, kind: Kind) -> bool {
        kind.has_blocks()
    }
    fn schedule(&self, case: &Case, rank: u32) -> Schedule {
        match case.goal.combines() {
            true => two_level(rank, case.groups),
            false => two_level_allgather(rank, case.groups),
        }
    }
    fn group(&self, case: &Case, rank: u32) -> Range<u32> {
        case.groups.of_rank(rank)
    }
}

/// The ranks as groups of neighbours. The ranks of a group share a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The first rank of each group, and the end of the last group.
    bounds: Vec<u32>,
}

impl Groups {
    /// Makes groups of the longest runs of ranks with the same place. `place` has the place of each rank.
    pub fn runs(place: &[impl PartialEq]) -> Self {
        let starts = (0..place.len()).filter(|&r| r == 0 || place[r] != place[r - 1]);
        let mut bounds: Vec<u32> = starts.map(|r| r as u32).collect();
        bounds.push(place.len() as u32);
        Self { bounds }
    }

    /// Makes groups of `size` ranks. The last one may be shorter.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    pub fn of(ranks: u32, size: u32) -> Self {
        let mut bounds: Vec<u32> = (0..ranks).step_by(size as usize).collect();
        bounds.push(ranks);
        Self { bounds }
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.bounds.last().copied().unwrap_or(0)
    }

    /// The number of groups.
    pub fn len(&self) -> u32 {
        self.bounds.len() as u32 - 1
    }

    /// Whether there are no ranks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all groups have the same power of two of ranks.
    pub fn are_equal(&self) -> bool {
        let size = |b: &[u32]| b[1] - b[0];
        self.bounds.windows(2).all(|b| size(b).is_power_of_two() && size(b) == size(&self.bounds))
    }

    fn group(&self, number: u32) -> Range<u32> {
        self.bounds[number as usize]..self.bounds[number as usize + 1]
    }

    /// The group of a rank.
    pub fn of_rank(&self, rank: u32) -> Range<u32> {
        self.group(self.number_of(rank))
    }

    fn number_of(&self, rank: u32) -> u32 {
        self.bounds.partition_point(|&start| start <= rank) as u32 - 1
    }
}

/// The steps of `rank` in a two-level allreduce.
///
/// The ranks of a [group](Schedule::group) combine in place. Then the first ranks of the groups combine by
/// [`recursive_doubling`]. At the end all ranks of a group take the result of its first one.
///
/// So the messages between processors are the messages of recursive doubling over the groups, not over all ranks.
/// Groups are runs of ranks and combine in rank order, so the operator need not commute. If all groups have the same
/// power of two of ranks, the brackets and the bits are the same as with recursive doubling over all ranks.
///
/// Local: no rank talks to another.
///
/// ```
/// # use maniple_schedules::{Goal, Groups, check, two_level};
/// let groups = Groups::of(8, 4);
/// let report = check(&Goal::allreduce(8, 1), |rank| two_level(rank, &groups)).unwrap();
/// assert_eq!((report.rounds, report.messages), (3, 14));
/// ```
///
/// # Panics
///
/// If `rank` is not below the number of ranks.
pub fn two_level(rank: u32, groups: &Groups) -> Schedule {
    leaders(rank, groups, 1, recursive_doubling)
}

/// The steps of `rank` in a two-level allgather.
///
/// The ranks of a [group](Schedule::group) put their blocks into the vector of its first one. Then the first ranks of the groups
/// exchange these by [`bruck_allgather`]. At the end all ranks of a group have the vector of its first one, which is the only one
/// on their processor.
///
/// Local: no rank talks to another.
///
/// ```
/// # use maniple_schedules::{Goal, Groups, Ranks, check, two_level_allgather};
/// let (groups, all) = (Groups::of(8, 4), Ranks::all(8));
/// let report = check(&Goal::gather(8, all.clone(), all), |rank| two_level_allgather(rank, &groups)).unwrap();
/// assert_eq!((report.rounds, report.messages), (3, 14));
/// ```
///
/// # Panics
///
/// If `rank` is not below the number of ranks.
pub fn two_level_allgather(rank: u32, groups: &Groups) -> Schedule {
    let of = |Range { start, end }: Range<u32>| groups.bounds[start as usize]..groups.bounds[end as usize];
    leaders(rank, groups, groups.ranks(), |number, all| {
        bruck_allgather(number, all, &Ranks::all(all)).with_blocks(groups.ranks(), of)
    })
}

/// The steps of the first ranks of groups by an algorithm for as many ranks as there are groups. The others have none.
fn leaders(rank: u32, groups: &Groups, blocks: u32, make: impl Fn(u32, u32) -> Schedule) -> Schedule {
    let ranks = groups.ranks();
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    let number = groups.number_of(rank);
    let group = groups.group(number);
    let schedule = match rank == group.start {
        true => make(number, groups.len()).among(rank, ranks, |number| groups.group(number).start),
        false => Schedule::new(rank, ranks, blocks),
    };
    schedule.in_group(group)
}
