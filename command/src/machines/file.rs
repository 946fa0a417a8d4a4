//! Files of machines in virtual time. Every number has its unit in its name, and the reason for it beside it.

use crate::Failure;
use maniple::runtime::{CostLevel, Costs, Link, TaskCost, VirtualMachine};
use maniple_mapper::files;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The only file that need not be a regular one. A process of this program reads its machine there.
pub const STDIN: &str = "/dev/stdin";

/// The size of the largest file that is read, in bytes. The files that come with the program have up to 5000.
const LARGEST: u64 = 1 << 20;

/// Machines that come with the program.
const KNOWN: [(&str, &str); 15] = [
    ("aspen-gigabit", include_str!("../../machines/aspen-gigabit.toml")),
    ("ethernet", include_str!("../../machines/ethernet.toml")),
    ("gpi-fdr", include_str!("../../machines/gpi-fdr.toml")),
    ("gpi-fdr-mpi", include_str!("../../machines/gpi-fdr-mpi.toml")),
    ("gpi-qdr", include_str!("../../machines/gpi-qdr.toml")),
    ("gpi-qdr-mpi", include_str!("../../machines/gpi-qdr-mpi.toml")),
    ("ideal", include_str!("../../machines/ideal.toml")),
    ("infiniband", include_str!("../../machines/infiniband.toml")),
    ("inti", include_str!("../../machines/inti.toml")),
    ("local", include_str!("../../machines/local.toml")),
    ("marenostrum4", include_str!("../../machines/marenostrum4.toml")),
    ("plafrim", include_str!("../../machines/plafrim.toml")),
    ("slingshot", include_str!("../../machines/slingshot.toml")),
    ("titan-legion", include_str!("../../machines/titan-legion.toml")),
    ("titan-mpi", include_str!("../../machines/titan-mpi.toml")),
];

/// Machines that come with the program, each with the same nodes and network under an MPI library.
const UNDER_MPI: [(&str, &str); 3] =
    [("titan-legion", "titan-mpi"), ("gpi-fdr", "gpi-fdr-mpi"), ("gpi-qdr", "gpi-qdr-mpi")];

/// The machine that stands for MPI on the network of a machine that comes with the program. It may be that one itself.
pub fn under_mpi(machine: &str) -> Option<&'static str> {
    UNDER_MPI.iter().find(|(other, mpi)| [*other, *mpi].contains(&machine)).map(|(_, mpi)| *mpi)
}

/// A value, and its origin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a value with a reason: { value = …, why = \"…\" }")]
pub struct Given<T> {
    value: T,
    #[serde(rename = "why")]
    _why: Why,
}

/// A source or a reason, which must not be empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "String")]
struct Why;

impl TryFrom<String> for Why {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.trim().is_empty() { Err("why: expected a source or a reason, found an empty text") } else { Ok(Self) }
    }
}

/// A value, or a list with a value for each of `costs.shards`.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a number, or a list with a number for each of costs.shards")]
enum Levels {
    One(f64),
    Each(Vec<f64>),
}

/// A value that is not given is 0: it takes no time.
impl Default for Levels {
    fn default() -> Self {
        Levels::One(0.0)
    }
}

impl Levels {
    fn at(&self, level: usize) -> f64 {
        match self {
            Levels::One(value) => *value,
            Levels::Each(values) => values.get(level).copied().unwrap_or(f64::NAN),
        }
    }
}

/// A machine, with the reason for every number.
#[derive(Debug, Clone)]
pub struct MachineFile {
    /// Name, for reports.
    pub name: String,
    /// Description of the machine.
    pub about: String,
    /// The text of the file.
    pub text: String,
    /// Nanoseconds of the time of a cache line, one way, on the host that the file describes. It tells in which state of the
    /// host measurements can be compared with the file.
    pub cache_line_ns: Option<f64>,
    nodes: Nodes,
    network: Network,
    memory: Link<Given<f64>>,
    costs: CostsFile,
    collectives: Collectives,
    tasks: BTreeMap<String, TaskCost<Given<Levels>>>,
    other_tasks: TaskCost<Given<Levels>>,
}

