//! `maniple collective` from outside: every kind on every wire is verified, the figures fit together, and what can't be run is
//! refused.

use crate::common::kinds::KINDS;
use crate::common::maniple;
use serde_json::Value;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// What a command that must succeed prints.
fn succeeds(args: &str) -> String {
    let output = maniple(args);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{args}: {}", text(&output.stdout));
    text(&output.stdout).to_owned()
}

/// The lines of a command that must succeed, as JSON. All are verified.
fn lines(args: &str) -> Vec<Value> {
    let text = succeeds(&format!("{args} --format json"));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line["verified"] == true), "{args}: {text}");
    lines
}

/// The sizes of a kind, if it has any.
fn sizes(kind: &str) -> &'static str {
    if kind == "barrier" { "" } else { " --elements 1,5,600" }
}

/// The blocks that the busiest shard sends or receives, of P participants.
fn blocks(kind: &str, shards: u64) -> u64 {
    match kind {
        "gather" | "allgather" | "scatter" | "reduce-scatter" | "all-to-all" => shards,
        _ => 1,
    }
}

#[test]
fn every_kind_is_verified_and_its_figures_fit_together() {
    for kind in KINDS {
        for shards in [1, 2, 3, 8] {
            let args = format!("collective --kind {kind} --shards {shards} --iterations 12 --workers 2{}", sizes(kind));
            let lines = lines(&args);
            assert_eq!(lines.len(), if kind == "barrier" { 1 } else { 3 }, "{args}");
            for (line, elements) in lines.iter().zip([1, 5, 600]) {
                let at = format!("{args}: {line}");
                assert_eq!((&line["kind"], &line["shards"]), (&kind.into(), &shards.into()), "{at}");
                assert_eq!((&line["iterations"], &line["workers"]), (&12.into(), &2.into()), "{at}");
                let [avg, min, max] = ["avg", "min", "max"]
                    .map(|of| line[format!("{of}_latency_us")].as_f64().unwrap_or_else(|| panic!("{at}")));
                assert!(0.0 < min && min <= avg * 1.000_001 && avg <= max * 1.000_001, "{at}");
                if kind == "barrier" {
                    assert_eq!(
                        (&line["size"], &line["elements"], &line["type"]),
                        (&0.into(), &Value::Null, &Value::Null)
                    );
                    assert_eq!(line["bandwidth_mb_s"], Value::Null, "{at}");
                    continue;
                }
                assert_eq!((&line["elements"], &line["size"]), (&elements.into(), &(8 * elements).into()), "{at}");
                let bytes = 8 * elements * blocks(kind, shards);
                let bandwidth = line["bandwidth_mb_s"].as_f64().expect("a number");
                assert!((bandwidth * avg / bytes as f64 - 1.0).abs() < 1e-9, "{at}");
            }
        }
    }
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn every_kind_is_verified_on_every_wire() {
    for kind in KINDS {
        for shards in [1, 3, 8] {
            let args = format!("collective --kind {kind} --shards {shards} --iterations 4{}", sizes(kind));
            lines(&format!("{args} --wire virtual --machine infiniband"));
            if cfg!(target_os = "linux") {
                lines(&format!("{args} --wire processes --processes 2 --workers 1"));
            }
        }
    }
}

/// Each algorithm for the kinds that it is for, by its name alone and with a number.
#[test]
fn every_algorithm_is_verified() {
    for (kind, algorithms) in [
        (
            "allreduce",
            "recursive-doubling two-level radix-4 radix-8 halving-doubling sliced direct dissemination-1 dissemination-3 \
             five-cases-3 five-cases-inverse-1",
        ),
        ("barrier", "recursive-doubling two-level radix-4 halving-doubling sliced direct dissemination-3 five-cases-4"),
        ("reduce", "recursive-doubling direct"),
        ("broadcast", "binomial chain-1 chain-16 direct"),
        ("gather", "binomial direct"),
        ("allgather", "two-level bruck ring direct"),
        ("scatter", "binomial direct"),
        ("reduce-scatter", "halving direct"),
        ("all-to-all", "bruck direct"),
        ("scan", "recursive-doubling direct"),
        ("exscan", "recursive-doubling direct"),
    ] {
        for algorithm in algorithms.split_whitespace() {
            let of = if kind == "barrier" { "" } else { " --elements 1,7,100 --type i64" };
            let args = format!("collective --kind {kind} --shards 7 --iterations 4 --workers 2{of}");
            for line in lines(&format!("{args} --algorithm {algorithm}")) {
                assert_eq!(line["algorithm"], algorithm, "{args}");
            }
        }
    }
    let radix = lines("collective --kind allreduce --algorithm radix-16 --elements 3 --iterations 4 --shards 20");
    assert_eq!(radix[0]["algorithm"], "radix-16");
    let usual = lines("collective --kind allreduce --algorithm radix --elements 3 --iterations 4");
    assert_eq!(usual[0]["algorithm"], "radix-4");
}

/// Every type with every operator, where nothing may be rounded differently.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn every_type_and_operator_is_verified() {
    for (of, bytes) in [("i32", 4), ("i64", 8), ("u64", 8), ("f32", 4), ("f64", 8)] {
        for operator in ["sum", "product", "min", "max"] {
            for kind in ["allreduce", "reduce-scatter", "exscan"] {
                let args = format!("collective --kind {kind} --shards 13 --elements 1,9 --iterations 4 --workers 2");
                let lines = lines(&format!("{args} --type {of} --operator {operator}"));
                assert_eq!((&lines[1]["size"], &lines[1]["operator"]), (&(9 * bytes).into(), &operator.into()));
            }
        }
        for kind in ["broadcast", "all-to-all"] {
            let args = format!("collective --kind {kind} --shards 5 --elements 1,9 --iterations 4 --type {of}");
            assert_eq!(lines(&args)[1]["operator"], Value::Null);
        }
    }
}

