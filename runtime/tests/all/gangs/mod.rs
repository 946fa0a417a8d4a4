//! Gangs one after another over different partitions of the same data, and shards that share regions.

mod programs;
mod refusals;

use crate::common;
use crate::common::{Scatter, any_virtual, mix, runtimes, watched};
use maniple_mapper::{Mapper, PlaceShardsInput, PlaceSharedInput, Placement, ProcessorId};
use maniple_regions::{
    Coherence, Field, Privilege, Read, ReadShared, ReadWrite, ReadWriteShared, Rect, Region, Write, WriteShared,
};
use maniple_runtime::{Arg, Edges, Error, Runtime, Shard, ShardLaunch};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

const A: Field<i64> = Field::new(0, "a");
const B: Field<i64> = Field::new(1, "b");
const CELLS: i64 = 24;

fn rect_of(region: Region, lo: i64, hi: i64) -> Region {
    Region::new(region.tree, Rect::line(lo, hi))
}

/// Places shards and shared regions at random, as a pure function of what it is asked about.
struct Anywhere(u64);

impl Mapper for Anywhere {
    fn name(&self) -> &str {
        "anywhere"
    }
    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        let n = u64::from(input.machine.processors());
        let name = input.gang.bytes().fold(self.0, |h, b| mix(h ^ u64::from(b)));
        let at = |s| ProcessorId((mix(name ^ u64::from(s)) % n) as u32);
        Placement::Explicit((0..input.shards).map(at).collect())
    }
    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> ProcessorId {
        let n = u64::from(input.machine.processors());
        ProcessorId((mix(self.0 ^ input.region.rect.lo(0) as u64 ^ input.namers.len() as u64) % n) as u32)
    }
}

fn everywhere(seeds: u64) -> Vec<(String, Runtime)> {
    let mut all = runtimes(seeds);
    for seed in 0..seeds {
        let mapper = Arc::new(Anywhere(seed));
        let processors = 1 + (seed % 5) as u32;
        all.push((
            format!("{processors} seeded processors, anywhere, seed {seed}"),
            Runtime::seeded(processors, seed).mapper(mapper.clone()),
        ));
        let (name, runtime) = any_virtual(seed);
        all.push((format!("{name}, anywhere"), runtime.mapper(mapper.clone())));
        let workers = 1 + (seed % 3) as u32;
        all.push((format!("{workers} threads, anywhere, seed {seed}"), Runtime::threads(workers).mapper(mapper)));
    }
    all
}

fn update(mut u: ReadWrite<i64>, k: Arg<i64>) -> i64 {
    for v in u.as_mut_slice() {
        *v = v.wrapping_mul(5).wrapping_add(*k);
    }
    u.as_slice().iter().fold(1, |sum, v| joined(sum, *v))
}

fn joined(a: i64, b: i64) -> i64 {
    a.wrapping_mul(31).wrapping_add(b)
}

fn dump(u: Read<i64>) -> Vec<i64> {
    u.as_slice().to_vec()
}

#[test]
fn a_launch_uses_the_requirement_that_is_enough_for_it() {
    fn first(a: Read<i64>) -> i64 {
        a.as_slice()[0]
    }
    async fn shard(shard: Shard, tree: Region) -> Result<i64, Error> {
        let u = shard.region(rect_of(tree, 1, 2))?;
        shard.launch(first, (u.read(A),)).go()?.await
    }
    for (name, runtime) in runtimes(3) {
        let outcome = runtime.run(|top| async move {
            let tree = top.region_tree("line", Rect::line(0, 4), &[A.info(), B.info()])?;
            let (gang, task) = (top.gang("one", 1)?, top.register("shard", shard));
            let done = top.launch_gang(&gang, &task, |_| {
                ShardLaunch::new(tree).shares(tree, [A], Privilege::Read).reads(rect_of(tree, 0, 2), [A])
            })?;
            done.all().await
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![0]), "{name}");
    }
}

