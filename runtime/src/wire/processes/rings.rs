//! Rings between processors of different processes of a host. A ring and the encoded messages that go through it lie in
//! the segment of the sender's process. The receiver opens it when it sees that it has been made.

use super::link::Link;
use super::lobby::GiveUp;
use super::packet::{Content, Packet, failed};
use super::segments::{HeldBlock, Segments};
use crate::Error;
use crate::ids::ProcessorId;
use crate::message::{Bulk, Message};
use crate::wire::ring::{Receiver, Sender, ring_bytes};
use crate::wire::threads::post::{Abroad, Origin, Publics, Way};
use maniple_regions::{Buffer, OwnedMemory};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most bytes of encoded messages in a ring that nobody has taken yet. One message may have more.
const UNDER_WAY: usize = 64 << 20;
/// The most messages that are noted as not taken before it is asked which of them have been.
const NOTED: usize = 1024;
/// The bytes of a cache line, on which each part of an encoded message begins.
const LINE: usize = 64;

/// The ways of one process to and from the others: rings within the host, and the link to other hosts.
pub struct Ways {
    segments: Arc<Segments>,
    /// Slots of each ring.
    slots: usize,
    /// Why a message could not be sent, and how the run is ended for that.
    failed: Arc<Failure>,
    link: Option<Arc<Link>>,
}

/// The first error of this process's ways.
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

    /// There is no memory for a message.
    fn full(&self, from: ProcessorId, most: usize) {
        let expected = format!("at most {most} bytes of rings, messages and shared regions in a process");
        let what = format!("memory for messages of processor {from} to other processes");
        let more =
            "more; raise `ulimit -v` and `ulimit -f` if they are set, and the size of `/dev/shm` if a warning names it";
        self.note(Error::misuse(what, expected, more));
    }
}

impl Ways {
    pub fn new(segments: Arc<Segments>, slots: usize, failed: Arc<Failure>, link: Option<Arc<Link>>) -> Self {
        Self { segments, slots, failed, link }
    }
}

impl Abroad<Message> for Ways {
    fn open(&self, publics: &Publics, from: ProcessorId, to: ProcessorId) -> Option<Box<dyn Way<Message>>> {
        let segments = &self.segments;
        if segments.layout.process_of(to) == segments.me {
            return None;
        }
        if let Some(link) = self.link.as_ref().filter(|link| !link.hosts.is_near(to)) {
            return Some(link.way(from, to));
        }
        let bytes = ring_bytes::<Packet>(self.slots);
        let Some(place) = segments.take(bytes) else {
            self.failed.full(from, segments.capacity());
            return Some(Box::new(Nowhere));
        };
        // SAFETY: New memory of the segment, on a line's boundary. This is the one sender, and the offer below is taken
        // by one receiver.
        let ring =
            unsafe { Sender::in_memory(segments.of(segments.me).at(place, bytes), self.slots, segments.clone()) };
        // Counted first: a consumer that has found as many rings as it has counted has found all that were counted.
        publics[to.index()].opened.fetch_add(1, Ordering::Release);
        segments.offer(from, to).store(place as u64, Ordering::Release);
        let (segments, failed) = (segments.clone(), self.failed.clone());
        Some(Box::new(Out {
            ring,
            pair: (from, to),
            segments,
            header: Vec::new(),
            untaken: Untaken::default(),
            failed,
        }))
    }

    fn fetch(&self, me: ProcessorId, known: &[ProcessorId]) -> Vec<(ProcessorId, Box<dyn Origin<Message>>)> {
        let layout = self.segments.layout;
        let mut found = self.link.as_ref().map_or_else(Vec::new, |link| link.fetch(me));
        let is_near = |from| self.link.as_ref().is_none_or(|link| link.hosts.is_near(from));
        let elsewhere = (0..layout.processors() as u32)
            .map(ProcessorId)
            .filter(|from| layout.process_of(*from) != self.segments.me && is_near(*from));
        for from in elsewhere.filter(|from| !known.contains(from)) {
            let place = self.segments.offer(from, me).load(Ordering::Acquire) as usize;
            if place == 0 {
                continue;
            }
            let process = layout.process_of(from);
            let at = self.segments.of(process).at(place, ring_bytes::<Packet>(self.slots));
            // SAFETY: The ring that the sender has made; this is its one receiver.
            let ring = unsafe { Receiver::in_memory(at, self.slots, self.segments.clone()) };
            found.push((from, Box::new(In { ring, pair: (from, me), process, segments: self.segments.clone() })));
        }
        found
    }

