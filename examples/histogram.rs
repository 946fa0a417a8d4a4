//! The aggregation pattern: an inner task launches a gang and combines what the shards wrote. Then it launches the gang again
//! with the result.

use maniple::prelude::*;
use maniple::regions::{Coherence, Privilege};
use maniple::runtime::InnerTask;
mod common;

const BINS: usize = 16;
const C: Field<u64> = Field::new(0, "count");

/// Counts 7i mod 16 for the shard's 480 numbers i: 30 in each bin, since 7 and 16 have no common factor.
fn count(mut bins: Write<u64>, shard: Arg<u64>) {
    let mine = *shard * 480..(*shard + 1) * 480;
    bins.fill_with(|[at]| mine.clone().filter(|i| 7 * i % 16 == at as u64 % 16).count() as u64);
}

fn add_rows(rows: Read<u64>, mut total: Write<u64>) {
    total.fill_with(|[bin]| rows.as_slice().iter().skip(bin as usize).step_by(BINS).sum());
}

fn values(counts: Read<u64>) -> Vec<u64> {
    counts.as_slice().to_vec()
}

async fn fill(shard: Shard, row: Region) -> Result<(), Error> {
    shard.launch(count, (shard.region(row)?.write(C), u64::from(shard.index()).into())).go()?.await
}

async fn look(shard: Shard, total: Region) -> Result<Vec<u64>, Error> {
    shard.launch(values, (shard.region(total)?.read(C),)).go()?.await
}

type Args = (Gang, ShardTask<Region, ()>, ShardTask<Region, Vec<u64>>, Region, Region);

async fn aggregate(parent: InnerTask, (gang, fill, look, rows, total): Args) -> Result<Vec<Vec<u64>>, Error> {
    let row: Vec<Region> = Partition::equal(rows, gang.shards() as usize)?.iter().collect();
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
        let rows = top.region_tree("rows", Rect::line(0, i64::from(shards) * BINS as i64), &[C.info()])?;
        let total = top.region_tree("total", Rect::line(0, BINS as i64), &[C.info()])?;
        let args: Args = (gang, top.register("fill", fill), top.register("look", look), rows, total);
        let held = |s: ShardLaunch<_>, r| s.writes(r, [C]);
        top.run_inner(&top.register_inner("aggregate", aggregate), || held(held(ShardLaunch::new(args), rows), total))
            .await
    })?;
    common::verify("histogram on every shard", seen, vec![vec![30 * u64::from(shards); BINS]; shards as usize])?;
    Ok(format!("{} numbers in each of {BINS} bins, seen by {shards} shards", 30 * shards))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
