//! What a run is asked for, what it reports, and what can go wrong.

use crate::blocks::MIN_CELLS;
use crate::host::{HostRun, available_memory};
use crate::io::FileError;
use maniple::mapper::{MapperSpec, SpecError};
use maniple::runtime::{Binding, VirtualMachine};
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Declares an enum whose values have names on the command line and in reports.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident ($what:literal) { $($(#[$vdoc:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $type { $($(#[$vdoc])* $variant),+ }

        impl $type {
            /// All values, in the order in which messages list them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name on the command line and in reports.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(name: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().copied().find(|v| v.name() == name).ok_or_else(|| UnknownName {
                    what: $what,
                    name: name.to_owned(),
                    legal: Self::ALL.iter().map(|v| v.name()).collect::<Vec<_>>().join(", "),
                })
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}

named! {
    /// How `S` comes about: which of the two versions of the application runs.
    Collective("collective") {
        /// An allreduce by recursive doubling between the shards.
        RecursiveDoubling = "recursive-doubling",
        /// An allreduce of each processor's shards first, then of the processors.
        TwoLevel = "two-level",
        /// The baseline: shards end each iteration, and a parent combines an aggregation region and starts them again.
        Aggregation = "aggregation",
    }
}

named! {
    /// Whether workers are bound to processors.
    Bind("binding") {
        /// The operating system moves them.
        None = "none",
        /// Each worker to a processor of its own, if there are enough.
        Cores = "cores",
    }
}

impl From<Bind> for Binding {
    fn from(bind: Bind) -> Self {
        match bind {
            Bind::None => Binding::None,
            Bind::Cores => Binding::Cores,
        }
    }
}

/// A name that stands for nothing; the message lists those that do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{name}`; expected one of {legal}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    legal: String,
}

/// What [`run`](crate::run) is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Shards; at least 1.
    pub shards: usize,
    /// Cells a shard, at least 4. `None` stands for 1000 or, with an input, for what the file gives; with an input, a
    /// number is accepted if it agrees with the file.
    pub cells: Option<usize>,
    /// Iterations a run; at least 1.
    pub iterations: usize,
    /// Runs; at least 1.
    pub repeat: usize,
    /// Which version of the application.
    pub collective: Collective,
    /// Iterations that a shard launches before it waits for the total of the oldest, where there is an allreduce; at 0 it
    /// waits for each.
    pub ahead: usize,
    /// Worker threads; at least 1 and at most [`MAX_WORKERS`].
    pub workers: usize,
    /// Which mapper.
    pub mapper: MapperSpec,
    /// Whether workers are bound.
    pub bind: Bind,
    /// How many of the workers run no leaf tasks and get no shards; fewer than there are.
    pub utility: usize,
    /// The machine in virtual time, in place of workers on threads.
    pub machine: Option<Arc<VirtualMachine>>,
    /// Whether races between the shards' tasks are looked for, which slows a run down.
    pub races: bool,
    /// A file with the first vector; without it the operator's dominant mode.
    pub input: Option<PathBuf>,
    /// A file for the last vector of the last run.
    pub output: Option<PathBuf>,
    /// A file for the trace of the last run, also of one that fails.
    pub trace: Option<PathBuf>,
}

/// Cells a shard where neither the user nor a file says.
pub const DEFAULT_CELLS: usize = 1000;

/// Worker threads a process may have.
pub const MAX_WORKERS: usize = 1024;

impl Default for Config {
    fn default() -> Self {
        Self {
            shards: 16,
            cells: None,
            iterations: 20,
            repeat: 10,
            collective: Collective::RecursiveDoubling,
            ahead: 2,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            mapper: MapperSpec::default(),
            bind: Bind::None,
            utility: 0,
            machine: None,
            races: false,
            input: None,
            output: None,
            trace: None,
        }
    }
}

impl Config {
    /// Processors that run the shards' tasks: the workers, or those of the machine in virtual time.
    pub fn processors(&self) -> usize {
        self.machine.as_ref().map_or(self.workers, |machine| machine.leaf_processors())
    }

