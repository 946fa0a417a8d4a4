//! Rings between processors of different processes of a host. A ring and the encoded messages that go through it lie in
//! the segment of the sender's process. The receiver opens it when it sees that it has been made.

use super::lobby::GiveUp;
use super::packet::{Content, Packet, failed};
use super::segment::Segment;
use crate::Error;
use crate::ids::ProcessorId;
use crate::message::Message;
use crate::wire::ring::{Receiver, Sender, ring_bytes};
use crate::wire::threads::post::{Abroad, Origin, Public, Way};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The processes of a run and the places in their segments. All processes come to the same.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub processes: u32,
    /// Processors of each process.
    pub workers: u32,
}

/// Bytes of a segment. Only those that are used take up memory.
pub const SEGMENT: usize = 64 << 30;
const LINE: usize = 128;

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

    /// The place of the word that says where the ring from one processor to another is, in the segment of the sender's
    /// process. It is 0 until the ring is made.
    fn offer(self, from: ProcessorId, to: ProcessorId) -> usize {
        let offers = self.workers as usize * size_of::<Public>();
        let row = from.index() % self.workers as usize * self.processors();
        offers + (row + to.index()) * size_of::<AtomicU64>()
    }

    /// Where rings and messages begin.
    fn heap(self) -> usize {
        let words = self.workers as usize * self.processors();
        (self.workers as usize * size_of::<Public>() + words * size_of::<AtomicU64>()).next_multiple_of(LINE)
    }
}

/// All segments of a run, with this process's number.
pub struct Segments {
    layout: Layout,
    me: usize,
    all: Vec<Arc<Segment>>,
    /// The first byte of this process's segment that is not in use.
    free: AtomicUsize,
}

impl Segments {
    /// Puts the public states of this process's processors into its segment, before others see it.
    pub fn prepare(layout: Layout, own: &Segment) {
        for worker in (0..layout.workers).map(ProcessorId) {
            let place = own.at(layout.public(worker), size_of::<Public>()).cast::<Public>();
            // SAFETY: Within the segment, aligned, and nobody else has it yet.
            unsafe { place.write(Public::new()) };
        }
    }

    pub fn new(layout: Layout, me: usize, all: Vec<Arc<Segment>>) -> Self {
        Self { layout, me, all, free: AtomicUsize::new(layout.heap()) }
    }

    /// The public states of all processors, in order.
    pub fn publics(&self) -> Vec<NonNull<Public>> {
        let processors = (0..self.layout.processors() as u32).map(ProcessorId);
        let of = |id| self.all[self.layout.process_of(id)].at(self.layout.public(id), size_of::<Public>()).cast();
        processors.map(of).collect()
    }

    fn offer(&self, from: ProcessorId, to: ProcessorId) -> &AtomicU64 {
        let segment = &self.all[self.layout.process_of(from)];
        let place = segment.at(self.layout.offer(from, to), size_of::<AtomicU64>()).cast();
        // SAFETY: Within the segment, aligned, and all processes use the place as this word only.
        unsafe { place.as_ref() }
    }

    /// Takes memory of this process's segment that nobody has used: it is zero.
    fn take(&self, bytes: usize) -> Option<usize> {
        let bytes = bytes.next_multiple_of(LINE);
        let taken = self.free.fetch_add(bytes, Ordering::Relaxed);
        (taken <= SEGMENT - bytes).then_some(taken)
    }
}

/// The rings of one process to and from the others.
pub struct Rings {
    segments: Arc<Segments>,
    publics: Vec<NonNull<Public>>,
    /// Slots of each ring.
    slots: usize,
    /// Why a message could not be sent, and how the run is ended for that.
    failed: Arc<Failure>,
}

// SAFETY: The pointers lead to memory that the segments keep, and `Public` is `Sync`.
unsafe impl Send for Rings {}
// SAFETY: As for `Send`.
unsafe impl Sync for Rings {}

/// The first error of this process's rings.
#[derive(Default)]
pub struct Failure {
    error: Mutex<Option<Error>>,
    /// Ends the run for everybody.
    pub give_up: OnceLock<GiveUp>,
}

impl Failure {
    pub fn note(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        if let Some(give_up) = self.give_up.get() {
            give_up();
        }
    }

    pub fn take(&self) -> Option<Error> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Rings {
    pub fn new(segments: Arc<Segments>, slots: usize, failed: Arc<Failure>) -> Self {
        let publics = segments.publics();
        Self { segments, publics, slots, failed }
    }
}

impl Abroad<Message> for Rings {
    fn open(&self, from: ProcessorId, to: ProcessorId) -> Option<Box<dyn Way<Message>>> {
        let Segments { layout, me, all, .. } = &*self.segments;
        if layout.process_of(to) == *me {
            return None;
        }
        let bytes = ring_bytes::<Packet>(self.slots);
        let place = self.segments.take(bytes).expect("a segment has room for its rings");
        // SAFETY: New memory of the segment, on a line's boundary. This is the one sender, and the offer below is taken
        // by one receiver.
        let ring = unsafe { Sender::in_memory(all[*me].at(place, bytes), self.slots, self.segments.clone()) };
        // Counted first: a consumer that has found as many rings as it has counted has found all that were counted.
        // SAFETY: In memory that the segments keep.
        unsafe { self.publics[to.index()].as_ref() }.opened.fetch_add(1, Ordering::Release);
        self.segments.offer(from, to).store(place as u64, Ordering::Release);
        let (segments, failed) = (self.segments.clone(), self.failed.clone());
        Some(Box::new(Out { ring, pair: (from, to), segments, blocks: Vec::new(), failed }))
    }

