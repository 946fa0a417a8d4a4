//! The memory of the host, and the time and memory that a run in virtual time uses.

use crate::output::{Field, field};
use maniple::runtime::Stats;
use std::path::Path;
use std::time::Duration;

/// Events of a run in virtual time, and the time and memory used: fields of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct HostRun {
    /// Events of the run.
    pub events: u64,
    /// A hash of the events, in hexadecimal. It is the same for each run of the same program on the same machine.
    pub digest: String,
    /// Seconds that the run took on this host.
    pub host_s: f64,
    /// Rounds of collectives per second of this host, counted for each shard; 0 if there were none. Two subtasks are a round, as
    /// in recursive doubling.
    pub shard_rounds_per_s: f64,
    /// The most memory that the process has used so far, in bytes; in JSON `null` where the host does not report it.
    pub peak_bytes: Option<u64>,
}

impl HostRun {
    /// The report of a run with these statistics that took this long. `None` if it was not in virtual time.
    pub fn of(stats: &Stats, took: Duration) -> Option<Self> {
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

    /// The fields of a report.
    pub fn fields(&self) -> [(&'static str, Field); 5] {
        [
            field("events", self.events),
            field("digest", &*self.digest),
            field("host_s", self.host_s),
            field("shard_rounds_per_s", self.shard_rounds_per_s),
            field("peak_bytes", self.peak_bytes),
        ]
    }
}

/// The most memory that this process has used so far, in bytes, as Linux reports it.
fn peak_memory() -> Option<u64> {
    reported_bytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}

/// The resident set of this process, in bytes.
pub fn resident() -> Result<u64, String> {
    let path = "/proc/self/status";
    let text = std::fs::read_to_string(path).map_err(|e| format!("can't read {path}, which only Linux has: {e}"))?;
    reported_bytes(&text, "VmRSS").ok_or_else(|| format!("expected a line `VmRSS: … kB` in {path}, found none"))
}

/// The bytes in a line `KEY: … kB`, as Linux reports memory below `/proc`. `None` if there is no such line.
pub fn reported_bytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024))
}

/// Bytes of data that this process may have in all.
///
/// It is the memory that Linux reports as available, plus the memory that the process has already. Memory that an earlier
/// run has freed is often not back with the system, and serves the next run. A lower limit of a container (its control
/// group, or one around it) or of the process (`ulimit -v`, `ulimit -d`) counts instead. Without a report, it is half the
/// address space.
///
/// The limit of a container is not reduced by the memory of its other processes, since some of that is cached files.
pub fn available_memory() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let status = read("/proc/self/status").unwrap_or_default();
    let reported = |key: &str| reported_bytes(&status, key).unwrap_or(0);
    let own = reported("RssAnon");
    let machine = read("/proc/meminfo").and_then(|text| reported_bytes(&text, "MemAvailable")).map(|free| free + own);
    let group = limit_of_groups(&read("/proc/self/cgroup").unwrap_or_default(), read);
    let process = limits_of_process([reported("VmSize"), reported("VmData")], own);
    machine.into_iter().chain(group).chain(process).min().unwrap_or(isize::MAX as u64)
}

/// The lowest limit of the control groups (version 1 or 2) that `/proc/self/cgroup` lists, and of the groups around them.
/// Within a container, groups above its own can't be seen.
fn limit_of_groups(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|c| c == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        let groups = Path::new(path.trim_start_matches('/')).ancestors();
        // Without a limit the file says `max`, which is not a number.
        let limit = |group: &Path| read(&format!("{root}/{}/{file}", group.display()))?.trim().parse().ok();
        groups.filter_map(limit).min()
    });
    limits.min()
}

/// The memory that the process may have by its limits of address space and of data. `used` is what it has of each, `own` its
/// memory for data.
#[cfg(unix)]
fn limits_of_process(used: [u64; 2], own: u64) -> impl Iterator<Item = u64> {
    use rustix::process::{Resource, getrlimit};
    let limits = [Resource::As, Resource::Data].into_iter().zip(used);
    limits.filter_map(move |(resource, used)| {
        let left = getrlimit(resource).current?.saturating_sub(used);
        // Stacks, and the memory that allocators set aside, are not for data.
        Some(left / 4 * 3 + own)
    })
}

#[cfg(not(unix))]
fn limits_of_process(_: [u64; 2], _: u64) -> impl Iterator<Item = u64> {
    std::iter::empty()
}

#[cfg(test)]
mod tests {
    use super::limit_of_groups;

    #[test]
    fn the_least_limit_of_all_groups_around_counts() {
        let files = [
            ("/sys/fs/cgroup//memory.max", "9000\n"),
            ("/sys/fs/cgroup/a/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "5000\n"),
            ("/sys/fs/cgroup/a/b/c/memory.max", "7000\n"),
            ("/sys/fs/cgroup/memory//memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/d/memory.limit_in_bytes", "6000\n"),
        ];
        let read = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.to_string());
        let limit = |groups: &str| limit_of_groups(groups, read);
        assert_eq!(limit("0::/a/b/c\n"), Some(5000));
        assert_eq!(limit("0::/a\n"), Some(9000));
        assert_eq!(limit("0::/\n"), Some(9000));
        assert_eq!(limit("0::/elsewhere/d\n"), Some(9000));
        assert_eq!(limit("5:cpu,memory:/d/e\n3:cpu:/a/b\n"), Some(6000));
        assert_eq!(limit("5:memory:/d\n0::/a/b\n"), Some(5000));
        assert_eq!(limit("5:memory:/\n"), Some(9223372036854771712));
        assert_eq!(limit("3:cpu:/a/b\n"), None);
        for odd in ["", "\n", "::", "0:", "nothing", "0::a:b/c\n"] {
            let _ = limit(odd);
        }
    }
}
