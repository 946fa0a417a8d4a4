//! Inner tasks: the order of their gangs and leaf tasks, of what comes after them, and what moves between them.

use crate::common::watched;
use crate::parents::{A, bump, first, first_shared, look, part, put, put_shared};
use maniple_mapper::{Mapper, PlaceShardsInput, PlaceSharedInput, Placement, ProcessorId, SourceInput};
use maniple_regions::{Coherence, Privilege, Read, ReadWrite, Rect, Region, Write};
use maniple_runtime::{Arg, Check, Error, InnerTask, PhaseOptions, Runtime, Shard, ShardLaunch};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn sum(a: Read<i64>) -> i64 {
    a.as_slice().iter().sum()
}

/// Shared regions of the first processor are at home on the second one, others where they are named. Of the answers about sources
/// only the first ones are legal.
struct Homes {
    legal: u32,
    asked: AtomicU32,
}

impl Homes {
    fn new(legal: u32) -> Arc<Self> {
        Arc::new(Self { legal, asked: AtomicU32::new(0) })
    }
}

impl Mapper for Homes {
    fn name(&self) -> &str {
        "homes"
    }
    fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
        Placement::Cyclic
    }
    fn place_shared(&self, i: &PlaceSharedInput<'_>) -> ProcessorId {
        match i.namers[0].0 {
            ProcessorId(0) => ProcessorId(1),
            other => other,
        }
    }
    fn select_source(&self, i: &SourceInput<'_>) -> ProcessorId {
        if self.asked.fetch_add(1, Ordering::SeqCst) >= self.legal { ProcessorId(0) } else { i.holders[0] }
    }
}

/// A region, the shard that is to write it and alone holds it, and the value.
type Put = (Region, u32, i64);

/// One shard of a gang shares a region.
fn shares((at, by, v): Put) -> impl Fn(u32) -> ShardLaunch<Put> {
    move |s| {
        let start = ShardLaunch::new((at, by, v));
        if s == by { start.shares(at, [A], Privilege::ReadWrite) } else { start }
    }
}

/// Some shards hold a region, to write it or to read it.
fn holds(at: Region, shards: Range<u32>, writes: bool) -> impl Fn(u32) -> ShardLaunch<Region> {
    move |s| match ShardLaunch::new(at) {
        start if !shards.contains(&s) => start,
        start if writes => start.writes(at, [A]),
        start => start.reads(at, [A]),
    }
}

/// A shard of a gang of which only the second one writes.
async fn second_puts(shard: Shard, at: Region) -> Result<(), Error> {
    if shard.index() == 1 {
        shard.launch(put, (shard.region(at)?.write(A), 5.into())).go()?.await?;
    }
    Ok(())
}

async fn put_if(shard: Shard, (at, by, v): Put) -> Result<(), Error> {
    if shard.index() == by {
        shard.launch(put_shared, (shard.region(at)?.write_shared(A), v.into())).go()?.await?;
    }
    Ok(())
}

