//! The configuration of runs, their reports, and their errors.

use crate::blocks::MIN_CELLS;
use crate::host::{HostRun, available_memory};
use crate::io::FileError;
use maniple::mapper::{MapperSpec, SpecError};
use maniple::runtime::{Binding, Progress, Runtime, VirtualMachine};
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
    /// The way in which `S` is computed, and so the version of the application that runs.
    Collective("collective") {
        /// An allreduce by recursive doubling between the shards.
        RecursiveDoubling = "recursive-doubling",
        /// An allreduce in two levels: the shards of each processor first, then the processors.
        TwoLevel = "two-level",
        /// The baseline. Shards end in each iteration; an inner task adds up their sums and launches them again.
        Aggregation = "aggregation",
    }
}

named! {
    /// Whether workers are bound to processors.
    Bind("binding") {
        /// Not bound: the operating system may move them.
        None = "none",
        /// Each worker is bound to a processor of its own, if there are enough.
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

/// An unknown name. The message lists the known ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{name}`; expected one of {legal}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    legal: String,
}

/// The configuration of runs, for [`run`](crate::run) and [`Session`](crate::Session).
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Shards; at least 1.
    pub shards: usize,
    /// Cells of each shard, at least 4. `None` stands for 1000 or, with an input, for the number that the file gives. With
    /// an input, a number must agree with the file.
    pub cells: Option<usize>,
    /// Iterations of each run; at least 1.
    pub iterations: usize,
    /// Runs; at least 1.
    pub repeat: usize,
    /// The version of the application.
    pub collective: Collective,
    /// In the versions with an allreduce: iterations that a shard launches ahead before it waits for the total of the
    /// oldest. With 0 it waits for each.
    pub ahead: usize,
    /// Worker threads of each process; at least 1 and at most [`MAX_WORKERS`] in all.
    pub workers: usize,
    /// The processes of the run; `None` for this process alone.
    pub processes: Option<Processes>,
    /// The mapper.
    pub mapper: MapperSpec,
    /// Whether workers are bound to processors.
    pub bind: Bind,
    /// Utility processors: workers that run no leaf tasks, and only shards that the mapper places there. Fewer than the workers.
    pub utility: usize,
    /// The machine in virtual time, in place of workers on threads.
    pub machine: Option<Arc<VirtualMachine>>,
    /// Whether to look for races between the shards' tasks, which slows a run down.
    pub races: bool,
    /// A file with the first vector. Without it, runs start from the operator's dominant mode.
    pub input: Option<PathBuf>,
    /// A file for the last vector of the last run.
    pub output: Option<PathBuf>,
    /// A file for the trace of the last run, including one that fails.
    pub trace: Option<PathBuf>,
}

/// The processes of a run on several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processes {
    /// How many there are.
    pub number: usize,
    /// How many there are on the host that has most of them.
    pub on_host: usize,
    /// Whether a launcher of MPI has started them. Else the first one starts the others, on this host.
    pub launched: bool,
    /// Who sees to the messages between hosts.
    pub progress: Progress,
}

impl Processes {
    /// The name of the wire.
    pub fn wire(&self) -> &'static str {
        if self.launched { "mpi" } else { "processes" }
    }

    /// A runtime on them, with so many workers in each.
    pub fn runtime(&self, workers: u32) -> Runtime {
        let number = u32::try_from(self.number).unwrap_or(u32::MAX);
        let runtime = if self.launched { Runtime::mpi() } else { Runtime::processes(number) };
        runtime.workers(workers).progress(self.progress)
    }
}

/// Cells of each shard where neither the user nor a file gives a number.
pub const DEFAULT_CELLS: usize = 1000;

/// The most worker threads of a process.
pub const MAX_WORKERS: usize = 1024;

/// Iterations ahead, unless the user gives a number.
const DEFAULT_AHEAD: usize = 2;

