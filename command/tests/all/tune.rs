//! `maniple tune` from outside, in virtual time, where times are the same in each run.

use crate::common::maniple;
use maniple::mapper::{ChoiceTable, Kind, Layout, Nodes};
use serde_json::Value;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

const ON: &str = "--wire virtual --machine infiniband --iterations 5";

/// The time and the algorithm of an allreduce of integers.
fn measured(shards: u32, options: &str) -> (f64, String) {
    let command =
        format!("collective --kind allreduce --type i64 --elements 1 --shards {shards} {ON} --format json{options}");
    let output = maniple(&command);
    assert_eq!(output.status.code(), Some(0), "{command}: {}", text(&output.stderr));
    let line: Value = serde_json::from_slice(&output.stdout).expect("a JSON object");
    assert_eq!(line["verified"], true, "{command}");
    (line["avg_latency_us"].as_f64().expect("a number"), line["algorithm"].as_str().expect("a name").into())
}

/// A table for these, and what the command said.
fn tuned(folder: &tempfile::TempDir, options: &str) -> (String, String) {
    let table = folder.path().join("table.toml").to_str().expect("UTF-8").to_owned();
    let command = format!("tune --wire virtual --machine infiniband --output {table} {options}");
    let output = maniple(&command);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), ""), "{command}: {}", text(&output.stderr));
    (table, text(&output.stderr).to_owned())
}

/// A mapper with the table takes an algorithm that is as fast as the best of all, for numbers of shards that were measured.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_mapper_with_the_table_takes_the_fastest() {
    const SHARDS: [u32; 4] = [2, 8, 36, 96];
    let folder = tempfile::tempdir().unwrap();
    let (table, _) = tuned(&folder, "--kind allreduce --elements 1 --shards 2,8,36,96");
    let rows = ChoiceTable::read(&table).unwrap();
    for (shards, row) in SHARDS.into_iter().zip(rows.rows()) {
        assert_eq!((row.kind, row.layout, row.nodes), (Kind::Allreduce, Some(Layout::Apart), Some(Nodes::Several)));
        assert_eq!((row.shards, row.bytes), (shards, 0));
        for name in ["recursive-doubling", "dissemination-1", "dissemination-7", "radix-2", "radix-16"] {
            assert!(row.algorithms.contains(&name.parse().unwrap()), "{name} of {shards} shards");
        }
        let (us, chosen) = measured(shards, &format!(" --mapper collective,table={table}"));
        // Measured one by one, in a process each.
        let others = (1..8).flat_map(|n| [format!("dissemination-{n}"), format!("five-cases-{n}")]);
        let radixes = ["radix-2", "radix-4", "radix-8", "radix-16", "recursive-doubling", "halving-doubling", "sliced"];
        let others =
            others.chain(radixes.map(String::from)).filter(|name| row.algorithms.contains(&name.parse().unwrap()));
        let (best, name) = others
            .map(|name| (measured(shards, &format!(" --algorithm {name}")).0, name))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap();
        assert!(us <= 1.1 * best, "{shards} shards: {chosen} takes {us} µs, {name} {best}");
    }
}

/// The built-in table takes one that is within 10 % of the best, on nodes of a cluster.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn the_built_in_table_is_near_the_best() {
    let named = |name: &str| format!(" --algorithm {name}");
    for shards in [2, 3, 6, 12, 16, 24, 31, 48, 65, 96, 200] {
        let (us, chosen) = measured(shards, "");
        let all = ["recursive-doubling", "radix-4", "radix-8", "radix-16", "direct"].map(String::from);
        let all = all.into_iter().chain((2..8).map(|n| format!("dissemination-{n}")));
        let best = all.map(|name| measured(shards, &named(&name)).0).fold(f64::INFINITY, f64::min);
        assert!(us <= 1.1 * best, "{shards} shards: {chosen} takes {us} µs, the best {best}");
    }
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn the_report_has_a_line_for_each_row_and_floats_take_what_suits_them() {
    let folder = tempfile::tempdir().unwrap();
    let (table, said) = tuned(&folder, "--kind barrier,allreduce,scan --shards 1,48 --elements 1,64");
    // A header, a line below it, and 2 numbers of shards with 1 size for barriers and 2 for the others.
    assert_eq!(said.lines().count(), 2 + 2 * (1 + 2 + 2), "{said}");
    let read = ChoiceTable::read(&table).unwrap();
    assert_eq!((read.machine(), read.date().len()), ("infiniband", "2026-01-01".len()));
    assert!(read.command().starts_with("maniple tune --wire virtual"), "{}", read.command());
    let of_48 = read.rows().iter().filter(|row| row.shards == 48).map(|row| (row.kind.name(), row.bytes));
    assert_eq!(
        of_48.collect::<Vec<_>>(),
        [("allreduce", 0), ("allreduce", 1), ("allreduce", 512), ("scan", 0), ("scan", 512)]
    );
    // Floats forbid most of these algorithms, so another one of the row is taken.
    let (_, integers) = measured(48, &format!(" --mapper collective,table={table}"));
    let floats = maniple(&format!(
        "collective --kind allreduce --elements 1 --shards 48 {ON} --format json --mapper collective,table={table}"
    ));
    let line: Value = serde_json::from_slice(&floats.stdout).expect("a JSON object");
    let name = line["algorithm"].as_str().unwrap();
    assert!(!name.starts_with("dissemination") && !name.starts_with("five"), "{name}");
    let row = &read.rows().iter().find(|row| row.shards == 48 && row.bytes == 1).unwrap().algorithms;
    let position = |name: &str| row.iter().position(|other| other.to_string() == name).unwrap();
    assert!(position(&integers) == 0 && position(name) > 0, "{integers}, {name}: {row:?}");
}

#[test]
fn what_is_no_table_or_no_kind_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.toml");
    std::fs::write(&table, "machine = 3").unwrap();
    let misspelt = folder.path().join("misspelt.toml");
    let row = "[[row]]\nkind = \"scan\"\nshards = 1\nbytes = 0\nalgorithms = [\"star\"]";
    std::fs::write(&misspelt, format!("machine = \"m\"\ndate = \"d\"\ncommand = \"c\"\n{row}")).unwrap();
    for (args, expected) in [
        (
            format!("collective --kind scan --shards 2 --mapper collective,table={}", table.display()),
            "expected a table",
        ),
        (
            format!("collective --kind scan --shards 2 --mapper collective,table={}", misspelt.display()),
            "misspelt.toml: unknown collective algorithm `star`, expected one of: recursive-doubling, two-level,",
        ),
        (
            "collective --kind scan --shards 2 --mapper collective,table=/nowhere".into(),
            "can't read the table /nowhere",
        ),
        ("collective --kind scan --shards 2 --mapper collective,rows=3".into(), "unknown option `rows`"),
        ("tune --kind stencil".into(), "invalid value 'stencil'"),
        (format!("tune --mapper collective,table={0} --output {0}", table.display()), "--mapper"),
        ("tune --rounds 0".into(), "rounds"),
        ("tune --kind scan,barrier,scan".into(), "--kind: expected each kind once, found scan twice"),
        ("tune --shards 2 --wire virtual --workers 2".into(), "--workers, --bind and --utility are for --wire threads"),
        ("tune --kind all-to-all --elements 999999999999".into(), "of memory"),
        // Its bytes are 2^64.
        ("tune --kind all-to-all --elements 2305843009213693952".into(), "of memory"),
        ("tune --shards 4,2".into(), "increasing"),
    ] {
        let output = maniple(&args);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{args}: {said}");
    }
}
