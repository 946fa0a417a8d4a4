#![forbid(unsafe_code)]
//! `maniple`: shard tasks, logical regions, phase barriers, mappers and collectives that scale.
//!
//! # A first program
//!
//! Shards are `async` functions; they launch ordinary functions on regions and combine results in collectives.
//!
//! ```
//! use maniple::prelude::*;
//!
//! // A field of 64-bit floats; regions are made of fields.
//! const U: Field<f64> = Field::new(0, "u");
//!
//! // Leaf tasks are ordinary functions. The parameter types say what each may do with its region.
//! fn count_from(mut u: Write<f64>, first: Arg<f64>) {
//!     u.write_with(|i| *first + i as f64);
//! }
//! fn sum(u: Read<f64>) -> f64 {
//!     u.as_slice().iter().sum()
//! }
//!
//! // A shard task holds a block of a region, launches leaf tasks on it, and takes part in an allreduce. Nothing waits
//! // before the last `.await`: the second leaf follows the first because both use the same block, and the allreduce
//! // follows the second because it takes its future.
//! async fn shard(shard: Shard, (block, total): (Region, Allreduce<f64>)) -> Result<f64, Error> {
//!     let u = shard.region(block)?;
//!     let first = block.rect.lo(0) as f64;
//!     shard.launch(count_from, (u.write(U), first.into())).go()?.detach();
//!     let local = shard.launch(sum, (u.read(U),)).go()?;
//!     total.call(&shard, &local)?.await
//! }
//!
//! // The top-level task makes regions, gangs and collectives, and launches the shards.
//! let (sums, stats) = Runtime::threads(2).run(|top| async move {
//!     let line = top.region_tree("line", Rect::line(0, 100), &[U.info()])?;
//!     let gang = top.gang("all", 4)?;
//!     let blocks = Partition::equal(line, 4)?;
//!     let total = Allreduce::new(&top, &gang, "total", Operator::sum())?;
//!     let task = top.register("shard", shard);
//!     let block = |s: u32| blocks.sub(s as usize).expect("one block a shard");
//!     let done = top.launch(&gang, &task, |s| {
//!         ShardLaunch::new((block(s), total)).writes(block(s), [U])
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
//! Short programs are in `examples/`:
//!
//! | example | what it shows |
//! |---|---|
//! | `hello` | a gang, with an argument and a result for each shard |
//! | `sum` | a program like the one above |
//! | `ring` | slots between neighbours, guarded by edges |
//! | `heat` | ghost cells, arguments in a struct of one's own, a residual in each iteration |
//! | `jacobi2d` | a halo in two dimensions, and a residual that all shards know |
//! | `pipeline` | index launches, and tasks ordered by regions and futures |
//! | `barrier` | phase barriers, with and without a reduction |
//! | `power` | an iteration with two allreduces, and no wait between them |
//! | `histogram` | a parent that launches gangs and combines what they wrote |
//! | `vectors` | an allreduce of vectors of structs with an operator of one's own |
//! | `mapper` | a mapper of one's own |
//!
//! [`runtime::Shard`] is what a shard task can do, [`runtime::Top`] what the top-level task makes. Where the documentation
//! of a part says `maniple_runtime::X`, a program writes `maniple::runtime::X`; likewise `maniple_regions`,
//! `maniple_barriers`, `maniple_mapper`, `maniple_plugin` and `maniple_collectives`.
//!
//! What a program that can't go on says, and what to do then, is in [`guide::when_it_hangs`].
//!
//! The words are explained [below](#vocabulary), next to those of Legion and MPI.
//!
//! [`regions`]: what there is. [`barriers`]: when things may run. [`mapper`]: where and how. [`plugin`]: mappers in shared
//! libraries. [`runtime`]: who runs it. [`collectives`]: schedules as data, and the engine that runs them.
//!
//! # Vocabulary
//!
//! | word | what it is | in Legion | in MPI, roughly |
//! |---|---|---|---|
//! | top-level task | makes trees, gangs, barriers and collectives, and launches gangs; every process runs it alike | top-level task, control-replicated | what all ranks do alike in `main` |
//! | gang | shards that are launched together ([`Gang`](runtime::Gang)) | index launch whose points run at the same time | communicator |
//! | shard task | one of a gang's long-lived `async` tasks; launches leaf tasks, touches no data ([`Shard`](runtime::Shard)) | point task of an SPMD launch, shard | rank |
//! | leaf task | an ordinary function on regions, launched by a shard ([`Leaf`](runtime::Leaf)) | leaf task | local computation between two calls |
//! | parent | a task that launches gangs and combines what they wrote ([`InnerTask`](runtime::InnerTask)) | inner task | root rank |
//! | region, tree, partition | a box of a tree's points; all points, with their fields; subregions by number ([`Region`](regions::Region), [`Partition`](regions::Partition)) | logical region, region tree, partition | distributed array, its decomposition |
//! | requirement | what a shard may do with which fields of a region ([`ShardLaunch::require`](runtime::ShardLaunch::require)), or a leaf task (by its parameter types) | region requirement: privilege and coherence | nothing; the nearest is an access epoch of a window |
//! | phase barrier | shards arrive, shards wait, each as often as the generations ([`PhaseBarrier`](runtime::PhaseBarrier)) | phase barrier | `MPI_Ibarrier`, but arriving and waiting are apart |
//! | edge | a ready and an empty barrier from one shard to another, and the values that travel along ([`Edges`](runtime::Edges)) | two phase barriers of one arriver each, round an exchange region | send and receive through a buffer of some messages |
//! | halo | the cells round a block that its neighbours send ([`halo`]) | ghost region | halo exchange |
//! | collective | a schedule of subtasks and barriers for all shards of a gang ([`Allreduce`](collectives::Allreduce)) | dynamic collective | `MPI_Iallreduce` |
//! | mapper | decides where shards, tasks and data go ([`Mapper`](mapper::Mapper)) | mapper | placement options of `mpirun`, tuning parameters |
//! | processor, worker | one thread with state of its own, which runs many shards | processor | process |
//! | node | processors that share an address space | node, address space | ranks of a shared-memory communicator |