/// Participants and receivers are any shards, and the others see nothing.
#[test]
fn any_shards_take_part() {
    for (kind, from, to) in [
        ("reduce", "0-3", "5"),
        ("reduce", "2,4,6", "0-7"),
        ("barrier", "1-3,7", "0"),
        ("barrier", "4", "4-6"),
        ("gather", "1,3,5-7", "2,5"),
        ("reduce-scatter", "0-4", "5-7"),
        ("broadcast", "6", "0-2"),
        ("scatter", "7", "1,7"),
        ("scan", "0,2,5", "1-3,7"),
        ("exscan", "2-3,6", "0-1,4-7"),
        ("all-to-all", "0-4", "3-7"),
        ("all-to-all", "6", "0-7"),
    ] {
        let of = if kind == "barrier" { "" } else { " --elements 1,20" };
        let args =
            format!("collective --kind {kind} --shards 8 --iterations 6{of} --participants {from} --receivers {to}");
        for wire in ["threads --workers 2", "virtual --machine infiniband"] {
            let line = lines(&format!("{args} --wire {wire}")).swap_remove(0);
            assert_eq!((&line["participants"], &line["receivers"]), (&from.into(), &to.into()), "{line}");
        }
    }
    for (kind, of) in
        [("allreduce", "1,2,6"), ("allgather", "0,5-7"), ("all-to-all", "3-6"), ("scan", "7,1"), ("exscan", "4")]
    {
        lines(&format!("collective --kind {kind} --shards 8 --iterations 6 --elements 1,20 --participants {of}"));
    }
    // Where they are not named.
    for (kind, from, to) in [
        ("reduce", "0-4", "0"),
        ("gather", "0-4", "0"),
        ("broadcast", "0", "0-4"),
        ("scatter", "0", "0-4"),
        ("scan", "0-4", "0-4"),
    ] {
        let line = lines(&format!("collective --kind {kind} --shards 5 --iterations 2 --elements 1")).swap_remove(0);
        assert_eq!((&line["participants"], &line["receivers"]), (&from.into(), &to.into()), "{line}");
    }
}

const FIELDS: &str = "program,wire,machine,nodes,kind,shards,participants,receivers,workers,mapper,type,operator,elements,size,\
                      avg_latency_us,min_latency_us,max_latency_us,iterations,bandwidth_mb_s,algorithm,verified";

