//! Leaf tasks of one shard, ordered by the regions they use and the futures they take. The shard waits once, at the end.

use maniple::prelude::*;
mod common;

const CELLS: i64 = 96;
const PIECES: usize = 8;
const X: Field<u64> = Field::new(0, "x");
const Y: Field<u64> = Field::new(1, "y");

/// Numbers the cells of each block from 1.
fn count(mut x: Write<u64>) {
    x.fill_with(|[i]| (i % CELLS + 1) as u64);
}

fn sum(x: Read<u64>) -> u64 {
    x.as_slice().iter().sum()
}

fn scale(x: Read<u64>, mut y: Write<u64>, factor: Arg<u64>) {
    y.fill_with(|i| x.get(i) * *factor);
}

async fn shard(shard: Shard, block: Region) -> Result<(u64, u64), Error> {
    let whole = shard.region(block)?;
    let pieces = Partition::equal(block, PIECES)?;
    let pieces: Vec<RegionView> = pieces.iter().map(|piece| shard.region(piece)).collect::<Result<_, _>>()?;
    // One launch for all pieces: they do not overlap, so they may run in any order.
    let counted = shard.index_launch(PIECES, count, |p| (pieces[p].write(X),)).go()?;
    // Follows all of them, because the whole block overlaps every piece.
    let total = shard.launch(sum, (whole.read(X),)).go()?;
    // Each follows `total`, whose value it takes. They write another field than `sum` reads, and wait for nothing else.
    let scaled =
        shard.index_launch(PIECES, scale, |p| (pieces[p].read(X), pieces[p].write(Y), (&total).into())).go()?;
    let result = shard.launch(sum, (whole.read(Y),)).go()?;
    counted.all().await?;
    scaled.all().await?;
    Ok((total.await?, result.await?))
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (results, _) = Runtime::threads(workers).run(move |top| async move {
        let line = top.region_tree("line", Rect::line(0, CELLS * i64::from(shards)), &[X.info(), Y.info()])?;
        let blocks: Vec<Region> = Partition::equal(line, shards as usize)?.iter().collect();
        let gang = top.gang("all", shards)?;
        let held = |s: u32| {
            let block = blocks[s as usize];
            ShardLaunch::new(block).writes(block, [X, Y])
        };
        top.launch_gang(&gang, &top.register("pipeline", shard), held)?.all().await
    })?;
    let sum = CELLS as u64 * (CELLS as u64 + 1) / 2;
    common::verify("sum and scaled sum", results, vec![(sum, sum * sum); shards as usize])?;
    Ok(format!("{shards} shards: (1 + … + {CELLS})² = {}", sum * sum))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
