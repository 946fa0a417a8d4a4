//! The handle of an inner task.

use super::gang::{Gang, ShardLaunch, ShardTask};
use super::launcher::Launcher;
use super::region::RegionView;
use super::shard::Shard;
use crate::Error;
use crate::error::panic_message;
use crate::future::FutureMap;
use crate::message::HeldRegion;
use crate::parcel::Portable;
use maniple_regions::{FieldId, Privilege, Region};
use std::cell::Cell;
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

/// The handle of an inner task: a task that launches gangs, one after the other or side by side.
///
/// It may use their regions in between, with leaf tasks of its own; for these it dereferences to [`Shard`].
/// [`Top::register_inner`](crate::Top::register_inner) makes an inner task, and
/// [`Top::run_inner`](crate::Top::run_inner) runs it.
///
/// Data that a gang may have changed must be [mapped](Self::map) before the inner task's leaf tasks use it. The inner
/// task ends when its gangs do.
#[derive(Clone)]
pub struct InnerTask {
    shard: Shard,
    launcher: Rc<Launcher>,
    /// How many gangs it has launched.
    gangs: Rc<Cell<u64>>,
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
        launcher.failures = shard.inner.owner.failures().clone();
        launcher.node = Some(shard.node());
        launcher.planner.part_of = shard.part_of();
        launcher.planner.held = Some(shard.held().clone());
        for h in shard.held().iter() {
            for &field in &h.fields {
                let key = crate::ids::ColumnKey { tree: h.region.tree, field, rect: h.region.rect };
                launcher.planner.versions.borrow_mut().write(
                    &key,
                    h.region.rect,
                    h.shared_home().unwrap_or(core.effects().id),
                );
            }
        }
        let launcher = Rc::new(launcher);
        shard.becomes_parent(launcher.clone());
        Self { shard, launcher, gangs: Rc::default() }
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
        self.launcher.ended();
        // Gangs are on the shard's list of failures, too.
        result
    }

    /// Launches every shard of a gang, as [`Top::launch_gang`](crate::Top::launch_gang) does. Local: only this inner task makes
    /// the call. Waits for the leaf tasks of this inner task and for nothing else.
    ///
    /// Data that the gang may write must be [mapped](Self::map) before this inner task uses it again. Data that the
    /// gang may read must be mapped before this inner task writes it again.
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
        self.shard.no_leaves().await;
        let pass_on = |held: &[Arc<[HeldRegion]>]| {
            self.gangs.set(self.gangs.get() + 1);
            self.shard.pass_on(held);
        };
        self.launcher.launch(gang, task, start, &pass_on)
    }

    /// Maps fields of a region that this inner task holds, or of a part of one: it brings the valid data to its leaf
    /// tasks. Returns the view of the region. Legion calls this an inline mapping. Local; may wait.
    ///
    /// It waits for the gangs that write the data, and for this inner task's own leaf tasks. After that the leaf tasks
    /// may use the data, until a gang that interferes is launched.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a region or a privilege that this inner task does not hold. Also if another branch of the
    /// task launched a gang before the mapping was over: map again.
    pub async fn map<F: Into<FieldId>>(
        &self,
        region: Region,
        fields: impl IntoIterator<Item = F>,
        privilege: Privilege,
    ) -> Result<RegionView, Error> {
        let local = self.shard.region(region)?;
        let fields: Vec<FieldId> = fields.into_iter().map(Into::into).collect();
        let mut parts = Vec::with_capacity(fields.len());
        for &field in &fields {
            parts.extend(self.shard.givers(region, field, privilege)?.into_iter().map(|own| (field, own)));
        }
        self.shard.no_leaves().await;
        let gangs = self.gangs.get();
        self.launcher.map(region, &parts, privilege).await?;
        // The inner task may have gone on meanwhile, in another branch.
        self.shard.no_leaves().await;
        if self.gangs.get() != gangs {
            let what = format!("InnerTask::map of {region} in {}", self.place());
            return Err(Error::misuse(
                what,
                "no launch of a gang before it has ended",
                "a gang launched meanwhile; map again",
            ));
        }
        fields.iter().try_for_each(|&field| self.shard.take_back(region, field, privilege))?;
        Ok(local)
    }
}