/// Each leaf task waits until its own region is at home again.
#[test]
fn shared_regions_come_home_each_by_itself() {
    for seed in 0..30 {
        let out = watched("a", || {
            Runtime::seeded(3, seed).mapper(Homes::new(99)).run(|top| async move {
                let x = top.region_tree("x", Rect::line(0, 1), &[A.info()])?;
                let y = top.region_tree("y", Rect::line(0, 1), &[A.info()])?;
                let gang = top.gang("g", 3)?;
                let write =
                    top.register("write", |shard: Shard, (at, by, v, yields): (Region, u32, i64, u32)| async move {
                        if shard.index() == by {
                            for _ in 0..yields {
                                shard.yield_now().await;
                            }
                            shard.launch(put_shared, (shard.region(at)?.write_shared(A), v.into())).go()?.await?;
                        }
                        Ok(())
                    });
                let inner = top.register_inner("inner", move |p: InnerTask, _: ()| async move {
                    let held = |at: Region, by: u32, v: i64, yields: u32| {
                        move |s| {
                            let start = ShardLaunch::new((at, by, v, yields));
                            if s == by { start.shares(at, [A], Privilege::ReadWrite) } else { start }
                        }
                    };
                    let _ = p.launch_gang(&gang, &write, held(x, 2, 7, 200)).await?;
                    let _ = p.launch_gang(&gang, &write, held(y, 2, 8, 0)).await?;
                    let (vx, vy) = (p.region(x)?, p.region(y)?);
                    let l1 = p.launch(first_shared, (vx.read_shared(A),)).go()?;
                    let l2 = p.launch(first_shared, (vy.read_shared(A),)).go()?;
                    let l3 = p.launch(first_shared, (vx.read_shared(A),)).go()?;
                    Ok((l1.await?, l2.await?, l3.await?))
                });
                top.run_inner(&inner, || {
                    ShardLaunch::new(()).shares(x, [A], Privilege::ReadWrite).shares(y, [A], Privilege::ReadWrite)
                })
                .await
            })
        });
        assert_eq!(out.map(|r| r.0), Ok((7, 8, 7)), "seed {seed}");
    }
}

/// However often a part is read.
#[test]
fn a_part_is_moved_at_most_once() {
    for n in [1, 2, 10i64] {
        let out = watched("b", || {
            Runtime::seeded(2, 1).mapper(Homes::new(99)).run(move |top| async move {
                let x = top.region_tree("x", Rect::line(0, 1000), &[A.info()])?;
                let inner = top.register_inner("inner", move |p: InnerTask, _: ()| async move {
                    p.launch(put, (p.region(x)?.write(A), 3.into())).go()?.detach();
                    let v = p.region(part(x, 0, 500))?;
                    for _ in 0..n {
                        p.launch(sum, (v.read(A),)).go()?.await?;
                    }
                    Ok(())
                });
                top.run_inner(&inner, || ShardLaunch::new(()).writes(x, [A])).await
            })
        })
        .unwrap();
        assert_eq!(out.1.moved_bytes, 0, "{n} reads");
        let out = watched("b", || {
            Runtime::seeded(2, 1).mapper(Homes::new(99)).run(move |top| async move {
                let x = top.region_tree("x", Rect::line(0, 1000), &[A.info()])?;
                let gang = top.gang("g", 2)?;
                let write = top.register("write", second_puts);
                let inner = top.register_inner("inner", move |p: InnerTask, _: ()| async move {
                    p.launch_gang(&gang, &write, holds(x, 1..2, true)).await?.all().await?;
                    let v = p.region(part(x, 0, 500))?;
                    for _ in 0..n {
                        p.launch(sum, (v.read(A),)).go()?.await?;
                    }
                    Ok(())
                });
                top.run_inner(&inner, || ShardLaunch::new(()).writes(x, [A])).await
            })
        })
        .unwrap();
        assert_eq!(out.1.moved_bytes, 4000, "{n} reads after a gang elsewhere");
    }
}

/// The mapper's second answer about a source is illegal.
#[test]
fn a_refused_index_launch_leaves_nothing() {
    for with_future in [false, true] {
        let out = watched("c", || {
            Runtime::seeded(3, 1).mapper(Homes::new(1)).run(move |top| async move {
                let x = top.region_tree("x", Rect::line(0, 8), &[A.info()])?;
                let gang = top.gang("g", 3)?;
                let write = top.register("write", second_puts);
                let look = top.register("look", |shard: Shard, at: Region| async move {
                    if shard.index() > 0 {
                        shard.launch(first, (shard.region(at)?.read(A),)).go()?.await?;
                    }
                    Ok(())
                });
                let inner = top.register_inner("inner", move |p: InnerTask, _: ()| async move {
                    p.launch_gang(&gang, &write, holds(x, 1..2, true)).await?.all().await?;
                    p.launch_gang(&gang, &look, holds(x, 1..3, false)).await?.all().await?;
                    let parts: Vec<_> =
                        (0..4).map(|i| p.region(part(x, 2 * i, 2 * i + 2))).collect::<Result<_, _>>()?;
                    let slow = p.launch(|| 1i64, ()).go()?;
                    if with_future {
                        let e = p
                            .index_launch(
                                4,
                                |a: Read<i64>, v: Arg<i64>| a.as_slice()[0] + *v,
                                |i| (parts[i].read(A), (&slow).into()),
                            )
                            .go();
                        assert!(matches!(e, Err(Error::Mapper(_))), "{:?}", e.map(drop));
                    } else {
                        let e = p.index_launch(4, first, |i| (parts[i].read(A),)).go();
                        assert!(matches!(e, Err(Error::Mapper(_))), "{:?}", e.map(drop));
                    }
                    slow.await
                });
                top.run_inner(&inner, || ShardLaunch::new(()).writes(x, [A])).await
            })
        });
        let (value, stats) = out.expect("the inner task deals with it");
        assert_eq!((value, stats.left_over), (1, 0), "with a future: {with_future}");
    }
}

