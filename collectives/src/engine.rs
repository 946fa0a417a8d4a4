//! Runs a schedule as subtasks: the chains of one allreduce on one processor.

use crate::{Combine, Operator, Schedule, Step};
use maniple_mapper::Access;
use maniple_regions::{Buffer, Element};
use maniple_runtime::replay::{Next, Replay, ReplayCx};
use maniple_runtime::{Error, Payload, Place, Resolver, TaskFuture, Value};
use std::collections::VecDeque;

/// Cells of a slot larger than this share two buffers, because a buffer for every round would cost more memory than the
/// wait for the round before the last one costs time.
const BUFFER_EACH_ROUND: usize = 4096;

/// The geometry of an object's cells, the same for every shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Elements of a value.
    pub elements: usize,
    /// Slots: calls in flight.
    pub slots: u32,
    /// Most updates and most reads of any rank.
    pub updates: u32,
    pub reads: u32,
}

impl Layout {
    fn ready(&self, slot: u32, read: u32) -> u32 {
        slot * self.reads + read
    }

    fn empty(&self, slot: u32, update: u32) -> u32 {
        slot * self.updates + update
    }
}

/// A value on its way through the rounds. One element needs no allocation.
enum Running<T> {
    One(T),
    Many(Vec<T>),
}

impl<T: Element> Running<T> {
    #[inline]
    fn as_slice(&self) -> &[T] {
        match self {
            Running::One(v) => std::slice::from_ref(v),
            Running::Many(v) => v,
        }
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Running::One(v) => std::slice::from_mut(v),
            Running::Many(v) => v,
        }
    }
}

/// One call: where its input comes from and its result goes.
pub(crate) enum Call<T> {
    One(Value<T>, Resolver<T>),
    Many(Value<Vec<T>>, Resolver<Vec<T>>),
}

enum State<T> {
    /// No call in this slot.
    Idle,
    /// Waits for the call's input.
    Input(Call<T>),
    /// Step number `.0` of the schedule runs next.
    Step(u16, Running<T>, Output<T>),
    /// A call has failed; later ones fail at once.
    Failed(Error),
}

enum Output<T> {
    One(Resolver<T>),
    Many(Resolver<Vec<T>>),
}

/// One slot of one shard.
struct Chain<T> {
    /// Position of the shard among the local ones, and the slot.
    position: u32,
    slot: u32,
    state: State<T>,
    /// Calls of this slot that are over: the generation of the present one.
    generation: u64,
    /// Updates and reads done in the present call.
    updates: u16,
    reads: u16,
    /// Calls that wait for this slot.
    queued: VecDeque<Call<T>>,
}

/// A shard's part of the schedule, with what every step needs at hand.
struct Rank {
    schedule: Schedule,
    updates: u16,
    /// Updates a slot can have outstanding: later ones wait for the one that many before.
    depth: u16,
}

/// The chains of one allreduce on one processor.
pub(crate) struct Engine<T> {
    name: String,
    operator: Operator<T>,
    layout: Layout,
    /// Of each local shard.
    ranks: Vec<Rank>,
    /// Calls each local shard has made.
    calls: Vec<u64>,
    chains: Vec<Chain<T>>,
}

impl<T: Element> Engine<T> {
    pub fn new(name: &str, operator: Operator<T>, layout: Layout, schedules: Vec<Schedule>) -> Self {
        let chain = |position: u32, slot: u32| Chain {
            position,
            slot,
            state: State::Idle,
            generation: 0,
            updates: 0,
            reads: 0,
            queued: VecDeque::new(),
        };
        let positions = 0..schedules.len() as u32;
        let chains = positions.flat_map(|p| (0..layout.slots).map(move |s| chain(p, s))).collect();
        let calls = vec![0; schedules.len()];
        let rank = |schedule: Schedule| {
            let updates = schedule.updates() as u16;
            let large = layout.elements * size_of::<T>() > BUFFER_EACH_ROUND;
            Rank { schedule, updates, depth: if large { updates.min(2) } else { updates } }
        };
        let ranks = schedules.into_iter().map(rank).collect();
        Self { name: name.into(), operator, layout, calls, ranks, chains }
    }

