//! `maniple machine`: the host, shown, or a machine in virtual time.

use crate::Failure;
use crate::options::numbers::at_least_one;
use crate::options::wire::OnWire;
use crate::options::workers::Threads;
use crate::output::Stdout;
use clap::ValueEnum;
use maniple_mapper::Topology;
use serde::Serialize;
use serde_json::Value;

/// The machine: processors this process may use, their cores, packages, caches and NUMA nodes, and where workers would be
/// bound; or, with --wire virtual, the numbers of a machine in virtual time
#[derive(Debug, clap::Args)]
#[command(mut_arg("workers", |arg| arg.help("Worker threads that would be bound [default: one for each processor]")))]
pub struct MachineOptions {
    #[command(flatten)]
    threads: Threads,

    /// How it is shown
    #[arg(long, value_enum, default_value_t = Format::Tree)]
    format: Format,

    #[command(flatten)]
    wire: OnWire,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A tree, for people; a machine in virtual time as lines
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

/// A machine in virtual time: every number by its name, and null nodes where it has one a shard. The seed is there with noise,
/// and the host's exchange where the file has it.
fn in_virtual_time(args: &MachineOptions) -> Result<String, Failure> {
    if args.threads.workers.is_some() {
        return Err(Failure::Usage("--workers is for --wire threads: a machine says what processors it has".into()));
    }
    let file = args.wire.file()?;
    let nodes = args.wire.nodes().or(file.nodes().map(|nodes| nodes as usize));
    let mut machine = args.wire.build(file, args.wire.nodes(), 1)?;
    let mut rows: Vec<(String, Value)> = [
        ("name", file.name.as_str().into()),
        ("about", file.about.as_str().into()),
        ("nodes", nodes.into()),
        ("processors", machine.per_node.into()),
        ("utility", machine.utility.into()),
        ("collectives.replay", machine.replay.into()),
        ("collectives.acknowledge", machine.acknowledge.into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    rows.extend(file.exchange_ns.map(|ns| ("exchange_ns".into(), ns.into())));
    if machine.noise > 0.0 {
        rows.push(("seed".into(), machine.seed.into()));
    }
    rows.extend(machine.numbers_mut().into_iter().map(|(name, value)| (name, (*value).into())));
    Ok(match args.format {
        // By hand, so that the fields keep their order.
        Format::Json => {
            let fields = rows.into_iter().map(|(name, value)| format!("{}:{value}", Value::from(name)));
            format!("{{{}}}\n", fields.collect::<Vec<_>>().join(","))
        }
        Format::Tree => {
            let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            let people = |value: &Value| match value {
                Value::Null => "one a shard".into(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            rows.iter().map(|(name, value)| format!("{name:width$}  {}\n", people(value))).collect()
        }
    })
}

/// Prints the machine.
pub fn execute(args: &MachineOptions) -> Result<(), Failure> {
    if args.wire.in_virtual_time()? {
        return Stdout::new().write(&in_virtual_time(args)?);
    }
    let host = Topology::here();
    let workers = at_least_one("workers", args.threads.workers.unwrap_or(host.cpus.len()))?;
    let shown = Shown { binding: host.binding(workers), workers, host };
    let text = match args.format {
        Format::Tree => shown.tree(),
        Format::Json => serde_json::to_string(&shown).map_err(|e| Failure::Run(e.to_string()))? + "\n",
    };
    Stdout::new().write(&text)
}
