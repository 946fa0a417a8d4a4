//! `maniple tune` from outside, in virtual time, where times are the same in each run.

use serde_json::Value;
use std::process::{Command, Output};

fn maniple(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_maniple")).args(args.split(' ')).output().expect("starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

const ON: &str = "--wire virtual --machine infiniband";

/// The time and the algorithm of an allreduce of integers.
fn measured(shards: u32, options: &str) -> (f64, String) {
    let command =
        format!("collective --kind allreduce --type i64 --elements 1 --shards {shards} {ON} --format json{options}");
    let output = maniple(&command);
    assert_eq!(output.status.code(), Some(0), "{command}: {}", text(&output.stderr));
    let line: Value = serde_json::from_slice(&output.stdout).expect("a JSON object");
    assert_eq!(line["verified"], true, "{command}");
    (line["avg_latency_us"].as_f64().expect("a number"), line["algorithm"].as_str().expect("a name").into())
}

/// A mapper with the table takes an algorithm that is as fast as the best of all, for a number of shards that was measured.
#[test]
fn a_mapper_with_the_table_takes_the_fastest() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.toml");
    let table = table.to_str().unwrap();
    let tuned =
        maniple(&format!("tune --kind allreduce,barrier,scan --shards 5,12 --elements 1 {ON} --output {table}"));
    assert_eq!((tuned.status.code(), text(&tuned.stdout)), (Some(0), ""), "{}", text(&tuned.stderr));
    let said = text(&tuned.stderr);
    assert_eq!(said.lines().count(), 6, "{said}");
    assert!(said.lines().all(|line| line.contains(" shards, ") && line.contains(" µs")), "{said}");
    for shards in [5, 12] {
        let (us, chosen) = measured(shards, &format!(" --mapper collective,table={table}"));
        let all = ["recursive-doubling", "direct", "radix-2", "radix-4", "radix-8", "sliced", "halving-doubling"];
        let others = (1..8).map(|n| format!("dissemination-{n}")).chain(all.map(String::from));
        let best = others.map(|a| measured(shards, &format!(" --algorithm {a}")).0).fold(f64::INFINITY, f64::min);
        assert!(us <= 1.05 * best, "{shards} shards: {chosen} takes {us} µs, the best {best}");
    }
    // Floats forbid most of these algorithms, so another one of the row is taken.
    let floats = maniple(&format!(
        "collective --kind allreduce --elements 1 --shards 12 {ON} --format json --mapper collective,table={table}"
    ));
    let line: Value = serde_json::from_slice(&floats.stdout).expect("a JSON object");
    let name = line["algorithm"].as_str().unwrap();
    assert!(!name.starts_with("dissemination") && !name.starts_with("five"), "{name}");
}

#[test]
fn what_is_no_table_or_no_kind_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.toml");
    std::fs::write(&table, "machine = 3").unwrap();
    for (args, expected) in [
        (
            format!("collective --kind scan --shards 2 --mapper collective,table={}", table.display()),
            "expected a table",
        ),
        (
            "collective --kind scan --shards 2 --mapper collective,table=/nowhere".into(),
            "can't read the table /nowhere",
        ),
        ("collective --kind scan --shards 2 --mapper collective,rows=3".into(), "unknown option `rows`"),
        ("tune --kind stencil".into(), "invalid value 'stencil'"),
        ("tune --rounds 0".into(), "rounds"),
        ("tune --shards 4,2".into(), "increasing"),
    ] {
        let output = maniple(&args);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{args}: {said}");
    }
}
