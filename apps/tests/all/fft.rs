use crate::on;
use maniple::runtime::Runtime;
use maniple_apps::Mode;
use maniple_apps::fft::{Array, C, FftError, Problem, run};
use proptest::prelude::*;
use std::f64::consts::TAU;
use std::sync::{Arc, Mutex};

/// The transform by its definition, one axis after the other.
fn sequential(shape: &[usize], values: &[C]) -> Vec<C> {
    let mut values = values.to_vec();
    for axis in 0..shape.len() {
        let (length, stride) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        let value = |at: usize| {
            let (k, first) = (at / stride % length, at - at / stride % length * stride);
            (0..length)
                .map(|n| values[first + n * stride] * C::cis(-TAU * (k * n % length) as f64 / length as f64))
                .sum()
        };
        values = (0..values.len()).map(value).collect();
    }
    values
}

fn spectrum(runtime: &Runtime, problem: &Problem) -> Result<Vec<C>, FftError> {
    let spectrum = Arc::new(Mutex::new(Vec::new()));
    let outcome = run(runtime, &Problem { spectrum: Some(spectrum.clone()), ..problem.clone() })?;
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.times.len(), problem.iterations);
    Ok(spectrum.lock().expect("no task panicked").clone())
}

fn shapes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        prop::collection::vec(1usize..30, 2),
        prop::collection::vec(1usize..11, 3),
        prop::sample::select(vec![vec![16, 16], vec![12, 30], vec![64, 40], vec![8, 8, 8], vec![6, 4, 9]]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn spectra_are_those_of_the_definition(
        shape in shapes(), shards in 1u32..20, groups in 1usize..9, whole: bool, again: bool, which in 0..6u32, seed: u64
    ) {
        let random = &mut fastrand::Rng::with_seed(seed);
        let number: usize = shape.iter().product();
        let values: Vec<C> = (0..number).map(|_| C::new(random.f64() - 0.5, random.f64() - 0.5)).collect();
        let expected = sequential(&shape, &values);
        let mode = if whole { Mode::Whole } else { Mode::Partial };
        let iterations = 1 + usize::from(again);
        let array = Array::given(&shape, values).expect("an array");
        let problem = Problem { mode, groups, iterations, ..Problem::new(array, shards) };
        let found = spectrum(&on(which, seed), &problem).expect("a spectrum");
        let most = 1e-13 * number as f64;
        let apart = found.iter().zip(&expected).map(|(f, e)| (f - e).norm()).fold(0.0, f64::max);
        prop_assert!(found.len() == number && apart < most, "{} apart: {:?} for {:?}", apart, found, expected);
        // The same bits for any mode, schedule and number of groups.
        let other = Problem { mode: Mode::Partial, groups: 3, ..problem };
        prop_assert_eq!(spectrum(&Runtime::seeded(2, seed), &other).expect("a spectrum"), found);
    }
}

#[test]
fn what_is_no_array_is_refused() {
    let text = |e: FftError| e.to_string();
    let generated = |shape: &[usize]| Array::generated(shape).map_err(text).expect_err("no array");
    assert_eq!(generated(&[4]), "expected an array of 2 or 3 dimensions, found 1");
    assert_eq!(generated(&[4, 0]), "length of an axis: expected at least 1, found 0");
    let given = Array::given(&[2, 3], vec![C::ZERO; 5]).map_err(text).expect_err("no array");
    assert_eq!(given, "expected 6 values for an array of shape [2, 3], found 5");
    let problem = Problem::new(Array::generated(&[4, 4]).expect("an array"), 1);
    let refused = |problem: &Problem| run(&Runtime::threads(1), problem).map_err(text).expect_err("no run");
    assert_eq!(refused(&Problem { shards: 0, ..problem.clone() }), "shards: expected at least 1, found 0");
    assert_eq!(refused(&Problem { groups: 0, ..problem }), "groups: expected at least 1, found 0");
}

#[test]
fn spectra_of_equal_and_of_large_and_small_values_are_verified() {
    let one = |x: f64| move |_: usize| C::new(x, 0.3 * x);
    let some = |x: f64| move |at: usize| C::new(x, (at % 7) as f64 * x);
    let check = |shape: &[usize], value: &dyn Fn(usize) -> C| {
        let values = (0..shape.iter().product()).map(value).collect();
        let problem = Problem::new(Array::given(shape, values).expect("an array"), 3);
        run(&Runtime::threads(2), &problem).expect("a spectrum")
    };
    for (shape, value) in [([2, 1_000_000], 0.1), ([1 << 10, 1 << 10], 0.1), ([1_000_000, 3], 1e300)] {
        assert_eq!(check(&shape, &one(value)).failure, None, "{shape:?}, {value}");
    }
    for value in [1e160, 1e300, 1e-200, 0.0] {
        assert_eq!(check(&[6, 20], &some(value)).failure, None, "{value}");
    }
    // The spectrum overflows.
    assert!(check(&[6, 20], &some(1e307)).failure.is_some_and(|failure| failure.ends_with("found NaN")));
}
