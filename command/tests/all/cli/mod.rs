//! The command from outside: formats, exit codes and messages.

mod machine;

use crate::common::maniple_with as maniple;
use crate::common::without_reader;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A small run with these further arguments.
fn stencil(args: &[&str]) -> Output {
    let small = ["stencil", "--iterations", "5", "--repeat", "2", "--workers", "2"];
    maniple(&[&small, args].concat())
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// The standard output of a command that must succeed.
fn succeeds(output: &Output) -> &str {
    assert_eq!((output.status.code(), stderr(output)), (Some(0), ""), "{}", stdout(output));
    stdout(output)
}

/// The message of a command that must be refused, without the prefix of all messages.
fn refused(output: &Output) -> &str {
    assert_eq!((output.status.code(), stdout(output)), (Some(2), ""), "{}", stderr(output));
    stderr(output).strip_prefix("maniple: error: ").expect("the form of all errors").trim_end()
}

/// A path of its own for each test that asks with a name of its own.
fn path(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

fn file(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = path(name);
    fs::write(&path, bytes).expect("a file");
    path.to_str().expect("UTF-8").to_owned()
}

/// `n` numbers whose derivative does not vanish.
fn numbers(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * i) as f64).sin()).collect()
}

fn text(n: usize) -> String {
    numbers(n).iter().map(|x| format!("{x:?}\n")).collect()
}

const FIELDS: [&str; 17] = [
    "program",
    "wire",
    "shards",
    "workers",
    "cells",
    "iterations",
    "repeat",
    "collective",
    "mapper",
    "verified",
    "result",
    "expected",
    "error",
    "iteration_us",
    "collective_us",
    "total_cells",
    "input",
];

#[test]
fn json_has_one_object_a_run_with_exactly_these_fields() {
    for collective in ["recursive-doubling", "two-level", "aggregation"] {
        for mapper in ["default", "collective"] {
            let args = ["--shards", "3", "--cells", "50", "--format", "json", "--collective", collective];
            let output = stencil(&[&args[..], &["--mapper", mapper]].concat());
            let lines: Vec<&str> = succeeds(&output).lines().collect();
            assert_eq!(lines.len(), 2);
            for (i, line) in lines.iter().enumerate() {
                // In this order, which a map would lose.
                let places: Vec<usize> =
                    FIELDS.iter().map(|f| line.find(&format!("\"{f}\":")).expect("every field")).collect();
                assert!(places.is_sorted(), "{line}");
                let run: Value = serde_json::from_str(line).expect("JSON");
                assert_eq!(run.as_object().expect("an object").len(), FIELDS.len());
                assert_eq!(run["program"], "stencil");
                assert_eq!(run["collective"], collective);
                assert_eq!(run["mapper"], mapper);
                assert_eq!(run["verified"], true);
                assert_eq!((&run["total_cells"], &run["input"]), (&150.into(), &Value::Null));
                for (field, want) in [("shards", 3), ("workers", 2), ("cells", 50), ("iterations", 5), ("repeat", i)] {
                    assert_eq!(run[field], want, "{field}");
                }
                let (result, expected) = (run["result"].as_f64().unwrap(), run["expected"].as_f64().unwrap());
                // λ/N = 1.3722 at the mode nearest to 0.2861·N.
                assert!((expected / 150.0 - 1.3722).abs() < 1e-3, "{expected}");
                assert!((result / expected - 1.0).abs() < 1e-12);
                assert!(run["error"].as_f64().unwrap() < 1e-12);
                for times in ["iteration_us", "collective_us"] {
                    let times = run[times].as_object().expect("an object");
                    let keys: Vec<&str> = times.keys().map(String::as_str).collect();
                    assert_eq!(keys.len(), 5);
                    let [min, mean, median, p99, max] =
                        ["min", "mean", "median", "p99", "max"].map(|k| times[k].as_f64().expect("a number"));
                    assert!(0.0 < min && min <= median && median <= p99 && p99 <= max && min <= mean && mean <= max);
                }
            }
        }
    }
}

