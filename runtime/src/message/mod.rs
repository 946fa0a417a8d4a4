//! What processors say to each other.

mod offloaded;
mod touch;
mod wire;

pub(crate) use offloaded::{Away, Offloaded, SendTask};
pub(crate) use touch::{Does, Touch, union_of};
pub(crate) use wire::{CycleCounter, UNSAID, Wire, Work};

use crate::Error;
use crate::ids::{Ancestors, ColumnKey, LaunchKey, ObjectId, ProcessorId};
use crate::parcel::Parcel;
use crate::payload::Payload;
use maniple_regions::{Buffer, Coherence, FieldId, Privilege, Rect, Region, SharedInstance, TreeId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// An arrival at an empty half of the same object that travels with one at a ready half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Also {
    /// The cell, or [`Self::NOTHING`]'s.
    pub cell: u32,
    /// The low half of the generation, which is all that the cell's empty half counts.
    pub generation: u32,
}

impl Also {
    pub const NOTHING: Self = Self { cell: u32::MAX, generation: 0 };
}

// It fits a slot of a ring together with the slot's stamp.
const _: () = assert!(size_of::<Message>() == 56);

/// Everything processors say to each other. A wire keeps the order of each ordered pair of processors.
///
/// Variants marked `skip` stay within a node: encoding one is an error.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// One arrival at half of a ready/empty pair; of a chain, perhaps two.
    Arrive { object: ObjectId, cell: u32, generation: u64, payload: Payload, also: Also },
    /// Arrivals at a phase barrier, combined: contributor `from` of the receiving member completed a generation.
    Combine { object: ObjectId, contributor: u32, generation: u64, values: Vec<(u32, u64)> },
    /// A phase barrier's generation is over.
    Release { object: ObjectId, generation: u64, value: u64 },
    /// Generations from `generation` on will never complete.
    Poison { object: ObjectId, cell: u32, generation: u64, error: Box<Error> },
    /// Start these shards.
    Batch(Box<Batch>),
    /// The shards of a batch are over.
    BatchDone(Box<BatchDone>),
    /// Every shard of a launch is over, on all processors.
    LaunchOver { launch: LaunchKey },
    /// Send valid data to another processor for a launch.
    SendColumns(Box<SendColumns>),
    /// Valid data for a launch.
    Columns(Box<Columns>),
    /// Ask for the home instance of a simultaneous region (within a node).
    Attach(Box<(LaunchKey, ColumnKey)>),
    /// Read a simultaneous region on another node.
    Get(Box<Remote>),
    /// The answer to `Get`.
    Got { token: u64, bytes: Buffer },
    /// Write a simultaneous region on another node.
    Put(Box<Put>, Buffer),
    /// The answer to `Put`.
    PutDone { token: u64 },
    /// The answer to `Attach`, or to `Get` or `Put` with a token, if there is no instance.
    Refused(Box<RefusedData>),
    /// To node 0: the next call of another node's top-level task.
    Replicated(Box<ReplicatedCall>),
    /// A processor has stopped for ever; comes after all that it sent to this one.
    Lost(Box<Error>),
    /// The run is over, or has failed.
    Stop,
    /// A new object (within a node).
    #[serde(skip)]
    Define(Arc<crate::object::Object>),
    /// The answer to `Attach`.
    #[serde(skip)]
    Attached(Box<(LaunchKey, ColumnKey, SharedInstance)>),
    /// A leaf task to run for another processor.
    #[serde(skip)]
    Leaf(Box<Offloaded>),
    /// The leaf task is back.
    #[serde(skip)]
    LeafDone(Box<Offloaded>),
}

impl Message {
    /// What traces call it.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Arrive { .. } => "Arrive",
            Message::Combine { .. } => "Combine",
            Message::Release { .. } => "Release",
            Message::Poison { .. } => "Poison",
            Message::Batch(_) => "Batch",
            Message::BatchDone(_) => "BatchDone",
            Message::LaunchOver { .. } => "LaunchOver",
            Message::SendColumns(_) => "SendColumns",
            Message::Columns(_) => "Columns",
            Message::Attach(_) => "Attach",
            Message::Attached(_) => "Attached",
            Message::Get(_) => "Get",
            Message::Got { .. } => "Got",
            Message::Put(..) => "Put",
            Message::PutDone { .. } => "PutDone",
            Message::Refused(_) => "Refused",
            Message::Replicated(_) => "Replicated",
            Message::Lost(_) => "Lost",
            Message::Stop => "Stop",
            Message::Define(_) => "Define",
            Message::Leaf(_) => "Leaf",
            Message::LeafDone(_) => "LeafDone",
        }
    }

    /// The arrival of a value of 8 bytes.
    #[inline(always)]
    pub fn word(object: ObjectId, cell: u32, generation: u64, also: Also, word: u64) -> Self {
        let payload = Payload::Inline { len: 8, words: [word, 0, 0] };
        Message::Arrive { object, cell, generation, payload, also }
    }
}

