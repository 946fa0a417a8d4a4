#![doc = include_str!("../README.md")]
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
pub use memory::{Block, Instance, Lease, MemoryId, OwnBlock, Returned, Rows, RowsMut, SharedInstance, Slot};
pub use partition::Partition;
pub use privilege::{Coherence, Interference, Privilege, Use, interference};
pub use rect::{Points, Rect};
pub use reduction::{Max, Min, Product, Reduction, ReductionId, Sum};
pub use region::{Region, TreeId};
