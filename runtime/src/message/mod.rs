//! The messages between processors.
//!
//! Arrivals carry data. A ready arrival grants the right to read what was stored before it, and an empty arrival gives
//! that right back. So a value of up to 24 bytes travels inside the arrival. A larger one stays where it is and is lent
//! to the reader, while its owner writes into other memory. No memory is shared without that right, so collectives need
//! no unsafe code. Where messages are encoded, the same arrival carries the bytes.

#[cfg(target_os = "linux")]
mod bulk;
mod offloaded;
mod route;
mod wire;

#[cfg(target_os = "linux")]
pub(crate) use bulk::Bulk;
pub(crate) use offloaded::{Away, Offloaded, SendTask};
pub(crate) use route::{Hop, Recipient, next, way};
pub(crate) use wire::{BlockName, CycleCounter, SharedMemory, UNSAID, Wire, Work};

use crate::Error;
use crate::effects::Destroyed;
use crate::error::Failure;
use crate::ids::{Ancestors, ArrivalAt, ColumnKey, LaunchKey, ObjectId, ProcessorId, TopLaunch};
use crate::maps;
use crate::parcel::Parcel;
use crate::payload::Payload;
use maniple_mapper::Priority;
use maniple_regions::{Buffer, Coherence, FieldId, Privilege, Rect, Region, SharedInstance, TreeId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::hash::BuildHasher;
use std::sync::Arc;

/// An arrival at an empty half that travels with one at a ready half of the same object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Also {
    /// The cell, or the cell of [`Self::NOTHING`].
    pub cell: u32,
    /// The low half of the generation. The cell's empty half counts no more than that.
    pub generation: u32,
}

impl Also {
    pub const NOTHING: Self = Self { cell: u32::MAX, generation: 0 };
}

// A message fits a slot of a ring together with the slot's stamp.
const _: () = assert!(size_of::<Message>() == 56);

/// A message. A wire keeps the order of messages from one processor to another.
///
/// Variants marked `skip` stay within a node: encoding one is an error.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// An arrival at half of an edge, or at a chain's cell. There it may bring a second one.
    Arrive { object: ObjectId, cell: u32, generation: u64, payload: Payload, also: Also },
    /// Combined arrivals at a phase barrier: `contributor` of the receiving member has completed a generation.
    Combine { object: ObjectId, contributor: u32, generation: u64, values: Vec<(u32, u64)> },
    /// A generation of a phase barrier has ended.
    Release { object: ObjectId, generation: u64, value: u64 },
    /// Generations from `generation` on will never complete.
    Poison { object: ObjectId, cell: u32, generation: u64, error: Box<Error> },
    /// What a processor does for a launch.
    Launch(Box<LaunchPart>),
    /// The shards of a batch have ended.
    BatchDone(Box<BatchDone>),
    /// The results of a launch's shards on some nodes, for the top-level task of another node.
    Results(Box<Results>),
    /// Every shard of a launch has ended, on all processors.
    LaunchOver { launch: LaunchKey },
    /// Valid data for a launch.
    Values(Box<Values>),
    /// Ask for the home instance of a simultaneous region (within a node, or from one that shares its memory).
    Attach(Box<(LaunchKey, ColumnKey)>),
    /// The answer to `Attach` from another node: where the instance is, if it is in memory that both share.
    Mapped(Box<Mapped>),
    /// Read a simultaneous region on another node.
    Get(Box<Remote>),
    /// The answer to `Get`.
    Got { token: u64, bytes: Buffer },
    /// Write a simultaneous region on another node.
    Put(Box<Put>, Buffer),
    /// The answer to `Put`.
    PutDone { token: u64 },
    /// The answer to `Attach`, `Get` or `Put` if the instance can't be used. Has the token of a `Get` or `Put`.
    Refused(Box<RefusedData>),
    /// To node 0: the next call of another node's top-level task.
    Replicated(Box<ReplicatedCall>),
    /// A processor is lost. Comes after all messages that the lost one sent to the receiver.
    Lost(Box<Error>),
    /// The run has ended, or has failed.
    Stop,
    /// A new object (within a node).
    #[serde(skip)]
    Define(Arc<crate::object::Object>),
    /// Objects that later launches of the top-level task may not use (within a node).
    #[serde(skip)]
    Destroy(Arc<Destroying>),
    /// Objects that nobody uses any more (within a node).
    #[serde(skip)]
    Free(Arc<[ObjectId]>),
    /// The answer to `Attach`.
    #[serde(skip)]
    Attached(Box<(LaunchKey, ColumnKey, SharedInstance)>),
    /// A leaf task to run for another processor.
    #[serde(skip)]
    Leaf(Box<Offloaded>),
    /// The leaf task is back.
    #[serde(skip)]
    LeafDone(Box<Offloaded>),
    /// From the wire: large values have left for another node.
    #[serde(skip)]
    Left { to: ProcessorId },
    /// Between the ends of a wire: a long message asks whether it may come, or it may. `letter` is its number there.
    #[serde(skip)]
    Rendezvous { letter: u32, answers: bool },
}

