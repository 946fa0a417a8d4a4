//! A Cholesky factorisation by tiles, A = L Lᵀ: a flow of tasks, whose order follows from the tiles that they use. The values
//! of A are min(i, j) + 1, so L is all ones.

use maniple::prelude::*;
mod common;

const SIDE: i64 = 8;
const A: Field<f64> = Field::new(0, "a");

fn potrf(mut a: ReadWrite<f64, 2>) -> Result<(), Error> {
    let end = a.rect().hi(0);
    for k in a.rect().lo(0)..end {
        if a.get([k, k]) <= 0.0 {
            return Err(Error::user(format!("column {k} has no positive pivot")));
        }
        let root = a.get([k, k]).sqrt();
        (k..end).for_each(|i| a.set([i, k], a.get([i, k]) / root));
        for (i, j) in (k + 1..end).flat_map(|j| (j..end).map(move |i| (i, j))) {
            a.set([i, j], a.get([i, j]) - a.get([i, k]) * a.get([j, k]));
        }
    }
    Ok(())
}

fn trsm(l: Read<f64, 2>, mut b: ReadWrite<f64, 2>) {
    let (rows, first, end) = (b.rect().lo(0)..b.rect().hi(0), l.rect().lo(0), l.rect().hi(0));
    for (i, j) in rows.flat_map(|i| (first..end).map(move |j| (i, j))) {
        let sum: f64 = (first..j).map(|k| b.get([i, k]) * l.get([j, k])).sum();
        b.set([i, j], (b.get([i, j]) - sum) / l.get([j, j]));
    }
}

fn gemm(a: Read<f64, 2>, b: Read<f64, 2>, mut c: ReadWrite<f64, 2>) {
    let (row, column) = (c.rect().lo(0), c.rect().lo(1));
    for (i, j) in (0..SIDE * SIDE).map(|at| (row + at / SIDE, column + at % SIDE)) {
        let sum: f64 = (a.rect().lo(1)..a.rect().hi(1)).map(|k| a.get([i, k]) * b.get([j, k])).sum();
        c.set([i, j], c.get([i, j]) - sum);
    }
}

fn run(tiles: u32, workers: u32) -> Result<String, Error> {
    let (t, n) = (i64::from(tiles), i64::from(tiles) * SIDE);
    let (ones, stats) = Runtime::threads(workers).run(move |top| async move {
        let all = top.region_tree("matrix", Rect::new([0, 0], [n, n]), &[A.info()])?;
        let x =
            |i, j| top.region(Region::new(all.tree, Rect::new([i * SIDE, j * SIDE], [(i + 1) * SIDE, (j + 1) * SIDE])));
        let set = move |mut a: Write<f64, 2>| a.write_with(|at| (at as i64 / n).min(at as i64 % n) as f64 + 1.0);
        top.launch(set, (top.region(all)?.write(A),)).go()?.detach();
        for k in 0..t {
            top.try_launch(potrf, (x(k, k)?.read_write(A),)).go()?.detach();
            for i in k + 1..t {
                top.launch(trsm, (x(k, k)?.read(A), x(i, k)?.read_write(A))).go()?.detach();
            }
            for (i, j) in (k + 1..t).flat_map(|i| (k + 1..=i).map(move |j| (i, j))) {
                top.launch(gemm, (x(i, k)?.read(A), x(j, k)?.read(A), x(i, j)?.read_write(A))).go()?.detach();
            }
        }
        let ones =
            move |a: Read<f64, 2>| (0..n * n).filter(|at| at % n <= at / n && a.get([at / n, at % n]) == 1.0).count();
        top.launch(ones, (top.region(all)?.read(A),)).go()?.await
    })?;
    common::verify("ones in the factor", ones as i64, n * (n + 1) / 2)?;
    Ok(format!("factored a matrix of {n} rows in {} tasks", stats.leaf_tasks - 2))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
