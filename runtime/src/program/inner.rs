//! A parent's view of the run.

use super::gang::{Gang, ShardLaunch, ShardTask};
use super::launcher::Launcher;
use super::region::RegionView;
use super::shard::Shard;
use crate::Error;
use crate::error::panic_message;
use crate::future::FutureMap;
use crate::message::Held;
use crate::parcel::Portable;
use maniple_regions::{FieldId, Privilege, Region};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// What a future gives, or the text of its panic.
async fn unwound<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = Box::pin(future);
    let caught = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic_message(panic))),
    });
    let result = caught.await;
    // What it holds may panic too when it is dropped; the first panic counts.
    match catch_unwind(AssertUnwindSafe(|| drop(future))) {
        Err(panic) => result.and(Err(panic_message(panic))),
        Ok(()) => result,
    }
}

/// A parent task's view of the run: it launches gangs, one after the other or side by side, and may look at their
/// regions in between. Dereferences to [`Shard`] for leaf tasks of its own.
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
    /// A parent that is this shard.
    pub(super) fn new(shard: Shard) -> Self {
        let core = shard.core().clone();
        let mut launcher =
            Launcher::new(&core, shard.task(), core.gangs.next_parent(core.effects().machine().processors()), false);
        launcher.within = shard.inner.origin.within.clone();
        launcher.node = Some(shard.node());
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
        shard.becomes_parent(launcher.planner.versions.clone());
        Self { shard, launcher: Rc::new(launcher), gangs: Rc::default() }
    }

    /// Runs the parent's own code, and waits for what it has launched.
    pub(super) async fn run<R>(self, code: impl Future<Output = Result<R, Error>>) -> Result<R, Error> {
        // A parent that panics is over after its gangs too.
        let result = unwound(code).await.unwrap_or_else(|message| {
            let error = Error::Panicked { place: self.place(), message };
            // Its gangs may wait for what it will not do.
            self.shard.abandon(&error);
            Err(error)
        });
        self.launcher.settle().await;
        self.launcher.ended();
        self.launcher.outcome(result)
    }

    /// Starts every shard of a gang, as [`Top::launch`](crate::Top::launch), but only this parent does so. Waits for the leaf tasks that this
    /// parent has launched, and then for nothing else.
    ///
    /// What the gang may write the parent must [`map`](Self::map) before it uses it again, and what the gang may read
    /// before it writes it again.
    ///
    /// # Errors
    /// As [`Top::launch`](crate::Top::launch); also a region this parent does not hold.
    pub async fn launch_gang<A: Portable, R: Portable>(
        &self,
        gang: &Gang,
        task: &ShardTask<A, R>,
        start: impl Fn(u32) -> ShardLaunch<A>,
    ) -> Result<FutureMap<R>, Error> {
        self.shard.no_leaves().await;
        let pass_on = |held: &[Arc<[Held]>]| {
            self.gangs.set(self.gangs.get() + 1);
            self.shard.pass_on(held);
        };
        self.launcher.launch(gang, task, start, &pass_on)
    }

    /// Brings the valid data of fields of a region, or of a part of one, to where this parent's leaf tasks use it, after
    /// the launches that write it, and gives the parent the use of it until it launches a gang that interferes (Legion
    /// calls this an inline mapping). Waits, for the parent's own leaf tasks too.
    ///
    /// # Errors
    /// A region or a privilege the parent does not hold; a gang that the parent launched before the mapping was over, in
    /// another branch: map again.
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
        // The parent may have gone on meanwhile, in another branch.
        self.shard.no_leaves().await;
        if self.gangs.get() != gangs {
            let what = format!("InnerTask::map of {region} in {}", self.place());
            return Err(Error::misuse(what, "no gang launched before it is over", "one launched meanwhile"));
        }
        fields.iter().try_for_each(|&field| self.shard.take_back(region, field, privilege))?;
        Ok(local)
    }
}
