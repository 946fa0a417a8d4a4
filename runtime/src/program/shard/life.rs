//! The start and the end of a shard.

use super::{Shard, ShardInner};
use crate::diagnose::Event;
use crate::diagnose::deadlock::Node;
use crate::diagnose::races::Actor;
use crate::effects::{Resident, ShardFuture};
use crate::error::{Failure, panic_message};
use crate::parcel::Parcel;
use crate::processor::{Core, Seat};
use crate::{Error, Place};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

impl Resident for ShardInner {
    fn place(&self) -> Place {
        self.place()
    }
    fn node(&self) -> Option<Node> {
        Some(self.node())
    }
    fn actor(&self) -> Option<Actor> {
        Some(self.actor())
    }
    fn over(self: Rc<Self>, panic: Option<String>) {
        if let Some(message) = panic {
            let error = Error::Panicked { place: self.place(), message };
            Shard { inner: self }.end_later(Err(error));
        }
    }
}

/// Ends a shard that has failed or has leaf tasks left. If it has failed, those who wait for it learn of it at once.
/// The launch learns of it when the shard's leaf tasks have ended.
async fn end_when_leaves_are(shard: Shard, result: Result<Parcel, Error>) {
    let result = result.map_err(|error| shard.abandon(error));
    let untold = shard.leaves_over().await;
    let result = match (result, untold) {
        (Ok(_), Some(failure)) => {
            shard.spread(&failure);
            Err(failure)
        }
        (result, _) => result,
    };
    if let Err(e) = &result {
        // Now its calls have ended too.
        let (gang, error) = (&shard.inner.origin.gang, e.poison().poisons(shard.place()));
        shard.core().give_up_calls(gang, shard.inner.index, shard.part_of(), &error);
    }
    shard.over(result);
}

impl Shard {
    /// Starts a shard: `code` decodes the argument and calls the task function.
    pub(crate) fn start(
        core: &Rc<Core>,
        seat: Seat<'_>,
        code: impl FnOnce(Shard, Parcel) -> Result<ShardFuture, Error>,
    ) {
        let Seat { origin, shard, args, held, refused } = seat;
        let shard = Shard::new(core, origin, shard, held);
        core.effects().event(|| Event::ShardStarted { shard: shard.actor(), within: &origin.within });
        let begun = shard.clone();
        // Decoding the argument is the program's code, and so is the body of a task function that is not `async`.
        let started = catch_unwind(AssertUnwindSafe(move || match refused {
            Some(e) => Err(e.clone()),
            None => code(begun, args),
        }));
        let panicked = |panic| Err(Error::Panicked { place: shard.place(), message: panic_message(panic) });
        match started.unwrap_or_else(panicked) {
            Ok(future) => core.effects().spawn(shard.inner, future),
            Err(e) => shard.end_later(Err(e)),
        }
    }

    /// The shard's own code has ended.
    pub(crate) fn end(&self, result: Result<Parcel, Error>) {
        match result {
            Ok(value) if self.is_over_well() => self.over(Ok(value)),
            result => self.clone().end_later(result.map_err(|e| e.returned_by(|| self.place()))),
        }
    }

    fn end_later(self, result: Result<Parcel, Error>) {
        let core = self.core().clone();
        core.effects().spawn(self.inner.clone(), Box::pin(end_when_leaves_are(self, result)));
    }

    /// The shard and its leaf tasks have ended.
    fn over(&self, result: Result<Parcel, Failure>) {
        let valid = self.take_valid();
        self.give_up_columns();
        self.core().effects().event(|| Event::ShardEnded { shard: self.actor() });
        self.core().end_shard(self.launch_key(), self.index(), result, valid);
    }

    /// Tells everybody who waits for the shard that it fails with an error.
    pub(crate) fn abandon(&self, error: Error) -> Failure {
        let own = || self.inner.owner.failures().own(|| self.core().effects().next_failure());
        let failure = Failure::new(error, || self.place(), own);
        self.spread(&failure);
        failure
    }

    /// Tells everybody who waits for the shard that it has failed.
    fn spread(&self, failure: &Failure) {
        self.core().gangs.note_failed(self.launch_key(), failure.error());
        let error = failure.poison().poisons(self.place());
        self.core().effects().event(|| Event::ShardFailed { shard: self.actor() });
        self.core().abandon(&self.inner.origin.gang, self.inner.index, self.part_of(), &error);
        self.core().tasks.fail_waiting(&self.inner.owner, &error);
    }
}
