//! The mapper of a running command is replaced: `--mapper @FILE` and a hangup signal.
#![cfg(unix)]

use crate::common::decisions::{asked_by, asked_by_all, logs};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// For tasks that are soon mapped. The machine may be busy.
const LIMIT: Duration = Duration::from_secs(300);

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

/// A mapper in C that is named so. It can't be made in process 1 if `fails` says so.
fn library(name: &str, fails: bool, output: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = std::fs::read_to_string(root.join("examples/plugin-c/mapper.c")).expect("there");
    let source = source.replace("\"dealer\"", &format!("\"{name}\""));
    let create = "static void *create(const char *options, char *message, size_t capacity) {\n";
    assert!(source.contains(create));
    let refusal = "    const char *copy = getenv(\"MANIPLE_PROCESS\");\n\
                   if (copy != NULL && copy[0] == '1') { snprintf(message, capacity, \"not here\"); return NULL; }\n";
    let source = if fails { source.replace(create, &format!("{create}{refusal}")) } else { source };
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
    library("first", false, &file);
    let a = logged("a");
    let mut child = started(&spec);
    written(&mut child, &a);
    // In place: the old code's pages would change under it.
    let new = directory.join("new.so");
    library("second", false, &new);
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

/// Whichever of them gets the signal.
#[test]
#[cfg(target_os = "linux")]
fn a_hangup_of_one_process_replaces_the_mapper_of_all() {
    let directory = directory("processes");
    let (spec, lib) = (directory.join("mapper"), directory.join("libdealt.so"));
    library("dealt", false, &lib);
    for processes in 1..=4u64 {
        let number = processes.to_string();
        let log = |name: &str| directory.join(format!("{name}-{processes}.jsonl"));
        let says = |name: &str, inner: &str| {
            std::fs::write(&spec, format!("logging,file={},inner={inner}\n", log(name).display())).expect("written");
            log(name)
        };
        let first = says("first", "default");
        let mut child = started_on(&["--wire", "processes", "--processes", &number, "--workers", "1"], &spec);
        asked_by_all(&mut child, LIMIT, &first, processes);
        let all: Vec<u32> = std::iter::once(child.id()).chain(copies(&child)).collect();
        assert_eq!(all.len() as u64, processes);
        for (name, (process, inner)) in
            all.iter().zip(["round-robin", lib.to_str().expect("UTF-8")].iter().cycle()).enumerate()
        {
            let log = says(&name.to_string(), inner);
            hang_up_on(*process);
            asked_by_all(&mut child, LIMIT, &log, processes);
        }
        // Runs end verified under each, or they would end it. A copy may tell the end of the first process.
        let said = ended(child);
        let told = said.matches(&format!("maniple: mapper @{} was read again\n", spec.display())).count();
        assert!(told == all.len() && !said.contains("warning"), "{said}");
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
#[cfg(target_os = "linux")]
fn a_mapper_that_one_process_can_not_make_is_taken_by_none() {
    let directory = directory("none");
    let (spec, lib) = (directory.join("mapper"), directory.join("libpicky.so"));
    library("picky", true, &lib);
    let (a, b) = (directory.join("a.jsonl"), directory.join("b.jsonl"));
    std::fs::write(&spec, format!("logging,file={}", a.display())).expect("written");
    let mut child = started_on(&["--wire", "processes", "--processes", "3", "--workers", "1"], &spec);
    asked_by_all(&mut child, LIMIT, &a, 3);
    std::fs::write(&spec, format!("logging,file={},inner={}", b.display(), lib.display())).expect("written");
    hang_up_on(copies(&child)[1]);
    let mut said = String::new();
    let stderr = child.stderr.take().expect("piped");
    BufReader::new(stderr).read_line(&mut said).expect("a warning");
    let before = std::fs::metadata(&a).expect("there").len();
    longer(&mut child, &a, before + 20_000);
    ended(child);
    assert!(said.starts_with("maniple: warning: process 1, on ") && said.contains(": not here"), "{said}");
    assert!(said.ends_with("; the old mapper stays\n"), "{said}");
    assert!(asked_by(&b).is_empty(), "{:?}", asked_by(&b));
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "takes long; `./check full` runs it"]
fn a_replaced_mapper_changes_no_bit_on_processes() {
    let directory = directory("bits");
    let spec = directory.join("mapper");
    let vector = |on: &str, inners: &[&str]| {
        let output = directory.join("out.npy");
        let says = |name: usize, inner: &str| {
            let log = directory.join(format!("{name}.jsonl"));
            logs(&log).for_each(|log| drop(std::fs::remove_file(log)));
            std::fs::write(&spec, format!("logging,file={},inner={inner}", log.display())).expect("written");
            log
        };
        let first = says(0, "default");
        let mut maniple = Command::new(crate::MANIPLE);
        maniple.args(["stencil", "--shards", "5", "--cells", "64", "--iterations", "500"]).args(on.split(' '));
        maniple.arg("--mapper").arg(format!("@{}", spec.display())).arg("--output").arg(&output);
        let mut child = maniple.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
        for (n, inner) in inners.iter().enumerate() {
            longer(&mut child, &if n == 0 { first.clone() } else { directory.join(format!("{n}.jsonl")) }, 10_000);
            says(n + 1, inner);
            let all: Vec<u32> = std::iter::once(child.id()).chain(copies(&child)).collect();
            hang_up_on(all[n % all.len()]);
        }
        let ended = child.wait_with_output().expect("ours");
        let text = String::from_utf8_lossy(&ended.stderr);
        // The command may end before it can say that it has read the last one.
        let told = text.matches("was read again").count();
        let enough = told <= inners.len() && told + 1 >= inners.len();
        assert!(ended.status.success() && enough && !text.contains("warning"), "{on}: {text}");
        std::fs::read(&output).expect("written")
    };
    for (collective, numbers) in [("recursive-doubling", &[2, 4][..]), ("aggregation", &[3])] {
        let expected = vector(&format!("--repeat 1 --workers 2 --collective {collective}"), &[]);
        assert_eq!(expected.len(), 5 * 64 * 8);
        for processes in numbers {
            let on = "--repeat 8 --workers 1 --wire processes";
            let on = format!("{on} --processes {processes} --collective {collective}");
            assert!(vector(&on, &["round-robin", "first", "random,seed=4"]) == expected, "{on}");
        }
    }
    std::fs::remove_dir_all(directory).expect("removed");
}
