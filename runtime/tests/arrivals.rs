//! Launches that are not made.

mod common;

use common::watched;
use maniple_mapper::{LeafInput, LeafOutput, Mapper, PlaceShardsInput, Placement};
use maniple_regions::{Coherence, Field, Privilege, Rect, Region, Write};
use maniple_runtime::{Error, Gang, Pairs, PhaseBarrier, PhaseOptions, Runtime, Shard, Start, Top, Val};
use std::future::Future;
use std::sync::Arc;

const U: Field<i64> = Field::new(0, "u");

/// Puts shards on processors in turn, and panics for leaf tasks named `unmapped`.
struct Cyclic;

impl Mapper for Cyclic {
    fn name(&self) -> &str {
        "cyclic"
    }
    fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
        Placement::Cyclic
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        assert!(input.task != "unmapped", "mapper bomb");
        LeafOutput::local(input)
    }
}

fn runtimes(seeds: u64) -> impl Iterator<Item = (String, Runtime)> {
    let seeded = (0..seeds).map(|seed| {
        let processors = 1 + (seed % 4) as u32;
        (format!("{processors} processors, seed {seed}"), Runtime::seeded(processors, seed))
    });
    let threads = (1..=3).map(|workers| (format!("{workers} threads"), Runtime::threads(workers)));
    seeded.chain(threads).map(|(name, r)| (name, r.mapper(Arc::new(Cyclic))))
}

fn run<F, Fut, R>(at: &str, runtime: &Runtime, top: F) -> Result<R, Error>
where
    F: Fn(Top) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Error>> + 'static,
    R: Send + 'static,
{
    watched(at, || runtime.run(top)).map(|r| r.0)
}

fn nothing() {}

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Links {
    ring: Pairs,
    gate: PhaseBarrier,
    begin: Pairs,
}

fn links(top: &Top, shards: u32, gate: PhaseOptions) -> Result<(Gang, Links), Error> {
    let gang = top.gang("all", shards)?;
    let ring = top.pairs("ring", &gang, move |s| (s + 1) % shards)?;
    let begin = top.pairs("begin", &gang, |s| s)?;
    let gate = top.phase_barrier("gate", &gang, gate)?;
    Ok((gang, Links { ring, gate, begin }))
}

/// A launch that is dropped, or refused, neither waits nor arrives: whoever waits gets the next one that is made.
#[test]
fn a_launch_that_is_not_made_takes_no_generation() {
    fn put(mut u: Write<i64>, _: Val<i64>) {
        u.fill(1);
    }
    async fn shard(shard: Shard, (links, region, how): (Links, Region, u32)) -> Result<(), Error> {
        let from = (shard.index() + shard.shards() - 1) % shard.shards();
        let (out, inn) = (links.ring.producer(&shard)?, links.ring.consumer(&shard, from)?);
        let (arriver, waiter) = (links.gate.arriver(&shard)?, links.gate.waiter(&shard)?);
        let u = shard.region(region)?;
        for round in 0..4 {
            if how == 0 {
                drop(shard.launch(nothing, ()).wait(&inn.ready).wait(&waiter).arrive(&out.ready).arrive(&arriver));
            } else if how == 1 {
                // The shard may only read.
                let launch = shard.launch(put, (u.write(U), 1.into()));
                let launch = launch.wait(&inn.ready).wait(&waiter).arrive(&out.ready).arrive(&arriver);
                launch.go().expect_err("it holds less");
            } else {
                let launch = shard.launch(nothing, ()).named("unmapped");
                let launch = launch.wait(&inn.ready).wait(&waiter).arrive(&out.ready).arrive(&arriver);
                launch.go().expect_err("the mapper panics");
            }
            assert_eq!((out.ready.generation(), arriver.generation()), (round, round));
            assert_eq!((inn.ready.generation(), waiter.generation()), (round, round));
            shard.launch(nothing, ()).arrive(&out.ready).arrive(&arriver).go()?.detach();
            shard.launch(nothing, ()).wait(&inn.ready).wait(&waiter).go()?.await?;
        }
        Ok(())
    }
    for (name, runtime) in runtimes(50) {
        for how in 0..3 {
            let at = format!("launch that is not made, {how}, on {name}");
            let outcome = run(&at, &runtime, move |top| async move {
                let (gang, links) = links(&top, 3, PhaseOptions::between(0..3, 0..3))?;
                let tree = top.tree("line", Rect::line(0, 3), &[U.info()])?;
                let task = top.task("shard", shard);
                let done = top.launch(&gang, &task, |_| {
                    Start::new((links, tree, how)).holds(tree, [U.id()], Privilege::Read, Coherence::Exclusive)
                })?;
                done.all().await
            });
            assert_eq!(outcome, Ok(vec![(); 3]), "{at}");
        }
    }
}
