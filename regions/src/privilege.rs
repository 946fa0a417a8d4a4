//! Privileges, coherence, and the rule that orders two uses of a region.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{FieldId, ReductionId, Region};

/// The right to read or change a region's values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Privilege {
    /// Read the values.
    Read,
    /// Read and write the values.
    ReadWrite,
    /// Write every value without reading the old ones, which need not be fetched. A value that is left unwritten is
    /// unspecified, never undefined behaviour.
    WriteDiscard,
    /// Fold contributions into the values with the named operator.
    Reduce(ReductionId),
}

impl Privilege {
    /// Whether a holder of this privilege may pass `asked` on to a child.
    ///
    /// Read-write and write-discard cover everything, because a holder that discards the old values owns the new ones.
    /// Read covers read, and a reduction covers the same reduction.
    pub fn covers(self, asked: Privilege) -> bool {
        match self {
            Privilege::ReadWrite | Privilege::WriteDiscard => true,
            Privilege::Read | Privilege::Reduce(_) => self == asked,
        }
    }

    /// Whether the holder changes values: anything but [`Privilege::Read`].
    pub fn writes(self) -> bool {
        self != Privilege::Read
    }
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Privilege::Read => f.write_str("read"),
            Privilege::ReadWrite => f.write_str("read-write"),
            Privilege::WriteDiscard => f.write_str("write-discard"),
            Privilege::Reduce(op) => write!(f, "reduce({op})"),
        }
    }
}

/// How a use shares its values with other uses, from the strongest coherence to the weakest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Coherence {
    /// Nobody else interferes. Uses take effect in program order.
    Exclusive,
    /// Uses happen one at a time, in any order. The runtime offers it within a shard only: between shards it would need a lock
    /// held across processors, and results would depend on the order of its holders.
    Atomic,
    /// Uses happen at the same time on the same values. The program orders them with barriers.
    Simultaneous,
}

impl Coherence {
    /// Whether a holder of this coherence may pass `asked` on to a child. Coherence never gets stronger on the way
    /// down.
    pub fn may_weaken_to(self, asked: Coherence) -> bool {
        self <= asked
    }
}

impl fmt::Display for Coherence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Coherence::Exclusive => "exclusive",
            Coherence::Atomic => "atomic",
            Coherence::Simultaneous => "simultaneous",
        })
    }
}

/// One use of one field of a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Use {
    /// The region used.
    pub region: Region,
    /// The field used.
    pub field: FieldId,
    /// What the holder may do to the values.
    pub privilege: Privilege,
    /// How it shares them with other uses.
    pub coherence: Coherence,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {} of {}", self.coherence, self.privilege, self.field, self.region)
    }
}

/// How two uses must be ordered: the answer of [`interference`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[must_use]
pub enum Interference {
    /// They may run at the same time, and in any order.
    None,
    /// They must not run at the same time, but either may come first.
    Serializes,
    /// They may run at the same time. The program orders them, if need be, with its own barriers.
    Simultaneous,
    /// They must run in program order.
    Conflict,
}

impl Interference {
    /// Whether the two uses must not run at the same time.
    pub fn separates(self) -> bool {
        matches!(self, Interference::Serializes | Interference::Conflict)
    }
}

/// Decides how two uses must be ordered. Symmetric in its arguments.
///
/// Uses of different trees or fields, or of disjoint points, do not interfere. For all others:
///
/// | privileges | coherence | interference |
/// |---|---|---|
/// | read, read | any | none |
/// | equal reductions | any | none |
/// | different reductions | any | conflict |
/// | any other pair | exclusive on either side | conflict |
/// | any other pair | atomic, atomic | serializes |
/// | any other pair | simultaneous, simultaneous | simultaneous |
/// | any other pair | atomic, simultaneous | conflict |
///
/// For equal reductions, "none" is about the result, not about memory. Two tasks that fold at the same time need
/// instances of their own, so [`Instance::lease`](crate::Instance::lease) refuses overlapping reductions.
pub fn interference(a: &Use, b: &Use) -> Interference {
    use Coherence::{Atomic, Simultaneous};
    use Privilege::{Read, Reduce};
    if a.field != b.field || !a.region.overlaps(&b.region) {
        return Interference::None;
    }
    match (a.privilege, b.privilege) {
        (Read, Read) => Interference::None,
        (Reduce(one), Reduce(other)) if one == other => Interference::None,
        (Reduce(_), Reduce(_)) => Interference::Conflict,
        _ => match (a.coherence, b.coherence) {
            (Atomic, Atomic) => Interference::Serializes,
            (Simultaneous, Simultaneous) => Interference::Simultaneous,
            _ => Interference::Conflict,
        },
    }
}
