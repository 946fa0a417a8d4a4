//! The Laplace equation on a plate, by Jacobi's method: a halo round each block, and a residual that all shards know.
use maniple::halo::{Ghosts, Halo, HaloOptions, Halos};

use maniple::prelude::*;
mod common;

const SIZE: [i64; 2] = [24, 20];
const U: Field<f64> = Field::new(0, "u");

/// What a cell becomes from those above, below, left and right of it.
fn mean(u: impl Fn([i64; 2]) -> f64, [i, j]: [i64; 2]) -> f64 {
    0.25 * (u([i - 1, j]) + u([i + 1, j]) + u([i, j - 1]) + u([i, j + 1]))
}

/// A step of a block; the plate's edge is 1. Gives the largest change.
fn step(mut u: ReadWrite<f64, 2>, ghosts: Ghosts<f64, 2>) -> f64 {
    let old = ghosts.around(u.rows(), 1.0);
    let mut largest: f64 = 0.0;
    for point in u.rect().points() {
        u.set(point, mean(|p| old[p], point));
        largest = largest.max((u.get(point) - old[point]).abs());
    }
    largest
}

async fn shard(shard: Shard, args: (Region, Halo<f64, 2>, Allreduce<f64>)) -> Result<(u32, Vec<f64>), Error> {
    let (u, halo, (mut steps, mut residual)) = (shard.region(args.0)?, args.1.join(&shard)?, (0, f64::INFINITY));
    while residual > 1e-3 {
        halo.send(u.read(U))?;
        let largest = shard.launch(step, (u.read_write(U), halo.ghosts())).go()?;
        residual = args.2.call(&shard, &largest)?.await?;
        steps += 1;
    }
    Ok((steps, shard.launch(|u: Read<f64, 2>| u.rows().flatten().copied().collect(), (u.read(U),)).go()?.await?))
}

fn run(shards: u32, workers: u32) -> Result<(), Error> {
    let tiles = if shards.is_multiple_of(2) { [2, shards as usize / 2] } else { [1, shards as usize] };
    let (blocks, _) = Runtime::threads(workers).run(move |top| async move {
        let plate = top.region_tree("plate", Rect::new([0, 0], SIZE), &[U.info()])?;
        let (gang, blocks) = (top.gang("blocks", shards)?, Partition::grid(plate, tiles)?);
        let halos = Halos::new(&top, "halo", &gang, &blocks, HaloOptions::new(1))?;
        let largest = Allreduce::new(&top, &gang, "largest change", Operator::max())?;
        let blocks: Vec<Region> = blocks.iter().collect();
        let start =
            |s: u32| ShardLaunch::new((blocks[s as usize], halos.of(s), largest)).writes(blocks[s as usize], [U]);
        let cells = top.launch(&gang, &top.register("jacobi", shard), start)?.all().await?;
        Ok(blocks.into_iter().zip(cells).map(|(block, cells)| (block.rect, cells)).collect::<Vec<_>>())
    })?;
    // The same without shards, for as many steps.
    let mut plate = vec![0.0; (SIZE[0] * SIZE[1]) as usize];
    let all = Rect::new([0, 0], SIZE);
    for _ in 0..blocks[0].1.0 {
        let old = plate.clone();
        let at = |p| all.position(p).map_or(1.0, |at| old[at]);
        all.points().zip(&mut plate).for_each(|(point, u)| *u = mean(at, point));
    }
    for (block, (_, cells)) in &blocks {
        let expected = block.points().filter_map(|p: [i64; 2]| Some(plate[all.position(p)?])).collect();
        common::verify("a block", cells.clone(), expected)?;
    }
    println!("{} cells on {shards} shards: at rest after {} steps", all.volume(), blocks[0].1.0);
    Ok(())
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
