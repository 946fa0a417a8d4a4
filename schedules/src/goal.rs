//! Goals: what each rank of a collective ends up with. A kind of collective is its goal, and nothing else.

use crate::{Kind, Ranks};
use std::fmt;
use std::ops::Range;

/// What each rank contributes to a collective, and what it ends up with.
///
/// The ranks are the shards of a gang. *Contributors* and *receivers* are subsets of them, in ascending order.
/// Contributions and results are vectors of [`blocks`](Self::blocks) blocks, and some blocks may be missing in either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    kind: Kind,
    ranks: u32,
    blocks: u32,
    contributors: Ranks,
    receivers: Ranks,
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
    /// The goal of a collective of a kind. `blocks` is the number of blocks of a vector that any number of blocks can make up;
    /// other kinds have a block for each contributor or receiver. Whether the receivers are the contributors tells an allreduce
    /// from a reduction, and an allgather from a gather, whichever of the two is given.
    pub fn new(kind: Kind, ranks: u32, contributors: Ranks, receivers: Ranks, blocks: u32) -> Self {
        let together = contributors == receivers;
        let kind = match kind {
            Kind::Allreduce | Kind::Reduce | Kind::Barrier if together => Kind::Allreduce,
            Kind::Allreduce | Kind::Reduce | Kind::Barrier => Kind::Reduce,
            Kind::Allgather | Kind::Gather if together => Kind::Allgather,
            Kind::Allgather | Kind::Gather => Kind::Gather,
            kind => kind,
        };
        let blocks = match kind {
            Kind::ReduceScatter | Kind::Scatter => receivers.len(),
            Kind::Gather | Kind::Allgather => contributors.len(),
            Kind::AllToAll => contributors.len().max(receivers.len()),
            _ => blocks,
        };
        Self { kind, ranks, blocks, contributors, receivers }
    }

    /// All ranks contribute, and all receive the combination. The contributions have any number of blocks.
    pub fn allreduce(ranks: u32, blocks: u32) -> Self {
        Self::reduce(ranks, Ranks::all(ranks), Ranks::all(ranks), blocks)
    }

    /// The contributors' blocks are combined, and the receivers get the result. Receivers need not contribute.
    pub fn reduce(ranks: u32, contributors: Ranks, receivers: Ranks, blocks: u32) -> Self {
        Self::new(Kind::Reduce, ranks, contributors, receivers, blocks)
    }

    /// Like a reduction, but the receiver at position i gets block i only. There are as many blocks as receivers.
    pub fn reduce_scatter(ranks: u32, contributors: Ranks, receivers: Ranks) -> Self {
        Self::new(Kind::ReduceScatter, ranks, contributors, receivers, 1)
    }

    /// Each receiver gets the combination of the contributions of all ranks up to its own. It need not contribute. A receiver
    /// before the first contributor gets nothing.
    pub fn scan(ranks: u32, contributors: Ranks, receivers: Ranks, blocks: u32) -> Self {
        Self::new(Kind::Scan, ranks, contributors, receivers, blocks)
    }

    /// Each receiver gets the combination of the contributions of all ranks below its own, or nothing if there are none.
    pub fn exscan(ranks: u32, contributors: Ranks, receivers: Ranks, blocks: u32) -> Self {
        Self::new(Kind::Exscan, ranks, contributors, receivers, blocks)
    }

    /// All ranks get the contribution of `root`.
    pub fn broadcast(ranks: u32, root: u32, blocks: u32) -> Self {
        Self::broadcast_to(ranks, root, Ranks::all(ranks), blocks)
    }

    /// The receivers get the contribution of `root`.
    pub fn broadcast_to(ranks: u32, root: u32, receivers: Ranks, blocks: u32) -> Self {
        Self::new(Kind::Broadcast, ranks, Ranks::one(root), receivers, blocks)
    }

    /// The contributor at position i contributes block i, and the receivers get all blocks. With all ranks as receivers
    /// it is an allgather.
    pub fn gather(ranks: u32, contributors: Ranks, receivers: Ranks) -> Self {
        Self::new(Kind::Gather, ranks, contributors, receivers, 1)
    }

    /// `root` contributes as many blocks as there are receivers, and the receiver at position i gets block i.
    pub fn scatter(ranks: u32, root: u32, receivers: Ranks) -> Self {
        Self::new(Kind::Scatter, ranks, Ranks::one(root), receivers, 1)
    }

    /// Block i of every contribution goes to the receiver at position i, which gets them in the order of the contributors.
    pub fn all_to_all(ranks: u32, contributors: Ranks, receivers: Ranks) -> Self {
        Self::new(Kind::AllToAll, ranks, contributors, receivers, 1)
    }

    /// The kind. It is never a barrier.
    pub fn kind(&self) -> Kind {
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

    /// The same with a vector in `blocks` blocks, if it is one vector that any number of blocks can make up.
    pub fn in_blocks(self, blocks: u32) -> Self {
        Self { blocks: if self.kind.has_blocks() { self.blocks } else { blocks }, ..self }
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
    pub fn takes_part(&self, rank: u32) -> bool {
        self.contributors.contains(rank) || self.receivers.contains(rank)
    }

    /// The number of contributors, or of receivers if they are more.
    pub fn most(&self) -> u32 {
        self.contributors.len().max(self.receivers.len())
    }

    /// Whether contributions are combined, so that the result depends on an operator.
    pub fn combines(&self) -> bool {
        self.kind.combines()
    }

    /// Whether the result of every rank that takes part depends on the contributions of all others.
    pub fn is_mutual(&self) -> bool {
        let all = matches!(self.kind, Kind::Allreduce | Kind::ReduceScatter | Kind::Allgather | Kind::AllToAll);
        all && self.contributors == self.receivers
    }

    /// The blocks that a rank contributes.
    pub fn contribution(&self, rank: u32) -> Range<u32> {
        match (self.kind, self.contributors.position(rank)) {
            (_, None) => 0..0,
            (Kind::Gather | Kind::Allgather, Some(position)) => position..position + 1,
            (Kind::AllToAll, Some(_)) => 0..self.receivers.len(),
            (_, Some(_)) => 0..self.blocks,
        }
    }

    /// The blocks that a rank receives.
    pub fn result(&self, rank: u32) -> Range<u32> {
        match (self.kind, self.receivers.position(rank)) {
            (_, None) => 0..0,
            (Kind::Scan | Kind::Exscan, Some(_)) if self.scanned(rank) == 0 => 0..0,
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
            Kind::Allreduce | Kind::Reduce | Kind::ReduceScatter | Kind::Barrier => {
                Want::Fold { from: 0, to: self.contributors.len() }
            }
            Kind::Scan | Kind::Exscan => Want::Fold { from: 0, to: self.scanned(rank) },
            Kind::Broadcast | Kind::Scatter => Want::Copy { of: 0, block },
            Kind::Gather | Kind::Allgather => Want::Copy { of: block, block },
            Kind::AllToAll => Want::Copy { of: block, block: position },
        }
    }
}

impl Goal {
    /// How many contributors a scan combines for a rank.
    fn scanned(&self, rank: u32) -> u32 {
        self.contributors.below(rank.saturating_add(u32::from(self.kind == Kind::Scan)))
    }

    /// What the contributor at a position has for a receiver: the blocks of the contribution, and where they go in the
    /// result. Or where they are combined.
    pub fn message(&self, from: u32, to: u32) -> Option<(Range<u32>, Range<u32>)> {
        let position = self.receivers.position(to)?;
        let one = |block: u32| block..block + 1;
        let same = |blocks: Range<u32>| (blocks.clone(), blocks);
        match self.kind {
            Kind::Scan | Kind::Exscan if from >= self.scanned(to) => None,
            Kind::ReduceScatter | Kind::Scatter => Some(same(one(position))),
            Kind::Gather | Kind::Allgather => Some(same(one(from))),
            Kind::AllToAll => Some((one(position), one(from))),
            _ => Some(same(0..self.blocks)),
        }
    }

    /// Whether the result of a rank depends on the contribution of another one, or on its own.
    pub fn depends_on(&self, rank: u32, other: u32) -> bool {
        self.contributors.position(other).is_some_and(|from| self.message(from, rank).is_some())
    }

    /// What a rank receives, by sequential code: the blocks of its result in their order. `block` gives a block of the contribution
    /// at a position. `fold` combines one block of several contributions, in the order of their positions. Nothing here knows
    /// schedules, so that tests can compare results with these.
    pub fn expected<B>(
        &self,
        rank: u32,
        mut block: impl FnMut(u32, u32) -> B,
        mut fold: impl FnMut(Vec<B>) -> B,
    ) -> Vec<B> {
        let blocks = self.result(rank).filter_map(|number| match self.want(rank, number) {
            Want::Nothing => None,
            Want::Copy { of, block: from } => Some(block(of, from)),
            Want::Fold { from, to } => Some(fold((from..to).map(|of| block(of, number)).collect())),
        });
        blocks.collect()
    }

    /// The kind with its article, such as `an allreduce`.
    pub fn named(&self) -> String {
        self.kind.named()
    }

    /// Who contributes and who receives, in words, unless all ranks do.
    pub fn sets(&self) -> String {
        let all = Ranks::all(self.ranks);
        let said = |ranks: &Ranks, before: &str| match *ranks == all {
            true => String::new(),
            false => format!(" {before} {ranks}"),
        };
        said(&self.contributors, "from") + &said(&self.receivers, "to")
    }

    /// How many contributors are combined in a rank's result: the contributors at the first positions.
    pub fn combined(&self, rank: u32) -> u32 {
        let first = self.result(rank).start;
        match self.want(rank, first) {
            Want::Fold { to, .. } => to,
            _ => 0,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}
