//! The collectives of a stage and their calls, as the framework has them.

use crate::joint::{Given, IDENTITY, Joint, OperatorKind, Shape, Sizes, Taken, Taking, between};
use crate::judge::Outcome;
use crate::program::{Number, Stage};
use crate::values::{composed, contribution, joined};
use crate::worker::Worker;
use maniple::collectives::{Algorithm, CollectiveBuilder, Contribution, Kind, OfOne, Order, Plan, Ranks, Value};
use maniple::prelude::*;
use maniple::regions::{Element, Vector};
use maniple::runtime::FutureMap;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

/// A collective, by the types of what is contributed and received.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Made {
    Nothing(Collective<()>),
    One(Collective<i64>),
    Many(Collective<[i64]>),
    OneToMany(Collective<i64, [i64]>),
    ManyToOne(Collective<[i64], i64>),
}

/// The builders of collectives, by their types, each with its name.
#[derive(Default)]
struct Builders {
    nothing: Vec<(String, CollectiveBuilder<()>)>,
    one: Vec<(String, CollectiveBuilder<i64>)>,
    many: Vec<(String, CollectiveBuilder<[i64]>)>,
    one_to_many: Vec<(String, CollectiveBuilder<i64, [i64]>)>,
    many_to_one: Vec<(String, CollectiveBuilder<[i64], i64>)>,
}

/// Makes the collectives of a stage: one after the other, or as one plan.
pub fn make(top: &Top, gang: &Gang, stage: &Stage) -> Result<Vec<Made>, Error> {
    let mut made = Vec::new();
    if !stage.planned {
        for (at, joint) in stage.joints.iter().enumerate() {
            let mut one = Builders::default();
            one.add(at, joint);
            made.extend(one.nothing.pop().map(|(name, b)| b.make(top, gang, &name)).transpose()?.map(Made::Nothing));
            made.extend(one.one.pop().map(|(name, b)| b.make(top, gang, &name)).transpose()?.map(Made::One));
            made.extend(one.many.pop().map(|(name, b)| b.make(top, gang, &name)).transpose()?.map(Made::Many));
            let one_to_many = one.one_to_many.pop().map(|(name, b)| b.make(top, gang, &name)).transpose()?;
            made.extend(one_to_many.map(Made::OneToMany));
            let many_to_one = one.many_to_one.pop().map(|(name, b)| b.make(top, gang, &name)).transpose()?;
            made.extend(many_to_one.map(Made::ManyToOne));
        }
        return Ok(made);
    }
    let mut all = Builders::default();
    stage.joints.iter().enumerate().for_each(|(at, joint)| all.add(at, joint));
    let Builders { nothing, one, many, one_to_many, many_to_one } = all;
    let plan = Plan::make(top, gang, (nothing, one, many, one_to_many, many_to_one))?;
    let (nothing, one, many, one_to_many, many_to_one) = plan.collectives;
    let mut nothing = nothing.into_iter().map(Made::Nothing);
    let mut one = one.into_iter().map(Made::One);
    let mut many = many.into_iter().map(Made::Many);
    let mut one_to_many = one_to_many.into_iter().map(Made::OneToMany);
    let mut many_to_one = many_to_one.into_iter().map(Made::ManyToOne);
    // Each type has kept its order.
    made.extend(stage.joints.iter().filter_map(|joint| match joint.shape() {
        Shape::Nothing => nothing.next(),
        Shape::One => one.next(),
        Shape::Many => many.next(),
        Shape::OneToMany => one_to_many.next(),
        Shape::ManyToOne => many_to_one.next(),
    }));
    Ok(made)
}