/// Tasks of two inner tasks on one processor.
#[test]
fn uses_of_empty_regions_do_not_follow_each_other() {
    for seed in 0..10 {
        let out = watched("h", || {
            Runtime::seeded(1, seed).run(|top| async move {
                let x = top.region_tree("x", Rect::line(0, 1), &[A.info()])?;
                let gang = top.gang("g", 3)?;
                let met = top.phase_barrier("met", &gang, PhaseOptions::all(&gang))?;
                let inner = top.register_inner("inner", move |p: InnerTask, _: ()| async move {
                    let mine = p.region(if p.index() == 0 { x } else { part(x, 1, 1) })?;
                    let (arriver, waiter) = (met.arriver(&p)?, met.waiter(&p)?);
                    // Each writes its part once all have begun.
                    p.launch(|mut a: Write<i64>| a.fill(1), (mine.write(A),)).go()?.detach();
                    p.arrive(&arriver);
                    p.launch(|mut a: Write<i64>| a.fill(2), (mine.write(A),)).wait(&waiter).go()?.await?;
                    Ok(())
                });
                let held = |s| ShardLaunch::new(()).writes(if s == 0 { x } else { part(x, 1, 1) }, [A]);
                top.launch_gang(&gang, &inner, held)?.all().await?;
                let inner = top.register_inner("inner2", move |p: InnerTask, _: ()| async move {
                    let mine = p.region(if p.index() == 0 { x } else { part(x, 1, 1) })?;
                    let (arriver, waiter) = (met.arriver(&p)?, met.waiter(&p)?);
                    if p.index() == 1 {
                        p.launch(|mut a: Write<i64>| a.fill(2), (mine.write(A),)).wait(&waiter).go()?.detach();
                        p.arrive(&arriver);
                    } else {
                        waiter.take();
                        for _ in 0..30 {
                            p.yield_now().await;
                        }
                        p.launch(|mut a: Write<i64>| a.fill(2), (mine.write(A),)).arrive(&arriver).go()?.await?;
                    }
                    Ok(())
                });
                top.launch_gang(&gang, &inner, held)?.all().await?;
                Ok(())
            })
        });
        assert_eq!(out.map(|o| o.0), Ok(()), "seed {seed}");
    }
}

