//! The shards of a program and their tasks.

use crate::area::{Area, AreaPart};
use crate::calls::{CallSide, Overs};
use crate::joint::Given;
use crate::judge::Outcome;
use crate::phases::Phase;
use crate::program::{BOARD, Failing, Number, Program, Stage, Step, TIMED_OUT};
use crate::run::mapper;
use crate::tasks::{Tag, bomb, digest, digest_shared, explode, set, update};
use crate::top::{Args, Shared, slot};
use crate::values::{arrival, fresh, joined, updated};
use maniple::prelude::*;
use maniple::regions::{ReadShared, ReadWriteShared, WriteShared};
use maniple::runtime::FutureMap;
use maniple::runtime::{PhaseArriver, PhaseWaiter, now};
use std::sync::Arc;
use std::time::Duration;

const A: Field<i64> = Field::new(0, "a");
const B: Field<i64> = Field::new(1, "b");
const C: Field<i64> = Field::new(2, "c");
pub const FIELDS: [Field<i64>; 3] = [A, B, C];
pub const SLOT: Field<i64> = Field::new(0, "slot");

/// A shard at work.
pub struct Worker {
    pub shard: Shard,
    pub args: Args,
    pub shared: Arc<Shared>,
    whole: RegionView,
    pub values: Vec<TaskFuture<i64>>,
    pub overs: Overs,
    pub seen: Vec<Outcome>,
}

pub async fn body<const D: usize>(shard: Shard, args: Args, shared: Arc<Shared>) -> Result<Vec<Outcome>, Error> {
    let whole = shard.region(args.block)?;
    let overs = args.joints.iter().map(|_| Default::default()).collect();
    let mut worker = Worker { shard, args, shared: shared.clone(), whole, values: Vec::new(), overs, seen: Vec::new() };
    worker.run::<D>(&shared.program).await?;
    Ok(worker.seen)
}

impl Worker {
    pub fn tag(&self, bomb: Option<u32>) -> Tag {
        Tag { _probe: self.shared.probe.clone(), bomb }
    }

    pub fn number(&self, n: Number) -> Input<i64> {
        match n {
            Number::Given(k) => k.into(),
            Number::Of(i) if self.values.is_empty() => (i as i64).into(),
            Number::Of(i) => (&self.values[i % self.values.len()]).into(),
        }
    }

    fn block(&self) -> Area {
        self.shared.program.block(self.args.stage, self.shard.index())
    }

    fn local<const D: usize>(&self, at: Area) -> Result<RegionView, Error> {
        self.shard.region(Region::new(self.args.block.tree, at.rect::<D>()))
    }

    pub fn part<const D: usize>(&self, part: AreaPart) -> Result<RegionView, Error> {
        self.local::<D>(part.of(self.block()))
    }

