//! The handle of an inner task.

use super::gang::{Gang, ShardLaunch, ShardTask};
use super::launcher::Launcher;
use super::shard::Shard;
use crate::Error;
use crate::data::UseAt;
use crate::effects::{Waiting, is_private};
use crate::error::panic_message;
use crate::future::FutureMap;
use crate::gang::{PlacedUse, TaskDoes};
use crate::ids::{ColumnKey, LaunchKey, ObjectId, ProcessorId, TaskId};
use crate::message::{Batch, ColumnUse, Does, HeldRegion, LaunchPart, Move, Reply};
use crate::parcel::Portable;
use crate::task::Body;
use maniple_mapper::Priority;
use maniple_regions::Coherence;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// The output of a future, or the text of its panic.
async fn unwound<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = Box::pin(future);
    let caught = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic_message(panic))),
    });
    let result = caught.await;
    // Dropping it may panic too; the first panic counts.
    match catch_unwind(AssertUnwindSafe(|| drop(future))) {
        Err(panic) => result.and(Err(panic_message(panic))),
        Ok(()) => result,
    }
}

/// The handle of an inner task: a task that launches gangs, one after the other or side by side, and leaf tasks of its own. For
/// leaf tasks it dereferences to [`Shard`]. [`Top::register_inner`](crate::Top::register_inner) makes an inner task, and
/// [`Top::run_inner`](crate::Top::run_inner) runs it.
///
/// Gangs and leaf tasks take effect in the order in which they are launched, as far as they use the same data and one of them
/// writes it. Their results need not be awaited for that. There are two exceptions:
///
/// - Uses under simultaneous coherence are not ordered. Await what has to come first.
/// - Before the inner task uses data again that another inner task writes, it must await that task. Until it has, a launch that
///   uses the data is [`Error::Misuse`], unless both share it.
///
/// If a leaf task fails, gangs that use the data that it should have written fail, too, until something writes that data. This also
/// holds for gangs that others launch later. The inner task ends when its gangs do.
///
/// ```
/// # use maniple_runtime::*; use maniple_regions::*;
/// const X: Field<f64> = Field::new(0, "x");
/// type Given = (Gang, ShardTask<Region, ()>, Vec<Region>, Region);
/// async fn sum(inner: InnerTask, (gang, fill, blocks, all): Given) -> Result<f64, Error> {
///     let start = |s: u32| ShardLaunch::new(blocks[s as usize]).writes(blocks[s as usize], [X]);
///     inner.launch_gang(&gang, &fill, start).await?.detach();
///     // It follows the gang, and gets the blocks that the shards have written.
///     inner.launch(|x: Read<f64>| x.as_slice().iter().sum::<f64>(), (inner.region(all)?.read(X),)).go()?.await
/// }
/// ```
#[derive(Clone)]
pub struct InnerTask {
    shard: Shard,
    launcher: Rc<Launcher>,
}

impl Deref for InnerTask {
    type Target = Shard;
    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl InnerTask {
    /// The inner task that runs as this shard.
    pub(super) fn new(shard: Shard) -> Self {
        let core = shard.core().clone();
        let mut launcher =
            Launcher::new(&core, shard.task(), core.gangs.next_parent(core.effects().machine().processors()), false);
        launcher.within = shard.inner.origin.within.clone();
        // Its leaf tasks use the same instances as its gangs.
        shard.inner.owner.shares(core.tasks.data.poisons());
        launcher.failures = shard.inner.owner.failures().clone();
        launcher.node = Some(shard.node());
        launcher.planner.part_of = shard.part_of();
        launcher.planner.held = Some(shard.held().clone());
        for h in shard.held().iter() {
            for &field in &h.fields {
                let at = h.shared_home().unwrap_or(core.effects().id);
                launcher.planner.versions.borrow_mut().write(&h.key(field), h.region.rect, at);
            }
        }
        let launcher = Rc::new(launcher);
        shard.becomes_parent(launcher.clone());
        shard.open_scope(launcher.number);
        Self { shard, launcher }
    }

    /// Runs the inner task's own code, and waits for its gangs.
    pub(super) async fn run<R>(self, code: impl Future<Output = Result<R, Error>>) -> Result<R, Error> {
        // An inner task that panics ends after its gangs too.
        let result = unwound(code).await.unwrap_or_else(|message| {
            let error = Error::Panicked { place: self.place(), message };
            // Its gangs may wait for something that it will not do.
            self.shard.abandon(error.clone());
            Err(error)
        });
        self.launcher.settle().await;
        // Gangs are on the shard's list of failures, too.
        result
    }

    /// Launches every shard of a gang, as [`Top::launch_gang`](crate::Top::launch_gang) does. Nothing is launched before the call is
    /// awaited, and it gives the futures of the shards. Local: only this inner task makes the call. It waits only if the inner task
    /// holds a region under simultaneous coherence, and then for the inner task's leaf tasks.
    ///
    /// # Errors
    /// The errors of [`Top::launch_gang`](crate::Top::launch_gang), and [`Error::Misuse`] for a region that this inner task does not
    /// hold.
    pub async fn launch_gang<A: Portable, R: Portable>(
        &self,
        gang: &Gang,
        task: &ShardTask<A, R>,
        start: impl Fn(u32) -> ShardLaunch<A>,
    ) -> Result<FutureMap<R>, Error> {
        if self.shard.held().iter().any(|h| h.shared_home().is_some()) {
            self.shard.no_leaves().await;
        }
        self.launcher.launch(gang, task, start)
    }
}

impl Launcher {
    /// Checks that a leaf task of an inner task uses no data of other inner tasks that have not been awaited.
    ///
    /// # Errors
    /// [`Error::Misuse`] if it does.
    pub(super) fn check_leaf(&self, body: &Body) -> Result<(), Error> {
        let of = |u: &UseAt| (ColumnKey { rect: u.column.rect(), ..u.column.key() }, u.coherence);
        self.check_awaited(|| format!("`{}`", body.name), body.uses.iter().map(of))
    }

