//! Particles that move along a periodic line and change their owners, as the kernel PIC of the Parallel Research Kernels:
//! messages of any length, whose tasks decide it.

use maniple::prelude::*;
mod common;

const STEPS: i64 = 100;
/// Cells of each shard. A particle moves by fewer in a step.
const CELLS: i64 = 16;

/// Its number, its cell, and by how many cells it moves in a step.
type Particle = [i64; 3];

/// Where a particle is after some steps. Some cells have many at first, and others none.
fn particle(number: i64, steps: i64, line: i64) -> Particle {
    let (cell, moves) = (number * number / 40, number % 15 - 7);
    [number, (cell + moves * steps).rem_euclid(line), moves]
}

fn create(cells: Arg<[i64; 2]>, line: Arg<i64>) -> Vec<Particle> {
    let all = (0..20 * *line).map(|number| particle(number, 0, *line));
    all.filter(|[_, cell, _]| (cells[0]..cells[1]).contains(cell)).collect()
}

/// Moves particles. Those that leave the cells of the shard go to a neighbour.
fn step(
    Arg(mut own): Arg<Vec<Particle>>,
    cells: Arg<[i64; 2]>,
    line: Arg<i64>,
    mut left: PutVec<Particle>,
    mut right: PutVec<Particle>,
) -> Vec<Particle> {
    own.retain_mut(|[number, cell, moves]| {
        let to = *cell + *moves;
        *cell = to.rem_euclid(*line);
        let moved = [*number, *cell, *moves];
        match to {
            to if to < cells[0] => left.push(moved),
            to if to >= cells[1] => right.push(moved),
            _ => return true,
        }
        false
    });
    own
}

fn take_in(Arg(mut own): Arg<Vec<Particle>>, came: Many<Get<Particle>>) -> Vec<Particle> {
    came.iter().for_each(|came| own.extend_from_slice(came));
    own
}

async fn shard(shard: Shard, ring: Edges<Particle>) -> Result<Vec<Particle>, Error> {
    let (line, me) = (CELLS * i64::from(shard.shards()), i64::from(shard.index()));
    let cells = [CELLS * me, CELLS * (me + 1)];
    // One to the right and one to the left, as they were made.
    let (from, to) = (ring.incoming(&shard)?, ring.outgoing(&shard)?);
    let mut own = shard.launch(create, (cells.into(), line.into())).go()?;
    for _ in 0..STEPS {
        shard.window(Shard::WINDOW).await;
        let (right, left) = (to[0].put_vec(), to[1].put_vec());
        own = shard.launch(step, (own.into(), cells.into(), line.into(), left, right)).go()?;
        own = shard.launch(take_in, (own.into(), from.iter().map(|edge| edge.get()).collect())).go()?;
    }
    own.take().await
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (all, _) = Runtime::threads(workers).run(move |top| async move {
        let gang = top.gang("line", shards)?;
        let right = (0..shards).map(|s| (s, (s + 1) % shards, 0));
        let left = (0..shards).map(|s| (s, (s + shards - 1) % shards, 1));
        let ring = top.edges("ring", &gang, right.chain(left), 1)?;
        top.launch_gang(&gang, &top.register("particles", shard), |_| ShardLaunch::new(ring))?.all().await
    })?;
    let mut came = all.concat();
    came.sort_unstable();
    let line = CELLS * i64::from(shards);
    let expected: Vec<_> = (0..20 * line).map(|number| particle(number, STEPS, line)).collect();
    common::verify("particles", came, expected)?;
    Ok(format!("{} particles on {shards} shards are where they should be after {STEPS} steps", 20 * line))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
