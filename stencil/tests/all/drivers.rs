//! Both versions, on both drivers, against the closed form.

use crate::processes;
use crate::size::part;
use maniple::prelude::*;
use maniple::runtime::Driver;
use maniple_mapper::{names, stock};
use maniple_stencil::reference::{DominantMode, verify_blocks, verify_mode};
use maniple_stencil::{Blocks, Collective, Keep, Output, Problem, Sink, Start, simulate};
use std::sync::{Arc, Mutex};

/// The number of the first cell, and the cells.
type Piece = (usize, Vec<f64>);

const VERSIONS: [Collective; 3] = Collective::ALL;

fn input(shards: usize, cells: usize, iterations: usize) -> (DominantMode, Problem) {
    let blocks = Blocks::uniform(shards, cells).unwrap();
    let mode = DominantMode::new(blocks.total());
    let start = Start::Vector(mode.vector(0).collect());
    (
        mode,
        Problem {
            sizes: vec![cells; shards],
            start,
            iterations,
            ahead: shards % 4,
            keep: Keep::Each,
            sink: None,
            checkpoints: None,
        },
    )
}

/// Every cell and every √S agrees with the closed form, and there is the right number of each.
fn assert_verified(mode: &DominantMode, input: &Problem, output: &Output, what: &str) {
    let roots: Vec<f64> = output.sums.iter().map(|sum| sum.sqrt()).collect();
    let last = output.vectors.last().expect("the last vector");
    assert_eq!(verify_mode(mode, &roots, last).failure, None, "{what}");
    assert_eq!(roots.len(), input.iterations, "{what}");
}

fn bits(output: &Output) -> Vec<u64> {
    let all = output.vectors.iter().flatten().chain(&output.sums);
    all.map(|v| v.to_bits()).collect()
}

