//! Both versions of the application on shard tasks.
//!
//! An iteration of a shard is two leaf tasks. The first makes its vector, from the last derivative and the root of the
//! total, and puts its first two cells into the right ghosts of its left neighbour and its last two into the left ghosts
//! of its right one. The second computes the derivative and its square sum once the shard's own ghosts are full. The two
//! versions differ in how the total comes about.

use crate::{Collective, kernel};
use maniple::prelude::*;
use maniple::regions::{FieldId, RegionError};
use maniple::runtime::{Launch, Leaf};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::Instant;

/// The vector.
const U: Field<f64> = Field::new(0, "u");
/// Its derivative.
const D: Field<f64> = Field::new(1, "d");
/// Ghost cells: shard s has its left ones at 4s and 4s + 1, its right ones at 4s + 2 and 4s + 3.
const G: Field<f64> = Field::new(0, "ghost");
/// One square sum a shard, and their total.
const S: Field<f64> = Field::new(0, "sum");

/// Calls of the allreduce under way before a shard waits for the oldest.
const AHEAD: usize = 2;

/// What a run is given.
#[derive(Debug, Clone)]
pub struct Input {
    /// Cells of each shard's block, at least 4.
    pub sizes: Vec<usize>,
    /// The first vector.
    pub start: Vec<f64>,
    /// Iterations, from 0.
    pub iterations: usize,
    /// Keep the vector after every iteration, not only after the last.
    pub history: bool,
}

/// What a run gives.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// S of each iteration, up to the first from which there is no next vector (see [`kernel::root`]).
    pub sums: Vec<f64>,
    /// The vector after each iteration (with history) or after the last.
    pub vectors: Vec<Vec<f64>>,
    /// Microseconds of each iteration, as shard 0 sees them: from one total to the next, the first from the start.
    pub iteration_us: Vec<f64>,
    /// Microseconds from shard 0's local sum to the total, in each iteration.
    pub collective_us: Vec<f64>,
    /// What the processors did.
    pub stats: Stats,
}

/// Runs one version on a runtime, with as many shards as there are blocks. Waits.
///
/// # Errors
/// What the runtime reports.
pub fn simulate(runtime: &Runtime, collective: Collective, input: &Input) -> Result<Output, Error> {
    match collective {
        Collective::RecursiveDoubling => with_allreduce(runtime, Algorithm::RecursiveDoubling, input),
        Collective::TwoLevel => with_allreduce(runtime, Algorithm::TwoLevel, input),
        Collective::Aggregation => aggregation(runtime, input),
    }
}

/// Nanoseconds since the process first asked.
fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

/// Puts the edges of a block into its neighbours' ghosts.
fn put_edges(u: &[f64], to_left: &mut WriteShared<f64>, to_right: &mut WriteShared<f64>) {
    to_left.copy_from(&u[..kernel::GHOSTS]);
    to_right.copy_from(&u[u.len() - kernel::GHOSTS..]);
}

fn load(mut u: Write<f64>, mut left: WriteShared<f64>, mut right: WriteShared<f64>, values: Val<Vec<f64>>) {
    u.copy_from_slice(&values);
    put_edges(&values, &mut left, &mut right);
}

fn scale(
    d: Read<f64>,
    mut u: ReadWrite<f64>,
    mut left: WriteShared<f64>,
    mut right: WriteShared<f64>,
    total: Val<f64>,
) {
    kernel::scale(d.as_slice(), total.sqrt(), u.as_mut_slice());
    put_edges(u.as_slice(), &mut left, &mut right);
}

fn derivative(u: Read<f64>, left: ReadShared<f64>, right: ReadShared<f64>, mut d: ReadWrite<f64>, h: Val<f64>) -> f64 {
    let (mut l, mut r) = ([0.0; kernel::GHOSTS], [0.0; kernel::GHOSTS]);
    left.copy_to(&mut l);
    right.copy_to(&mut r);
    kernel::derivative(u.as_slice(), l, r, d.as_mut_slice(), *h)
}

/// The vector that a derivative and the total give.
fn store(d: Read<f64>, total: Val<f64>) -> Vec<f64> {
    let mut u = vec![0.0; d.as_slice().len()];
    kernel::scale(d.as_slice(), total.sqrt(), &mut u);
    u
}

fn stamp(_: Val<f64>) -> u64 {
    now()
}

/// The regions and barriers of the ghost exchange: made once, known to every shard.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Layout {
    ghosts: Region,
    to_left: Pairs,
    to_right: Pairs,
    shards: u32,
    h: f64,
}

