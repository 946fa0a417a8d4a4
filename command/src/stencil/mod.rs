//! `maniple stencil`.

mod report;
pub mod session;
pub mod times;

use crate::Failure;
use crate::arrays::Target;
use crate::files::check_trace;
use crate::machines::reduced::warn_without_costs;
use crate::measure::noise::busy;
use crate::measure::yardstick::Yardstick;
use crate::options::help::exit_codes;
use crate::options::numbers::{at_least_one, count};
use crate::options::workers::{OnWorkers, Place};
use crate::options::{Iterations, Repeat, Reported, Shards, Traced};
use crate::output::{Output, expect_verified};
use maniple::runtime::{Check, Runtime};
use maniple_stencil::{Checkpoints, Collective};
use session::{Config, Session};
use std::path::PathBuf;

/// Iterations from one checkpoint to the next, unless the user gives a number.
const EVERY: usize = 100;

/// Run the 1D stencil, a power iteration in which each iteration depends on a collective
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Each iteration computes the periodic fourth-order derivative d of a vector, the sum S of d squared over all shards, and the \
next vector d / √S.

Columns of the report:
  √S, result  the last √S, which tends to the largest eigenvalue
  error       relative error of the last √S. The expected value comes from a closed form or, with --input, from sequential code
  iteration   time of an iteration on shard 0, from one total to the next
  collective  time of the collective in an iteration, from shard 0's local sum to the total
  p99         99th percentile by nearest rank. With fewer than 100 samples it is the maximum
With more shards than workers, shard 0 is early in every other iteration and late in those between. So a sample is then the \
mean of two iterations, one after the other.

JSON and CSV have more:
  repeat              the number of the run, from 0
  cells, total_cells  cells of the largest block, and of all blocks together
  input               the file of --input, or null
  machine, nodes, noise, noise_seed, ahead, bind, utility, check
                      options that are not the defaults; fields of the others are left out
  events, digest      in virtual time: the events of the run, and a hash of them, which is the same each time
  host_s, shard_rounds_per_s, peak_bytes
                      in virtual time: the seconds of this host, the rounds of collectives per second of it, counted for \
each shard, and the most memory that the process has used

A warning under the table says when other programs kept the host busy.

Files of --input and --output are .npy (one-dimensional, 32- or 64-bit floats), .csv or .txt (one number a line).

", exit_codes!("the arguments or the files are at fault")))]
pub struct StencilOptions {
    #[command(flatten)]
    shards: Shards,

    /// Cells of each shard, at least 4. With --input the file gives the number [default: 1000]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    cells: Option<usize>,

    #[command(flatten)]
    iterations: Iterations,

    #[command(flatten)]
    repeat: Repeat,

    /// How the shards' sums are combined: recursive-doubling, two-level or aggregation (the baseline)
    #[arg(long, value_name = "NAME", default_value_t)]
    collective: Collective,

    /// Iterations that a shard launches ahead before it waits for the total of the oldest; with 0 it waits for each. Not for
    /// aggregation, where each iteration is a task of its own [default: 2]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    ahead: Option<usize>,

    #[command(flatten)]
    on: OnWorkers,

    /// Look for mistakes in the program, which makes it slower
    #[arg(long, value_name = "WHAT")]
    check: Option<crate::Check>,

    /// Start from the numbers in this file. Each shard gets an equal part
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Write the last vector of the last run to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Save the state of the run in this directory, so that a later run can continue from it. The run is not repeated. Not with
    /// --collective aggregation
    #[arg(long, value_name = "DIR", conflicts_with = "repeat")]
    checkpoint: Option<PathBuf>,

    /// Save the state after every N iterations, and after the last one [default: 100]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true, requires = "checkpoint")]
    every: Option<usize>,

    /// Continue from the newest state in the directory, if there is one; without this option, a directory that has one is refused.
    /// Shards, workers and processes may differ from those of the earlier run. The result has the same bits for as many shards,
    /// and with two-level for the same placement
    #[arg(long, requires = "checkpoint")]
    restart: bool,

    #[command(flatten)]
    traced: Traced,

    #[command(flatten)]
    reported: Reported,
}

