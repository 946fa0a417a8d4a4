//! The calls of a mapper.

use crate::calls::{
    AlgorithmInput, ExchangeInput, ExchangeOutput, InstanceChoice, InstanceInput, LeafInput, LeafOutput,
    PlaceShardsInput, PlaceSharedInput, Placement, ProfileInput, SliceInput, Slicing, SourceInput,
};
use crate::{CollectiveMapper, ProcessorId};

/// The decisions a user may take over from the runtime, one call each. A mapper implements those that it changes; the others
/// are its [base](Self::base)'s. "Default" below is what [`DefaultMapper`](crate::DefaultMapper) decides.
///
/// | asked | about | decides |
/// |---|---|---|
/// | once a gang | [`place_shards`](Self::place_shards) | which processor runs each shard |
/// | once a collective | [`choose_algorithm`](Self::choose_algorithm) | which of the algorithms that give the same bits |
/// | once a collective, and by each processor again after the mapper was replaced | [`map_exchange`](Self::map_exchange) | memory, access and priority of its rounds |
/// | once a shared region and launch | [`place_shared`](Self::place_shared) | which processor has the one instance |
/// | once a copy with several sources | [`select_source`](Self::select_source) | where valid values are taken from |
/// | once a field of a region, processor and launch | [`map_instance`](Self::map_instance) | find or create, in which memory |
/// | once an index launch | [`slice_index`](Self::slice_index) | which processor each point is meant for |
/// | once a leaf task | [`map_leaf`](Self::map_leaf) | its processor, priority, and access to each region |
/// | after a leaf task that asked for it | [`profile`](Self::profile) | nothing: it is told how long the task took |
///
/// The first five are made for the replicated part of a program by every process alike, and must there be pure functions
/// of their inputs. Any processor may call at any time, hence `Sync`. No call may wait: the processor that asks does nothing
/// else meanwhile.
///
/// Every answer is checked before it is used. An illegal one is an error that names the task, gang, region or collective,
/// the call, the value and the legal values, and fails what asked; so does a panic. A mapper changes speed, never results.
pub trait Mapper: Send + Sync {
    /// The name shown in reports.
    fn name(&self) -> &str;

    /// The mapper that makes the decisions which this one leaves out: [`CollectiveMapper`] without this, which is what a
    /// program has that gives no mapper. So a mapper with a single call changes that decision only. Another one may be
    /// returned, a field of this one too, but never this one itself.
    ///
    /// ```
    /// use maniple_mapper::{DefaultMapper, LeafInput, LeafOutput, Mapper, Priority};
    ///
    /// /// Runs tasks named `urgent` first, and is otherwise the one that it was given.
    /// struct Urgent(Box<dyn Mapper>);
    ///
    /// impl Mapper for Urgent {
    ///     fn name(&self) -> &str {
    ///         "urgent"
    ///     }
    ///     fn base(&self) -> &dyn Mapper {
    ///         &*self.0
    ///     }
    ///     fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
    ///         let mut out = self.base().map_leaf(input);
    ///         if input.task == "urgent" {
    ///             // One below the collectives: tasks of their priority would keep rounds of others waiting.
    ///             out.priority = Priority(Priority::RAISED.0 - 1);
    ///         }
    ///         out
    ///     }
    /// }
    /// let urgent = Urgent(Box::new(DefaultMapper));
    /// # let _ = urgent;
    /// ```
    fn base(&self) -> &dyn Mapper {
        &CollectiveMapper
    }

    /// Who decides where the shards of a gang run. Legal: a processor of the machine for each shard. Default: blocked,
    /// so that neighbours stay together.
    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        self.base().place_shards(input)
    }

    /// Who decides which processor holds the one instance that all namers of a simultaneous region share. Legal: a
    /// processor of the machine. Default: the first reader's, else the first namer's.
    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> ProcessorId {
        self.base().place_shared(input)
    }

    /// Who decides whether an instance that a processor has already is used, and in which of its memories a new one is
    /// made. Legal: to create; to find, if there is one. Default: find, else create in ordinary memory.
    fn map_instance(&self, input: &InstanceInput<'_>) -> InstanceChoice {
        self.base().map_instance(input)
    }

    /// Who decides which of several processors that hold the same valid values sends them to one that needs them. Legal:
    /// one of the holders. Default: the first of the same node, else the first.
    fn select_source(&self, input: &SourceInput<'_>) -> ProcessorId {
        self.base().select_source(input)
    }

    /// Who decides which processor each point of an index launch is meant for; [`map_leaf`](Self::map_leaf) is then asked
    /// for each point, with that processor as its input. Legal: runs of points that together are all of them, in order,
    /// each with a processor of the node. Default: all for the launching shard's.
    fn slice_index(&self, input: &SliceInput<'_>) -> Slicing {
        self.base().slice_index(input)
    }

    /// Who decides where a leaf task runs, how soon, and how it reaches its regions. Legal: a processor of the shard's node,
    /// a priority in `0..`[`LEVELS`](crate::Priority::LEVELS), copies of simultaneous regions that are read. Default:
    /// [`LeafOutput::local`], with a copy of simultaneous regions that are read from elsewhere.
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        self.base().map_leaf(input)
    }

    /// Who decides which algorithm a collective uses whose program leaves that open. Legal: a position in
    /// [`AlgorithmInput::choices`]. Default: 0.
    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        self.base().choose_algorithm(input)
    }

    /// Who decides where the exchange regions of a collective live, how they are read, and the priority of its
    /// subtasks. Legal: a priority in `0..`[`LEVELS`](crate::Priority::LEVELS). Default: [`ExchangeOutput::default`].
    fn map_exchange(&self, input: &ExchangeInput<'_>) -> ExchangeOutput {
        self.base().map_exchange(input)
    }

    /// Who is told how a leaf task went whose [`LeafOutput::profile`] asked for it, if it ran and did not fail. Default:
    /// nobody.
    fn profile(&self, input: &ProfileInput<'_>) {
        self.base().profile(input);
    }
}
