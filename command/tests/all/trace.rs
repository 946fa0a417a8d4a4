//! `--trace` from outside: the file that each command writes, and refusals.

use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A path of its own for each test that asks with a name of its own.
fn path(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

fn maniple(args: &str, trace: &Path) -> Output {
    let mut command = Command::new(crate::MANIPLE);
    command.args(args.split(' ')).arg("--trace").arg(trace).output().expect("starts")
}

/// The events of a run that must succeed.
fn events(args: &str, name: &str) -> Vec<Value> {
    let trace = path(name);
    let output = maniple(args, &trace);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*err), (Some(0), ""), "{args}: {out}");
    let mut file: Value = serde_json::from_str(&fs::read_to_string(trace).expect("written")).expect("JSON");
    let Value::Array(events) = file["traceEvents"].take() else { panic!("{args}: no events") };
    events
}

/// How many slices there are of each category and name.
fn slices(events: &[Value]) -> HashMap<(&str, &str), usize> {
    let mut found = HashMap::new();
    for e in events.iter().filter(|e| e["ph"] == "X") {
        let (cat, name) = (e["cat"].as_str().expect("a category"), e["name"].as_str().expect("a name"));
        *found.entry((cat, name)).or_default() += 1;
    }
    found
}

#[test]
fn the_stencil_has_its_iterations_on_the_rows_of_its_workers() {
    // The last run alone: not twice as many.
    let events = events("stencil --shards 3 --workers 2 --iterations 7 --repeat 2", "stencil.json");
    let slices = slices(&events);
    assert_eq!((slices[&("leaf", "load_mode")], slices[&("leaf", "advance")]), (3, 3 * 7));
    assert!(slices[&("collective", "`sum of squares`")] >= 1 && slices[&("shard", "stencil")] >= 3, "{slices:?}");
    let rows: HashSet<u64> = events.iter().filter_map(|e| e["tid"].as_u64()).collect();
    assert_eq!(rows, HashSet::from([1, 2]));
    let shards: HashSet<u64> = events.iter().filter_map(|e| e["args"]["shard"].as_u64()).collect();
    assert_eq!(shards, HashSet::from([0, 1, 2]));
    let arrows = |name: &str| events.iter().filter(|e| e["ph"] == "f" && e["name"] == name).count();
    // Ghosts come from both sides before each iteration.
    assert!(arrows("edges `ghosts`") >= 2 * 3 * 7);
    assert!(arrows("Arrive") > 0);
}

#[test]
fn microbenchmarks_write_traces_too() {
    for (args, category, name, least) in [
        (
            "collective --kind allreduce --chained --elements 1 --shards 4 --iterations 10 --workers 2",
            "shard",
            "calls",
            4,
        ),
        ("tasks --count 100 --workers 1 --repeat 1", "leaf", "add_1", 100),
        ("barrier --shards 3 --iterations 10 --workers 2 --repeat 1", "shard", "pass", 3),
        ("gang --shards 6 --launches 2 --workers 2 --repeat 1", "shard", "started", 18),
    ] {
        let events = events(args, "micro.json");
        let slices = slices(&events);
        assert!(slices.get(&(category, name)).is_some_and(|&n| n >= least), "{args}: {slices:?}");
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_before_the_run() {
    let nowhere = path("missing").join("trace.json");
    for args in ["stencil --repeat 1", "barrier --repeat 1"] {
        let output = maniple(args, &nowhere);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{message}");
        let expected = format!("maniple: error: {}: can't be written: No such file", nowhere.display());
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn several_processes_write_one_trace() {
    for (args, leaf, expected) in [
        ("stencil --shards 5 --iterations 7 --repeat 2", "advance", 5 * 7),
        ("tasks --count 100 --repeat 1", "add_1", 100),
    ] {
        let name = "processes.json";
        let events = events(&format!("{args} --wire processes --processes 3 --workers 2"), name);
        assert!(slices(&events).get(&("leaf", leaf)).is_some_and(|&n| n >= expected), "{args}");
        // A process has a node, and each processor a row.
        let rows = events.iter().filter(|e| e["name"] == "thread_name").map(|e| (e["pid"].as_u64(), e["tid"].as_u64()));
        let expected = (0..6).map(|p| (Some(p / 2 + 1), Some(p + 1)));
        assert!(rows.eq(expected), "{args}");
        // Nobody else has written beside it.
        let directory = path(name).parent().expect("a directory").to_owned();
        let beside = fs::read_dir(directory).expect("there").flatten().filter(|e| e.path().starts_with(path(name)));
        assert_eq!(beside.count(), 1, "{args}");
    }
}