/// A leaf task between two gangs is dropped, which does not bring them together.
#[test]
fn gangs_keep_their_order_when_their_inner_task_panics() {
    for seed in 0..20 {
        let running = Arc::new(AtomicU32::new(0));
        let seen = Arc::new(AtomicU32::new(0));
        let (r2, s2) = (running.clone(), seen.clone());
        let out = watched("o", || {
            Runtime::seeded(1, seed).run(move |top| {
                let (r2, s2) = (r2.clone(), s2.clone());
                async move {
                    let x = top.region_tree("x", Rect::line(0, 1), &[A.info()])?;
                    let gang = top.gang("g", 1)?;
                    let r3 = r2.clone();
                    let slow = top.register("slow", move |shard: Shard, at: Region| {
                        let r = r3.clone();
                        async move {
                            r.store(1, Ordering::SeqCst);
                            for _ in 0..300 {
                                shard.yield_now().await;
                            }
                            shard.launch(put, (shard.region(at)?.write(A), 1.into())).go()?.await?;
                            r.store(0, Ordering::SeqCst);
                            Ok(())
                        }
                    });
                    let fast = top.register("fast", move |shard: Shard, at: Region| {
                        let (r, s) = (r2.clone(), s2.clone());
                        async move {
                            s.fetch_or(r.load(Ordering::SeqCst), Ordering::SeqCst);
                            shard.launch(put, (shard.region(at)?.write(A), 2.into())).go()?.await?;
                            Ok(())
                        }
                    });
                    let look = top.register("look", look);
                    let inner = top.register_inner("inner", move |p: InnerTask, _: ()| async move {
                        let v = p.region(x)?;
                        p.launch(put, (v.write(A), 0.into())).go()?.await?;
                        let _ = p.launch_gang(&gang, &slow, |_| ShardLaunch::new(x).writes(x, [A])).await?;
                        p.launch(bump, (v.read_write(A),)).go()?.detach();
                        let _ = p
                            .launch_gang(&gang, &fast, |_| {
                                ShardLaunch::new(x).require(x, [A.id()], Privilege::WriteDiscard, Coherence::Exclusive)
                            })
                            .await?;
                        for _ in 0..40 {
                            p.yield_now().await;
                        }
                        if x.rect.lo(0) == 0 {
                            panic!("asked to");
                        }
                        Ok(())
                    });
                    let e = top.run_inner(&inner, || ShardLaunch::new(()).writes(x, [A])).await;
                    assert!(e.is_err());
                    let v = top.launch_gang(&gang, &look, |_| ShardLaunch::new(x).reads(x, [A]))?.all().await;
                    Ok(v.map_err(|e| e.to_string()))
                }
            })
        });
        assert_eq!((out.map(|o| o.0), seen.load(Ordering::SeqCst)), (Ok(Ok(vec![2])), 0), "seed {seed}");
    }
}

async fn put_nine(shard: Shard, at: Region) -> Result<(), Error> {
    shard.launch(put, (shard.region(at)?.write(A), 9.into())).go()?.await
}

/// An inner task that writes after some time.
async fn late(p: InnerTask, at: Region) -> Result<(), Error> {
    for _ in 0..20 {
        p.yield_now().await;
    }
    put_nine(Shard::clone(&p), at).await
}

/// What comes after an inner task gets its values if the program has awaited it, and is refused if it has not.
fn check_what_follows(out: Result<i64, Error>, awaited: bool, what: &str) {
    match out {
        Ok(v) => assert!(awaited && v == 9, "{what}: {v}"),
        Err(e) => assert!(!awaited && e.to_string().contains("await its result first"), "{what}: {e}"),
    }
}

#[test]
fn what_follows_a_nested_inner_task_awaits_it() {
    for (leaf, awaited, seed) in [true, false].into_iter().flat_map(|l| (0..20).map(move |s| (l, s % 2 == 0, s))) {
        let out = watched("k", || {
            Runtime::seeded(1, seed).run(move |top| async move {
                let x = top.region_tree("x", Rect::line(0, 1), &[A.info()])?;
                let one = top.gang("one", 1)?;
                let look = top.register("look", look);
                let q = top.register_inner("q", late);
                let inner = top.register_inner("p", move |p: InnerTask, _: ()| async move {
                    p.launch(put, (p.region(x)?.write(A), 1.into())).go()?.detach();
                    let started = p.launch_gang(&one, &q, holds(x, 0..1, true)).await?;
                    if awaited {
                        started.all().await?;
                    }
                    if leaf {
                        p.launch(first, (p.region(x)?.read(A),)).go()?.await
                    } else {
                        Ok(p.launch_gang(&one, &look, holds(x, 0..1, false)).await?.all().await?[0])
                    }
                });
                top.run_inner(&inner, || ShardLaunch::new(()).writes(x, [A])).await
            })
        });
        check_what_follows(out.map(|o| o.0), awaited, &format!("seed {seed}, leaf {leaf}"));
    }
}