#[test]
fn json_and_csv_have_exactly_these_fields() {
    let args = "collective --kind reduce --shards 6 --participants 0,2-4 --iterations 3 --elements 1..4 --workers 2";
    let json = succeeds(&format!("{args} --format json"));
    let csv = succeeds(&format!("{args} --format csv"));
    let names: Vec<&str> = FIELDS.split(',').collect();
    for line in json.lines() {
        let places: Vec<usize> = names.iter().map(|f| line.find(&format!("\"{f}\":")).expect("every field")).collect();
        assert!(places.is_sorted(), "{line}");
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line.as_object().expect("an object").len(), names.len());
    }
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0]), (4, FIELDS));
    for (line, elements) in lines[1..].iter().zip(["1", "2", "4"]) {
        // The list of participants has a comma.
        let before = "collective,threads,,,reduce,6,\"0,2-4\",0,2,collective,f64,sum,";
        let rest = line.strip_prefix(before).unwrap_or_else(|| panic!("{line}"));
        let rest: Vec<&str> = rest.split(',').collect();
        assert_eq!((rest.len(), rest[0], rest[5], rest[8]), (9, elements, "3", "true"), "{line}");
        assert!(rest[1..=6].iter().all(|number| number.parse::<f64>().is_ok()), "{line}");
    }
}

/// The columns that users of the OSU micro-benchmarks know.
#[test]
fn the_table_has_the_columns_of_osu() {
    let table = succeeds(
        "collective --kind allgather --shards 3 --iterations 5 --elements 1,8 --wire virtual --machine infiniband",
    );
    let mut lines = table.lines();
    let heading = lines.next().expect("a heading");
    let machine = "program collective, wire virtual, machine infiniband, nodes 3, kind allgather, shards 3, workers 3";
    assert!(heading.starts_with(machine), "{heading}");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let titles = "Size|Avg Latency(us)|Min Latency(us)|Max Latency(us)|Iterations|Bandwidth(MB/s)|Algorithm|Verified";
    assert_eq!(cells(lines.next().expect("titles")), titles.split('|').collect::<Vec<_>>());
    let rows: Vec<_> = lines.skip(1).map(cells).collect();
    assert_eq!(rows.len(), 2, "{table}");
    for (row, size) in rows.iter().zip(["8", "64"]) {
        assert_eq!((&*row[0], &*row[4], &*row[7]), (size, "5", "yes"), "{table}");
    }
    // Nothing of it is about elements.
    let barrier = succeeds("collective --kind barrier --shards 3 --wire virtual --machine infiniband");
    let titles = cells(barrier.lines().nth(1).expect("titles"));
    assert_eq!(titles.join("|"), "Size|Avg Latency(us)|Min Latency(us)|Max Latency(us)|Iterations|Algorithm|Verified");
    assert!(!barrier.contains("type f64"), "{barrier}");
}

/// Times on a machine in virtual time are the same everywhere.
#[test]
fn the_guide_shows_what_the_command_prints() {
    let guide = include_str!("../../../src/guide/measuring.md");
    let (_, after) = guide.split_once("```text\nmaniple collective --kind allreduce").expect("a command");
    let mut blocks = after.split("```");
    let command = blocks.next().expect("the rest of the command");
    let shown = blocks.nth(1).and_then(|block| block.strip_prefix("text\n")).expect("what it prints");
    let printed = succeeds(&format!("collective --kind allreduce {}", command.trim()));
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    assert_eq!(printed.join("\n").trim_end(), shown.trim_end());
}

#[test]
fn iterations_go_with_the_size() {
    let of = |args: &str| -> Vec<u64> {
        let lines = lines(&format!("collective --kind reduce --shards 2 {args}"));
        lines.iter().map(|line| line["iterations"].as_u64().expect("a number")).collect()
    };
    assert_eq!(of("--elements 1024,1025"), [1000, 100]);
    assert_eq!(of("--elements 2048,2049 --type f32"), [1000, 100]);
    assert_eq!(of("--elements 1024,1025 --wire virtual --machine local"), [20, 20]);
    assert_eq!(of("--elements 1024,1025 --iterations 7"), [7, 7]);
}

