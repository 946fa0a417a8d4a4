//! Both versions of the application on shard tasks.
//!
//! An iteration of a shard is one leaf task. From the last derivative, its total and the neighbours' edges it makes the
//! next one, in place, with its square sum, and puts the first two cells into the right ghosts of its left neighbour and
//! the last two into the left ghosts of its right one: not scaled yet, so that they travel while the total comes about.
//! How it does is where the two versions differ.
//!
//! There are two slots of ghosts: iteration k reads slot k mod 2 and fills the other. Nobody has to say that a slot is
//! empty: it was read in the iteration before, and the total that a task waits for has the square sum of every task of
//! that iteration in it.

use crate::{Collective, kernel};
use maniple::prelude::*;
use maniple::regions::{FieldId, RegionError};
use maniple::runtime::{Launch, Leaf, Requirement, Stamp};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

/// The derivative, not scaled; before the first iteration, the first vector.
pub const D: Field<f64> = Field::new(0, "d");
/// Ghost cells, a field for each slot: shard s has its left ones at 4s and 4s + 1, its right ones at 4s + 2 and 4s + 3.
pub const G: [Field<f64>; 2] = [Field::new(0, "even ghost"), Field::new(1, "odd ghost")];
/// One square sum a shard, and their total.
const S: Field<f64> = Field::new(0, "sum");

/// The total of a vector that needs no scaling.
const SCALED: f64 = 1.0;

/// What a run is given.
#[derive(Debug, Clone)]
pub struct Input {
    /// Cells of each shard's block, at least 4.
    pub sizes: Vec<usize>,
    /// The first vector.
    pub start: Arc<[f64]>,
    /// Iterations, from 0.
    pub iterations: usize,
    /// Calls of the allreduce under way before a shard waits for the oldest.
    pub ahead: usize,
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

/// Nanoseconds since the run began, by its own clock.
fn now() -> u64 {
    maniple::runtime::now().as_nanos() as u64
}

/// Puts the edges of a block into its neighbours' ghosts.
fn put_edges(d: &[f64], to_left: &mut WriteShared<f64>, to_right: &mut WriteShared<f64>) {
    to_left.copy_from(&d[..kernel::GHOSTS]);
    to_right.copy_from(&d[d.len() - kernel::GHOSTS..]);
}

/// The leaf task before the first iteration: the first vector, and the edges of the block.
pub fn load(mut d: Write<f64>, mut to_left: WriteShared<f64>, mut to_right: WriteShared<f64>, values: Val<Vec<f64>>) {
    d.copy_from_slice(&values);
    put_edges(&values, &mut to_left, &mut to_right);
}

/// The leaf task of an iteration, from the total of the last one: the block, its ghosts, and the neighbours' that it fills;
/// gives the square sum.
pub fn advance(
    mut d: ReadWrite<f64>,
    left: ReadShared<f64>,
    right: ReadShared<f64>,
    mut to_left: WriteShared<f64>,
    mut to_right: WriteShared<f64>,
    total: Val<f64>,
    h: Val<f64>,
) -> f64 {
    let (mut l, mut r) = ([0.0; kernel::GHOSTS], [0.0; kernel::GHOSTS]);
    left.copy_to(&mut l);
    right.copy_to(&mut r);
    let sum = kernel::step(d.as_mut_slice(), l, r, total.sqrt(), *h);
    put_edges(d.as_slice(), &mut to_left, &mut to_right);
    sum
}

/// The leaf task after the last iteration: the vector that a derivative and the total give.
pub fn store(d: Read<f64>, total: Val<f64>) -> Vec<f64> {
    let mut u = vec![0.0; d.as_slice().len()];
    kernel::scale(d.as_slice(), total.sqrt(), &mut u);
    u
}

/// The regions and barriers of the ghost exchange: made once, known to every shard.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Layout {
    ghosts: Region,
    to_left: Edges,
    to_right: Edges,
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

