use crate::on;
use maniple::runtime::Runtime;
use maniple_apps::cholesky::{CholeskyError, Matrix, Problem, Real, run};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// The factor by the textbook's sums, by rows.
fn sequential(a: &[f64], n: usize) -> Option<Vec<f64>> {
    let mut l = vec![0.0; n * n];
    for j in 0..n {
        for i in j..n {
            let sum: f64 = (0..j).map(|k| l[i * n + k] * l[j * n + k]).sum();
            let left = a[i * n + j] - sum;
            if i == j && left <= 0.0 {
                return None;
            }
            l[i * n + j] = if i == j { left.sqrt() } else { left / l[j * n + j] };
        }
    }
    Some(l)
}

/// B Bᵀ + N I for a random B.
fn positive(random: &mut fastrand::Rng, n: usize) -> Vec<f64> {
    let b: Vec<f64> = (0..n * n).map(|_| random.f64() - 0.5).collect();
    let at = |i: usize, j: usize| (0..n).map(|k| b[i * n + k] * b[j * n + k]).sum::<f64>();
    (0..n * n).map(|x| at(x / n, x % n) + if x / n == x % n { n as f64 / 8.0 } else { 0.0 }).collect()
}

fn factored<T: Real>(runtime: &Runtime, matrix: Matrix<T>, tile: usize) -> Result<Vec<f64>, CholeskyError> {
    let factor = Arc::new(Mutex::new(Vec::new()));
    let problem = Problem { factor: Some(factor.clone()), ..Problem::new(matrix, tile) };
    let outcome = run(runtime, &problem)?;
    assert_eq!(outcome.failure, None);
    let factor = factor.lock().expect("no task panicked");
    Ok(factor.iter().map(|x| x.to_f64()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn factors_are_those_of_sequential_code(n in 1usize..40, tile in 1usize..45, which in 0..3u32, seed: u64) {
        let a = positive(&mut fastrand::Rng::with_seed(seed), n);
        let expected = sequential(&a, n).expect("it is positive definite");
        let close = |found: &[f64], most: f64| found.iter().zip(&expected).all(|(f, e)| (f - e).abs() <= most);
        let found = factored(&on(which, seed), Matrix::given(a.clone()).expect("square"), tile).expect("a factor");
        prop_assert!(found.len() == n * n && close(&found, 1e-12), "{:?} for {:?}", found, expected);
        let single: Vec<f32> = a.iter().map(|x| *x as f32).collect();
        let found = factored(&on(which, seed), Matrix::given(single).expect("square"), tile).expect("a factor");
        prop_assert!(close(&found, 1e-4), "{:?} for {:?}", found, expected);
    }

    /// The first column without a positive pivot is the one that sequential code finds.
    #[test]
    fn a_matrix_that_is_not_positive_definite_is_refused(
        n in 1usize..30, tile in 1usize..32, which in 0..3u32, seed: u64
    ) {
        let random = &mut fastrand::Rng::with_seed(seed);
        let mut a = positive(random, n);
        let bad = random.usize(0..n);
        a[bad * n + bad] = -1.0;
        prop_assert!(sequential(&a, n).is_none());
        match factored(&on(which, seed), Matrix::given(a).expect("square"), tile) {
            Err(CholeskyError::NotPositiveDefinite { column }) => prop_assert_eq!(column, bad),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn generated_matrices_have_the_factor_that_they_say(n in 1usize..60, tile in 1usize..20) {
        let matrix = Matrix::<f64>::generated(n);
        let a: Vec<f64> = (0..n * n).map(|x| matrix.get((x / n).max(x % n), (x / n).min(x % n))).collect();
        let l = sequential(&a, n).expect("it is positive definite");
        for j in 0..n {
            for i in j..n {
                let known = matrix.factor(i, j).expect("known");
                prop_assert!((l[i * n + j] - known).abs() <= 1e-12 * known, "{} {}: {} {}", i, j, l[i * n + j], known);
            }
        }
        let outcome = run(&Runtime::seeded(3, 1), &Problem::new(matrix, tile)).expect("a factor");
        prop_assert!(outcome.failure.is_none() && outcome.error.is_some_and(|e| e < 1e-12), "{:?}", outcome);
    }
}

#[test]
fn what_is_no_matrix_is_refused() {
    let text = |e: CholeskyError| e.to_string();
    assert_eq!(
        Matrix::given(vec![1.0; 3]).map_err(text).expect_err("3 values"),
        "expected a square number of values for a matrix, found 3"
    );
    let of = |size, tile| run(&Runtime::threads(1), &Problem::new(Matrix::<f64>::generated(size), tile));
    assert_eq!(of(0, 4).map_err(text).expect_err("no rows"), "rows of the matrix: expected at least 1, found 0");
    assert_eq!(of(4, 0).map_err(text).expect_err("no rows"), "rows of a tile: expected at least 1, found 0");
}
