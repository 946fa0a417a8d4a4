//! Edges: values that travel along them, in graphs drawn from seeds, beside a sequential interpreter; their depth, ends that do
//! not exist, failures, and the window of a loop.

mod graphs;
mod messages;

use crate::common;
use crate::common::size::{full, part};
use crate::common::{any_mapper, any_virtual, mappers, run};
use maniple_regions::{Field, Privilege, Read, ReadShared, Rect, Region, Write, WriteShared};
use maniple_runtime::{Arg, Edges, Error, Get, Link, Many, Put, Runtime, Shard, ShardLaunch, VirtualMachine};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const U: Field<u64> = Field::new(0, "u");

fn runtimes(seeds: u64) -> Box<dyn Iterator<Item = (String, Runtime)>> {
    let seeds = part(seeds);
    if let Some(all) = common::on_processes(seeds) {
        return Box::new(all.into_iter());
    }
    let seeded = (0..seeds).map(|seed| {
        let processors = 1 + (seed % 4) as u32;
        let runtime = Runtime::seeded(processors, seed).mapper(any_mapper(seed));
        (format!("{processors} processors, seed {seed}"), runtime)
    });
    let threads = (1..=3).flat_map(|workers| {
        mappers(7).into_iter().take(if full() { usize::MAX } else { 2 }).map(move |mapper| {
            let name = format!("{workers} threads, {}", mapper.name());
            (name, Runtime::threads(workers).mapper(mapper))
        })
    });
    Box::new(seeded.chain((0..seeds / 2).map(any_virtual)).chain(threads))
}

/// One value for several consumers, and for none.
#[test]
fn a_put_may_be_for_several() {
    async fn shard(shard: Shard, edges: Edges<u32>) -> Result<u32, Error> {
        let (incoming, outgoing) = (edges.incoming(&shard)?, edges.outgoing(&shard)?);
        for round in 0..20u32 {
            let put = Put::to(&outgoing, 100);
            let fill = |mut out: Put<u32>, round: Arg<u32>| out.fill(*round);
            shard.launch(fill, (put, round.into())).go()?.detach();
        }
        let mut sum = 0;
        for round in 0..20u32 {
            for from in &incoming {
                let all =
                    |came: Get<u32>, round: Arg<u32>| came.len() == 100 && came.iter().all(|word| *word == *round);
                assert!(shard.launch(all, (from.get(), round.into())).go()?.await?);
                sum += 1;
            }
        }
        Ok(sum)
    }
    for (name, runtime) in runtimes(20) {
        let came = run(&name, &runtime, |top| async move {
            let gang = top.gang("all", 4)?;
            let edges = top.edges("edges", &gang, [(0, 1), (0, 2), (0, 3), (3, 3)], 3)?;
            top.launch_gang(&gang, &top.register("several", shard), |_| ShardLaunch::new(edges))?.all().await
        });
        assert_eq!(came.expect(&name), [0, 20, 20, 40], "{name}");
    }
}

/// A producer is never more than `depth` values ahead.
#[test]
fn an_edge_is_as_deep_as_it_was_made() {
    static AHEAD: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
    async fn shard(shard: Shard, edges: Edges<u64>) -> Result<u32, Error> {
        let mut most = 0;
        if shard.index() == 0 {
            let to = edges.producer(&shard, 1)?;
            for _ in 0..100 {
                let put = |mut out: Put<u64>| {
                    out[0] = 1;
                    let filled = AHEAD[0].fetch_add(1, Ordering::SeqCst) + 1;
                    filled - AHEAD[1].load(Ordering::SeqCst)
                };
                most = most.max(shard.launch(put, (to.put(1),)).go()?.await?);
            }
            return Ok(most);
        }
        let from = edges.consumer(&shard, 0)?;
        for _ in 0..100 {
            shard.yield_now().await;
            let used = |_: Get<u64>| {
                AHEAD[1].fetch_add(1, Ordering::SeqCst);
            };
            shard.launch(used, (from.get(),)).go()?.await?;
        }
        Ok(0)
    }
    for depth in [1, 3, 64] {
        for seed in 0..30 {
            AHEAD.iter().for_each(|count| count.store(0, Ordering::SeqCst));
            let at = format!("depth {depth}, seed {seed}");
            let most = run(&at, &Runtime::seeded(1 + (seed % 2) as u32, seed), move |top| async move {
                let gang = top.gang("two", 2)?;
                let edges = top.edges("edge", &gang, [(0, 1)], depth)?;
                top.launch_gang(&gang, &top.register("deep", shard), |_| ShardLaunch::new(edges))?.all().await
            });
            let most = most.expect(&at)[0];
            assert!((1..=depth).contains(&most), "{at}: {most} ahead");
        }
    }
}

