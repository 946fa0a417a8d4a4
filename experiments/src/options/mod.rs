//! Options that several commands have: each is declared here once. A command whose default or words differ says only these, with
//! `mut_arg`.

pub mod counts;
pub mod help;
pub mod numbers;
pub mod wire;
pub mod workers;

use crate::Failure;
use crate::output::Format;
use clap::Args;
use counts::Counts;
use maniple::collectives::Algorithm;
use maniple_stencil::{Config, DEFAULT_CELLS};
use numbers::{at_least_one, count};
use std::path::PathBuf;

/// How many shards.
#[derive(Debug, Args)]
pub struct Shards {
    /// Shards
    #[arg(long, value_name = "P", default_value_t = Config::default().shards, value_parser = count)]
    #[arg(allow_negative_numbers = true)]
    pub shards: usize,
}

impl Shards {
    /// As many as can be numbered.
    pub fn number(&self) -> Result<u32, Failure> {
        numbers::shards(self.shards)
    }
}

/// Numbers of shards, one after the other.
#[derive(Debug, Args)]
pub struct GrowingShards {
    /// Numbers of shards, increasing, with commas between; A..B stands for A, 2A, 4A, … up to B
    #[arg(long, value_name = "LIST", default_value = "2..512", allow_hyphen_values = true)]
    pub shards: Counts,
}

/// Cells of a shard.
#[derive(Debug, Args)]
pub struct Cells {
    /// Cells a shard of the stencil, at least 4
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CELLS, value_parser = count)]
    #[arg(allow_negative_numbers = true)]
    pub cells: usize,
}

/// Iterations of a run.
#[derive(Debug, Args)]
pub struct Iterations {
    /// Iterations a run
    #[arg(long, value_name = "I", default_value_t = Config::default().iterations, value_parser = count)]
    #[arg(allow_negative_numbers = true)]
    pub iterations: usize,
}

impl Iterations {
    /// At least one.
    pub fn number(&self) -> Result<usize, Failure> {
        at_least_one("iterations", self.iterations)
    }
}

/// Iterations of a run, of which fewer are enough in virtual time.
#[derive(Debug, Args)]
pub struct IterationsByWire {
    /// Iterations a run
    #[arg(long, value_name = "I", value_parser = count, allow_negative_numbers = true)]
    iterations: Option<usize>,
}

impl IterationsByWire {
    /// At least one; without the option, so many.
    pub fn or(&self, default: usize) -> Result<usize, Failure> {
        at_least_one("iterations", self.iterations.unwrap_or(default))
    }
}

/// How often something is measured.
#[derive(Debug, Args)]
pub struct Repeat {
    /// Runs
    #[arg(long, value_name = "R", default_value_t = Config::default().repeat, value_parser = count)]
    #[arg(allow_negative_numbers = true)]
    pub repeat: usize,
}

impl Repeat {
    /// At least once.
    pub fn number(&self) -> Result<usize, Failure> {
        at_least_one("repeat", self.repeat)
    }
}

/// How often something is measured: in virtual time once is as good as often, since each run takes as long.
#[derive(Debug, Args)]
pub struct RepeatByWire {
    /// Runs [default: 10, in virtual time 1]
    #[arg(long, value_name = "R", value_parser = count, allow_negative_numbers = true)]
    repeat: Option<usize>,
}

impl RepeatByWire {
    /// At least once; without the option, `on_threads` times.
    pub fn or(&self, on_threads: usize, in_virtual_time: bool) -> Result<usize, Failure> {
        at_least_one("repeat", self.repeat.unwrap_or(if in_virtual_time { 1 } else { on_threads }))
    }
}

/// How results are reported.
#[derive(Debug, Args)]
pub struct Reported {
    /// How runs are reported
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
}

/// Runs, and how they are reported.
#[derive(Debug, Args)]
pub struct ReportedRuns {
    #[command(flatten)]
    repeat: RepeatByWire,

    #[command(flatten)]
    pub reported: Reported,
}

impl ReportedRuns {
    /// How many runs.
    pub fn repeats(&self, in_virtual_time: bool) -> Result<usize, Failure> {
        self.repeat.or(10, in_virtual_time)
    }
}

/// The algorithm of an allreduce.
#[derive(Debug, Args)]
pub struct AllreduceAlgorithm {
    /// The algorithm: recursive-doubling or two-level
    #[arg(long, value_name = "NAME", default_value_t = Algorithm::RecursiveDoubling)]
    pub collective: Algorithm,
}

/// Where runs can be looked at.
#[derive(Debug, Default, Args)]
pub struct Traced {
    /// Write what the last run did, and when, to this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// A file for what was found.
#[derive(Debug, Args)]
pub struct OutputFile {
    /// Write it to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