impl Default for Config {
    fn default() -> Self {
        Self {
            shards: 16,
            cells: None,
            iterations: 20,
            repeat: 10,
            collective: Collective::RecursiveDoubling,
            ahead: DEFAULT_AHEAD,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            processes: None,
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
        self.machine.as_ref().map_or(self.all_workers(), |machine| machine.leaf_processors())
    }

    /// The workers of all processes.
    fn all_workers(&self) -> usize {
        self.workers.saturating_mul(self.processes.map_or(1, |p| p.number))
    }

    /// The settings that a report has to name: those that differ from the defaults.
    pub fn settings(&self) -> Settings {
        let machine = self.machine.as_deref();
        let noisy = machine.filter(|m| m.noise > 0.0);
        let with_ahead = self.collective != Collective::Aggregation;
        Settings {
            machine: machine.map(|m| m.name.clone()),
            nodes: machine.map(|m| m.nodes),
            noise: noisy.map(|m| m.noise),
            noise_seed: noisy.map(|m| m.seed),
            ahead: (with_ahead && self.ahead != DEFAULT_AHEAD).then_some(self.ahead),
            bind: (self.bind != Bind::None).then_some(self.bind),
            utility: (self.utility > 0).then_some(self.utility),
            processes: self.processes.map(|p| p.number),
            check: self.races.then_some("races"),
        }
    }

    /// Checks all that can be checked without touching a file.
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
            ("processes", self.processes.map_or(1, |p| p.number)),
        ];
        if let Some((what, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(StencilError::Zero { what });
        }
        // A machine in virtual time stands in place of workers, however many processors it has.
        let threads = self.machine.is_none();
        if threads && self.all_workers() > MAX_WORKERS {
            return Err(StencilError::TooManyWorkers { workers: self.all_workers() });
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

    /// Bytes that a run of `total` cells needs on a host: the vectors, the shards and the workers' rings. The estimate is
    /// low rather than high.
    pub fn memory(&self, total: usize) -> u128 {
        const PER_SHARD: u128 = 12800; // measured: 14.6 GiB for a million, on 131072 processors in virtual time
        const PER_PROCESSOR: u128 = 4096; // in virtual time
        const PER_ITERATION: u128 = 24; // √S and two times
        const PER_PAIR_OF_WORKERS: u128 = 256 * 64; // a ring
        let wide = |x: usize| x as u128;
        let workers = if self.machine.is_some() { 0 } else { self.all_workers() };
        let processors = self.machine.as_ref().map_or(0, |m| u128::from(m.nodes) * u128::from(m.per_node));
        let (number, on_host) = self.processes.map_or((1, 1), |p| (wide(p.number).max(1), wide(p.on_host)));
        // d is spread over all processes. Each has all that is read from a file, and the vector after each iteration.
        let copies = if self.input.is_some() { on_host * (1 + wide(self.iterations)) } else { 0 };
        (copies.saturating_mul(wide(total) * 8))
            .saturating_add(wide(total) * 8 * on_host / number)
            .saturating_add(wide(self.shards) * PER_SHARD)
            .saturating_add(processors * PER_PROCESSOR)
            .saturating_add(wide(self.iterations) * PER_ITERATION)
            .saturating_add(wide(workers) * wide(workers) * PER_PAIR_OF_WORKERS)
    }

    /// Checks that the memory available now can hold a run of `total` cells, by [`Self::memory`].
    ///
    /// # Errors
    ///
    /// [`StencilError::Memory`] if it can't.
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

/// A number with its noun, for messages: `1 shard`, `2 shards`.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A number of processes, for messages.
pub fn processes(count: usize) -> String {
    if count == 1 { "1 process".into() } else { format!("{count} processes") }
}

/// A number of bytes for people: `1.5 KiB`.
pub fn bytes(n: u128) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return plural(n as usize, "byte");
    }
    let (mut value, mut unit) = (n as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A summary of times, in microseconds. Without samples all of them are NaN, in JSON `null`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    /// The smallest.
    pub min: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The median; of an even number of samples, the mean of the middle two.
    pub median: f64,
    /// The 99th percentile by nearest rank: the smallest sample that at least 99% do not exceed. With fewer than 100
    /// samples it is the largest.
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

/// The samples to summarise. Where shards share workers, they are the means of two iterations: the 1st and 2nd, the 3rd and
/// 4th, and so on.
///
/// A shard that shares its worker is early in every other iteration and late in those between. The difference is often far
/// more than the mean of an iteration, so a median of single iterations would be that of one kind. A last iteration without
/// a partner is left out, unless it is the only one.
pub fn alternating(samples: &[f64], shards: usize, workers: usize) -> Vec<f64> {
    if shards <= workers || samples.len() < 2 {
        return samples.to_vec();
    }
    samples.chunks_exact(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect()
}

/// The settings of a run that differ from the defaults. JSON has a field for each that is `Some`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Settings {
    /// In virtual time, the name of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// In virtual time, the nodes of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Noise of the machine, as a part of each latency and each leaf task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// The seed of the noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_seed: Option<u64>,
    /// Iterations ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<usize>,
    /// How workers are bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<Bind>,
    /// Utility processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utility: Option<usize>,
    /// Processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<usize>,
    /// What the run was checked for: `races`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<&'static str>,
}

impl Settings {
    /// The names and values of those that are `Some`, in the order of the fields.
    pub fn given(&self) -> Vec<(&'static str, String)> {
        let Self { machine, nodes, noise, noise_seed, ahead, bind, utility, processes, check } = self;
        let all = [
            ("machine", machine.clone()),
            ("nodes", nodes.map(|n| n.to_string())),
            ("noise", noise.map(|n| n.to_string())),
            ("noise_seed", noise_seed.map(|n| n.to_string())),
            ("ahead", ahead.map(|n| n.to_string())),
            ("bind", bind.map(|b| b.to_string())),
            ("utility", utility.map(|n| n.to_string())),
            ("processes", processes.map(|n| n.to_string())),
            ("check", check.map(str::to_owned)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// The report of one run: the fields of a JSON line, in their order.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// `stencil`.
    pub program: &'static str,
    /// The wire: `threads`, `processes` or `virtual`.
    pub wire: &'static str,
    /// Shards.
    pub shards: usize,
    /// Worker threads; in virtual time, processors that run leaf tasks.
    pub workers: usize,
    /// Cells of the largest block. All blocks have as many, unless an input makes some of them smaller by one.
    pub cells: usize,
    /// Iterations of the run.
    pub iterations: usize,
    /// The number of the run, from 0.
    pub repeat: usize,
    /// The version of the application.
    pub collective: Collective,
    /// The mapper.
    pub mapper: MapperSpec,
    /// Whether every cell and every √S is right.
    pub verified: bool,
    /// The last √S.
    pub result: f64,
    /// The expected value of the last √S.
    pub expected: f64,
    /// `|result − expected| / expected`.
    pub error: f64,
    /// Times of the iterations on shard 0, from one total to the next. With more shards than workers they are means of two
    /// iterations (see [`alternating`]).
    pub iteration_us: Times,
    /// Times of the collective within the iterations, on shard 0, from its local sum to the total. With more shards than
    /// workers they are means of two, too.
    pub collective_us: Times,
    /// Cells of all shards together.
    pub total_cells: usize,
    /// The file the run started from; in JSON `null` without one.
    pub input: Option<String>,
    /// The settings that differ from the defaults.
    #[serde(flatten)]
    pub settings: Settings,
    /// In virtual time, the events of the run, and the time and memory used.
    #[serde(flatten)]
    pub host: Option<HostRun>,
    /// The first thing that is wrong, if the run is not verified. Not part of the JSON line.
    #[serde(skip)]
    pub failure: Option<String>,
    /// All times of the run; `iteration_us` and `collective_us` summarise them. Not part of the JSON line.
    #[serde(skip)]
    pub samples: Samples,
}

impl RunReport {
    /// How many samples [`Self::iteration_us`] and [`Self::collective_us`] summarise.
    pub fn summarised(&self) -> usize {
        alternating(&self.samples.iteration_us, self.shards, self.workers).len()
    }
}

/// Times of one run: one of each kind for each iteration, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// Microseconds of each iteration, on shard 0.
    pub iteration_us: Vec<f64>,
    /// Microseconds of the collective within each iteration.
    pub collective_us: Vec<f64>,
}

/// The errors of runs.
#[derive(Debug, thiserror::Error)]
pub enum StencilError {
    /// A count that must be positive is 0.
    #[error("{what}: expected at least 1, found 0")]
    Zero {
        /// The name of the count.
        what: &'static str,
    },
    /// More workers than a process may have.
    #[error("expected at most {MAX_WORKERS} workers, found {workers}")]
    TooManyWorkers {
        /// Workers asked for.
        workers: usize,
    },
    /// No worker is left for leaf tasks.
    #[error("expected fewer utility processors than {}, found {utility}", plural(*.workers, "worker"))]
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
    #[error(
        "expected at least {MIN_CELLS} cells in a shard, found {smallest} ({} over {})",
        plural(*.total, "cell"), plural(*.shards, "shard")
    )]
    TooFewCells {
        /// Cells altogether.
        total: usize,
        /// Shards.
        shards: usize,
        /// Cells in the smallest block.
        smallest: usize,
    },
    /// More cells than can be addressed.
    #[error("{} of {} are more cells than this machine can address", plural(*.shards, "shard"), plural(*.cells, "cell"))]
    TooManyCells {
        /// Shards.
        shards: usize,
        /// Cells of each shard.
        cells: usize,
    },
    /// More memory than there is.
    #[error(
        "{} over {}, {}: this needs at least {} of memory, and {} are available",
        plural(*.total, "cell"), plural(*.shards, "shard"), plural(*.iterations, "iteration"),
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
    /// The number of cells asked for differs from that of the file.
    #[error(
        "{}: holds {}, but {} of {} were asked for; leave the cells out",
        .path.display(), plural(*.found, "number"), plural(*.shards, "shard"), plural(*.cells, "cell")
    )]
    CellsDisagree {
        /// The input.
        path: PathBuf,
        /// Numbers in it.
        found: usize,
        /// Shards asked for.
        shards: usize,
        /// Cells of each shard asked for.
        cells: usize,
    },
    /// The file holds too few numbers for so many shards.
    #[error(
        "{}: holds {}, and a shard needs at least {MIN_CELLS}: enough for {}, not for {shards}",
        .path.display(), plural(*.found, "number"),
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
    /// The trace can't be written.
    #[error("{}", trace_text(.0))]
    Trace(maniple::runtime::Error),
    /// The derivative is zero everywhere, or so small that its squares are zero. So there is no next vector.
    #[error(
        "iteration {iteration}: S = 0, so there is no next vector; the vector's derivative vanishes, or its squares \
         underflow (then scale the input)"
    )]
    Vanished {
        /// The iteration, from 1.
        iteration: usize,
    },
    /// The sum of squares is beyond the range of 64-bit floats.
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
    /// The runtime failed. The arguments are not at fault.
    #[error("the run failed: {0}")]
    Runtime(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A trace that can't be written, in the words for all files.
fn trace_text(e: &maniple::runtime::Error) -> String {
    match e {
        maniple::runtime::Error::Trace { path, message } => format!("{path}: can't be written: {message}"),
        e => e.to_string(),
    }
}

impl StencilError {
    /// Whether the arguments or the given files are at fault, rather than the program.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Runtime(_))
    }
}