/// An edge holds `depth` values that nobody gets, and no other.
#[test]
fn an_edge_holds_as_many_values_as_it_is_deep() {
    async fn shard(shard: Shard, (edges, depth): (Edges<u64>, u32)) -> Result<bool, Error> {
        if shard.index() == 1 {
            return Ok(true);
        }
        let to = edges.producer(&shard, 1)?;
        let put = |mut out: Put<u64>| out.fill(1);
        for _ in 0..depth {
            shard.launch(put, (to.put(1),)).go()?.await?;
        }
        let mut more = shard.launch(put, (to.put(1),)).go()?;
        for _ in 0..50 {
            shard.yield_now().await;
        }
        let late = shard.timeout(Duration::ZERO, &mut more).await;
        Ok(matches!(late, Err(Error::TimedOut { .. })))
    }
    for depth in [1, 2, 3, 5, 64] {
        for workers in 1..=2 {
            let at = format!("depth {depth} on {workers}");
            let came = Runtime::threads(workers).run(move |top| async move {
                let gang = top.gang("two", 2)?;
                let edges = top.edges("edge", &gang, [(0, 1)], depth)?;
                top.launch_gang(&gang, &top.register("full", shard), |_| ShardLaunch::new((edges, depth)))?.all().await
            });
            // The task whose value does not fit is left over, which ends the run with a report.
            let report = came.map(|(late, _)| late).expect_err(&at).to_string();
            assert!(report.contains(&format!("waits to put value {depth} of `edge`")), "{at}: {report}");
        }
    }
}

/// Ends that are used half with values and half without.
#[test]
fn values_that_are_missing_or_left_are_errors() {
    async fn shard(shard: Shard, (edges, how): (Edges<f64>, u32)) -> Result<f64, Error> {
        let (to, from) = (edges.producer(&shard, 0)?, edges.consumer(&shard, 0)?);
        let put = |mut out: Put<f64>, value: Arg<f64>| out.fill(*value);
        let get = |came: Get<f64>| came[0];
        if how == 0 {
            shard.arrive(to.ready());
            return shard.launch(get, (from.get(),)).go()?.await;
        }
        shard.arrive(to.ready());
        shard.wait(from.ready()).await?;
        shard.launch(put, (to.put(1), 10.0.into())).go()?.detach();
        shard.arrive(from.empty());
        shard.launch(put, (to.put(1), 11.0.into())).go()?.await?;
        shard.launch(get, (from.get(),)).go()?.await
    }
    let words = [("generation 0 came without a value", 0), ("an earlier value has not been taken", 1)];
    for (words, how) in words {
        for (name, runtime) in runtimes(12) {
            let came = run(&name, &runtime, move |top| async move {
                let gang = top.gang("one", 1)?;
                let edges = top.edges("half", &gang, [(0, 0)], 1)?;
                top.launch_gang(&gang, &top.register("half", shard), |_| ShardLaunch::new((edges, how)))?.all().await
            });
            let error = came.expect_err(&name).to_string();
            assert!(
                error.contains(words) && error.contains("`half` ready of edge shard 0 -> shard 0"),
                "{name}: {error}"
            );
        }
    }
}

