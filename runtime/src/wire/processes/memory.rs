//! Registered memory: instances in the segment of their process, which the other processes of the host use in place.

use super::segments::{HeldBlock, Segments};
use crate::ids::ProcessorId;
use crate::message::{BlockName, SharedMemory};
use maniple_regions::{Buffer, FieldInfo, ForeignMemory, MemoryId, OwnedMemory, Rect, RegionError, SharedInstance};
use std::ptr::NonNull;
use std::sync::Arc;

/// The registered memory of one process.
pub struct Registered(pub Arc<Segments>);

/// A block of this process. Once it has let go of it, it uses the block again when the others have done so too.
struct Own(HeldBlock);

// SAFETY: The block that is held, which lives as long as this.
unsafe impl ForeignMemory for Own {
    fn start(&self) -> NonNull<u8> {
        self.0.start()
    }
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl SharedMemory for Registered {
    fn reaches(&self, processor: ProcessorId) -> bool {
        self.0.is_near(self.0.layout.process_of(processor))
    }

    fn instance(&self, rect: Rect, field: &FieldInfo, memory: MemoryId) -> Result<SharedInstance, RegionError> {
        let refused = || RegionError::OutOfMemory { field: field.name.into(), rect, size: field.size, memory };
        let bytes = rect.bytes(field.size).ok_or_else(refused)?;
        let block = self.0.zeroed(bytes).ok_or_else(refused)?;
        let held = HeldBlock::given(&self.0, (self.0.me, block), block, bytes);
        // SAFETY: A new block. Other processes open it as an instance of the same field.
        unsafe { SharedInstance::in_foreign_memory(rect, *field, memory, Box::new(Own(held))) }
    }

    fn buffer(&self, bytes: usize) -> Option<Buffer> {
        let (block, new) = self.0.block(bytes)?;
        if new {
            self.0.of(self.0.me).populate(block, bytes);
        }
        let held = HeldBlock::given(&self.0, (self.0.me, block), block, bytes);
        // SAFETY: Nobody else has the block until the buffer is given to a receiver.
        Some(Buffer::from_memory(unsafe { OwnedMemory::new(Box::new(Own(held))) }))
    }

    fn name(&self, instance: &SharedInstance) -> Option<BlockName> {
        let (at, bytes) = (self.0.place(instance.foreign_memory()?)?, instance.bytes());
        self.0.hold(at);
        Some(BlockName { node: self.0.me as u32, at: at as u64, bytes: bytes as u64 })
    }

    fn open(
        &self,
        name: BlockName,
        rect: Rect,
        field: &FieldInfo,
        memory: MemoryId,
    ) -> Result<SharedInstance, RegionError> {
        let at = name.at as usize;
        let held = HeldBlock::given(&self.0, (name.node as usize, at), at, name.bytes as usize);
        // SAFETY: The other process has made its instance of this field in the block, and all processes use it so.
        unsafe { SharedInstance::in_foreign_memory(rect, *field, memory, Box::new(held)) }
    }
}
