//! The Laplace equation on a plate, by Jacobi's method: a halo round each block, and a residual that all shards know.

use maniple::{halo::*, prelude::*};
mod common;

const PLATE: [i64; 2] = [24, 20];
const U: Field<f64> = Field::new(0, "u");

fn mean_of_neighbours(u: impl Fn([i64; 2]) -> f64, [i, j]: [i64; 2]) -> f64 {
    0.25 * (u([i - 1, j]) + u([i + 1, j]) + u([i, j - 1]) + u([i, j + 1]))
}

/// One step of a block, with 1 around the plate. Gives the largest change.
fn step(mut u: ReadWrite<f64, 2>, ghosts: Ghosts<f64, 2>) -> f64 {
    let old = ghosts.around(u.rows(), 1.0);
    for cell in u.rect().points() {
        u.set(cell, mean_of_neighbours(|near| old[near], cell));
    }
    u.rect().points().map(|cell| (u.get(cell) - old[cell]).abs()).fold(0.0, f64::max)
}

/// How many cells of a block differ from the whole plate after as many steps of sequential code.
fn wrong_cells(u: Read<f64, 2>, steps: Arg<u32>) -> usize {
    let all = Rect::new([0, 0], PLATE);
    let plate = (0..*steps).fold(vec![0.0; all.volume()], |old, _| {
        let at = |cell| all.position(cell).map_or(1.0, |position| old[position]);
        all.points().map(|cell| mean_of_neighbours(at, cell)).collect()
    });
    u.rect().points().filter(|&cell| all.position(cell).is_none_or(|position| plate[position] != u.get(cell))).count()
}

async fn shard(shard: Shard, (halo, largest): (Halo<f64, 2>, Collective<f64>)) -> Result<(u32, usize), Error> {
    let (u, halo, mut steps, mut residual) = (shard.region(halo.block())?, halo.join(&shard)?, 0, f64::INFINITY);
    while residual > 1e-3 {
        halo.send(u.read(U))?;
        let change = shard.launch(step, (u.read_write(U), halo.ghosts())).go()?;
        residual = largest.call(&shard, &change)?.await?;
        steps += 1;
    }
    Ok((steps, shard.launch(wrong_cells, (u.read(U), steps.into())).go()?.await?))
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
    common::verify("steps and wrong cells", ends.clone(), vec![(ends[0].0, 0); shards as usize])?;
    Ok(format!("{PLATE:?} cells on {shards} shards are at rest after {} steps", ends[0].0))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