/// A value for which there is no memory, or whose bytes cannot be counted, fails its task.
#[test]
fn a_value_that_is_too_large_fails_its_task() {
    async fn shard(shard: Shard, edges: Edges<f64>) -> Result<[String; 2], Error> {
        let to = edges.producer(&shard, 0)?;
        let put = |mut out: Put<f64>| out.fill(1.0);
        let uncounted = shard.launch(put, (to.put(usize::MAX / 4),)).go().err();
        let uncounted = uncounted.map_or_else(String::new, |e| e.to_string());
        let too_large = shard.launch(put, (to.put(1 << 55),)).named("huge").go()?.await;
        Ok([uncounted, too_large.expect_err("no machine has it").to_string()])
    }
    let (said, _) = Runtime::threads(1)
        .run(|top| async move {
            let gang = top.gang("one", 1)?;
            let edges = top.edges("edge", &gang, [(0, 0)], 1)?;
            top.launch_gang(&gang, &top.register("large", shard), |_| ShardLaunch::new(edges))?.all().await
        })
        .expect("errors that the shard has looked at");
    assert!(said[0][0].contains("a `Put`: expected at most"), "{said:?}");
    assert!(said[0][1].contains("expected memory for its value"), "{said:?}");
}

#[test]
fn edges_and_ends_that_cannot_be_are_refused() {
    async fn ends(shard: Shard, edges: Edges) -> Result<Vec<String>, Error> {
        let mut all = Vec::new();
        for other in 0..3 {
            all.extend(edges.producer(&shard, other).err().map(|e| e.to_string()));
            all.extend(edges.consumer(&shard, other).err().map(|e| e.to_string()));
        }
        Ok(all)
    }
    let (refused, came) = run("refused", &Runtime::threads(1), |top| async move {
        let gang = top.gang("three", 3)?;
        let refused = [
            top.edges::<u64>("none deep", &gang, [(0, 1)], 0).err(),
            top.edges::<u64>("too deep", &gang, [(0, 1)], 65).err(),
            top.edges::<u64>("outside", &gang, [(0, 1), (1, 3)], 1).err(),
            top.edges::<u64>("twice", &gang, [(0, 1, 7), (2, 1, 7), (0, 1, 7)], 1).err(),
        ];
        let edges = top.edges("edges", &gang, [(0, 1, 0), (0, 1, 1), (1, 2, 0)], 1)?;
        let came = top.launch_gang(&gang, &top.register("ends", ends), |_| ShardLaunch::new(edges))?.all().await?;
        Ok((refused.map(|e| e.map_or_else(String::new, |e| e.to_string())), came))
    })
    .expect("refusals");
    let said = [
        ["edges `none deep`", "a depth from 1 to 64", "0"],
        ["edges `too deep`", "a depth from 1 to 64", "65"],
        ["edges `outside`", "shards in 0..3", "edge shard 1 -> shard 3"],
        ["edges `twice`", "each edge once", "edge shard 0 -> shard 1, tag 7"],
    ];
    for (refusal, said) in refused.iter().zip(said) {
        assert!(said.iter().all(|part| refusal.contains(part)), "{refusal}");
    }
    // Each has ends in some directions only.
    assert_eq!(came.iter().map(Vec::len).collect::<Vec<_>>(), [6, 5, 5]);
    let several = "an end of edges `edges` in shard 0: expected one edge to shard 1, got several; the shard's edges on \
                   this side: shard 1 with tag 0, shard 1 with tag 1";
    assert!(came[0].iter().any(|e| e.contains(several)), "{:?}", came[0]);
    assert!(
        came[2].iter().any(|e| e.contains("one edge to shard 0, got none; the shard's edges on this side: none")),
        "{:?}",
        came[2]
    );
}

/// What was to be put never comes: whoever gets it learns why, and so does whoever waits for a free buffer behind it.
#[test]
fn a_task_that_fails_poisons_its_edges() {
    async fn shard(shard: Shard, edges: Edges<u64>) -> Result<String, Error> {
        if shard.index() == 0 {
            let fails = |put: Put<u64>| assert!(put.is_empty(), "no value");
            let put = shard.launch(fails, (edges.producer(&shard, 1)?.put(1),)).go()?;
            return Ok(put.await.map(|()| String::new()).unwrap_or_else(|e| e.origin().to_string()));
        }
        let get = shard.launch(|came: Get<u64>| came[0], (edges.consumer(&shard, 0)?.get(),)).go()?;
        Ok(get.await.map(|word| word.to_string()).unwrap_or_else(|e| e.origin().to_string()))
    }
    for (name, runtime) in runtimes(20) {
        let came = run(&name, &runtime, |top| async move {
            let gang = top.gang("two", 2)?;
            let edges = top.edges("edge", &gang, [(0, 1)], 1)?;
            top.launch_gang(&gang, &top.register("fails", shard), |_| ShardLaunch::new(edges))?.all().await
        });
        let came = came.expect(&name);
        assert!(came.iter().all(|e| e.contains("no value")), "{name}: {came:?}");
    }
}

