//! Protocol bugs that a test can plant, to show that other tests would find them. The code asks
//! [`Effects::strikes`](crate::effects::Effects::strikes) where the mistake would be made. Without the feature `plant` no bug
//! ever strikes, and the compiler removes what depends on it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Lists the bugs once.
macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident,)*) => {
        /// A bug to plant.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Bug {
            $($(#[$doc])* $bug,)*
        }

        #[cfg(feature = "plant")]
        impl Bug {
            /// Every bug.
            pub const ALL: &[Bug] = &[$(Bug::$bug,)*];

            /// Its name on command lines: `lost-arrival`.
            pub fn name(self) -> String {
                let mut name = String::new();
                for c in format!("{self:?}").chars() {
                    if c.is_uppercase() && !name.is_empty() {
                        name.push('-');
                    }
                    name.push(c.to_ascii_lowercase());
                }
                name
            }
        }
    };
}

bugs! {
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
    /// A call of a collective starts before the earlier call of its slot has ended.
    EarlySlotReuse,
    /// A call without empty arrivals uses the cells of the call before, not the other set.
    OneSet,
    /// A failure is not passed on.
    MissingPoison,
    /// A leaf task waits for the generation of a barrier before its own.
    EarlierGeneration,
    /// A leaf task does not wait for earlier users of a region.
    MissedDependence,
    /// A shard is not polled, though what it waits for is there.
    DroppedWakeUp,
    /// A node goes on to ask a replaced mapper.
    StaleMapper,
    /// A wait that is given up does not give its generation back.
    LostTimeOut,
    /// The use of an instance is never given up.
    LeakedInstance,
    /// The last point of an index launch is left out.
    ForgottenPoint,
    /// Data that has come for a launch is not put into its instance.
    StaleCopy,
    /// Two shards' results change places.
    SwappedResults,
    /// A processor is not told that another one is lost.
    SilentDeath,
    /// The values of a phase barrier are folded in the wrong order.
    FoldOrder,
    /// A message overtakes the one before it, between the same processors.
    Overtaking,
    /// What a task wrote to a region whose home is another processor is not sent there.
    LostWriteBack,
    /// The operands of an operator change places.
    SwappedOperands,
    /// A generation of a phase barrier ends before all have arrived.
    EarlyRelease,
    /// A launch does not wait for its data, nor for earlier launches that use the same.
    EarlyStart,
    /// The home of a region is not told that a launch has ended.
    LostLaunchOver,
    /// A deadline passes too early.
    EarlyDeadline,
    /// Nobody is told that a deadline has passed.
    LostDeadline,
    /// A recipient joins a send of the values before the last writer's.
    OldVersion,
    /// A recipient that joins a send is forgotten.
    LostRecipient,
    /// A recipient joins a send twice.
    DoubledRecipient,
    /// Values are forwarded to a wrong node.
    WrongForward,
    /// Values that come before they are awaited are dropped.
    DroppedEarly,
    /// Values are written before earlier readers have read what was there.
    EarlyReceive,
    /// A task of a node's pool is given to no processor.
    LostPoolTask,
    /// A task of a node's pool that is given away runs twice.
    DoubledPoolTask,
    /// A part of a result goes into the future of the next part.
    WrongPart,
    /// A part of an earlier call is taken before that of this call has come.
    StalePart,
    /// The future of a part is never settled.
    LostPart,
    /// A part goes into the future of the next part, too.
    DoubledPart,
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
