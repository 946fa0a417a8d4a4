//! Machines in virtual time, from files: every number with its unit in its name and the reason for it beside it.

use crate::Failure;
use maniple::runtime::{Costs, Crowded, Link, TaskCost, VirtualMachine};
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

/// A value, or several: one for each of `costs.shards`.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a number, or a list of one for each of costs.shards")]
enum Levels {
    One(f64),
    Each(Vec<f64>),
}

impl Given<Levels> {
    fn at(&self, level: usize) -> f64 {
        match &self.value {
            Levels::One(value) => *value,
            Levels::Each(values) => values.get(level).copied().unwrap_or(f64::NAN),
        }
    }
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
    /// Shards of a processor for which lists of values are: ascending. The first stands for fewer as well.
    shards: Option<Given<Vec<u32>>>,
    launch_ns: Given<Levels>,
    requirement_ns: Given<Levels>,
    map_ns: Given<Levels>,
    start_ns: Given<Levels>,
    complete_ns: Given<Levels>,
    replayed_ns: Given<Levels>,
    /// Without it, none: then it is in the others.
    call_ns: Option<Given<Levels>>,
    arrival_ns: Given<Levels>,
    poll_ns: Given<Levels>,
    message_ns: Given<Levels>,
    shard_ns: Given<Levels>,
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
    task_ns: Given<Levels>,
    byte_ns: Given<Levels>,
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

impl CostsFile {
    fn costs(&self, level: usize) -> Costs {
        Costs {
            launch_ns: self.launch_ns.at(level),
            requirement_ns: self.requirement_ns.at(level),
            map_ns: self.map_ns.at(level),
            start_ns: self.start_ns.at(level),
            complete_ns: self.complete_ns.at(level),
            replayed_ns: self.replayed_ns.at(level),
            call_ns: self.call_ns.as_ref().map_or(0.0, |call| call.at(level)),
            arrival_ns: self.arrival_ns.at(level),
            poll_ns: self.poll_ns.at(level),
            message_ns: self.message_ns.at(level),
            shard_ns: self.shard_ns.at(level),
        }
    }

    /// All values, for those that are lists.
    fn each(&self) -> impl Iterator<Item = &Given<Levels>> {
        let of_tasks = [&self.launch_ns, &self.requirement_ns, &self.map_ns, &self.start_ns, &self.complete_ns];
        let others = [&self.replayed_ns, &self.arrival_ns, &self.poll_ns, &self.message_ns, &self.shard_ns];
        of_tasks.into_iter().chain(others).chain(&self.call_ns)
    }
}

impl TaskFile {
    fn cost(&self, level: usize) -> TaskCost {
        TaskCost { task_ns: self.task_ns.at(level), byte_ns: self.byte_ns.at(level) }
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
        let file: Self =
            toml::from_str(text).map_err(|e| Failure::Usage(format!("{path}: {}", e.to_string().trim_end())))?;
        let levels = file.levels().len();
        let of_tasks = file.tasks.values().chain([&file.other_tasks]).flat_map(|task| [&task.task_ns, &task.byte_ns]);
        let wrong = |values: &&Vec<f64>| values.len() != levels || file.costs.shards.is_none();
        let lists = file.costs.each().chain(of_tasks).filter_map(|given| match &given.value {
            Levels::One(_) => None,
            Levels::Each(values) => Some(values),
        });
        if let Some(values) = lists.into_iter().find(wrong) {
            let expected = "as many as numbers in costs.shards, which must be there and not empty";
            return Err(Failure::Usage(format!("{path}: expected lists of {expected}, found {values:?}")));
        }
        Ok(file)
    }

    /// The shards of a processor that lists of values are for.
    fn levels(&self) -> &[u32] {
        self.costs.shards.as_ref().map_or(&[], |shards| &shards.value)
    }

    fn tasks(&self, level: usize) -> BTreeMap<String, TaskCost> {
        self.tasks.iter().map(|(name, task)| (name.clone(), task.cost(level))).collect()
    }

    /// The machine, for a run of so many shards unless it says how many nodes it has, or `nodes` does.
    pub fn machine(&self, nodes: Option<u32>, shards: u32) -> VirtualMachine {
        /// More nodes have one copy of the top-level task: the work of many grows with the square of their number.
        const COPIES: u32 = 64;
        let nodes = nodes.or(self.nodes.count.as_ref().map(|count| count.value)).unwrap_or(shards);
        let crowded = |(level, shards): (usize, &u32)| Crowded {
            shards: *shards,
            costs: self.costs.costs(level),
            tasks: self.tasks(level),
            other_tasks: self.other_tasks.cost(level),
        };
        VirtualMachine {
            name: self.name.clone(),
            nodes,
            one_copy: nodes > COPIES,
            per_node: self.nodes.processors.value,
            utility: self.nodes.utility.value,
            network: self.network.link(),
            memory: self.memory.link(),
            costs: self.costs.costs(0),
            replay: self.collectives.replay.value,
            round_requirements: self.collectives.round_requirements.value,
            tasks: self.tasks(0),
            other_tasks: self.other_tasks.cost(0),
            crowded: (0..).zip(self.levels()).filter(|(_, shards)| **shards > 1).map(crowded).collect(),
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
