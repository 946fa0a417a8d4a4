//! What a program must give: an interpreter that runs it one step after the other on plain arrays.

use crate::area::place;
use crate::play::play;
use crate::program::{Act, Loose, Program};
use crate::values::{folded, fresh, joined, updated};
use std::collections::{BTreeMap, BTreeSet};

/// Why a value may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// What went off with this number.
    Bomb(u32),
    /// A processor was lost.
    Lost(u32),
    /// The fault of a mapper.
    Mapper,
    /// An arrival was refused.
    Refused,
    /// It never comes.
    Stuck,
}

/// What is known of a value: the number, unless it can't be there, and why it may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub value: Option<i64>,
    pub causes: BTreeSet<Cause>,
}

impl Known {
    pub fn sure(value: i64) -> Self {
        Self { value: Some(value), causes: BTreeSet::new() }
    }

    /// It can't be there.
    pub fn never(causes: &BTreeSet<Cause>) -> Self {
        Self { value: None, causes: causes.clone() }
    }

    pub fn may(mut self, causes: &BTreeSet<Cause>) -> Self {
        self.causes.extend(causes);
        self
    }

    pub fn map(self, f: impl FnOnce(i64) -> i64) -> Self {
        Self { value: self.value.map(f), causes: self.causes }
    }

    /// What is made of both.
    pub fn with(self, other: &Known, f: impl FnOnce(i64, i64) -> i64) -> Self {
        let value = self.value.zip(other.value).map(|(a, b)| f(a, b));
        Self { value, causes: self.causes }.may(&other.causes)
    }

    /// Whether whoever awaits it waits forever.
    pub fn is_stuck(&self) -> bool {
        self.value.is_none() && self.causes.contains(&Cause::Stuck)
    }

    /// The same, made by a task that panics.
    pub fn blown(self, bomb: Option<u32>) -> Self {
        match bomb {
            None => self,
            // Whoever finds its inputs failed does not come to panic.
            Some(b) if self.value.is_some() => Self { value: None, causes: self.causes }.may(&[Cause::Bomb(b)].into()),
            Some(_) => self,
        }
    }
}

/// What must come.
pub struct Expected {
    /// What each shard of each launch must see, in its order, no more than that if it crashes; and, after the shards, a
    /// parent.
    pub seen: Vec<Vec<Vec<Known>>>,
    /// What each shard of each loose launch of a stage gives back. These are in programs without failures only.
    pub loose: Vec<Vec<Vec<i64>>>,
    /// Waits at phase barriers that are never over, all of the last launch.
    pub stuck: Vec<Stuck>,
    /// Shards of that launch that do not come to their end.
    pub stopped: BTreeSet<u32>,
}

/// A wait that is never over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    pub shard: u32,
    /// The shard waits itself.
    pub own: bool,
    pub phase: usize,
    pub generation: u64,
    /// Who does not arrive for it, or for one before it, ascending.
    pub missing: Vec<u32>,
}

/// The values of a tree, by field and point.
pub type Tree = [BTreeMap<[i64; 2], i64>; 3];

/// Interprets a program.
pub fn interpret(program: &Program) -> Expected {
    // Both trees, by field and point.
    let tree = || [(); 3].map(|()| program.all().points().map(|p| (p, 0)).collect());
    let mut trees: [Tree; 2] = [tree(), tree()];
    let mut boards: Vec<BTreeMap<i64, Known>> = program.stages.iter().map(|_| BTreeMap::new()).collect();
    let launches: Vec<usize> = program.launches().collect();
    let mut expected = Expected {
        seen: Vec::new(),
        loose: vec![Vec::new(); program.stages.len()],
        stuck: Vec::new(),
        stopped: BTreeSet::new(),
    };
    for (launch, stage) in launches.into_iter().enumerate() {
        if launch == program.first_launch(stage) {
            let all = program.stages[stage].loose.iter();
            expected.loose[stage] = all.map(|loose| run_loose(program, stage, loose, &mut trees)).collect();
        }
        let seen = play(program, stage, &mut trees, &mut boards[stage], &mut expected);
        expected.seen.push(seen);
    }
    expected
}

fn run_loose(program: &Program, stage: usize, loose: &Loose, trees: &mut [Tree; 2]) -> Vec<i64> {
    let (tree, act) = program.loose(stage, loose);
    let k = loose.number;
    let shard = |s| {
        let block = program.loose_block(loose, s);
        let cells = &mut trees[tree][loose.field];
        let digest = |start| block.points().fold(start, |sum, p| joined(sum, cells[&p]));
        let value = match act {
            Act::Digest => digest(1),
            Act::Update => digest(2),
            Act::Set => k,
            Act::Fold(_) => 3,
        };
        for p in block.points() {
            let v = cells.entry(p).or_default();
            let p = place(p);
            *v = match act {
                Act::Digest => *v,
                Act::Set => fresh(k, p),
                Act::Update => updated(*v, k, p),
                Act::Fold(operator) => folded(*v, operator, fresh(k, p)),
            };
        }
        value
    };
    (0..loose.shards).map(shard).collect()
}
