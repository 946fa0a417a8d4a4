//! A matrix is transposed and added to another one again and again, B += Aᵀ, as in the Parallel Research Kernels. A grows by 1
//! each time. Each shard has some rows of both. It transposes a tile for every shard, and an all-to-all exchanges the tiles.
use maniple::prelude::*;
mod common;

const N: usize = 420;
const STEPS: usize = 5;
const A: Field<f64> = Field::new(0, "a");
const B: Field<f64> = Field::new(1, "b");

fn value(i: usize, j: usize) -> f64 {
    (N * i + j) as f64
}

/// The number of rows of a shard, and of columns of a tile for it.
fn rows(shard: u32, shards: u32) -> usize {
    let start = |shard: u32| N * shard as usize / shards as usize;
    start(shard + 1) - start(shard)
}

fn begin(mut a: Write<f64, 2>, mut b: Write<f64, 2>) {
    a.fill_with(|[i, j]| value(i as usize, j as usize));
    b.fill(0.0);
}

/// Writes a tile of A in the order of its columns into memory that an earlier tile had.
fn turn(mut a: ReadWrite<f64, 2>, tile: Arg<Vec<f64>>) -> Vec<f64> {
    let (rows, mut tile) = (a.rect().extent(0), tile.0);
    for (i, row) in a.rows_mut().enumerate() {
        for (j, x) in row.iter_mut().enumerate() {
            tile[rows * j + i] = *x;
            *x += 1.0;
        }
    }
    tile
}

fn add(mut b: ReadWrite<f64, 2>, tile: Arg<Vector<f64>>) {
    b.rows_mut().flatten().zip(tile.iter()).for_each(|(b, x)| *b += x);
}

/// How many values of B are not what the first and the last A give.
fn wrong(b: Read<f64, 2>) -> usize {
    let expected = |i, j| STEPS as f64 * (value(j, i) + (STEPS - 1) as f64 / 2.0);
    let first = b.rect().lo(0) as usize;
    b.rows().flatten().enumerate().filter(|&(at, b)| *b != expected(first + at / N, at % N)).count()
}

async fn shard(shard: Shard, (block, exchange): (Region, Collective<[f64]>)) -> Result<usize, Error> {
    let (all, me, shards) = (shard.region(block)?, shard.index(), shard.shards());
    let widths: Vec<i64> = (0..shards).map(|of| rows(of, shards) as i64).collect();
    let ends = widths.iter().scan(0, |end, width| {
        *end += width;
        Some(*end)
    });
    let (top, bottom) = (block.rect.lo(0), block.rect.hi(0));
    let tiles = ends.zip(&widths).map(|(end, width)| Rect::new([top, end - width], [bottom, end])).collect();
    let tiles: Vec<_> =
        Partition::rects(block, tiles)?.iter().map(|tile| shard.region(tile)).collect::<Result<_, _>>()?;

    shard.launch(begin, (all.write(A), all.write(B))).go()?.detach();
    for _ in 0..STEPS {
        let memory = |to| exchange.spare(&shard, rows(me, shards) * rows(to, shards));
        let mut memory: Vec<_> = (0..shards).map(memory).collect::<Result<_, _>>()?;
        let of = |to: usize| (tiles[to].read_write(A), std::mem::take(&mut memory[to]).into());
        let turned = shard.index_launch(tiles.len(), turn, of).first(me as usize + 1).go()?;
        let mut parts = exchange.call_parts(&shard, turned)?;
        // Tiles are added as they come.
        while let Some((from, tile)) = parts.next().await {
            shard.launch(add, (tiles[from].read_write(B), tile?.into())).go()?.detach();
        }
    }
    shard.launch(wrong, (all.read(B),)).go()?.await
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (wrong, _) = Runtime::threads(workers).run(move |top| async move {
        let matrix = top.region_tree("matrix", Rect::new([0, 0], [N as i64; 2]), &[A.info(), B.info()])?;
        let sizes: Vec<usize> = (0..shards).map(|of| rows(of, shards)).collect();
        let blocks: Vec<Region> = Partition::blocks(matrix, &sizes)?.iter().collect();
        let gang = top.gang("all", shards)?;
        let sizes = move |from, to| rows(from, shards) * rows(to, shards);
        let exchange = Collective::<f64>::all_to_all().sizes_between(sizes).make(&top, &gang, "exchange")?;
        let start = |s: u32| ShardLaunch::new((blocks[s as usize], exchange)).writes(blocks[s as usize], [A, B]);
        top.launch_gang(&gang, &top.register("transpose", shard), start)?.all().await
    })?;
    common::verify("wrong values", wrong, vec![0; shards as usize])?;
    Ok(format!("{N} × {N} values, transposed and added {STEPS} times, verified"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
