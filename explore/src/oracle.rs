//! The sequential interpreter, which says what a program must give. It runs one step after the other on plain arrays.
//!
//! This module, `play` and `block` share only plain data and the arithmetic of `values` with the tasks that the
//! framework runs (`worker`, `leaf`, `loose` and `top`).

use crate::area::place;
use crate::play::play;
use crate::program::{Act, Loose, Program};
use crate::values::{folded, fresh, joined, updated};
use maniple::mapper::ProcessorId;
use std::collections::{BTreeMap, BTreeSet};

/// The cause of a missing value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The bomb with this number went off.
    Bomb(u32),
    /// A processor was lost.
    Lost(ProcessorId),
    /// A mapper gave an illegal answer or panicked.
    Mapper,
    /// An arrival was refused.
    Refused,
    /// The value never comes.
    Stuck,
}

/// The knowledge of a value: the number, unless it cannot be there, and the causes for which it may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub value: Option<i64>,
    pub causes: BTreeSet<Cause>,
}

impl Known {
    pub fn sure(value: i64) -> Self {
        Self { value: Some(value), causes: BTreeSet::new() }
    }

    /// A value that cannot be there.
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

    /// A value made of both.
    pub fn with(self, other: &Known, f: impl FnOnce(i64, i64) -> i64) -> Self {
        let value = self.value.zip(other.value).map(|(a, b)| f(a, b));
        Self { value, causes: self.causes }.may(&other.causes)
    }

    /// Whether a shard that awaits it waits for ever.
    pub fn is_stuck(&self) -> bool {
        self.value.is_none() && self.causes.contains(&Cause::Stuck)
    }

    /// The same, made by a task that panics.
    pub fn blown(self, bomb: Option<u32>) -> Self {
        match bomb {
            None => self,
            // A task whose inputs have failed does not run, so it does not panic.
            Some(b) if self.value.is_some() => Self { value: None, causes: self.causes }.may(&[Cause::Bomb(b)].into()),
            Some(_) => self,
        }
    }
}

/// All values that must come.
pub struct Expected {
    /// The values that each shard of each launch must see, in its order, and no others if it crashes. An inner task
    /// follows after the shards.
    pub seen: Vec<Vec<Vec<Known>>>,
    /// The end of each shard of each launch: 0, or the failures of detached tasks that none of its awaits returns. It may
    /// crash besides.
    pub ends: Vec<Vec<Known>>,
    /// The value that each shard of each loose launch of a stage returns. Only programs without failures have these.
    pub loose: Vec<Vec<Vec<i64>>>,
    /// The waits at phase barriers that never end, all in the last launch.
    pub stuck: Vec<Stuck>,
    /// The shards of that launch that do not come to their end.
    pub stopped: BTreeSet<u32>,
    /// Whether it depends on a collective's algorithm who else is stuck.
    pub uncertain: bool,
}

/// A wait that never ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    pub shard: u32,
    /// Whether the shard waits itself, not a task.
    pub own: bool,
    pub phase: usize,
    pub generation: u64,
    /// The shards that do not arrive for it or for an earlier one, in ascending order.
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
        ends: Vec::new(),
        loose: vec![Vec::new(); program.stages.len()],
        stuck: Vec::new(),
        stopped: BTreeSet::new(),
        uncertain: false,
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
