//! The host as Linux describes it in `/sys/devices/system`.

use super::{Cache, CacheKind, Cpu, NumaNode, Source, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The part of the host within `allowed`. `None` if `root` does not list its cores.
pub fn read(root: &Path, allowed: &BTreeSet<u32>) -> Option<Topology> {
    let numa = numa_nodes(root, allowed);
    let node_of: BTreeMap<u32, u32> = numa.iter().flat_map(|n| n.cpus.iter().map(|&cpu| (cpu, n.os))).collect();
    let (mut cpus, mut caches) = (Vec::new(), BTreeSet::new());
    for &os in allowed {
        let dir = root.join(format!("cpu/cpu{os}"));
        let topology = dir.join("topology");
        // Kernels before 5 use the second name.
        let siblings =
            ["core_cpus_list", "thread_siblings_list"].iter().find_map(|f| cpu_list(&text(&topology.join(f))?))?;
        // Some firmware says -1.
        let package = number(&topology.join("physical_package_id")).unwrap_or(0);
        let numa = node_of.get(&os).copied().unwrap_or(0);
        cpus.push(Cpu { os, core: siblings.first().copied().unwrap_or(os), package, numa });
        caches.extend((0..).map_while(|index| cache(&dir.join(format!("cache/index{index}")), allowed)).flatten());
    }
    let numa = if numa.is_empty() { vec![NumaNode::only(allowed)] } else { numa };
    Some(Topology { source: Source::Sys, cpus, caches: caches.into_iter().collect(), numa })
}

/// The cache of a directory. `None` if there is no such directory, `Some(None)` if the directory has too little
/// information.
fn cache(dir: &Path, allowed: &BTreeSet<u32>) -> Option<Option<Cache>> {
    let kind = match text(&dir.join("type"))?.as_str() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        _ => CacheKind::Unified,
    };
    let known = || {
        let shared = cpu_list(&text(&dir.join("shared_cpu_list"))?)?;
        let bytes = size(&text(&dir.join("size"))?)?;
        let cpus = shared.intersection(allowed).copied().collect();
        Some(Cache {
            level: number(&dir.join("level"))?,
            kind,
            cpus,
            bytes,
            line: number(&dir.join("coherency_line_size")),
        })
    };
    Some(known())
}

/// The NUMA nodes with allowed processors, and their distances.
fn numa_nodes(root: &Path, allowed: &BTreeSet<u32>) -> Vec<NumaNode> {
    let online = text(&root.join("node/online")).and_then(|t| cpu_list(&t)).unwrap_or_default();
    let mut nodes: Vec<(usize, NumaNode)> = Vec::new();
    for (at, &os) in online.iter().enumerate() {
        let dir = root.join(format!("node/node{os}"));
        let Some(cpus) = text(&dir.join("cpulist")).and_then(|t| cpu_list(&t)) else { continue };
        let cpus: Vec<u32> = cpus.intersection(allowed).copied().collect();
        let distances = text(&dir.join("distance")).unwrap_or_default();
        let distances = distances.split_whitespace().filter_map(|d| d.parse().ok()).collect();
        if !cpus.is_empty() {
            nodes.push((at, NumaNode { os, cpus, bytes: memory(&dir.join("meminfo")), distances }));
        }
    }
    // A row has the distances to all nodes, also to nodes without allowed processors.
    let kept: Vec<usize> = nodes.iter().map(|(at, _)| *at).collect();
    let with_own = |(_, node): (usize, NumaNode)| {
        let distances = kept.iter().map_while(|&at| node.distances.get(at).copied()).collect();
        NumaNode { distances, ..node }
    };
    nodes.into_iter().map(with_own).collect()
}

/// The memory of a NUMA node in bytes, from a line such as `Node 0 MemTotal:  24657000 kB`.
fn memory(path: &Path) -> Option<u64> {
    let text = text(path)?;
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    line.split_whitespace().rev().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// A bound on processor numbers, which no kernel reaches.
const MOST: u32 = 1 << 20;

/// The numbers in a list as Linux writes it, such as `0-3,8`. An empty text has none. `None` if the text is no such
/// list.
pub fn cpu_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        if from > to || to >= MOST {
            return None;
        }
        all.extend(from..=to);
    }
    Some(all)
}

