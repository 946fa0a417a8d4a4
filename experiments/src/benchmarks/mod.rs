//! `maniple benchmarks`: what `BENCHMARKS.md` says.

mod document;
mod others;
mod platform;
mod rows;

use crate::Failure;
use crate::compare::mpi::MpiMachine;
use crate::measure::turns::{Order, Rounds};
use crate::options::wire::OnWire;
use crate::options::{OutputFile, RepeatByWire};
use crate::output::Document;
use platform::Platform;
use std::rc::Rc;

/// What the framework is measured by: every figure beside its target, as a Markdown document
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every round measures each row once, so that what disturbs the machine falls on all of them. A row and what it is compared \
with are measured one right after the other, and its ratio is the median over the rounds. Rows whose other program is not \
there say how to get it. It takes about 20 seconds a round, and wants a machine that does nothing else.

With --wire virtual the rows are those of two processors of --machine, of one node or of two, and MPI's of two of \
--mpi-machine. One round is enough there: each gives the same times, to the digit. What is of this host has nothing to \
compare with.

Exit codes: 0, all was measured, whether the targets are met or not; 1, a run failed or was not verified, or the document could not be written; 2, the arguments \
are at fault.")]
#[command(mut_arg("output", |arg| arg.help("Write the document to this file instead of stdout")))]
#[command(mut_arg("repeat", |arg| arg.help("Rounds [default: 11, in virtual time 1]")))]
pub struct BenchmarksOptions {
    #[command(flatten)]
    output: OutputFile,

    #[command(flatten)]
    repeat: RepeatByWire,

    /// Measure only rows that have this in their name
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    #[command(flatten)]
    wire: OnWire,

    #[command(flatten)]
    mpi: MpiMachine,
}

/// Measures all rows and writes the document.
pub fn execute(args: &BenchmarksOptions) -> Result<(), Failure> {
    let on = Rc::new(Platform::new(&args.wire, &args.mpi)?);
    let rounds = args.repeat.or(11, on.about().is_some())?;
    let mut rows = rows::all(&on);
    if let Some(only) = &args.only {
        let names: Vec<String> = rows.iter().map(|row| format!("\n    {}", row.what)).collect();
        rows.retain(|row| row.what.contains(only));
        if rows.is_empty() {
            return Err(Failure::Usage(format!(
                "expected a part of one of these for --only, found {only}:{}",
                names.concat()
            )));
        }
    }
    let output = args.output.output.as_deref();
    args.wire.files().reads("--mpi-machine", args.mpi.path()).writes("--output", output).check()?;
    let document = Document::prepare(output)?;
    let mut measured: Vec<Vec<rows::Sample>> = rows.iter().map(|_| Vec::new()).collect();
    // Rows measure the exchange themselves, where they are held to it.
    let mut turns = Rounds::new(Order::Same);
    for _ in 0..rounds {
        let measure = |row: &mut rows::Row| (row.measure)().map_err(|failure| failure.of(&row.what));
        turns.take(&mut rows, measure, |turn| {
            measured[turn.side].push(turn.found);
            Ok(())
        })?;
    }
    document.write(&document::write(&rows, &measured, &on, rounds, args.only.as_deref()))
}

impl Failure {
    /// The same, with what failed before it.
    fn of(self, what: &str) -> Self {
        match self {
            Failure::Usage(message) => Failure::Usage(format!("{what}: {message}")),
            Failure::Run(message) => Failure::Run(format!("{what}: {message}")),
        }
    }
}
