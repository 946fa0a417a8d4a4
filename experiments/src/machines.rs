//! Machines in virtual time, from files: every number with its unit in its name and the reason for it beside it.

use crate::Failure;
use maniple::runtime::{Costs, Link, TaskCost, VirtualMachine};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Machines that come with the program.
const KNOWN: [(&str, &str); 1] = [("ideal", include_str!("../machines/ideal.toml"))];

/// A value, and where it comes from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given<T> {
    value: T,
    #[serde(rename = "why")]
    _why: String,
}

/// What a machine file holds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// Name, for reports.
    name: String,
    /// What machine it is.
    #[serde(rename = "about")]
    _about: String,
    nodes: Nodes,
    network: LinkFile,
    memory: LinkFile,
    costs: CostsFile,
    collectives: Collectives,
    #[serde(default)]
    tasks: BTreeMap<String, TaskFile>,
    other_tasks: TaskFile,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nodes {
    /// Without it, as many as a run has shards.
    count: Option<Given<u32>>,
    processors: Given<u32>,
    utility: Given<u32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    latency_ns: Given<f64>,
    send_ns: Given<f64>,
    receive_ns: Given<f64>,
    gap_ns: Given<f64>,
    byte_ns: Given<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CostsFile {
    launch_ns: Given<f64>,
    requirement_ns: Given<f64>,
    map_ns: Given<f64>,
    start_ns: Given<f64>,
    complete_ns: Given<f64>,
    replayed_ns: Given<f64>,
    arrival_ns: Given<f64>,
    poll_ns: Given<f64>,
    message_ns: Given<f64>,
    shard_ns: Given<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Collectives {
    replay: Given<bool>,
    round_requirements: Given<u32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskFile {
    task_ns: Given<f64>,
    byte_ns: Given<f64>,
}

impl LinkFile {
    fn link(&self) -> Link {
        Link {
            latency_ns: self.latency_ns.value,
            send_ns: self.send_ns.value,
            receive_ns: self.receive_ns.value,
            gap_ns: self.gap_ns.value,
            byte_ns: self.byte_ns.value,
        }
    }
}

impl TaskFile {
    fn cost(&self) -> TaskCost {
        TaskCost { task_ns: self.task_ns.value, byte_ns: self.byte_ns.value }
    }
}

impl MachineFile {
    /// A machine that comes with the program, by its name, or one in a file; else why it can't be had.
    pub fn load(machine: &str) -> Result<Self, Failure> {
        if let Some((name, text)) = KNOWN.iter().find(|(name, _)| *name == machine) {
            return Self::parse(name, text);
        }
        if !machine.contains('/') && !machine.ends_with(".toml") {
            let known: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
            let expected = format!("one of {}, or the path of a file that ends in .toml", known.join(", "));
            return Err(Failure::Usage(format!("unknown machine `{machine}`; expected {expected}")));
        }
        let text = std::fs::read_to_string(machine)
            .map_err(|e| Failure::Usage(format!("can't read the machine {machine}: {e}")))?;
        Self::parse(machine, &text)
    }

    fn parse(path: &str, text: &str) -> Result<Self, Failure> {
        toml::from_str(text).map_err(|e| Failure::Usage(format!("{path}: {}", e.to_string().trim_end())))
    }

    /// The machine, for a run of so many shards unless it says how many nodes it has, or `nodes` does.
    pub fn machine(&self, nodes: Option<u32>, shards: u32) -> VirtualMachine {
        /// More nodes have one copy of the top-level task: the work of many grows with the square of their number.
        const COPIES: u32 = 64;
        let c = &self.costs;
        let nodes = nodes.or(self.nodes.count.as_ref().map(|count| count.value)).unwrap_or(shards);
        VirtualMachine {
            name: self.name.clone(),
            nodes,
            one_copy: nodes > COPIES,
            per_node: self.nodes.processors.value,
            utility: self.nodes.utility.value,
            network: self.network.link(),
            memory: self.memory.link(),
            costs: Costs {
                launch_ns: c.launch_ns.value,
                requirement_ns: c.requirement_ns.value,
                map_ns: c.map_ns.value,
                start_ns: c.start_ns.value,
                complete_ns: c.complete_ns.value,
                replayed_ns: c.replayed_ns.value,
                arrival_ns: c.arrival_ns.value,
                poll_ns: c.poll_ns.value,
                message_ns: c.message_ns.value,
                shard_ns: c.shard_ns.value,
            },
            replay: self.collectives.replay.value,
            round_requirements: self.collectives.round_requirements.value,
            tasks: self.tasks.iter().map(|(name, task)| (name.clone(), task.cost())).collect(),
            other_tasks: self.other_tasks.cost(),
            ..VirtualMachine::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_that_come_with_the_program_are_machines() {
        let load = |name: &str| MachineFile::load(name).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        for (name, _) in KNOWN {
            let machine = load(name).machine(None, 12);
            assert_eq!((machine.name.as_str(), machine.nodes), (name, 12));
            assert_eq!(load(name).machine(Some(3), 12).nodes, 3);
        }
    }

    #[test]
    fn what_is_no_machine_is_refused_with_the_place() {
        let (_, text) = KNOWN[0];
        let refusal = |loaded: Result<MachineFile, Failure>| match loaded {
            Err(Failure::Usage(message)) => message,
            other => panic!("{other:?}"),
        };
        let e = refusal(MachineFile::parse("m.toml", &text.replacen("latency_ns", "latency_us", 1)));
        assert!(e.contains("m.toml") && e.contains("latency_us") && e.contains("line"), "{e}");
        let line = text.lines().find(|line| line.starts_with("gap_ns")).unwrap();
        let e = refusal(MachineFile::parse("m.toml", &text.replacen(line, "gap_ns = 3.0", 1)));
        assert!(e.contains("gap_ns = 3.0"), "{e}");
        let e = refusal(MachineFile::load("titan"));
        assert!(e.contains("`titan`") && e.contains("ideal"), "{e}");
        assert!(refusal(MachineFile::load("./no.toml")).contains("./no.toml"));
    }
}
