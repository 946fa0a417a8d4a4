use crate::Error;
use maniple_regions::Buffer;
use serde::{Deserialize, Serialize};

/// What an arrival carries besides itself.
///
/// A ready arrival carries the right to read what was stored before it, an empty arrival gives that right back. For
/// small values the record of the arrival holds the bytes; larger ones move as the exchange region's buffer itself
/// (within a node nothing is copied, between nodes its bytes travel).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub enum Payload {
    /// Nothing.
    #[default]
    None,
    /// Up to [`Payload::INLINE`] bytes.
    Inline(Inline),
    /// A leased buffer.
    Buffer(Buffer),
    /// No value, and why: the call has failed where it should have been made.
    Failed(Box<Error>),
}

/// A few bytes held in place. Whole words, so that moving one never splits a store the processor has just made.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Inline {
    len: u8,
    words: [u64; Payload::INLINE / 8],
}

impl Inline {
    /// Replaces the bytes; at most [`Payload::INLINE`].
    #[inline]
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        self.len = bytes.len() as u8;
        match <[u8; 8]>::try_from(bytes) {
            Ok(word) => self.words[0] = u64::from_ne_bytes(word),
            Err(_) => bytemuck::bytes_of_mut(&mut self.words)[..bytes.len()].copy_from_slice(bytes),
        }
    }
}

impl Payload {
    /// Most bytes that travel inside the record of an arrival.
    pub const INLINE: usize = 24;

    /// A copy of `bytes`, which are at most [`Self::INLINE`]; longer ones go into a buffer.
    #[inline]
    pub fn copy_of(bytes: &[u8]) -> Self {
        if bytes.len() > Self::INLINE {
            return Payload::Buffer(Buffer::from_bytes(bytes));
        }
        let mut inline = Inline::default();
        inline.set(bytes);
        Payload::Inline(inline)
    }

    /// Replaces what is carried by a copy of `bytes`, in place where they fit.
    #[inline]
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        match self {
            Payload::Inline(inline) if bytes.len() <= Self::INLINE => inline.set(bytes),
            _ => *self = Payload::copy_of(bytes),
        }
    }

    /// The bytes carried.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Payload::None | Payload::Failed(_) => &[],
            Payload::Inline(i) => &bytemuck::bytes_of(&i.words)[..usize::from(i.len)],
            Payload::Buffer(b) => b.as_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_it_was_given_and_survives_the_wire() {
        for len in [0, 1, 8, 24, 25, 1000] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let p = Payload::copy_of(&bytes);
            assert_eq!(p.bytes(), bytes);
            assert_eq!(matches!(p, Payload::Buffer(_)), len > Payload::INLINE);
            let q: Payload = postcard::from_bytes(&postcard::to_stdvec(&p).unwrap()).unwrap();
            assert_eq!(q.bytes(), bytes);
        }
    }
}
