//! Generated programs, as plain data.

use maniple::runtime::{Faults, VirtualMachine};
use serde::{Deserialize, Serialize};

/// A program, and how it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    pub(crate) on: On,
    pub(crate) mapper: Chosen,
    /// Points of each of the two trees.
    pub(crate) cells: i64,
    /// Whether the run looks for races as well; there are none.
    pub(crate) checks_races: bool,
    /// A gang each.
    pub(crate) stages: Vec<Stage>,
    /// After the launches of this stage the top-level task fails, with a panic or an error.
    pub(crate) top_fails: Option<(usize, Failing)>,
    pub(crate) faults: Faults,
}

/// The driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum On {
    Seeded { processors: u32, seed: u64 },
    Virtual { nodes: u32, per_node: u32, seed: u64 },
}

/// A mapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Chosen {
    Default,
    Collective,
    RoundRobin,
    First,
    Random(u64),
    /// Answers that are illegal now and then, or panics.
    Wild(u64),
}

/// How a task fails by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failing {
    Panics,
    Returns,
}

/// The number of what goes off in the top-level task.
pub const TOP_BOMB: u32 = 0;

/// A gang over the blocks of one tree, with whole of the other to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub shards: u32,
    /// Which of the trees is written.
    pub tree: usize,
    /// Launched by a parent task on processor 0 in place of the top-level task.
    pub by_parent: bool,
    /// Such a parent then looks at the tree.
    pub maps: bool,
    /// And changes it.
    pub changes: bool,
    /// Launched so often, one after the other, with the same barriers and collectives.
    pub launches: u32,
    /// The top-level task awaits the launch before it goes on.
    pub awaited: bool,
    /// The top-level task then adopts the newest mapper.
    pub adopts: bool,
    /// Each block is set before anything else.
    pub loads: bool,
    /// Shard s fills a slot for shard s + distance.
    pub distance: u32,
    /// Points of a slot.
    pub width: i64,
    /// Children of a member of a barrier's combining tree.
    pub arity: usize,
    pub totals: Vec<Total>,
    /// Launches that come first.
    pub loose: Vec<Loose>,
    pub steps: Vec<Step>,
}

/// A launch that nobody awaits before the next: only the data orders it. Its shards have no barriers; each launches one
/// task on its part and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loose {
    /// One of a few gangs of this size.
    pub gang: u8,
    pub shards: u32,
    /// Of the other tree, which a parent may only read.
    pub far: bool,
    pub field: usize,
    /// One of a few parts of the tree, so that the same is used again.
    pub part: u8,
    pub act: Act,
    pub number: i64,
    /// How often its shards let others run first.
    pub yields: u8,
}

/// What the task of a loose launch does, and what its shard holds the part for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Reads.
    Digest,
    /// Writes without reading.
    Set,
    /// Reads and writes.
    Update,
    /// Folds, by one of the operators of [`Op::Fold`].
    Fold(u8),
}

/// An allreduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    pub elements: usize,
    pub slots: u32,
    pub algorithm: Option<usize>,
}

/// A number that is known when the program is written, or one of the shard's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Number {
    Given(i64),
    Of(usize),
}

/// A part of a line of `n` points: from point `a` modulo n, as many points as `b` says modulo what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub a: u8,
    pub b: u8,
}

impl Part {
    /// The points, of a line that begins at `lo`.
    pub fn of(self, (lo, hi): (i64, i64)) -> (i64, i64) {
        let from = lo + i64::from(self.a) % (hi - lo);
        (from, from + 1 + i64::from(self.b) % (hi - from))
    }
}

/// A leaf task on the shard's block. Fields are 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// A number made of the values and their order.
    Digest(usize, Part),
    /// New values that do not depend on the old ones.
    Set(usize, Part, Number),
    /// New values from old ones, in a way that does not commute.
    Update(usize, Part, Number),
    /// Folds a contribution into each value: a sum, a product or the greater one.
    Fold(usize, Part, u8, Number),
    /// Reads a part of this field and updates one of the other.
    Mix(usize, Part, Part),
    /// A digest of any part of the other tree.
    Far(usize, Part),
    /// An update under atomic coherence.
    Atomic(usize, Part, Number),
    /// Sets a part to one value by the explicit operation.
    Fill(usize, Part, i64),
    /// Copies a part of this field to the same part of the other by the explicit operation.
    Copy(usize, Part),
    /// Touches no region.
    Join(Number, Number),
}

