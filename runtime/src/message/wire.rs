//! The seam to the wires: what a processor asks of whatever carries its messages.

use super::{Also, Message};
use crate::Error;
use crate::ids::{ObjectId, ProcessorId};

/// How a processor reaches the others. Messages of one ordered pair of processors keep their order; nothing else is
/// promised.
pub(crate) trait Wire {
    /// Sends to another processor. Never waits.
    fn send(&self, to: ProcessorId, message: Message);
    /// Sends [`Message::word`], whose parts come in registers: a message in memory is read in other pieces than it was just
    /// written in, and the processor then waits for all its earlier stores, other messages among them.
    fn send_word(&self, to: ProcessorId, object: ObjectId, cell: u32, generation: u64, also: Also, word: u64) {
        self.send(to, Message::word(object, cell, generation, also, word));
    }
    /// Nanoseconds since the run began; those of processors of one node may be compared.
    fn now(&self) -> u64;
    /// What to read in place of [`Self::now`] where that would cost too much; it counts in a unit of its own.
    fn counter(&self) -> Option<CycleCounter> {
        None
    }
    /// The present moment by the counter, if there is one, and in nanoseconds since the run began.
    fn moment(&self) -> (u64, u64) {
        let now = self.now();
        (now, now)
    }
    /// Nanoseconds that the time goes on by at once; 0 where it flows.
    fn step(&self) -> u64 {
        0
    }
    /// Ends the run with an error. Only a wire of several nodes is asked to.
    fn abort(&self, _error: Error) {}
    /// A leaf task is about to be called, which may take long: everything sent must be seen.
    fn works(&self, _task: &dyn Work) {}
    /// Which of `n` equally urgent items runs next.
    fn pick(&self, _n: usize) -> usize {
        0
    }
}

/// A counter that is quicker to read than the run's clock, in a unit of its own. The wires find one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CycleCounter(pub fn() -> u64);

impl CycleCounter {
    /// What it has come to.
    #[inline]
    pub fn read(self) -> u64 {
        (self.0)()
    }
}

/// A leaf task, as one asks how long it takes.
pub(crate) trait Work {
    fn name(&self) -> &'static str;
    /// What its launch says, in nanoseconds; [`UNSAID`] if it does not.
    fn takes(&self) -> u64;
    /// Of the regions that it names.
    fn bytes(&self) -> usize;
}

/// No launch takes this long.
pub(crate) const UNSAID: u64 = u64::MAX;
