//! `maniple predict`: times in virtual time beside those on threads.

use super::REPEAT;
use super::calibrator::{Calibrator, NOISE};
use crate::Failure;
use crate::machines::file::MachineFile;
use crate::measure::noise::{Beside, Sifted, warn_if_busy};
use crate::measure::stats::{median, microseconds, quantile_of, undisturbed};
use crate::measure::turns::{Order, Rounds, When, counted, until_enough};
use crate::measure::yardstick::Yardstick;
use crate::micro::allreduce::{Op, Spec};
use crate::options::help::exit_codes;
use crate::options::wire::{InVirtualTime, NamedMachine};
use crate::options::{Cells, GrowingShards, Repeat, Reported};
use crate::output::{Output, Record, field, styled};
use crate::stencil::failure;
use clap::ArgAction;
use maniple::prelude::*;
use maniple::runtime::VirtualMachine;
use maniple_stencil::{Collective, Config, Session};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use tabled::builder::Builder;

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

/// One program with one number of shards, measured and predicted; times in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// What ran.
    pub program: &'static str,
    /// Shards.
    pub shards: usize,
    /// On threads, where others leave the host alone: the lower decile of the runs; their median if disturbed.
    pub measured_us: f64,
    /// First quartile, median and third quartile of the runs.
    pub quartiles_us: [f64; 3],
    /// Runs that count.
    pub runs: usize,
    /// Whether fewer than half as many runs as asked for were on a host as the machine describes it; then all count.
    pub disturbed: bool,
    /// In virtual time.
    pub predicted_us: f64,
}

impl Row {
    /// One out of its runs: those count that are near `own`, the exchange of the calibration.
    fn new(
        (program, shards): (Program, usize),
        runs: &[Beside<f64>],
        own: Option<f64>,
        repeat: usize,
        predicted_us: f64,
    ) -> Self {
        let Sifted { kept, disturbed } = NOISE.sift(runs, own, repeat);
        let kept: Vec<f64> = kept.into_iter().copied().collect();
        let quartiles_us = [0.25, 0.5, 0.75].map(|q| quantile_of(&kept, q));
        Self {
            program: program.name(),
            shards,
            // Of runs in another state of the host the fastest say the least about the one that was calibrated.
            measured_us: if disturbed { quartiles_us[1] } else { undisturbed(&kept) },
            quartiles_us,
            runs: kept.len(),
            disturbed,
            predicted_us,
        }
    }

    /// By how much the prediction is too long, as a part of what was measured.
    pub fn error(&self) -> f64 {
        self.predicted_us / self.measured_us - 1.0
    }

    /// The same against the median of the runs: what the host usually takes, disturbed or not.
    pub fn error_of_median(&self) -> f64 {
        self.predicted_us / self.quartiles_us[1] - 1.0
    }
}

/// The median and the largest of the errors of some rows, without their signs, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Median.
    pub middle: f64,
    /// Largest.
    pub worst: f64,
}

impl Errors {
    /// Of these rows.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>, error: fn(&Row) -> f64) -> Self {
        let errors: Vec<f64> = rows.into_iter().map(|row| 100.0 * error(row).abs()).collect();
        let worst = errors.iter().copied().fold(f64::NAN, f64::max);
        Self { middle: median(errors), worst }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { middle, worst } = self;
        write!(f, "median error {middle:.1} %, worst {worst:.1} %")
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

impl Row {
    /// What is reported of it, but for the machine.
    pub fn fields(&self) -> Record {
        vec![
            field("program", self.program),
            field("shards", self.shards),
            field("runs", self.runs),
            field("disturbed", self.disturbed),
            field("measured_us", self.measured_us),
            field("first_us", self.quartiles_us[0]),
            field("median_us", self.quartiles_us[1]),
            field("third_us", self.quartiles_us[2]),
            field("predicted_us", self.predicted_us),
            field("error", self.error()),
        ]
    }

