//! `--wire virtual` where a command measures single numbers of a machine, or something beside it: yardstick, kernel, compare
//! and machine. The expected values are computed here from the machines' files.

use crate::common::csv::{column, csv};
use crate::common::machines::*;
use crate::common::{maniple, refuses};
use std::io::Write;
use std::process::{Command, Stdio};

/// The clock that a program reads has whole nanoseconds, and runs have a hundred round trips or iterations.
fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() < 0.01, "{what}: expected {expected}, found {found}");
}

/// LogGP: o + L + G·k + o, for k = 32 bytes, the head of a message that carries nothing.
fn loggp(text: &str, link: &str) -> f64 {
    let [o, l, g, r] = ["send_ns", "latency_ns", "byte_ns", "receive_ns"].map(|name| number(text, link, name));
    o + l + 32.0 * g + r
}

#[test]
fn the_yardstick_is_what_the_link_takes() {
    let yardstick = |args: &str| measured(&format!("cache-line --wire virtual --repeat 2 {args}"), "cache_line_ns");
    // The only processor for shards of a node is Legion's utility processor.
    assert_near(yardstick("--machine titan-legion"), loggp(LEGION, "network"), "titan-legion");
    assert_near(yardstick("--machine titan-mpi"), loggp(LEGION, "network"), "titan-mpi, the same network");
    // Within a node; the first of several messages is the only one.
    let first = number(LOCAL, "memory", "first_ns");
    assert_near(yardstick("--machine local"), loggp(LOCAL, "memory") + first, "local");
    assert_eq!(yardstick("--machine ideal"), 0.0);
    // Everything takes its time here, but a yardstick is only its link's; more nodes than two have no part in it.
    for (name, processors, utility, link) in
        [("one", "1", "0", "network"), ("two", "2", "0", "memory"), ("more", "16", "0", "memory")].into_iter().chain([
            ("alone", "3", "1", "network"),
            ("both", "4", "2", "memory"),
            ("narrow", "3", "2", "memory"),
        ])
    {
        let file = file(name, SMALL, &[("processors", processors), ("utility", utility)]);
        let nodes = if link == "network" { "--nodes 5" } else { "--nodes 1" };
        let file = file.display();
        assert_near(yardstick(&format!("--machine {file}")), loggp(SMALL, link), name);
        assert_near(yardstick(&format!("--machine {file} {nodes}")), loggp(SMALL, link), name);
    }
    // Without bytes, LogGP's o + L + o to the digit.
    let file = file("no-bytes", SMALL, &[("byte_ns", "0")]);
    for iterations in ["", "--iterations 1", "--iterations 7"] {
        assert_eq!(yardstick(&format!("--machine {} {iterations}", file.display())), 200.0 + 1500.0 + 200.0);
    }
    // Each way the latency alone is up to half as long again.
    let noisy = yardstick(&format!("--machine {} --noise 0.5", file.display()));
    assert!((2200.0..2350.0).contains(&noisy), "{noisy}");
}

/// The yardstick beside a run is the machine's, and not this host's.
#[test]
fn runs_report_the_yardstick_of_their_machine() {
    for run in [
        "collective --kind allreduce --chained --elements 1 --shards 3 --iterations 5",
        "barrier --shards 3 --iterations 5",
        "gang --shards 3",
    ] {
        let found = measured(&format!("{run} --repeat 1 --wire virtual --machine titan-legion"), "cache_line_ns");
        assert_near(found, loggp(LEGION, "network"), run);
        let alone = csv(&format!("{run} --repeat 1 --wire virtual --machine titan-legion --nodes 1"));
        assert_eq!(column(&alone, "cache_line_ns"), "", "{run}: there is one processor");
    }
}

/// Each report names the machine, and the number of its nodes that take part.
#[test]
fn reports_name_their_machine() {
    for (run, nodes) in [
        ("cache-line --iterations 5", "2"),
        ("kernel --iterations 5", "1"),
        ("collective --kind allreduce --chained --elements 1 --shards 3 --iterations 5", "3"),
        ("barrier --shards 3 --iterations 5 --nodes 7", "7"),
        ("gang --shards 3", "3"),
        ("tasks --count 20", "1"),
        ("memory --shards 20", "20"),
    ] {
        let there = csv(&format!("{run} --repeat 1 --wire virtual --machine titan-mpi"));
        assert_eq!(["machine", "nodes"].map(|name| column(&there, name)), ["titan-mpi", nodes], "{run}");
        let here = csv(&format!("{} --repeat 1", run.replace(" --nodes 7", "")));
        assert_eq!(["machine", "nodes"].map(|name| column(&here, name)), ["", ""], "{run}");
    }
}