    fn progress(&self, publics: &Publics) -> bool {
        self.link.as_ref().is_some_and(|link| link.progress(publics))
    }

    fn tells_when_left(&self, from: ProcessorId, to: ProcessorId) -> bool {
        self.link.as_ref().is_some_and(|link| link.tells_when_left(from, to))
    }
}

/// Where messages go when there is no memory for a ring. The run has been given up.
struct Nowhere;

impl Way<Message> for Nowhere {
    fn push(&mut self, _: Message) -> Result<(), Message> {
        Ok(())
    }
}

/// Encoded messages that the receiver has not taken: the position of each in the ring, and its bytes.
#[derive(Default)]
struct Untaken {
    messages: VecDeque<(usize, usize)>,
    bytes: usize,
}

struct Out {
    ring: Sender<Packet>,
    pair: (ProcessorId, ProcessorId),
    segments: Arc<Segments>,
    /// The encoded message, in memory that is used again.
    header: Vec<u8>,
    untaken: Untaken,
    failed: Arc<Failure>,
}

impl Out {
    /// Whether the bytes of another message may be under way.
    fn may_send(&mut self, bytes: usize) -> bool {
        let Untaken { messages, bytes: sum } = &mut self.untaken;
        if *sum + bytes > UNDER_WAY || messages.len() >= NOTED {
            let taken = self.ring.taken();
            while let Some((at, bytes)) = messages.front().copied()
                && (taken.wrapping_sub(at) as isize) > 0
            {
                messages.pop_front();
                *sum -= bytes;
            }
        }
        *sum == 0 || *sum + bytes <= UNDER_WAY
    }
}

impl Out {
    /// If a buffer is in a block of this process: that block. Nobody but the message has the buffer.
    fn own_block(&self, bulk: &Bulk) -> Option<usize> {
        match bulk {
            Bulk::Buffer(buffer) => self.segments.place(buffer.foreign_memory()?),
            Bulk::Lent(_) => None,
        }
    }
}

impl Way<Message> for Out {
    fn push(&mut self, mut message: Message) -> Result<(), Message> {
        if !self.ring.has_free_slot() {
            return Err(message);
        }
        if let Some(packet) = Packet::of(&message) {
            self.ring.put(packet);
            return Ok(());
        }
        let size = message.bulk_bytes();
        if !self.may_send(size) {
            return Err(message);
        }
        let (from, to) = self.pair;
        let bulk = message.take_bulk();
        self.header.clear();
        let lent = Packet::lent(&message, &bulk);
        let places: Vec<Option<usize>> =
            bulk.iter().map(|bulk| self.own_block(bulk).filter(|_| lent.is_none())).collect();
        if lent.is_none() {
            let lens: Vec<(usize, Option<usize>)> =
                bulk.iter().zip(&places).map(|(bulk, place)| (bulk.as_bytes().len(), *place)).collect();
            let header = std::mem::take(&mut self.header);
            match postcard::to_extend(&(lens, &message), header) {
                Ok(header) => self.header = header,
                Err(e) => {
                    self.failed.note(failed(from, to, &e));
                    return Ok(());
                }
            }
        }
        let header = lent.is_none().then_some(&self.header[..]);
        let copied = bulk.iter().zip(&places).filter(|(_, place)| place.is_none()).map(|(bulk, _)| bulk.as_bytes());
        let parts: Vec<&[u8]> = header.into_iter().chain(copied).collect();
        let Some(block) = self.segments.send(&parts) else {
            self.failed.full(from, self.segments.capacity());
            return Ok(());
        };
        // The receiver holds these, too. It lets go of them in the end.
        places.into_iter().flatten().for_each(|block| self.segments.hold(block));
        // Results and arguments are in the header.
        let size = size + self.header.len();
        if size > 0 {
            self.untaken.messages.push_back((self.ring.position(), size));
            self.untaken.bytes += size;
        }
        self.ring.put(lent.unwrap_or(Packet::encoded(self.header.len())).at(block));
        Ok(())
    }
}

struct In {
    ring: Receiver<Packet>,
    pair: (ProcessorId, ProcessorId),
    /// The sender's process.
    process: usize,
    segments: Arc<Segments>,
}

