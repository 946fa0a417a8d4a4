//! *What* there is: index spaces, fields, logical regions, partitions, privileges, coherence, the rule that decides
//! whether two uses interfere, physical instances and typed accessors. This crate knows nothing of tasks.
//!
//! The names, from the most abstract to the most concrete:
//!
//! - A [`Rect`] is an index space: a dense half-open box in one to three dimensions.
//! - A [`Field`] is a typed column; a [`FieldSpace`] is the set of columns of a region tree.
//! - A [`Region`] is a logical region: a rectangle of a region tree. It is plain data and holds no values.
//! - A [`Partition`] names subregions by colour, and knows whether they are disjoint and complete.
//! - A [`Use`] says who does what to a region's field: [`Privilege`] and [`Coherence`]. [`interference`] decides what
//!   two uses owe each other.
//! - An [`Instance`] holds the values of one field over one rectangle for one owner; a [`SharedInstance`] is the same
//!   for several users at once, under simultaneous coherence.
//! - A [`Lease`] is the right to use a rectangle of an instance. An accessor ([`Read`], [`Write`], [`ReadShared`] …)
//!   borrows the lease and gives typed access; its type carries privilege and coherence.
//!
//! ```
//! use maniple_regions::*;
//!
//! const U: Field<f64> = Field::new(0, "u");
//!
//! # fn main() -> Result<(), RegionError> {
//! let instance = Instance::new(Rect::line(0, 8), U.info(), MemoryId(0))?;
//!
//! let mut lease = instance.lease(Rect::line(0, 8), Privilege::WriteDiscard, Coherence::Exclusive)?;
//! Write::<f64>::bind(&mut lease)?.write_with(|i| i as f64);
//! instance.release(lease)?;
//!
//! let mut lease = instance.lease(Rect::line(2, 5), Privilege::Read, Coherence::Exclusive)?;
//! assert_eq!(Read::<f64>::bind(&mut lease)?.as_slice(), [2.0, 3.0, 4.0]);
//! instance.release(lease)?;
//! # Ok(()) }
//! ```

#![deny(unsafe_code)]
#![deny(missing_docs)]

mod access;
mod buffer;
mod cover;
mod error;
mod field;
#[allow(unsafe_code)]
mod memory;
mod partition;
mod privilege;
mod rect;
mod reduction;
mod region;

pub use access::{Read, ReadShared, ReadWrite, ReadWriteShared, Reduce, Write, WriteShared};
pub use buffer::Buffer;
pub use error::RegionError;
pub use field::{Element, Field, FieldId, FieldInfo, FieldSpace};
pub use memory::{Instance, Lease, MemoryId, Returned, Rows, RowsMut, SharedInstance, Slot};
pub use partition::Partition;
pub use privilege::{Coherence, Interference, Privilege, Use, interference};
pub use rect::{Points, Rect};
pub use reduction::{Max, Min, Product, Reduction, ReductionId, Sum};
pub use region::{Region, TreeId};
