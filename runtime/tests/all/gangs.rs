//! Gangs one after another over different partitions of the same data, and shards that share regions.

use crate::common;
use crate::common::size;
use crate::common::{Scatter, any_virtual, mix, runtimes, watched};
use maniple_mapper::{Mapper, PlaceShardsInput, PlaceSharedInput, Placement, ProcessorId};
use maniple_regions::{
    Coherence, Field, Operator, Partition, Privilege, Read, ReadShared, ReadWrite, ReadWriteShared, Rect, Reduce,
    Region, Write, WriteShared,
};
use maniple_runtime::{
    Arg, Edges, Error, Gang, InnerTask, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch, ShardTask,
};
use proptest::prelude::*;
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

// Data that follows from launch to launch.

/// What one gang does. The sizes belong to consecutive blocks, one a shard.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Work {
    /// Every shard updates its own block of a field.
    Update(bool, Vec<usize>, i64),
    /// Every shard reads its block of one field with this many cells around it and writes its block of the other.
    Around(bool, Vec<usize>, i64),
    /// All shards share a field; the first updates it, then the others read it into their blocks of the other field.
    Share(bool, Vec<usize>, i64),
    /// A parent updates a field itself, has a gang update it in blocks, and looks at all of it.
    Parent(bool, Vec<usize>, i64),
}

fn field(b: bool) -> Field<i64> {
    if b { B } else { A }
}

fn update(mut u: ReadWrite<i64>, k: Arg<i64>) -> i64 {
    for v in u.as_mut_slice() {
        *v = v.wrapping_mul(5).wrapping_add(*k);
    }
    u.as_slice().iter().fold(1, |sum, v| joined(sum, *v))
}

/// Bounds of a part of the cells.
fn part(k: i64) -> (i64, i64) {
    let lo = k.rem_euclid(7) * 3;
    (lo, CELLS - k.rem_euclid(CELLS - lo))
}

fn joined(a: i64, b: i64) -> i64 {
    a.wrapping_mul(31).wrapping_add(b)
}

fn around(u: Read<i64>, mut v: Write<i64>) {
    let rect = u.rect();
    let all = u.as_slice().iter().fold(0i64, |sum, x| joined(sum, *x));
    for p in v.rect().points::<1>() {
        assert!(rect.contains(p));
        v.set(p, joined(all, p[0]));
    }
}

fn share_write(mut u: WriteShared<i64>, k: Arg<i64>) {
    for p in u.rect().points::<1>() {
        u.set(p, joined(*k, p[0]));
    }
}

fn share_read(u: ReadShared<i64>, mut v: Write<i64>) {
    for p in v.rect().points::<1>() {
        v.set(p, joined(u.get(p), 9));
    }
}

fn dump(u: Read<i64>) -> Vec<i64> {
    u.as_slice().to_vec()
}

fn bounds(sizes: &[usize]) -> Vec<(i64, i64)> {
    let mut at = 0;
    let mut next = |size: i64| {
        at += size;
        (at - size, at)
    };
    sizes.iter().map(|&s| next(s as i64)).collect()
}

#[derive(Clone, Serialize, Deserialize)]
struct Args {
    work: Work,
    tree: Region,
    all: PhaseBarrier,
}

async fn worker(shard: Shard, args: Args) -> Result<i64, Error> {
    let me = shard.index() as usize;
    match args.work {
        Work::Update(b, sizes, k) | Work::Parent(b, sizes, k) => {
            let (lo, hi) = bounds(&sizes)[me];
            let u = shard.region(rect_of(args.tree, lo, hi))?;
            // Nobody waits for these: the launch ends when they do.
            let first = shard.launch(update, (u.read_write(field(b)), k.into())).go()?;
            shard.launch(update, (u.read_write(field(b)), (&first).into())).go()?.detach();
            first.await
        }
        Work::Around(b, sizes, reach) => {
            let (lo, hi) = bounds(&sizes)[me];
            let u = shard.region(rect_of(args.tree, (lo - reach).max(0), (hi + reach).min(CELLS)))?;
            let v = shard.region(rect_of(args.tree, lo, hi))?;
            shard.launch(around, (u.read(field(b)), v.write(field(!b)))).go()?.detach();
            Ok(0)
        }
        Work::Share(b, sizes, k) => {
            let (lo, hi) = bounds(&sizes)[me];
            let shared = shard.region(args.tree)?;
            let v = shard.region(rect_of(args.tree, lo, hi))?;
            let end = args.all.waiter(&shard)?;
            if me == 0 {
                let begin = args.all.arriver(&shard)?;
                shard.launch(share_write, (shared.write_shared(field(b)), k.into())).arrive(&begin).go()?.detach();
            }
            shard.launch(share_read, (shared.read_shared(field(b)), v.write(field(!b)))).wait(&end).go()?.detach();
            Ok(1)
        }
    }
}

