//! The shard task, and its leaf tasks.

use super::costs::Costs;
use super::deal::{pieces, share};
use super::grid::Grid;
use super::transform::Plans;
use super::verify::Sums;
use super::{C, Problem, VALUES};
use crate::Mode;
use maniple::prelude::*;
use maniple::runtime::{Leaf, now};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// What a shard gets: its lines before the first exchange and after each one, its exchanges, and a barrier.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    pub blocks: Vec<Region>,
    pub exchanges: Vec<Collective<[C]>>,
    pub start: Collective<()>,
}

/// What a shard gives: the times of the transforms, and sums of its values before and after.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Found {
    pub times: Vec<Duration>,
    pub sums: [Sums; 2],
}

/// Transforms the shard's lines, exchanges them, transforms what has come, and so on, `problem.iterations` times.
pub async fn transform(
    shard: Shard,
    part: Part,
    (problem, grid): (Arc<Problem>, Grid),
    plans: Arc<Plans>,
) -> Result<Found, Error> {
    let (me, last) = (shard.index(), part.exchanges.len());
    let costs = Costs::of_shard(&problem);
    let views: Vec<RegionView> = part.blocks.iter().map(|block| shard.region(*block)).collect::<Result<_, _>>()?;
    let sums = |exchanges: usize| {
        let sum = move |lines: Read<C, 2>| Sums::of(&grid, me, exchanges, &lines.rows().collect::<Vec<_>>());
        shard.launch(sum, (views[exchanges].read(VALUES),)).named("sums").go()
    };
    // Memory that is touched for the first time takes longer.
    for lines in &views[1..] {
        shard.launch(|mut lines: Write<C, 2>| lines.fill(C::ZERO), (lines.write(VALUES),)).go()?.detach();
    }
    let (mut times, mut before) = (Vec::new(), Sums::default());
    // The blocks of the transform before, whose memory is used again.
    let mut sent: Vec<Vec<TaskFuture<Vector<C>>>> = Vec::new();
    sent.resize_with(last, Vec::new);
    for iteration in 0..problem.iterations {
        let (given, index) = (problem.clone(), grid.places(me, 0));
        let set = move |mut lines: Write<C, 2>| {
            let values = lines.rows_mut().flatten().enumerate();
            values.for_each(|(at, value)| value.set(given.array.get(index(at))));
        };
        shard.launch(set, (views[0].write(VALUES),)).named("set").go()?.await?;
        if iteration == 0 {
            before = sums(0)?.await?;
        }
        part.start.call(&shard, ())?.await?;
        let began = now();
        let plan = plans.lines.clone();
        let rows = move |mut lines: ReadWrite<C, 2>| plan.transform(lines.rows_mut());
        by_groups(&shard, &problem, &views[0], ("lines", costs.lines()), rows)?;
        for number in 0..last {
            let (exchange, plan) = (Arc::new(grid.exchange(me, number)), &plans.exchanges[number]);
            let (from, into, members) = (&views[number], &views[number + 1], exchange.group.len());
            let of = exchange.clone();
            let pack = move |lines: Read<C, 2>, to: Arg<usize>, before: Option<Arg<Vector<C>>>| {
                let lines = lines.rows().collect::<Vec<_>>();
                Vector::from(of.pack(&lines, to.0, unshared(before.map(|before| before.0))))
            };
            let mut before = sent[number].drain(..);
            let args = |to: usize| (from.read(VALUES), to.into(), before.next().map(Input::Later));
            let blocks = shard.index_launch(members, pack, args).named("pack");
            // The next member's block leaves first: nobody gets all first blocks.
            let blocks = blocks.first(exchange.place + 1).takes(costs.pack(members)).go()?;
            drop(before);
            if iteration + 1 < problem.iterations {
                sent[number].extend(blocks.iter().cloned());
            }
            let parts = part.exchanges[number].call_parts(&shard, blocks)?;
            // In the whole version each task on a part waits for this one.
            let every = || shard.launch(|_: Many<Arg<Vector<C>>>| (), (parts.iter().map(Into::into).collect(),));
            let all = (problem.mode == Mode::Whole).then(|| every().named("all").go()).transpose()?;
            // Parts of few are cut, so that several tasks transform the last one.
            let lines = into.region().rect.extent(0);
            let pieces = pieces(problem.groups, members).min(lines);
            let mut columns = Vec::new();
            for from in 0..members {
                let block = shard.region(cut(into, 1, exchange.columns(from)))?;
                for piece in 0..pieces {
                    columns.push(shard.region(cut(&block, 0, share(lines, pieces, piece)))?);
                }
            }
            let of = plan.clone();
            let sub =
                move |part: Arg<Vector<C>>, mut columns: ReadWrite<C, 2>, piece: Arg<usize>, _: Option<Arg<()>>| {
                    let own = share(lines, pieces, piece.0);
                    let length = part.len() / lines;
                    of.transform(&part[own.start * length..own.end * length], columns.rows_mut());
                };
            let args = |n: usize| {
                let (part, columns) = (parts.get(n / pieces).expect("a part"), columns[n].read_write(VALUES));
                (part.into(), columns, (n % pieces).into(), all.as_ref().map(Into::into))
            };
            let takes = costs.sub(members * pieces, number, exchange.axis.modulus);
            shard.index_launch(members * pieces, sub, args).named("sub").takes(takes).go()?.detach();
            for join in plan.joins() {
                let (count, length) = join.size();
                let takes = costs.join(exchange.axis.length / length, count);
                for start in (0..exchange.axis.length).step_by(length) {
                    let (of, group) = (join.clone(), shard.region(cut(into, 1, start..start + length))?);
                    let join = move |mut lines: ReadWrite<C, 2>| of.join(lines.rows_mut());
                    by_groups(&shard, &problem, &group, ("join", takes), join)?;
                }
            }
        }
        shard.launch(|_: Read<C, 2>| (), (views[last].read(VALUES),)).named("end").go()?.await?;
        times.push(now() - began);
    }
    Ok(Found { times, sums: [before, sums(last)?.await?] })
}

/// The memory of a vector that nobody else holds, or none.
fn unshared(vector: Option<Vector<C>>) -> Vec<C> {
    vector.and_then(|vector| vector.into_shared().ok()).and_then(Arc::into_inner).unwrap_or_default()
}

/// Launches a task for each of some groups of lines.
fn by_groups<F, M: 'static>(
    shard: &Shard,
    problem: &Problem,
    lines: &RegionView,
    (name, takes): (&'static str, Option<Duration>),
    task: F,
) -> Result<(), Error>
where
    F: Leaf<M, Args = (Requirement<ReadWrite<'static, C, 2>>,)> + Clone,
{
    let count = lines.region().rect.extent(0);
    let groups = problem.groups.min(count);
    let group = |n: usize| shard.region(cut(lines, 0, share(count, groups, n)));
    let groups = (0..groups).map(group).collect::<Result<Vec<_>, _>>()?;
    let launch = shard.index_launch(groups.len(), task, |n| (groups[n].read_write(VALUES),));
    launch.named(name).takes(takes).go()?.detach();
    Ok(())
}

/// A part of some lines: a range of them, for dimension 0, or of the places in each, for dimension 1.
fn cut(lines: &RegionView, dimension: usize, range: Range<usize>) -> Region {
    let Region { tree, rect } = lines.region();
    let (mut lo, mut hi) = ([rect.lo(0), rect.lo(1)], [rect.hi(0), rect.hi(1)]);
    (lo[dimension], hi[dimension]) = (lo[dimension] + range.start as i64, lo[dimension] + range.end as i64);
    Region::new(tree, Rect::new(lo, hi))
}
