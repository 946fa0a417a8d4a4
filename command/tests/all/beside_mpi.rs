//! `maniple compare mpi` from outside: both programs under a real `mpirun`, and launchers that fail in every way.

use crate::common::kinds::KINDS;
use serde_json::Value;
use std::f64::consts::TAU;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn compare(args: &[&str]) -> Output {
    Command::new(crate::MANIPLE).args(["compare", "mpi"]).args(args).output().expect("starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The pairs of a comparison that must succeed.
fn pairs(args: &str) -> Vec<Value> {
    let mut args: Vec<&str> = args.split(' ').collect();
    args.extend(["--format", "json", "--timeout", "100"]);
    let output = compare(&args);
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(0), ""), "{args:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

fn number(pair: &Value, name: &str) -> f64 {
    pair[name].as_f64().unwrap_or_else(|| panic!("no number for {name}: {pair}"))
}

/// The ratio is the ratio of the two times, and a clock has measured both.
fn measured(pair: &Value, what: &str) {
    let [ours, theirs, ratio] =
        [format!("{what}_us"), format!("mpi_{what}_us"), format!("{what}_ratio")].map(|name| number(pair, &name));
    assert!(ours > 0.0 && theirs > 0.0, "{pair}");
    assert!((ratio * theirs / ours - 1.0).abs() < 1e-9, "{pair}");
}

/// The result of a chain of calls, by its definition. Ranks contribute the last result modulo 97 plus their rank. To a
/// product they contribute −1 if this sum is a multiple of 3, and else 1.
fn chain(op: &str, ranks: i64, calls: usize) -> i64 {
    let mut last = 1;
    for _ in 0..calls {
        let all = |f: &dyn Fn(i64) -> i64| (0..ranks).map(f).collect::<Vec<_>>();
        let given = all(&|rank| last % 97 + rank);
        last = match op {
            "sum" => given.iter().sum(),
            "min" => given[0],
            "max" => given[ranks as usize - 1],
            _ => all(&|rank| if (last + rank) % 3 == 0 { -1 } else { 1 }).iter().product(),
        };
    }
    last
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn allreduces_give_the_exact_answer_on_both_sides() {
    let pairs = pairs("--program allreduce --shards 1,2,3,4,7 --iterations 30 --repeat 1 --workers 2");
    assert_eq!(pairs.len(), 5);
    for (pair, ranks) in pairs.iter().zip([1, 2, 3, 4, 7]) {
        let expected = chain("sum", ranks, 33) as f64;
        assert_eq!((&pair["program"], &pair["shards"]), (&"allreduce".into(), &ranks.into()));
        assert_eq!((number(pair, "result"), number(pair, "mpi_result")), (expected, expected), "{pair}");
        assert_eq!((&pair["verified"], &pair["cells"]), (&true.into(), &Value::Null));
        assert!(pair["mpi"].as_str().is_some_and(|name| name.contains("MPI") || name.contains("MPICH")), "{pair}");
        measured(pair, "collective");
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn every_operator_and_vectors_too() {
    for (op, elements) in [("min", "1"), ("max", "5"), ("product", "2000"), ("sum", "2000")] {
        let args = format!("--program allreduce --ranks 3 --op {op} --elements {elements} --iterations 10 --repeat 1");
        for pair in pairs(&args) {
            let expected = chain(op, 3, 11) as f64;
            assert_eq!((number(&pair, "result"), number(&pair, "mpi_result")), (expected, expected), "{pair}");
        }
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn each_kind_of_collective_is_right_on_both_sides() {
    for (elements, op, shards) in [("1", "sum", [1, 3]), ("700", "product", [2, 5])] {
        let kinds = KINDS.join(",");
        let args = format!(
            "--kind {kinds} --shards {},{} --elements {elements} --op {op} --iterations 10 --repeat 1 --workers 2",
            shards[0], shards[1]
        );
        let pairs = pairs(&args);
        assert_eq!(pairs.len(), KINDS.len() * 2);
        let cases = KINDS.iter().flat_map(|kind| shards.map(|shards| (*kind, shards)));
        for (pair, (kind, shards)) in pairs.iter().zip(cases) {
            let found = ["program", "kind", "shards", "verified", "result", "mpi_result"].map(|name| &pair[name]);
            let expected = ["collective".into(), kind.into(), shards.into(), true.into(), Value::Null, Value::Null];
            assert_eq!(found, expected.each_ref(), "{pair}");
            assert_eq!(pair["elements"].is_null(), kind == "barrier", "{pair}");
            let combines = ["allreduce", "reduce", "reduce-scatter", "scan", "exscan"].contains(&kind);
            assert_eq!(pair["op"].as_str(), combines.then_some(op), "{pair}");
            measured(pair, "collective");
            for side in ["", "mpi_"] {
                let [mean, most] = ["mean_us", "collective_us"].map(|name| number(pair, &format!("{side}{name}")));
                assert!(mean > 0.0 && mean <= most * (1.0 + 1e-9), "{pair}");
            }
        }
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_kind_beside_a_program_and_by_an_algorithm() {
    let pairs = pairs(
        "--program allreduce --kind broadcast --algorithm chain-3 --shards 4 --elements 50 --iterations 5 --repeat 1",
    );
    let named = |name: &str| pairs.iter().map(|pair| pair[name].clone()).collect::<Vec<_>>();
    assert_eq!(named("program"), ["allreduce", "collective"]);
    assert_eq!(named("kind"), [Value::Null, "broadcast".into()]);
    assert_eq!(named("collective"), ["recursive-doubling", "chain-3"]);
    assert_eq!(named("verified"), [true, true]);
}

/// This side runs in processes, each time as a program of its own.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_kind_on_processes() {
    for pair in
        pairs("--kind all-to-all,barrier,scan --shards 4 --processes 2 --wire processes --iterations 5 --repeat 1")
    {
        assert_eq!((&pair["verified"], &pair["processes"]), (&true.into(), &2.into()), "{pair}");
        measured(&pair, "collective");
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn stencils_find_the_same_eigenvalue_on_both_sides() {
    let pairs =
        pairs("--program stencil --shards 1,2,3,4,7 --cells 50 --iterations 20 --repeat 2 --collective two-level");
    assert_eq!(pairs.len(), 10);
    for (pair, ranks) in pairs.iter().zip([1, 1, 2, 2, 3, 3, 4, 4, 7, 7]) {
        // λ = (8 sin θ − sin 2θ) / (6h) at the mode nearest to 0.2861·N.
        let n = 50.0 * f64::from(ranks);
        let theta = TAU * (0.2861 * n).round() / n;
        let expected = (8.0 * theta.sin() - (2.0 * theta).sin()) * n / 6.0;
        for side in ["result", "mpi_result"] {
            assert!((number(pair, side) / expected - 1.0).abs() < 1e-12, "{side} of {pair}: expected {expected}");
        }
        assert_eq!((&pair["shards"], &pair["cells"], &pair["verified"]), (&ranks.into(), &50.into(), &true.into()));
        measured(pair, "iteration");
        measured(pair, "collective");
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_table_for_each_program_with_its_medians() {
    let output = compare(&["--iterations", "20", "--repeat", "2"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(0), ""), "{text}");
    let tables: Vec<&str> = text.split("\n\n").filter(|t| !t.trim().is_empty()).collect();
    assert_eq!(tables.len(), 2, "{text}");
    for (table, begin) in
        tables.iter().zip(["program allreduce, wire threads, shards 2, ", "program stencil, wire threads, shards 2, "])
    {
        assert!(table.starts_with(begin) && table.contains("collective_ratio"), "{table}");
        assert_eq!(table.lines().filter(|line| line.starts_with(" median")).count(), 1, "{table}");
    }
    assert!(!tables[0].contains("iteration_ratio") && tables[1].contains("iteration_ratio"), "{text}");
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn csv_has_one_header() {
    let output = compare(&["--iterations", "20", "--repeat", "1", "--format", "csv"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.iter().map(|line| line[0]).collect::<Vec<_>>(), ["program", "allreduce", "stencil"], "{text}");
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
}

/// A script that stands for `mpirun`.
fn launcher(name: &str, script: &str) -> String {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let path: PathBuf = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script");
    path.to_str().expect("UTF-8").to_owned()
}

/// The message of a comparison that must fail with this code before anything is reported.
fn fails(code: i32, args: &[&str]) -> String {
    let output = compare(args);
    let err = stderr(&output);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{args:?}: {err}");
    err.strip_prefix("maniple: error: ").expect("the form of all errors").to_owned()
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn launchers_that_fail_are_reported() {
    let missing = fails(2, &["--mpirun", "/nonexistent/mpirun"]);
    assert!(missing.starts_with("can't start /nonexistent/mpirun: ") && missing.contains("openmpi-bin"), "{missing}");

    let refusing = launcher("refusing", "[ \"$1\" = --version ] || { echo no such host >&2; exit 3; }");
    let message = fails(1, &["--mpirun", &refusing, "--shards", "4"]);
    let words = format!("{refusing} with 4 ranks ended with exit status: 3; it said:\nno such host");
    assert_eq!(message.trim_end(), words);

    let garbage = launcher("garbage", "echo 'ranks, what ranks?'");
    let message = fails(1, &["--mpirun", &garbage]);
    assert!(message.contains("without an answer; its output begins `ranks, what ranks?`"), "{message}");
    let silent = fails(1, &["--mpirun", "true"]);
    assert!(silent.contains("without an answer; it printed nothing"), "{silent}");
    let half = launcher("half", "echo 'maniple-mpi-answer {\"mpi\":'");
    let message = fails(1, &["--mpirun", &half]);
    assert!(message.contains("gave an answer that can't be read"), "{message}");
}

/// A launcher that never stops talking is not listened to for ever.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn an_endless_output_ends() {
    let endless = launcher("endless", "exec yes");
    let message = fails(1, &["--mpirun", &endless, "--timeout", "60"]);
    assert!(message.contains("ended with signal: 13"), "{message}");
}

/// Ranks that are not of one world each find themselves alone.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_launcher_of_another_mpi_is_found_out() {
    let alone = launcher("alone", "[ \"$1\" = --version ] || { shift 2; exec \"$@\"; }");
    let message = fails(1, &["--mpirun", &alone, "--shards", "3"]);
    assert!(message.contains("expected 3 ranks, found 1; this program has loaded "), "{message}");
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_rank_that_fails_ends_the_others() {
    let broken = launcher("broken", "[ \"$1\" = --version ] || exec mpirun \"$@\" --no-such-option");
    let message = fails(1, &["--mpirun", &broken]);
    assert!(
        message.contains("with 2 ranks ended with exit status: ") && message.contains("no-such-option"),
        "{message}"
    );
}

/// Processes whose command line has this word.
fn processes(word: &str) -> usize {
    let commands =
        fs::read_dir("/proc").expect("Linux").flatten().filter_map(|e| fs::read(e.path().join("cmdline")).ok());
    commands.filter(|command| command.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())).count()
}

/// A launcher or a rank that hangs is ended after the time-out, with all processes that it has started.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn what_hangs_is_ended() {
    let version = "[ \"$1\" = --version ] && exec mpirun --version\n";
    for (name, script) in [
        ("hanging", "sleep SECONDS; echo"),
        ("deaf", "trap '' TERM; sleep SECONDS; sleep SECONDS"),
        ("hanging-ranks", &format!("{version}exec mpirun -n 2 sleep SECONDS")),
    ] {
        // No other process sleeps exactly as long.
        let seconds = format!("{}.{}", 98765 + name.len(), std::process::id());
        let script = script.replace("SECONDS", &seconds);
        let began = Instant::now();
        let message = fails(1, &["--mpirun", &launcher(name, &script), "--timeout", "2"]);
        assert!(message.contains("did not end within 2 s and was ended"), "{name}: {message}");
        // Longer than that and far less than it would sleep.
        assert!(began.elapsed() < Duration::from_secs(600), "{name}: {:?}", began.elapsed());
        // The kernel may take a moment to clear away what was killed.
        let gone = |_| processes(&seconds) == 0 || (std::thread::sleep(Duration::from_millis(20)), false).1;
        assert!((0..3000).any(gone), "{name}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, words) in [
        ("--shards 0", "--shards: expected at least 1, found 0"),
        ("--shards 2,", "expected a whole number"),
        ("--iterations 0", "--iterations: expected at least 1, found 0"),
        ("--repeat 0", "--repeat: expected at least 1, found 0"),
        ("--timeout 0", "--timeout: expected at least 1, found 0"),
        ("--timeout 1e19", "at most"),
        ("--timeout 31536001", "--timeout: expected at most 31536000 seconds (a year), found 31536001"),
        ("--ranks 16777215 --cells 4", "16777215 ranks of MPI: this needs at least "),
        ("--workers 0", "--workers: expected at least 1, found 0"),
        ("--program heat", "invalid value 'heat'"),
        ("--elements 0", "--elements: expected at least 1, found 0"),
        ("--elements 3000000000", "MPI counts up to 2147483647 elements, found 3000000000"),
        ("--cells 1500000000", "MPI counts up to 2147483647 cells in all ranks, found 3000000000"),
        ("--program stencil --cells 3", "at least 4 cells"),
        ("--kind gossip", "invalid value 'gossip'"),
        ("--algorithm ring", "--kind"),
        ("--kind scan --algorithm ring", "--algorithm ring: expected "),
        ("--kind scan --algorithm whisper", "unknown collective algorithm `whisper`"),
        ("--kind all-to-all --shards 8 --elements 300000000", "MPI counts up to 2147483647 elements in all blocks"),
    ] {
        let message = fails(2, &args.split(' ').collect::<Vec<_>>());
        assert!(message.contains(words), "{args}: {message}");
    }
    let message = fails(2, &["--mpirun", " "]);
    assert!(message.contains("expected a launcher"), "{message}");
}
