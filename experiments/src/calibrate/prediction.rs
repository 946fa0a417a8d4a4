//! `maniple-experiments predict`: times in virtual time beside times on threads.

use super::REPEAT;
use super::calibrator::{Calibrator, NOISE};
use super::rows::{Row, table};
use clap::ArgAction;
use maniple::collectives::Algorithm;
use maniple::prelude::*;
use maniple::runtime::VirtualMachine;
use maniple_command::Failure;
use maniple_command::collective::chain::allreduce_us;
use maniple_command::machines::file::MachineFile;
use maniple_command::measure::noise::{Beside, warn_if_busy};
use maniple_command::measure::stats::median;
use maniple_command::measure::turns::{Order, Rounds, When, counted, until_enough};
use maniple_command::measure::yardstick::Yardstick;
use maniple_command::options::help::exit_codes;
use maniple_command::options::wire::{InVirtualTime, NamedMachine};
use maniple_command::options::{Cells, GrowingShards, Repeat, Reported};
use maniple_command::output::Output;
use maniple_command::stencil::session::{Config, Session};
use maniple_stencil::{Collective, plural};
use std::sync::Arc;

/// Measure allreduce and stencil on threads, and predict their times in virtual time
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
All programs with all numbers of shards take turns on threads. Then each runs once in virtual time, on a machine that describes \
this host. Without --machine, turns of `maniple-experiments calibrate` come between the runs, so that both see the same host even if its \
speed changes.

Columns of the report:
  program       allreduce: a call of 8 bytes that depends on the last result
                stencil: an iteration of the stencil with recursive doubling
                aggregation: an iteration of the stencil's baseline. It takes several times as long as predicted, since the data \
that its inner task exchanges with the shards are not calibrated
  measured_us   lower decile of the times on threads, as in `maniple-experiments calibrate`: the time on an undisturbed host. The time of a \
run is the time of a call on the slowest shard, or of its median iteration. With more shards than workers, samples are means \
of two iterations
  first_us, median_us, third_us
                quartiles of the times on threads
  runs          number of runs that count. A run counts if the time of a cache line before and after it differs from the time in \
the calibration by at most a factor of 2.5. There are up to three times as many runs as --repeat until enough count
  disturbed     whether fewer than half of --repeat count. Then measured_us is the median of all runs
  predicted_us  time in virtual time
  error         predicted_us ÷ measured_us − 1

", exit_codes!()))]
#[command(mut_arg("_wire", |arg| arg.help("Wire of the predictions")))]
#[command(mut_arg("machine", |arg| {
    let what = "Machine that describes this host, by name or as a file that ends in .toml, such as `maniple-experiments calibrate` writes \
                [default: this host, calibrated between the runs]";
    arg.help(what)
}))]
#[command(mut_arg("repeat", |arg| {
    let what = "Number of runs of each program with each number of shards, and of turns of the calibration between them";
    arg.default_value(REPEAT).help(what)
}))]
pub struct PredictOptions {
    #[command(flatten)]
    _wire: InVirtualTime,

    #[command(flatten)]
    named: NamedMachine,

    #[command(flatten)]
    shards: GrowingShards,

    /// Programs, with commas between them
    #[arg(long, value_name = "LIST", default_value = "allreduce,stencil", value_delimiter = ',', action = ArgAction::Set)]
    programs: Vec<Program>,

    #[command(flatten)]
    cells: Cells,

    #[command(flatten)]
    repeat: Repeat,

    #[command(flatten)]
    reported: Reported,
}

/// The programs that are measured and predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Program {
    /// An allreduce of 8 bytes
    Allreduce,
    /// The stencil, with recursive doubling
    Stencil,
    /// The stencil's baseline
    Aggregation,
}

impl Program {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Program::Allreduce => "allreduce",
            Program::Stencil => "stencil",
            Program::Aggregation => "aggregation",
        }
    }

    /// Does one run, on threads or in virtual time. Returns microseconds.
    fn run(self, shards: usize, cells: usize, on: &Place) -> Result<f64, Failure> {
        // About as much work for all numbers of shards. In virtual time all iterations take equally long.
        let iterations = |most: usize| match on {
            Place::Threads(_) => (most / shards).clamp(40, 2000),
            Place::Virtual(_) => 40,
        };
        if self == Program::Allreduce {
            let algorithm = Algorithm::RecursiveDoubling;
            return allreduce_us(&on.runtime(), shards as u32, 1, iterations(20_000), algorithm)
                .map_err(|e| e.of(&format!("allreduce of {}", plural(shards, "shard"))));
        }
        let collective = match self {
            Program::Aggregation => Collective::Aggregation,
            _ => Collective::RecursiveDoubling,
        };
        let (workers, machine) = match on {
            Place::Threads(workers) => (*workers as usize, None),
            Place::Virtual(machine) => (1, Some(machine.clone())),
        };
        let defaults = Config::default();
        let config = Config {
            shards,
            cells: Some(cells),
            iterations: iterations(6_000),
            collective,
            workers,
            machine,
            repeat: 1,
            ..defaults
        };
        let report = Session::prepare(&config)?.run_once()?;
        match report.failure {
            Some(wrong) => Err(Failure::Run(format!("{} of {}: {wrong}", self.name(), plural(shards, "shard")))),
            // The first iterations allocate.
            None => {
                let warmup = config.iterations / 4;
                Ok(median(counted(&report.samples.iteration_us, warmup, shards, config.processors())))
            }
        }
    }
}

