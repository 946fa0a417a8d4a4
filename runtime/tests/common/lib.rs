//! What the tests share: a watchdog, the drivers to run under, mappers made for tests, a source of noise.
#![allow(missing_docs)]

pub mod processes;
pub mod resident;
pub mod say;
pub mod size;
#[cfg(target_os = "linux")]
pub mod stacks;
pub mod steps;
pub mod unordered;
mod watchdog;

pub use watchdog::watched;

use crate::size::{full, part};
use maniple_mapper::{LeafInput, LeafOutput, LoggingMapper, Mapper, NumaMapper, Topology, stock};
use maniple_runtime::{Costs, Error, Idle, Link, Runtime, TaskCost, Top, VirtualMachine};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

/// Runs a program on one runtime, watched, for its result.
pub fn run<F, Fut, R>(at: &str, runtime: &Runtime, top: F) -> Result<R, Error>
where
    F: Fn(Top) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Error>> + 'static,
    R: Send + 'static,
{
    watched(at, || runtime.run(top)).map(|r| r.0)
}

/// Well-mixed bits of a number (splitmix64).
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Sends every leaf task to a random processor of the node.
#[derive(Debug, Default)]
pub struct Scatter {
    asked: AtomicU64,
}

impl Mapper for Scatter {
    fn name(&self) -> &str {
        "scatter"
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let mut node = input.machine.leaf_processors_of(input.machine.node_of(input.processor));
        let nth = mix(self.asked.fetch_add(1, Ordering::Relaxed)) % node.len() as u64;
        LeafOutput { processor: node.nth(nth as usize).unwrap_or(input.processor), ..LeafOutput::local(input) }
    }
}

/// New mappers that any program must give the same results under; the random ones have this seed.
pub fn mappers(seed: u64) -> Vec<Arc<dyn Mapper>> {
    let plain = ["collective", "default", "first", "round-robin"].map(|name| stock(name).unwrap());
    let random = || stock(&format!("random,seed={seed}")).unwrap();
    let mut all = vec![random(), Arc::new(Scatter::default()), Arc::new(NumaMapper::on(Topology::made_up(2, 2)))];
    all.push(Arc::new(LoggingMapper::new(random(), std::io::sink())));
    all.extend(plain);
    all
}

/// The mapper of a run under the seeded driver.
pub fn any_mapper(seed: u64) -> Arc<dyn Mapper> {
    let mut all = mappers(seed);
    all.swap_remove((mix(seed) % all.len() as u64) as usize)
}

/// A machine in virtual time, drawn from a seed, with 1 to 6 processors, and its name.
pub fn any_virtual(seed: u64) -> (String, Runtime) {
    let machine = any_machine(seed);
    (format!("{} virtual nodes of {}, seed {seed}", machine.nodes, machine.per_node), Runtime::virtual_time(machine))
}

/// The same with `nodes` nodes of one processor.
pub fn virtual_nodes(nodes: u32, seed: u64) -> (String, Runtime) {
    let machine = VirtualMachine { nodes, per_node: 1, ..any_machine(seed) };
    (format!("{nodes} virtual nodes, seed {seed}"), Runtime::virtual_time(machine))
}

