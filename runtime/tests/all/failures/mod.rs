//! Whatever fails, wherever: the program ends, and the error names task and shard and leads to the origin.

mod mappers;
mod shards;

use crate::common;
use crate::common::{any_virtual, watched};
use maniple_mapper::{Priority, stock};
use maniple_regions::{Coherence, Field, Operator, Privilege, Read, ReadWrite, ReadWriteShared, Rect, Region, Write};
use maniple_runtime::{
    Arg, Edges, Error, Gang, InnerTask, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch, ShardTask, Stats, Top,
};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const U: Field<i64> = Field::new(0, "u");

/// The runtimes every failure is tried on.
fn all() -> Vec<(String, Runtime)> {
    let mut all: Vec<_> = (0..20).map(|s| (format!("seed {s}"), Runtime::seeded(1 + (s % 4) as u32, s))).collect();
    all.extend((0..10).map(any_virtual));
    for workers in 1..=3 {
        for round in 0..5 {
            all.push((format!("{workers} threads, round {round}"), Runtime::threads(workers)));
        }
    }
    all
}

/// Runs a program that must fail on every runtime; `check` looks at the error.
fn fails<F, Fut, R>(name: &str, top: F, check: impl Fn(&Error))
where
    F: Fn(Top) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = Result<R, Error>> + 'static,
    R: Send + std::fmt::Debug + 'static,
{
    fails_on(all(), name, top, check);
}

fn fails_on<F, Fut, R>(runtimes: Vec<(String, Runtime)>, name: &str, top: F, check: impl Fn(&Error))
where
    F: Fn(Top) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = Result<R, Error>> + 'static,
    R: Send + std::fmt::Debug + 'static,
{
    for (at, runtime) in runtimes {
        let at = format!("{name} on {at}");
        let outcome: Result<(R, Stats), Error> = watched(&at, || runtime.run(top.clone()));
        match outcome {
            Ok((value, _)) => panic!("{at}: came {value:?}, expected an error"),
            Err(e) => {
                eprintln!("{at}: {e}");
                check(&e);
            }
        }
    }
}

/// The error's origin is this panic in this task and shard.
fn panicked(e: &Error, task: &str, shard: Option<u32>, text: &str) {
    match e.origin() {
        Error::Panicked { place, message } => {
            assert!(place.task.contains(task), "task of {e:?}");
            assert_eq!(place.shard, shard, "{e:?}");
            assert!(message.contains(text), "{e:?}");
        }
        _ => panic!("expected a panic as the origin, came {e:?}"),
    }
}

fn bomb(_: Arg<u32>) -> i64 {
    panic!("leaf bomb")
}

fn after(v: Arg<i64>) -> i64 {
    *v + 1
}

fn nothing() {}

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Links {
    ring: Edges,
    all: PhaseBarrier,
    bad: u32,
}

fn links(top: &Top, shards: u32, bad: u32) -> Result<(Gang, Links), Error> {
    let gang = top.gang("all", shards)?;
    let ring = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % shards)), 1)?;
    let barrier = top.phase_barrier("everybody", &gang, PhaseOptions::all(&gang))?;
    Ok((gang, Links { ring, all: barrier, bad }))
}

#[test]
fn a_panic_in_a_leaf_reaches_all_who_depend_on_it() {
    async fn shard(shard: Shard, links: Links) -> Result<i64, Error> {
        let everybody = (links.all.arriver(&shard)?, links.all.waiter(&shard)?);
        let first = if shard.index() == links.bad {
            shard.launch(bomb, (1.into(),)).go()?
        } else {
            shard.launch(after, (1.into(),)).go()?
        };
        let second = shard.launch(after, ((&first).into(),)).go()?;
        shard.launch(after, ((&second).into(),)).arrive(&everybody.0).go()?.detach();
        shard.wait(&everybody.1).await?;
        second.await
    }
    fails(
        "leaf",
        |top| async move {
            let (gang, links) = links(&top, 5, 3)?;
            let task = top.register("shard", shard);
            let done = top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?;
            let mut outcomes = Vec::new();
            for f in done.iter() {
                outcomes.push(f.clone().await);
            }
            for o in &outcomes {
                panicked(o.as_ref().expect_err("everybody waits for the bad one"), "bomb", Some(3), "leaf bomb");
            }
            done.all().await
        },
        |e| panicked(e, "bomb", Some(3), "leaf bomb"),
    );
}