/// The platform of a run.
enum Place {
    Threads(u32),
    Virtual(Arc<VirtualMachine>),
}

impl Place {
    fn runtime(&self) -> Runtime {
        match self {
            Place::Threads(workers) => Runtime::threads(*workers),
            Place::Virtual(machine) => Runtime::virtual_time((**machine).clone()),
        }
    }
}

/// The plan of predictions.
#[derive(Debug, Clone)]
pub struct ToPredict<'a> {
    /// The machine that describes this host; if `None`, the host is calibrated between the runs.
    pub machine: Option<&'a MachineFile>,
    /// Programs.
    pub programs: Vec<Program>,
    /// Numbers of shards.
    pub shards: Vec<usize>,
    /// Cells of each shard of the stencil.
    pub cells: usize,
    /// The number of runs on threads of each program with each number of shards.
    pub repeat: usize,
}

/// The most runs, as a multiple of the runs asked for, until enough count.
const PATIENCE: usize = 3;

/// The host of the measurements.
enum Host<'a> {
    Described(&'a MachineFile),
    Calibrated(Box<Calibrator>),
}

impl Host<'_> {
    fn processors(&self) -> u32 {
        match self {
            Host::Described(file) => file.machine(Some(1), 1).per_node,
            Host::Calibrated(calibrator) => calibrator.processors(),
        }
    }

    /// The time of a cache line during the calibration, in nanoseconds.
    fn cache_line_ns(&self) -> Option<f64> {
        match self {
            Host::Described(file) => file.cache_line_ns,
            Host::Calibrated(calibrator) => calibrator.cache_line_ns(),
        }
    }
}

/// Predictions beside measurements.
#[derive(Debug)]
pub struct Predictions {
    /// The rows, in the order of programs and shards.
    pub rows: Vec<Row>,
    /// The text of the machine's file, if the host was calibrated.
    pub host: Option<String>,
}

/// The name of a machine that was calibrated between the runs.
const HOST: &str = "host";

/// Runs all programs with all numbers of shards in turns, on as many threads as the machine has processors. Then runs each once
/// in virtual time.
pub fn predict(plan: &ToPredict<'_>) -> Result<Predictions, Failure> {
    let ToPredict { machine, programs, shards, cells, repeat } = plan;
    let (cells, repeat) = (*cells, *repeat);
    let mut each: Vec<(Program, usize)> =
        programs.iter().flat_map(|&program| shards.iter().map(move |&shards| (program, shards))).collect();
    let mut host = machine.map_or_else(|| Host::Calibrated(Box::new(Calibrator::of_this_host())), Host::Described);
    let threads = Place::Threads(host.processors());
    let mut runs: Vec<Vec<Beside<f64>>> = vec![Vec::new(); each.len()];
    let mut rounds = Rounds::new(Order::Same).beside(When::AroundTurn, Yardstick::Host);
    until_enough(repeat, PATIENCE, || {
        if let Host::Calibrated(calibrator) = &mut host {
            calibrator.take()?;
        }
        let run = |(program, shards): &mut (Program, usize)| program.run(*shards, cells, &threads);
        rounds.take(&mut each, run, |turn| {
            runs[turn.side].push(turn.beside());
            Ok(())
        })?;
        let own = host.cache_line_ns();
        Ok(runs.iter().all(|runs| NOISE.quiet(runs, own).count() >= repeat))
    })?;
    let own = host.cache_line_ns();
    let (virtually, text) = match host {
        Host::Described(file) => (file.machine(Some(1), 1), None),
        Host::Calibrated(calibrator) => {
            own.into_iter().for_each(warn_if_busy);
            let text = calibrator.calibration().text(HOST, None);
            // The user did not give this file, so its errors are no fault of the arguments.
            let file = MachineFile::parse(HOST, &text).and_then(MachineFile::expect_host).map_err(|e| match e {
                Failure::Usage(what) | Failure::Run(what) => {
                    Failure::Run(format!("the calibrated machine: {what}\n{text}"))
                }
            })?;
            (file.machine(Some(1), 1), Some(text))
        }
    };
    let virtually = Place::Virtual(Arc::new(virtually));
    let row = |(runs, &what): (&Vec<_>, &(Program, usize))| {
        let (program, shards) = what;
        Ok(Row::new(what, runs, own, repeat, program.run(shards, cells, &virtually)?))
    };
    let rows = runs.iter().zip(&each).map(row).collect::<Result<_, Failure>>()?;
    Ok(Predictions { rows, host: text })
}

/// Measures, predicts and reports.
pub fn execute(args: &PredictOptions) -> Result<(), Failure> {
    let machine = args.named.load_host()?;
    let (repeat, cells, shards) = (args.repeat.number()?, args.cells.cells, args.shards.shards.0.clone());
    for &shards in &shards {
        let config = Config { shards, cells: Some(cells), ..Config::default() };
        config.check_run(cells)?;
    }
    let programs = args.programs.clone();
    let Predictions { rows, .. } = predict(&ToPredict { machine: machine.as_ref(), programs, shards, cells, repeat })?;
    let name = args.named.machine.as_deref().unwrap_or(HOST);
    let mut output = Output::new(args.reported.format);
    for row in &rows {
        output.add(row.record(name))?;
    }
    output.finish_with(|_| table(&rows, name))
}
