//! The graph of a deadlock: who waits for whom. Each processor gives a [`ReportPart`]. The joined graph is searched for
//! cycles, and for shards that have ended and still owe something. It is shown as a text ([`Graph::text`]) and as a
//! drawing in Graphviz's language ([`Graph::dot`]).

mod show;

use crate::ids::{LaunchKey, ObjectId, ProcessorId};
use crate::object::GangTable;
use maniple_barriers::Arrivals;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// A node of the graph: something that waits, or that others wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Node {
    /// The top-level task, or another future that is no shard.
    Other {
        processor: ProcessorId,
        slot: u32,
    },
    Launch(LaunchKey),
    Shard {
        gang: ObjectId,
        shard: u32,
        /// The launch, because each launch of a gang has shards of its own. `None` if it is not known.
        launch: Option<LaunchKey>,
    },
    /// A call of a collective: a slot of one shard.
    Call {
        object: ObjectId,
        shard: u32,
        slot: u32,
    },
    Task {
        processor: ProcessorId,
        index: u32,
    },
    /// A generation of a phase barrier.
    Phase {
        object: ObjectId,
        generation: u64,
    },
    /// A move of data for a launch, by its number there, at the processor that sends it.
    Move {
        launch: LaunchKey,
        number: u32,
    },
}

/// A wait of a node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Wait {
    /// The text after the node's name: ` waits for …`.
    pub what: String,
    pub on: On,
}

/// A wait for something with this name, and the nodes it depends on.
pub(crate) fn waits_for(what: impl std::fmt::Display, on: Vec<Node>) -> Wait {
    Wait { what: format!(" waits for {what}"), on: On::Nodes(on) }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum On {
    /// All of these nodes.
    Nodes(Vec<Node>),
    /// An arrival. This shard owes it, unless one of its waiting tasks is about to make it. `lacks` says what is missing:
    /// `arrives for …`.
    Arrival { arrival: Arrival, by: Member, lacks: String },
}

/// A shard of a gang, in any launch.
pub(crate) type Member = (ObjectId, u32);

/// A generation of one half of an edge: processor, object and cell, generation.
pub(crate) type Arrival = (ProcessorId, ObjectId, u32, u64);

/// One processor's part of the graph.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReportPart {
    /// The names of nodes.
    pub names: Vec<(Node, String)>,
    pub waits: Vec<(Node, Wait)>,
    /// Arrivals that waiting tasks are to make.
    pub owed: Vec<(Arrival, Node)>,
    /// The errors of failed shards.
    pub failed: BTreeSet<String>,
    /// Shards that have ended, in launches that have not.
    pub over: Vec<Node>,
    pub phases: Vec<(ObjectId, PhaseReport)>,
    pub replays: Vec<(ObjectId, CallsReport)>,
    /// The gangs. All processes know them.
    #[serde(skip)]
    pub gangs: Vec<Arc<GangTable>>,
}

impl ReportPart {
    /// The shards of these processors, in words.
    #[cfg(target_os = "linux")]
    pub fn shards_of(&self, processors: std::ops::Range<u32>) -> String {
        let of = |gang: &Arc<GangTable>| {
            let own = gang.members.get(processors.start as usize..processors.end as usize)?;
            let mut shards = own.concat();
            shards.sort_unstable();
            let many = if shards.len() == 1 { "shard" } else { "shards" };
            (!shards.is_empty()).then(|| format!("{many} {} of gang `{}`", a_few(&shards), gang.name))
        };
        list(self.gangs.iter().filter_map(of).take(4))
    }
}

/// One processor's part of a phase barrier. The missing arrivers are known once all parts are joined.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PhaseReport {
    pub name: String,
    pub gang: ObjectId,
    pub awaited: BTreeSet<u64>,
    /// Shards, each with its arrivals.
    pub arrived: Vec<(u32, Arrivals)>,
}

/// One processor's part of a collective. The shards with fewer calls than others are known once all parts are joined.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CallsReport {
    pub name: String,
    pub gang: ObjectId,
    pub waits: bool,
    pub slots: u64,
    /// Shards, and how many calls each has made.
    pub made: Vec<(u32, u64)>,
}

/// All waits, on all processors.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    names: HashMap<Node, String>,
    waits: BTreeMap<Node, Vec<(String, Vec<Node>)>>,
    /// Shards that have ended.
    over: HashSet<Node>,
    /// The nodes of each shard of a gang, one for each launch.
    members: HashMap<Member, BTreeSet<Node>>,
    /// One cycle of each group of nodes that wait for each other.
    cycles: Vec<Vec<Node>>,
    /// The errors of failed shards: the likely cause of everything else.
    failed: BTreeSet<String>,
    /// The causes that can be found.
    causes: BTreeSet<String>,
}