/// One run tells all, and is not left out of its own median.
#[test]
fn there_is_one_run_in_virtual_time() {
    for run in [
        "cache-line --iterations 5",
        "kernel --iterations 5",
        "barrier --shards 3 --iterations 5",
        "gang --shards 3",
        "tasks --count 20",
        "memory --shards 20",
        "compare mpi --program allreduce --iterations 5",
    ] {
        let run = format!("{run} --wire virtual --machine titan-mpi");
        assert_eq!(csv(&run).lines().count(), 2, "{run}");
        assert_eq!(csv(&format!("{run} --repeat 2")).lines().count(), 3, "{run}");
        let table = String::from_utf8(maniple(&run).stdout).expect("text");
        assert!(table.contains("median") && !table.contains("leave out"), "{table}");
    }
    assert_eq!(csv("cache-line --iterations 5").lines().count(), 11);
}

/// A block, and four cells of ghosts on either side: its own, and its neighbours'.
fn kernel_ns(text: &str, task: &str, cells: usize) -> f64 {
    number(text, task, "task_ns") + number(text, task, "byte_ns") * 8.0 * (cells + 8) as f64
}

#[test]
fn a_kernel_takes_what_the_machine_says() {
    let small = format!("{}/tests/small.toml", env!("CARGO_MANIFEST_DIR"));
    for (machine, text, task) in [
        ("titan-legion", LEGION, "other_tasks"),
        ("local", LOCAL, "tasks.advance"),
        ("infiniband", LOCAL, "tasks.advance"),
        (&small, SMALL, "other_tasks"),
        ("ideal", IDEAL, "other_tasks"),
    ] {
        for cells in [4, 5, 1000] {
            let text_of = csv(&format!("kernel --cells {cells} --wire virtual --machine {machine} --repeat 1"));
            assert_eq!((column(&text_of, "verified"), column(&text_of, "wire")), ("true".into(), "virtual".into()));
            let us: f64 = column(&text_of, "iteration_us").parse().expect("a time");
            assert_near(us * 1000.0, kernel_ns(text, task, cells), &format!("{machine}, {cells} cells"));
        }
    }
}

/// Of costs that depend on the shards of a processor, the costs with one shard: the top-level task beside it is no part of a
/// kernel.
#[test]
fn a_kernel_has_its_processor_for_itself() {
    let text = SMALL.replacen("[costs]", "[costs]\nshards = { value = [1, 4], why = \"a test\" }", 1);
    let by_shards = file("by-shards", &text, &[("task_ns", "[10, 1000]")]);
    let args = format!("kernel --cells 4 --wire virtual --machine {} --repeat 1", by_shards.display());
    assert_near(measured(&args, "iteration_us") * 1000.0, 10.0 + 0.1 * 8.0 * 12.0, "with one shard");
}

/// The result of a sum. Each shard contributes the last sum modulo 97 plus its number. A tenth as many calls come before.
fn sum(shards: u64, calls: u64) -> f64 {
    (0..calls + calls.div_ceil(10)).fold(1, |last, _| (0..shards).map(|s| last % 97 + s).sum()) as f64
}

