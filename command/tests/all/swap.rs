//! The mapper of a running command is replaced: `--mapper @FILE` and a hangup signal.
#![cfg(unix)]

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The logs of a mapper `logging`, in up to three processes.
fn logs(log: &Path) -> impl Iterator<Item = PathBuf> {
    let of_process = |n: u32| format!("{}.{n}", log.display()).into();
    [log.to_owned()].into_iter().chain((1..3).map(of_process).collect::<Vec<_>>())
}

fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("swap-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a directory");
    path
}

/// Starts runs that take far longer than the test, with the mapper of a file.
fn started(spec: &Path) -> Child {
    started_on(&["--workers", "2"], spec)
}

fn started_on(workers: &[&str], spec: &Path) -> Child {
    let mut maniple = Command::new(crate::MANIPLE);
    maniple.args(["stencil", "--shards", "4", "--cells", "64", "--iterations", "200"]).args(workers);
    maniple.args(["--repeat", "1000000", "--mapper", &format!("@{}", spec.display())]);
    maniple.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts")
}

fn hang_up(child: &Child) {
    hang_up_on(child.id());
}

fn hang_up_on(process: u32) {
    let pid = Pid::from_raw(process as i32).expect("a process");
    kill_process(pid, Signal::HUP).expect("it runs");
}

/// A mapper in C that is named so.
fn library(name: &str, output: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = std::fs::read_to_string(root.join("examples/plugin-c/mapper.c")).expect("there");
    let source = source.replace("\"dealer\"", &format!("\"{name}\""));
    let c = output.with_extension("c");
    std::fs::write(&c, source).expect("written");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-shared", "-fPIC", "-I"]).arg(root.join("plugin/include")).arg("-o").arg(output).arg(&c);
    assert!(cc.status().expect("a C compiler").success());
}

/// The numbers of the processes that a command has started, in order.
#[cfg(target_os = "linux")]
fn copies(child: &Child) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("it runs").flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children = children.flat_map(|text| text.split(' ').filter_map(|n| n.parse().ok()).collect::<Vec<u32>>());
    let mut copies: Vec<u32> = children.collect();
    copies.sort_unstable();
    copies
}

/// Waits until a file has decisions in it.
fn written(child: &mut Child, path: &Path) {
    longer(child, path, 20_000);
}