/// Times in virtual time are of the machine: the same each time, and longer over a longer way.
#[test]
fn virtual_time_repeats_itself() {
    let args = |shards: u32| {
        format!("collective --kind allreduce --shards {shards} --elements 1,1000 --wire virtual --machine infiniband")
    };
    assert_eq!(succeeds(&args(16)), succeeds(&args(16)));
    let us = |shards: u32| lines(&args(shards))[0]["avg_latency_us"].as_f64().expect("a number");
    // Four rounds take about twice as long as two.
    let ratio = us(16) / us(4);
    assert!((1.7..2.3).contains(&ratio), "{ratio}");
    let broadcast = |elements: &str| {
        let args =
            format!("collective --kind broadcast --shards 2 --elements {elements} --wire virtual --machine infiniband");
        lines(&args)[0]["max_latency_us"].as_f64().expect("a number")
    };
    assert!(broadcast("100000") > 2.0 * broadcast("1"));
}

/// Without --algorithm the report names the mapper's choice, and the mapper is asked as ever.
#[test]
fn the_mappers_choice_is_reported() {
    let args = "collective --kind allreduce --shards 8 --elements 1 --iterations 2 --workers 2";
    for (mapper, algorithm) in [("collective", "two-level"), ("default", "recursive-doubling")] {
        let line = lines(&format!("{args} --mapper {mapper}")).swap_remove(0);
        assert_eq!((&line["mapper"], &line["algorithm"]), (&mapper.into(), &algorithm.into()));
    }
    let log = std::env::temp_dir().join(format!("maniple-collective-{}.jsonl", std::process::id()));
    let line = lines(&format!("{args} --mapper logging,file={},inner=default", log.display())).swap_remove(0);
    assert_eq!(line["algorithm"], "recursive-doubling");
    let logged = std::fs::read_to_string(&log).expect("a log");
    std::fs::remove_file(&log).expect("removed");
    assert!(logged.contains("\"call\":\"choose_algorithm\",\"subject\":\"measured\""), "{logged}");
}

#[test]
fn algorithms_that_the_laws_forbid_are_refused() {
    let sums = "which is not";
    let other = "--order";
    let groups = [
        "associative bit for bit",
        "two-level needs unless all groups have the same power of two of shards",
        "or the order `Any`",
    ];
    refused("allreduce --algorithm two-level --shards 7 --workers 2", &groups);
    refused(
        "allreduce --algorithm two-level --workers 2 --order left",
        &["in the order of a loop: sliced or direct", "two-level"],
    );
    refused("broadcast --order any", &[other, "broadcast", "it combines nothing"]);
    refused("barrier --order left", &[other, "barrier", "it combines nothing"]);
    for (args, words) in [
        (
            "allreduce --algorithm dissemination",
            ["--algorithm dissemination-3", "associative bit for bit", "sum of f64", sums],
        ),
        (
            "allreduce --algorithm five-cases-2 --type f32",
            ["--algorithm five-cases-2", "associative", "sum of f32", sums],
        ),
        (
            "allreduce --algorithm dissemination --operator product",
            ["--algorithm dissemination-3", "associative", "product of f64", sums],
        ),
        ("scan --algorithm direct", ["--algorithm direct", "associative bit for bit", "sum of f64", sums]),
        (
            "exscan --algorithm direct --type f32 --operator product",
            ["--algorithm direct", "associative", "product of f32", sums],
        ),
    ] {
        refused(args, &words);
    }
    // Others obey them.
    for args in [
        "allreduce --algorithm dissemination --type u64",
        "allreduce --algorithm dissemination --operator max",
        "allreduce --algorithm two-level --workers 2 --order any",
        "allreduce --algorithm two-level --workers 2 --type i64",
        "allreduce --order left",
        "scan --algorithm direct --order left",
        "scan --algorithm direct --type i32 --operator product",
        "scan --algorithm direct --operator min",
        "barrier --algorithm dissemination",
    ] {
        lines(&format!(
            "collective --kind {args} --iterations 2 --shards 5{}",
            if args.starts_with('b') { "" } else { " --elements 3" }
        ));
    }
}

/// A command that is refused with exit code 2, in one message with these words.
fn refused(args: &str, words: &[&str]) {
    let output = maniple(&format!("collective --kind {args}"));
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{args}: {said}");
    assert!(said.starts_with("maniple: error: ") && words.iter().all(|word| said.contains(word)), "{args}: {said}");
    assert_eq!(said.matches("error: ").count(), 1, "{args}: {said}");
}