impl Graph {
    pub fn join(parts: impl IntoIterator<Item = ReportPart>) -> Self {
        let mut all = ReportPart::default();
        let (mut phases, mut replays) = (BTreeMap::<_, PhaseReport>::new(), BTreeMap::<_, CallsReport>::new());
        for part in parts {
            all.names.extend(part.names);
            all.waits.extend(part.waits);
            all.owed.extend(part.owed);
            all.failed.extend(part.failed);
            all.over.extend(part.over);
            for (id, part) in part.phases {
                let whole = phases.entry(id).or_default();
                (whole.name, whole.gang) = (part.name, part.gang);
                whole.awaited.extend(part.awaited);
                whole.arrived.extend(part.arrived);
            }
            for (id, part) in part.replays {
                let whole = replays.entry(id).or_default();
                (whole.name, whole.gang, whole.slots) = (part.name, part.gang, part.slots);
                whole.waits |= part.waits;
                whole.made.extend(part.made);
            }
        }
        let mut members = HashMap::<Member, BTreeSet<Node>>::new();
        let known =
            all.names.iter().map(|(node, _)| node).chain(all.waits.iter().map(|(node, _)| node)).chain(&all.over);
        for &node in known {
            if let Node::Shard { gang, shard, .. } = node {
                members.entry((gang, shard)).or_default().insert(node);
            }
        }
        let owed: HashMap<Arrival, Node> = all.owed.into_iter().collect();
        let mut graph = Self {
            members,
            names: all.names.into_iter().collect(),
            over: all.over.into_iter().collect(),
            failed: all.failed,
            ..Self::default()
        };
        for (id, phase) in phases {
            graph.add_phase(id, phase);
        }
        for (id, calls) in replays {
            graph.add_calls(id, calls);
        }
        let mut idle = BTreeSet::new();
        for (node, Wait { what, on }) in all.waits {
            let on = match on {
                On::Nodes(on) => on,
                On::Arrival { arrival, by, lacks } => match owed.get(&arrival) {
                    Some(&maker) => vec![maker],
                    None => {
                        let by = graph.member_beside(node, by);
                        for by in by.iter().filter(|by| graph.over.contains(by)) {
                            let text = format!("{} is over, and {}{what}", graph.name(*by), graph.name(node));
                            graph.causes.insert(text);
                        }
                        // In a ring of shards that wait for each other, this one is to blame.
                        for by in by.iter().filter(|by| !graph.over.contains(by)) {
                            idle.insert(format!("{} has launched nothing that {lacks}", graph.name(*by)));
                        }
                        by
                    }
                },
            };
            graph.waits.entry(node).or_default().push((what, on));
        }
        const MOST: usize = 8;
        let more = idle.len().saturating_sub(MOST);
        graph.causes.extend(idle.into_iter().take(MOST));
        if more > 0 {
            graph.causes.insert(format!("… and {more} more arrivals that others wait for and nobody has launched"));
        }
        graph.cycles = graph.find_cycles();
        graph
    }

    fn add_phase(&mut self, object: ObjectId, phase: PhaseReport) {
        let PhaseReport { name, gang, awaited, mut arrived } = phase;
        arrived.sort_unstable_by_key(|(shard, _)| *shard);
        for generation in awaited {
            let lacking = || arrived.iter().filter(|(_, a)| a.next() <= generation);
            let mut missing: Vec<u32> = lacking().map(|(shard, _)| *shard).collect();
            // A shard that arrives several times is listed once for each missing arrival.
            missing.dedup();
            let of = format!("generation {generation} of phase barrier `{name}`");
            if !missing.is_empty() {
                self.causes.insert(format!("missing for {of}: shard {}", a_few(&missing)));
            }
            let shards: Vec<Node> = missing.iter().flat_map(|&shard| self.member((gang, shard))).collect();
            for node in shards.iter().filter(|node| self.over.contains(node)) {
                self.causes.insert(format!("{} is over without its arrival for {of}", self.name(*node)));
            }
            // Explains why a shard that did arrive is listed as missing.
            for (shard, a) in lacking() {
                let early = list(a.early());
                if !early.is_empty() {
                    let text = format!("shard {shard} arrived early at phase barrier `{name}`: {early}, but not for");
                    self.causes.insert(format!("{text} {}", a.next()));
                }
            }
            let node = Node::Phase { object, generation };
            self.names.insert(node, of);
            self.waits.insert(node, vec![(" lacks arrivals of these shards:".into(), shards)]);
        }
    }

    fn add_calls(&mut self, object: ObjectId, calls: CallsReport) {
        let CallsReport { name, gang, waits, slots, made } = calls;
        let (least, most) = made.iter().fold((u64::MAX, 0), |(a, b), (_, n)| (a.min(*n), b.max(*n)));
        if !waits || least >= most {
            return;
        }
        let mut missing: Vec<u32> = made.iter().filter(|(_, n)| *n == least).map(|(shard, _)| *shard).collect();
        missing.sort_unstable();
        self.causes.insert(format!("missing in call {least} of `{name}`: shard {}", a_few(&missing)));
        for shard in missing {
            let node = Node::Call { object, shard, slot: (least % slots.max(1)) as u32 };
            self.names.insert(node, format!("call {least} of `{name}` in shard {shard}"));
            self.waits.insert(node, vec![(" has not been made".into(), self.member((gang, shard)))]);
        }
    }

