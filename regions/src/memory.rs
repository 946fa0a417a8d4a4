//! Instance memory: the one module with `unsafe` code. All that it shows to the rest of the crate is safe to call.
//!
//! Vocabulary:
//!
//! - **Bytes** are owned memory, from the allocator or the system. Storages and buffers have some.
//! - A **storage** is one block of initialised bytes with its rectangle and field. It is *plain* or *atomic* for life.
//! - An [`Instance`] owns a plain storage and keeps the **ledger** of the leases that are out.
//! - A [`SharedInstance`] is a handle to an atomic storage. There is no ledger.
//! - A [`Lease`] holds a storage and a rectangle within it. It cannot be copied.
//! - A [`Lendable`] is a vector of its own kind, outside these rules: ranges of it are on loan while others change.
//! - A **view** borrows a lease mutably and does the accesses for an accessor.
//!
//! Every `SAFETY` comment in this module refers to these rules:
//!
//! 1. A storage's bytes are initialised when it is made, in [`Bytes`] of its own, in a buffer that it has taken
//!    over, or in a [`ForeignMemory`]. They never move,
//!    and live until the last `Arc` to it is gone. Elements are plain old data, so any bytes are a valid value.
//! 2. The bytes of a **plain** storage are touched in two ways only. (a) Through a view of a lease, within the lease's
//!    rectangle. If the lease is for all of the storage and writes, the padding counts as a part of its rectangle. A view writes
//!    only if the lease's privilege writes. (b) By a method of the instance, on the instance's
//!    thread. It stays within a rectangle for which the ledger has just said that no lease in the way is out.
//! 3. The ledger never has two overlapping leases out unless both only read. A lease that is lost is never given back,
//!    so it counts as out for ever.
//! 4. A lease gives one view at a time, because the view borrows it mutably. By rule 3, views of two leases that
//!    overlap both only read.
//! 5. The bytes of an **atomic** storage are touched only through relaxed atomic words whose width is a function of the
//!    element size, so that all accesses to one byte have the same width. Other processes that share a block do the same.
//! 6. A view is made only for the element type and dimension of the storage, so that its offsets are the offsets of `layout`; or for the
//!    bytes of whole runs of elements.

#[cfg(feature = "ndarray")]
mod array;
mod bytes;
mod foreign;
mod instance;
mod layout;
mod lease;
mod ledger;
mod lendable;
mod shared;
mod storage;
mod view;
mod words;

pub(crate) use bytes::Bytes;
pub use bytes::vec_in_huge_pages;
pub use foreign::{ForeignMemory, OwnedMemory};
pub use instance::{Instance, Returned};
pub use lease::Lease;
pub use lendable::{Lendable, Loan};
pub use shared::SharedInstance;
pub use storage::MemoryId;
pub(crate) use view::{ByteView, View, ViewMut};
pub use view::{Rows, RowsMut, WriteOnly};
pub(crate) use words::SharedView;
