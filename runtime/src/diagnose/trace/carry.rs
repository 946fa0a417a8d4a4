//! Recordings as bytes, for the process that writes the file: the length of the heads, the heads, then the events of all
//! recordings in their order. They are packed and unpacked piece by piece, so nobody has all of them twice.

use super::{Entry, Recording, Tracing};
use crate::Error;

const LEN: usize = size_of::<u64>();
const EVENT: usize = size_of::<Entry>();

/// The recordings of a process that gives them away.
#[derive(Default)]
pub(crate) struct Packed {
    /// The next bytes, as far as they have been made.
    bytes: Vec<u8>,
    recordings: Vec<Recording>,
    /// The next event to be made bytes of: its recording, and its place in it.
    next: (usize, usize),
    /// How many bytes are left.
    left: u64,
}

impl Packed {
    fn new(recordings: Vec<Recording>) -> Result<Self, Error> {
        let heads: Vec<(u64, &Recording)> = recordings.iter().map(|r| (r.events.len() as u64, r)).collect();
        let coded =
            |e: postcard::Error| Error::Encoding { what: "recordings of a trace".into(), message: e.to_string() };
        let heads = postcard::to_stdvec(&heads).map_err(coded)?;
        let bytes = [&(heads.len() as u64).to_le_bytes()[..], &heads].concat();
        let events: usize = recordings.iter().map(|r| r.events.len()).sum();
        let left = (bytes.len() + events * EVENT) as u64;
        Ok(Self { bytes, recordings, next: (0, 0), left })
    }

    /// How many bytes are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes: at most `most`, or all that are left.
    pub fn next(&mut self, most: usize) -> Vec<u8> {
        while self.bytes.len() < most
            && let Some(recording) = self.recordings.get(self.next.0)
        {
            let rest = &recording.events[self.next.1..];
            let wanted = (most - self.bytes.len()).div_ceil(EVENT);
            let now = &rest[..rest.len().min(wanted)];
            self.bytes.extend(now.iter().flat_map(|event| event.to_bytes()));
            self.next =
                if now.len() == rest.len() { (self.next.0 + 1, 0) } else { (self.next.0, self.next.1 + now.len()) };
        }
        let next: Vec<u8> = self.bytes.drain(..most.min(self.bytes.len())).collect();
        self.left -= next.len() as u64;
        next
    }
}

/// The recordings of another process, as they come.
#[derive(Default)]
pub(crate) struct Unpacking {
    /// Bytes that are not complete.
    bytes: Vec<u8>,
    /// Each with the number of events that it will have, once the heads are there.
    recordings: Option<Vec<(u64, Recording)>>,
    /// The recording whose events come.
    at: usize,
}

impl Unpacking {
    /// Takes the next bytes. Lists for events come from `list`.
    pub fn take(&mut self, bytes: &[u8], list: impl Fn() -> Vec<Entry>) {
        self.bytes.extend_from_slice(bytes);
        if self.recordings.is_none() {
            let Some((len, rest)) = self.bytes.split_first_chunk::<LEN>() else { return };
            let Some(heads) = rest.get(..u64::from_le_bytes(*len) as usize) else { return };
            // Of the same program, so they can be decoded.
            let mut recordings: Vec<(u64, Recording)> = postcard::from_bytes(heads).unwrap_or_default();
            for (events, recording) in &mut recordings {
                recording.events = list();
                recording.events.clear();
                recording.events.reserve_exact(*events as usize);
            }
            self.recordings = Some(recordings);
            self.bytes.drain(..LEN + u64::from_le_bytes(*len) as usize);
        }
        let (events, _) = self.bytes.as_chunks::<EVENT>();
        let mut events = events.iter();
        for (expected, recording) in self.recordings.iter_mut().flatten().skip(self.at) {
            let missing = *expected as usize - recording.events.len();
            recording.events.extend(events.by_ref().take(missing).map(|bytes| Entry::from_bytes(*bytes)));
            if (recording.events.len() as u64) < *expected {
                break;
            }
            self.at += 1;
        }
        self.bytes.drain(..self.bytes.len() / EVENT * EVENT);
    }
}

impl Tracing {
    /// Takes this process's recordings, to give them away.
    pub fn pack(&self) -> Result<Packed, Error> {
        Packed::new(std::mem::take(&mut *super::lock(&self.recordings)))
    }

    /// Adds the recordings of other processes, all of whose bytes have come.
    pub fn unpacked(&self, all: Vec<Unpacking>) {
        let recordings = all.into_iter().filter_map(|of| of.recordings).flatten();
        super::lock(&self.recordings).extend(recordings.map(|(_, recording)| recording));
    }

    /// Keeps the lists of recordings that have been given away.
    pub fn given(&self, packed: Packed) {
        self.spare(packed.recordings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ProcessorId;
    use proptest::prelude::*;

    fn recording(processor: u32, events: &[u128], step: u64) -> Recording {
        Recording {
            processor: ProcessorId(processor),
            events: events.iter().map(|bits| Entry::from_bytes(bits.to_le_bytes())).collect(),
            dropped: u64::from(processor) << 40,
            names: (0..processor % 5).map(|i| format!("name {i}")).collect(),
            objects: vec!["object".repeat(processor as usize % 30)],
            moments: [(7, 8), (u64::MAX, 9)],
            step,
        }
    }

    proptest! {
        #[test]
        fn recordings_come_as_they_were_however_they_are_cut(
            lists in prop::collection::vec(prop::collection::vec(any::<u128>(), 0..40), 0..5),
            most in 1usize..200,
        ) {
            let of = || (0..).zip(&lists).map(|(p, events)| recording(p * 13, events, 3)).collect::<Vec<_>>();
            let mut packed = Packed::new(of()).expect("it can be encoded");
            let mut unpacking = Unpacking::default();
            while packed.left() > 0 {
                let (before, bytes) = (packed.left(), packed.next(most));
                prop_assert_eq!(bytes.len() as u64, before.min(most as u64));
                prop_assert_eq!(packed.left() + bytes.len() as u64, before);
                unpacking.take(&bytes, || vec![Entry::from_bytes([1; 16]); 3]);
            }
            prop_assert!(packed.next(most).is_empty());
            let came: Vec<_> = unpacking.recordings.expect("the heads").into_iter().map(|(_, r)| r).collect();
            prop_assert_eq!(came, of());
        }
    }
}