    /// The nodes of a shard of a gang: those that run. If none does, all that have not started or have ended.
    fn member(&self, (gang, shard): Member) -> Vec<Node> {
        let Some(all) = self.members.get(&(gang, shard)) else {
            return vec![Node::Shard { gang, shard, launch: None }];
        };
        let running: Vec<Node> = all.iter().copied().filter(|node| self.names.contains_key(node)).collect();
        if running.is_empty() { all.iter().copied().collect() } else { running }
    }

    /// The nodes that owe something to `waits`. If `waits` is a shard of the same gang, only the shard in its own
    /// launch.
    fn member_beside(&mut self, waits: Node, (gang, shard): Member) -> Vec<Node> {
        match waits {
            Node::Shard { gang: its, launch, .. } if its == gang => {
                let own = Node::Shard { gang, shard, launch };
                // A processor forgets a batch that has ended, so the shard is taken to have ended.
                if !self.members.get(&(gang, shard)).is_some_and(|all| all.contains(&own)) {
                    self.over.insert(own);
                }
                vec![own]
            }
            _ => self.member((gang, shard)),
        }
    }

    fn name(&self, node: Node) -> String {
        self.names.get(&node).cloned().unwrap_or_else(|| default_name(node))
    }

    /// The nodes that a node waits for.
    fn next(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        self.waits.get(&node).into_iter().flatten().flat_map(|(_, on)| on.iter().copied())
    }

    fn find_cycles(&self) -> Vec<Vec<Node>> {
        let mut found: Vec<Vec<Node>> = Vec::new();
        let (mut done, mut cyclic) = (HashSet::new(), HashSet::new());
        for &start in self.waits.keys() {
            // The path from `start`. Each node comes with its successors that have not been tried.
            let mut way: Vec<(Node, Vec<Node>)> = Vec::new();
            let mut places: HashMap<Node, usize> = HashMap::new();
            let mut next = done.insert(start).then_some(start);
            loop {
                if let Some(node) = next.take() {
                    places.insert(node, way.len());
                    way.push((node, self.next(node).collect()));
                }
                let Some((_, rest)) = way.last_mut() else { break };
                match rest.pop() {
                    None => drop(way.pop().and_then(|(node, _)| places.remove(&node))),
                    Some(to) if done.insert(to) => next = Some(to),
                    Some(to) => {
                        let Some(&at) = places.get(&to).filter(|_| !cyclic.contains(&to)) else { continue };
                        let cycle: Vec<Node> = way[at..].iter().map(|(node, _)| *node).collect();
                        if !cycle.iter().any(|node| cyclic.contains(node)) {
                            cyclic.extend(cycle.iter().copied());
                            found.push(cycle);
                        }
                    }
                }
            }
        }
        found
    }
}

fn default_name(node: Node) -> String {
    match node {
        Node::Other { .. } => "a task".into(),
        Node::Launch(key) => format!("launch {}", key & u64::from(u32::MAX)),
        Node::Shard { shard, .. } => format!("shard {shard}"),
        Node::Call { shard, .. } => format!("a call in shard {shard}"),
        Node::Task { .. } => "a leaf task".into(),
        Node::Phase { generation, .. } => format!("generation {generation}"),
        Node::Move { launch, .. } => format!("a send for launch {}", launch & u64::from(u32::MAX)),
    }
}

pub(crate) fn list<T: std::fmt::Display>(items: impl Iterator<Item = T>) -> String {
    items.map(|i| i.to_string()).collect::<Vec<_>>().join(", ")
}

/// Numbers, but only the first of many.
fn a_few(numbers: &[u32]) -> String {
    const MOST: usize = 16;
    let more = numbers.len().saturating_sub(MOST);
    let first = list(numbers.iter().take(MOST));
    if more > 0 { format!("{first} and {more} more") } else { first }
}

/// A sentence about how many generations are `what`; there are `n`.
pub(crate) fn so_far(n: u64, what: &str) -> String {
    match n {
        0 => format!("none is {what}"),
        1 => format!("generation 0 is {what}"),
        n => format!("generations 0 to {} are {what}", n - 1),
    }
}

/// A sentence about how many values have been put or got.
pub(crate) fn values_so_far(n: u64, what: &str) -> String {
    match n {
        0 => format!("none has been {what}"),
        1 => format!("value 0 has been {what}"),
        n => format!("values 0 to {} have been {what}", n - 1),
    }
}

/// Names shards, if they are few.
pub(crate) fn some_shards(mut shards: Vec<u32>) -> String {
    shards.sort_unstable();
    match shards.len() {
        1 => format!("shard {} is", shards[0]),
        n @ 2..=16 => {
            let list: Vec<_> = shards.iter().map(u32::to_string).collect();
            format!("shards {} and {} are", list[..n - 1].join(", "), list[n - 1])
        }
        n => format!("{n} shards are"),
    }
}
