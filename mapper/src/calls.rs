//! The inputs and outputs of a mapper's calls.

use crate::{Machine, MemoryKind, NodeId, ProcessorId};
use maniple_regions::{Coherence, FieldId, MemoryId, Privilege, Region};
use maniple_schedules::{Algorithm, Kind};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Rank of a ready task among the ready tasks of its processor: the higher one runs first. A task that runs is never
/// interrupted.
///
/// A leaf task that waits for another one of its processor, because of a future or of data, lends it its priority. So an
/// urgent task does not wait for plain ones that it does not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Priority(pub u8);

impl Priority {
    /// Number of levels; legal values are `0..LEVELS`.
    pub const LEVELS: u8 = 8;
    /// The default priority.
    pub const NORMAL: Priority = Priority(3);
    /// The priority that the [collective mapper](crate::CollectiveMapper) gives to the subtasks of collectives.
    pub const RAISED: Priority = Priority(6);
}

/// How a subtask reads a region that lives in the memory of another processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Use the instance where it is, without a copy.
    InPlace,
    /// Copy it into the memory of the processor that runs the task, again for each task.
    Copy,
}

/// Output of [`Mapper::place_shards`](crate::Mapper::place_shards): the processor of each shard of a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Shard s of P is on [shard processor](Machine::shard_processor) ⌊s·W/P⌋ of W, so that neighbours stay together.
    Blocked,
    /// Shard s is on [shard processor](Machine::shard_processor) s mod W.
    Cyclic,
    /// Shard s is on processor `.0[s]`, which may be a utility processor. The list has one entry for each shard.
    Explicit(Vec<ProcessorId>),
}

/// Input of [`Mapper::place_shards`](crate::Mapper::place_shards).
#[derive(Debug, Clone)]
pub struct PlaceShardsInput<'a> {
    /// Name of the gang.
    pub gang: &'a str,
    /// Number of shards.
    pub shards: u32,
    /// The machine.
    pub machine: &'a Machine,
}

/// Input of [`Mapper::place_shared`](crate::Mapper::place_shared).
#[derive(Debug, Clone)]
pub struct PlaceSharedInput<'a> {
    /// The region that all namers share.
    pub region: Region,
    /// The first of the fields that are named. The answer holds for all of them.
    pub field: FieldId,
    /// Processor and privilege of each requirement for the region, in shard order.
    pub namers: &'a [(ProcessorId, Privilege)],
    /// The machine.
    pub machine: &'a Machine,
}

/// Input of [`Mapper::map_instance`](crate::Mapper::map_instance).
#[derive(Debug, Clone)]
pub struct InstanceInput<'a> {
    /// The region that the instance covers.
    pub region: Region,
    /// The field.
    pub field: FieldId,
    /// Size of the instance in bytes.
    pub bytes: usize,
    /// The processor that needs it, in whose memory it will be.
    pub processor: ProcessorId,
    /// [`Coherence::Simultaneous`] if several shards share it, else [`Coherence::Exclusive`].
    pub coherence: Coherence,
    /// The memory of the processor's present instance of the region, if it has one. It may be replaced, because no task
    /// of this launch uses it. (If one did, the mapper would not be asked.)
    pub found: Option<MemoryKind>,
    /// The machine.
    pub machine: &'a Machine,
}

/// Output of [`Mapper::map_instance`](crate::Mapper::map_instance).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstanceChoice {
    /// Go on with the present instance. Legal only if there is one.
    Find,
    /// Make an instance in this kind of memory. It replaces the present one, if there is one, and gets its values.
    Create(MemoryKind),
}

/// Input of [`Mapper::keep_instance`](crate::Mapper::keep_instance).
#[derive(Debug, Clone)]
pub struct KeepInput<'a> {
    /// The region that the instance covers.
    pub region: Region,
    /// The field.
    pub field: FieldId,
    /// Size of the instance in bytes.
    pub bytes: usize,
    /// The processor that has it.
    pub processor: ProcessorId,
    /// The machine.
    pub machine: &'a Machine,
}

