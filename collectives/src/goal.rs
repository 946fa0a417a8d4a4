//! Goals: what each rank of a collective ends up with. A kind of collective is its goal, and nothing else.

use std::fmt;
use std::ops::Range;

/// What each rank contributes to a collective, and what it ends up with.
///
/// The ranks are those of a gang. *Contributors* and *receivers* are subsets of them, in ascending order. Contributions
/// and results are vectors of [`blocks`](Self::blocks) blocks, and some blocks may be missing in either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    kind: Kind,
    ranks: u32,
    blocks: u32,
    contributors: Ranks,
    receivers: Ranks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Reduce,
    ReduceScatter,
    Scan { inclusive: bool },
    Broadcast,
    Gather,
    Scatter,
    AllToAll,
}

/// What one block of a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// It does not matter.
    Nothing,
    /// A block of one contribution.
    Copy {
        /// The position of the contributor.
        of: u32,
        /// The block of its contribution.
        block: u32,
    },
    /// The combination of the same block of several contributions.
    Fold {
        /// The position of the first contributor.
        from: u32,
        /// The position after the last.
        to: u32,
    },
}

impl Goal {
    fn new(kind: Kind, (ranks, blocks): (u32, u32), contributors: Ranks, receivers: Ranks) -> Self {
        Self { kind, ranks, blocks, contributors, receivers }
    }

    /// All ranks contribute, and all receive the combination. The contributions have any number of blocks.
    pub fn allreduce(ranks: u32, blocks: u32) -> Self {
        Self::reduce(ranks, Ranks::all(ranks), Ranks::all(ranks), blocks)
    }

    /// The contributors' blocks are combined, and the receivers get the result. Receivers need not contribute.
    pub fn reduce(ranks: u32, contributors: Ranks, receivers: Ranks, blocks: u32) -> Self {
        Self::new(Kind::Reduce, (ranks, blocks), contributors, receivers)
    }

    /// Like a reduction, but the receiver at position i gets block i only. There are as many blocks as receivers.
    pub fn reduce_scatter(ranks: u32, contributors: Ranks, receivers: Ranks) -> Self {
        Self::new(Kind::ReduceScatter, (ranks, receivers.len()), contributors, receivers)
    }

    /// Each receiver gets the combination of the contributions of all ranks up to its own. It need not contribute. A receiver
    /// before the first contributor gets nothing.
    pub fn scan(ranks: u32, contributors: Ranks, receivers: Ranks, blocks: u32) -> Self {
        Self::new(Kind::Scan { inclusive: true }, (ranks, blocks), contributors, receivers)
    }

    /// Each receiver gets the combination of the contributions of all ranks below its own, or nothing if there are none.
    pub fn exscan(ranks: u32, contributors: Ranks, receivers: Ranks, blocks: u32) -> Self {
        Self::new(Kind::Scan { inclusive: false }, (ranks, blocks), contributors, receivers)
    }

    /// All ranks get the contribution of `root`.
    pub fn broadcast(ranks: u32, root: u32, blocks: u32) -> Self {
        Self::broadcast_to(ranks, root, Ranks::all(ranks), blocks)
    }

    /// The receivers get the contribution of `root`.
    pub fn broadcast_to(ranks: u32, root: u32, receivers: Ranks, blocks: u32) -> Self {
        Self::new(Kind::Broadcast, (ranks, blocks), Ranks::one(root), receivers)
    }

    /// The contributor at position i contributes block i, and the receivers get all blocks. With all ranks as receivers
    /// it is an allgather.
    pub fn gather(ranks: u32, contributors: Ranks, receivers: Ranks) -> Self {
        Self::new(Kind::Gather, (ranks, contributors.len()), contributors, receivers)
    }

    /// `root` contributes as many blocks as there are receivers, and the receiver at position i gets block i.
    pub fn scatter(ranks: u32, root: u32, receivers: Ranks) -> Self {
        Self::new(Kind::Scatter, (ranks, receivers.len()), Ranks::one(root), receivers)
    }

