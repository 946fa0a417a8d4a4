//! The settings of a run, which all of its processors share.

use crate::Idle;
use crate::diagnose::races::Races;
use crate::ids::{NodeId, ProcessorId, Run};
use crate::plant::{Bug, Plant};
use maniple_mapper::{Machine, MapperSlot, Named};
use std::sync::Arc;

/// How nodes compare their top-level tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compares {
    /// Not at all.
    Nothing,
    /// A hash of the calls so far, at each launch and at the end.
    Hashes,
    /// Each call, in words.
    Words,
}

/// How many large values may be leaving a node at a time: see [`Runtime::under_way`](crate::Runtime::under_way).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnderWay {
    /// So many in all, at least 1.
    InAll(u32),
    /// One to each other node.
    ToEachPeer,
}

/// The settings of a run.
pub(crate) struct Config {
    /// Tells this run from the others of this process.
    pub run: Run,
    /// Bytes of the stack of a thread that runs processors.
    pub stack: usize,
    pub machine: Machine,
    /// The same processors, grouped by which copy of the top-level task they share. Normally that is one copy a node.
    /// Every copy knows every shard and gets every result, so with one copy a node that work grows with the square of
    /// the number of nodes. In virtual time a large machine therefore has one copy for all (`one_copy` of the machine).
    /// The work of shards between their start and end is the same.
    pub copies: Machine,
    /// The processor of each copy, its home.
    pub homes: Vec<ProcessorId>,
    pub mapper: MapperSlot,
    /// The mapper of the run's start, on every node.
    pub first_mapper: Arc<Named>,
    pub trace: Option<crate::diagnose::trace::Tracing>,
    /// The check for races, if it was requested.
    pub races: Option<Arc<Races>>,
    /// Most bytes of spare instances on each processor; see `Runtime::spare_memory`.
    pub spare: Option<usize>,
    pub under_way: UnderWay,
    /// Whether collectives try the laws of their operators.
    pub laws: bool,
    /// How the nodes compare their top-level tasks, if there are several nodes.
    pub compares: Compares,
    /// What a worker does without work.
    pub idle: Idle,
    /// The planted bug, if there is one. Without the feature `plant` there is none, as the compiler knows.
    pub plant: Option<Plant>,
}

impl Config {
    /// The processors that run the copies of the top-level task.
    pub fn homes(machine: &Machine, copies: &Machine) -> Vec<ProcessorId> {
        let first = |copy| machine.node_of(copies.first_of(NodeId(copy)));
        (0..copies.nodes()).map(|copy| machine.home_of(first(copy))).collect()
    }

    /// Whether the planted bug is `bug` and strikes now.
    #[inline(always)]
    pub fn strikes(&self, bug: Bug) -> bool {
        cfg!(feature = "plant") && self.plant.as_ref().is_some_and(|p| p.strikes(bug))
    }

    /// Whether the planted bug is `bug`.
    #[inline(always)]
    pub fn has(&self, bug: Bug) -> bool {
        cfg!(feature = "plant") && self.plant.as_ref().is_some_and(|p| p.bug == bug)
    }
}
