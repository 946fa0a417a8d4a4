//! Generated programs, as plain data.

use crate::area::{Area, AreaPart};
use crate::joint::{Given, Joint, Taken};
use crate::oracle::interpret;
use crate::phases::{Phase, Progress};
use maniple::runtime::{Faults, VirtualMachine};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// A program, and the way it runs. Its `Display` describes it in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    pub(crate) on: On,
    pub(crate) mapper: Chosen,
    /// The number of points of each of the two trees in the first dimension, which is divided among shards.
    pub(crate) cells: i64,
    /// The number of points in the second dimension; 1 on a line.
    pub(crate) rows: i64,
    /// Whether the run looks for races too. There are none.
    pub(crate) checks_races: bool,
    /// The stages, with a gang each.
    pub(crate) stages: Vec<Stage>,
    /// After the launches of this stage the top-level task fails, with a panic or an error.
    pub(crate) top_fails: Option<(usize, Failing)>,
    pub(crate) faults: Faults,
}

/// The driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum On {
    Seeded {
        processors: u32,
        seed: u64,
    },
    Virtual {
        nodes: u32,
        per_node: u32,
        seed: u64,
    },
    /// Threads, which take another order each time.
    Threads {
        workers: u32,
    },
    /// Several processes of this host, each with this many workers. Their order is another one each time, too.
    Processes {
        processes: u32,
        workers: u32,
    },
}

/// A mapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Chosen {
    Default,
    Collective,
    RoundRobin,
    First,
    Random(u64),
    /// The random mapper with a log.
    Logged(u64),
    /// The mapper `numa`, on a host of two NUMA nodes.
    Numa,
    /// A mapper whose answers are sometimes illegal, or panics.
    Wild(u64),
}

/// The way in which a task fails on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failing {
    Panics,
    Returns,
}

/// The number of the top-level task's bomb.
pub const TOP_BOMB: u32 = 0;

/// The part of the points from `lo` to `hi` that an inner task looks at, and the part that it changes. They overlap.
pub fn parts_of_parent((lo, hi): (i64, i64)) -> [(i64, i64); 2] {
    let third = (hi - lo) / 3;
    [(lo, hi - third), (lo + third, hi)]
}

/// A gang over the blocks of one tree. It may read all of the other tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub shards: u32,
    /// The number of the tree that is written.
    pub tree: usize,
    /// An inner task on processor 0 launches it in place of the top-level task.
    pub by_parent: bool,
    /// The inner task then looks at a part of the tree.
    pub looks: bool,
    /// The inner task then changes a part of the tree.
    pub changes: bool,
    /// The number of launches, one after the other, with the same barriers and collectives.
    pub launches: u32,
    /// The top-level task awaits the launch before it goes on.
    pub awaited: bool,
    /// The top-level task then replaces the mapper by the one of the last [`Step::Swap`] so far, if there is one.
    pub adopts: bool,
    /// The top-level task destroys what it made for the stage once it has launched it. Later uses are refused.
    pub destroys: bool,
    /// Each block is set before anything else.
    pub loads: bool,
    /// The consumer of each shard's slot.
    pub to: Vec<u32>,
    /// The number of parts of a slot. They are filled in turn, and all may be full at once.
    pub buffers: u64,
    /// The number of points of a part of a slot.
    pub width: i64,
    /// The number of children of a member of a barrier's combining tree.
    pub arity: usize,
    pub joints: Vec<Joint>,
    /// The collectives are made together, as a plan.
    pub planned: bool,
    /// The barriers at which some shards arrive and some wait.
    pub phases: Vec<Phase>,
    /// Shards arrive at phases when one order of steps allows it. In another order the arrival may be refused. Only the
    /// last stage may have this.
    pub daring: bool,
    /// The loose launches, which come first.
    pub loose: Vec<Loose>,
    pub steps: Vec<Step>,
}

/// A launch that nobody awaits before the next. Only its data orders it. Its shards have no barriers: each launches one
/// task on its part and ends. In a flow the top-level task launches these tasks itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loose {
    /// One of a few gangs of this size.
    pub gang: u8,
    pub shards: u32,
    /// Whether it uses the other tree, which an inner task may only read.
    pub far: bool,
    pub field: usize,
    /// One of a few parts of the tree, so that parts are used again.
    pub part: u8,
    pub act: Act,
    pub number: i64,
    /// The number of times that its shards let others run first. In a flow, the window after the launch.
    pub yields: u8,
    /// Whether it is part of a flow, unless an inner task launches it.
    pub flow: bool,
    /// The node on which tasks of a flow run, if the program says so.
    pub node: Option<u8>,
}