    /// Brings data to a leaf task of an inner task, where gangs have had it. Returns for how many homecomings it waits.
    ///
    /// # Errors
    /// An illegal answer of the mapper.
    #[cold]
    pub(super) fn plan_leaf(
        &self,
        shard: &Shard,
        body: &Body,
        (id, priority): (TaskId, Priority),
    ) -> Result<u32, Error> {
        self.core.gangs.before_leaf(&self.core.tasks);
        if self.launches.get() == 0 {
            return Ok(0);
        }
        let (effects, held) = (self.core.effects(), shard.held());
        self.check_leaf(body)?;
        let place = |u: &UseAt| {
            // Gangs have never had a private tree.
            let h = held.get(u.column.held as usize)?;
            // What it holds only to read stays as it is.
            let at = h.shared_home().or(h.privilege.writes().then_some(effects.id))?;
            let key = ColumnKey { rect: u.column.rect(), ..u.column.key() };
            let does = TaskDoes::with(u.privilege);
            (!key.rect.is_empty()).then(|| PlacedUse { key, into: u.column.key().rect, at, does })
        };
        let uses: SmallVec<[PlacedUse; 4]> = body.uses.iter().filter_map(place).collect();
        let moves = self.planner.plan_uses(effects, &uses, priority)?;
        if !moves.is_empty() {
            let launch = self.number_launch();
            (0u32..).zip(&moves).for_each(|(number, moved)| self.take_part(launch, number, moved.clone()));
            self.take_home(launch, &moves, held);
        }
        let taken_home = self.taken_home.borrow();
        let home = |u: &UseAt| taken_home.get(&u.column.key());
        if effects.races().is_some() {
            let ordered = |u: &UseAt| u.coherence != Coherence::Simultaneous && !is_private(u.column.region.tree);
            let follows = body.uses.iter().any(|u| ordered(u) || home(u).is_some());
            let mut followers = self.followers.borrow_mut();
            followers.remove(&id);
            followers.extend(follows.then_some(id));
        }
        Ok(body.uses.iter().filter_map(home).map(|home| u32::from(home.wait(Waiting::Task(id)))).sum())
    }

    /// Whether a leaf task of the inner task, which is planned, comes after the launches before it. The check for races asks once.
    pub(super) fn take_follower(&self, id: TaskId) -> bool {
        self.followers.borrow_mut().remove(&id)
    }

    /// Learns when data has come back to the homes of regions that the inner task shares.
    fn take_home(&self, launch: LaunchKey, moves: &[Arc<Move>], held: &[HeldRegion]) {
        let mut homes: BTreeMap<ProcessorId, Vec<ColumnUse>> = BTreeMap::new();
        for (to, transfer) in moves.iter().flat_map(|m| m.transfers.iter().map(|t| (m.to, t))) {
            let column = transfer.target();
            let is_home = |h: &HeldRegion| h.shared_home() == Some(to) && h.region == column.region(column.rect);
            let uses = homes.entry(to).or_default();
            if held.iter().any(is_home) && uses.iter().all(|u| u.column != column) {
                uses.push(ColumnUse { column, does: Does::Reads });
            }
        }
        homes.retain(|_, uses| !uses.is_empty());
        if homes.is_empty() {
            return;
        }
        let (core, effects) = (&self.core, self.core.effects());
        let done = self.await_results(launch, (homes.len(), 0), Box::new(|_, _, _, _| {}));
        let columns = homes.values().flatten().map(|u| (u.column, done.clone()));
        self.taken_home.borrow_mut().extend(columns);
        for (at, uses) in homes {
            let reply = Reply::Processor(effects.id);
            let batch =
                Some(Batch { task: ObjectId::MAX, gang: ObjectId::MAX, shards: Vec::new(), hold: false, reply });
            let part = self.planner.part(effects, (launch, &self.within), at);
            core.gangs.send_part(&core.tasks, at, LaunchPart { batch, uses: Some(uses.into()), ..part });
        }
    }
}
