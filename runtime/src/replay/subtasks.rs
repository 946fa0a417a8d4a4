//! The subtasks of one chain: waiting for barriers, storing values, reading them and arriving.
//!
//! `collectives/PROTOCOL.md` has the protocol. The object decides what the values are and how they combine ([`RunningValue`]).

use super::chains::{Chain, ChainState, Chains, PlannedSubtask, SubtaskKind, Task, unknown};
use crate::Error;
use crate::barrier::{Cell, Poisons, Wanted, times};
use crate::effects::Effects;
use crate::ids::{CellAddress, EMPTY};
use crate::maps::HashMap;
use crate::payload::Payload;
use crate::plant::Bug;
use crate::replay::RunningValue;
use maniple_barriers::Half;
use maniple_mapper::{Access, MemoryKind};
use maniple_regions::Buffer;

/// A chain with everything that its subtasks use.
pub(crate) struct Active<'a> {
    pub effects: &'a Effects,
    pub chains: &'a Chains,
    pub chain: u32,
    pub now: &'a mut Chain,
    // Not the bank, in which each subtask would look for them.
    pub cells: &'a mut [Cell],
    pub poisons: &'a Poisons,
    pub errors: &'a mut HashMap<u32, Error>,
}

/// The reason why a chain has stopped before the end of its call.
pub(crate) enum Stop {
    /// It waits for a barrier.
    Waits,
    /// Something more urgent is ready.
    Yields,
    /// The barrier it waits for is poisoned.
    Lost(Box<Error>),
}