/// A size such as `48K`, in bytes.
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn number(path: &Path) -> Option<u32> {
    text(path)?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with these files, which is removed when it is dropped.
    struct Fake(std::path::PathBuf);

    impl Fake {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("maniple-sys-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{text}\n")).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_lies_outside_the_mask_is_left_out() {
        let mut files = Vec::new();
        for cpu in 0..8 {
            let dir = format!("cpu/cpu{cpu}");
            let (core, node) = (cpu % 4, cpu % 4 / 2);
            files.push((format!("{dir}/topology/core_cpus_list"), format!("{core},{}", core + 4)));
            files.push((format!("{dir}/topology/physical_package_id"), node.to_string()));
            for (index, (level, kind, size, shared)) in
                [(1, "Data", "48K", format!("{core},{}", core + 4)), (3, "Unified", "30M", "0-7".into())]
                    .iter()
                    .enumerate()
            {
                let dir = format!("{dir}/cache/index{index}");
                files.push((format!("{dir}/level"), level.to_string()));
                files.push((format!("{dir}/type"), kind.to_string()));
                files.push((format!("{dir}/size"), size.to_string()));
                files.push((format!("{dir}/shared_cpu_list"), shared.clone()));
            }
        }
        files.push(("node/online".into(), "0-2".into()));
        for (node, cpus, distances) in [(0, "0-1,4-5", "10 21 31"), (1, "2-3,6-7", "21 10 31"), (2, "", "31 31 10")] {
            files.push((format!("node/node{node}/cpulist"), cpus.into()));
            files.push((format!("node/node{node}/distance"), distances.into()));
            files.push((format!("node/node{node}/meminfo"), format!("Node {node} MemTotal:  2048 kB")));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
        let fake = Fake::new("whole", &files);

        let host = read(&fake.0, &BTreeSet::from([2, 5, 6])).unwrap();
        let cpu = |os, core, at| Cpu { os, core, package: at, numa: at };
        assert_eq!(host.cpus, [cpu(2, 2, 1), cpu(5, 1, 0), cpu(6, 2, 1)]);
        let cache = |level, kind, cpus: &[u32], bytes| Cache { level, kind, cpus: cpus.to_vec(), bytes, line: None };
        let expected = [
            cache(1, CacheKind::Data, &[2, 6], 48 << 10),
            cache(1, CacheKind::Data, &[5], 48 << 10),
            cache(3, CacheKind::Unified, &[2, 5, 6], 30 << 20),
        ];
        assert_eq!(host.caches, expected);
        let node = |os, cpus: &[u32], distances: &[u32]| NumaNode {
            os,
            cpus: cpus.to_vec(),
            bytes: Some(2 << 20),
            distances: distances.to_vec(),
        };
        assert_eq!(host.numa, [node(0, &[5], &[10, 21]), node(1, &[2, 6], &[21, 10])]);
    }

    #[test]
    fn what_is_missing_is_not_guessed() {
        let bare = Fake::new("bare", &[("cpu/cpu3/topology/thread_siblings_list", "3")]);
        let host = read(&bare.0, &BTreeSet::from([3])).unwrap();
        assert_eq!(host.cpus, [Cpu { os: 3, core: 3, package: 0, numa: 0 }]);
        assert_eq!((host.caches.len(), host.numa.len(), host.numa[0].bytes), (0, 1, None));
        assert_eq!(read(&bare.0, &BTreeSet::from([3, 4])), None);
        assert_eq!(read(Path::new("/nonexistent"), &BTreeSet::from([0])), None);
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(cpu_list("0-2,7"), Some(BTreeSet::from([0, 1, 2, 7])));
        assert_eq!(cpu_list(""), Some(BTreeSet::new()));
        for wrong in ["x", "1-", "0-99999999", "-1", "3-1", "1,", "0-x"] {
            assert_eq!(cpu_list(wrong), None, "{wrong}");
        }
    }
}
