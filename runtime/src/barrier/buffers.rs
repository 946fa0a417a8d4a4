//! Buffers for large values that travel along edges. A buffer is used again once nobody reads it any more.

use crate::payload::{Lent, Payload};
use maniple_regions::Buffer;
use std::collections::VecDeque;
use std::sync::Arc;

/// Buffers that tasks of this processor have put, the oldest first. Consumers may still be reading them.
#[derive(Default)]
pub(super) struct Buffers(VecDeque<Arc<dyn Lent>>);

impl Buffers {
    /// A buffer of so many bytes that nobody else has. It is the first free one among the oldest few, or a new one.
    pub fn take(&mut self, bytes: usize) -> Payload {
        const LOOKED_AT: usize = 4;
        for _ in 0..self.0.len().min(LOOKED_AT) {
            let Some(mut oldest) = self.0.pop_front() else { break };
            if let Some(free) = Arc::get_mut(&mut oldest)
                && free.as_bytes_mut().len() == bytes
            {
                return Payload::Lent(oldest);
            }
            self.0.push_back(oldest);
        }
        Payload::Lent(Arc::new(Buffer::zeroed(bytes)))
    }

    /// Keeps a buffer until it is free. Beyond a limit it is not kept, because it would only hold unused memory.
    pub fn keep(&mut self, buffer: Arc<dyn Lent>) {
        const MOST: usize = 4096;
        if self.0.len() < MOST {
            self.0.push_back(buffer);
        }
    }
}
