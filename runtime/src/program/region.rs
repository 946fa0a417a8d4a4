//! A region as a shard holds it, which makes the region arguments of leaf tasks; and region trees on a processor.

use super::shard::LocalRegion;
use crate::ids::ObjectId;
use crate::object::{Defined, Tree};
use crate::processor::Core;
use crate::{ReduceRequirement, Requirement};
use maniple_regions::{
    Coherence, Element, Field, Operator, Privilege, Read, ReadShared, ReadWrite, ReadWriteShared, Region, TreeId,
    Write, WriteShared,
};
use std::fmt;
use std::rc::Rc;

/// A region as a shard holds it. Its methods make region arguments of leaf tasks.
///
/// [`Shard::region`](crate::Shard::region) gives one. Each method takes a field and stands for a privilege and a
/// coherence. The shard must hold all three, or [`Launch::go`](crate::Launch::go) refuses the launch. The type of the
/// argument says which accessor the parameter must be.
///
/// Exclusive uses of the same data take effect in program order. Simultaneous uses are not ordered, not even within one
/// shard: order them with barriers or futures.
///
/// The region may be empty: a leaf task on it runs with an accessor of no values.
///
/// A view that is used again and again is best kept. What the runtime knows of a region that the launch of the shard names
/// stays until the shard ends. Of a part of one, nothing is left once all clones of its views are dropped and the tasks
/// that use them have ended, however many there were.
#[derive(Clone)]
pub struct RegionView {
    /// The regions that the shard's requirements name, or one part.
    pub(crate) locals: Rc<[LocalRegion]>,
    /// Position of the region.
    pub(crate) at: usize,
}

macro_rules! requirement {
    ($(#[$doc:meta])* $name:ident, $accessor:ident, $privilege:ident, $coherence:ident) => {
        $(#[$doc])*
        pub fn $name<T: Element, const D: usize>(&self, field: Field<T>) -> Requirement<$accessor<'static, T, D>> {
            Requirement::new(self.clone(), field, Privilege::$privilege, Coherence::$coherence)
        }
    };
}

impl fmt::Debug for RegionView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegionView({})", self.region())
    }
}

impl RegionView {
    /// The logical region.
    pub fn region(&self) -> Region {
        self.local().region
    }

    #[inline]
    pub(crate) fn local(&self) -> &LocalRegion {
        &self.locals[self.at]
    }

    requirement!(
        /// Exclusive reading: the parameter is a [`Read`].
        read, Read, Read, Exclusive);
    requirement!(
        /// Exclusive reading and writing: the parameter is a [`ReadWrite`].
        read_write, ReadWrite, ReadWrite, Exclusive);
    requirement!(
        /// Exclusive writing of every value, without reading old ones: the parameter is a [`Write`]. Values that the
        /// task leaves unwritten are unspecified.
        write, Write, WriteDiscard, Exclusive);
    requirement!(
        /// Simultaneous reading: the parameter is a [`ReadShared`].
        read_shared, ReadShared, Read, Simultaneous);
    requirement!(
        /// Simultaneous writing of every value, without reading old ones: the parameter is a [`WriteShared`]. Values
        /// that the task leaves unwritten become unspecified. If each of several shards writes a part of a region, each
        /// names its part, or uses [`read_write_shared`](Self::read_write_shared).
        write_shared, WriteShared, WriteDiscard, Simultaneous);
    requirement!(
        /// Simultaneous reading and writing: the parameter is a [`ReadWriteShared`].
        read_write_shared, ReadWriteShared, ReadWrite, Simultaneous);

    /// Exclusive folding with an operator, in launch order: the parameter is a [`maniple_regions::Reduce`].
    pub fn reduce<T: Element, const D: usize>(
        &self,
        field: Field<T>,
        operator: Operator<T>,
    ) -> ReduceRequirement<T, D> {
        ReduceRequirement::new(self.clone(), field, operator)
    }
}

impl Defined for Tree {
    fn name(&self) -> &str {
        &self.name
    }
    fn parameters(&self) -> String {
        let fields: Vec<_> = self.fields.iter().map(|f| format!("{}: {}", f.name, f.type_name)).collect();
        format!("of {} with fields [{}]", self.rect, fields.join(", "))
    }
    fn free(&self, id: ObjectId, core: &Core) {
        core.tasks.data.forget(TreeId(id));
        core.gangs.forget_columns();
    }
}
