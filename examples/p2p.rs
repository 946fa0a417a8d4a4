//! A wavefront through a grid whose columns are divided over shards, as the kernel p2p of the Parallel Research Kernels: the
//! rows of a block wait for those of its left neighbour. At the end of each round the last corner becomes the first one.

use maniple::prelude::*;
mod common;

const ROWS: i64 = 50;
/// So many rows travel to the right neighbour together.
const GROUP: usize = 8;
const ROUNDS: i64 = 5;
const G: Field<f64> = Field::new(0, "g");

/// Row 0 and column 0, which stay.
fn start(mut g: Write<f64, 2>) {
    g.fill_with(|[j, i]| if j * i == 0 { (j + i) as f64 } else { 0.0 });
}

/// Computes all rows of a part but the first. The left neighbour's last column goes into the first one.
fn sweep(mut g: ReadWrite<f64, 2>, left: Option<Get<f64>>, mut right: Option<PutVec<f64>>) {
    let (rows, columns) = (g.rect().lo(0)..g.rect().hi(0), g.rect().lo(1)..g.rect().hi(1));
    for (number, j) in rows.skip(1).enumerate() {
        if let Some(left) = &left {
            g.set([j, columns.start], left[number]);
        }
        for i in columns.clone().skip(1) {
            let value = g.get([j, i - 1]) + g.get([j - 1, i]) - g.get([j - 1, i - 1]);
            g.set([j, i], value);
        }
        if let Some(right) = &mut right {
            right.push(g.get([j, columns.end - 1]));
        }
    }
}

/// How many cells differ from the closed form. Each round adds the corner of the one before.
fn wrong_cells(g: Read<f64, 2>, corner: Arg<i64>) -> usize {
    let is_wrong = |&[j, i]: &[i64; 2]| j * i != 0 && g.get([j, i]) != (j + i + (ROUNDS - 1) * *corner) as f64;
    g.rect().points().filter(is_wrong).count()
}

async fn shard(shard: Shard, (columns, right, back): (i64, Edges<f64>, Edges<f64>)) -> Result<usize, Error> {
    let cut = |s: u32| columns * i64::from(s) / i64::from(shard.shards());
    // With the last column of the left neighbour. No other shard uses the block.
    let (first, end) = ((cut(shard.index()) - 1).max(0), cut(shard.index() + 1));
    let block = shard.region_tree("block", Rect::new([0, first], [ROWS, end]), &[G.info()])?;
    let part = |rect: Rect| shard.region(Region::new(block.region().tree, rect));
    let (from, to) = (right.incoming(&shard)?, right.outgoing(&shard)?);
    let (corner_from, corner_to) = (back.incoming(&shard)?, back.outgoing(&shard)?);
    shard.launch(start, (block.write(G),)).go()?.detach();
    for _ in 0..ROUNDS {
        for row in (1..ROWS).step_by(GROUP) {
            let rows = part(Rect::new([row - 1, first], [ROWS.min(row + GROUP as i64), end]))?;
            let (left, right) = (from.first().map(|edge| edge.get()), to.first().map(|edge| edge.put_vec()));
            shard.launch(sweep, (rows.read_write(G), left, right)).go()?.detach();
        }
        if let Some(to) = corner_to.first() {
            let last = move |g: Read<f64, 2>| g.get([ROWS - 1, end - 1]);
            let corner = shard.launch(last, (block.read(G),)).go()?.await?;
            shard.send(to, vec![-corner])?.detach();
        }
        if let Some(from) = corner_from.first() {
            let corner = shard.receive(from).await?;
            shard.fill(part(Rect::new([0, 0], [1, 1]))?.write(G), corner[0]).go()?.detach();
        }
    }
    shard.launch(wrong_cells, (block.read(G), (columns + ROWS - 2).into())).go()?.await
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    // Column 0 is at rest, so each block has another one.
    let columns = i64::from(60.max(2 * shards));
    let (wrong, _) = Runtime::threads(workers).run(move |top| async move {
        let gang = top.gang("blocks", shards)?;
        let right = top.edges("right", &gang, (1..shards).map(|s| (s - 1, s)), 2)?;
        let back = top.edges("corner", &gang, [(shards - 1, 0)], 1)?;
        let task = top.register("p2p", shard);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((columns, right, back)))?.all().await
    })?;
    common::verify("wrong cells", wrong, vec![0; shards as usize])?;
    Ok(format!("{ROWS} × {columns} cells on {shards} shards: {ROUNDS} wavefronts are right"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
