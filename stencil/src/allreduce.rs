//! The version in which shards stay alive, and an allreduce combines their sums.

use crate::problem::{Keep, Output, Problem};
use crate::reference::BlockCheck;
use crate::shards::{D, First, Found, SCALED, advance, check, drain, goes_on, layout, now, store};
use maniple::collectives::{self, Algorithm};
use maniple::halo::Halo;
use maniple::prelude::*;
use maniple::runtime::Stamp;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::future::Future;

#[derive(Clone, Serialize, Deserialize)]
struct ShardArgs {
    block: Region,
    halo: Halo<f64>,
    h: f64,
    start: First,
    total: collectives::Collective<f64>,
    iterations: usize,
    ahead: usize,
    keep: Keep,
}

/// The result of a shard. All but the vectors and the check come from shard 0 alone.
#[derive(Clone, Default, Serialize, Deserialize)]
struct ShardResult {
    vectors: Vec<Vec<f64>>,
    check: Option<BlockCheck>,
    sums: Vec<f64>,
    /// The times when the shard began, and when the local sum and the total were there in each iteration.
    began: u64,
    stamps: Vec<(u64, u64)>,
    /// The number of totals so far, and the last of them.
    #[serde(skip)]
    totals: (usize, Option<f64>),
}

/// The times when an iteration's local sum and total were there. Only shard 0 has them; the others need no memory for them.
type Stamps = Box<(Stamp, Stamp)>;

impl ShardResult {
    /// Adds an iteration's total, unless an earlier one was the last. Returns whether there is a next iteration. Only shard
    /// 0, which has stamps, keeps all totals.
    fn add(&mut self, total: f64, stamps: Option<(u64, u64)>) -> bool {
        let (count, last) = self.totals;
        if goes_on(count, last) {
            self.totals = (count + 1, Some(total));
            if stamps.is_some() {
                self.sums.push(total);
            }
        }
        self.stamps.extend(stamps);
        goes_on(self.totals.0, self.totals.1)
    }
}

/// A shard of the version with an allreduce.
///
/// There are many shards, so their futures should be small. A future reserves memory for every value that is moved into it.
/// So values needed only at the start are dropped before the future is made, and the others are used in place.
fn iterate(shard: Shard, args: ShardArgs) -> impl Future<Output = Result<ShardResult, Error>> {
    let ShardArgs { block, halo, h, start, total: sum, mut iterations, ahead: most, keep } = args;
    let ends = shard.region(block).and_then(|d| Ok((d, halo.join(&shard)?)));
    async move {
        let (d, halo) = ends.as_ref().map_err(Error::clone)?;
        let watched = shard.index() == 0;
        let mut result = ShardResult { began: now(), ..ShardResult::default() };
        let (mut vectors, mut checked) = (Vec::new(), None);
        let mut ahead: VecDeque<(TaskFuture<f64>, Option<Stamps>)> = VecDeque::new();
        start.load(&shard, d, halo)?;
        let mut last_total = Input::Now(SCALED);
        let mut launched = 0;
        loop {
            if launched < iterations {
                launched += 1;
                let args = (d.read_write(D), halo.ghosts(), halo.borders(), last_total, h.into());
                let local = shard.launch(advance, args).go()?;
                let total = sum.call(&shard, &local)?;
                let stamps = watched.then(|| Box::new((local.stamp(), total.stamp())));
                if keep.wants(launched == iterations) {
                    let total = (&total).into();
                    match keep {
                        Keep::Check(mode) => {
                            let args = (d.read(D), total, mode.into(), (launched as u64).into());
                            checked = Some(shard.launch(check, args).go()?);
                        }
                        Keep::Each => vectors.push(shard.launch(store, (d.read(D), total)).go()?),
                    }
                }
                last_total = (&total).into();
                ahead.push_back((total, stamps));
                if launched < iterations && ahead.len() <= most {
                    continue;
                }
            }
            let Some((total, stamps)) = ahead.pop_front() else { break };
            let total = total.await?;
            let ns = |stamp: &Stamp| stamp.at().map_or(0, |at| at.as_nanos() as u64);
            if !result.add(total, stamps.map(|both| (ns(&both.0), ns(&both.1)))) {
                iterations = launched;
            }
        }
        for vector in vectors {
            result.vectors.push(vector.await?);
        }
        if let Some(checked) = checked {
            result.check = Some(checked.await?);
        }
        Ok(result)
    }
}

/// Runs the version with an allreduce.
pub(crate) fn simulate(runtime: &Runtime, algorithm: Algorithm, input: &Problem) -> Result<Output, Error> {
    let input = input.clone();
    let (results, stats) = runtime.run(move |top| {
        let input = input.clone();
        async move {
            let (gang, _, blocks, halos) = layout(&top, &input)?;
            let h = 1.0 / input.cells() as f64;
            let total = collectives::Collective::allreduce(Operator::sum())
                .algorithm(algorithm)
                .order(collectives::Order::Any)
                .make(&top, &gang, "sum of squares")?;
            let task = top.register("stencil", iterate);
            let blocks: Vec<Region> = blocks.iter().collect();
            let results = top.launch_gang(&gang, &task, |s| {
                let block = blocks[s as usize];
                let Problem { iterations, ahead, keep, .. } = input;
                let (halo, total, start) = (halos.of(s), total, input.start.clone());
                let args = move || {
                    let start = First::of(&start, block);
                    ShardArgs { block, halo, h, start, total, iterations, ahead, keep }
                };
                ShardLaunch::from_fn(args).writes(block, [D])
            })?;
            let results = results.all().await?;
            if let (Some(sink), Some(first)) = (&input.sink, results.first()) {
                drain(&top, &gang, &blocks, &first.sums, sink).await?;
            }
            Ok(results)
        }
    })?;
    let first = results.first().cloned().unwrap_or_default();
    let vectors =
        (0..first.vectors.len()).map(|i| results.iter().flat_map(|r| r.vectors[i].iter().copied()).collect()).collect();
    let ShardResult { sums, began, stamps, .. } = first;
    let checks = results.iter().filter_map(|r| r.check).collect();
    Ok(Found { sums, vectors, checks, began, stamps }.output(stats))
}