    async fn run<const D: usize>(&mut self, program: &Program) -> Result<(), Error> {
        let stage = &program.stages[self.args.stage];
        let me = self.shard.index();
        let to = self.args.pairs.producer(&self.shard, stage.to[me as usize])?;
        let mut producers = Vec::new();
        for from in stage.producers(me) {
            producers.push((from, self.args.pairs.consumer(&self.shard, from)?));
        }
        let mut phases = Vec::new();
        for (phase, barrier) in stage.phases.iter().zip(&self.args.phases) {
            let arriver = phase.row(me).map(|_| barrier.arriver(&self.shard)).transpose()?;
            let waiter = phase.waiters.contains(&me).then(|| barrier.waiter(&self.shard)).transpose()?;
            phases.push((arriver, waiter));
        }
        let sum = (self.args.sum.arriver(&self.shard)?, self.args.sum.waiter(&self.shard)?);
        let barrier = (self.args.barrier.arriver(&self.shard)?, self.args.barrier.waiter(&self.shard)?);
        let [written, read] = self.args.turns;
        let written = (written.arriver(&self.shard)?, written.waiter(&self.shard)?);
        let read = (read.arriver(&self.shard)?, read.waiter(&self.shard)?);
        let never = self.args.never.waiter(&self.shard)?;
        // In a later launch, earlier generations have ended.
        let mut boards = 0;
        let board = self.shard.region(self.args.board)?;
        if stage.loads {
            for (f, field) in (0i64..).zip(FIELDS) {
                let tag = self.tag(None);
                let load = move |mut u: Write<i64, D>| {
                    tag.goes_off();
                    set(&mut u, f);
                    f
                };
                self.values.push(self.shard.launch(load, (self.whole.write(field),)).named("load").go()?);
            }
        }
        for (at, step) in stage.steps.iter().enumerate() {
            match *step {
                Step::Leaf { shard, op, priority, bomb, detached } if shard == me => {
                    let value = self.leaf::<D>(op, priority, bomb)?;
                    self.values.extend((!detached).then_some(value));
                }
                Step::Index { shard, field, points, looks, number, bomb, all } if shard == me => {
                    let parts = Program::points(self.block(), points, looks);
                    let locals: Vec<RegionView> =
                        parts.iter().map(|&p| self.local::<D>(p)).collect::<Result<_, _>>()?;
                    let tag = self.tag(bomb.map(|b| b.0));
                    let hit = bomb.map_or(usize::MAX, |b| b.1 as usize % parts.len());
                    let goes_off = move |i: usize| {
                        if i == hit {
                            tag.goes_off();
                        }
                    };
                    let map = if looks {
                        let point = move |u: Read<i64, D>, _: Arg<i64>, i: Arg<usize>| {
                            goes_off(*i);
                            digest(&u, 2)
                        };
                        let args = |i: usize| (locals[i].read(FIELDS[field]), self.number(number), i.into());
                        self.index(locals.len(), point, args)?
                    } else {
                        let point = move |mut u: ReadWrite<i64, D>, k: Arg<i64>, i: Arg<usize>| {
                            goes_off(*i);
                            update(&mut u, *k)
                        };
                        let args = |i: usize| (locals[i].read_write(FIELDS[field]), self.number(number), i.into());
                        self.index(locals.len(), point, args)?
                    };
                    self.values.extend(map.iter().cloned());
                    if let Some(limit) = all {
                        match self.patiently(limit, async |limit| self.shard.timeout(limit, map.all()).await).await {
                            Ok(values) => self.seen.extend(values.into_iter().map(Ok)),
                            Err(e) => self.seen.extend(map.iter().map(|_| Err(e.clone()))),
                        }
                    }
                }
                Step::Await { shard, value, limit } if shard == me && !self.values.is_empty() => {
                    let mut value = self.values[value % self.values.len()].clone();
                    let outcome = match limit {
                        None => value.await,
                        Some(limit) => {
                            self.patiently(limit, async |limit| self.shard.timeout(limit, &mut value).await).await
                        }
                    };
                    self.seen.push(outcome);
                }
                Step::InVain { shard, limit } if shard == me => {
                    let wait = self.on_time(Duration::from_nanos(limit), async |limit| {
                        self.shard.timeout(limit, self.shard.wait(&never)).await
                    });
                    self.seen.push(match wait.await {
                        Ok(()) => Ok(0),
                        Err(Error::TimedOut { .. }) => Ok(TIMED_OUT),
                        Err(e) => Err(e),
                    });
                }
                Step::Yield { shard } if shard == me => self.shard.yield_now().await,
                Step::Exchange { number, waits, limit, bomb } => {
                    let tag = self.tag(bomb.filter(|b| b.1 == me).map(|b| b.0));
                    let generation = to.ready().generation();
                    // Every other value travels with its arrival, unless shards wait themselves.
                    if !waits && generation % 2 == 1 {
                        let put = move |mut out: Put<i64>, k: Arg<i64>| {
                            tag.goes_off();
                            (0..).zip(out.iter_mut()).for_each(|(p, value)| *value = fresh(*k, p));
                            *k
                        };
                        let args = (to.put(stage.width as usize), self.number(number));
                        self.values.push(self.shard.launch(put, args).named("put").go()?);
                        for (_, pair) in &producers {
                            let tag = self.tag(None);
                            let take = move |came: Get<i64>| {
                                tag.goes_off();
                                came.iter().fold(7, |sum, value| joined(sum, *value))
                            };
                            self.values.push(self.shard.launch(take, (pair.get(),)).named("take").go()?);
                        }
                        continue;
                    }
                    let put = move |mut u: WriteShared<i64>, k: Arg<i64>| {
                        tag.goes_off();
                        let values: Vec<i64> = (0..u.rect().hi(0) - u.rect().lo(0)).map(|p| fresh(*k, p)).collect();
                        u.copy_from(&values);
                        *k
                    };
                    let own = self.buffer(stage, me, generation)?;
                    let put = self.shard.launch(put, (own.write_shared(SLOT), self.number(number))).named("put");
                    let put = put.wait(to.empty()).arrive(to.ready()).go()?;
                    self.values.push(put);
                    let mut there = Vec::new();
                    for (from, pair) in &producers {
                        let buffer = self.buffer(stage, *from, pair.ready().generation())?;
                        there.push((buffer, waits && self.waits(limit, pair.ready()).await));
                    }
                    for ((buffer, there), (_, pair)) in there.into_iter().zip(&producers) {
                        let tag = self.tag(None);
                        let take = move |u: ReadShared<i64>| {
                            tag.goes_off();
                            digest_shared(&u, 7)
                        };
                        let take = self.shard.launch(take, (buffer.read_shared(SLOT),)).named("take");
                        let take = if there { take } else { take.wait(pair.ready()) };
                        self.values.push(take.arrive(pair.empty()).go()?);
                    }
                }
                Step::Arrive { shard, phase, number, own, bomb } if shard == me => {
                    if let Some(arriver) = &phases[phase].0 {
                        self.arrive(stage, phase, arriver, number, own, bomb).await?;
                    }
                }
                Step::Wait { shard, phase, own, limit } if shard == me => {
                    if let Some(waiter) = &phases[phase].1 {
                        self.wait(stage, phase, waiter, own, limit).await?;
                    }
                }
                Step::Forget { shard, phase } if shard == me => phases[phase].0.iter().for_each(|a| _ = a.take()),
                Step::Overrun { shard, phase } => {
                    let last = program.overrun().map_or(0, |(_, refused)| *refused.end());
                    if let (Some(arriver), true) = (&phases[phase].0, shard == me) {
                        (arriver.generation()..=last).for_each(|_| self.shard.arrive(arriver));
                    }
                    // The refused arrival never comes, and its waiters get the error.
                    if let Some(waiter) = &phases[phase].1 {
                        waiter.seek(last);
                        self.shard.wait(waiter).await.expect_err("an arrival was refused");
                    }
                }
                Step::Sum { limit } => {
                    self.shard.arrive_with(&sum.0, arrival(at, me));
                    let wait = async |limit| match limit {
                        Duration::MAX => self.shard.wait_value(&sum.1).await,
                        limit => self.shard.timeout(limit, self.shard.wait_value(&sum.1)).await,
                    };
                    let value = match limit {
                        None => wait(Duration::MAX).await,
                        Some(limit) => self.patiently(limit, wait).await,
                    };
                    let value = match value {
                        Ok(value) => TaskFuture::ready(value as i64),
                        // Waiters for a later generation get the same error.
                        Err(_) => self.released(&sum.1)?,
                    };
                    self.values.push(value);
                }
                Step::Barrier { number, waits, limit, bomb } => {
                    let tag = self.tag(bomb.filter(|b| b.1 == me).map(|b| b.0));
                    let arrive = move |k: Arg<i64>| {
                        tag.goes_off();
                        *k
                    };
                    let arrive = self.shard.launch(arrive, (self.number(number),)).named("arrive");
                    let arrive = arrive.arrive(&barrier.0).go()?;
                    self.values.push(arrive);
                    let over = waits && self.waits(limit, &barrier.1).await;
                    let value = if over { TaskFuture::ready(17) } else { self.released(&barrier.1)? };
                    self.values.push(value);
                }
                Step::Call { which, number, bomb, given, taken } => {
                    let bomb = bomb.filter(|b| b.1 == me).map(|b| b.0);
                    self.join(&stage.joints[which], which, CallSide::Call(taken), (number, bomb, given)).await?;
                }
                Step::Contribute { which, number, bomb, given } => {
                    let bomb = bomb.filter(|b| b.1 == me).map(|b| b.0);
                    self.join(&stage.joints[which], which, CallSide::Contribute, (number, bomb, given)).await?;
                }
                Step::Receive { which, taken } => {
                    let none = (Number::Given(0), None, Given::default());
                    self.join(&stage.joints[which], which, CallSide::Receive(taken), none).await?;
                }
                Step::Swap { shard, mapper: chosen } if shard == me => {
                    self.shared.slot.replace(mapper(chosen));
                }
                Step::Board { number, bomb } => {
                    let tag = self.tag(bomb.filter(|b| b.1 == me).map(|b| b.0));
                    let lo = BOARD * i64::from(me);
                    let write = move |mut u: ReadWriteShared<i64>, k: Arg<i64>| {
                        tag.goes_off();
                        for p in lo..lo + BOARD {
                            u.set([p], updated(u.get([p]), *k, p));
                        }
                        *k
                    };
                    let write = self.shard.launch(write, (board.read_write_shared(SLOT), self.number(number)));
                    let write = if boards > 0 { write.wait(&read.1) } else { write };
                    self.values.push(write.named("board").arrive(&written.0).go()?);
                    let tag = self.tag(None);
                    let look = move |u: ReadShared<i64>| {
                        tag.goes_off();
                        digest_shared(&u, 13)
                    };
                    let look = self.shard.launch(look, (board.read_shared(SLOT),)).named("look");
                    self.values.push(look.wait(&written.1).arrive(&read.0).go()?);
                    boards += 1;
                }
                Step::Crash { shard, bomb: number, how } if shard == me => {
                    self.look().await;
                    match how {
                        Failing::Panics => explode(number),
                        Failing::Returns => return Err(Error::user(bomb(number))),
                    }
                }
                _ => {}
            }
        }
        if boards > 0 {
            // A later launch must begin with a generation of its own.
            self.waits(None, &read.1).await;
        }
        for field in FIELDS {
            let tag = self.tag(None);
            let dump = move |u: Read<i64, D>| {
                tag.goes_off();
                digest(&u, 1)
            };
            self.values.push(self.shard.launch(dump, (self.whole.read(field),)).named("dump").go()?);
        }
        self.look().await;
        Ok(())
    }