/// A step of a stage. Every shard goes through all of them in order and does its part; nothing waits but `Await`, and a
/// `Barrier` or `Exchange` for which shards wait themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// One shard launches a leaf task, which may panic.
    /// Nobody wants the value of one that is detached.
    Leaf { shard: u32, op: Op, priority: Option<u8>, bomb: Option<u32>, detached: bool },
    /// One shard launches a task for each of several disjoint parts of its block, one of which may panic; perhaps it awaits
    /// them all, within limits that double.
    Index { shard: u32, field: usize, points: u8, number: Number, bomb: Option<(u32, u8)>, all: Option<u64> },
    /// One shard awaits one of its values, within limits in nanoseconds that double.
    Await { shard: u32, value: usize, limit: Option<u64> },
    /// One shard waits for what never comes, so many nanoseconds.
    InVain { shard: u32, limit: u64 },
    /// One shard lets others run.
    Yield { shard: u32 },
    /// Each shard fills its slot, whose consumer takes it: in tasks that wait, or after the shard itself has.
    Exchange { number: Number, waits: bool, limit: Option<u64>, bomb: Option<(u32, u32)> },
    /// Each shard arrives with a value at a barrier and waits for what all arrived with.
    Sum { limit: Option<u64> },
    /// A task of each shard arrives at a barrier; another one waits, or the shard does.
    Barrier { number: Number, waits: bool, limit: Option<u64>, bomb: Option<(u32, u32)> },
    /// Each shard changes its own points of a region that all share, between two barriers, and then digests all of it.
    Board { number: Number, bomb: Option<(u32, u32)> },
    /// Each shard contributes to a total.
    Total { which: usize, number: Number },
    /// One shard puts another mapper in.
    Swap { shard: u32, mapper: Chosen },
    /// One shard awaits what it has launched, and fails.
    Crash { shard: u32, bomb: u32, how: Failing },
}

impl Step {
    /// The number of what goes off in it.
    pub fn bomb(&self) -> Option<u32> {
        match *self {
            Step::Leaf { bomb, .. } => bomb,
            Step::Index { bomb, .. } => bomb.map(|b| b.0),
            Step::Exchange { bomb, .. } | Step::Barrier { bomb, .. } | Step::Board { bomb, .. } => bomb.map(|b| b.0),
            Step::Crash { bomb, .. } => Some(bomb),
            _ => None,
        }
    }

    /// The step with everything taken out that makes it special.
    pub fn plain(self) -> Self {
        match self {
            Step::Leaf { shard, op, detached, .. } => Step::Leaf { shard, op, priority: None, bomb: None, detached },
            Step::Index { shard, field, points, number, .. } => {
                Step::Index { shard, field, points, number, bomb: None, all: None }
            }
            Step::Board { number, .. } => Step::Board { number, bomb: None },
            Step::Await { shard, value, .. } => Step::Await { shard, value, limit: None },
            Step::Exchange { number, .. } => Step::Exchange { number, waits: false, limit: None, bomb: None },
            Step::Sum { .. } => Step::Sum { limit: None },
            Step::Barrier { number, .. } => Step::Barrier { number, waits: false, limit: None, bomb: None },
            other => other,
        }
    }
}