impl Builders {
    fn add(&mut self, at: usize, joint: &Joint) {
        let name = format!("collective {at}");
        let [from, to] = [&joint.contributors, &joint.receivers].map(|set| Ranks::of(set.iter().copied()));
        if joint.kind == Kind::Barrier {
            let barrier = Collective::barrier().participants(from.iter()).receivers(to.iter());
            return self.nothing.push((name, options(joint, barrier)));
        }
        let builder = Collective::of_kind(joint.kind, from, to, (operator(joint.operator), IDENTITY));
        let builder = match &joint.sizes {
            Sizes::One => builder,
            Sizes::Each(n) => builder.elements(*n),
            Sizes::Any => builder.any_sizes(),
            Sizes::Blocks(sizes) if joint.kind == Kind::AllToAll => {
                let sizes = sizes.clone();
                builder.sizes_between(move |from, to| between(&sizes, from as usize, to as usize))
            }
            Sizes::Blocks(sizes) => {
                let of = if joint.kind == Kind::Gather { &joint.contributors } else { &joint.receivers };
                builder.sizes(of.iter().map(|&s| sizes[s as usize]))
            }
        };
        match joint.sizes {
            Sizes::One => match builder.of_one() {
                OfOne::One(builder) => self.one.push((name, options(joint, builder))),
                OfOne::OneToMany(builder) => self.one_to_many.push((name, options(joint, builder))),
                OfOne::ManyToOne(builder) => self.many_to_one.push((name, options(joint, builder))),
                OfOne::Many(builder) => self.many.push((name, options(joint, builder))),
            },
            _ => self.many.push((name, options(joint, builder))),
        }
    }
}

/// Sets the options. What is the default is not said.
fn options<I, O>(joint: &Joint, builder: CollectiveBuilder<I, O>) -> CollectiveBuilder<I, O>
where
    I: Value + ?Sized,
    O: Value<Element = I::Element> + ?Sized,
{
    let builder = builder.slots(joint.slots).algorithm(joint.algorithm);
    match (joint.left, joint.algorithm) {
        (true, _) => builder.order(Order::Left),
        // Its operators may not have declared what they obey.
        (false, Some(Algorithm::TwoLevel)) => builder.order(Order::Any),
        (false, _) => builder,
    }
}

fn operator(kind: OperatorKind) -> Operator<i64> {
    match kind {
        OperatorKind::Sum => Operator::sum(),
        OperatorKind::Max => Operator::max(),
        OperatorKind::Composition => Operator::user("compose", |a: &i64, b: &i64| composed(*a, *b)),
        OperatorKind::Associative => Operator::user("compose", |a: &i64, b: &i64| composed(*a, *b)).associative(),
        OperatorKind::Digits => Operator::user("digits", |a: &i64, b: &i64| joined(*a, *b)),
    }
}

/// What shards do for a collective in a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CallSide {
    Call(Taken),
    Contribute,
    Receive(Taken),
}

/// What a shard contributes: its number, the bomb of the task that makes a value of it, and how.
type Gives = (Number, Option<u32>, Given);

impl Worker {
    /// The shard's part in a step of a collective.
    pub async fn join(&mut self, joint: &Joint, which: usize, side: CallSide, gives: Gives) -> Result<(), Error> {
        let (number, bomb, given) = gives;
        let from = joint.contributors.iter().position(|&s| s == self.shard.index());
        let elements = from.map_or(0, |from| joint.elements(from, given));
        let in_blocks = from.filter(|_| joint.gives_blocks(self.shard.index(), given));
        let gives = from.is_some() && !matches!(side, CallSide::Receive(_));
        let tag = self.tag(bomb);
        // A number that is known needs no task.
        let known = match number {
            Number::Given(k) if bomb.is_none() => Some(k),
            _ => None,
        };
        let one = |worker: &Self| {
            let make = move |k: Arg<i64>| {
                tag.goes_off();
                contribution(*k, 1)[0]
            };
            match known {
                Some(k) => Ok(contribution(k, 1)[0].into()),
                None => worker.made(make, number),
            }
        };
        let tag = self.tag(bomb);
        let many = |worker: &mut Self| {
            if let Some(from) = in_blocks {
                return worker.in_blocks(joint, from, (number, bomb, given));
            }
            let make = move |k: Arg<i64>| {
                tag.goes_off();
                contribution(*k, elements)
            };
            match known {
                Some(k) => Ok(contribution(k, elements).into()),
                None => worker.made(make, number),
            }
        };
        let tag = self.tag(bomb);
        let nothing = |worker: &Self| match known {
            Some(_) => Ok(().into()),
            None => worker.made(move |_: Arg<i64>| tag.goes_off(), number),
        };
        let of = (joint, which, side);
        match self.args.joints[which] {
            Made::Nothing(made) => {
                let input = gives.then(|| nothing(self)).transpose()?;
                self.take_part(of, made, input, |()| 11, |sum, _| sum).await
            }
            Made::One(made) => {
                let input = gives.then(|| one(self)).transpose()?;
                self.take_part(of, made, input, |v| joined(11, *v), digest).await
            }
            Made::Many(made) => {
                let input = gives.then(|| many(self)).transpose()?;
                self.take_part(of, made, input, |v| digest(11, v), digest).await
            }
            Made::OneToMany(made) => {
                let input = gives.then(|| one(self)).transpose()?;
                self.take_part(of, made, input, |v| digest(11, v), digest).await
            }
            Made::ManyToOne(made) => {
                let input = gives.then(|| many(self)).transpose()?;
                self.take_part(of, made, input, |v| joined(11, *v), digest).await
            }
        }
    }

