//! Links that are slow on purpose, to try other orders of messages.

use super::super::ring::Sender;
use super::post::Way;
use std::time::{Duration, Instant};

impl<M: Send> Way<M> for Sender<M> {
    fn push(&mut self, message: M) -> Result<(), M> {
        Sender::push(self, message)
    }
}

/// A way that is now and then closed. Messages then wait as for room in a full ring, which keeps their order. The first
/// message finds it closed. It opens after a while, and closes again when it has been open for as long.
pub struct Slow<M> {
    way: Box<dyn Way<M>>,
    closed: Duration,
    opens: Option<Instant>,
}

impl<M> Slow<M> {
    pub fn new(way: Box<dyn Way<M>>, microseconds: u64) -> Self {
        Self { way, closed: Duration::from_micros(microseconds), opens: None }
    }
}

impl<M> Way<M> for Slow<M> {
    fn push(&mut self, message: M) -> Result<(), M> {
        let now = Instant::now();
        match self.opens {
            Some(opens) if now < opens => Err(message),
            Some(opens) if now.duration_since(opens) < self.closed => self.way.push(message),
            _ => {
                self.opens = now.checked_add(self.closed);
                Err(message)
            }
        }
    }
}