#[test]
fn defaults() {
    let output = maniple(&["stencil", "--format", "json"]);
    let lines: Vec<&str> = succeeds(&output).lines().collect();
    assert_eq!(lines.len(), 10);
    let run: Value = serde_json::from_str(lines[9]).expect("JSON");
    for (field, want) in [("shards", 16), ("cells", 1000), ("iterations", 20), ("repeat", 9)] {
        assert_eq!(run[field], want, "{field}");
    }
    assert_eq!((&run["collective"], &run["mapper"]), (&"recursive-doubling".into(), &"collective".into()));
    let cpus = std::thread::available_parallelism().expect("known").get();
    assert_eq!(run["workers"], cpus);
}

#[test]
fn csv_has_a_header_and_flat_times() {
    let output = stencil(&["--shards", "2", "--format", "csv"]);
    let lines: Vec<Vec<&str>> = succeeds(&output).lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0][..13], FIELDS[..13]);
    assert_eq!(lines[0][13..16], ["iteration_us_min", "iteration_us_mean", "iteration_us_median"]);
    assert_eq!(lines[0][22..], ["collective_us_max", "total_cells", "input"]);
    for (i, line) in lines[1..].iter().enumerate() {
        assert_eq!(line.len(), 25);
        assert_eq!(line[23..], ["2000", ""]);
        assert_eq!((line[0], line[2], line[4], line[9]), ("stencil", "2", "1000", "true"));
        assert_eq!(line[6], i.to_string());
        assert!(line[10..24].iter().all(|x| x.parse::<f64>().is_ok()), "{line:?}");
    }
}

#[test]
fn table_is_the_default() {
    let output = stencil(&["--shards", "2", "--cells", "1e2"]);
    let text = succeeds(&output);
    assert!(
        text.lines().next().expect("a heading").contains("2 shards x 100 cells, 5 iterations, 2 workers"),
        "{text}"
    );
    for word in ["run", "verified", "yes", "iteration", "collective", "median", "p99"] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
    assert_eq!(text.lines().filter(|line| line.contains("yes")).count(), 2);
    assert_eq!(text.lines().last(), Some("2 of 2 runs verified; the medians leave out run 0, which allocates"));
    let output = maniple(&["stencil", "--repeat", "1"]);
    assert_eq!(succeeds(&output).lines().last(), Some("1 of 1 run verified"));
}

/// Options that are not the defaults are in every report, so that it can be told from others.
#[test]
fn reports_name_the_options_that_are_not_the_defaults() {
    let small = ["--shards", "3", "--cells", "50"];
    for (args, fields, line) in [
        (
            &["--ahead", "0", "--check", "races"][..],
            &[("ahead", "0"), ("check", "races")][..],
            "with ahead 0, check races",
        ),
        (&["--collective", "aggregation", "--utility", "1"], &[("utility", "1")], "with utility 1"),
    ] {
        let args = [&small[..], args].concat();
        let with = |format: &str| stencil(&[&args[..], &["--format", format]].concat());
        let text = succeeds(&with("table")).to_owned();
        assert_eq!(text.lines().nth(1), Some(line), "{text}");
        let (json, csv) = (succeeds(&with("json")).to_owned(), succeeds(&with("csv")).to_owned());
        let run: Value = serde_json::from_str(json.lines().next().expect("a run")).expect("JSON");
        assert_eq!(run.as_object().expect("an object").len(), FIELDS.len() + fields.len(), "{run}");
        let [header, first] = [0, 1].map(|n| csv.lines().nth(n).expect("a line").split(',').collect::<Vec<_>>());
        assert_eq!(header.len(), first.len(), "{csv}");
        for (name, value) in fields {
            assert_eq!(run[name].as_str().map_or_else(|| run[name].to_string(), str::to_owned), *value);
            let at = header.iter().position(|column| column == name).expect("a column");
            assert_eq!(first[at], *value, "{csv}");
        }
    }
    let there =
        ["stencil", "--repeat", "1", "--wire", "virtual", "--machine", "titan-mpi", "--nodes", "2", "--noise", "0.5"];
    let text = maniple(&there);
    let line = "with machine titan-mpi, nodes 2, noise 0.5, noise seed 0";
    assert_eq!(succeeds(&text).lines().nth(1), Some(line), "{}", stdout(&text));
    let run = maniple(&[&there[..], &["--format", "json"]].concat());
    let run: Value = serde_json::from_str(succeeds(&run)).expect("JSON");
    let values = ["machine", "nodes", "noise", "noise_seed"].map(|name| run[name].clone());
    assert_eq!(Value::from(values.to_vec()), serde_json::json!(["titan-mpi", 2, 0.5, 0]));
}

