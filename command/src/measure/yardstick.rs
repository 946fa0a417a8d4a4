//! The yardstick: the time of a cache line between two processors, of this host or of a machine in virtual time. It is
//! measured beside everything else, and shows the state of the host.

use super::noise::is_busy;
use crate::Failure;
use crate::machines::reduced;
use maniple::prelude::*;
use maniple::runtime::{VirtualMachine, now};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The yardstick that is measured beside something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Yardstick {
    /// The yardstick of this host, measured each time.
    Host,
    /// The yardstick of a machine in virtual time, which is always the same; NaN with one processor.
    Fixed(f64),
}

impl Yardstick {
    /// The yardstick of the machine in virtual time, if there is one, or else of this host.
    pub fn of(machine: Option<&VirtualMachine>) -> Result<Self, Failure> {
        machine.map_or(Ok(Self::Host), |machine| beside_ns(machine).map(Self::Fixed))
    }

    /// Nanoseconds of a cache line, one way. NaN with one processor.
    pub fn ns(self) -> f64 {
        match self {
            Self::Host => yardstick_ns(),
            Self::Fixed(ns) => ns,
        }
    }
}

/// The number of round trips in virtual time, where all take equally long but for noise.
pub const ENOUGH: u64 = 1000;

/// The yardstick beside a run on a machine in virtual time. NaN if the machine has a single processor for shards.
fn beside_ns(machine: &VirtualMachine) -> Result<f64, Failure> {
    reduced::two_processors(machine).map_or(Ok(f64::NAN), |two| between_shards_ns(two, ENOUGH))
}

/// Nanoseconds of virtual time from a shard's arrival until another shard has waited for it. This is half of a round trip on
/// a machine where only links take time.
pub fn between_shards_ns(two: VirtualMachine, iterations: u64) -> Result<f64, Failure> {
    let warm_up = iterations.div_ceil(10);
    let runtime = Runtime::virtual_time(reduced::links_alone(two));
    let outcome = runtime.run(move |top| async move {
        let gang = top.gang("two", 2)?;
        let pairs = top.edges("there and back", &gang, (0..gang.shards()).map(|shard| (shard, 1 - shard)), 1)?;
        let task = top.register("back and forth", back_and_forth);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((pairs, warm_up, iterations)))?.all().await
    });
    let (times, _) = outcome.map_err(|e| Failure::Run(e.to_string()))?;
    Ok(times[0] as f64 / iterations as f64 / 2.0)
}

/// Goes there and back; returns the nanoseconds of all but the round trips that warm up.
async fn back_and_forth(shard: Shard, (pairs, warm_up, iterations): (Edges, u64, u64)) -> Result<u64, Error> {
    let to = pairs.producer(&shard, 1 - shard.index())?;
    let from = pairs.consumer(&shard, 1 - shard.index())?;
    let mut start = 0;
    for round in 0..warm_up + iterations {
        if round == warm_up {
            start = now().as_nanos() as u64;
        }
        if shard.index() == 0 {
            shard.arrive(to.ready());
        }
        shard.wait(from.ready()).await?;
        if shard.index() == 1 {
            shard.arrive(to.ready());
        }
    }
    Ok(now().as_nanos() as u64 - start)
}

/// A cache line, aligned so that the prefetcher of its neighbour does not load it too.
#[repr(align(128))]
struct Line(AtomicU64);

/// Nanoseconds until one thread sees another thread's store: half of a round trip. Both threads spin, so it needs two
/// processors. With one it measures the scheduler.
pub fn cache_line_ns(iterations: u64) -> f64 {
    measure(|round_trips| {
        round_trips(iterations.div_ceil(10), Duration::MAX);
        round_trips(iterations, Duration::MAX)
    })
}

/// Whether this process may use only one processor. A yardstick then measures the scheduler.
pub fn on_one_processor() -> bool {
    std::thread::available_parallelism().is_ok_and(|n| n.get() == 1)
}

/// The yardstick beside another measurement: the fastest of several batches of round trips, over about 10 ms. NaN with one
/// processor.
///
/// Batches are so short that the scheduler leaves most of them alone; one that is interrupted ends within another 10 ms.
/// After other threads have ended, the scheduler may take a while to give both threads a processor of their own. So batches
/// go on for up to half a second, as long as times look like a busy machine's, except with debug assertions, with which
/// nobody measures.
fn yardstick_ns() -> f64 {
    const BATCH: u64 = 64;
    const LIMIT: Duration = Duration::from_millis(10);
    const PATIENCE: Duration = if cfg!(debug_assertions) { LIMIT } else { Duration::from_millis(500) };
    if on_one_processor() {
        return f64::NAN;
    }
    measure(|round_trips| {
        let (start, mut fastest) = (Instant::now(), round_trips(BATCH, LIMIT));
        while start.elapsed() < if is_busy(fastest) { PATIENCE } else { LIMIT } {
            fastest = fastest.min(round_trips(BATCH, LIMIT));
        }
        fastest
    })
}

/// The number of looks at a line before a thread yields the processor.
const SPINS: u32 = 10_000;

/// Ends the other thread.
const STOP: u64 = u64::MAX;

/// Gives `with` a function that makes a number of round trips and returns the nanoseconds of one way. It makes fewer if
/// they take longer than a limit and a thread had to wait for its processor.
fn measure(with: impl FnOnce(&mut dyn FnMut(u64, Duration) -> f64) -> f64) -> f64 {
    let lines = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    let [there, back] = &lines;
    // Returns the value, and whether it took so long that the other thread cannot have been running.
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
                // The clock is read only where it does not affect the time.
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
