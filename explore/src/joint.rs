//! The collectives of a stage, as plain data.

use crate::program::Step;
use maniple::collectives::{Algorithm, Goal, Kind, Laws, Ranks};
use serde::{Deserialize, Serialize};

/// A collective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Joint {
    /// Whether the receivers are the contributors tells a reduction from an allreduce, and a gather from an allgather.
    pub kind: Kind,
    /// The shards that contribute, in ascending order. In a broadcast and a scatter it is one.
    pub contributors: Vec<u32>,
    /// The shards that receive, in ascending order. In a scan none comes before the first that contributes.
    pub receivers: Vec<u32>,
    pub operator: OperatorKind,
    /// Values are combined in the order of a sequential loop, not in the order of recursive doubling.
    pub left: bool,
    pub sizes: Sizes,
    pub slots: u32,
    pub algorithm: Option<Algorithm>,
    /// Shards that only contribute look at the ends of their parts.
    pub tells: bool,
}

/// The operator, if the kind combines values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperatorKind {
    Sum,
    Max,
    /// Associative, but does not say so. It does not commute.
    Composition,
    /// The same, and says so.
    Associative,
    /// Neither associative nor commutative.
    Digits,
}

/// The number of elements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sizes {
    /// One, or one in each block, and it is no vector where it is alone.
    One,
    /// This many, or this many in each block.
    Each(usize),
    /// For each shard the size of the block that it gathers, or that it gets. An all-to-all takes them in turn.
    Blocks(Vec<usize>),
    /// Only who sends a block knows; see [`Given::sizes`].
    Any,
}

/// The most shards of a stage.
pub const MOST_SHARDS: usize = 7;

/// How the contributors of a call give, if nothing is combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Given {
    /// A bit for each shard: whether it contributes in blocks.
    pub in_blocks: u8,
    /// The block whose task panics if the bomb is of such a shard, modulo their number.
    pub hit: u8,
    /// The sizes of the call's blocks are drawn from this if they are [`Sizes::Any`].
    pub sizes: u8,
}

/// How the receivers of a call take their results, if nothing is combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Taken {
    /// By shard.
    pub by: [Taking; MOST_SHARDS],
    /// A shard that waits itself does so within limits in nanoseconds that double.
    pub limit: Option<u64>,
}

/// How a shard takes its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Taking {
    #[default]
    Whole,
    /// A task takes each part.
    Tasks,
    /// The shard awaits one part after the other.
    Each,
    /// The shard awaits all parts together.
    All,
    /// The shard awaits the parts in the order in which they come.
    Next,
    /// Nobody awaits the parts.
    Dropped,
}

/// The types of what is contributed and received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Nothing,
    One,
    Many,
    OneToMany,
    ManyToOne,
}

/// The result of an exclusive scan where nobody contributes before.
pub const IDENTITY: i64 = 77;