#[test]
fn a_failure_travels_through_regions() {
    fn explode(mut u: ReadWrite<i64>) {
        u.as_mut_slice()[0] = 5;
        panic!("half written")
    }
    fn sum(u: Read<i64>) -> i64 {
        u.as_slice().iter().sum()
    }
    fn clear(mut u: Write<i64>) {
        u.fill(0);
    }
    async fn shard(shard: Shard, region: Region) -> Result<i64, Error> {
        let whole = shard.region(region)?;
        let part = shard.region(Region::new(region.tree, Rect::line(2, 4)))?;
        let rest = shard.region(Region::new(region.tree, Rect::line(4, 10)))?;
        shard.launch(clear, (whole.write(U),)).go()?.detach();
        shard.launch(explode, (part.read_write(U),)).go()?.detach();
        // What does not overlap is not touched; what does overlap is.
        assert_eq!(shard.launch(sum, (rest.read(U),)).go()?.await, Ok(0));
        let poisoned = shard.launch(sum, (whole.read(U),)).go()?.await;
        panicked(&poisoned.unwrap_err(), "explode", Some(0), "half written");
        // Whoever writes everything afresh makes it good again.
        shard.launch(clear, (part.write(U),)).go()?.detach();
        assert_eq!(shard.launch(sum, (part.read(U),)).go()?.await, Ok(0));
        shard.launch(clear, (whole.write(U),)).go()?.detach();
        shard.launch(sum, (whole.read(U),)).go()?.await
    }
    for (at, runtime) in all() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let tree = top.region_tree("line", Rect::line(0, 10), &[U.info()])?;
                let gang = top.gang("one", 1)?;
                let task = top.register("shard", shard);
                let start =
                    |_| ShardLaunch::new(tree).require(tree, [U.id()], Privilege::ReadWrite, Coherence::Exclusive);
                let done = top.launch_gang(&gang, &task, start)?;
                done.all().await
            })
        });
        let (sums, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
        assert_eq!(sums, [0], "{at}");
    }
}

#[test]
fn a_leaf_that_fails_unseen_fails_the_run() {
    async fn shard(shard: Shard, _: ()) -> Result<(), Error> {
        shard.launch(bomb, (1.into(),)).go()?.detach();
        Ok(())
    }
    fails(
        "unseen leaf",
        |top| async move {
            let gang = top.gang("all", 3)?;
            let task = top.register("shard", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        },
        |e| assert!(matches!(e.origin(), Error::Panicked { place, .. } if place.task == "bomb"), "{e:?}"),
    );
}

#[test]
fn a_shard_that_fails_unseen_fails_the_run() {
    async fn shard(_: Shard, _: ()) -> Result<(), Error> {
        Err(Error::user("no shard today"))
    }
    fails(
        "unseen shard",
        |top| async move {
            let gang = top.gang("all", 3)?;
            let task = top.register("shard", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.detach();
            Ok(())
        },
        |e| assert_eq!(e.origin(), &Error::user("no shard today"), "{e:?}"),
    );
}

#[test]
fn a_failure_that_is_seen_and_handled_does_not_fail_the_run() {
    async fn shard(shard: Shard, bad: bool) -> Result<i64, Error> {
        if bad {
            return Err(Error::user("bad"));
        }
        match shard.launch(bomb, (1.into(),)).go()?.await {
            Err(e) => {
                panicked(&e, "bomb", Some(shard.index()), "leaf bomb");
                Ok(7)
            }
            Ok(v) => Ok(v),
        }
    }
    for (at, runtime) in all() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 2)?;
                let task = top.register("shard", shard);
                let done = top.launch_gang(&gang, &task, |s| ShardLaunch::new(s == 1))?;
                assert_eq!(done.get(0)?.clone().await, Ok(7));
                Ok(done.get(1)?.clone().await.map_err(|e| e.origin().clone()))
            })
        });
        assert_eq!(outcome.unwrap_or_else(|e| panic!("{at}: {e}")).0, Err(Error::user("bad")), "{at}");
    }
}

