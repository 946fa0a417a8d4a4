//! Calls whose blocks are values of their own: each is shown as soon as it has come.
//!
//! The chain goes through its subtasks in order, as in any call. But what a read finds may be taken before its turn, if no earlier
//! subtask uses the same part: then nothing is left to do at its turn but to give back. So a peer that is late holds up no other
//! peer's blocks.

use super::chains::{ChainState, Progress};
use super::subtasks::{Active, Stop};
use crate::Error;
use crate::barrier::Bank;
use crate::error::panic_message;
use crate::future::Resolver;
use crate::plant::Bug;
use crate::replay::{Replay, ReplayCx};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl ReplayCx<'_> {
    /// Begins a call in parts: takes what has come before it, and runs.
    #[inline(never)]
    pub(super) fn begin_in_parts<R: Replay>(&mut self, object: &mut R, chain: u32) {
        self.progress.chains[chain as usize].state = ChainState::InParts;
        let wanted = self.chains.wanted.get_or_init(|| self.progress.bank.wanted());
        self.act_in_parts(object, chain, |active, value| active.take_what_is_there(value, wanted));
        // Unless that has failed the chain.
        if self.progress.chains[chain as usize].state == ChainState::InParts {
            self.run_in_parts(object, chain);
        }
    }

    /// Runs subtasks of a call in parts.
    #[inline(never)]
    pub(super) fn run_in_parts<R: Replay>(&mut self, object: &mut R, chain: u32) {
        loop {
            let ran = self.with_active(object, chain, |active, value| active.run_in_parts(value));
            object.show(chain, self);
            match ran {
                Ok(Ok(true)) => break,
                Ok(Err(Stop::Waits)) => return,
                Ok(Err(Stop::Yields)) => return self.start(chain),
                Ok(Ok(false)) if object.waits(chain, self) => return,
                Ok(Ok(false)) => {}
                Ok(Err(Stop::Lost(error))) => return self.fail(object, chain, *error),
                Err(error) => return self.fail(object, chain, error),
            }
        }
        if let Some(error) = self.progress.errors.remove(&chain) {
            // A peer is lost, which owes later calls, too.
            return self.fail(object, chain, error);
        }
        self.progress.chains[chain as usize].done = 0;
        if self.end_call(chain, |cx| object.end(chain, Ok(()), cx)) && !object.waits(chain, self) {
            self.start(chain);
        }
    }

    /// A value has come before the chain's turn to read it.
    pub(super) fn offer<R: Replay>(&mut self, object: &mut R, cell: u32) {
        // The chain may have come to the read meanwhile.
        let Some(wanted) = self.chains.wanted.get() else { return };
        let Some(chain) = wanted.by(cell) else { return };
        let now = &self.progress.chains[chain as usize];
        if now.state == ChainState::InParts {
            let read = (cell - now.cells) as u16;
            self.act_in_parts(object, chain, |active, value| active.take_early(value, wanted, cell as usize, read));
            object.show(chain, self);
        }
    }

    /// Settles the future of a part of the result, one of `parts` that are not settled for good. `of` gives the shard that
    /// contributes it, and the number of the block there.
    pub fn settle_part<T: Clone + 'static>(
        &mut self,
        chain: u32,
        (parts, part): (&[Option<Resolver<T>>], usize),
        of: impl FnOnce() -> (u32, u32),
        outcome: Result<T, Box<Error>>,
    ) {
        let effects = &self.tasks.effects;
        let next = || (part + 1) % parts.len();
        let to = if effects.strikes(Bug::WrongPart) { next() } else { part };
        let Some(to) = &parts[to] else { return };
        if let Some(races) = effects.races() {
            let call = (self.chains.id, self.chains.call_of(self.progress, chain));
            to.happens(&races.part_came(call, self.chains.shard_of(chain), of()));
        }
        if effects.strikes(Bug::LostPart) {
            return;
        }
        if effects.strikes(Bug::DoubledPart) {
            parts[next()].iter().for_each(|next| self.settle_one(chain, next, outcome.clone()));
        }
        self.settle_one(chain, to, outcome);
    }

    #[inline]
    fn settle_one<T: 'static>(&mut self, chain: u32, part: &Resolver<T>, outcome: Result<T, Box<Error>>) {
        match outcome {
            Ok(value) => part.settle(Ok(value), self.tasks.teller()),
            Err(error) => self.settle(chain, part, Err(*error)),
        }
    }

    /// A panic fails the call.
    fn act_in_parts<R: Replay>(
        &mut self,
        object: &mut R,
        chain: u32,
        f: impl FnOnce(&mut Active<'_>, &mut R::Running<'_>),
    ) {
        if let Err(error) = self.with_active(object, chain, |active, mut value| f(active, &mut value)) {
            self.fail(object, chain, error);
        }
    }

    fn with_active<R: Replay, T>(
        &mut self,
        object: &mut R,
        chain: u32,
        f: impl FnOnce(&mut Active<'_>, R::Running<'_>) -> T,
    ) -> Result<T, Error> {
        let chains = self.chains;
        let Progress { chains: all, bank: Bank { cells, poisons, .. }, errors, .. } = &mut *self.progress;
        let now = &mut all[chain as usize];
        let mut active = Active { effects: &self.tasks.effects, chains, chain, now, cells, poisons, errors };
        let value = object.running(chain);
        catch_unwind(AssertUnwindSafe(|| f(&mut active, value)))
            .map_err(|panic| Error::Panicked { place: chains.place(chain), message: panic_message(panic) })
    }
}