/// A leaf task of the top level, or a gang, after an inner task that writes the data itself or by a gang.
#[test]
fn what_follows_an_inner_task_awaits_it() {
    let follower = [(true, true), (false, true), (false, false)];
    let cases = follower.into_iter().flat_map(|f| [(f, false), (f, true)]);
    for (((leaf, reads), by_gang), seed) in cases.flat_map(|c| (0..20).map(move |seed| (c, seed))) {
        let awaited = seed % 2 == 0;
        let out = watched("t", || {
            Runtime::seeded(1, seed).run(move |top| async move {
                let x = top.region_tree("x", Rect::line(0, 1), &[A.info()])?;
                let (one, look) = (top.gang("one", 1)?, top.register("look", look));
                let nine = top.register("nine", put_nine);
                let q = top.register_inner("q", move |p: InnerTask, at: Region| async move {
                    if !by_gang {
                        return late(p, at).await;
                    }
                    for _ in 0..20 {
                        p.yield_now().await;
                    }
                    p.launch_gang(&one, &nine, holds(at, 0..1, true)).await?.all().await.map(drop)
                });
                let started = top.launch_gang(&one, &q, holds(x, 0..1, true))?;
                if awaited {
                    started.all().await?;
                }
                if leaf {
                    top.launch(first, (top.region(x)?.read(A),)).go()?.await
                } else {
                    Ok(top.launch_gang(&one, &look, holds(x, 0..1, !reads))?.all().await?[0])
                }
            })
        });
        check_what_follows(
            out.map(|o| o.0),
            awaited,
            &format!("seed {seed}, leaf {leaf}, reads {reads}, by a gang: {by_gang}"),
        );
    }
}

/// What an inner task shares may be elsewhere, too. Who shares it as well need not wait. What is destroyed is refused as such.
#[test]
fn what_an_inner_task_shares_is_awaited_but_for_others_that_share_it() {
    for seed in 0..20 {
        let out = watched("s", || {
            Runtime::seeded(3, seed).mapper(Homes::new(99)).run(move |top| async move {
                let x = top.region_tree("x", Rect::line(0, 1), &[A.info()])?;
                let (one, three) = (top.gang("one", 1)?, top.gang("three", 3)?);
                let (look, write) = (top.register("look", look), top.register("write", put_if));
                let q = top.register_inner("q", move |p: InnerTask, at: Region| async move {
                    p.launch_gang(&three, &write, shares((at, 2, 7))).await?.all().await.map(drop)
                });
                let both = |_| ShardLaunch::new(x).shares(x, [A], Privilege::ReadWrite);
                let started = top.launch_gang(&one, &q, both)?;
                let refused = top.launch_gang(&one, &look, holds(x, 0..1, false)).map(drop);
                let e = refused.expect_err("its result is not awaited").to_string();
                assert!(e.contains("shard 0 of the inner task `q` may change [0, 1) of region tree `x`"), "{e}");
                let look_on = |_| ShardLaunch::new((x, 9, 0)).shares(x, [A], Privilege::Read);
                top.launch_gang(&one, &write, look_on)?.detach();
                started.all().await?;
                let seen = top.launch_gang(&one, &look, holds(x, 0..1, false))?.all().await?[0];
                let started = top.launch_gang(&one, &q, both)?;
                top.destroy(x)?;
                let refused = top.launch_gang(&one, &look, holds(x, 0..1, false)).map(drop);
                assert!(matches!(refused, Err(Error::Destroyed { .. })), "{refused:?}");
                started.all().await?;
                Ok(seen)
            })
        });
        assert_eq!(out.map(|o| o.0), Ok(7), "seed {seed}");
    }
}