    /// Block i of every contribution goes to the receiver at position i, which gets them in the order of the contributors.
    pub fn all_to_all(ranks: u32, contributors: Ranks, receivers: Ranks) -> Self {
        let blocks = contributors.len().max(receivers.len());
        Self::new(Kind::AllToAll, (ranks, blocks), contributors, receivers)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The number of blocks of a contribution and of a result; in an all-to-all, the larger of the two numbers.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The same with a vector in so many blocks, if it is one vector that any number of blocks can make up.
    pub(crate) fn in_blocks(self, blocks: u32) -> Self {
        let one_vector = matches!(self.kind, Kind::Reduce | Kind::Scan { .. } | Kind::Broadcast);
        Self { blocks: if one_vector { blocks } else { self.blocks }, ..self }
    }

    /// The ranks that contribute.
    pub fn contributors(&self) -> &Ranks {
        &self.contributors
    }

    /// The ranks that receive.
    pub fn receivers(&self) -> &Ranks {
        &self.receivers
    }

    /// Whether a rank contributes or receives.
    pub(crate) fn takes_part(&self, rank: u32) -> bool {
        self.contributors.contains(rank) || self.receivers.contains(rank)
    }

    /// The number of contributors, or of receivers if they are more.
    pub(crate) fn most(&self) -> u32 {
        self.contributors.len().max(self.receivers.len())
    }

    /// Whether contributions are combined, so that the result depends on an operator.
    pub fn combines(&self) -> bool {
        matches!(self.kind, Kind::Reduce | Kind::ReduceScatter | Kind::Scan { .. })
    }

    /// Whether the result of every rank that takes part depends on the contributions of all others.
    pub(crate) fn is_mutual(&self) -> bool {
        let all = matches!(self.kind, Kind::Reduce | Kind::ReduceScatter | Kind::Gather | Kind::AllToAll);
        all && self.contributors == self.receivers
    }

    /// The blocks that a rank contributes.
    pub fn contribution(&self, rank: u32) -> Range<u32> {
        match (self.kind, self.contributors.position(rank)) {
            (_, None) => 0..0,
            (Kind::Gather, Some(position)) => position..position + 1,
            (Kind::AllToAll, Some(_)) => 0..self.receivers.len(),
            (_, Some(_)) => 0..self.blocks,
        }
    }

    /// The blocks that a rank receives.
    pub fn result(&self, rank: u32) -> Range<u32> {
        match (self.kind, self.receivers.position(rank)) {
            (_, None) => 0..0,
            (Kind::Scan { inclusive }, Some(_)) if self.scanned(rank, inclusive) == 0 => 0..0,
            (Kind::ReduceScatter | Kind::Scatter, Some(position)) => position..position + 1,
            (Kind::AllToAll, Some(_)) => 0..self.contributors.len(),
            (_, Some(_)) => 0..self.blocks,
        }
    }

    /// What a block of a rank's result is.
    pub fn want(&self, rank: u32, block: u32) -> Want {
        let Some(position) = self.receivers.position(rank).filter(|_| self.result(rank).contains(&block)) else {
            return Want::Nothing;
        };
        match self.kind {
            Kind::Reduce | Kind::ReduceScatter => Want::Fold { from: 0, to: self.contributors.len() },
            Kind::Scan { inclusive } => Want::Fold { from: 0, to: self.scanned(rank, inclusive) },
            Kind::Broadcast | Kind::Scatter => Want::Copy { of: 0, block },
            Kind::Gather => Want::Copy { of: block, block },
            Kind::AllToAll => Want::Copy { of: block, block: position },
        }
    }
}

impl Goal {
    /// How many contributors a scan combines for a rank.
    fn scanned(&self, rank: u32, inclusive: bool) -> u32 {
        self.contributors.below(rank.saturating_add(inclusive.into()))
    }

    /// What the contributor at a position has for a receiver: the blocks of the contribution, and where they go in the
    /// result. Or where they are combined.
    pub(crate) fn message(&self, from: u32, to: u32) -> Option<(Range<u32>, Range<u32>)> {
        let position = self.receivers.position(to)?;
        let one = |block: u32| block..block + 1;
        let same = |blocks: Range<u32>| (blocks.clone(), blocks);
        match self.kind {
            Kind::Scan { inclusive } if from >= self.scanned(to, inclusive) => None,
            Kind::Reduce | Kind::Scan { .. } | Kind::Broadcast => Some(same(0..self.blocks)),
            Kind::ReduceScatter | Kind::Scatter => Some(same(one(position))),
            Kind::Gather => Some(same(one(from))),
            Kind::AllToAll => Some((one(position), one(from))),
        }
    }

