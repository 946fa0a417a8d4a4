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
mod operator;
mod partition;
mod privilege;
mod rect;
mod region;
mod vector;

pub use access::{Read, ReadBytes, ReadShared, ReadWrite, ReadWriteShared, Reduce, Write, WriteBytes, WriteShared};
pub use buffer::Buffer;
pub use error::RegionError;
pub use field::{Element, Field, FieldId, FieldInfo, FieldSpace};
pub use memory::{
    ForeignMemory, Instance, Lease, Lendable, Loan, MemoryId, OwnedMemory, Returned, Rows, RowsMut, SharedInstance,
    WriteOnly, vec_in_huge_pages,
};
pub use operator::{
    BrokenLaw, ExactSum, Integer, Law, Laws, Located, Number, Operator, ReductionId, Stateful, Summand, argmax, argmin,
    exact_sum,
};
pub use partition::Partition;
pub use privilege::{Coherence, Interference, Privilege, Use, interference};
pub use rect::{Points, Rect};
pub use region::{Region, TreeId};
pub use vector::Vector;
