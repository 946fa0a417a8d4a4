//! Values of the Rust interface as numbers and structures of the C interface, and back.

use crate::abi;
use maniple_mapper::{Access, Machine, MemoryKind, NodeId, Priority, ProcessorId};
use maniple_regions::{Coherence, FieldId, Privilege, Rect, ReductionId, Region, TreeId};

/// The error of a number that has no meaning.
fn unknown<T>(what: &str, number: u32, legal: &str) -> Result<T, String> {
    Err(format!("illegal {what} {number}; legal: {legal}"))
}

/// The number of a kind of memory.
pub fn memory(kind: MemoryKind) -> u32 {
    match kind {
        MemoryKind::Ordinary => abi::ORDINARY,
        MemoryKind::Registered => abi::REGISTERED,
    }
}

/// The kind of memory of a number.
pub fn memory_of(number: u32) -> Result<MemoryKind, String> {
    match number {
        abi::ORDINARY => Ok(MemoryKind::Ordinary),
        abi::REGISTERED => Ok(MemoryKind::Registered),
        _ => unknown("kind of memory", number, "1 (ordinary), 2 (registered)"),
    }
}

/// The number of an access.
pub fn access(access: Access) -> u32 {
    match access {
        Access::InPlace => abi::IN_PLACE,
        Access::Copy => abi::COPY,
    }
}

/// The access of a number.
pub fn access_of(number: u32) -> Result<Access, String> {
    match number {
        abi::IN_PLACE => Ok(Access::InPlace),
        abi::COPY => Ok(Access::Copy),
        _ => unknown("access", number, "0 (in place), 1 (copy)"),
    }
}

/// The priority of a number.
pub fn priority_of(number: u32) -> Result<Priority, String> {
    let legal = u8::try_from(number).ok().filter(|level| *level < Priority::LEVELS);
    legal.map_or_else(|| unknown("priority", number, &format!("0..{}", Priority::LEVELS)), |level| Ok(Priority(level)))
}

/// The meaning of a number that stands for yes or no.
pub fn flag_of(what: &str, number: u32) -> Result<bool, String> {
    match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => unknown(what, number, "0 (no), 1 (yes)"),
    }
}

/// The numbers of a privilege: its own, and the operator's if it is a reduction.
pub fn privilege(privilege: Privilege) -> (u32, u64) {
    match privilege {
        Privilege::Read => (abi::READ, 0),
        Privilege::ReadWrite => (abi::READ_WRITE, 0),
        Privilege::WriteDiscard => (abi::WRITE_DISCARD, 0),
        Privilege::Reduce(operator) => (abi::REDUCE, operator.to_bits()),
    }
}

/// The privilege of its numbers.
pub fn privilege_of(number: u32, reduction: u64) -> Result<Privilege, String> {
    match number {
        abi::READ => Ok(Privilege::Read),
        abi::READ_WRITE => Ok(Privilege::ReadWrite),
        abi::WRITE_DISCARD => Ok(Privilege::WriteDiscard),
        abi::REDUCE => Ok(Privilege::Reduce(ReductionId::from_bits(reduction))),
        _ => unknown("privilege", number, "0..4"),
    }
}

/// The number of a coherence.
pub fn coherence(coherence: Coherence) -> u32 {
    match coherence {
        Coherence::Exclusive => abi::EXCLUSIVE,
        Coherence::Atomic => abi::ATOMIC,
        Coherence::Simultaneous => abi::SIMULTANEOUS,
    }
}

/// The coherence of a number.
pub fn coherence_of(number: u32) -> Result<Coherence, String> {
    match number {
        abi::EXCLUSIVE => Ok(Coherence::Exclusive),
        abi::ATOMIC => Ok(Coherence::Atomic),
        abi::SIMULTANEOUS => Ok(Coherence::Simultaneous),
        _ => unknown("coherence", number, "0..3"),
    }
}

/// A region as a structure.
pub fn region(region: &Region) -> abi::Region {
    let rect = &region.rect;
    abi::Region {
        tree: region.tree.0,
        dimensions: rect.dim() as u32,
        lo: std::array::from_fn(|d| rect.lo(d)),
        hi: std::array::from_fn(|d| rect.hi(d)),
    }
}

/// The region of a structure.
pub fn region_of(region: &abi::Region) -> Result<Region, String> {
    let ([l0, l1, l2], [h0, h1, h2]) = (region.lo, region.hi);
    let rect = match region.dimensions {
        1 => Rect::new([l0], [h0]),
        2 => Rect::new([l0, l1], [h0, h1]),
        3 => Rect::new([l0, l1, l2], [h0, h1, h2]),
        number => return unknown("number of dimensions", number, "1 to 3"),
    };
    Ok(Region::new(TreeId(region.tree), rect))
}

/// The field of a number.
pub fn field_of(number: u32) -> Result<FieldId, String> {
    u16::try_from(number).map(FieldId).or_else(|_| unknown("field", number, "0..65536"))
}

/// Processors as their numbers.
pub fn processors(list: &[ProcessorId]) -> Vec<u32> {
    list.iter().map(|p| p.0).collect()
}

/// The processors of their numbers.
pub fn processors_of(numbers: &[u32]) -> Vec<ProcessorId> {
    numbers.iter().copied().map(ProcessorId).collect()
}

/// A machine as a structure.
pub fn machine(machine: &Machine) -> abi::Machine {
    let per_node = machine.processors_of(NodeId(0)).len() as u32;
    let utility = per_node - machine.leaf_processors_of(NodeId(0)).len() as u32;
    abi::Machine { size: abi::size::<abi::Machine>(), processors: machine.processors(), per_node, utility }
}

/// The machine of a structure.
pub fn machine_of(machine: &abi::Machine) -> Machine {
    Machine::new(machine.processors, machine.per_node).with_utility(machine.utility)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_one_value_each() {
        for kind in [MemoryKind::Ordinary, MemoryKind::Registered] {
            assert_eq!(memory_of(memory(kind)), Ok(kind));
        }
        for a in [Access::InPlace, Access::Copy] {
            assert_eq!(access_of(access(a)), Ok(a));
        }
        for c in [Coherence::Exclusive, Coherence::Atomic, Coherence::Simultaneous] {
            assert_eq!(coherence_of(coherence(c)), Ok(c));
        }
        let reduce = Privilege::Reduce(ReductionId::new("sum"));
        for p in [Privilege::Read, Privilege::ReadWrite, Privilege::WriteDiscard, reduce] {
            let (number, operator) = privilege(p);
            assert_eq!(privilege_of(number, operator), Ok(p));
        }
        for rect in [Rect::line(-3, 9), Rect::new([1, 2], [3, 4]), Rect::new([1, 2, 3], [4, 5, 6])] {
            let r = Region::new(TreeId(7), rect);
            assert_eq!(region_of(&region(&r)), Ok(r));
        }
        for (processors, per_node, utility) in [(7, 3, 2), (2, 2, 0), (2, 5, 1), (1, 1, 1), (8, 4, 9)] {
            let m = Machine::new(processors, per_node).with_utility(utility);
            let again = machine_of(&machine(&m));
            assert_eq!((again.processors(), again.nodes()), (m.processors(), m.nodes()));
            let leaves = |m: &Machine| (0..m.shard_processors()).map(|n| m.shard_processor(n)).collect::<Vec<_>>();
            assert_eq!(leaves(&again), leaves(&m));
        }
        assert_eq!(access_of(7), Err("illegal access 7; legal: 0 (in place), 1 (copy)".into()));
        assert!(memory_of(abi::NO_MEMORY).is_err() && flag_of("profile", 2).is_err());
    }
}
