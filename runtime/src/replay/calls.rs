//! The calls of chains: taking inputs, combining a group of chains in place, giving results out, and failing.
//!
//! A call that fails hands its error on where its value would go. So the barriers stay in step, and the next call finds
//! everything in order. A collective's barriers are poisoned only when a shard of it has failed or a processor is lost,
//! because then nobody arrives in its place. A shard that has failed has given what it contributed: its calls go on, and
//! only the calls that it has not made are poisoned (`give_up`). So it does not depend on timing which calls fail.

use super::chains::{ALONE, Chain, ChainState, GroupStage, Progress, SubtaskKind, unknown};
use crate::Error;
use crate::barrier::Bank;
use crate::error::panic_message;
use crate::ids::{CellAddress, EMPTY};
use crate::payload::Payload;
use crate::plant::Bug;
use crate::replay::subtasks::{Active, Stop};
use crate::replay::{Replay, ReplayCx, SlotState};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl ReplayCx<'_> {
    /// Whether the chain has no call. A planted bug makes it forget one.
    #[inline]
    pub fn is_free(&mut self, chain: u32) -> bool {
        if self.tasks.effects.strikes(Bug::EarlySlotReuse) {
            self.progress.forget(chain);
        }
        self.progress.chains[chain as usize].state == ChainState::Idle
    }

    /// Whether the chain can take a call.
    pub fn slot(&mut self, chain: u32) -> SlotState {
        if self.is_free(chain) {
            return SlotState::Free;
        }
        match self.progress.chains[chain as usize].state {
            ChainState::Failed => SlotState::Failed(self.progress.errors.get(&chain).cloned().unwrap_or_else(unknown)),
            _ => SlotState::Taken,
        }
    }

    /// Runs a call that was put into a free chain, as soon as its input has come.
    pub fn submit<R: Replay>(&mut self, object: &mut R, chain: u32) {
        self.progress.chains[chain as usize].state = ChainState::Input;
        if !object.waits(chain, self) {
            self.run(object, chain);
        }
    }

    /// Runs a call that was put into a free chain, and whose running value can't be made.
    #[cold]
    pub fn begin_failed<R: Replay>(&mut self, object: &mut R, chain: u32, error: Error) {
        self.poison_call(chain, error);
        self.run_begun(object, chain);
    }

    /// Runs a call that was put into a free chain, and whose running value is there.
    #[inline]
    pub fn begin<R: Replay>(&mut self, object: &mut R, chain: u32) {
        let Progress { chains, groups, .. } = &mut *self.progress;
        let now = &mut chains[chain as usize];
        now.state = ChainState::Running;
        if let Some(b) = groups.get_mut(now.group as usize)
            && b.missing > 1
            && chain != b.leader
        {
            // Nearly all chains of a group: others are still to come.
            now.state = ChainState::Joined;
            b.missing -= 1;
            return;
        }
        self.run_begun(object, chain);
    }

    /// Runs subtasks of a chain as long as the next one is ready and nothing more urgent is.
    #[inline]
    pub(super) fn run<R: Replay>(&mut self, object: &mut R, chain: u32) {
        if self.has_begun(object, chain) {
            self.run_begun(object, chain);
        }
    }

    /// Takes the input of the chain's call, if that waits for it. False if there is nothing to run.
    #[inline(always)]
    fn has_begun<R: Replay>(&mut self, object: &mut R, chain: u32) -> bool {
        match self.progress.chains[chain as usize].state {
            ChainState::Running | ChainState::Poisoned => true,
            ChainState::Idle | ChainState::Joined | ChainState::Failed => false,
            ChainState::Input => self.take_input(object, chain),
            ChainState::InParts => {
                self.run_in_parts(object, chain);
                false
            }
        }
    }

    #[inline(never)]
    fn take_input<R: Replay>(&mut self, object: &mut R, chain: u32) -> bool {
        // An input may be converted by code of the program.
        match self.guarded(chain, || object.begin(chain, || self.chains.shard_of(chain))).unwrap_or_else(Err) {
            Ok(true) if object.in_parts(chain) => {
                self.begin_in_parts(object, chain);
                false
            }
            Ok(begun) => {
                if begun {
                    self.progress.chains[chain as usize].state = ChainState::Running;
                }
                begun
            }
            Err(e) => {
                self.poison_call(chain, e);
                true
            }
        }
    }

    // Once, and not inlined at each place where a chain begins.
    #[inline(never)]
    fn run_begun<R: Replay>(&mut self, object: &mut R, mut chain: u32) {
        loop {
            let chains = self.chains;
            let group = self.progress.chains[chain as usize].group;
            if group != ALONE {
                match self.combine_in_place(object, chain, group) {
                    Some(leader) => chain = leader,
                    None => return,
                }
            }
            let Progress { chains: all, bank: Bank { cells, poisons, .. }, errors, .. } = &mut *self.progress;
            let now = &mut all[chain as usize];
            let mut active = Active { effects: &self.tasks.effects, chains, chain, now, cells, poisons, errors };
            let value = object.running(chain);
            match catch_unwind(AssertUnwindSafe(|| active.run(value))) {
                Ok(Ok(())) => {}
                Ok(Err(Stop::Waits)) => return,
                Ok(Err(Stop::Yields)) => return self.start(chain),
                Ok(Err(Stop::Lost(error))) => return self.fail(object, chain, *error),
                // The read runs again, and hands the error on.
                Err(panic) => {
                    let error = Error::Panicked { place: chains.place(chain), message: panic_message(panic) };
                    if now.state == ChainState::Poisoned {
                        // Not even the error can be handed on.
                        let first = self.progress.errors.remove(&chain).unwrap_or(error);
                        return self.fail(object, chain, first);
                    }
                    self.poison_call(chain, error);
                    continue;
                }
            }
            let poisoned = now.state == ChainState::Poisoned;
            now.done = 0;
            let outcome = if poisoned { Err(self.take_error(chain, unknown)) } else { Ok(()) };
            if group != ALONE {
                self.hand_out(object, group, &outcome);
            }
            let another = self.end_call(chain, |cx| object.end(chain, outcome, cx));
            if group != ALONE
                && let Some(fails) = &self.progress.groups[group as usize].fails
                && fails.0 <= self.progress.chains[chain as usize].generation
            {
                let error = fails.1.clone();
                return self.fail(object, chain, error);
            }
            if !(another && !object.waits(chain, self) && self.has_begun(object, chain)) {
                return;
            }
        }
    }

    /// Ends a chain's call; `end` makes the object do it. Returns whether the next one is in the chain now.
    #[inline(always)]
    pub(super) fn end_call(&mut self, chain: u32, end: impl FnOnce(&mut Self) -> bool) -> bool {
        let now = &mut self.progress.chains[chain as usize];
        now.state = ChainState::Idle;
        self.chains.next_generation(now);
        let another = end(self);
        if another {
            self.progress.chains[chain as usize].state = ChainState::Input;
        }
        another
    }

    /// The work of a chain in a group before its subtasks: a follower joins, and the leader combines the values of all.
    /// Returns the leader if it can go on.
    #[inline]
    fn combine_in_place<R: Replay>(&mut self, object: &mut R, chain: u32, group: u32) -> Option<u32> {
        let Progress { chains, groups, .. } = &mut *self.progress;
        let b = &mut groups[group as usize];
        if chain != b.leader {
            let now = &mut chains[chain as usize];
            if now.state == ChainState::Poisoned {
                b.failed = Some(b.failed.map_or(chain, |first| first.min(chain)));
            }
            now.state = ChainState::Joined;
            b.missing -= 1;
            if b.missing > 0 || b.stage != GroupStage::Waits {
                return None;
            }
        }
        if b.stage == GroupStage::Gathered {
            return Some(chain);
        }
        let leader = b.leader;
        if b.missing > 0 {
            b.stage = GroupStage::Waits;
            return None;
        }
        (b.stage, b.missing) = (GroupStage::Gathered, b.size - 1);
        let (size, slots) = (b.size, self.chains.slots);
        self.tasks.effects.counters.chain_subtasks.add(2 * u64::from(size - 1));
        match b.failed.take() {
            Some(follower) => {
                let error = self.progress.errors.get(&follower).cloned().unwrap_or_else(unknown);
                self.poison_call(leader, error);
            }
            None if chains[leader as usize].state == ChainState::Running => {
                match self.guarded(leader, || object.combine_group(leader, size, slots)) {
                    Ok(bytes) if self.chains.bytes > self.chains.inline => {
                        // As many bytes as if each join were a read.
                        let bytes = self.chains.length.of(bytes) as u64;
                        self.tasks.effects.counters.combined_bytes.add(bytes);
                    }
                    Ok(_) => {}
                    Err(error) => self.poison_call(leader, error),
                }
            }
            None => {}
        }
        Some(leader)
    }

    /// Ends the calls of a group's followers after the leader's call has ended.
    // Apart, as its loop would take registers from the subtasks of every chain.
    #[inline(never)]
    fn hand_out<R: Replay>(&mut self, object: &mut R, group: u32, outcome: &Result<(), Box<Error>>) {
        let b = &mut self.progress.groups[group as usize];
        b.stage = GroupStage::Away;
        let (leader, size, slots) = (b.leader, b.size, self.chains.slots);
        self.tasks.effects.counters.chain_subtasks.add(2 * u64::from(size - 1));
        let mut chain = leader;
        for _ in 1..size {
            chain += slots;
            let another = self.end_call(chain, |cx| match outcome {
                Ok(()) => object.follow(chain, leader, cx),
                Err(e) => {
                    let error = cx.take_error(chain, || (**e).clone());
                    object.end(chain, Err(error), cx)
                }
            });
            if another && !object.waits(chain, self) {
                self.start(chain);
            }
        }
    }

    /// The chain's call fails. It runs all the same, and hands the error on.
    #[cold]
    fn poison_call(&mut self, chain: u32, error: Error) {
        let failure = self.tasks.effects.failed(error, || self.chains.place(chain));
        self.progress.poison_call(chain, failure.poison().clone());
    }

    /// The error of a chain's failed call: the chain's own, or else an error of others.
    #[cold]
    fn take_error(&mut self, chain: u32, of_others: impl FnOnce() -> Error) -> Box<Error> {
        let error = self.progress.errors.remove(&chain).unwrap_or_else(of_others);
        Box::new(error.poisons(self.chains.place(chain)))
    }

    /// The shard of a chain has failed after it has made `made` calls of the chain's slot. They go on, and every arrival
    /// that the chain owes in later ones is poisoned.
    pub(crate) fn give_up<R: Replay>(&mut self, object: &mut R, chain: u32, (made, error): (u64, &Error)) {
        let now = self.progress.chains[chain as usize];
        if now.state == ChainState::Failed {
            return;
        }
        if now.generation >= made {
            return self.fail(object, chain, error.clone());
        }
        let error = error.poisons(self.chains.place(chain));
        match self.progress.groups.get_mut(now.group as usize) {
            Some(group) if group.fails.as_ref().is_none_or(|fails| made < fails.0) => {
                group.fails = Some(Box::new((made, error)));
            }
            Some(_) => {}
            None => {
                let mut owed = now;
                if (made - now.generation) % 2 == 1 {
                    self.chains.next_generation(&mut owed);
                }
                (owed.generation, owed.done) = (made, 0);
                self.poison_arrivals(&owed, &error);
            }
        }
    }

    /// Ends a chain's call with an error and poisons every arrival that the chain still owes, in this call and later
    /// ones. Does the same for the chains that combine with it in place.
    pub(crate) fn fail<R: Replay>(&mut self, object: &mut R, chain: u32, error: Error) {
        let Some(b) = self.progress.groups.get_mut(self.progress.chains[chain as usize].group as usize) else {
            return self.fail_alone(object, chain, error);
        };
        let (leader, size) = (b.leader, b.size);
        for follower in 0..size {
            self.fail_alone(object, leader + follower * self.chains.slots, error.clone());
        }
    }

    fn fail_alone<R: Replay>(&mut self, object: &mut R, chain: u32, error: Error) {
        let place = self.chains.place(chain);
        let c = &mut self.progress.chains[chain as usize];
        let mut calls = match std::mem::replace(&mut c.state, ChainState::Failed) {
            ChainState::Failed => return,
            state => state != ChainState::Idle,
        };
        let now = *c;
        let error = error.poisons(place);
        // Later calls find it there.
        self.progress.errors.insert(chain, error.clone());
        while calls {
            calls = object.end(chain, Err(Box::new(error.clone())), self);
        }
        let mut next = now;
        self.chains.next_generation(&mut next);
        for step in &self.chains.plan[now.first as usize..][..usize::from(now.len)] {
            if step.task.kind() != SubtaskKind::Local {
                // Gives back the values that were lent to the subtask.
                for call in [&now, &next] {
                    self.progress.bank.cells[(call.cells + u32::from(step.waits)) as usize].clear(Payload::None);
                }
            }
        }
        self.poison_arrivals(&now, &error);
    }

    /// Poisons the arrivals of a chain that are owed from the call on that it has in `now`. Subtasks that this call has run
    /// are owed in the next one.
    fn poison_arrivals(&self, now: &Chain, error: &Error) {
        let effects = &self.tasks.effects;
        if effects.has(Bug::MissingPoison) {
            return;
        }
        let mut next = *now;
        self.chains.next_generation(&mut next);
        for i in 0..now.len {
            let step = self.chains.plan[now.first as usize + usize::from(i)];
            let from = if i < now.done { &next } else { now };
            let poison = |cell, from| {
                let at = CellAddress { processor: step.task.to(), object: self.chains.id, cell };
                effects.send_poison(at, from, error);
            };
            match step.task.kind() {
                SubtaskKind::Update if self.chains.gives_back => poison(step.cell + now.offset, from.generation),
                SubtaskKind::Update => {
                    // The call after that has the other cells.
                    let mut after = *from;
                    self.chains.next_generation(&mut after);
                    for call in [from, &after] {
                        poison(step.cell + call.offset, self.chains.in_cell(call.generation));
                    }
                }
                SubtaskKind::Read if self.chains.gives_back => {
                    poison((step.cell + now.offset) | EMPTY, from.generation + 1);
                }
                SubtaskKind::Read | SubtaskKind::Local | SubtaskKind::Await => {}
            }
        }
    }
}