/// Input of [`Mapper::select_source`](crate::Mapper::select_source).
#[derive(Debug, Clone)]
pub struct SourceInput<'a> {
    /// The part of a region that is needed.
    pub region: Region,
    /// The field.
    pub field: FieldId,
    /// The processor that needs it.
    pub to: ProcessorId,
    /// The processors that hold valid values of the whole part: at least two, each once, the last writer first.
    pub holders: &'a [ProcessorId],
    /// The machine.
    pub machine: &'a Machine,
}

/// Input of [`Mapper::route`](crate::Mapper::route).
#[derive(Debug, Clone)]
pub struct RouteInput<'a> {
    /// The part of a region whose values are sent.
    pub region: Region,
    /// The field.
    pub field: FieldId,
    /// Size of the values in bytes.
    pub bytes: usize,
    /// The processor that sends them.
    pub from: ProcessorId,
    /// The processors that get them, at least two, each with the priority of the task that waits for them. Higher
    /// priorities come first.
    pub recipients: &'a [(ProcessorId, Priority)],
    /// The machine.
    pub machine: &'a Machine,
}

/// Output of [`Mapper::route`](crate::Mapper::route): how values reach several processors.
///
/// Who has the values sends them to one other processor in a round. [`rounds`](Self::rounds) says when each recipient
/// gets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// In each round everyone who has the values sends them to one more recipient, in the order of the list. Recipient i,
    /// counted from 1, gets them in round ⌊log₂ i⌋ + 1. See Denis et al., "Using dynamic broadcasts to improve task-based
    /// runtime performances", section 3.2.
    Binomial,
    /// The sender sends to each recipient, in the order of the list.
    Linear,
    /// Each recipient gets the values from its parent: entry i is the parent of recipient i. Here the sender is 0, and
    /// recipient i is i + 1. A parent comes before its children. It sends to them in the order of the list, one in a
    /// round, from the round after it got the values itself.
    Tree(Vec<u32>),
}

impl Route {
    /// The round in which each of so many recipients gets the values, counted from 1.
    ///
    /// A tree must have an entry for each recipient. An entry that names no earlier one counts as the sender; such a tree
    /// is [illegal](crate::validate::route).
    ///
    /// ```
    /// use maniple_mapper::Route;
    ///
    /// assert_eq!(Route::Binomial.rounds(5), [1, 2, 2, 3, 3]);
    /// assert_eq!(Route::Linear.rounds(5), [1, 2, 3, 4, 5]);
    /// // The sender sends to the first and to the last recipient, and the first one to the others.
    /// assert_eq!(Route::Tree(vec![0, 1, 1, 1, 0]).rounds(5), [1, 2, 3, 4, 2]);
    /// ```
    pub fn rounds(&self, recipients: usize) -> Vec<u32> {
        match self {
            Self::Binomial => (1..=recipients).map(|i| i.ilog2() + 1).collect(),
            Self::Linear => (1..).take(recipients).collect(),
            Self::Tree(parents) => {
                // When the sender and each recipient send for the next time.
                let mut next = vec![1];
                let rounds = parents.iter().take(recipients).map(|&parent| {
                    let parent = if (parent as usize) < next.len() { parent as usize } else { 0 };
                    let round = next[parent];
                    next[parent] += 1;
                    next.push(round + 1);
                    round
                });
                rounds.collect()
            }
        }
    }
}

/// Input of [`Mapper::slice_index`](crate::Mapper::slice_index).
#[derive(Debug, Clone)]
pub struct SliceInput<'a> {
    /// Name of the task.
    pub task: &'a str,
    /// The shard that launches the points.
    pub shard: u32,
    /// The processor of that shard.
    pub processor: ProcessorId,
    /// Number of points, at least 1.
    pub points: usize,
    /// The machine.
    pub machine: &'a Machine,
}

/// Output of [`Mapper::slice_index`](crate::Mapper::slice_index): the processor that each point of an index launch is
/// meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slicing {
    /// All points are meant for the launching shard's processor.
    Here,
    /// Each processor of the node that runs leaf tasks gets a run of points; the runs have nearly equal lengths.
    Blocked,
    /// Each run of points has its processor. Together the runs are all points, each once and in order. The processors
    /// are of the shard's node and run leaf tasks, or are [`ProcessorId::ANYWHERE`].
    Explicit(Vec<(Range<usize>, ProcessorId)>),
}