#[test]
fn the_data_of_an_awaited_shard_can_be_used_before_others_are_awaited() {
    for seed in 0..20 {
        let out = watched("w", || {
            Runtime::seeded(2, seed).run(move |top| async move {
                let x = top.region_tree("x", Rect::line(0, 2), &[A.info()])?;
                let (two, q) = (top.gang("two", 2)?, top.register_inner("q", late));
                let block = |s: u32| part(x, s.into(), i64::from(s) + 1);
                let started = top.launch_gang(&two, &q, |s| ShardLaunch::new(block(s)).writes(block(s), [A]))?;
                started.get(1)?.clone().await?;
                let seen = top.launch(first, (top.region(block(1))?.read(A),)).go()?.await?;
                let refused = top.launch(first, (top.region(block(0))?.read(A),)).go().map(drop);
                assert!(matches!(refused, Err(Error::Misuse { .. })), "{refused:?}");
                started.all().await?;
                Ok(seen + top.launch(first, (top.region(block(0))?.read(A),)).go()?.await?)
            })
        });
        assert_eq!(out.map(|o| o.0), Ok(18), "seed {seed}");
    }
}

/// The first point needs no data of others. Nothing of it is left when the second one is refused.
#[test]
fn an_index_launch_that_is_refused_leaves_data_where_it_was() {
    for seed in 0..20 {
        let out = watched("i", || {
            Runtime::seeded(3, seed).mapper(Homes::new(99)).run(move |top| async move {
                let x = top.region_tree("x", Rect::line(0, 2), &[A.info()])?;
                let (one, three) = (top.gang("one", 1)?, top.gang("three", 3)?);
                let nine = top.register("nine", |shard: Shard, at: Region| async move {
                    if shard.index() == 2 { put_nine(shard, at).await } else { Ok(()) }
                });
                let (a, b) = (part(x, 0, 1), part(x, 1, 2));
                let q = top.register_inner("q", late);
                let inner = top.register_inner("p", move |p: InnerTask, _: ()| async move {
                    p.launch_gang(&three, &nine, holds(a, 2..3, true)).await?.detach();
                    let started = p.launch_gang(&one, &q, holds(b, 0..1, true)).await?;
                    let parts = [p.region(a)?, p.region(b)?];
                    let args = |i: usize| (parts[i].write(A), 1.into());
                    let e = p.index_launch(2, put, args).go().map(drop).expect_err("q is not awaited").to_string();
                    assert!(e.contains("await its result first"), "{e}");
                    let seen = p.launch(first, (parts[0].read(A),)).go()?.await?;
                    started.all().await?;
                    p.index_launch(2, put, args).go()?.all().await?;
                    Ok(seen)
                });
                top.run_inner(&inner, || ShardLaunch::new(()).writes(x, [A])).await
            })
        });
        assert_eq!(out.map(|o| o.0), Ok(9), "seed {seed}");
    }
}

/// Detached leaf tasks that wait for the data, and begin when all gangs have ended.
#[test]
fn no_race_is_invented() {
    for seed in 0..40 {
        let out = watched("f", || {
            Runtime::seeded(3, seed).mapper(Homes::new(99)).check(Check::Races).run(move |top| async move {
                let x = top.region_tree("x", Rect::line(0, 1), &[A.info()])?;
                let gang = top.gang("g", 3)?;
                let write = top.register("write", put_if);
                let inner = top.register_inner("inner", move |p: InnerTask, _: ()| async move {
                    let _ = p.launch_gang(&gang, &write, shares((x, 2, 7))).await?;
                    p.launch(first_shared, (p.region(x)?.read_shared(A),)).go()?.detach();
                    p.launch(first_shared, (p.region(x)?.read_shared(A),)).go()?.detach();
                    Ok(())
                });
                top.run_inner(&inner, || ShardLaunch::new(()).shares(x, [A], Privilege::ReadWrite)).await
            })
        });
        assert_eq!(out.map(|_| ()), Ok(()), "seed {seed}");
    }
}

