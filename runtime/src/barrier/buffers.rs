//! Memory of large values that travel along edges. It is used again when nobody reads it any more.

use crate::maps::HashMap;
use crate::payload::{Lent, Payload, VecKind};
use maniple_regions::Buffer;
use std::any::TypeId;
use std::collections::VecDeque;
use std::sync::Arc;

/// The buffers of one length, the oldest first. Consumers may still read them.
#[derive(Default)]
struct Queue {
    buffers: VecDeque<Arc<dyn Lent>>,
    /// Whether one has been used again since the last sweep.
    reused: bool,
}

impl Queue {
    /// The first of the oldest few buffers that is free.
    fn take(&mut self) -> Option<Arc<dyn Lent>> {
        const LOOKED_AT: usize = 4;
        for _ in 0..self.buffers.len().min(LOOKED_AT) {
            let mut oldest = self.buffers.pop_front()?;
            if Arc::get_mut(&mut oldest).is_some() {
                return Some(oldest);
            }
            self.buffers.push_back(oldest);
        }
        None
    }

    fn keep(&mut self, buffer: Arc<dyn Lent>) {
        // With more, none are kept: nobody would use them.
        const MOST: usize = 4096;
        if self.buffers.len() < MOST {
            self.buffers.push_back(buffer);
        }
    }
}

/// The vectors of one type of elements. Their lengths differ, and so does their memory.
#[derive(Default)]
struct Vecs {
    queue: Queue,
    /// How many were taken since the last sweep, and the most bytes of a value since.
    taken: usize,
    longest: usize,
}

impl Vecs {
    /// How many are taken between two sweeps.
    const SWEPT: usize = 64;

    fn take(&mut self, kind: &VecKind) -> Arc<dyn Lent> {
        self.taken += 1;
        if self.taken == Self::SWEPT {
            self.sweep(kind);
        }
        let mut vec = self.queue.take().unwrap_or_else(kind.new);
        if let Some(own) = Arc::get_mut(&mut vec) {
            (kind.clear)(own);
        }
        vec
    }

    fn keep(&mut self, vec: Arc<dyn Lent>) {
        self.longest = self.longest.max(vec.as_bytes().len());
        self.queue.keep(vec);
    }

    /// Drops free vectors that are more than have been taken, and those with far more memory than values needed.
    #[cold]
    fn sweep(&mut self, kind: &VecKind) {
        let (mut free, most) = (0, 2 * std::mem::take(&mut self.longest));
        self.queue.buffers.retain_mut(|vec| {
            let Some(own) = Arc::get_mut(vec) else { return true };
            free += 1;
            free <= self.taken && (kind.clear)(own) <= most
        });
        self.taken = 0;
    }
}

/// Values that tasks of this processor have put.
///
/// A program that uses the same lengths again and again allocates nothing. Whenever new buffers amount to more than those
/// kept, free buffers of lengths that were not used again are dropped. So the memory is at most a small multiple of the
/// memory that values under way need.
#[derive(Default)]
pub(super) struct Buffers {
    queues: HashMap<usize, Queue>,
    vecs: HashMap<TypeId, Vecs>,
    /// Bytes allocated since the last sweep.
    new: usize,
    /// Bytes that the last sweep left.
    kept: usize,
}

impl Buffers {
    /// New bytes that are always allowed between two sweeps.
    const SPARE: usize = 16 << 20;

    /// Memory for a value of this many bytes, which nobody else has: the first of the oldest few buffers that is free, or
    /// a new one. None if there is no memory.
    pub fn take(&mut self, bytes: usize) -> Option<Payload> {
        let queue = self.queues.entry(bytes).or_default();
        if let Some(free) = queue.take() {
            queue.reused = true;
            return Some(Payload::Lent(free));
        }
        self.new = self.new.saturating_add(bytes);
        if self.new > self.kept + Self::SPARE {
            self.sweep();
        }
        Some(Payload::Lent(Arc::new(Buffer::try_zeroed(bytes)?)))
    }

    /// Keeps a value's memory until it is free.
    pub fn keep(&mut self, buffer: Arc<dyn Lent>) {
        self.queues.entry(buffer.as_bytes().len()).or_default().keep(buffer);
    }

    /// An empty vector, which nobody else has: the first of the oldest few that is free, or a new one.
    pub fn take_vec(&mut self, kind: &VecKind) -> Payload {
        Payload::Lent(self.vecs.entry((kind.id)()).or_default().take(kind))
    }

    /// Keeps a vector until it is free.
    pub fn keep_vec(&mut self, kind: &VecKind, vec: Arc<dyn Lent>) {
        self.vecs.entry((kind.id)()).or_default().keep(vec);
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
    use crate::payload::filled_in;

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

    /// A long value and a burst of values leave no more than later ones need.
    #[test]
    fn vectors_keep_as_much_memory_as_values_need() {
        let kind = &VecKind::of::<u64>();
        let mut buffers = Buffers::default();
        let mut put = |len: usize| {
            let Payload::Lent(mut vec) = buffers.take_vec(kind) else { panic!("it is lent") };
            let own = filled_in::<u64>(Arc::get_mut(&mut vec).expect("nobody else has it"));
            assert!(own.is_empty());
            own.resize(len, 1);
            buffers.keep_vec(kind, vec.clone());
            (vec, buffers.vecs.values().map(|vecs| vecs.queue.buffers.len()).sum::<usize>())
        };
        let mut longest = |len| (0..300).map(|_| put(len).0.as_bytes().len()).max();
        assert_eq!(longest(1_000_000), Some(8_000_000));
        let burst: Vec<_> = (0..1000).map(|_| put(10)).collect();
        assert!(burst[999].1 >= 1000, "all are read");
        drop(burst);
        let kept = (0..300).map(|_| put(10).1).last();
        assert!(kept <= Some(Vecs::SWEPT), "{kept:?} are kept");
        let capacity = |vec: &mut Arc<dyn Lent>| (kind.clear)(Arc::get_mut(vec).expect("nobody reads it"));
        let most = buffers.vecs.values_mut().flat_map(|vecs| &mut vecs.queue.buffers).map(capacity).max();
        assert!(most <= Some(2 * 8 * 16), "{most:?} bytes are kept for a value");
    }

    #[test]
    fn memory_that_is_not_there_is_none() {
        assert!(Buffers::default().take(1 << 60).is_none());
    }
}
