//! Two sides of a comparison in turns, on two workers: medians, and the median of their ratios.
//!
//! - an exact sum beside a plain one, 8 bytes, 32 shards;
//! - an allreduce of large vectors beside two bare threads that do the same: each adds up one half of the vectors, and then
//!   copies the other half.
//!
//! ```text
//! cargo bench -p maniple-benches --bench pairs
//! ```

use maniple_collectives::{Algorithm, Collective, Operator, Plain, Reduction};
use maniple_regions::exact_sum;
use maniple_runtime::{Runtime, Shard, ShardLaunch};
use std::hint::spin_loop;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The time of a call of a sum of one float, each of which depends on the one before.
fn one<By: Reduction<In = f64, Out = f64>>(by: fn() -> By, calls: u32) -> Duration {
    const SHARDS: u32 = 32;
    let run = Runtime::threads(2).run(move |top| async move {
        let gang = top.gang("all", SHARDS)?;
        let mean = Collective::allreduce(by()).algorithm(Algorithm::TwoLevel).make(&top, &gang, "mean")?;
        let task = top.register("calls", move |shard: Shard, _: ()| async move {
            let mut x = f64::from(shard.index());
            let start = Instant::now();
            for _ in 0..calls {
                x = mean.call(&shard, x)?.await? / f64::from(SHARDS);
            }
            assert_eq!(x, f64::from(SHARDS - 1) / 2.0);
            Ok(start.elapsed())
        });
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
    });
    run.expect("the calls are made").0.into_iter().max().expect("there are shards") / calls
}

/// The time of an allreduce of two shards' vectors.
fn vectors(algorithm: Option<Algorithm>, elements: usize, calls: u32) -> Duration {
    let run = Runtime::threads(2).run(move |top| async move {
        let gang = top.gang("all", 2)?;
        let sum = Collective::allreduce(Operator::<f64>::sum()).elements(elements).algorithm(algorithm);
        let sum: Collective<[f64], [f64], Plain> = sum.make(&top, &gang, "sum")?;
        let task = top.register("calls", move |shard: Shard, _: ()| async move {
            let mut all = vec![1.0; elements];
            let (mut start, mut value) = (Instant::now(), 1.0);
            // The first two calls warm up.
            for call in 0..calls + 2 {
                if call == 2 {
                    start = Instant::now();
                }
                all = sum.call(&shard, all)?.take().await?.into_vec();
                value *= 2.0;
            }
            let took = start.elapsed();
            assert!(all.iter().all(|x| *x == value));
            Ok(took)
        });
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
    });
    run.expect("the calls are made").0.into_iter().max().expect("there are shards") / calls
}

/// The same by two threads with nothing between them but a counter.
fn bare(elements: usize, calls: u32) -> Duration {
    let half = elements / 2;
    let side = || [RwLock::new(vec![1.0; half]), RwLock::new(vec![1.0; elements - half])];
    let (vectors, met) = ([side(), side()], AtomicUsize::new(0));
    let meet = |times: usize| {
        met.fetch_add(1, Ordering::AcqRel);
        while met.load(Ordering::Acquire) < 2 * times {
            spin_loop();
        }
    };
    let thread = |me: usize| {
        let (mut start, mut value, mut times) = (Instant::now(), 1.0, 0);
        let mut meet = || {
            times += 1;
            meet(times);
        };
        for call in 0..calls + 2 {
            if call == 2 {
                start = Instant::now();
            }
            meet();
            {
                let (mut own, other) = (vectors[me][me].write().unwrap(), vectors[1 - me][me].read().unwrap());
                own.iter_mut().zip(other.iter()).for_each(|(own, other)| *own += other);
            }
            meet();
            {
                let (mut own, other) = (vectors[me][1 - me].write().unwrap(), vectors[1 - me][1 - me].read().unwrap());
                own.copy_from_slice(&other);
            }
            value *= 2.0;
        }
        meet();
        let took = start.elapsed();
        assert!(vectors[me].iter().all(|half| half.read().unwrap().iter().all(|x| *x == value)));
        took
    };
    let took = std::thread::scope(|scope| {
        let other = scope.spawn(|| thread(1));
        let own = thread(0);
        own.max(other.join().expect("it does not panic"))
    });
    took / calls
}

/// Measures both sides in turns.
fn pairs(what: &str, rounds: usize, a: impl Fn() -> Duration, b: impl Fn() -> Duration) {
    let all: Vec<[f64; 2]> = (0..rounds).map(|_| [a().as_secs_f64() * 1e6, b().as_secs_f64() * 1e6]).collect();
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let side = |side: usize| median(all.iter().map(|pair| pair[side]).collect());
    let ratio = median(all.iter().map(|[a, b]| a / b).collect());
    println!("{what}: {:.2} µs beside {:.2} µs, {ratio:.2} times, {rounds} pairs", side(0), side(1));
}

fn main() {
    let (rounds, scale) = if maniple_benches::is_test() { (1, 100) } else { (21, 1) };
    pairs(
        "exact sum beside a plain one, 32 shards",
        rounds,
        || one(exact_sum, 2000 / scale),
        || one(Operator::sum, 2000 / scale),
    );
    for (name, elements, calls) in [("1 MiB", 1 << 17, 100), ("16 MiB", 1 << 21, 10)] {
        let elements = elements / scale as usize;
        for algorithm in [None, Some(Algorithm::RecursiveDoubling), Some(Algorithm::HalvingDoubling)] {
            let by = algorithm.map_or("the mapper's choice".into(), |a| a.to_string());
            let what = format!("allreduce of {name} by {by} beside bare threads");
            pairs(&what, rounds, || vectors(algorithm, elements, calls), || bare(elements, calls));
        }
    }
}
