//! The host that a process runs on: hardware threads it may use, cores, packages, caches and NUMA nodes.
//!
//! A processor here is one of the operating system. It is not a processor of a [`Machine`](crate::Machine), which is a
//! worker of a run.

// `hwloc2` is sound there only: see the module.
#[cfg(all(feature = "hwloc", target_pointer_width = "64"))]
mod hwloc;
mod sys;

pub use sys::cpu_list;

use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// The host as a process sees it. It has only the processors that the process may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// The source of this information.
    pub source: Source,
    /// In ascending order of `os`; never empty.
    pub cpus: Vec<Cpu>,
    /// Caches from the first level to the last, each with the processors that share it.
    pub caches: Vec<Cache>,
    /// In ascending order of `os`; never empty.
    pub numa: Vec<NumaNode>,
}

/// The source of a [`Topology`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The library hwloc. The memory of NUMA nodes, their distances and the instruction caches come from `/sys`.
    Hwloc,
    /// The directory `/sys` of Linux.
    Sys,
    /// The affinity mask alone. Each processor counts as a core, and all are in one package and one NUMA node.
    Mask,
}

/// A processor as the operating system counts them: a hardware thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// The operating system's number.
    pub os: u32,
    /// Its core: the lowest number among the core's processors, including those that this process may not use.
    pub core: u32,
    /// The operating system's number of its package.
    pub package: u32,
    /// The operating system's number of its NUMA node.
    pub numa: u32,
}

/// A cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cache {
    /// The level; 1 is next to the core.
    pub level: u32,
    /// The kind of content.
    pub kind: CacheKind,
    /// The processors that share it, by the operating system's numbers, in ascending order.
    pub cpus: Vec<u32>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Size of a line in bytes, if known.
    pub line: Option<u32>,
}

/// The content of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// Memory that some processors are closer to than others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NumaNode {
    /// The operating system's number.
    pub os: u32,
    /// Its processors, by the operating system's numbers, in ascending order.
    pub cpus: Vec<u32>,
    /// Its memory in bytes, if known.
    pub bytes: Option<u64>,
    /// Distances to the nodes in [`Topology::numa`], in their order: 10 is near, 20 is twice as far. Empty if unknown.
    pub distances: Vec<u32>,
}

impl NumaNode {
    /// The single node of a host that gives no information about nodes.
    fn only(cpus: &BTreeSet<u32>) -> Self {
        Self { os: 0, cpus: cpus.iter().copied().collect(), bytes: None, distances: vec![10] }
    }
}

impl Topology {
    /// The host as the calling thread sees it, within the thread's affinity mask. The information comes from hwloc, if
    /// that is built in (feature `hwloc`), or else from the system. This never fails, but may give little information.
    pub fn here() -> Self {
        let allowed = allowed();
        let root = Path::new("/sys/devices/system");
        #[cfg(all(feature = "hwloc", target_pointer_width = "64"))]
        if let Some(host) = hwloc::read(root, &allowed) {
            return host;
        }
        sys::read(root, &allowed).unwrap_or_else(|| Self::of_mask(&allowed))
    }

    /// An invented host for tests of mappers: `nodes` NUMA nodes of `cores` cores each, one package for each node.
    /// Distances are 10 within a node and 20 between nodes.
    pub fn made_up(nodes: u32, cores: u32) -> Self {
        let node = |os: u32| NumaNode {
            os,
            cpus: (os * cores..(os + 1) * cores).collect(),
            bytes: None,
            distances: (0..nodes).map(|other| if other == os { 10 } else { 20 }).collect(),
        };
        let cpu = |os: u32| Cpu { os, core: os, package: os / cores, numa: os / cores };
        Self {
            source: Source::Mask,
            cpus: (0..nodes * cores).map(cpu).collect(),
            caches: Vec::new(),
            numa: (0..nodes).map(node).collect(),
        }
    }

