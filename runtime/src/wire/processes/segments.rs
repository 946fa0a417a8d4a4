//! The segments of a run: what lies where in them, and their memory for rings, messages and data.

use super::segment::Segment;
use crate::ids::ProcessorId;
use crate::wire::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::wire::sync::{MODEL, Mutex};
use crate::wire::threads::post::Public;
use maniple_regions::ForeignMemory;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

/// The most bytes of a segment.
pub const LARGEST: usize = if MODEL { 1 << 14 } else { 1 << 40 };
/// From this size on, blocks have eight sizes between two powers of two.
const FINE: usize = 1 << 20;
const LINE: usize = 128;
/// Bytes before a block's own: how many hold it.
const HEADER: usize = 64;
/// Blocks of a size that are looked at for one that nobody holds.
const LOOKED_AT: usize = 4;

/// The processes of a run and the places in their segments. First come the public states of the processors, and one that
/// stands for the processors of other hosts; then a word for each ring; the rest is for rings and blocks. All processes come
/// to the same.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub processes: u32,
    /// Processors of each process.
    pub workers: u32,
}

impl Layout {
    pub fn processors(self) -> usize {
        self.processes as usize * self.workers as usize
    }

    pub fn process_of(self, processor: ProcessorId) -> usize {
        processor.index() / self.workers as usize
    }

    /// The place of a processor's public state in the segment of its process.
    fn public(self, processor: ProcessorId) -> usize {
        processor.index() % self.workers as usize * size_of::<Public>()
    }

    /// The place of the public state that stands for all processors of other hosts, in the segment of a host's first
    /// process. They are always idle, and done when all are.
    fn elsewhere(self) -> usize {
        self.workers as usize * size_of::<Public>()
    }

    /// The bytes of all public states.
    fn publics(self) -> usize {
        self.elsewhere() + size_of::<Public>()
    }

    /// The place of the word that says where the ring from one processor to another is, in the segment of the sender's
    /// process. It is 0 until the ring is made.
    fn offer(self, from: ProcessorId, to: ProcessorId) -> usize {
        let offers = self.publics();
        let row = from.index() % self.workers as usize * self.processors();
        offers + (row + to.index()) * size_of::<u64>()
    }

    /// Where rings and blocks begin.
    pub fn heap(self) -> usize {
        let words = self.workers as usize * self.processors();
        (self.publics() + words * size_of::<u64>()).next_multiple_of(LINE)
    }
}

/// All segments of a run, with this process's number.
pub struct Segments {
    pub layout: Layout,
    pub me: usize,
    /// The segments of the processes of this host.
    all: Vec<Option<Arc<Segment>>>,
    /// Bytes of this process's segment.
    bytes: usize,
    /// The first byte of it that is not in use.
    free: AtomicUsize,
    /// Blocks of this process that it has given back, by [`Class`]. Others may still hold them.
    blocks: [Mutex<[GivenBack; 8]>; LARGEST.ilog2() as usize + 1],
}

/// Blocks of a size that have been given back.
#[derive(Default)]
struct GivenBack {
    blocks: VecDeque<usize>,
    /// All of them are looked at when there are so many.
    look_at_all: usize,
}

impl GivenBack {
    /// Takes a block that nobody holds. Blocks may be held for as long as the run takes. So only a few are looked at, and all of them
    /// whenever their number has doubled: there are never more than about twice as many as are held at once.
    fn take(&mut self, is_held: impl Fn(usize) -> bool) -> Option<usize> {
        for _ in 0..self.blocks.len().min(LOOKED_AT) {
            let oldest = self.blocks.pop_front()?;
            if !is_held(oldest) {
                return Some(oldest);
            }
            self.blocks.push_back(oldest);
        }
        if self.blocks.len() <= LOOKED_AT.max(self.look_at_all) {
            return None;
        }
        // Those that nobody holds come first, for the next calls.
        let (held, free): (Vec<usize>, Vec<usize>) = self.blocks.drain(..).partition(|block| is_held(*block));
        self.look_at_all = 2 * held.len();
        let found = free.last().copied();
        self.blocks.extend(free.into_iter().rev().skip(1).chain(held));
        found
    }
}

/// The size of blocks for some number of bytes.
struct Class {
    size: usize,
    /// The logarithm of the power of two that is not above it, and the number of the size between that and the next.
    power: usize,
    part: usize,
}

impl Class {
    fn of(bytes: usize) -> Option<Self> {
        let all = bytes.checked_add(HEADER)?;
        let above = all.checked_next_power_of_two()?;
        let size = if above <= FINE { above } else { all.checked_next_multiple_of(above / 16)? };
        let power = size.ilog2() as usize;
        Some(Self { size, power, part: (size - (1 << power)) / ((1 << power) / 8).max(1) })
    }
}