    fn buffer(&self, stage: &Stage, of: u32, generation: u64) -> Result<RegionView, Error> {
        let slot = slot(self.args.slots, stage, of);
        let lo = slot.rect.lo(0) + (generation % stage.buffers) as i64 * stage.width;
        self.shard.region(Region::new(slot.tree, Rect::line(lo, lo + stage.width)))
    }

    /// Writes a number for the waiters of a phase, and arrives.
    async fn arrive(
        &mut self,
        stage: &Stage,
        phase: usize,
        arriver: &PhaseArriver,
        number: Number,
        own: bool,
        bomb: Option<u32>,
    ) -> Result<(), Error> {
        let Phase { arrivers, fold, .. } = &stage.phases[phase];
        let row = stage.phases[phase].row(self.shard.index()).unwrap_or(0);
        let at = stage.marks(phase).0 + (arriver.generation() as usize * arrivers.len() + row) as i64;
        let cell = self.shard.region(Region::new(self.args.marks.tree, Rect::line(at, at + 1)))?;
        let tag = self.tag(bomb);
        let mark = move |mut u: WriteShared<i64>, k: Arg<i64>| {
            tag.goes_off();
            u.fill(*k);
            *k
        };
        let value: Input<i64> = if own { number.known().into() } else { self.number(number) };
        let mark = self.shard.launch(mark, (cell.write_shared(SLOT), value)).named("mark");
        if !own {
            self.values.push(mark.arrive(arriver).go()?);
            return Ok(());
        }
        let value = mark.go()?;
        value.clone().await?;
        match fold {
            Some(_) => self.shard.arrive_with(arriver, number.known() as u64),
            None => self.shard.arrive(arriver),
        }
        self.values.push(value);
        Ok(())
    }

