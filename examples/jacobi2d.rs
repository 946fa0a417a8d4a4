//! A plate with cold edges cools down, by Jacobi's method: a halo round each block, and a residual that all shards know.

use maniple::{halo::*, prelude::*};
mod common;

const PLATE: [i64; 2] = [25, 19];
const U: Field<f64> = Field::new(0, "u");

/// The exact value after some steps: half a sine wave in each dimension, highest at [12, 9], which a step scales by one factor.
fn wave([i, j]: [i64; 2], steps: i32) -> f64 {
    let [x, y] = PLATE.map(|cells| std::f64::consts::PI / (cells + 1) as f64);
    ((x.cos() + y.cos()) / 2.0).powi(steps) * (x * (i + 1) as f64).sin() * (y * (j + 1) as f64).sin()
}

fn step(mut u: ReadWrite<f64, 2>, ghosts: Ghosts<f64, 2>) -> f64 {
    let old = ghosts.around(u.rows(), 0.0);
    u.fill_with(|[i, j]| 0.25 * (old[[i - 1, j]] + old[[i + 1, j]] + old[[i, j - 1]] + old[[i, j + 1]]));
    u.rect().points().map(|cell| (u.get(cell) - old[cell]).abs()).fold(0.0, f64::max)
}

async fn shard(shard: Shard, (halo, largest): (Halo<f64, 2>, Collective<f64>)) -> Result<(i32, usize), Error> {
    let (u, halo, mut steps, mut residual) = (shard.region(halo.block())?, halo.join(&shard)?, 0, f64::INFINITY);
    shard.launch(|mut u: Write<f64, 2>| u.fill_with(|cell| wave(cell, 0)), (u.write(U),)).go()?.detach();
    while residual > 1e-3 {
        halo.send(u.read(U))?;
        let change = shard.launch(step, (u.read_write(U), halo.ghosts())).go()?;
        residual = largest.call(&shard, &change)?.await?;
        steps += 1;
    }
    let wrong = move |u: Read<f64, 2>| u.rect().points().filter(|&c| (u.get(c) - wave(c, steps)).abs() > 1e-14).count();
    Ok((steps, shard.launch(wrong, (u.read(U),)).go()?.await?))
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (ends, _) = Runtime::threads(workers).run(move |top| async move {
        let plate = top.region_tree("plate", Rect::new([0, 0], PLATE), &[U.info()])?;
        let (gang, tiles) = (top.gang("tiles", shards)?, Partition::tiles(plate, shards as usize)?);
        let halos = Halos::new(&top, "halo", &gang, &tiles, HaloOptions::new(1))?;
        let largest = Collective::allreduce(Operator::max()).make(&top, &gang, "largest change")?;
        let start = |s| ShardLaunch::new((halos.of(s), largest)).writes(halos.of(s).block(), [U]);
        top.launch_gang(&gang, &top.register("jacobi", shard), start)?.all().await
    })?;
    let steps = (1..).find(|&n| wave([12, 9], n - 1) - wave([12, 9], n) <= 1e-3).unwrap_or_default();
    common::verify("steps and wrong cells", ends, vec![(steps, 0); shards as usize])?;
    Ok(format!("{PLATE:?} cells on {shards} shards: after {steps} steps no cell changes by more than 0.001"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