#[test]
fn one_region_may_be_held_twice_with_different_fields_and_privileges() {
    fn add(a: Read<i64>, mut b: ReadWrite<i64>) -> i64 {
        b.as_mut_slice()[0] += a.as_slice()[0] + 3;
        b.as_slice()[0]
    }
    async fn shard(shard: Shard, tree: Region) -> Result<i64, Error> {
        let u = shard.region(tree)?;
        assert!(shard.launch(update, (u.read_write(A), 1.into())).go().is_err(), "A is held for reading only");
        shard.launch(add, (u.read(A), u.read_write(B))).go()?.await
    }
    for (name, runtime) in runtimes(3) {
        let outcome = runtime.run(|top| async move {
            let tree = top.region_tree("line", Rect::line(0, 4), &[A.info(), B.info()])?;
            let (gang, task) = (top.gang("one", 1)?, top.register("shard", shard));
            let done = top.launch_gang(&gang, &task, |_| {
                ShardLaunch::new(tree).reads(tree, [A]).require(
                    tree,
                    [B.id()],
                    Privilege::ReadWrite,
                    Coherence::Exclusive,
                )
            })?;
            done.all().await
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![3]), "{name}");
    }
}

// Shards that share.

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Ring {
    ghosts: Region,
    right: Edges,
    rounds: i64,
}

/// Every shard puts a value for its right neighbour into a region they share, and digests what its left one put there.
async fn passes_on(shard: Shard, ring: Ring) -> Result<i64, Error> {
    fn put(mut ghost: WriteShared<i64>, value: Arg<i64>) {
        ghost.fill(*value);
    }
    fn take(ghost: ReadShared<i64>, sum: Arg<i64>) -> i64 {
        let (a, b) = (ghost.get([ghost.rect().lo(0)]), ghost.get([ghost.rect().hi(0) - 1]));
        assert_eq!(a, b, "half a value");
        joined(*sum, a)
    }
    let (n, me) = (i64::from(shard.shards()), i64::from(shard.index()));
    let next = (me + 1) % n;
    let from = ((me + n - 1) % n) as u32;
    let theirs = shard.region(rect_of(ring.ghosts, 2 * next, 2 * next + 2))?;
    let mine = shard.region(rect_of(ring.ghosts, 2 * me, 2 * me + 2))?;
    let (out, inn) =
        (ring.right.producer(&shard, (shard.index() + 1) % shard.shards())?, ring.right.consumer(&shard, from)?);
    let mut sum = shard.launch(|v: Arg<i64>| *v, (me.into(),)).go()?;
    for round in 0..ring.rounds {
        let value = joined(me, round);
        let launch = shard.launch(put, (theirs.write_shared(A), value.into()));
        launch.wait(out.empty()).arrive(out.ready()).go()?.detach();
        let launch = shard.launch(take, (mine.read_shared(A), (&sum).into()));
        sum = launch.wait(inn.ready()).arrive(inn.empty()).go()?;
        if round % 7 == me % 7 {
            sum.clone().await?;
        }
    }
    sum.await
}

