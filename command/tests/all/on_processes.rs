//! `maniple stencil --wire processes` from outside: the bits of the threads wire, one report, and refusals.

#![cfg(target_os = "linux")]

use crate::common::maniple;
use std::path::PathBuf;
use std::process::Command;

fn path(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("processes-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

/// The tests of the product of all options compare the bits of the vectors.
#[test]
fn the_stencil_reports_once_and_names_the_processes() {
    let output = maniple("stencil --shards 3 --cells 40 --repeat 2 --wire processes --processes 3 --workers 1");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(report.matches("2 of 2 runs verified").count(), 1, "{report}");
    assert!(report.contains("with processes 3"), "{report}");
}

#[test]
fn what_does_not_go_with_processes_is_refused() {
    for (args, why) in [
        ("stencil --processes 2", "--processes is for --wire processes"),
        ("stencil --wire processes --processes 0", "--processes: expected at least 1, found 0"),
        ("stencil --wire processes --processes 300", "--processes: expected at most 256, found 300"),
        ("explore --wire processes --processes 300", "--processes: expected at most 256, found 300"),
        ("stencil --wire processes --check races", "--check is not for --wire processes"),
        ("stencil --wire processes --machine local", "--machine, --nodes and --noise are for --wire virtual"),
        ("kernel --wire processes", "--wire processes is for the commands stencil"),
        ("tune --wire processes", "remote, machine, compare mpi and explore"),
        ("stencil --wire processes --trace /nowhere/t.json", "/nowhere/t.json: can't be written"),
        ("collective --kind allreduce --wire processes --trace /nowhere/t.json", "/nowhere/t.json: can't be written"),
        ("stencil --wire processes --mapper logging,file=/nowhere/x", "/nowhere/x: can't be written"),
    ] {
        let output = maniple(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(why), "{args}: {output:?}");
        assert_eq!(text.matches("maniple: error").count(), 1, "{args}: {text}");
    }
}

#[test]
fn weak_scaling_reports_once_and_fills_one_directory() {
    let report = path("weak-scaling");
    let output = maniple(&format!(
        "weak-scaling --wire processes --processes 3 --workers 1 --shards 1..4 --cells 20 --iterations 12 --repeat 2 \
         --format csv --report {}",
        report.display()
    ));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    let at = |name: &str| lines[0].split(',').position(|of| of == name).unwrap_or_else(|| panic!("{name}: {text}"));
    for (line, shards) in lines[1..].iter().zip(["1", "2", "4"]) {
        let fields: Vec<&str> = line.split(',').collect();
        let found = ["wire", "shards", "workers", "verified"].map(|name| fields[at(name)]);
        assert_eq!(found, ["processes", shards, "3", "true"], "{text}");
    }
    let samples = std::fs::read_to_string(report.join("samples.csv")).expect("samples");
    // A line for each iteration of two versions, two runs and three numbers of shards.
    assert_eq!(samples.lines().count(), 1 + 12 * 2 * 2 * 3);
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn microbenchmarks_report_once() {
    let collective = "collective --kind barrier --shards 5 --iterations 9 --wire processes --processes 3 --format csv";
    let output = maniple(collective);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!((text.lines().count(), text.matches(",true").count()), (2, 1), "{text}");
    for command in [
        "collective --kind allreduce --chained --elements 1 --shards 5",
        "barrier --shards 5",
        "gang --shards 9",
        "tasks --count 500",
        "remote --elements 3000",
    ] {
        let output = maniple(&format!("{command} --wire processes --processes 3 --repeat 2 --format csv"));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{command}: {output:?}");
        assert_eq!((text.lines().count(), text.matches(",true,").count()), (3, 2), "{command}: {text}");
    }
}

#[test]
fn the_machine_shows_hosts_and_processes() {
    let output = maniple("machine --wire processes --processes 3 --workers 2 --format json");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let all = shown["processes"].as_array().expect("processes");
    assert_eq!((all.len(), &shown["wire"]), (3, &"processes".into()));
    let processors = std::thread::available_parallelism().expect("known").get();
    for (number, process) in all.iter().enumerate() {
        assert_eq!((&process["process"], &process["workers"]), (&number.into(), &2.into()));
        assert_eq!(process["host"], host.trim());
        assert_eq!(process["processors"].as_array().map(Vec::len), Some(processors));
    }
    let tree = String::from_utf8(maniple("machine --wire processes --processes 3 --workers 2").stdout).expect("UTF-8");
    assert!(tree.starts_with("3 processes on 1 host, 2 workers each\n"), "{tree}");
}

/// Without the launcher: its variables are all that it takes. Nobody has met the others, so each process speaks for itself. An
/// interactive shell of SLURM has such variables too.
#[test]
fn variables_of_a_launcher_are_refused_with_the_way_out() {
    for (command, why) in [
        ("kernel", "this command runs in one process"),
        ("cache-line", "this command runs in one process"),
        ("memory", "this command runs in one process"),
        ("explore", "this command runs in one process"),
        ("compare mpi", "this command runs in one process"),
        ("tune", "this command runs in one process"),
        (
            "stencil --wire threads --output",
            "--wire threads is refused: a launcher has started 2 processes of this command",
        ),
        (
            "stencil --wire virtual --output",
            "--wire virtual is refused: a launcher has started 2 processes of this command",
        ),
        (
            "stencil --wire processes --output",
            "--wire processes is refused: a launcher has started 2 processes of this command",
        ),
        (
            "weak-scaling --wire threads --report",
            "--wire threads is refused: a launcher has started 2 processes of this command",
        ),
        ("machine --wire threads", "--wire threads is refused: a launcher has started 2 processes of this command"),
        ("stencil --output", "a run on MPI: expected "),
        ("stencil --wire mpi --output", "a run on MPI: expected "),
        ("machine", "a run on MPI: expected "),
    ] {
        for (size, number) in [("PMI_SIZE", "PMI_RANK"), ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")] {
            for rank in ["0", "1"] {
                let output = path("refused");
                let mut maniple = Command::new(crate::MANIPLE);
                maniple.args(command.split(' ')).env(size, "2").env(number, rank);
                maniple.args(command.ends_with('t').then_some(&output));
                let ended = maniple.output().expect("starts");
                let text = String::from_utf8_lossy(&ended.stderr);
                assert_eq!((ended.status.code(), ended.stdout.len()), (Some(2), 0), "{command}: {ended:?}");
                assert!(text.contains(&format!("maniple: error: {why}")), "{command}: {text}");
                let known = format!("{size}=2 {number}={rank}");
                assert!(
                    text.contains(&known) && text.to_lowercase().contains("unset these variables"),
                    "{command}: {text}"
                );
                assert!(!output.exists(), "{command}");
            }
        }
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

/// The answers about leaf tasks that the files of a run's processes have, by file.
fn logged(on: &str, log: &std::path::Path, processes: u32) -> Vec<usize> {
    let args = format!("stencil --shards 5 --iterations 4 --repeat 1 {on} --mapper logging,inner=logging,file=");
    let output = maniple(&format!("{args}{}", log.display()));
    assert!(output.status.success(), "{on}: {output:?}");
    let file = |number| match number {
        0 => log.to_owned(),
        n => PathBuf::from(format!("{}.{n}", log.display())),
    };
    let lines = |number| {
        let text = std::fs::read_to_string(file(number)).expect("a log");
        let calls = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        calls.filter(|line| line["call"] == "map_leaf").count()
    };
    assert!(!file(processes).exists());
    (0..processes).map(lines).collect()
}

#[test]
fn each_process_logs_the_decisions_of_its_mapper_to_a_file_of_its_own() {
    let on_threads = logged("--workers 2", &path("threads.jsonl"), 1);
    // Loading, then an iteration of each shard.
    assert!(on_threads[0] >= 5 + 4 * 5, "{on_threads:?}");
    let on_processes = logged("--wire processes --processes 3 --workers 2", &path("processes.jsonl"), 3);
    assert!(on_processes.iter().all(|lines| *lines > 0), "{on_processes:?}");
    assert_eq!(on_processes.iter().sum::<usize>(), on_threads[0]);
}
