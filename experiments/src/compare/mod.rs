//! `maniple compare`: this framework beside another, in turn.

mod launcher;
pub mod mpi;
#[cfg(feature = "mpi")]
pub mod rank;
mod sides;

use crate::Failure;

/// The same program here and elsewhere, in turn, with the ratio of their times
#[derive(Debug, clap::Args)]
pub struct CompareOptions {
    #[command(subcommand)]
    with: With,
}

#[derive(Debug, clap::Subcommand)]
enum With {
    Mpi(mpi::CompareMpiOptions),
}

/// Measures and reports.
pub fn execute(args: &CompareOptions) -> Result<(), Failure> {
    match &args.with {
        With::Mpi(args) => mpi::execute(args),
    }
}