/// One region requirement of a shard, with what the launch decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Held {
    pub region: Region,
    pub fields: SmallVec<[FieldId; 4]>,
    pub privilege: Privilege,
    pub coherence: Coherence,
    /// Where the shared instance of a simultaneous requirement lives.
    pub home: ProcessorId,
}

impl Held {
    /// Whether a shard that this one launches may hold this much.
    pub fn allows(&self, privilege: Privilege, coherence: Coherence) -> bool {
        self.privilege.covers(privilege) && self.coherence.may_weaken_to(coherence)
    }

    /// Whether a leaf task may use this much: slices and shared accessors are for instances of different kinds.
    pub fn serves(&self, privilege: Privilege, coherence: Coherence) -> bool {
        let shared = |c| c == Coherence::Simultaneous;
        self.allows(privilege, coherence) && shared(self.coherence) == shared(coherence)
    }

    /// Where the one instance is, when there is only one.
    pub fn shared_home(&self) -> Option<ProcessorId> {
        (self.coherence == Coherence::Simultaneous).then_some(self.home)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShardStart {
    pub shard: u32,
    pub args: Parcel,
    pub held: Arc<[Held]>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub launch: LaunchKey,
    /// Name of the parent that asks.
    pub by: Arc<str>,
    /// The launches of the parent that asks and of its parents; their own uses of the data do not stand in the way.
    pub within: Ancestors,
    /// Regions of the parent's launch are at home here: it must have started.
    pub after_within: bool,
    /// Objects the parent knew: the batch waits until they are known here too.
    pub known: u32,
    pub task: ObjectId,
    pub gang: ObjectId,
    pub shards: Vec<ShardStart>,
    /// `Columns` messages to wait for.
    pub columns: u32,
    /// Shards of other processors use regions that are at home here: the batch is over when the whole launch is.
    pub hold: bool,
    /// Who wants the results: one processor, or the first of every node.
    pub reply: Reply,
    pub touches: Arc<[Touch]>,
}

/// A call of a replicated top-level task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReplicatedCall {
    /// What must be the same on every node.
    pub what: String,
    /// What need not be.
    pub detail: String,
}

impl std::fmt::Display for ReplicatedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.what, self.detail)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    Processor(ProcessorId),
    EveryNode,
}

/// Results of the shards of one processor, and what singles leave valid where.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BatchDone {
    pub launch: LaunchKey,
    pub results: Vec<(u32, Result<Parcel, Error>)>,
    pub valid: Vec<Valid>,
}

/// `column.rect` is valid in the instance over `from` on processor `at`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Valid {
    pub column: ColumnKey,
    pub from: Rect,
    pub at: ProcessorId,
}

/// A rectangle of a simultaneous region's instance on another node, and the asker's name for the request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Remote {
    pub launch: LaunchKey,
    pub column: ColumnKey,
    pub rect: Rect,
    pub token: u64,
}

/// Why a simultaneous region's instance can't be had.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RefusedData {
    pub launch: LaunchKey,
    pub column: ColumnKey,
    /// None of an attachment.
    pub token: Option<u64>,
    pub error: Error,
}

/// New values of parts of a simultaneous region's instance on another node, one part after the other.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Put {
    pub launch: LaunchKey,
    pub column: ColumnKey,
    pub parts: Vec<Rect>,
    pub token: u64,
}

/// Copy `rect` of the local instance over `from` to the receiver's instance over `into`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Transfer {
    pub tree: TreeId,
    pub field: FieldId,
    pub rect: Rect,
    pub from: Rect,
    pub into: Rect,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SendColumns {
    pub launch: LaunchKey,
    /// As in [`Batch`]: an order must not overtake a batch that waits for objects.
    pub known: u32,
    pub within: Ancestors,
    pub after_within: bool,
    pub to: ProcessorId,
    pub transfers: Vec<Transfer>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Columns {
    pub launch: LaunchKey,
    pub columns: Vec<(Transfer, Buffer)>,
}

// An arrival is one cache line in a ring: 8 bytes of it are the slot's.
const _: () = assert!(size_of::<Message>() <= 56);