fn ring(runtime: &Runtime, shards: u32, rounds: i64, launches: u32) {
    let outcome = runtime.run(move |top| async move {
        let n = i64::from(shards);
        let ghosts = top.region_tree("ghosts", Rect::line(0, 2 * n), &[A.info()])?;
        let gang = top.gang("all", shards)?;
        let right = top.edges("right", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % shards)), 1)?;
        let task = top.register("passes on", passes_on);
        let mut sums = Vec::new();
        for _ in 0..launches {
            let done = top.launch_gang(&gang, &task, |s| {
                let (me, next) = (i64::from(s), (i64::from(s) + 1) % n);
                let start = ShardLaunch::new(Ring { ghosts, right, rounds });
                let [mine, theirs] = [me, next].map(|s| rect_of(ghosts, 2 * s, 2 * s + 2));
                if n == 1 {
                    return start.shares(mine, [A], Privilege::ReadWrite);
                }
                start.shares(mine, [A], Privilege::Read).require(
                    theirs,
                    [A.id()],
                    Privilege::WriteDiscard,
                    Coherence::Simultaneous,
                )
            })?;
            sums.push(done.all().await?);
        }
        Ok(sums)
    });
    let (sums, _) = outcome.unwrap_or_else(|e| panic!("{shards} shards: {e}"));
    let n = i64::from(shards);
    let expected: Vec<i64> =
        (0..n).map(|me| (0..rounds).fold(me, |sum, r| joined(sum, joined((me + n - 1) % n, r)))).collect();
    for came in sums {
        assert_eq!(came, expected);
    }
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn neighbours_share_regions_over_many_generations() {
    for (name, runtime) in everywhere(8) {
        watched(&name, || {
            for shards in [1, 2, 3, 7] {
                ring(&runtime, shards, 30, 3);
            }
        });
    }
    for workers in 1..=3 {
        watched("long ring", || ring(&Runtime::threads(workers), 4, 5000, 2));
    }
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn four_thousand_and_ninety_six_shards_on_two_workers() {
    watched("4096 shards", || ring(&Runtime::threads(2), 4096, 5, 2));
}

/// A gang that goes on after some of its shards have ended, and one that needs what it writes.
#[test]
fn a_launch_that_interferes_waits_for_the_whole_earlier_one() {
    fn put(mut u: WriteShared<i64>, k: Arg<i64>) {
        std::thread::sleep(Duration::from_millis(2));
        u.fill(*k);
    }
    async fn slow(shard: Shard, (tree, k): (Region, i64)) -> Result<(), Error> {
        // The first shard, where the shared region is at home, ends at once; the last writes late.
        if shard.index() + 1 < shard.shards() {
            return Ok(());
        }
        for _ in 0..5 {
            shard.yield_now().await;
        }
        let u = shard.region(tree)?;
        shard.launch(put, (u.write_shared(A), k.into())).go()?.detach();
        Ok(())
    }
    async fn bump(shard: Shard, tree: Region) -> Result<i64, Error> {
        let u = shard.region(tree)?;
        shard.launch(update, (u.read_write(A), 3.into())).go()?.await
    }
    let sum = |v: i64| joined(joined(1, 5 * v + 3), 5 * v + 3);
    for (name, runtime) in everywhere(30) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let tree = top.region_tree("pair", Rect::line(0, 2), &[A.info()])?;
                let (all, one) = (top.gang("all", 4)?, top.gang("one", 1)?);
                let (slow, bump) = (top.register("slow", slow), top.register("bump", bump));
                let mut waiting = Vec::new();
                for k in [7, 11, 13] {
                    let _ = top.launch_gang(&all, &slow, |s| {
                        let privilege = if s == 0 { Privilege::Read } else { Privilege::ReadWrite };
                        ShardLaunch::new((tree, k)).shares(tree, [A], privilege)
                    })?;
                    let start = |_| ShardLaunch::new(tree).writes(tree, [A]);
                    waiting.push(top.launch_gang(&one, &bump, start)?);
                }
                let mut sums = Vec::new();
                for done in waiting {
                    sums.extend(done.all().await?);
                }
                Ok(sums)
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![sum(7), sum(11), sum(13)]), "{name}");
    }
}

