//! `maniple figures`: the founding paper's figures, in virtual time.

mod draw;
mod page;
mod report;
mod runs;
mod study;

use crate::Failure;
use crate::calibrate::REPEAT;
use crate::calibrate::prediction::{self, Program};
use crate::calibrate::rows::Row;
use crate::files::Files;
use crate::machines::file::MachineFile;
use crate::machines::reduced::is_without_costs;
use crate::measure::directory::{Directory, pretty};
use crate::options::Repeat;
use crate::options::help::exit_codes;
use crate::options::numbers::{check_memory, count};
use crate::options::wire::InVirtualTime;
use crate::output::{Stdout, progress};
use indicatif::ProgressBar;
use maniple_stencil::{Collective, DEFAULT_CELLS, plural};
use runs::{Job, Runs, WHOLE, machine_of};
use std::path::PathBuf;
use study::{Plan, Study};

/// Redo the founding paper's figures on a machine in virtual time
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Both versions of the stencil run on a machine in virtual time, with one shard for each node. The same code runs as on threads, and \
every run is verified. Times follow from the machine's file, so the shapes of the curves come from the structure of the program:
  Figure 4  one collective inside the stencil
  Figure 5  an allreduce by MPI, on titan-mpi
  Figure 6  one iteration of the stencil
  Figure 8  one iteration of the aggregation version

Runs with 16 to 512 shards have 1000 cells for each shard and 20 iterations. The first 5 do not count, because shards start one \
after the other, nor the last 3, because they launch no others ahead. Runs with more shards have 16 cells for each shard, whose \
kernels take as long as those of 1000, and 7 iterations without the first 2 and the last 3.

In addition, a collective and an iteration run on threads of this host with 2 to 512 shards, beside their predictions, as in \
`maniple predict`.

Bands show the results with each number of the machine halved and doubled. Narrow bands change one number at a time. Wide bands \
change all at once: --draws times at random, and twice so that the ratio grows most and least. Shares are \
d ln(result) / d ln(number), between half and twice the number.

The directory gets a page (index.html), plots (SVG), points.csv, shares.csv, predictions.csv and figures.json. They are written \
after 512 shards, and again after each larger number.

", exit_codes!("the arguments or the files are at fault")))]
#[command(mut_arg("repeat", |arg| {
    let what = "Number of runs on threads of each program with each number of shards, and of turns of the calibration between \
                them; with 0 there are no predictions";
    arg.default_value(REPEAT).help(what)
}))]
pub struct FiguresOptions {
    /// Write page, plots and numbers to this directory, which must be new or empty
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    #[command(flatten)]
    _wire: InVirtualTime,

    /// Machine in virtual time, by name or as a file that ends in .toml
    #[arg(long, value_name = "NAME|FILE", default_value = "titan-legion")]
    machine: String,

    /// Largest number of shards: 128, 256, 512, 1024, or 1024 times a power of four. 1048576 takes an hour and 23 GiB, 65536 four
    /// minutes
    #[arg(long, value_name = "P", default_value_t = 1 << 20, value_parser = count, allow_negative_numbers = true)]
    to: usize,

    /// How many times all numbers of the machine are halved or doubled at random
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = count, allow_negative_numbers = true)]
    draws: usize,

    /// Machine in virtual time that describes this host, for the predictions [default: calibrated between the measurements, and
    /// written to host.toml]
    #[arg(long, value_name = "NAME|FILE")]
    host: Option<String>,

    #[command(flatten)]
    repeat: Repeat,
}

