//! From the launch of a task to its end: leaf tasks of one shard, and gangs.

use criterion::{BenchmarkId, Criterion, Throughput};
use maniple_regions::{Field, Partition, ReadWrite, Rect, Region};
use maniple_runtime::{Error, Local, Runtime, Shard, Start};
use std::time::{Duration, Instant};

const X: Field<u64> = Field::new(0, "x");
/// Regions that the leaf tasks go round.
const WORKING_SET: usize = 1024;

fn add(mut x: ReadWrite<u64>) {
    x.as_mut_slice()[0] += 1;
}

/// Launches leaf tasks, each on the next of the regions, and waits for the last launched before one comes up again.
async fn leaves(shard: Shard, (line, tasks): (Region, u64)) -> Result<Duration, Error> {
    let parts = Partition::equal(line, WORKING_SET)?;
    let parts: Vec<Local> = parts.iter().map(|r| shard.region(r)).collect::<Result<_, _>>()?;
    for part in &parts {
        shard.launch(add, (part.read_write(X),)).go()?.await?;
    }
    let start = Instant::now();
    for task in 1..=tasks {
        let done = shard.launch(add, (parts[task as usize % WORKING_SET].read_write(X),)).go()?;
        if task % WORKING_SET as u64 == 0 || task == tasks { done.await? } else { done.detach() }
    }
    Ok(start.elapsed())
}

fn leaf(c: &mut Criterion) {
    let mut group = c.benchmark_group("leaf task");
    group.bench_function("one region of 1024, round robin", |b| {
        b.iter_custom(|tasks| {
            let run = Runtime::threads(1).run(move |top| async move {
                let line = top.tree("line", Rect::line(0, WORKING_SET as i64), &[X.info()])?;
                let (gang, task) = (top.gang("one", 1)?, top.task("leaves", leaves));
                top.launch(&gang, &task, |_| Start::new((line, tasks)).writes(line, [X]))?.all().await
            });
            run.expect("the leaf tasks run").0[0]
        });
    });
    group.finish();
}

async fn shard(shard: Shard, _: ()) -> Result<u32, Error> {
    Ok(shard.index())
}

fn gang(c: &mut Criterion) {
    let mut group = c.benchmark_group("gang");
    group.sample_size(20);
    for shards in [1u32, 64, 4096] {
        group.throughput(Throughput::Elements(shards.into()));
        group.bench_function(BenchmarkId::from_parameter(shards), |b| {
            b.iter_custom(|launches| {
                let run = Runtime::threads(2).run(move |top| async move {
                    let (gang, task) = (top.gang("all", shards)?, top.task("shard", shard));
                    let mut took = Duration::ZERO;
                    // One to warm up.
                    for launch in 0..=launches {
                        let start = Instant::now();
                        let all = top.launch(&gang, &task, |_| Start::new(()))?.all().await?;
                        took += if launch == 0 { Duration::ZERO } else { start.elapsed() };
                        assert_eq!(all.len(), shards as usize);
                    }
                    Ok(took)
                });
                run.expect("the gangs run").0
            });
        });
    }
    group.finish();
}

fn main() {
    let criterion =
        Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    let mut criterion = criterion.configure_from_args();
    leaf(&mut criterion);
    gang(&mut criterion);
    criterion.final_summary();
}