type ParentArgs = (Args, Gang, ShardTask<Args, i64>);

async fn parent(parent: InnerTask, (args, gang, task): ParentArgs) -> Result<i64, Error> {
    let Work::Parent(b, sizes, k) = args.work.clone() else { return Ok(0) };
    let all = parent.map(args.tree, [field(b).id()], Privilege::ReadWrite).await?;
    let first = parent.launch(update, (all.read_write(field(b)), k.into())).go()?.await?;
    let blocks = bounds(&sizes);
    let done = parent
        .launch_gang(&gang, &task, |s| {
            let (lo, hi) = blocks[s as usize];
            let held = rect_of(args.tree, lo, hi);
            ShardLaunch::new(args.clone()).writes(held, [field(b)])
        })
        .await?;
    // A part, with whatever edges k gives, and then all of it.
    let (lo, hi) = part(k);
    let some = parent.map(rect_of(args.tree, lo, hi), [field(b)], Privilege::ReadWrite).await?;
    let second = parent.launch(update, (some.read_write(field(b)), first.into())).go()?.await?;
    let all = parent.map(args.tree, [field(b)], Privilege::Read).await?;
    let values = parent.launch(dump, (all.read(field(b)),)).go()?.await?;
    let sums = done.all().await?;
    Ok(values.into_iter().chain(sums).fold(second, joined))
}

async fn last(shard: Shard, tree: Region) -> Result<(Vec<i64>, Vec<i64>), Error> {
    let u = shard.region(tree)?;
    let a = shard.launch(dump, (u.read(A),)).go()?;
    let b = shard.launch(dump, (u.read(B),)).go()?;
    Ok((a.await?, b.await?))
}

/// The results of each work, and the two fields at the end.
type Modelled = (Vec<Vec<i64>>, (Vec<i64>, Vec<i64>));

/// The same on two vectors.
fn model(works: &[Work]) -> Modelled {
    let mut fields = [vec![0i64; CELLS as usize], vec![0i64; CELLS as usize]];
    let mut results = Vec::new();
    let twice = |block: &mut [i64], k: i64| {
        let mut go = |k: i64| {
            block.iter_mut().for_each(|v| *v = v.wrapping_mul(5).wrapping_add(k));
            block.iter().fold(1, |sum, v| joined(sum, *v))
        };
        let first = go(k);
        go(first);
        first
    };
    for work in works {
        let ranges = |sizes: &[usize]| bounds(sizes).into_iter().map(|(lo, hi)| lo as usize..hi as usize);
        results.push(match work {
            Work::Update(b, sizes, k) => ranges(sizes).map(|r| twice(&mut fields[usize::from(*b)][r], *k)).collect(),
            Work::Around(b, sizes, reach) => {
                let from = fields[usize::from(*b)].clone();
                for r in ranges(sizes) {
                    let lo = (r.start as i64 - reach).max(0) as usize;
                    let hi = (r.end as i64 + reach).min(CELLS) as usize;
                    let sum = from[lo..hi].iter().fold(0, |sum, x| joined(sum, *x));
                    r.for_each(|i| fields[usize::from(!b)][i] = joined(sum, i as i64));
                }
                vec![0; sizes.len()]
            }
            Work::Share(b, sizes, k) => {
                fields[usize::from(*b)] = (0..CELLS).map(|i| joined(*k, i)).collect();
                fields[usize::from(!b)] = (0..CELLS).map(|i| joined(joined(*k, i), 9)).collect();
                vec![1; sizes.len()]
            }
            Work::Parent(b, sizes, k) => {
                let u = &mut fields[usize::from(*b)];
                u.iter_mut().for_each(|v| *v = v.wrapping_mul(5).wrapping_add(*k));
                let first = u.iter().fold(1, |sum, v| joined(sum, *v));
                let sums: Vec<i64> = ranges(sizes).map(|r| twice(&mut u[r], *k)).collect();
                let (lo, hi) = part(*k);
                let some = &mut u[lo as usize..hi as usize];
                some.iter_mut().for_each(|v| *v = v.wrapping_mul(5).wrapping_add(first));
                let second = some.iter().fold(1, |sum, v| joined(sum, *v));
                vec![u.iter().copied().chain(sums).fold(second, joined)]
            }
        });
    }
    let [a, b] = fields;
    (results, (a, b))
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    let equal = prop::sample::select(vec![vec![24], vec![12, 12], vec![8, 8, 8], vec![6; 4], vec![4; 6]]);
    let uneven = prop::sample::select(vec![vec![3, 6, 6, 6, 3], vec![1, 23], vec![20, 4], vec![7, 1, 9, 7]]);
    prop_oneof![equal, uneven]
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        3 => (any::<bool>(), sizes(), -9i64..9).prop_map(|(b, s, k)| Work::Update(b, s, k)),
        3 => (any::<bool>(), sizes(), 0i64..8).prop_map(|(b, s, k)| Work::Around(b, s, k)),
        2 => (any::<bool>(), sizes(), -9i64..9).prop_map(|(b, s, k)| Work::Share(b, s, k)),
        2 => (any::<bool>(), sizes(), -9i64..9).prop_map(|(b, s, k)| Work::Parent(b, s, k)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(size::part(30) as u32))]

    #[test]
    fn data_follows_from_gang_to_gang(works in prop::collection::vec(work(), 1..9)) {
        let expected = model(&works);
        for (name, runtime) in everywhere(6) {
            let works = works.clone();
            let outcome = watched(&name, || runtime.run(move |top| run_all(top, works.clone())));
            match outcome {
                Ok((came, _)) => prop_assert_eq!(&came, &expected, "on {}", name),
                Err(e) => prop_assert!(false, "on {name}: {e}"),
            }
        }
    }
}

