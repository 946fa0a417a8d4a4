//! A dense matrix times a vector, as in MapReduce: each shard multiplies its columns with its part of the vector, and sends every
//! other shard the sums for that one's rows. They are added up in pairs, each as soon as both are there.
use maniple::prelude::*;
mod common;

const N: usize = 1000;

/// A value of the matrix, and of the vector. All sums of products are whole numbers, so they are exact.
fn matrix(i: usize, j: usize) -> f64 {
    ((3 * i + 5 * j) % 11) as f64 - 5.0
}
fn vector(j: usize) -> f64 {
    (j % 7) as f64
}

/// The indices of a shard.
fn own(shard: usize, shards: usize) -> std::ops::Range<usize> {
    N * shard / shards..N * (shard + 1) / shards
}

/// The sums over some columns, for the rows of one shard.
fn multiply((from, to, shards): (usize, usize, usize)) -> Vector<f64> {
    let sum = |i| own(from, shards).map(|j| matrix(i, j) * vector(j)).sum();
    own(to, shards).map(sum).collect::<Vec<f64>>().into()
}

fn add(a: Arg<Vector<f64>>, b: Arg<Vector<f64>>) -> Vector<f64> {
    a.iter().zip(b.iter()).map(|(a, b)| a + b).collect::<Vec<f64>>().into()
}

async fn shard(shard: Shard, exchange: Collective<[f64]>) -> Result<Vec<f64>, Error> {
    let (me, shards) = (shard.index() as usize, shard.shards() as usize);
    let product = |at: Arg<(usize, usize, usize)>| multiply(at.0);
    let blocks = shard.index_launch(shards, product, |to| ((me, to, shards).into(),)).go()?;
    let parts = exchange.call_parts(&shard, blocks)?;
    Ok(parts.fold(&shard, add)?.take().await?.into_vec())
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (rows, _) = Runtime::threads(workers).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let sizes = move |_: u32, to: u32| own(to as usize, shards as usize).len();
        let exchange = Collective::<f64>::all_to_all().sizes_between(sizes).make(&top, &gang, "exchange")?;
        top.launch_gang(&gang, &top.register("multiply", shard), |_| ShardLaunch::new(exchange))?.all().await
    })?;
    let row = |i| (0..N).map(|j| matrix(i, j) * vector(j)).sum();
    common::verify("the product", rows.concat(), (0..N).map(row).collect::<Vec<f64>>())?;
    Ok(format!("the product of {N} × {N} values and a vector, verified"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