/// `all` tells the program of the failures of a map when it returns, of each of them, and not before.
#[test]
fn all_tells_of_failures_when_it_returns() {
    fn point(what: Arg<u64>) -> u64 {
        if *what < 2 { panic!("point {}", *what) } else { *what }
    }
    async fn shard(shard: Shard, (gate, gives_up): (Edges, bool)) -> Result<u64, Error> {
        let (opens, waits) = (gate.producer(&shard, 0)?, gate.consumer(&shard, 0)?);
        if gives_up {
            let late = shard.launch(|| 2u64, ()).wait(waits.ready()).go()?;
            let input = |p| if p == 0 { (0u64.into(),) } else { ((&late).into(),) };
            let points = shard.index_launch(2, point, input).go()?;
            let outcome = shard.timeout(Duration::from_millis(5), points.all()).await;
            assert!(matches!(outcome, Err(Error::TimedOut { .. })), "{outcome:?}");
            shard.arrive(opens.ready());
            points.get(1)?.clone().await
        } else {
            let points = shard.index_launch(2, point, |p| ((p as u64).into(),)).go()?;
            assert!(points.all().await.is_err());
            Ok(3)
        }
    }
    for (at, runtime) in all() {
        for gives_up in [false, true] {
            let outcome = watched(&at, || {
                runtime.run(move |top| async move {
                    let gang = top.gang("one", 1)?;
                    let gate = top.edges("gate", &gang, [(0, 0)], 1)?;
                    let task = top.register("shard", shard);
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new((gate, gives_up)))?.all().await
                })
            });
            match outcome {
                Ok((values, _)) => assert!(!gives_up && values == [3], "{at}"),
                Err(e) => assert!(gives_up && e.to_string().contains("point 0"), "{at}: {e}"),
            }
        }
    }
}

#[test]
fn a_panic_in_the_top_level_task_ends_the_run() {
    async fn waits(shard: Shard, links: Links) -> Result<i64, Error> {
        let end = links.all.waiter(&shard)?;
        shard.wait(&end).await.map(|()| 0)
    }
    fn early(_: Top) -> std::future::Ready<Result<(), Error>> {
        panic!("before it began")
    }
    fails("early", early, |e| panicked(e, "top level", None, "before it began"));
    fails(
        "at once",
        |top| async move {
            if top.processors() > 0 {
                panic!("top bomb");
            }
            Ok(())
        },
        |e| panicked(e, "top level", None, "top bomb"),
    );
    fails(
        "while shards wait",
        |top| async move {
            let (gang, links) = links(&top, 3, 0)?;
            let task = top.register("waits", waits);
            let done = top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?;
            if done.len() == 3 {
                panic!("top bomb");
            }
            Ok(())
        },
        |e| panicked(e, "top level", None, "top bomb"),
    );
}

#[test]
fn a_parent_that_fails_fails_single_and_so_do_its_shards() {
    async fn shard(_: Shard, _: ()) -> Result<(), Error> {
        panic!("child bomb")
    }
    async fn parent(parent: InnerTask, (gang, task, how): (Gang, ShardTask<(), ()>, u32)) -> Result<(), Error> {
        match how {
            0 => panic!("parent bomb"),
            1 => drop(parent.launch_gang(&gang, &task, |_| ShardLaunch::new(())).await?.all().await?),
            // Nobody looks at the launch.
            _ => drop(parent.launch_gang(&gang, &task, |_| ShardLaunch::new(())).await?),
        }
        Ok(())
    }
    for how in 0..3 {
        fails(
            "single",
            move |top| async move {
                let gang = top.gang("all", 3)?;
                let task = top.register("child", shard);
                let parent = top.register_inner("parent", parent);
                top.run_inner(&parent, || ShardLaunch::new((gang, task, how))).await
            },
            |e| match how {
                0 => panicked(e, "parent", Some(0), "parent bomb"),
                _ => assert!(matches!(e.origin(), Error::Panicked { message, .. } if message == "child bomb"), "{e:?}"),
            },
        );
    }
}

/// Panics when it is dropped, once.
#[derive(Debug)]
struct Explosive(bool);

impl Drop for Explosive {
    fn drop(&mut self) {
        if std::mem::take(&mut self.0) && !std::thread::panicking() {
            panic!("destructor bomb");
        }
    }
}