/// Parameters that a launch leaves out, and any number of regions, each with its own dependences.
#[test]
fn parameters_may_be_none_or_many() {
    fn sum(parts: Many<maniple_regions::Read<u64>>, more: Option<Arg<u64>>, values: Many<Arg<u64>>) -> u64 {
        let parts: u64 = parts.iter().flat_map(|part| part.as_slice()).sum();
        parts + more.map_or(0, |more| *more) + values.iter().map(|value| **value).sum::<u64>()
    }
    async fn shard(shard: Shard, parts: Vec<Region>) -> Result<(u64, u64), Error> {
        let parts = parts.into_iter().map(|part| shard.region(part)).collect::<Result<Vec<_>, _>>()?;
        let mut values = Vec::new();
        for (i, part) in (1u64..).zip(&parts) {
            let set = |mut u: Write<u64>, value: Arg<u64>| {
                u.fill(*value);
                *value
            };
            values.push(shard.launch(set, (part.write(U), i.into())).go()?);
        }
        let all = || parts.iter().map(|part| part.read(U)).collect();
        let with = (all(), Some(1000.into()), values.iter().map(|value| value.into()).collect());
        let with = shard.launch(sum, with).go()?.await?;
        let without = (all(), None, std::iter::empty().collect());
        Ok((with, shard.launch(sum, without).go()?.await?))
    }
    for (name, runtime) in runtimes(20) {
        let came = run(&name, &runtime, |top| async move {
            let tree = top.region_tree("parts", Rect::line(0, 40), &[U.info()])?;
            let part = |i: i64| Region::new(tree.tree, Rect::line(2 * i, 2 * i + 2));
            let parts: Vec<Region> = (0..20).map(part).collect();
            let gang = top.gang("one", 1)?;
            let start = |_| ShardLaunch::new(parts.clone()).writes(tree, [U]);
            top.launch_gang(&gang, &top.register("many", shard), start)?.all().await
        });
        assert_eq!(came.expect(&name), [(2 * 210 + 1000 + 210, 420)], "{name}");
    }
}

/// A loop with a window has no more tasks under way than the window and one.
#[test]
fn a_window_bounds_what_a_loop_launches() {
    async fn shard(shard: Shard, (most, rounds): (u32, u32)) -> Result<u32, Error> {
        let (over, mut ahead) = (Arc::new(AtomicU32::new(0)), 0);
        for launched in 0..rounds {
            shard.window(most).await;
            let mine = over.clone();
            let count = move || {
                mine.fetch_add(1, Ordering::SeqCst);
            };
            shard.launch(count, ()).go()?.detach();
            ahead = ahead.max(launched + 1 - over.load(Ordering::SeqCst));
        }
        Ok(ahead)
    }
    for (name, runtime) in runtimes(20) {
        for most in [0, 1, 5, 8] {
            let at = format!("{name}, window {most}");
            let ahead = run(&at, &runtime, move |top| async move {
                let gang = top.gang("two", 2)?;
                top.launch_gang(&gang, &top.register("loops", shard), |_| ShardLaunch::new((most, 100)))?.all().await
            });
            let ahead = ahead.expect(&at);
            assert!(ahead.iter().all(|ahead| (1..=most + 1).contains(ahead)), "{at}: {ahead:?}");
        }
    }
    // Where nobody runs a shard's tasks meanwhile, it gets as far as the window allows.
    for most in [0, 1, 5, 8] {
        let ahead = run("one worker", &Runtime::threads(1), move |top| async move {
            let gang = top.gang("one", 1)?;
            top.launch_gang(&gang, &top.register("loops", shard), |_| ShardLaunch::new((most, 100)))?.all().await
        });
        assert_eq!(ahead, Ok(vec![most + 1]), "window {most}");
    }
}

