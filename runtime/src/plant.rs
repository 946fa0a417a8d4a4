//! Protocol bugs that a test can plant, to show that other tests would find them. Behind the feature `plant`.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bug to plant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// An update subtask does not wait until its last value has been read.
    SkippedEmptyWait,
    /// A read subtask does not wait until the partner's value is there.
    SkippedReadyWait,
    /// The stencil's left and right ghost cells change places.
    SwappedGhosts,
    /// An arrival is not delivered.
    LostArrival,
    /// An arrival is delivered twice.
    DoubledArrival,
    /// A value goes to the wrong shard.
    WrongPartner,
    /// A call of a collective starts before the earlier call of its slot is over.
    EarlySlotReuse,
    /// A failure is not passed on.
    MissingPoison,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Bug; 8] = [
        Bug::SkippedEmptyWait,
        Bug::SkippedReadyWait,
        Bug::SwappedGhosts,
        Bug::LostArrival,
        Bug::DoubledArrival,
        Bug::WrongPartner,
        Bug::EarlySlotReuse,
        Bug::MissingPoison,
    ];
}

/// One planted bug and when it strikes.
#[derive(Debug)]
pub struct Plant {
    pub(crate) bug: Bug,
    /// Strikes on this occasion and every `period` after it.
    first: u64,
    period: u64,
    occasions: AtomicU64,
}

impl Plant {
    /// `bug` strikes on occasion number `first` (from 0) and every `period` ≥ 1 occasions after it.
    pub fn new(bug: Bug, first: u64, period: u64) -> Self {
        Self { bug, first, period: period.max(1), occasions: AtomicU64::new(0) }
    }

    pub(crate) fn strikes(&self, bug: Bug) -> bool {
        if bug != self.bug {
            return false;
        }
        let n = self.occasions.fetch_add(1, Ordering::Relaxed);
        n >= self.first && (n - self.first).is_multiple_of(self.period)
    }
}
