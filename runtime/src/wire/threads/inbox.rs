//! Receiving: the rings that a processor has fetched from its hall so far.

use super::super::ring::Receiver;
use super::super::sync::atomic::Ordering;
use super::post::{Origin, Post, RING};
use crate::ids::ProcessorId;

pub struct Inbox<M> {
    from: Vec<(ProcessorId, Receiver<M>)>,
    /// From processors of other processes.
    abroad: Vec<(ProcessorId, Box<dyn Origin<M>>)>,
    received: u64,
}

impl<M: Send> Inbox<M> {
    pub fn new() -> Self {
        Self { from: Vec::new(), abroad: Vec::new(), received: 0 }
    }

    /// Messages handed over so far.
    #[inline]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Hands over the messages that have come to `me`, this processor. From each ring it takes at most a
    /// ring's length, so that a steady stream does not hold up the others.
    #[inline]
    pub fn take_in(&mut self, post: &Post<M>, me: ProcessorId, mut receive: impl FnMut(ProcessorId, M)) {
        if post.processors[me.index()].opened.load(Ordering::Relaxed) != self.from.len() + self.abroad.len() {
            self.fetch(post, me);
        }
        for (source, ring) in &mut self.from {
            for _ in 0..RING {
                let take = |message| {
                    self.received += 1;
                    receive(*source, message);
                };
                if ring.pop_with(take).is_none() {
                    break;
                }
            }
        }
        for (source, ring) in &mut self.abroad {
            for _ in 0..RING {
                let Some(message) = ring.pop() else { break };
                self.received += 1;
                receive(*source, message);
            }
        }
    }

    #[cold]
    fn fetch(&mut self, post: &Post<M>, me: ProcessorId) {
        self.from.append(&mut post.fetch(me));
        if let Some(abroad) = &post.abroad {
            let known: Vec<ProcessorId> = self.abroad.iter().map(|(source, _)| *source).collect();
            self.abroad.append(&mut abroad.fetch(me, &known));
        }
    }

    /// Whether there is nothing to receive: the second look of README, rule 9.
    pub fn is_empty(&self, post: &Post<M>, me: ProcessorId) -> bool {
        post.processors[me.index()].opened.load(Ordering::Acquire) == self.from.len() + self.abroad.len()
            && self.abroad.iter().all(|(_, ring)| ring.is_empty())
            && self.from.iter().all(|(_, ring)| ring.is_empty())
    }
}
