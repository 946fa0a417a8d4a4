//! `maniple exchange`: the yardstick.

use super::{Common, field, repeat};
use crate::Failure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

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
    let lines = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    let await_value = |line: &Line, value: u64| {
        let mut spins = 0u32;
        while line.0.load(Ordering::Acquire) < value {
            spins += 1;
            if spins < 10_000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    };
    let play = |first: bool, from: u64, to: u64| {
        let (mine, theirs) = if first { (&lines[0], &lines[1]) } else { (&lines[1], &lines[0]) };
        for value in from..to {
            if !first {
                await_value(theirs, value);
            }
            mine.0.store(value, Ordering::Release);
            if first {
                await_value(theirs, value);
            }
        }
    };
    let warm_up = iterations / 10;
    std::thread::scope(|scope| {
        scope.spawn(|| play(false, 1, warm_up + iterations + 1));
        play(true, 1, warm_up + 1);
        let start = Instant::now();
        play(true, warm_up + 1, warm_up + iterations + 1);
        start.elapsed().as_nanos() as f64 / iterations as f64 / 2.0
    })
}