    fn fetch(&self, me: ProcessorId, known: &[ProcessorId]) -> Vec<(ProcessorId, Box<dyn Origin<Message>>)> {
        let Segments { layout, me: own, all, .. } = &*self.segments;
        let elsewhere =
            (0..layout.processors() as u32).map(ProcessorId).filter(|from| layout.process_of(*from) != *own);
        let mut found: Vec<(ProcessorId, Box<dyn Origin<Message>>)> = Vec::new();
        for from in elsewhere.filter(|from| !known.contains(from)) {
            let place = self.segments.offer(from, me).load(Ordering::Acquire) as usize;
            if place == 0 {
                continue;
            }
            let segment = all[layout.process_of(from)].clone();
            let at = segment.at(place, ring_bytes::<Packet>(self.slots));
            // SAFETY: The ring that the sender has made; this is its one receiver.
            let ring = unsafe { Receiver::in_memory(at, self.slots, self.segments.clone()) };
            found.push((from, Box::new(In { ring, pair: (from, me), segment })));
        }
        found
    }
}

/// Bytes before an encoded message: whether it is in use, on a line of its own.
const HEADER: usize = 64;

/// Memory for encoded messages of one size class, in the order in which it was last used. The reader frees it in this
/// order too.
#[derive(Default)]
struct Blocks(VecDeque<usize>);

struct Out {
    ring: Sender<Packet>,
    pair: (ProcessorId, ProcessorId),
    segments: Arc<Segments>,
    /// By the logarithm of the size.
    blocks: Vec<Blocks>,
    failed: Arc<Failure>,
}

/// The word that says whether a block is in use.
fn in_use(segment: &Segment, block: usize) -> &AtomicU32 {
    let place = segment.at(block, HEADER).cast();
    // SAFETY: Within the segment, aligned, and all processes use the place as this word only.
    unsafe { place.as_ref() }
}

impl Out {
    /// Copies an encoded message into a free block. `None` if the segment is full.
    fn put(&mut self, bytes: &[u8]) -> Option<usize> {
        let class = (HEADER + bytes.len()).next_power_of_two().ilog2() as usize;
        if self.blocks.len() <= class {
            self.blocks.resize_with(class + 1, Blocks::default);
        }
        let segment = &self.segments.all[self.segments.me];
        let blocks = &mut self.blocks[class].0;
        let is_free = |block: &usize| in_use(segment, *block).load(Ordering::Acquire) == 0;
        let block = match blocks.front().copied().filter(is_free) {
            Some(block) => {
                blocks.pop_front();
                block
            }
            None => self.segments.take(1 << class)?,
        };
        blocks.push_back(block);
        in_use(segment, block).store(1, Ordering::Relaxed);
        let place = segment.at(block + HEADER, bytes.len());
        // SAFETY: The block is free: it is new, or its reader has said so. Nobody reads it before the packet is pushed.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
        Some(block + HEADER)
    }
}

impl Way<Message> for Out {
    fn push(&mut self, message: Message) -> Result<(), Message> {
        if !self.ring.has_room() {
            return Err(message);
        }
        if let Some(packet) = Packet::of(&message) {
            self.ring.put(packet);
            return Ok(());
        }
        let (from, to) = self.pair;
        match postcard::to_stdvec(&message) {
            Ok(bytes) => {
                let Some(offset) = self.put(&bytes) else { return Err(message) };
                self.ring.put(Packet::encoded(offset, bytes.len()));
            }
            Err(e) => self.failed.note(failed(from, to, &e)),
        }
        Ok(())
    }
}

struct In {
    ring: Receiver<Packet>,
    pair: (ProcessorId, ProcessorId),
    segment: Arc<Segment>,
}

impl Origin<Message> for In {
    fn pop(&mut self) -> Option<Message> {
        let (offset, len) = match self.ring.pop()?.open() {
            Content::Message(message) => return Some(message),
            Content::Encoded { offset, len } => (offset, len),
        };
        // SAFETY: The sender has written the bytes before it pushed the packet, and leaves them until they are freed.
        let bytes = unsafe { std::slice::from_raw_parts(self.segment.at(offset, len).as_ptr(), len) };
        let (from, to) = self.pair;
        let message = postcard::from_bytes(bytes).unwrap_or_else(|e| Message::Lost(Box::new(failed(from, to, &e))));
        in_use(&self.segment, offset - HEADER).store(0, Ordering::Release);
        Some(message)
    }

    fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}
