//! Utility processors: what runs there, and what that is good for.

use crate::common::{pause, run};
use crossbeam_channel::unbounded;
use maniple_mapper::{LeafInput, LeafOutput, Mapper, PlaceShardsInput, Placement, ProcessorId};
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch, Top};
use std::sync::Arc;

/// The processor that runs a leaf task, from the name of its thread.
fn processor() -> u32 {
    let thread = std::thread::current();
    thread.name().and_then(|name| name.strip_prefix("maniple ")?.parse().ok()).expect("a worker's thread")
}

/// The shard's processor, and the processors of its leaf tasks: of one, and of an index launch.
async fn who(shard: Shard, _: ()) -> Result<(u32, u32, Vec<u32>), Error> {
    let here = shard.processor().0;
    let one = shard.launch(processor, ()).go()?.await?;
    let points = shard.index_launch(5, processor, |_| ()).go();
    Ok((here, one, points?.all().await?))
}

/// Puts shards and leaf tasks on these processors.
struct Puts {
    shards: Vec<u32>,
    leaves: Option<u32>,
}

impl Mapper for Puts {
    fn name(&self) -> &str {
        "puts"
    }
    fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
        Placement::Explicit(self.shards.iter().copied().map(ProcessorId).collect())
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let local = LeafOutput::local(input);
        LeafOutput { processor: self.leaves.map_or(local.processor, ProcessorId), ..local }
    }
}

async fn launch(top: Top, shards: u32) -> Result<Vec<(u32, u32, Vec<u32>)>, Error> {
    let (gang, task) = (top.gang("all", shards)?, top.register("who", who));
    top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
}

#[test]
fn by_default_nothing_runs_there() {
    for utility in 0..3 {
        let leaf_processors = 3 - utility;
        let all = run("default", &Runtime::threads(3).utility(utility), |top| launch(top, 7)).unwrap();
        for (s, (here, one, points)) in all.into_iter().enumerate() {
            // Blocked.
            assert_eq!(here, s as u32 * leaf_processors / 7, "{utility}");
            assert_eq!((one, points), (here, vec![here; 5]), "{utility}");
        }
    }
}

#[test]
fn a_mapper_may_put_shards_there_and_their_leaf_tasks_run_elsewhere() {
    let mapper = || Arc::new(Puts { shards: vec![2, 3, 0, 1], leaves: None });
    let all = run("shards", &Runtime::threads(4).utility(2).mapper(mapper()), |top| launch(top, 4)).unwrap();
    assert_eq!(all.iter().map(|(here, ..)| *here).collect::<Vec<_>>(), [2, 3, 0, 1]);
    for (here, one, points) in all {
        assert!([one].iter().chain(&points).all(|&at| if here < 2 { at == here } else { at < 2 }), "{here} {points:?}");
    }
    let seeded = |seed| {
        let mapper = Arc::new(Puts { shards: vec![2, 3, 0, 1], leaves: None });
        run("seeded", &Runtime::seeded(4, seed).utility(2).mapper(mapper), move |top| async move {
            let places = top.placement(&top.gang("all", 4)?)?;
            let task = top.register("sums", |shard: Shard, _: ()| async move { shard.launch(|| 7u32, ()).go()?.await });
            let gang = top.gang("all", 4)?;
            Ok((places, top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?))
        })
    };
    for seed in 0..50 {
        assert_eq!(seeded(seed).unwrap(), ([2, 3, 0, 1].map(ProcessorId).to_vec(), vec![7; 4]), "seed {seed}");
    }
}

#[test]
fn a_leaf_task_there_is_refused_with_the_processors_that_are_legal() {
    for shards in [vec![0], vec![2]] {
        let mapper = Arc::new(Puts { shards, leaves: Some(2) });
        let outcome = run("leaves", &Runtime::threads(3).utility(1).mapper(mapper), |top| launch(top, 1));
        let message = outcome.unwrap_err().origin().to_string();
        let expected = "illegal processor: 2; legal: 0..2, the node of shard 0 without its utility processors";
        assert!(message.ends_with(expected), "{message}");
    }
}

/// The task ends only when its own shard has gone on.
#[test]
fn a_shard_goes_on_while_its_leaf_task_is_long() {
    let mapper = Arc::new(Puts { shards: vec![1], leaves: None });
    let done = run("responsive", &Runtime::threads(2).utility(1).mapper(mapper), |top| async move {
        let gang = top.gang("one", 1)?;
        let task = top.register("talks", |shard: Shard, _: ()| async move {
            let (began, wait_for_beginning) = unbounded::<()>();
            let (go_on, wait_for_shard) = unbounded::<()>();
            let long = move || {
                began.send(()).expect("the shard listens");
                wait_for_shard.recv().expect("the shard goes on");
            };
            let done = shard.launch(long, ()).go()?;
            while wait_for_beginning.try_recv().is_err() {
                pause().await;
            }
            go_on.send(()).expect("the task waits");
            done.await
        });
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
    });
    assert_eq!(done.unwrap(), [()]);
}

#[test]
fn some_processor_must_run_leaf_tasks() {
    for runtime in [Runtime::threads(2).utility(2), Runtime::seeded(3, 1).utility(9)] {
        let message = run("none left", &runtime, |top| launch(top, 1)).unwrap_err().to_string();
        assert!(message.starts_with("number of utility processors: expected fewer than the "), "{message}");
    }
}
