//! The calls of a mapper.

use crate::calls::{
    AlgorithmInput, CollectiveInput, CollectiveOutput, InstanceChoice, InstanceInput, KeepInput, LeafInput, LeafOutput,
    PlaceShardsInput, PlaceSharedInput, PlaceTaskInput, Placement, ProfileInput, Route, RouteInput, SliceInput,
    Slicing, SourceInput,
};
use crate::{CollectiveMapper, NodeId, ProcessorId};

/// The decisions about placement, order and memory, one call each.
///
/// A mapper implements the calls that it changes. The others come from its [base](Self::base).
///
/// | call | asked | decides |
/// |---|---|---|
/// | [`place_shards`](Self::place_shards) | once for each gang, on every node | the processor of each shard |
/// | [`choose_algorithm`](Self::choose_algorithm) | once for each collective, on every node | one of the algorithms that give the same bits |
/// | [`map_collective`](Self::map_collective) | once for each collective, on every node | memory, access and priority of its rounds |
/// | [`place_shared`](Self::place_shared) | once for each shared region and launch, on every node | the processor that has the one instance |
/// | [`select_source`](Self::select_source) | once for each copy with several sources, on every node | the source of valid values |
/// | [`route`](Self::route) | by the sender, when values leave for several nodes | who passes them on to whom |
/// | [`map_instance`](Self::map_instance) | once for each field of a region, processor and launch | an old instance or a new one, and its memory |
/// | [`keep_instance`](Self::keep_instance) | when a launch of the top-level task first uses an instance, on every node | whether the instance may stay when it is spare |
/// | [`slice_index`](Self::slice_index) | once for each index launch | the processor that each point is meant for |
/// | [`place_task`](Self::place_task) | once for each leaf task of the top-level task, on every node | the node that runs it |
/// | [`map_leaf`](Self::map_leaf) | once for each leaf task | its processor or any of its node, its priority, and its access to each region |
/// | [`profile`](Self::profile) | after a leaf task, if `map_leaf` asked for it | nothing: it receives the task's times |
///
/// **On every node** means that each node asks for itself, in the replicated part of the program, and all must get the
/// same answer. So these seven answers must be pure functions of their inputs. For the launches of an inner task, only
/// the task's own processor asks `place_shared` and `select_source`.
///
/// Any processor may ask at any time, several at once, hence `Sync`. No call may wait: the processor that asks does
/// nothing else meanwhile.
///
/// Every answer is checked ([`validate`](crate::validate)) before it is used. An illegal answer gives `Error::Mapper`,
/// which names the mapper, the call, the subject, the value and the legal values. A panic in a call gives
/// `Error::MapperFailed`. Either fails whatever asked, as each call says below. **Default** below is the answer of
/// [`DefaultMapper`](crate::DefaultMapper).
pub trait Mapper: Send + Sync {
    /// The name of this mapper in reports and errors.
    fn name(&self) -> &str;

    /// The mapper that answers the calls which this one does not implement. Without this method it is
    /// [`CollectiveMapper`], the mapper of a program that sets none.
    ///
    /// The base may be any other mapper, also a field of this one. It must not be this mapper itself: the calls would
    /// never return.
    ///
    /// ```
    /// use maniple_mapper::{DefaultMapper, LeafInput, LeafOutput, Mapper, Priority};
    ///
    /// /// Runs tasks named `urgent` first. All else is decided by another mapper.
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
    ///             // One below the collectives, so that the rounds of other shards do not wait for these tasks.
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

