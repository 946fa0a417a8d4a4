//! Two levels: first the ranks of each processor, then the processors. In an allgather, nodes are a third one.

use super::bruck::circle_steps;
use super::method::{Case, Method, Needs};
use super::recursive_doubling;
use crate::Kind;
use crate::schedule::{Combine, Part, Schedule};
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

/// The ranks as groups of neighbours. The ranks of a group share a processor. Groups of neighbours may share a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The first rank of each group, and the end of the last group.
    bounds: Vec<u32>,
    /// The first group of each node, and the end of the last node.
    nodes: Vec<u32>,
}

impl Groups {
    /// Makes groups of the longest runs of ranks with the same place. `place` has the place of each rank. Until
    /// [`on_nodes`](Self::on_nodes) says more, each group counts as a node.
    pub fn runs(place: &[impl PartialEq]) -> Self {
        let bounds = runs(place.len(), |rank| &place[rank]);
        Self { nodes: (0..bounds.len() as u32).collect(), bounds }
    }

    /// The same with the longest runs of groups on the same node. `node` gives the node of a rank. A node of more than 1024 groups
    /// counts as several, as the first rank of each has steps for all of its groups.
    #[must_use]
    pub fn on_nodes<N: PartialEq>(self, node: impl Fn(u32) -> N) -> Self {
        let runs = runs(self.bounds.len() - 1, |group| node(self.bounds[group]));
        let nodes = runs.windows(2).flat_map(|of| (of[0]..of[1]).step_by(1024)).chain(runs.last().copied()).collect();
        Self { nodes, ..self }
    }

    /// Makes groups of `size` ranks. The last one may be shorter.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    pub fn of(ranks: u32, size: u32) -> Self {
        Self::runs(&(0..ranks).map(|rank| rank / size).collect::<Vec<_>>())
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
        self.ranks_of(number..number + 1)
    }

    /// The group of a rank.
    pub fn of_rank(&self, rank: u32) -> Range<u32> {
        self.group(self.number_of(rank))
    }

    fn number_of(&self, rank: u32) -> u32 {
        self.bounds.partition_point(|&start| start <= rank) as u32 - 1
    }

    /// The ranks of some groups.
    fn ranks_of(&self, groups: Range<u32>) -> Range<u32> {
        self.bounds[groups.start as usize]..self.bounds[groups.end as usize]
    }
}

/// The first of each run of items that are alike, and the end of the last run.
fn runs<P: PartialEq>(items: usize, of: impl Fn(usize) -> P) -> Vec<u32> {
    let starts = (0..items).filter(|&at| at == 0 || of(at) != of(at - 1));
    starts.chain([items]).map(|at| at as u32).collect()
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
    let ranks = groups.ranks();
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    let number = groups.number_of(rank);
    let group = groups.group(number);
    let schedule = match rank == group.start {
        true => recursive_doubling(number, groups.len()).among(rank, ranks, |number| groups.group(number).start),
        false => Schedule::new(rank, ranks, 1),
    };
    schedule.in_group(group)
}

/// The steps of `rank` in a two-level allgather.
///
/// The ranks of a [group](Schedule::group) put their blocks into the vector of its first rank. That one sends them to the first rank
/// of its node. The first ranks of the nodes exchange what they have, in the rounds of [`bruck_allgather`](crate::bruck_allgather).
/// Then each of them sends the whole vector to the other groups of its node. A large one is not copied on its way, so it is the
/// only one on the node.
///
/// Local: no rank talks to another.
///
/// ```
/// # use maniple_schedules::{Goal, Groups, Ranks, check, two_level_allgather};
/// let all = Ranks::all(8);
/// let goal = Goal::gather(8, all.clone(), all);
/// let groups = Groups::of(8, 4);
/// let report = check(&goal, |rank| two_level_allgather(rank, &groups)).unwrap();
/// assert_eq!((report.rounds, report.messages), (3, 14));
/// let one_node = groups.on_nodes(|_| "here");
/// let report = check(&goal, |rank| two_level_allgather(rank, &one_node)).unwrap();
/// assert_eq!((report.rounds, report.messages), (4, 14));
/// ```
///
/// # Panics
///
/// If `rank` is not below the number of ranks.
pub fn two_level_allgather(rank: u32, groups: &Groups) -> Schedule {
    let ranks = groups.ranks();
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    Schedule::linked(rank, |rank| allgather_steps(rank, groups)).in_group(groups.of_rank(rank))
}

fn allgather_steps(rank: u32, groups: &Groups) -> Schedule {
    let (ranks, number) = (groups.ranks(), groups.number_of(rank));
    let start = |group: u32| groups.bounds[group as usize];
    let node = groups.nodes.partition_point(|&first| first <= number) as u32 - 1;
    let on_node = groups.nodes[node as usize]..groups.nodes[node as usize + 1];
    let (is_first, first) = (number == on_node.start, start(on_node.start));
    // Elsewhere the result has a register of its own, which needs no memory.
    let mut schedule = Schedule::new(rank, ranks, ranks).with_result(u8::from(!is_first));
    if rank != start(number) {
        return schedule;
    }
    if !is_first {
        schedule.send(first, Part::new(0, groups.group(number)));
        schedule.receive(first, Part::new(1, 0..ranks), Combine::Replace);
        return schedule;
    }
    let others = on_node.start + 1..on_node.end;
    for other in others.clone() {
        schedule.receive(start(other), Part::new(0, groups.group(other)), Combine::Replace);
    }
    let nodes = groups.nodes.len() as u32 - 1;
    let of = |nodes: Range<u32>| groups.ranks_of(groups.nodes[nodes.start as usize]..groups.nodes[nodes.end as usize]);
    circle_steps(&mut schedule, (node, nodes), of, |node| start(groups.nodes[node as usize]));
    others.for_each(|other| schedule.send(start(other), Part::new(0, 0..ranks)));
    schedule
}
