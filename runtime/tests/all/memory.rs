//! Memory that a program's past leaves behind. The kernel says how much the whole process has, so each part of this test
//! runs alone.
#![cfg(target_os = "linux")]

use crate::common::processes::alone;
use crate::common::{resident, steps};
use maniple_mapper::{KeepInput, Mapper};
use maniple_regions::{Field, Partition, Read, ReadWrite, Rect, Region, Write};
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
use std::sync::Arc;

/// Bytes of the process that are in memory.
fn resident() -> usize {
    resident::resident() as usize * 1024
}

const U: Field<u64> = Field::new(0, "u");
const CELLS: usize = 400_000;
const DATA: usize = CELLS * 8;

/// Adds 1 to every value and gives the first and the last.
fn add(mut u: ReadWrite<u64>) -> [u64; 2] {
    let all = u.as_mut_slice();
    all.iter_mut().for_each(|x| *x += 1);
    [all[0], all[all.len() - 1]]
}

fn ends(u: Read<u64>) -> [u64; 2] {
    let all = u.as_slice();
    [all[0], all[all.len() - 1]]
}

async fn writer(shard: Shard, block: Region) -> Result<[u64; 2], Error> {
    shard.launch(add, (shard.region(block)?.read_write(U),)).go()?.await
}

async fn reader(shard: Shard, window: Region) -> Result<[u64; 2], Error> {
    shard.launch(ends, (shard.region(window)?.read(U),)).go()?.await
}

/// Numbers that look random.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Runs `launches` launches, of which each writes all data in other blocks, or reads other windows of blocks that are written
/// now and then. Returns the memory after launch 100 and after the last.
fn launches(runtime: &Runtime, launches: u64, reads: bool) -> [usize; 2] {
    let program = move |top: maniple_runtime::Top| async move {
        let line = top.region_tree("line", Rect::line(0, CELLS as i64), &[U.info()])?;
        let gang = top.gang("gang", 4)?;
        let (writer, reader) = (top.register("writer", writer), top.register("reader", reader));
        let (mut draw, mut written, mut after) = (Draw(1), 0, [0; 2]);
        for launch in 0..launches {
            let quarter = CELLS / 4;
            let mut sizes = [quarter; 4];
            if !reads {
                (0..3).for_each(|i| sizes[i] = quarter - quarter / 10 + draw.below(quarter / 5));
                sizes[3] = CELLS - sizes[..3].iter().sum::<usize>();
            }
            let blocks: Vec<Region> = Partition::blocks(line, &sizes)?.iter().collect();
            if !reads || launch % 50 == 0 {
                written += 1;
                let start = |s: u32| ShardLaunch::new(blocks[s as usize]).writes(blocks[s as usize], [U]);
                let all = top.launch_gang(&gang, &writer, start)?.all().await?;
                assert_eq!(all, [[written; 2]; 4], "launch {launch}");
            }
            if reads {
                let mut window = || {
                    let lo = draw.below(3 * quarter) as i64;
                    Rect::line(lo, lo + quarter as i64)
                };
                let windows: Vec<Region> = Partition::rects(line, (0..4).map(|_| window()).collect())?.iter().collect();
                let start = |s: u32| ShardLaunch::new(windows[s as usize]).reads(windows[s as usize], [U]);
                let all = top.launch_gang(&gang, &reader, start)?.all().await?;
                assert_eq!(all, [[written; 2]; 4], "launch {launch}");
            }
            if launch == 99 {
                after[0] = resident();
            }
        }
        after[1] = resident();
        Ok(after)
    };
    runtime.run(program).expect("a run").0
}

/// A mapper that lets nothing stay.
struct Hurried;

impl Mapper for Hurried {
    fn name(&self) -> &str {
        "hurried"
    }
    fn keep_instance(&self, _: &KeepInput<'_>) -> bool {
        false
    }
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_program_takes_no_more_memory_the_longer_it_runs() {
    alone("memory::a_program_takes_no_more_memory_the_longer_it_runs", || {
        slices();
        let steps = steps::steps(120);
        let usual = || Runtime::threads(2);
        let runtimes = [usual(), usual().spare_memory(0), usual().mapper(Arc::new(Hurried)), Runtime::seeded(3, 5)];
        for (number, runtime) in runtimes.iter().enumerate() {
            for reads in [false, true] {
                let before = resident();
                let after = launches(runtime, steps, reads);
                println!("runtime {number}, reads {reads}: {steps} launches, {before} bytes before, {after:?} after");
                let grown = after.map(|bytes| bytes.saturating_sub(before));
                assert!(grown[1] <= 4 * DATA, "runtime {number}, reads {reads}: {grown:?} bytes for {DATA}");
                // How many spare instances there are at a moment varies.
                assert!(grown[1] <= grown[0] + 2 * DATA, "runtime {number}, reads {reads}: {grown:?} bytes for {DATA}");
            }
        }
    });
}

/// One shard uses many different slices of its region, one after the other or overlapping.
fn slices() {
    async fn shard(shard: Shard, (block, length, step): (Region, i64, i64)) -> Result<[usize; 2], Error> {
        let mut after = [0; 2];
        for i in 0..40_000 {
            let lo = i * step;
            let slice = shard.region(Region::new(block.tree, Rect::line(lo, lo + length)))?;
            shard.window(Shard::WINDOW).await;
            shard.launch(|mut u: Write<u64>| u.fill(7), (slice.write(U),)).go()?.detach();
            if i == 400 {
                after[0] = resident();
            }
        }
        after[1] = resident();
        Ok(after)
    }
    for (length, step) in [(10, 10), (40, 4)] {
        let (all, _) = Runtime::threads(1)
            .run(move |top| async move {
                let line = top.region_tree("line", Rect::line(0, 400_100), &[U.info()])?;
                let gang = top.gang("one", 1)?;
                let task = top.register("slices", shard);
                let start = |_| ShardLaunch::new((line, length, step)).writes(line, [U]);
                top.launch_gang(&gang, &task, start)?.all().await
            })
            .expect("a run");
        // The values are 3.2 MB, which the tasks touch one after the other.
        let [early, late] = all[0];
        assert!(late <= early + (4 << 20), "slices of {length} by {step}: {early} and {late} bytes");
    }
}