#[test]
fn numbers_have_the_right_noun() {
    let output = maniple(&["stencil", "--shards", "1", "--iterations", "1", "--repeat", "1", "--workers", "1"]);
    let heading = "stencil on threads: 1 shard x 1000 cells, 1 iteration, 1 worker, ";
    assert!(succeeds(&output).starts_with(heading), "{}", stdout(&output));
    let message = "expected fewer utility processors than 1 worker, found 1";
    for command in ["stencil", "barrier", "machine"] {
        assert_eq!(refused(&maniple(&[command, "--workers", "1", "--utility", "1"])), message, "{command}");
    }
}

/// The maximum is no percentile: the table says so where it is all there is.
#[test]
fn the_table_says_that_few_samples_have_no_percentile() {
    let note = "p99 is the maximum: a run has fewer than 100 samples\n";
    for (iterations, shards, few) in [("99", "1", true), ("100", "1", false), ("199", "3", true), ("200", "3", false)] {
        let output = maniple(
            &["stencil", "--cells", "4", "--repeat", "1", "--workers", "1"]
                .into_iter()
                .chain(["--iterations", iterations, "--shards", shards])
                .collect::<Vec<_>>(),
        );
        assert_eq!(succeeds(&output).contains(note), few, "{}", stdout(&output));
    }
}

/// Zeros are explained, once.
#[test]
fn a_machine_without_costs_is_a_warning() {
    let warning = "maniple: warning: the machine `ideal` charges nothing for operations and messages, so times on it say nothing; see --machine\n";
    for (args, warned) in [
        ("stencil --iterations 3", true),
        ("stencil --iterations 3 --machine titan-mpi", false),
        ("cache-line --repeat 2", true),
        ("kernel --iterations 3", true),
        ("collective --kind scan --iterations 3 --elements 1", true),
        ("weak-scaling --shards 2,4 --iterations 5 --repeat 1", true),
        ("compare mpi --mpi-machine ideal --program allreduce --iterations 3", true),
        ("memory --shards 4 --repeat 2", false),
        ("machine", false),
    ] {
        let args: Vec<&str> = args.split(' ').chain(["--wire", "virtual"]).collect();
        let output = maniple(&args);
        let expected = if warned { warning } else { "" };
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), expected), "{args:?}");
    }
}

/// Ctrl-C is said on stderr, and has the exit code that shells give it.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_says_so() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::Read;
    // A shell lets what runs in its background ignore Ctrl-C, also these tests.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", crate::MANIPLE]);
    command.args(["barrier", "--shards", "2", "--iterations", "10", "--repeat", "1e9", "--format", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    // It runs as soon as it has reported something.
    child.stdout.as_mut().expect("piped").read_exact(&mut [0; 10]).expect("a report");
    let reader = std::thread::spawn({
        let mut out = child.stdout.take().expect("piped");
        move || std::io::copy(&mut out, &mut std::io::sink())
    });
    kill_process(Pid::from_raw(child.id() as i32).expect("a process"), Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("ends");
    reader.join().expect("no panic").expect("read");
    let said = "maniple: interrupted: the run is not finished, and nothing more is written\n";
    assert_eq!((output.status.code(), stderr(&output)), (Some(130), said));
}

/// The first process of a container has no default action for signals.
#[cfg(target_os = "linux")]
#[test]
fn a_request_to_end_ends_the_first_process_of_a_container() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::Read;
    let unshare = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        unshare
    };
    if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: namespaces are refused here");
        return;
    }
    for processes in [&[][..], &["--wire", "processes", "--processes", "2", "--workers", "1"]] {
        let mut command = unshare();
        command.args([crate::MANIPLE, "barrier", "--shards", "2", "--iterations", "10"]);
        command.args(["--repeat", "1e9", "--format", "json"]).args(processes);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        child.stdout.as_mut().expect("piped").read_exact(&mut [0; 10]).expect("a report");
        let reader = std::thread::spawn({
            let mut out = child.stdout.take().expect("piped");
            move || std::io::copy(&mut out, &mut std::io::sink())
        });
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).expect("Linux");
        let first = children.split_whitespace().next().expect("a child").parse().expect("a number");
        kill_process(Pid::from_raw(first).expect("a process"), Signal::TERM).expect("it runs");
        let output = child.wait_with_output().expect("ends");
        reader.join().expect("no panic").expect("read");
        let said = "maniple: ended by a signal (SIGTERM): the run is not finished, and nothing more is written\n";
        assert_eq!((output.status.code(), stderr(&output)), (Some(143), said));
    }
}

