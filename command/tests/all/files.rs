//! Files that the command reads and writes: odd ones, one file twice, full disks, a stdout that nobody reads, and an option
//! given twice.
#![cfg(unix)]

use crate::MANIPLE;
use crate::common::files::{self, directory, shell, stderr};
use crate::common::maniple;
use crate::common::without_reader;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

/// So long that a run before the check would not end.
#[test]
fn only_regular_files_are_read_and_written() {
    files::only_regular_files_are_read_and_written(&[
        "stencil --iterations 1000000 --trace @",
        "stencil --iterations 1000000 --output @.csv",
        "stencil --iterations 1000000 --input @.csv",
        "stencil --iterations 1000000 --mapper @@",
        "stencil --iterations 1000000 --mapper logging,file=@",
        "stencil --iterations 1000000 --wire virtual --machine @.toml",
        "collective --kind allreduce --chained --elements 1 --iterations 100000000 --trace @",
        "collective --kind allreduce --chained --elements 1 --iterations 100000000 --mapper logging,file=@",
        "barrier --iterations 100000000 --trace @",
        "tasks --count 1000000000 --working-set 1 --trace @",
        "gang --launches 1000000 --trace @",
        "memory --shards 10000 --mapper logging,file=@",
        "weak-scaling --iterations 10000000 --mapper logging,file=@ --shards 2",
        "machine --wire virtual --machine @.toml",
    ]);
}

#[test]
fn a_machine_has_a_bounded_file() {
    let file = directory("large").join("m.toml");
    let text = include_str!("../../machines/ideal.toml").to_owned();
    let shown = |text: String| {
        fs::write(&file, text).expect("written");
        maniple(&format!("machine --wire virtual --machine {}", file.display()))
    };
    let most = 1 << 20;
    let comment = format!("#{}\n", " ".repeat(most - text.len() - 2));
    assert_eq!(shown(text.clone() + &comment).status.code(), Some(0));
    let output = shown(text.clone() + &comment + "\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("m.toml: can't be read: expected at most 1048576 bytes, found more"),
        "{}",
        stderr(&output)
    );
    let shown = shown("name = '\u{e9}'".into());
    assert!(!stderr(&shown).contains("UTF-8"), "{}", stderr(&shown));
    fs::write(&file, b"name = '\xe9'").expect("written");
    let output = maniple(&format!("machine --wire virtual --machine {}", file.display()));
    assert!(output.status.code() == Some(2) && stderr(&output).contains("utf-8"), "{}", stderr(&output));
    // Through stdin as well, which has no end here.
    let zero = fs::File::open("/dev/zero").expect("there");
    let mut command = Command::new(MANIPLE);
    command.args(["machine", "--wire", "virtual", "--machine", "/dev/stdin"]).stdin(zero);
    let output = command.output().expect("starts");
    assert!(
        stderr(&output).contains("/dev/stdin: can't be read: expected at most 1048576 bytes"),
        "{}",
        stderr(&output)
    );
}

/// A refusal comes before the log of an earlier run is begun anew.
#[test]
fn a_refused_run_leaves_the_old_log() {
    let log = directory("log").join("log.jsonl");
    fs::write(&log, "old").expect("written");
    for args in [
        "collective --kind allreduce --shards 0",
        "collective --kind allgather --receivers 1",
        "collective --kind allreduce --algorithm dissemination",
        "collective --kind allreduce --shards 16777215 --elements 1000000",
        "barrier --iterations 0",
        "gang --launches 0",
        "tasks --regions 5",
        "memory --shards 0",
        "stencil --cells 1",
        "weak-scaling --cells 1",
        "stencil --trace /no/such/directory",
        "barrier --trace /no/such/directory",
    ] {
        let output = maniple(&format!("{args} --mapper logging,file={}", log.display()));
        assert_eq!(output.status.code(), Some(2), "{args}: {}", stderr(&output));
        assert_eq!(fs::read_to_string(&log).expect("there"), "old", "{args}");
    }
}

const REPORTS: [&str; 14] = [
    "--help",
    "--version",
    "stencil --repeat 1 --iterations 2",
    "collective --kind scan --iterations 2 --elements 1",
    "schedule --kind scan",
    "collective --kind allreduce --chained --elements 1 --iterations 2",
    "tasks --repeat 1 --count 2",
    "barrier --repeat 1 --iterations 2",
    "cache-line --repeat 1 --iterations 2",
    "gang --repeat 1 --shards 2",
    "kernel --repeat 1 --iterations 2",
    "machine",
    "weak-scaling --repeat 1 --shards 2 --iterations 2",
    "explore --seeds 2",
];

#[test]
fn a_report_that_is_lost_is_a_failure() {
    for args in REPORTS {
        for stdout in [">&-", "> /dev/full"] {
            let output = shell("", args, stdout);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{args} {stdout}: {said}");
            assert!(said.starts_with("maniple: error: can't write to stdout: "), "{args} {stdout}: {said}");
        }
        let output = without_reader(Command::new(MANIPLE).args(args.split_whitespace()));
        assert_eq!(output.status.code(), Some(1), "{args} | head -0: {}", stderr(&output));
        assert_eq!(stderr(&output), "maniple: error: can't write to stdout: Broken pipe (os error 32)\n");
        // Whoever wants no report says so.
        for stdout in ["> /dev/null", "1<> /dev/null"] {
            assert_eq!(shell("", args, stdout).status.code(), Some(0), "{args} {stdout}");
        }
    }
}