#[test]
fn mpi_runs_on_a_machine_of_its_own() {
    let [ours, mpi] = [2000, 500].map(latency);
    // Without a launcher: there is no path to look for one.
    let compare = |args: &str| {
        let args = format!("compare mpi --wire virtual --repeat 2 --iterations 40 --format csv {args}");
        let mut command = Command::new(crate::MANIPLE);
        let output = command.args(args.split_whitespace()).env("PATH", "").output().expect("the program starts");
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    for (shards, rounds) in [(2, 1.0), (8, 3.0), (16, 4.0)] {
        for program in ["allreduce", "stencil"] {
            let args = format!("--program {program} --shards {shards} --machine {ours} --mpi-machine {mpi}");
            let text = compare(&args);
            assert_eq!(text, compare(&args), "the same each time");
            let number = |name: &str| column(&text, name).parse::<f64>().expect(name);
            // A message a round; halves and quarters of these are exact.
            let times = ["collective_us", "mpi_collective_us", "collective_ratio"].map(number);
            assert_eq!(times, [2.0 * rounds, 0.5 * rounds, 4.0], "{text}");
            assert_eq!((number("cache_line_ns"), &*column(&text, "verified")), (2000.0, "true"));
            assert_eq!((number("result"), &*column(&text, "mpi")), (number("mpi_result"), "ideal"));
            if program == "allreduce" {
                assert_eq!((number("result"), column(&text, "mpi_iteration_us")), (sum(shards, 40), "".into()));
            } else {
                // Whatever an iteration waits for is messages, and these take four times as long here.
                let [here, there] = ["iteration_us", "mpi_iteration_us"].map(number);
                assert!(here >= 2.0 * rounds && here == 4.0 * there && number("iteration_ratio") == 4.0, "{text}");
            }
        }
    }
    // MPI goes by recursive doubling and on as many nodes as ranks, whatever this side does.
    let two = compare(&format!("--program allreduce --shards 8 --machine {ours} --mpi-machine {mpi} --nodes 2"));
    assert_eq!((&*column(&two, "collective_us"), &*column(&two, "mpi_collective_us")), ("2.0", "1.5"), "{two}");
    let kinds = format!("--kind all-to-all,broadcast --shards 8 --machine {ours} --mpi-machine {mpi}");
    let broadcast = compare(&kinds);
    assert_eq!(
        ["program", "kind", "collective_ratio", "verified"].map(|name| column(&broadcast, name)),
        ["collective", "broadcast", "4.0", "true"]
    );
    // Of one rank there is nothing to divide by, and no other processor to go to.
    let alone = compare(&format!("--program allreduce --shards 1 --machine {ours} --mpi-machine {mpi}"));
    assert_eq!(
        ["mpi_collective_us", "collective_ratio", "cache_line_ns"].map(|name| column(&alone, name)),
        ["0.0", "", ""]
    );
    let titan = compare("--shards 4 --machine titan-legion");
    assert_eq!(
        ["program", "machine", "nodes", "mpi"].map(|n| column(&titan, n)),
        ["stencil", "titan-legion", "4", "titan-mpi"]
    );
}

/// A pipe can be read only once. So a command reads the file of each machine once, whatever it runs, and however often.
#[test]
fn a_machine_may_come_through_a_pipe() {
    for args in [
        "cache-line --iterations 5 --machine /dev/stdin",
        "kernel --iterations 5 --machine /dev/stdin",
        "collective --kind allreduce --chained --elements 1 --shards 3 --iterations 5 --machine /dev/stdin",
        "barrier --shards 3 --iterations 5 --machine /dev/stdin",
        "gang --shards 3 --machine /dev/stdin",
        "tasks --count 50 --machine /dev/stdin",
        "memory --shards 50 --machine /dev/stdin",
        "stencil --shards 2 --iterations 5 --machine /dev/stdin",
        "weak-scaling --shards 2..8 --iterations 6 --machine /dev/stdin",
        "compare mpi --shards 2,3 --iterations 5 --machine /dev/stdin --mpi-machine ideal",
        "compare mpi --shards 2,3 --iterations 5 --machine ideal --mpi-machine /dev/stdin",
    ] {
        let mut command = Command::new(crate::MANIPLE);
        command.args(args.split(' ')).args(["--repeat", "2", "--wire", "virtual"]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect(args);
        process.stdin.take().expect("a pipe").write_all(SMALL.as_bytes()).expect("read");
        let output = process.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_machine_is_shown_with_its_numbers() {
    let shown =
        |args: &str| String::from_utf8(maniple(&format!("machine --wire virtual {args}")).stdout).expect("text");
    let json: serde_json::Value = serde_json::from_str(&shown("--machine titan-legion --format json")).expect("JSON");
    assert_eq!((&json["name"], &json["nodes"]), (&"titan-legion".into(), &serde_json::Value::Null));
    assert_eq!(
        (&json["processors"], &json["utility"], &json["collectives.replay"]),
        (&2.into(), &1.into(), &false.into())
    );
    for (table, name) in
        [("network", "latency_ns"), ("memory", "byte_ns"), ("costs", "launch_ns"), ("other_tasks", "byte_ns")]
    {
        assert_eq!(json[format!("{table}.{name}")].as_f64(), Some(number(LEGION, table, name)), "{table}.{name}");
    }
    assert!(["cache_line_ns", "seed"].iter().all(|name| json.get(name).is_none()), "{json}");
    let noisy = shown("--machine titan-legion --noise 0.25 --noise-seed 7 --format json");
    let noisy: serde_json::Value = serde_json::from_str(&noisy).expect("JSON");
    assert_eq!((&noisy["noise"], &noisy["seed"]), (&0.25.into(), &7.into()));
    let own = format!("cache_line_ns = {{ value = 61.5, why = \"a test\" }}\n{SMALL}");
    let own = shown(&format!("--machine {} --format json", file("with-yardstick", &own, &[]).display()));
    let own: serde_json::Value = serde_json::from_str(&own).expect("JSON");
    assert_eq!((&own["cache_line_ns"], own.get("seed")), (&61.5.into(), None));
    let lines = shown("--machine local --nodes 3");
    let of_16 = LOCAL.parse::<toml::Table>().expect("TOML")["costs"]["launch_ns"]["value"][1].as_float();
    let rows: Vec<String> = lines.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(rows.iter().any(|row| row == "name local"), "{lines}");
    let of_16 = of_16.expect("a number");
    let send = number(LOCAL, "memory", "send_ns");
    let numbers =
        [("nodes", 3.0), ("processors", 2.0), ("memory.send_ns", send), ("costs.launch_ns with 16 shards", of_16)];
    for (name, expected) in numbers {
        let shown = rows.iter().find_map(|row| row.strip_prefix(name)?.trim().parse::<f64>().ok());
        assert_eq!(shown, Some(expected), "{name}: {lines}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let (alone, no_two) = without_two();
    for (args, expected) in [
        (&*format!("cache-line --wire virtual {alone}"), no_two),
        (
            "cache-line --wire virtual --machine titan",
            "unknown machine `titan`; expected one of aspen-gigabit, ethernet, gpi-fdr",
        ),
        ("cache-line --machine ideal", "--machine, --nodes and --noise are for --wire virtual"),
        ("cache-line --wire virtual --iterations 0", "--iterations: expected at least 1, found 0"),
        ("cache-line --wire virtual --noise -1", "noise: expected"),
        ("cache-line --wire virtual --workers 2", "unexpected argument '--workers'"),
        ("kernel --wire virtual --machine ./none.toml", "./none.toml: can't be read: No such file"),
        ("kernel --wire virtual --cells 3", "expected at least 4 cells"),
        ("kernel --wire virtual --nodes 2", "--nodes is not for kernel, which runs on a single processor"),
        ("kernel --nodes 2", "--machine, --nodes and --noise are for --wire virtual"),
        ("compare mpi --mpi-machine titan-mpi", "--mpi-machine is for --wire virtual"),
        ("compare mpi --wire virtual --mpi-machine titan", "unknown machine `titan`"),
        ("compare mpi --wire virtual --machine titan", "unknown machine `titan`"),
        ("compare mpi --wire virtual --mpirun mpirun", "--mpirun and --timeout are for --wire threads"),
        ("compare mpi --wire virtual --timeout 300", "--mpirun and --timeout are for --wire threads"),
        (
            "compare mpi --wire virtual --machine titan-mpi --workers 2",
            "--workers, --bind and --utility are for --wire threads",
        ),
        ("compare mpi --wire virtual --kind scan,allreduce,scan", "--kind: expected each kind once, found scan twice"),
        ("compare mpi --wire virtual --kind barrier --elements 3", "--elements is not for barrier: it has no elements"),
        ("compare mpi --wire virtual", "give --mpi-machine NAME|FILE"),
        ("compare mpi --wire virtual --machine infiniband --shards 3", "give --mpi-machine NAME|FILE"),
        ("compare mpi --wire virtual --mpi-machine ideal --program stencil --cells 3", "at least 4 cells"),
        // Before the allreduce, which comes first, has run and been reported.
        (
            "compare mpi --wire virtual --machine titan-mpi --iterations 5 --repeat 1 --cells 3 --format json",
            "at least 4 cells",
        ),
        (
            "compare mpi --wire virtual --machine titan-mpi --iterations 5 --repeat 1 --cells 1e13 --format json",
            "of memory",
        ),
        ("machine --wire virtual --workers 2", "--workers and --utility are for --wire threads"),
        ("machine --wire virtual --utility 1", "--workers and --utility are for --wire threads"),
        ("machine --wire virtual --nodes 0", "--nodes: expected at least 1, found 0"),
        ("machine --wire virtual --nodes 100000000000", "expected at most 4294967295 nodes, found 100000000000"),
        (
            "collective --kind allreduce --wire virtual --shards 100000000000",
            "expected at most 16777215 shards, found 100000000000",
        ),
        ("machine --nodes 2", "--machine, --nodes and --noise are for --wire virtual"),
    ] {
        refuses(args, expected);
    }
}