#[test]
fn a_race_is_found_although_another_region_came_home() {
    for with_y in [false, true] {
        for seed in 0..40 {
            let out = watched("r", || {
                Runtime::seeded(3, seed).mapper(Homes::new(99)).check(Check::Races).run(move |top| async move {
                    let x = top.region_tree("x", Rect::line(0, 1), &[A.info()])?;
                    let y = top.region_tree("y", Rect::line(0, 1), &[A.info()])?;
                    let gang = top.gang("g", 3)?;
                    let write = top.register("write", put_if);
                    let inner = top.register_inner("inner", move |p: InnerTask, _: ()| async move {
                        if with_y {
                            p.launch_gang(&gang, &write, shares((y, 2, 7))).await?.all().await?;
                            p.launch(first_shared, (p.region(y)?.read_shared(A),)).go()?.await?;
                        }
                        // The home of this gang is the home of the inner task's own use.
                        let done = p.launch_gang(&gang, &write, shares((x, 1, 7))).await?;
                        for _ in 0..100 {
                            p.yield_now().await;
                        }
                        let v = p.launch(first_shared, (p.region(x)?.read_shared(A),)).go()?.await;
                        done.all().await?;
                        v
                    });
                    top.run_inner(&inner, || {
                        ShardLaunch::new(()).shares(x, [A], Privilege::ReadWrite).shares(y, [A], Privilege::ReadWrite)
                    })
                    .await
                })
            });
            let e = out.expect_err("a race");
            assert!(matches!(e.origin(), Error::Race { .. }), "seed {seed}, with another region: {with_y}: {e}");
        }
    }
}

/// A task that failed on a part.
#[test]
fn values_of_a_failed_task_are_missing_until_they_are_written() {
    for seed in 0..20 {
        let out = watched("p", || {
            Runtime::seeded(1 + (seed % 3) as u32, seed).run(move |top| async move {
                let x = top.region_tree("x", Rect::line(0, 4), &[A.info()])?;
                let y = top.region_tree("y", Rect::line(0, 1), &[A.info()])?;
                let one = top.gang("one", 1)?;
                let look = top.register("look", move |shard: Shard, at: Region| async move {
                    shard.launch(sum, (shard.region(at)?.read(A),)).go()?.await
                });
                let inner = top.register_inner("p", move |p: InnerTask, _: ()| async move {
                    let (all, half) = (p.region(x)?, p.region(part(x, 0, 2))?);
                    p.launch(put, (all.write(A), 1.into())).go()?.detach();
                    let bomb = p.launch(|_: ReadWrite<i64>| panic!("bomb"), (half.read_write(A),)).go()?;
                    let s = p.launch(sum, (all.read(A),)).go()?;
                    let r = p.launch(sum, (p.region(part(x, 2, 4))?.read(A),)).go()?;
                    let e = p.launch(sum, (p.region(part(x, 1, 3))?.read(A),)).go()?;
                    p.launch(put, (half.write(A), 5.into())).go()?.detach();
                    let s2 = p.launch(sum, (all.read(A),)).go()?;
                    assert!(bomb.await.is_err());
                    assert!(s.await.is_err());
                    assert_eq!(r.await?, 2);
                    assert!(e.await.is_err());
                    let two = p.launch(sum, (all.read(A),)).go()?;
                    let e = p.launch(|_: Write<i64>| panic!("bomb"), (half.write(A),)).go()?.await;
                    assert!(e.is_err());
                    p.launch(put, (all.write(A), 3.into())).go()?.await?;
                    let h = p.launch(sum, (half.read(A),)).go()?;
                    Ok((s2.await?, two.await?, h.await?))
                });
                let r = top.run_inner(&inner, || ShardLaunch::new(()).writes(x, [A]).writes(y, [A])).await?;
                Ok((r, top.launch_gang(&one, &look, |_| ShardLaunch::new(x).reads(x, [A]))?.all().await?))
            })
        });
        assert_eq!(out.map(|o| o.0), Ok(((12, 12, 6), vec![12])), "{seed}");
    }
}
