//! Memory of large values that travel along edges. It is used again when nobody reads it any more.

use crate::maps::HashMap;
use crate::payload::{Lent, Payload};
use maniple_regions::Buffer;
use std::collections::VecDeque;
use std::sync::Arc;

/// The buffers of one length, the oldest first. Consumers may still read them.
#[derive(Default)]
struct Queue {
    buffers: VecDeque<Arc<dyn Lent>>,
    /// Whether one has been used again since the last sweep.
    reused: bool,
}

/// Values that tasks of this processor have put.
///
/// A program that uses the same lengths again and again allocates nothing. Whenever new buffers amount to more than those
/// kept, free buffers of lengths that were not used again are dropped. So the memory is at most a small multiple of the
/// memory that values under way need.
#[derive(Default)]
pub(super) struct Buffers {
    queues: HashMap<usize, Queue>,
    /// Bytes allocated since the last sweep.
    new: usize,
    /// Bytes that the last sweep left.
    kept: usize,
}

impl Buffers {
    /// New bytes that are always allowed between two sweeps.
    const SPARE: usize = 16 << 20;
    /// The most buffers of a length. With more, none are kept: nobody would use them.
    const MOST: usize = 4096;

    /// Memory for a value of this many bytes, which nobody else has: the first of the oldest few buffers that is free, or
    /// a new one. None if there is no memory.
    pub fn take(&mut self, bytes: usize) -> Option<Payload> {
        const LOOKED_AT: usize = 4;
        let queue = self.queues.entry(bytes).or_default();
        for _ in 0..queue.buffers.len().min(LOOKED_AT) {
            let Some(mut oldest) = queue.buffers.pop_front() else { break };
            if Arc::get_mut(&mut oldest).is_some() {
                queue.reused = true;
                return Some(Payload::Lent(oldest));
            }
            queue.buffers.push_back(oldest);
        }
        self.new = self.new.saturating_add(bytes);
        if self.new > self.kept + Self::SPARE {
            self.sweep();
        }
        Some(Payload::Lent(Arc::new(Buffer::try_zeroed(bytes)?)))
    }

    /// Keeps a value's memory until it is free.
    pub fn keep(&mut self, buffer: Arc<dyn Lent>) {
        let queue = &mut self.queues.entry(buffer.as_bytes().len()).or_default().buffers;
        if queue.len() < Self::MOST {
            queue.push_back(buffer);
        }
    }

    #[cold]
    fn sweep(&mut self) {
        self.queues.retain(|_, queue| {
            if !std::mem::take(&mut queue.reused) {
                queue.buffers.retain_mut(|buffer| Arc::get_mut(buffer).is_none());
            }
            !queue.buffers.is_empty()
        });
        (self.new, self.kept) = (0, self.bytes());
    }

    fn bytes(&self) -> usize {
        self.queues.iter().map(|(bytes, queue)| bytes * queue.buffers.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts a value of each length in turn, of which readers hold the newest few; gives the bytes allocated by the second
    /// half, and the most that were kept.
    fn put(lengths: impl Iterator<Item = usize>, read: usize) -> (usize, usize) {
        let mut buffers = Buffers::default();
        let (mut readers, mut allocated, mut most) = (VecDeque::new(), 0, 0);
        let all: Vec<usize> = lengths.collect();
        for (at, bytes) in all.iter().enumerate() {
            let before = buffers.queues.get(bytes).map_or(0, |queue| queue.buffers.len());
            let Some(Payload::Lent(mut value)) = buffers.take(*bytes) else { panic!("there is memory") };
            assert_eq!(Arc::get_mut(&mut value).expect("nobody else has it").as_bytes_mut().len(), *bytes);
            let after = buffers.queues.get(bytes).map_or(0, |queue| queue.buffers.len());
            allocated += if after < before || at < all.len() / 2 { 0 } else { *bytes };
            readers.push_back(value.clone());
            buffers.keep(value);
            if readers.len() > read {
                readers.pop_front();
            }
            most = most.max(buffers.bytes());
        }
        (allocated, most)
    }

    #[test]
    fn lengths_that_come_again_are_allocated_once() {
        for lengths in [1, 3, 8, 50] {
            let (allocated, most) = put((0..4000).map(|i| 300_000 + i % lengths * 1000), 7);
            assert_eq!(allocated, 0, "{lengths} lengths");
            assert!(most < 2 * (lengths + 8) * 350_000, "{lengths} lengths: {most} bytes kept");
        }
    }

    #[test]
    fn lengths_that_never_come_again_are_not_kept() {
        let (_, most) = put((0..2000).map(|i| 1_000_000 + i), 7);
        assert!(most < 2 * (8 * 1_100_000 + Buffers::SPARE), "{most} bytes kept");
    }

    #[test]
    fn memory_that_is_not_there_is_none() {
        assert!(Buffers::default().take(1 << 60).is_none());
    }
}