/// Two gangs read the same region on one processor; between them, elsewhere, it is written.
#[test]
fn a_reader_keeps_what_it_has_while_a_later_reader_gets_newer_data() {
    async fn reader(shard: Shard, (tree, rounds): (Region, u32)) -> Result<Vec<i64>, Error> {
        let u = shard.region(tree)?;
        let mut seen = Vec::new();
        for _ in 0..rounds {
            seen.push(shard.launch(dump, (u.read(A),)).go()?.await?[0]);
            shard.yield_now().await;
        }
        seen.dedup();
        Ok(seen)
    }
    async fn writer(shard: Shard, (tree, k): (Region, i64)) -> Result<(), Error> {
        let u = shard.region(tree)?;
        shard.launch(|mut u: Write<i64>, k: Arg<i64>| u.fill(*k), (u.write(A), k.into())).go()?.detach();
        Ok(())
    }
    struct Apart;
    impl Mapper for Apart {
        fn name(&self) -> &str {
            "apart"
        }
        fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
            let at = u32::from(input.gang == "writers") % input.machine.processors();
            Placement::Explicit(vec![ProcessorId(at); input.shards as usize])
        }
    }
    let seeded = (0..60).map(|s| (format!("seed {s}"), Runtime::seeded(2, s)));
    let threads = (0..20).map(|i| (format!("threads {i}"), Runtime::threads(2)));
    for (name, runtime) in seeded.chain(threads) {
        let runtime = runtime.mapper(Arc::new(Apart));
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let tree = top.region_tree("cell", Rect::line(0, 1), &[A.info()])?;
                let (readers, writers) = (top.gang("readers", 1)?, top.gang("writers", 1)?);
                let (reader, writer) = (top.register("reader", reader), top.register("writer", writer));
                let mut waiting = Vec::new();
                for k in 1..4 {
                    let held =
                        |p| move |_| ShardLaunch::new((tree, k)).require(tree, [A.id()], p, Coherence::Exclusive);
                    let _ = top.launch_gang(&writers, &writer, held(Privilege::WriteDiscard))?;
                    for _ in 0..2 {
                        let start = |_| ShardLaunch::new((tree, 20)).reads(tree, [A]);
                        waiting.push(top.launch_gang(&readers, &reader, start)?);
                    }
                }
                let mut seen = Vec::new();
                for done in waiting {
                    seen.extend(done.all().await?);
                }
                Ok(seen)
            })
        });
        let expected: Vec<Vec<i64>> = [1, 1, 2, 2, 3, 3].map(|k| vec![k]).into();
        assert_eq!(outcome.map(|r| r.0), Ok(expected), "{name}");
    }
}

/// Shards that write different parts of one region they share, of three dimensions, and one that looks on.
#[test]
fn shards_that_set_different_elements_of_a_shared_region_leave_each_other_alone() {
    fn set(mut u: ReadWriteShared<i64, 3>, me: Arg<i64>) {
        for p in u.rect().points::<3>() {
            if (p[0] + p[1] + p[2]) % 5 == *me {
                u.set(p, u.get(p) + 100 + *me);
            }
        }
    }
    async fn shard(shard: Shard, cube: Region) -> Result<(), Error> {
        let u = shard.region(cube)?;
        for _ in 0..3 {
            shard.launch(set, (u.read_write_shared(A), i64::from(shard.index()).into())).go()?.await?;
        }
        Ok(())
    }
    async fn all(shard: Shard, cube: Region) -> Result<Option<Vec<i64>>, Error> {
        shard.launch(|u: Read<i64, 3>| u.slice().map(<[i64]>::to_vec), (shard.region(cube)?.read(A),)).go()?.await
    }
    let rect = Rect::new([0, 0, 0], [2, 3, 4]);
    let value = |p: [i64; 3]| Some((p[0] + p[1] + p[2]) % 5).filter(|s| *s < 4).map_or(0, |s| 3 * (100 + s));
    let expected: Vec<i64> = rect.points::<3>().map(value).collect();
    for (name, runtime) in everywhere(30) {
        let outcome = watched(&name, || {
            runtime.run(move |top| async move {
                let cube = top.region_tree("cube", rect, &[A.info()])?;
                let (four, one) = (top.gang("four", 4)?, top.gang("one", 1)?);
                let start = |_| ShardLaunch::new(cube).shares(cube, [A], Privilege::ReadWrite);
                top.launch_gang(&four, &top.register("shard", shard), start)?.all().await?;
                let done =
                    top.launch_gang(&one, &top.register("all", all), |_| ShardLaunch::new(cube).reads(cube, [A]))?;
                Ok(done.all().await?.swap_remove(0))
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(Some(expected.clone())), "{name}");
    }
}

#[test]
fn rewritten_values_are_good_in_every_region_that_lies_within() {
    fn bomb(_: Write<i64>) {
        panic!("bomb")
    }
    async fn shard(shard: Shard, tree: Region) -> Result<(), Error> {
        let whole = shard.region(tree)?;
        let [a, b, late] = [(0, 4), (2, 8), (3, 5)].map(|(lo, hi)| shard.region(rect_of(tree, lo, hi)));
        let (a, b, late) = (a?, b?, late?);
        // Used before the failure, so that they are known.
        let _ = shard.launch(dump, (a.read(A),)).go()?.await?;
        shard.launch(bomb, (whole.write(A),)).go()?.await.expect_err("it panics");
        for part in [&a, &b, &late] {
            let read = shard.launch(dump, (part.read(A),)).go()?.await;
            assert!(matches!(read, Err(Error::Poisoned { .. })), "{read:?}");
        }
        // Part of what is wrong is rewritten: not good enough for what reaches further.
        shard.launch(|mut u: Write<i64>| u.fill(3), (a.write(A),)).go()?.await?;
        assert_eq!(shard.launch(dump, (a.read(A),)).go()?.await?, [3; 4]);
        assert!(shard.launch(dump, (late.read(A),)).go()?.await.is_err());
        assert!(shard.launch(dump, (whole.read(A),)).go()?.await.is_err());
        shard.launch(|mut u: Write<i64>| u.fill(5), (whole.write(A),)).go()?.await?;
        for part in [&a, &b, &late, &whole] {
            assert!(shard.launch(dump, (part.read(A),)).go()?.await?.iter().all(|v| *v == 5));
        }
        Ok(())
    }
    for (name, runtime) in runtimes(3) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let tree = top.region_tree("line", Rect::line(0, 8), &[A.info()])?;
                let (gang, task) = (top.gang("one", 1)?, top.register("shard", shard));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(tree).writes(tree, [A]))?.all().await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![()]), "{name}");
    }
}

