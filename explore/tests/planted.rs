//! Skipped acknowledgements of values are found in each kind of collective whose cells are given back.
#![cfg(feature = "plant")]

use maniple_explore::{Kind, draw, planted, run};
use maniple_runtime::plant::Bug;

/// The number of seeds until a program with collectives of one kind alone goes wrong.
fn seeds_until_found(name: &str) -> Option<u64> {
    (0..4000).find(|&seed| {
        let Some(program) = draw(seed).only(name) else { return false };
        run(&program, None, &|runtime| runtime)
            .unwrap_or_else(|wrong| panic!("{name}, seed {seed}: {wrong}\n{program}"));
        let found = run(&program, None, &|runtime| planted(Bug::SkippedEmptyWait, seed, runtime));
        found.is_err_and(|wrong| matches!(wrong.kind, Kind::Value | Kind::Cause | Kind::Deadlock | Kind::Unnoticed))
    })
}

#[test]
fn skipped_acknowledgements_are_found_in_every_kind_that_gives_back() {
    for name in ["broadcast", "reduce", "gather", "scatter", "scan", "exscan"] {
        let found = seeds_until_found(name);
        println!("{name}: {found:?}");
        assert!(found.is_some(), "{name}: not found within 4000 seeds");
    }
}
