//! Gangs and shard tasks as users hold them.

use crate::Error;
use crate::ids::{ObjectId, ProcessorId, Run};
use crate::message::Held;
use crate::object::{GangTable, Object};
use crate::processor::Core;
use maniple_regions::{Coherence, FieldId, Privilege, Region};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::sync::Arc;

/// A gang: a number of shards and where they run. Made by [`crate::Top::gang`]; plain data that may travel in arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gang {
    pub(crate) id: ObjectId,
    pub(crate) shards: u32,
    #[serde(skip)]
    pub(crate) run: Run,
}

impl Gang {
    /// The most shards that a gang may have. A table of them takes 12 bytes a shard on every node.
    pub const MAX_SHARDS: u32 = 1 << 24;

    /// Where its shards are; refuses one that this run did not make, as the gang of `what`.
    pub(crate) fn table(&self, core: &Core, what: &str) -> Result<Arc<GangTable>, Error> {
        core.effects().objects.with(self.id, |object| match object {
            Some(Object::Gang(table)) if table.shards() == self.shards && table.run.may_be(self.run) => {
                Ok(table.clone())
            }
            _ => {
                let came = format!("gang {} of {} shards, of another run or of none", self.id, self.shards);
                Err(Error::misuse(what, "a gang made with `Top::gang` in this run", came))
            }
        })
    }

    /// Number of shards.
    pub fn shards(&self) -> u32 {
        self.shards
    }
}

/// A shard task with argument `A` and result `R`. Made by [`crate::Top::register`]; plain data that may travel in arguments.
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
    /// Refuses a task that this run did not make.
    pub(crate) fn check(&self, core: &Core) -> Result<(), Error> {
        core.effects().objects.with(self.id, |object| match object {
            Some(Object::Task(task)) if task.run.may_be(self.run) => Ok(()),
            _ => {
                let came = format!("task {}, of another run or of none", self.id);
                Err(Error::misuse(
                    "a gang launch",
                    "a task made with `Top::register` or `Top::register_inner` in this run",
                    came,
                ))
            }
        })
    }
}
impl<A, R> std::fmt::Debug for ShardTask<A, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardTask({})", self.id)
    }
}

/// What one shard is started with: its argument and the regions it may use.
#[derive(Debug)]
pub struct ShardLaunch<A> {
    pub(crate) args: A,
    pub(crate) held: Vec<Held>,
}

impl<A> ShardLaunch<A> {
    /// A shard with argument `args` and no regions.
    pub fn new(args: A) -> Self {
        Self { args, held: Vec::new() }
    }

    /// The shard may use `fields` of `region` with at most this privilege and coherence. Its leaf tasks use what is held
    /// with exclusive or atomic coherence through slices, and what is held with simultaneous coherence through shared
    /// accessors; a [`crate::InnerTask`] may pass the former on to shards that share it.
    ///
    /// A region without points is legal, so that no shard need be left out where there are more shards than cells.
    ///
    /// Exclusive requirements of different shards must not interfere; all shards that name a region with simultaneous
    /// coherence share one instance of it, and what overlaps must be one and the same region. So a block's ghost cells are
    /// not cells of its neighbours but slots of their own, in a separate tree (`examples/heat.rs`).
    pub fn require<F: Into<FieldId>>(
        mut self,
        region: Region,
        fields: impl IntoIterator<Item = F>,
        privilege: Privilege,
        coherence: Coherence,
    ) -> Self {
        let fields = fields.into_iter().map(Into::into).collect();
        self.held.push(Held { region, fields, privilege, coherence, home: ProcessorId(0) });
        self
    }

    /// [`Self::require`] to read, with exclusive coherence: nobody writes meanwhile.
    pub fn reads<F: Into<FieldId>>(self, region: Region, fields: impl IntoIterator<Item = F>) -> Self {
        self.require(region, fields, Privilege::Read, Coherence::Exclusive)
    }

    /// [`Self::require`] to read and write, with exclusive coherence: nobody else uses the region meanwhile.
    pub fn writes<F: Into<FieldId>>(self, region: Region, fields: impl IntoIterator<Item = F>) -> Self {
        self.require(region, fields, Privilege::ReadWrite, Coherence::Exclusive)
    }

    /// [`Self::require`] with simultaneous coherence: other shards use the same instance. Tasks on it run in any order, even
    /// two tasks of the same shard that are launched one after the other, unless a barrier or a future orders them; [`Check::Races`](crate::Check) finds those that nothing
    /// orders.
    pub fn shares<F: Into<FieldId>>(
        self,
        region: Region,
        fields: impl IntoIterator<Item = F>,
        privilege: Privilege,
    ) -> Self {
        self.require(region, fields, privilege, Coherence::Simultaneous)
    }
}