#[test]
fn a_panic_in_a_destructor_ends_the_run() {
    async fn shard(shard: Shard, (links, how): (Links, u32)) -> Result<i64, Error> {
        let end = (links.all.arriver(&shard)?, links.all.waiter(&shard)?);
        if shard.index() == links.bad {
            match how {
                0 => {
                    // The function that ran.
                    let bomb = Explosive(true);
                    let _ = shard.launch(move || assert!(bomb.0), ()).go()?.await;
                }
                // Its result, which nobody takes.
                1 => drop(shard.launch(|| Explosive(true), ()).go()?),
                2 => {
                    // What the shard itself holds when it ends.
                    let _held = Explosive(true);
                    shard.yield_now().await;
                    return Ok(4);
                }
                _ => {
                    // The function of a task that never runs.
                    let never = Explosive(true);
                    let failed = shard.launch(bomb, (1.into(),)).go()?;
                    let body = move |_: Arg<i64>| assert!(never.0);
                    let _ = shard.launch(body, ((&failed).into(),)).go()?.await;
                }
            }
            shard.yield_now().await;
        }
        shard.arrive(&end.0);
        shard.wait(&end.1).await.map(|()| 0)
    }
    for how in 0..4 {
        fails(
            &format!("destructor {how}"),
            move |top| async move {
                let (gang, links) = links(&top, 4, 1)?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((links, how)))?.all().await
            },
            |e| assert!(matches!(e.origin(), Error::Panicked { message, .. } if message.contains("bomb")), "{e:?}"),
        );
    }
    fails(
        "what the top-level task holds",
        |top| async move {
            let (gang, links) = links(&top, 4, 99)?;
            let task = top.register("shard", shard);
            let _held = Explosive(true);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new((links, 0)))?.all().await
        },
        |e| panicked(e, "top level", None, "destructor bomb"),
    );
}

#[test]
fn a_leaf_may_return_after_its_shard_failed() {
    fn slow(mut u: ReadWrite<i64>) -> i64 {
        std::thread::sleep(std::time::Duration::from_millis(2));
        u.as_mut_slice().iter_mut().for_each(|v| *v += 1);
        1
    }
    async fn shard(shard: Shard, (tree, links): (Region, Links)) -> Result<i64, Error> {
        let u = shard.region(tree)?;
        let end = links.all.arriver(&shard)?;
        for _ in 0..3 {
            shard.launch(slow, (u.read_write(U),)).arrive(&end).go()?.detach();
        }
        Err(Error::user("too early"))
    }
    let mut runtimes = all();
    for (_, r) in &mut runtimes {
        *r = r.clone().mapper(Arc::new(common::Scatter::default()));
    }
    fails_on(
        runtimes,
        "late leaf",
        |top| async move {
            let (gang, links) = links(&top, 1, 0)?;
            let tree = top.region_tree("line", Rect::line(0, 4), &[U.info()])?;
            let task = top.register("shard", shard);
            let start =
                |_| ShardLaunch::new((tree, links)).require(tree, [U.id()], Privilege::ReadWrite, Coherence::Exclusive);
            top.launch_gang(&gang, &task, start)?.all().await
        },
        |e| assert_eq!(e.origin(), &Error::user("too early")),
    );
}

#[test]
fn a_barrier_that_nobody_arrives_at_is_a_deadlock() {
    async fn shard(shard: Shard, (links, how): (Links, u32)) -> Result<i64, Error> {
        let from = (shard.index() + shard.shards() - 1) % shard.shards();
        let inn = links.ring.consumer(&shard, from)?;
        let end = (links.all.arriver(&shard)?, links.all.waiter(&shard)?);
        shard.arrive(&end.0);
        shard.wait(&end.1).await?;
        if shard.index() != links.bad {
            return Ok(0);
        }
        match how {
            0 => shard.wait(&end.1).await?,
            1 => shard.launch(nothing, ()).named("patient").wait(&end.1).go()?.await?,
            2 => shard.wait(inn.ready()).await?,
            _ => shard.launch(nothing, ()).named("patient").wait(inn.ready()).go()?.await?,
        }
        Ok(1)
    }
    for how in 0..4 {
        fails(
            "deadlock",
            move |top| async move {
                let (gang, links) = links(&top, 3, 2)?;
                let task = top.register("waits for ever", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((links, how)))?.all().await
            },
            |e| {
                let Error::Deadlock { report, .. } = e.origin() else { panic!("{e:?}") };
                let has = |words: &[&str]| report.lines().any(|line| words.iter().all(|w| line.contains(w)));
                let waiter = if how % 2 == 0 { "`waits for ever`" } else { "`patient`" };
                let (barrier, generation) =
                    if how < 2 { ("`everybody`", "generation 1") } else { ("`ring`", "generation 0") };
                assert!(has(&[waiter, "shard 2", barrier, generation]), "{report}");
                if how < 2 {
                    assert!(has(&["missing", "`everybody`"]), "{report}");
                }
            },
        );
    }
}