    /// Reads the numbers written for a phase up to its next generation.
    async fn wait(
        &mut self,
        stage: &Stage,
        phase: usize,
        waiter: &PhaseWaiter,
        own: bool,
        limit: Option<u64>,
    ) -> Result<(), Error> {
        let Phase { arrivers, fold, .. } = &stage.phases[phase];
        let generation = waiter.generation();
        let lo = stage.marks(phase).0;
        let rect = Rect::line(lo, lo + (generation as i64 + 1) * arrivers.len() as i64);
        let marks = self.shard.region(Region::new(self.args.marks.tree, rect))?;
        let mut over = None;
        if own {
            let wait = async |limit| match (fold, limit) {
                (Some(_), Duration::MAX) => self.shard.wait_value(waiter).await,
                (Some(_), limit) => self.shard.timeout(limit, self.shard.wait_value(waiter)).await,
                (None, Duration::MAX) => self.shard.wait(waiter).await.map(|()| 0),
                (None, limit) => self.shard.timeout(limit, self.shard.wait(waiter)).await.map(|()| 0),
            };
            over = match limit {
                None => wait(Duration::MAX).await.ok(),
                Some(limit) => self.patiently(limit, wait).await.ok(),
            };
        }
        let tag = self.tag(None);
        let look = move |u: ReadShared<i64>| {
            tag.goes_off();
            digest_shared(&u, 23)
        };
        let look = self.shard.launch(look, (marks.read_shared(SLOT),)).named("look");
        // A second wait for a failed generation gets the same error.
        waiter.seek(generation);
        let look = if over.is_some() { look } else { look.wait(waiter) };
        self.values.push(look.go()?);
        if own && fold.is_some() {
            let value = match over {
                Some(value) => TaskFuture::ready(value as i64),
                None => {
                    waiter.seek(generation);
                    self.released(waiter)?
                }
            };
            self.values.push(value);
        }
        waiter.seek(generation + 1);
        Ok(())
    }

