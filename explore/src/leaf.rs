//! The leaf tasks of a shard.

use crate::program::Op;
use crate::tasks::{digest, fold, set, three, update};
use crate::values::{folding, joined};
use crate::worker::{FIELDS, Worker};
use maniple::mapper::Priority;
use maniple::prelude::*;
use maniple::regions::Reduce;

/// The name of each task.
pub fn name(op: Op) -> &'static str {
    match op {
        Op::Digest(..) => "digest",
        Op::Set(..) => "set",
        Op::Update(..) => "update",
        Op::Fold(..) => "fold",
        Op::Mix(..) => "mix",
        Op::Three(..) => "three",
        Op::Far(..) => "far",
        Op::Atomic(..) => "atomic",
        Op::Fill(..) => "fill",
        Op::Copy(..) => "copy",
        Op::Join(..) => "join",
    }
}

impl Worker {
    /// Makes the number 19 after a task that returns nothing.
    fn nineteen(&self, after: &TaskFuture<()>) -> Result<TaskFuture<i64>, Error> {
        let tag = self.tag(None);
        let task = move |_: Arg<()>| {
            tag.goes_off();
            19
        };
        self.shard.launch(task, (after.into(),)).named("after").go()
    }

    pub fn leaf<const D: usize>(
        &self,
        op: Op,
        priority: Option<u8>,
        bomb: Option<u32>,
    ) -> Result<TaskFuture<i64>, Error> {
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
                let task = move |u: Read<i64, D>| {
                    tag.goes_off();
                    digest(&u, 1)
                };
                go!(task, (self.part::<D>(at)?.read(FIELDS[f]),))
            }
            Op::Set(f, at, k) => {
                let task = move |mut u: Write<i64, D>, k: Arg<i64>| {
                    tag.goes_off();
                    set(&mut u, *k);
                    *k
                };
                go!(task, (self.part::<D>(at)?.write(FIELDS[f]), self.number(k)))
            }
            Op::Update(f, at, k) => {
                let task = move |mut u: ReadWrite<i64, D>, k: Arg<i64>| {
                    tag.goes_off();
                    update(&mut u, *k)
                };
                go!(task, (self.part::<D>(at)?.read_write(FIELDS[f]), self.number(k)))
            }
            Op::Fold(f, at, operator, k) => {
                let task = move |mut u: Reduce<i64, D>, k: Arg<i64>| {
                    tag.goes_off();
                    fold(&mut u, *k);
                    3
                };
                go!(task, (self.part::<D>(at)?.reduce(FIELDS[f], folding(operator)), self.number(k)))
            }
            Op::Mix(f, from, into) => {
                let task = move |from: Read<i64, D>, mut into: ReadWrite<i64, D>| {
                    tag.goes_off();
                    let k = digest(&from, 4);
                    update(&mut into, k);
                    k
                };
                let (from, into) = (self.part::<D>(from)?, self.part::<D>(into)?);
                go!(task, (from.read(FIELDS[f]), into.read_write(FIELDS[(f + 1) % 3])))
            }
            Op::Three(f, swap, at, k) => {
                let task = move |a: Read<i64, D>, mut b: Reduce<i64, D>, mut c: Write<i64, D>, k: Arg<i64>| {
                    tag.goes_off();
                    three(&a, &mut b, &mut c, *k);
                    5
                };
                let (at, (g, h)) = (self.part::<D>(at)?, Op::others(f, swap));
                go!(
                    task,
                    (at.read(FIELDS[f]), at.reduce(FIELDS[g], Operator::sum()), at.write(FIELDS[h]), self.number(k))
                )
            }
            Op::Far(f, at) => {
                let at = at.of(self.shared.program.all()).rect::<D>();
                let far = self.shard.region(Region::new(self.args.far.tree, at))?;
                let task = move |u: Read<i64, D>| {
                    tag.goes_off();
                    digest(&u, 5)
                };
                go!(task, (far.read(FIELDS[f]),))
            }
            Op::Atomic(f, at, k) => {
                let task = move |mut u: ReadWrite<i64, D>, k: Arg<i64>| {
                    tag.goes_off();
                    update(&mut u, *k)
                };
                go!(task, (self.part::<D>(at)?.read_write(FIELDS[f]).atomic(), self.number(k)))
            }
            Op::Fill(f, at, value) => {
                let fill = self.shard.fill(self.part::<D>(at)?.write(FIELDS[f]), value).go()?;
                self.nineteen(&fill)
            }
            Op::Copy(f, at) => {
                let at = self.part::<D>(at)?;
                let copy = self.shard.copy(at.read(FIELDS[f]), at.write(FIELDS[(f + 1) % 3])).go()?;
                self.nineteen(&copy)
            }
            Op::Join(a, b) => {
                let task = move |a: Arg<i64>, b: Arg<i64>| {
                    tag.goes_off();
                    joined(*a, *b)
                };
                go!(task, (self.number(a), self.number(b)))
            }
        }
    }
}