impl Segments {
    /// Puts the public states of this process's processors into its segment, before others see it.
    pub fn prepare(layout: Layout, own: &Segment) {
        for place in (0..layout.workers).map(|worker| layout.public(ProcessorId(worker))).chain([layout.elsewhere()]) {
            let elsewhere = Public::new();
            elsewhere.idle.store(place == layout.elsewhere(), Ordering::Relaxed);
            // SAFETY: Within the segment, aligned, and nobody else has it yet.
            unsafe { own.at(place, size_of::<Public>()).cast::<Public>().write(elsewhere) };
        }
    }

    /// The segments of a process with this number, whose own has `bytes` bytes.
    pub fn new(layout: Layout, (me, bytes): (usize, usize), all: Vec<Option<Arc<Segment>>>) -> Self {
        let blocks = std::array::from_fn(|_| Mutex::default());
        Self { layout, me, all, bytes, free: AtomicUsize::new(layout.heap()), blocks }
    }

    /// The bytes of this process's segment that only rings and blocks use.
    pub fn capacity(&self) -> usize {
        self.bytes - self.layout.heap()
    }

    /// The segment of a process of this host.
    pub fn of(&self, process: usize) -> &Segment {
        self.all[process].as_deref().expect("a process of another host shares no memory")
    }

    /// The first process of this host.
    fn first(&self) -> usize {
        self.all.iter().position(Option::is_some).unwrap_or(self.me)
    }

    /// The public states of all processors, in order.
    pub fn publics(&self) -> Vec<NonNull<Public>> {
        let processors = (0..self.layout.processors() as u32).map(ProcessorId);
        let of = |id| {
            let process = self.layout.process_of(id);
            let (process, place) = match self.all[process] {
                Some(_) => (process, self.layout.public(id)),
                None => (self.first(), self.layout.elsewhere()),
            };
            self.of(process).at(place, size_of::<Public>()).cast()
        };
        processors.map(of).collect()
    }

    pub fn offer(&self, from: ProcessorId, to: ProcessorId) -> &AtomicU64 {
        let segment = self.of(self.layout.process_of(from));
        // SAFETY: Aligned, and all processes use the place as this word only.
        unsafe { segment.word(self.layout.offer(from, to)) }
    }

    /// Takes memory of this process's segment that nobody has used: it is zero. `None` if the segment is full.
    pub fn take(&self, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(LINE)?;
        let next = |free: usize| free.checked_add(bytes).filter(|end| *end <= self.bytes);
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
    }

    /// A block of this process's segment of at least `bytes` bytes, which this process holds once. Its bytes are zero if
    /// it is new. `None` if the segment is full.
    pub fn block(&self, bytes: usize) -> Option<(usize, bool)> {
        let Class { size, power, part } = Class::of(bytes)?;
        let mut blocks = self.blocks.get(power)?.lock().unwrap_or_else(PoisonError::into_inner);
        let found = blocks[part].take(|block| self.holders(self.me, block).load(Ordering::Acquire) > 0);
        drop(blocks);
        let (block, new) = match found {
            Some(block) => (block, false),
            None => (self.take(size)? + HEADER, true),
        };
        self.holders(self.me, block).store(1, Ordering::Relaxed);
        Some((block, new))
    }

    /// A block of this process's segment of at least `bytes` bytes, all zero, which this process holds once. `None` if the
    /// segment is full.
    pub fn zeroed(&self, bytes: usize) -> Option<usize> {
        let (block, new) = self.block(bytes)?;
        if !new {
            let place = self.of(self.me).at(block, bytes);
            // SAFETY: Within the segment, and nobody else holds the block.
            unsafe { place.as_ptr().write_bytes(0, bytes) };
        }
        Some(block)
    }

    /// Whether a process is on this host.
    pub fn is_near(&self, process: usize) -> bool {
        self.all[process].is_some()
    }

    /// The offset of a block in this process's segment, if it is there.
    pub fn place(&self, block: &dyn ForeignMemory) -> Option<usize> {
        let place = block.start().addr().get().checked_sub(self.of(self.me).at(0, 0).addr().get())?;
        (place < self.bytes).then_some(place)
    }

    /// A block of this process gets one more holder.
    pub fn hold(&self, block: usize) {
        self.holders(self.me, block).fetch_add(1, Ordering::Relaxed);
    }

    /// How many hold a block of a process, by the offset of its first byte.
    fn holders(&self, process: usize, block: usize) -> &AtomicU32 {
        // SAFETY: Aligned, and all processes use the place as this word only.
        unsafe { self.of(process).word(block - HEADER) }
    }