    /// Awaits every value and notes it.
    async fn look(&mut self) {
        for value in &self.values {
            self.seen.push(value.clone().await);
        }
        self.shared.record(self.args.launch, self.shard.index(), &self.seen);
    }

    /// Makes an attempt, which must not give up before its deadline.
    async fn on_time<T>(
        &self,
        limit: Duration,
        attempt: impl AsyncFnOnce(Duration) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let begun = now();
        let outcome = attempt(limit).await;
        let passed = now() - begun;
        let is_early = matches!(&outcome, Err(Error::TimedOut { .. }) if passed < limit);
        // This is no bomb, so the judge sees a wrong end of the shard.
        assert!(!is_early, "the deadline was over after {passed:?}, expected {limit:?}");
        outcome
    }

    /// Tries again, with a longer deadline each time, until the value comes.
    pub async fn patiently<T>(
        &self,
        limit: u64,
        mut attempt: impl AsyncFnMut(Duration) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut limit = Duration::from_nanos(limit);
        loop {
            match self.on_time(limit, &mut attempt).await {
                Err(Error::TimedOut { .. }) => {
                    self.shared.seen().time_outs += 1;
                    self.shard.yield_now().await;
                    limit = limit * 2 + Duration::from_nanos(500);
                }
                other => return other,
            }
        }
    }

    /// Waits for the next generation of a barrier. Returns false if it never completes.
    async fn waits(&self, limit: Option<u64>, barrier: &impl maniple::runtime::Waitable) -> bool {
        match limit {
            None => self.shard.wait(barrier).await.is_ok(),
            Some(limit) => self
                .patiently(limit, async |limit| self.shard.timeout(limit, self.shard.wait(barrier)).await)
                .await
                .is_ok(),
        }
    }

    /// Makes a number when the next generation of a barrier ends.
    fn released(&self, barrier: &PhaseWaiter) -> Result<TaskFuture<i64>, Error> {
        let tag = self.tag(None);
        let waits = move || {
            tag.goes_off();
            17
        };
        self.shard.launch(waits, ()).named("released").wait(barrier).go()
    }

    fn index<F, M: 'static>(
        &self,
        points: usize,
        function: F,
        args: impl Fn(usize) -> F::Args,
    ) -> Result<FutureMap<i64>, Error>
    where
        F: maniple::runtime::Leaf<M, Output = i64> + Clone,
    {
        self.shard.index_launch(points, function, args).go()
    }
}
