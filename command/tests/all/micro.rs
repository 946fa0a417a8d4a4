//! The microbenchmarks from outside: each verifies what it measures, in every format, and refuses wrong arguments.

use crate::common::maniple;
use crate::common::without_reader;
use serde_json::Value;
use std::process::Command;

/// The runs of a command that must succeed, as JSON.
fn runs(args: &str) -> Vec<Value> {
    let output = maniple(&format!("{args} --repeat 2 --format json"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*err), (Some(0), ""), "{args}: {out}");
    let runs: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect();
    assert_eq!(runs.len(), 2, "{args}");
    runs
}

/// Each run is verified and measured something.
fn measures(args: &str, what: &str) {
    for run in runs(args) {
        assert!(run["verified"].as_bool().unwrap_or(true), "{args}: {run}");
        assert!(run[what].as_f64().is_some_and(|time| time > 0.0), "{args}: {run}");
    }
}

const CHAINED: &str = "collective --kind allreduce --chained --order any";

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn allreduces_are_verified() {
    for shards in [1, 2, 3, 7, 16] {
        for collective in ["recursive-doubling", "two-level"] {
            for op in ["sum", "product", "min", "max"] {
                let args = format!("{CHAINED} --elements 1 --shards {shards} --iterations 30 --algorithm {collective}");
                measures(&format!("{args} --operator {op} --workers 2"), "max_latency_us");
            }
        }
    }
    for elements in [2, 5, 2000] {
        measures(
            &format!("{CHAINED} --shards 3 --elements {elements} --iterations 5 --mapper default"),
            "max_latency_us",
        );
    }
}

#[test]
fn tasks_barriers_and_cache_lines_are_verified() {
    for regions in 1..=4 {
        measures(&format!("tasks --count 3000 --regions {regions} --working-set 10 --workers 1"), "task_ns");
    }
    for shards in [1, 2, 7] {
        measures(&format!("barrier --shards {shards} --iterations 50 --workers 2"), "barrier_us");
    }
    measures("cache-line --iterations 1000", "cache_line_ns");
}

#[test]
fn kernels_and_gangs_are_verified() {
    for cells in [4, 5, 1000] {
        measures(&format!("kernel --cells {cells} --iterations 50"), "per_1000_cells_ns");
    }
    for shards in [1, 2, 7, 200] {
        measures(&format!("gang --shards {shards} --launches 3 --workers 2"), "launch_us");
    }
}

/// A shard's state and its rounds take hundreds of bytes at least, and not tens of thousands.
#[test]
#[cfg(target_os = "linux")]
fn waiting_shards_take_up_memory() {
    for collective in ["recursive-doubling", "two-level"] {
        for run in runs(&format!("memory --shards 1000 --workers 2 --collective {collective}")) {
            let bytes = run["per_shard_bytes"].as_f64().expect("a number");
            assert!((200.0..20_000.0).contains(&bytes), "{run}");
        }
    }
    // Nobody waits where the last shard is the only one.
    assert!(runs("memory --shards 1 --workers 1").iter().all(|run| run["per_shard_bytes"].is_number()));
}

#[test]
fn csv_has_a_header_and_a_table_its_medians() {
    let output = maniple("barrier --shards 2 --iterations 5 --repeat 3 --format csv");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines.len(), lines[0].split(',').next()), (4, Some("program")));
    assert!(lines[1..].iter().all(|l| l.split(',').count() == lines[0].split(',').count()), "{text}");
    let output = maniple("cache-line --iterations 1000 --repeat 2");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("cache_line_ns") && text.contains("The medians leave out run 0"), "{text}");
}

/// Every column that a report has, and not only a parameter, is explained.
#[test]
fn help_explains_what_is_reported() {
    for (command, columns) in [
        ("collective", &["max_latency_us", "result, expected", "verified", "cache_line_ns", "--chained"][..]),
        ("tasks", &["task_ns", "verified"]),
        ("cache-line", &["cache_line_ns"]),
        ("barrier", &["barrier_us", "verified", "cache_line_ns"]),
        ("gang", &["launch_us", "per_shard_us", "verified", "cache_line_ns"]),
        ("kernel", &["iteration_us", "per_1000_cells_ns", "verified"]),
        ("memory", &["per_shard_bytes"]),
        (
            "compare mpi",
            &["kind", "mpi_result", "mpi_iteration_us", "mpi_mean_us", "collective_ratio", "cache_line_ns"],
        ),
    ] {
        let help = String::from_utf8(maniple(&format!("{command} --help")).stdout).expect("UTF-8");
        let (_, explained) = help.split_once("Columns of the report:").expect("an explanation");
        for word in columns.iter().chain(&["machine, nodes", "Exit codes:"]) {
            assert!(explained.contains(word), "{command}: {word} in {explained}");
        }
    }
}

/// Without a reader, a command stops. These runs would take hours.
#[test]
fn runs_end_with_their_reader() {
    let args = "barrier --shards 2 --iterations 100 --repeat 1e9 --format json";
    let output = without_reader(Command::new(crate::MANIPLE).args(args.split(' ')));
    let said = "maniple: error: can't write to stdout: Broken pipe (os error 32)\n";
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(1), said));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, words) in [
        ("barrier --shards 0", "--shards: expected at least 1, found 0"),
        ("barrier --workers 5000", "at most 1024 workers"),
        (
            "memory --collective star",
            "unknown collective algorithm `star`, expected one of: recursive-doubling, two-level, radix-4 (or",
        ),
        ("cache-line --wire virtual --noise much", "expected a number, such as 0.5, found `much`"),
        ("explore --from x", "expected a whole number, such as 16 or 1e3, found `x`"),
        ("tasks --count 1e9 --trace /no/such/file", "/no/such/file: can't be written: No such file"),
        ("barrier --repeat 0", "--repeat: expected at least 1, found 0"),
        ("tasks --regions 5", "--regions: expected 1 to 4 for each task, found 5"),
        ("tasks --regions 0", "--regions: expected 1 to 4 for each task, found 0"),
        ("tasks --regions 3 --working-set 2", "--working-set: expected at least the 3 regions of a task, found 2"),
        ("cache-line --iterations x", "expected a whole number"),
        ("kernel --cells 3", "expected at least 4 cells"),
        ("kernel --cells 1e18", "of memory"),
        ("kernel --iterations 0", "--iterations: expected at least 1, found 0"),
        ("kernel --iterations 1e15", "of memory"),
        ("barrier --iterations 1e19", "--iterations: expected at most 9007199254740992, found"),
        ("tasks --working-set 1e18", "1000000000000000000 regions: this needs at least "),
        ("tasks --working-set 1e19", "of memory"),
        ("gang --launches 0", "--launches: expected at least 1, found 0"),
        ("memory --shards 0", "--shards: expected at least 1, found 0"),
    ] {
        let output = maniple(args);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args}: {err}");
        assert!(err.starts_with("maniple: error: ") && err.contains(words), "{args}: {err}");
        assert!(output.stdout.is_empty(), "{args}");
    }
}