/// One region requirement of a leaf task.
#[derive(Debug, Clone, Copy)]
pub struct RequirementInput<'a> {
    /// The region.
    pub region: &'a Region,
    /// The field.
    pub field: FieldId,
    /// What the task may do with the region.
    pub privilege: Privilege,
    /// Who else may use the region at the same time.
    pub coherence: Coherence,
    /// Size in bytes.
    pub bytes: usize,
    /// The memory of the valid instance; [`Machine::owner`] gives its processor.
    pub memory: MemoryId,
}

impl RequirementInput<'_> {
    /// Whether the task may work on a copy: only if it reads, under simultaneous coherence.
    pub fn is_copyable(&self) -> bool {
        self.privilege == Privilege::Read && self.coherence == Coherence::Simultaneous
    }
}

/// The region requirements of a leaf task, in the order of its parameters. Each is worked out when it is looked at,
/// because most mappers look at none.
#[derive(Clone, Copy)]
pub struct Requirements<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    List(&'a [RequirementInput<'a>]),
    Uses(usize, &'a dyn Fn(usize) -> RequirementInput<'a>),
}

impl<'a> Requirements<'a> {
    /// The requirements of a list.
    pub fn listed(list: &'a [RequirementInput<'a>]) -> Self {
        Self(Source::List(list))
    }

    /// `number` requirements; `get` is called with positions below that number.
    #[inline]
    pub fn worked_out(number: usize, get: &'a dyn Fn(usize) -> RequirementInput<'a>) -> Self {
        Self(Source::Uses(number, get))
    }

    /// Number of requirements.
    pub fn len(&self) -> usize {
        match self.0 {
            Source::List(list) => list.len(),
            Source::Uses(number, _) => number,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The requirement at a position, or `None` past the end.
    pub fn get(&self, index: usize) -> Option<RequirementInput<'a>> {
        match self.0 {
            Source::List(list) => list.get(index).copied(),
            Source::Uses(number, get) => (index < number).then(|| get(index)),
        }
    }

    /// All requirements in order.
    pub fn iter(&self) -> impl Iterator<Item = RequirementInput<'a>> + use<'a> {
        let these = *self;
        (0..self.len()).map_while(move |i| these.get(i))
    }
}

impl std::fmt::Debug for Requirements<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Input of [`Mapper::place_task`](crate::Mapper::place_task).
#[derive(Debug, Clone)]
pub struct PlaceTaskInput<'a> {
    /// Name of the task: the name that the launch gave it, or else its function's full path.
    pub task: &'a str,
    /// Its region requirements, in the order of its parameters. The memory of each is that of an instance with its data, or where
    /// data that nobody has would be.
    pub requirements: Requirements<'a>,
    /// The node that has the first region that the task writes, or else its first region. Data that nobody has is dealt to
    /// the nodes block-cyclically, in two dimensions.
    pub node: NodeId,
    /// Number of nodes, at least 1.
    pub nodes: u32,
    /// The machine.
    pub machine: &'a Machine,
}

/// Input of [`Mapper::map_leaf`](crate::Mapper::map_leaf).
#[derive(Debug, Clone)]
pub struct LeafInput<'a> {
    /// Name of the task: the name that the launch gave it, or else its function's full path. Errors show the last part
    /// of the path.
    pub task: &'a str,
    /// The shard that launches it.
    pub shard: u32,
    /// The processor that the task is meant for: the shard's or, for a point of an index launch, its slice's.
    pub processor: ProcessorId,
    /// Its region requirements, in the order of its parameters.
    pub requirements: Requirements<'a>,
    /// The machine.
    pub machine: &'a Machine,
}