impl Program {
    /// The stage of each launch.
    pub(crate) fn launches(&self) -> impl Iterator<Item = usize> + '_ {
        self.stages.iter().enumerate().flat_map(|(i, s)| std::iter::repeat_n(i, s.launches as usize))
    }

    /// The number of a stage's first launch.
    pub(crate) fn first_launch(&self, stage: usize) -> usize {
        self.stages[..stage].iter().map(|s| s.launches as usize).sum()
    }

    /// The block of a shard.
    pub(crate) fn block(&self, stage: usize, shard: u32) -> (i64, i64) {
        let n = i64::from(self.stages[stage].shards);
        let s = i64::from(shard);
        (s * self.cells / n, (s + 1) * self.cells / n)
    }

    /// The parts of an index launch: as many as there are, of about the same length.
    pub(crate) fn points((lo, hi): (i64, i64), points: u8) -> Vec<(i64, i64)> {
        let n = (1 + i64::from(points) % 5).min(hi - lo);
        (0..n).map(|i| (lo + i * (hi - lo) / n, lo + (i + 1) * (hi - lo) / n)).collect()
    }

    /// Which tree a loose launch is on, and what it does there.
    pub(crate) fn loose(&self, stage: usize, loose: &Loose) -> (usize, Act) {
        let stage = &self.stages[stage];
        match loose.far {
            false => (stage.tree, loose.act),
            true if stage.by_parent => (1 - stage.tree, Act::Digest),
            true => (1 - stage.tree, loose.act),
        }
    }

    /// The block of a shard of a loose launch: of all, of a half, or of the middle.
    pub(crate) fn loose_block(&self, loose: &Loose, shard: u32) -> (i64, i64) {
        let all = self.cells;
        let (lo, hi) =
            [(0, all), (0, all), (0, all / 2), (all / 2, all), (all / 4, all - all / 4)][loose.part as usize % 5];
        let (n, s) = (i64::from(loose.shards), i64::from(shard));
        (lo + s * (hi - lo) / n, lo + (s + 1) * (hi - lo) / n)
    }

    /// The same in virtual time, on as many processors or more: of nodes like this machine's, or of one drawn from its seed.
    pub fn in_virtual_time(mut self, machine: Option<&VirtualMachine>) -> Self {
        let (nodes, per_node, seed) = match self.on {
            On::Seeded { processors, seed } => (processors, 1, seed),
            On::Virtual { nodes, per_node, seed } => (nodes, per_node, seed),
        };
        self.on = match machine.map(|m| m.per_node) {
            Some(own) => On::Virtual { nodes: (nodes * per_node).div_ceil(own), per_node: own, seed },
            None => On::Virtual { nodes, per_node, seed },
        };
        self.faults = Faults::default();
        self
    }

    pub(crate) fn processors(&self) -> u32 {
        match self.on {
            On::Seeded { processors, .. } => processors,
            On::Virtual { nodes, per_node, .. } => nodes * per_node,
        }
    }

    /// How many steps and loose launches it has.
    pub fn size(&self) -> usize {
        self.steps().count() + self.stages.iter().map(|s| s.loose.len()).sum::<usize>()
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages.iter().flat_map(|s| &s.steps)
    }

    /// Every mapper that may be asked.
    pub(crate) fn mappers(&self) -> impl Iterator<Item = Chosen> + '_ {
        let swaps = self.steps().filter_map(|s| if let Step::Swap { mapper, .. } = s { Some(*mapper) } else { None });
        std::iter::once(self.mapper).chain(swaps)
    }

    pub(crate) fn is_wild(&self) -> bool {
        self.mappers().any(|m| matches!(m, Chosen::Wild(_)))
    }
}

// What tasks do to values. Wrapping arithmetic is exact, and none of these commutes.

pub fn joined(a: i64, b: i64) -> i64 {
    a.wrapping_mul(31).wrapping_add(b)
}

pub fn updated(old: i64, k: i64, at: i64) -> i64 {
    old.wrapping_mul(3).wrapping_add(k).wrapping_add(at)
}

pub fn fresh(k: i64, at: i64) -> i64 {
    k ^ (at + 7).wrapping_mul(1_000_003)
}

pub fn folded(old: i64, operator: u8, new: i64) -> i64 {
    match operator % 3 {
        0 => old.wrapping_add(new),
        1 => old.wrapping_mul(new),
        _ => old.max(new),
    }
}

/// Composition of affine maps modulo 2³², a pair in each number: exact, associative, and order matters.
pub fn composed(lower: i64, higher: i64) -> i64 {
    let (a, b) = ((lower >> 32) as u32, lower as u32);
    let (c, d) = ((higher >> 32) as u32, higher as u32);
    let (e, f) = (a.wrapping_mul(c | 1), a.wrapping_mul(d).wrapping_add(b));
    i64::from(e) << 32 | i64::from(f)
}

/// What a shard contributes to a total, made of one number.
pub fn contribution(k: i64, elements: usize) -> Vec<i64> {
    (0..elements as i64).map(|i| fresh(k, i) | 1 << 32).collect()
}

/// What a shard notes of a deadline that was over when it should.
pub const TIMED_OUT: i64 = 41;

/// Points of the shared region that are each shard's own.
pub const BOARD: i64 = 2;

/// What a shard arrives with.
pub fn arrival(step: usize, shard: u32) -> u64 {
    (step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(shard) << 7
}

pub fn fold_arrivals(a: u64, b: u64) -> u64 {
    a.wrapping_mul(1_000_003).wrapping_add(b)
}