impl Message {
    /// The least bytes of large values.
    pub const LARGE: u64 = 1 << 16;

    /// Whether these are values of so many bytes that they leave their node in turn.
    pub fn are_large_values(&self) -> bool {
        matches!(self, Message::Values(came) if came.length >= Self::LARGE)
    }

    /// The name in traces.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Arrive { .. } => "Arrive",
            Message::Combine { .. } => "Combine",
            Message::Release { .. } => "Release",
            Message::Poison { .. } => "Poison",
            Message::Launch(_) => "Launch",
            Message::BatchDone(_) => "BatchDone",
            Message::Results(_) => "Results",
            Message::LaunchOver { .. } => "LaunchOver",
            Message::Values(_) => "Values",
            Message::Left { .. } => "Left",
            Message::Rendezvous { .. } => "Rendezvous",
            Message::Attach(_) => "Attach",
            Message::Attached(_) => "Attached",
            Message::Mapped(_) => "Mapped",
            Message::Get(_) => "Get",
            Message::Got { .. } => "Got",
            Message::Put(..) => "Put",
            Message::PutDone { .. } => "PutDone",
            Message::Refused(_) => "Refused",
            Message::Replicated(_) => "Replicated",
            Message::Lost(_) => "Lost",
            Message::Stop => "Stop",
            Message::Define(_) => "Define",
            Message::Destroy(_) => "Destroy",
            Message::Free(_) => "Free",
            Message::Leaf(_) => "Leaf",
            Message::LeafDone(_) => "LeafDone",
        }
    }

    /// An arrival with a value of 8 bytes, or with none.
    #[inline(always)]
    pub fn plain(object: ObjectId, cell: u32, generation: u64, also: Also, word: Option<u64>) -> Self {
        let payload = match word {
            Some(word) => Payload::Inline { len: 8, words: [word, 0, 0] },
            None => Payload::None,
        };
        Message::Arrive { object, cell, generation, payload, also }
    }
}

/// One region requirement of a shard, with the home that the launch chose.
#[derive(Debug, Clone, Hash, Serialize, Deserialize)]
pub(crate) struct HeldRegion {
    pub region: Region,
    pub fields: SmallVec<[FieldId; 4]>,
    pub privilege: Privilege,
    pub coherence: Coherence,
    /// The home of the shared instance, for a simultaneous requirement.
    pub home: ProcessorId,
}

impl HeldRegion {
    /// Whether a shard launched by this one may hold this much.
    pub fn allows(&self, privilege: Privilege, coherence: Coherence) -> bool {
        self.privilege.covers(privilege) && self.coherence.may_weaken_to(coherence)
    }

    /// Whether a leaf task may use this much. Simultaneous coherence has its own kind of instance, so it must agree.
    pub fn serves(&self, privilege: Privilege, coherence: Coherence) -> bool {
        let shared = |c| c == Coherence::Simultaneous;
        self.allows(privilege, coherence) && shared(self.coherence) == shared(coherence)
    }

    /// The instance of one of its fields.
    pub fn key(&self, field: FieldId) -> ColumnKey {
        ColumnKey { tree: self.region.tree, field, rect: self.region.rect }
    }

