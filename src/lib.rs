#![forbid(unsafe_code)]
//! `maniple` is a framework for parallel programs made of small tasks: you declare the data each task uses; the runtime finds
//! the order, moves the data, and combines results in collectives that scale.
//!
//! # A first program
//!
//! Shards are `async` functions. They launch ordinary functions on regions and combine results in collectives.
//!
//! ```
//! use maniple::prelude::*;
//!
//! // A field of 64-bit floats. A region has a value of each field at each of its points.
//! const U: Field<f64> = Field::new(0, "u");
//!
//! // Leaf tasks are ordinary functions. The parameter types say what each may do with its region.
//! fn count(mut u: Write<f64>) {
//!     u.fill_with(|[i]| i as f64);
//! }
//! fn sum(u: Read<f64>) -> f64 {
//!     u.as_slice().iter().sum()
//! }
//!
//! // A shard holds a block of a region, launches leaf tasks on it, and takes part in an allreduce. It waits for nothing
//! // before its last line: `sum` runs after `count` because both use the block, and the allreduce runs after `sum`
//! // because it takes its result.
//! async fn shard(shard: Shard, (block, total): (Region, Collective<f64>)) -> Result<f64, Error> {
//!     let u = shard.region(block)?;
//!     shard.launch(count, (u.write(U),)).go()?.detach();
//!     let local = shard.launch(sum, (u.read(U),)).go()?;
//!     total.call(&shard, &local)?.await
//! }
//!
//! // The top-level task makes regions, gangs and collectives, and launches the shards.
//! let (sums, stats) = Runtime::threads(2).run(|top| async move {
//!     let line = top.region_tree("line", Rect::line(0, 100), &[U.info()])?;
//!     let blocks: Vec<Region> = Partition::equal(line, 4)?.iter().collect();
//!     let gang = top.gang("all", 4)?;
//!     let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
//!     let task = top.register("shard", shard);
//!     let done = top.launch_gang(&gang, &task, |s| {
//!         let block = blocks[s as usize];
//!         ShardLaunch::new((block, total)).writes(block, [U])
//!     })?;
//!     done.all().await
//! })?;
//! assert_eq!(sums, [4950.0; 4]);
//! assert_eq!(stats.leaf_tasks, 8);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Where to go on
//!
//! - The [guide] explains one task in each chapter, from [a first program](guide::first_program) to
//!   [a program that hangs](guide::when_it_hangs).
//! - [`Top`](runtime::Top) is the top-level task: it makes everything. [`Shard`](runtime::Shard) is what a shard can do.
//! - The [prelude] has the names that most programs use. The others are in the modules below.
//! - Short programs are in `examples/`; `cargo run --example sum -- 7 2` runs one with 7 shards on 2 workers:
//!
//! | example | what it shows |
//! |---|---|
//! | `hello` | a gang, with an argument and a result for each shard |
//! | `sum` | regions, leaf tasks and an allreduce, as above |
//! | `ring` | shared regions, and edges that guard them |
//! | `heat` | a halo in one dimension, a residual in each step |
//! | `p2p` | a wavefront: each block takes groups of rows from its left neighbour and sends them on, as many as it likes |
//! | `particles` | particles that move from shard to shard, in messages of any length |
//! | `jacobi2d` | a halo in two dimensions, a loop that ends when all shards agree |
//! | `cholesky` | a flow: tasks of the top-level task, ordered by the tiles that they use |
//! | `pipeline` | index launches, and tasks ordered by regions and futures |
//! | `barrier` | phase barriers, with and without a reduction |
//! | `power` | an iteration with two allreduces, and no wait between them |
//! | `histogram` | an inner task that launches gangs and combines what they wrote |
//! | `vectors` | an allreduce of vectors of structs, with an operator of its own |
//! | `torus` | an allreduce by an algorithm of its own |
//! | `chemistry` | a fit of rate constants: reductions and broadcasts with different roots, in flight at the same time |
//! | `word_count` | parts of an all-to-all whose blocks have any size, in the order in which they come |
//! | `matrix_vector` | parts of an all-to-all, folded in pairs |
//! | `transpose` | an all-to-all of large tiles, each in the memory of an earlier one |
//! | `sparse` | an allgather of a vector, whose copies shards share |
//! | `mapper` | a mapper in 20 lines |
//! | `explore` | a program under many orders of its messages and tasks |
//!
//! # Vocabulary
//!
//! | word | meaning | in Legion | in MPI, roughly |
//! |---|---|---|---|
//! | top-level task | makes trees, gangs, barriers and collectives, and launches gangs; each node runs a copy | top-level task, control-replicated | the part of `main` that all ranks execute |
//! | gang | shards that are launched together ([`Gang`](runtime::Gang)) | index launch whose points run at the same time | communicator |
//! | shard | a long-lived `async` task; launches leaf tasks, touches no data itself ([`Shard`](runtime::Shard)) | point task of an SPMD launch, shard | rank |
//! | leaf task | an ordinary function on regions, launched by a shard ([`Leaf`](runtime::Leaf)) | leaf task | local computation between two calls |
//! | inner task | a task that launches gangs and combines what they wrote ([`InnerTask`](runtime::InnerTask)) | inner task | root rank |
//! | region, tree, partition | a box of points; all points with their fields; numbered subregions ([`Region`](regions::Region), [`Partition`](regions::Partition)) | logical region, region tree, partition | distributed array, its decomposition |
//! | requirement | the privilege of a task on fields of a region: of a shard by [`ShardLaunch`](runtime::ShardLaunch), of a leaf task by its parameter types | region requirement: privilege and coherence | nothing; an access epoch of a window comes closest |
//! | phase barrier | shards arrive and shards wait, once in each generation ([`PhaseBarrier`](runtime::PhaseBarrier)) | phase barrier | `MPI_Ibarrier`, with arriving and waiting apart |
//! | edge | a ready and an empty barrier between two shards, and the values that travel along ([`Edges`](runtime::Edges)) | two phase barriers around an exchange region | send and receive with a bounded buffer |
//! | halo | the cells around a block, which its neighbours send ([`halo`]) | ghost region | halo exchange |
//! | collective | a schedule of subtasks and barriers for the shards of a gang ([`Collective`](collectives::Collective)) | dynamic collective | `MPI_Iallreduce` |
//! | mapper | decides where shards, tasks and data go ([`Mapper`](mapper::Mapper)) | mapper | options of `mpirun`, tuning parameters |
//! | processor, worker | one thread with state of its own, which runs many shards | processor | process |
//! | node | processors that share an address space | node, address space | ranks of a shared-memory communicator |

