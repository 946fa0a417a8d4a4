//! A planted bug shows within 200 seeds in the very check that the other tests make.
#![cfg(feature = "plant")]

use maniple::prelude::*;
use maniple_runtime::plant::Bug;
use maniple_stencil::Collective;
use maniple_stencil::reference::DominantMode;
use maniple_stencil::shards::{Keep, Problem, Start, simulate};

/// Whether a run gives the closed form, with a bug or without.
fn correct(seed: u64, bug: Option<(Bug, u64)>) -> bool {
    let (shards, cells, iterations) = (5, 8, 6);
    let mode = DominantMode::new(shards * cells);
    let start: Vec<f64> = mode.vector(0).collect();
    let input = Problem {
        sizes: vec![cells; shards],
        start: Start::Vector(start.into()),
        iterations,
        ahead: 2,
        keep: Keep::Last,
        sink: None,
    };
    let mut runtime = Runtime::seeded(3, seed);
    if let Some((bug, first)) = bug {
        runtime = runtime.plant(bug, first, 7);
    }
    let Ok(output) = simulate(&runtime, Collective::RecursiveDoubling, &input) else { return false };
    let near = |a: f64, b: f64, within: f64| (a - b).abs() <= within;
    output.sums.len() == iterations
        && output.sums.iter().all(|s| near(s.sqrt() / mode.lambda(), 1.0, 1e-12))
        && output.vectors.last().is_some_and(|v| v.iter().zip(mode.vector(iterations)).all(|(a, b)| near(*a, b, 1e-10)))
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
