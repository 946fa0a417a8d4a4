//! Instances that several users access at once.

use std::fmt;
use std::sync::Arc;

use super::foreign::ForeignMemory;
use super::lease::{Lease, Slip, Ticket};
use super::storage::{Access, MemoryId, Storage};
use super::words;
use crate::{Buffer, Coherence, FieldInfo, Privilege, Rect, RegionError};

/// The values of one field over one rectangle, in one memory, for several users at once (simultaneous coherence).
///
/// All access is through relaxed atomic words. So a missing barrier gives an old or a new value of each word, never
/// undefined behaviour. A word has the largest power of two up to 8 bytes that divides the element size. An element of
/// several words may be seen half old and half new.
///
/// Cloning gives another handle to the same values. No method waits.
#[derive(Clone)]
pub struct SharedInstance {
    storage: Arc<Storage>,
}

impl SharedInstance {
    /// Makes an instance of `field` over `rect` in `memory`. All values are zero.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutOfMemory`] if the values do not fit.
    pub fn new(rect: Rect, field: impl Into<&'static FieldInfo>, memory: MemoryId) -> Result<Self, RegionError> {
        Ok(SharedInstance { storage: Arc::new(Storage::new(rect, field.into(), memory, Access::Atomic)?) })
    }

    /// Makes an instance in the first bytes of `block`, with the values that they have.
    ///
    /// # Safety
    ///
    /// Whoever else uses the bytes, in this process or another one, does so through a shared instance of a field with the
    /// same element size.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutOfMemory`] if the block is too small.
    pub unsafe fn in_foreign_memory(
        rect: Rect,
        field: impl Into<&'static FieldInfo>,
        memory: MemoryId,
        block: Box<dyn ForeignMemory>,
    ) -> Result<Self, RegionError> {
        // SAFETY: the caller's promise.
        let storage = unsafe { Storage::in_foreign_memory(rect, field.into(), memory, block) }?;
        Ok(SharedInstance { storage: Arc::new(storage) })
    }

    /// The block that holds the values, if one was given.
    pub fn foreign_memory(&self) -> Option<&dyn ForeignMemory> {
        self.storage.foreign_memory()
    }

    /// The points that the instance has values for.
    pub fn rect(&self) -> Rect {
        *self.storage.rect()
    }

    /// The field.
    pub fn field(&self) -> &'static FieldInfo {
        self.storage.field()
    }

    /// The memory that holds the values.
    pub fn memory(&self) -> MemoryId {
        self.storage.memory()
    }

    /// The number of bytes of all values.
    pub fn bytes(&self) -> usize {
        self.storage.bytes()
    }

    /// Gives out a lease of `rect` with simultaneous coherence, even if others hold leases of it.
    ///
    /// It allocates, and counts a reference on a counter that all handles share. If that costs too much, keep the lease
    /// and use it again.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutsideInstance`] if the instance does not cover `rect`. [`RegionError::NoSharedReduction`] for a
    /// reduction.
    pub fn lease(&self, rect: Rect, privilege: Privilege) -> Result<Lease, RegionError> {
        if let Privilege::Reduce(_) = privilege {
            return Err(RegionError::NoSharedReduction { field: self.field().name.into(), came: privilege });
        }
        self.storage.covers(&rect)?;
        let slip = Slip {
            storage: Arc::clone(&self.storage),
            rect,
            privilege,
            coherence: Coherence::Simultaneous,
            ticket: Ticket::Nothing,
        };
        Ok(Lease { slip: slip.into() })
    }

    /// Makes a new instance over `rect` in `memory`, with the present values of this one.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutsideInstance`] if the instance does not cover `rect`. [`RegionError::OutOfMemory`] if the
    /// values do not fit.
    pub fn copy(&self, rect: Rect, memory: MemoryId) -> Result<SharedInstance, RegionError> {
        self.storage.covers(&rect)?;
        let copy = SharedInstance::new(rect, self.field(), memory)?;
        copy.copy_from(self, rect)?;
        Ok(copy)
    }

    /// Sets the values of `rect` to the values of `source`, which must have the same element type.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutsideInstance`] unless both instances cover `rect`. [`RegionError::WrongElement`] if the
    /// element types differ.
    pub fn copy_from(&self, source: &SharedInstance, rect: Rect) -> Result<(), RegionError> {
        self.storage.covers(&rect)?;
        let bytes = source.read_bytes(rect)?;
        if !self.field().same_element(source.field()) {
            return Err(self.field().wrong_element(source.field().type_name));
        }
        self.write_bytes(rect, bytes.as_bytes())
    }

    /// The values of `rect` in row-major order and native byte order.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutsideInstance`] if the instance does not cover `rect`.
    pub fn read_bytes(&self, rect: Rect) -> Result<Buffer, RegionError> {
        self.storage.covers(&rect)?;
        let mut buffer = Buffer::zeroed(rect.volume() * self.field().size);
        let mut rest = buffer.as_bytes_mut();
        for (at, len) in self.storage.runs(&rect) {
            let (run, more) = rest.split_at_mut(len);
            words::load_run(&self.storage, at, run);
            rest = more;
        }
        Ok(buffer)
    }

    /// Sets the values of `rect` to `bytes`, in row-major order and native byte order.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutsideInstance`] if the instance does not cover `rect`. [`RegionError::WrongLength`] if `bytes`
    /// has another length than the values of `rect`.
    pub fn write_bytes(&self, rect: Rect, bytes: &[u8]) -> Result<(), RegionError> {
        self.storage.covers(&rect)?;
        self.storage.check_len(&rect, bytes.len())?;
        let mut rest = bytes;
        for (at, len) in self.storage.runs(&rect) {
            let (run, more) = rest.split_at(len);
            words::store_run(&self.storage, at, run);
            rest = more;
        }
        Ok(())
    }

    /// Sets every value of `rect` to the value with the bytes `element`.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutsideInstance`] if the instance does not cover `rect`. [`RegionError::WrongLength`] if
    /// `element` is not one element.
    pub fn fill(&self, rect: Rect, element: &[u8]) -> Result<(), RegionError> {
        self.storage.covers(&rect)?;
        self.storage.check_element(element.len())?;
        for (at, len) in self.storage.runs(&rect) {
            for value in (at..at + len).step_by(element.len()) {
                words::store_run(&self.storage, value, element);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SharedInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedInstance({:?})", self.storage)
    }
}