async fn run_all(top: maniple_runtime::Top, works: Vec<Work>) -> Result<(Vec<Vec<i64>>, (Vec<i64>, Vec<i64>)), Error> {
    let tree = top.region_tree("line", Rect::line(0, CELLS), &[A.info(), B.info()])?;
    let (task, parents, last) =
        (top.register("worker", worker), top.register_inner("parent", parent), top.register("last", last));
    let mut waiting = Vec::new();
    for (i, work) in works.into_iter().enumerate() {
        let (Work::Update(b, sizes, k)
        | Work::Around(b, sizes, k)
        | Work::Share(b, sizes, k)
        | Work::Parent(b, sizes, k)) = work.clone();
        let gang = top.gang(&format!("gang {i}"), sizes.len() as u32)?;
        let barrier = PhaseOptions::between([0], 0..gang.shards());
        let args = Args { work, tree, all: top.phase_barrier("shared", &gang, barrier)? };
        if matches!(args.work, Work::Parent(..)) {
            let both = [A.id(), B.id()];
            let value = top.run_inner(&parents, || {
                let args = (args.clone(), gang, task);
                ShardLaunch::new(args).require(tree, both, Privilege::ReadWrite, Coherence::Exclusive)
            });
            waiting.push(Err(value.await?));
            continue;
        }
        let blocks = bounds(&sizes);
        let done = top.launch(&gang, &task, |s| {
            let (lo, hi) = blocks[s as usize];
            let (mine, start) = (rect_of(tree, lo, hi), ShardLaunch::new(args.clone()));
            let (f, g) = (field(b).id(), field(!b).id());
            match args.work {
                Work::Around(..) => {
                    let wide = rect_of(tree, (lo - k).max(0), (hi + k).min(CELLS));
                    start.reads(wide, [f]).require(mine, [g], Privilege::WriteDiscard, Coherence::Exclusive)
                }
                Work::Share(..) => {
                    let privilege = if s == 0 { Privilege::ReadWrite } else { Privilege::Read };
                    start.shares(tree, [f], privilege).require(mine, [g], Privilege::WriteDiscard, Coherence::Exclusive)
                }
                _ => start.writes(mine, [f]),
            }
        })?;
        waiting.push(Ok(done));
    }
    let one = top.gang("one", 1)?;
    let end = top.launch(&one, &last, |_| ShardLaunch::new(tree).reads(tree, [A, B]))?;
    let fields = end.all().await?.swap_remove(0);
    let mut results = Vec::new();
    for entry in waiting {
        results.push(match entry {
            Ok(done) => done.all().await?,
            Err(value) => vec![value],
        });
    }
    Ok((results, fields))
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
            let done = top.launch(&gang, &task, |_| {
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
            let done = top.launch(&gang, &task, |_| {
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
            let done = top.launch(&gang, &task, |s| {
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
                    let _ = top.launch(&all, &slow, |s| {
                        let privilege = if s == 0 { Privilege::Read } else { Privilege::ReadWrite };
                        ShardLaunch::new((tree, k)).shares(tree, [A], privilege)
                    })?;
                    let start = |_| ShardLaunch::new(tree).writes(tree, [A]);
                    waiting.push(top.launch(&one, &bump, start)?);
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
                    let _ = top.launch(&writers, &writer, held(Privilege::WriteDiscard))?;
                    for _ in 0..2 {
                        let start = |_| ShardLaunch::new((tree, 20)).reads(tree, [A]);
                        waiting.push(top.launch(&readers, &reader, start)?);
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
                top.launch(&four, &top.register("shard", shard), start)?.all().await?;
                let done = top.launch(&one, &top.register("all", all), |_| ShardLaunch::new(cube).reads(cube, [A]))?;
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
                top.launch(&gang, &task, |_| ShardLaunch::new(tree).writes(tree, [A]))?.all().await
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
                top.launch(&gang, &task, |_| ShardLaunch::new(tree).writes(tree, [A]))?.all().await
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
                    top.launch(&gang, &task, |_| ShardLaunch::new((tree, seed)).writes(tree, [A]))?.all().await
                })
            });
            let (all, _) = outcome.expect("a run");
            assert_eq!(all[0].0, all[0].1, "{name}, seed {seed}");
        }
    }
}

// Refusals.

fn refused(message: &[&str], start: impl Fn(Region, u32) -> ShardLaunch<()> + Send + Sync + Copy + 'static) {
    async fn never(_: Shard, _: ()) -> Result<(), Error> {
        panic!("was launched")
    }
    for runtime in [Runtime::seeded(3, 1), Runtime::threads(2)] {
        let outcome = watched("refused", || {
            runtime.run(move |top| async move {
                let tree = top.region_tree("line", Rect::line(0, 30), &[A.info(), B.info()])?;
                let (gang, task) = (top.gang("all", 4)?, top.register("never", never));
                top.launch(&gang, &task, |s| start(tree, s)).map(|_| ())
            })
        });
        let Err(e) = outcome else { panic!("expected a refusal with {message:?}") };
        assert!(matches!(e, Error::Interference { .. }), "{e:?}");
        for words in message {
            assert!(e.to_string().contains(words), "`{words}` is not in: {e}");
        }
    }
}

#[test]
fn interfering_shards_are_refused_by_name() {
    let held = |start: ShardLaunch<()>, r: Region, p, c| start.require(r, [A.id()], p, c);
    let (exclusive, simultaneous) = (Coherence::Exclusive, Coherence::Simultaneous);
    let (rw, read) = (Privilege::ReadWrite, Privilege::Read);
    // Blocks of 10 at 8·s: neighbours overlap by two cells.
    refused(&["shard 0", "shard 1", "[0, 10)", "[8, 18)"], move |t, s| {
        held(ShardLaunch::new(()), rect_of(t, 8 * i64::from(s), (8 * i64::from(s) + 10).min(30)), rw, exclusive)
    });
    refused(&["shard 2", "shard 3"], move |t, s| match s {
        2 => held(ShardLaunch::new(()), rect_of(t, 20, 30), rw, exclusive),
        3 => held(ShardLaunch::new(()), rect_of(t, 29, 30), read, exclusive),
        _ => held(ShardLaunch::new(()), rect_of(t, 0, 9), read, exclusive),
    });
    // Simultaneous regions are shared only when they are the very same.
    refused(&["shard 0", "shard 1", "very same"], move |t, s| match s {
        0 => held(ShardLaunch::new(()), rect_of(t, 0, 9), rw, simultaneous),
        1 => held(ShardLaunch::new(()), rect_of(t, 3, 9), rw, simultaneous),
        _ => ShardLaunch::new(()),
    });
    refused(&["shard 1 (", "and shard 1 (", "name one region in place of both"], move |t, s| match s {
        1 => {
            held(held(ShardLaunch::new(()), rect_of(t, 0, 9), rw, simultaneous), rect_of(t, 8, 12), read, simultaneous)
        }
        _ => ShardLaunch::new(()),
    });
    refused(&["shard 1", "shard 3"], move |t, s| match s {
        1 => held(ShardLaunch::new(()), rect_of(t, 0, 9), rw, simultaneous),
        3 => held(ShardLaunch::new(()), rect_of(t, 0, 9), rw, exclusive),
        _ => ShardLaunch::new(()),
    });
    // Equal reductions owe each other nothing, but each would need an instance of its own.
    let sum = Privilege::Reduce(maniple_regions::ReductionId::new("sum"));
    for coherence in [exclusive, Coherence::Atomic, simultaneous] {
        let words = ["shard 0 (", "shard 2 (", "reduce(", "fold into disjoint regions, or use a collective"];
        refused(&words, move |t, s| match s {
            0 => held(ShardLaunch::new(()), rect_of(t, 0, 9), sum, coherence),
            2 => {
                held(ShardLaunch::new(()), rect_of(t, if coherence == simultaneous { 0 } else { 8 }, 9), sum, coherence)
            }
            _ => ShardLaunch::new(()),
        });
    }
    // A shard that holds a cell twice would not know which of its two instances is right.
    refused(&["shard 2", "[0, 9)", "[5, 12)"], move |t, s| match s {
        2 => held(held(ShardLaunch::new(()), rect_of(t, 0, 9), rw, exclusive), rect_of(t, 5, 12), read, exclusive),
        _ => ShardLaunch::new(()),
    });
}

#[test]
fn a_gang_of_another_run_is_refused_before_anything_starts() {
    let (gang, _) = Runtime::threads(1).run(|top| async move { top.gang("all", 3) }).expect("a gang");
    let outcome = Runtime::threads(1).run(move |top| async move {
        let task = top.register("see", |_, ()| async { Ok(()) });
        top.launch(&gang, &task, |_| -> ShardLaunch<()> { unreachable!("nothing starts") })?.all().await
    });
    misused(outcome, &["a gang launch", "`Top::gang`"]);
}

fn misused<T>(outcome: Result<T, Error>, words: &[&str]) {
    let e = outcome.err().expect("a refusal");
    assert!(matches!(e, Error::Misuse { .. }), "{e:?}");
    for words in words {
        assert!(e.to_string().contains(words), "`{words}` is not in: {e}");
    }
}

#[test]
fn a_region_outside_its_tree_is_refused() {
    async fn never(_: Shard, _: ()) -> Result<(), Error> {
        panic!("was launched")
    }
    async fn asks(shard: Shard, tree: Region) -> Result<(), Error> {
        misused(
            shard.region(rect_of(tree, 9, 11)),
            &["task `asks` of shard 0", "[9, 11)", "region tree `line`, which is [0, 10)"],
        );
        shard.region(rect_of(tree, 20, 20)).map(|_| ())
    }
    for runtime in [Runtime::seeded(3, 1), Runtime::threads(2)] {
        let outcome = runtime.run(|top| async move {
            let tree = top.region_tree("line", Rect::line(0, 10), &[A.info()])?;
            let (gang, task) = (top.gang("all", 3)?, top.register("never", never));
            let plane = Region::new(tree.tree, Rect::new([0, 0], [2, 2]));
            for (wrong, name) in [(rect_of(tree, 8, 12), "[8, 12)"), (rect_of(tree, -1, 2), "[-1, 2)"), (plane, "x")] {
                let held = |s| if s == 2 { ShardLaunch::new(()).reads(wrong, [A]) } else { ShardLaunch::new(()) };
                let words = ["shard 2", "task `top level`", "region tree `line`, which is [0, 10)", name];
                misused(top.launch(&gang, &task, held), &words);
            }
            let (one, asks) = (top.gang("one", 1)?, top.register("asks", asks));
            // No points are outside.
            let empty = rect_of(tree, 20, 20);
            top.launch(&one, &asks, |_| ShardLaunch::new(tree).reads(tree, [A]).reads(empty, [A]))?.all().await
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![()]));
    }
}

#[test]
fn a_shard_that_holds_nothing_is_told_how_to_hold_it() {
    async fn shard(shard: Shard, (tree, held): (Region, Region)) -> Result<(), Error> {
        misused(
            shard.region(tree),
            &["a part of a region that the shard was launched with ([0, 2) of region tree `line`"],
        );
        let u = shard.region(held)?;
        let words =
            ["the launch of `dump` in task `shard` of shard 0", "of region tree `line` (field `a`), got field `b`"];
        misused(shard.launch(dump, (u.read(B),)).go(), &words);
        let words = [
            "at most read under exclusive coherence on field `a` of [0, 2) of region tree `line`",
            "hold it with `writes`",
        ];
        misused(shard.fill(u.write(A), 0).go(), &words);
        Ok(())
    }
    async fn nothing(shard: Shard, tree: Region) -> Result<(), Error> {
        misused(shard.region(tree), &["its launch names none, add one with `reads`, `writes` or `shares`"]);
        Ok(())
    }
    let outcome = Runtime::threads(1).run(|top| async move {
        let tree = top.region_tree("line", Rect::line(0, 8), &[A.info(), B.info()])?;
        let (gang, held) = (top.gang("one", 1)?, rect_of(tree, 0, 2));
        let start = |_| ShardLaunch::new((tree, held)).reads(held, [A]);
        top.launch(&gang, &top.register("shard", shard), start)?.all().await?;
        top.launch(&gang, &top.register("nothing", nothing), |_| ShardLaunch::new(tree))?.all().await
    });
    assert_eq!(outcome.map(|r| r.0), Ok(vec![()]));
}

#[test]
fn slices_and_shared_accessors_are_for_what_is_held_that_way() {
    fn see(_: ReadShared<i64>) {}
    fn set(_: WriteShared<i64>) {}
    fn change(_: ReadWriteShared<i64>) {}
    async fn shard(shard: Shard, tree: Region) -> Result<(), Error> {
        let (own, shared) = (shard.region(rect_of(tree, 0, 4))?, shard.region(rect_of(tree, 4, 8))?);
        // Task, field and tree are named, and the method for what is held.
        let words = |task: &str, held: &str, method: &str| {
            let launch = format!("the launch of `{task}` in task `shard` of shard 0: expected field `a` under");
            [launch, format!("{held} of region tree `line` (use `{method}`")]
        };
        let asked = [
            (shard.launch(see, (own.read_shared(A),)).go().err(), words("see", "[0, 4)", "read")),
            (shard.launch(set, (own.write_shared(A),)).go().err(), words("set", "[0, 4)", "write")),
            (shard.launch(change, (own.read_write_shared(A),)).go().err(), words("change", "[0, 4)", "read_write")),
            (shard.launch(dump, (shared.read(A),)).go().err(), words("dump", "[4, 8)", "read_shared")),
            (shard.launch(dump, (shared.read(A).atomic(),)).go().err(), words("dump", "[4, 8)", "read_shared")),
            (shard.fill(shared.write(A), 0).go().err(), words("fill", "[4, 8)", "write_shared")),
        ];
        for (refusal, words) in asked {
            misused(refusal.map_or(Ok(()), Err), &words.each_ref().map(String::as_str));
        }
        let _ = shard.launch(dump, (own.read(A),)).go()?.await?;
        let _ = shard.launch(dump, (own.read(A).atomic(),)).go()?.await?;
        shard.launch(see, (shared.read_shared(A),)).go()?.await
    }
    for (name, runtime) in runtimes(3) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let tree = top.region_tree("line", Rect::line(0, 8), &[A.info()])?;
                let (gang, task) = (top.gang("one", 1)?, top.register("shard", shard));
                let held = |_| {
                    let start = ShardLaunch::new(tree).writes(rect_of(tree, 0, 4), [A]);
                    start.shares(rect_of(tree, 4, 8), [A], Privilege::ReadWrite)
                };
                top.launch(&gang, &task, held)?.all().await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![()]), "{name}");
    }
}

