#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![doc = include_str!("../README.md")]

pub mod blocks;
mod config;
mod host;
pub mod io;
pub mod kernel;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod reference;
pub mod shards;

pub use blocks::Blocks;
pub use config::{
    Bind, Collective, Config, DEFAULT_CELLS, MAX_WORKERS, Processes, RunReport, Samples, Settings, StencilError, Times,
    UnknownName, alternating, bytes, plural,
};

pub use host::{HostRun, available_memory, reported_bytes};

use maniple::runtime::Runtime;
use maniple::runtime::{Check, TraceFile};
use reference::DominantMode;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The result of a simulation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunOutcome {
    /// The wire: `threads`, `processes`, `virtual`, `mpi` or `sequential`.
    pub wire: &'static str,
    /// √S of each iteration.
    pub roots: Vec<f64>,
    /// With an input, the vector after each iteration; without one, only the last vector.
    pub vectors: Vec<Vec<f64>>,
    /// Time of each iteration, in microseconds.
    pub iteration_us: Vec<f64>,
    /// Time of the collective within each, in microseconds.
    pub collective_us: Vec<f64>,
    /// In virtual time, the events of the run, and the time and memory used.
    pub host: Option<HostRun>,
}

/// Does all runs of `config`, writes the output if there is to be one, and reports each run. Waits.
///
/// A run that fails verification is an `Ok` with `verified: false`. Then no output is written.
///
/// # Errors
///
/// - Bad arguments or input.
/// - An output that can't be written, which is found before the first run where possible.
/// - An S that vanishes or overflows.
/// - A failure of the runtime.
/// - A trace that could not be written. [`Session`] keeps the reports in that case.
pub fn run(config: &Config) -> Result<Vec<RunReport>, StencilError> {
    let mut session = Session::prepare(config)?;
    let reports = (0..config.repeat).map(|_| session.run_once()).collect::<Result<_, _>>()?;
    session.finish()?;
    Ok(reports)
}

/// Does the runs of one configuration, one at a time.
#[derive(Debug)]
pub struct Session {
    config: Config,
    blocks: Blocks,
    start: Arc<[f64]>,
    target: Option<io::Target>,
    trace: Option<TraceFile>,
    /// Runs done.
    done: usize,
    /// The final vector of the first run, which the others must repeat bit for bit.
    last: Vec<f64>,
    all_verified: bool,
}

impl Session {
    /// Checks the arguments, reads the input and makes the mapper. Output and trace are checked, but not changed yet.
    ///
    /// # Errors
    ///
    /// Bad arguments or input, a mapper that can't be made, or an output or a trace that can't be written.
    pub fn prepare(config: &Config) -> Result<Self, StencilError> {
        config.check()?;
        let target = config.output.as_deref().map(io::Target::prepare).transpose()?;
        let (blocks, start) = match &config.input {
            Some(path) => Self::from_file(config, path)?,
            None => {
                let blocks = Blocks::uniform(config.shards, config.cells.unwrap_or(DEFAULT_CELLS))?;
                config.check_memory(blocks.total())?;
                (blocks, DominantMode::new(blocks.total()).vector(0).collect())
            }
        };
        let trace = config.trace.as_ref().map(TraceFile::create).transpose().map_err(StencilError::Trace)?;
        config.mapper.slot(&maniple::plugin::load)?;
        Ok(Self {
            config: config.clone(),
            blocks,
            start: start.into(),
            target,
            trace,
            done: 0,
            last: Vec::new(),
            all_verified: true,
        })
    }

    fn from_file(config: &Config, path: &Path) -> Result<(Blocks, Vec<f64>), StencilError> {
        let start = io::read(path)?;
        let found = start.len();
        if let Some(cells) = config.cells
            && config.shards.checked_mul(cells) != Some(found)
        {
            return Err(StencilError::CellsDisagree { path: path.to_owned(), found, shards: config.shards, cells });
        }
        let blocks = Blocks::balanced(config.shards, found).map_err(|e| match e {
            StencilError::TooFewCells { shards, .. } => {
                StencilError::TooFewNumbers { path: path.to_owned(), found, shards }
            }
            e => e,
        })?;
        config.check_memory(found)?;
        Ok((blocks, start))
    }

