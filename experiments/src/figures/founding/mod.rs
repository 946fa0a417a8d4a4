//! The figures of "Scalable collectives for distributed asynchronous many-task runtimes": the stencil in both versions.

mod draw;
mod page;
mod report;
mod stencil;
mod study;

use super::FiguresOptions;
use super::runs::{Runs, machine_of};
use crate::calibrate::RUNS;
use crate::calibrate::prediction::{self, Program};
use crate::calibrate::rows::Row;
use indicatif::ProgressBar;
use maniple_command::Failure;
use maniple_command::files::Files;
use maniple_command::machines::file::MachineFile;
use maniple_command::machines::reduced::is_without_costs;
use maniple_command::measure::directory::{Directory, pretty};
use maniple_command::options::CELLS;
use maniple_command::options::numbers::check_memory;
use maniple_command::output::{Stdout, progress};
use maniple_stencil::{Collective, plural};
use stencil::{Job, WHOLE};
use study::{Plan, Study};

/// Does the runs and writes the report.
pub fn execute(args: &FiguresOptions) -> Result<(), Failure> {
    let to = args.to.unwrap_or(1 << 20);
    let machine_name = args.machine.as_deref().unwrap_or("titan-legion");
    if to < 128 {
        let expected = "at least 128, for a slope from 64 shards on";
        return Err(Failure::Usage(format!("--to: expected {expected}, found {to}")));
    }
    if to > MOST {
        return Err(Failure::Usage(format!("--to: expected at most {MOST}, found {to}")));
    }
    if study::counts(to).last() != Some(&to) {
        let expected = "128, 256, 512, 1024, or 1024 times a power of four";
        return Err(Failure::Usage(format!("--to: expected {expected}, found {to}")));
    }
    let machine = MachineFile::load(machine_name)?;
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
    let most = Job::new(machine_of(&machine, to), to, Collective::RecursiveDoubling);
    check_memory(&plural(to, "shard"), to, most.bytes() / to as u128)?;
    let named = |machine| MachineFile::path(machine);
    let files =
        Files::new().reads("--machine", named(machine_name)).reads("--host", args.host.as_deref().and_then(named));
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
    let mut study = make(to.min(WHOLE))?;
    study.predictions = predict(args, host.as_ref(), &directory, &progress)?;
    write(&study, &directory)?;
    // Larger runs take much longer. The results so far are in the directory already.
    for larger in study::counts(to).into_iter().filter(|&p| p > WHOLE) {
        study = Study { predictions: study.predictions, ..make(larger)? };
        write(&study, &directory)?;
    }
    progress.finish_and_clear();
    Stdout::lock().write(&report::summary(&study, &args.output))
}

/// Measures programs on threads of this host, beside their times in virtual time.
fn predict(
    args: &FiguresOptions,
    host: Option<&MachineFile>,
    directory: &Directory,
    progress: &ProgressBar,
) -> Result<Vec<Row>, Failure> {
    let repeat = args.repeat.unwrap_or(RUNS);
    if repeat == 0 {
        return Ok(Vec::new());
    }
    progress.set_message("predictions beside measurements");
    let found = prediction::predict(&prediction::ToPredict {
        machine: host,
        programs: vec![Program::Allreduce, Program::Stencil],
        shards: (1..10).map(|i| 1 << i).collect(),
        cells: CELLS,
        repeat,
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
