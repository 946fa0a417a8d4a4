//! What a slot of a ring between processes holds: an arrival, without its value if that is long, or the place of any other
//! message, encoded.

use crate::ids::{ObjectId, ProcessorId};
use crate::message::{Also, Bulk, Message};
use crate::payload::Payload;

/// The content of a slot: plain words, of any value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Packet([u64; 7]);

const _: () = assert!(size_of::<Packet>() == size_of::<Message>());

/// A packet, taken apart.
#[derive(Debug)]
pub enum Content {
    Message(Message),
    /// An arrival without its value, which is in this block of the sender's segment.
    Lent {
        message: Message,
        block: usize,
        len: usize,
    },
    /// This many encoded bytes, at the beginning of this block of the sender's segment.
    Encoded {
        block: usize,
        len: usize,
    },
}

/// In the lowest byte: the number of bytes of an arrival's value, or one of these.
const LENT: u64 = 0xfd;
const EMPTY: u64 = 0xfe;
const ENCODED: u64 = 0xff;

impl Packet {
    /// An arrival whose value fits. `None` for any other message.
    #[inline]
    pub fn of(message: &Message) -> Option<Self> {
        let Message::Arrive { payload, .. } = message else { return None };
        let (kind, words) = match payload {
            Payload::None => (EMPTY, [0; 3]),
            Payload::Inline { len, words } => (u64::from(*len), *words),
            Payload::Lent(_) | Payload::Failed(_) => return None,
        };
        Self::arrival(message, kind, words)
    }

    /// An arrival whose value has been taken out of it. `None` for any other message. It gets its [place](Self::at) later.
    pub fn lent(message: &Message, bulk: &[Bulk]) -> Option<Self> {
        let Message::Arrive { payload: Payload::None, .. } = message else { return None };
        Self::arrival(message, LENT, [0, bulk.first()?.as_bytes().len() as u64, 0])
    }

    #[inline]
    fn arrival(message: &Message, kind: u64, [a, b, c]: [u64; 3]) -> Option<Self> {
        let Message::Arrive { object, cell, generation, also, .. } = message else { return None };
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Some(Self([pair(kind as u32, *object), pair(*cell, also.cell), *generation, also.generation.into(), a, b, c]))
    }

    /// A message of this many encoded bytes. It gets its [place](Self::at) later.
    pub fn encoded(len: usize) -> Self {
        Self([ENCODED, 0, 0, 0, 0, len as u64, 0])
    }

    /// The packet of a message in this block.
    pub fn at(mut self, block: usize) -> Self {
        self.0[4] = block as u64;
        self
    }

    #[inline]
    pub fn open(self) -> Content {
        let [first, cells, generation, also, a, b, c] = self.0;
        let payload = match first & 0xff {
            ENCODED => return Content::Encoded { block: a as usize, len: b as usize },
            LENT | EMPTY => Payload::None,
            // Another process can't make this process read beyond the words.
            len => Payload::Inline { len: len.min(Payload::INLINE as u64) as u8, words: [a, b, c] },
        };
        let (object, cell) = ((first >> 32) as ObjectId, cells as u32);
        let also = Also { cell: (cells >> 32) as u32, generation: also as u32 };
        let message = Message::Arrive { object, cell, generation, payload, also };
        match first & 0xff {
            LENT => Content::Lent { message, block: a as usize, len: b as usize },
            _ => Content::Message(message),
        }
    }
}

/// The error of a message that can't be encoded or decoded.
pub fn failed(from: ProcessorId, to: ProcessorId, e: &postcard::Error) -> crate::Error {
    crate::Error::Encoding { what: format!("a message from processor {from} to {to}"), message: e.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_stays_the_same() {
        for len in [None, Some(0), Some(1), Some(8), Some(24)] {
            let bytes: Vec<u8> = (0..len.unwrap_or(0)).map(|i| 0xf0 | i).collect();
            let payload = len.map_or(Payload::None, |_| Payload::copy_of(&bytes));
            let also = Also { cell: 0x8000_0001, generation: u32::MAX - 1 };
            let message = Message::Arrive { object: 7, cell: u32::MAX, generation: u64::MAX - 3, payload, also };
            let packet = Packet::of(&message).expect("it fits");
            let Content::Message(opened) = packet.open() else { panic!("no message") };
            assert_eq!(format!("{opened:?}"), format!("{message:?}"));
        }
        let (payload, also) = (Payload::copy_of(&[7; 25]), Also { cell: 3, generation: 5 });
        let mut message = Message::Arrive { object: 1, cell: 2, generation: 4, payload, also };
        assert_eq!(Packet::of(&message), None);
        assert_eq!(Packet::lent(&message, &[]), None);
        let bulk = message.take_bulk();
        let lent = Packet::lent(&message, &bulk).expect("an arrival").at(1 << 40);
        let Content::Lent { message: opened, block, len } = lent.open() else { panic!("lent") };
        assert_eq!((format!("{opened:?}"), block, len), (format!("{message:?}"), 1 << 40, 25));
        let Content::Encoded { block, len } = Packet::encoded(3).at(1 << 41).open() else { panic!("encoded") };
        assert_eq!((block, len), (1 << 41, 3));
    }
}
