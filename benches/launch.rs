//! From the launch of a task to its end: leaf tasks of one shard, gangs, and queues of gangs that nobody awaits.

use criterion::{BenchmarkId, Criterion, Throughput};
use maniple_mapper::{Mapper, PlaceShardsInput, Placement, ProcessorId};
use maniple_regions::{Field, Partition, ReadWrite, Rect, Region};
use maniple_runtime::{Error, RegionView, Runtime, Shard, ShardLaunch, VirtualMachine};
use std::sync::Arc;
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
    let parts: Vec<RegionView> = parts.iter().map(|r| shard.region(r)).collect::<Result<_, _>>()?;
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
                let line = top.region_tree("line", Rect::line(0, WORKING_SET as i64), &[X.info()])?;
                let (gang, task) = (top.gang("one", 1)?, top.register("leaves", leaves));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((line, tasks)).writes(line, [X]))?.all().await
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
                    let (gang, task) = (top.gang("all", shards)?, top.register("shard", shard));
                    let mut took = Duration::ZERO;
                    // One to warm up.
                    for launch in 0..=launches {
                        let start = Instant::now();
                        let all = top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?;
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

/// Puts the one shard of gang n on processor n modulo how many there are.
struct Dealt;

impl Mapper for Dealt {
    fn name(&self) -> &str {
        "dealt"
    }
    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        let number: u32 = input.gang.parse().expect("gangs are numbered");
        Placement::Explicit(vec![ProcessorId(number % input.machine.processors())])
    }
}

/// Launches gangs of one shard over the points of a line in turn, each of which reads what its neighbours wrote before; waits
/// when all are launched.
fn queued(launches: usize) -> Duration {
    const WIDTH: i64 = 64;
    const FIELDS: [Field<u64>; 2] = [Field::new(0, "even"), Field::new(1, "odd")];
    let start = Instant::now();
    let machine = VirtualMachine { nodes: 4, ..VirtualMachine::default() };
    let run = Runtime::virtual_time(machine).mapper(Arc::new(Dealt)).run(move |top| async move {
        let tree = top.region_tree("line", Rect::line(0, WIDTH), &FIELDS.map(|f| f.info()))?.tree;
        let gangs = (0..WIDTH).map(|at| top.gang(&at.to_string(), 1)).collect::<Result<Vec<_>, _>>()?;
        let task = top.register("shard", shard);
        let mut all = Vec::with_capacity(launches);
        for launch in 0..launches {
            let (turn, at) = (launch / WIDTH as usize, (launch % WIDTH as usize) as i64);
            let own = Region { tree, rect: Rect::line(at, at + 1) };
            let near = Region { tree, rect: Rect::line((at - 1).max(0), (at + 2).min(WIDTH)) };
            let start = |_| ShardLaunch::new(()).writes(own, [FIELDS[turn % 2]]).reads(near, [FIELDS[(turn + 1) % 2]]);
            all.push(top.launch_gang(&gangs[at as usize], &task, start)?);
        }
        for one in all {
            one.all().await?;
        }
        Ok(())
    });
    run.expect("the gangs run");
    start.elapsed()
}

fn queue(c: &mut Criterion) {
    let mut group = c.benchmark_group("queue of gangs");
    group.sample_size(10);
    // Tests are not optimised, and run each once.
    let lengths = if cfg!(debug_assertions) { [15, 70, 300] } else { [1500, 7000, 30_000] };
    for length in lengths {
        group.throughput(Throughput::Elements(length as u64));
        group.bench_function(BenchmarkId::from_parameter(length), |b| {
            b.iter_custom(|times| (0..times).map(|_| queued(length)).sum());
        });
    }
    group.finish();
}

fn main() {
    maniple_benches::measure(&[leaf, gang, queue]);
}
