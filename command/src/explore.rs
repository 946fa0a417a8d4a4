//! `maniple explore`: runs programs drawn from seeds under schedules drawn from seeds, and compares them with an interpreter.

use crate::Failure;
use crate::options::Reported;
use crate::options::help::exit_codes;
use crate::options::numbers::{at_least_one, count, number, seed};
use crate::options::wire::started;
use crate::options::wire::{ExploredWire, NamedMachine};
use crate::output::{Field, Output, Record, progress, styled};
use maniple::explore::first_failure;
use maniple::runtime::Runtime;
use maniple_explore::{Counts, Mistake, Program, Watch, Wrong};
use maniple_stencil::plural;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tabled::builder::Builder;

/// The default of --processes.
const PROCESSES: usize = 2;

/// Run programs drawn from seeds, and compare all their values with a sequential interpreter
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Each seed gives a program, a mapper and a run. Programs have leaf tasks on parts of regions, index launches, exchanges through \
barriers, phase barriers and collectives of all kinds. Gangs are launched by the top-level task and by inner tasks. Among them the \
top-level task launches leaf tasks. Mappers are replaced, and there are deadlines and panics. Seven runs in eight are on the \
seeded driver, with slow pairs of processors, pauses and lost processors. \
The others are in virtual time. With --wire processes, links between processors are slow now and then, and there are no lost \
processors, replaced mappers or looks for races.

Each value that a shard sees must be the interpreter's, or an error with the right cause. Nothing may hang or be left over. \
A run that does not end within a minute is reported, and ends the command.

", exit_codes!(
    "all seeds are right",
    "a seed is wrong, and is printed with the smallest program that fails the same way; or stdout could not be written",
    "the arguments are at fault"
)))]
#[command(mut_arg("format", |arg| arg.help("Format of the report")))]
#[command(mut_arg("machine", |arg| {
    let what = "Machine of all runs, by name or as a file that ends in .toml, with as many nodes as a program needs \
                [default: machines drawn from the seeds]";
    arg.requires("wire").help(what)
}))]
pub struct ExploreOptions {
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = count, allow_negative_numbers = true)]
    seeds: usize,

    /// First seed
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    from: u64,

    /// Run only this seed, and print its program
    #[arg(long, value_name = "S", value_parser = seed, allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,

    /// Wire of all runs [default: virtual for one in eight, the others on the seeded driver]
    #[arg(long, value_name = "WIRE")]
    wire: Option<ExploredWire>,

    /// Processes of --wire processes [default: 2]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    processes: Option<usize>,

    #[command(flatten)]
    named: NamedMachine,

    /// Threads that run seeds side by side. Each run is in one thread
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = count, allow_negative_numbers = true)]
    workers: usize,

    /// Seconds after which no more seeds are started
    #[arg(long, value_name = "SECONDS", value_parser = number, allow_negative_numbers = true)]
    time: Option<f64>,

    /// Do not shrink a program that fails
    #[arg(long)]
    no_shrink: bool,

    #[command(flatten)]
    reported: Reported,

    /// Plant a protocol bug in every run
    #[cfg(feature = "plant")]
    #[arg(long, value_name = "BUG", value_parser = planted)]
    plant: Option<maniple_runtime::Bug>,
}

#[cfg(feature = "plant")]
fn planted(name: &str) -> Result<maniple_runtime::Bug, String> {
    use maniple_runtime::Bug;
    let names = || Bug::ALL.iter().map(|b| b.name()).collect::<Vec<_>>().join(", ");
    Bug::ALL.iter().copied().find(|b| b.name() == name).ok_or_else(|| format!("expected one of {}", names()))
}

impl ExploreOptions {
    /// The options that the run of a seed depends on.
    fn options(&self) -> String {
        let mut text = String::new();
        match self.wire {
            Some(ExploredWire::Processes) => {
                text += &format!(" --wire processes --processes {}", self.processes.unwrap_or(PROCESSES));
            }
            Some(ExploredWire::Virtual) => text += " --wire virtual",
            None => {}
        }
        if let Some(machine) = &self.named.machine {
            text += &format!(" --machine {machine:?}");
        }
        #[cfg(feature = "plant")]
        if let Some(bug) = self.plant {
            text += &format!(" --plant {}", bug.name());
        }
        text
    }

    /// The number of processes, if runs are on several.
    fn processes(&self) -> Result<Option<u32>, Failure> {
        let refused = |text: &str| Err(Failure::Usage(text.into()));
        match self.wire {
            Some(ExploredWire::Processes) if self.named.machine.is_some() => refused("--machine is for --wire virtual"),
            Some(ExploredWire::Processes) if self.workers != 1 => {
                refused("--workers is not for --wire processes, which makes one run after the other")
            }
            Some(ExploredWire::Processes) if self.time.is_some() => {
                refused("--time is not for --wire processes, which all do the same runs")
            }
            Some(ExploredWire::Processes) => Ok(Some(started(self.processes.unwrap_or(PROCESSES))? as u32)),
            _ if self.processes.is_some() => refused("--processes is for --wire processes"),
            _ => Ok(None),
        }
    }
}

