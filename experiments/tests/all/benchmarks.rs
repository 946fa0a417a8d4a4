//! `benchmarks`: the document of figures beside their targets, on this host and in virtual time.

use crate::common::machines::{SMALL, file, latency, measured, small, without_two};
use crate::common::{maniple, refuses};
use std::process::Command;

#[test]
fn benchmarks_are_a_document() {
    let output = maniple("benchmarks --repeat 2 --only kernel,");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let row: Vec<&str> = text.lines().find(|line| line.contains("650 ns")).expect("a row").split('|').collect();
    assert_eq!((row.len(), row[1].trim()), (9, "stencil kernel, 1000 cells"), "{text}");
    for fact in [
        "# Benchmarks",
        "machine",
        "rustc 1.",
        "| rounds",
        "`maniple-experiments benchmarks --repeat 2 --only 'kernel,'`",
        "| 2 ",
    ] {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("benchmarks-{}.md", std::process::id()));
    let output = maniple(&format!("benchmarks --repeat 1 --only kernel, --output {}", file.display()));
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    assert!(std::fs::read_to_string(&file).expect("it was written").starts_with("# Benchmarks\n"));
    std::fs::remove_file(file).expect("it is there");
    // Found before the rounds, which would not end.
    let output = maniple("benchmarks --repeat 1e9 --output /nowhere/at/all.md");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(err.contains("/nowhere/at/all.md: can't be written: No such file"), "{err}");
}