    /// The host as the affinity mask alone gives it.
    fn of_mask(allowed: &BTreeSet<u32>) -> Self {
        let cpus: Vec<Cpu> = allowed.iter().map(|&os| Cpu { os, core: os, package: 0, numa: 0 }).collect();
        Self { source: Source::Mask, cpus, caches: Vec::new(), numa: vec![NumaNode::only(allowed)] }
    }

    /// Number of cores of which this process may use a processor.
    pub fn cores(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.core).collect::<BTreeSet<_>>().len()
    }

    /// The processor that each of `workers` should be bound to. Each worker gets a core of its own as long as there are cores,
    /// and the cores of one NUMA node are used before the cores of the next. None if there are fewer processors than workers.
    pub fn binding(&self, workers: usize) -> Option<Vec<u32>> {
        let mut order: Vec<(usize, &Cpu)> = Vec::with_capacity(self.cpus.len());
        for cpu in &self.cpus {
            let siblings_before = order.iter().filter(|(_, other)| other.core == cpu.core).count();
            order.push((siblings_before, cpu));
        }
        order.sort_by_key(|(nth, cpu)| (*nth, cpu.numa, cpu.package, cpu.core, cpu.os));
        (workers <= order.len()).then(|| order[..workers].iter().map(|(_, cpu)| cpu.os).collect())
    }
}

/// The processors that the calling thread may use.
fn allowed() -> BTreeSet<u32> {
    let of_mask = std::fs::read_to_string("/proc/thread-self/status").ok().and_then(|text| {
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        cpu_list(list.trim())
    });
    // Elsewhere than on Linux only their number is known.
    let counted = || (0..std::thread::available_parallelism().map_or(1, |n| n.get() as u32)).collect();
    of_mask.filter(|cpus| !cpus.is_empty()).unwrap_or_else(counted)
}

/// Shows the host as a tree: packages, their NUMA nodes, cores and processors, with the caches that each level shares.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packages: BTreeSet<u32> = self.cpus.iter().map(|cpu| cpu.package).collect();
        let from = match self.source {
            Source::Hwloc => "from hwloc",
            Source::Sys => "from /sys",
            Source::Mask => "from the affinity mask alone",
        };
        let some = |n: usize, one: &str, more: &str| format!("{n} {}", if n == 1 { one } else { more });
        let cpus = some(self.cpus.len(), "processor", "processors");
        let cores = some(self.cores(), "core", "cores");
        let packages_of = some(packages.len(), "package", "packages");
        let nodes = some(self.numa.len(), "NUMA node", "NUMA nodes");
        writeln!(f, "{cpus} on {cores}, {packages_of}, {nodes}, {from}")?;
        // A cache is shown once. Caches of one core are shown with the core.
        let cores_in = |cpus: &[&Cpu]| cpus.iter().map(|cpu| cpu.core).collect::<BTreeSet<_>>().len();
        for package in packages {
            let of_package: Vec<&Cpu> = self.cpus.iter().filter(|cpu| cpu.package == package).collect();
            let shared = if cores_in(&of_package) > 1 { self.shared_by(&of_package) } else { String::new() };
            writeln!(f, "package {package}{shared}")?;
            for node in &self.numa {
                let of_node: Vec<&Cpu> = of_package.iter().filter(|cpu| cpu.numa == node.os).copied().collect();
                if of_node.is_empty() {
                    continue;
                }
                let memory = node.bytes.map_or(String::new(), |bytes| format!(", {}", size(bytes)));
                let only_here = of_node.len() < of_package.len() && cores_in(&of_node) > 1;
                let shared = if only_here { self.shared_by(&of_node) } else { String::new() };
                writeln!(f, "  NUMA node {}{memory}{shared}", node.os)?;
                for core in of_node.iter().map(|cpu| cpu.core).collect::<BTreeSet<_>>() {
                    let of_core: Vec<&Cpu> = of_node.iter().filter(|cpu| cpu.core == core).copied().collect();
                    let names: Vec<String> = of_core.iter().map(|cpu| cpu.os.to_string()).collect();
                    writeln!(f, "    core {core}: processor {}{}", names.join(", "), self.shared_by(&of_core))?;
                }
            }
        }
        if self.numa.len() > 1 && self.numa.iter().all(|node| !node.distances.is_empty()) {
            writeln!(f, "distances between NUMA nodes")?;
            for node in &self.numa {
                let row: Vec<String> = node.distances.iter().map(u32::to_string).collect();
                writeln!(f, "  {}: {}", node.os, row.join(" "))?;
            }
        }
        Ok(())
    }
}

