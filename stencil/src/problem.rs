//! The input of a run and its result.

use crate::StencilError;
use crate::blocks::Blocks;
use crate::reference::{BlockCheck, DominantMode};
use maniple::runtime::Stats;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// The way in which `S` is computed, and so the version of the application that runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// An allreduce by recursive doubling between the shards.
    #[default]
    RecursiveDoubling,
    /// An allreduce in two levels: the shards of each processor first, then the processors.
    TwoLevel,
    /// The baseline. Shards end in each iteration; an inner task adds up their sums and launches them again.
    Aggregation,
}

impl Collective {
    /// All values, in the order in which messages list them.
    pub const ALL: [Self; 3] = [Self::RecursiveDoubling, Self::TwoLevel, Self::Aggregation];

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::RecursiveDoubling => "recursive-doubling",
            Self::TwoLevel => "two-level",
            Self::Aggregation => "aggregation",
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Collective {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let unknown = || {
            let legal = Self::ALL.map(Self::name).join(", ");
            format!("unknown collective `{name}`; expected one of {legal}")
        };
        Self::ALL.into_iter().find(|collective| collective.name() == name).ok_or_else(unknown)
    }
}

/// Iterations that a shard launches ahead, unless the user gives a number.
pub const AHEAD: usize = 2;

/// The input of a run.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Cells of each shard's block, at least 4.
    pub sizes: Vec<usize>,
    /// The first vector.
    pub start: Start,
    /// Iterations. [`simulate`](crate::simulate) allows 0, [`run`](crate::run) does not.
    pub iterations: usize,
    /// Calls of the allreduce under way before a shard waits for the oldest.
    pub ahead: usize,
    /// What is kept of the vectors.
    pub keep: Keep,
    /// Takes the last vector, in pieces.
    pub sink: Option<Sink>,
    /// Keeps checkpoints. Not in the version with an aggregation region.
    pub checkpoints: Option<Checkpoints>,
}

/// Checkpoints of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoints {
    /// Their directory.
    pub dir: PathBuf,
    /// A checkpoint is made each time that so many iterations are done, at least 1, and after the last one.
    pub every: usize,
    /// The run goes on from the newest one, if there is one. Without this a directory with checkpoints is refused.
    pub restart: bool,
}

/// The first vector of a run.
#[derive(Debug, Clone)]
pub enum Start {
    /// These values.
    Vector(Arc<[f64]>),
    /// The dominant mode. Each block is computed where it is.
    Mode(DominantMode),
}

/// What a run keeps of its vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keep {
    /// The vector after each iteration.
    Each,
    /// None. Each block of the last vector is compared with this mode where it is.
    Check(DominantMode),
}

impl Keep {
    /// Whether the vector after an iteration is looked at.
    pub(crate) fn wants(self, is_last: bool) -> bool {
        is_last || self == Keep::Each
    }
}

/// Takes the last vector of a run in pieces, in the order of cells: the number of a piece's first cell, and its values.
/// It is called by each node's copy of the top-level task, so in one process it may get a piece several times.
#[derive(Clone)]
pub struct Sink(pub Arc<Take>);

/// Takes cells, and the position of the first.
pub type Take = dyn Fn(usize, &[f64]) + Send + Sync;

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// S of each iteration, up to the first from which there is no next vector (see [`kernel::root`](crate::kernel::root)).
    pub sums: Vec<f64>,
    /// The iterations that a checkpoint had done, of which there is only S.
    pub restored: usize,
    /// The vectors that are kept. With [`Keep::Each`] after a restart, the first one is the checkpoint's.
    pub vectors: Vec<Vec<f64>>,
    /// With [`Keep::Check`], what was found of each block of the last vector.
    pub checks: Vec<BlockCheck>,
    /// Microseconds of each iteration on shard 0: from one total to the next, the first from the start.
    pub iteration_us: Vec<f64>,
    /// Microseconds of the collective in each iteration: from shard 0's local sum to the total.
    pub collective_us: Vec<f64>,
    /// The statistics of the run.
    pub stats: Stats,
}

impl Problem {
    /// A run from the dominant mode.
    pub fn from_mode(blocks: &Blocks, iterations: usize) -> Self {
        let mode = DominantMode::new(blocks.total());
        Self::new(blocks, Start::Mode(mode), iterations, Keep::Check(mode))
    }

    /// A run from a vector with a value for each cell.
    pub fn from_vector(blocks: &Blocks, values: Vec<f64>, iterations: usize) -> Self {
        Self::new(blocks, Start::Vector(values.into()), iterations, Keep::Each)
    }

    fn new(blocks: &Blocks, start: Start, iterations: usize, keep: Keep) -> Self {
        let sizes = blocks.ranges().map(|cells| cells.len()).collect();
        Self { sizes, start, iterations, ahead: AHEAD, keep, sink: None, checkpoints: None }
    }

    /// Checks that it can be run.
    ///
    /// # Errors
    ///
    /// No shard or no iteration, fewer than 4 cells in a shard, too many shards or cells, or a first vector of another length.
    pub fn check(&self) -> Result<(), StencilError> {
        let (shards, smallest) = (self.sizes.len(), self.sizes.iter().copied().min().unwrap_or(0));
        Blocks::uniform(shards, smallest)?;
        if self.iterations == 0 {
            return Err(StencilError::Zero { what: "iterations" });
        }
        let cells = self.cells();
        match &self.start {
            Start::Vector(values) if values.len() != cells => {
                Err(StencilError::WrongLength { cells, found: values.len() })
            }
            _ => Ok(()),
        }
    }

    /// Cells of all blocks.
    pub fn cells(&self) -> usize {
        self.sizes.iter().sum()
    }
}