/// The first line may be written before anybody has gone.
#[test]
fn a_reader_that_goes_in_between_is_told_of() {
    for args in ["stencil --repeat 2000 --format csv", "barrier --repeat 20000 --iterations 1 --format csv"] {
        let mut command = Command::new(MANIPLE);
        command.args(args.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let mut first = [0; 1];
        std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut first).expect("a line");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(1), "{args}: {}", stderr(&output));
    }
}

#[test]
fn iterations_ahead_are_not_for_aggregation() {
    let small = "stencil --repeat 1 --iterations 3";
    for ahead in [0, 2, 5] {
        let output = maniple(&format!("{small} --collective aggregation --ahead {ahead}"));
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("--ahead is not for --collective aggregation"), "{}", stderr(&output));
        assert_eq!(maniple(&format!("{small} --ahead {ahead}")).status.code(), Some(0));
    }
    assert_eq!(maniple(&format!("{small} --collective aggregation")).status.code(), Some(0));
}

#[test]
fn one_file_has_one_use() {
    files::one_file_has_one_use(&[
        ("v.csv", "stencil --repeat 1 --iterations 2 --output A --trace B"),
        ("v.csv", "stencil --repeat 1 --iterations 2 --output A --mapper logging,file=B"),
        ("v.csv", "stencil --repeat 1 --iterations 2 --trace A --mapper logging,file=B"),
        ("v.csv", "stencil --repeat 1 --iterations 2 --trace A --mapper logging,inner=logging,file=B"),
        ("v.csv", "stencil --repeat 1 --iterations 2 --mapper logging,file=A,inner=logging,file=B"),
        ("v.csv", "stencil --repeat 1 --shards 2 --input A --output B"),
        ("v.csv", "stencil --repeat 1 --shards 2 --input A --trace B"),
        ("v.csv", "stencil --repeat 1 --shards 2 --input A --mapper logging,file=B"),
        ("m.toml", "stencil --repeat 1 --iterations 2 --wire virtual --machine A --trace B"),
        (
            "m.toml",
            "collective --kind allreduce --chained --elements 1 --iterations 2 --wire virtual --machine A --trace B",
        ),
        (
            "m.toml",
            "collective --kind allreduce --chained --elements 1 --iterations 2 --trace A --mapper logging,file=B",
        ),
        ("m.toml", "barrier --repeat 1 --iterations 2 --wire virtual --machine A --mapper logging,file=B"),
        ("m.toml", "gang --repeat 1 --trace A --mapper logging,file=B"),
        ("m.toml", "tasks --repeat 1 --count 10 --wire virtual --machine A --trace B"),
        ("m.toml", "memory --repeat 1 --wire virtual --machine A --mapper logging,file=B"),
        ("m.toml", "weak-scaling --repeat 1 --shards 2 --wire virtual --machine A --mapper logging,file=B"),
        ("m.toml", "compare mpi --repeat 1 --wire virtual --machine ideal --mpi-machine A --mapper logging,file=B"),
        ("spec", "stencil --repeat 1 --mapper @A --trace B"),
        ("log", "stencil --repeat 1 --mapper @SPEC --trace B"),
        ("log", "gang --repeat 1 > A --trace B"),
    ]);
    // One that is not there yet.
    let here = directory("new");
    symlink(&here, here.join("up")).expect("a link");
    let (a, b) = (here.join("a.csv"), here.join("up/a.csv"));
    for command in ["--output A --trace B", "--trace A --mapper logging,file=B"] {
        let line = command.replace('A', a.to_str().expect("UTF-8")).replace('B', b.to_str().expect("UTF-8"));
        let output = maniple(&format!("stencil --repeat 1 {line}"));
        assert_eq!(output.status.code(), Some(2), "{line}: {}", stderr(&output));
        assert!(!a.exists(), "{line}");
    }
    // Nor are files in the directory of a report, which has files of its own.
    let report = here.join("report");
    fs::create_dir(&report).expect("a directory");
    let log = report.join("samples.csv");
    let line = format!("weak-scaling --report {} --mapper logging,file={}", report.display(), log.display());
    let output = maniple(&line);
    assert!(stderr(&output).contains("expected a file outside of the report's directory"), "{}", stderr(&output));
    assert!(output.status.code() == Some(2) && !log.exists());
    // Two that only read are two readers.
    let machine = here.join("m.toml");
    fs::write(&machine, include_str!("../../machines/ideal.toml")).expect("written");
    let m = machine.display();
    let output =
        maniple(&format!("compare mpi --repeat 1 --wire virtual --iterations 2 --machine {m} --mpi-machine {m}"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_disk_that_fills_up_fails_the_run_and_leaves_the_old_file() {
    files::a_disk_that_fills_up_fails_the_run_and_leaves_the_old_file(&[
        ("stencil --repeat 1 --output F.npy", true, ""),
        ("stencil --repeat 3 --trace F.npy", true, "3 of 3 runs verified"),
        ("barrier --repeat 2 --trace F.npy", true, "barrier_us"),
        ("stencil --repeat 1 --mapper logging,file=F.npy", false, ""),
        ("weak-scaling --repeat 1 --shards 2 --report F.dir", false, ""),
    ]);
}

#[test]
fn an_option_given_twice_is_refused() {
    let options = files::an_option_given_twice_is_refused(&[
        "stencil",
        "tasks",
        "barrier",
        "cache-line",
        "remote",
        "gang",
        "kernel",
        "memory",
        "machine",
        "weak-scaling",
        "explore",
        "collective",
        "schedule",
        "tune",
        "compare mpi",
    ]);
    assert!(options > 100, "{options}");
    let output = maniple("stencil --shards 2 --shards 3");
    assert!(stderr(&output).contains("the argument '--shards <P>' cannot be used multiple times"));
}