impl Joint {
    /// Its name, as the framework has it.
    pub fn name(&self) -> &'static str {
        if self.kind == Kind::Barrier { self.kind.name() } else { self.goal(u32::MAX).kind().name() }
    }

    pub fn shape(&self) -> Shape {
        match (self.kind, &self.sizes) {
            (Kind::Barrier, _) => Shape::Nothing,
            (Kind::AllToAll, _) => Shape::Many,
            (Kind::Gather, Sizes::One) => Shape::OneToMany,
            (Kind::Scatter | Kind::ReduceScatter, Sizes::One) => Shape::ManyToOne,
            (_, Sizes::One) => Shape::One,
            _ => Shape::Many,
        }
    }

    /// Whether values are combined.
    pub fn combines(&self) -> bool {
        self.kind.combines()
    }

    pub fn is_scan(&self) -> bool {
        matches!(self.kind, Kind::Scan | Kind::Exscan)
    }

    /// Whether vectors consist of blocks.
    pub fn has_blocks(&self) -> bool {
        self.kind.has_blocks()
    }

    pub fn gives(&self, shard: u32) -> bool {
        self.contributors.contains(&shard)
    }

    pub fn gets(&self, shard: u32) -> bool {
        self.receivers.contains(&shard)
    }

    /// Whether a shard gives or gets something.
    pub fn takes_part(&self, shard: u32) -> bool {
        self.gives(shard) || self.gets(shard)
    }

    /// Whether results can be taken in parts, and contributions given in blocks.
    pub fn has_parts(&self) -> bool {
        !self.combines() && self.kind != Kind::Barrier
    }

    /// The number of blocks of a contribution.
    pub fn blocks(&self) -> usize {
        if self.kind.has_block_for_each_receiver() { self.receivers.len() } else { 1 }
    }

    /// Whether a shard contributes in blocks.
    pub fn gives_blocks(&self, shard: u32, given: Given) -> bool {
        // Nobody else knows where a block begins.
        let must = self.sizes == Sizes::Any && self.blocks() > 1;
        let can = self.has_parts() && matches!(self.shape(), Shape::Many | Shape::ManyToOne);
        self.gives(shard) && can && (must || given.in_blocks >> shard & 1 == 1)
    }

    /// How a shard takes its result. `split` says whether it has contributed in an earlier step, if it contributes; then it takes
    /// all.
    pub fn taking(&self, shard: u32, taken: &Taken, split: bool) -> Taking {
        let can = self.has_parts() && self.gets(shard) && !(split && self.gives(shard));
        if can { taken.by[shard as usize] } else { Taking::Whole }
    }

    /// Whether a shard that takes its result so has a value for each part. A broadcast has as many parts as its algorithm makes, so
    /// there all are one value.
    pub fn has_values_of_parts(&self, taking: Taking) -> bool {
        self.kind != Kind::Broadcast && matches!(taking, Taking::Tasks | Taking::Each | Taking::Next)
    }

    /// Whether no block of a call fails with another one. `all` says whether all shards give or take in parts: one that does not may
    /// pass on an error in place of all that it forwards.
    pub fn keeps_blocks_apart(&self, all: bool) -> bool {
        match self.algorithm {
            Some(Algorithm::Direct) => true,
            _ if self.sizes == Sizes::Any => true,
            Some(algorithm) => all && !algorithm.joins_blocks(&self.goal(u32::MAX)),
            None => false,
        }
    }

    /// Whether some shards only receive.
    pub fn has_listeners(&self) -> bool {
        self.receivers.iter().any(|&s| !self.gives(s))
    }

    /// The elements of the block that the contributor at one position has for the receiver at another.
    pub fn block(&self, from: usize, to: usize, given: Given) -> usize {
        match (&self.sizes, self.kind) {
            (Sizes::Any, _) => {
                const ANY: [usize; 7] = [0, 1, 2, 3, 5, 30, 600];
                let to = if self.kind.has_block_for_each_receiver() { to } else { 0 };
                ANY[(usize::from(given.sizes) + 3 * from + 5 * to) % ANY.len()]
            }
            (Sizes::One, _) => 1,
            (Sizes::Each(n), _) => *n,
            (Sizes::Blocks(sizes), Kind::Gather) => sizes[self.contributors[from] as usize],
            (Sizes::Blocks(sizes), Kind::AllToAll) => between(sizes, from, to),
            (Sizes::Blocks(sizes), _) => sizes[self.receivers[to] as usize],
        }
    }

    /// The elements that the contributor at a position contributes.
    pub fn elements(&self, from: usize, given: Given) -> usize {
        match self.kind {
            Kind::Barrier => 0,
            _ => (0..self.blocks()).map(|to| self.block(from, to, given)).sum(),
        }
    }

    /// The goal in a gang of `shards` shards.
    pub fn goal(&self, shards: u32) -> Goal {
        let [from, to] = [&self.contributors, &self.receivers].map(|set| Ranks::of(set.iter().copied()));
        Goal::new(self.kind, shards, from, to, 1)
    }

    /// Whether the framework promises to take this algorithm, and the bits that the interpreter knows.
    pub fn takes(&self, algorithm: Algorithm, shards: u32) -> bool {
        let goal = self.goal(shards);
        let by_loop = self.left && matches!(algorithm, Algorithm::Direct | Algorithm::Sliced);
        let laws = if self.combines() && !by_loop { self.operator.laws() } else { Laws::ALL };
        let in_order = !self.left || laws.associative;
        let brackets = self.operator != OperatorKind::Digits || algorithm != Algorithm::TwoLevel;
        let equal = !matches!(self.sizes, Sizes::Blocks(_) | Sizes::Any);
        algorithm.check(&goal, laws).is_ok()
            && in_order
            && (brackets || !self.combines())
            && (equal || algorithm != Algorithm::Halving)
            && (equal || self.kind != Kind::AllToAll || algorithm != Algorithm::Bruck)
            && (self.sizes != Sizes::Any || !algorithm.joins_blocks(&goal))
    }

    /// The algorithms that it takes.
    pub fn algorithms(&self, shards: u32) -> Vec<Algorithm> {
        let all = Algorithm::ALL.iter().flat_map(|a| a.variants());
        all.filter(|&a| self.takes(a, shards)).collect()
    }

    /// Repairs what a change made illegal. Receivers before the first contributor of a scan are removed; if none is left, the
    /// contributors receive. If the algorithm no longer fits, the mapper chooses one. A scan whose operator is not
    /// associative gets the order of a loop, because the interpreter does not know the brackets of a scan by doubling.
    pub fn mend(&mut self, shards: u32) {
        let fits = match self.sizes {
            Sizes::Blocks(_) => self.has_blocks(),
            Sizes::Any => self.has_parts(),
            _ => true,
        };
        if !fits {
            self.sizes = Sizes::One;
        }
        if self.kind == Kind::Scan {
            let first = self.contributors[0];
            self.receivers.retain(|&s| s >= first);
            if self.receivers.is_empty() {
                self.receivers = self.contributors.clone();
            }
        }
        self.left |= self.operator == OperatorKind::Digits && self.is_scan();
        self.algorithm = self.algorithm.filter(|&a| self.takes(a, shards));
    }

    /// Whether a step can follow after others, with this number of contributions whose results nobody has asked for, or how
    /// many there are then.
    pub fn pending_after(&self, step: &Step, pending: usize) -> Option<usize> {
        match step {
            // The shards that only receive would get the result of another call.
            Step::Call { .. } if pending > 0 && self.has_listeners() => None,
            Step::Call { .. } => Some(pending),
            Step::Contribute { .. } => Some(pending + 1),
            _ => pending.checked_sub(1),
        }
    }

    /// Whether the calls of a stage's steps fit together. Where shards only receive, none of them may be left behind. Nor where
    /// there are bombs, as each failure must be seen.
    pub fn is_called_well(&self, which: usize, steps: &[Step], bombs: bool) -> bool {
        let mut own = steps.iter().filter(|step| step.joint() == Some(which));
        let pending = own.try_fold(0, |pending, step| self.pending_after(step, pending));
        pending.is_some_and(|pending| pending == 0 || !self.has_listeners() && !bombs) && (self.tells || !bombs)
    }
}

/// The elements that the shard at a position has for another one, in an all-to-all.
pub fn between(sizes: &[usize], from: usize, to: usize) -> usize {
    sizes[(3 * from + to) % sizes.len()]
}

impl OperatorKind {
    fn laws(self) -> Laws {
        match self {
            OperatorKind::Sum => Laws { idempotent: false, ..Laws::ALL },
            OperatorKind::Max => Laws { associative: true, commutative: true, infallible: true, ..Laws::NONE },
            OperatorKind::Associative => Laws { associative: true, ..Laws::NONE },
            OperatorKind::Composition | OperatorKind::Digits => Laws::NONE,
        }
    }
}
