//! A mapper of one's own. It decides where shards and tasks run, how collectives reach remote data and what goes first;
//! the result stays the same.

use maniple::mapper::{Access, CollectiveInput, CollectiveOutput, LeafInput, LeafOutput, PlaceShardsInput, Placement};
use maniple::mapper::{CollectiveMapper, Mapper, Priority, ProcessorId};
use maniple::prelude::*;
use std::sync::Arc;
mod common;

/// Deals shards out like cards, sends each leaf task to the next processor of its node, and has collectives copy remote data.
struct Scatter;

impl Mapper for Scatter {
    fn name(&self) -> &str {
        "scatter"
    }
    fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
        Placement::Cyclic
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let local = LeafOutput::local(input);
        // The legal ones: the processors of the node without its utility processors.
        let mut legal = input.machine.leaf_processors_of(input.machine.node_of(input.processor));
        let first = legal.clone().next();
        let next = legal.find(|p| *p > input.processor).or(first);
        LeafOutput { processor: next.unwrap_or(local.processor), ..local }
    }
    fn map_collective(&self, _: &CollectiveInput<'_>) -> CollectiveOutput {
        CollectiveOutput { access: Access::Copy, priority: Priority::RAISED, ..Default::default() }
    }
}

fn cube(x: Arg<u64>) -> u64 {
    x.pow(3)
}

async fn shard(shard: Shard, total: Collective<u64>) -> Result<(ProcessorId, u64), Error> {
    let local = shard.launch(cube, (u64::from(shard.index() + 1).into(),)).go()?;
    Ok((shard.processor(), total.call(&shard, &local)?.await?))
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (n, mut lines) = (u64::from(shards), Vec::new());
    for (mapper, cyclic) in [(Arc::new(CollectiveMapper) as Arc<dyn Mapper>, false), (Arc::new(Scatter), true)] {
        let name = mapper.name().to_string();
        let (results, stats) = Runtime::threads(workers).mapper(mapper).run(move |top| async move {
            let gang = top.gang("all", shards)?;
            let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
            let task = top.register("cubes", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(total))?.all().await
        })?;
        let placed = |s: u32| ProcessorId(if cyclic { s % workers } else { s * workers / shards });
        let expected = (0..shards).map(|s| (placed(s), (n * (n + 1) / 2).pow(2))).collect();
        common::verify("processor and sum of cubes of each shard", results, expected)?;
        let (copies, staged) = (stats.region_copies, stats.staged_bytes);
        lines.push(format!("{name}: {} messages, {copies} regions copied, {staged} bytes staged", stats.messages));
    }
    Ok(lines.join("\n"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