/// Output of [`Mapper::map_leaf`](crate::Mapper::map_leaf).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafOutput {
    /// A processor of the task's node that runs leaf tasks, or [`ProcessorId::ANYWHERE`] for any of them, whichever is
    /// free first. [`Self::local`] gives [`LeafInput::processor`], if that one runs leaf tasks.
    pub processor: ProcessorId,
    /// Rank among the ready tasks of the processor. [`Self::local`]: [`Priority::NORMAL`].
    pub priority: Priority,
    /// Positions, from 0, of the requirements that the task reads from a copy. Only simultaneous reads may be copied;
    /// all others are used in place. The list may have any order, and a position that is listed twice is copied once.
    /// [`Self::local`]: none.
    pub copied: Vec<u32>,
    /// Kind of memory that copies are made in. [`Self::local`]: ordinary.
    pub copies_in: MemoryKind,
    /// Whether [`Mapper::profile`](crate::Mapper::profile) gets the times of the task. [`Self::local`]: no.
    pub profile: bool,
}

impl LeafOutput {
    /// The task runs on the processor it is meant for, at normal priority, with all regions in place. If that is a
    /// utility processor, it runs on another processor of the node; see [`Machine::near`](crate::Machine::near).
    pub fn local(input: &LeafInput<'_>) -> Self {
        Self {
            processor: input.machine.near(input.processor, input.shard),
            priority: Priority::NORMAL,
            copied: Vec::new(),
            copies_in: MemoryKind::Ordinary,
            profile: false,
        }
    }

    /// Whether the answer is legal and decides nothing but the priority. That is true of most answers, which then need
    /// no further check.
    #[inline]
    pub fn is_plain(&self, input: &LeafInput<'_>) -> bool {
        let here = self.processor == input.processor && !input.machine.is_utility(self.processor);
        self.copied.is_empty() && here && self.priority.0 < Priority::LEVELS && !self.profile
    }
}

/// Input of [`Mapper::map_collective`](crate::Mapper::map_collective).
#[derive(Debug, Clone)]
pub struct CollectiveInput<'a> {
    /// Name of the collective object.
    pub collective: &'a str,
    /// Number of participants.
    pub shards: u32,
    /// Size in bytes of one cell of an exchange region.
    pub bytes: usize,
    /// The machine.
    pub machine: &'a Machine,
}

/// Output of [`Mapper::map_collective`](crate::Mapper::map_collective): the three flags of the founding paper (§II-C).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectiveOutput {
    /// Kind of memory of the exchange regions. Each region is on the processor of the shard that owns it. Default:
    /// ordinary.
    pub memory: MemoryKind,
    /// How a read subtask reaches the partner's exchange region. Default: by a local copy.
    pub access: Access,
    /// Priority of the collective's subtasks. Default: [`Priority::NORMAL`].
    pub priority: Priority,
}

impl Default for CollectiveOutput {
    fn default() -> Self {
        Self { memory: MemoryKind::Ordinary, access: Access::Copy, priority: Priority::NORMAL }
    }
}

/// Input of [`Mapper::choose_algorithm`](crate::Mapper::choose_algorithm).
#[derive(Debug, Clone)]
pub struct AlgorithmInput<'a> {
    /// Name of the collective object.
    pub collective: &'a str,
    /// Kind of collective. A barrier is an allreduce of 0 bytes.
    pub kind: Kind,
    /// The processor of each participant, in rank order. Shards that only receive are participants, too.
    pub placement: &'a [ProcessorId],
    /// Bytes of the largest value that a participant contributes or receives.
    pub bytes: usize,
    /// The algorithms that give the same bits here, at least one. The first one is the default.
    pub choices: &'a [Algorithm],
    /// The machine.
    pub machine: &'a Machine,
}

/// Input of [`Mapper::profile`](crate::Mapper::profile): the times of a leaf task that ran.
#[derive(Debug, Clone, Copy)]
pub struct ProfileInput<'a> {
    /// Name of the task.
    pub task: &'a str,
    /// The shard that launched it.
    pub shard: u32,
    /// The processor that ran it.
    pub processor: ProcessorId,
    /// Nanoseconds from its launch until it ran.
    pub waited_ns: u64,
    /// Nanoseconds from the start of its function to the end.
    pub ran_ns: u64,
}
