//! Drawn programs run as the interpreter says, on every driver; the same seed gives the same program and the same run; and
//! a program that fails is made smaller.

use maniple::explore::first_failure;
use maniple::runtime::Runtime;
use maniple_explore::{Counts, Mistake, Program, Wrong, draw, run, shrink};
use maniple_runtime_tests::size::part;
use std::sync::Mutex;

/// The counts of programs that must all be right, changed by `set` before they run.
fn right(seeds: std::ops::Range<u64>, set: impl Fn(u64, Program) -> Program + Sync) -> Vec<(&'static str, u64)> {
    let counts = Mutex::new(Counts::default());
    let found = first_failure(seeds, 1, |seed| {
        let program = set(seed, draw(seed));
        let right = run(&program, None, &|runtime| runtime).map_err(|wrong| format!("{wrong}\n{program}"))?;
        counts.lock().unwrap().add(&program, &right);
        Ok::<(), String>(())
    });
    assert_eq!(found, None);
    counts.into_inner().unwrap().all()
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn programs_are_right_and_the_same_each_time() {
    let first = right(0..700, |_, program| program);
    for (name, count) in &first {
        assert!(*count > 0, "700 seeds have no {name}: {first:?}");
    }
    assert_eq!(right(0..700, |_, program| program), first);
    assert_ne!(right(700..1400, |_, program| program), first);
    assert!(draw(7) == draw(7) && draw(7) != draw(8));
}

#[test]
fn programs_are_right_in_virtual_time() {
    right(2000..2000 + part(400), |_, program| program.in_virtual_time(None));
}

/// Where the machine decides on the order, and leaf tasks run on several threads.
#[test]
fn programs_are_right_on_threads() {
    right(3000..3000 + part(600), |seed, program| program.on_threads(1 + (seed % 3) as u32));
}

/// Whether a program goes wrong in the test's own way: it writes a certain word.
fn says(program: &Program, word: &str) -> Result<(), Wrong> {
    let wrong = || Wrong { kind: Mistake::Value, what: word.into() };
    if program.to_string().contains(word) { Err(wrong()) } else { Ok(()) }
}

#[test]
fn a_program_that_fails_is_shrunk_to_what_makes_it_fail() {
    let steps = ["FORGETS", "loose launch", "atomically", "writes", "digest a part", "into its slot"];
    let collectives = ["exscan", "one plan", "contributes", "the oldest result", "; the task of shard"];
    let parts =
        ["in blocks", "of any sizes", "in parts", "the next again", "awaiting none", "the task that panics makes"];
    for word in steps.into_iter().chain(collectives).chain(parts) {
        let program = (0..).map(draw).find(|p| p.size() > 20 && says(p, word).is_err()).unwrap();
        let wrong = says(&program, word).unwrap_err();
        let (least, wrong) = shrink(program.clone(), wrong, &|p| says(p, word));
        assert_eq!(wrong.what, word);
        assert!(least.size() <= 2, "{word}: {least}");
        // It is still a program that can be run.
        run(&least, None, &|runtime| runtime).unwrap_or_else(|wrong| panic!("{wrong}\n{least}"));
    }
}

/// What the runtime does otherwise than it must is noticed: here it gives up long before the end.
#[test]
fn a_run_that_is_cut_short_is_wrong() {
    let cut = |runtime: Runtime| runtime.most_steps(3);
    let wrong = run(&draw(1), None, &cut).unwrap_err();
    assert_eq!(wrong.kind, Mistake::Endless, "{wrong}");
}
