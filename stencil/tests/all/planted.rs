//! A planted bug shows within 200 seeds in the very check that the other tests make.
#![cfg(feature = "plant")]

use maniple::prelude::*;
use maniple_runtime::Bug;
use maniple_stencil::reference::DominantMode;
use maniple_stencil::{Blocks, Collective, Problem, run};

/// Whether a run is right, with a bug or without.
fn correct(seed: u64, bug: Option<(Bug, u64)>) -> bool {
    let start: Vec<f64> = DominantMode::new(40).vector(0).collect();
    let problem = Problem::from_vector(&Blocks::uniform(5, 8).unwrap(), start, 6);
    let mut runtime = Runtime::seeded(3, seed);
    if let Some((bug, first)) = bug {
        runtime = runtime.plant(bug, first, 7);
    }
    run(&runtime, Collective::RecursiveDoubling, &problem).is_ok_and(|outcome| outcome.failure.is_none())
}

#[test]
fn every_planted_bug_is_caught_within_200_seeds() {
    let seeds = 0..200;
    let mut missed = Vec::new();
    // The others are planted where the programs have what they strike in.
    let bugs = [
        Bug::SkippedReadyWait,
        Bug::SwappedGhosts,
        Bug::LostArrival,
        Bug::DoubledArrival,
        Bug::WrongPartner,
        Bug::EarlySlotReuse,
    ];
    for bug in bugs {
        if seeds.clone().all(|seed| correct(seed, Some((bug, seed % 40)))) {
            missed.push(bug);
        }
    }
    assert_eq!(missed, [], "not caught within 200 seeds");
    assert!(seeds.into_iter().all(|seed| correct(seed, None)));
}