    /// Copies bytes, each part to a cache line of its own, into a block that one reader will hold. Returns its offset;
    /// `None` if the segment is full.
    pub fn send(&self, parts: &[&[u8]]) -> Option<usize> {
        let bytes = parts.iter().map(|part| part.len().next_multiple_of(HEADER)).sum::<usize>();
        let (block, _) = self.block(bytes)?;
        let mut at = block;
        for part in parts {
            // SAFETY: Nobody else holds the block, and nobody reads it before the message about it comes.
            unsafe { self.of(self.me).write(at, part) };
            at += part.len().next_multiple_of(HEADER);
        }
        // Used again when the reader, who holds it now, has let go of it.
        self.give_back(block, bytes);
        Some(block)
    }

    /// This process will not give the block to anybody else, and may use it again when nobody holds it.
    fn give_back(&self, block: usize, bytes: usize) {
        let Some(Class { power, part, .. }) = Class::of(bytes) else { return };
        self.blocks[power].lock().unwrap_or_else(PoisonError::into_inner)[part].blocks.push_back(block);
    }
}

/// Bytes of a process's block, which are held.
pub struct HeldBlock {
    segments: Arc<Segments>,
    process: usize,
    block: usize,
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: The segments keep the memory, which is initialised and stays where it is. Blocks, and the parts of messages in
// them, begin on cache lines.
unsafe impl ForeignMemory for HeldBlock {
    fn start(&self) -> NonNull<u8> {
        self.at
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

// SAFETY: The pointer leads to memory that the segments keep.
unsafe impl Send for HeldBlock {}
// SAFETY: As for `Send`.
unsafe impl Sync for HeldBlock {}

impl HeldBlock {
    /// What this process has been given to hold: `bytes` bytes from `at` on, in a block of another process.
    pub fn given(segments: &Arc<Segments>, (process, block): (usize, usize), at: usize, bytes: usize) -> Self {
        let start = segments.of(process).at(at, bytes);
        Self { segments: segments.clone(), process, block, at: start, bytes }
    }

    /// Of a block of this process: see [`Segments::give_back`].
    pub fn give_back(&self) {
        self.segments.give_back(self.block, self.bytes);
    }

    /// The same, held once more.
    pub fn more(segments: &Arc<Segments>, (process, block): (usize, usize), at: usize, bytes: usize) -> Self {
        segments.holders(process, block).fetch_add(1, Ordering::Relaxed);
        Self::given(segments, (process, block), at, bytes)
    }
}

impl Drop for HeldBlock {
    fn drop(&mut self) {
        self.segments.holders(self.process, self.block).fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block has space for its bytes, no more than an eighth too much if it is large, and bytes of a larger block never
    /// have a smaller one's class.
    /// However long some are held, and however many are given back meanwhile.
    #[test]
    fn there_are_at_most_about_twice_as_many_blocks_as_are_held() {
        const HELD: usize = 1000;
        let (mut given_back, mut made) = (GivenBack::default(), HELD);
        given_back.blocks.extend(0..HELD);
        let in_use = std::cell::Cell::new(usize::MAX);
        for _ in 0..100_000 {
            let is_held = |block| block < HELD || block == in_use.get();
            let block = given_back.take(is_held).unwrap_or_else(|| {
                made += 1;
                made - 1
            });
            assert!(!is_held(block));
            // The one before is free from now on.
            in_use.set(block);
            given_back.blocks.push_back(block);
        }
        assert!(made <= 2 * HELD + 2 * LOOKED_AT, "{made} blocks");
    }

    #[test]
    fn blocks_hold_their_bytes_and_waste_little() {
        let around = |size: usize| [size - HEADER - 1, size - HEADER, size - HEADER + 1, size, size + 1];
        let sizes = (7..40).flat_map(|power| (8..16).flat_map(move |part| around((1usize << power) / 8 * part)));
        let mut all: Vec<usize> = sizes.collect();
        all.sort_unstable();
        let mut before = (0, 0, 0);
        for bytes in all {
            let Class { size, power, part } = Class::of(bytes).expect("it is a size");
            assert!(size >= bytes + HEADER && part < 8 && size.is_multiple_of(LINE), "{bytes}: {size}");
            let waste = if size > FINE { bytes / 8 } else { bytes } + 2 * HEADER;
            assert!(size - bytes <= waste, "{bytes}: {size}");
            let class = (power, part, size);
            assert!(class >= before && (class.2 == before.2) == ((class.0, class.1) == (before.0, before.1)));
            before = class;
        }
        assert!(Class::of(usize::MAX).is_none() && Class::of(usize::MAX / 2 + 2).is_none());
    }
}