/// Does the runs and writes the report.
pub fn execute(args: &FiguresOptions) -> Result<(), Failure> {
    if args.to < 128 {
        let expected = "at least 128, for a slope from 64 shards on";
        return Err(Failure::Usage(format!("--to: expected {expected}, found {}", args.to)));
    }
    if args.to > MOST {
        return Err(Failure::Usage(format!("--to: expected at most {MOST}, found {}", args.to)));
    }
    if study::counts(args.to).last() != Some(&args.to) {
        let expected = "128, 256, 512, 1024, or 1024 times a power of four";
        return Err(Failure::Usage(format!("--to: expected {expected}, found {}", args.to)));
    }
    let machine = MachineFile::load(&args.machine)?;
    if machine.machine(None, 32).nodes != 32 {
        let expected = "a machine with as many nodes as a run has shards";
        return Err(Failure::Usage(format!("--machine: expected {expected}, found nodes.count in `{}`", machine.name)));
    }
    let some = machine.machine(None, 16);
    some.check().map_err(|e| Failure::Usage(e.to_string()))?;
    if is_without_costs(&some) {
        let name = &machine.name;
        return Err(Failure::Usage(format!(
            "--machine: nothing takes any time on `{name}`, so there is nothing to draw"
        )));
    }
    let mpi = MachineFile::load("titan-mpi")?;
    let networks: Vec<MachineFile> = NETWORKS.iter().map(|name| MachineFile::load(name)).collect::<Result<_, _>>()?;
    let host = args.host.as_deref().map(MachineFile::load_host).transpose()?;
    let most = Job::new(machine_of(&machine, args.to), args.to, Collective::RecursiveDoubling);
    check_memory(&plural(args.to, "shard"), args.to, most.bytes() / args.to as u128)?;
    let named = |machine| MachineFile::path(machine);
    let files =
        Files::new().reads("--machine", named(&args.machine)).reads("--host", args.host.as_deref().and_then(named));
    files.fills("--output", Some(&args.output)).check()?;
    let directory = Directory::prepare(&args.output)?;
    let progress = progress(0, "{elapsed_precise} [{bar:40}] run {pos} of {len}: {msg}");
    let done = |job: &Job| {
        progress.set_message(plural(job.shards, "shard"));
        progress.inc(1);
    };
    let mut runs = Runs::default();
    let mut make = |to: usize| {
        let plan = Plan { machine: &machine, mpi: &mpi, networks: &networks, to, draws: args.draws };
        Study::make(&plan, &mut runs, |jobs| progress.inc_length(jobs as u64), done)
    };
    let mut study = make(args.to.min(WHOLE))?;
    study.predictions = predict(args, host.as_ref(), &directory, &progress)?;
    write(&study, &directory)?;
    // Larger runs take much longer. The results so far are in the directory already.
    for to in study::counts(args.to).into_iter().filter(|&to| to > WHOLE) {
        study = Study { predictions: study.predictions, ..make(to)? };
        write(&study, &directory)?;
    }
    progress.finish_and_clear();
    Stdout::new().write(&report::summary(&study, &args.output))
}

/// Measures programs on threads of this host, beside their times in virtual time.
fn predict(
    args: &FiguresOptions,
    host: Option<&MachineFile>,
    directory: &Directory,
    progress: &ProgressBar,
) -> Result<Vec<Row>, Failure> {
    if args.repeat.repeat == 0 {
        return Ok(Vec::new());
    }
    progress.set_message("predictions beside measurements");
    let found = prediction::predict(&prediction::ToPredict {
        machine: host,
        programs: vec![Program::Allreduce, Program::Stencil],
        shards: (1..10).map(|i| 1 << i).collect(),
        cells: DEFAULT_CELLS,
        repeat: args.repeat.repeat,
    })?;
    if let Some(text) = &found.host {
        directory.write("host.toml", text)?;
    }
    Ok(found.rows)
}

/// Writes all files.
fn write(study: &Study, directory: &Directory) -> Result<(), Failure> {
    let pictures = draw::all(study).map_err(Failure::Run)?;
    for (name, picture) in &pictures {
        directory.write(name, picture)?;
    }
    directory.write("points.csv", report::points_csv(study))?;
    directory.write("shares.csv", report::shares_csv(study))?;
    directory.write("predictions.csv", report::predictions_csv(study))?;
    directory.write("figures.json", pretty(study)?)?;
    directory.write("index.html", page::page(study, &pictures))
}

/// The largest number of shards. So many would not fit into any host.
const MOST: usize = 1 << 24;

/// Networks of today. The nodes on them have the framework's own costs.
const NETWORKS: [&str; 3] = ["infiniband", "slingshot", "ethernet"];
