//! Memory from elsewhere than the heap of this process.

use std::ptr::NonNull;

use crate::field::CACHE_LINE;

/// Memory from elsewhere than the heap of this process, such as memory that several processes share. It is given back
/// when this is dropped.
///
/// # Safety
///
/// The bytes are initialised, on a cache line's boundary, and readable and writable at the same place for as long as this
/// lives.
pub unsafe trait ForeignMemory: Send + Sync {
    /// The first byte.
    fn start(&self) -> NonNull<u8>;
    /// The number of bytes.
    fn bytes(&self) -> usize;
}

/// Bytes in a block that nobody else uses.
pub struct OwnedMemory(Box<dyn ForeignMemory>);

impl OwnedMemory {
    /// Takes a block for its bytes.
    ///
    /// # Safety
    ///
    /// Nobody else uses the bytes until this is dropped.
    ///
    /// # Panics
    ///
    /// If the block does not begin on a cache line.
    pub unsafe fn new(block: Box<dyn ForeignMemory>) -> Self {
        assert!(block.start().as_ptr().addr().is_multiple_of(CACHE_LINE), "a block begins on a cache line");
        OwnedMemory(block)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the block's bytes are initialised and live as long as it. Nobody else uses them.
        unsafe { std::slice::from_raw_parts(self.0.start().as_ptr(), self.0.bytes()) }
    }

    /// The block.
    pub(crate) fn block(&self) -> &dyn ForeignMemory {
        &*self.0
    }

    /// The first byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.0.start()
    }

    /// The bytes, mutably.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.0.start().as_ptr(), self.0.bytes()) }
    }
}
