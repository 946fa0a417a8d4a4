//! `maniple-experiments benchmarks`: writes `BENCHMARKS.md`.

mod document;
mod others;
mod platform;
mod rows;

use maniple_command::Failure;
use maniple_command::compare::mpi::MpiMachine;
use maniple_command::measure::turns::{Order, Rounds};
use maniple_command::options::help::exit_codes;
use maniple_command::options::wire::OnWire;
use maniple_command::options::{OutputFile, RepeatByWire};
use maniple_command::output::Document;
use platform::Platform;

/// Measure all figures beside their targets, and write a Markdown document
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Every round measures each row once, so that disturbances fall on all rows. A row is measured right before the program it is \
compared with, and its ratio is the median over the rounds. If the other program is not installed, the document says how to get \
it. A round takes about 20 seconds. Run it on a machine that does nothing else.

With --wire virtual two processors of --machine are measured, on one node or on two, and MPI on two of --mpi-machine. One round \
is enough, since all give exactly the same times. Figures that depend on this host are not compared.

", exit_codes!(
    "all was measured, whether or not the targets are met",
    "a run failed or was not verified, or the document could not be written",
    "the arguments are at fault"
)))]
#[command(mut_arg("output", |arg| arg.help("Write the document to this file instead of stdout")))]
#[command(mut_arg("repeat", |arg| arg.help("Number of rounds [default: 11, in virtual time 1]")))]
pub struct BenchmarksOptions {
    #[command(flatten)]
    output: OutputFile,

    #[command(flatten)]
    repeat: RepeatByWire,

    /// Measure only the rows with this text in their name
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    #[command(flatten)]
    wire: OnWire,

    #[command(flatten)]
    mpi: MpiMachine,
}

/// Measures all rows and writes the document.
pub fn execute(args: &BenchmarksOptions) -> Result<(), Failure> {
    let on = Platform::new(&args.wire, &args.mpi)?;
    let rounds = args.repeat.or(11, on.about().is_some())?;
    let mut rows = rows::all(on.about().is_none());
    if let Some(only) = &args.only {
        let names: Vec<String> = rows.iter().map(|row| format!("\n    {}", row.what)).collect();
        rows.retain(|row| row.what.contains(only));
        if rows.is_empty() {
            return Err(Failure::Usage(format!(
                "--only: expected a part of one of these names, found `{only}`:{}",
                names.concat()
            )));
        }
    }
    let output = args.output.output.as_deref();
    args.wire.files().reads("--mpi-machine", args.mpi.path()).writes("--output", output).check()?;
    let document = Document::prepare(output)?;
    let mut measured: Vec<Vec<rows::Sample>> = rows.iter().map(|_| Vec::new()).collect();
    // Rows measure the yardstick themselves if their target depends on it.
    let mut turns = Rounds::new(Order::Same);
    for _ in 0..rounds {
        let measure = |row: &mut rows::Row| (row.measure)(&on).map_err(|failure| failure.of(&row.what));
        turns.take(&mut rows, measure, |turn| {
            measured[turn.side].push(turn.found);
            Ok(())
        })?;
    }
    document.write(&document::write(&rows, &measured, &on, rounds, args.only.as_deref()))
}
