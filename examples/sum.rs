//! The sum of the first squares. Each shard fills and sums its block of a region, and an allreduce adds the sums.

use maniple::prelude::*;
mod common;

const N: i64 = 1000;
const X: Field<u64> = Field::new(0, "x");

/// Leaf tasks are ordinary functions; their parameter types say what they may do with a region.
fn squares(mut x: Write<u64>) {
    x.fill_with(|[i]| (i * i) as u64);
}

fn sum(x: Read<u64>) -> u64 {
    x.as_slice().iter().sum()
}

/// Nothing waits before the last line: `sum` follows `squares` because both use the block, and the allreduce follows
/// `sum` because it takes its future.
async fn shard(shard: Shard, (block, total): (Region, Collective<u64>)) -> Result<u64, Error> {
    let x = shard.region(block)?;
    shard.launch(squares, (x.write(X),)).go()?.detach();
    let local = shard.launch(sum, (x.read(X),)).go()?;
    total.call(&shard, &local)?.await
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (sums, stats) = Runtime::threads(workers).run(move |top| async move {
        let line = top.region_tree("line", Rect::line(0, N), &[X.info()])?;
        let blocks: Vec<Region> = Partition::equal(line, shards as usize)?.iter().collect();
        let gang = top.gang("all", shards)?;
        let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
        let task = top.register("shard", shard);
        let done = top.launch_gang(&gang, &task, |s| {
            let block = blocks[s as usize];
            ShardLaunch::new((block, total)).writes(block, [X])
        })?;
        done.all().await
    })?;
    let n = N as u64;
    common::verify("sum of squares on every shard", sums, vec![(n - 1) * n * (2 * n - 1) / 6; shards as usize])?;
    common::verify("leaf tasks", stats.leaf_tasks, 2 * u64::from(shards))?;
    Ok(format!("0² + 1² + … + {}² = {}, on {shards} shards", n - 1, (n - 1) * n * (2 * n - 1) / 6))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
