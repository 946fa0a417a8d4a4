//! Each planted protocol bug is found by `maniple explore`, within 2000 seeds.
#![cfg(feature = "plant")]

use maniple_runtime::Bug;
use serde_json::Value;
use std::process::Command;

const SEEDS: &str = "2000";

#[test]
fn every_planted_bug_is_found_within_2000_seeds() {
    let mut missed = Vec::new();
    // The ghosts are the stencil's.
    for bug in Bug::ALL.iter().copied().filter(|&bug| bug != Bug::SwappedGhosts) {
        let mut command = Command::new(crate::MANIPLE);
        let output = command.args(["explore", "--seeds", SEEDS, "--format", "json", "--plant", &bug.name()]).output();
        let output = output.expect("it starts");
        let counts: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        match counts["failed_seed"].as_u64() {
            Some(seed) => {
                assert_eq!(output.status.code(), Some(1), "{bug:?}");
                let again = format!("maniple explore --seed {seed} --plant {}", bug.name());
                assert!(
                    told.contains(&again) && told.contains("the smallest program that fails the same way"),
                    "{told}"
                );
                println!("| `{}` | {} | {} |", bug.name(), seed + 1, told.lines().next().unwrap_or_default());
            }
            None => missed.push(bug),
        }
    }
    assert_eq!(missed, [], "not found within {SEEDS} seeds");
}

#[test]
fn an_unknown_bug_is_refused() {
    let mut command = Command::new(crate::MANIPLE);
    let output = command.args(["explore", "--plant", "moths"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("lost-arrival"));
}