/// What there is: index spaces, fields, logical regions, partitions, privileges, and accessors of leaf tasks.
pub mod regions {
    #[doc(inline)]
    pub use maniple_regions::{
        Coherence, Element, Field, FieldId, FieldInfo, Max, Min, Partition, Privilege, Product, Read, ReadShared,
        ReadWrite, ReadWriteShared, Rect, Reduce, Reduction, ReductionId, Region, RegionError, Sum, Write, WriteShared,
    };
}

/// The ends of barriers, each of which has its type: who arrives is not who waits, and ready is not empty.
pub mod barriers {
    #[doc(inline)]
    pub use maniple_barriers::{Arriver, BarrierError, Empty, Ready, Waiter};
}

/// Where things run and in what order: the [`Mapper`](mapper::Mapper), its calls, and the stock mappers.
pub mod mapper {
    #[doc(inline)]
    pub use maniple_mapper::{
        Access, AlgorithmInput, CollectiveMapper, DefaultMapper, ExchangeInput, ExchangeOutput, IllegalDecision,
        InstanceChoice, InstanceInput, LeafInput, LeafOutput, Machine, Mapper, MapperError, MapperSlot, MapperSpec,
        MemoryKind, PlaceShardsInput, PlaceSharedInput, Placement, Priority, ProfileInput, RequirementInput,
        Requirements, SliceInput, Slicing, SourceInput, SpecError,
    };
}

/// Mappers in shared libraries.
pub mod plugin {
    #[doc(inline)]
    pub use maniple_plugin::{PluginError, export_mapper, load};
}

/// Runs, tasks, launches, futures, and what goes wrong.
pub mod runtime {
    #[doc(inline)]
    pub use maniple_runtime::{
        Access, Arg, Arrivable, Binding, Check, Consumer, CostLevel, Costs, Driver, Edge, Edges, Error, Faults,
        FutureMap, Gang, Get, IndexLaunch, InnerTask, Input, Launch, Leaf, Link, Many, Param, Pause, PhaseArriver,
        PhaseBarrier, PhaseOptions, PhaseWaiter, Place, Portable, ProcessorLoss, Producer, Put, RegionView,
        Requirement, Resolver, Runtime, Shard, ShardLaunch, ShardTask, SlowLink, Stamp, Stats, TaskCost, TaskFuture,
        Top, TraceFile, VirtualMachine, Waitable, now,
    };
}

/// Collectives of a gang.
pub mod collectives {
    #[doc(inline)]
    pub use maniple_collectives::{Algorithm, Allreduce, CollectiveOptions, Number, Operator};
}

pub mod explore;
pub mod guide;
pub mod halo;
pub use explore::explore;

/// What most programs use.
pub mod prelude {
    #[doc(no_inline)]
    pub use crate::collectives::{Allreduce, Operator};
    #[doc(no_inline)]
    pub use crate::regions::{Field, Partition, Read, ReadWrite, Rect, Region, Write};
    #[doc(no_inline)]
    pub use crate::runtime::{
        Arg, Check, Edges, Error, Gang, Get, Input, Launch, Leaf, Many, PhaseBarrier, PhaseOptions, Put, RegionView,
        Requirement, Runtime, Shard, ShardLaunch, ShardTask, TaskFuture, Top,
    };
}
