//! The baseline: an inner task adds up the sums of all shards in each iteration and launches them again with the total.

use crate::problem::{Keep, Output, Problem};
use crate::reference::{BlockCheck, DominantMode};
use crate::shards::{D, First, Found, SCALED, advance, check, drain, goes_on, layout, now, store};
use maniple::halo::{Borders, Ghosts, Halo};
use maniple::prelude::*;
use maniple::regions::{Coherence, Privilege};
use maniple::runtime::InnerTask;
use serde::{Deserialize, Serialize};

/// The square sum of each shard, and the total of all.
const S: Field<f64> = Field::new(0, "sum");

/// All that the inner task and the shards of the aggregation version need.
#[derive(Clone, Serialize, Deserialize)]
struct Aggregation {
    halos: Vec<Halo<f64>>,
    h: f64,
    line: Region,
    sizes: Vec<usize>,
    sums: Region,
    total: Region,
    gang: Gang,
    step: ShardTask<StepArgs, StepResult>,
    start: Vec<First>,
    iterations: usize,
    keep: Keep,
}

#[derive(Clone, Serialize, Deserialize)]
struct StepArgs {
    block: Region,
    halo: Halo<f64>,
    h: f64,
    sum: Region,
    total: Region,
    /// The first vector, in the first iteration.
    start: Option<First>,
    /// The iteration whose vector is kept or checked, if it is.
    store: Option<(u64, Keep)>,
    /// Whether to do an iteration; not so after the last.
    iterate: bool,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct StepResult {
    vector: Option<Vec<f64>>,
    check: Option<BlockCheck>,
    /// The times when the total was read and when the sum was written (shard 0).
    stamps: (u64, u64),
}

fn put_scaled(mut total: Write<f64>) {
    total.fill(SCALED);
}

fn combine(sums: Read<f64>, mut total: Write<f64>) -> f64 {
    let sum = sums.as_slice().iter().sum();
    total.fill(sum);
    sum
}

fn advance_from(
    d: ReadWrite<f64>,
    ghosts: Ghosts<f64>,
    borders: Borders<f64>,
    total: Read<f64>,
    mut sum: Write<f64>,
    h: Arg<f64>,
) -> u64 {
    let began = now();
    sum.fill(advance(d, ghosts, borders, Arg(total.as_slice()[0]), h));
    began
}

/// Returns the vector, and the time when the total was read.
fn store_from(d: Read<f64>, total: Read<f64>) -> (Vec<f64>, u64) {
    let began = now();
    (store(d, Arg(total.as_slice()[0])), began)
}

/// Compares the vector with the mode. Returns what it found, and the time when the total was read.
fn check_from(d: Read<f64>, total: Read<f64>, mode: Arg<DominantMode>, iteration: Arg<u64>) -> (BlockCheck, u64) {
    let began = now();
    (check(d, Arg(total.as_slice()[0]), mode, iteration), began)
}

/// One iteration of one shard of the aggregation version. The shard task ends with it.
async fn step(shard: Shard, args: StepArgs) -> Result<StepResult, Error> {
    let mut result = StepResult::default();
    let (d, total) = (shard.region(args.block)?, shard.region(args.total)?);
    match args.store {
        Some((iteration, Keep::Check(mode))) => {
            let with = (d.read(D), total.read(S), mode.into(), iteration.into());
            let (checked, began) = shard.launch(check_from, with).go()?.await?;
            (result.check, result.stamps.0) = (Some(checked), began);
        }
        Some((_, Keep::Each)) => {
            let (vector, began) = shard.launch(store_from, (d.read(D), total.read(S))).go()?.await?;
            (result.vector, result.stamps.0) = (Some(vector), began);
        }
        None => {}
    }
    if args.iterate {
        let halo = args.halo.join(&shard)?;
        if let Some(start) = args.start {
            start.load(&shard, &d, &halo)?;
        }
        let sum = shard.region(args.sum)?;
        let regions = (d.read_write(D), halo.ghosts(), halo.borders(), total.read(S), sum.write(S), args.h.into());
        let began = shard.launch(advance_from, regions).go()?.await?;
        result.stamps = (began, now());
    }
    Ok(result)
}

/// The inner task of the aggregation version: adds up the sums of all shards and launches them again with the total.
async fn aggregate(inner: InnerTask, a: Aggregation) -> Result<Found, Error> {
    let began = now();
    let blocks = Partition::blocks(a.line, &a.sizes)?;
    let (mut sums, mut vectors, mut checks, mut stamps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut written = 0;
    let (all, total) = (inner.region(a.sums)?, inner.region(a.total)?);
    inner.launch(put_scaled, (total.write(S),)).go()?.await?;
    for iteration in 1..=a.iterations + 1 {
        let (first, last) = (iteration == 1, iteration == a.iterations + 1);
        let store = (!first && a.keep.wants(last)).then_some((iteration as u64 - 1, a.keep));
        let locate = |s: u32| -> Result<(Region, Region), Error> {
            let at = i64::from(s);
            let sum = Region { tree: a.sums.tree, rect: Rect::line(at, at + 1) };
            Ok((blocks.sub(s as usize)?, sum))
        };
        let places: Vec<(Region, Region)> = (0..a.gang.shards()).map(locate).collect::<Result<_, _>>()?;
        let results = inner
            .launch_gang(&a.gang, &a.step, |s| {
                let (block, sum) = places[s as usize];
                let start = first.then(|| a.start[s as usize].clone());
                let (halo, h, total) = (a.halos[s as usize].clone(), a.h, a.total);
                let args = StepArgs { block, halo, h, sum, total, start, store, iterate: !last };
                let start = ShardLaunch::new(args).writes(block, [D]);
                let start = start.require(sum, [S], Privilege::WriteDiscard, Coherence::Exclusive);
                start.reads(total, [S])
            })
            .await?
            .all()
            .await?;
        if matches!(store, Some((_, Keep::Each))) {
            vectors.push(results.iter().flat_map(|r| r.vector.iter().flatten().copied()).collect());
        }
        checks.extend(results.iter().filter_map(|r| r.check));
        let (read, wrote) = results[0].stamps;
        if !first {
            stamps.push((written, read));
        }
        written = wrote;
        if !last {
            let sum = inner.launch(combine, (all.read(S), total.write(S))).go()?.await?;
            sums.push(sum);
            if !goes_on(sums.len(), sums.last().copied()) {
                break;
            }
        }
    }
    Ok(Found { sums, restored: 0, vectors, checks, began, stamps })
}

/// Runs the aggregation version.
pub(crate) fn simulate(runtime: &Runtime, input: &Problem) -> Result<Output, Error> {
    let input = input.clone();
    let (aggregated, stats) = runtime.run(move |top| {
        let input = input.clone();
        async move {
            let (gang, line, blocks, halos) = layout(&top, &input)?;
            let (shards, h) = (gang.shards(), 1.0 / input.cells() as f64);
            let halos = (0..shards).map(|s| halos.of(s)).collect();
            let sums = top.region_tree("sums", Rect::line(0, i64::from(shards)), &[S.info()])?;
            let total = top.region_tree("total", Rect::line(0, 1), &[S.info()])?;
            let step = top.register("stencil step", step);
            let inner = top.register_inner("aggregation", aggregate);
            let blocks: Vec<Region> = blocks.iter().collect();
            let start = blocks.iter().map(|block| First::of(&input.start, *block)).collect();
            let Problem { sizes, iterations, keep, sink, .. } = input;
            let (of, of_all) = (gang, total);
            let args =
                Aggregation { halos, h, line, sizes, sums, total: of_all, gang: of, step, start, iterations, keep };
            let launch = || ShardLaunch::new(args.clone()).writes(line, [D]).writes(sums, [S]).writes(total, [S]);
            let aggregated = top.run_inner(&inner, launch).await?;
            if let Some(sink) = &sink {
                drain(&top, &gang, &blocks, &aggregated.sums, sink).await?;
            }
            Ok(aggregated)
        }
    })?;
    Ok(aggregated.output(stats))
}