#[test]
fn input_and_output_in_every_format() {
    let input = file("in.csv", text(37));
    let mut vectors = Vec::new();
    for name in ["out.npy", "out.csv", "out.txt"] {
        let out = path(name);
        let args = ["--shards", "5", "--format", "json", "--input", &input, "--output", out.to_str().unwrap()];
        let output = stencil(&args);
        let run: Value = serde_json::from_str(succeeds(&output).lines().next().unwrap()).expect("JSON");
        assert_eq!((&run["cells"], &run["verified"]), (&8.into(), &true.into()));
        assert_eq!((&run["total_cells"], &run["input"]), (&37.into(), &input.as_str().into()));
        let bytes = fs::read(&out).expect("written");
        vectors.push(match name {
            "out.npy" => bytes[128..].chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect::<Vec<_>>(),
            _ => std::str::from_utf8(&bytes).unwrap().lines().map(|line| line.parse().unwrap()).collect(),
        });
    }
    assert!(vectors.iter().all(|v| v.len() == 37 && *v == vectors[0]));
    // Five iterations, by their definition.
    let mut u = numbers(37);
    for _ in 0..5 {
        let at = |i: usize, k: usize| u[(i + 37 + k - 2) % 37];
        let d = (0..37).map(|i| (at(i, 0) - 8.0 * at(i, 1) + 8.0 * at(i, 3) - at(i, 4)) * 37.0 / 12.0);
        let d: Vec<f64> = d.collect();
        let root = d.iter().map(|d| d * d).sum::<f64>().sqrt();
        u = d.iter().map(|d| d / root).collect();
    }
    assert!(vectors[0].iter().zip(&u).all(|(a, b)| (a - b).abs() < 1e-12), "{:?} and {u:?}", vectors[0]);
    // Each is a legal input again.
    for name in ["out.npy", "out.csv", "out.txt"] {
        succeeds(&stencil(&["--shards", "9", "--input", path(name).to_str().unwrap()]));
    }
}

