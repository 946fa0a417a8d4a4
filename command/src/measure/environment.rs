//! The origin of figures, kept beside them: the machine, the toolchain and the time.

use maniple_mapper::topology::cpu_list;
use serde::Serialize;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine as it is now. A field is `None` if the system does not report it. All but the architecture comes from Linux's
/// `/proc` and `/sys`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// The operating system and the architecture, such as `linux x86_64`.
    pub system: String,
    /// The release of the kernel.
    pub kernel: Option<String>,
    /// The name of the host.
    pub hostname: Option<String>,
    /// The model of the first processor.
    pub cpu: Option<String>,
    /// Processors that are online.
    pub processors: Option<usize>,
    /// Processors that this process may use, within the limits of its container.
    pub available: Option<usize>,
    /// The processors in the affinity mask, such as `0-3,8`.
    pub affinity: Option<String>,
    /// The governor of the clock rate of processor 0, such as `performance`.
    pub governor: Option<String>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Load averages over 1, 5 and 15 minutes. Above 0, other programs have been running.
    pub load_average: Option<[f64; 3]>,
}

impl Machine {
    /// Asks the system.
    pub fn now() -> Self {
        let first_line = |path: &str| text(path)?.lines().next().map(|line| line.trim().to_owned());
        Self {
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            hostname: first_line("/proc/sys/kernel/hostname"),
            cpu: text("/proc/cpuinfo").and_then(|text| cpu_model(&text)),
            processors: text("/sys/devices/system/cpu/online").and_then(|list| list_length(list.trim())),
            available: std::thread::available_parallelism().ok().map(usize::from),
            affinity: text("/proc/self/status").and_then(|text| value(&text, "Cpus_allowed_list")),
            governor: first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            memory_bytes: text("/proc/meminfo").and_then(|text| kilobytes(&value(&text, "MemTotal")?)),
            load_average: text("/proc/loadavg").and_then(|text| load_average(&text)),
        }
    }
}

impl Machine {
    /// The memory, for people.
    pub fn memory(&self) -> Option<String> {
        self.memory_bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)))
    }
}

/// The toolchain that built this program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Toolchain {
    /// The version of maniple.
    pub maniple: &'static str,
    /// The output of `rustc --version`.
    pub rustc: &'static str,
    /// The target triple.
    pub target: &'static str,
    /// `release` or `debug`: the built-in profile of cargo that the profile used inherits from.
    pub profile: &'static str,
    /// The optimisation level.
    pub opt_level: &'static str,
    /// The features of the command that are on.
    pub features: Vec<&'static str>,
}

impl Toolchain {
    /// The toolchain of this build.
    pub fn built() -> Self {
        Self {
            maniple: env!("CARGO_PKG_VERSION"),
            rustc: env!("MANIPLE_RUSTC"),
            target: env!("MANIPLE_TARGET"),
            profile: env!("MANIPLE_PROFILE"),
            opt_level: env!("MANIPLE_OPT_LEVEL"),
            features: env!("MANIPLE_FEATURES").split(',').filter(|feature| !feature.is_empty()).collect(),
        }
    }

    /// The features in one line; `None` if there are none.
    pub fn features(&self) -> Option<String> {
        (!self.features.is_empty()).then(|| self.features.join(", "))
    }
}

/// The time, the machine and the toolchain of measurements.
#[derive(Debug, Clone, Serialize)]
pub struct Environment {
    /// The time of the start.
    pub began: String,
    /// The machine before the first run.
    pub machine: Machine,
    /// The toolchain.
    pub toolchain: Toolchain,
}

impl Environment {
    /// The environment as it is now.
    pub fn now() -> Self {
        Self { began: utc_now(), machine: Machine::now(), toolchain: Toolchain::built() }
    }

    /// All of it but the time, for people.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let Self { machine: m, toolchain: t, .. } = self;
        let known = |text: Option<String>| text.unwrap_or_else(|| "not known".into());
        let number = |n: Option<usize>| known(n.map(|n| n.to_string()));
        vec![
            ("processor", known(m.cpu.clone())),
            ("processors online", number(m.processors)),
            ("processors available to the process", number(m.available)),
            ("affinity mask", known(m.affinity.clone())),
            ("governor", known(m.governor.clone())),
            ("memory", known(m.memory())),
            (
                "load average before the first run",
                known(m.load_average.map(|l| l.map(|l| format!("{l:.2}")).join(", "))),
            ),
            ("system", m.system.clone()),
            ("kernel", known(m.kernel.clone())),
            ("host", known(m.hostname.clone())),
            ("maniple", format!("{} for {}", t.maniple, t.target)),
            ("compiler", t.rustc.into()),
            ("profile", format!("{}, opt-level {}", t.profile, t.opt_level)),
            ("features", t.features().unwrap_or_else(|| "none".into())),
        ]
    }
}

/// The time now, as `2026-03-01T12:00:00Z`.
fn utc_now() -> String {
    // A clock before 1970 is not set.
    utc(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// A number of seconds since 1970.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the leap day is the last of its year; 400 years have 146097 days.
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * from_march + 2) / 5 + 1, (from_march + 2) % 12 + 1);
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The value in the first line `name : value`.
fn value(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The model of a processor. Architectures give it different names.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "cpu model", "cpu", "uarch", "Hardware"].into_iter().find_map(|name| value(cpuinfo, name))
}

fn kilobytes(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The length of a list such as `0-3,8`.
fn list_length(list: &str) -> Option<usize> {
    cpu_list(list).map(|cpus| cpus.len()).filter(|&length| length > 0)
}

fn load_average(loadavg: &str) -> Option<[f64; 3]> {
    let mut numbers = loadavg.split_whitespace().map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `date -u -d @N` writes them.
    #[test]
    fn times() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
    }

    #[test]
    fn files_of_linux() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Brand X @ 3.00GHz\n\nprocessor\t: 1\nmodel name\t: Brand Y\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Brand X @ 3.00GHz"));
        assert_eq!(cpu_model("processor\t: 0\nBogoMIPS\t: 48.00\n"), None);
        assert_eq!(value("MemTotal:       2048 kB\n", "MemTotal").and_then(|v| kilobytes(&v)), Some(2 << 20));
        assert_eq!(value("Cpus_allowed:\t3\nCpus_allowed_list:\t0-1\n", "Cpus_allowed_list").as_deref(), Some("0-1"));
        for (list, length) in [("0", Some(1)), ("0-3,8", Some(5)), ("", None), ("3-1", None), ("0-x", None)] {
            assert_eq!(list_length(list), length, "{list}");
        }
        assert_eq!(load_average("0.50 1.25 2.00 1/234 5678\n"), Some([0.5, 1.25, 2.0]));
        assert_eq!(load_average("0.50 1.25\n"), None);
    }

    #[test]
    fn this_machine_and_build() {
        let toolchain = Toolchain::built();
        assert!(toolchain.rustc.starts_with("rustc 1.") && toolchain.target.contains('-'), "{toolchain:?}");
        let machine = Machine::now();
        assert!(machine.system.contains(std::env::consts::ARCH));
        if cfg!(target_os = "linux") {
            assert!(machine.kernel.is_some() && machine.affinity.is_some() && machine.memory_bytes > Some(1 << 20));
            assert!(machine.processors.is_some_and(|n| n >= 1) && machine.load_average.is_some(), "{machine:?}");
        }
    }
}