/// All points wait for one generation, and arrive once together; a point that fails poisons that arrival alone.
#[test]
fn an_index_launch_waits_and_arrives_as_one() {
    const POINTS: usize = 5;
    async fn shard(shard: Shard, (go, over): (Edges, Edges)) -> Result<Vec<u64>, Error> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        if shard.index() == 0 {
            let (go, over) = (go.producer(&shard, 1)?, over.consumer(&shard, 1)?);
            let mut sums = Vec::new();
            for _ in 0..3 {
                STARTED.store(0, Ordering::SeqCst);
                for _ in 0..10 {
                    shard.yield_now().await;
                }
                assert_eq!(STARTED.load(Ordering::SeqCst), 0);
                shard.arrive(go.ready());
                shard.wait(over.ready()).await?;
                sums.push(u64::from(STARTED.load(Ordering::SeqCst)));
            }
            // The last launch fails in one of its points.
            shard.arrive(go.ready());
            let e = shard.wait(over.ready()).await.expect_err("a point failed");
            assert!(e.origin().to_string().contains("point 3"), "{e}");
            return Ok(sums);
        }
        let (go, over) = (go.consumer(&shard, 0)?, over.producer(&shard, 0)?);
        let mut sums = Vec::new();
        for round in 0..3u64 {
            let point = |i: Arg<usize>, round: Arg<u64>| {
                STARTED.fetch_add(1, Ordering::SeqCst);
                *i as u64 * 10 + *round
            };
            let launch = shard.index_launch(POINTS, point, |i| (i.into(), round.into()));
            let all = launch.named("point").wait(go.ready()).arrive(over.ready()).go()?;
            sums.push(all.all().await?.into_iter().sum());
        }
        let point = |i: Arg<usize>| assert!(*i != 3, "point 3");
        let all = shard.index_launch(POINTS, point, |i| (i.into(),)).wait(go.ready()).arrive(over.ready()).go()?;
        all.all().await.expect_err("a point failed");
        Ok(sums)
    }
    for (name, runtime) in (0..20).map(|seed| (format!("seed {seed}"), Runtime::seeded(1 + (seed % 3) as u32, seed))) {
        let came = run(&name, &runtime, |top| async move {
            let gang = top.gang("two", 2)?;
            let (go, over) = (top.edges("go", &gang, [(0, 1)], 1)?, top.edges("over", &gang, [(1, 0)], 1)?);
            top.launch_gang(&gang, &top.register("index", shard), |_| ShardLaunch::new((go, over)))?.all().await
        });
        assert_eq!(came.expect(&name), [vec![5, 5, 5], vec![100, 105, 110]], "{name}");
    }
}

/// Without points there is still an arrival, and it still waits.
#[test]
fn an_index_launch_of_no_points_waits_and_arrives() {
    async fn shard(shard: Shard, (go, over): (Edges, Edges)) -> Result<bool, Error> {
        if shard.index() == 1 {
            let (go, over) = (go.consumer(&shard, 0)?, over.producer(&shard, 0)?);
            let nothing = |_: Arg<usize>| unreachable!("there is no point");
            let none = shard.index_launch(0, nothing, |i| (i.into(),)).wait(go.ready()).arrive(over.ready());
            return Ok(none.go()?.all().await?.is_empty());
        }
        let (go, over) = (go.producer(&shard, 1)?, over.consumer(&shard, 1)?);
        for _ in 0..20 {
            shard.yield_now().await;
        }
        let early = shard.timeout(Duration::ZERO, shard.wait(over.ready())).await;
        shard.arrive(go.ready());
        shard.wait(over.ready()).await?;
        Ok(matches!(early, Err(Error::TimedOut { .. })))
    }
    for seed in 0..40 {
        let runtime = Runtime::seeded(1 + (seed % 3) as u32, seed);
        let came = run(&format!("seed {seed}"), &runtime, |top| async move {
            let gang = top.gang("two", 2)?;
            let (go, over) = (top.edges("go", &gang, [(0, 1)], 1)?, top.edges("over", &gang, [(1, 0)], 1)?);
            top.launch_gang(&gang, &top.register("no points", shard), |_| ShardLaunch::new((go, over)))?.all().await
        });
        assert_eq!(came, Ok(vec![true, true]), "seed {seed}");
    }
}

