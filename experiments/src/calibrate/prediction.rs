//! `maniple predict`: times in virtual time beside those on threads.

use super::REPEAT;
use super::calibrator::{Calibrator, NOISE};
use super::rows::{Row, table};
use crate::Failure;
use crate::machines::file::MachineFile;
use crate::measure::noise::{Beside, warn_if_busy};
use crate::measure::stats::median;
use crate::measure::turns::{Order, Rounds, When, counted, until_enough};
use crate::measure::yardstick::Yardstick;
use crate::micro::allreduce::{Op, Spec};
use crate::options::help::exit_codes;
use crate::options::wire::{InVirtualTime, NamedMachine};
use crate::options::{Cells, GrowingShards, Repeat, Reported};
use crate::output::Output;
use crate::stencil::failure;
use clap::ArgAction;
use maniple::collectives::Algorithm;
use maniple::prelude::*;
use maniple::runtime::VirtualMachine;
use maniple_stencil::{Collective, Config, Session};
use std::sync::Arc;

/// Allreduce and stencil on threads, and what virtual time predicts for them on a machine that describes this host
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Programs and numbers of shards take turns on threads; then each runs once on the machine in virtual time, where every run \
is the same. Without --machine what maniple calibrate runs takes turns with them, so that both see the same \
host where it is faster at one time than at another.

The reports say:
  program       allreduce: a call of 8 bytes that depends on the one before; stencil: an iteration; both with recursive \
doubling; aggregation: an iteration of the stencil's baseline, which takes several times what is predicted, since what it \
moves between parent and shards is not among the operations that are calibrated
  measured_us   lower decile over the runs of the time on threads: what they take where others leave the host alone, as \
maniple calibrate measures it. The time is that of a call on the shard that took longest, or the run's median iteration (with \
more shards than workers, of the means of two iterations)
  first_us, median_us, third_us  quartiles over the runs
  runs          runs that count: those with an exchange of a cache line, measured before and after, that differs from that of \
the calibration by a factor of 2.5 at most, so that the host has its processors where it had them; there are up to three \
times as many runs as asked for until enough count. Where fewer than half as many do as were asked for, measured_us is the \
median of all, and `disturbed` says so
  predicted_us  the same in virtual time
  error         predicted_us ÷ measured_us − 1

", exit_codes!()))]
#[command(mut_arg("_wire", |arg| arg.help("What the predictions are made on")))]
#[command(mut_arg("machine", |arg| {
    let what = "The machine: a name, or a file that ends in .toml, as `maniple calibrate` writes it \
                [default: this host, calibrated between the runs]";
    arg.help(what)
}))]
#[command(mut_arg("repeat", |arg| {
    let what = "Runs on threads of each program with each number of shards, and turns of the calibration between them";
    arg.default_value(REPEAT).help(what)
}))]
#[command(mut_arg("format", |arg| arg.help("How results are reported")))]
pub struct PredictOptions {
    #[command(flatten)]
    _wire: InVirtualTime,

    #[command(flatten)]
    named: NamedMachine,

    #[command(flatten)]
    shards: GrowingShards,

    /// The programs, with commas between
    #[arg(long, value_name = "LIST", default_value = "allreduce,stencil", value_delimiter = ',', action = ArgAction::Set)]
    programs: Vec<Program>,

    #[command(flatten)]
    cells: Cells,

    #[command(flatten)]
    repeat: Repeat,

    #[command(flatten)]
    reported: Reported,
}

/// What is measured and predicted.
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
    /// As reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Program::Allreduce => "allreduce",
            Program::Stencil => "stencil",
            Program::Aggregation => "aggregation",
        }
    }

    /// One run, on threads or in virtual time: microseconds.
    fn run(self, shards: usize, cells: usize, on: &Place) -> Result<f64, Failure> {
        // About as much work for all numbers of shards; in virtual time an iteration is like the next.
        let iterations = |most: usize| match on {
            Place::Threads(_) => (most / shards).clamp(40, 2000),
            Place::Virtual(_) => 40,
        };
        if self == Program::Allreduce {
            let (op, algorithm) = (Op::Sum, Algorithm::RecursiveDoubling);
            let spec = Spec { shards: shards as u32, elements: 1, iterations: iterations(20_000), op, algorithm };
            let (results, us) = spec.run(&on.runtime())?;
            if results.iter().any(|result| *result != spec.expected()) {
                return Err(Failure::Run(format!("allreduce of {shards} shards: a wrong result")));
            }
            return Ok(us);
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
        let report = Session::prepare(&config).and_then(|mut session| session.run_once()).map_err(failure)?;
        match report.failure {
            Some(wrong) => Err(Failure::Run(format!("{} of {shards} shards: {wrong}", self.name()))),
            // The first iterations allocate.
            None => {
                let warmup = config.iterations / 4;
                Ok(median(counted(&report.samples.iteration_us, warmup, shards, config.processors())))
            }
        }
    }
}

/// What a run is on.
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

/// What is to be measured and predicted.
#[derive(Debug, Clone)]
pub struct ToPredict<'a> {
    /// The machine that describes this host; none: it is calibrated between the runs.
    pub machine: Option<&'a MachineFile>,
    /// Programs.
    pub programs: Vec<Program>,
    /// Numbers of shards.
    pub shards: Vec<usize>,
    /// Cells a shard of the stencil.
    pub cells: usize,
    /// Runs on threads of each.
    pub repeat: usize,
}

/// How many times the runs asked for there may be, until as many count.
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

    /// Nanoseconds of an exchange of a cache line at the calibration.
    fn exchange_ns(&self) -> Option<f64> {
        match self {
            Host::Described(file) => file.exchange_ns,
            Host::Calibrated(calibrator) => calibrator.exchange_ns(),
        }
    }
}

/// Predictions beside measurements.
#[derive(Debug)]
pub struct Predictions {
    /// In the order of programs and shards.
    pub rows: Vec<Row>,
    /// The text of the machine's file, if the host was calibrated.
    pub host: Option<String>,
}

/// Name of a machine that was calibrated between the runs.
const HOST: &str = "host";

/// Runs all programs with all numbers of shards in turns, on as many threads as the machine has processors, and then once
/// each in virtual time.
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
        let own = host.exchange_ns();
        Ok(runs.iter().all(|runs| NOISE.quiet(runs, own).count() >= repeat))
    })?;
    let own = host.exchange_ns();
    let (virtually, text) = match host {
        Host::Described(file) => (file.machine(Some(1), 1), None),
        Host::Calibrated(calibrator) => {
            own.into_iter().for_each(warn_if_busy);
            let text = calibrator.calibration().text(HOST, None);
            // Nobody gave this file: what is wrong with it is no fault of the arguments.
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
        config.check().and_then(|()| config.check_memory(shards * cells)).map_err(failure)?;
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