    fn record(&self, machine: &str) -> Record {
        let mut record = self.fields();
        record.insert(1, field("machine", machine));
        record
    }
}

/// A row for each, and what the errors of each program come to.
fn table(rows: &[Row], machine: &str) -> String {
    let mut builder = Builder::default();
    builder.push_record(["program", "shards", "lower decile", "quartiles", "predicted", "error", "runs"]);
    for row in rows {
        let [first, middle, third] = row.quartiles_us.map(microseconds);
        let disturbed = if row.disturbed { " disturbed" } else { "" };
        builder.push_record([
            row.program.to_owned(),
            row.shards.to_string(),
            microseconds(row.measured_us),
            format!("{first} {middle} {third}"),
            microseconds(row.predicted_us),
            format!("{:+.1} %", 100.0 * row.error()),
            format!("{}{disturbed}", row.runs),
        ]);
    }
    let mut text = format!("on threads and on `{machine}` in virtual time; times in µs\n{}\n", styled(builder, 1));
    let mut programs: Vec<&str> = rows.iter().map(|row| row.program).collect();
    programs.dedup();
    for name in programs {
        text += &format!("{name}: {}\n", Errors::of(rows.iter().filter(|row| row.program == name), Row::error));
    }
    if let Some(near) = NOISE.within.filter(|_| rows.iter().any(|row| row.disturbed)) {
        text += &format!(
            "disturbed: a cache line took another time between processors than when the machine was calibrated, by more than a \
             factor of {near}; calibrate it anew, or leave --machine out\n"
        );
    }
    for (what, error) in [("against the runs' medians", Row::error_of_median as fn(&Row) -> f64), ("all", Row::error)] {
        text += &format!("{what}: {}\n", Errors::of(rows, error));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(measured_us: f64, predicted_us: f64) -> Row {
        let quartiles_us = [measured_us; 3];
        Row { program: "stencil", shards: 4, measured_us, quartiles_us, runs: 3, disturbed: false, predicted_us }
    }

    #[test]
    fn a_row_has_the_runs_that_were_in_the_state_of_the_calibration() {
        // 1 to 21 in any order, and twice as many in another state.
        let near = (0..21).map(|i| (f64::from(1 + (i * 8) % 21), 30.0));
        let far = (0..42).map(|i| (0.1 + f64::from(i), 300.0));
        let beside = |(found, ns): (f64, f64)| Beside { found, exchange_ns: Some(ns) };
        let runs: Vec<_> = far.clone().chain(near).map(beside).collect();
        let row = Row::new((Program::Stencil, 4), &runs, Some(31.0), 21, 3.3);
        let expected = Row {
            program: "stencil",
            shards: 4,
            measured_us: 3.0,
            quartiles_us: [6.0, 11.0, 16.0],
            runs: 21,
            disturbed: false,
            predicted_us: 3.3,
        };
        assert_eq!(row, expected);
        assert_eq!([row.error(), row.error_of_median()].map(|e| (e * 1000.0).round()), [100.0, -700.0]);
        let names = ["measured_us", "first_us", "median_us", "third_us"];
        let record = row.record("mine");
        let values = names.map(|name| record.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone()));
        assert_eq!(values, [3.0, 6.0, 11.0, 16.0].map(|us| Some(us.into())));
        assert!(table(&[row], "mine").contains(" 6.000 11.00 16.00 "));

        // Ten of 21 are too few.
        let few: Vec<_> = far.take(11).chain((0..10).map(|_| (50.0, 30.0))).map(beside).collect();
        let row = Row::new((Program::Stencil, 4), &few, Some(31.0), 21, 3.3);
        assert_eq!((row.runs, row.disturbed, row.measured_us), (21, true, 10.1));
        assert!(!Row::new((Program::Stencil, 4), &few, Some(31.0), 20, 3.3).disturbed);
    }

    #[test]
    fn errors_are_parts_of_what_was_measured() {
        let rows = [row(10.0, 12.0), row(10.0, 9.0), row(10.0, 10.5)];
        assert_eq!(rows.each_ref().map(|r| (r.error() * 1000.0).round()), [200.0, -100.0, 50.0]);
        let Errors { middle, worst } = Errors::of(&rows, Row::error);
        assert_eq!([middle, worst].map(|e| (e * 10.0).round()), [100.0, 200.0]);
        let text = table(&rows, "mine");
        assert!(text.contains("+20.0 %") && text.contains("-10.0 %"), "{text}");
        assert!(text.ends_with("all: median error 10.0 %, worst 20.0 %\n") && !text.contains("disturbed"), "{text}");
        let text = table(&[Row { disturbed: true, ..row(10.0, 12.0) }], "mine");
        assert!(text.contains("3 disturbed") && text.contains("\ndisturbed: a cache line"), "{text}");
    }
}