    /// The instances of all its fields.
    pub fn columns(&self) -> impl Iterator<Item = ColumnKey> {
        self.fields.iter().map(|&field| self.key(field))
    }

    /// Whether gangs of an inner task that holds it may write it, in instances of their own.
    pub fn is_passed_on(&self) -> bool {
        self.privilege.writes() && self.shared_home().is_none()
    }

    /// The home of the shared instance, if there is one.
    pub fn shared_home(&self) -> Option<ProcessorId> {
        (self.coherence == Coherence::Simultaneous).then_some(self.home)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShardStart {
    pub shard: u32,
    pub args: Parcel,
    pub held: Arc<[HeldRegion]>,
}

/// A call that destroys objects.
#[derive(Debug)]
pub(crate) struct Destroying {
    pub objects: Vec<(ObjectId, Destroyed)>,
    /// The first launch of the top-level task that may not use them.
    pub from: TopLaunch,
}

/// What a processor does for a launch: sends, receives, copies between its instances, the start of shards, and instances
/// that it gives up. It queues them in this order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LaunchPart {
    pub launch: LaunchKey,
    /// Name of the launcher.
    pub by: Arc<str>,
    /// The launches that the launcher is part of. Their own uses of the data hold nothing up.
    pub within: Ancestors,
    /// Shared regions of the launcher's own launch are at home here, so that launch must have started.
    pub after_within: bool,
    /// How many objects the launcher knew, and how many of them it knew to be destroyed, both counted. The part waits
    /// until this processor knows as much.
    pub known: u64,
    /// Each with its number in the launch.
    pub moves: Vec<(u32, Arc<Move>)>,
    pub batch: Option<Batch>,
    /// What the batch uses.
    pub uses: Option<Arc<[ColumnUse]>>,
    /// Instances that go once the earlier users have ended, unless later launches use them too.
    pub gone: Vec<ColumnKey>,
}

/// Data that moves for a launch, from one processor to another or between instances of one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Move {
    pub from: ProcessorId,
    pub to: ProcessorId,
    pub transfers: Vec<Transfer>,
    /// Of what needs the data.
    pub priority: Priority,
    /// What it does to columns of the first processor and of the second. If they are the same, both are all.
    pub uses: [Arc<[ColumnUse]>; 2],
}

impl Move {
    /// The processors that it concerns.
    pub fn ends(&self) -> impl Iterator<Item = ProcessorId> + use<> {
        [Some(self.from), (self.from != self.to).then_some(self.to)].into_iter().flatten()
    }
}

/// The shards of a launch on one processor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub task: ObjectId,
    pub gang: ObjectId,
    pub shards: Vec<ShardStart>,
    /// Shards of other processors use regions that are at home here, so the batch ends with the whole launch.
    pub hold: bool,
    /// Where the results go: to one processor, or by way of the first processor of this node to all nodes.
    pub reply: Reply,
}

/// A call of a replicated top-level task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReplicatedCall {
    /// The description, which must be the same on every node.
    pub what: String,
    /// What a launch gives to its shards, which must be the same too.
    pub given: Given,
    /// A detail that may differ between nodes.
    pub detail: String,
}

impl std::fmt::Display for ReplicatedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.what, self.detail)
    }
}

/// Hashes of the arguments and the requirements of a launch's shards.
#[derive(Debug, Clone, Default, Hash, Serialize, Deserialize)]
pub(crate) struct Given {
    /// The number of shards of each hash.
    each: u32,
    hashes: Vec<u32>,
}

impl Given {
    /// The most hashes of a launch. With more shards, neighbours share one.
    const MOST: usize = 4096;

    pub fn new(shards: impl ExactSizeIterator<Item = u64>) -> Self {
        let each = shards.len().div_ceil(Self::MOST).max(1);
        let mut hashes = vec![0; shards.len().div_ceil(each)];
        for (shard, hash) in shards.enumerate() {
            let of_run = &mut hashes[shard / each];
            *of_run = (maps::Hash.hash_one((*of_run, hash)) >> 32) as u32;
        }
        Self { each: each as u32, hashes }
    }

