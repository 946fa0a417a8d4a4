//! `--wire virtual`: the same programs on a machine in virtual time.

use crate::common::csv::{column, csv};
use crate::common::maniple;
use std::path::{Path, PathBuf};

/// All but the last three columns, which are of the host.
fn run(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    lines.map(|mut line| line.drain(..line.len() - 3).collect()).collect()
}

/// Allreduces in a chain, each of a message a round.
const DOUBLING: &str = "collective --kind allreduce --chained --algorithm recursive-doubling --order any";

/// A machine like `ideal`, but for the first value of `key`.
fn but_for(key: &str, value: u32) -> PathBuf {
    let ideal = include_str!("../../machines/ideal.toml");
    let changed = ideal.replacen(&format!("{key} = {{ value = 0"), &format!("{key} = {{ value = {value}"), 1);
    assert_ne!(ideal, changed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{key}-{value}-{}.toml", std::process::id()));
    std::fs::write(&path, changed).expect("written");
    path
}

#[test]
fn programs_do_what_they_do_on_threads_and_take_the_time_of_the_machine() {
    let file = but_for("latency_ns", 2000);
    let machine = format!("--wire virtual --machine {}", file.display());
    for shards in [1, 2, 3, 4, 7] {
        let stencil = format!("stencil --shards {shards} --cells 50 --iterations 6 --repeat 2");
        let (here, there) = (csv(&format!("{stencil} --workers 2")), csv(&format!("{stencil} {machine}")));
        assert_eq!(column(&here, "result"), column(&there, "result"), "{shards} shards");
        assert_eq!((column(&there, "wire"), column(&there, "verified")), ("virtual".into(), "true".into()));
        // Bit for bit the same, times and all, but for what it took of the host.
        assert_eq!(run(&there), run(&csv(&format!("{stencil} {machine}"))));
    }
    let stencil = format!("stencil --shards 8 --cells 50 --iterations 6 --repeat 1 --collective aggregation {machine}");
    assert_eq!(column(&csv(&stencil), "verified"), "true");
    for (shards, us) in [(2, "2.0"), (8, "6.0"), (64, "12.0")] {
        let calls = csv(&format!("{DOUBLING} --elements 1 --shards {shards} --iterations 100 {machine}"));
        assert_eq!(column(&calls, "max_latency_us").parse::<f64>(), us.parse(), "{calls}");
    }
    // Here, too: what lies between two totals is rounds of a message each, and nothing else takes any time.
    let scaling = csv(&format!("weak-scaling --shards 2..16 --cells 4 --iterations 8 --repeat 1 {machine}"));
    for (line, us) in scaling.lines().skip(1).zip([2.0, 4.0, 6.0, 8.0]) {
        let upto = scaling.lines().next().into_iter().chain([line]).collect::<Vec<_>>().join("\n");
        assert_eq!(column(&upto, "collective_us_median").parse(), Ok(us), "{scaling}");
        assert_eq!((column(&upto, "wire"), column(&upto, "verified")), ("virtual".into(), "true".into()));
    }
    let two_nodes = csv(&format!("stencil --shards 8 --cells 50 --iterations 6 --repeat 1 {machine} --nodes 2"));
    assert_eq!((column(&two_nodes, "workers"), column(&two_nodes, "verified")), ("2".into(), "true".into()));
}

/// The time of a call does not include the end of a run, when the first node is told of each shard. But a short run has
/// more of the time by which shards begin one after the other.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_call_takes_about_as_long_in_a_short_run_as_in_a_long_one() {
    for (program, name, apart) in [
        (&*format!("{DOUBLING} --elements 1 --shards 1024"), "max_latency_us", 0.06),
        (&format!("{DOUBLING} --elements 2 --shards 1024"), "max_latency_us", 0.06),
        ("barrier --shards 128", "barrier_us", 0.001),
    ] {
        let us = [5, 50].map(|iterations| {
            let text =
                csv(&format!("{program} --iterations {iterations} --repeat 1 --wire virtual --machine titan-mpi"));
            assert_eq!(column(&text, "verified"), "true", "{text}");
            column(&text, name).parse::<f64>().expect("a time")
        });
        assert!((us[0] / us[1] - 1.0).abs() < apart, "{program}: {us:?} us");
    }
}

#[test]
fn noise_is_drawn_from_its_seed() {
    let machine = format!("--wire virtual --machine {}", but_for("latency_ns", 3000).display());
    let calls = |noise: &str| {
        let calls = csv(&format!("{DOUBLING} --elements 1 --shards 8 --iterations 100 {machine} {noise}"));
        column(&calls, "max_latency_us").parse::<f64>().expect("a time")
    };
    let noisy = calls("--noise 0.5 --noise-seed 7");
    assert_eq!([calls(""), calls("--noise 0"), calls("--noise 0.5 --noise-seed 7")], [9.0, 9.0, noisy]);
    // Three messages a call, each from 3 to 4.5 us, and the slowest of some of them.
    assert!((9.9..13.5).contains(&noisy) && noisy != calls("--noise 0.5 --noise-seed 8"), "{noisy} us");
}

