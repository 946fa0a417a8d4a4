//! Handles of gangs and of shard tasks, and the launch of one shard.

use crate::Error;
use crate::diagnose::deadlock::ReportPart;
use crate::diagnose::replicas::list;
use crate::ids::{ObjectId, ProcessorId, Run, TopLaunch};
use crate::message::HeldRegion;
use crate::object::{Defined, GangTable, Object, TaskSpec};
use crate::processor::Core;
use maniple_regions::{Coherence, FieldId, Privilege, Region};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::sync::Arc;

/// A gang: shards that are launched together, and their processors. [`Top::gang`](crate::Top::gang) makes one. It is
/// plain data and may travel in arguments of shard tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gang {
    pub(crate) id: ObjectId,
    pub(crate) shards: u32,
    #[serde(skip)]
    pub(crate) run: Run,
}

impl Gang {
    /// The most shards that a gang may have: 2²⁴. Their table takes 12 bytes a shard on every node.
    pub const MAX_SHARDS: u32 = 1 << 24;

    /// The table of its shards. Refuses a gang that this run did not make, or that was destroyed before the launch `by` of
    /// the top-level task; `what` is the call, for the error.
    pub(crate) fn table(&self, core: &Core, by: TopLaunch, what: &str) -> Result<Arc<GangTable>, Error> {
        core.effects().objects.check(self.id, by, || what.into())?;
        core.effects().objects.with(self.id, |object| match object.and_then(Object::table) {
            Some(table) if table.shards() == self.shards && table.run.may_be(self.run) => Ok(table.clone()),
            _ => {
                let came = format!("gang {} of {} shards, which this run did not make", self.id, self.shards);
                Err(Error::misuse(what, "a gang made with `Top::gang` in this run", came))
            }
        })
    }

    /// Number of shards, at least 1.
    pub fn shards(&self) -> u32 {
        self.shards
    }
}

/// A registered shard task or inner task with argument `A` and result `R`. [`Top::register`](crate::Top::register) and
/// [`Top::register_inner`](crate::Top::register_inner) make one. It is plain data and may travel in arguments.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ShardTask<A, R> {
    pub(crate) id: ObjectId,
    #[serde(skip)]
    pub(crate) run: Run,
    #[serde(skip)]
    pub(crate) types: PhantomData<fn(A) -> R>,
}

impl<A, R> Clone for ShardTask<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A, R> Copy for ShardTask<A, R> {}
impl<A, R> ShardTask<A, R> {
    /// Whether it is an inner task. Refuses a task that this run did not make, or that was destroyed before the launch `by`
    /// of the top-level task.
    pub(crate) fn is_inner(&self, core: &Core, by: TopLaunch) -> Result<bool, Error> {
        let what = "a gang launch";
        core.effects().objects.check(self.id, by, || what.into())?;
        core.effects().objects.with(self.id, |object| match object.and_then(Object::task) {
            Some(task) if task.run.may_be(self.run) => Ok(task.inner),
            _ => {
                let came = format!("task {}, which this run did not make", self.id);
                Err(Error::misuse(what, "a task made with `Top::register` or `Top::register_inner` in this run", came))
            }
        })
    }
}
impl<A, R> std::fmt::Debug for ShardTask<A, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardTask({})", self.id)
    }
}

/// The launch of one shard: its argument, and its requirements on regions.
///
/// The closure of [`Top::launch_gang`](crate::Top::launch_gang) gives one for each shard of the gang:
///
/// ```
/// # use maniple_regions::{Field, Partition, Read, Rect, Region};
/// # use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
/// # const U: Field<f64> = Field::new(0, "u");
/// async fn cells(shard: Shard, block: Region) -> Result<usize, Error> {
///     let block = shard.region(block)?;
///     shard.launch(|u: Read<f64>| u.as_slice().len(), (block.read(U),)).go()?.await
/// }
///
/// # let (lengths, _) = Runtime::threads(2).run(|top| async move {
/// // Two cells for three shards: the last shard has a region without points.
/// let line = top.region_tree("line", Rect::line(0, 2), &[U.info()])?;
/// let blocks: Vec<Region> = Partition::equal(line, 3)?.iter().collect();
/// let (gang, task) = (top.gang("all", 3)?, top.register("cells", cells));
/// let block = |s: u32| blocks[s as usize];
/// let done = top.launch_gang(&gang, &task, |s| ShardLaunch::new(block(s)).reads(block(s), [U]))?;
/// # done.all().await
/// # })?;
/// assert_eq!(lengths, [1, 1, 0]);
/// # Ok::<(), Error>(())
/// ```
pub struct ShardLaunch<A> {
    pub(crate) argument: Argument<A>,
    pub(crate) held: Vec<HeldRegion>,
}

/// A shard's argument, or how to make it.
pub(crate) enum Argument<A> {
    Made(A),
    Later(Box<dyn FnOnce() -> A>),
}

impl<A> Argument<A> {
    pub fn make(self) -> A {
        match self {
            Argument::Made(args) => args,
            Argument::Later(make) => make(),
        }
    }
}

