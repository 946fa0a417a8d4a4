//! The machine of a run in virtual time: its processors, the links between them, and the costs of the runtime's
//! operations. Times are given in nanoseconds and kept in picoseconds, so that sums are the same on every host.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A time or a length of time, in picoseconds.
pub(super) type Ps = u64;

/// A table of numbers. Its type parameter may stand for something else than the numbers, such as references to them.
macro_rules! numbers {
    ($(#[$about:meta])* $Name:ident { $($(#[$doc:meta])* $number:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $Name<N = f64> {
            $($(#[$doc])* pub $number: N,)*
        }

        impl<N> $Name<N> {
            /// The table of the results of `f`, which is called with each number and its name.
            pub fn map<M>(self, mut f: impl FnMut(&'static str, N) -> M) -> $Name<M> {
                $Name { $($number: f(stringify!($number), self.$number),)* }
            }

            /// The table of references to the numbers.
            pub fn each_mut(&mut self) -> $Name<&mut N> {
                $Name { $($number: &mut self.$number,)* }
            }
        }

        impl $Name {
            /// The numbers at a fraction of the way from these to others.
            #[allow(dead_code, reason = "not all tables are mixed")]
            fn towards(&self, others: &Self, part: f64) -> Self {
                $Name { $($number: self.$number + (others.$number - self.$number) * part,)* }
            }
        }
    };
}

numbers! {
    /// The link between two processors, in the LogGP model (Alexandrov, Ionescu, Schauser and Scheiman, 1995). Times
    /// are in nanoseconds.
    Link {
        /// L, the latency: the time from the sender's way out to the receiver's way in.
        latency_ns,
        /// o of the sender: its time for a message.
        send_ns,
        /// o of the receiver: its time for a message.
        receive_ns,
        /// The receiver's additional time for the first of several messages that it finds. The others are fetched
        /// meanwhile.
        #[serde(default)]
        first_ns,
        /// g, the gap: the least time from message to message on a node's way out, and on its way in. Within a node
        /// there is none.
        gap_ns,
        /// G: the time for each byte.
        byte_ns,
    }
}

numbers! {
    /// The costs of the runtime's operations: the time that each takes of its processor, in nanoseconds.
    Costs {
        /// A launch of a leaf task or of a shard, without its requirements.
        launch_ns,
        /// Each region requirement of a launch.
        requirement_ns,
        /// Each future that a leaf task or a call of a collective takes its input from.
        #[serde(default)]
        input_ns,
        /// A leaf task of the top-level task that runs on another node.
        #[serde(default)]
        elsewhere_ns,
        /// A call of the mapper.
        map_ns,
        /// The start of a leaf task that is ready.
        start_ns,
        /// The end of a leaf task, from its return until its result is known.
        complete_ns,
        /// A subtask of a collective that [replays](VirtualMachine::replay) its rounds, with its arrival. A local one, which
        /// has none, is charged the same.
        replayed_ns,
        /// Each byte that a read or a local subtask of a collective combines or copies, of values of more than
        /// [`Payload::INLINE`](crate::Payload::INLINE) bytes. Smaller values are included in the subtask.
        #[serde(default)]
        combine_byte_ns,
        /// The input and the result of a call of a collective, for each shard, without the subtasks.
        call_ns,
        /// An arrival at a barrier.
        arrival_ns,
        /// A poll of a shard's future.
        poll_ns,
        /// The runtime's part in taking in a message, in addition to the times of the link.
        message_ns,
        /// The start of a shard.
        shard_ns,
    }
}

numbers! {
    /// The time of a leaf task's own work, unless [`Launch::takes`](crate::Launch::takes) sets it. In nanoseconds.
    TaskCost {
        /// The time of the task.
        task_ns,
        /// The time for each byte of its regions.
        byte_ns,
    }
}

/// The costs of a processor with many shards, whose data no longer fits a cache.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CostLevel {
    /// The number of shards that these costs are for, more than 1: the most that the processor has had at a time. Inner
    /// tasks and copies of the top-level task count too.
    pub shards: u32,
    /// The costs of the runtime's operations.
    pub costs: Costs,
    /// The times of leaf tasks, as [`VirtualMachine::tasks`].
    pub tasks: BTreeMap<String, TaskCost>,
    /// The time of all other leaf tasks, as [`VirtualMachine::other_tasks`].
    pub other_tasks: TaskCost,
}

/// A machine that exists in virtual time only, for [`Runtime::virtual_time`](crate::Runtime::virtual_time).
///
/// On the default machine nothing takes any time; set the numbers that matter to you.
///
/// ```
/// use maniple_runtime::{Link, Runtime, VirtualMachine, now};
/// use std::time::Duration;
///
/// let network = Link { latency_ns: 1500.0, ..Link::default() };
/// let machine = VirtualMachine { nodes: 3, network, ..VirtualMachine::default() };
/// let (took, _) = Runtime::virtual_time(machine).run(|top| async move {
///     let began = now();
///     top.gang("all", 3)?;
///     Ok(now() - began)
/// })?;
/// assert_eq!(took, Duration::ZERO);
/// # Ok::<(), maniple_runtime::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualMachine {
    /// The name of the machine in reports and traces.
    pub name: String,
    /// Number of nodes, at least 1. Each is an address space.
    pub nodes: u32,
    /// Number of processors of each node, at least 1.
    pub per_node: u32,
    /// Number of utility processors of each node, fewer than `per_node`; they are the last ones. Shards run on them
    /// unless a mapper puts the shards elsewhere. Leaf tasks run on the other processors.
    pub utility: u32,
    /// Whether the utility processors have no cores of their own, but share those of their node's other processors. The time
    /// that one of them uses is taken from another processor: from an idle one, or else from the one that is free first. That
    /// one is busy for so much longer.
    pub utility_shares: bool,
    /// Whether one copy of the top-level task, on the first processor, serves all nodes. Otherwise each node has its
    /// own, as outside virtual time.
    ///
    /// A copy's data grows with the number of shards, so a machine of many nodes can have only one copy. A single copy
    /// starts all shards and gets all their results. Shards do the same between start and end either way.
    pub one_copy: bool,
    /// The link between nodes.
    pub network: Link,
    /// Whether large values that are under way between nodes at once share the ways of their nodes, equally fast. Otherwise one
    /// keeps the way busy until it has left, and the next waits. Large are values of at least 64 KiB; all other messages wait
    /// for each other, and not for large ones that share.
    pub sharing: bool,
    /// The most bytes of a message between nodes that moves at once, with its head of 32 bytes; `None` if all do.
    ///
    /// A longer one moves by *rendezvous*: its processor sends a request without the data, the other processor handles that
    /// between its tasks and answers, and when the first one has handled the answer, the data leaves. Both messages are of 32 bytes
    /// and cost what messages cost, but go between the packets of others and don't wait for them. Messages keep their order all the
    /// same: a later one that comes before the data waits for it.
    pub rendezvous_bytes: Option<u64>,
    /// The link between processors of a node.
    pub memory: Link,
    /// The costs of the runtime's operations.
    pub costs: Costs,
    /// Whether collectives replay rounds that were mapped before.
    ///
    /// If not, each subtask of a round is charged as a leaf task that is launched, mapped, started and completed, with
    /// [`round_requirements`](Self::round_requirements). A value that travels along an edge is then charged as a
    /// region. The leaf tasks that put and get it have a requirement for the region, and so have their shards. The
    /// mapper is asked where the region is each time the shards are launched.
    pub replay: bool,
    /// Region requirements of a subtask of a round, on a machine without replay.
    pub round_requirements: f64,
    /// Whether empty arrivals cost as much as other messages. By an empty arrival a reader says that it has read a
    /// value. If not, it takes the latency, but no time of a processor. That models a library whose receivers have space
    /// for many small values, and need no such message.
    pub acknowledge: bool,
    /// The times of leaf tasks. The key is the last part of the function's path, or the name that
    /// [`Launch::named`](crate::Launch::named) gives. For a closure in `f` it is `f::{{closure}}`.
    pub tasks: BTreeMap<String, TaskCost>,
    /// The time of all other leaf tasks.
    pub other_tasks: TaskCost,
    /// Costs for processors with more than one shard, in ascending order of their shards. The costs above are for one
    /// shard.
    ///
    /// Between two levels costs go linearly with the logarithm of the number of shards. Beyond the last level they
    /// stay.
    pub crowded: Vec<CostLevel>,
    /// The noise: each latency and each leaf task takes longer by up to this fraction, drawn from the seed. With 0
    /// there is no noise.
    pub noise: f64,
    /// The seed of the noise.
    pub seed: u64,
}

impl Default for VirtualMachine {
    /// One node of one processor, on which nothing takes any time.
    fn default() -> Self {
        Self {
            name: "ideal".into(),
            nodes: 1,
            per_node: 1,
            utility: 0,
            utility_shares: false,
            one_copy: false,
            network: Link::default(),
            rendezvous_bytes: None,
            sharing: false,
            memory: Link::default(),
            costs: Costs::default(),
            replay: true,
            round_requirements: 2.0,
            acknowledge: true,
            tasks: BTreeMap::new(),
            other_tasks: TaskCost::default(),
            crowded: Vec::new(),
            noise: 0.0,
            seed: 0,
        }
    }
}

/// The same in picoseconds.
#[derive(Clone, Copy)]
pub(super) struct LinkPs {
    pub latency: Ps,
    pub send: Ps,
    pub receive: Ps,
    pub first: Ps,
    gap: Ps,
    /// For 1024 bytes, as one may take less than a picosecond.
    kibibyte: Ps,
}

impl LinkPs {
    fn new(link: &Link) -> Self {
        let Link { latency_ns, send_ns, receive_ns, first_ns, gap_ns, byte_ns } = *link;
        Self {
            latency: ps(latency_ns),
            send: ps(send_ns),
            receive: ps(receive_ns),
            first: ps(first_ns),
            gap: ps(gap_ns),
            kibibyte: ps(byte_ns * 1024.0),
        }
    }

    /// Whether a message keeps a node's way in or out busy.
    pub fn has_ways(&self) -> bool {
        self.gap > 0 || self.takes_bytes()
    }

    /// Whether larger messages take longer.
    pub fn takes_bytes(&self) -> bool {
        self.kibibyte > 0
    }

    /// The time that a message of this many bytes keeps a way in or out busy, and the part of it for the message's bytes.
    /// Calls `bytes` only if bytes take time.
    pub fn busy(&self, bytes: impl FnOnce() -> usize) -> (Ps, Ps) {
        let bytes = if self.takes_bytes() { (bytes() as u64).saturating_mul(self.kibibyte) / 1024 } else { 0 };
        (bytes.max(self.gap), bytes)
    }
}

/// The cost of each of a processor's counters.
#[derive(Clone, Copy)]
pub(super) struct CostsPs {
    pub shards: Ps,
    pub launches: Ps,
    pub requirements: Ps,
    pub edge_values: Ps,
    pub edge_regions: Ps,
    pub inputs: Ps,
    pub elsewhere: Ps,
    pub mapper_calls: Ps,
    /// The start of a leaf task, which no counter counts.
    pub start: Ps,
    pub leaf_tasks: Ps,
    pub chain_subtasks: Ps,
    pub chain_calls: Ps,
    pub combined_bytes: Ps,
    pub arrivals: Ps,
    pub chain_arrivals: Ps,
    pub polls: Ps,
    pub message: Ps,
}

/// A length of time that has been checked.
fn ps(ns: f64) -> Ps {
    (ns * 1000.0).round() as Ps
}

impl VirtualMachine {
    /// All numbers of the machine that times depend on, with their names in a machine file, such as
    /// `network.latency_ns`.
    pub fn numbers_mut(&mut self) -> Vec<(String, &mut f64)> {
        let mut all = vec![
            ("collectives.round_requirements".to_owned(), &mut self.round_requirements),
            ("noise".to_owned(), &mut self.noise),
        ];
        let mut add = |table: &str, number: &'static str, value| all.push((format!("{table}.{number}"), value));
        self.network.each_mut().map(|number, value| add("network", number, value));
        self.memory.each_mut().map(|number, value| add("memory", number, value));
        let levels = self.crowded.iter_mut().map(|c| {
            let CostLevel { shards, costs, tasks, other_tasks } = c;
            (format!(" with {shards} shards"), costs, tasks, other_tasks)
        });
        let own = (String::new(), &mut self.costs, &mut self.tasks, &mut self.other_tasks);
        for (with, costs, tasks, other_tasks) in std::iter::once(own).chain(levels) {
            let mut add = |table: &str, number: &str, value| all.push((format!("{table}.{number}{with}"), value));
            costs.each_mut().map(|number, value| add("costs", number, value));
            for (name, task) in tasks {
                task.each_mut().map(|number, value| add(&format!("tasks.{name}"), number, value));
            }
            other_tasks.each_mut().map(|number, value| add("other_tasks", number, value));
        }
        all
    }

    /// Number of processors of all nodes that run leaf tasks.
    pub fn leaf_processors(&self) -> usize {
        self.nodes as usize * self.per_node.saturating_sub(self.utility) as usize
    }

    /// Checks that such a machine is possible. [`Runtime::run`](crate::Runtime::run) does so first.
    ///
    /// # Errors
    /// [`Error::Misuse`] for no processors or more than 2²⁴, nothing but utility processors, none that could share, levels of
    /// [`crowded`](Self::crowded) that do not ascend, or a number that is not a possible time.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |what: &str, expected: &str, came: String| {
            Err(Error::misuse(format!("virtual machine `{}`, {what}", self.name), expected, came))
        };
        match self.nodes.checked_mul(self.per_node) {
            // Each takes kilobytes of this host.
            Some(1..=0x100_0000) => {}
            _ => return wrong("processors", "1 to 2^24", format!("{} nodes of {}", self.nodes, self.per_node)),
        }
        if self.utility >= self.per_node {
            let expected = format!("fewer than the {} of a node", self.per_node);
            return wrong("utility processors", &expected, self.utility.to_string());
        }
        if self.utility_shares && self.utility == 0 {
            return wrong("utility_shares", "at least one utility processor", "none".into());
        }
        let shards = std::iter::once(1).chain(self.crowded.iter().map(|c| c.shards));
        if let Some((less, more)) = shards.clone().zip(shards.skip(1)).find(|(less, more)| less >= more) {
            return wrong("costs by shards", "numbers of shards that ascend from 2", format!("{more} after {less}"));
        }
        if !(0.0..=1000.0).contains(&self.round_requirements) {
            return wrong("collectives.round_requirements", "0 to 1000", self.round_requirements.to_string());
        }
        if self.noise > 1000.0 {
            return wrong("noise", "a fraction of a time, from 0 to 1000", self.noise.to_string());
        }
        // An hour for a single operation: more is a slip of the pen.
        let mut machine = self.clone();
        let wild = machine.numbers_mut().into_iter().find(|(_, value)| !(0.0..=3.6e12).contains(*value));
        wild.map_or(Ok(()), |(name, value)| wrong(&name, "a number from 0 to 3.6e12", value.to_string()))
    }

    pub(super) fn links(&self) -> [LinkPs; 2] {
        [LinkPs::new(&self.memory), LinkPs::new(&self.network)]
    }

    /// The levels below and above this number of shards, and the fraction of the way from the first to the second.
    fn between(&self, shards: usize) -> (Option<&CostLevel>, Option<&CostLevel>, f64) {
        let above = self.crowded.partition_point(|c| c.shards as usize <= shards);
        let below = above.checked_sub(1).map(|at| &self.crowded[at]);
        let Some(next) = self.crowded.get(above) else { return (below, below, 0.0) };
        let log = |n: f64| n.max(1.0).log2();
        let (from, to) = (below.map_or(0.0, |c| log(c.shards.into())), log(next.shards.into()));
        (below, Some(next), (log(shards as f64) - from) / (to - from))
    }

    /// The costs of operations on a processor that has had `shards` shards at a time.
    pub(super) fn costs_ps(&self, shards: usize) -> CostsPs {
        let (below, above, part) = self.between(shards);
        let [below, above] = [below, above].map(|level| level.map_or(&self.costs, |c| &c.costs));
        let c = below.towards(above, part);
        let round = c.launch_ns + self.round_requirements * c.requirement_ns + c.map_ns + c.start_ns + c.complete_ns;
        CostsPs {
            shards: ps(c.shard_ns),
            launches: ps(c.launch_ns),
            requirements: ps(c.requirement_ns),
            edge_values: if self.replay { 0 } else { ps(c.requirement_ns) },
            edge_regions: if self.replay { 0 } else { ps(c.map_ns) },
            inputs: ps(c.input_ns),
            elsewhere: ps(c.elsewhere_ns),
            mapper_calls: ps(c.map_ns),
            start: ps(c.start_ns),
            leaf_tasks: ps(c.complete_ns),
            chain_subtasks: ps(if self.replay { c.replayed_ns } else { round }),
            chain_calls: ps(c.call_ns),
            combined_bytes: ps(c.combine_byte_ns),
            arrivals: ps(c.arrival_ns),
            chain_arrivals: if self.replay { 0 } else { ps(c.arrival_ns) },
            polls: ps(c.poll_ns),
            message: ps(c.message_ns),
        }
    }

    /// The work of a leaf task whose regions and values have `bytes` bytes, on a processor that has had `shards` shards at a time.
    pub(super) fn work(&self, name: &str, bytes: impl FnOnce() -> usize, shards: usize) -> Ps {
        let (below, above, part) = self.between(shards);
        let [below, above] = [below, above].map(|level| {
            let (tasks, others) = level.map_or((&self.tasks, &self.other_tasks), |c| (&c.tasks, &c.other_tasks));
            tasks.get(name).unwrap_or(others)
        });
        let TaskCost { task_ns, byte_ns } = below.towards(above, part);
        let bytes = if byte_ns > 0.0 { bytes() } else { 0 };
        ps(task_ns + byte_ns * bytes as f64)
    }
}
