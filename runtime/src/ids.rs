//! Numbers and addresses: processors, objects, launches, tasks, cells of barriers and columns of regions.

use maniple_barriers::Half;
use maniple_regions::{FieldId, Rect, Region, TreeId};
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Which run of this process made a handle, so that one kept from another run is refused. All are equal: it says nothing of
/// what a handle stands for.
///
/// It does not travel in messages, which stay within their run; a handle out of one has the default, that of any run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run(u32);

impl Run {
    /// A handle of any run.
    pub const ANY: Self = Self(0);

    /// Another run than any so far.
    pub fn next() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(1);
        Self(MADE.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether a handle with this may be used where `other` runs.
    pub fn may_be(self, other: Self) -> bool {
        self.0 == other.0 || self.0 == Self::ANY.0 || other.0 == Self::ANY.0
    }
}

impl PartialEq for Run {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Run {}

impl Hash for Run {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// Number of a processor in the machine.
pub(crate) type ProcessorId = u32;
/// Number of an object in the order in which the replicated top-level task made them.
pub(crate) type ObjectId = u32;
/// No launch.
pub(crate) const NOBODY: LaunchKey = LaunchKey::MAX;
/// A launch: the parent's number in the high half, the parent's count of launches in the low half.
pub(crate) type LaunchKey = u64;
/// The launch that a parent is part of, the one that this one's parent is part of, and so on; none for the top-level task.
pub(crate) type Ancestors = Arc<[LaunchKey]>;

/// One column of a region's instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ColumnKey {
    pub tree: TreeId,
    pub field: FieldId,
    pub rect: Rect,
}

impl ColumnKey {
    /// A part of the region.
    pub fn region(&self, rect: Rect) -> Region {
        Region::new(self.tree, rect)
    }
}

/// A leaf task of this processor: a place in its slab and the use of that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub index: u32,
    pub turn: u32,
}

/// Marks the number of an empty cell; ready cells have it clear.
pub(crate) const EMPTY: u32 = Half::Empty.bit();

/// Where half of a pair lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellAddress {
    pub(crate) processor: ProcessorId,
    pub(crate) object: ObjectId,
    pub(crate) cell: u32,
}

/// Where a shard reaches a phase barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseAddress {
    pub(crate) object: ObjectId,
    /// Position in the arriver list; meaningless for waiters.
    pub(crate) arriver: u32,
}

/// A barrier generation a task arrives at when it is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArrivalAt {
    Cell(CellAddress, u64),
    /// The same, which carries one of the task's values.
    Value(CellAddress, u64, u32),
    Phase {
        object: ObjectId,
        arriver: u32,
        generation: u64,
        value: u64,
    },
}

/// A barrier generation a task waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WaitAt {
    Cell { object: ObjectId, cell: u32, generation: u64 },
    Phase { object: ObjectId, generation: u64 },
}

impl WaitAt {
    pub fn generation(self) -> u64 {
        let (Self::Cell { generation, .. } | Self::Phase { generation, .. }) = self;
        generation
    }
}

/// A value of an edge that a task gets or puts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueAt {
    /// What came with this generation of a cell.
    Get { object: ObjectId, cell: u32, generation: u64 },
    /// Room for so many bytes, which may be in the record of the arrival.
    Put { bytes: usize, inline: bool },
}