    /// Takes a call of the shard at `position`; it starts when its slot is free and its input there.
    pub fn call(&mut self, position: u32, call: Call<T>, cx: &mut ReplayCx<'_>) {
        let count = &mut self.calls[position as usize];
        let slot = (*count % u64::from(self.layout.slots)) as u32;
        *count += 1;
        let chain = position * self.layout.slots + slot;
        #[cfg(feature = "plant")]
        if cx.planted(maniple_runtime::plant::Bug::EarlySlotReuse) {
            return self.begin(chain, call, cx);
        }
        match self.chains[chain as usize].state {
            State::Idle => self.begin(chain, call, cx),
            State::Failed(ref e) => settle(call, e.clone(), cx),
            _ => self.chains[chain as usize].queued.push_back(call),
        }
    }

    fn begin(&mut self, chain: u32, call: Call<T>, cx: &mut ReplayCx<'_>) {
        let waits = match &call {
            Call::One(Value::Later(f), _) => cx.wake_after(chain, f),
            Call::Many(Value::Later(f), _) => cx.wake_after(chain, f),
            _ => false,
        };
        self.chains[chain as usize].state = State::Input(call);
        if !waits {
            cx.start(chain);
        }
    }

    fn place(&self, shard: u32) -> Place {
        Place { task: self.name.clone(), shard: Some(shard) }
    }

    #[inline]
    fn rank(&self, chain: u32) -> &Rank {
        &self.ranks[self.chains[chain as usize].position as usize]
    }

    fn schedule(&self, chain: u32) -> &Schedule {
        &self.rank(chain).schedule
    }

    fn slot(&self, chain: u32) -> u32 {
        self.chains[chain as usize].slot
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.layout.elements * size_of::<T>()
    }

    /// Whether values are lent as buffers rather than carried by the arrivals themselves.
    #[inline]
    fn large(&self) -> bool {
        self.bytes() > Payload::INLINE
    }

    /// The empty cell and generation that guard what update number `update` overwrites.
    ///
    /// Small values have a cell for each update, free when the same update of the slot's previous call has been read.
    /// Large ones share two buffers in turn: the one before the last update of this call, or of the previous one.
    fn room(&self, chain: u32, update: u16) -> (u32, u64) {
        let Rank { updates, depth, .. } = *self.rank(chain);
        let generation = self.chains[chain as usize].generation;
        let (guard, generation) =
            if update >= depth { (update - depth, generation + 1) } else { (updates - depth + update, generation) };
        (self.layout.empty(self.slot(chain), u32::from(guard)), generation)
    }

    /// What the next step of a chain waits for; ends the call when there is none.
    fn next(&mut self, chain: u32, cx: &mut ReplayCx<'_>) -> Next {
        let state = &self.chains[chain as usize];
        let State::Step(step, ..) = state.state else {
            return Next::Later;
        };
        match self.schedule(chain).steps().get(usize::from(step)) {
            None => {
                self.end(chain, cx);
                Next::Later
            }
            Some(Step::Update { .. }) => {
                #[cfg(feature = "plant")]
                if cx.planted(maniple_runtime::plant::Bug::SkippedEmptyWait) {
                    return Next::Now;
                }
                let (cell, generation) = self.room(chain, state.updates);
                Next::Empty(cell, generation)
            }
            Some(Step::Read { .. }) => {
                #[cfg(feature = "plant")]
                if cx.planted(maniple_runtime::plant::Bug::SkippedReadyWait) {
                    return Next::Now;
                }
                Next::Ready(self.layout.ready(self.slot(chain), u32::from(state.reads)), state.generation)
            }
        }
    }

    /// The call is over: its result goes out, and the next call of the slot begins.
    fn end(&mut self, chain: u32, cx: &mut ReplayCx<'_>) {
        let c = &mut self.chains[chain as usize];
        (c.updates, c.reads) = (0, 0);
        c.generation += 1;
        match std::mem::replace(&mut c.state, State::Idle) {
            State::Step(_, Running::One(v), Output::One(out)) => cx.resolve(out, Ok(v)),
            State::Step(_, Running::Many(v), Output::Many(out)) => cx.resolve(out, Ok(v)),
            _ => unreachable!("a call that ends has run all its steps, and its result has its input's form"),
        }
        if let Some(call) = c.queued.pop_front() {
            self.begin(chain, call, cx);
        }
    }

