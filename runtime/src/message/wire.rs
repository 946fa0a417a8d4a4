//! The interface between a processor and the wire that carries its messages.

use super::{Also, Message};
use crate::Error;
use crate::ids::{ObjectId, ProcessorId, TopLaunch};
use crate::names::TaskName;
use crate::payload::Length;
use maniple_regions::{Buffer, FieldInfo, MemoryId, Rect, RegionError, SharedInstance};
use serde::{Deserialize, Serialize};

/// The wire as a processor uses it. A wire keeps the order of messages from one processor to another, and promises
/// nothing else.
pub(crate) trait Wire {
    /// Sends to another processor. Never waits.
    fn send(&self, to: ProcessorId, message: Message);
    /// Sends [`Message::plain`]. Its parts come one by one, and not as a message in memory: to read that in other pieces than
    /// it was just written in would stall the processor until all its earlier stores are done.
    fn send_plain(&self, to: ProcessorId, object: ObjectId, cell: u32, generation: u64, also: Also, word: Option<u64>) {
        self.send(to, Message::plain(object, cell, generation, also, word));
    }
    /// Nanoseconds since the run began. Times of processors of one node can be compared.
    fn now(&self) -> u64;
    /// A counter to read where [`Self::now`] would cost too much. It has its own unit.
    fn counter(&self) -> Option<CycleCounter> {
        None
    }
    /// The present moment: by the counter, if there is one, and in nanoseconds since the run began.
    fn moment(&self) -> (u64, u64) {
        let now = self.now();
        (now, now)
    }
    /// Nanoseconds of one step of the clock; 0 if the clock runs continuously.
    fn step(&self) -> u64 {
        0
    }
    /// The memory that this node shares with others, if there is any.
    fn shared_memory(&self) -> Option<&dyn SharedMemory> {
        None
    }
    /// Ends the run with an error. Only called on a wire of several nodes.
    fn abort(&self, _error: Error) {}
    /// The processor knows a new object from now on, whose values count for so much.
    fn made(&self, _object: ObjectId, _length: Length) {}
    /// Shards of a gang are about to be launched, by the launch `by` of the top-level task.
    fn launches(&self, _gang: ObjectId, _by: TopLaunch, _shards: &mut dyn Iterator<Item = u32>) {}
    /// A leaf task is about to be called, and may take long: all messages sent so far must become visible.
    fn works(&self, _task: &dyn Work) {}
    /// Whether the sender of large values to this processor gets [`Message::Left`] when they have left.
    fn tells_when_left(&self, _to: ProcessorId) -> bool {
        false
    }
    /// Such values are about to be sent, so one more message will come to this processor.
    fn will_tell(&self) {}
    /// Which of `n` equally urgent items runs next.
    fn pick(&self, _n: usize) -> usize {
        0
    }
}

/// Memory that this node shares with others: registered memory, which they use in place.
pub(crate) trait SharedMemory: Send + Sync {
    /// Whether the node of a processor shares memory with this one.
    fn reaches(&self, processor: ProcessorId) -> bool;
    /// Makes an instance in it, of zeros.
    ///
    /// # Errors
    /// There is not enough memory.
    fn instance(&self, rect: Rect, field: &FieldInfo, memory: MemoryId) -> Result<SharedInstance, RegionError>;
    /// A buffer in it, with undefined contents, for values for a node that it [reaches](Self::reaches). They are not copied on their
    /// way. `None` if there is not enough memory.
    fn buffer(&self, bytes: usize) -> Option<Buffer>;
    /// The name of an instance of this node for another node. That one holds it from now on, and [opens](Self::open) it
    /// once. `None` for an instance in other memory.
    fn name(&self, instance: &SharedInstance) -> Option<BlockName>;
    /// The instance of another node that has named it to this one.
    ///
    /// # Errors
    /// It is too small for this rectangle and field.
    fn open(&self, n: BlockName, r: Rect, f: &FieldInfo, m: MemoryId) -> Result<SharedInstance, RegionError>;
}

/// Where a block of shared memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockName {
    /// The node whose memory it is.
    pub node: u32,
    /// Its first byte in that memory, and the number of its bytes.
    pub at: u64,
    pub bytes: u64,
}

/// A counter that is quicker to read than the run's clock, in its own unit. The wires find one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CycleCounter(pub fn() -> u64);

impl CycleCounter {
    /// The count so far.
    #[inline]
    pub fn read(self) -> u64 {
        (self.0)()
    }
}

/// A leaf task, for the question how long it takes.
pub(crate) trait Work {
    fn name(&self) -> TaskName;
    /// The duration given at the launch, in nanoseconds; [`UNSAID`] if there is none.
    fn takes(&self) -> u64;
    /// Bytes of the regions that it uses.
    fn bytes(&self) -> usize;
}

/// Stands for no duration: no launch takes this long.
pub(crate) const UNSAID: u64 = u64::MAX;
