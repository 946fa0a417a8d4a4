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

    /// Whether some shards only receive.
    pub fn has_listeners(&self) -> bool {
        self.receivers.iter().any(|&s| !self.gives(s))
    }

    /// The elements of the block that the contributor at one position has for the receiver at another.
    pub fn block(&self, from: usize, to: usize) -> usize {
        match (&self.sizes, self.kind) {
            (Sizes::One, _) => 1,
            (Sizes::Each(n), _) => *n,
            (Sizes::Blocks(sizes), Kind::Gather) => sizes[self.contributors[from] as usize],
            (Sizes::Blocks(sizes), Kind::AllToAll) => between(sizes, from, to),
            (Sizes::Blocks(sizes), _) => sizes[self.receivers[to] as usize],
        }
    }

    /// The elements that the contributor at a position contributes.
    pub fn elements(&self, from: usize) -> usize {
        match self.kind {
            Kind::Barrier => 0,
            kind if kind.has_block_for_each_receiver() => {
                (0..self.receivers.len()).map(|to| self.block(from, to)).sum()
            }
            _ => self.block(from, 0),
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
        let equal = !matches!(self.sizes, Sizes::Blocks(_));
        algorithm.check(&goal, laws).is_ok()
            && in_order
            && (brackets || !self.combines())
            && (equal || algorithm != Algorithm::Halving)
            && (equal || self.kind != Kind::AllToAll || algorithm != Algorithm::Bruck)
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
        if !self.has_blocks() && matches!(self.sizes, Sizes::Blocks(_)) {
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

    /// Whether the calls of a stage's steps fit together. Where shards only receive, none of them may be left behind.
    pub fn is_called_well(&self, which: usize, steps: &[Step]) -> bool {
        let mut own = steps.iter().filter(|step| step.joint() == Some(which));
        let pending = own.try_fold(0, |pending, step| self.pending_after(step, pending));
        pending.is_some_and(|pending| pending == 0 || !self.has_listeners())
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