    /// The first shards that two launches give something else.
    pub fn differs(&self, other: &Self) -> Option<usize> {
        self.hashes.iter().zip(&other.hashes).position(|(mine, theirs)| mine != theirs)
    }

    /// The hash at a place, in words.
    pub fn shown(&self, at: usize) -> String {
        let (first, hash) = (at as u64 * u64::from(self.each), self.hashes[at]);
        let shards = match self.each {
            1 => format!("shard {first}"),
            n => format!("a shard from {first} to {}", first + u64::from(n) - 1),
        };
        format!("; the argument and the requirements of {shards} have the hash {hash:08x}")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    Processor(ProcessorId),
    EveryNode,
}

/// The results of the shards of one processor, and the instances that inner tasks leave valid.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BatchDone {
    pub launch: LaunchKey,
    pub results: Vec<(u32, Result<Parcel, Failure>)>,
    pub valid: Vec<Valid>,
}

/// Results of the shards of some nodes, for each node the results of its processors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    pub launch: LaunchKey,
    /// See the module `gang::gather`.
    pub round: u32,
    pub blocks: Vec<Vec<BatchDone>>,
}

/// `column.rect` is valid in the instance over `from` on processor `at`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Valid {
    pub column: ColumnKey,
    pub from: Rect,
    pub at: ProcessorId,
}

/// The place of a simultaneous region's instance on another node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Mapped {
    pub launch: LaunchKey,
    pub column: ColumnKey,
    /// `None` if it is in memory that the nodes do not share.
    pub block: Option<BlockName>,
}

/// A rectangle of a simultaneous region's instance on another node, and the sender's number for the request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Remote {
    pub launch: LaunchKey,
    pub column: ColumnKey,
    pub rect: Rect,
    pub token: u64,
}

/// The reason why a simultaneous region's instance can't be used.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RefusedData {
    pub launch: LaunchKey,
    pub column: ColumnKey,
    /// `None` for an attachment.
    pub token: Option<u64>,
    pub error: Error,
}

/// New values for parts of a simultaneous region's instance on another node, one part after the other.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Put {
    pub launch: LaunchKey,
    pub column: ColumnKey,
    pub parts: Vec<Rect>,
    pub token: u64,
    /// Arrivals at the receiver's cells, of the task that wrote the values.
    pub arrivals: Vec<ArrivalAt>,
}

/// What a task or an order does to a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Does {
    Reads,
    Writes,
    /// Brings values of data that an inner task holds to read, so that nobody writes them while it runs. Gangs of several
    /// inner tasks that read the same data may come in different orders on two processors. So this waits for no reader and
    /// for none of its kind: all have the same values.
    Brings,
}

/// The use of a column by an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ColumnUse {
    pub column: ColumnKey,
    pub does: Does,
}

/// Copy `rect` from the instance over `from` to the receiver's instance over `into`.
#[derive(Debug, Clone, Hash, Serialize, Deserialize)]
pub(crate) struct Transfer {
    pub tree: TreeId,
    pub field: FieldId,
    pub rect: Rect,
    pub from: Rect,
    pub into: Rect,
    /// The launcher is an inner task that holds the data to read. See [`Does::Brings`].
    pub only_read: bool,
}

impl Transfer {
    /// The column that it reads.
    pub fn source(&self) -> ColumnKey {
        ColumnKey { tree: self.tree, field: self.field, rect: self.from }
    }

    /// The column that it writes.
    pub fn target(&self) -> ColumnKey {
        ColumnKey { tree: self.tree, field: self.field, rect: self.into }
    }
}

/// The values of a move, for each transfer; or the error that keeps them away.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Values {
    pub launch: LaunchKey,
    /// The number of the move.
    pub number: u32,
    pub values: Vec<Result<Buffer, Box<Error>>>,
    /// The bytes that they stand for, in virtual time.
    pub length: u64,
    /// To whom the receiver forwards them.
    pub way: Vec<Hop>,
}

// An arrival fills a cache line in a ring together with the slot's 8 bytes.
const _: () = assert!(size_of::<Message>() <= 56);
