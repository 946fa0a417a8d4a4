//! What the tests share: a watchdog, the drivers to run under, mappers made for tests, a source of noise.
#![allow(dead_code)]

use maniple_mapper::{CollectiveMapper, DefaultMapper, LeafInput, LeafOutput, Mapper};
use maniple_runtime::{Error, Runtime, Top};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Runs `f`; a program that is not over after 20 s ends the process, because a hang is a failure too.
pub fn watched<R>(name: &str, f: impl FnOnce() -> R) -> R {
    watched_for(name, Duration::from_secs(20), f)
}

/// The same with another limit.
pub fn watched_for<R>(name: &str, limit: Duration, f: impl FnOnce() -> R) -> R {
    let (over, wait) = mpsc::channel::<()>();
    let name = name.to_string();
    std::thread::spawn(move || {
        if wait.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("`{name}` hangs: not over after {limit:?}");
            std::process::abort();
        }
    });
    let result = f();
    drop(over);
    result
}

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
        let node = input.machine.processors_of(input.machine.node_of(input.processor));
        let nth = mix(self.asked.fetch_add(1, Ordering::Relaxed)) % node.len() as u64;
        LeafOutput { processor: node.start + nth as u32, ..LeafOutput::local(input) }
    }
}

/// The mappers that any program must give the same results under.
pub fn mappers() -> [Arc<dyn Mapper>; 3] {
    [Arc::new(CollectiveMapper), Arc::new(DefaultMapper), Arc::new(Scatter::default())]
}

/// A few runtimes of each kind, named: the seeded driver with 1 to 5 processors, threads with 1 to 3 workers.
pub fn runtimes(seeds: u64) -> Vec<(String, Runtime)> {
    let mut all = Vec::new();
    for seed in 0..seeds {
        let processors = 1 + (seed % 5) as u32;
        let mapper = mappers()[(seed % 2) as usize].clone();
        let name = format!("{processors} seeded processors, seed {seed}, mapper {}", mapper.name());
        all.push((name, Runtime::seeded(processors, seed).mapper(mapper)));
    }
    for workers in 1..=3 {
        for mapper in mappers() {
            let name = format!("{workers} threads, mapper {}", mapper.name());
            all.push((name, Runtime::threads(workers).mapper(mapper)));
        }
    }
    all
}
