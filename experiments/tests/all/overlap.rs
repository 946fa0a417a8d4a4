//! `maniple-experiments overlap`: Figure 12 of "Advanced collective communication in Aspen" in virtual time.

use crate::common::maniple;
use std::collections::HashMap;

/// The lines of a report, by column.
fn lines(args: &str) -> Vec<HashMap<String, String>> {
    let output = maniple(&format!("overlap {args} --format csv"));
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a head").split(',').collect();
    lines
        .map(|line| names.iter().map(|name| name.to_string()).zip(line.split(',').map(str::to_owned)).collect())
        .collect()
}

fn number(line: &HashMap<String, String>, name: &str) -> f64 {
    line[name].parse().unwrap_or_else(|e| panic!("{name} of {line:?}: {e}"))
}

/// A LogGP bound from the numbers of the machine's file, in microseconds: a message of `bytes` bytes.
fn message_us(bytes: f64) -> f64 {
    let file: toml::Table = include_str!("../../../command/machines/ethernet.toml").parse().expect("TOML");
    let [send, latency, byte, receive] = ["send_ns", "latency_ns", "byte_ns", "receive_ns"]
        .map(|name| file["network"][name]["value"].as_integer().expect("a whole number") as f64);
    (send + latency + byte * bytes + receive) / 1000.0
}

/// The paper's text: concurrent reductions are more than twice as fast as a reduction and a broadcast one after the other, and
/// balancing gains up to 25 %.
#[test]
fn concurrent_reductions_are_twice_as_fast_and_balance_gains_more() {
    let all = lines("--elements 1,8,64,8192 --iterations 4");
    assert_eq!(all.len(), 3 * 4);
    let mut best: HashMap<String, f64> = HashMap::new();
    for line in &all {
        assert_eq!(line["verified"], "true", "{line:?}");
        let [one_by_one, concurrent, balanced] =
            ["one_by_one_us", "concurrent_us", "balanced_us"].map(|name| number(line, name));
        let (workload, bytes) = (&line["workload"], number(line, "bytes"));
        if bytes <= 512.0 {
            assert!(balanced <= 0.5 * one_by_one, "{line:?}");
            assert!(concurrent <= 0.5 * one_by_one, "{line:?}");
        }
        // The sums go two messages one after the other; and one by one at least four, or two for each receiver.
        assert!(balanced >= 2.0 * message_us(bytes), "{line:?}");
        assert!(one_by_one >= 4.0 * message_us(bytes), "{line:?}");
        let gain = best.entry(workload.clone()).or_insert(f64::INFINITY);
        *gain = gain.min(balanced / concurrent);
    }
    // Made one by one, the reductions of the paper are balanced as they are; in reverse they are not.
    assert_eq!(best["paper"], 1.0);
    assert!(best["reverse"] <= 0.8 && best["each"] <= 0.8, "{best:?}");
    let [paper, reverse] = ["paper", "reverse"].map(|name| all.iter().find(|line| line["workload"] == name).unwrap());
    assert_eq!((&*paper["balanced_messages"], &*reverse["balanced_messages"]), ("2", "2"));
    assert_eq!((&*paper["concurrent_messages"], &*reverse["concurrent_messages"]), ("2", "3"));
    assert_eq!(paper["balanced_us"], reverse["balanced_us"]);
}

#[test]
fn any_number_of_shards() {
    for (shards, before, after) in [("1", 0.0, 0.0), ("2", 1.0, 1.0), ("8", 13.0, 8.0)] {
        let all =
            lines(&format!("--workload each --shards {shards} --elements 1,100 --iterations 2 --machine infiniband"));
        assert_eq!(all.len(), 2);
        for line in all {
            assert_eq!((&*line["verified"], &*line["nodes"]), ("true", shards));
            assert_eq!(number(&line, "concurrent_messages"), before);
            assert!(number(&line, "balanced_messages") <= after, "{line:?}");
        }
    }
}

#[test]
fn arguments_at_fault() {
    for (args, expected) in [
        ("--shards 0", "--shards: expected 1 to 256, found 0"),
        ("--shards 257", "--shards: expected 1 to 256, found 257"),
        ("--iterations 0", "--iterations: expected at least 1, found 0"),
        ("--machine nowhere", "unknown machine `nowhere`"),
        ("--workload some", "invalid value 'some'"),
        ("--elements 1e15", "vectors of 1000000000000000 elements: this needs at least"),
    ] {
        let output = maniple(&format!("overlap {args}"));
        assert_eq!(output.status.code(), Some(2), "{args}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(expected), "{args}: {message}");
    }
}
