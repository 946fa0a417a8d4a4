//! What both versions of the application on shard tasks have in common.
//!
//! An iteration of a shard is one leaf task. From the last derivative, its total and the ghost cells it computes the next
//! derivative in place, and its square sum. It sends the edges of its block to the neighbours before they are scaled, so
//! that they travel while the total is computed. The two versions differ in how they compute the total.

use crate::kernel;
use crate::problem::{Output, Problem, Sink, Start};
use crate::reference::{BlockCheck, DominantMode};
use maniple::halo::{Borders, Ghosts, HaloEnds, HaloOptions, Halos};
use maniple::prelude::*;
use maniple::runtime::Stats;
use serde::{Deserialize, Serialize};

/// The derivative, not scaled; before the first iteration, the first vector.
pub const D: Field<f64> = Field::new(0, "d");

/// The total of a vector that needs no scaling.
pub(crate) const SCALED: f64 = 1.0;

/// Nanoseconds since the run began, by its own clock.
pub(crate) fn now() -> u64 {
    maniple::runtime::now().as_nanos() as u64
}

/// The leaf task before the first iteration: stores the first vector and sends the edges of the block.
pub fn load(mut d: Write<f64>, mut borders: Borders<f64>, values: Arg<Vec<f64>>) {
    d.copy_from_slice(&values);
    borders.send([&values[..]].into_iter());
}

/// [`load`] for a block that has its values.
fn send(d: Read<f64>, mut borders: Borders<f64>) {
    borders.send(d.rows());
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
pub(crate) fn check(d: Read<f64>, total: Arg<f64>, mode: Arg<DominantMode>, iteration: Arg<u64>) -> BlockCheck {
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
pub(crate) enum First {
    Values(Vec<f64>),
    Mode(DominantMode),
    /// The block has the values of a checkpoint.
    Restored,
    /// An earlier launch has left the block and sent its edges.
    Kept,
}

impl First {
    pub fn of(start: &Start, block: Region) -> Self {
        match start {
            Start::Vector(all) => First::Values(all[block.rect.lo(0) as usize..block.rect.hi(0) as usize].to_vec()),
            Start::Mode(mode) => First::Mode(*mode),
        }
    }

    pub fn load(self, shard: &Shard, d: &RegionView, halo: &HaloEnds<f64>) -> Result<(), Error> {
        let borders = halo.borders();
        match self {
            First::Values(values) => shard.launch(load, (d.write(D), borders, values.into())).go()?.detach(),
            First::Mode(mode) => shard.launch(load_mode, (d.read_write(D), borders, mode.into())).go()?.detach(),
            First::Restored => shard.launch(send, (d.read(D), borders)).go()?.detach(),
            First::Kept => {}
        }
        Ok(())
    }
}

/// Whether there is a next vector after the last of `count` iterations. Every shard sees the same totals, so all stop at
/// the same iteration.
pub(crate) fn goes_on(count: usize, last: Option<f64>) -> bool {
    last.is_none_or(|sum| kernel::root(count, sum).is_ok())
}

/// What a version found.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Found {
    pub sums: Vec<f64>,
    /// The iterations of a checkpoint. Only the top-level task knows it.
    #[serde(skip)]
    pub restored: usize,
    pub vectors: Vec<Vec<f64>>,
    pub checks: Vec<BlockCheck>,
    /// The time when it began, and the times when each local sum and total were there.
    pub began: u64,
    pub stamps: Vec<(u64, u64)>,
}

impl Found {
    /// The output, with times from stamps: an iteration lasts from one total to the next, its collective from the local sum to
    /// the total.
    pub fn output(self, stats: Stats) -> Output {
        let Self { sums, restored, vectors, checks, began, stamps } = self;
        let starts = std::iter::once(began).chain(stamps.iter().map(|s| s.1));
        let us = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1000.0;
        Output {
            sums,
            restored,
            vectors,
            checks,
            iteration_us: starts.zip(&stamps).map(|(from, &(_, to))| us(from, to)).collect(),
            collective_us: stamps.iter().map(|&(from, to)| us(from, to)).collect(),
            stats,
        }
    }
}

/// The gang, the line, its blocks and their halos.
pub(crate) fn layout(top: &Top, input: &Problem) -> Result<(Gang, Region, Partition, Halos<f64>), Error> {
    let gang = top.gang("stencil", input.sizes.len() as u32)?;
    let line = top.region_tree("line", Rect::line(0, input.cells() as i64), &[D.info()])?;
    let blocks = Partition::blocks(line, &input.sizes)?;
    let options = HaloOptions::new(kernel::GHOSTS).periodic([true]);
    let halos = Halos::new(top, "ghosts", &gang, &blocks, options)?;
    Ok((gang, line, blocks, halos))
}

/// Returns a piece of the last vector, if the shard has one.
async fn hand_over(shard: Shard, (piece, total): (Option<Region>, f64)) -> Result<Vec<f64>, Error> {
    let Some(piece) = piece else { return Ok(Vec::new()) };
    let d = shard.region(piece)?;
    shard.launch(store, (d.read(D), total.into())).go()?.await
}

/// Gives the last vector to the sink, in pieces that fit into memory.
pub(crate) async fn drain(top: &Top, gang: &Gang, blocks: &[Region], sums: &[f64], sink: &Sink) -> Result<(), Error> {
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
        let parts = top.launch_gang(gang, &task, |s| {
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