#[test]
fn an_index_launch_asks_for_each_argument_once_and_launches_all_or_nothing() {
    fn count(mut u: ReadWrite<i64>, k: Arg<i64>) {
        u.as_mut_slice()[0] += *k;
    }
    async fn shard(shard: Shard, tree: Region) -> Result<Vec<i64>, Error> {
        let parts = (0..4).map(|i| shard.region(rect_of(tree, i, i + 1))).collect::<Result<Vec<_>, _>>()?;
        let asked = std::cell::RefCell::new(Vec::new());
        let args = |i: usize| {
            asked.borrow_mut().push(i);
            (parts[i].read_write(A), (i as i64).into())
        };
        shard.index_launch(4, count, args).go()?.all().await?;
        assert_eq!(asked.into_inner(), [0, 1, 2, 3]);
        // The last point is refused: none runs.
        let field = |i: usize| if i == 3 { B } else { A };
        misused(
            shard.index_launch(4, count, |i| (parts[i].read_write(field(i)), 50.into())).go(),
            &["of shard 0", "b"],
        );
        shard.launch(dump, (shard.region(tree)?.read(A),)).go()?.await
    }
    for (name, runtime) in runtimes(3) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let tree = top.region_tree("line", Rect::line(0, 4), &[A.info(), B.info()])?;
                let (gang, task) = (top.gang("one", 1)?, top.register("shard", shard));
                top.launch(&gang, &task, |_| ShardLaunch::new(tree).writes(tree, [A]))?.all().await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![vec![0, 1, 2, 3]]), "{name}");
    }
}

