//! The decisions that a mapper `logging` of the command has written, in up to four processes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// The logs of a mapper.
pub fn logs(log: &Path) -> impl Iterator<Item = PathBuf> {
    let of_process = |n: u32| format!("{}.{n}", log.display()).into();
    [log.to_owned()].into_iter().chain((1..4).map(of_process).collect::<Vec<_>>())
}

/// The processors whose leaf tasks the mapper has mapped, by the whole lines of its logs.
pub fn asked_by(log: &Path) -> BTreeSet<u64> {
    let text: String = logs(log).filter_map(|log| std::fs::read_to_string(log).ok()).collect();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(|line| line["call"] == "map_leaf").filter_map(|line| line["input"]["processor"].as_u64()).collect()
}

/// Waits, for so long at most, until the leaf tasks of so many processors are mapped by the mapper with this log.
pub fn asked_by_all(child: &mut Child, limit: Duration, log: &Path, processors: u64) {
    let began = Instant::now();
    while asked_by(log) != (0..processors).collect() {
        assert!(began.elapsed() < limit, "{:?} of {processors}", asked_by(log));
        assert_eq!(child.try_wait().expect("ours"), None, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}
