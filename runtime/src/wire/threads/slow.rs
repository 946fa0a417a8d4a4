//! Links that are slow on purpose, to try other orders of messages.

use super::super::ring::Sender;
use super::post::Way;
use std::time::{Duration, Instant};

impl<M: Send> Way<M> for Sender<M> {
    fn push(&mut self, message: M) -> Result<(), M> {
        Sender::push(self, message)
    }
}

/// A way that is closed for a while when a message comes, and then open for as long. Messages wait meanwhile as for a free
/// slot in a full ring, which keeps their order.
pub struct Slow<M> {
    way: Box<dyn Way<M>>,
    long: Duration,
    state: State,
}

enum State {
    /// It has been closed since then, with a message waiting.
    Closed(Instant),
    /// It has been open since then.
    Open(Instant),
    /// The next message finds it closed.
    Over,
}

impl<M> Slow<M> {
    pub fn new(way: Box<dyn Way<M>>, microseconds: u64) -> Self {
        Self { way, long: Duration::from_micros(microseconds), state: State::Over }
    }
}

impl<M> Way<M> for Slow<M> {
    fn push(&mut self, message: M) -> Result<(), M> {
        let now = Instant::now();
        match self.state {
            State::Closed(since) if now.duration_since(since) < self.long => return Err(message),
            // At least the message that has waited passes, however late its sender tries again.
            State::Closed(_) => self.state = State::Open(now),
            State::Open(since) if now.duration_since(since) < self.long => {}
            State::Open(_) | State::Over => {
                self.state = State::Closed(now);
                return Err(message);
            }
        }
        self.way.push(message)
    }
}