impl Layout {
    fn left(&self, s: u32) -> u32 {
        (s + self.shards - 1) % self.shards
    }

    fn right(&self, s: u32) -> u32 {
        (s + 1) % self.shards
    }

    fn left_ghosts(&self, s: u32) -> Region {
        Region { tree: self.ghosts.tree, rect: Rect::line(4 * i64::from(s), 4 * i64::from(s) + 2) }
    }

    fn right_ghosts(&self, s: u32) -> Region {
        Region { tree: self.ghosts.tree, rect: Rect::line(4 * i64::from(s) + 2, 4 * i64::from(s) + 4) }
    }

    /// Adds what shard `s` needs for the exchange and its block.
    fn holds<A>(&self, start: Start<A>, s: u32, block: Region) -> Start<A> {
        let start = start.writes(block, [U, D]);
        if self.shards == 1 {
            // The only shard is its own neighbour.
            let start = start.shares(self.left_ghosts(0), [G], Privilege::ReadWrite);
            return start.shares(self.right_ghosts(0), [G], Privilege::ReadWrite);
        }
        let start = start.shares(self.left_ghosts(s), [G], Privilege::Read);
        let start = start.shares(self.right_ghosts(s), [G], Privilege::Read);
        let start = start.shares(self.right_ghosts(self.left(s)), [G], Privilege::WriteDiscard);
        start.shares(self.left_ghosts(self.right(s)), [G], Privilege::WriteDiscard)
    }
}

/// A shard's view of its block and of the exchange.
struct Exchange {
    u: Local,
    /// Own ghosts, and the neighbours' that this shard fills.
    own: [Local; 2],
    theirs: [Local; 2],
    fills: [maniple::runtime::Producer; 2],
    uses: [maniple::runtime::Consumer; 2],
    h: f64,
}

impl Exchange {
    fn new(shard: &Shard, layout: &Layout, block: Region) -> Result<Self, Error> {
        let s = shard.index();
        let (left, right) = (layout.left(s), layout.right(s));
        let own = [shard.region(layout.left_ghosts(s))?, shard.region(layout.right_ghosts(s))?];
        #[cfg(feature = "plant")]
        let own = if shard.planted(maniple::runtime::plant::Bug::SwappedGhosts) { [own[1], own[0]] } else { own };
        Ok(Self {
            u: shard.region(block)?,
            own,
            theirs: [shard.region(layout.right_ghosts(left))?, shard.region(layout.left_ghosts(right))?],
            fills: [layout.to_left.producer(shard)?, layout.to_right.producer(shard)?],
            uses: [layout.to_right.consumer(shard, left)?, layout.to_left.consumer(shard, right)?],
            h: layout.h,
        })
    }

