//! Options that several commands have. Each is declared here once. A command with another default or another text changes only
//! these, with `mut_arg`.

pub mod counts;
pub mod help;
pub mod numbers;
pub mod ranks;
pub mod sends;
pub mod wire;
pub mod workers;

use crate::Failure;
use crate::output::Format;
use clap::Args;
use counts::Counts;
use maniple::collectives::Algorithm;
use numbers::{at_least_one, count};
use std::path::PathBuf;

/// The usual numbers of shards, of cells of each, and of iterations and runs of the stencil.
pub const SHARDS: usize = 16;
pub const CELLS: usize = 1000;
pub const ITERATIONS: usize = 20;
pub const REPEAT: usize = 10;

/// The number of shards.
#[derive(Debug, Args)]
pub struct Shards {
    /// Number of shards
    #[arg(long, value_name = "P", default_value_t = SHARDS, value_parser = count)]
    #[arg(allow_negative_numbers = true)]
    pub shards: usize,
}

impl Shards {
    /// The number, checked: shards have to be numbered.
    pub fn number(&self) -> Result<u32, Failure> {
        numbers::shards(self.shards)
    }
}

/// Several numbers of shards.
#[derive(Debug, Args)]
pub struct GrowingShards {
    /// Numbers of shards, increasing, with commas between them. A..B stands for A, 2A, 4A and so on, up to B
    #[arg(long, value_name = "LIST", default_value = "2..512", allow_hyphen_values = true)]
    pub shards: Counts,
}

/// The cells of each shard.
#[derive(Debug, Args)]
pub struct Cells {
    /// Cells of each shard of the stencil, at least 4
    #[arg(long, value_name = "N", default_value_t = CELLS, value_parser = count)]
    #[arg(allow_negative_numbers = true)]
    pub cells: usize,
}

/// The length of contributions.
#[derive(Debug, Args)]
pub struct Elements {
    /// Elements of each contribution, at least 1 [default: 1]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub elements: Option<usize>,
}

impl Elements {
    /// The number that was given, or else 1.
    pub fn count(&self) -> usize {
        self.elements.unwrap_or(1)
    }

    /// The number, at least one: of nothing, no result can be verified.
    pub fn number(&self) -> Result<usize, Failure> {
        at_least_one("elements", self.count())
    }
}

/// The iterations of each run.
#[derive(Debug, Args)]
pub struct Iterations {
    /// Iterations of each run
    #[arg(long, value_name = "I", default_value_t = ITERATIONS, value_parser = count)]
    #[arg(allow_negative_numbers = true)]
    pub iterations: usize,
}

impl Iterations {
    /// The number, at least one.
    pub fn number(&self) -> Result<usize, Failure> {
        at_least_one("iterations", self.iterations)
    }
}

/// The iterations of each run; in virtual time fewer are enough.
#[derive(Debug, Args)]
pub struct IterationsByWire {
    /// Iterations of each run
    #[arg(long, value_name = "I", value_parser = count, allow_negative_numbers = true)]
    iterations: Option<usize>,
}

impl IterationsByWire {
    /// The number, at least one; `default` without the option.
    pub fn or(&self, default: usize) -> Result<usize, Failure> {
        at_least_one("iterations", self.iterations.unwrap_or(default))
    }
}

/// The number of runs.
#[derive(Debug, Args)]
pub struct Repeat {
    /// Number of runs
    #[arg(long, value_name = "R", default_value_t = REPEAT, value_parser = count)]
    #[arg(allow_negative_numbers = true)]
    pub repeat: usize,
}

impl Repeat {
    /// The number, at least one.
    pub fn number(&self) -> Result<usize, Failure> {
        at_least_one("repeat", self.repeat)
    }
}

/// The number of runs; in virtual time one is enough, since all runs take equally long.
#[derive(Debug, Args)]
pub struct RepeatByWire {
    /// Number of runs [default: 10, or 3 of a factorisation; in virtual time 1]
    #[arg(long, value_name = "R", value_parser = count, allow_negative_numbers = true)]
    repeat: Option<usize>,
}

impl RepeatByWire {
    /// The number, at least one. Without the option it is `on_threads`, or 1 in virtual time.
    pub fn or(&self, on_threads: usize, in_virtual_time: bool) -> Result<usize, Failure> {
        at_least_one("repeat", self.repeat.unwrap_or(if in_virtual_time { 1 } else { on_threads }))
    }
}

/// When a task that needs data of other shards may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// When all of it has come
    Whole,
    /// When its own part has come
    Partial,
}

impl Mode {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        if self == Mode::Whole { "whole" } else { "partial" }
    }
}

impl From<Mode> for maniple_apps::Mode {
    fn from(mode: Mode) -> Self {
        if mode == Mode::Whole { Self::Whole } else { Self::Partial }
    }
}

/// The format of the report.
#[derive(Debug, Args)]
pub struct Reported {
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
}

/// The number of runs, and the format of their report.
#[derive(Debug, Args)]
pub struct ReportedRuns {
    #[command(flatten)]
    repeat: RepeatByWire,

    #[command(flatten)]
    pub reported: Reported,
}

impl ReportedRuns {
    /// The number of runs.
    pub fn repeats(&self, in_virtual_time: bool) -> Result<usize, Failure> {
        self.repeat.or(10, in_virtual_time)
    }
}

/// The algorithm of an allreduce.
#[derive(Debug, Args)]
pub struct AllreduceAlgorithm {
    /// Algorithm for an allreduce, such as recursive-doubling, radix-8 or dissemination-3; `maniple collective --help` lists all
    #[arg(long, value_name = "NAME", default_value_t = Algorithm::RecursiveDoubling, value_parser = algorithm)]
    pub collective: Algorithm,
}

/// An algorithm by its name.
pub fn algorithm(name: &str) -> Result<Algorithm, String> {
    name.parse::<Algorithm>().map_err(|e| e.to_string())
}

/// A file for the trace.
#[derive(Debug, Default, Args)]
pub struct Traced {
    /// Write a trace of the last run to this file: the work of each processor over time. Open it at ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// A file for the results.
#[derive(Debug, Args)]
pub struct OutputFile {
    /// Write the results to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