impl Active<'_> {
    /// Runs subtasks up to the end of the call.
    #[inline]
    pub fn run<V: RunningValue>(&mut self, mut value: V) -> Result<(), Stop> {
        let Chain { first, len, done, .. } = *self.now;
        let first = first as usize;
        let plan = &self.chains.plan[first + usize::from(done)..first + usize::from(len)];
        for step in plan {
            if step.task.is_rare() {
                self.run_rare(&mut value, step)?;
                continue;
            }
            let (reads, at) = (step.task.is_read(), (self.now.cells + u32::from(step.waits)) as usize);
            if reads {
                self.wait_for(Half::Ready, at, self.chains.in_cell(self.now.generation))?;
            } else if self.chains.gives_back {
                self.wait_for(Half::Empty, at, self.now.generation)?;
            }
            self.effects.counters.chain_subtasks.add(1);
            if reads {
                self.read(&mut value, step, at);
            } else {
                self.update(&mut value, step);
            }
            self.now.done += 1;
        }
        Ok(())
    }

    /// Stops unless a generation is complete and nothing is more urgent.
    #[inline(always)]
    fn wait_for(&mut self, half: Half, at: usize, awaited: u64) -> Result<(), Stop> {
        if self.cells[at].completed(half, awaited) <= awaited && self.must_wait(half, at, awaited)? {
            return Err(Stop::Waits);
        }
        if self.effects.more_urgent(self.chains.mapping.get().priority) {
            return Err(Stop::Yields);
        }
        Ok(())
    }

    /// Runs a local subtask, or one that only waits.
    ///
    /// A local subtask is counted like a read, and so costs as much in virtual time. The price of a subtask is for finding its
    /// part and combining a small value, but also for an arrival, which a local one does not make. Machines have no finer
    /// price, so the arrival is charged too. The bytes of a large value pass through the processor as in a read, and a copy reads
    /// and writes as many as a sum. To wait for what was lent is no step of the schedule, and costs nothing.
    #[inline(never)]
    fn run_rare<V: RunningValue>(&mut self, value: &mut V, step: &PlannedSubtask) -> Result<(), Stop> {
        if step.task.kind() == SubtaskKind::Await {
            // The value of this call, if the update came before, or else the value of the call before.
            let awaited = self.now.generation + u64::from(step.task.how());
            self.wait_for(Half::Empty, (self.now.cells + u32::from(step.waits)) as usize, awaited)?;
        } else {
            self.effects.counters.chain_subtasks.add(1);
            if self.now.state != ChainState::Poisoned {
                value.combine_own(step.cell as u16, step.part, step.task.how());
                let bytes = value.size(step.part);
                if bytes > self.chains.inline {
                    self.count_combined(bytes);
                }
            }
        }
        self.now.done += 1;
        Ok(())
    }

    /// Runs subtasks up to the end of a call in parts, or to where blocks of its input are missing: then it returns false. What is
    /// on loan is never changed there, so nothing waits for its end.
    pub fn run_in_parts<V: RunningValue>(&mut self, mut value: V) -> Result<bool, Stop> {
        let Chain { first, len, done, .. } = *self.now;
        let first = first as usize;
        let plan = &self.chains.plan[first + usize::from(done)..first + usize::from(len)];
        for step in plan {
            let (kind, at) = (step.task.kind(), (self.now.cells + u32::from(step.waits)) as usize);
            match kind {
                SubtaskKind::Update => {
                    let lost = match self.chains.gives_back {
                        true => self.wait_or_lose(Half::Empty, at, self.now.generation)?,
                        false => None,
                    };
                    if let Some(error) = lost {
                        self.lose_update(step, error);
                    } else if value.lacks(Some(step.part)) {
                        return Ok(false);
                    } else {
                        self.update_in_parts(&mut value, step);
                    }
                }
                SubtaskKind::Read => {
                    if !value.is_taken(step.waits) {
                        let lost = self.wait_or_lose(Half::Ready, at, self.chains.in_cell(self.now.generation))?;
                        self.take_in_turn(&mut value, at, step.waits, lost);
                    }
                    if self.chains.gives_back {
                        self.give_back_in_parts(step);
                    }
                }
                SubtaskKind::Local => {
                    let from = step.cell as u16;
                    if value.lacks(Some(from)) {
                        return Ok(false);
                    }
                    value.combine_own(from, step.part, step.task.how());
                }
                SubtaskKind::Await => {}
            }
            if kind != SubtaskKind::Await {
                self.effects.counters.chain_subtasks.add(1);
            }
            self.now.done += 1;
        }
        Ok(!value.lacks(None))
    }

    /// Apart, so that the code of whole calls is compiled as if there were no others.
    #[inline(never)]
    fn give_back_in_parts(&mut self, step: &PlannedSubtask) {
        for _ in 0..self.arrivals() {
            self.give_back(step, step.cell + self.now.offset);
        }
    }

    #[inline(never)]
    fn update_in_parts<V: RunningValue>(&mut self, value: &mut V, step: &PlannedSubtask) {
        let staged = self.chains.mapping.get().memory == MemoryKind::Ordinary && step.task.to() != self.effects.id;
        for _ in 0..self.arrivals() {
            let wrong = self.effects.strikes(Bug::WrongPartner).then(|| self.with_wrong_partner(step));
            let step = wrong.as_ref().unwrap_or(step);
            let mut payload = value.block(step.part);
            if staged && let Payload::Lent(lent) = &payload {
                self.effects.counters.staged_bytes.add(lent.as_bytes().len() as u64);
                payload = Payload::copy_of(lent.as_bytes());
            }
            self.arrive(step, step.cell + self.now.offset, self.chains.in_cell(self.now.generation), payload);
        }
    }

    /// Takes what all reads have found before their turns, and has the rest offered when it comes.
    pub fn take_what_is_there<V: RunningValue>(&mut self, value: &mut V, wanted: &Wanted) {
        let plan = &self.chains.plan[self.now.first as usize..][..usize::from(self.now.len)];
        for step in plan.iter().filter(|step| step.task.kind() == SubtaskKind::Read) {
            if value.is_free(step.waits) {
                let at = (self.now.cells + u32::from(step.waits)) as usize;
                wanted.add(at, self.chain);
                self.take_early(value, wanted, at, step.waits);
            }
        }
    }

    /// [Waits](Self::wait_for) in a call in parts. A peer that is lost spoils no other block, so its error stops nothing.
    #[inline(always)]
    fn wait_or_lose(&mut self, half: Half, at: usize, awaited: u64) -> Result<Option<Box<Error>>, Stop> {
        match self.wait_for(half, at, awaited) {
            Err(Stop::Lost(error)) => Ok(Some(error)),
            other => other.map(|()| None),
        }
    }

    /// An update whose peer is lost. If others go on as if it were not, they get the error.
    #[cold]
    #[inline(never)]
    fn lose_update(&mut self, step: &PlannedSubtask, error: Box<Error>) {
        let at = CellAddress { processor: step.task.to(), object: self.chains.id, cell: step.cell + self.now.offset };
        self.effects.send_poison(at, self.chains.in_cell(self.now.generation), &error);
        self.errors.entry(self.chain).or_insert(*error);
    }

    /// A read whose peer is lost takes the error in place of a value. The chain fails when its call has ended.
    #[cold]
    #[inline(never)]
    fn lose_read<V: RunningValue>(&mut self, value: &mut V, read: u16, error: Box<Error>) {
        self.errors.entry(self.chain).or_insert_with(|| (*error).clone());
        value.take(read, Payload::Failed(error));
    }

    /// Takes what a read has found in its cell, at the chain's turn to read it, or the error of a peer that is lost.
    fn take_in_turn<V: RunningValue>(&mut self, value: &mut V, at: usize, read: u16, lost: Option<Box<Error>>) {
        if let Some(wanted) = self.chains.wanted.get() {
            wanted.remove(at);
        }
        match lost {
            Some(error) => self.lose_read(value, read, error),
            None => self.take(value, at, read),
        }
    }

    /// Takes what a read has found in its cell.
    fn take<V: RunningValue>(&mut self, value: &mut V, at: usize, read: u16) {
        let came = match self.effects.has(Bug::StalePart) {
            true => self.cells[at].value.clone(),
            false => std::mem::take(&mut self.cells[at].value),
        };
        value.take(read, came);
    }

    /// Takes what a read has found before its turn, if that or an error is there. `at` is the read's cell, whose value the chain wants.
    pub fn take_early<V: RunningValue>(&mut self, value: &mut V, wanted: &Wanted, at: usize, read: u16) {
        let generation = self.chains.in_cell(self.now.generation);
        if self.cells[at].completed(Half::Ready, generation) > generation || self.is_stale(at) {
            wanted.remove(at);
            self.take(value, at, read);
        } else if let Some(error) = self.poisons.of(at as u32, generation) {
            wanted.remove(at);
            self.lose_read(value, read, Box::new(error.clone()));
        }
    }

    /// Whether a planted bug takes the value of an earlier call.
    fn is_stale(&self, at: usize) -> bool {
        !matches!(self.cells[at].value, Payload::None) && self.effects.strikes(Bug::StalePart)
    }

    /// Registers the chain's wait, unless the barrier is poisoned.
    #[inline(always)]
    fn must_wait(&mut self, half: Half, at: usize, awaited: u64) -> Result<bool, Stop> {
        if self.effects.strikes(if half == Half::Empty { Bug::SkippedEmptyWait } else { Bug::SkippedReadyWait }) {
            return Ok(false);
        }
        if let Some(error) = self.poisons.of(at as u32 | half.bit(), awaited) {
            return Err(Stop::Lost(Box::new(error.clone())));
        }
        self.cells[at].wait(half, self.chain);
        Ok(true)
    }

    /// The update subtask: stores the running value in the exchange region for the peer, or lends it where it is.
    #[inline]
    fn update<V: RunningValue>(&mut self, value: &mut V, step: &PlannedSubtask) {
        for _ in 0..self.arrivals() {
            let wrong = self.effects.strikes(Bug::WrongPartner).then(|| self.with_wrong_partner(step));
            let step = wrong.as_ref().unwrap_or(step);
            self.store(value, step, step.cell + self.now.offset);
        }
    }

    #[inline]
    fn store<V: RunningValue>(&mut self, value: &mut V, step: &PlannedSubtask, cell: u32) {
        let (effects, chains) = (self.effects, self.chains);
        let generation = chains.in_cell(self.now.generation);
        if self.now.state == ChainState::Poisoned {
            let payload = self.error();
            return self.arrive(step, cell, generation, payload);
        }
        let bytes = value.bytes(step.part);
        let large = bytes.len() > Payload::INLINE;
        if step.task.to() == effects.id && !large {
            let to = &mut self.cells[cell as usize];
            if chains.arrive_here(effects, to, Half::Ready, cell, generation) {
                to.value.set(bytes);
            }
            return;
        }
        // The network can't send from ordinary memory directly, so the value goes through a buffer.
        let staged = chains.mapping.get().memory == MemoryKind::Ordinary && step.task.to() != effects.id;
        if staged {
            effects.counters.staged_bytes.add(bytes.len() as u64);
        }
        if let Ok(word) = <[u8; 8]>::try_from(bytes) {
            let at = CellAddress { processor: step.task.to(), object: chains.id, cell };
            return effects.send_word(at, generation, u64::from_ne_bytes(word));
        }
        let payload = if large && !staged { Payload::Lent(value.lend(step.part)) } else { Payload::copy_of(bytes) };
        self.arrive(step, cell, generation, payload);
    }

    /// The read subtask: combines the peer's value with the running one and gives the peer's region back.
    #[inline]
    fn read<V: RunningValue>(&mut self, value: &mut V, step: &PlannedSubtask, at: usize) {
        let (effects, chains) = (self.effects, self.chains);
        let (part, how) = (step.part, step.task.how());
        // Part 0 is all of the value.
        let expected = if part == 0 { chains.bytes } else { value.size(part) };
        let large = expected > chains.inline;
        let how = if how < 2 && effects.strikes(Bug::SwappedOperands) { 1 - how } else { how };
        let came = &self.cells[at].value;
        let bytes = came.bytes();
        let mut taken = false;
        if self.now.state == ChainState::Poisoned {
            // The call has failed, so nothing is combined.
        } else if bytes.len() != expected || matches!(came, Payload::Failed(_)) {
            self.fail_call(step, at, expected);
        } else if chains.mapping.get().access == Access::Copy && step.task.to() != effects.id {
            effects.counters.region_copies.add(1);
            effects.counters.region_copy_bytes.add(bytes.len() as u64);
            if large {
                value.combine(part, how, Buffer::from_bytes(bytes).as_bytes());
            } else {
                // A small value came with the arrival, so this processor's cell already is a copy.
                value.combine(part, how, bytes);
            }
        } else if large
            && let Payload::Lent(lent) = came
            && effects.same_node(step.task.to())
            && value.take_loan(part, how, lent)
        {
            taken = true;
        } else {
            value.combine(part, how, bytes);
        }
        if large {
            if !taken {
                self.count_combined(expected);
            }
            // The owner may change the value from now on.
            self.cells[at].value = Payload::None;
        }
        if !chains.gives_back {
            return;
        }
        for _ in 0..self.arrivals() {
            self.give_back(step, step.cell + self.now.offset);
        }
    }

    /// What came in place of a value fails the call.
    // Never inlined: where the errors are kept would be worked out in every call.
    #[cold]
    #[inline(never)]
    fn fail_call(&mut self, step: &PlannedSubtask, at: usize, expected: usize) {
        let error = match &self.cells[at].value {
            Payload::Failed(e) => (**e).clone(),
            came => self.chains.wrong_size(self.chain, step, (expected, came.bytes().len())),
        };
        self.now.state = ChainState::Poisoned;
        self.errors.entry(self.chain).or_insert(error);
    }

    #[inline(always)]
    fn give_back(&mut self, step: &PlannedSubtask, cell: u32) {
        let (effects, chains, generation) = (self.effects, self.chains, self.now.generation + 1);
        let (processor, number) = (step.task.to(), cell | EMPTY);
        if processor == effects.id {
            chains.arrive_here(effects, &mut self.cells[cell as usize], Half::Empty, number, generation);
            return;
        }
        // The peer waits for a value now, but for an empty cell only a call later, if at all. A large value is given back at
        // once (see `LARGE`).
        let at = CellAddress { processor, object: chains.id, cell: number };
        effects.send_empty(at, generation, chains.large);
    }

    #[cold]
    #[inline(never)]
    fn count_combined(&self, bytes: usize) {
        self.effects.counters.combined_bytes.add(self.chains.length.of(bytes) as u64);
    }

    /// How many times an arrival is made.
    #[inline(always)]
    fn arrivals(&self) -> u32 {
        self.effects.counters.chain_arrivals.add(1);
        times(self.effects)
    }

    /// The step of an update, with the wrong partner if that bug is planted and strikes now.
    fn with_wrong_partner(&self, step: &PlannedSubtask) -> PlannedSubtask {
        let (gang, first) = (&self.chains.gang, &self.chains.table.first);
        let peer = self.chains.shard_at(step.task.to(), step.cell);
        let wrong = (peer + 1) % gang.shards();
        let cell = step.cell - first[peer as usize] + first[wrong as usize];
        let task = Task::new(step.task.kind(), step.task.how(), gang.at[wrong as usize].0);
        PlannedSubtask { task, cell, ..*step }
    }

    /// Arrives at a cell of the peer with a value.
    #[inline(always)]
    fn arrive(&mut self, step: &PlannedSubtask, cell: u32, generation: u64, payload: Payload) {
        let (effects, chains, processor) = (self.effects, self.chains, step.task.to());
        if processor != effects.id {
            let at = CellAddress { processor, object: chains.id, cell };
            return effects.send_ready(at, generation, payload);
        }
        let to = &mut self.cells[cell as usize];
        if chains.arrive_here(effects, to, Half::Ready, cell, generation) {
            to.value = payload;
        }
    }

    #[cold]
    #[inline(never)]
    fn error(&self) -> Payload {
        let error = self.errors.get(&self.chain).cloned();
        Payload::Failed(Box::new(error.unwrap_or_else(unknown)))
    }
}
