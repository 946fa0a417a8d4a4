//! The aggregation pattern: an inner task launches a gang and combines what the shards wrote. Then it launches the gang again
//! with the result.

use maniple::prelude::*;
use maniple::regions::{Coherence, Privilege};
use maniple::runtime::InnerTask;
mod common;

const BINS: i64 = 16;
const C: Field<u64> = Field::new(0, "count");

/// Row s counts 7i mod 16 for the 480 numbers i of shard s: 30 in each bin, since 7 and 16 have no common factor.
fn count(mut bins: Write<u64, 2>) {
    bins.fill_with(|[shard, bin]| (shard * 480..(shard + 1) * 480).filter(|i| 7 * i % BINS == bin).count() as u64);
}

fn add_rows(rows: Read<u64, 2>, mut total: Write<u64>) {
    total.fill_with(|[bin]| rows.rows().map(|row| row[bin as usize]).sum());
}

fn values(counts: Read<u64>) -> Vec<u64> {
    counts.as_slice().to_vec()
}

async fn fill(shard: Shard, row: Region) -> Result<(), Error> {
    shard.launch(count, (shard.region(row)?.write(C),)).go()?.await
}

async fn look(shard: Shard, total: Region) -> Result<Vec<u64>, Error> {
    shard.launch(values, (shard.region(total)?.read(C),)).go()?.await
}

type Args = (Gang, ShardTask<Region, ()>, ShardTask<Region, Vec<u64>>, Region, Region);

async fn aggregate(parent: InnerTask, (gang, fill, look, rows, total): Args) -> Result<Vec<Vec<u64>>, Error> {
    let row: Vec<Region> = Partition::grid(rows, [gang.shards() as usize, 1])?.iter().collect();
    let start = |r: Region, privilege| ShardLaunch::new(r).require(r, [C.id()], privilege, Coherence::Exclusive);
    parent.launch_gang(&gang, &fill, |s| start(row[s as usize], Privilege::WriteDiscard)).await?.detach();
    // The parent's own leaf task follows the gang and combines the shards' rows, which come to it.
    let (all, sum) = (parent.region(rows)?, parent.region(total)?);
    parent.launch(add_rows, (all.read(C), sum.write(C))).go()?.detach();
    parent.launch_gang(&gang, &look, |_| start(total, Privilege::Read)).await?.all().await
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (seen, _) = Runtime::threads(workers).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let rows = top.region_tree("rows", Rect::new([0, 0], [shards.into(), BINS]), &[C.info()])?;
        let total = top.region_tree("total", Rect::line(0, BINS), &[C.info()])?;
        let args: Args = (gang, top.register("fill", fill), top.register("look", look), rows, total);
        let held = |s: ShardLaunch<_>, r| s.writes(r, [C]);
        top.run_inner(&top.register_inner("aggregate", aggregate), || held(held(ShardLaunch::new(args), rows), total))
            .await
    })?;
    common::verify(
        "histogram on every shard",
        seen,
        vec![vec![30 * u64::from(shards); BINS as usize]; shards as usize],
    )?;
    Ok(format!("{} numbers in each of {BINS} bins, seen by {shards} shards", 30 * shards))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
