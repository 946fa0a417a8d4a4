//! What a mapper is asked and what it answers: one input and, where it is more than a number, one output a call.

use crate::{Machine, MemoryKind, ProcessorId};
use maniple_regions::{Coherence, FieldId, MemoryId, Privilege, Region};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Rank of a ready task among ready tasks of its processor: a higher one runs first. It never pre-empts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Priority(pub u8);

impl Priority {
    /// Number of levels; legal values are `0..LEVELS`.
    pub const LEVELS: u8 = 8;
    /// What tasks have when nobody says otherwise.
    pub const NORMAL: Priority = Priority(3);
    /// What the collective mapper gives to the subtasks of collectives.
    pub const RAISED: Priority = Priority(6);
}

/// How a subtask reads a region that lives in the memory of another processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Use the instance where it is; copy nothing.
    InPlace,
    /// Copy into the memory of the processor that runs the task, afresh for each task.
    Copy,
}

/// Which processor runs each shard of a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Shard s of P on the processor ⌊s·W/P⌋ of the W that have shards: neighbours stay together.
    Blocked,
    /// Shard s on the processor s mod W of the W that have shards ([`Machine::shard_processors`]).
    Cyclic,
    /// Shard s on processor `.0[s]`, which may be a utility processor.
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
    /// The region all namers share.
    pub region: Region,
    /// The field.
    pub field: FieldId,
    /// Processor and privilege of each shard that names the region, in shard order.
    pub namers: &'a [(ProcessorId, Privilege)],
    /// The machine.
    pub machine: &'a Machine,
}

/// Input of [`Mapper::map_instance`](crate::Mapper::map_instance).
#[derive(Debug, Clone)]
pub struct InstanceInput<'a> {
    /// What the instance covers.
    pub region: Region,
    /// The field.
    pub field: FieldId,
    /// Size in bytes.
    pub bytes: usize,
    /// The processor whose memory it is to be in.
    pub processor: ProcessorId,
    /// [`Coherence::Simultaneous`] if several shards share it, else [`Coherence::Exclusive`].
    pub coherence: Coherence,
    /// The kind of memory of the instance that is there already, with its values, if there is one. It may be replaced: no
    /// task of this launch uses it. (Where it may not, nobody is asked.)
    pub found: Option<MemoryKind>,
    /// The machine.
    pub machine: &'a Machine,
}

/// Output of [`Mapper::map_instance`](crate::Mapper::map_instance).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstanceChoice {
    /// Use the instance that is there; legal only if there is one.
    Find,
    /// Make one in this kind of memory, with the values of the one that is there, which it replaces.
    Create(MemoryKind),
}

/// Input of [`Mapper::select_source`](crate::Mapper::select_source).
#[derive(Debug, Clone)]
pub struct SourceInput<'a> {
    /// The part that is needed.
    pub region: Region,
    /// The field.
    pub field: FieldId,
    /// The processor that needs it.
    pub to: ProcessorId,
    /// Processors that hold valid values of all of it, each once, the last writer first; at least two.
    pub holders: &'a [ProcessorId],
    /// The machine.
    pub machine: &'a Machine,
}

/// Input of [`Mapper::slice_index`](crate::Mapper::slice_index).
#[derive(Debug, Clone)]
pub struct SliceInput<'a> {
    /// Name of the task.
    pub task: &'a str,
    /// The shard that launches it.
    pub shard: u32,
    /// The processor of that shard.
    pub processor: ProcessorId,
    /// Number of points, at least 1.
    pub points: usize,
    /// The machine.
    pub machine: &'a Machine,
}

/// Output of [`Mapper::slice_index`](crate::Mapper::slice_index): which processor each point of an index launch is meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slicing {
    /// All for the launching shard's.
    Here,
    /// Runs of points of nearly equal length, one for each processor of the node that runs leaf tasks.
    Blocked,
    /// These runs, which together are all points, each once, in order, each with a processor of the node that runs leaf
    /// tasks.
    Explicit(Vec<(Range<usize>, ProcessorId)>),
}

/// One region requirement of a leaf task.
#[derive(Debug, Clone, Copy)]
pub struct RequirementInput<'a> {
    /// The region.
    pub region: &'a Region,
    /// The field.
    pub field: FieldId,
    /// What the task may do.
    pub privilege: Privilege,
    /// With whom.
    pub coherence: Coherence,
    /// Size in bytes.
    pub bytes: usize,
    /// Where the valid instance is.
    pub memory: MemoryId,
}

/// The region requirements of a leaf task, in the order of its parameters: each is worked out when it is looked at, as most
/// mappers look at none.
#[derive(Clone, Copy)]
pub struct Requirements<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    List(&'a [RequirementInput<'a>]),
    Uses(usize, &'a dyn Fn(usize) -> RequirementInput<'a>),
}

