//! Power iteration for the largest eigenvalue of I + 1·1ᵀ, which is N + 1. The product is x + (Σx)·1. It takes one sum over
//! all shards, and its norm takes another.

use maniple::prelude::*;
mod common;

const N: i64 = 200;
const X: Field<f64> = Field::new(0, "x");

fn start(mut x: Write<f64>) {
    x.fill_with(|[i]| i as f64);
}

fn sum(x: Read<f64>) -> f64 {
    x.as_slice().iter().sum()
}

fn add(mut x: ReadWrite<f64>, sum: Arg<f64>) -> f64 {
    x.as_mut_slice().iter_mut().for_each(|x| *x += *sum);
    x.as_slice().iter().map(|x| x * x).sum()
}

fn normalise(mut x: ReadWrite<f64>, squares: Arg<f64>) {
    x.as_mut_slice().iter_mut().for_each(|x| *x /= squares.sqrt());
}

async fn iterate(shard: Shard, (block, total): (Region, Collective<f64>)) -> Result<f64, Error> {
    let x = shard.region(block)?;
    let mut eigenvalue = 0.0;
    shard.launch(start, (x.write(X),)).go()?.detach();
    for _ in 0..20 {
        // The allreduce takes the local sum's future and gives one that the next task takes: no waiting in between.
        let sum = total.call(&shard, &shard.launch(sum, (x.read(X),)).go()?)?;
        let squares = total.call(&shard, &shard.launch(add, (x.read_write(X), (&sum).into())).go()?)?;
        shard.launch(normalise, (x.read_write(X), (&squares).into())).go()?.detach();
        eigenvalue = squares.await?.sqrt();
    }
    Ok(eigenvalue)
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (values, _) = Runtime::threads(workers).run(move |top| async move {
        let line = top.region_tree("line", Rect::line(0, N), &[X.info()])?;
        let blocks: Vec<Region> = Partition::equal(line, shards as usize)?.iter().collect();
        let gang = top.gang("all", shards)?;
        let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
        let held = |s: u32| {
            let block = blocks[s as usize];
            ShardLaunch::new((block, total)).writes(block, [X])
        };
        top.launch_gang(&gang, &top.register("power iteration", iterate), held)?.all().await
    })?;
    let right = |v: &f64| v.to_bits() == values[0].to_bits() && (v / (N as f64 + 1.0) - 1.0).abs() < 1e-12;
    common::verify("the same bits on every shard, within 1e-12", values.iter().all(right), true)?;
    Ok(format!("largest eigenvalue {}, exactly {}", values[0], N + 1))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
