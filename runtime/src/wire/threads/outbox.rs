//! Sending: a ring to each processor that this one has sent to, and a backlog of messages that did not fit. It also
//! decides when a push gets the fence that makes it visible to a sleeping reader (README, rules 8 and 12).

use super::super::park::fence;
use super::super::ring::{Sender, ring};
use super::super::sync::MODEL;
use super::super::sync::atomic::Ordering;
use super::post::{Post, Way};
use super::slow::Slow;
use crate::ids::ProcessorId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

/// Turns that a message may wait for its fence.
pub const UNFENCED: u32 = if MODEL { 1 } else { 16 };

pub struct Outbox<M> {
    id: ProcessorId,
    to: Vec<RefCell<Outlet<M>>>,
    post: Arc<Post<M>>,
    sent: Cell<u64>,
    /// Turns since the first message after the last fence; 0 if there was none.
    unfenced: Cell<u32>,
    /// A message waits for a free slot in a ring.
    backlog: Cell<bool>,
}

struct Outlet<M> {
    /// Opened with the first message. With many processors, most pairs never exchange one.
    ring: Option<Sender<M>>,
    /// In its place, the way to a processor of another process, or one that is slow on purpose.
    way: Option<Box<dyn Way<M>>>,
    /// Messages that did not fit into the ring.
    waiting: VecDeque<M>,
}

impl<M: Send> Outlet<M> {
    /// Appends a message to the ring, which is open, or gives it back.
    fn push(&mut self, message: M) -> Result<(), M> {
        match (&mut self.ring, &mut self.way) {
            (Some(ring), _) => ring.push(message),
            (None, Some(way)) => way.push(message),
            (None, None) => unreachable!("opened for the first message"),
        }
    }
}

impl<M: Send + 'static> Outbox<M> {
    pub fn new(id: ProcessorId, post: Arc<Post<M>>) -> Self {
        let link = |_| RefCell::new(Outlet { ring: None, way: None, waiting: VecDeque::new() });
        let to = (0..post.processors.len()).map(link).collect();
        Self { id, to, post, sent: Cell::new(0), unfenced: Cell::new(0), backlog: Cell::new(false) }
    }

    #[inline(always)]
    pub fn send(&self, to: ProcessorId, message: M) {
        let mut link = self.to[to.index()].borrow_mut();
        let link = &mut *link;
        // Checked first: a push that may give the message back copies it once more.
        if let Some(ring) = &mut link.ring
            && link.waiting.is_empty()
            && ring.has_free_slot()
        {
            ring.put(message);
        } else {
            self.send_otherwise(link, to, message);
        }
        self.sent.set(self.sent.get() + 1);
        self.note_push();
        self.post.processors[to.index()].parker.nudge();
    }

    /// Sends the first message to a processor, one to another process, or one that must wait for a free slot.
    #[inline(never)]
    fn send_otherwise(&self, link: &mut Outlet<M>, to: ProcessorId, message: M) {
        if link.ring.is_none() && link.way.is_none() {
            self.open(link, to);
        }
        let refused = if link.waiting.is_empty() { link.push(message) } else { Err(message) };
        if let Err(message) = refused {
            link.waiting.push_back(message);
            self.backlog.set(true);
        }
    }

    /// The processor that sends.
    pub fn id(&self) -> ProcessorId {
        self.id
    }

    /// Counts a message that this processor causes to be sent, and does not send itself.
    pub fn count_one_more(&self) {
        self.sent.set(self.sent.get() + 1);
    }

    /// Messages sent so far, including messages that wait for a free slot.
    pub fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// Whether a message waits for a free slot in a ring.
    #[inline]
    pub fn has_backlog(&self) -> bool {
        self.backlog.get()
    }

    /// Makes sure that everything sent will be seen.
    #[inline(always)]
    pub fn flush(&self) {
        // Leaf tasks ask each time, and mostly there is nothing.
        if self.backlog.get() || self.unfenced.get() > 0 {
            self.flush_all();
        }
    }

    fn flush_all(&self) {
        if self.backlog.get() {
            self.push_backlog();
        }
        if self.unfenced.replace(0) > 0 {
            fence();
            for p in self.post.processors.iter() {
                p.parker.nudge();
            }
        }
    }

    /// Called at the end of a turn. Flushes if a message waits for a free slot, or has waited long enough for its fence. A
    /// fence is put off because it waits until all pushes have reached memory, and a reader that polls does not need it.
    #[inline]
    pub fn tend(&self) {
        let turns = self.unfenced.get();
        if self.backlog.get() || turns > UNFENCED {
            self.flush();
        } else if turns > 0 {
            self.unfenced.set(turns + 1);
        }
    }

    /// Something was pushed, so a fence is needed before this processor sleeps.
    #[inline(always)]
    fn note_push(&self) {
        self.unfenced.set(self.unfenced.get().max(1));
    }

    /// Makes the ring to another processor and hands over the receiving end.
    #[cold]
    fn open(&self, link: &mut Outlet<M>, to: ProcessorId) {
        link.way = self.post.abroad.as_ref().and_then(|abroad| abroad.open(&self.post.processors, self.id, to));
        if link.way.is_none() {
            let (sender, receiver) = ring(self.post.slots);
            self.post.leave(self.id, to, receiver);
            link.ring = Some(sender);
        }
        let slow = self.post.slow.iter().filter(|slow| (slow.from, slow.to) == (self.id, to));
        let steps = slow.fold(0u64, |sum, slow| sum.saturating_add(slow.steps));
        if steps > 0 {
            let ring = link.ring.take().map(|ring| Box::new(ring) as Box<dyn Way<M>>);
            link.way = ring.or(link.way.take()).map(|way| Box::new(Slow::new(way, steps)) as Box<dyn Way<M>>);
        }
    }

    fn push_backlog(&self) {
        let mut left = false;
        for (link, public) in self.to.iter().zip(self.post.processors.iter()) {
            let mut link = link.borrow_mut();
            if link.waiting.is_empty() {
                continue;
            }
            // Messages for a processor that is gone stay, and are dropped with the wire.
            while !public.gone.load(Ordering::Relaxed)
                && let Some(message) = link.waiting.pop_front()
            {
                if let Err(message) = link.push(message) {
                    link.waiting.push_front(message);
                    left = true;
                    break;
                }
            }
            public.parker.nudge();
        }
        self.backlog.set(left);
        self.note_push();
    }
}

#[cfg(test)]
mod tests {
    use super::super::inbox::Inbox;
    use super::*;

    #[test]
    fn what_waits_for_a_free_slot_is_not_overtaken() {
        let mut post = Post::new(2);
        post.slots = 4;
        let post = Arc::new(post);
        let (outbox, mut inbox, mut next) = (Outbox::new(ProcessorId(1), post.clone()), Inbox::new(), 0);
        for value in 0..100 {
            outbox.send(ProcessorId(0), value);
            // Only now and then, so that rings fill up, are emptied, and are tended between two sends.
            if value % 7 == 0 {
                inbox.take_in(&post, ProcessorId(0), |source, value| {
                    assert_eq!((source, value), (ProcessorId(1), next));
                    next += 1;
                });
            }
            if value % 11 == 0 {
                outbox.tend();
            }
        }
        while next < 100 {
            outbox.flush();
            inbox.take_in(&post, ProcessorId(0), |_, value| {
                assert_eq!(value, next);
                next += 1;
            });
        }
        assert!(!outbox.has_backlog() && outbox.sent() == 100 && inbox.received() == 100);
    }
}
