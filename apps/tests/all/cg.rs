use crate::on;
use maniple::runtime::Runtime;
use maniple_apps::Mode;
use maniple_apps::cg::{CgError, Outcome, Preconditioner, Problem, Sparse, System, run};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A matrix by rows, and the rows of each rank in their order.
struct Ranks {
    rows: Vec<BTreeMap<usize, f64>>,
    of: Vec<Vec<usize>>,
}

type Point = [usize; 3];

impl Ranks {
    /// HPCG's operator on a grid of ranks.
    fn stencil(points: Point, grid: Point) -> Self {
        let whole: Point = std::array::from_fn(|d| points[d] * grid[d]);
        let all = |[x, y, z]: Point| (0..z).flat_map(move |c| (0..y).flat_map(move |b| (0..x).map(move |a| [a, b, c])));
        let number = |[x, y, z]: Point| (z * whole[1] + y) * whole[0] + x;
        let row = |at: Point| {
            let near = all(whole).filter(|other| (0..3).all(|d| other[d].abs_diff(at[d]) <= 1));
            near.map(|other| (number(other), if other == at { 26.0 } else { -1.0 })).collect()
        };
        let own =
            |rank: Point| all(points).map(|at| number(std::array::from_fn(|d| rank[d] * points[d] + at[d]))).collect();
        Self { rows: all(whole).map(row).collect(), of: all(grid).map(own).collect() }
    }

    /// Runs of rows.
    fn runs(rows: Vec<BTreeMap<usize, f64>>, ranks: usize) -> Self {
        let start = |rank: usize| rows.len() * rank / ranks;
        let of = (0..ranks).map(|rank| (start(rank)..start(rank + 1)).collect()).collect();
        Self { rows, of }
    }

    fn multiply(&self, x: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| row.iter().fold(0.0, |sum, (column, a)| sum + a * x[*column])).collect()
    }

    /// The ranks' sums, in the brackets of recursive doubling.
    fn dot(&self, a: &[f64], b: &[f64]) -> f64 {
        let own = |rows: &Vec<usize>| {
            let of = |first: usize| rows.iter().skip(first).step_by(4).fold(0.0, |sum, row| sum + a[*row] * b[*row]);
            (of(0) + of(1)) + (of(2) + of(3))
        };
        let sums: Vec<f64> = self.of.iter().map(own).collect();
        maniple_collectives_tests::tree(&sums, |a, b| a + b)
    }

    /// Each rank in turn, with the values of others as they were before.
    fn smooth(&self, r: &[f64], x: &mut [f64]) {
        let before = x.to_vec();
        for rows in &self.of {
            let mut seen = before.clone();
            for row in rows.iter().chain(rows.iter().rev()) {
                let rest = self.rows[*row].iter().fold(r[*row], |rest, (column, a)| rest - a * seen[*column]);
                let diagonal = self.rows[*row][row];
                seen[*row] = (rest + seen[*row] * diagonal) / diagonal;
            }
            rows.iter().for_each(|row| x[*row] = seen[*row]);
        }
    }
}

/// HPCG's multigrid: the points of a rank, and the grid of ranks.
fn multigrid(points: Point, grid: Point, levels: usize, r: &[f64]) -> Vec<f64> {
    let ranks = Ranks::stencil(points, grid);
    let mut z = vec![0.0; r.len()];
    ranks.smooth(r, &mut z);
    if levels > 1 {
        let az = ranks.multiply(&z);
        let (fine, coarse): (Point, Point) = (std::array::from_fn(|d| points[d] * grid[d]), points.map(|n| n / 2));
        let whole: Point = std::array::from_fn(|d| coarse[d] * grid[d]);
        let finer: Vec<usize> = (0..whole.iter().product())
            .map(|at| [at % whole[0], at / whole[0] % whole[1], at / whole[0] / whole[1]])
            .map(|[x, y, z]| (2 * z * fine[1] + 2 * y) * fine[0] + 2 * x)
            .collect();
        let rest: Vec<f64> = finer.iter().map(|row| r[*row] - az[*row]).collect();
        let correction = multigrid(coarse, grid, levels - 1, &rest);
        finer.iter().zip(correction).for_each(|(row, value)| z[*row] += value);
        ranks.smooth(r, &mut z);
    }
    z
}

/// The residuals, and the solution.
fn sequential(
    ranks: &Ranks,
    b: &[f64],
    iterations: usize,
    precondition: impl Fn(&[f64]) -> Vec<f64>,
) -> (Vec<f64>, Vec<f64>) {
    let (mut x, mut r, mut p, mut last) = (vec![0.0; b.len()], b.to_vec(), Vec::new(), 0.0);
    let mut residuals = vec![ranks.dot(&r, &r).sqrt()];
    for k in 0..iterations {
        let z = precondition(&r);
        let rz = ranks.dot(&r, &z);
        p = if k == 0 { z } else { z.iter().zip(&p).map(|(z, p)| z + rz / last * p).collect() };
        let ap = ranks.multiply(&p);
        let alpha = rz / ranks.dot(&p, &ap);
        x.iter_mut().zip(&p).for_each(|(x, p)| *x += alpha * p);
        r.iter_mut().zip(&ap).for_each(|(r, ap)| *r -= alpha * ap);
        residuals.push(ranks.dot(&r, &r).sqrt());
        if residuals.last() == Some(&0.0) {
            break;
        }
        last = rz;
    }
    (residuals, x)
}