/// Explores and reports.
pub fn execute(args: &ExploreOptions) -> Result<(), Failure> {
    let seeds = match args.seed {
        Some(seed) => (seed, 1),
        None => (args.from, at_least_one("seeds", args.seeds)? as u64),
    };
    let Some(end) = seeds.0.checked_add(seeds.1) else {
        let found = format!("{} from {} on", plural(seeds.1 as usize, "seed"), seeds.0);
        let message = format!("expected seeds up to {}, found {found}", u64::MAX - 1);
        return Err(Failure::Usage(message));
    };
    let seeds = seeds.0..end;
    let workers = at_least_one("workers", args.workers)?.min(crate::options::workers::MAX_WORKERS);
    let limit = match args.time {
        Some(seconds) => match Duration::try_from_secs_f64(seconds) {
            Ok(limit) if !limit.is_zero() => Some(limit),
            _ => return Err(Failure::Usage(format!("--time: expected more than 0 seconds, found {seconds}"))),
        },
        None => None,
    };
    let processes = args.processes()?;
    let machine = args.named.load_host()?;
    let machine = machine.map(|file| file.machine(Some(1), 1));
    let draw = |seed: u64| match (args.wire, processes) {
        (_, Some(processes)) => maniple_explore::draw(seed).on_processes(processes, seed),
        (Some(_), None) => maniple_explore::draw(seed).in_virtual_time(machine.as_ref()),
        (None, None) => maniple_explore::draw(seed),
    };
    let is_first = Runtime::process_number() == 0;
    if let (Some(seed), true) = (args.seed, is_first) {
        crate::note(format_args!("seed {seed}\n{}", draw(seed)));
    }
    // Panics are caught and reported. Their lines on stderr would only confuse the report.
    maniple_explore::quiet();
    let template = "{elapsed_precise} [{bar:40}] {percent:>3}% {per_sec}, {eta} to go";
    let bar = if is_first { progress(seeds.end - seeds.start, template) } else { indicatif::ProgressBar::hidden() };
    let counts = Mutex::new(Counts::default());
    let (began, over) = (Instant::now(), AtomicBool::new(false));
    let options = args.options();
    // The first fault is reported even if a later run, or the run of a smaller program, does not end.
    let first = Arc::new(Mutex::new(None::<String>));
    let told = first.clone();
    let failed = |seed: u64, wrong: &Wrong| format!("seed {seed}: {wrong}\n{}", again(seed, &options));
    let late_options = options.clone();
    // The first process says so for all.
    let limit_of_run = if is_first { Watch::LIMIT } else { 2 * Watch::LIMIT };
    let watch = Watch::start(limit_of_run, move |seed| {
        let before = told.lock().unwrap_or_else(PoisonError::into_inner).take();
        let before = before.map_or(String::new(), |text| format!("{text}\nand then "));
        crate::complain(format_args!(
            "{before}seed {seed}, or a smaller program made from it, does not end within {:?}\n{}",
            Watch::LIMIT,
            again(seed, &late_options)
        ));
        std::process::exit(1)
    });
    let run = |seed: u64, program: &Program| {
        let _watched = watch.over(seed);
        let set = |runtime| {
            #[cfg(feature = "plant")]
            if let Some(bug) = args.plant {
                return maniple_explore::planted(bug, seed, runtime);
            }
            runtime
        };
        maniple_explore::run(program, machine.as_ref(), &set)
    };
    let found: Option<(u64, Wrong)> = first_failure(seeds, workers as u32, |seed| {
        if over.load(Ordering::Relaxed) || limit.is_some_and(|limit| began.elapsed() >= limit) {
            over.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let program = draw(seed);
        let right = run(seed, &program).inspect_err(|wrong| {
            first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| failed(seed, wrong));
        })?;
        counts.lock().unwrap_or_else(PoisonError::into_inner).add(&program, &right);
        bar.inc(1);
        Ok(())
    });
    bar.finish_and_clear();
    let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut output = Output::new(args.reported.format);
    let failed_seed = found.as_ref().map(|(seed, _)| *seed);
    output.add(record(&counts, failed_seed, began.elapsed()))?;
    output.finish_with(table)?;
    match found {
        None => Ok(()),
        Some((seed, wrong)) if wrong.kind == Mistake::Lost => Err(Failure::Run(format!("seed {seed}: {wrong}"))),
        Some((seed, wrong)) => {
            let text = failed(seed, &wrong);
            let run = |program: &Program| run(seed, program).map(drop);
            Err(Failure::Run(if args.no_shrink {
                format!("{text}\nthe program:\n{}", draw(seed))
            } else {
                format!("{text}\n{}", smallest(draw(seed), wrong, &run))
            }))
        }
    }
}

/// The command that does the run again.
fn again(seed: u64, options: &str) -> String {
    format!("to see it again: maniple explore --seed {seed}{options}")
}

/// The smallest program that fails the same way.
fn smallest(program: Program, wrong: Wrong, run: &dyn Fn(&Program) -> Result<(), Wrong>) -> String {
    let before = program.size();
    let (least, wrong) = maniple_explore::shrink(program, wrong, run);
    let steps = plural(least.size(), "step");
    format!("the smallest program that fails the same way, of {steps} in place of {before}: {wrong}\n{least}")
}

/// The report. `failed` is the seed of the run that was wrong.
fn record(counts: &Counts, failed: Option<u64>, time: Duration) -> Record {
    let mut record: Record = counts.all().into_iter().map(|(name, n)| (name, n.into())).collect();
    record.push(("failed_seed", failed.map_or(Field::Absent, Field::Count)));
    record.push(("seconds", Field::Measured((time.as_secs_f64() * 10.0).round() / 10.0)));
    record
}

/// The table, with a row for each count.
fn table(records: &[Record]) -> String {
    let mut rows = Builder::default();
    rows.push_record(["explored", "number"]);
    for (name, field) in records.iter().flatten() {
        let number = match field {
            Field::Measured(seconds) => format!("{seconds:.1}"),
            Field::Count(n) => n.to_string(),
            _ => "none".into(),
        };
        rows.push_record([name.replace('_', " "), number]);
    }
    format!("{}\n", styled(rows, 1))
}