/// The content of a file. A missing table is taken from the machine that this one is like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    name: String,
    about: String,
    like: Option<String>,
    cache_line_ns: Option<Given<f64>>,
    nodes: Option<Nodes>,
    network: Option<Network>,
    memory: Option<Link<Given<f64>>>,
    costs: Option<CostsFile>,
    collectives: Option<Collectives>,
    tasks: Option<BTreeMap<String, TaskCost<Given<Levels>>>>,
    other_tasks: Option<TaskCost<Given<Levels>>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nodes {
    /// Without it, there are as many nodes as a run has shards.
    count: Option<Given<u32>>,
    processors: Given<u32>,
    utility: Given<u32>,
    /// Whether the utility processors share the cores of the others.
    utility_shares: Option<Given<bool>>,
    /// Whether large values share a node's ways.
    sharing: Option<Given<bool>>,
}

/// A link, and more. Not with serde's `flatten`, and not from a table, which would not know the lines of mistakes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    latency_ns: Given<f64>,
    send_ns: Given<f64>,
    receive_ns: Given<f64>,
    #[serde(default)]
    first_ns: Given<f64>,
    gap_ns: Given<f64>,
    byte_ns: Given<f64>,
    /// The most bytes of a message that moves at once.
    rendezvous_bytes: Option<Given<u64>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "toml::Table")]
struct CostsFile {
    /// Numbers of shards per processor, ascending: lists have a value for each. The first one counts for fewer shards as well.
    shards: Option<Given<Vec<u32>>>,
    costs: Costs<Given<Levels>>,
}

/// Not with serde's `flatten`, which accepts unknown keys.
impl TryFrom<toml::Table> for CostsFile {
    type Error = toml::de::Error;

    fn try_from(mut table: toml::Table) -> Result<Self, Self::Error> {
        let shards = table.remove("shards").map(toml::Value::try_into).transpose()?;
        Ok(Self { shards, costs: table.try_into()? })
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Collectives {
    replay: Given<bool>,
    round_requirements: Given<f64>,
    acknowledge: Option<Given<bool>>,
}

impl MachineFile {
    /// Loads a machine: one that comes with the program, by its name, or one in a file.
    pub fn load(machine: &str) -> Result<Self, Failure> {
        if let Some((name, text)) = KNOWN.iter().find(|(name, _)| *name == machine) {
            return Self::parse(name, text);
        }
        if !machine.contains('/') && !machine.ends_with(".toml") {
            let known: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
            let expected = format!("one of {}, or the path of a file that ends in .toml", known.join(", "));
            return Err(Failure::Usage(format!("unknown machine `{machine}`; expected {expected}")));
        }
        let bytes = match machine {
            STDIN => files::read_from(std::io::stdin(), LARGEST),
            path => files::read(path.as_ref(), LARGEST),
        };
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other));
        let text = text.map_err(|e| Failure::Usage(format!("{machine}: can't be read: {e}")))?;
        Self::parse(machine, &text)
    }

    /// The path of a machine's file; `None` if the machine comes with the program.
    pub fn path(machine: &str) -> Option<&Path> {
        KNOWN.iter().all(|(name, _)| *name != machine).then_some(Path::new(machine))
    }

    /// Loads a machine, and checks that programs can run on one node of it.
    pub fn load_host(machine: &str) -> Result<Self, Failure> {
        Self::load(machine)?.expect_host()
    }

    /// Checks that programs can run on one node of the machine.
    pub fn expect_host(self) -> Result<Self, Failure> {
        self.machine(Some(1), 1).check().map_err(|e| Failure::Usage(e.to_string()))?;
        Ok(self)
    }

