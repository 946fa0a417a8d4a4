//! The independent answers: against each other, and that verification catches planted errors.

use maniple_stencil::reference::{self, DominantMode, verify_mode, verify_step, verify_steps};
use std::f64::consts::PI;

/// √S and the vector of each iteration, by sequential code.
fn simulate(start: &[f64], iterations: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let mut u = start.to_vec();
    let step = |_| {
        let d = reference::derivative(&u);
        let root = reference::sum_of_squares(&d).sqrt();
        u = d.iter().map(|d| d / root).collect();
        (root, u.clone())
    };
    (0..iterations).map(step).unzip()
}

#[test]
fn mode_is_the_one_the_operator_amplifies_most() {
    for n in [4, 5, 7, 8, 16, 100, 1000, 16_000] {
        let factor = |m: usize| {
            let theta = 2.0 * PI * m as f64 / n as f64;
            (8.0 * theta.sin() - (2.0 * theta).sin()) * n as f64 / 6.0
        };
        let mode = DominantMode::new(n);
        let best = (0..=n / 2).map(factor).fold(0.0, f64::max);
        assert!((mode.lambda() - factor(mode.mode())).abs() < 1e-12 * best);
        assert!(mode.lambda() > (1.0 - 1e-2 / n as f64) * best, "{n} cells: {} and {best}", mode.lambda());
    }
}

#[test]
fn start_is_the_sine_of_the_mode() {
    let mode = DominantMode::new(1000);
    assert_eq!(mode.mode(), 286);
    for (i, u) in mode.vector(0).enumerate() {
        let want = (2.0_f64 / 1000.0).sqrt() * (2.0 * PI * 286.0 * i as f64 / 1000.0).sin();
        assert!((u - want).abs() < 1e-13, "cell {i}: {u} and {want}");
        assert_eq!(u, mode.value(i, 0));
        assert_eq!(u, mode.value(i, 4), "four quarter turns later");
        assert!((mode.value(i, 2) + u).abs() < 1e-16, "half a turn later");
    }
}

/// At far cells a sine of the unreduced angle would be off by more than 1e-10; here neighbours stay exact in phase.
#[test]
fn far_cells_are_as_accurate_as_near_ones() {
    let n = 4_096_000;
    let mode = DominantMode::new(n);
    for i in [1, 17, 12_345, 2_000_003] {
        // sin(θ(N − i)) = −sin(θi).
        let sum = mode.value(n - i, 0) + mode.value(i, 0);
        assert!(sum.abs() < 1e-15 * mode.amplitude(), "cell {i}: {sum}");
    }
    let norm: f64 = mode.vector(0).map(|u| u * u).sum();
    assert!((norm - 1.0).abs() < 1e-12, "{norm}");
}

#[test]
fn sequential_code_follows_the_analytic_answer() {
    for n in [4, 5, 6, 7, 8, 31, 1000, 4096] {
        let mode = DominantMode::new(n);
        let start: Vec<f64> = mode.vector(0).collect();
        let (roots, vectors) = simulate(&start, 20);
        let verdict = verify_mode(&mode, &roots, &vectors[19]);
        assert_eq!(verdict.failure, None, "{n} cells");
        assert!(verdict.error < 1e-13);
        assert_eq!(verify_steps(0, &start, &roots, &vectors).failure, None, "{n} cells");
    }
}

#[test]
fn compensated_sum() {
    let d: Vec<f64> = std::iter::once(1e8).chain(std::iter::repeat_n(1.0, 1000)).collect();
    assert_eq!(reference::sum_of_squares(&d), 1e16 + 1000.0);
    assert_eq!(reference::sum_of_squares(&[]), 0.0);
    assert_eq!(reference::sum_of_squares(&[1e200, 1.0]), f64::INFINITY);
    assert!(reference::sum_of_squares(&[1.0, f64::NAN]).is_nan());
}

