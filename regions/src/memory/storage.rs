//! Blocks of bytes with a rectangle and a field.

use std::fmt;
use std::ptr::NonNull;

use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use super::foreign::ForeignMemory;
use crate::field::CACHE_LINE;
use crate::{Buffer, FieldInfo, Rect, RegionError};

/// A memory of the machine, by number. The mapper chooses the memory of each instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct MemoryId(pub u32);

impl fmt::Display for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory {}", self.0)
    }
}

/// The way in which a storage's bytes are accessed, which never changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// Through references, as the leases allow.
    Plain,
    /// Through relaxed atomic words.
    Atomic,
}

/// One block of initialised bytes for the elements of `room`, row-major. Those of `rect` are the storage's.
pub(super) struct Storage {
    /// The first byte; dangling if there are none.
    base: NonNull<u8>,
    bytes: usize,
    rect: Rect,
    room: Rect,
    field: &'static FieldInfo,
    memory: MemoryId,
    access: Access,
    owned: Owned,
}

/// What keeps the bytes of a storage.
enum Owned {
    /// The storage's own bytes, of which nothing but the pointer is used.
    Bytes {
        _until_dropped: Bytes,
    },
    /// A buffer that the storage has taken over, in the same way.
    Buffer {
        _until_dropped: Buffer,
    },
    Foreign(Box<dyn ForeignMemory>),
}

fn check_len(field: &FieldInfo, rect: &Rect, came: usize) -> Result<(), RegionError> {
    let expected = rect.volume() * field.size;
    if came == expected {
        return Ok(());
    }
    let what = format!("{rect} of field `{}`", field.name).into();
    Err(RegionError::WrongLength { what, expected, came })
}

// SAFETY: a storage owns its bytes, which no other value of this process points to but views of leases. Whoever has a reference to it
// can reach the bytes of a plain storage only as rule 2 says, which rules 3 and 4 keep free of data races on whatever
// threads the leases are; the bytes of an atomic storage are accessed by atomic operations (rule 5). All other fields
// are plain data.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// A storage of zero bytes. A plain one has room for the padding of its field, unless it is empty.
    pub fn new(rect: Rect, field: &'static FieldInfo, memory: MemoryId, access: Access) -> Result<Self, RegionError> {
        let padded = access == Access::Plain && field.padding() > 0 && !rect.is_empty();
        let room = if padded { rect.padded(field.padding()) } else { Some(rect) };
        let zeros = room.and_then(|room| {
            let bytes = room.bytes(field.size)?;
            Some((room, Bytes::zeroed(bytes)?))
        });
        let refused = || {
            let rect = room.unwrap_or(rect);
            RegionError::OutOfMemory { field: field.name.into(), rect, size: field.size, memory }
        };
        let (room, zeros) = zeros.ok_or_else(refused)?;
        let (base, owned) = (zeros.base(), Owned::Bytes { _until_dropped: zeros });
        Ok(Storage { base, bytes: room.volume() * field.size, rect, room, field, memory, access, owned })
    }

    /// A plain storage of the values in a buffer.
    pub fn of_buffer(
        rect: Rect,
        field: &'static FieldInfo,
        memory: MemoryId,
        mut buffer: Buffer,
    ) -> Result<Self, RegionError> {
        check_len(field, &rect, buffer.len())?;
        let (base, bytes) = (buffer.base(), buffer.len());
        let owned = Owned::Buffer { _until_dropped: buffer };
        Ok(Storage { base, bytes, rect, room: rect, field, memory, access: Access::Plain, owned })
    }

    /// An atomic storage of the first bytes of a block, with the values that these have.
    ///
    /// # Safety
    ///
    /// Everybody who uses the bytes of the block does so as rule 5 says.
    pub unsafe fn in_foreign_memory(
        rect: Rect,
        field: &'static FieldInfo,
        memory: MemoryId,
        block: Box<dyn ForeignMemory>,
    ) -> Result<Self, RegionError> {
        let fits = |bytes: &usize| *bytes <= block.bytes();
        let bytes = rect.bytes(field.size).filter(fits);
        let bytes = bytes.ok_or_else(|| RegionError::OutOfMemory {
            field: field.name.into(),
            rect,
            size: field.size,
            memory,
        })?;
        let base = block.start();
        assert!(base.as_ptr().addr().is_multiple_of(CACHE_LINE), "a block begins on a cache line");
        let owned = Owned::Foreign(block);
        Ok(Storage { base, bytes, rect, room: rect, field, memory, access: Access::Atomic, owned })
    }

    /// The block that the bytes are in, if an atomic storage was made in one.
    pub fn foreign_memory(&self) -> Option<&dyn ForeignMemory> {
        match &self.owned {
            Owned::Foreign(block) => Some(&**block),
            Owned::Bytes { .. } | Owned::Buffer { .. } => None,
        }
    }

    #[inline]
    pub fn rect(&self) -> &Rect {
        &self.rect
    }

    /// The rectangle that the bytes are for: [`rect`](Self::rect), and around it the padding of the field.
    #[inline]
    pub fn room(&self) -> &Rect {
        &self.room
    }

    #[inline]
    pub fn field(&self) -> &'static FieldInfo {
        self.field
    }

    pub fn memory(&self) -> MemoryId {
        self.memory
    }

    #[inline]
    pub fn access(&self) -> Access {
        self.access
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first byte. Reading or writing through it is up to rules 2 and 5.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// An error unless `rect` lies within the storage.
    #[inline]
    pub fn covers(&self, rect: &Rect) -> Result<(), RegionError> {
        if self.rect.contains_rect(rect) { Ok(()) } else { Err(self.outside(rect)) }
    }

    #[cold]
    fn outside(&self, rect: &Rect) -> RegionError {
        RegionError::OutsideInstance { field: self.field.name.into(), covered: self.rect.into(), asked: (*rect).into() }
    }

    /// An error unless `came` bytes are the elements of `rect`.
    pub fn check_len(&self, rect: &Rect, came: usize) -> Result<(), RegionError> {
        check_len(self.field, rect, came)
    }

    /// An error unless `came` bytes are one element.
    pub fn check_element(&self, came: usize) -> Result<(), RegionError> {
        if came == self.field.size {
            return Ok(());
        }
        let what = format!("one element of field `{}`", self.field.name).into();
        Err(RegionError::WrongLength { what, expected: self.field.size, came })
    }

    /// The runs of bytes that make up `rect`, row-major: pairs of the offset of the first byte and the number of bytes.
    /// `rect` must lie within the storage, and so do the runs.
    pub fn runs(&self, rect: &Rect) -> impl Iterator<Item = (usize, usize)> + use<> {
        assert!(self.rect.contains_rect(rect), "{rect} lies outside {}", self.rect);
        let size = self.field.size;
        self.room.runs(rect).map(move |(at, len)| (at * size, len * size))
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field `{}` over {} in {}", self.field.name, self.rect, self.memory)
    }
}
