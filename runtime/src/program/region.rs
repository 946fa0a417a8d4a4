//! A region as a shard holds it: the requirements that its launches name.

use crate::Requirement;
use maniple_regions::{
    Coherence, Element, Field, Privilege, Read, ReadShared, ReadWrite, ReadWriteShared, Region, Write, WriteShared,
};

/// A region as a shard holds it: what a launch's region arguments are made from.
///
/// Each method names a field and a privilege; the shard must hold both (see [`crate::Shard::region`]). The types say
/// which accessor the leaf task's parameter must be.
#[derive(Clone, Copy, Debug)]
pub struct RegionView {
    pub(crate) index: u32,
    pub(crate) region: Region,
}

macro_rules! requirement {
    ($(#[$doc:meta])* $name:ident, $accessor:ident, $privilege:ident, $coherence:ident) => {
        $(#[$doc])*
        pub fn $name<T: Element, const D: usize>(&self, field: Field<T>) -> Requirement<$accessor<'static, T, D>> {
            Requirement::new(self.index, field, Privilege::$privilege, Coherence::$coherence)
        }
    };
}

impl RegionView {
    /// The logical region.
    pub fn region(&self) -> Region {
        self.region
    }

    requirement!(
        /// Exclusive reading: the parameter is a [`Read`].
        read, Read, Read, Exclusive);
    requirement!(
        /// Exclusive reading and writing: the parameter is a [`ReadWrite`].
        read_write, ReadWrite, ReadWrite, Exclusive);
    requirement!(
        /// Exclusive writing of every value without reading old ones: the parameter is a [`Write`].
        write, Write, WriteDiscard, Exclusive);
    requirement!(
        /// Simultaneous reading: the parameter is a [`ReadShared`].
        read_shared, ReadShared, Read, Simultaneous);
    requirement!(
        /// Simultaneous writing of every value without reading old ones: the parameter is a [`WriteShared`]. A task must
        /// write all of the region it names, as the rest becomes unspecified; where shards write a part each of one
        /// region, each names its part, or uses [`Self::read_write_shared`].
        write_shared, WriteShared, WriteDiscard, Simultaneous);
    requirement!(
        /// Simultaneous reading and writing: the parameter is a [`ReadWriteShared`].
        read_write_shared, ReadWriteShared, ReadWrite, Simultaneous);

    /// Folding with reduction `R`, in launch order: the parameter is a [`maniple_regions::Reduce`].
    pub fn reduce<T: Element, R: maniple_regions::Reduction<T>, const D: usize>(
        &self,
        field: Field<T>,
    ) -> Requirement<maniple_regions::Reduce<'static, T, R, D>> {
        let id = maniple_regions::ReductionId::of::<R, T>();
        Requirement::new(self.index, field, Privilege::Reduce(id), Coherence::Exclusive)
    }
}
