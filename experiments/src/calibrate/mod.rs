//! `maniple-experiments calibrate`: measures the costs of single operations on this host, and writes them as a machine in virtual time.

pub mod calibrator;
mod file;
pub mod prediction;
mod prices;
mod programs;
mod rounds;
pub mod rows;

use calibrator::{CalibrationPlan, calibrate};
use clap::ArgAction;
use maniple::prelude::*;
use maniple::runtime::VirtualMachine;
use maniple_command::Failure;
use maniple_command::machines::reduced;
use maniple_command::measure::noise::warn_if_busy;
use maniple_command::measure::yardstick::Yardstick;
use maniple_command::options::help::exit_codes;
use maniple_command::options::numbers::{at_least_one, count};
use maniple_command::options::wire::OnWire;
use maniple_command::options::workers::Threads;
use maniple_command::options::{OutputFile, Repeat};
use maniple_command::output::Document;
use maniple_stencil::plural;

/// Measure the costs of single operations on this host, and write them as a machine for --wire virtual
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Each operation is measured alone, by two programs of which one does it more often. The operations are launches of empty leaf \
tasks, region requirements, arrivals, polls, subtasks of rounds between two shards, messages, and the stencil's leaf \
task without a stencil. The rounds belong to a schedule made for this. \
No algorithm of an allreduce and no stencil is run.

All programs take turns, so that disturbances fall on all of them. Values are lower deciles. Other programs can only make a host \
slower; if they run for half of the time, most values are without them. The time of a cache line between two threads is \
measured before and after each turn. A turn is left out if its yardstick differs from the median by more than a factor of 2.5, \
because the host had then moved its processors.

With --wire virtual it measures two processors on one node of a machine in virtual time, and should find the values in its file.

", exit_codes!("the file is written", "a run failed, or the file could not be written", "the arguments are at fault")))]
#[command(mut_arg("output", |arg| arg.help("File for the machine, which must be new or empty [default: stdout]")))]
#[command(mut_arg("workers", |arg| {
    arg.help("Worker threads, and so processors of the machine [default: the processors this process may use]")
}))]
#[command(mut_arg("repeat", |arg| arg.default_value(REPEAT).help("Number of runs of each program")))]
pub struct CalibrateOptions {
    #[command(flatten)]
    output: OutputFile,

    /// Name of the machine
    #[arg(long, value_name = "NAME", default_value = "local")]
    name: String,

    #[command(flatten)]
    threads: Threads,

    /// Numbers of shards per processor to measure with, even and ascending
    #[arg(long, value_name = "N,…", default_values_t = LEVELS, value_delimiter = ',', value_parser = level)]
    #[arg(action = ArgAction::Set)]
    shards: Vec<u32>,

    #[command(flatten)]
    repeat: Repeat,

    /// Operations of each run on each processor
    #[arg(long, value_name = "N", default_value_t = OPERATIONS, value_parser = count)]
    #[arg(allow_negative_numbers = true)]
    operations: usize,

    #[command(flatten)]
    wire: OnWire,
}

/// Numbers of shards. The data of the first fit into a near cache, the data of the last do not.
const LEVELS: [u32; 4] = [2, 16, 64, 256];
/// The number of rounds: enough for a lower decile that does not depend on a single one.
pub const REPEAT: &str = "21";

/// The same as a number.
pub const RUNS: usize = 21;
const OPERATIONS: usize = 10_000;

/// The number of processors that this process may use.
fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn level(text: &str) -> Result<u32, String> {
    match count(text).map(u32::try_from)? {
        Ok(shards @ 2..=65_536) if shards % 2 == 0 => Ok(shards),
        _ => Err(format!("expected an even number from 2 to 65536, found `{text}`")),
    }
}

/// The host or the machine that is measured.
struct Measures {
    processors: u32,
    /// In virtual time.
    machine: Option<VirtualMachine>,
}

impl Measures {
    fn new(args: &CalibrateOptions) -> Result<Self, Failure> {
        let Some(machine) = args.wire.machine(1)? else {
            let available = available();
            let processors = at_least_one("workers", args.threads.workers.unwrap_or(available))?;
            if processors > available {
                let most = plural(available, "processor");
                let found = format!("--workers: expected at most the {most} of this process, found {processors}");
                return Err(Failure::Usage(format!("{found}: more would take turns")));
            }
            return Ok(Self { processors: processors as u32, machine: None });
        };
        if args.threads.workers.is_some() {
            return Err(Failure::Usage(
                "--workers is for --wire threads: two processors of a machine are measured".into(),
            ));
        }
        let two = reduced::expect_two_processors(&machine)?;
        if two.nodes > 1 || two.utility > 0 {
            let VirtualMachine { name, nodes, per_node, utility, .. } = machine;
            let nodes = plural(nodes as usize, "node");
            let [processors, utility] =
                [(per_node, "processor"), (utility, "utility processor")].map(|(n, noun)| plural(n as usize, noun));
            return Err(Failure::Usage(format!(
                "expected a machine with two processors on a node and no utility processors, found `{name}` with {nodes}, each \
                 of {processors}, among them {utility}"
            )));
        }
        Ok(Self { processors: 2, machine: Some(two) })
    }

    /// The text of the file. Warns if other programs kept this host busy.
    fn text(&self, plan: CalibrationPlan, repeat: usize, name: &str) -> Result<String, Failure> {
        let yardstick = Yardstick::of(self.machine.as_ref())?;
        let calibration = match &self.machine {
            None => calibrate(plan, repeat, Runtime::threads(self.processors), yardstick)?,
            Some(machine) => calibrate(plan, repeat, Runtime::virtual_time(machine.clone()), yardstick)?,
        };
        if self.machine.is_none() {
            calibration.cache_line_ns.into_iter().for_each(warn_if_busy);
        }
        let of = self.machine.as_ref().map(|machine| format!("`{}` in virtual time", machine.name));
        Ok(calibration.text(name, of.as_deref()))
    }
}

/// The plan of measurements on `processors` processors.
fn plan(args: &CalibrateOptions, processors: u32) -> Result<CalibrationPlan, Failure> {
    let levels = args.shards.clone();
    if !levels.is_sorted_by(|a, b| a < b) {
        return Err(Failure::Usage(format!("--shards: expected numbers in ascending order, found {levels:?}")));
    }
    let operations = at_least_one("operations", args.operations)?;
    let operations = u32::try_from(operations).unwrap_or(u32::MAX);
    Ok(CalibrationPlan { processors, levels, operations })
}

/// Measures and writes.
pub fn execute(args: &CalibrateOptions) -> Result<(), Failure> {
    let output = args.output.output.as_deref();
    args.wire.files().writes("--output", output).check()?;
    let measures = Measures::new(args)?;
    let plan = plan(args, measures.processors)?;
    let repeat = args.repeat.number()?;
    // Before anything is measured.
    let document = Document::prepare(output)?;
    if let Some(path) = output
        && let Some(len) = path.metadata().ok().map(|there| there.len()).filter(|len| *len > 0)
    {
        let (path, len) = (path.display(), plural(len as usize, "byte"));
        let what = format!("--output: expected a new or an empty file, found {path} with {len}");
        return Err(Failure::Usage(format!("{what}; name another one, or remove it")));
    }
    document.write(&measures.text(plan, repeat, &args.name)?)
}