#[test]
fn a_panic_in_the_fold_of_a_reduction_barrier_is_an_error() {
    async fn shard(shard: Shard, barrier: PhaseBarrier) -> Result<u64, Error> {
        let end = (barrier.arriver(&shard)?, barrier.waiter(&shard)?);
        shard.arrive_with(&end.0, 1);
        shard.wait_value(&end.1).await
    }
    fails(
        "fold",
        |top| async move {
            let gang = top.gang("all", 4)?;
            let options =
                PhaseOptions::all(&gang).reduce(Operator::user("bomb", |_: &u64, _: &u64| panic!("fold bomb")));
            let barrier = top.phase_barrier("folds", &gang, options)?;
            let task = top.register("shard", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(barrier))?.all().await
        },
        |e| panicked(e, "folds", None, "fold bomb"),
    );
}

/// Under simultaneous coherence nothing orders the tasks of a shard but what the program says: one that is launched later, runs
/// sooner and fails is none of the business of one that was launched before.
#[test]
fn a_failure_does_not_reach_tasks_launched_before_it() {
    async fn main(shard: Shard, region: Region) -> Result<i64, Error> {
        fn set(mut u: ReadWriteShared<i64>, value: Arg<i64>) -> i64 {
            u.set([0], *value);
            *value
        }
        fn fails(_: ReadWriteShared<i64>) {
            panic!("later bomb")
        }
        let u = shard.region(region)?;
        let earlier = shard.launch(set, (u.read_write_shared(U), 5.into())).priority(Priority(0)).go()?;
        let later = shard.launch(fails, (u.read_write_shared(U),)).priority(Priority(7)).go()?;
        panicked(&later.await.expect_err("it panics"), "fails", Some(0), "later bomb");
        earlier.await
    }
    for (at, runtime) in all() {
        let top = |top: Top| async move {
            let tree = top.region_tree("u", Rect::line(0, 1), &[U.info()])?;
            let (gang, task) = (top.gang("one", 1)?, top.register("main", main));
            let start = |_| ShardLaunch::new(tree).shares(tree, [U], Privilege::ReadWrite);
            top.launch_gang(&gang, &task, start)?.all().await
        };
        let (values, _) = watched(&at, || runtime.run(top)).unwrap_or_else(|e| panic!("{at}: {e}"));
        assert_eq!(values, [5], "{at}");
    }
}

/// A copy of the top-level task that panics stops its node. Then copies of other nodes may never be told that a launch has
/// ended. The run reports the panic, and not the deadlock that follows from it.
#[test]
fn a_panic_of_one_copy_of_the_top_level_task_comes_before_the_deadlock_of_another() {
    async fn shard(_: Shard, _: ()) -> Result<(), Error> {
        Ok(())
    }
    const NODES: u32 = 4;
    let mut stalled = 0;
    for seed in 0..200 {
        let panics = Arc::new(AtomicU32::new(0));
        let counted = panics.clone();
        let top = move |top: Top| {
            let panics = counted.clone();
            async move {
                let gang = top.gang("all", 2)?;
                let board = top.region_tree("board", Rect::line(0, 8), &[U.info()])?;
                let task = top.register("shard", shard);
                for _ in 0..2 {
                    let start = |_| ShardLaunch::new(()).shares(board, [U], Privilege::ReadWrite);
                    let done = top.launch_gang(&gang, &task, start)?;
                    // A copy that has one result may not have passed it on.
                    done.get(0)?.clone().await?;
                }
                panics.fetch_add(1, Ordering::Relaxed);
                if gang.shards() == 2 {
                    panic!("top bomb");
                }
                Ok(())
            }
        };
        let mapper = stock(&format!("random,seed={seed}")).unwrap();
        let error = Runtime::seeded(NODES, seed).mapper(mapper).run(top).unwrap_err();
        panicked(&error, "top level", None, "top bomb");
        // Who has not come to its panic waits for somebody who has.
        stalled += u32::from(panics.load(Ordering::Relaxed) < NODES);
    }
    assert!(stalled > 0, "in each run all copies came to their panic, so none was in a deadlock");
}
