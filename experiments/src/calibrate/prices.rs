//! The price of each operation, from the times of programs that differ in how often they do it.

use super::programs::{ELEMENTS, FED, What};
use super::rounds::steps_before;
use maniple_command::measure::stats::{quantile_of, undisturbed};

/// Cells of the large blocks that leaf tasks are measured with.
pub const LARGE: u32 = 1000;
/// Cells of the small blocks.
pub const SMALL: u32 = 200;
/// Launches, or arrivals, one after the other.
pub const BURST: u32 = 32;
/// Rounds of a call, in the two programs that are compared.
pub const ROUNDS: [u16; 2] = [0, FED];

/// Programs that are measured at each number of shards.
pub const PROGRAMS: [What; 15] = [
    What::Yield,
    What::Leaf,
    What::Launch(BURST),
    What::Barrier,
    What::Regions,
    What::Fed(0),
    What::Fed(LARGE),
    What::Fed(SMALL),
    What::Fill(LARGE),
    What::Fill(SMALL),
    What::Rounds(ROUNDS[0]),
    What::Rounds(ROUNDS[1]),
    What::Large(ROUNDS[0]),
    What::Large(ROUNDS[1]),
    What::Gang,
];

/// Programs that need a second processor.
pub const BETWEEN: [What; 5] = [
    What::Remote,
    What::Send { remote: false, burst: BURST },
    What::Send { remote: true, burst: BURST },
    What::Both(false),
    What::Both(true),
];

/// Bytes of the ghost cells that the stencil's leaf task gets and puts.
const GHOST_BYTES: f64 = 64.0;
const CELL_BYTES: f64 = 8.0;

/// A price for each number of shards, or one for all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    /// Table and key of the machine file.
    pub key: (&'static str, &'static str),
    /// Nanoseconds, or nanoseconds for each byte.
    pub values: Vec<f64>,
    /// The reason for the values.
    pub why: String,
}

/// The times of programs in each round, in nanoseconds of an iteration of a shard.
pub trait Times {
    /// The times of a program with this number of shards on each processor, if it was measured.
    fn of(&self, what: What, shards: u32) -> Option<&[f64]>;
}

