//! Mappers that panic, and their illegal answers.

use super::{Links, U, all, fails_on, links};
use crate::common::watched;
use maniple_mapper::{
    CollectiveInput, CollectiveOutput, LeafInput, LeafOutput, Mapper, PlaceShardsInput, PlaceSharedInput, Placement,
    Priority, ProcessorId,
};
use maniple_regions::{Coherence, Privilege, ReadShared, Rect, Region, Write, WriteShared};
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch, Top};
use std::sync::Arc;

/// Panics in one of its calls, or gives an illegal answer.
struct Bad {
    call: &'static str,
    panics: bool,
}

impl Bad {
    fn now(&self, call: &str) -> bool {
        if self.panics && self.call == call {
            panic!("mapper bomb");
        }
        self.call == call
    }
}

impl Mapper for Bad {
    fn name(&self) -> &str {
        "bad"
    }
    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        match self.now("place_shards") {
            true => Placement::Explicit(vec![ProcessorId(99); input.shards as usize]),
            false => Placement::Cyclic,
        }
    }
    fn place_shared(&self, _: &PlaceSharedInput<'_>) -> ProcessorId {
        ProcessorId(if self.now("place_shared") { 77 } else { 0 })
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let mut out = LeafOutput::local(input);
        if self.now("map_leaf") || self.now("processor") {
            out.processor = ProcessorId(1000);
        }
        if self.now("priority") {
            out.priority = Priority(200);
        }
        if self.now("copy") {
            out.copied.push(0);
        }
        out
    }
    fn map_collective(&self, _: &CollectiveInput<'_>) -> CollectiveOutput {
        self.now("map_collective");
        CollectiveOutput::default()
    }
}

/// Shards that share a region and wait for each other; returns what the run gives.
async fn uses_every_call(top: Top) -> Result<Vec<i64>, Error> {
    fn put(mut u: WriteShared<i64>) {
        u.fill(5);
    }
    fn get(u: ReadShared<i64>) -> i64 {
        u.get([0])
    }
    fn own(mut u: Write<i64>) {
        u.fill(1);
    }
    async fn shard(shard: Shard, (tree, links): (Region, Links)) -> Result<i64, Error> {
        let shared = shard.region(Region::new(tree.tree, Rect::line(0, 1)))?;
        let mine = i64::from(shard.index()) + 1;
        let mine = shard.region(Region::new(tree.tree, Rect::line(mine, mine + 1)))?;
        let end = (links.all.arriver(&shard)?, links.all.waiter(&shard)?);
        shard.launch(own, (mine.write(U),)).go()?.detach();
        shard.launch(put, (shared.write_shared(U),)).arrive(&end.0).go()?.detach();
        shard.launch(get, (shared.read_shared(U),)).wait(&end.1).go()?.await
    }
    let (gang, links) = links(&top, 3, 0)?;
    let tree = top.region_tree("line", Rect::line(0, 4), &[U.info()])?;
    let task = top.register("shard", shard);
    let done = top.launch_gang(&gang, &task, |s| {
        let (shared, mine) = (Rect::line(0, 1), Rect::line(i64::from(s) + 1, i64::from(s) + 2));
        ShardLaunch::new((tree, links))
            .require(Region::new(tree.tree, shared), [U.id()], Privilege::ReadWrite, Coherence::Simultaneous)
            .require(Region::new(tree.tree, mine), [U.id()], Privilege::ReadWrite, Coherence::Exclusive)
    })?;
    done.all().await
}

fn with(call: &'static str, panics: bool) -> Vec<(String, Runtime)> {
    all().into_iter().map(|(n, r)| (n, r.mapper(Arc::new(Bad { call, panics })))).collect()
}

#[test]
fn a_panic_in_a_mapper_call_is_an_error() {
    for (at, runtime) in with("none", true) {
        assert_eq!(watched(&at, || runtime.run(uses_every_call)).map(|r| r.0), Ok(vec![5; 3]), "{at}");
    }
    for call in ["place_shards", "place_shared", "map_leaf"] {
        fails_on(with(call, true), call, uses_every_call, |e| match e.origin() {
            Error::MapperFailed { message, .. } => assert_eq!(message, "mapper bomb"),
            _ => panic!("{e:?}"),
        });
    }
}

#[test]
fn an_illegal_decision_of_a_mapper_is_an_error() {
    for (call, value) in
        [("place_shards", "99"), ("place_shared", "77"), ("processor", "1000"), ("priority", "200"), ("copy", "Copy")]
    {
        fails_on(with(call, false), call, uses_every_call, |e| match e.origin() {
            Error::Mapper(m) => assert_eq!((m.0.mapper.as_str(), m.0.value.as_str()), ("bad", value)),
            _ => panic!("{e:?}"),
        });
    }
}
