//! The heat equation in one dimension: a halo of one cell at either end of each block.

use maniple::{halo::*, prelude::*};
mod common;

const CELLS: usize = 10;
const STEPS: usize = 300;
const U: Field<f64> = Field::new(0, "u");

fn start(mut u: Write<f64>) {
    u.fill_with(|[i]| (i * i % 7) as f64);
}

/// The largest change. Beyond the ends of the rod it is 0.
fn step(mut u: ReadWrite<f64>, ghosts: Ghosts<f64>) -> f64 {
    let old = ghosts.around(u.rows(), 0.0);
    let mut largest: f64 = 0.0;
    for [i] in u.rect().points() {
        let change = 0.25 * (old[[i - 1]] - 2.0 * old[[i]] + old[[i + 1]]);
        u.set([i], old[[i]] + change);
        largest = largest.max(change.abs());
    }
    largest
}

async fn shard(shard: Shard, (halo, largest): (Halo<f64>, Collective<f64>)) -> Result<(Vec<f64>, f64), Error> {
    let (u, halo) = (shard.region(halo.block())?, halo.join(&shard)?);
    let mut residual = f64::INFINITY;
    shard.launch(start, (u.write(U),)).go()?.detach();
    for _ in 0..STEPS {
        halo.send(u.read(U))?;
        let step = shard.launch(step, (u.read_write(U), halo.ghosts())).go()?;
        residual = largest.call(&shard, &step)?.await?;
    }
    let u = shard.launch(|u: Read<f64>| u.as_slice().to_vec(), (u.read(U),)).go()?;
    Ok((u.await?, residual))
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let p = shards as usize;
    let (results, _) = Runtime::threads(workers).run(move |top| async move {
        let rod = top.region_tree("rod", Rect::line(0, (CELLS * p) as i64), &[U.info()])?;
        let (gang, blocks) = (top.gang("all", shards)?, Partition::equal(rod, p)?);
        let halos = Halos::new(&top, "halo", &gang, &blocks, HaloOptions::new(1))?;
        let largest = Collective::allreduce(Operator::max()).make(&top, &gang, "largest change")?;
        let start = |s| ShardLaunch::new((halos.of(s), largest)).writes(halos.of(s).block(), [U]);
        top.launch_gang(&gang, &top.register("heat", shard), start)?.all().await
    })?;
    // The same without shards: the rod's cells, and one at either end that stays 0.
    let n = CELLS * p;
    let mut rod: Vec<f64> =
        (0..n + 2).map(|i| if i % (n + 1) == 0 { 0.0 } else { ((i - 1).pow(2) % 7) as f64 }).collect();
    let mut residual: f64 = 0.0;
    for _ in 0..STEPS {
        let (mut before, mut largest) = (0.0, 0.0_f64);
        for i in 1..=n {
            let change = 0.25 * (before - 2.0 * rod[i] + rod[i + 1]);
            before = rod[i];
            rod[i] += change;
            largest = largest.max(change.abs());
        }
        residual = largest;
    }
    common::verify("largest change, on every shard", results.iter().all(|r| r.1 == residual), true)?;
    common::verify("temperatures", results.into_iter().flat_map(|r| r.0).collect(), rod[1..=n].to_vec())?;
    Ok(format!("{n} cells on {shards} shards: in the last of {STEPS} steps none changed by more than {residual:.3e}"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