#[test]
fn derivative_by_hand() {
    // h = 1/6, 12h = 2.
    let d = reference::derivative(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
    let want = |a: f64, b: f64, c: f64, d: f64| (a - 8.0 * b + 8.0 * c - d) / 2.0;
    assert_eq!(d[0], want(16.0, 32.0, 2.0, 4.0));
    assert_eq!(d[1], want(32.0, 1.0, 4.0, 8.0));
    assert_eq!(d[3], want(2.0, 4.0, 16.0, 32.0));
    assert_eq!(d[5], want(8.0, 16.0, 1.0, 2.0));
}

/// A run of the mode and, in turn, everything that may be wrong with it.
#[test]
fn planted_errors_in_a_run_of_the_mode() {
    let mode = DominantMode::new(1000);
    let roots = vec![mode.lambda(); 3];
    let last: Vec<f64> = mode.vector(3).collect();
    let check = |roots: &[f64], last: &[f64]| verify_mode(&mode, roots, last).failure;
    assert_eq!(check(&roots, &last), None);

    let mut wrong = last.clone();
    wrong.swap(500, 501);
    assert!(check(&roots, &wrong).expect("swapped cells").starts_with("iteration 3, cell 500: expected "));
    for i in [0, 1, 499, 998, 999] {
        for by in [1e-9, -1e-9, f64::NAN, f64::INFINITY] {
            let mut wrong = last.clone();
            wrong[i] += by;
            let failure = check(&roots, &wrong).expect("a perturbed cell");
            assert!(failure.starts_with(&format!("iteration 3, cell {i}: ")), "{failure}");
        }
    }
    assert!(check(&roots, &mode.vector(2).collect::<Vec<_>>()).is_some(), "an iteration too few");
    assert!(check(&roots, &mode.vector(1).collect::<Vec<_>>()).is_some(), "the sign");
    assert_eq!(check(&roots, &last[..999]).as_deref(), Some("iteration 3: expected 1000 cells, found 999"));
    for k in 0..3 {
        for factor in [1.0 + 1e-11, 1.0 - 1e-11, f64::NAN, 0.0] {
            let mut wrong = roots.clone();
            wrong[k] *= factor;
            let failure = check(&wrong, &last).expect("a wrong root");
            assert!(failure.starts_with(&format!("iteration {}: expected √S = ", k + 1)), "{failure}");
        }
    }
}

#[test]
fn planted_errors_in_a_step() {
    let previous: Vec<f64> = (0..50).map(|i| ((i * i) as f64).cos()).collect();
    let (roots, vectors) = simulate(&previous, 1);
    let (root, next) = (roots[0], &vectors[0]);
    assert_eq!(verify_step(1, &previous, root, next).failure, None);
    assert!(verify_step(1, &previous, root * (1.0 + 3e-12), next).failure.is_some());
    for i in [0, 1, 25, 48, 49] {
        let mut wrong = next.clone();
        wrong[i] += 1e-9;
        let failure = verify_step(5, &previous, root, &wrong).failure.expect("a perturbed cell");
        assert!(failure.starts_with(&format!("iteration 5, cell {i}: ")), "{failure}");
        let mut wrong = next.clone();
        wrong.swap(i, (i + 1) % 50);
        assert!(verify_step(1, &previous, root, &wrong).failure.is_some());
    }
}

#[test]
fn the_first_bad_step_is_named() {
    let start: Vec<f64> = (0..40).map(|i| (i as f64).sin() + 0.3 * (i as f64).cos().powi(3)).collect();
    let (roots, right) = simulate(&start, 6);
    let mut vectors = right.clone();
    vectors[2][7] *= 1.0 + 1e-6;
    let verdict = verify_steps(0, &start, &roots, &vectors);
    assert!(verdict.failure.expect("a wrong vector").starts_with("iteration 3, cell 7: "));
    assert!(verdict.error < 1e-12, "the last step is right: {}", verdict.error);
    let verdict = verify_steps(0, &start, &roots, &right[..5]);
    assert_eq!(verdict.failure.as_deref(), Some("expected a vector for each of 6 iterations, found 5"));
}

/// Legitimate rounding differences are no failures, however badly the operator cancels or whatever the magnitude.
#[test]
fn hard_vectors_are_judged_fairly() {
    let wave = |i: usize| ((i * i) as f64).sin();
    let spike: Vec<f64> = (0..5000).map(|i| if i == 17 { 1.0 } else { 0.0 }).collect();
    let flat: Vec<f64> = (0..5000).map(|i| 1e9 + 1e-4 * wave(i)).collect();
    let tiny: Vec<f64> = (0..5000).map(|i| 1e-157 * wave(i)).collect();
    let huge: Vec<f64> = (0..5000).map(|i| 1e145 * wave(i)).collect();
    for (name, start) in [("spike", spike), ("flat", flat), ("tiny", tiny), ("huge", huge)] {
        let mut u = start.clone();
        let (mut roots, mut vectors) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let n = u.len();
            let mut d = u.clone();
            let (left, right) = ([u[n - 2], u[n - 1]], [u[0], u[1]]);
            let s = maniple_stencil::kernel::step(&mut d, left, right, 1.0, 1.0 / n as f64);
            roots.push(s.sqrt());
            maniple_stencil::kernel::scale(&d, s.sqrt(), &mut u);
            vectors.push(u.clone());
        }
        assert_eq!(verify_steps(0, &start, &roots, &vectors).failure, None, "{name}");
    }
}