impl<'a> Requirements<'a> {
    /// Those of a list.
    pub fn listed(list: &'a [RequirementInput<'a>]) -> Self {
        Self(Source::List(list))
    }

    /// So many, of which `get` knows each below that number.
    #[inline]
    pub fn worked_out(number: usize, get: &'a dyn Fn(usize) -> RequirementInput<'a>) -> Self {
        Self(Source::Uses(number, get))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self.0 {
            Source::List(list) => list.len(),
            Source::Uses(number, _) => number,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// That of one parameter.
    pub fn get(&self, index: usize) -> Option<RequirementInput<'a>> {
        match self.0 {
            Source::List(list) => list.get(index).copied(),
            Source::Uses(number, get) => (index < number).then(|| get(index)),
        }
    }

    /// All in order.
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

/// Input of [`Mapper::map_leaf`](crate::Mapper::map_leaf).
#[derive(Debug, Clone)]
pub struct LeafInput<'a> {
    /// Name of the task: the one it was given, else its function's full path, of which errors show the last part.
    pub task: &'a str,
    /// The shard that launches it.
    pub shard: u32,
    /// The processor of that shard or, of a point of an index launch, that of its slice.
    pub processor: ProcessorId,
    /// Its region requirements, in the order of its parameters.
    pub requirements: Requirements<'a>,
    /// The machine.
    pub machine: &'a Machine,
}

/// Output of [`Mapper::map_leaf`](crate::Mapper::map_leaf).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafOutput {
    /// A processor of the shard's own node. Default: [`LeafInput::processor`].
    pub processor: ProcessorId,
    /// Default: [`Priority::NORMAL`].
    pub priority: Priority,
    /// The requirements that the task reads from a copy, each by its position, from 0, in the order of the parameters. Only
    /// simultaneous reads may be copied; all requirements that are not listed are used in place. The order of the list does
    /// not matter, and a position that is listed twice is copied once. Default: none.
    pub copied: Vec<u32>,
    /// Kind of memory that copies are made in. Default: ordinary.
    pub copies_in: MemoryKind,
    /// Whether [`Mapper::profile`](crate::Mapper::profile) is told how long the task took. Default: no.
    pub profile: bool,
}

impl LeafOutput {
    /// On the processor it is meant for, at normal priority, everything in place. In place of a utility processor, on one
    /// that depends on the shard.
    pub fn local(input: &LeafInput<'_>) -> Self {
        Self {
            processor: input.machine.near(input.processor, input.shard),
            priority: Priority::NORMAL,
            copied: Vec::new(),
            copies_in: MemoryKind::Ordinary,
            profile: false,
        }
    }

    /// Whether it is legal and says no more than which priority: most answers, so that nothing else is looked at then.
    #[inline]
    pub fn is_plain(&self, input: &LeafInput<'_>) -> bool {
        let here = self.processor == input.processor && !input.machine.is_utility(self.processor);
        self.copied.is_empty() && here && self.priority.0 < Priority::LEVELS && !self.profile
    }
}

/// Input of [`Mapper::map_exchange`](crate::Mapper::map_exchange).
#[derive(Debug, Clone)]
pub struct ExchangeInput<'a> {
    /// Name of the collective object.
    pub collective: &'a str,
    /// Number of participants.
    pub shards: u32,
    /// Bytes of one cell of the exchange region.
    pub bytes: usize,
    /// The machine.
    pub machine: &'a Machine,
}

/// Output of [`Mapper::map_exchange`](crate::Mapper::map_exchange): the three flags of the founding paper (§II-C).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeOutput {
    /// Kind of memory the exchange regions live in, near the shard that owns each. Default: ordinary.
    pub memory: MemoryKind,
    /// How read subtasks reach the partner's exchange region. Default: by a local copy.
    pub access: Access,
    /// Priority of the collective's subtasks. Default: [`Priority::NORMAL`].
    pub priority: Priority,
}

impl Default for ExchangeOutput {
    fn default() -> Self {
        Self { memory: MemoryKind::Ordinary, access: Access::Copy, priority: Priority::NORMAL }
    }
}

/// Input of [`Mapper::choose_algorithm`](crate::Mapper::choose_algorithm).
#[derive(Debug, Clone)]
pub struct AlgorithmInput<'a> {
    /// Name of the collective object.
    pub collective: &'a str,
    /// What it is, such as `allreduce`.
    pub kind: &'a str,
    /// The processor of each participant, in rank order.
    pub placement: &'a [ProcessorId],
    /// Bytes that each participant contributes.
    pub bytes: usize,
    /// Names of the algorithms that give the same bits here, at least one. The first is what the program gets from a mapper
    /// that does not care.
    pub choices: &'a [&'a str],
    /// The machine.
    pub machine: &'a Machine,
}

/// Input of [`Mapper::profile`](crate::Mapper::profile): how a leaf task went for which the mapper asked for it.
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
    /// Nanoseconds it ran.
    pub ran_ns: u64,
}
