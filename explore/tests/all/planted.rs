//! Early reuse of cells is found in each kind of collective: skipped acknowledgements where cells are given back, a missing
//! second set of cells where they are not.
#![cfg(feature = "plant")]

use maniple_explore::{Mistake, draw, planted, run};
use maniple_runtime::Bug;

/// The number of seeds until a program with collectives of one kind alone goes wrong.
fn seeds_until_found(name: &str, bug: Bug) -> Option<u64> {
    (0..4000).find(|&seed| {
        let Some(program) = draw(seed).only(name) else { return false };
        run(&program, None, &|runtime| runtime)
            .unwrap_or_else(|wrong| panic!("{name}, seed {seed}: {wrong}\n{program}"));
        let found = run(&program, None, &|runtime| planted(bug, seed, runtime));
        found.is_err_and(|wrong| {
            matches!(wrong.kind, Mistake::Value | Mistake::Cause | Mistake::Deadlock | Mistake::Unnoticed)
        })
    })
}

#[test]
fn early_reuse_of_cells_is_found_in_every_kind() {
    let giving_back = ["broadcast", "reduce", "gather", "scatter", "reduce-scatter", "scan", "exscan"]
        .map(|name| (name, Bug::SkippedEmptyWait));
    let others = ["allreduce", "allgather", "all-to-all"].map(|name| (name, Bug::OneSet));
    for (name, bug) in giving_back.into_iter().chain(others) {
        let found = seeds_until_found(name, bug);
        println!("{name}, {bug:?}: {found:?}");
        assert!(found.is_some(), "{name}: {bug:?} is not found within 4000 seeds");
    }
}