/// For each algorithm a kind that it is not for.
#[test]
fn algorithms_of_other_kinds_are_refused() {
    for (kind, algorithms) in [
        ("allreduce", "binomial chain bruck ring"),
        ("barrier", "binomial chain bruck ring"),
        (
            "reduce",
            "two-level radix halving-doubling sliced halving dissemination five-cases five-cases-inverse binomial ring",
        ),
        ("broadcast", "recursive-doubling two-level radix halving-doubling sliced dissemination five-cases bruck ring"),
        ("gather", "recursive-doubling two-level chain bruck ring dissemination"),
        ("allgather", "recursive-doubling binomial chain dissemination"),
        ("scatter", "recursive-doubling chain bruck ring"),
        ("reduce-scatter", "recursive-doubling halving-doubling binomial ring"),
        ("all-to-all", "recursive-doubling binomial ring"),
        ("scan", "two-level binomial dissemination"),
        ("exscan", "two-level binomial dissemination"),
    ] {
        for algorithm in algorithms.split(' ') {
            let args = format!("{kind} --algorithm {algorithm}");
            refused(&args, &[&format!("--algorithm {algorithm}"), "expected an algorithm for this", "direct"]);
        }
    }
    refused("allreduce --algorithm two-level --participants 0-3", &["found two-level, which needs all shards"]);
    refused(
        "reduce --algorithm radix --receivers 1-3",
        &["recursive-doubling or direct, found radix-4, which needs the shards"],
    );
}

#[test]
fn where_there_are_no_five_cases_the_algorithm_of_bruck_and_ho_is_taken_and_named() {
    let args = "collective --kind allreduce --type i64 --elements 1 --iterations 2 --workers 2";
    for (asked, shards, algorithm) in [
        ("five-cases-1", 12, "five-cases-1"),
        ("five-cases-1", 13, "dissemination-1"),
        ("five-cases-inverse-1", 12, "five-cases-inverse-1"),
        // Nothing is left out.
        ("five-cases-inverse-1", 9, "five-cases-1"),
        ("five-cases-inverse-1", 13, "dissemination-1"),
    ] {
        assert_eq!(lines(&format!("{args} --algorithm {asked} --shards {shards}"))[0]["algorithm"], algorithm);
    }
    refused("allreduce --type i64 --operator max --shards 12 --algorithm five-cases-inverse-1", &["invertible", "max"]);
}

#[test]
fn numbers_of_shards_that_algorithms_do_not_have_are_refused() {
    refused("allreduce --algorithm sliced --shards 8193", &["at most 8192 shards for sliced, found 8193"]);
    refused("all-to-all --algorithm bruck --shards 8193", &["at most 8192 shards for bruck, found 8193"]);
    refused(
        "all-to-all --shards 8193",
        &["--kind all-to-all: expected at most 8192 shards for an all-to-all, found 8193"],
    );
    refused(
        "gather --receivers 0,1 --shards 8193",
        &["at most 8192 shards for a gather, found 8193; ", "at one shard"],
    );
    refused(
        "reduce-scatter --shards 8193",
        &["at most 8192 shards for a reduce-scatter, found 8193; ", "an allreduce"],
    );
}