/// Values of types that need more alignment than the record of an arrival has.
#[test]
fn values_may_need_any_alignment() {
    async fn shard(shard: Shard, edges: Edges<u128>) -> Result<u128, Error> {
        let (to, from) = (edges.producer(&shard, shard.index())?, edges.consumer(&shard, shard.index())?);
        let mut sum = 0;
        for round in 0..10u32 {
            let fill = |mut out: Put<u128>, round: Arg<u32>| out.fill(u128::from(*round) << 100);
            shard.launch(fill, (to.put(1 + round as usize % 2), round.into())).go()?.detach();
            sum += shard.launch(|came: Get<u128>| came.iter().sum::<u128>(), (from.get(),)).go()?.await?;
        }
        Ok(sum)
    }
    for (name, runtime) in runtimes(20) {
        let came = run(&name, &runtime, |top| async move {
            let gang = top.gang("three", 3)?;
            let edges = top.edges("own", &gang, (0..3).map(|s| (s, s)), 2)?;
            top.launch_gang(&gang, &top.register("wide", shard), |_| ShardLaunch::new(edges))?.all().await
        });
        // Rounds 0, 2, … send one value, rounds 1, 3, … two.
        assert_eq!(came, Ok(vec![(20 + 2 * 25) << 100; 3]), "{name}");
    }
}

/// Into shared regions, out of them and between them: in one, two and three dimensions, and from parts of rows.
#[test]
fn regions_are_copied_whether_they_are_shared_or_not() {
    async fn shard<const D: usize>(
        shard: Shard,
        (own, part, shared): ([Region; 2], Region, [Region; 2]),
    ) -> Result<Vec<u64>, Error> {
        let [a, b] = [shard.region(own[0])?, shard.region(own[1])?];
        let [c, d] = [shard.region(shared[0])?, shard.region(shared[1])?];
        // A part of `a`, whose rows are not one after the other.
        let part = shard.region(part)?;
        shard.fill(a.write(U), 1).go()?.detach();
        let set = |mut u: Write<u64, D>| u.rows_mut().flatten().zip(100..).for_each(|(u, i)| u.set(i));
        shard.launch(set, (part.write(U),)).go()?.await?;
        // Nothing orders tasks on shared regions: each waits for the one before.
        shard.copy(part.read(U), c.write_shared(U)).go()?.await?;
        shard.copy(c.read_shared(U), d.write_shared(U)).go()?.await?;
        shard.copy(d.read_shared(U), b.write(U)).go()?.detach();
        shard.copy(b.read(U), part.write(U)).go()?.detach();
        let all = |u: Read<u64, D>| u.rows().flatten().copied().collect::<Vec<u64>>();
        shard.launch(all, (a.read(U),)).go()?.await
    }
    fn test<const D: usize>(size: [i64; D], expected: &[u64]) {
        for (name, runtime) in runtimes(20) {
            let came = run(&name, &runtime, move |top| async move {
                let tree = top.region_tree("own", Rect::new([0; D], size), &[U.info()])?;
                // A row of the same number of values, and shared ones.
                let row = top.region_tree("row", Rect::line(0, 8), &[U.info()])?;
                let two = top.region_tree("two", Rect::new([0, 0], [8, 2]), &[U.info()])?;
                let shared = [0, 2].map(|i| Region::new(two.tree, Rect::new([4 * i / 2, 0], [4 * i / 2 + 4, 2])));
                let (lo, mut hi) = ([0; D], size);
                hi[D - 1] = size[D - 1] / 2;
                let part = Region::new(tree.tree, Rect::new(lo, hi));
                let gang = top.gang("one", 1)?;
                let start = |_| {
                    let start = ShardLaunch::new(([tree, row], part, shared)).writes(tree, [U]).writes(row, [U]);
                    start.shares(shared[0], [U], Privilege::ReadWrite).shares(shared[1], [U], Privilege::ReadWrite)
                };
                top.launch_gang(&gang, &top.register("copies", shard::<D>), start)?.all().await
            });
            assert_eq!(came.expect(&name), [expected], "{name}");
        }
    }
    test([16], &[100, 101, 102, 103, 104, 105, 106, 107, 1, 1, 1, 1, 1, 1, 1, 1]);
    test([2, 8], &[100, 101, 102, 103, 1, 1, 1, 1, 104, 105, 106, 107, 1, 1, 1, 1]);
    test([2, 2, 4], &[100, 101, 1, 1, 102, 103, 1, 1, 104, 105, 1, 1, 106, 107, 1, 1]);
}

