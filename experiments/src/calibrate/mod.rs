//! `maniple calibrate`: what single operations take on this machine, as a machine of virtual time.

mod exchange;
mod file;
mod prices;
mod programs;

use crate::Failure;
use crate::micro::{at_least_one, exchange::yardstick_ns};
use crate::output::Stdout;
use maniple::prelude::*;
use prices::{Price, Times};
use programs::{Program, What};
use std::collections::HashMap;
use std::path::PathBuf;

/// Measures what single operations take on this machine and writes it as a machine for --wire virtual
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each operation is measured alone, by programs that do one more of it, or more often, than another: launches of empty leaf \
tasks, region requirements, arrivals, polls, subtasks of replayed rounds between two shards, messages, the stencil's leaf \
task without a stencil. No allreduce and no stencil is run.

All programs take turns, so that what disturbs one of them disturbs all; values are medians.

Exit codes: 0, the file is written; 1, a run failed; 2, the arguments are at fault.")]
pub struct Args {
    /// The file [default: stdout]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Name of the machine
    #[arg(long, value_name = "NAME", default_value = "local")]
    name: String,

    /// Worker threads, the machine's processors [default: the processors this process may use]
    #[arg(long, value_name = "W", value_parser = crate::count, allow_negative_numbers = true)]
    workers: Option<usize>,

    /// Shards of a processor to measure with, ascending: an even number each
    #[arg(long, value_name = "N,…", default_values_t = LEVELS, value_delimiter = ',', value_parser = level)]
    shards: Vec<u32>,

    /// Runs of each program
    #[arg(long, value_name = "R", default_value_t = 21, value_parser = crate::count, allow_negative_numbers = true)]
    repeat: usize,

    /// Operations of a run on each processor
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = crate::count)]
    #[arg(allow_negative_numbers = true)]
    operations: usize,
}

/// Numbers of shards for which all data are in a near cache, and for which they are not.
const LEVELS: [u32; 4] = [2, 16, 64, 256];

fn level(text: &str) -> Result<u32, String> {
    match crate::count(text).map(u32::try_from)? {
        Ok(shards @ 2..=65_536) if shards % 2 == 0 => Ok(shards),
        _ => Err(format!("expected an even number from 2 to 65536, found `{text}`")),
    }
}

/// What is measured, and how often.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Processors.
    pub processors: u32,
    /// Shards of each, ascending.
    pub levels: Vec<u32>,
    /// Runs of each program.
    pub repeat: usize,
    /// Operations of a run on each processor.
    pub operations: u32,
}

impl Plan {
    fn new(args: &Args) -> Result<Self, Failure> {
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        let processors = at_least_one("workers", args.workers.unwrap_or(available))?;
        if processors > available {
            let found = format!("expected at most the {available} processors of this process, found {processors}");
            return Err(Failure::Usage(format!("{found} workers: more would take turns")));
        }
        let levels = args.shards.clone();
        if !levels.is_sorted_by(|a, b| a < b) {
            return Err(Failure::Usage(format!("expected shards in ascending order, found {levels:?}")));
        }
        let repeat = at_least_one("repeat", args.repeat)?;
        let operations = at_least_one("operations", args.operations)?;
        let operations = u32::try_from(operations).unwrap_or(u32::MAX);
        Ok(Self { processors: processors as u32, levels, repeat, operations })
    }

    /// All programs.
    fn programs(&self) -> Vec<Program> {
        let at = |what, shards: u32| {
            // A gang's launch starts all shards, and a burst is of many operations.
            let many = match what {
                What::Launch(burst) | What::Send { burst, .. } => burst,
                What::Gang => 4,
                _ => 1,
            };
            let iterations = (self.operations / shards / many).max(8);
            Program { what, shards, processors: self.processors, iterations }
        };
        let mut all = Vec::new();
        for &shards in &self.levels {
            all.extend(prices::PROGRAMS.map(|what| at(what, shards)));
            if self.processors > 1 {
                all.extend(prices::BETWEEN.map(|what| at(what, shards)));
            }
        }
        if self.processors > 1 {
            all.push(at(What::Remote, 1));
        }
        all
    }
}

/// The times of all programs.
#[derive(Debug, Default)]
pub struct Measured(HashMap<(What, u32), Vec<f64>>);

impl Times for Measured {
    fn of(&self, what: What, shards: u32) -> Option<&[f64]> {
        self.0.get(&(what, shards)).map(Vec::as_slice)
    }
}

/// What a machine was found to be like.
#[derive(Debug)]
pub struct Calibration {
    /// What operations take.
    pub prices: Vec<Price>,
    /// Shards of a processor that they are for.
    pub levels: Vec<u32>,
    /// Processors.
    pub processors: u32,
    /// Median of the exchange of a cache line between two processors, one way; NaN with one.
    pub exchange_ns: f64,
}

/// Runs all programs in turns. The runtime has as many processors as the plan.
pub fn calibrate(plan: &Plan, runtime: &Runtime, exchange: impl Fn() -> f64) -> Result<Calibration, Failure> {
    let (programs, mut measured, mut exchanges) = (plan.programs(), Measured::default(), Vec::new());
    for _ in 0..plan.repeat {
        exchanges.push(exchange());
        for program in &programs {
            let ns = program.run(runtime)?;
            measured.0.entry((program.what, program.shards)).or_default().push(ns);
        }
    }
    let prices = prices::solve(&measured, &plan.levels);
    let (levels, processors) = (plan.levels.clone(), plan.processors);
    Ok(Calibration { prices, levels, processors, exchange_ns: crate::stats::median(exchanges) })
}

/// Measures and writes.
pub fn execute(args: &Args) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    // Before anything is measured.
    if let Some(path) = &args.output {
        std::fs::write(path, "").map_err(|e| Failure::Usage(format!("can't write {}: {e}", path.display())))?;
    }
    let calibration = calibrate(&plan, &Runtime::threads(plan.processors), yardstick_ns)?;
    let text = calibration.text(&args.name);
    match &args.output {
        Some(path) => {
            std::fs::write(path, text).map_err(|e| Failure::Run(format!("can't write {}: {e}", path.display())))
        }
        None => Stdout::new().write(&text),
    }
}
