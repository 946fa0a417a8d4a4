//! The counts of a run.

use std::cell::Cell;

/// A count kept by one processor.
#[derive(Debug, Default)]
pub(crate) struct Count(Cell<u64>);

impl Count {
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.set(self.0.get() + n);
    }
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts of one processor.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub $name: Count,)*
        }

        /// The counts of a run, summed over its processors.
        #[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Events of a run in virtual time: arrivals of messages, steps of processors, timers. 0 on other drivers.
            pub events: u64,
            /// A hash of the times and processors of these events. Two runs of the same program on the same machine
            /// with the same seed have the same hash. 0 on other drivers.
            pub digest: u64,
        }

        impl Stats {
            /// Adds the counts of another part of a run.
            pub fn add(&mut self, other: &Stats) {
                $(self.$name += other.$name;)*
                self.events += other.events;
                self.digest ^= other.digest;
            }
        }

        impl Counters {
            fn add_each(&self, stats: &mut Stats) {
                $(stats.$name += self.$name.get();)*
            }
        }
    };
}

counters! {
    /// Shards started.
    shards,
    /// Tasks launched: leaf tasks and shards.
    launches,
    /// Region requirements of these launches.
    requirements,
    /// Values that leaf tasks get from edges and put on them.
    edge_values,
    /// Futures that leaf tasks and calls of collectives take their inputs from.
    inputs,
    /// Leaf tasks of the top-level task that run on another node: each node counts them.
    elsewhere,
    /// Leaf tasks run.
    leaf_tasks,
    /// Subtasks of collectives run: two for each round of recursive doubling. Local ones count too.
    chain_subtasks,
    /// Polls of shards and inner tasks.
    polls,
    /// Messages between processors.
    messages,
    /// Calls of collectives that have ended, counted once for each shard.
    chain_calls,
    /// Bytes that reads and local subtasks of collectives combined or copied, of values too large for an arrival. Elements that
    /// stand for others count as many bytes as these.
    combined_bytes,
    /// Arrivals at barriers, including local ones and arrivals of collectives.
    arrivals,
    /// Arrivals of collectives.
    chain_arrivals,
    /// Calls of the mapper.
    mapper_calls,
    /// Regions copied into local memory before a subtask read them.
    region_copies,
    /// Bytes of these copies.
    region_copy_bytes,
    /// Bytes in [ordinary memory](maniple_mapper::MemoryKind::Ordinary) that went through a staging buffer: bytes of
    /// exchange regions, to a peer on another processor, of the same node or not; and bytes of instances, to or from another
    /// process of the host. Between shards of one processor nothing is staged.
    staged_bytes,
    /// Tasks, launches, requests, timers and uses of instances that are left over when a seeded run or one in virtual
    /// time has ended well. Always 0, unless the runtime has a bug.
    left_over,
    /// Bytes moved between instances for launches, explicit copies and remote access.
    moved_bytes,
    /// Sends of values for launches and leaf tasks, each to one processor or several that need the same values.
    sends,
    /// The processors to which these went.
    recipients,
    /// Recipients that were added to a send which waited for its values, or for its turn to leave.
    joined,
    /// Recipients of values that had left before: each got a message of its own.
    found_late,
    /// Values that came before the task that needs them, and were kept.
    kept_early,
    /// Messages with which a processor passed such values on.
    forwards,
}

impl Counters {
    pub fn add_to(&self, stats: &mut Stats) {
        self.add_each(stats);
        // Each processor counts the two apart.
        stats.arrivals += self.chain_arrivals.get();
    }
}
