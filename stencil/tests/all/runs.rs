//! Runs that are verified, and problems that are refused.

use maniple::prelude::*;
use maniple_mapper::stock;
use maniple_stencil::{Blocks, Collective, Outcome, Problem, Start, StencilError, alternating, plural, run};

fn start() -> Vec<f64> {
    (0..62).map(|i| (i as f64 * 0.9).sin() + 0.2 * (i as f64).cos()).collect()
}

/// A run of seven iterations on three shards.
fn problem(start: Vec<f64>) -> Problem {
    Problem::from_vector(&Blocks::balanced(3, start.len()).expect("enough cells"), start, 7)
}

#[test]
fn every_version_is_verified_and_timed() {
    let of_mode = Problem::from_mode(&Blocks::uniform(3, 20).expect("enough cells"), 7);
    for problem in [of_mode, problem(start())] {
        for collective in Collective::ALL {
            for mapper in ["default", "collective"] {
                let runtime = Runtime::threads(2).mapper(stock(mapper).unwrap());
                let Outcome { result, expected, error, failure, blocks, iteration_us, collective_us, .. } =
                    run(&runtime, collective, &problem).expect("runs");
                assert_eq!(failure, None, "{collective}, {mapper}");
                assert!(error < 1e-12 && (result / expected - 1.0).abs() < 1e-12);
                assert_eq!(blocks.iter().map(|block| block.cells).collect::<Vec<_>>(), problem.sizes);
                assert_eq!((iteration_us.len(), collective_us.len()), (7, 7));
                let again = run(&runtime, collective, &problem).expect("runs").blocks;
                assert_eq!(again, blocks, "the same bits again");
            }
        }
    }
}

#[test]
fn vectors_without_a_next_one() {
    let refused = |start: Vec<f64>| {
        let refused = run(&Runtime::threads(2), Collective::RecursiveDoubling, &problem(start));
        refused.expect_err("no next vector").to_string()
    };
    assert_eq!(
        refused(vec![3.0; 40]),
        "iteration 1: S = 0, so there is no next vector; the vector's derivative vanishes, or its squares underflow (then \
         scale the input)"
    );
    let large = (0..40).map(|i| 1e200 * f64::from(i)).collect();
    assert_eq!(refused(large), "iteration 1: S = inf; the vector's values are too large");
}

#[test]
fn problems_that_are_none() {
    let refused = |problem: &Problem| problem.check().expect_err("refused").to_string();
    let fine = problem(start());
    assert!(fine.check().is_ok());
    assert_eq!(refused(&Problem { sizes: Vec::new(), ..fine.clone() }), "shards: expected at least 1, found 0");
    assert_eq!(refused(&Problem { iterations: 0, ..fine.clone() }), "iterations: expected at least 1, found 0");
    let few = refused(&Problem { sizes: vec![31, 28, 3], ..fine.clone() });
    assert!(few.starts_with("expected at least 4 cells in a shard, found 3"), "{few}");
    let short = Problem { start: Start::Vector(vec![1.0; 61].into()), ..fine };
    assert_eq!(refused(&short), "expected 62 values for the first vector, found 61");
    let run = run(&Runtime::threads(1), Collective::Aggregation, &short);
    assert!(matches!(run, Err(StencilError::WrongLength { cells: 62, found: 61 })));
    let many = Blocks::uniform(1 << 32, 20).expect_err("refused").to_string();
    assert_eq!(many, "expected at most 4294967295 shards, found 4294967296");
}

/// Where two shards share a worker, samples are means of two.
#[test]
fn samples_of_shards_that_take_turns() {
    let samples = [9.0, 1.0, 8.0, 2.0, 7.0];
    assert_eq!(alternating(&samples, 2, 2), samples);
    assert_eq!(alternating(&samples, 3, 2), [5.0, 5.0]);
    assert_eq!(alternating(&samples[..1], 3, 2), [9.0]);
}

#[test]
fn names_and_nouns() {
    for c in Collective::ALL {
        assert_eq!(c.name().parse(), Ok(c));
    }
    let unknown = "unknown collective `ring`; expected one of recursive-doubling, two-level, aggregation";
    assert_eq!("ring".parse::<Collective>(), Err(unknown.into()));
    assert_eq!([0, 1, 2].map(|n| plural(n, "shard")), ["0 shards", "1 shard", "2 shards"]);
}
