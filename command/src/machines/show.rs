//! `maniple machine`: shows the host, or a machine in virtual time.

use crate::Failure;
use crate::options::help::exit_codes;
use crate::options::numbers::{at_least_one, count};
use crate::options::wire::{OnWire, Processes, processes};
use crate::options::workers::{Threads, check_utility};
use crate::output::Stdout;
use clap::ValueEnum;
use maniple_mapper::Topology;
use maniple_stencil::plural;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// Show this host, or with --wire virtual the numbers of a machine in virtual time
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Of the host it shows the processors that this process may use, with their cores, packages, caches and NUMA nodes. The last line \
says to which processors --bind cores would bind workers.

With --wire processes, and under a launcher of MPI, it shows the hosts, and for each process the processors that it may use and \
the number of its workers.

", exit_codes!("all is well", "stdout could not be written", "the arguments or the file are at fault")))]
#[command(mut_arg("workers", |arg| arg.help("Worker threads to bind [default: one for each processor]")))]
pub struct MachineOptions {
    #[command(flatten)]
    threads: Threads,

    /// Number of utility processors: the last workers, which run no leaf tasks and only shards that the mapper places there
    #[arg(long, value_name = "U", default_value_t = 0, value_parser = count, allow_negative_numbers = true)]
    utility: usize,

    /// Format of the report
    #[arg(long, value_enum, default_value_t = Format::Tree)]
    format: Format,

    #[command(flatten)]
    wire: OnWire,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A tree, or a list of lines for a machine in virtual time
    Tree,
    /// One JSON object
    Json,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    host: Topology,
    workers: usize,
    utility: usize,
    /// Each worker's processor with `--bind cores`; `None` if there are too many workers.
    binding: Option<Vec<u32>>,
}

impl Shown {
    fn tree(&self) -> String {
        let Self { host, workers, utility, binding } = self;
        let options = match utility {
            0 => format!("--workers {workers} --bind cores"),
            utility => format!("--workers {workers} --utility {utility} --bind cores"),
        };
        let last = match binding {
            Some(cpus) => {
                let names: Vec<String> = cpus.iter().map(u32::to_string).collect();
                let of_utility = match utility {
                    0 => String::new(),
                    1 => "; the last one is the utility processor".into(),
                    n => format!("; the last {n} are utility processors"),
                };
                format!("workers on processors {}, in this order{of_utility}", names.join(", "))
            }
            None => format!("not bound: more workers than processors ({})", host.cpus.len()),
        };
        format!("{host}{options}: {last}\n")
    }
}

/// A machine in virtual time: every number by its name. The number of nodes is null if there is one for each shard, and the bytes
/// of a rendezvous are if all messages move at once. The seed is
/// there with noise, and the yardstick of the host if the file has it.
fn in_virtual_time(args: &MachineOptions) -> Result<String, Failure> {
    if args.threads.workers.is_some() || args.utility > 0 {
        let refusal = "--workers and --utility are for --wire threads: a machine's file gives its processors";
        return Err(Failure::Usage(refusal.into()));
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
        ("utility_shares", machine.utility_shares.into()),
        ("sharing", machine.sharing.into()),
        ("network.rendezvous_bytes", machine.rendezvous_bytes.into()),
        ("collectives.replay", machine.replay.into()),
        ("collectives.acknowledge", machine.acknowledge.into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    rows.extend(file.cache_line_ns.map(|ns| ("cache_line_ns".into(), ns.into())));
    if machine.noise > 0.0 {
        rows.push(("seed".into(), machine.seed.into()));
    }
    rows.extend(machine.numbers_mut().into_iter().map(|(name, value)| (name, (*value).into())));
    Ok(match args.format {
        // Written by hand, so that the fields keep their order.
        Format::Json => {
            let fields = rows.into_iter().map(|(name, value)| format!("{}:{value}", Value::from(name)));
            format!("{{{}}}\n", fields.collect::<Vec<_>>().join(","))
        }
        Format::Tree => {
            let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            let people = |name: &str, value: &Value| match value {
                Value::Null if name == "nodes" => "one for each shard".into(),
                Value::Null => "none".into(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            rows.iter().map(|(name, value)| format!("{name:width$}  {}\n", people(name, value))).collect()
        }
    })
}

/// One of several processes.
#[derive(Serialize)]
struct Process {
    process: usize,
    host: String,
    /// The processors that it may use, by the system's numbers.
    processors: Vec<u32>,
    workers: usize,
}

/// Several processes, and their hosts. Collective.
fn of_processes(args: &MachineOptions, on: Processes, share: usize) -> Result<String, Failure> {
    let workers = at_least_one("workers", args.threads.workers.unwrap_or(share))?;
    check_utility(args.utility, workers)?;
    let met = on.runtime(workers as u32).meet().map_err(|e| Failure::Usage(e.to_string()))?;
    let all = met.hosts.iter().zip(met.cpus).enumerate();
    let all: Vec<Process> =
        all.map(|(process, (host, processors))| Process { process, host: host.clone(), processors, workers }).collect();
    if args.format == Format::Json {
        let shown = serde_json::json!({ "wire": on.wire(), "processes": all });
        return Ok(format!("{shown}\n"));
    }
    let mut hosts: Vec<&str> = Vec::new();
    for host in &met.hosts {
        if !hosts.contains(&&**host) {
            hosts.push(host);
        }
    }
    let mut text =
        format!("{} on {}, {} each\n", processes(all.len()), plural(hosts.len(), "host"), plural(workers, "worker"));
    for host in hosts {
        let of_host: Vec<&Process> = all.iter().filter(|of| of.host == host).collect();
        let processors: BTreeSet<u32> = of_host.iter().flat_map(|of| &of.processors).copied().collect();
        let workers = of_host.len() * workers;
        text += &format!("host {host}: {}, {}\n", plural(processors.len(), "processor"), plural(workers, "worker"));
        for of in of_host {
            let processors: Vec<String> = of.processors.iter().map(u32::to_string).collect();
            text += &format!("  process {} on processors {}\n", of.process, processors.join(", "));
        }
        if workers > processors.len() {
            text += "  more workers than processors: they take turns\n";
        }
    }
    Ok(text)
}

/// Prints the machine.
pub fn execute(args: &MachineOptions) -> Result<(), Failure> {
    if let Some((on, share)) = args.wire.processes()? {
        return Stdout::lock().write(&of_processes(args, on, share)?);
    }
    if args.wire.in_virtual_time()? {
        return Stdout::lock().write(&in_virtual_time(args)?);
    }
    let host = Topology::here();
    let workers = at_least_one("workers", args.threads.workers.unwrap_or(host.cpus.len()))?;
    let utility = args.utility;
    check_utility(utility, workers)?;
    let shown = Shown { binding: host.binding(workers), workers, utility, host };
    let text = match args.format {
        Format::Tree => shown.tree(),
        Format::Json => serde_json::to_string(&shown).map_err(|e| Failure::Run(e.to_string()))? + "\n",
    };
    Stdout::lock().write(&text)
}