#[test]
fn any_number_of_shards_on_threads() {
    for shards in [1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 512] {
        let (mode, input) = input(shards, 12, 5);
        for version in VERSIONS {
            for mapper in ["default", "collective"] {
                let runtime = Runtime::threads(2).mapper(stock(mapper).unwrap());
                let output = simulate(&runtime, version, &input).unwrap();
                assert_verified(&mode, &input, &output, &format!("{version}, {mapper}, {shards} shards"));
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn any_number_of_shards_on_processes() {
    processes::bodies_on_processes(
        "drivers::any_number_of_shards_on_processes",
        &[("shards", || {
            for shards in [1, 2, 3, 5, 8, 31] {
                let (mode, input) = input(shards, 12, 5);
                for (at, runtime) in processes::runtimes().expect("on processes") {
                    for (version, mapper) in VERSIONS.into_iter().zip(["default", "collective", "round-robin"]) {
                        let runtime = runtime.clone().mapper(stock(mapper).unwrap());
                        let output = simulate(&runtime, version, &input).unwrap();
                        assert_verified(&mode, &input, &output, &format!("{version}, {mapper}, {shards} shards, {at}"));
                    }
                }
            }
        })],
    );
}

#[test]
fn any_number_of_shards_on_the_seeded_driver() {
    for shards in [1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 512] {
        let (mode, input) = input(shards, 12, 3);
        for version in VERSIONS {
            for mapper in ["default", "collective"] {
                let processors = 1 + shards as u32 % 5;
                let runtime = Runtime::seeded(processors, shards as u64).mapper(stock(mapper).unwrap());
                let output = simulate(&runtime, version, &input).unwrap();
                let what = format!("{version}, {mapper}, {shards} shards, {processors} processors");
                assert_verified(&mode, &input, &output, &what);
            }
        }
    }
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn four_thousand_shards_on_two_processors() {
    let (mode, input) = input(4096, 4, 3);
    for version in VERSIONS {
        for mapper in ["default", "collective"] {
            for runtime in [Runtime::threads(2), Runtime::seeded(2, 1)] {
                let output = simulate(&runtime.mapper(stock(mapper).unwrap()), version, &input).unwrap();
                assert_verified(&mode, &input, &output, &format!("{version}, {mapper}, 4096 shards"));
            }
        }
    }
}

/// Two levels group as the workers' blocks are, and as recursive doubling does where those are equal powers of two.
#[test]
fn the_same_bits_for_any_number_of_workers() {
    for shards in [3, 8, 13] {
        let (_, input) = input(shards, 50, 7);
        let runs = |version, runtime| bits(&simulate(&runtime, version, &input).unwrap());
        let first = runs(Collective::RecursiveDoubling, Runtime::threads(1));
        let one_sum = runs(Collective::Aggregation, Runtime::threads(1));
        for workers in 2..=5 {
            let what = format!("{shards} shards, {workers} workers");
            assert!(runs(Collective::RecursiveDoubling, Runtime::threads(workers)) == first, "{what}");
            assert!(runs(Collective::Aggregation, Runtime::threads(workers)) == one_sum, "aggregation, {what}");
            if shards == 8 && workers.is_power_of_two() {
                assert!(runs(Collective::TwoLevel, Runtime::threads(workers)) == first, "two levels, {what}");
            }
        }
        for seed in 0..5 {
            let what = format!("{shards} shards, seed {seed}");
            assert!(runs(Collective::RecursiveDoubling, Runtime::seeded(3, seed)) == first, "{what}");
            assert!(runs(Collective::Aggregation, Runtime::seeded(3, seed)) == one_sum, "aggregation, {what}");
        }
    }
}

/// 2,000 seeds; the number of shards, processors, the version and the mapper vary with the seed.
#[test]
fn two_thousand_schedules() {
    for seed in 0..part(2000) {
        let shards = [1, 2, 3, 4, 5, 6, 7, 8, 11][(seed % 9) as usize];
        let version = VERSIONS[(seed / 9 % 3) as usize];
        let mappers = ["default", "collective", "first", "round-robin", &format!("random,seed={seed}")];
        let mapper = mappers[(seed / 27 % 5) as usize];
        let processors = 1 + (seed / 135 % 5) as u32;
        let (mode, input) = input(shards, 8, 4);
        let runtime = Runtime::seeded(processors, seed).mapper(stock(mapper).unwrap());
        let what = format!("seed {seed}: {version}, {mapper}, {shards} shards, {processors} processors");
        match simulate(&runtime, version, &input) {
            Ok(output) => assert_verified(&mode, &input, &output, &what),
            Err(e) => panic!("{what}: {e}"),
        }
    }
}

/// But for two levels, which group as shards are placed.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn the_same_bits_under_every_mapper() {
    for shards in [1, 3, 8, 13] {
        let (_, input) = input(shards, 20, 5);
        for version in [Collective::RecursiveDoubling, Collective::Aggregation] {
            let expected = bits(&simulate(&Runtime::threads(1), version, &input).unwrap());
            for name in names().iter().filter(|name| **name != "logging") {
                for seed in 0..6 {
                    let spec = if *name == "random" { format!("random,seed={seed}") } else { name.to_string() };
                    let runtimes = [Runtime::threads(1 + seed as u32 % 3), Runtime::seeded(1 + seed as u32 % 4, seed)];
                    for (driver, runtime) in ["threads", "seeded"].into_iter().zip(runtimes) {
                        let output = simulate(&runtime.mapper(stock(&spec).unwrap()), version, &input).unwrap();
                        let what = format!("{version}, {shards} shards, mapper {spec}, {driver}, seed {seed}");
                        assert!(bits(&output) == expected, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let (_, input) = input(5, 8, 4);
    let run = || simulate(&Runtime::seeded(3, 42), Collective::RecursiveDoubling, &input).unwrap().stats;
    assert_eq!(run(), run());
}

/// The paper's flags show in the counters: the default mapper copies every ghost and every round's value that comes from
/// another processor, the collective mapper copies nothing.
#[test]
fn mappers_show_in_the_counters() {
    let (_, input) = input(4, 100, 10);
    let copies = |mapper| {
        let runtime = Runtime::threads(2).mapper(stock(mapper).unwrap());
        let stats = simulate(&runtime, Collective::RecursiveDoubling, &input).unwrap().stats;
        // 2·P·log2 P subtasks an allreduce.
        assert_eq!(stats.chain_subtasks, 2 * 4 * 2 * 10);
        stats.region_copies
    };
    assert_eq!(copies("collective"), 0);
    // Shards 0 and 1 are on one processor, 2 and 3 on the other: of the two rounds, the second crosses, once a shard.
    // The ghosts live with their readers, so that reading them copies nothing.
    assert_eq!(copies("default"), 4 * 10);
}

#[test]
fn a_vanishing_sum_ends_the_run() {
    let (_, mut input) = input(3, 8, 9);
    input.start = Start::Vector(vec![1.0; input.cells()].into());
    for version in VERSIONS {
        let output = simulate(&Runtime::threads(2), version, &input).unwrap();
        assert_eq!(output.sums, [0.0], "{version}");
    }
}

/// Blocks are computed, checked and handed over where they are, and have the bits of vectors that travel.
#[test]
fn blocks_that_stay_where_they_are_have_the_same_bits() {
    for shards in [1, 2, 3, 7] {
        let (mode, travels) = input(shards, 50, 7);
        for version in VERSIONS {
            let expected = simulate(&Runtime::threads(1), version, &travels).unwrap().vectors.pop().expect("a vector");
            for runtime in [Runtime::threads(1), Runtime::threads(2), Runtime::seeded(3, shards as u64)] {
                let what = format!("{version}, {shards} shards, {:?}", runtime.driver());
                let pieces: Arc<Mutex<Vec<Piece>>> = Arc::default();
                let taken = pieces.clone();
                let sink = Sink(Arc::new(move |first, u: &[f64]| taken.lock().unwrap().push((first, u.to_vec()))));
                let (start, keep) = (Start::Mode(mode), Keep::Check(mode));
                let stays = Problem { start, keep, sink: Some(sink), ..travels.clone() };
                let output = simulate(&runtime.clone(), version, &stays).unwrap();
                assert!(output.vectors.is_empty() && output.checks.len() == shards, "{what}");
                assert!(output.checks.iter().all(|block| block.cells == 50 && block.wrong.is_none()), "{what}");
                let two_levels_by_one =
                    version == Collective::TwoLevel && *runtime.driver() != *Runtime::threads(1).driver();
                for (first, piece) in &*pieces.lock().unwrap() {
                    let expected = &expected[*first..first + piece.len()];
                    let same = piece.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same || two_levels_by_one, "{what}, cell {first}");
                    assert!(piece.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{what}, cell {first}");
                }
                let cells: usize = pieces.lock().unwrap().iter().map(|(_, piece)| piece.len()).sum();
                let nodes = if matches!(runtime.driver(), Driver::Seeded { .. }) { 3 } else { 1 };
                assert_eq!(cells, nodes * shards * 50, "{what}");
            }
        }
    }
}

/// A cell that is too large at the start makes the cells within two of it wrong. It is one where the mode is nearly 0, so that
/// S stays as it is.
#[test]
fn a_wrong_cell_is_found_in_its_block() {
    let (mode, clean) = input(4, 50, 1);
    let mut start: Vec<f64> = mode.vector(0).collect();
    let cell = (102..148).min_by(|a, b| start[*a].abs().total_cmp(&start[*b].abs())).expect("some");
    start[cell] += 1e-9;
    let problem = Problem { start: Start::Vector(start.into()), keep: Keep::Check(mode), ..clean };
    for version in VERSIONS {
        let output = simulate(&Runtime::threads(2), version, &problem).unwrap();
        let wrong: Vec<Option<usize>> = output.checks.iter().map(|block| block.wrong.map(|(cell, ..)| cell)).collect();
        assert_eq!(wrong, [None, None, Some(cell - 2), None], "{version}");
        let failure = verify_blocks(&mode, &[mode.lambda()], &output.checks).failure.expect("a wrong cell");
        assert!(failure.starts_with(&format!("iteration 1, cell {}: expected ", cell - 2)), "{failure}");
    }
}
