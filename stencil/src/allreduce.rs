//! The version in which shards stay alive, and an allreduce combines their sums.

use crate::problem::{Checkpoints, Keep, Output, Problem, Start};
use crate::reference::BlockCheck;
use crate::shards::{D, First, Found, SCALED, advance, check, drain, goes_on, layout, now, store};
use maniple::collectives::{self, Algorithm};
use maniple::halo::Halo;
use maniple::output::Checkpoint;
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
    /// The iterations of earlier launches, and the last total; the iterations after this launch, and after the last one.
    done: (usize, Option<f64>),
    until: usize,
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
    let ShardArgs { block, halo, h, start, total: sum, done, mut until, iterations, ahead: most, keep } = args;
    let ends = shard.region(block).and_then(|d| Ok((d, halo.join(&shard)?)));
    async move {
        let (d, halo) = ends.as_ref().map_err(Error::clone)?;
        let watched = shard.index() == 0;
        let mut result = ShardResult { began: now(), totals: done, ..ShardResult::default() };
        let (mut vectors, mut checked) = (Vec::new(), None);
        let mut ahead: VecDeque<(TaskFuture<f64>, Option<Stamps>)> = VecDeque::new();
        let mut last_total = Input::Now(done.1.unwrap_or(SCALED));
        if matches!(start, First::Restored) {
            let total = Input::Now(done.1.unwrap_or(SCALED));
            match keep {
                Keep::Each => vectors.push(shard.launch(store, (d.read(D), total)).go()?),
                // The checkpoint is that of the last iteration.
                Keep::Check(mode) if done.0 == iterations => {
                    let args = (d.read(D), total, mode.into(), (done.0 as u64).into());
                    checked = Some(shard.launch(check, args).go()?);
                }
                Keep::Check(_) => {}
            }
        }
        start.load(&shard, d, halo)?;
        let mut launched = done.0;
        loop {
            if launched < until {
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
                if launched < until && ahead.len() <= most {
                    continue;
                }
            }
            let Some((total, stamps)) = ahead.pop_front() else { break };
            let total = total.await?;
            let ns = |stamp: &Stamp| stamp.at().map_or(0, |at| at.as_nanos() as u64);
            if !result.add(total, stamps.map(|both| (ns(&both.0), ns(&both.1)))) {
                until = launched;
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
    let (found, stats) = runtime.run(move |top| {
        let input = input.clone();
        async move {
            let (gang, line, blocks, halos) = layout(&top, &input)?;
            let h = 1.0 / input.cells() as f64;
            let total = collectives::Collective::allreduce(Operator::sum())
                .algorithm(algorithm)
                .order(collectives::Order::Any)
                .make(&top, &gang, "sum of squares")?;
            let task = top.register("stencil", iterate);
            let blocks: Vec<Region> = blocks.iter().collect();
            let (mut checkpoint, mut found) = restore(&top, line, &input).await?;
            let mut is_first = true;
            loop {
                let (done, last) = (found.sums.len(), found.sums.last().copied());
                let until = next_checkpoint(&input, done);
                let results = top.launch_gang(&gang, &task, |s| {
                    let block = blocks[s as usize];
                    let Problem { iterations, ahead, keep, .. } = input;
                    let (halo, total, start) = (halos.of(s), total, input.start.clone());
                    let args = move || {
                        let start = match (is_first, done) {
                            (false, _) => First::Kept,
                            (true, 0) => First::of(&start, block),
                            (true, _) => First::Restored,
                        };
                        let done = (done, last);
                        ShardArgs { block, halo, h, start, total, done, until, iterations, ahead, keep }
                    };
                    ShardLaunch::from_fn(args).writes(block, [D])
                })?;
                found.add(results.all().await?, is_first);
                is_first = false;
                let goes_on = goes_on(found.sums.len(), found.sums.last().copied());
                if let Some(checkpoint) = &mut checkpoint
                    && goes_on
                    && until > done
                {
                    checkpoint.save(until as u64, &[line], &found.sums).await?;
                }
                if until == input.iterations || !goes_on {
                    break;
                }
            }
            if let Some(mut checkpoint) = checkpoint {
                checkpoint.finish().await?;
            }
            if let Some(sink) = &input.sink {
                drain(&top, &gang, &blocks, &found.sums, sink).await?;
            }
            Ok(found)
        }
    })?;
    Ok(found.output(stats))
}

impl Found {
    /// Adds what the shards of a launch have found.
    fn add(&mut self, results: Vec<ShardResult>, is_first: bool) {
        let Some(ShardResult { sums, began, stamps, vectors, .. }) = results.first() else { return };
        let of_all = |i: usize| results.iter().flat_map(|result| result.vectors[i].iter().copied()).collect();
        self.vectors.extend((0..vectors.len()).map(of_all));
        self.sums.extend(sums);
        self.stamps.extend(stamps);
        self.checks.extend(results.iter().filter_map(|result| result.check));
        if is_first {
            self.began = *began;
        }
    }
}

/// The iterations after which the next launch ends: as many as a multiple of those between two checkpoints, or all.
fn next_checkpoint(input: &Problem, done: usize) -> usize {
    let every = input.checkpoints.as_ref().map_or(usize::MAX, |checkpoints| checkpoints.every.max(1));
    (done / every + 1).saturating_mul(every).min(input.iterations)
}

/// Goes on from the newest checkpoint, if there is one and if that is asked for.
async fn restore(top: &Top, line: Region, input: &Problem) -> Result<(Option<Checkpoint>, Found), Error> {
    let Some(Checkpoints { dir, restart, .. }) = &input.checkpoints else { return Ok((None, Found::default())) };
    let start = match &input.start {
        Start::Vector(values) => format!("a vector with hash {:x}", BlockCheck::of(values).hash),
        Start::Mode(mode) => format!("{mode:?}"),
    };
    let program = format!("the 1D stencil of {}, from {start}", crate::plural(input.cells(), "cell"));
    let mut checkpoint = Checkpoint::open(top, dir, &program).await?;
    let refused = |why: String| Error::user(format!("{}: {why}", dir.display()));
    match checkpoint.newest() {
        Some(step) if !restart => {
            let advice = "restart from it, or name another directory";
            return Err(refused(format!(
                "expected a directory without checkpoints, found one of iteration {step}; {advice}"
            )));
        }
        Some(step) if step > input.iterations as u64 => {
            let expected = format!("no checkpoint after iteration {}", input.iterations);
            return Err(refused(format!(
                "expected {expected}, found one of iteration {step}; ask for more iterations"
            )));
        }
        _ => {}
    }
    let (step, sums) = checkpoint.restore::<Vec<f64>>(&[line]).await?.unwrap_or_default();
    Ok((Some(checkpoint), Found { restored: step as usize, sums, ..Found::default() }))
}