fn any_machine(seed: u64) -> VirtualMachine {
    let draw = |nth: u64, most: u64| (mix(seed ^ mix(nth)) % (most + 1)) as f64;
    let link = |nth: u64| Link {
        latency_ns: draw(nth, 3000),
        send_ns: draw(nth + 1, 500),
        receive_ns: draw(nth + 2, 500),
        first_ns: draw(nth + 5, 500),
        gap_ns: draw(nth + 3, 1000),
        byte_ns: draw(nth + 4, 10),
    };
    // On some nothing takes any time, so that much happens at once.
    let cost = |nth: u64| if seed.is_multiple_of(5) { 0.0 } else { draw(nth, 2000) };
    VirtualMachine {
        nodes: 1 + (seed % 3) as u32,
        per_node: 1 + (seed / 3 % 2) as u32,
        network: link(10),
        memory: link(20),
        costs: Costs {
            launch_ns: cost(30),
            requirement_ns: cost(31),
            map_ns: cost(32),
            start_ns: cost(33),
            complete_ns: cost(34),
            replayed_ns: cost(35),
            combine_byte_ns: cost(44) / 1000.0,
            input_ns: cost(43),
            elsewhere_ns: cost(45),
            call_ns: cost(42),
            arrival_ns: cost(36),
            poll_ns: cost(37),
            message_ns: cost(38),
            shard_ns: cost(39),
        },
        one_copy: seed % 7 < 3,
        replay: seed.is_multiple_of(2),
        acknowledge: seed % 4 != 1,
        other_tasks: TaskCost { task_ns: cost(40), byte_ns: cost(41) / 1000.0 },
        rendezvous_bytes: (seed % 4 < 2).then(|| draw(60, 200) as u64),
        noise: if seed.is_multiple_of(3) { 0.5 } else { 0.0 },
        seed,
        ..VirtualMachine::default()
    }
}

/// In a process that runs the body of a test, the runtimes on several processes. Each has the next of the mappers, so that the
/// bodies of a test have all of them.
pub fn on_processes(seed: u64) -> Option<Vec<(String, Runtime)>> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let with_mapper = |(name, runtime): (String, Runtime)| {
        let mut all = mappers(seed);
        // All processes come to the same count, as they run the same bodies.
        let mapper = all.swap_remove(NEXT.fetch_add(1, Ordering::Relaxed) % all.len());
        (format!("{name}, mapper {}", mapper.name()), runtime.mapper(mapper))
    };
    processes::runtimes().map(|all| all.into_iter().map(with_mapper).collect())
}

/// A runtime whose workers sleep as soon as they are idle. Those that look for work take the processors from other tests.
pub fn asleep(runtime: Runtime) -> Runtime {
    runtime.idle(Idle::Looks(Duration::ZERO))
}

/// The same, but in every fourth runtime by its number workers look for work.
pub fn mostly_asleep(number: u64, runtime: Runtime) -> Runtime {
    if number.is_multiple_of(4) { runtime } else { asleep(runtime) }
}

/// A few runtimes of each kind, named: a machine in virtual time for every other seed, the seeded driver with 1 to 5
/// processors, threads with 1 to 3 workers.
pub fn runtimes(seeds: u64) -> Vec<(String, Runtime)> {
    if let Some(all) = on_processes(seeds) {
        return all;
    }
    let mut all = Vec::new();
    for seed in 0..part(seeds) {
        let processors = 1 + (seed % 5) as u32;
        let mapper = any_mapper(seed);
        let name = format!("{processors} seeded processors, seed {seed}, mapper {}", mapper.name());
        all.push((name, Runtime::seeded(processors, seed).mapper(mapper.clone())));
        if seed % 2 == 0 {
            let (name, runtime) = any_virtual(seed / 2);
            all.push((format!("{name}, mapper {}", mapper.name()), runtime.mapper(mapper)));
        }
    }
    for workers in 1..=3 {
        // One worker alone gives a mapper little to decide.
        let most = if workers == 1 || !full() { 1 } else { usize::MAX };
        let some = mappers(u64::from(workers)).into_iter().skip(workers as usize - 1).take(most);
        // Of three that have one mapper each, the workers of the last one look for work.
        for (number, mapper) in (u64::from(workers) + 1..).zip(some) {
            let name = format!("{workers} threads, mapper {}", mapper.name());
            let runtime = Runtime::threads(workers).mapper(mapper);
            all.push((name, mostly_asleep(number, runtime)));
        }
    }
    all
}

/// Lets everything else that is ready go first.
pub async fn pause() {
    let mut first = true;
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if std::mem::replace(&mut first, false) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}
