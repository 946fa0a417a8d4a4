//! Parts of a machine in virtual time: fewer of its processors, or only what some of its numbers say.

use crate::Failure;
use maniple::runtime::VirtualMachine;

/// Processors of a node that have shards: its utility processors, where it has any.
fn with_shards(machine: &VirtualMachine) -> u32 {
    if machine.utility > 0 { machine.utility } else { machine.per_node }
}

/// So many nodes with at most so many processors for shards each, and as many for leaf tasks. Each node has its own copy of the
/// top-level task, as it has outside virtual time.
fn reduced(machine: &VirtualMachine, nodes: u32, each: u32) -> VirtualMachine {
    let utility = machine.utility.min(each);
    let leaves = (machine.per_node - machine.utility).min(each);
    VirtualMachine { nodes, per_node: leaves + utility, utility, one_copy: false, ..machine.clone() }
}

/// Two processors that have shards: of one node if it has as many, or else one of each of two nodes. None if there are no two.
pub fn two_processors(machine: &VirtualMachine) -> Option<VirtualMachine> {
    if with_shards(machine) > 1 {
        return Some(reduced(machine, 1, 2));
    }
    (machine.nodes > 1).then(|| reduced(machine, 2, 1))
}

/// The same, or why there are no two.
pub fn expect_two_processors(machine: &VirtualMachine) -> Result<VirtualMachine, Failure> {
    two_processors(machine).ok_or_else(|| {
        let VirtualMachine { name, per_node, utility, .. } = machine;
        let found = format!("`{name}` with one node of {per_node} processors, {utility} of them utility processors");
        Failure::Usage(format!(
            "expected a machine with two processors for shards, on one node or on two, found {found}"
        ))
    })
}

/// One processor that has shards and, where these are on a utility processor, one for leaf tasks.
pub fn one_processor(machine: &VirtualMachine) -> VirtualMachine {
    reduced(machine, 1, 1)
}

/// Only what lies between processors takes time.
pub fn links_alone(machine: VirtualMachine) -> VirtualMachine {
    let (costs, tasks, other_tasks, crowded) = Default::default();
    VirtualMachine { costs, tasks, other_tasks, crowded, ..machine }
}

/// Only the work of leaf tasks takes time, and as much as on a processor with a single shard.
pub fn tasks_alone(machine: VirtualMachine) -> VirtualMachine {
    let (costs, network, memory, crowded) = Default::default();
    VirtualMachine { costs, network, memory, crowded, ..machine }
}