impl StencilOptions {
    fn config(&self) -> Result<Config, Failure> {
        let (shards, workers) = (self.shards.shards, &self.on.workers);
        self.on.refuse_check(self.check.is_some())?;
        let (place, count) = workers.place(shards)?;
        let (processes, machine) = match place {
            Place::Threads => (None, None),
            Place::Processes(processes) => (Some(processes), None),
            Place::Machine(machine) => (None, Some(machine)),
        };
        Ok(Config {
            shards,
            cells: self.cells,
            iterations: self.iterations.iterations,
            repeat: if self.checkpoint.is_some() { 1 } else { self.repeat.repeat },
            collective: self.collective,
            ahead: self.ahead.unwrap_or(maniple_stencil::AHEAD),
            workers: count,
            processes,
            machine,
            mapper: self.on.mapper.clone(),
            bind: workers.bind,
            utility: workers.utility,
            races: self.check.is_some(),
            input: self.input.clone(),
            checkpoints: self.checkpoint.clone().map(|dir| Checkpoints {
                dir,
                every: self.every.unwrap_or(EVERY),
                restart: self.restart,
            }),
        })
    }
}

/// Does the runs and reports them.
pub fn execute(args: &StencilOptions) -> Result<(), Failure> {
    if args.ahead.is_some() && args.collective == Collective::Aggregation {
        let refusal = "--ahead is not for --collective aggregation, where each iteration is a task of its own";
        return Err(Failure::Usage(refusal.into()));
    }
    if args.checkpoint.is_some() {
        if args.collective == Collective::Aggregation {
            return Err(Failure::Usage("--checkpoint is not for --collective aggregation".into()));
        }
        at_least_one("every", args.every.unwrap_or(EVERY))?;
    }
    let files = args.on.files()?.reads("--input", args.input.as_deref());
    files.writes("--output", args.output.as_deref()).writes("--trace", args.traced.trace.as_deref()).check()?;
    let config = args.config()?;
    // The first of several processes writes it.
    let written = args.output.as_deref().filter(|_| Runtime::process_number() == 0);
    let target = written.map(Target::prepare).transpose()?;
    let mut trace = None;
    let mut session = Session::on(&config, || {
        let (_, runtime, file) = args.on.runtime(config.shards, &args.traced)?;
        trace = file;
        Ok(if config.races { runtime.check(Check::Races) } else { runtime })
    })?;
    if args.output.is_some() {
        session = session.with_output(target);
    }
    config.machine.as_deref().into_iter().for_each(warn_without_costs);
    let mut output = Output::new(args.reported.format);
    // Only a table can hold a warning. Several processes would measure at the same time.
    let watched = output.is_table() && config.machine.is_none() && config.processes.is_none();
    let cache_line_ns = || if watched { Yardstick::Host.ns() } else { f64::NAN };
    let before = cache_line_ns();
    let mut reported = Ok(());
    let (mut reports, mut unverified) = (Vec::new(), Vec::new());
    let mut run = || {
        let report = session.run_once()?;
        if let Some(failure) = &report.failure {
            unverified.push(format!("run {}: {failure}", report.repeat));
        }
        if reported.is_ok() {
            reported = output.add(report::record(&session, &report));
        }
        reports.push(report);
        // Without a reader, the runs go on only for the sake of files.
        if reported.is_err() && args.output.is_none() && args.traced.trace.is_none() {
            return std::mem::replace(&mut reported, Ok(()));
        }
        Ok(())
    };
    let done = (0..config.repeat).try_for_each(|_| run());
    let warning = busy(before.max(cache_line_ns())).filter(|_| done.is_ok());
    let finished = output.finish_with(|_| report::table(&session, &reports, warning));
    done?;
    reported = reported.and(finished);
    // A file that can't be written now could be written before the first run.
    let written = session.finish();
    let unwritten = args.output.as_deref().filter(|_| !matches!(written, Ok(true)));
    if let (Some(first), Some(path)) = (unverified.first_mut(), unwritten) {
        *first += &format!("; {} was not written", path.display());
    }
    expect_verified(config.repeat, "run", &unverified)?;
    written.and(check_trace(trace.as_ref()))?;
    reported
}