    /// Adds shard `s`'s block and what it needs for the exchange, where it fills `slots` of its neighbours' ghosts. Its
    /// own ones it holds all, so that they stay where it is even if it reads none.
    fn holds<A>(&self, start: Start<A>, s: u32, block: Region, slots: &[Field<f64>]) -> Start<A> {
        let start = start.writes(block, [D]);
        if self.shards == 1 {
            // The only shard is its own neighbour.
            let start = start.shares(self.left_ghosts(0), G, Privilege::ReadWrite);
            return start.shares(self.right_ghosts(0), G, Privilege::ReadWrite);
        }
        let start = start.shares(self.left_ghosts(s), G, Privilege::Read);
        let start = start.shares(self.right_ghosts(s), G, Privilege::Read);
        if slots.is_empty() {
            return start;
        }
        let filled = || slots.iter().copied();
        let start = start.shares(self.right_ghosts(self.left(s)), filled(), Privilege::WriteDiscard);
        start.shares(self.left_ghosts(self.right(s)), filled(), Privilege::WriteDiscard)
    }
}

/// A shard's view of its block and of the exchange.
struct Exchange {
    d: Local,
    /// Own ghosts, and the neighbours' that this shard fills.
    own: [Local; 2],
    theirs: [Local; 2],
    /// Where it says that it has filled them, and waits until its own ones are.
    fills: [Producer; 2],
    uses: [Consumer; 2],
    h: f64,
}

impl Exchange {
    fn new(shard: &Shard, layout: &Layout, d: Local) -> Result<Self, Error> {
        let s = shard.index();
        let (left, right) = (layout.left(s), layout.right(s));
        let own = [shard.region(layout.left_ghosts(s))?, shard.region(layout.right_ghosts(s))?];
        #[cfg(feature = "plant")]
        let own = if shard.planted(maniple::runtime::plant::Bug::SwappedGhosts) { [own[1], own[0]] } else { own };
        Ok(Self {
            d,
            own,
            theirs: [shard.region(layout.right_ghosts(left))?, shard.region(layout.left_ghosts(right))?],
            fills: [layout.to_left.producer(shard, left)?, layout.to_right.producer(shard, right)?],
            uses: [layout.to_right.consumer(shard, left)?, layout.to_left.consumer(shard, right)?],
            h: layout.h,
        })
    }

    /// The first vector.
    fn load(&self, shard: &Shard, values: Vec<f64>) -> Result<(), Error> {
        let ([left, right], [to_left, to_right]) = (&self.theirs, &self.fills);
        let args = (self.d.write(D), left.write_shared(G[1]), right.write_shared(G[1]), values.into());
        shard.launch(load, args).arrive(to_left.ready()).arrive(to_right.ready()).go()?.detach();
        Ok(())
    }

    /// The regions of iteration `iteration`: the block, own ghosts, the neighbours'.
    fn regions(&self, iteration: usize) -> Regions {
        let ([left, right], [to_left, to_right]) = (&self.own, &self.theirs);
        let (full, next) = (G[iteration % 2], G[(iteration + 1) % 2]);
        (
            self.d.read_write(D),
            left.read_shared(full),
            right.read_shared(full),
            to_left.write_shared(next),
            to_right.write_shared(next),
        )
    }

    /// Has the task of an iteration wait until its ghosts are full, and announce that the neighbours' next ones are.
    fn exchanging<'s, F: Leaf<M, O>, M: 'static, O: Send + 'static>(
        &'s self,
        launch: Launch<'s, F, M, O>,
    ) -> Result<TaskFuture<O>, Error> {
        let ([from_left, from_right], [to_left, to_right]) = (&self.uses, &self.fills);
        launch.wait(from_left.ready()).wait(from_right.ready()).arrive(to_left.ready()).arrive(to_right.ready()).go()
    }

    /// An iteration, from the total of the last one; the future holds the block's square sum.
    fn advance(&self, shard: &Shard, iteration: usize, total: Value<f64>) -> Result<TaskFuture<f64>, Error> {
        let (d, left, right, to_left, to_right) = self.regions(iteration);
        self.exchanging(shard.launch(advance, (d, left, right, to_left, to_right, total, self.h.into())))
    }

    /// The same, with total and square sum in regions; the future holds when the total was read.
    fn advance_from(
        &self,
        shard: &Shard,
        iteration: usize,
        total: &Local,
        sum: &Local,
    ) -> Result<TaskFuture<u64>, Error> {
        let (d, left, right, to_left, to_right) = self.regions(iteration);
        let (total, sum) = (total.read(S), sum.write(S));
        self.exchanging(shard.launch(advance_from, (d, left, right, to_left, to_right, total, sum, self.h.into())))
    }
}

