//! Region arguments of leaf tasks that do not know the type of a field's elements.

use super::param::{Bindings, Declaring, Param, Taking};
use super::region::RegionView;
use crate::Error;
use maniple_regions::{Coherence, FieldInfo, Privilege, ReadBytes, RegionError, WriteBytes};
use std::marker::PhantomData;

/// A region argument for a [`ReadBytes`] or [`WriteBytes`] parameter. [`RegionView::read_bytes`] and
/// [`RegionView::write_bytes`] make one.
#[derive(Debug)]
pub struct ByteRequirement<A> {
    region: RegionView,
    field: &'static FieldInfo,
    privilege: Privilege,
    accessor: PhantomData<fn() -> A>,
}

impl RegionView {
    /// Exclusive reading of a field of any type: the parameter is a [`ReadBytes`]. [`Top::tree`](crate::Top::tree) names the fields.
    pub fn read_bytes(&self, field: &'static FieldInfo) -> ByteRequirement<ReadBytes<'static>> {
        ByteRequirement { region: self.clone(), field, privilege: Privilege::Read, accessor: PhantomData }
    }

    /// Exclusive writing of every value of a field of any type, without reading old ones: the parameter is a [`WriteBytes`].
    pub fn write_bytes(&self, field: &'static FieldInfo) -> ByteRequirement<WriteBytes<'static>> {
        ByteRequirement { region: self.clone(), field, privilege: Privilege::WriteDiscard, accessor: PhantomData }
    }
}

macro_rules! byte_param {
    ($accessor:ident) => {
        impl Param for $accessor<'_> {
            type Item<'a> = $accessor<'a>;
            type Arg = ByteRequirement<$accessor<'static>>;
            type Kept = ();
            type Sent = ();
            fn declare(arg: &Self::Arg, declaring: &mut Declaring<'_>) -> Result<(), Error> {
                declaring.region(arg.region.local(), arg.field, arg.privilege, Coherence::Exclusive)
            }
            fn regions(_: &Self::Arg) -> usize {
                1
            }
            fn take(_: Self::Arg, _: &mut Taking<'_>) {}
            fn resolve((): ()) -> Result<(), Error> {
                Ok(())
            }
            fn bind<'a>(bindings: &mut Bindings<'a>, (): ()) -> Result<Self::Item<'a>, RegionError> {
                $accessor::bind(bindings.lease())
            }
        }
    };
}

byte_param!(ReadBytes);
byte_param!(WriteBytes);
