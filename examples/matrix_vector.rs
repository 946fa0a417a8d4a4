//! A dense matrix times a vector, as in MapReduce: each shard multiplies its columns with its part of the vector, and sends every
//! other shard the sums for that one's rows. They are added up in pairs, each as soon as both are there.
use maniple::prelude::*;
pub(crate) mod common;
use common::How;

/// A value of the matrix, and of the vector. All sums of products are whole numbers, so they are exact.
fn matrix(i: usize, j: usize) -> f64 {
    ((3 * i + 5 * j) % 11) as f64 - 5.0
}
fn vector(j: usize) -> f64 {
    (j % 7) as f64
}

/// The sum of some products in a row.
pub(crate) fn row(i: usize, columns: std::ops::Range<usize>) -> f64 {
    columns.map(|j| matrix(i, j) * vector(j)).sum()
}

/// The indices of a shard, of `n`.
pub(crate) fn own(n: usize, shard: usize, shards: usize) -> std::ops::Range<usize> {
    n * shard / shards..n * (shard + 1) / shards
}

fn add(a: Arg<Vector<f64>>, b: Arg<Vector<f64>>) -> Vector<f64> {
    a.iter().zip(b.iter()).map(|(a, b)| a + b).collect::<Vec<f64>>().into()
}

pub(crate) async fn shard(shard: Shard, exchange: Collective<[f64]>, n: usize, how: How) -> Result<Vec<f64>, Error> {
    let (me, shards) = (shard.index() as usize, shard.shards() as usize);
    // The sums over the shard's columns, for the rows of another one.
    let multiply =
        move |to: Arg<usize>| -> Vec<f64> { own(n, *to, shards).map(|i| row(i, own(n, me, shards))).collect() };
    let blocks = shard.index_launch(shards, multiply, |to| (to.into(),)).first(me + 1).takes(how.takes[1]).go()?;
    let parts = exchange.call_parts(&shard, blocks)?;
    how.wait(&parts).await?;
    Ok(parts.fold(&shard, add)?.take().await?.into_vec())
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    const N: usize = 1000;
    let (rows, _) = Runtime::threads(workers).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let sizes = move |_: u32, to: u32| own(N, to as usize, shards as usize).len();
        let exchange = Collective::<f64>::all_to_all().sizes_between(sizes).make(&top, &gang, "exchange")?;
        let multiply = top.register("multiply", |s, exchange| shard(s, exchange, N, common::USUAL));
        top.launch_gang(&gang, &multiply, |_| ShardLaunch::new(exchange))?.all().await
    })?;
    common::verify("the product", rows.concat(), (0..N).map(|i| row(i, 0..N)).collect::<Vec<f64>>())?;
    Ok(format!("the product of {N} × {N} values and a vector, verified"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
