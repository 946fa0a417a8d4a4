//! What every processor of a run knows.

use crate::diagnose::races::Races;
use maniple_mapper::{Machine, MapperSlot};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Which run of this process made a handle, so that one kept from another run is refused. All are equal: it says nothing of
/// what a handle stands for.
///
/// It does not travel in messages, which stay within their run; a handle out of one has the default, that of any run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run(u32);

impl Run {
    /// A handle of any run.
    pub const ANY: Self = Self(0);

    /// The run with this configuration.
    pub fn of(config: &Arc<Config>) -> Self {
        static RUNS: Mutex<Vec<(Weak<Config>, Run)>> = Mutex::new(Vec::new());
        static MADE: AtomicU32 = AtomicU32::new(1);
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        // A weak reference keeps the address from being another run's.
        runs.retain(|(known, _)| known.strong_count() > 0);
        if let Some((_, run)) = runs.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(config)) {
            return *run;
        }
        let run = Self(MADE.fetch_add(1, Ordering::Relaxed));
        runs.push((Arc::downgrade(config), run));
        run
    }

    /// Whether a handle with this may be used where `other` runs.
    pub fn may_be(self, other: Self) -> bool {
        self.0 == other.0 || self.0 == Self::ANY.0 || other.0 == Self::ANY.0
    }
}

impl PartialEq for Run {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Run {}

impl Hash for Run {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// What every processor of a run knows.
pub(crate) struct Config {
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