    /// The block of cells of each shard.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Does one run and verifies it. Waits.
    ///
    /// If its trace can't be written, [`Session::finish`] reports the error.
    ///
    /// # Errors
    ///
    /// An S that vanishes or overflows, or a failure of the runtime.
    pub fn run_once(&mut self) -> Result<RunReport, StencilError> {
        let config = &self.config;
        let outcome = simulate(config, &self.blocks, &self.start, self.trace.as_ref())?;
        let mut verdict = match (&config.input, outcome.vectors.last()) {
            (Some(_), _) => reference::verify_steps(&self.start, &outcome.roots, &outcome.vectors),
            (None, last) => {
                let mode = DominantMode::new(self.blocks.total());
                reference::verify_mode(&mode, &outcome.roots, last.map_or(&[], Vec::as_slice))
            }
        };
        if outcome.roots.len() != config.iterations {
            let expected = plural(config.iterations, "iteration");
            let failure = format!("expected {expected}, found {}", outcome.roots.len());
            verdict.failure.get_or_insert(failure);
        }
        let last = outcome.vectors.into_iter().next_back().unwrap_or_default();
        if self.done == 0 {
            self.last = last;
        } else if let Some(failure) = not_repeated(&self.last, &last) {
            verdict.failure.get_or_insert(failure);
        }
        let times = |samples: &[f64]| Times::of(&alternating(samples, config.shards, config.processors()));
        let report = RunReport {
            program: "stencil",
            wire: outcome.wire,
            shards: config.shards,
            workers: config.processors(),
            cells: self.blocks.largest(),
            iterations: config.iterations,
            repeat: self.done,
            collective: config.collective,
            mapper: config.mapper.clone(),
            verified: verdict.failure.is_none(),
            result: outcome.roots.last().copied().unwrap_or(f64::NAN),
            expected: verdict.expected,
            error: verdict.error,
            iteration_us: times(&outcome.iteration_us),
            collective_us: times(&outcome.collective_us),
            total_cells: self.blocks.total(),
            input: config.input.as_ref().map(|path| path.display().to_string()),
            settings: config.settings(),
            host: outcome.host,
            failure: verdict.failure,
            samples: Samples { iteration_us: outcome.iteration_us, collective_us: outcome.collective_us },
        };
        self.done += 1;
        self.all_verified &= report.verified;
        Ok(report)
    }

    /// Writes the output, if there is to be one and all runs were verified. Returns whether it wrote one.
    ///
    /// # Errors
    ///
    /// The output can't be written after all; an older file of that name stays as it was. Or the trace of the last run
    /// could not be written; the output is written in that case.
    pub fn finish(self) -> Result<bool, StencilError> {
        let written = match &self.target {
            Some(target) if self.all_verified && self.done > 0 => {
                target.write(&self.last)?;
                true
            }
            _ => false,
        };
        self.trace.map_or(Ok(()), |file| file.written()).map_err(StencilError::Trace)?;
        Ok(written)
    }
}

/// The first difference in any bit between two vectors; `None` if they are the same.
fn not_repeated(first: &[f64], again: &[f64]) -> Option<String> {
    if first.len() != again.len() {
        return Some(format!("expected {} as in the first run, found {}", plural(first.len(), "cell"), again.len()));
    }
    let (i, (a, b)) = first.iter().zip(again).enumerate().find(|(_, (a, b))| a.to_bits() != b.to_bits())?;
    Some(format!("cell {i}: expected the bits of the first run, {a:?}, found {b:?}"))
}

/// Runs the application on the blocks, starting from the vector `start`. With an input, the outcome holds every vector.
fn simulate(
    config: &Config,
    blocks: &Blocks,
    start: &Arc<[f64]>,
    trace: Option<&TraceFile>,
) -> Result<RunOutcome, StencilError> {
    let workers = u32::try_from(config.workers).unwrap_or(u32::MAX);
    let mapper = config.mapper.slot(&maniple::plugin::load)?;
    let input = shards::Problem {
        sizes: (0..blocks.shards()).map(|s| blocks.range(s).len()).collect(),
        start: start.clone(),
        iterations: config.iterations,
        ahead: config.ahead,
        history: config.input.is_some(),
    };
    // Checked with the rest: fewer than the workers.
    let utility = u32::try_from(config.utility).unwrap_or(u32::MAX);
    let (wire, runtime) = match (&config.machine, config.processes) {
        (Some(machine), _) => ("virtual", Runtime::virtual_time((**machine).clone())),
        (None, Some(processes)) => (processes.wire(), processes.runtime(workers)),
        (None, None) => ("threads", Runtime::threads(workers)),
    };
    let runtime = match config.machine {
        Some(_) => runtime,
        None => runtime.binding(config.bind.into()).utility(utility),
    };
    let mut runtime = runtime.mapper(mapper);
    if let Some(file) = trace {
        runtime = runtime.trace(file.clone());
    }
    if config.races {
        runtime = runtime.check(Check::Races);
    }
    let began = Instant::now();
    let output = shards::simulate(&runtime, config.collective, &input).map_err(|e| StencilError::Runtime(e.into()))?;
    let host = HostRun::of(&output.stats, began.elapsed());
    let shards::Output { sums, vectors, iteration_us, collective_us, .. } = output;
    let roots = (1..).zip(sums).map(|(i, sum)| kernel::root(i, sum)).collect::<Result<_, _>>()?;
    Ok(RunOutcome { wire, roots, vectors, iteration_us, collective_us, host })
}