    /// Whether the result of a rank depends on the contribution of another one, or on its own.
    pub(crate) fn depends_on(&self, rank: u32, other: u32) -> bool {
        self.contributors.position(other).is_some_and(|from| self.message(from, rank).is_some())
    }

    /// The kind with its article, such as `an allreduce`.
    pub(crate) fn named(&self) -> String {
        let kind = self.to_string();
        format!("{} {kind}", if kind.starts_with(['a', 'e']) { "an" } else { "a" })
    }

    /// Who contributes and who receives, in words, unless all ranks do.
    pub(crate) fn sets(&self) -> String {
        let all = Ranks::all(self.ranks);
        let said = |ranks: &Ranks, before: &str| match *ranks == all {
            true => String::new(),
            false => format!(" {before} {ranks}"),
        };
        said(&self.contributors, "from") + &said(&self.receivers, "to")
    }

    /// How many contributors are combined in a rank's result: those at the first positions.
    pub(crate) fn combined(&self, rank: u32) -> u32 {
        let first = self.result(rank).start;
        match self.want(rank, first) {
            Want::Fold { to, .. } => to,
            _ => 0,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Reduce if self.contributors == self.receivers => "allreduce",
            Kind::Reduce => "reduce",
            Kind::ReduceScatter => "reduce-scatter",
            Kind::Scan { inclusive: true } => "scan",
            Kind::Scan { inclusive: false } => "exscan",
            Kind::Broadcast => "broadcast",
            Kind::Gather if self.contributors == self.receivers => "allgather",
            Kind::Gather => "gather",
            Kind::Scatter => "scatter",
            Kind::AllToAll => "all-to-all",
        })
    }
}

/// A set of ranks in ascending order. The *position* of a rank is its place in the set, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranks(Set);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Set {
    Range(Range<u32>),
    List(Vec<u32>),
}

impl Ranks {
    /// The ranks below `ranks`.
    pub fn all(ranks: u32) -> Self {
        Self(Set::Range(0..ranks))
    }

    /// One rank.
    pub fn one(rank: u32) -> Self {
        Self::of([rank])
    }

    /// These ranks, in any order.
    pub fn of(ranks: impl IntoIterator<Item = u32>) -> Self {
        let mut list: Vec<u32> = ranks.into_iter().collect();
        list.sort_unstable();
        list.dedup();
        Self(match (list.first(), list.last()) {
            (None, _) => Set::Range(0..0),
            // No range ends after the last number there is.
            (Some(&first), Some(&last)) if last < u32::MAX && (last - first) as usize + 1 == list.len() => {
                Set::Range(first..last + 1)
            }
            _ => Set::List(list),
        })
    }

    /// The number of ranks.
    pub fn len(&self) -> u32 {
        match &self.0 {
            Set::Range(range) => range.len() as u32,
            Set::List(list) => list.len() as u32,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position of a rank, if it is in the set.
    pub fn position(&self, rank: u32) -> Option<u32> {
        match &self.0 {
            Set::Range(range) => range.contains(&rank).then(|| rank - range.start),
            Set::List(list) => list.binary_search(&rank).ok().map(|at| at as u32),
        }
    }

    /// The number of ranks in the set that are below this one.
    pub fn below(&self, rank: u32) -> u32 {
        match &self.0 {
            Set::Range(range) => rank.clamp(range.start, range.end) - range.start,
            Set::List(list) => list.partition_point(|&other| other < rank) as u32,
        }
    }

    /// Whether a rank is in the set.
    pub fn contains(&self, rank: u32) -> bool {
        self.position(rank).is_some()
    }

    /// The rank at a position.
    ///
    /// # Panics
    ///
    /// If the set has not so many ranks.
    pub fn at(&self, position: u32) -> u32 {
        match &self.0 {
            Set::Range(range) => {
                assert!(position < self.len(), "position {position} of {} ranks", self.len());
                range.start + position
            }
            Set::List(list) => list[position as usize],
        }
    }

    /// All of them, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len()).map(|position| self.at(position))
    }
}

/// For example `0..4` or `1, 3, 8`.
impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Set::Range(range) if range.len() != 1 => write!(f, "{range:?}"),
            _ => f.write_str(&self.iter().map(|rank| rank.to_string()).collect::<Vec<_>>().join(", ")),
        }
    }
}
