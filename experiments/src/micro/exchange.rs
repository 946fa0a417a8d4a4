//! `maniple exchange`: the yardstick.

use super::{Common, field, repeat, run_error};
use crate::workers::OnWire;
use crate::{Failure, parts};
use maniple::prelude::*;
use maniple::runtime::VirtualMachine;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The bare exchange of a cache line between two threads, one way: the yardstick of this machine, or of one in virtual time
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The reports say:
  machine, nodes  in virtual time: the machine's name, and how many of its nodes take part
  exchange_ns     nanoseconds from a store on one thread until another one sees it: half of a round trip, mean of all after \
a tenth as many to warm up. With one processor it is the scheduler's time. In virtual time: from a shard's arrival at a \
barrier until a shard on another processor has waited for it, where only what lies between the two takes time, and nothing \
that the runtime does. Both are on the same node of the machine if it has two processors for shards, or else on two nodes. On \
a node with two it is thus the link within the node, whatever --nodes says

Exit codes: 0, every run was verified; 1, one was not, or failed, or the report could not be written; 2, the arguments are at fault.")]
pub struct Args {
    /// Exchanges a run [default: 1000000, in virtual time 1000]
    #[arg(long, value_name = "N", value_parser = crate::count, allow_negative_numbers = true)]
    iterations: Option<usize>,

    #[command(flatten)]
    wire: OnWire,

    #[command(flatten)]
    common: Common,
}

/// Measures and reports.
pub fn execute(args: &Args) -> Result<(), Failure> {
    let machine = args.wire.machine(2)?.as_ref().map(parts::expect_two_processors).transpose()?;
    let iterations = args.iterations.unwrap_or(if machine.is_some() { ENOUGH as usize } else { 1_000_000 });
    let iterations = super::at_least_one("iterations", iterations)?;
    if machine.is_none() && alone() {
        crate::warn("this process may use one processor only: what is measured is the scheduler");
    }
    repeat(&args.common, machine.as_ref(), |_| {
        let ns = match &machine {
            None => exchange_ns(iterations as u64),
            Some(machine) => between_shards_ns(machine.clone(), iterations as u64)?,
        };
        let record = vec![
            field("program", "exchange"),
            field("wire", args.wire.name()),
            field("machine", machine.as_ref().map(|m| &*m.name)),
            field("nodes", machine.as_ref().map(|m| m.nodes)),
            field("iterations", iterations),
            field("exchange_ns", ns),
        ];
        Ok((record, true))
    })
}

/// Exchanges that are enough in virtual time, where each takes as long as the next but for noise.
const ENOUGH: u64 = 1000;

/// The exchange beside a run on a machine in virtual time. NaN where it has a single processor for shards.
pub fn beside_ns(machine: &VirtualMachine) -> Result<f64, Failure> {
    parts::two_processors(machine).map_or(Ok(f64::NAN), |two| between_shards_ns(two, ENOUGH))
}

/// Nanoseconds of virtual time from a shard's arrival until another shard has waited for it: half of a round trip, where only
/// links take time.
fn between_shards_ns(two: VirtualMachine, iterations: u64) -> Result<f64, Failure> {
    let warm_up = iterations.div_ceil(10);
    let runtime = Runtime::virtual_time(parts::links_alone(two));
    let outcome = runtime.run(move |top| async move {
        let gang = top.gang("two", 2)?;
        let pairs = top.pairs("there and back", &gang, |shard| 1 - shard)?;
        let task = top.task("exchange", exchange);
        top.launch(&gang, &task, |_| Start::new((pairs, warm_up, iterations)))?.all().await
    });
    let (times, _) = outcome.map_err(run_error)?;
    Ok(times[0] as f64 / iterations as f64 / 2.0)
}

/// Goes there and back so often; the nanoseconds it took.
async fn exchange(shard: Shard, (pairs, warm_up, iterations): (Pairs, u64, u64)) -> Result<u64, Error> {
    let to = pairs.producer(&shard)?.ready;
    let from = pairs.consumer(&shard, 1 - shard.index())?.ready;
    let mut start = 0;
    for round in 0..warm_up + iterations {
        if round == warm_up {
            start = super::now();
        }
        if shard.index() == 0 {
            shard.arrive(&to);
        }
        shard.wait(&from).await?;
        if shard.index() == 1 {
            shard.arrive(&to);
        }
    }
    Ok(super::now() - start)
}

/// A line of its own, and none that its neighbour's prefetcher takes along.
#[repr(align(128))]
struct Line(AtomicU64);

/// Nanoseconds from a store on one thread to its sight on another: half of a round trip. Two threads spin, so it needs
/// two processors; with one it measures the scheduler.
pub fn exchange_ns(iterations: u64) -> f64 {
    measure(|round_trips| {
        round_trips(iterations.div_ceil(10), Duration::MAX);
        round_trips(iterations, Duration::MAX)
    })
}

/// Nanoseconds of an exchange that no distance between processors explains: other programs are running.
pub const BUSY_NS: f64 = 1000.0;

/// Whether this process may use one processor only, so that an exchange measures the scheduler.
pub fn alone() -> bool {
    std::thread::available_parallelism().is_ok_and(|n| n.get() == 1)
}

/// The same, the fastest of batches over about 10 ms: the yardstick beside another measurement. NaN with one processor.
///
/// Batches are so short that the scheduler leaves most of them alone, and one that it does not ends within another 10 ms.
/// Right after other threads have ended it may take a while until it sees that both threads need a processor of their own:
/// as long as exchanges are a busy machine's, batches go on for up to half a second.
pub fn yardstick_ns() -> f64 {
    const BATCH: u64 = 64;
    const LIMIT: Duration = Duration::from_millis(10);
    const PATIENCE: Duration = Duration::from_millis(500);
    if alone() {
        return f64::NAN;
    }
    measure(|round_trips| {
        let (start, mut fastest) = (Instant::now(), round_trips(BATCH, LIMIT));
        while start.elapsed() < if fastest > BUSY_NS { PATIENCE } else { LIMIT } {
            fastest = fastest.min(round_trips(BATCH, LIMIT));
        }
        fastest
    })
}

/// Looks at a line before a thread lets others have the processor.
const SPINS: u32 = 10_000;

/// Ends the other thread.
const STOP: u64 = u64::MAX;

/// Gives `with` a function that makes a number of round trips, or fewer where they take longer than a limit and a thread
/// had to wait for its processor, and tells the nanoseconds of an exchange.
fn measure(with: impl FnOnce(&mut dyn FnMut(u64, Duration) -> f64) -> f64) -> f64 {
    let lines = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    let [there, back] = &lines;
    // What came, and whether it took so long that the other thread cannot have been running.
    let await_value = |line: &Line, value: u64| {
        let mut spins = 0u32;
        loop {
            let came = line.0.load(Ordering::Acquire);
            if came >= value {
                return (came, spins >= SPINS);
            }
            spins = spins.saturating_add(1);
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = 1;
            while await_value(there, next).0 != STOP {
                back.0.store(next, Ordering::Release);
                next += 1;
            }
        });
        let mut last = 0;
        let result = with(&mut |round_trips, limit| {
            let (start, before) = (Instant::now(), last);
            while last - before < round_trips {
                last += 1;
                there.0.store(last, Ordering::Release);
                // The clock is read only where it does not show.
                if await_value(back, last).1 && start.elapsed() > limit {
                    break;
                }
            }
            start.elapsed().as_nanos() as f64 / (last - before) as f64 / 2.0
        });
        there.0.store(STOP, Ordering::Release);
        result
    })
}
