//! The host as hwloc sees it.
//!
//! The crate `hwloc2` 2.2 is sound only in parts. This module uses the parts that are sound with every hwloc 2: the
//! objects of the levels from the machine to the processors, and their sets while the topology lives. The other parts
//! are avoided:
//!
//! - `hwloc2` declares a C structure without one of its members. Padding makes up for that where a pointer has 64 bits,
//!   so this module is built only there.
//! - It frees the names of objects, which hwloc owns.
//! - It does not reach the objects of NUMA nodes, their memory and distances.
//! - It does not reach instruction caches, which hwloc leaves out by default.
//!
//! NUMA nodes and instruction caches are read from `/sys`, if `/sys` has the same processors.

use super::{Cache, CacheKind, Cpu, NumaNode, Source, Topology, sys};
use hwloc2::{CpuSet, ObjectType, TopologyObject};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::path::Path;

/// The part of the host within `allowed`. `None` if hwloc fails or does not know all of these processors. `root` is the
/// directory with the information that `hwloc2` does not give.
pub fn read(root: &Path, allowed: &BTreeSet<u32>) -> Option<Topology> {
    let hwloc = hwloc2::Topology::new()?;
    let (mut cpus, mut caches, mut nodes) = (Vec::new(), BTreeSet::new(), BTreeMap::<u32, Vec<u32>>::new());
    for unit in hwloc.objects_at_depth(hwloc.depth().checked_sub(1)?) {
        let os = unit.os_index();
        if !matches!(unit.object_type(), ObjectType::PU) || !allowed.contains(&os) {
            continue;
        }
        let mut cpu = Cpu { os, core: os, package: 0, numa: first(unit.nodeset()).unwrap_or(0) };
        for around in successors(unit.parent(), |object| object.parent()) {
            match around.object_type() {
                // The complete set also has processors that this process may not use.
                ObjectType::Core => cpu.core = first(around.complete_cpuset()).unwrap_or(os),
                // All ones stand for an unknown number.
                ObjectType::Package => cpu.package = Some(around.os_index()).filter(|&n| n != u32::MAX).unwrap_or(0),
                _ => caches.extend(cache(around, allowed)),
            }
        }
        nodes.entry(cpu.numa).or_default().push(os);
        cpus.push(cpu);
    }
    cpus.sort_by_key(|cpu| cpu.os);
    if !cpus.iter().map(|cpu| cpu.os).eq(allowed.iter().copied()) {
        return None;
    }
    nodes.values_mut().for_each(|cpus| cpus.sort_unstable());
    let told = sys::read(root, allowed).filter(|told| told.cpus == cpus);
    let numa = match told {
        Some(told) => {
            caches.extend(told.caches.into_iter().filter(|cache| cache.kind == CacheKind::Instruction));
            told.numa
        }
        None => {
            nodes.values_mut().for_each(|cpus| cpus.sort_unstable());
            let alone = |(os, cpus)| NumaNode { os, cpus, bytes: None, distances: Vec::new() };
            nodes.into_iter().map(alone).collect()
        }
    };
    Some(Topology { source: Source::Hwloc, cpus, caches: caches.into_iter().collect(), numa })
}

fn cache(object: &TopologyObject, allowed: &BTreeSet<u32>) -> Option<Cache> {
    let level = match object.object_type() {
        ObjectType::L1Cache => 1,
        ObjectType::L2Cache => 2,
        ObjectType::L3Cache => 3,
        ObjectType::L4Cache => 4,
        ObjectType::L5Cache => 5,
        _ => return None,
    };
    // Of instructions it is not, and `hwloc2` keeps the kind to itself.
    let kind = if level == 1 { CacheKind::Data } else { CacheKind::Unified };
    let attributes = object.cache_attributes()?;
    let cpus = object.cpuset()?.into_iter().filter(|cpu| allowed.contains(cpu)).collect();
    let line = Some(attributes.linesize).filter(|&line| line > 0);
    Some(Cache { level, kind, cpus, bytes: attributes.size, line })
}

/// The lowest number in a set.
fn first(set: Option<CpuSet>) -> Option<u32> {
    u32::try_from(set?.first()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::allowed;

    /// Unless the test runs under an environment that tells hwloc of another host.
    #[test]
    fn hwloc_and_the_kernel_say_the_same_of_this_host() {
        let (root, allowed) = (Path::new("/sys/devices/system"), allowed());
        if let (Some(hwloc), Some(sys)) = (read(root, &allowed), sys::read(root, &allowed)) {
            assert_eq!(hwloc, Topology { source: Source::Hwloc, ..sys });
        }
    }

    #[test]
    fn a_processor_that_hwloc_does_not_know_is_a_reason_to_ask_elsewhere() {
        let mut more = allowed();
        more.insert(1 << 19);
        assert_eq!(read(Path::new("/nonexistent"), &more), None);
    }

    #[test]
    fn without_sys_nodes_have_no_memory() {
        let allowed = allowed();
        let host = read(Path::new("/nonexistent"), &allowed).expect("hwloc knows this host");
        let of_nodes: BTreeSet<u32> = host.numa.iter().flat_map(|node| node.cpus.iter().copied()).collect();
        assert_eq!(of_nodes, allowed);
        assert!(host.numa.iter().all(|node| node.bytes.is_none() && node.distances.is_empty()));
    }
}