/// Events happen in an order that neither the process nor the compiler's profile has a part in: these digests are of a
/// release build. A change of what the runtime sends, or when, changes them.
#[test]
fn the_order_of_events_is_the_same_in_every_build() {
    let file = format!("{}/tests/small.toml", env!("CARGO_MANIFEST_DIR"));
    for (args, digest) in [
        ("--shards 7", "da9f70b87e0400bf"),
        ("--shards 64", "a5eb1017b74d318f"),
        ("--shards 100 --nodes 7", "c0d0e7b9ce321f05"),
        ("--shards 130", "28f807dfe5204343"),
        ("--shards 40 --nodes 5 --collective two-level", "f185642988019b06"),
        ("--shards 9 --collective aggregation", "6918fe978623acc0"),
    ] {
        let stencil = format!("stencil {args} --cells 16 --iterations 5 --repeat 1 --wire virtual --machine {file}");
        let text = csv(&stencil);
        assert_eq!(column(&text, "verified"), "true");
        assert_eq!(column(&text, "digest"), digest, "{args}: {text}");
        assert_eq!(run(&text), run(&csv(&stencil)));
    }
}

/// A process may have a thousand workers; a machine in virtual time stands in their place.
#[test]
fn machines_have_more_processors_than_a_process_has_workers() {
    let args = "--shards 1025 --cells 4 --iterations 2 --repeat 1 --wire virtual";
    for command in ["stencil", "weak-scaling", "compare mpi --program stencil --mpi-machine ideal"] {
        let text = csv(&format!("{command} {args}"));
        assert_eq!((column(&text, "workers"), column(&text, "verified")), ("1025".into(), "true".into()), "{command}");
    }
}

/// The memory of a shard with a node of its own. It is the difference between two sizes, without the memory of the process.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn many_nodes_fit_into_memory() {
    const BOUND: u64 = 20 << 10;
    let sizes = [1u64 << 10, 1 << 13];
    let peaks = sizes.map(|shards| {
        let text = csv(&format!("stencil --shards {shards} --cells 16 --iterations 2 --repeat 1 --wire virtual"));
        assert_eq!(column(&text, "verified"), "true");
        column(&text, "peak_bytes").parse::<u64>()
    });
    let [Ok(few), Ok(many)] = peaks else { return };
    let each = (many - few) / (sizes[1] - sizes[0]);
    assert!(each <= BOUND, "expected at most {BOUND} bytes for a shard and its node, found {each}");
}

/// A million shards on 131072 nodes, in a release build: `cargo test --release -p maniple-command --test all virtual_time --
/// --ignored`.
#[test]
#[ignore = "a million nodes take minutes and gigabytes"]
fn nightly_a_million_shards() {
    let text = csv("stencil --shards 1048576 --nodes 131072 --cells 16 --iterations 5 --repeat 1 --wire virtual");
    assert_eq!(column(&text, "verified"), "true");
    let number = |name: &str| column(&text, name).parse::<f64>();
    assert!(number("host_s").is_ok_and(|s| s <= 600.0), "{text}");
    assert!(number("peak_bytes").is_ok_and(|bytes| bytes <= 16.0 * f64::from(1 << 30)), "{text}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let no_leaves = format!("--wire virtual --machine {}", but_for("utility", 2).display());
    for program in ["stencil", "collective --kind allreduce"] {
        let output = maniple(&format!("{program} {no_leaves}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("fewer than the 1 of a node"), "{said}");
    }
    for (args, expected) in [
        ("stencil --machine ideal", "--machine, --nodes and --noise are for --wire virtual"),
        ("stencil --wire virtual --workers 2", "--workers, --bind and --utility are for --wire threads"),
        (
            "tasks --wire virtual --machine titan",
            "unknown machine `titan`; expected one of aspen-gigabit, ethernet, gpi-fdr",
        ),
        (
            "collective --kind allreduce --wire virtual --machine ./none.toml",
            "./none.toml: can't be read: No such file",
        ),
        ("stencil --wire virtual --shards 0", "--shards: expected at least 1, found 0"),
        ("gang --wire virtual --nodes 0", "--nodes: expected at least 1, found 0"),
        ("weak-scaling --wire virtual --workers 2", "--workers, --bind and --utility are for --wire threads"),
        ("stencil --wire virtual --noise nan", "noise: expected"),
        ("stencil --wire virtual --noise -1", "noise: expected"),
        ("stencil --noise 1", "--machine, --nodes and --noise are for --wire virtual"),
    ] {
        let output = maniple(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code != 0) && said.contains(expected), "{args}: {said}");
    }
}