    /// A contribution in blocks. Unless its number is known, tasks make them, of which one may panic.
    fn in_blocks(
        &mut self,
        joint: &Joint,
        from: usize,
        (number, bomb, given): Gives,
    ) -> Result<Contribution<[i64]>, Error> {
        let elements = joint.elements(from, given);
        let mut blocks = Vec::new();
        for to in 0..joint.blocks() {
            let start = blocks.last().map_or(0, |last: &Range<usize>| last.end);
            blocks.push(start..start + joint.block(from, to, given));
        }
        if let (Number::Given(k), None) = (number, bomb) {
            let all = contribution(k, elements);
            return Ok(Contribution::in_blocks(blocks.into_iter().map(|block| all[block].to_vec())));
        }
        let hit = usize::from(given.hit) % blocks.len();
        let mut made = Vec::new();
        for (at, block) in blocks.into_iter().enumerate() {
            let tag = self.tag(bomb.filter(|_| at == hit));
            let make = move |k: Arg<i64>| {
                tag.goes_off();
                contribution(*k, elements)[block.clone()].to_vec()
            };
            made.push(self.shard.launch(make, (self.number(number),)).named("make").go()?);
        }
        if bomb.is_some() {
            // The part that it becomes is another shard's, and somebody here has to learn of the failure.
            let tag = self.tag(None);
            let look = move |block: Arg<Vec<i64>>| {
                tag.goes_off();
                digest(11, &block)
            };
            self.values.push(self.shard.launch(look, ((&made[hit]).into(),)).named("look at block").go()?);
        }
        Ok(made.into_iter().collect::<FutureMap<Vec<i64>>>().into())
    }

    /// A contribution that a task makes.
    fn made<V, F, M: 'static>(&self, make: F, number: Number) -> Result<Contribution<V>, Error>
    where
        V: Value + ?Sized,
        F: maniple::runtime::Leaf<M, Args = (Input<i64>,)>,
        Contribution<V>: for<'a> From<&'a TaskFuture<F::Output>>,
    {
        Ok((&self.shard.launch(make, (self.number(number),)).named("make").go()?).into())
    }

    async fn take_part<T: Element, I, O>(
        &mut self,
        (joint, which, side): (&Joint, usize, CallSide),
        made: Collective<I, O>,
        input: Option<Contribution<I>>,
        digest: fn(&O::Own) -> i64,
        add: fn(i64, &[T]) -> i64,
    ) -> Result<(), Error>
    where
        I: Value<Element = T> + ?Sized,
        O: Value<Element = T, Own: Send> + ?Sized,
    {
        let (me, split) = (self.shard.index(), matches!(side, CallSide::Receive(_)));
        let gets = joint.gets(me);
        let (taking, limit) = match &side {
            CallSide::Call(taken) | CallSide::Receive(taken) => (joint.taking(me, taken, split), taken.limit),
            CallSide::Contribute => (Taking::Whole, None),
        };
        let (mut result, mut parts, mut over) = (None, None, None);
        match (side, input) {
            (CallSide::Call(_), Some(input)) if taking != Taking::Whole => {
                parts = Some(made.call_parts(&self.shard, input)?);
            }
            (CallSide::Call(_), Some(input)) if gets => result = Some(made.call(&self.shard, input)?),
            (CallSide::Call(_), Some(input)) => over = Some(made.contribute(&self.shard, input)?),
            (CallSide::Contribute, Some(input)) => {
                let over = made.contribute(&self.shard, input)?;
                self.overs[which].push_back(over);
            }
            (CallSide::Call(_) | CallSide::Receive(_), _) => {
                match taking {
                    Taking::Whole => result = gets.then(|| made.receive(&self.shard)).transpose()?,
                    _ => parts = Some(made.receive_parts(&self.shard)?),
                }
                over = if split { self.overs[which].pop_front() } else { None };
            }
            (CallSide::Contribute, None) => {}
        }
        if let Some(parts) = parts {
            self.take_parts(joint, (taking, limit), parts, add).await?;
        }
        if let Some(result) = result {
            let tag = self.tag(None);
            let fold = move |v: Arg<O::Own>| {
                tag.goes_off();
                digest(&v)
            };
            self.values.push(self.shard.launch(fold, ((&result).into(),)).named("fold result").go()?);
        }
        match over {
            Some(over) if joint.tells => {
                let tag = self.tag(None);
                let over_then = move |_: Arg<()>| {
                    tag.goes_off();
                    1
                };
                self.values.push(self.shard.launch(over_then, ((&over).into(),)).named("part over").go()?);
            }
            Some(over) => over.detach(),
            None => {}
        }
        Ok(())
    }

