//! `maniple stencil --wire processes` from outside: the bits of the threads wire, one report, and refusals.

#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::{Command, Output};

fn maniple(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_maniple")).args(args.split(' ')).output().expect("starts")
}

fn path(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("processes-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

/// The bytes of the last vector, and the report.
fn vector(on: &str) -> (Vec<u8>, String) {
    let file = path(&format!("{}.f64", on.replace([' ', '-', ','], "_")));
    let output = maniple(&format!("stencil --cells 40 --iterations 12 --repeat 2 {on} --output {}", file.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && output.stderr.is_empty(), "{on}: {output:?}");
    (std::fs::read(file).expect("an output"), text)
}

#[test]
fn the_stencil_has_the_same_bits_on_any_number_of_processes() {
    for collective in ["recursive-doubling", "aggregation"] {
        for shards in [1, 3, 8] {
            let of = format!("--shards {shards} --collective {collective}");
            let (expected, _) = vector(&format!("{of} --workers 2"));
            assert_eq!(expected.len(), shards * 40 * 8);
            for (processes, workers, mapper) in
                [(1, 2, "collective"), (2, 1, "default"), (3, 2, "round-robin"), (4, 1, "first")]
            {
                let on = format!("{of} --wire processes --processes {processes} --workers {workers} --mapper {mapper}");
                let (found, report) = vector(&on);
                assert_eq!(found, expected, "{on}");
                // One report, of two runs.
                assert_eq!(report.matches("2 of 2 runs verified").count(), 1, "{report}");
                assert!(report.contains(&format!("with processes {processes}")), "{report}");
            }
        }
    }
}

#[test]
fn what_does_not_go_with_processes_is_refused() {
    for (args, why) in [
        ("stencil --processes 2", "--processes is for --wire processes"),
        ("stencil --wire processes --processes 0", "processes"),
        ("stencil --wire processes --trace /tmp/t.json", "--trace is not for --wire processes"),
        ("stencil --wire processes --check races", "--check is not for --wire processes"),
        ("stencil --wire processes --machine local", "--machine, --nodes and --noise are for --wire virtual"),
        ("stencil --wire processes --mapper logging", "--mapper logging is not for --wire processes"),
        ("kernel --wire processes", "--wire processes is for the commands stencil"),
        ("allreduce --wire processes --trace /tmp/t.json", "--trace is not for --wire processes"),
    ] {
        let output = maniple(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(why), "{args}: {output:?}");
        assert_eq!(text.matches("maniple: error").count(), 1, "{args}: {text}");
    }
}

#[test]
fn an_error_of_all_processes_is_printed_once() {
    let input = path("zeros.txt");
    std::fs::write(&input, "0\n".repeat(64)).expect("a file");
    let output = maniple(&format!("stencil --wire processes --processes 3 --shards 4 --input {}", input.display()));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(text.matches("maniple: error").count(), 1, "{text}");
    assert!(text.contains("there is no next vector"), "{text}");
}
