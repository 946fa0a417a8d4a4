//! `maniple explore` from outside.

use serde_json::Value;
use std::process::{Command, Output};

fn explore(args: &[&str]) -> Output {
    Command::new(crate::MANIPLE).arg("explore").args(args).output().expect("starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// The counts of seeds that must be right.
fn counts(args: &[&str]) -> Value {
    let output = explore(&[args, &["--format", "json"]].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{args:?}");
    let mut counts: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    counts.as_object_mut().expect("an object").remove("seconds").expect("a time");
    counts
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_few_hundred_seeds_are_right_and_the_same_each_time() {
    let first = counts(&["--seeds", "400"]);
    assert_eq!(first["failed_seed"], Value::Null);
    for (name, count) in first.as_object().expect("an object").iter().filter(|(name, _)| *name != "failed_seed") {
        assert!(count.as_u64().is_some_and(|n| n > 0), "400 seeds have no {name}: {first}");
    }
    assert_eq!(counts(&["--seeds", "400"]), first);
    assert_eq!(counts(&["--seeds", "400", "--workers", "3"]), first);
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn programs_run_in_virtual_time_and_on_a_machine_if_asked() {
    let drawn = counts(&["--seeds", "300", "--wire", "virtual"]);
    assert_eq!((&drawn["programs"], &drawn["in_virtual_time"]), (&300.into(), &300.into()), "{drawn}");
    // Here rounds are mapped anew each time, and a node has a utility processor.
    let there = counts(&["--seeds", "300", "--wire", "virtual", "--machine", "titan-legion"]);
    assert_eq!((&there["in_virtual_time"], &there["failed_seed"]), (&300.into(), &Value::Null), "{there}");
    assert_ne!(there["messages"], drawn["messages"], "another machine has other nodes");
}

#[test]
fn one_seed_is_run_alone_and_shown() {
    let output = explore(&["--seed", "17"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("seed 17") && text(&output.stderr).contains("stage 0"));
    assert!(text(&output.stdout).contains("programs"));
}

#[test]
fn wrong_arguments_are_refused() {
    let wrong: [&[&str]; 10] = [
        &["--seeds", "0"],
        &["--seeds", "many"],
        &["--seed", "1", "--seeds", "2"],
        &["--workers", "0"],
        &["--time", "-1"],
        &["--time", "0"],
        &["--wire", "virtual", "--machine", "none"],
        &["--machine", "titan-legion"],
        // Nothing would be run, or fewer than asked for.
        &["--seed", "18446744073709551615"],
        &["--from", "18446744073709551600", "--seeds", "100"],
    ];
    for args in wrong {
        let output = explore(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).starts_with("maniple: error: ") && output.stdout.is_empty(), "{args:?}");
    }
}