impl<A> std::fmt::Debug for ShardLaunch<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardLaunch").field("held", &self.held).finish_non_exhaustive()
    }
}

impl<A> ShardLaunch<A> {
    /// The launch of a shard with argument `args` and no regions.
    ///
    /// Where several nodes run the top-level task, all make the arguments of all shards, and must make equal ones. They are
    /// compared on several processes, and elsewhere in debug builds or with
    /// [`Check::ControlReplication`](crate::Check::ControlReplication): [`Error::Divergence`] names the launch and
    /// the shard. Two `HashMap`s or `HashSet`s are equal in any order.
    pub fn new(args: A) -> Self {
        Self { argument: Argument::Made(args), held: Vec::new() }
    }

    /// The same with an argument that is made only on the node where the shard runs, and compared with no other. `make` is called
    /// during the launch.
    ///
    /// Where each process runs the top-level task for itself, [`new`](Self::new) has all of them make the arguments of all
    /// shards. That is too much if an argument is large, such as a part of a file.
    ///
    /// ```
    /// # use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
    /// async fn mean(_: Shard, part: Vec<f64>) -> Result<f64, Error> {
    ///     Ok(part.iter().sum::<f64>() / part.len() as f64)
    /// }
    ///
    /// # let (means, _) = Runtime::threads(2).run(|top| async move {
    /// let (gang, task) = (top.gang("all", 3)?, top.register("mean", mean));
    /// let part = |s: u32| (0..1000).map(|i| f64::from(s * 1000 + i)).collect();
    /// let done = top.launch_gang(&gang, &task, |s| ShardLaunch::from_fn(move || part(s)))?;
    /// # done.all().await
    /// # })?;
    /// assert_eq!(means, [499.5, 1499.5, 2499.5]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_fn(make: impl FnOnce() -> A + 'static) -> Self {
        Self { argument: Argument::Later(Box::new(make)), held: Vec::new() }
    }

    /// Lets the shard use `fields` of `region`, with this privilege and coherence or less.
    ///
    /// Leaf tasks of the shard use data held with exclusive or atomic coherence through slices. They use data held with
    /// simultaneous coherence through shared accessors. An [`InnerTask`](crate::InnerTask) may pass a region that it
    /// holds with exclusive or atomic coherence on to shards that share it.
    ///
    /// A region without points is legal. So every shard can have a block, even where there are more shards than cells.
    ///
    /// Exclusive requirements of different shards must not interfere. Shards that name a region with simultaneous
    /// coherence share one instance of it. Two simultaneous requirements that overlap must name the very same region.
    /// So a shard can't require cells that a neighbour writes. It gets copies of these ghost cells over
    /// [`Edges`](crate::Edges); `maniple::halo` does this for grids. The launch refuses requirements that break these
    /// rules with [`Error::Interference`].
    pub fn require<F: Into<FieldId>>(
        mut self,
        region: Region,
        fields: impl IntoIterator<Item = F>,
        privilege: Privilege,
        coherence: Coherence,
    ) -> Self {
        let fields = fields.into_iter().map(Into::into).collect();
        self.held.push(HeldRegion { region, fields, privilege, coherence, home: ProcessorId(0) });
        self
    }

    /// [`require`](Self::require) to read, with exclusive coherence: nobody writes to the region meanwhile.
    pub fn reads<F: Into<FieldId>>(self, region: Region, fields: impl IntoIterator<Item = F>) -> Self {
        self.require(region, fields, Privilege::Read, Coherence::Exclusive)
    }

    /// [`require`](Self::require) to read and write, with exclusive coherence: nobody else uses the region meanwhile.
    pub fn writes<F: Into<FieldId>>(self, region: Region, fields: impl IntoIterator<Item = F>) -> Self {
        self.require(region, fields, Privilege::ReadWrite, Coherence::Exclusive)
    }

    /// [`require`](Self::require) with simultaneous coherence: other shards use the same instance at the same time.
    ///
    /// The runtime does not order simultaneous uses, not even uses of two tasks that one shard launches one after the other.
    /// Order them with barriers or futures. [`Check::Races`](crate::Check::Races) finds pairs that nothing orders.
    pub fn shares<F: Into<FieldId>>(
        self,
        region: Region,
        fields: impl IntoIterator<Item = F>,
        privilege: Privilege,
    ) -> Self {
        self.require(region, fields, privilege, Coherence::Simultaneous)
    }
}

impl Defined for Arc<GangTable> {
    fn name(&self) -> &str {
        &self.name
    }
    fn parameters(&self) -> String {
        let placement: Vec<ProcessorId> = self.at.iter().map(|at| at.0).collect();
        format!("of {} shards on processors {}", self.shards(), list(&placement))
    }
    fn free(&self, id: ObjectId, core: &Core) {
        core.gangs.forget_gang(id);
    }
    fn report(&self, _id: ObjectId, _core: &Core, part: &mut ReportPart) {
        part.gangs.push(self.clone());
    }
}

impl Defined for TaskSpec {
    fn name(&self) -> &str {
        &self.name
    }
    fn parameters(&self) -> String {
        format!("of {} -> {}", self.types.0, self.types.1)
    }
}
