//! Both versions of the application on shard tasks.
//!
//! An iteration of a shard is one leaf task. From the last derivative, its total and the ghost cells it computes the next
//! derivative in place, and its square sum. It sends the edges of its block to the neighbours before they are scaled, so
//! that they travel while the total is computed. The two versions differ in how they compute the total.

use crate::reference::{BlockCheck, DominantMode};
use crate::{Collective, kernel};
use maniple::collectives::{self, Algorithm};
use maniple::halo::{Borders, Ghosts, Halo, HaloEnds, HaloOptions, Halos};
use maniple::prelude::*;
use maniple::regions::{Coherence, Privilege};
use maniple::runtime::Stamp;
use maniple::runtime::{InnerTask, Stats};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

/// The derivative, not scaled; before the first iteration, the first vector.
pub const D: Field<f64> = Field::new(0, "d");
/// The square sum of each shard, and the total of all.
const S: Field<f64> = Field::new(0, "sum");

/// The total of a vector that needs no scaling.
const SCALED: f64 = 1.0;

/// The input of a run.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Cells of each shard's block, at least 4.
    pub sizes: Vec<usize>,
    /// The first vector.
    pub start: Start,
    /// Iterations; 0 is allowed.
    pub iterations: usize,
    /// Calls of the allreduce under way before a shard waits for the oldest.
    pub ahead: usize,
    /// What is kept of the vectors.
    pub keep: Keep,
    /// Takes the last vector, in pieces.
    pub sink: Option<Sink>,
}

/// The first vector of a run.
#[derive(Debug, Clone)]
pub enum Start {
    /// These values.
    Vector(Arc<[f64]>),
    /// The dominant mode. Each block is computed where it is.
    Mode(DominantMode),
}

/// What a run keeps of its vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keep {
    /// The vector after each iteration.
    Each,
    /// The vector after the last iteration.
    Last,
    /// None. Each block of the last vector is compared with this mode where it is.
    Check(DominantMode),
}

impl Keep {
    /// Whether the vector after an iteration is looked at.
    fn wants(self, is_last: bool) -> bool {
        is_last || self == Keep::Each
    }
}

/// Takes the last vector of a run in pieces, in the order of cells: the number of a piece's first cell, and its values.
/// It is called by each node's copy of the top-level task, so in one process it may get a piece several times.
#[derive(Clone)]
pub struct Sink(pub Arc<Take>);

/// Takes cells, and the position of the first.
pub type Take = dyn Fn(usize, &[f64]) + Send + Sync;

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// S of each iteration, up to the first from which there is no next vector (see [`kernel::root`]).
    pub sums: Vec<f64>,
    /// The vectors that are kept.
    pub vectors: Vec<Vec<f64>>,
    /// With [`Keep::Check`], what was found of each block of the last vector.
    pub checks: Vec<BlockCheck>,
    /// Microseconds of each iteration on shard 0: from one total to the next, the first from the start.
    pub iteration_us: Vec<f64>,
    /// Microseconds of the collective in each iteration: from shard 0's local sum to the total.
    pub collective_us: Vec<f64>,
    /// The statistics of the run.
    pub stats: Stats,
}

/// Runs one version on a runtime, with as many shards as there are blocks. Waits.
///
/// # Errors
/// The errors of [`Runtime::run`].
pub fn simulate(runtime: &Runtime, collective: Collective, input: &Problem) -> Result<Output, Error> {
    match collective {
        Collective::RecursiveDoubling => with_allreduce(runtime, Algorithm::RecursiveDoubling, input),
        Collective::TwoLevel => with_allreduce(runtime, Algorithm::TwoLevel, input),
        Collective::Aggregation => aggregation(runtime, input),
    }
}

/// Nanoseconds since the run began, by its own clock.
fn now() -> u64 {
    maniple::runtime::now().as_nanos() as u64
}

/// The leaf task before the first iteration: stores the first vector and sends the edges of the block.
pub fn load(mut d: Write<f64>, mut borders: Borders<f64>, values: Arg<Vec<f64>>) {
    d.copy_from_slice(&values);
    borders.send([&values[..]].into_iter());
}