    /// Takes a result in parts. `add` adds elements to a number made of those before.
    async fn take_parts<T: Element>(
        &mut self,
        joint: &Joint,
        (taking, limit): (Taking, Option<u64>),
        mut parts: FutureMap<Vector<T>>,
        add: fn(i64, &[T]) -> i64,
    ) -> Result<(), Error> {
        let apart = joint.has_values_of_parts(taking);
        let came: Vec<Result<Vector<T>, Error>> = match taking {
            Taking::Whole | Taking::Dropped => {
                parts.detach();
                return Ok(());
            }
            Taking::Tasks => {
                let mut sum = TaskFuture::ready(11);
                for part in parts.iter() {
                    let tag = self.tag(None);
                    let fold = move |before: Arg<i64>, part: Arg<Vector<T>>| {
                        tag.goes_off();
                        add(*before, &part)
                    };
                    let value = self.shard.launch(fold, ((&sum).into(), part.into())).named("fold part").go()?;
                    match apart {
                        true => self.values.push(value),
                        false => sum = value,
                    }
                }
                self.values.extend((!apart).then_some(sum));
                return Ok(());
            }
            Taking::Each => {
                let mut came = Vec::new();
                for part in parts.iter() {
                    let mut part = part.clone();
                    came.push(match limit {
                        None => part.await,
                        Some(limit) => {
                            self.patiently(limit, async |limit| self.shard.timeout(limit, &mut part).await).await
                        }
                    });
                }
                came
            }
            Taking::All => {
                let all = match limit {
                    None => parts.all().await,
                    Some(limit) => {
                        self.patiently(limit, async |limit| self.shard.timeout(limit, parts.all()).await).await
                    }
                };
                all.map_or_else(|e| vec![Err(e)], |parts| parts.into_iter().map(Ok).collect())
            }
            Taking::Next => {
                let mut came = vec![None; parts.len()];
                loop {
                    let next = match limit {
                        None => parts.next().await,
                        Some(limit) => {
                            let next = async |limit| self.shard.timeout(limit, async { Ok(parts.next().await) }).await;
                            self.patiently(limit, next).await?
                        }
                    };
                    let Some((at, part)) = next else { break };
                    assert!(came[at].replace(part).is_none(), "part {at} came twice");
                }
                came.into_iter().map(|part| part.expect("each part has come")).collect()
            }
        };
        let seen = |part: Vector<T>| add(11, &part);
        match apart {
            true => self.seen.extend(came.into_iter().map(|part| part.map(seen))),
            false => {
                let all: Result<Vec<Vector<T>>, Error> = came.into_iter().collect();
                let all: Outcome = all.map(|parts| parts.iter().fold(11, |sum, part| add(sum, part)));
                self.seen.push(all);
            }
        }
        Ok(())
    }
}

/// For each collective, the ends of contributions whose results the shard has not asked for.
pub type Overs = Vec<VecDeque<TaskFuture<()>>>;

fn digest(before: i64, values: &[i64]) -> i64 {
    values.iter().fold(before, |sum, &v| joined(sum, v))
}