/// The result of a chain of sums, by its definition, and a line for each run.
#[test]
fn chained_allreduces_have_the_exact_result() {
    for (participants, shards) in [("", 0..5), (" --participants 1,3-4", 0..3)] {
        let ranks: Vec<f64> =
            if participants.is_empty() { shards.map(f64::from).collect() } else { vec![1.0, 3.0, 4.0] };
        // Three calls come before the thirty that are measured.
        let expected = (0..33).fold(1.0_f64, |last, _| ranks.iter().map(|rank| last % 97.0 + rank).sum());
        let args =
            format!("collective --kind allreduce --chained --shards 5 --iterations 30 --elements 1,7{participants}");
        let lines = lines(&format!("{args} --repeat 2"));
        assert_eq!(lines.iter().map(|line| &line["elements"]).collect::<Vec<_>>(), [1, 1, 7, 7]);
        for line in lines {
            let [result, right] = ["result", "expected"].map(|name| line[name].as_f64().expect("a number"));
            assert_eq!((result, right), (expected, expected), "{line}");
            assert!(
                line["cache_line_ns"].as_f64().is_some_and(|ns| ns > 0.0) || line["cache_line_ns"].is_null(),
                "{line}"
            );
        }
        let there = succeeds(&format!("{args} --wire virtual --machine local --format json"));
        assert!(there.contains("\"digest\":") && there.contains("\"shard_rounds_per_s\":"), "{there}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    for (args, words) in [
        ("sum", "invalid value 'sum' for '--kind <KIND>'"),
        (
            "allreduce --algorithm star",
            "unknown collective algorithm `star`, expected one of: recursive-doubling, two-level, radix-4 (or",
        ),
        (
            "allreduce --algorithm radix-3",
            "collective algorithm `radix-3`: expected a power of two from 2 to 64 after `radix`",
        ),
        (
            "allreduce --algorithm dissemination-65",
            "collective algorithm `dissemination-65`: expected a number from 1 to 64 after `dissemination`",
        ),
        (
            "allreduce --algorithm dissemination-0",
            "collective algorithm `dissemination-0`: expected a number from 1 to 64 after `dissemination`",
        ),
        ("allreduce --algorithm direct-8", "unknown collective algorithm `direct-8`"),
        ("allreduce --shards 0", "--shards: expected at least 1, found 0"),
        ("allreduce --shards 1e12", "shards, found 1000000000000"),
        ("allreduce --elements 0", "expected at least 1, found 0"),
        ("allreduce --elements 4,2", "expected increasing numbers, found 2 after 4"),
        ("allreduce --elements 1,,2", "found an empty text in place of one"),
        ("allreduce --elements 1M", "a whole number, such as 16 or 1e3, found `1M`"),
        ("allreduce --elements 1e15", "of memory, and"),
        ("gather --elements 1e20", "a number up to 18446744073709551615"),
        ("all-to-all --elements 18446744073709551615", "of memory, and"),
        ("allreduce --iterations 0", "--iterations: expected at least 1, found 0"),
        ("allreduce --workers 0", "--workers: expected at least 1, found 0"),
        ("allreduce --type f16", "'f16'"),
        ("allreduce --operator mean", "'mean'"),
        ("allreduce --participants 0-16", "--participants: expected shards in 0..16, found 16"),
        ("allreduce --participants 3-1", "a range that grows, found `3-1`"),
        ("allreduce --participants 1,1", "each shard once, found 1 twice"),
        ("allreduce --participants 0..3", "expected shards, such as `0-3,7`, found `0..3`"),
        ("allreduce --participants 0-18446744073709551615", "expected shards in 0..16"),
        ("allreduce --receivers 0", "--receivers is not for allreduce: all participants receive; take --kind reduce"),
        ("allgather --receivers 0", "--receivers is not for allgather: all participants receive; take --kind gather"),
        (
            "scan --participants 3,5 --receivers 2-4",
            "--receivers: expected no shard before 3, the first participant, found 2",
        ),
        (
            "all-to-all --receivers 0-3 --algorithm bruck",
            "found bruck, which needs the shards that contribute to be those",
        ),
        ("reduce --receivers 99", "--receivers: expected shards in 0..16, found 99"),
        ("broadcast --participants 0,1", "--participants: expected one shard for broadcast, found 2"),
        ("scatter --participants 0-15", "--participants: expected one shard for scatter, found 16"),
        ("broadcast --operator sum", "--operator is not for broadcast: it combines nothing"),
        ("barrier --operator sum", "--operator is not for barrier: it combines nothing"),
        ("barrier --elements 1", "--elements is not for barrier: it has no elements"),
        ("barrier --type i32", "--type is not for barrier: it has no elements"),
        ("allreduce --machine local", "--machine, --nodes and --noise are for --wire virtual"),
        ("allreduce --wire virtual --workers 2", "--workers, --bind and --utility are for --wire threads"),
        ("scan --chained", "--chained: expected --kind allreduce of f64, found scan of f64"),
        ("allreduce --chained --type i32", "--chained: expected --kind allreduce of f64, found allreduce of i32"),
        ("allreduce --repeat 0", "--repeat: expected at least 1, found 0"),
        ("allreduce --shards 16777215 --elements 1000", "of memory, and"),
        ("allreduce --trace /no/such/directory", "/no/such/directory: can't be written"),
    ] {
        refused(args, &[words]);
    }
}
