//! The handle of a running shard: its place in the gang, and its calls of replayed objects.
//!
//! | module | contents |
//! |---|---|
//! | `regions` | the regions that it holds |
//! | `trees` | region trees that it makes for itself |
//! | `launches` | its launches of leaf tasks |
//! | `waits` | its waits and arrivals |
//! | `messages` | what it sends and receives itself |
//! | `life` | its start and its end |

mod launches;
mod life;
mod messages;
mod regions;
mod trees;
mod waits;

pub(crate) use regions::LocalRegion;

use crate::diagnose::deadlock::Node;
use crate::diagnose::races::Actor;
use crate::ids::{Ancestors, LaunchKey, NOBODY, ObjectId, ProcessorId, TopLaunch, top_launch};
use crate::message::HeldRegion;
use crate::object::GangTable;
use crate::processor::{Core, Origin};
use crate::program::launcher::Launcher;
use crate::replay::{Caller, Handle, Refused, Replay, ReplayCx};
use crate::task::Owner;
use crate::{Error, Place};
use maniple_regions::{Coherence, Privilege, Rect, Region, TreeId};
use smallvec::SmallVec;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// Number of the flow of the top-level task, which is no shard.
const FLOW: u32 = u32::MAX;

pub(crate) struct ShardInner {
    core: Rc<Core>,
    pub(crate) origin: Rc<Origin>,
    index: u32,
    /// Among the gang's shards on this processor.
    position: u32,
    held: Arc<[HeldRegion]>,
    regions: regions::Regions,
    pub(crate) owner: Rc<Owner>,
    /// For an inner task, and for the flow of the top-level task: what it launches, and where the valid data is.
    parent: OnceCell<Rc<Launcher>>,
}

impl ShardInner {
    fn node(&self) -> Node {
        Node::Shard { gang: self.origin.gang.id, shard: self.index, launch: Some(self.origin.launch) }
    }

    fn actor(&self) -> Actor {
        (self.origin.launch, self.index)
    }

    fn place(&self) -> Place {
        Place { task: self.origin.task.to_string(), shard: (self.index != FLOW).then_some(self.index) }
    }
}