/// The regions of an iteration's task.
type Regions = (
    Requirement<ReadWrite<'static, f64>>,
    Requirement<ReadShared<'static, f64>>,
    Requirement<ReadShared<'static, f64>>,
    Requirement<WriteShared<'static, f64>>,
    Requirement<WriteShared<'static, f64>>,
);

#[derive(Clone, Serialize, Deserialize)]
struct ShardArgs {
    layout: Layout,
    block: Region,
    start: Vec<f64>,
    total: Allreduce<f64>,
    iterations: usize,
    ahead: usize,
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

/// When an iteration's local sum and total were there. On shard 0 alone: the others need no room for it.
type Stamps = Box<(Stamp, Stamp)>;

impl ShardResult {
    /// Takes an iteration's total in, unless an earlier one was the last; whether there is a next iteration. Only shard 0,
    /// which has stamps, keeps them all.
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
/// A future has room for all that it ever moves, and there are many shards: what this one begins with is gone before it is
/// made, and what it goes on with is used where it is.
fn iterate(shard: Shard, args: ShardArgs) -> impl Future<Output = Result<ShardResult, Error>> {
    let ShardArgs { layout, block, start, total: sum, mut iterations, ahead: most, history } = args;
    let exchange = shard.region(block).and_then(|d| Exchange::new(&shard, &layout, d));
    async move {
        let exchange = exchange.as_ref().map_err(Error::clone)?;
        let watched = shard.index() == 0;
        let mut result = ShardResult { began: now(), ..ShardResult::default() };
        let mut vectors = Vec::new();
        let mut ahead: VecDeque<(TaskFuture<f64>, Option<Stamps>)> = VecDeque::new();
        exchange.load(&shard, start)?;
        let mut last_total = Value::Now(SCALED);
        let mut launched = 0;
        loop {
            if launched < iterations {
                launched += 1;
                let local = exchange.advance(&shard, launched, last_total)?;
                let total = sum.call(&shard, &local)?;
                let stamps = watched.then(|| Box::new((local.stamp(), total.stamp())));
                if history || launched == iterations {
                    vectors.push(shard.launch(store, (exchange.d.read(D), (&total).into())).go()?);
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
        Ok(result)
    }
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
    /// Do this iteration; none after the last.
    iteration: Option<usize>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct StepResult {
    vector: Option<Vec<f64>>,
    /// When the total was read and when the sum was written (shard 0).
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

#[expect(clippy::too_many_arguments, reason = "a leaf task has a parameter for each region")]
fn advance_from(
    d: ReadWrite<f64>,
    left: ReadShared<f64>,
    right: ReadShared<f64>,
    to_left: WriteShared<f64>,
    to_right: WriteShared<f64>,
    total: Read<f64>,
    mut sum: Write<f64>,
    h: Val<f64>,
) -> u64 {
    let began = now();
    sum.fill(advance(d, left, right, to_left, to_right, Val(total.as_slice()[0]), h));
    began
}

/// The vector, and when the total was read.
fn store_from(d: Read<f64>, total: Read<f64>) -> (Vec<f64>, u64) {
    let began = now();
    (store(d, Val(total.as_slice()[0])), began)
}

/// One iteration of one shard of the aggregation version: the shard task ends with it.
async fn step(shard: Shard, args: StepArgs) -> Result<StepResult, Error> {
    let mut result = StepResult::default();
    let (d, total) = (shard.region(args.block)?, shard.region(args.total)?);
    if args.store {
        let (vector, began) = shard.launch(store_from, (d.read(D), total.read(S))).go()?.await?;
        (result.vector, result.stamps.0) = (Some(vector), began);
    }
    if let Some(iteration) = args.iteration {
        let exchange = Exchange::new(&shard, &args.layout, d)?;
        if let Some(start) = args.start {
            exchange.load(&shard, start)?;
        }
        let sum = shard.region(args.sum)?;
        let began = exchange.advance_from(&shard, iteration, &total, &sum)?.await?;
        result.stamps = (began, now());
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
    let total = parent.map(a.total, [S.id()], Privilege::WriteDiscard).await?;
    parent.launch(put_scaled, (total.write(S),)).go()?.await?;
    for iteration in 1..=a.iterations + 1 {
        let (first, last) = (iteration == 1, iteration == a.iterations + 1);
        let store = !first && (a.history || last);
        let locate = |s: u32| -> Result<(Region, Region), Error> {
            let at = i64::from(s);
            let sum = Region { tree: a.sums.tree, rect: Rect::line(at, at + 1) };
            Ok((blocks.sub(s as usize)?, sum))
        };
        let places: Vec<(Region, Region)> = (0..a.gang.shards()).map(locate).collect::<Result<_, _>>()?;
        // The first vector fills a slot as well, and after the last iteration none is filled.
        let slots = match (first, last) {
            (true, _) => &G[..],
            (_, true) => &[],
            _ => std::slice::from_ref(&G[(iteration + 1) % 2]),
        };
        let results = parent
            .launch_gang(&a.gang, &a.step, |s| {
                let (block, sum) = places[s as usize];
                let rect = block.rect;
                let start = first.then(|| a.start[rect.lo(0) as usize..rect.hi(0) as usize].to_vec());
                let (layout, total) = (a.layout, a.total);
                let args =
                    StepArgs { layout, block, sum, total, start, store, iteration: (!last).then_some(iteration) };
                let start = layout.holds(Start::new(args), s, block, slots);
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
    let line = top.tree("line", Rect::line(0, cells as i64), &[D.info()])?;
    let ghosts = top.tree("ghosts", Rect::line(0, 4 * i64::from(shards)), &G.map(|slot| slot.info()))?;
    let to_left =
        top.edges("ghosts to the left", gang, (0..gang.shards()).map(|s| (s, (s + shards - 1) % shards)), 1)?;
    let to_right = top.edges("ghosts to the right", gang, (0..gang.shards()).map(|s| (s, (s + 1) % shards)), 1)?;
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
            let options = Options { algorithm: Some(algorithm), ..Options::default() };
            let total = Allreduce::with(&top, &gang, "sum of squares", Operator::sum(), options)?;
            let task = top.task("stencil", iterate);
            let blocks = Partition::blocks(line, &input.sizes)?;
            let blocks: Vec<Region> =
                (0..input.sizes.len()).map(|s| blocks.sub(s)).collect::<Result<_, RegionError>>()?;
            let results = top.launch(&gang, &task, |s| {
                let block = blocks[s as usize];
                let start = input.start[block.rect.lo(0) as usize..block.rect.hi(0) as usize].to_vec();
                let Input { iterations, ahead, history, .. } = input;
                let args = ShardArgs { layout, block, start, total, iterations, ahead, history };
                layout.holds(Start::new(args), s, block, &G)
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
            let Input { sizes, start, iterations, history, .. } = input;
            let start = start.to_vec();
            let args = Aggregation { layout, line, sizes, sums, total, gang, step, start, iterations, history };
            let ghosts = G.map(|slot| slot.id());
            let regions: [(Region, &[FieldId]); 4] =
                [(line, &[D.id()]), (layout.ghosts, &ghosts), (sums, &[S.id()]), (total, &[S.id()])];
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
