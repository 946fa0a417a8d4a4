//! A shard's view of itself: its place in the gang, and its calls of replayed objects.
//!
//! `regions`: what it holds. `launches`: leaf tasks. `waits`: barriers. `life`: its start and its end.

mod launches;
mod life;
mod regions;
mod waits;

pub use launches::Copied;

use crate::diagnose::deadlock::Node;
use crate::diagnose::races::Actor;
use crate::future::TaskFuture;
use crate::gang::Versions;
use crate::ids::{LaunchKey, ObjectId, ProcessorId};
use crate::message::Held;
use crate::object::GangTable;
use crate::processor::{Core, Origin};
use crate::replay::{Caller, Refused, Replay, ReplayCx};
use crate::task::Owner;
use crate::{Error, Place};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

pub(crate) struct ShardInner {
    core: Rc<Core>,
    pub(crate) origin: Rc<Origin>,
    index: u32,
    held: Arc<[Held]>,
    regions: RefCell<Vec<regions::LocalRegion>>,
    pub(crate) owner: Rc<Owner>,
    /// Of a parent, what it knows to be valid where, and what the gangs that it launched leave to it.
    parent: OnceCell<Rc<RefCell<Versions>>>,
}

impl ShardInner {
    fn node(&self) -> Node {
        Node::Shard { gang: self.origin.gang.id, shard: self.index, launch: Some(self.origin.launch) }
    }

    fn actor(&self) -> Actor {
        (self.origin.launch, self.index)
    }

    fn place(&self) -> Place {
        Place { task: self.origin.task.to_string(), shard: Some(self.index) }
    }
}

/// A running shard task's view of itself: its place in the gang, its regions, and the launching of subtasks.
///
/// It belongs to one processor and is not `Send`. Clones are the same shard.
#[derive(Clone)]
pub struct Shard {
    pub(crate) inner: Rc<ShardInner>,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shard({} of {}, task `{}`)", self.index(), self.shards(), self.inner.origin.task)
    }
}

impl Shard {
    pub(crate) fn new(core: &Rc<Core>, origin: &Rc<Origin>, index: u32, held: Arc<[Held]>) -> Self {
        let inner = ShardInner {
            core: core.clone(),
            origin: origin.clone(),
            index,
            held,
            regions: RefCell::default(),
            owner: Rc::default(),
            parent: OnceCell::new(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// The shard may launch gangs; `versions` says what it knows to be valid where.
    pub(crate) fn becomes_parent(&self, versions: Rc<RefCell<Versions>>) {
        self.inner.parent.get_or_init(|| versions);
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.inner.core
    }

    pub(crate) fn launch_key(&self) -> LaunchKey {
        self.inner.origin.launch
    }

    pub(crate) fn in_gang(&self, gang: &Arc<GangTable>) -> bool {
        Arc::ptr_eq(&self.inner.origin.gang, gang)
    }

    pub(crate) fn gang_name(&self) -> String {
        format!("gang `{}`", self.inner.origin.gang.name)
    }

    pub(crate) fn held(&self) -> &Arc<[Held]> {
        &self.inner.held
    }

    /// Number of this shard in its gang, from 0. It is a plain `u32`, because programs compute with it.
    pub fn index(&self) -> u32 {
        self.inner.index
    }

    /// Number of shards of the gang.
    pub fn shards(&self) -> u32 {
        self.inner.origin.gang.shards()
    }

    /// The processor this shard runs on.
    pub fn processor(&self) -> ProcessorId {
        self.inner.core.effects().id
    }

    /// Name of the shard task.
    pub fn task(&self) -> &str {
        &self.inner.origin.task
    }

    pub(crate) fn node(&self) -> Node {
        self.inner.node()
    }

    /// Who it is for the check for races.
    pub(crate) fn actor(&self) -> Actor {
        self.inner.actor()
    }

    pub(crate) fn place(&self) -> Place {
        self.inner.place()
    }

    /// Makes a call of a replayed object, for the crate that made it: `f` gets the object's state on this processor,
    /// this shard's position among the processor's shards and the number of the call, from 0. The shard is not over before [`ReplayCx::resolve`] says that
    /// the call is.
    ///
    /// # Errors
    /// When the object is of another kind or of another gang, or calls of another launch are under way.
    #[inline]
    pub fn replay<R: Replay, T>(
        &self,
        object: ObjectId,
        f: impl FnOnce(&mut R, (u32, u64), &mut ReplayCx<'_>) -> T,
    ) -> Result<T, Error> {
        let (core, effects) = (self.core(), self.core().effects());
        let ShardInner { index, owner, origin, .. } = &*self.inner;
        let caller = Caller { gang: &origin.gang, shard: *index, launch: origin.launch, owner };
        let made = core.replays.call(&core.tasks, object, caller, |why| self.refused(object, why), f);
        // The shard's own code may now take its time.
        effects.send_what_is_late();
        made
    }

    /// Why a call of a replayed object is not made.
    #[cold]
    fn refused(&self, object: ObjectId, why: Refused) -> Error {
        let name = self.core().effects().objects.name(object);
        match why {
            Refused::OtherKind => {
                Error::misuse(format!("a call in {}", self.place()), "an object made for this shard's gang", name)
            }
            Refused::OtherLaunch => Error::misuse(
                format!("a call of {name} in {}", self.place()),
                "one launch at a time that uses it",
                "a call while calls of another launch are under way",
            ),
        }
    }

    /// Whether a bug is planted for a test and strikes now.
    #[cfg(feature = "plant")]
    pub fn planted(&self, bug: crate::plant::Bug) -> bool {
        self.core().effects().config.strikes(bug)
    }
}

impl TaskFuture<()> {
    /// Whether the task is over, for callers that only order things.
    pub fn is_done(&self) -> bool {
        self.is_settled()
    }
}