    pub fn parse(path: &str, text: &str) -> Result<Self, Failure> {
        let wrong = |what: String| Err(Failure::Usage(format!("{path}: {what}")));
        let tables: Tables = match toml::from_str(text) {
            Ok(tables) => tables,
            Err(e) => return wrong(e.to_string().trim_end().to_owned()),
        };
        for (key, line) in [("name", &tables.name), ("about", &tables.about)] {
            if line.contains(char::is_control) {
                return wrong(format!("{key} = {line:?}: expected one line of text without control characters"));
            }
        }
        let like = match &tables.like {
            None => None,
            // Only one that comes with the program: files that name each other would have no end.
            Some(like) => match KNOWN.iter().find(|(name, _)| name == like && *name != tables.name) {
                Some((name, text)) => Some(Self::parse(name, text)?),
                None => {
                    return wrong(format!("like = \"{like}\": expected another machine that comes with the program"));
                }
            },
        };
        let like = like.as_ref();
        let table =
            |name: &str| format!("no table [{name}]: add it, or take the table of another machine: like = \"ideal\"");
        fn either<T: Clone>(given: Option<T>, other: Option<&T>, missing: String) -> Result<T, String> {
            given.or_else(|| other.cloned()).ok_or(missing)
        }
        let machine = || {
            Ok(Self {
                name: tables.name,
                about: tables.about,
                text: text.into(),
                cache_line_ns: tables.cache_line_ns.map(|given| given.value),
                nodes: either(tables.nodes, like.map(|m| &m.nodes), table("nodes"))?,
                network: either(tables.network, like.map(|m| &m.network), table("network"))?,
                memory: either(tables.memory, like.map(|m| &m.memory), table("memory"))?,
                costs: either(tables.costs, like.map(|m| &m.costs), table("costs"))?,
                collectives: either(tables.collectives, like.map(|m| &m.collectives), table("collectives"))?,
                tasks: tables.tasks.or_else(|| like.map(|m| m.tasks.clone())).unwrap_or_default(),
                other_tasks: either(tables.other_tasks, like.map(|m| &m.other_tasks), table("other_tasks"))?,
            })
        };
        let mut machine = machine().or_else(wrong)?;
        let levels = machine.costs.shards.as_ref().map_or(0, |shards| shards.value.len());
        let mut found = None;
        let mut look = |_: &str, given: &mut Given<Levels>| match &given.value {
            Levels::Each(values) if levels == 0 || values.len() != levels => found = Some(format!("{values:?}")),
            _ => {}
        };
        machine.costs.costs.each_mut().map(&mut look);
        for task in machine.tasks.values_mut().chain([&mut machine.other_tasks]) {
            task.each_mut().map(&mut look);
        }
        match found {
            None => Ok(machine),
            Some(values) => {
                let expected = "as many as numbers in costs.shards, which must be there and not empty";
                wrong(format!("expected lists of {expected}, found {values}"))
            }
        }
    }

    /// The number of nodes, if the file gives it.
    pub fn nodes(&self) -> Option<u32> {
        self.nodes.count.as_ref().map(|count| count.value)
    }

    /// The machine for a run of `shards` shards. The number of nodes is `nodes`, or the number in the file, or one for
    /// each shard.
    pub fn machine(&self, nodes: Option<u32>, shards: u32) -> VirtualMachine {
        /// The most nodes times shards for which each node has its own copy of the top-level task. The work of many copies grows
        /// with the square of their number.
        const KNOWN: u64 = 64 * 64;
        let mut own = self.clone();
        let nodes = nodes.or(own.nodes()).unwrap_or(shards);
        let levels = own.costs.shards.map_or_else(Vec::new, |shards| shards.value);
        let mut level = |level: usize, shards: u32| {
            let at = |_: &str, given: &mut Given<Levels>| given.value.at(level);
            CostLevel {
                shards,
                costs: own.costs.costs.each_mut().map(at),
                tasks: own.tasks.iter_mut().map(|(name, task)| (name.clone(), task.each_mut().map(at))).collect(),
                other_tasks: own.other_tasks.each_mut().map(at),
            }
        };
        let CostLevel { costs, tasks, other_tasks, .. } = level(0, 1);
        let Network { latency_ns, send_ns, receive_ns, first_ns, gap_ns, byte_ns, rendezvous_bytes } = own.network;
        let network = Link { latency_ns, send_ns, receive_ns, first_ns, gap_ns, byte_ns };
        let link = |link: Link<Given<f64>>| link.map(|_, given| given.value);
        VirtualMachine {
            name: own.name,
            nodes,
            one_copy: u64::from(nodes) * u64::from(shards) > KNOWN,
            per_node: own.nodes.processors.value,
            utility: own.nodes.utility.value,
            utility_shares: own.nodes.utility_shares.is_some_and(|given| given.value),
            sharing: own.nodes.sharing.is_some_and(|given| given.value),
            network: link(network),
            rendezvous_bytes: rendezvous_bytes.map(|given| given.value),
            memory: link(own.memory),
            costs,
            replay: own.collectives.replay.value,
            round_requirements: own.collectives.round_requirements.value,
            acknowledge: own.collectives.acknowledge.is_none_or(|given| given.value),
            tasks,
            other_tasks,
            crowded: (0..).zip(levels).filter(|at| at.0 > 0 || at.1 > 1).map(|(i, shards)| level(i, shards)).collect(),
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
            assert_eq!((machine.name.as_str(), machine.nodes), (name, if name == "local" { 1 } else { 12 }));
            machine.check().unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(load(name).machine(Some(3), 12).nodes, 3);
        }
    }