#[test]
fn bad_arguments() {
    let message = |args: &[&str]| refused(&stencil(args)).to_owned();
    assert_eq!(message(&["--shards", "0"]), "--shards: expected at least 1, found 0");
    let again = |option: &str, value: &str| maniple(&["stencil", option, value]);
    assert_eq!(refused(&again("--workers", "0")), "--workers: expected at least 1, found 0");
    assert_eq!(refused(&again("--iterations", "0")), "--iterations: expected at least 1, found 0");
    assert_eq!(refused(&again("--repeat", "0")), "--repeat: expected at least 1, found 0");
    assert_eq!(refused(&again("--workers", "9999")), "expected at most 1024 workers, found 9999");
    assert_eq!(message(&["--cells", "3"]), "expected at least 4 cells in a shard, found 3 (48 cells over 16 shards)");
    assert_eq!(message(&["--cells", "0"]), "expected at least 4 cells in a shard, found 0 (0 cells over 16 shards)");
    for (option, value) in [("--shards", "-1"), ("--cells", "many"), ("--shards", "1.5"), ("--cells", "")] {
        let message = message(&[option, value]);
        assert!(message.contains(&format!("'{option} ")), "{message}");
        assert!(message.contains(&format!("expected a whole number, such as 16 or 1e3, found `{value}`")), "{message}");
    }
    let unknown = message(&["--collective", "ring"]);
    assert!(
        unknown.contains("unknown collective `ring`; expected one of recursive-doubling, two-level, aggregation"),
        "{unknown}"
    );
    let unknown = message(&["--mapper", "best"]);
    assert!(unknown.contains("unknown mapper `best`; expected one of default, collective"), "{unknown}");
    let unknown = message(&["--format", "xml"]);
    assert!(unknown.contains("'xml'") && unknown.contains("[possible values: table, json, csv]"), "{unknown}");
    let unknown = message(&["--check", "luck"]);
    assert!(unknown.contains("'luck'") && unknown.contains("[possible values: races]"), "{unknown}");
    assert!(message(&["--size", "3"]).starts_with("unexpected argument '--size' found"));
    assert!(message(&["--shards"]).starts_with("a value is required for '--shards <P>'"));
    assert!(refused(&maniple(&["stencils"])).starts_with("unrecognized subcommand 'stencils'"));
    let nothing = maniple(&[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(stderr(&nothing).contains("Usage: maniple <COMMAND>"));
}

#[test]
fn sizes_beyond_the_machine() {
    let message = |args: &[&str]| refused(&stencil(args)).to_owned();
    assert_eq!(
        message(&["--shards", "4294967295", "--cells", "1e9"]),
        "4294967295 shards of 1000000000 cells are more cells than this machine can address"
    );
    assert!(message(&["--shards", "4294967295", "--cells", "4"]).contains("of memory, and "));
    assert!(message(&["--cells", "1e13"]).contains("of memory, and "));
    assert!(message(&["--shards", "4294967296"]).starts_with("expected at most 4294967295 shards"));
    assert!(message(&["--shards", "1e30"]).contains("expected a number up to 18446744073709551615, found `1e30`"));
    assert!(refused(&maniple(&["stencil", "--iterations", "1e15"])).contains("of memory, and "));
}

/// A process may be given less than the machine has.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn sizes_beyond_the_limits_of_the_process() {
    let limited = |kilobytes: u32, kind: char, args: &str| {
        let line = format!("ulimit -{kind} {kilobytes}; exec {} {args} --repeat 1", crate::MANIPLE);
        Command::new("sh").args(["-c", &line]).output().expect("starts")
    };
    for kind in ['v', 'd'] {
        for args in [
            "stencil --workers 2 --shards 100000",
            "stencil --workers 2 --cells 10000000",
            "gang --workers 2 --shards 16777215",
            "barrier --workers 2 --shards 1048576",
            "collective --kind allreduce --workers 2 --shards 1000000",
            "memory --workers 2 --shards 1000000",
            "tasks --workers 2 --working-set 100000000",
            "kernel --cells 100000000",
        ] {
            let output = limited(700_000, kind, args);
            assert!(refused(&output).contains("of memory, and "), "{args}: {}", stderr(&output));
        }
        succeeds(&limited(700_000, kind, "stencil --workers 2 --shards 10000 --cells 4 --iterations 2"));
        succeeds(&limited(700_000, kind, "gang --workers 2 --shards 100000 --launches 1"));
    }
    assert_eq!(
        refused(&maniple(&["barrier", "--shards", "16777215"])),
        "expected at most 1048576 shards for a barrier, found 16777215"
    );
}

#[test]
fn bad_input_files() {
    let message = |name: &str, bytes: &[u8]| {
        let path = file(name, bytes);
        let output = stencil(&["--shards", "2", "--input", &path]);
        let message = refused(&output).to_owned();
        assert_eq!(message.lines().count(), 1, "{message}");
        message.strip_prefix(&format!("{path}: ")).map_or(message.clone(), str::to_owned)
    };
    assert_eq!(message("word.csv", b"1\n2\nthree\n4\n"), "line 3: expected one number a line, found `three`");
    assert_eq!(
        message("short.csv", text(7).as_bytes()),
        "holds 7 numbers, and a shard needs at least 4: enough for 1 shard, not for 2"
    );
    assert_eq!(
        message("tiny.csv", text(3).as_bytes()),
        "holds 3 numbers, and a shard needs at least 4: enough for no shard, not for 2"
    );
    assert_eq!(
        message("flat.csv", "5\n".repeat(20).as_bytes()),
        "iteration 1: S = 0, so there is no next vector; the vector's derivative vanishes, or its squares underflow (then scale the input)"
    );

    let missing = path("missing.csv");
    assert_eq!(
        refused(&stencil(&["--input", missing.to_str().unwrap()])),
        format!("{}: can't be read: No such file or directory (os error 2)", missing.display())
    );
    let fine = file("fine.csv", text(40));
    assert_eq!(
        refused(&stencil(&["--shards", "2", "--cells", "30", "--input", &fine])),
        format!("{fine}: holds 40 numbers, but 2 shards of 30 cells were asked for; leave the cells out")
    );
    succeeds(&stencil(&["--shards", "2", "--cells", "20", "--input", &fine]));
}

#[test]
fn outputs_that_cannot_be_written_are_refused_at_once() {
    // With this many iterations a computation before the check would not end.
    let message = |path: &Path| {
        let long = ["stencil", "--iterations", "10000000", "--output", path.to_str().unwrap()];
        refused(&maniple(&long)).to_owned()
    };
    let missing = path("no-directory").join("out.csv");
    assert_eq!(
        message(&missing),
        format!("{}: can't be written: No such file or directory (os error 2)", missing.display())
    );
    let unknown = path("out.dat");
    let legal = "expected the extension .npy, .csv or .txt, found .dat";
    assert_eq!(message(&unknown), format!("{}: {legal}", unknown.display()));
    let directory = path("directory.csv");
    fs::create_dir_all(&directory).expect("a directory");
    assert!(message(&directory).ends_with("can't be written: expected a regular file, found a directory"));
}

#[test]
fn a_refused_run_leaves_the_old_output() {
    let (input, output) = (file("flat2.csv", "5\n".repeat(70)), file("kept.csv", "old\n"));
    refused(&stencil(&["--input", &input, "--output", &output]));
    assert_eq!(fs::read_to_string(&output).expect("there"), "old\n");
}

#[test]
fn help_and_version() {
    let output = maniple(&["stencil", "--help"]);
    let text = succeeds(&output);
    for option in [
        "--shards <P>",
        "--cells <N>",
        "--iterations <I>",
        "--repeat <R>",
        "--collective <NAME>",
        "--workers <W>",
        "--bind <WHERE>",
        "--utility <U>",
        "--mapper <MAPPER>",
        "--input <FILE>",
        "--output <FILE>",
        "--format <FORMAT>",
        "Exit codes",
        "total_cells",
        "shard 0",
    ] {
        assert!(text.contains(option), "{option} in\n{text}");
    }
    assert!(succeeds(&maniple(&["--version"])).starts_with("maniple "));
}

/// Nobody reads the reports: no panic, and the output file is written before that is said.
#[cfg(unix)]
#[test]
fn a_broken_pipe_is_a_failure_that_spares_the_output() {
    for format in ["json", "csv", "table"] {
        let out = path(&format!("pipe-{format}.npy"));
        let args = ["stencil", "--repeat", "5", "--format", format, "--output", out.to_str().unwrap()];
        let output = without_reader(Command::new(crate::MANIPLE).args(args));
        let said = "maniple: error: can't write to stdout: Broken pipe (os error 32)\n";
        assert_eq!((output.status.code(), stderr(&output)), (Some(1), said), "{format}");
        assert_eq!(fs::metadata(&out).expect("written").len(), 128 + 16_000 * 8);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_message() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("there");
    let output = Command::new(crate::MANIPLE).args(["stencil", "--repeat", "1"]).stdout(full).output().expect("starts");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "maniple: error: can't write to stdout: No space left on device (os error 28)\n");
}

/// Nothing of MPI is needed until a run asks for it, and then it is said what is missing.
#[cfg(target_os = "linux")]
#[test]
fn a_missing_mpi_library_is_told() {
    let output = Command::new(crate::MANIPLE)
        .args(["stencil", "--wire", "mpi", "--shards", "2"])
        .env("MANIPLE_MPI", "/nowhere/libmpi.so.40")
        .output()
        .expect("starts");
    let message = refused(&output);
    assert!(message.contains("expected an MPI library: Open MPI, MPICH"), "{message}");
    assert!(message.contains("MANIPLE_MPI=/nowhere/libmpi.so.40: /nowhere/libmpi.so.40: cannot open"), "{message}");
}
