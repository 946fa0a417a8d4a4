//! What a slot of a ring between processes holds: a small arrival as it is, or the place of any other message, encoded.

use crate::ids::{ObjectId, ProcessorId};
use crate::message::{Also, Message};
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
    /// So many encoded bytes, from this offset of the sender's segment on.
    Encoded {
        offset: usize,
        len: usize,
    },
}

/// In the lowest byte: the number of bytes of an arrival's value, or one of these.
const EMPTY: u64 = 0xfe;
const ENCODED: u64 = 0xff;

impl Packet {
    /// An arrival whose value fits. `None` for any other message.
    #[inline]
    pub fn of(message: &Message) -> Option<Self> {
        let Message::Arrive { object, cell, generation, payload, also } = message else { return None };
        let (kind, words) = match payload {
            Payload::None => (EMPTY, [0; 3]),
            Payload::Inline { len, words } => (u64::from(*len), *words),
            Payload::Lent(_) | Payload::Failed(_) => return None,
        };
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let [a, b, c] = words;
        Some(Self([pair(kind as u32, *object), pair(*cell, also.cell), *generation, also.generation.into(), a, b, c]))
    }

    pub fn encoded(offset: usize, len: usize) -> Self {
        Self([ENCODED, offset as u64, len as u64, 0, 0, 0, 0])
    }

    #[inline]
    pub fn open(self) -> Content {
        let [first, cells, generation, also, a, b, c] = self.0;
        let payload = match first & 0xff {
            ENCODED => return Content::Encoded { offset: cells as usize, len: generation as usize },
            EMPTY => Payload::None,
            // Another process can't make this process read beyond the words.
            len => Payload::Inline { len: len.min(Payload::INLINE as u64) as u8, words: [a, b, c] },
        };
        let (object, cell) = ((first >> 32) as ObjectId, cells as u32);
        let also = Also { cell: (cells >> 32) as u32, generation: also as u32 };
        Content::Message(Message::Arrive { object, cell, generation, payload, also })
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
        let large = Payload::copy_of(&[0; 25]);
        let also = Also::NOTHING;
        assert_eq!(Packet::of(&Message::Arrive { object: 0, cell: 0, generation: 0, payload: large, also }), None);
        let Content::Encoded { offset, len } = Packet::encoded(1 << 40, 3).open() else { panic!("a message") };
        assert_eq!((offset, len), (1 << 40, 3));
    }
}
