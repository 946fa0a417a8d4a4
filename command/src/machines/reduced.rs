//! Parts of a machine in virtual time: fewer processors, or only some of its costs.

use crate::Failure;
use maniple::runtime::VirtualMachine;
use maniple_stencil::plural;

/// The number of processors of a node that have shards: its utility processors, if it has any.
fn with_shards(machine: &VirtualMachine) -> u32 {
    if machine.utility > 0 { machine.utility } else { machine.per_node }
}

/// The machine with `nodes` nodes. Each has at most `each` processors for shards, and as many for leaf tasks. Each node
/// has its own copy of the top-level task, as it has outside virtual time.
fn reduced(machine: &VirtualMachine, nodes: u32, each: u32) -> VirtualMachine {
    let utility = machine.utility.min(each);
    let leaves = (machine.per_node - machine.utility).min(each);
    VirtualMachine { nodes, per_node: leaves + utility, utility, one_copy: false, ..machine.clone() }
}

/// Two processors that have shards: of one node if it has two, and else of two nodes. `None` if the machine has only one.
pub fn two_processors(machine: &VirtualMachine) -> Option<VirtualMachine> {
    if with_shards(machine) > 1 {
        return Some(reduced(machine, 1, 2));
    }
    (machine.nodes > 1).then(|| reduced(machine, 2, 1))
}

/// Two processors that have shards, or the error that there are no two.
pub fn expect_two_processors(machine: &VirtualMachine) -> Result<VirtualMachine, Failure> {
    two_processors(machine).ok_or_else(|| {
        let VirtualMachine { name, per_node, utility, .. } = machine;
        let processors = plural(*per_node as usize, "processor");
        let utility = plural(*utility as usize, "utility processor");
        let found = format!("`{name}` with one node of {processors}, among them {utility}");
        Failure::Usage(format!(
            "expected a machine with two processors for shards, on one node or on two, found {found}"
        ))
    })
}

/// One processor that has shards. If that is a utility processor, there is one more for leaf tasks.
pub fn one_processor(machine: &VirtualMachine) -> VirtualMachine {
    reduced(machine, 1, 1)
}

/// The machine on which only links between processors take time.
pub fn links_alone(machine: VirtualMachine) -> VirtualMachine {
    let (costs, tasks, other_tasks, crowded) = Default::default();
    VirtualMachine { costs, tasks, other_tasks, crowded, ..machine }
}

/// Whether nothing takes any time on a machine.
pub fn is_without_costs(machine: &VirtualMachine) -> bool {
    let mut machine = machine.clone();
    machine.numbers_mut().iter().all(|(name, number)| !name.contains("_ns") || **number == 0.0)
}

/// Warns that nothing takes any time on a machine, if so.
pub fn warn_without_costs(machine: &VirtualMachine) {
    if is_without_costs(machine) {
        let name = &machine.name;
        crate::warn(format_args!(
            "the machine `{name}` charges nothing for operations and messages, so times on it say nothing; see --machine"
        ));
    }
}

/// The machine on which only the work of leaf tasks takes time, as much as on a processor with a single shard.
pub fn tasks_alone(machine: VirtualMachine) -> VirtualMachine {
    let (costs, network, memory, crowded) = Default::default();
    VirtualMachine { costs, network, memory, crowded, ..machine }
}
