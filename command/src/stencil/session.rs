//! The runs of one configuration of the stencil, one at a time.

use super::times::Times;
use crate::Failure;
use crate::arrays::{self, Target, Writing};
use crate::host::HostRun;
use crate::options::numbers::{at_least_one, check_memory, zero};
use crate::options::wire::Processes;
use crate::options::workers::{Bind, Place, Processors, workers_of_host};
use crate::options::{CELLS, ITERATIONS, REPEAT, SHARDS};
use maniple::mapper::MapperSpec;
use maniple::runtime::{Runtime, VirtualMachine};
use maniple_stencil::reference::BlockCheck;
use maniple_stencil::{
    AHEAD, Blocks, Checkpoints, Collective, Outcome, Problem, Sink, StencilError, alternating, plural,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The configuration of runs.
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
    /// Iterations that a shard launches ahead, in the versions with an allreduce.
    pub ahead: usize,
    /// Worker threads of each process.
    pub workers: usize,
    /// The processes of the run; `None` for this process alone.
    pub processes: Option<Processes>,
    /// The machine in virtual time, in place of workers on threads.
    pub machine: Option<Arc<VirtualMachine>>,
    /// Whether workers are bound to processors.
    pub bind: Bind,
    /// Utility processors.
    pub utility: usize,
    /// The mapper.
    pub mapper: MapperSpec,
    /// Whether to look for races between the shards' tasks.
    pub races: bool,
    /// A file with the first vector. Without it, runs start from the operator's dominant mode.
    pub input: Option<PathBuf>,
    /// Keeps checkpoints.
    pub checkpoints: Option<Checkpoints>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            shards: SHARDS,
            cells: None,
            iterations: ITERATIONS,
            repeat: REPEAT,
            collective: Collective::default(),
            ahead: AHEAD,
            workers: workers_of_host(),
            processes: None,
            machine: None,
            bind: Bind::None,
            utility: 0,
            mapper: MapperSpec::default(),
            races: false,
            input: None,
            checkpoints: None,
        }
    }
}

impl Config {
    fn on(&self) -> Processors {
        let place = match (&self.machine, self.processes) {
            (Some(machine), _) => Place::Machine(machine.clone()),
            (None, Some(processes)) => Place::Processes(processes),
            (None, None) => Place::Threads,
        };
        Processors { place, workers: self.workers, bind: self.bind, utility: self.utility }
    }

    /// A runtime on the processors.
    pub fn runtime(&self) -> Runtime {
        self.on().runtime()
    }

    /// Processors that run the shards' tasks: the workers, or the processors of the machine in virtual time.
    pub fn processors(&self) -> usize {
        self.on().count()
    }

    /// The name of the wire.
    pub fn wire(&self) -> &'static str {
        self.on().place.wire()
    }

    /// Checks the counts.
    fn check(&self) -> Result<(), Failure> {
        at_least_one("shards", self.shards)?;
        at_least_one("iterations", self.iterations)?;
        at_least_one("repeat", self.repeat)?;
        self.on().check()
    }

    /// Checks all that can be checked before a run from the dominant mode with `cells` cells in each shard.
    pub fn check_run(&self, cells: usize) -> Result<(), Failure> {
        self.check()?;
        let blocks = Blocks::uniform(self.shards, cells).map_err(failure)?;
        self.check_memory(blocks.total())
    }

    /// Bytes that a run of `total` cells needs on a host: the vectors, the shards and the workers' rings. The estimate is
    /// low rather than high.
    pub fn memory(&self, total: usize) -> u128 {
        const PER_SHARD: u128 = 12800; // measured: 14.6 GiB for a million, on 131072 processors in virtual time
        const PER_PROCESSOR: u128 = 4096; // in virtual time
        const PER_ITERATION: u128 = 24; // √S and two times
        const PER_PAIR_OF_WORKERS: u128 = 256 * 64; // a ring
        let wide = |x: usize| x as u128;
        let workers = if self.machine.is_some() { 0 } else { self.processors() };
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
    pub fn check_memory(&self, total: usize) -> Result<(), Failure> {
        let [cells, shards] = [plural(total, "cell"), plural(self.shards, "shard")];
        let what = format!("{cells} over {shards}, {}", plural(self.iterations, "iteration"));
        check_memory(&what, 1, self.memory(total))
    }

    /// The blocks of the shards, and the problem.
    fn problem(&self) -> Result<(Blocks, Problem), Failure> {
        let (blocks, problem) = match &self.input {
            Some(path) => {
                let start = arrays::read_vector(path)?;
                let blocks = self.blocks_of(path, start.len())?;
                (blocks, Problem::from_vector(&blocks, start, self.iterations))
            }
            None => {
                let blocks = Blocks::uniform(self.shards, self.cells.unwrap_or(CELLS)).map_err(failure)?;
                self.check_memory(blocks.total())?;
                (blocks, Problem::from_mode(&blocks, self.iterations))
            }
        };
        Ok((blocks, Problem { ahead: self.ahead, checkpoints: self.checkpoints.clone(), ..problem }))
    }

    /// The blocks for the numbers of a file.
    fn blocks_of(&self, path: &Path, found: usize) -> Result<Blocks, Failure> {
        let (shards, holds) = (self.shards, format!("{}: holds {}", path.display(), plural(found, "number")));
        if let Some(cells) = self.cells.filter(|&cells| shards.checked_mul(cells) != Some(found)) {
            let asked = format!("{} of {}", plural(shards, "shard"), plural(cells, "cell"));
            return Err(Failure::Usage(format!("{holds}, but {asked} were asked for; leave the cells out")));
        }
        let blocks = Blocks::balanced(shards, found).map_err(|e| match e {
            StencilError::TooFewCells { .. } => {
                let least = maniple_stencil::MIN_CELLS;
                let enough = match found / least {
                    0 => "no shard".into(),
                    1 => "1 shard".into(),
                    n => format!("at most {n} shards"),
                };
                let why = format!("a shard needs at least {least}: enough for {enough}, not for {shards}");
                Failure::Usage(format!("{holds}, and {why}"))
            }
            e => failure(e),
        })?;
        self.check_memory(found)?;
        Ok(blocks)
    }
}

