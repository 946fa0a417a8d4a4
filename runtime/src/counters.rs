//! Counts of what a run did.

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

        /// What a run did, summed over its processors.
        #[derive(Debug, Default, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Events of a run in virtual time: messages that came, steps of processors, timers. 0 elsewhere.
            pub events: u64,
            /// A hash over when each of these events was, and at which processors: two runs of the same program on the same
            /// machine with the same seed have the same. 0 outside virtual time.
            pub digest: u64,
        }

        impl Stats {
            /// Adds another part of a run.
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
    /// Shard tasks started.
    shards,
    /// Tasks launched: leaf tasks and shards.
    launches,
    /// Region requirements of those.
    requirements,
    /// Values that leaf tasks get from edges and put on them; on a machine of virtual time without replay, the ends of edges that
    /// launched shards have, too.
    edge_values,
    /// On such a machine, the edges to launched shards.
    edge_regions,
    /// Futures given to leaf tasks and to calls of replayed objects as inputs.
    inputs,
    /// Leaf tasks run.
    leaf_tasks,
    /// Subtasks run by replayed chains (collectives), two a round.
    chain_subtasks,
    /// Polls of shards and parents.
    polls,
    /// Messages between processors.
    messages,
    /// Calls of replayed objects (collectives) that are over, one for each shard.
    chain_calls,
    /// Bytes that their reads combined, of values too large for an arrival.
    combined_bytes,
    /// Arrivals at barriers, local ones and those of replayed chains included.
    arrivals,
    /// Of these, those of replayed chains.
    chain_arrivals,
    /// Mapper calls made.
    mapper_calls,
    /// Regions copied into local memory before a subtask read them.
    region_copies,
    /// Bytes of those copies.
    region_copy_bytes,
    /// Bytes of exchange regions in [ordinary memory](maniple_mapper::MemoryKind::Ordinary) that were stored for a peer on
    /// another processor, of the same node or not: they go through a staging buffer. Between shards of one processor nothing
    /// is staged.
    staged_bytes,
    /// What is left when a run in one thread, seeded or in virtual time, has ended well, though nobody needs it any more: tasks,
    /// launches, requests, timers, and uses of instances. Always 0, unless the runtime has a bug.
    left_over,
    /// Bytes moved between instances for launches, explicit copies and remote access.
    moved_bytes,
}

impl Counters {
    pub fn add_to(&self, stats: &mut Stats) {
        self.add_each(stats);
        // Each processor counts the two apart.
        stats.arrivals += self.chain_arrivals.get();
    }
}
