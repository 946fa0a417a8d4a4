//! Memory of large values that travel along edges, which is used again when nobody reads it any more.

use crate::payload::{Lent, Payload};
use maniple_regions::Buffer;
use std::collections::VecDeque;
use std::sync::Arc;

/// Values that tasks of this processor have put, the oldest first: consumers may still be reading them.
#[derive(Default)]
pub(super) struct Buffers(VecDeque<Arc<dyn Lent>>);

impl Buffers {
    /// Memory for a value of so many bytes, which nobody else has: the first of the oldest few that is free, or a new one.
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

    /// Keeps a value's memory until it is free. With very many none are kept: they would hold memory that nobody uses.
    pub fn keep(&mut self, buffer: Arc<dyn Lent>) {
        const MOST: usize = 4096;
        if self.0.len() < MOST {
            self.0.push_back(buffer);
        }
    }
}