/// The failure of the command after an error of the stencil.
pub fn failure(e: StencilError) -> Failure {
    match e {
        StencilError::Zero { what } => Failure::Usage(zero(what)),
        StencilError::Runtime(_) => Failure::Run(e.to_string()),
        e => Failure::Usage(e.to_string()),
    }
}

/// The report of one run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// Shards.
    pub shards: usize,
    /// The version of the application.
    pub collective: Collective,
    /// The number of the run, from 0.
    pub repeat: usize,
    /// Whether every cell and every √S is right.
    pub verified: bool,
    /// The first thing that is wrong, if the run is not verified.
    pub failure: Option<String>,
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
    /// All times of the run, which these summarise.
    pub samples: Samples,
    /// In virtual time, the events of the run, and the time and memory used.
    pub host: Option<HostRun>,
}

/// Times of one run: one of each kind for each iteration, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// Microseconds of each iteration, on shard 0.
    pub iteration_us: Vec<f64>,
    /// Microseconds of the collective within each iteration.
    pub collective_us: Vec<f64>,
}

/// Does the runs of one configuration, one at a time.
pub struct Session {
    pub(super) config: Config,
    pub(super) blocks: Blocks,
    problem: Problem,
    runtime: Runtime,
    output: Option<LastVector>,
    /// Runs done.
    done: usize,
    /// The blocks of the final vector of the first run, which the others must repeat bit for bit.
    first: Vec<BlockCheck>,
    all_verified: bool,
}

/// The last vector of the last run.
struct LastVector {
    /// Its file. Of several processes, the first one has it.
    target: Option<Target>,
    /// What is written, once the last run has begun.
    writing: Arc<Mutex<Option<Writing>>>,
}

impl Session {
    /// Checks the configuration, reads the input, and makes the mapper.
    pub fn prepare(config: &Config) -> Result<Self, Failure> {
        let mapper = || config.mapper.slot(&maniple::plugin::load).map_err(|e| Failure::Usage(e.to_string()));
        Self::on(config, || Ok(config.runtime().mapper(mapper()?)))
    }

    /// The same on a runtime that is made when all else is checked.
    pub fn on(config: &Config, runtime: impl FnOnce() -> Result<Runtime, Failure>) -> Result<Self, Failure> {
        config.check()?;
        let (blocks, problem) = config.problem()?;
        Ok(Self {
            config: config.clone(),
            blocks,
            problem,
            runtime: runtime()?,
            output: None,
            done: 0,
            first: Vec::new(),
            all_verified: true,
        })
    }

    /// The same runs, of which the last one hands over its last vector, for this file if this process writes it.
    pub fn with_output(self, target: Option<Target>) -> Self {
        Self { output: Some(LastVector { target, writing: Arc::default() }), ..self }
    }

    /// Does one run and verifies it. Waits.
    ///
    /// # Errors
    ///
    /// An S that vanishes or overflows, or a failure of the runtime.
    pub fn run_once(&mut self) -> Result<RunReport, Failure> {
        let (config, is_last) = (&self.config, self.done + 1 == self.config.repeat);
        // All processes have a sink if one does: they make the same launches.
        self.problem.sink = self.output.as_ref().filter(|_| is_last).map(|output| output.sink(self.blocks.total()));
        let began = Instant::now();
        let outcome = maniple_stencil::run(&self.runtime, config.collective, &self.problem).map_err(failure)?;
        let host = HostRun::of(&outcome.stats, began.elapsed());
        let Outcome { result, expected, error, mut failure, blocks, iteration_us, collective_us, .. } = outcome;
        if self.done == 0 {
            self.first = blocks;
        } else {
            failure = failure.or_else(|| not_repeated(&self.first, &blocks));
        }
        let times = |samples: &[f64]| Times::of(&alternating(samples, config.shards, config.processors()));
        let report = RunReport {
            shards: config.shards,
            collective: config.collective,
            repeat: self.done,
            verified: failure.is_none(),
            failure,
            result,
            expected,
            error,
            iteration_us: times(&iteration_us),
            collective_us: times(&collective_us),
            samples: Samples { iteration_us, collective_us },
            host,
        };
        self.done += 1;
        self.all_verified &= report.verified;
        Ok(report)
    }

    /// Gives the output its name, if there is to be one, all runs of the configuration are done, and all were verified.
    /// Returns whether this process wrote one.
    ///
    /// # Errors
    ///
    /// The output can't be written after all; an older file of that name stays as it was.
    pub fn finish(self) -> Result<bool, Failure> {
        let writing = self.output.and_then(|output| lock(&output.writing).take());
        match writing {
            Some(writing) if self.all_verified => writing.finish().map(|()| true),
            _ => Ok(false),
        }
    }
}

impl LastVector {
    /// Begins to write a vector of `cells` cells, if this process writes it. Returns what takes them.
    fn sink(&self, cells: usize) -> Sink {
        *lock(&self.writing) = self.target.as_ref().map(|target| target.begin(cells));
        let writing = self.writing.clone();
        Sink(Arc::new(move |first, piece| lock(&writing).iter_mut().for_each(|writing| writing.add(first, piece))))
    }
}

fn lock(writing: &Mutex<Option<Writing>>) -> std::sync::MutexGuard<'_, Option<Writing>> {
    writing.lock().unwrap_or_else(PoisonError::into_inner)
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
