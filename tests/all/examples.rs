//! Runs every example as a user would: as a process, for several numbers of shards and workers, within a time limit.
//! Each example compares its result with an answer found in another way and exits with 1 if they differ.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Only what hangs takes as long.
const LIMIT: Duration = Duration::from_secs(600);

/// Cargo builds examples beside the directory of the test executables.
fn directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test has an executable");
    let profile = test.parent().and_then(Path::parent).expect("a test lies in target/<profile>/deps");
    profile.join("examples")
}

/// The examples in the source tree, so that none is forgotten here.
fn names() -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = source.read_dir().expect("the package has examples");
    let paths = files.map(|entry| entry.expect("a directory entry").path());
    let rust = paths.filter(|path| path.extension().is_some_and(|e| e == "rs"));
    let mut names: Vec<String> =
        rust.map(|path| path.file_stem().expect("a file name").to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn run(name: &str, arguments: &[&str]) -> Output {
    run_into(name, arguments, Stdio::piped())
}

fn run_into(name: &str, arguments: &[&str], stdout: Stdio) -> Output {
    let path = directory().join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let mut command = Command::new(&path);
    command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| {
        panic!("{}: {e}; `cargo test` builds the examples, `cargo build --examples` too", path.display())
    });
    let began = Instant::now();
    // What an example prints fits into a pipe, so it need not be read while it runs.
    while child.try_wait().expect("a child can be waited for").is_none() {
        if began.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("`{name} {}` is not over after {LIMIT:?}", arguments.join(" "));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.wait_with_output().expect("a child's output can be read")
}

fn passes(name: &str, arguments: &[&str]) {
    let output = run(name, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{name} {}`: {}\n{errors}", arguments.join(" "), output.status);
    assert!(!output.stdout.is_empty(), "`{name}` says what it did");
    assert!(errors.is_empty(), "`{name} {}` complains: {errors}", arguments.join(" "));
}

#[test]
fn there_are_examples() {
    assert!(names().len() >= 10, "found {:?}", names());
}

#[test]
fn every_example_is_right_at_every_number_of_shards() {
    for name in names() {
        for shards in ["1", "2", "3", "4", "7"] {
            passes(&name, &[shards]);
        }
    }
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn every_example_is_right_at_every_number_of_workers() {
    for name in names() {
        for workers in ["1", "2", "5"] {
            passes(&name, &["4", workers]);
        }
    }
}

#[test]
fn every_example_has_a_default() {
    for name in names() {
        passes(&name, &[]);
    }
}

#[test]
fn every_example_says_how_it_is_used() {
    for name in names() {
        let output = run(&name, &["--help"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.starts_with("usage: [SHARDS [WORKERS"), "`{name} --help`: {text}");
    }
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_full_disk_is_an_error_and_no_panic() {
    for name in names() {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = run_into(&name, &["2"], full.into());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "`{name}`: {errors}");
        assert!(errors.starts_with("error: the result cannot be written: "), "`{name}`: {errors}");
    }
}

#[test]
fn bad_arguments_are_named_and_end_with_code_2() {
    let bad: [(&[&str], &str); 7] = [
        (&["0"], "`0`"),
        (&["-1"], "`-1`"),
        (&["4097"], "`4097`"),
        (&["four"], "`four`"),
        (&[""], "``"),
        (&["4", "0"], "WORKERS"),
        (&["4", "2", "1"], "too many"),
    ];
    for name in names() {
        for (arguments, named) in bad {
            // It reads files, of which this is none.
            let named = if name == "word_count" && named == "too many" { "`1`" } else { named };
            let output = run(&name, arguments);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "`{name} {}`: {errors}", arguments.join(" "));
            assert!(errors.contains(named), "`{name} {}` must name {named}: {errors}", arguments.join(" "));
            assert!(output.stdout.is_empty(), "`{name}` runs in spite of {arguments:?}");
        }
    }
}