/// No view outlives its launch. What a failed task left out is known all the same, until tasks have written all of it.
#[test]
fn a_failure_is_known_where_no_view_is_left() {
    fn bomb(_: Write<i64>) {
        panic!("bomb")
    }
    async fn shard(shard: Shard, tree: Region) -> Result<(), Error> {
        let part = |lo, hi| shard.region(rect_of(tree, lo, hi));
        let fill = |lo, hi| shard.launch(|mut u: Write<i64>| u.fill(3), (part(lo, hi)?.write(A),)).go();
        let read = |lo, hi| shard.launch(dump, (part(lo, hi)?.read(A),)).go();
        shard.launch(bomb, (part(2, 6)?.write(A),)).go()?.await.expect_err("it panics");
        for (lo, hi) in [(2, 6), (0, 3), (5, 8), (0, 8)] {
            assert!(matches!(read(lo, hi)?.await, Err(Error::Poisoned { .. })), "{lo} to {hi}");
        }
        assert_eq!((read(0, 2)?.await?, read(6, 8)?.await?), (vec![0; 2], vec![0; 2]));
        fill(2, 4)?.await?;
        assert_eq!(read(0, 4)?.await?, [0, 0, 3, 3]);
        assert!(read(3, 5)?.await.is_err());
        fill(4, 6)?.await?;
        assert_eq!(read(0, 8)?.await?, [0, 0, 3, 3, 3, 3, 0, 0]);
        Ok(())
    }
    for (name, runtime) in runtimes(3) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let tree = top.region_tree("line", Rect::line(0, 8), &[A.info()])?;
                let (gang, task) = (top.gang("one", 1)?, top.register("shard", shard));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(tree).writes(tree, [A]))?.all().await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![()]), "{name}");
    }
}

