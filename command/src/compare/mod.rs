//! `maniple compare`: this framework beside another one, in turns.

mod launcher;
pub mod mpi;
#[cfg(target_os = "linux")]
pub mod rank;
mod sides;
#[cfg(target_os = "linux")]
mod world;

use crate::Failure;

/// Compare the same program here and in plain MPI, in turns
#[derive(Debug, clap::Args)]
pub struct CompareOptions {
    #[command(subcommand)]
    with: With,
}

#[derive(Debug, clap::Subcommand)]
enum With {
    Mpi(Box<mpi::CompareMpiOptions>),
}

/// Measures and reports.
pub fn execute(args: &CompareOptions) -> Result<(), Failure> {
    match &args.with {
        With::Mpi(args) => mpi::execute(args),
    }
}
