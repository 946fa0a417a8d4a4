//! A sparse matrix times a vector, again and again. Each shard has some rows of the matrix, in compressed form, and as many values of
//! the vector. An allgather gives each shard the whole vector; the shards of a worker read the same one.
use maniple::prelude::*;
mod common;

const N: usize = 1000;
const ENTRIES: usize = 5;
const STEPS: usize = 6;
const X: Field<f64> = Field::new(0, "x");
const VALUE: Field<f64> = Field::new(0, "value");
const COLUMN: Field<u64> = Field::new(1, "column");

/// An entry of a row: its column, and its value. All values are whole numbers, so sums of products are exact.
fn entry(row: usize, k: usize) -> (usize, f64) {
    ((7 * row + 131 * k * k + row * k) % N, (row % 5 + k) as f64 - 3.0)
}

fn begin(mut x: Write<f64>, mut value: Write<f64, 2>, mut column: Write<u64, 2>) {
    x.fill_with(|[row]| row as f64);
    value.fill_with(|[row, n]| entry(row as usize, n as usize).1);
    column.fill_with(|[row, n]| entry(row as usize, n as usize).0 as u64);
}

/// The shard's part of the vector, in memory that an earlier one had.
fn own(x: Read<f64>, own: Arg<Vec<f64>>) -> Vec<f64> {
    let mut own = own.0;
    own.copy_from_slice(x.as_slice());
    own
}

/// The product, kept small.
fn multiply(value: Read<f64, 2>, column: Read<u64, 2>, mut next: Write<f64>, x: Arg<Vector<f64>>) {
    let products = value.rows().zip(column.rows()).map(|(values, columns)| {
        values.iter().zip(columns).map(|(value, column)| value * x[*column as usize]).sum::<f64>() % 1000.0
    });
    next.as_mut_slice().iter_mut().zip(products).for_each(|(next, product)| next.set(product));
}

async fn shard(shard: Shard, ([x, matrix], whole): ([Region; 2], Collective<[f64]>)) -> Result<Vec<f64>, Error> {
    let (elements, x, matrix) = (x.rect.volume(), shard.region(x)?, shard.region(matrix)?);
    shard.launch(begin, (x.write(X), matrix.write(VALUE), matrix.write(COLUMN))).go()?.detach();
    for _ in 0..STEPS {
        let part = shard.launch(own, (x.read(X), whole.spare(&shard, elements)?.into())).go()?;
        let all = whole.call(&shard, part)?;
        shard.launch(multiply, (matrix.read(VALUE), matrix.read(COLUMN), x.write(X), all.into())).go()?.detach();
        // A step's memory is free when the one after the next begins.
        shard.window(4).await;
    }
    shard.launch(|x: Read<f64>| x.as_slice().to_vec(), (x.read(X),)).go()?.await
}

/// The same by sequential code.
fn expected() -> Vec<f64> {
    let mut x: Vec<f64> = (0..N).map(|i| i as f64).collect();
    for _ in 0..STEPS {
        let product = |row| (0..ENTRIES).map(|k| entry(row, k)).map(|(column, value)| value * x[column]).sum::<f64>();
        x = (0..N).map(|row| product(row) % 1000.0).collect();
    }
    x
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (parts, _) = Runtime::threads(workers).run(move |top| async move {
        let x = top.region_tree("x", Rect::line(0, N as i64), &[X.info()])?;
        let shape = Rect::new([0, 0], [N as i64, ENTRIES as i64]);
        let matrix = top.region_tree("matrix", shape, &[VALUE.info(), COLUMN.info()])?;
        let [x, matrix] = [x, matrix].map(|region| Partition::equal(region, shards as usize));
        let blocks: Vec<[Region; 2]> = x?.iter().zip(matrix?.iter()).map(|(x, matrix)| [x, matrix]).collect();
        let gang = top.gang("all", shards)?;
        let sizes = blocks.iter().map(|[x, _]| x.rect.volume());
        let whole = Collective::<f64>::allgather().sizes(sizes).make(&top, &gang, "whole")?;
        let start = |s: u32| {
            let [x, matrix] = blocks[s as usize];
            ShardLaunch::new(([x, matrix], whole)).writes(x, [X]).writes(matrix, [VALUE]).writes(matrix, [COLUMN])
        };
        top.launch_gang(&gang, &top.register("multiply", shard), start)?.all().await
    })?;
    common::verify("the vector", parts.concat(), expected())?;
    Ok(format!("{STEPS} products of {N} rows with {ENTRIES} entries each and a vector, verified"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