#[test]
fn what_does_not_interfere_is_not_refused() {
    async fn fine(_: Shard, _: ()) -> Result<(), Error> {
        Ok(())
    }
    let outcome = Runtime::threads(2).run(|top| async move {
        let tree = top.region_tree("line", Rect::line(0, 30), &[A.info(), B.info()])?;
        let (gang, task) = (top.gang("all", 3)?, top.register("fine", fine));
        let (exclusive, simultaneous) = (Coherence::Exclusive, Coherence::Simultaneous);
        let done = top.launch(&gang, &task, |s| {
            let own = if s == 0 { A.id() } else { B.id() };
            let start = ShardLaunch::new(()).require(rect_of(tree, 0, 9), [A.id()], Privilege::Read, exclusive);
            let start = start.require(rect_of(tree, 5, 12), [A.id()], Privilege::Read, exclusive);
            let (from, to) = (12 + 3 * i64::from(s), 15 + 3 * i64::from(s));
            let start = start.require(rect_of(tree, from, to), [own], Privilege::ReadWrite, exclusive);
            start.require(rect_of(tree, 25, 30), [A.id()], Privilege::ReadWrite, simultaneous)
        })?;
        done.all().await
    });
    assert_eq!(outcome.map(|r| r.0), Ok(vec![(), (), ()]));
}

