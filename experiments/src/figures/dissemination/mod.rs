//! The figures of "Adaption of the n-way dissemination algorithm for GASPI split-phase allreduce": barriers and allreduces by
//! dissemination and by MPI's algorithms.

mod call;
mod draw;
mod page;
mod report;
mod study;
mod targets;

use super::FiguresOptions;
use super::runs::Runs;
use call::Job;
use maniple_command::Failure;
use maniple_command::files::Files;
use maniple_command::measure::directory::{Directory, pretty};
use maniple_command::output::{Stdout, progress};
use maniple_stencil::plural;
use serde::Serialize;
use study::{Machines, Study};
use targets::Targets;

/// The largest number of nodes.
const MOST: usize = 512;

/// All results.
#[derive(Debug, Clone, Serialize)]
struct Results {
    /// On the paper's clusters.
    study: Study,
    /// On a network of today.
    targets: Targets,
}

/// Does the runs and writes the report.
pub fn execute(args: &FiguresOptions) -> Result<(), Failure> {
    let to = args.to.unwrap_or(MOST);
    if !(4..=MOST).contains(&to) {
        let expected = format!("4 to {MOST} nodes for this paper");
        return Err(Failure::Usage(format!("--to: expected {expected}, found {to}")));
    }
    let machines = Machines::load()?;
    Files::new().fills("--output", Some(&args.output)).check()?;
    let directory = Directory::prepare(&args.output)?;
    let progress = progress(0, "{elapsed_precise} [{bar:40}] run {pos} of {len}: {msg}");
    let done = |job: &Job| {
        progress.set_message(plural(job.nodes, "node"));
        progress.inc(1);
    };
    let starts = |jobs: usize| progress.inc_length(jobs as u64);
    let mut runs = Runs::default();
    let targets = Targets::make(to, &mut runs, starts, done)?;
    let study = Study::make(&machines, to, args.draws, &mut runs, starts, done)?;
    let results = Results { study, targets };
    let pictures = draw::all(&results).map_err(Failure::Run)?;
    for (name, picture) in &pictures {
        directory.write(name, picture)?;
    }
    directory.write("points.csv", report::points_csv(&results.study))?;
    directory.write("shares.csv", report::shares_csv(&results.study))?;
    directory.write("figures.json", pretty(&results)?)?;
    directory.write("index.html", page::page(&machines, &results, &pictures))?;
    progress.finish_and_clear();
    Stdout::lock().write(&report::summary(&results, &args.output))
}
