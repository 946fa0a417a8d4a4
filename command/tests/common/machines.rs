//! Machines in virtual time for tests, and the numbers in their files.

use super::csv::{column, csv};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A number of a file.
pub fn number(text: &str, table: &str, name: &str) -> f64 {
    let file: toml::Table = text.parse().expect("TOML");
    let value = table.split('.').fold(&toml::Value::Table(file), |at, key| &at[key])[name]["value"].clone();
    let first = value.as_array().map_or(value.clone(), |levels| levels[0].clone());
    first.as_float().or(first.as_integer().map(|n| n as f64)).expect("a number")
}

pub const LEGION: &str = include_str!("../../machines/titan-legion.toml");
pub const LOCAL: &str = include_str!("../../machines/local.toml");
pub const IDEAL: &str = include_str!("../../machines/ideal.toml");
pub const SMALL: &str = include_str!("../small.toml");

/// A file of its own, which no other test writes.
fn path(name: &str) -> PathBuf {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}.toml", std::process::id()))
}

/// A file with other values for some keys, each where it comes first.
pub fn file(name: &str, text: &str, changes: &[(&str, &str)]) -> PathBuf {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (key, value) in changes {
        let line = lines.iter_mut().find(|line| line.starts_with(&format!("{key} = "))).expect(key);
        *line = format!("{key} = {{ value = {value}, why = \"a test\" }}");
    }
    let path = path(name);
    std::fs::write(&path, lines.join("\n")).expect("written");
    path
}

pub fn measured(args: &str, name: &str) -> f64 {
    let text = csv(args);
    column(&text, name).parse().unwrap_or_else(|e| panic!("{args}: {e}: {text}"))
}

/// Machines on which nothing takes time but a message.
pub fn latency(ns: u32) -> String {
    file(&format!("latency-{ns}"), IDEAL, &[("latency_ns", &ns.to_string())]).display().to_string()
}

/// The options of a machine that has no two processors for shards, and the message that says so.
pub fn without_two() -> (String, &'static str) {
    let machine = file("alone-on-one-node", SMALL, &[("processors", "3"), ("utility", "1")]);
    let message = "expected a machine with two processors for shards, on one node or on two, found `small` with one node \
                   of 3 processors, among them 1 utility processor";
    (format!("--machine {} --nodes 1", machine.display()), message)
}

/// The name of the file of [`SMALL`].
pub fn small() -> PathBuf {
    file("small", SMALL, &[])
}