    /// Takes in the call's input.
    fn take_input(&mut self, chain: u32, shard: u32) -> Result<(), Box<Error>> {
        let elements = self.layout.elements;
        let c = &mut self.chains[chain as usize];
        let (running, output) = match std::mem::replace(&mut c.state, State::Idle) {
            State::Input(Call::One(value, out)) => {
                let value = take(value);
                (value.map(Running::One), Output::One(out))
            }
            State::Input(Call::Many(value, out)) => {
                let value = take(value);
                (value.map(Running::Many), Output::Many(out))
            }
            other => {
                c.state = other;
                return Ok(());
            }
        };
        let running = running.and_then(|r| {
            let came = r.as_slice().len();
            if came == elements {
                return Ok(r);
            }
            let what = format!("input of `{}` in shard {shard}", self.name);
            Err(Error::Misuse { what, expected: format!("{elements} elements"), came: format!("{came}") })
        });
        match running {
            Ok(running) => {
                c.state = State::Step(0, running, output);
                Ok(())
            }
            Err(e) => {
                // Put a state back from which `fail` can settle the call.
                c.state = State::Input(match output {
                    Output::One(out) => Call::One(Value::Later(TaskFuture::pending().1), out),
                    Output::Many(out) => Call::Many(Value::Later(TaskFuture::pending().1), out),
                });
                Err(Box::new(e))
            }
        }
    }

    /// The update subtask: store the running value in the exchange region, lend it to the partner.
    fn update(&mut self, chain: u32, peer: u32, at: u16, cx: &mut ReplayCx<'_>) {
        let guard = if self.large() { Some(self.room(chain, self.chains[chain as usize].updates).0) } else { None };
        let c = &mut self.chains[chain as usize];
        let State::Step(_, running, _) = &c.state else { return };
        let bytes: &[u8] = bytemuck::cast_slice(running.as_slice());
        let cell = self.layout.ready(c.slot, u32::from(at));
        c.updates += 1;
        match guard {
            None => cx.arrive_ready_with(peer, cell, c.generation, bytes),
            Some(guard) => {
                let mut buffer = match cx.take_empty(guard) {
                    Payload::Buffer(buffer) if buffer.len() == bytes.len() => buffer,
                    // The first use of the cell, or the buffer's contents went to another node.
                    _ => Buffer::zeroed(bytes.len()),
                };
                buffer.as_bytes_mut().copy_from_slice(bytes);
                cx.arrive_ready(peer, cell, c.generation, Payload::Buffer(buffer));
            }
        }
    }

    /// The read subtask: combine the partner's value with the running one, give the partner's region back.
    fn read(
        &mut self,
        chain: u32,
        peer: u32,
        at: u16,
        combine: Combine,
        cx: &mut ReplayCx<'_>,
    ) -> Result<(), Box<Error>> {
        let (layout, size, large) = (self.layout, self.bytes(), self.large());
        let operator = &self.operator;
        let c = &mut self.chains[chain as usize];
        let cell = layout.ready(c.slot, u32::from(c.reads));
        let State::Step(_, running, _) = &mut c.state else { return Ok(()) };
        let copies = cx.mapping().access == Access::Copy && !cx.same_processor(peer);
        let came = cx.look_ready(cell, |bytes| {
            if bytes.len() == size {
                if copies && large {
                    fold(operator, combine, running, Buffer::from_bytes(bytes).as_bytes());
                } else {
                    // A small value is in the cell of this processor already: that is its copy.
                    fold(operator, combine, running, bytes);
                }
            }
            bytes.len()
        });
        if came != size {
            let what = format!("`{}`: the value of shard {peer}", self.name);
            return Err(Box::new(Error::Misuse {
                what,
                expected: format!("{size} bytes"),
                came: format!("{came} bytes"),
            }));
        }
        if copies {
            cx.count_copy(size);
        }
        c.reads += 1;
        let back = if large && cx.same_node(peer) { cx.take_ready(cell) } else { Payload::None };
        cx.arrive_empty(peer, layout.empty(c.slot, u32::from(at)), c.generation + 1, back);
        Ok(())
    }
}