/// Tasks on many slices that overlap, each with a view of its own, against a loop over an array. The order of two tasks
/// counts, as one adds and the other multiplies.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn slices_without_views_take_effect_in_program_order() {
    async fn shard(shard: Shard, (tree, seed): (Region, u64)) -> Result<(Vec<i64>, Vec<i64>), Error> {
        let cells = tree.rect.volume() as i64;
        let (mut expected, mut draw) = (vec![1i64; cells as usize], random(seed));
        shard.launch(|mut u: Write<i64>| u.fill(1), (shard.region(tree)?.write(A),)).go()?.detach();
        for i in 0..400 {
            let lo = draw(cells);
            let hi = lo + 1 + draw(cells - lo);
            let part = shard.region(rect_of(tree, lo, hi))?;
            let range = lo as usize..hi as usize;
            if i % 2 == 0 {
                let add = |mut u: ReadWrite<i64>| u.as_mut_slice().iter_mut().for_each(|x| *x = (*x + 7) % 1009);
                shard.launch(add, (part.read_write(A),)).go()?.detach();
                expected[range].iter_mut().for_each(|x| *x = (*x + 7) % 1009);
            } else {
                let multiply = |mut u: ReadWrite<i64>| u.as_mut_slice().iter_mut().for_each(|x| *x = *x * 3 % 1009);
                shard.launch(multiply, (part.read_write(A),)).go()?.detach();
                expected[range].iter_mut().for_each(|x| *x = *x * 3 % 1009);
            }
            if i % 16 == 0 {
                shard.window(3).await;
            }
        }
        Ok((shard.launch(dump, (shard.region(tree)?.read(A),)).go()?.await?, expected))
    }
    /// Numbers below a bound that look random.
    fn random(mut seed: u64) -> impl FnMut(i64) -> i64 {
        move |below| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as i64 % below
        }
    }
    for (name, runtime) in runtimes(3) {
        for seed in 0..5 {
            let outcome = watched(&name, || {
                runtime.run(move |top| async move {
                    let tree = top.region_tree("line", Rect::line(0, 60), &[A.info()])?;
                    let (gang, task) = (top.gang("one", 1)?, top.register("shard", shard));
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new((tree, seed)).writes(tree, [A]))?.all().await
                })
            });
            let (all, _) = outcome.expect("a run");
            assert_eq!(all[0].0, all[0].1, "{name}, seed {seed}");
        }
    }
}

#[cfg(target_os = "linux")]
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// In a process of its own, whose memory no other test uses.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_thousand_clean_starts_and_stops() {
    let once = |i: u64| {
        let runtime = match i % 3 {
            0 => Runtime::seeded(1 + (i % 4) as u32, i),
            _ => Runtime::threads(1 + (i % 3) as u32),
        };
        ring(&runtime.mapper(Arc::new(Scatter::default())), 3, 2, 1);
    };
    common::processes::on_processes("gangs::a_thousand_clean_starts_and_stops", &[(1, 1)], |_| {
        watched("a thousand runs", || {
            (0..200).for_each(once);
            let before = status("VmRSS");
            (200..1200).for_each(once);
            let grown = status("VmRSS").saturating_sub(before);
            assert!(grown < 20_000, "a thousand runs left {grown} kB behind");
        });
    });
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "gangs::on_processes",
        &[
            (
                "a_launch_uses_the_requirement_that_is_enough_for_it",
                a_launch_uses_the_requirement_that_is_enough_for_it,
            ),
            (
                "one_region_may_be_held_twice_with_different_fields_and_privileges",
                one_region_may_be_held_twice_with_different_fields_and_privileges,
            ),
            (
                "rewritten_values_are_good_in_every_region_that_lies_within",
                rewritten_values_are_good_in_every_region_that_lies_within,
            ),
            (
                "slices_and_shared_accessors_are_for_what_is_held_that_way",
                refusals::slices_and_shared_accessors_are_for_what_is_held_that_way,
            ),
            (
                "an_index_launch_asks_for_each_argument_once_and_launches_all_or_nothing",
                refusals::an_index_launch_asks_for_each_argument_once_and_launches_all_or_nothing,
            ),
            (
                "interfering_points_of_an_index_launch_are_refused",
                refusals::interfering_points_of_an_index_launch_are_refused,
            ),
        ],
    );
}