/// Data: index spaces, fields, logical regions, partitions, privileges, and accessors of leaf tasks.
pub mod regions {
    #[doc(inline)]
    pub use maniple_regions::{
        BrokenLaw, Coherence, Element, ExactSum, Field, FieldId, FieldInfo, Integer, Law, Laws, Located, Number,
        Operator, Partition, Privilege, Read, ReadBytes, ReadShared, ReadWrite, ReadWriteShared, Rect, Reduce,
        ReductionId, Region, RegionError, Stateful, Summand, Vector, Write, WriteBytes, WriteShared, argmax, argmin,
        exact_sum, vec_in_huge_pages,
    };
}

/// Handles of barriers. `Arriver` and `Waiter`, `Ready` and `Empty` are separate types.
pub mod barriers {
    #[doc(inline)]
    pub use maniple_barriers::{Arriver, BarrierError, Empty, Ready, Waiter};
}

/// Where things run and in what order: the [`Mapper`](mapper::Mapper), its calls, and the stock mappers.
pub mod mapper {
    #[doc(inline)]
    pub use maniple_mapper::{
        Access, Algorithm, AlgorithmInput, AnyMapper, Choice, ChoiceTable, CollectiveInput, CollectiveMapper,
        CollectiveOutput, DefaultMapper, IllegalDecision, InstanceChoice, InstanceInput, KeepInput, Kind, Layout,
        LeafInput, LeafOutput, Machine, Mapper, MapperError, MapperSlot, MapperSpec, MemoryKind, NodeId, Nodes,
        PlaceShardsInput, PlaceSharedInput, PlaceTaskInput, Placement, Priority, ProcessorId, ProcessorRange,
        ProfileInput, RequirementInput, Requirements, Route, RouteInput, SliceInput, Slicing, SourceInput, SpecError,
        TableError, TableMapper, stock,
    };
}

/// Mappers in shared libraries.
pub mod plugin {
    #[doc(inline)]
    pub use maniple_plugin::{PluginError, export_mapper, load};
}

/// Runs, tasks, launches, futures and errors.
pub mod runtime {
    #[doc(inline)]
    pub use maniple_runtime::{
        Arg, Arrivable, Binding, ByteRequirement, Check, Consumer, CostLevel, Costs, Destroy, Driver, Edge, Edges,
        Error, Faults, FutureMap, Gang, Get, GetFrom, Idle, InFlow, InShard, IndexLaunch, InnerTask, Input, Launch,
        Leaf, Link, Many, MayFail, NeverFails, Outcome, Param, Pause, PhaseArriver, PhaseBarrier, PhaseOptions,
        PhaseWaiter, Place, Portable, Processes, ProcessorLoss, Producer, Progress, Put, PutTo, PutVec, PutVecTo,
        RacingAccess, ReduceRequirement, RegionView, Requirement, Resolver, Runtime, Shard, ShardLaunch, ShardTask,
        SlowLink, Stamp, Stats, TaskCost, TaskFuture, Top, TraceFile, Tree, UnderWay, VirtualMachine, Waitable, now,
    };
}

/// Collectives of a gang.
pub mod collectives {
    #[doc(inline)]
    pub use maniple_collectives::{
        Algorithm, Channels, CheckError, Collective, CollectiveBuilder, Combine, Contribution, Goal, Kind, Laws, Link,
        Load, Members, Number, OfOne, Operator, Order, Part, Plain, Plan, Ranks, Reduction, Report, Schedule,
        Schedules, State, Step, Traffic, UnknownAlgorithm, UnknownKind, Value, Want, check, measure,
    };
}

pub mod explore;
pub mod guide;
pub mod halo;
pub mod output;
#[cfg(feature = "rayon")]
pub mod rayon;
pub use explore::explore;

/// The names that most programs use.
pub mod prelude {
    #[doc(no_inline)]
    pub use crate::collectives::{Collective, Contribution, Operator};
    #[doc(no_inline)]
    pub use crate::mapper::{NodeId, Priority};
    #[doc(no_inline)]
    pub use crate::output::Output;
    #[doc(no_inline)]
    pub use crate::regions::{Field, Partition, Read, ReadWrite, Rect, Region, Vector, Write};
    #[doc(no_inline)]
    pub use crate::runtime::{
        Arg, Check, Edges, Error, Gang, Get, Input, Launch, Leaf, Many, PhaseBarrier, PhaseOptions, Put, PutVec,
        RegionView, Requirement, Runtime, Shard, ShardLaunch, ShardTask, TaskFuture, Top,
    };
}
