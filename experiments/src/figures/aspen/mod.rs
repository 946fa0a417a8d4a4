//! Figure 12 of "Advanced collective communication in Aspen": reductions that overlap, one after the other, at the same time and
//! balanced.

mod draw;
mod page;
mod report;
mod study;

use super::FiguresOptions;
use super::runs::Runs;
use maniple_command::Failure;
use maniple_command::files::Files;
use maniple_command::machines::file::MachineFile;
use maniple_command::measure::directory::{Directory, pretty};
use maniple_command::output::{Stdout, progress};
use maniple_stencil::plural;
use study::{Job, Study};

/// The machines: the paper's cluster, and a network of today.
const MACHINES: [&str; 2] = ["aspen-gigabit", "ethernet"];

/// The default for the largest number of elements.
const USUAL: usize = 1 << 16;

/// The most elements. So large vectors take much longer.
const MOST: usize = 1 << 20;

/// Does the runs and writes the report.
pub fn execute(args: &FiguresOptions) -> Result<(), Failure> {
    let to = args.to.unwrap_or(USUAL);
    if !(4..=MOST).contains(&to) {
        let expected = format!("4 to {MOST} elements for this paper");
        return Err(Failure::Usage(format!("--to: expected {expected}, found {to}")));
    }
    let files: Vec<MachineFile> = MACHINES.iter().map(|name| MachineFile::load(name)).collect::<Result<_, _>>()?;
    Files::new().fills("--output", Some(&args.output)).check()?;
    let directory = Directory::prepare(&args.output)?;
    let progress = progress(0, "{elapsed_precise} [{bar:40}] run {pos} of {len}: {msg}");
    let done = |job: &Job| {
        progress.set_message(plural(job.elements, "element"));
        progress.inc(1);
    };
    let starts = |jobs: usize| progress.inc_length(jobs as u64);
    let mut runs = Runs::default();
    let make = |file: &MachineFile| Study::make(file, to, args.draws, &mut runs, starts, done);
    let studies: Vec<Study> = files.iter().map(make).collect::<Result<_, _>>()?;
    let pictures = draw::all(&studies).map_err(Failure::Run)?;
    for (name, picture) in &pictures {
        directory.write(name, picture)?;
    }
    directory.write("points.csv", report::points_csv(&studies))?;
    directory.write("shares.csv", report::shares_csv(&studies))?;
    directory.write("figures.json", pretty(&studies)?)?;
    directory.write("index.html", page::page(&studies, &pictures))?;
    progress.finish_and_clear();
    Stdout::lock().write(&report::summary(&studies, &args.output))
}