fn solved(runtime: &Runtime, problem: &Problem) -> Result<(Outcome, Vec<f64>), CgError> {
    let solution = Arc::new(Mutex::new(Vec::new()));
    let outcome = run(runtime, &Problem { solution: Some(solution.clone()), ..problem.clone() })?;
    assert_eq!(outcome.failure, None);
    let solution = solution.lock().expect("no task panicked").clone();
    Ok((outcome, solution))
}

fn bits(all: &[f64]) -> Vec<u64> {
    all.iter().map(|x| x.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_stencil_is_solved_with_the_bits_of_ranks_in_turn(
        halves in prop::sample::select(vec![[2, 2, 2], [4, 4, 4], [4, 2, 6], [3, 4, 2], [8, 4, 4], [1, 5, 2]]),
        grid in prop::sample::select(vec![[1, 1, 1], [2, 1, 1], [3, 1, 1], [2, 2, 1], [3, 2, 1], [2, 2, 2], [3, 3, 1], [4, 2, 2]]),
        plain: bool, whole: bool, which in 0..3u32, seed: u64
    ) {
        let ranks = Ranks::stencil(halves, grid);
        let b: Vec<f64> = ranks.rows.iter().map(|row| row.values().sum()).collect();
        let levels = 4.min(1 + halves.iter().map(|n| n.trailing_zeros()).min().unwrap_or(0)) as usize;
        let precondition = |r: &[f64]| if plain { r.to_vec() } else { multigrid(halves, grid, levels, r) };
        let (residuals, x) = sequential(&ranks, &b, 5, precondition);
        let preconditioner = if plain { Preconditioner::None } else { Preconditioner::Multigrid };
        let mode = if whole { Mode::Whole } else { Mode::Partial };
        let system = System::Stencil { points: halves };
        let problem = Problem { preconditioner, mode, iterations: 5, ..Problem::new(system, grid.iter().product::<usize>() as u32) };
        let (outcome, solution) = solved(&on(which, seed), &problem).expect("a solution");
        prop_assert_eq!(bits(&outcome.residuals), bits(&residuals));
        prop_assert_eq!(bits(&solution), bits(&x));
    }

    #[test]
    fn any_matrix_is_solved_with_the_bits_of_ranks_in_turn(
        size in 1usize..40, ranks in 1u32..17, more in 0usize..80, plain: bool, whole: bool, which in 0..3u32, seed: u64
    ) {
        let random = &mut fastrand::Rng::with_seed(seed);
        let mut rows = vec![BTreeMap::new(); size];
        for _ in 0..more {
            let (i, j, value) = (random.usize(0..size), random.usize(0..size), random.f64() - 0.5);
            rows[i].insert(j, value);
            rows[j].insert(i, value);
        }
        for (i, row) in rows.iter_mut().enumerate() {
            row.remove(&i);
            let others: f64 = row.values().map(|value| value.abs()).sum();
            row.insert(i, others + 0.5 + random.f64());
        }
        let triples = rows.iter().zip(0u32..).flat_map(|(row, i)| row.iter().map(move |(j, value)| (i, *j as u32, *value)));
        let matrix = Arc::new(Sparse::new(size, triples.collect()).expect("a matrix"));
        let b: Vec<f64> = (0..size).map(|_| random.f64() - 0.5).collect();
        let dealt = Ranks::runs(rows, ranks as usize);
        let precondition = |r: &[f64]| {
            let mut z = if plain { r.to_vec() } else { vec![0.0; r.len()] };
            if !plain {
                dealt.smooth(r, &mut z);
            }
            z
        };
        let (residuals, x) = sequential(&dealt, &b, 3, precondition);
        let preconditioner = if plain { Preconditioner::None } else { Preconditioner::GaussSeidel };
        let mode = if whole { Mode::Whole } else { Mode::Partial };
        let problem = Problem::new(System::Given(matrix), ranks);
        let problem = Problem { preconditioner, mode, iterations: 3, right: Some(Arc::new(b)), ..problem };
        let (outcome, solution) = solved(&on(which, seed), &problem).expect("a solution");
        prop_assert_eq!(bits(&outcome.residuals), bits(&residuals));
        prop_assert_eq!(bits(&solution), bits(&x));
    }
}

#[test]
fn iterations_end_when_the_residual_is_small() {
    let problem = Problem { tolerance: 1e-6, ..Problem::new(System::Stencil { points: [8, 8, 8] }, 4) };
    let (outcome, _) = solved(&Runtime::threads(2), &problem).expect("a solution");
    let small = |r: &f64| *r <= 1e-6 * outcome.residuals[0];
    assert!(outcome.residuals.len() < 20 && outcome.residuals.iter().filter(|r| small(r)).count() == 1, "{outcome:?}");
    assert!(outcome.error.is_some_and(|e| e < 1e-5) && outcome.residual <= 1.1e-6, "{outcome:?}");
}

#[test]
fn what_is_no_system_is_refused() {
    let text = |e: CgError| e.to_string();
    let sparse =
        |rows, values: &[(u32, u32, f64)]| Sparse::new(rows, values.to_vec()).map_err(text).expect_err("no matrix");
    assert_eq!(sparse(0, &[]), "rows of the matrix: expected at least 1, found 0");
    assert_eq!(sparse(2, &[(0, 2, 1.0)]), "row 0, column 2 (from 0): expected rows and columns below 2");
    assert_eq!(
        sparse(2, &[(0, 0, 1.0), (0, 1, 2.0), (1, 1, 1.0)]),
        "the matrix is not symmetric: row 0, column 1 (from 0) has 2, and the place that mirrors it nothing"
    );
    assert_eq!(sparse(2, &[(0, 0, 1.0)]), "row 1 (from 0): expected a positive number on the diagonal, found nothing");
    let problem = Problem::new(System::Stencil { points: [2, 2, 2] }, 1);
    let refused = |problem: &Problem| run(&Runtime::threads(1), problem).map_err(text).expect_err("no run");
    assert_eq!(refused(&Problem { shards: 0, ..problem.clone() }), "shards: expected at least 1, found 0");
    let right = Some(Arc::new(vec![1.0; 9]));
    let wrong = refused(&Problem { right, ..problem });
    assert_eq!(wrong, "the right-hand side: expected 8 numbers, one for each row, found 9");
}

fn sparse(rows: &[&[f64]]) -> System {
    let row =
        |(i, row): (u32, &&[f64])| (0..).zip(row.to_vec()).map(move |(j, value)| (i, j, value)).collect::<Vec<_>>();
    System::Given(Arc::new(Sparse::new(rows.len(), (0..).zip(rows).flat_map(row).collect()).expect("a matrix")))
}

#[test]
fn a_matrix_that_is_not_positive_definite_is_refused() {
    let singular = (sparse(&[&[1.0, 1.0], &[1.0, 1.0]]), vec![1.0, -1.0], "p·Ap = 0e0 and r·z = 2e0");
    let indefinite = (sparse(&[&[1.0, 3.0], &[3.0, 1.0]]), vec![1.0, -1.0], "p·Ap = -4e0 and r·z = 2e0");
    let large = (sparse(&[&[1.0, 0.0], &[0.0, 2.0]]), vec![1e200, 1.0], "p·Ap = inf and r·z = inf");
    for (system, right, words) in [singular, indefinite, large] {
        for (shards, tolerance) in [(1, 0.0), (2, 1e-6)] {
            let (right, preconditioner) = (Some(Arc::new(right.clone())), Preconditioner::None);
            let problem = Problem { right, preconditioner, tolerance, ..Problem::new(system.clone(), shards) };
            let said = run(&Runtime::threads(2), &problem).map_err(|e| e.to_string()).expect_err("no solution");
            let expected =
                "the matrix is not positive definite, or values are too large or too small: iteration 1 (from 1) has ";
            assert_eq!(said, format!("{expected}{words}"));
        }
    }
}

#[test]
fn a_right_hand_side_of_zeros_has_to_be_given() {
    let problem = Problem::new(sparse(&[&[0.3, -0.1, -0.2], &[-0.1, 0.1, 0.0], &[-0.2, 0.0, 0.2]]), 2);
    let said = run(&Runtime::threads(1), &problem).map_err(|e| e.to_string()).expect_err("no solution");
    assert!(said.ends_with("the right-hand side for a solution of ones is 0: give another one"), "{said}");
    let (outcome, x) =
        solved(&Runtime::threads(1), &Problem { right: Some(Arc::new(vec![0.0; 3])), ..problem }).expect("0");
    assert_eq!((outcome.residuals, x), (vec![0.0], vec![0.0; 3]));
}

#[test]
fn many_iterations_after_the_solution_change_nothing() {
    for scale in [1.0, 1e-30, 1e30] {
        for preconditioner in [Preconditioner::None, Preconditioner::GaussSeidel] {
            let [a, b] = [4.0 * scale, -scale];
            let system = sparse(&[&[a, b, 0.0, 0.0], &[b, a, b, 0.0], &[0.0, b, a, b], &[0.0, 0.0, b, a]]);
            let problem = Problem { preconditioner, iterations: 2000, ..Problem::new(system, 2) };
            let (outcome, _) = solved(&Runtime::threads(1), &problem).expect("a solution");
            assert!(outcome.error.is_some_and(|error| error < 1e-14), "{scale}: {outcome:?}");
        }
    }
}

#[test]
fn places_given_twice_and_zeros_do_not_make_a_matrix_unsymmetric() {
    let ones = [(0, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0)];
    let twice = [(0, 1, 0.1), (0, 1, 0.2), (0, 1, 0.3), (1, 0, 0.3), (1, 0, 0.2), (1, 0, 0.1)];
    let matrix = Sparse::new(3, [&ones[..], &twice, &[(0, 2, 0.0)]].concat()).expect("a matrix");
    assert_eq!(matrix.stored(), 5);
}
