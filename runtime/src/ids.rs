//! Numbers and addresses: processors, objects, launches, tasks, cells of barriers and columns of regions.

use crate::payload::VecKind;
use maniple_barriers::Half;
pub(crate) use maniple_mapper::{NodeId, ProcessorId};
use maniple_regions::{FieldId, Rect, Region, TreeId};
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The run of this process that made a handle, so that a handle kept from another run is refused. All values compare as
/// equal, because the run is no part of a handle's identity.
///
/// It does not travel in messages, which stay within their run. A handle from a message has the default, which fits any
/// run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run(u32);

impl Run {
    /// The run of a handle that fits any run.
    pub const ANY: Self = Self(0);

    /// A new run.
    pub fn next() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(1);
        Self(MADE.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether a handle of this run may be used in the run `other`.
    #[inline(always)]
    pub fn may_be(self, other: Self) -> bool {
        self.0 == other.0 || self.either_is_any(other)
    }

    /// Whether one of the two fits any run. Apart, as calls of collectives ask whether runs are the same.
    #[cold]
    #[inline(never)]
    fn either_is_any(self, other: Self) -> bool {
        self.0 == Self::ANY.0 || other.0 == Self::ANY.0
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

/// Number of an object, in the order in which the replicated top-level task makes them. Every node comes to the same
/// numbers without a message.
pub(crate) type ObjectId = u32;
/// Stands for no launch.
pub(crate) const NOBODY: LaunchKey = LaunchKey::MAX;
/// A launch: the launcher's number in the high half, and the launcher's count of launches in the low half.
pub(crate) type LaunchKey = u64;
/// The number of the task that made a launch; 0 for the top-level task.
pub(crate) fn launcher(launch: LaunchKey) -> u32 {
    (launch >> 32) as u32
}

/// The launch that an inner task is part of, then the launch that started this one's launcher, and so on. Empty for the
/// top-level task.
pub(crate) type Ancestors = Arc<[LaunchKey]>;

/// A launch of the top-level task, by its number. All that the launch leads to counts as part of it: shards, and the gangs
/// that inner tasks launch.
pub(crate) type TopLaunch = u32;
/// Stands for the top-level task itself, which comes after all of its launches.
pub(crate) const TOP: TopLaunch = TopLaunch::MAX;

/// The launch of the top-level task that a launch within these is part of, or the top-level task if there are none.
pub(crate) fn top_launch(within: &Ancestors) -> TopLaunch {
    within.last().map_or(TOP, |launch| *launch as TopLaunch)
}

/// One field of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ColumnKey {
    pub tree: TreeId,
    pub field: FieldId,
    pub rect: Rect,
}

impl ColumnKey {
    /// The region, or a part of it.
    pub fn region(&self, rect: Rect) -> Region {
        Region::new(self.tree, rect)
    }

    /// Whether two columns have points of one field in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        (self.tree, self.field) == (other.tree, other.field) && self.rect.overlaps(&other.rect)
    }
}

/// A leaf task of this processor: its place in the slab, and which use of that place it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TaskId {
    pub index: u32,
    pub turn: u32,
}

impl TaskId {
    /// No task.
    pub const NONE: Self = Self { index: u32::MAX, turn: 0 };
}

/// Marks the number of an empty cell. In the number of a ready cell the bit is clear.
pub(crate) const EMPTY: u32 = Half::Empty.bit();

/// The address of half of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellAddress {
    pub(crate) processor: ProcessorId,
    pub(crate) object: ObjectId,
    pub(crate) cell: u32,
}

/// The address of a shard's end of a phase barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseAddress {
    pub(crate) object: ObjectId,
    /// Position in the arriver list. Has no meaning for waiters.
    pub(crate) arriver: u32,
}

/// A barrier generation at which a task arrives when it is done.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum ArrivalAt {
    Cell(CellAddress, u64),
    /// Like `Cell`, but carries the task's value with this number.
    Value(CellAddress, u64, u32),
    Phase {
        object: ObjectId,
        arriver: u32,
        generation: u64,
        value: u64,
    },
}

/// A barrier generation that a task waits for.
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
    /// The value that came with this generation of a cell.
    Get { object: ObjectId, cell: u32, generation: u64 },
    /// Memory for this many bytes; `inline` if the value travels within the arrival.
    Put { bytes: usize, inline: bool },
    /// An empty vector, which the task fills.
    Fill { kind: &'static VecKind, inline: bool },
    /// What the task's argument has brought.
    Send,
}
