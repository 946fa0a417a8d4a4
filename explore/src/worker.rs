//! The shards of a program and their tasks.

use crate::judge::Outcome;
use crate::program::{
    BOARD, Failing, Number, Op, Part, Program, Step, TIMED_OUT, arrival, contribution, fresh, joined, updated,
};
use crate::run::mapper;
use crate::top::{Args, Shared, slot};
use maniple::barriers::{Phase, Waiter};
use maniple::prelude::*;
use maniple::runtime::{PhaseAddress, now};
use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

const A: Field<i64> = Field::new(0, "a");
const B: Field<i64> = Field::new(1, "b");
pub const FIELDS: [Field<i64>; 2] = [A, B];
pub const SLOT: Field<i64> = Field::new(0, "slot");

/// What the tasks are called.
pub fn name(op: Op) -> &'static str {
    match op {
        Op::Digest(..) => "digest",
        Op::Set(..) => "set",
        Op::Update(..) => "update",
        Op::Fold(..) => "fold",
        Op::Mix(..) => "mix",
        Op::Far(..) => "far",
        Op::Atomic(..) => "atomic",
        Op::Fill(..) => "fill",
        Op::Copy(..) => "copy",
        Op::Join(..) => "join",
    }
}
/// What a bomb says.
pub fn bomb(number: u32) -> String {
    format!("bomb {number}")
}
/// What a leaf task holds.
#[derive(Clone)]
pub struct Tag {
    pub _probe: Arc<()>,
    pub bomb: Option<u32>,
}

impl Tag {
    /// A panic that says nothing on stderr.
    pub fn goes_off(&self) {
        if let Some(bomb) = self.bomb {
            explode(bomb);
        }
    }
}

pub fn explode(bomb: u32) -> ! {
    resume_unwind(Box::new(self::bomb(bomb)))
}

pub fn digest(u: &Read<i64>, start: i64) -> i64 {
    u.as_slice().iter().fold(start, |sum, &v| joined(sum, v))
}

/// A number made from values that are shared and their order.
fn folded(u: &ReadShared<i64>, start: i64) -> i64 {
    let mut values = vec![0; (u.rect().hi(0) - u.rect().lo(0)) as usize];
    u.copy_to(&mut values);
    values.into_iter().fold(start, joined)
}

pub fn update(u: &mut ReadWrite<i64>, k: i64) -> i64 {
    let lo = u.rect().lo(0);
    let mut sum = 2;
    for (p, v) in (lo..).zip(u.as_mut_slice()) {
        sum = joined(sum, *v);
        *v = updated(*v, k, p);
    }
    sum
}

/// A shard at work.
struct Worker {
    shard: Shard,
    args: Args,
    shared: Arc<Shared>,
    whole: Local,
    values: Vec<TaskFuture<i64>>,
    seen: Vec<Outcome>,
}

pub async fn body(shard: Shard, args: Args, shared: Arc<Shared>) -> Result<Vec<Outcome>, Error> {
    let whole = shard.region(args.block)?;
    let mut worker = Worker { shard, args, shared: shared.clone(), whole, values: Vec::new(), seen: Vec::new() };
    worker.run(&shared.program).await?;
    Ok(worker.seen)
}

impl Worker {
    fn tag(&self, bomb: Option<u32>) -> Tag {
        Tag { _probe: self.shared.probe.clone(), bomb }
    }

    fn number(&self, n: Number) -> Value<i64> {
        match n {
            Number::Given(k) => k.into(),
            Number::Of(i) if self.values.is_empty() => (i as i64).into(),
            Number::Of(i) => (&self.values[i % self.values.len()]).into(),
        }
    }

    fn line(&self) -> (i64, i64) {
        (self.args.block.rect.lo(0), self.args.block.rect.hi(0))
    }

    fn local(&self, (lo, hi): (i64, i64)) -> Result<Local, Error> {
        self.shard.region(Region::new(self.args.block.tree, Rect::line(lo, hi)))
    }

    fn part(&self, part: Part) -> Result<Local, Error> {
        self.local(part.of(self.line()))
    }