impl Topology {
    /// The caches that exactly these processors share, as text.
    fn shared_by(&self, cpus: &[&Cpu]) -> String {
        let of = |cache: &&Cache| cache.cpus.iter().copied().eq(cpus.iter().map(|cpu| cpu.os));
        let text = |cache: &Cache| {
            let kind = match cache.kind {
                CacheKind::Data => "d",
                CacheKind::Instruction => "i",
                CacheKind::Unified => "",
            };
            format!(", L{}{kind} {}", cache.level, size(cache.bytes))
        };
        self.caches.iter().filter(of).map(text).collect()
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes / 1024),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_nodes_of_two_cores_of_two_threads() -> Topology {
        let cpus = (0..8).map(|os| Cpu { os, core: os % 4, package: os % 4 / 2, numa: os % 4 / 2 }).collect();
        let node = |os, cpus: &[u32], distances: &[u32]| NumaNode {
            os,
            cpus: cpus.to_vec(),
            bytes: Some(2 << 30),
            distances: distances.to_vec(),
        };
        let cache =
            |level, kind, cpus: &[u32], bytes| Cache { level, kind, cpus: cpus.to_vec(), bytes, line: Some(64) };
        Topology {
            source: Source::Sys,
            cpus,
            caches: vec![
                cache(1, CacheKind::Data, &[0, 4], 48 << 10),
                cache(1, CacheKind::Instruction, &[0, 4], 32 << 10),
                cache(2, CacheKind::Unified, &[1, 5], 2 << 20),
                cache(3, CacheKind::Unified, &[0, 1, 4, 5], 30 << 20),
            ],
            numa: vec![node(0, &[0, 1, 4, 5], &[10, 21]), node(1, &[2, 3, 6, 7], &[21, 10])],
        }
    }

    #[test]
    fn workers_get_a_core_each_first_and_stay_together() {
        let host = two_nodes_of_two_cores_of_two_threads();
        assert_eq!(host.binding(1), Some(vec![0]));
        assert_eq!(host.binding(4), Some(vec![0, 1, 2, 3]));
        assert_eq!(host.binding(6), Some(vec![0, 1, 2, 3, 4, 5]));
        assert_eq!(host.binding(8), Some((0..8).collect()));
        assert_eq!(host.binding(9), None);
        assert_eq!(host.cores(), 4);
    }

    #[test]
    fn the_tree_shows_every_cache_where_it_is_shared() {
        let tree = two_nodes_of_two_cores_of_two_threads().to_string();
        let expected = "\
8 processors on 4 cores, 2 packages, 2 NUMA nodes, from /sys
package 0, L3 30 MiB
  NUMA node 0, 2.0 GiB
    core 0: processor 0, 4, L1d 48 KiB, L1i 32 KiB
    core 1: processor 1, 5, L2 2 MiB
package 1
  NUMA node 1, 2.0 GiB
    core 2: processor 2, 6
    core 3: processor 3, 7
distances between NUMA nodes
  0: 10 21
  1: 21 10
";
        assert_eq!(tree, expected);
    }

    #[test]
    fn this_host_is_within_the_mask() {
        let (host, allowed) = (Topology::here(), allowed());
        assert_eq!(host.cpus.iter().map(|cpu| cpu.os).collect::<BTreeSet<_>>(), allowed);
        assert!(!host.numa.is_empty() && host.cores() <= host.cpus.len());
        assert!(host.cpus.iter().all(|cpu| host.numa.iter().any(|n| n.os == cpu.numa && n.cpus.contains(&cpu.os))));
    }
}
