//! The host, shown.

use crate::Failure;
use crate::output::Stdout;
use clap::ValueEnum;
use maniple::mapper::Topology;

/// The machine: processors this process may use, their cores, packages, caches and NUMA nodes
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How it is shown
    #[arg(long, value_enum, default_value_t = Format::Tree)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A tree, for people
    Tree,
    /// One JSON object
    Json,
}

/// Prints the machine.
pub fn execute(args: &Args) -> Result<(), Failure> {
    let host = Topology::here();
    let text = match args.format {
        Format::Tree => host.to_string(),
        Format::Json => serde_json::to_string(&host).map_err(|e| Failure::Run(e.to_string()))? + "\n",
    };
    Stdout::new().write(&text)
}
