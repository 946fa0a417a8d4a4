//! One generation of a phase barrier at which all shards of a gang arrive, and for which all wait.

use criterion::{BenchmarkId, Criterion};
use maniple_regions::Operator;
use maniple_runtime::{Error, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch};
use std::time::{Duration, Instant};

async fn pass(shard: Shard, (all, generations): (PhaseBarrier, u64)) -> Result<Duration, Error> {
    let (arrive, wait) = (all.arriver(&shard)?, all.waiter(&shard)?);
    let mut start = Instant::now();
    // One to warm up.
    for generation in 0..=generations {
        shard.arrive_with(&arrive, 1);
        assert_eq!(shard.wait_value(&wait).await?, u64::from(shard.shards()));
        if generation == 0 {
            start = Instant::now();
        }
    }
    Ok(start.elapsed())
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("phase barrier");
    for shards in [2u32, 8, 32, 128] {
        group.bench_function(BenchmarkId::from_parameter(shards), |b| {
            b.iter_custom(|generations| {
                let run = Runtime::threads(2).run(move |top| async move {
                    let gang = top.gang("all", shards)?;
                    let all =
                        top.phase_barrier("all", &gang, PhaseOptions::all(&gang).reduce(Operator::<u64>::sum()))?;
                    let task = top.register("pass", pass);
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new((all, generations)))?.all().await
                });
                run.expect("the generations pass").0.into_iter().max().expect("there are shards")
            });
        });
    }
    group.finish();
}

fn main() {
    maniple_benches::measure(&[benches]);
}