    async fn run(&mut self, program: &Program) -> Result<(), Error> {
        let stage = &program.stages[self.args.stage];
        let (me, n) = (self.shard.index(), stage.shards);
        let from = (me + n - stage.distance % n) % n;
        let (to, from_pair) = (self.args.pairs.producer(&self.shard)?, self.args.pairs.consumer(&self.shard, from)?);
        let sum = (self.args.sum.arriver(&self.shard)?, self.args.sum.waiter(&self.shard)?);
        let barrier = (self.args.barrier.arriver(&self.shard)?, self.args.barrier.waiter(&self.shard)?);
        let [written, read] = self.args.turns;
        let written = (written.arriver(&self.shard)?, written.waiter(&self.shard)?);
        let read = (read.arriver(&self.shard)?, read.waiter(&self.shard)?);
        let never = self.args.never.waiter(&self.shard)?;
        // Of another launch, those before are over.
        let mut boards = 0;
        let own = self.shard.region(slot(self.args.slots, stage, me))?;
        let board = self.shard.region(self.args.board)?;
        let other = self.shard.region(slot(self.args.slots, stage, from))?;
        if stage.loads {
            for (f, field) in (0i64..).zip(FIELDS) {
                let tag = self.tag(None);
                let set = move |mut u: Write<i64>| {
                    tag.goes_off();
                    let lo = u.rect().lo(0);
                    u.write_with(|i| fresh(f, lo + i as i64));
                    f
                };
                self.values.push(self.shard.launch(set, (self.whole.write(field),)).named("load").go()?);
            }
        }
        for (at, step) in stage.steps.iter().enumerate() {
            match *step {
                Step::Leaf { shard, op, priority, bomb, detached } if shard == me => {
                    let value = self.leaf(op, priority, bomb)?;
                    self.values.extend((!detached).then_some(value));
                }
                Step::Index { shard, field, points, number, bomb, all } if shard == me => {
                    let parts = Program::points(self.line(), points);
                    let locals: Vec<Local> = parts.iter().map(|&p| self.local(p)).collect::<Result<_, _>>()?;
                    let tag = self.tag(bomb.map(|b| b.0));
                    let hit = bomb.map_or(usize::MAX, |b| b.1 as usize % parts.len());
                    let point = move |mut u: ReadWrite<i64>, k: Val<i64>, i: Val<usize>| {
                        if *i == hit {
                            tag.goes_off();
                        }
                        update(&mut u, *k)
                    };
                    let args = |i: usize| (locals[i].read_write(FIELDS[field]), self.number(number), i.into());
                    let map = self.index(locals.len(), point, args)?;
                    self.values.extend(map.iter().cloned());
                    if let Some(limit) = all {
                        match self.patiently(limit, async |limit| self.shard.within(limit, map.all()).await).await {
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
                            self.patiently(limit, async |limit| self.shard.within(limit, &mut value).await).await
                        }
                    };
                    self.seen.push(outcome);
                }
                Step::InVain { shard, limit } if shard == me => {
                    let wait = self.on_time(Duration::from_nanos(limit), async |limit| {
                        self.shard.within(limit, self.shard.wait(&never)).await
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
                    let put = move |mut u: WriteShared<i64>, k: Val<i64>| {
                        tag.goes_off();
                        let values: Vec<i64> = (0..u.rect().hi(0) - u.rect().lo(0)).map(|p| fresh(*k, p)).collect();
                        u.copy_from(&values);
                        *k
                    };
                    let put = self.shard.launch(put, (own.write_shared(SLOT), self.number(number))).named("put");
                    let put = put.wait(&to.empty).arrive(&to.ready).go()?;
                    self.values.push(put);
                    let there = if waits { self.waits(limit, &from_pair.ready).await } else { false };
                    let tag = self.tag(None);
                    let take = move |u: ReadShared<i64>| {
                        tag.goes_off();
                        folded(&u, 7)
                    };
                    let take = self.shard.launch(take, (other.read_shared(SLOT),)).named("take");
                    let take = if there { take } else { take.wait(&from_pair.ready) };
                    self.values.push(take.arrive(&from_pair.empty).go()?);
                }
                Step::Sum { limit } => {
                    self.shard.arrive_with(&sum.0, arrival(at, me));
                    let wait = async |limit| match limit {
                        Duration::MAX => self.shard.wait_value(&sum.1).await,
                        limit => self.shard.within(limit, self.shard.wait_value(&sum.1)).await,
                    };
                    let value = match limit {
                        None => wait(Duration::MAX).await,
                        Some(limit) => self.patiently(limit, wait).await,
                    };
                    let value = match value {
                        Ok(value) => TaskFuture::ready(value as i64),
                        // Whoever waits for a later one is told the same.
                        Err(_) => self.released(&sum.1)?,
                    };
                    self.values.push(value);
                }
                Step::Barrier { number, waits, limit, bomb } => {
                    let tag = self.tag(bomb.filter(|b| b.1 == me).map(|b| b.0));
                    let arrive = move |k: Val<i64>| {
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
                Step::Total { which, number } => {
                    let value = self.total(which, number, stage.totals[which].elements)?;
                    self.values.push(value);
                }
                Step::Swap { shard, mapper: chosen } if shard == me => self.shared.slot.replace(mapper(chosen)),
                Step::Board { number, bomb } => {
                    let tag = self.tag(bomb.filter(|b| b.1 == me).map(|b| b.0));
                    let lo = BOARD * i64::from(me);
                    let write = move |mut u: ReadWriteShared<i64>, k: Val<i64>| {
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
                        folded(&u, 13)
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
            // So that a later launch begins with a generation of its own.
            self.waits(None, &read.1).await;
        }
        for field in FIELDS {
            let tag = self.tag(None);
            let dump = move |u: Read<i64>| {
                tag.goes_off();
                digest(&u, 1)
            };
            self.values.push(self.shard.launch(dump, (self.whole.read(field),)).named("dump").go()?);
        }
        self.look().await;
        Ok(())
    }

    /// Awaits every value, and notes it.
    async fn look(&mut self) {
        for value in &self.values {
            self.seen.push(value.clone().await);
        }
        self.shared.record(self.args.launch, self.shard.index(), &self.seen);
    }

    /// An attempt that must not give up before its time.
    async fn on_time<T>(
        &self,
        limit: Duration,
        attempt: impl AsyncFnOnce(Duration) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let begun = now();
        let outcome = attempt(limit).await;
        let passed = now() - begun;
        let is_early = matches!(&outcome, Err(Error::TimedOut { .. }) if passed < limit);
        // No bomb, so that the shard's end is not what it must be.
        assert!(!is_early, "the time was over after {passed:?}, not after {limit:?}");
        outcome
    }

    /// Tries again and again, for longer and longer, until something is there.
    async fn patiently<T>(
        &self,
        limit: u64,
        mut attempt: impl AsyncFnMut(Duration) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut limit = Duration::from_nanos(limit);
        loop {
            match self.on_time(limit, &mut attempt).await {
                Err(Error::TimedOut { .. }) => {
                    *self.shared.time_outs.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    self.shard.yield_now().await;
                    limit = limit * 2 + Duration::from_nanos(500);
                }
                other => return other,
            }
        }
    }

    /// Whether the next generation of a barrier is over; false if it never is.
    async fn waits(&self, limit: Option<u64>, barrier: &impl maniple::runtime::Waitable) -> bool {
        match limit {
            None => self.shard.wait(barrier).await.is_ok(),
            Some(limit) => self
                .patiently(limit, async |limit| self.shard.within(limit, self.shard.wait(barrier)).await)
                .await
                .is_ok(),
        }
    }

    /// A number once the next generation of a barrier is over.
    fn released(&self, barrier: &Waiter<Phase, PhaseAddress>) -> Result<TaskFuture<i64>, Error> {
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
        F: maniple::runtime::Leaf<M, i64> + Clone,
    {
        self.shard.index_launch(points, function, args)
    }

    fn total(&self, which: usize, number: Number, elements: usize) -> Result<TaskFuture<i64>, Error> {
        let total = self.args.totals[which];
        let make = |tag: Tag| {
            move |k: Val<i64>| {
                tag.goes_off();
                contribution(*k, elements)
            }
        };
        let fold = |tag: Tag| {
            move |v: Val<Vec<i64>>| {
                tag.goes_off();
                v.iter().fold(11, |sum, &v| joined(sum, v))
            }
        };
        if elements == 1 {
            let make = make(self.tag(None));
            let own = self.shard.launch(move |k: Val<i64>| make(k)[0], (self.number(number),)).named("make").go()?;
            let result = total.call(&self.shard, &own)?;
            let fold = fold(self.tag(None));
            let fold = move |v: Val<i64>| fold(Val(vec![*v]));
            return self.shard.launch(fold, ((&result).into(),)).named("fold total").go();
        }
        let own = self.shard.launch(make(self.tag(None)), (self.number(number),)).named("make").go()?;
        let result = total.call_vec(&self.shard, &own)?;
        self.shard.launch(fold(self.tag(None)), ((&result).into(),)).named("fold total").go()
    }

    /// A number after a task that has none.
    fn nineteen(&self, after: &TaskFuture<()>) -> Result<TaskFuture<i64>, Error> {
        let tag = self.tag(None);
        let task = move |_: Val<()>| {
            tag.goes_off();
            19
        };
        self.shard.launch(task, (after.into(),)).named("after").go()
    }

    fn leaf(&self, op: Op, priority: Option<u8>, bomb: Option<u32>) -> Result<TaskFuture<i64>, Error> {
        let tag = self.tag(bomb);
        macro_rules! go {
            ($function:expr, $args:expr) => {{
                let launch = self.shard.launch($function, $args).named(name(op));
                match priority {
                    Some(p) => launch.priority(Priority(p)).go(),
                    None => launch.go(),
                }
            }};
        }
        match op {
            Op::Digest(f, at) => {
                let task = move |u: Read<i64>| {
                    tag.goes_off();
                    digest(&u, 1)
                };
                go!(task, (self.part(at)?.read(FIELDS[f]),))
            }
            Op::Set(f, at, k) => {
                let task = move |mut u: Write<i64>, k: Val<i64>| {
                    tag.goes_off();
                    let lo = u.rect().lo(0);
                    u.write_with(|i| fresh(*k, lo + i as i64));
                    *k
                };
                go!(task, (self.part(at)?.write(FIELDS[f]), self.number(k)))
            }
            Op::Update(f, at, k) => {
                let task = move |mut u: ReadWrite<i64>, k: Val<i64>| {
                    tag.goes_off();
                    update(&mut u, *k)
                };
                go!(task, (self.part(at)?.read_write(FIELDS[f]), self.number(k)))
            }
            Op::Fold(f, at, operator, k) => {
                macro_rules! fold {
                    ($reduction:ty) => {{
                        let task = move |mut u: Reduce<i64, $reduction>, k: Val<i64>| {
                            tag.goes_off();
                            for p in u.rect().points::<1>() {
                                u.fold(p, fresh(*k, p[0]));
                            }
                            3
                        };
                        go!(task, (self.part(at)?.reduce(FIELDS[f]), self.number(k)))
                    }};
                }
                match operator % 3 {
                    0 => fold!(Sum),
                    1 => fold!(Product),
                    _ => fold!(Max),
                }
            }
            Op::Mix(f, from, into) => {
                let task = move |from: Read<i64>, mut into: ReadWrite<i64>| {
                    tag.goes_off();
                    let k = digest(&from, 4);
                    update(&mut into, k);
                    k
                };
                let (from, into) = (self.part(from)?, self.part(into)?);
                go!(task, (from.read(FIELDS[f]), into.read_write(FIELDS[1 - f])))
            }
            Op::Far(f, at) => {
                let (lo, hi) = at.of((0, self.args.far.rect.hi(0)));
                let far = self.shard.region(Region::new(self.args.far.tree, Rect::line(lo, hi)))?;
                let task = move |u: Read<i64>| {
                    tag.goes_off();
                    digest(&u, 5)
                };
                go!(task, (far.read(FIELDS[f]),))
            }
            Op::Atomic(f, at, k) => {
                let task = move |mut u: ReadWrite<i64>, k: Val<i64>| {
                    tag.goes_off();
                    update(&mut u, *k)
                };
                go!(task, (self.part(at)?.read_write(FIELDS[f]).atomic(), self.number(k)))
            }
            Op::Fill(f, at, value) => {
                let fill = self.shard.fill(self.part(at)?.write(FIELDS[f]), value).go()?;
                self.nineteen(&fill)
            }
            Op::Copy(f, at) => {
                let at = self.part(at)?;
                let copy = self.shard.copy(at.read(FIELDS[f]), at.write(FIELDS[1 - f])).go()?;
                self.nineteen(&copy)
            }
            Op::Join(a, b) => {
                let task = move |a: Val<i64>, b: Val<i64>| {
                    tag.goes_off();
                    joined(*a, *b)
                };
                go!(task, (self.number(a), self.number(b)))
            }
        }
    }
}