#[test]
fn interfering_points_of_an_index_launch_are_refused() {
    fn add(mut u: Reduce<i64>) {
        u.fold_slice(&vec![1; u.len()]);
    }
    async fn shard(shard: Shard, tree: Region) -> Result<i64, Error> {
        let windows = Partition::restriction(tree, 3, &[8], Rect::line(-1, 9))?;
        let parts: Vec<_> = windows.iter().map(|r| shard.region(r)).collect::<Result<_, _>>()?;
        let e =
            shard.index_launch(3, update, |i| (parts[i].read_write(A), 1.into())).go().expect_err("windows overlap");
        assert!(matches!(e, Error::Interference { .. }), "{e:?}");
        for words in ["point 0", "point 1", "of shard 0"] {
            assert!(e.to_string().contains(words), "`{words}` is not in: {e}");
        }
        // Neither reads nor equal reductions interfere.
        assert_eq!(shard.index_launch(3, dump, |i| (parts[i].read(A),)).go()?.all().await?[0], [0; 9]);
        shard.index_launch(3, add, |i| (parts[i].reduce(A, Operator::sum()),)).go()?.all().await?;
        let whole = shard.region(tree)?;
        let values = shard.launch(dump, (whole.read(A),)).go()?.await?;
        assert_eq!(values, [1, 1, 1, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 1, 1]);
        Ok(1)
    }
    for (name, runtime) in runtimes(4) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let tree = top.region_tree("line", Rect::line(0, CELLS), &[A.info(), B.info()])?;
                let (gang, task) = (top.gang("one", 1)?, top.register("shard", shard));
                let start = |_| ShardLaunch::new(tree).writes(tree, [A]);
                top.launch(&gang, &task, start)?.all().await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![1]), "{name}");
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
                slices_and_shared_accessors_are_for_what_is_held_that_way,
            ),
            (
                "an_index_launch_asks_for_each_argument_once_and_launches_all_or_nothing",
                an_index_launch_asks_for_each_argument_once_and_launches_all_or_nothing,
            ),
            ("interfering_points_of_an_index_launch_are_refused", interfering_points_of_an_index_launch_are_refused),
        ],
    );
}