/// [`load`] for a block of the dominant mode.
fn load_mode(mut d: ReadWrite<f64>, mut borders: Borders<f64>, mode: Arg<DominantMode>) {
    let first = d.rect().lo(0) as usize;
    for (i, d) in (first..).zip(d.as_mut_slice()) {
        *d = mode.value(i, 0);
    }
    borders.send(d.rows());
}

/// The leaf task of an iteration, from the total of the last one. It computes the block from its ghost cells, sends the
/// edges to the neighbours, and returns the square sum.
pub fn advance(
    mut d: ReadWrite<f64>,
    ghosts: Ghosts<f64>,
    mut borders: Borders<f64>,
    total: Arg<f64>,
    h: Arg<f64>,
) -> f64 {
    let side = |number| {
        let piece: &[f64] = ghosts.piece(number);
        std::array::from_fn(|i| piece[i])
    };
    let sum = kernel::step(d.as_mut_slice(), side(0), side(1), total.sqrt(), *h);
    borders.send(d.rows());
    sum
}

/// The leaf task after the last iteration: returns the vector, from the derivative and the total.
pub fn store(d: Read<f64>, total: Arg<f64>) -> Vec<f64> {
    let mut u = vec![0.0; d.as_slice().len()];
    kernel::scale(d.as_slice(), total.sqrt(), &mut u);
    u
}

/// The leaf task that compares the vector after an iteration with the mode.
fn check(d: Read<f64>, total: Arg<f64>, mode: Arg<DominantMode>, iteration: Arg<u64>) -> BlockCheck {
    let (root, first) = (total.sqrt(), d.rect().lo(0) as usize);
    let mut block = BlockCheck::default();
    let mut part = [0.0; 1024];
    for d in d.as_slice().chunks(part.len()) {
        let u = &mut part[..d.len()];
        kernel::scale(d, root, u);
        block.add(&mode, first, *iteration as usize, u);
    }
    block
}

/// The first vector of a block.
#[derive(Clone, Serialize, Deserialize)]
enum First {
    Values(Vec<f64>),
    Mode(DominantMode),
}

impl First {
    fn of(start: &Start, block: Region) -> Self {
        match start {
            Start::Vector(all) => First::Values(all[block.rect.lo(0) as usize..block.rect.hi(0) as usize].to_vec()),
            Start::Mode(mode) => First::Mode(*mode),
        }
    }

    fn load(self, shard: &Shard, d: &RegionView, halo: &HaloEnds<f64>) -> Result<(), Error> {
        let borders = halo.borders();
        match self {
            First::Values(values) => shard.launch(load, (d.write(D), borders, values.into())).go()?.detach(),
            First::Mode(mode) => shard.launch(load_mode, (d.read_write(D), borders, mode.into())).go()?.detach(),
        }
        Ok(())
    }
}

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

/// The times when an iteration's local sum and total were there. Only shard 0 has them; the others need no room for them.
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
/// There are many shards, so their futures should be small. A future has room for every value that is moved into it.
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
                        Keep::Each | Keep::Last => vectors.push(shard.launch(store, (d.read(D), total)).go()?),
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

/// Whether there is a next vector after the last of `count` iterations. Every shard sees the same totals, so all stop at
/// the same iteration.
fn goes_on(count: usize, last: Option<f64>) -> bool {
    last.is_none_or(|sum| kernel::root(count, sum).is_ok())
}

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
        Some((_, Keep::Each | Keep::Last)) => {
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

/// The result of the inner task.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Aggregated {
    sums: Vec<f64>,
    vectors: Vec<Vec<f64>>,
    checks: Vec<BlockCheck>,
    /// The time when it began, and the times when each local sum and total were there.
    began: u64,
    stamps: Vec<(u64, u64)>,
}