    /// Checks what can be checked without touching a file.
    ///
    /// # Errors
    ///
    /// A count of 0, too many workers or utility processors, or fewer than 4 cells in a shard.
    pub fn check(&self) -> Result<(), StencilError> {
        let counts = [
            ("shards", self.shards),
            ("iterations", self.iterations),
            ("repeat", self.repeat),
            ("workers", self.workers),
        ];
        if let Some((what, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(StencilError::Zero { what });
        }
        // A machine in virtual time stands in place of workers, however many processors it has.
        let threads = self.machine.is_none();
        if threads && self.workers > MAX_WORKERS {
            return Err(StencilError::TooManyWorkers { workers: self.workers });
        }
        if threads && self.utility >= self.workers {
            return Err(StencilError::TooManyUtility { utility: self.utility, workers: self.workers });
        }
        if u32::try_from(self.shards).is_err() {
            return Err(StencilError::TooManyShards { shards: self.shards });
        }
        if let Some(cells) = self.cells.filter(|&cells| cells < MIN_CELLS) {
            let total = cells.saturating_mul(self.shards);
            return Err(StencilError::TooFewCells { total, shards: self.shards, smallest: cells });
        }
        Ok(())
    }

    /// Bytes that a run of `total` cells takes, an estimate on the low side: the vectors, the shards and the workers' rings.
    pub fn memory(&self, total: usize) -> u128 {
        const VECTORS: u128 = 4; // the first, d, the last, the last of the first run
        const PER_SHARD: u128 = 12800; // measured: 14.6 GiB for a million, on 131072 processors in virtual time
        const PER_PROCESSOR: u128 = 4096; // in virtual time
        const PER_ITERATION: u128 = 24; // √S and two times
        const PER_PAIR_OF_WORKERS: u128 = 256 * 64; // a ring
        let wide = |x: usize| x as u128;
        let workers = if self.machine.is_some() { 0 } else { self.workers };
        let processors = self.machine.as_ref().map_or(0, |m| u128::from(m.nodes) * u128::from(m.per_node));
        let history = if self.input.is_some() { wide(self.iterations) } else { 0 };
        (VECTORS + history)
            .saturating_mul(wide(total) * 8)
            .saturating_add(wide(self.shards) * PER_SHARD)
            .saturating_add(processors * PER_PROCESSOR)
            .saturating_add(wide(self.iterations) * PER_ITERATION)
            .saturating_add(wide(workers) * wide(workers) * PER_PAIR_OF_WORKERS)
    }

    /// Refuses a run of `total` cells that the memory available now can't hold, by [`Self::memory`].
    ///
    /// # Errors
    ///
    /// [`StencilError::Memory`].
    pub fn check_memory(&self, total: usize) -> Result<(), StencilError> {
        let needed = self.memory(total);
        let available = available_memory();
        if needed > u128::from(available) {
            return Err(StencilError::Memory {
                total,
                shards: self.shards,
                iterations: self.iterations,
                needed,
                available,
            });
        }
        Ok(())
    }
}

/// A number of bytes for people: `1.5 KiB`.
pub fn bytes(n: u128) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} bytes");
    }
    let (mut value, mut unit) = (n as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A summary of times, in microseconds. Without samples all are NaN, in JSON `null`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    /// The smallest.
    pub min: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The median; of an even number of samples, the mean of the middle two.
    pub median: f64,
    /// The 99th percentile by nearest rank: the smallest sample that at least 99% do not exceed.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Times {
    /// Summarises samples.
    pub fn of(samples: &[f64]) -> Self {
        let n = samples.len();
        if n == 0 {
            return Self { min: f64::NAN, mean: f64::NAN, median: f64::NAN, p99: f64::NAN, max: f64::NAN };
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            min: sorted[0],
            mean: sorted.iter().sum::<f64>() / n as f64,
            median: (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
            p99: sorted[(n * 99).div_ceil(100) - 1],
            max: sorted[n - 1],
        }
    }
}

/// The samples to summarise: where shards share workers, the means of the 1st and 2nd, the 3rd and 4th iteration and so on.
/// One shard is then early in every other iteration and late in those between, often by far more than an iteration's mean,
/// and a median would be that of either kind. A last one without a partner is left out, unless it is all there is.
pub fn alternating(samples: &[f64], shards: usize, workers: usize) -> Vec<f64> {
    if shards <= workers || samples.len() < 2 {
        return samples.to_vec();
    }
    samples.chunks_exact(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect()
}

/// What one run reports: the fields of a JSON line, in their order.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// `stencil`.
    pub program: &'static str,
    /// What carried the messages.
    pub wire: &'static str,
    /// Shards.
    pub shards: usize,
    /// Worker threads.
    pub workers: usize,
    /// Cells of the largest block: of every shard, unless an input makes blocks differ by one.
    pub cells: usize,
    /// Iterations of the run.
    pub iterations: usize,
    /// Which of the runs this is, from 0.
    pub repeat: usize,
    /// Which version of the application.
    pub collective: Collective,
    /// Which mapper.
    pub mapper: MapperSpec,
    /// Every cell and every √S is what it must be.
    pub verified: bool,
    /// The last √S.
    pub result: f64,
    /// What the last √S must be.
    pub expected: f64,
    /// `|result − expected| / expected`.
    pub error: f64,
    /// Times of the iterations, on shard 0: from one total to the next; with more shards than workers, means of two
    /// iterations (see [`alternating`]).
    pub iteration_us: Times,
    /// Times of the collective within them, likewise: on shard 0 from its local sum to the total.
    pub collective_us: Times,
    /// Cells of all shards together.
    pub total_cells: usize,
    /// The file the run started from; in JSON `null` without one.
    pub input: Option<String>,
    /// In virtual time, what the run took of the host.
    #[serde(flatten)]
    pub host: Option<HostRun>,
    /// What is wrong, if it is not verified. Not part of the JSON line.
    #[serde(skip)]
    pub failure: Option<String>,
    /// Every time, of which `iteration_us` and `collective_us` are summaries. Not part of the JSON line.
    #[serde(skip)]
    pub samples: Samples,
}

/// Times of one run, one of each kind for each iteration, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// Microseconds of each iteration, on shard 0.
    pub iteration_us: Vec<f64>,
    /// Microseconds of the collective within it.
    pub collective_us: Vec<f64>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum StencilError {
    /// A count that must be positive is 0.
    #[error("{what}: expected at least 1, found 0")]
    Zero {
        /// What is counted.
        what: &'static str,
    },
    /// More workers than a process may have.
    #[error("expected at most {MAX_WORKERS} workers, found {workers}")]
    TooManyWorkers {
        /// Workers asked for.
        workers: usize,
    },
    /// No worker is left for leaf tasks.
    #[error("expected fewer utility processors than the {workers} workers, found {utility}")]
    TooManyUtility {
        /// Utility processors asked for.
        utility: usize,
        /// Workers asked for.
        workers: usize,
    },
    /// More shards than can be numbered.
    #[error("expected at most {} shards, found {shards}", u32::MAX)]
    TooManyShards {
        /// Shards asked for.
        shards: usize,
    },
    /// A shard would have fewer than 4 cells.
    #[error("expected at least {MIN_CELLS} cells in a shard, found {smallest} ({total} cells over {shards} shards)")]
    TooFewCells {
        /// Cells altogether.
        total: usize,
        /// Shards.
        shards: usize,
        /// Cells in the smallest block.
        smallest: usize,
    },
    /// More cells than can be addressed.
    #[error("{shards} shards of {cells} cells are more cells than this machine can address")]
    TooManyCells {
        /// Shards.
        shards: usize,
        /// Cells a shard.
        cells: usize,
    },
    /// More memory than there is.
    #[error(
        "{total} cells over {shards} shards, {iterations} iterations: this needs at least {} of memory, and {} are available",
        bytes(*.needed), bytes(u128::from(*.available))
    )]
    Memory {
        /// Cells altogether.
        total: usize,
        /// Shards.
        shards: usize,
        /// Iterations.
        iterations: usize,
        /// Bytes needed.
        needed: u128,
        /// Bytes available.
        available: u64,
    },
    /// The number of cells asked for is not that of the file.
    #[error(
        "{}: holds {found} numbers, but {shards} shards of {cells} cells were asked for; leave the cells out", .path.display()
    )]
    CellsDisagree {
        /// The input.
        path: PathBuf,
        /// Numbers in it.
        found: usize,
        /// Shards asked for.
        shards: usize,
        /// Cells a shard asked for.
        cells: usize,
    },
    /// The file holds too few numbers for so many shards.
    #[error(
        "{}: holds {found} numbers, and a shard needs at least {MIN_CELLS}: enough for {}, not for {shards}", .path.display(),
        match .found / MIN_CELLS { 0 => "no shard".into(), 1 => "1 shard".into(), n => format!("at most {n} shards") }
    )]
    TooFewNumbers {
        /// The input.
        path: PathBuf,
        /// Numbers in it.
        found: usize,
        /// Shards asked for.
        shards: usize,
    },
    /// A file can't be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The trace can't be opened for writing.
    #[error(transparent)]
    Trace(maniple::runtime::Error),
    /// The derivative is zero everywhere, or so small that its squares are, so that there is no next vector.
    #[error(
        "iteration {iteration}: S = 0 (the vector's derivative vanishes, or its squares underflow: scale the input), so \
         there is no next vector"
    )]
    Vanished {
        /// The iteration, from 1.
        iteration: usize,
    },
    /// The sum of squares has left the range of 64-bit floats.
    #[error("iteration {iteration}: S = {sum}; the vector's values are too large")]
    Overflow {
        /// The iteration, from 1.
        iteration: usize,
        /// The sum of squares.
        sum: f64,
    },
    /// There is no such mapper, or it can't be made.
    #[error(transparent)]
    Mapper(#[from] SpecError),
    /// The runtime failed: not a fault of the arguments.
    #[error("the run failed: {0}")]
    Runtime(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StencilError {
    /// Whether the arguments or the files given are at fault, rather than the program.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Runtime(_))
    }
}
