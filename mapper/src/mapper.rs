use crate::{Machine, MemoryKind};
use maniple_regions::{Coherence, FieldId, MemoryId, Privilege, Region};
use serde::{Deserialize, Serialize};

/// Most region requirements one leaf task may have.
pub const MAX_REQUIREMENTS: usize = 8;

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
    /// Shard s of P on processor ⌊s·W/P⌋: neighbours stay together.
    Blocked,
    /// Shard s on processor s mod W.
    Cyclic,
    /// Shard s on processor `.0[s]`.
    Explicit(Vec<u32>),
}

/// Input of [`Mapper::place_shards`].
#[derive(Debug, Clone)]
pub struct PlaceShardsInput<'a> {
    /// Name of the gang.
    pub gang: &'a str,
    /// Number of shards.
    pub shards: u32,
    /// The machine.
    pub machine: &'a Machine,
}

/// Input of [`Mapper::place_shared`].
#[derive(Debug, Clone)]
pub struct PlaceSharedInput<'a> {
    /// The region all namers share.
    pub region: Region,
    /// The field.
    pub field: FieldId,
    /// Processor and privilege of each shard that names the region, in shard order.
    pub namers: &'a [(u32, Privilege)],
    /// The machine.
    pub machine: &'a Machine,
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

/// Input of [`Mapper::map_leaf`].
#[derive(Debug, Clone)]
pub struct LeafInput<'a> {
    /// Name of the task.
    pub task: &'a str,
    /// The shard that launches it.
    pub shard: u32,
    /// The processor of that shard.
    pub processor: u32,
    /// Its region requirements, in the order of its parameters.
    pub requirements: &'a [RequirementInput<'a>],
    /// The machine.
    pub machine: &'a Machine,
}

/// Output of [`Mapper::map_leaf`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafOutput {
    /// A processor of the shard's own node. Default: the shard's.
    pub processor: u32,
    /// Default: [`Priority::NORMAL`].
    pub priority: Priority,
    /// For each requirement, how to read it; only simultaneous reads may be copied. Default: in place.
    pub access: [Access; MAX_REQUIREMENTS],
}

impl LeafOutput {
    /// On the launching shard's processor, at normal priority, everything in place.
    pub fn local(input: &LeafInput<'_>) -> Self {
        Self { processor: input.processor, priority: Priority::NORMAL, access: [Access::InPlace; MAX_REQUIREMENTS] }
    }
}

/// Input of [`Mapper::map_exchange`].
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

/// Output of [`Mapper::map_exchange`]: the three flags of the founding paper (§II-C).
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

/// The decisions a user may take over from the runtime, one documented call each.
///
/// Calls made for the replicated part of a program ([`place_shards`](Self::place_shards),
/// [`place_shared`](Self::place_shared), [`map_exchange`](Self::map_exchange)) are made by every process and must be
/// pure functions of their inputs. Any processor may call at any time, hence `Sync`.
pub trait Mapper: Send + Sync {
    /// The name shown in reports.
    fn name(&self) -> &str;

    /// Who decides where the shards of a gang run: asked once a gang. Default: blocked.
    fn place_shards(&self, _input: &PlaceShardsInput<'_>) -> Placement {
        Placement::Blocked
    }

    /// Who decides which processor holds the one instance that all namers of a simultaneous region share: asked once a
    /// region and launch. Default: the first reader, else the first namer.
    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> u32 {
        let reader = input.namers.iter().find(|(_, p)| *p == Privilege::Read);
        reader.or(input.namers.first()).map_or(0, |n| n.0)
    }

    /// Who decides where a leaf task runs, how soon, and how it reaches its regions: asked once a launch.
    /// Default: [`LeafOutput::local`], with a local copy of simultaneous regions that are read from elsewhere.
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let mut out = LeafOutput::local(input);
        for (access, r) in out.access.iter_mut().zip(input.requirements) {
            let elsewhere = input.machine.owner(r.memory).0 != input.processor;
            if elsewhere && r.privilege == Privilege::Read && r.coherence == Coherence::Simultaneous {
                *access = Access::Copy;
            }
        }
        out
    }

    /// Who decides where the exchange regions of a collective live, how they are read, and the priority of its
    /// subtasks: asked once a collective. Default: [`ExchangeOutput::default`].
    fn map_exchange(&self, _input: &ExchangeInput<'_>) -> ExchangeOutput {
        ExchangeOutput::default()
    }
}
