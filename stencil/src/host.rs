//! What a run in virtual time takes of the host.

use maniple::prelude::Stats;
use serde::Serialize;
use std::time::Duration;

/// What the driver of virtual time did, and what that took of the host: fields of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostRun {
    /// Events of the run.
    pub events: u64,
    /// A hash of them, in hexadecimal: the same for each run of the same program on the same machine.
    pub digest: String,
    /// Seconds of the host.
    pub host_s: f64,
    /// Rounds of collectives, those of each shard counted, that the host did in a second; 0 where there are none.
    pub shard_rounds_per_s: f64,
    /// Most memory that the process has had so far, in bytes; in JSON `null` where the host does not say.
    pub peak_bytes: Option<u64>,
}

impl HostRun {
    /// Of a run that took so long, if it was in virtual time.
    pub fn of(stats: &Stats, took: Duration) -> Option<Self> {
        // A round is an update and a read.
        let rounds = stats.chain_subtasks / 2;
        let host_s = took.as_secs_f64();
        (stats.events > 0).then(|| Self {
            events: stats.events,
            digest: format!("{:016x}", stats.digest),
            host_s,
            shard_rounds_per_s: rounds as f64 / host_s,
            peak_bytes: peak_memory(),
        })
    }
}

/// Most memory that this process has had so far, in bytes, where Linux says it.
fn peak_memory() -> Option<u64> {
    reported_bytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}

/// The bytes of a line `KEY: … kB`, as Linux reports memory below `/proc`; none if there is no such line.
pub fn reported_bytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024))
}