/// The action of a loose launch's task, which also gives the privilege of its shard.
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

/// A number that is known when the program is written, or one of the shard's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Number {
    Given(i64),
    Of(usize),
}

impl Number {
    /// The number, or one that stands for a value and is known when the program is written.
    pub fn known(self) -> i64 {
        match self {
            Number::Given(k) => k,
            Number::Of(i) => i as i64,
        }
    }
}

/// A leaf task on the shard's block. Fields are 0, 1 and 2; the next of 2 is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Makes a number of the values and their order.
    Digest(usize, AreaPart),
    /// Sets new values that do not depend on the old ones.
    Set(usize, AreaPart, Number),
    /// Makes new values from old ones, in a way that does not commute.
    Update(usize, AreaPart, Number),
    /// Folds a contribution into each value, by sum, product or maximum.
    Fold(usize, AreaPart, u8, Number),
    /// Reads a part of this field and updates one of the next.
    Mix(usize, AreaPart, AreaPart),
    /// Reads a part of this field, sums it into the next one, and sets the third; or with the two others swapped.
    Three(usize, bool, AreaPart, Number),
    /// Makes a digest of any part of the other tree.
    Far(usize, AreaPart),
    /// Updates under atomic coherence.
    Atomic(usize, AreaPart, Number),
    /// Sets a part to one value, by the explicit operation.
    Fill(usize, AreaPart, i64),
    /// Copies a part of this field to the same part of the next one, by the explicit operation.
    Copy(usize, AreaPart),
    /// Joins two numbers, and uses no region.
    Join(Number, Number),
}

impl Op {
    /// The other fields of [`Op::Three`]: the one that it sums into, and the one that it sets.
    pub fn others(field: usize, swap: bool) -> (usize, usize) {
        let (next, last) = ((field + 1) % 3, (field + 2) % 3);
        if swap { (last, next) } else { (next, last) }
    }
}

/// A step of a stage. Every shard goes through all steps in order and does its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// One shard launches a leaf task, which may panic. Nobody uses the value of a detached task.
    Leaf { shard: u32, op: Op, priority: Option<u8>, bomb: Option<u32>, detached: bool },
    /// One shard launches a task for each of several parts of its block. They update disjoint parts or digest
    /// overlapping ones, and one may panic. The shard may await them all, within limits that double.
    Index {
        shard: u32,
        field: usize,
        points: u8,
        looks: bool,
        number: Number,
        bomb: Option<(u32, u8)>,
        all: Option<u64>,
    },
    /// One shard awaits one of its values, within limits in nanoseconds that double.
    Await { shard: u32, value: usize, limit: Option<u64> },
    /// One shard waits this many nanoseconds at a barrier at which nobody arrives.
    InVain { shard: u32, limit: u64 },
    /// One shard lets others run.
    Yield { shard: u32 },
    /// Each shard fills its slot, and the consumer reads it. The tasks wait for that, or the shard waits before them.
    Exchange { number: Number, waits: bool, limit: Option<u64>, bomb: Option<(u32, u32)> },
    /// Each shard arrives at a barrier with a value and waits for the combination of all.
    Sum { limit: Option<u64> },
    /// A task of each shard arrives at a barrier. Another task waits, or the shard does.
    Barrier { number: Number, waits: bool, limit: Option<u64>, bomb: Option<(u32, u32)> },
    /// Each shard changes its own points of a region that all share, between two barriers. Then it digests all of it.
    Board { number: Number, bomb: Option<(u32, u32)> },
    /// One shard writes a number for the barrier's waiters and arrives. A task does this, or the shard itself, which
    /// takes a known number and carries it to a fold.
    Arrive { shard: u32, phase: usize, number: Number, own: bool, bomb: Option<u32> },
    /// A task waits for a phase and reads the numbers that all have written. Or the shard waits itself and gets the
    /// fold.
    Wait { shard: u32, phase: usize, own: bool, limit: Option<u64> },
    /// One shard leaves out an arrival, so that its waiters are stuck. Only in the last stage of a program without
    /// failures.
    Forget { shard: u32, phase: usize },
    /// One shard arrives until it is refused, because the others are not that far. The waiters get the error. The last
    /// step of a program without other failures.
    Overrun { shard: u32, phase: usize },
    /// Each contributor of a collective contributes, and each receiver asks for its result.
    Call { which: usize, number: Number, bomb: Option<(u32, u32)>, given: Given, taken: Taken },
    /// Each contributor of a collective contributes.
    Contribute { which: usize, number: Number, bomb: Option<(u32, u32)>, given: Given },
    /// Each receiver of a collective asks for the result of the oldest contribution for which it has not.
    Receive { which: usize, taken: Taken },
    /// One shard replaces the mapper.
    Swap { shard: u32, mapper: Chosen },
    /// One shard awaits its values and fails.
    Crash { shard: u32, bomb: u32, how: Failing },
}