    /// Has a task that makes the vector wait until the neighbours' ghosts are empty, and announce that they are full.
    fn filling<'s, F: Leaf<M, O>, M: 'static, O: Send + 'static>(
        &'s self,
        launch: Launch<'s, F, M, O>,
    ) -> Result<TaskFuture<O>, Error> {
        let [left, right] = &self.fills;
        launch.wait(&left.empty).wait(&right.empty).arrive(&left.ready).arrive(&right.ready).go()
    }

    /// The first vector.
    fn load(&self, shard: &Shard, values: Vec<f64>) -> Result<TaskFuture<()>, Error> {
        let [left, right] = &self.theirs;
        let args = (self.u.write(U), left.write_shared(G), right.write_shared(G), values.into());
        self.filling(shard.launch(load, args))
    }

    /// The derivative of the vector; the future holds the block's square sum.
    fn derivative(&self, shard: &Shard) -> Result<TaskFuture<f64>, Error> {
        let [from_left, from_right] = &self.uses;
        let [left, right] = &self.own;
        let args = (self.u.read(U), left.read_shared(G), right.read_shared(G), self.u.read_write(D), self.h.into());
        shard
            .launch(derivative, args)
            .wait(&from_left.ready)
            .wait(&from_right.ready)
            .arrive(&from_left.empty)
            .arrive(&from_right.empty)
            .go()
    }

    /// The next vector.
    fn scale(&self, shard: &Shard, total: &TaskFuture<f64>) -> Result<TaskFuture<()>, Error> {
        let [left, right] = &self.theirs;
        let args = (self.u.read(D), self.u.read_write(U), left.write_shared(G), right.write_shared(G), total.into());
        self.filling(shard.launch(scale, args))
    }

    /// The same, with the total in a region; the future holds when it was read.
    fn scale_from(&self, shard: &Shard, total: &Local) -> Result<TaskFuture<u64>, Error> {
        let [left, right] = &self.theirs;
        let args = (self.u.read(D), self.u.read_write(U), left.write_shared(G), right.write_shared(G), total.read(S));
        self.filling(shard.launch(scale_from, args))
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct ShardArgs {
    layout: Layout,
    block: Region,
    start: Vec<f64>,
    total: Allreduce<f64>,
    iterations: usize,
    history: bool,
}

/// What a shard returns; all but the vectors come from shard 0 alone.
#[derive(Clone, Default, Serialize, Deserialize)]
struct ShardResult {
    vectors: Vec<Vec<f64>>,
    sums: Vec<f64>,
    /// When the shard began, and when the local sum and the total were there in each iteration.
    began: u64,
    stamps: Vec<(u64, u64)>,
    /// Totals so far, and the last of them.
    #[serde(skip)]
    totals: (usize, Option<f64>),
}

/// When an iteration's local sum and total were there.
type Stamps = (TaskFuture<u64>, TaskFuture<u64>);

impl ShardResult {
    /// Waits for an iteration's total, unless an earlier one was the last. Only shard 0 keeps them all.
    async fn add(&mut self, (total, stamps): (TaskFuture<f64>, Option<Stamps>)) -> Result<(), Error> {
        let total = total.await?;
        let (count, last) = self.totals;
        if goes_on(count, last) {
            self.totals = (count + 1, Some(total));
            if stamps.is_some() {
                self.sums.push(total);
            }
        }
        if let Some((local, total)) = stamps {
            self.stamps.push((local.await?, total.await?));
        }
        Ok(())
    }
}

/// A shard of the version with an allreduce.
async fn iterate(shard: Shard, args: ShardArgs) -> Result<ShardResult, Error> {
    let exchange = Exchange::new(&shard, &args.layout, args.block)?;
    let watched = shard.index() == 0;
    let mut result = ShardResult { began: now(), ..ShardResult::default() };
    let mut vectors = Vec::new();
    let mut ahead: VecDeque<(TaskFuture<f64>, Option<Stamps>)> = VecDeque::new();
    exchange.load(&shard, args.start)?.detach();
    for iteration in 1..=args.iterations {
        let last = iteration == args.iterations;
        let local = exchange.derivative(&shard)?;
        let total = args.total.call(&shard, &local)?;
        let at = |f: &TaskFuture<f64>| shard.launch(stamp, (f.into(),)).priority(Priority::RAISED).go();
        let stamps = if watched { Some((at(&local)?, at(&total)?)) } else { None };
        if !last {
            exchange.scale(&shard, &total)?.detach();
        }
        if args.history || last {
            vectors.push(shard.launch(store, (exchange.u.read(D), (&total).into())).go()?);
        }
        ahead.push_back((total, stamps));
        if ahead.len() > AHEAD
            && let Some(oldest) = ahead.pop_front()
        {
            result.add(oldest).await?;
            if !goes_on(result.totals.0, result.totals.1) {
                break;
            }
        }
    }
    for call in ahead {
        result.add(call).await?;
    }
    for vector in vectors {
        result.vectors.push(vector.await?);
    }
    Ok(result)
}

/// Whether the last of `count` iterations has a next vector. Every shard sees the same totals, so all stop at the same one.
fn goes_on(count: usize, last: Option<f64>) -> bool {
    last.is_none_or(|sum| kernel::root(count, sum).is_ok())
}

/// Everything the aggregation version's parent and shards need.
#[derive(Clone, Serialize, Deserialize)]
struct Aggregation {
    layout: Layout,
    line: Region,
    sizes: Vec<usize>,
    sums: Region,
    total: Region,
    gang: Gang,
    step: ShardTask<StepArgs, StepResult>,
    start: Vec<f64>,
    iterations: usize,
    history: bool,
}

#[derive(Clone, Serialize, Deserialize)]
struct StepArgs {
    layout: Layout,
    block: Region,
    sum: Region,
    total: Region,
    /// The first vector, in the first iteration.
    start: Option<Vec<f64>>,
    /// Return the vector.
    store: bool,
    /// Exchange and compute the derivative.
    step: bool,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct StepResult {
    vector: Option<Vec<f64>>,
    /// When the total was read and when the sum was written (shard 0).
    stamps: (u64, u64),
}

fn put_sum(mut sum: Write<f64>, local: Val<f64>) {
    sum.fill(*local);
}

fn combine(sums: Read<f64>, mut total: Write<f64>) -> f64 {
    let sum = sums.as_slice().iter().sum();
    total.fill(sum);
    sum
}

fn scale_from(
    d: Read<f64>,
    mut u: ReadWrite<f64>,
    mut left: WriteShared<f64>,
    mut right: WriteShared<f64>,
    total: Read<f64>,
) -> u64 {
    let began = now();
    kernel::scale(d.as_slice(), total.as_slice()[0].sqrt(), u.as_mut_slice());
    put_edges(u.as_slice(), &mut left, &mut right);
    began
}

/// The vector, and when the total was read.
fn store_from(d: Read<f64>, total: Read<f64>) -> (Vec<f64>, u64) {
    let began = now();
    (store(d, Val(total.as_slice()[0])), began)
}

/// One iteration of one shard of the aggregation version: the shard task ends with it.
async fn step(shard: Shard, args: StepArgs) -> Result<StepResult, Error> {
    let exchange = Exchange::new(&shard, &args.layout, args.block)?;
    let mut result = StepResult::default();
    let total = shard.region(args.total)?;
    let mut scaled = None;
    if let Some(start) = args.start {
        exchange.load(&shard, start)?.detach();
    } else if args.step {
        scaled = Some(exchange.scale_from(&shard, &total)?);
    }
    if args.store {
        let (vector, began) = shard.launch(store_from, (exchange.u.read(D), total.read(S))).go()?.await?;
        (result.vector, result.stamps.0) = (Some(vector), began);
    }
    if args.step {
        let local = exchange.derivative(&shard)?;
        let sum = shard.region(args.sum)?;
        shard.launch(put_sum, (sum.write(S), (&local).into())).go()?.await?;
        result.stamps.1 = now();
    }
    if let Some(scaled) = scaled {
        result.stamps.0 = scaled.await?;
    }
    Ok(result)
}

/// The sums, the vectors, when it began, and when each local sum and total were there.
type AggregationResult = (Vec<f64>, Vec<Vec<f64>>, u64, Vec<(u64, u64)>);

/// The aggregation version's parent: combines the sums of all shards and starts them again with the total.
async fn aggregate(parent: Parent, a: Aggregation) -> Result<AggregationResult, Error> {
    let began = now();
    let blocks = Partition::blocks(a.line, &a.sizes)?;
    let (mut sums, mut vectors, mut stamps) = (Vec::new(), Vec::new(), Vec::new());
    let mut written = 0;
    for iteration in 1..=a.iterations + 1 {
        let (first, last) = (iteration == 1, iteration == a.iterations + 1);
        let store = !first && (a.history || last);
        let locate = |s: u32| -> Result<(Region, Region), Error> {
            let at = i64::from(s);
            let sum = Region { tree: a.sums.tree, rect: Rect::line(at, at + 1) };
            Ok((blocks.sub(s as usize)?, sum))
        };
        let places: Vec<(Region, Region)> = (0..a.gang.shards()).map(locate).collect::<Result<_, _>>()?;
        let results = parent
            .launch_gang(&a.gang, &a.step, |s| {
                let (block, sum) = places[s as usize];
                let rect = block.rect;
                let start = first.then(|| a.start[rect.lo(0) as usize..rect.hi(0) as usize].to_vec());
                let (layout, total) = (a.layout, a.total);
                let args = StepArgs { layout, block, sum, total, start, store, step: !last };
                let start = layout.holds(Start::new(args), s, block);
                let start = start.holds(sum, [S], Privilege::WriteDiscard, Coherence::Exclusive);
                start.reads(total, [S])
            })
            .await?
            .all()
            .await?;
        if store {
            vectors.push(results.iter().flat_map(|r| r.vector.iter().flatten().copied()).collect());
        }
        let (read, wrote) = results[0].stamps;
        if !first {
            stamps.push((written, read));
        }
        written = wrote;
        if !last {
            let all = parent.map(a.sums, [S.id()], Privilege::Read).await?;
            let total = parent.map(a.total, [S.id()], Privilege::WriteDiscard).await?;
            let sum = parent.launch(combine, (all.read(S), total.write(S))).go()?.await?;
            sums.push(sum);
            if !goes_on(sums.len(), sums.last().copied()) {
                break;
            }
        }
    }
    Ok((sums, vectors, began, stamps))
}

/// Where shards end and blocks begin; the exchange's regions and barriers.
fn layout(top: &Top, gang: &Gang, cells: usize) -> Result<(Layout, Region), Error> {
    let shards = gang.shards();
    let line = top.tree("line", Rect::line(0, cells as i64), &[U.info(), D.info()])?;
    let ghosts = top.tree("ghosts", Rect::line(0, 4 * i64::from(shards)), &[G.info()])?;
    let to_left = top.pairs("ghosts to the left", gang, |s| (s + shards - 1) % shards)?;
    let to_right = top.pairs("ghosts to the right", gang, |s| (s + 1) % shards)?;
    Ok((Layout { ghosts, to_left, to_right, shards, h: 1.0 / cells as f64 }, line))
}

/// Runs the version with an allreduce.
fn with_allreduce(runtime: &Runtime, algorithm: Algorithm, input: &Input) -> Result<Output, Error> {
    let input = input.clone();
    let ((results, sizes), stats) = runtime.run(move |top| {
        let input = input.clone();
        async move {
            let gang = top.gang("stencil", input.sizes.len() as u32)?;
            let (layout, line) = layout(&top, &gang, input.start.len())?;
            let options = Options { algorithm, ..Options::default() };
            let total = Allreduce::with(&top, &gang, "sum of squares", Operator::sum(), options)?;
            let task = top.task("stencil", iterate);
            let blocks = Partition::blocks(line, &input.sizes)?;
            let blocks: Vec<Region> =
                (0..input.sizes.len()).map(|s| blocks.sub(s)).collect::<Result<_, RegionError>>()?;
            let results = top.launch(&gang, &task, |s| {
                let block = blocks[s as usize];
                let start = input.start[block.rect.lo(0) as usize..block.rect.hi(0) as usize].to_vec();
                let (iterations, history) = (input.iterations, input.history);
                let args = ShardArgs { layout, block, start, total, iterations, history };
                layout.holds(Start::new(args), s, block)
            })?;
            Ok((results.all().await?, input.sizes))
        }
    })?;
    let first = results.first().cloned().unwrap_or_default();
    let vectors =
        (0..first.vectors.len()).map(|i| results.iter().flat_map(|r| r.vectors[i].iter().copied()).collect()).collect();
    debug_assert_eq!(results.len(), sizes.len());
    Ok(output(&first.sums, vectors, first.began, &first.stamps, stats))
}

/// Runs the aggregation version.
fn aggregation(runtime: &Runtime, input: &Input) -> Result<Output, Error> {
    let input = input.clone();
    let ((sums, vectors, began, stamps), stats) = runtime.run(move |top| {
        let input = input.clone();
        async move {
            let shards = input.sizes.len() as u32;
            let gang = top.gang("stencil", shards)?;
            let (layout, line) = layout(&top, &gang, input.start.len())?;
            let sums = top.tree("sums", Rect::line(0, i64::from(shards)), &[S.info()])?;
            let total = top.tree("total", Rect::line(0, 1), &[S.info()])?;
            let step = top.task("stencil step", step);
            let parent = top.parent("aggregation", aggregate);
            let Input { sizes, start, iterations, history } = input;
            let args = Aggregation { layout, line, sizes, sums, total, gang, step, start, iterations, history };
            let regions: [(Region, &[FieldId]); 4] =
                [(line, &[U.id(), D.id()]), (layout.ghosts, &[G.id()]), (sums, &[S.id()]), (total, &[S.id()])];
            top.single(&parent, || {
                regions.iter().fold(Start::new(args.clone()), |start, (region, fields)| {
                    start.holds(*region, fields.to_vec(), Privilege::ReadWrite, Coherence::Exclusive)
                })
            })
            .await
        }
    })?;
    Ok(output(&sums, vectors, began, &stamps, stats))
}

/// Times from stamps: an iteration lasts from one total to the next, its collective from the local sum to the total.
fn output(sums: &[f64], vectors: Vec<Vec<f64>>, began: u64, stamps: &[(u64, u64)], stats: Stats) -> Output {
    let starts = std::iter::once(began).chain(stamps.iter().map(|s| s.1));
    let us = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1000.0;
    Output {
        sums: sums.to_vec(),
        vectors,
        iteration_us: starts.zip(stamps).map(|(from, &(_, to))| us(from, to)).collect(),
        collective_us: stamps.iter().map(|&(from, to)| us(from, to)).collect(),
        stats,
    }
}
