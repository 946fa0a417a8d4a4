//! One allreduce of 8 bytes on two workers, each call of which depends on the one before.

use criterion::{BenchmarkId, Criterion};
use maniple_collectives::{Algorithm, Collective, Operator};
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
use std::time::{Duration, Instant};

async fn calls(shard: Shard, (mean, calls): (Collective<f64>, u64)) -> Result<Duration, Error> {
    let shards = f64::from(shard.shards());
    let mut x = f64::from(shard.index());
    let mut start = Instant::now();
    // A few to warm up: each slot allocates once.
    for call in 0..calls + 8 {
        if call == 8 {
            start = Instant::now();
        }
        x = mean.call(&shard, x)?.await? / shards;
    }
    assert_eq!(x, (shards - 1.0) / 2.0);
    Ok(start.elapsed())
}

fn benches(c: &mut Criterion) {
    for algorithm in [Algorithm::RecursiveDoubling, Algorithm::TwoLevel] {
        let mut group = c.benchmark_group(algorithm.name());
        for shards in [2u32, 8, 32, 128] {
            group.bench_function(BenchmarkId::from_parameter(shards), |b| {
                b.iter_custom(|n| {
                    let run = Runtime::threads(2).run(move |top| async move {
                        let gang = top.gang("all", shards)?;
                        let mean =
                            Collective::allreduce(Operator::sum()).algorithm(algorithm).make(&top, &gang, "mean")?;
                        let task = top.register("calls", calls);
                        top.launch_gang(&gang, &task, |_| ShardLaunch::new((mean, n)))?.all().await
                    });
                    run.expect("the calls are made").0.into_iter().max().expect("there are shards")
                });
            });
        }
        group.finish();
    }
}

fn main() {
    maniple_benches::measure(&[benches]);
}