/// The cells of a document's row.
fn row(document: &str, name: &str) -> Vec<String> {
    let line = document.lines().find(|line| line.trim_start_matches("| ").starts_with(name)).expect(name);
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn benchmarks_are_of_two_processors_of_the_machine() {
    let [ours, mpi] = [1000, 500].map(latency);
    let benchmarks = |args: &str| {
        let output = maniple(&format!("benchmarks --wire virtual {args}"));
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let document = benchmarks(&format!("--machine {ours} --mpi-machine {mpi} --only allreduce"));
    assert_eq!([row(&document, "rounds")[1].as_str(), &row(&document, "e ")[1]], ["1", "1000 (1000–1000) ns"]);
    assert!(row(&document, "command")[1].contains(&format!("--mpi-machine {mpi} --repeat 1")), "{document}");
    for machine in ["machine", "MPI's machine"] {
        assert!(row(&document, machine)[1].starts_with("ideal in virtual time: one processor a node"), "{document}");
    }
    // A message between the two processors in one round of three; the other shards are neighbours.
    let one_message = "1.000 (1.000–1.000)";
    for (name, target, ratio, met) in [
        ("allreduce of 8 bytes, 2 shards", "0.400", "2.50", "NO"),
        ("allreduce of 8 bytes, recursive doubling, 8 shards", "14.40", "0.07", "yes"),
        ("allreduce of 8 bytes, two-level, 8 shards", "5.800", "0.17", "yes"),
        ("allreduce of 8 bytes, 8 shards, beside MPI", "MPI: 0.500", "2.00", "-"),
    ] {
        assert_eq!(row(&document, name)[2..], [target, one_message, "µs", ratio, met], "{document}");
    }

    let small = small().display().to_string();
    let document = benchmarks(&format!("--machine {small} --repeat 2 --only kernel"));
    assert_eq!(row(&document, "rounds")[1], "2");
    assert_eq!(row(&document, "stencil kernel, 1000 cells")[2..5], ["650.0", "826.4 (826.4–826.4)", "ns"]);
    // (T · W − sequential) ÷ P is half a microsecond at least: launch and start of a task alone are 350 ns.
    let added = &row(&document, "stencil, added to the kernel a shard, 16 shards")[3];
    assert!(added.split(' ').next().and_then(|us| us.parse().ok()).is_some_and(|us: f64| us > 0.5), "{document}");

    // With noise, too, the yardstick is the one that its own command finds.
    let noisy = format!("--machine {small} --noise 0.5 --noise-seed 3");
    let e = measured(&format!("cache-line --wire virtual --repeat 1 {noisy}"), "cache_line_ns");
    let document = benchmarks(&format!("{noisy} --only leaf"));
    assert!(row(&document, "e ")[1].starts_with(&format!("{e:.0} (")), "{e}: {document}");
    let beside =
        measured(&format!("barrier --shards 2 --repeat 1 --iterations 5 --wire virtual {noisy}"), "cache_line_ns");
    assert_eq!(e, beside);

    // Processors of a node, where it has two: of many, two are taken. The command can be copied.
    let wide = file("wide and far", SMALL, &[("processors", "64")]);
    let mut command = Command::new(crate::MANIPLE);
    let output =
        command.args(["benchmarks", "--wire", "virtual", "--only", "two-level", "--machine"]).arg(&wide).output();
    let document = String::from_utf8(output.expect("the program starts").stdout).expect("text");
    assert_eq!(row(&document, "e ")[1], "141.6 (141.6–141.6) ns", "{document}");
    assert!(row(&document, "command")[1].contains(&format!(" --machine '{}' ", wide.display())), "{document}");
}

#[test]
fn what_is_of_this_host_is_not_compared_in_virtual_time() {
    let small = small().display().to_string();
    for (only, name, reason) in [
        ("leaf", "leaf task, 1 region of 1024, 1 worker", "StarPU's task depends on this host"),
        ("memory", "memory of a waiting shard, two-level", "memory depends on this host"),
    ] {
        let output = maniple(&format!("benchmarks --wire virtual --machine {small} --only {only}"));
        let document = String::from_utf8(output.stdout).expect("text");
        assert_eq!(row(&document, name)[6], "not compared", "{document}");
        assert!(document.contains(&format!("nothing to compare with in virtual time: {reason}")), "{document}");
    }
    // What MPI would take on the network of this machine is not known, unless told.
    let output = maniple(&format!("benchmarks --wire virtual --machine {small} --only MPI"));
    let document = String::from_utf8(output.stdout).expect("text");
    assert_eq!(row(&document, "allreduce of 8 bytes, 8 shards, beside MPI")[6], "not compared", "{document}");
    assert!(document.contains(": give --mpi-machine NAME|FILE") && !document.contains("MPI's machine"), "{document}");
    // Nor is there anything to compare with where nothing takes any time.
    let output = maniple("benchmarks --wire virtual --mpi-machine ideal --only allreduce");
    let document = String::from_utf8(output.stdout).expect("text");
    for (name, reason) in [
        ("allreduce of 8 bytes, 2 shards", "MPI takes no time on its machine"),
        ("allreduce of 8 bytes, two-level, 8 shards", "a yardstick takes no time on this machine"),
    ] {
        assert_eq!(row(&document, name)[2..], ["-", "0.000 (0.000–0.000)", "µs", "-", "not compared"], "{document}");
        assert!(document.contains(reason), "{document}");
    }
}

#[test]
fn what_can_not_be_is_refused() {
    let (alone, no_two) = without_two();
    let one = latency(1);
    for (args, expected) in [
        ("benchmarks --repeat 0", "--repeat: expected at least 1, found 0"),
        (
            "benchmarks --only nothing",
            "--only: expected a part of one of these names, found `nothing`:\n    allreduce of 8 bytes, 2 shards\n",
        ),
        (&format!("benchmarks --wire virtual {alone}"), no_two),
        (
            &format!("benchmarks --wire virtual --machine {one} --mpi-machine ./none.toml"),
            "./none.toml: can't be read: No such file",
        ),
        ("benchmarks --mpi-machine titan-mpi", "--mpi-machine is for --wire virtual"),
        ("benchmarks --machine ideal", "--machine, --nodes and --noise are for --wire virtual"),
        ("benchmarks --wire virtual --repeat 0", "--repeat: expected at least 1, found 0"),
    ] {
        refuses(args, expected);
    }
}
