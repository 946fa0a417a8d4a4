//! A Cholesky factorisation by tiles, A = L Lᵀ: a flow of tasks, whose order follows from the tiles that they use. The values
//! of A are min(i, j) + 1, so L is all ones.
use maniple::prelude::*;
mod common;

const T: i64 = 8;
const A: Field<f64> = Field::new(0, "a");

/// The points of a lower triangle, row by row.
fn lower(first: i64, end: i64) -> impl Iterator<Item = [i64; 2]> {
    (first..end).flat_map(move |i| (first..=i).map(move |j| [i, j]))
}

fn potrf(mut a: ReadWrite<f64, 2>) -> Result<(), Error> {
    let first = a.rect().lo(0);
    for [i, j] in lower(first, a.rect().hi(0)) {
        let rest = a.get([i, j]) - (first..j).map(|k| a.get([i, k]) * a.get([j, k])).sum::<f64>();
        match i == j {
            true if rest <= 0.0 => return Err(Error::user(format!("column {j} has no positive pivot"))),
            true => a.set([j, j], rest.sqrt()),
            false => a.set([i, j], rest / a.get([j, j])),
        }
    }
    Ok(())
}

fn trsm(l: Read<f64, 2>, mut a: ReadWrite<f64, 2>) {
    let (row, first) = (a.rect().lo(0), l.rect().lo(0));
    for (i, j) in (row..row + T).flat_map(|i| (first..first + T).map(move |j| (i, j))) {
        let rest = a.get([i, j]) - (first..j).map(|k| a.get([i, k]) * l.get([j, k])).sum::<f64>();
        a.set([i, j], rest / l.get([j, j]));
    }
}

fn gemm(a: Read<f64, 2>, b: Read<f64, 2>, mut c: ReadWrite<f64, 2>) {
    let (row, column, first) = (c.rect().lo(0), c.rect().lo(1), a.rect().lo(1));
    for (i, j) in (row..row + T).flat_map(|i| (column..column + T).map(move |j| (i, j))) {
        c.set([i, j], c.get([i, j]) - (first..first + T).map(|k| a.get([i, k]) * b.get([j, k])).sum::<f64>());
    }
}

fn run(tiles: u32, workers: u32) -> Result<String, Error> {
    let (t, n) = (i64::from(tiles), i64::from(tiles) * T);
    let (ones, stats) = Runtime::threads(workers).run(move |top| async move {
        let all = top.region_tree("matrix", Rect::new([0, 0], [n, n]), &[A.info()])?;
        let x = |i, j| top.region(Region::new(all.tree, Rect::new([i * T, j * T], [(i + 1) * T, (j + 1) * T])));
        let set = move |mut a: Write<f64, 2>| a.fill_with(|[i, j]| i.min(j) as f64 + 1.0);
        top.launch(set, (top.region(all)?.write(A),)).go()?.detach();
        for k in 0..t {
            top.try_launch(potrf, (x(k, k)?.read_write(A),)).go()?.detach();
            for i in k + 1..t {
                top.launch(trsm, (x(k, k)?.read(A), x(i, k)?.read_write(A))).go()?.detach();
            }
            for [i, j] in lower(k + 1, t) {
                top.launch(gemm, (x(i, k)?.read(A), x(j, k)?.read(A), x(i, j)?.read_write(A))).go()?.detach();
            }
        }
        let ones = move |a: Read<f64, 2>| lower(0, n).filter(|at| a.get(*at) == 1.0).count();
        top.launch(ones, (top.region(all)?.read(A),)).go()?.await
    })?;
    common::verify("ones in the factor", ones as i64, n * (n + 1) / 2)?;
    Ok(format!("factored a matrix of {n} rows in {} tasks", stats.leaf_tasks - 2))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
