//! A program in the form of MapReduce: tasks on pieces of the data, a block for each other shard, and tasks that put what has come
//! together in pairs.

use maniple::prelude::*;
use maniple::runtime::now;
use maniple_apps::{Mode, nanoseconds};
use std::time::Duration;

/// What a shard does, in nanoseconds of one core and in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Program {
    /// When tasks on parts start.
    pub mode: Mode,
    /// Tasks that map.
    pub tasks: usize,
    /// The time of each.
    pub map_ns: f64,
    /// The time in which a block is made.
    pub block_ns: f64,
    /// The bytes of a block.
    pub bytes: usize,
}

/// The sum that a shard gets: of its number and a number of each other one, both from 1, for each task.
fn sum(shard: u32, shards: u32, tasks: usize) -> u64 {
    let (shard, shards) = (u64::from(shard) + 1, u64::from(shards));
    tasks as u64 * (shards * shard + shards * (shards + 1) / 2)
}

async fn work(
    shard: Shard,
    (exchange, start): (Collective<[u64]>, Collective<()>),
    program: Program,
) -> Result<(Duration, bool), Error> {
    let (me, shards) = (shard.index(), shard.shards() as usize);
    start.call(&shard, ())?.await?;
    let began = now();
    let maps = shard.index_launch(program.tasks, |_: Arg<usize>| 1u64, |n| (n.into(),)).named("map");
    let maps = maps.takes(nanoseconds(program.map_ns)).go()?;
    let add = |maps: Many<Arg<u64>>| maps.into_iter().map(|one| *one).sum::<u64>();
    let mapped =
        shard.launch(add, (maps.iter().map(Into::into).collect(),)).named("mapped").takes(Duration::ZERO).go()?;
    let block = move |mapped: Arg<u64>, to: Arg<usize>| vec![*mapped * (u64::from(me) + 1 + to.0 as u64 + 1)];
    let blocks = shard.index_launch(shards, block, |to| ((&mapped).into(), to.into())).named("block");
    // The next shard's block leaves first: nobody gets all first blocks.
    let blocks = blocks.first(me as usize + 1).takes(nanoseconds(program.block_ns)).go()?;
    let parts = exchange.call_parts(&shard, blocks)?;
    if program.mode == Mode::Whole {
        parts.all().await?;
    }
    // In virtual time these take as long as the machine's other tasks.
    let join = |a: Arg<Vector<u64>>, b: Arg<Vector<u64>>| Vector::from(vec![a[0] + b[0]]);
    let all = parts.fold(&shard, join)?.await?;
    Ok((now() - began, all[0] == sum(me, shards as u32, program.tasks)))
}

/// Runs the program and verifies its sums. Returns the time of the slowest shard.
///
/// # Errors
/// Errors of the runtime, and a wrong sum.
pub fn run(runtime: &Runtime, shards: u32, program: Program) -> Result<Duration, Error> {
    let (found, _) = runtime.run(move |top| async move {
        let gang = top.gang("shards", shards)?;
        let exchange = Collective::<u64>::all_to_all().any_sizes().standing_for(program.bytes);
        let exchange = exchange.make(&top, &gang, "exchange")?;
        let start = Collective::<()>::barrier().make(&top, &gang, "start")?;
        let task = top.register("map-reduce", move |shard, part| work(shard, part, program));
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((exchange, start)))?.all().await
    })?;
    match found.iter().position(|(_, right)| !right) {
        None => Ok(found.iter().map(|(time, _)| *time).max().unwrap_or_default()),
        Some(shard) => Err(Error::user(format!("shard {shard} has another sum"))),
    }
}
