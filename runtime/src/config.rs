//! What every processor of a run knows.

use crate::diagnose::races::Races;
use crate::ids::Run;
use maniple_mapper::{Machine, MapperSlot};
use std::sync::Arc;

/// What every processor of a run knows.
pub(crate) struct Config {
    /// Which run of this process it is.
    pub run: Run,
    pub machine: Machine,
    /// The same processors, as nodes of those that share a copy of the replicated top-level task: nodes as they are, but
    /// where virtual time has one copy for all.
    pub copies: Machine,
    pub mapper: MapperSlot,
    pub trace: Option<crate::diagnose::trace::Tracing>,
    /// Looks for races, if that is asked for.
    pub races: Option<Arc<Races>>,
    /// Whether nodes compare what their top-level tasks do, where there are several.
    pub compares: bool,
    /// Whether the ends of edges are counted when shards are launched.
    pub counts_ends: bool,
    #[cfg(feature = "plant")]
    pub plant: Option<crate::plant::Plant>,
}

#[cfg(feature = "plant")]
impl Config {
    /// Whether the planted bug is `bug` and it is its turn to strike.
    pub fn strikes(&self, bug: crate::plant::Bug) -> bool {
        self.plant.as_ref().is_some_and(|p| p.strikes(bug))
    }

    /// Whether the planted bug is `bug`.
    pub fn has(&self, bug: crate::plant::Bug) -> bool {
        self.plant.as_ref().is_some_and(|p| p.bug == bug)
    }
}