impl Step {
    /// The number of its bomb.
    pub fn bomb(&self) -> Option<u32> {
        match *self {
            Step::Leaf { bomb, .. } | Step::Arrive { bomb, .. } => bomb,
            Step::Index { bomb, .. } => bomb.map(|b| b.0),
            Step::Exchange { bomb, .. } | Step::Barrier { bomb, .. } | Step::Board { bomb, .. } => bomb.map(|b| b.0),
            Step::Call { bomb, .. } | Step::Contribute { bomb, .. } => bomb.map(|b| b.0),
            Step::Crash { bomb, .. } => Some(bomb),
            _ => None,
        }
    }

    /// The shard and the phase of an arrival or a wait there.
    pub fn at_phase(&self) -> Option<(u32, usize)> {
        match *self {
            Step::Arrive { shard, phase, .. }
            | Step::Wait { shard, phase, .. }
            | Step::Forget { shard, phase }
            | Step::Overrun { shard, phase } => Some((shard, phase)),
            _ => None,
        }
    }

    /// The collective of a step.
    pub fn joint(&self) -> Option<usize> {
        match *self {
            Step::Call { which, .. } | Step::Contribute { which, .. } | Step::Receive { which, .. } => Some(which),
            _ => None,
        }
    }

    /// How the shards of a collective give and take in a step.
    pub fn parts_mut(&mut self) -> (Option<&mut Given>, Option<&mut Taken>) {
        match self {
            Step::Call { given, taken, .. } => (Some(given), Some(taken)),
            Step::Contribute { given, .. } => (Some(given), None),
            Step::Receive { taken, .. } => (None, Some(taken)),
            _ => (None, None),
        }
    }

    /// The same.
    pub fn parts(mut self) -> (Option<Given>, Option<Taken>) {
        let (given, taken) = self.parts_mut();
        (given.copied(), taken.copied())
    }