    /// Decides which processor runs each shard of a gang.
    ///
    /// - **Asked** by `Top::gang`, on every node.
    /// - **Legal:** a processor of the machine for each shard, utility processors included.
    /// - **Default:** [`Placement::Blocked`], so that neighbours stay together.
    /// - **Illegal:** `Top::gang` returns the error, and there is no gang.
    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        self.base().place_shards(input)
    }

    /// Decides which processor holds the one instance of a region that several shards use at once.
    ///
    /// - **Asked** by each launch of a gang, once for each region with simultaneous coherence. All fields of the region
    ///   get the same answer. On every node for launches of the top-level task.
    /// - **Legal:** a processor of the machine.
    /// - **Default:** the processor of the first shard that only reads, or else of the first shard in the list.
    /// - **Illegal:** the launch returns the error, and no shard starts.
    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> ProcessorId {
        self.base().place_shared(input)
    }

    /// Decides whether a processor goes on with the instance it has, and in which of its memories a new one is made.
    ///
    /// - **Asked** by the processor that needs the instance, when it first needs it in a launch.
    /// - **Legal:** [`Create`](InstanceChoice::Create) always; [`Find`](InstanceChoice::Find) if
    ///   [`InstanceInput::found`] is an instance.
    /// - **Default:** find, or else create in ordinary memory.
    /// - **Illegal:** the tasks that need the instance fail with the error.
    fn map_instance(&self, input: &InstanceInput<'_>) -> InstanceChoice {
        self.base().map_instance(input)
    }

    /// Decides which of several processors with the same valid values sends them to a processor that needs them.
    ///
    /// - **Asked** by the launch (or `InnerTask::map`) that needs the values, for each part that several other
    ///   processors hold. Not asked if the processor itself has the values in another instance. On every node for
    ///   launches of the top-level task.
    /// - **Legal:** one of [`SourceInput::holders`].
    /// - **Default:** the first holder of the receiver's node, or else the first holder.
    /// - **Illegal:** the launch returns the error, and no shard starts.
    fn select_source(&self, input: &SourceInput<'_>) -> ProcessorId {
        self.base().select_source(input)
    }

    /// Decides whether an instance may stay when it is *spare*: when every point of it has the same or a newer value in
    /// another instance.
    ///
    /// - **Asked** by a launch of the top-level task that uses an instance which is not there yet, on every node. Asked
    ///   again if the instance has gone since.
    /// - **Legal:** both. If it may stay, it goes only when the spare instances of its processor take more memory than
    ///   the run allows them, those used longest ago first. If not, it goes at once.
    /// - **Default:** it may stay.
    fn keep_instance(&self, input: &KeepInput<'_>) -> bool {
        self.base().keep_instance(input)
    }

    /// Decides how the same values reach several nodes: in which order, and who passes them on.
    ///
    /// - **Asked** by the processor that sends, when a message to several nodes leaves.
    /// - **Legal:** [`Binomial`](Route::Binomial) and [`Linear`](Route::Linear) always. A [`Tree`](Route::Tree) has an entry
    ///   for each recipient. Each parent comes before its child. No recipient gets the values in a later
    ///   [round](Route::rounds) than one with a lower priority.
    /// - **Default:** [`Route::Binomial`].
    /// - **Illegal:** the receivers fail with the error.
    fn route(&self, input: &RouteInput<'_>) -> Route {
        self.base().route(input)
    }

    /// Decides which processor each point of an index launch is meant for. [`map_leaf`](Self::map_leaf) then gets that
    /// processor as the input for each point.
    ///
    /// - **Asked** by `IndexLaunch::go` on the shard's processor, if there are points.
    /// - **Legal:** runs of points that together are all points in order, each with a processor of the shard's node
    ///   that runs leaf tasks, or with [`ProcessorId::ANYWHERE`]. `map_leaf` then gets the shard's processor, and a point
    ///   that it leaves there runs on whichever processor of the node is free first.
    /// - **Default:** [`Slicing::Here`], all points for the shard's own processor.
    /// - **Illegal:** `IndexLaunch::go` returns the error, and no point runs.
    fn slice_index(&self, input: &SliceInput<'_>) -> Slicing {
        self.base().slice_index(input)
    }

    /// Decides on which node a leaf task of the top-level task runs. [`map_leaf`](Self::map_leaf) is then asked there.
    ///
    /// - **Asked** once for each leaf task that the top-level task launches without naming a node, on every node.
    /// - **Legal:** a node in `0..`[`nodes`](PlaceTaskInput::nodes).
    /// - **Default:** [`PlaceTaskInput::node`], which has the data.
    /// - **Illegal:** the launch returns the error, and the task does not run.
    fn place_task(&self, input: &PlaceTaskInput<'_>) -> NodeId {
        self.base().place_task(input)
    }

    /// Decides where a leaf task runs, how soon, and how it reaches its regions.
    ///
    /// - **Asked** by `Launch::go` on the shard's processor, for each leaf task and each point of an index launch.
    /// - **Legal:** a processor of the task's node that runs leaf tasks, or [`ProcessorId::ANYWHERE`] for any of them,
    ///   whichever is free first; a priority in `0..`[`LEVELS`](crate::Priority::LEVELS); copies of regions that are read
    ///   with simultaneous coherence. A priority that the launch sets itself goes before this one.
    /// - **Default:** [`LeafOutput::local`], with a copy of each simultaneous read from another processor's memory.
    /// - **Illegal:** `go` returns the error, and the task does not run. Earlier points of an index launch do run.
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        self.base().map_leaf(input)
    }

    /// Decides which algorithm a collective uses.
    ///
    /// - **Asked** on every node when a collective is made, `Collective::allreduce` say, if the program leaves the algorithm
    ///   open.
    /// - **Legal:** a position in [`AlgorithmInput::choices`].
    /// - **Default:** 0.
    /// - **Illegal:** making the collective returns the error.
    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        self.base().choose_algorithm(input)
    }

    /// Decides in which memory the exchange regions of a collective are, how they are read, and the priority of its
    /// subtasks.
    ///
    /// - **Asked** on every node when a collective is made. After the mapper was
    ///   [replaced](crate::MapperSlot::replace), each processor asks again at the next call of the collective.
    /// - **Legal:** a priority in `0..`[`LEVELS`](crate::Priority::LEVELS).
    /// - **Default:** [`CollectiveOutput::default`].
    /// - **Illegal:** making the collective returns the error; later, the call of the collective returns it.
    fn map_collective(&self, input: &CollectiveInput<'_>) -> CollectiveOutput {
        self.base().map_collective(input)
    }

    /// Receives the times of a leaf task. It decides nothing.
    ///
    /// - **Called** after a task that ran and did not fail, if its [`LeafOutput::profile`] was set.
    /// - **Default:** nothing.
    /// - **A panic** fails the run, since nobody waits for this call.
    fn profile(&self, input: &ProfileInput<'_>) {
        self.base().profile(input);
    }
}