/// Waits until the logs of a mapper have more than `bytes` together.
fn longer(child: &mut Child, path: &Path, bytes: u64) {
    let began = Instant::now();
    while logs(path).filter_map(|log| std::fs::metadata(log).ok()).map(|log| log.len()).sum::<u64>() <= bytes {
        assert!(began.elapsed() < Duration::from_secs(600), "no more in {}", path.display());
        assert_eq!(child.try_wait().expect("ours"), None, "it goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends the process, and returns its stderr.
fn ended(mut child: Child) -> String {
    child.kill().expect("it runs");
    let output = child.wait_with_output().expect("ours");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn a_hangup_reads_the_file_again() {
    let directory = directory("twice");
    let (spec, a, b) = (directory.join("mapper"), directory.join("a.jsonl"), directory.join("b.jsonl"));
    let says = |text: String| std::fs::write(&spec, text).expect("written");
    says(format!("logging,file={},inner=default\n", a.display()));
    let mut child = started(&spec);
    written(&mut child, &a);
    says(format!("logging,file={},inner=round-robin\n", b.display()));
    hang_up(&child);
    written(&mut child, &b);
    // Runs end verified under either, or they would end it.
    assert_eq!(ended(child), format!("maniple: mapper @{} was read again\n", spec.display()));
    let first = |path: &Path| std::fs::read_to_string(path).expect("written").lines().next().map(str::to_owned);
    assert!(first(&a).is_some_and(|line| line.contains("\"default\"")), "{:?}", first(&a));
    assert!(first(&b).is_some_and(|line| line.contains("\"round-robin\"")), "{:?}", first(&b));
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_file_that_is_wrong_later_is_a_warning_and_the_mapper_before_goes_on() {
    let directory = directory("wrong");
    let (spec, a) = (directory.join("mapper"), directory.join("a.jsonl"));
    std::fs::write(&spec, format!("logging,file={}", a.display())).expect("written");
    let mut child = started(&spec);
    written(&mut child, &a);
    std::fs::write(&spec, "best").expect("written");
    hang_up(&child);
    let mut said = String::new();
    let stderr = child.stderr.take().expect("piped");
    BufReader::new(stderr).read_line(&mut said).expect("a warning");
    // The mapper before is still asked.
    let before = std::fs::metadata(&a).expect("there").len();
    longer(&mut child, &a, before);
    ended(child);
    assert!(
        said.starts_with("maniple: warning: mapper @")
            && said.contains("unknown mapper `best`")
            && said.contains("the old mapper stays"),
        "{said}"
    );
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_file_that_is_wrong_from_the_start_is_an_error() {
    let directory = directory("start");
    let spec = directory.join("mapper");
    for (text, expected) in [
        (None, "can't be read"),
        (Some("best"), "unknown mapper `best`"),
        (Some("@other"), "expected a name and options or the path of a library, found `@other`"),
        (Some(""), "unknown mapper ``"),
    ] {
        if let Some(text) = text {
            std::fs::write(&spec, text).expect("written");
        }
        for program in ["stencil", "collective --kind allreduce", "weak-scaling"] {
            let mut maniple = Command::new(crate::MANIPLE);
            maniple.args(program.split(' ')).args(["--mapper", &format!("@{}", spec.display())]);
            let output = maniple.output().expect("starts");
            let said = String::from_utf8(output.stderr).expect("UTF-8");
            assert_eq!(output.status.code(), Some(2), "{program}: {said}");
            assert!(said.contains(expected), "{program}: {said}");
        }
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

/// Also where nobody sends a signal, and where many are sent: as if the mapper had not been read from a file.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_log_is_whole_when_the_command_ends() {
    let directory = directory("whole");
    let (spec, log) = (directory.join("mapper"), directory.join("log.jsonl"));
    let named = format!("logging,file={},inner=default", log.display());
    std::fs::write(&spec, &named).expect("written");
    let leaves = |mapper: &str, iterations: &str, hangups: u64| {
        let mut maniple = Command::new(crate::MANIPLE);
        maniple.args(["stencil", "--shards", "4", "--workers", "2", "--cells", "64", "--repeat", "1"]);
        maniple.args(["--iterations", iterations, "--mapper", mapper]);
        let mut child = maniple.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        for n in 0..hangups {
            // The handler is there before the first decision.
            longer(&mut child, &log, 10_000 * (n + 1));
            hang_up(&child);
        }
        assert!(child.wait().expect("ours").success());
        let text = std::fs::read_to_string(&log).expect("written");
        std::fs::remove_file(&log).expect("removed");
        logs(&log).skip(1).for_each(|log| drop(std::fs::remove_file(log)));
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        lines.filter(|line| line["call"] == "map_leaf").count()
    };
    for (iterations, hangups) in [("20", 0), ("2000", 30)] {
        let expected = leaves(&named, iterations, 0);
        assert_eq!(leaves(&format!("@{}", spec.display()), iterations, hangups), expected, "{iterations}, {hangups}");
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

/// Built anew under its old name, as one does who works on it, and written over while it is in use.
#[test]
fn a_library_that_was_built_anew_is_loaded_anew() {
    let directory = directory("library");
    let (spec, file) = (directory.join("mapper"), directory.join("libmine.so"));
    let logged = |name: &str| {
        let log = directory.join(format!("{name}.jsonl"));
        std::fs::write(&spec, format!("logging,file={},inner={}", log.display(), file.display())).expect("written");
        log
    };
    library("first", &file);
    let a = logged("a");
    let mut child = started(&spec);
    written(&mut child, &a);
    // In place: the old code's pages would change under it.
    let new = directory.join("new.so");
    library("second", &new);
    std::fs::copy(&new, &file).expect("written over");
    let b = logged("b");
    hang_up(&child);
    written(&mut child, &b);
    ended(child);
    for (file, name) in [(a, "first"), (b, "second")] {
        let decisions = std::fs::read_to_string(file).expect("written");
        let named = format!("\"mapper\":\"{name}\"");
        assert!(decisions.lines().next().is_some_and(|line| line.contains(&named)), "{name}");
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

/// Whichever of them gets the signal: they would take the new mapper at different places of the program.
#[test]
#[cfg(target_os = "linux")]
fn a_hangup_on_several_processes_is_a_warning_and_the_mapper_goes_on() {
    let directory = directory("processes");
    let (spec, a, b) = (directory.join("mapper"), directory.join("a.jsonl"), directory.join("b.jsonl"));
    std::fs::write(&spec, format!("logging,file={}", a.display())).expect("written");
    let mut child = started_on(&["--wire", "processes", "--processes", "3", "--workers", "1"], &spec);
    logs(&a).take(3).for_each(|log| longer(&mut child, &log, 10_000));
    std::fs::write(&spec, format!("logging,file={}", b.display())).expect("written");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
    for (process, number) in [child.id(), copies(&child)[1]].into_iter().zip([0, 2]) {
        hang_up_on(process);
        let line = said.next().expect("a warning").expect("UTF-8");
        let why = format!("mapper @{} is read again in runs of one process only, and this one has 3", spec.display());
        assert_eq!(line, format!("maniple: warning: process {number}: {why}; the old mapper stays"));
    }
    let written = logs(&a).filter_map(|log| std::fs::metadata(log).ok()).map(|log| log.len()).sum::<u64>();
    longer(&mut child, &a, written + 20_000);
    child.kill().expect("it runs");
    child.wait().expect("ours");
    assert!(!b.exists());
    std::fs::remove_dir_all(directory).expect("removed");
}
