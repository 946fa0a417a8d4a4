//! The host, shown.

use crate::Failure;
use crate::output::Stdout;
use clap::ValueEnum;
use maniple::mapper::Topology;
use serde::Serialize;

/// The machine: processors this process may use, their cores, packages, caches and NUMA nodes, and where workers would be
/// bound
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Worker threads that would be bound [default: one for each processor]
    #[arg(long, value_name = "W", value_parser = crate::count, allow_negative_numbers = true)]
    workers: Option<usize>,

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

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    host: Topology,
    workers: usize,
    /// Each worker's processor with `--bind cores`; none if there are too many workers.
    binding: Option<Vec<u32>>,
}

impl Shown {
    fn tree(&self) -> String {
        let Self { host, workers, binding } = self;
        let last = match binding {
            Some(cpus) => {
                let names: Vec<String> = cpus.iter().map(u32::to_string).collect();
                format!("--workers {workers} --bind cores: workers on processors {}, in this order", names.join(", "))
            }
            None => format!(
                "--workers {workers} --bind cores: not bound: more workers than processors ({})",
                host.cpus.len()
            ),
        };
        format!("{host}{last}\n")
    }
}

/// Prints the machine.
pub fn execute(args: &Args) -> Result<(), Failure> {
    let host = Topology::here();
    let workers = crate::micro::at_least_one("workers", args.workers.unwrap_or(host.cpus.len()))?;
    let shown = Shown { binding: host.binding(workers), workers, host };
    let text = match args.format {
        Format::Tree => shown.tree(),
        Format::Json => serde_json::to_string(&shown).map_err(|e| Failure::Run(e.to_string()))? + "\n",
    };
    Stdout::new().write(&text)
}