    /// The step without its special features.
    pub fn plain(self) -> Self {
        match self {
            Step::Leaf { shard, op, detached, .. } => Step::Leaf { shard, op, priority: None, bomb: None, detached },
            Step::Index { shard, field, points, looks, number, .. } => {
                Step::Index { shard, field, points, looks, number, bomb: None, all: None }
            }
            Step::Board { number, .. } => Step::Board { number, bomb: None },
            Step::Await { shard, value, .. } => Step::Await { shard, value, limit: None },
            Step::Exchange { number, .. } => Step::Exchange { number, waits: false, limit: None, bomb: None },
            Step::Sum { .. } => Step::Sum { limit: None },
            Step::Barrier { number, .. } => Step::Barrier { number, waits: false, limit: None, bomb: None },
            Step::Arrive { shard, phase, number, own, .. } => Step::Arrive { shard, phase, number, own, bomb: None },
            Step::Wait { shard, phase, own, .. } => Step::Wait { shard, phase, own, limit: None },
            Step::Call { which, number, .. } => {
                Step::Call { which, number, bomb: None, given: Given::default(), taken: Taken::default() }
            }
            Step::Contribute { which, number, .. } => {
                Step::Contribute { which, number, bomb: None, given: Given::default() }
            }
            Step::Receive { which, .. } => Step::Receive { which, taken: Taken::default() },
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

    /// The step in which a shard arrives too often, and the generations for which it may be refused.
    pub(crate) fn overrun(&self) -> Option<(&Step, RangeInclusive<u64>)> {
        let stage = self.stages.last()?;
        let step = stage.steps.last()?;
        let Step::Overrun { shard, phase } = *step else { return None };
        let progress = Progress::through(stage)?;
        Some((step, progress[phase].refused(&stage.phases[phase], shard)))
    }

    /// Whether the steps can be taken in their order.
    pub(crate) fn is_sound(&self) -> bool {
        let last = self.stages.len() - 1;
        let spoils = |step: &Step| matches!(step, Step::Forget { .. } | Step::Overrun { .. });
        let bombs = self.steps().any(|step| step.bomb().is_some());
        self.stages.iter().enumerate().all(|(i, stage)| {
            let spoilt = stage.daring || stage.steps.iter().any(spoils);
            let called_well =
                stage.joints.iter().enumerate().all(|(which, j)| j.is_called_well(which, &stage.steps, bombs));
            Progress::through(stage).is_some() && called_well && (!spoilt || i == last && !stage.by_parent)
        }) && !self.is_uncertain()
    }

    /// Whether a shard forgets to arrive, and nobody knows which of the others get stuck.
    pub(crate) fn is_uncertain(&self) -> bool {
        let forgets = self.steps().any(|step| matches!(step, Step::Forget { .. }));
        forgets && interpret(self).uncertain
    }

    /// All points of a tree.
    pub(crate) fn all(&self) -> Area {
        Area::of(self.cells, self.rows)
    }

    /// The block of a shard.
    pub(crate) fn block(&self, stage: usize, shard: u32) -> Area {
        self.all().nth(shard.into(), self.stages[stage].shards.into())
    }

    /// The parts of an index launch, of about the same size. If the tasks only look, each part has one more point on
    /// either side.
    pub(crate) fn points(block: Area, points: u8, looks: bool) -> Vec<Area> {
        let (lo, hi) = (block.lo[0], block.hi[0]);
        let n = (1 + i64::from(points) % 5).min(hi - lo);
        let wider = |part: Area| part.slice((part.lo[0] - 1).max(lo), (part.hi[0] + 1).min(hi));
        (0..n).map(|i| block.nth(i, n)).map(|part| if looks { wider(part) } else { part }).collect()
    }

    /// The number of a loose launch's tree, and the action of its tasks.
    pub(crate) fn loose(&self, stage: usize, loose: &Loose) -> (usize, Act) {
        let stage = &self.stages[stage];
        match loose.far {
            false => (stage.tree, loose.act),
            true if stage.by_parent => (1 - stage.tree, Act::Digest),
            true => (1 - stage.tree, loose.act),
        }
    }

    /// The block of a shard of a loose launch: a part of the whole tree, of one half, or of the middle.
    pub(crate) fn loose_block(&self, loose: &Loose, shard: u32) -> Area {
        let n = self.cells;
        let (lo, hi) = [(0, n), (0, n), (0, n / 2), (n / 2, n), (n / 4, n - n / 4)][loose.part as usize % 5];
        self.all().slice(lo, hi).nth(shard.into(), loose.shards.into())
    }

    /// The same program on threads, without faults.
    pub fn on_threads(self, workers: u32) -> Self {
        Self { on: On::Threads { workers }, faults: Faults::default(), ..self }
    }

    /// The same program on several processes of this host. One to three workers of each and slow links are drawn from the seed.
    ///
    /// It leaves out the check for races, which needs one address space. A shard that replaces the mapper does that for its own
    /// process only.
    pub fn on_processes(mut self, processes: u32, seed: u64) -> Self {
        let workers = 1 + (seed % 3) as u32;
        self.on = On::Processes { processes, workers };
        self.faults = Faults::drawn(seed, processes * workers, false).real();
        self.checks_races = false;
        self
    }

    /// The same program in virtual time, on at least as many processors. The nodes are like the nodes of `machine`, or of a
    /// machine drawn from the seed.
    pub fn in_virtual_time(mut self, machine: Option<&VirtualMachine>) -> Self {
        let (nodes, per_node, seed) = match self.on {
            On::Seeded { processors, seed } => (processors, 1, seed),
            On::Virtual { nodes, per_node, seed } => (nodes, per_node, seed),
            On::Threads { workers } => (workers, 1, 0),
            On::Processes { processes, workers } => (processes, workers, 0),
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
            On::Threads { workers } => workers,
            On::Processes { processes, workers } => processes * workers,
        }
    }

    /// The number of steps and loose launches.
    pub fn size(&self) -> usize {
        self.steps().count() + self.stages.iter().map(|s| s.loose.len()).sum::<usize>()
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages.iter().flat_map(|s| &s.steps)
    }

    /// The mapper of the last swap in the stages up to this one.
    pub(crate) fn last_swap(&self, stage: usize) -> Option<Chosen> {
        let mut steps = self.stages[..=stage].iter().flat_map(|stage| &stage.steps).rev();
        steps.find_map(|s| if let Step::Swap { mapper, .. } = s { Some(*mapper) } else { None })
    }

    pub(crate) fn is_wild(&self) -> bool {
        let swaps_to_one = |step: &Step| matches!(step, Step::Swap { mapper: Chosen::Wild(_), .. });
        matches!(self.mapper, Chosen::Wild(_)) || self.steps().any(swaps_to_one)
    }
}

/// The value that a shard notes for a deadline that was over in time.
pub const TIMED_OUT: i64 = 41;

/// The number of points of the shared region that belong to each shard.
pub const BOARD: i64 = 2;