fn fold<T: Element>(operator: &Operator<T>, combine: Combine, running: &mut Running<T>, bytes: &[u8]) {
    let one;
    let many;
    let incoming: &[T] = if let Running::One(_) = running {
        one = [bytemuck::pod_read_unaligned(bytes)];
        &one
    } else if let Ok(aligned) = bytemuck::try_cast_slice(bytes) {
        aligned
    } else {
        many = bytemuck::pod_collect_to_vec(bytes);
        &many
    };
    let running = running.as_mut_slice();
    match combine {
        Combine::IncomingIsHigher => operator.fold_higher(running, incoming),
        Combine::IncomingIsLower => operator.fold_lower(running, incoming),
        Combine::Replace => running.copy_from_slice(incoming),
    }
}

fn take<V: Clone + 'static>(value: Value<V>) -> Result<V, Error> {
    match value {
        Value::Now(v) => Ok(v),
        Value::Later(f) => f
            .peek(|outcome| outcome.cloned().map_err(Clone::clone))
            .unwrap_or_else(|| Err(Error::Stopped { what: "a collective's input".into() })),
    }
}

fn settle<T: 'static>(call: Call<T>, error: Error, cx: &mut ReplayCx<'_>) {
    match call {
        Call::One(_, out) => cx.resolve(out, Err(error)),
        Call::Many(_, out) => cx.resolve(out, Err(error)),
    }
}

impl<T: Element> Replay for Engine<T> {
    fn run(&mut self, chain: u32, cx: &mut ReplayCx<'_>) -> Result<Next, Box<Error>> {
        let State::Step(step, ..) = &mut self.chains[chain as usize].state else {
            let shard = self.schedule(chain).rank();
            self.take_input(chain, shard)?;
            return Ok(self.next(chain, cx));
        };
        let at = usize::from(*step);
        *step += 1;
        cx.count_subtask();
        match self.schedule(chain).steps()[at] {
            Step::Update { peer, at } => {
                #[cfg(feature = "plant")]
                let peer = if cx.planted(maniple_runtime::plant::Bug::WrongPartner) {
                    (peer + 1) % self.schedule(chain).participants()
                } else {
                    peer
                };
                self.update(chain, peer, at, cx);
            }
            Step::Read { peer, at, combine } => self.read(chain, peer, at, combine, cx)?,
        }
        Ok(self.next(chain, cx))
    }

    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        let schedule = self.schedule(chain).clone();
        let place = self.place(schedule.rank());
        let slot = self.slot(chain);
        let c = &mut self.chains[chain as usize];
        if matches!(c.state, State::Failed(_)) {
            return;
        }
        let error = Error::Poisoned { place, cause: Box::new(error.origin().clone()) };
        let generation = c.generation;
        let (updates, reads) = (u32::from(c.updates), u32::from(c.reads));
        match std::mem::replace(&mut c.state, State::Failed(error.clone())) {
            State::Input(call) => settle(call, error.clone(), cx),
            State::Step(_, _, Output::One(out)) => cx.resolve(out, Err(error.clone())),
            State::Step(_, _, Output::Many(out)) => cx.resolve(out, Err(error.clone())),
            State::Idle | State::Failed(_) => {}
        }
        for call in std::mem::take(&mut c.queued) {
            settle(call, error.clone(), cx);
        }
        // What this call has not done yet is owed in its generation, the rest in the next.
        let (mut update, mut read) = (0, 0);
        for step in schedule.steps() {
            match *step {
                Step::Update { peer, at } => {
                    let owed = generation + u64::from(update < updates);
                    cx.poison_ready(peer, self.layout.ready(slot, u32::from(at)), owed, &error);
                    update += 1;
                }
                Step::Read { peer, at, .. } => {
                    let owed = generation + 1 + u64::from(read < reads);
                    cx.poison_empty(peer, self.layout.empty(slot, u32::from(at)), owed, &error);
                    read += 1;
                }
            }
        }
    }

    fn doing(&self, chain: u32) -> Option<String> {
        let c = &self.chains[chain as usize];
        match &c.state {
            State::Idle => None,
            State::Failed(_) => Some("failed".into()),
            State::Input(_) => Some(format!("call {}, waiting for its input", c.generation)),
            State::Step(step, ..) => Some(format!(
                "call {} of slot {}, before step {step} of {}",
                c.generation,
                self.slot(chain),
                self.schedule(chain).steps().len()
            )),
        }
    }
}