/// The handle of a running shard: a shard task gets it as its first parameter.
///
/// | what you want to do | method |
/// |---|---|
/// | find out which shard this is | [`index`](Self::index), [`shards`](Self::shards) |
/// | use a region that the shard holds | [`region`](Self::region) |
/// | have data of its own | [`region_tree`](Self::region_tree) |
/// | launch leaf tasks | [`launch`](Self::launch), [`index_launch`](Self::index_launch), [`fill`](Self::fill), [`copy`](Self::copy) |
/// | wait at a barrier | [`wait`](Self::wait), [`wait_value`](Self::wait_value) |
/// | send values to another shard, and receive some | [`send`](Self::send), [`receive`](Self::receive) |
/// | arrive at a barrier | [`arrive`](Self::arrive), [`arrive_with`](Self::arrive_with) |
/// | wait for a limited time | [`timeout`](Self::timeout) |
/// | keep a loop from running too far ahead | [`window`](Self::window) |
///
/// A shard touches no data itself. Uses of the same data by its leaf tasks take effect in program order, with one
/// exception: simultaneous uses are not ordered, not even within one shard. Barriers and futures order those.
///
/// A shard ends when its own code, its leaf tasks and its calls of collectives have ended. If a leaf task or a call
/// fails and none of the shard's own awaits returns the failure, the shard fails with it.
///
/// A `Shard` belongs to one processor and is not `Send`. Clones stand for the same shard.
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
    pub(crate) fn new(core: &Rc<Core>, origin: &Rc<Origin>, index: u32, held: Arc<[HeldRegion]>) -> Self {
        let inner = ShardInner {
            core: core.clone(),
            origin: origin.clone(),
            index,
            position: origin.gang.at[index as usize].1,
            held,
            regions: regions::Regions::default(),
            owner: Rc::default(),
            parent: OnceCell::new(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// What stands for the top-level task where a shard launches leaf tasks.
    pub(crate) fn of_flow(launcher: &Rc<Launcher>, owner: Rc<Owner>) -> Self {
        let (core, task) = (launcher.core.clone(), launcher.planner.name.clone());
        let gang = Arc::new(GangTable::new(
            ObjectId::MAX,
            "flow",
            &[core.effects().id],
            core.effects().machine().processors(),
        ));
        let all = HeldRegion {
            region: Region { tree: TreeId(ObjectId::MAX), rect: Rect::line(0, 0) },
            fields: SmallVec::new(),
            privilege: Privilege::ReadWrite,
            coherence: Coherence::Exclusive,
            home: core.effects().id,
        };
        let flow = ShardInner {
            core,
            origin: Rc::new(Origin { task, gang, launch: NOBODY, within: Ancestors::default() }),
            index: FLOW,
            position: 0,
            held: Arc::new([all]),
            regions: regions::Regions::default(),
            owner,
            parent: OnceCell::new(),
        };
        let flow = Self { inner: Rc::new(flow) };
        flow.becomes_parent(launcher.clone());
        flow
    }

    /// Lets the shard launch gangs.
    pub(crate) fn becomes_parent(&self, launcher: Rc<Launcher>) {
        self.inner.parent.get_or_init(|| launcher);
    }

    /// Its launcher, if it is the flow of the top-level task.
    pub(crate) fn flow(&self) -> Option<&Rc<Launcher>> {
        self.inner.parent.get().filter(|launcher| launcher.planner.replicated)
    }

    /// Its launcher, if it is an inner task.
    #[inline]
    pub(crate) fn inner_launcher(&self) -> Option<&Rc<Launcher>> {
        self.inner.parent.get().filter(|launcher| !launcher.planner.replicated)
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.inner.core
    }

    pub(crate) fn launch_key(&self) -> LaunchKey {
        self.inner.origin.launch
    }

    /// The launch of the top-level task that it is part of.
    pub(crate) fn part_of(&self) -> TopLaunch {
        top_launch(&self.inner.origin.within)
    }

    pub(crate) fn in_gang(&self, gang: &Arc<GangTable>) -> bool {
        Arc::ptr_eq(&self.inner.origin.gang, gang)
    }

    pub(crate) fn gang_name(&self) -> String {
        format!("gang `{}`", self.inner.origin.gang.name)
    }

    pub(crate) fn held(&self) -> &Arc<[HeldRegion]> {
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

    /// Its identity in the check for races.
    pub(crate) fn actor(&self) -> Actor {
        self.inner.actor()
    }

    pub(crate) fn place(&self) -> Place {
        self.inner.place()
    }

    /// Makes a call of a replayed object, for the crate that defines it. Local; never waits.
    ///
    /// `f` gets the object's state on this processor, this shard's position among the processor's shards, and the
    /// number of the call, from 0. The shard has not ended before [`ReplayCx::resolve`] says that the call is.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the object is of another kind, of another gang or of another run, or when calls of another launch are
    /// under way.
    #[doc(hidden)]
    #[inline]
    pub fn replay<R: Replay, T>(
        &self,
        object: Handle,
        admit: impl FnOnce(&mut R, u32) -> Result<Option<T>, Error>,
        f: impl FnOnce(&mut R, (u32, u64), &mut ReplayCx<'_>) -> T,
    ) -> Result<T, Error> {
        let (core, effects) = (self.core(), self.core().effects());
        let ShardInner { index, position, owner, origin, .. } = &*self.inner;
        let (shard, position) = (*index, *position);
        let caller =
            Caller { gang: &origin.gang, shard, position, launch: origin.launch, within: &origin.within, owner };
        let made = core.replays.call(&core.tasks, object, caller, |why| self.refused(object, why), admit, f);
        // The shard's own code may now take its time.
        effects.send_what_is_late();
        // Boxed up to here, so that a call that is made moves less.
        match made {
            Ok(made) => Ok(made),
            Err(refused) => unboxed(refused),
        }
    }

    /// The error of a call of a replayed object that is refused.
    #[cold]
    fn refused(&self, object: Handle, why: Refused) -> Box<Error> {
        let effects = self.core().effects();
        if !effects.config.run.may_be(object.run) {
            let (what, expected) = (format!("a call in {}", self.place()), "a collective made in this run");
            return Box::new(Error::misuse(what, expected, "one of another run"));
        }
        if let Err(destroyed) =
            effects.objects.check(object.id, self.part_of(), || format!("a call in {}", self.place()))
        {
            return Box::new(destroyed);
        }
        let name = effects.objects.name(object.id);
        Box::new(match why {
            Refused::OtherKind => {
                Error::misuse(format!("a call in {}", self.place()), "an object made for this shard's gang", name)
            }
            Refused::OtherLaunch => Error::misuse(
                format!("a call of {name} in {}", self.place()),
                "only one launch at a time to use it",
                "a call while calls of another launch are under way; await the earlier launch first",
            ),
        })
    }
}

/// Apart: where it is inlined, the compiler copies the result of every call in wider pieces than it was stored in, and such a
/// load waits for the stores.
#[cold]
#[inline(never)]
#[expect(clippy::boxed_local, reason = "to take it out of its box is all that this does")]
fn unboxed<T>(error: Box<Error>) -> Result<T, Error> {
    Err(*error)
}
