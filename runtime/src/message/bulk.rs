//! Bulk data, which travels beside a message that is encoded: never through its encoding.

use super::Message;
use crate::payload::{Lent, Payload};
use maniple_regions::Buffer;
use std::sync::Arc;

/// Bulk data of a message.
pub(crate) enum Bulk {
    Buffer(Buffer),
    Lent(Arc<dyn Lent>),
}

impl Bulk {
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Bulk::Buffer(buffer) => buffer.as_bytes(),
            Bulk::Lent(value) => value.as_bytes(),
        }
    }
}

impl Message {
    /// Bytes of the bulk data.
    pub fn bulk_bytes(&self) -> usize {
        match self {
            Message::Arrive { payload: Payload::Lent(value), .. } => value.as_bytes().len(),
            Message::Got { bytes, .. } | Message::Put(_, bytes) => bytes.len(),
            Message::Values(came) => came.values.iter().flatten().map(Buffer::len).sum(),
            _ => 0,
        }
    }

    /// Takes the bulk data out of the message, which is then encoded without it.
    pub fn take_bulk(&mut self) -> Vec<Bulk> {
        let taken = |buffer: &mut Buffer| Bulk::Buffer(std::mem::replace(buffer, Buffer::zeroed(0)));
        match self {
            Message::Arrive { payload: payload @ Payload::Lent(_), .. } => match std::mem::take(payload) {
                Payload::Lent(value) => vec![Bulk::Lent(value)],
                _ => unreachable!("matched above"),
            },
            Message::Got { bytes, .. } | Message::Put(_, bytes) => vec![taken(bytes)],
            Message::Values(came) => came.values.iter_mut().flatten().map(taken).collect(),
            _ => Vec::new(),
        }
    }

    /// Puts the bulk data that has come with the message into it. Whatever is missing stays empty.
    pub fn put_bulk(&mut self, mut bulk: impl Iterator<Item = Buffer>) {
        let mut put = |place: &mut Buffer| {
            if let Some(buffer) = bulk.next() {
                *place = buffer;
            }
        };
        match self {
            Message::Arrive { payload, .. } => {
                if let Some(buffer) = bulk.next() {
                    *payload = Payload::Lent(Arc::new(buffer));
                }
            }
            Message::Got { bytes, .. } | Message::Put(_, bytes) => put(bytes),
            Message::Values(came) => came.values.iter_mut().flatten().for_each(put),
            _ => {}
        }
    }
}
