//! Receiving: the rings that a processor has fetched from its hall so far.

use super::super::ring::Receiver;
use super::super::sync::atomic::Ordering;
use super::post::{Public, RING};
use crate::ids::ProcessorId;

pub struct Inbox<M> {
    from: Vec<(ProcessorId, Receiver<M>)>,
    received: u64,
}

impl<M: Send> Inbox<M> {
    pub fn new() -> Self {
        Self { from: Vec::new(), received: 0 }
    }

    /// Messages handed over so far.
    #[inline]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Hands over the messages that have come to `me`, the place of this processor. From each ring it takes at most a
    /// ring's length, so that a steady stream does not hold up the others.
    #[inline]
    pub fn take_in(&mut self, me: &Public<M>, mut receive: impl FnMut(ProcessorId, M)) {
        if me.opened.load(Ordering::Relaxed) != self.from.len() {
            self.from.append(&mut me.fetch());
        }
        for (source, ring) in &mut self.from {
            for _ in 0..RING {
                let Some(message) = ring.pop() else { break };
                self.received += 1;
                receive(*source, message);
            }
        }
    }

    /// Whether there is nothing to receive: the second look of README, rule 9.
    pub fn is_empty(&self, me: &Public<M>) -> bool {
        me.opened.load(Ordering::Acquire) == self.from.len() && self.from.iter().all(|(_, ring)| ring.is_empty())
    }
}
