//! `maniple exchange`: the yardstick.

use super::{Common, field, repeat};
use crate::Failure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The bare exchange of a cache line between two threads, one way: the yardstick of this machine
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Exchanges a run
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = crate::count)]
    #[arg(allow_negative_numbers = true)]
    iterations: usize,

    #[command(flatten)]
    common: Common,
}

/// Measures and reports.
pub fn execute(args: &Args) -> Result<(), Failure> {
    let iterations = super::at_least_one("iterations", args.iterations)?;
    repeat(&args.common, |_| {
        let ns = exchange_ns(iterations as u64);
        Ok((vec![field("program", "exchange"), field("iterations", iterations), field("exchange_ns", ns)], true))
    })
}

/// A line of its own, and none that its neighbour's prefetcher takes along.
#[repr(align(128))]
struct Line(AtomicU64);

/// Nanoseconds from a store on one thread to its sight on another: half of a round trip. Two threads spin, so it needs
/// two processors; with one it measures the scheduler.
pub fn exchange_ns(iterations: u64) -> f64 {
    measure(|round_trips| {
        round_trips(iterations.div_ceil(10));
        round_trips(iterations)
    })
}

/// The same, the fastest of batches over about 10 ms: the yardstick beside another measurement.
pub fn yardstick_ns() -> f64 {
    measure(|round_trips| {
        let (start, mut fastest) = (Instant::now(), round_trips(1000));
        while start.elapsed() < Duration::from_millis(10) {
            fastest = fastest.min(round_trips(1000));
        }
        fastest
    })
}

/// Ends the other thread.
const STOP: u64 = u64::MAX;

/// Gives `with` a function that makes a number of round trips and tells the nanoseconds of an exchange.
fn measure(with: impl FnOnce(&mut dyn FnMut(u64) -> f64) -> f64) -> f64 {
    let lines = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    let [there, back] = &lines;
    let await_value = |line: &Line, value: u64| {
        let mut spins = 0u32;
        loop {
            let came = line.0.load(Ordering::Acquire);
            if came >= value {
                return came;
            }
            spins += 1;
            if spins < 10_000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = 1;
            while await_value(there, next) != STOP {
                back.0.store(next, Ordering::Release);
                next += 1;
            }
        });
        let mut last = 0;
        let result = with(&mut |round_trips| {
            let start = Instant::now();
            for _ in 0..round_trips {
                last += 1;
                there.0.store(last, Ordering::Release);
                await_value(back, last);
            }
            start.elapsed().as_nanos() as f64 / round_trips as f64 / 2.0
        });
        there.0.store(STOP, Ordering::Release);
        result
    })
}