/// Computes all prices, for these numbers of shards per processor.
pub fn solve(times: &impl Times, levels: &[u32]) -> Vec<Price> {
    let time = |what: What, shards: u32| times.of(what, shards).map_or(f64::NAN, undisturbed);
    let each = |price: &dyn Fn(u32) -> f64| levels.iter().map(|&n| price(n).max(0.0)).collect::<Vec<f64>>();
    let less = |a: What, b: What, n: u32| (time(a, n) - time(b, n)).max(0.0);

    let leaf = |n| less(What::Leaf, What::Yield, n);
    let launch = |n| time(What::Launch(BURST), n).min(leaf(n));
    let requirement = |n| less(What::Regions, What::Leaf, n) / 5.0;
    let arrival = |n| less(What::Barrier, What::Leaf, n);
    let poll = |n| time(What::Yield, n);
    let [few, many] = ROUNDS.map(What::Rounds);
    let rounds = f64::from(ROUNDS[1] - ROUNDS[0]);
    let replayed = |n| less(many, few, n) / (2.0 * rounds);
    let [few_large, many_large] = ROUNDS.map(What::Large);
    let combined = |n| (less(many_large, few_large, n) / rounds - 2.0 * replayed(n)) / (CELL_BYTES * ELEMENTS as f64);
    let call = |n| time(few, n) - poll(n) - steps_before(n) * replayed(n);

    // The results of a call and of a leaf task are inputs of the next ones. The leaf task has one requirement. On each side it
    // arrives for the values that it gets, and for those that it puts.
    let fed = |n| time(What::Leaf, n) + requirement(n) + 4.0 * arrival(n) + time(many, n) - poll(n);
    let input = |n| (time(What::Fed(0), n) - fed(n)) / 2.0;

    // The price of a byte, and the rest.
    let by_bytes = |large: (f64, f64), small: (f64, f64)| {
        let byte = ((large.0 - small.0) / (large.1 - small.1)).max(0.0);
        (byte, (large.0 - byte * large.1).max(0.0))
    };
    let bytes = |cells: u32| CELL_BYTES * f64::from(cells);
    let advance = |n| {
        let at = |cells| (less(What::Fed(cells), What::Fed(0), n), bytes(cells) + GHOST_BYTES);
        by_bytes(at(LARGE), at(SMALL))
    };
    let fill = |n| {
        let at = |cells| (less(What::Fill(cells), What::Leaf, n) - requirement(n), bytes(cells));
        by_bytes(at(LARGE), at(SMALL))
    };

    let between = times.of(What::Remote, 1).is_some();
    let [local, remote] = [false, true].map(|remote| What::Send { remote, burst: BURST });
    // With fewer shards, processors wait for each other.
    let busy = |n: u32| *levels.iter().find(|&&l| l >= n.max(BUSY)).unwrap_or(&levels[levels.len() - 1]);
    let send = less(remote, local, busy(0));
    let [here, there] = [false, true].map(What::Both);
    let message = |n| {
        let n = busy(n);
        less(there, here, n) - send
    };
    let one = busy(0);
    let stream = time(What::Remote, one) - poll(one) - arrival(one) - send - message(one).max(0.0);
    let found = stream.max(0.0);
    let first = levels[0];
    let latency = time(What::Remote, 1) - poll(first) - arrival(first) - send - found - message(first).max(0.0);
    let or_none = |ns: f64| if between { ns.max(0.0) } else { 0.0 };

    let price = |table, key, values, used: &[What], why: &str| {
        let spread = spread(times, used, levels);
        Price { key: (table, key), values, why: format!("{why}{spread}") }
    };
    let none = |table, key, why: &str| Price { key: (table, key), values: vec![0.0], why: why.into() };
    let near = "messages pass through rings in memory: ";
    let alone = if between { "" } else { "there is only one processor" };
    vec![
        price(
            "memory",
            "latency_ns",
            vec![or_none(latency)],
            &[What::Remote],
            &format!("{alone}a message there and back between shards of two processors, less their own operations"),
        ),
        price(
            "memory",
            "send_ns",
            vec![or_none(send)],
            &[local, remote],
            "an arrival for another processor, less one for the same processor",
        ),
        price(
            "memory",
            "first_ns",
            vec![or_none(found)],
            &[What::Remote, here, there],
            "messages there and back between the shards of two processors, one at a time, less send_ns, message_ns, arrival_ns and poll_ns",
        ),
        none("memory", "receive_ns", "it is part of costs.message_ns, which depends on the shards"),
        none("memory", "gap_ns", &format!("{near}they have no gap of their own")),
        none("memory", "byte_ns", &format!("{near}larger values are lent where they are")),
        price(
            "costs",
            "launch_ns",
            each(&launch),
            &[What::Launch(BURST)],
            "launches of empty leaf tasks one after the other, with the call of the mapper",
        ),
        price(
            "costs",
            "requirement_ns",
            each(&requirement),
            &[What::Regions, What::Leaf],
            "an empty leaf task with five requirements, one exclusive and four shared, less one without any, from launch to end",
        ),
        price(
            "costs",
            "input_ns",
            each(&input),
            &[What::Fed(0)],
            "a leaf task and a call with 6 rounds that take their values from each other, less both alone, divided by two",
        ),
        none("costs", "map_ns", "in launch_ns"),
        none("costs", "start_ns", "in complete_ns"),
        price(
            "costs",
            "complete_ns",
            each(&|n| leaf(n) - launch(n)),
            &[What::Leaf],
            "an empty leaf task from launch to end, less launch_ns and poll_ns",
        ),
        price(
            "costs",
            "replayed_ns",
            each(&replayed),
            &[few, many],
            "calls with 6 rounds between two shards of a processor, less calls without",
        ),
        price(
            "costs",
            "combine_byte_ns",
            each(&combined),
            &[few_large, many_large],
            "the same calls with values of 16 KiB, less the subtasks, divided by the bytes that are combined",
        ),
        price("costs", "call_ns", each(&call), &[few], "a call without rounds, less its subtasks and poll_ns"),
        price(
            "costs",
            "arrival_ns",
            each(&arrival),
            &[What::Barrier, What::Leaf],
            "a leaf task that waits for a barrier and arrives at one, less a leaf task that does not",
        ),
        price("costs", "poll_ns", each(&poll), &[What::Yield], "a shard that yields to others"),
        price(
            "costs",
            "message_ns",
            each(&|n| or_none(message(n))),
            &[here, there],
            "shards of two processors that arrive for each other and wait, less shards of the same processor, and less send_ns",
        ),
        price(
            "costs",
            "shard_ns",
            each(&|n| time(What::Gang, n) - poll(n)),
            &[What::Gang],
            "a gang from its launch to its end, less poll_ns",
        ),
        price(
            "tasks.advance",
            "task_ns",
            each(&|n| advance(n).1),
            &[What::Fed(LARGE), What::Fed(SMALL)],
            "the stencil's leaf task on 1000 and on 200 cells, between two calls with 6 rounds, less an empty leaf task in its place: the part that does not depend on the cells",
        ),
        price(
            "tasks.advance",
            "byte_ns",
            each(&|n| advance(n).0),
            &[What::Fed(LARGE), What::Fed(SMALL)],
            "the same, by the bytes of its regions",
        ),
        price(
            "other_tasks",
            "task_ns",
            each(&|n| fill(n).1),
            &[What::Fill(LARGE), What::Fill(SMALL)],
            "a leaf task that fills 1000 and 200 cells, less an empty leaf task with its requirement: the part that does not depend on the cells",
        ),
        price(
            "other_tasks",
            "byte_ns",
            each(&|n| fill(n).0),
            &[What::Fill(LARGE), What::Fill(SMALL)],
            "the same, by the bytes of its regions",
        ),
    ]
}

/// The number of shards with which a processor does not wait for another one.
const BUSY: u32 = 64;

/// By how much medians and upper quartiles of the times are above the lower deciles, at most.
fn spread(times: &impl Times, used: &[What], levels: &[u32]) -> String {
    let samples = used.iter().flat_map(|&what| [1].iter().chain(levels).filter_map(move |&n| times.of(what, n)));
    let (mut middle, mut third, mut rounds) = (0.0f64, 0.0f64, 0);
    for samples in samples {
        let above = |q| 100.0 * (quantile_of(samples, q) / undisturbed(samples) - 1.0);
        (middle, third) = (middle.max(above(0.5)), third.max(above(0.75)));
        rounds = samples.len();
    }
    format!(
        "; lower deciles of {rounds}, medians up to {middle:.0} % and upper quartiles up to {third:.0} % above them"
    )
}