/// A shard's task sets values of a region that is at home on another node, and arrives at an edge there. The values are at
/// home when the arrival is, which takes one message; but not when the task has set values of two regions.
#[test]
fn a_change_and_the_arrival_at_its_home_take_one_way() {
    const LATENCY: Duration = Duration::from_millis(1);
    /// What a shard sets, and when the other one reads it.
    async fn shard(shard: Shard, (edges, shared, ways): (Edges, [Region; 2], u32)) -> Result<u64, Error> {
        let [a, b] = [shard.region(shared[0])?, shard.region(shared[1])?];
        if shard.index() == 1 {
            let mine = edges.producer(&shard, 0)?;
            let ready = mine.ready();
            let set = |mut u: WriteShared<u64>| u.set([0], 5);
            let both = |mut u: WriteShared<u64>, mut v: WriteShared<u64>| {
                u.set([0], 5);
                v.set([1], 5);
            };
            match ways {
                1 => shard.launch(set, (a.write_shared(U),)).arrive(ready).go()?.await?,
                _ => shard.launch(both, (a.write_shared(U), b.write_shared(U))).arrive(ready).go()?.await?,
            }
            return Ok(0);
        }
        let mine = edges.consumer(&shard, 1)?;
        // Not before, and no later.
        shard.timeout(LATENCY * ways - LATENCY / 2, shard.wait(mine.ready())).await.expect_err("it comes later");
        shard.timeout(LATENCY, shard.wait(mine.ready())).await?;
        shard.launch(|u: ReadShared<u64>| u.get([0]), (a.read_shared(U),)).go()?.await
    }
    let network = Link { latency_ns: LATENCY.as_nanos() as f64, ..Link::default() };
    for ways in [1, 3] {
        let machine = VirtualMachine { nodes: 2, per_node: 1, network, ..VirtualMachine::default() };
        let came = run("two nodes", &Runtime::virtual_time(machine), move |top| async move {
            let tree = top.region_tree("all", Rect::line(0, 2), &[U.info()])?;
            let part = |i: i64| Region::new(tree.tree, Rect::line(i, i + 1));
            let gang = top.gang("two", 2)?;
            let edges = top.edges("set", &gang, [(1, 0)], 1)?;
            let (shared, all) = ([part(0), part(1)], Privilege::ReadWrite);
            let start = |_| {
                let start = ShardLaunch::new((edges, shared, ways));
                start.shares(shared[0], [U], all).shares(shared[1], [U], all)
            };
            top.launch_gang(&gang, &top.register("sets", shard), start)?.all().await
        });
        assert_eq!(came, Ok(vec![5, 0]), "{ways}");
    }
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "edges::on_processes",
        &[
            (
                "values_travel_as_a_sequential_interpreter_says_in_any_graph",
                graphs::values_travel_as_a_sequential_interpreter_says_in_any_graph,
            ),
            ("a_put_may_be_for_several", a_put_may_be_for_several),
            ("values_that_are_missing_or_left_are_errors", values_that_are_missing_or_left_are_errors),
            ("a_task_that_fails_poisons_its_edges", a_task_that_fails_poisons_its_edges),
            ("parameters_may_be_none_or_many", parameters_may_be_none_or_many),
            ("a_window_bounds_what_a_loop_launches", a_window_bounds_what_a_loop_launches),
            ("values_may_need_any_alignment", values_may_need_any_alignment),
            (
                "messages_of_any_length_are_sent_and_received_in_any_way",
                messages::messages_of_any_length_are_sent_and_received_in_any_way,
            ),
            ("a_vector_may_be_for_several", messages::a_vector_may_be_for_several),
            (
                "a_message_waits_for_a_buffer_and_for_its_receiver",
                messages::a_message_waits_for_a_buffer_and_for_its_receiver,
            ),
            ("failures_reach_both_ends", messages::failures_reach_both_ends),
            ("a_message_without_a_value_is_an_error", messages::a_message_without_a_value_is_an_error),
            ("regions_are_copied_whether_they_are_shared_or_not", regions_are_copied_whether_they_are_shared_or_not),
        ],
    );
}