    #[test]
    fn values_may_depend_on_the_shards_of_a_processor() {
        let text = include_str!("../../machines/ideal.toml");
        let set = |text: &str, key: &str, value: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).expect(key);
            text.replacen(line, &format!("{key} = {{ value = {value}, why = \"a test\" }}"), 1)
        };
        let by_shards = text.replacen("[costs]\n", "[costs]\nshards = { value = [2, 8], why = \"a test\" }\n", 1);
        let by_shards = set(&set(&by_shards, "launch_ns", "[10, 30.5]"), "task_ns", "[1, 2]");
        let machine = MachineFile::parse("m.toml", &by_shards).expect("a machine").machine(None, 1);
        assert_eq!((machine.costs.launch_ns, machine.other_tasks.task_ns), (10.0, 1.0));
        let crowded: Vec<_> =
            machine.crowded.iter().map(|c| (c.shards, c.costs.launch_ns, c.other_tasks.task_ns)).collect();
        assert_eq!(crowded, [(2, 10.0, 1.0), (8, 30.5, 2.0)]);
        assert_eq!(MachineFile::parse("m.toml", text).expect("a machine").machine(None, 1).crowded, []);
        for wrong in [set(&by_shards, "map_ns", "[1, 2, 3]"), set(text, "map_ns", "[1, 2]")] {
            let refused = MachineFile::parse("m.toml", &wrong).expect_err("as many as shards");
            assert!(matches!(&refused, Failure::Usage(e) if e.contains("costs.shards")), "{refused:?}");
        }
        let descending = by_shards.replacen("[2, 8]", "[8, 2]", 1);
        let machine = MachineFile::parse("m.toml", &descending).expect("a file").machine(None, 1);
        assert!(machine.check().is_err_and(|e| e.to_string().contains("2 after 8")));
        // None of them is left out unseen.
        let nothing = set(&set(&by_shards.replacen("[2, 8]", "[1, 0]", 1), "launch_ns", "[1, 2]"), "task_ns", "0");
        let machine = MachineFile::parse("m.toml", &nothing).expect("a file").machine(None, 1);
        assert!(machine.check().is_err_and(|e| e.to_string().contains("0 after 1")));
    }

    #[test]
    fn keys_that_are_off_may_be_left_out() {
        let text = include_str!("../../machines/ideal.toml");
        let parsed = |text: &str| MachineFile::parse("m.toml", text).map(|file| file.machine(None, 1));
        let without = parsed(text).expect("a machine");
        assert_eq!((without.utility_shares, without.rendezvous_bytes), (false, None));
        let long = |bytes| {
            text.replacen("[memory]", &format!("rendezvous_bytes = {{ value = {bytes}, why = 'a test' }}\n[memory]"), 1)
        };
        let with = parsed(&long("65536")).expect("a machine");
        assert_eq!(with, VirtualMachine { rendezvous_bytes: Some(65_536), ..without });
        for wrong in ["-1", "0.5", "true"] {
            let refused = parsed(&long(wrong)).expect_err("no number of bytes");
            assert!(matches!(&refused, Failure::Usage(e) if e.contains("rendezvous_bytes")), "{refused:?}");
        }
        let in_memory = text.replacen("[memory]", "[memory]\nrendezvous_bytes = { value = 1, why = 'a test' }", 1);
        assert!(parsed(&in_memory).is_err());
        let shares = text.replacen("[network]", "utility_shares = { value = true, why = \"a test\" }\n[network]", 1);
        let e = parsed(&shares).expect("a file").check().unwrap_err().to_string();
        assert!(e.contains("utility_shares: expected at least one utility processor"), "{e}");
        let two = |line: &str| line.replacen("value = 1", "value = 2", 1).replacen("value = 0", "value = 1", 1);
        let with_utility: Vec<_> = shares
            .lines()
            .map(|l| if l.starts_with("utility =") || l.starts_with("processors") { two(l) } else { l.into() })
            .collect();
        let machine = parsed(&with_utility.join("\n")).expect("a machine");
        assert!(machine.check().is_ok() && machine.utility_shares);
    }

    #[test]
    fn what_is_no_machine_is_refused_with_the_place() {
        let text = include_str!("../../machines/ideal.toml");
        let refusal = |loaded: Result<MachineFile, Failure>| match loaded {
            Err(Failure::Usage(message)) => message,
            other => panic!("{other:?}"),
        };
        let e = refusal(MachineFile::parse("m.toml", &text.replacen("latency_ns", "latency_us", 1)));
        assert!(e.contains("m.toml") && e.contains("latency_us") && e.contains("line"), "{e}");
        let line = text.lines().find(|line| line.starts_with("gap_ns")).unwrap();
        let e = refusal(MachineFile::parse("m.toml", &text.replacen(line, "gap_ns = 3.0", 1)));
        assert!(e.contains("gap_ns = 3.0") && e.contains("expected a value with a reason: { value = "), "{e}");
        let line = text.lines().find(|line| line.starts_with("map_ns")).unwrap();
        for (other, expected) in [
            ("imput_ns = { value = 3, why = 'a slip' }", "imput_ns"),
            ("map_ns = { value = 3 }", "map_ns"),
            ("map_ns = { value = 3, why = ' ' }", "expected a source or a reason"),
        ] {
            let own = if other.starts_with("map_ns") { other.to_owned() } else { format!("{line}\n{other}") };
            let e = refusal(MachineFile::parse("m.toml", &text.replacen(line, &own, 1)));
            assert!(e.contains("m.toml") && e.contains(expected), "{e}");
        }
        let e = refusal(MachineFile::load("titan"));
        assert!(e.contains("`titan`") && e.contains("ideal"), "{e}");
        assert!(refusal(MachineFile::load("./no.toml")).contains("./no.toml"));
        let e = refusal(MachineFile::parse("m.toml", &text.replacen("\"ideal\"", "\"my\\nideal\"", 1)));
        assert!(e.contains("m.toml: name = \"my\\nideal\": expected one line of text"), "{e}");
        let e = refusal(MachineFile::parse("m.toml", &text.replacen("about = \"", "about = \"a\\n", 1)));
        assert!(e.contains("m.toml: about = \"a\\n") && e.contains("expected one line of text"), "{e}");
        let e = refusal(MachineFile::parse("m.toml", "name = 'm'\nabout = 'no machine'"));
        assert!(e.contains("m.toml: no table [nodes]"), "{e}");
        let e = refusal(MachineFile::parse("m.toml", "name = 'm'\nabout = 'its own'\nlike = 'm'"));
        assert!(e.contains("like = \"m\""), "{e}");
    }

    #[test]
    fn a_machine_has_the_tables_that_it_does_not_give_from_the_one_it_is_like() {
        let given = "name = 'm'\nabout = ''\nlike = 'ideal'\n[network]\n";
        let number = |name: &str| format!("{name} = {{ value = 7, why = 'to be seen' }}\n");
        let numbers: String =
            ["latency_ns", "send_ns", "receive_ns", "gap_ns", "byte_ns"].into_iter().map(number).collect();
        let m = MachineFile::parse("m.toml", &format!("{given}{numbers}")).unwrap_or_else(|e| panic!("{e:?}"));
        let (ideal, m) = (MachineFile::load("ideal").unwrap().machine(None, 3), m.machine(None, 3));
        assert_eq!((m.name.as_str(), m.network.gap_ns), ("m", 7.0));
        assert_eq!(VirtualMachine { name: ideal.name.clone(), network: ideal.network, ..m }, ideal);
    }
}
