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
    UnknownName, alternating, bytes, plural, processes,
};

pub use host::{HostRun, available_memory, reported_bytes};

use io::FileError;
use maniple::runtime::{Check, Runtime, TraceFile};
use reference::{BlockCheck, DominantMode};
use shards::{Keep, Sink, Start};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The result of a simulation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunOutcome {
    /// The wire: `threads`, `processes`, `virtual`, `mpi` or `sequential`.
    pub wire: &'static str,
    /// √S of each iteration.
    pub roots: Vec<f64>,
    /// The vector after each iteration, or only the last. None where the blocks of the last one were checked in their places.
    pub vectors: Vec<Vec<f64>>,
    /// What was found of each block of the last vector.
    pub blocks: Vec<BlockCheck>,
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
    start: Start,
    /// The file for the output, which the first of several processes writes.
    target: Option<io::Target>,
    /// The output, once the last run has begun.
    writing: Arc<Mutex<Option<Result<Writing, FileError>>>>,
    trace: Option<TraceFile>,
    /// Runs done.
    done: usize,
    /// The blocks of the final vector of the first run, which the others must repeat bit for bit.
    first: Vec<BlockCheck>,
    all_verified: bool,
}

/// An output of which some cells are written.
#[derive(Debug)]
struct Writing {
    file: io::Writing,
    cells: usize,
}

impl Writing {
    /// Takes a piece of the last vector, which may come several times.
    fn take(this: &Mutex<Option<Result<Self, FileError>>>, first: usize, piece: &[f64]) {
        let mut this = this.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(writing)) = &mut *this
            && writing.cells == first
        {
            writing.cells += piece.len();
            if let Err(e) = writing.file.add(piece) {
                *this = Some(Err(e));
            }
        }
    }
}

impl Session {
    /// Checks the arguments, reads the input and makes the mapper. Output and trace are checked, but not changed yet.
    ///
    /// # Errors
    ///
    /// Bad arguments or input, a mapper that can't be made, or an output or a trace that can't be written.
    pub fn prepare(config: &Config) -> Result<Self, StencilError> {
        config.check()?;
        let output = config.output.as_deref().filter(|_| Runtime::process_number() == 0);
        let target = output.map(io::Target::prepare).transpose()?;
        let (blocks, start) = match &config.input {
            Some(path) => {
                let (blocks, start) = Self::from_file(config, path)?;
                (blocks, Start::Vector(start.into()))
            }
            None => {
                let blocks = Blocks::uniform(config.shards, config.cells.unwrap_or(DEFAULT_CELLS))?;
                config.check_memory(blocks.total())?;
                (blocks, Start::Mode(DominantMode::new(blocks.total())))
            }
        };
        let trace = config.trace.as_ref().map(TraceFile::create).transpose().map_err(StencilError::Trace)?;
        config.mapper.slot(&maniple::plugin::load)?;
        Ok(Self {
            config: config.clone(),
            blocks,
            start,
            target,
            writing: Arc::default(),
            trace,
            done: 0,
            first: Vec::new(),
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
        // All processes have a sink if one does: they make the same launches.
        let is_last = self.done + 1 == config.repeat;
        let sink = config.output.as_ref().filter(|_| is_last).map(|_| self.sink());
        let outcome = simulate(config, &self.blocks, &self.start, sink, self.trace.as_ref())?;
        let mut verdict = match &self.start {
            Start::Vector(start) => reference::verify_steps(start, &outcome.roots, &outcome.vectors),
            Start::Mode(mode) => reference::verify_blocks(mode, &outcome.roots, &outcome.blocks),
        };
        if outcome.roots.len() != config.iterations {
            let expected = plural(config.iterations, "iteration");
            let failure = format!("expected {expected}, found {}", outcome.roots.len());
            verdict.failure.get_or_insert(failure);
        }
        if self.done == 0 {
            self.first = outcome.blocks;
        } else if let Some(failure) = not_repeated(&self.first, &outcome.blocks) {
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

    /// Begins to write the output, if this process writes it. Returns what takes the last vector.
    fn sink(&self) -> Sink {
        let begun =
            self.target.as_ref().map(|target| Ok(Writing { file: target.begin(self.blocks.total())?, cells: 0 }));
        *self.writing.lock().unwrap_or_else(PoisonError::into_inner) = begun;
        let writing = self.writing.clone();
        Sink(Arc::new(move |first, piece| Writing::take(&writing, first, piece)))
    }

    /// Gives the output its name, if there is to be one, all runs of the configuration are done, and all were verified.
    /// Returns whether this process wrote one.
    ///
    /// # Errors
    ///
    /// The output can't be written after all; an older file of that name stays as it was. Or the trace of the last run
    /// could not be written; the output is written in that case.
    pub fn finish(self) -> Result<bool, StencilError> {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let written = match writing {
            Some(writing) if self.all_verified => {
                writing?.file.finish()?;
                true
            }
            _ => false,
        };
        self.trace.map_or(Ok(()), |file| file.written()).map_err(StencilError::Trace)?;
        Ok(written)
    }
}

/// The first block that differs in any bit between two vectors; `None` if there is none.
fn not_repeated(first: &[BlockCheck], again: &[BlockCheck]) -> Option<String> {
    if first.len() != again.len() {
        return Some(format!("expected {} as in the first run, found {}", plural(first.len(), "block"), again.len()));
    }
    let (i, (a, b)) = first.iter().zip(again).enumerate().find(|(_, (a, b))| (a.cells, a.hash) != (b.cells, b.hash))?;
    Some(format!(
        "block {i}: expected the bits of the first run (hash {:016x}), found others (hash {:016x})",
        a.hash, b.hash
    ))
}

/// Runs the application on the blocks. With an input, the outcome holds every vector.
fn simulate(
    config: &Config,
    blocks: &Blocks,
    start: &Start,
    sink: Option<Sink>,
    trace: Option<&TraceFile>,
) -> Result<RunOutcome, StencilError> {
    let mapper = config.mapper.slot(&maniple::plugin::load)?;
    let input = shards::Problem {
        sizes: (0..blocks.shards()).map(|s| blocks.range(s).len()).collect(),
        start: start.clone(),
        iterations: config.iterations,
        ahead: config.ahead,
        keep: match start {
            Start::Vector(_) => Keep::Each,
            Start::Mode(mode) => Keep::Check(*mode),
        },
        sink,
    };
    // Checked with the rest: fewer than the workers.
    let utility = u32::try_from(config.utility).unwrap_or(u32::MAX);
    let workers = u32::try_from(config.workers).unwrap_or(u32::MAX);
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
    let shards::Output { sums, vectors, checks, iteration_us, collective_us, .. } = output;
    let roots = (1..).zip(sums).map(|(i, sum)| kernel::root(i, sum)).collect::<Result<_, _>>()?;
    let of_last =
        |last: &Vec<f64>| blocks.ranges().map(|cells| BlockCheck::of(last.get(cells).unwrap_or_default())).collect();
    let blocks = vectors.last().map_or(checks, of_last);
    Ok(RunOutcome { wire, roots, vectors, blocks, iteration_us, collective_us, host })
}