/// The inner task of the aggregation version: adds up the sums of all shards and launches them again with the total.
async fn aggregate(inner: InnerTask, a: Aggregation) -> Result<Aggregated, Error> {
    let began = now();
    let blocks = Partition::blocks(a.line, &a.sizes)?;
    let (mut sums, mut vectors, mut checks, mut stamps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut written = 0;
    let total = inner.map(a.total, [S.id()], Privilege::WriteDiscard).await?;
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
        if matches!(store, Some((_, Keep::Each | Keep::Last))) {
            vectors.push(results.iter().flat_map(|r| r.vector.iter().flatten().copied()).collect());
        }
        checks.extend(results.iter().filter_map(|r| r.check));
        let (read, wrote) = results[0].stamps;
        if !first {
            stamps.push((written, read));
        }
        written = wrote;
        if !last {
            let all = inner.map(a.sums, [S.id()], Privilege::Read).await?;
            let total = inner.map(a.total, [S.id()], Privilege::WriteDiscard).await?;
            let sum = inner.launch(combine, (all.read(S), total.write(S))).go()?.await?;
            sums.push(sum);
            if !goes_on(sums.len(), sums.last().copied()) {
                break;
            }
        }
    }
    Ok(Aggregated { sums, vectors, checks, began, stamps })
}

/// The gang, the line, its blocks and their halos.
fn layout(top: &Top, input: &Problem) -> Result<(Gang, Region, Partition, Halos<f64>), Error> {
    let gang = top.gang("stencil", input.sizes.len() as u32)?;
    let line = top.region_tree("line", Rect::line(0, input.cells() as i64), &[D.info()])?;
    let blocks = Partition::blocks(line, &input.sizes)?;
    let options = HaloOptions::new(kernel::GHOSTS).periodic([true]);
    let halos = Halos::new(top, "ghosts", &gang, &blocks, options)?;
    Ok((gang, line, blocks, halos))
}

impl Problem {
    /// Cells of all blocks.
    pub fn cells(&self) -> usize {
        self.sizes.iter().sum()
    }
}

/// Returns a piece of the last vector, if the shard has one.
async fn hand_over(shard: Shard, (piece, total): (Option<Region>, f64)) -> Result<Vec<f64>, Error> {
    let Some(piece) = piece else { return Ok(Vec::new()) };
    let d = shard.region(piece)?;
    shard.launch(store, (d.read(D), total.into())).go()?.await
}

/// Gives the last vector to the sink, in pieces that memory has room for.
async fn drain(top: &Top, gang: &Gang, blocks: &[Region], sums: &[f64], sink: &Sink) -> Result<(), Error> {
    /// The fewest cells of a piece, and the most pieces.
    const CELLS: i64 = 1 << 20;
    const PIECES: i64 = 64;
    let Some(&total) = sums.last().filter(|_| goes_on(sums.len(), sums.last().copied())) else { return Ok(()) };
    let task = top.register("hand over", hand_over);
    let cells = blocks.last().map_or(0, |block| block.rect.hi(0));
    let each = CELLS.max((cells + PIECES - 1) / PIECES);
    let mut first = 0;
    while first < cells {
        let end = cells.min(first + each);
        let parts = top.launch(gang, &task, |s| {
            let Region { tree, rect } = blocks[s as usize];
            let (lo, hi) = (rect.lo(0).max(first), rect.hi(0).min(end));
            let part = (lo < hi).then(|| Region { tree, rect: Rect::line(lo, hi) });
            let launch = ShardLaunch::new((part, total));
            part.into_iter().fold(launch, |launch, part| launch.reads(part, [D]))
        })?;
        sink.0(first as usize, &parts.all().await?.concat());
        first = end;
    }
    Ok(())
}

/// Runs the version with an allreduce.
fn with_allreduce(runtime: &Runtime, algorithm: Algorithm, input: &Problem) -> Result<Output, Error> {
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
            let results = top.launch(&gang, &task, |s| {
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
    Ok(output(Aggregated { sums, vectors, checks, began, stamps }, stats))
}

/// Runs the aggregation version.
fn aggregation(runtime: &Runtime, input: &Problem) -> Result<Output, Error> {
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
    Ok(output(aggregated, stats))
}

/// Makes the output, with times from stamps: an iteration lasts from one total to the next, its collective from the local
/// sum to the total.
fn output(result: Aggregated, stats: Stats) -> Output {
    let Aggregated { sums, vectors, checks, began, stamps } = result;
    let starts = std::iter::once(began).chain(stamps.iter().map(|s| s.1));
    let us = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1000.0;
    Output {
        sums,
        vectors,
        checks,
        iteration_us: starts.zip(&stamps).map(|(from, &(_, to))| us(from, to)).collect(),
        collective_us: stamps.iter().map(|&(from, to)| us(from, to)).collect(),
        stats,
    }
}
