//! Loose launches: gangs without barriers, whose launches only the data orders.

use crate::program::{Act, Program};
use crate::tasks::{Tag, digest, fold, set, update};
use crate::top::Shared;
use crate::values::folding;
use crate::worker::FIELDS;
use maniple::mapper::NodeId;
use maniple::prelude::*;
use maniple::regions::{Coherence, Privilege, Reduce};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The argument of a loose launch's shards.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct LooseArgs {
    block: Region,
    field: usize,
    act: Act,
    number: i64,
    yields: u8,
}

/// A loose launch of a stage, with its gang, task and tree.
#[derive(Clone, Copy)]
pub struct Loosely {
    stage: usize,
    at: usize,
    tree: Region,
    pub gang: Gang,
    pub task: ShardTask<LooseArgs, i64>,
}

/// Launches the task of a loose launch on a part. `$on` is what launches it, and `$go` does so with the `$launch` that it is given.
macro_rules! launched {
    ($on:expr, $part:expr, $args:expr, $tag:expr, $launch:ident => $go:expr) => {{
        let (part, field, k, tag) = ($part, FIELDS[$args.field], $args.number, $tag);
        match $args.act {
            Act::Digest => {
                let task = move |u: Read<i64, D>| {
                    tag.goes_off();
                    digest(&u, 1)
                };
                let $launch = $on.launch(task, (part.read(field),)).named("loose");
                $go
            }
            Act::Set => {
                let task = move |mut u: Write<i64, D>| {
                    tag.goes_off();
                    set(&mut u, k);
                    k
                };
                let $launch = $on.launch(task, (part.write(field),)).named("loose");
                $go
            }
            Act::Update => {
                let task = move |mut u: ReadWrite<i64, D>| {
                    tag.goes_off();
                    update(&mut u, k)
                };
                let $launch = $on.launch(task, (part.read_write(field),)).named("loose");
                $go
            }
            Act::Fold(operator) => {
                let task = move |mut u: Reduce<i64, D>| {
                    tag.goes_off();
                    fold(&mut u, k);
                    3
                };
                let $launch = $on.launch(task, (part.reduce(field, folding(operator)),)).named("loose");
                $go
            }
        }
    }};
}

/// Makes the loose launches of a stage.
pub fn loose(
    top: &Top,
    at: usize,
    program: &Program,
    task: ShardTask<LooseArgs, i64>,
    trees: [Region; 2],
) -> Result<Vec<Loosely>, Error> {
    let mut gangs = BTreeMap::new();
    let mut all = Vec::new();
    for (i, loose) in program.stages[at].loose.iter().enumerate() {
        let key = (loose.gang, loose.shards);
        let gang = match gangs.get(&key) {
            Some(gang) => *gang,
            None => top.gang(&format!("loose {at} {} of {}", loose.gang, loose.shards), loose.shards)?,
        };
        gangs.insert(key, gang);
        all.push(Loosely { stage: at, at: i, tree: trees[program.loose(at, loose).0], gang, task });
    }
    Ok(all)
}

impl Loosely {
    fn args<const D: usize>(&self, program: &Program, shard: u32) -> LooseArgs {
        let loose = &program.stages[self.stage].loose[self.at];
        let block = Region::new(self.tree.tree, program.loose_block(loose, shard).rect::<D>());
        let act = program.loose(self.stage, loose).1;
        LooseArgs { block, field: loose.field, act, number: loose.number, yields: loose.yields }
    }

    pub fn start<const D: usize>(&self, program: &Program, shard: u32) -> ShardLaunch<LooseArgs> {
        let args = self.args::<D>(program, shard);
        let privilege = match args.act {
            Act::Digest => Privilege::Read,
            Act::Set => Privilege::WriteDiscard,
            Act::Update => Privilege::ReadWrite,
            Act::Fold(operator) => Privilege::Reduce(folding(operator).id()),
        };
        ShardLaunch::new(args).require(args.block, [FIELDS[args.field]], privilege, Coherence::Exclusive)
    }

    /// Launches it, as a gang or in a flow.
    pub async fn launch<const D: usize>(&self, top: &Top, shared: &Shared) -> Result<Vec<TaskFuture<i64>>, Error> {
        let program = &shared.program;
        let loose = program.stages[self.stage].loose[self.at];
        if !loose.flow {
            let done = top.launch_gang(&self.gang, &self.task, |s| self.start::<D>(program, s))?;
            return Ok(done.iter().cloned().collect());
        }
        let node = loose.node.map(|node| NodeId(u32::from(node) % top.nodes()));
        let one = |shard: u32| {
            let (args, tag) = (self.args::<D>(program, shard), Tag { _probe: shared.probe.clone(), bomb: None });
            launched!(top, top.region(args.block)?, args, tag, launch => match node {
                Some(node) => launch.on(node).go(),
                None => launch.go(),
            })
        };
        let done = (0..loose.shards).map(one).collect();
        if loose.yields > 0 {
            top.window(loose.yields.into()).await;
        }
        done
    }

    /// Awaits the launch and notes its values.
    pub async fn ends(&self, shared: &Shared, done: impl IntoIterator<Item = TaskFuture<i64>>) {
        for (shard, end) in done.into_iter().enumerate() {
            let end = end.await;
            shared.seen().loose.push((self.stage, self.at, shard, end));
        }
    }
}

/// A shard of a loose launch.
pub async fn loosely<const D: usize>(shard: Shard, args: LooseArgs, shared: Arc<Shared>) -> Result<i64, Error> {
    for _ in 0..args.yields {
        shard.yield_now().await;
    }
    let tag = Tag { _probe: shared.probe.clone(), bomb: None };
    launched!(shard, shard.region(args.block)?, args, tag, launch => launch.go())?.await
}