impl In {
    /// Bytes of a block of the sender, which go on being held with the buffer.
    fn buffer(&self, block: usize, at: usize, bytes: usize) -> Buffer {
        let held = HeldBlock::more(&self.segments, (self.process, block), at, bytes);
        // SAFETY: The sender has written the bytes before it pushed the packet, and uses the block again only when nobody
        // holds it. Each part of it becomes one buffer.
        Buffer::from_memory(unsafe { OwnedMemory::new(Box::new(held)) })
    }

    fn decode(&self, block: usize, len: usize) -> Result<Message, postcard::Error> {
        let segment = self.segments.of(self.process);
        // SAFETY: The sender has written the bytes before it pushed the packet, and leaves them while the block is held.
        let header = unsafe { std::slice::from_raw_parts(segment.at(block, len).as_ptr(), len) };
        let (lens, mut message) = postcard::from_bytes::<(Vec<(usize, Option<usize>)>, Message)>(header)?;
        let mut at = block + len.next_multiple_of(LINE);
        let bulk = lens.into_iter().map(|(len, place)| match place {
            Some(place) => {
                let held = HeldBlock::given(&self.segments, (self.process, place), place, len);
                // SAFETY: As in `buffer`. The sender has no other use of the block than to hold it.
                Buffer::from_memory(unsafe { OwnedMemory::new(Box::new(held)) })
            }
            None => {
                let start = at;
                at += len.next_multiple_of(LINE);
                self.buffer(block, start, len)
            }
        });
        message.put_bulk(bulk);
        Ok(message)
    }
}

impl Origin<Message> for In {
    fn pop(&mut self) -> Option<Message> {
        let content = self.ring.pop()?.open();
        let block = match &content {
            Content::Message(_) => 0,
            Content::Lent { block, .. } | Content::Encoded { block, .. } => *block,
        };
        // Lets go of the block in the end.
        let _held = (block > 0).then(|| HeldBlock::given(&self.segments, (self.process, block), block, 0));
        Some(match content {
            Content::Message(message) => message,
            Content::Lent { mut message, block, len } => {
                message.put_bulk([self.buffer(block, block, len)].into_iter());
                message
            }
            Content::Encoded { block, len } => {
                let (from, to) = self.pair;
                self.decode(block, len).unwrap_or_else(|e| Message::Lost(Box::new(failed(from, to, &e))))
            }
        })
    }

    fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::Segment;
    use super::super::segments::Layout;
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// No memory is used for what is taken here.
    #[test]
    fn a_full_segment_ends_the_run_with_an_error() {
        let layout = Layout { processes: 2, workers: 1 };
        const BYTES: usize = 64 << 30;
        let new = || Segment::new("test", BYTES, layout.heap(), true).inspect(|own| Segments::prepare(layout, own));
        let own = || new().map(Arc::new).ok();
        let segments = Arc::new(Segments::new(layout, (0, BYTES), vec![own(), own()]));
        // SAFETY: They have been made above, and the segments keep them.
        let publics = unsafe { Publics::in_memory(segments.publics(), segments.clone()) };
        let (failed, given_up) = (Arc::new(Failure::default()), Arc::new(AtomicBool::new(false)));
        let told = given_up.clone();
        assert!(failed.give_up.set(Arc::new(move || told.store(true, Ordering::Relaxed))).is_ok());
        let ways = Ways::new(segments.clone(), 4, failed.clone(), None);
        let (from, to) = (ProcessorId(0), ProcessorId(1));
        let mut way = ways.open(&publics, from, to).expect("another process");
        let message = || Message::Lost(Box::new(Error::user("text")));
        assert!(way.push(message()).is_ok() && failed.take().is_none());
        // All that is left.
        let mut part = BYTES / 2;
        while part > 0 {
            part = segments.take(part).map_or(part / 2, |_| part);
        }
        // Its block is given back by nobody.
        assert!(way.push(message()).is_ok());
        let error = failed.take().expect("the segment is full").to_string();
        assert!(error.contains(&segments.capacity().to_string()) && given_up.swap(false, Ordering::Relaxed), "{error}");
        // No memory for a ring either.
        assert!(ways.open(&publics, from, to).expect("another process").push(message()).is_ok());
        assert!(failed.take().is_some() && given_up.load(Ordering::Relaxed));
    }
}
