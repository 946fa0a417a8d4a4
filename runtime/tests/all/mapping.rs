//! What becomes of a mapper's decisions: each is seen to be followed, and an illegal one or a panic is an error with its name.

use crate::common;
use crate::common::{run, virtual_nodes, watched};
use maniple_mapper::{
    InstanceChoice, InstanceInput, LeafInput, LeafOutput, Mapper, MemoryKind, NodeId, PlaceShardsInput,
    PlaceSharedInput, Placement, Priority, ProcessorId, ProfileInput, SliceInput, Slicing, SourceInput,
};
use maniple_regions::{
    Coherence, Field, Privilege, Read, ReadShared, ReadWrite, ReadWriteShared, Rect, Region, Write, WriteShared,
};
use maniple_runtime::{Arg, Edges, Error, Many, Runtime, Shard, ShardLaunch, Top, VirtualMachine, now};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const U: Field<u64> = Field::new(0, "u");

/// Both drivers, with two or three processors.
fn drivers() -> Vec<(String, Runtime)> {
    let seeded = (0..12).map(|seed| (format!("seed {seed}"), Runtime::seeded(2 + (seed % 2) as u32, seed)));
    seeded
        .chain((2..4).map(|n| virtual_nodes(n, n.into())))
        .chain((2..=3).map(|n| (format!("{n} threads"), Runtime::threads(n))))
        .collect()
}

/// The processor that runs the calling leaf task, on threads.
fn here() -> Option<u32> {
    std::thread::current().name()?.strip_prefix("maniple ")?.parse().ok()
}

/// Answers with closures; without one, as the default.
#[derive(Default)]
#[allow(clippy::type_complexity)]
struct Answers {
    slices: Option<Box<dyn Fn(&SliceInput<'_>) -> Slicing + Send + Sync>>,
    instance: Option<Box<dyn Fn(&InstanceInput<'_>) -> InstanceChoice + Send + Sync>>,
    source: Option<Box<dyn Fn(&SourceInput<'_>) -> ProcessorId + Send + Sync>>,
    leaf: Option<Box<dyn Fn(&LeafInput<'_>) -> LeafOutput + Send + Sync>>,
    profile: Option<Box<dyn Fn(&ProfileInput<'_>) + Send + Sync>>,
}

impl Mapper for Answers {
    fn name(&self) -> &str {
        "answers"
    }
    fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
        Placement::Cyclic
    }
    fn slice_index(&self, input: &SliceInput<'_>) -> Slicing {
        self.slices.as_ref().map_or(Slicing::Here, |f| f(input))
    }
    fn map_instance(&self, input: &InstanceInput<'_>) -> InstanceChoice {
        let usual = || input.found.map_or(InstanceChoice::Create(MemoryKind::Ordinary), |_| InstanceChoice::Find);
        self.instance.as_ref().map_or_else(usual, |f| f(input))
    }
    fn select_source(&self, input: &SourceInput<'_>) -> ProcessorId {
        self.source.as_ref().map_or(input.holders[0], |f| f(input))
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        self.leaf.as_ref().map_or_else(|| LeafOutput::local(input), |f| f(input))
    }
    fn profile(&self, input: &ProfileInput<'_>) {
        if let Some(f) = &self.profile {
            f(input);
        }
    }
}

/// Launches points, beginning with the sixth. None of them runs elsewhere for that.
async fn points(shard: Shard, n: usize) -> Result<Vec<(usize, Option<u32>)>, Error> {
    let point = |i: Arg<usize>| (*i, here());
    shard.index_launch(n, point, |i| (i.into(),)).first(5).go()?.all().await
}

fn index_launch(runtime: &Runtime, n: usize) -> Result<Vec<(usize, Option<u32>)>, Error> {
    let program = move |top: Top| async move {
        let (gang, task) = (top.gang("one", 1)?, top.register("points", points));
        Ok(top.launch_gang(&gang, &task, |_| ShardLaunch::new(n))?.all().await?.concat())
    };
    watched("an index launch", || runtime.run(program)).map(|r| r.0)
}

/// On one worker points run in the order in which they are launched, also if all wait for the same future.
#[test]
fn an_index_launch_may_begin_with_another_point() {
    for (first, points, expected) in
        [(0, 4, &[0, 1, 2, 3][..]), (3, 4, &[3, 0, 1, 2]), (9, 4, &[1, 2, 3, 0]), (2, 0, &[])]
    {
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let ran = order.clone();
        let shard = move |shard: Shard, ()| {
            let ran = ran.clone();
            let point = move |point: Arg<usize>, _: Arg<()>| {
                ran.lock().expect("no panic").push(*point);
                *point
            };
            async move {
                let before = shard.launch(|| (), ()).go()?;
                shard.index_launch(points, point, |i| (i.into(), (&before).into())).first(first).go()?.all().await
            }
        };
        let program = move |top: Top| {
            let shard = shard.clone();
            async move {
                let (gang, task) = (top.gang("one", 1)?, top.register("points", shard));
                Ok(top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?.concat())
            }
        };
        let came = watched("points", || Runtime::threads(1).run(program)).expect("a run").0;
        assert_eq!(came, (0..points).collect::<Vec<_>>());
        assert_eq!(*order.lock().expect("no panic"), expected, "from {first}");
    }
}

/// The planted bug is what it says: the function of a task that was given away is called twice.
#[cfg(feature = "plant")]
#[test]
fn a_doubled_task_of_a_pool_runs_twice() {
    let calls = |period: Option<u64>| {
        let (points, ran) = (40, Arc::new(AtomicU64::new(0)));
        let counted = ran.clone();
        let program = move |top: Top| {
            let ran = counted.clone();
            async move {
                let shard = move |shard: Shard, ()| {
                    let ran = ran.clone();
                    let point = move |at: Arg<usize>| {
                        ran.fetch_add(1, Ordering::Relaxed);
                        at.0
                    };
                    async move { shard.index_launch(points, point, |i| (i.into(),)).go()?.all().await }
                };
                let (gang, task) = (top.gang("one", 1)?, top.register("points", shard));
                Ok(top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?.concat())
            }
        };
        let slices = |input: &SliceInput<'_>| Slicing::Explicit(vec![(0..input.points, ProcessorId::ANYWHERE)]);
        let runtime =
            Runtime::threads(2).mapper(Arc::new(Answers { slices: Some(Box::new(slices)), ..Answers::default() }));
        let runtime = match period {
            Some(period) => runtime.plant(maniple_runtime::Bug::DoubledPoolTask, 0, period),
            None => runtime,
        };
        let (came, _) = watched("points", || runtime.run(program)).expect("a run");
        assert_eq!(came, (0..points).collect::<Vec<_>>());
        ran.load(Ordering::Relaxed)
    };
    assert_eq!([None, Some(1_000_000)].map(calls), [40, 41]);
}

#[test]
fn points_of_an_index_launch_run_where_their_slices_say() {
    type Slices = fn(&SliceInput<'_>) -> Slicing;
    let reversed: Slices = |input| {
        let node = input.machine.processors_of(NodeId(0));
        Slicing::Explicit(node.rev().enumerate().map(|(i, p)| (i * 4..i * 4 + 4, p)).collect())
    };
    type Expected = fn(usize) -> u32;
    let cases: [(Slices, Expected); 3] =
        [(|_| Slicing::Here, |_| 0), (|_| Slicing::Blocked, |i| i as u32 / 4), (reversed, |i| 2 - i as u32 / 4)];
    for (slices, expected) in cases {
        let mapper = Arc::new(Answers { slices: Some(Box::new(slices)), ..Answers::default() });
        let came = index_launch(&Runtime::threads(3).mapper(mapper), 12).unwrap();
        assert_eq!(came, (0..12).map(|i| (i, Some(expected(i)))).collect::<Vec<_>>());
    }
    // Each of three points waits until three run at once, the first one on each of three workers.
    let anywhere: Slices = |input| Slicing::Explicit(vec![(0..input.points, ProcessorId::ANYWHERE)]);
    let mapper = || Arc::new(Answers { slices: Some(Box::new(anywhere)), ..Answers::default() });
    let together = |top: Top| async move {
        let meet = Arc::new(std::sync::Barrier::new(3));
        let shard = move |shard: Shard, ()| {
            let meet = meet.clone();
            let point = move |_: Arg<usize>| {
                meet.wait();
                here()
            };
            async move { shard.index_launch(3, point, |i| (i.into(),)).go()?.all().await }
        };
        let (gang, task) = (top.gang("one", 1)?, top.register("points", shard));
        Ok(top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?.concat())
    };
    let mut at = watched("points on any worker", || Runtime::threads(3).mapper(mapper()).run(together)).unwrap().0;
    at.sort_unstable();
    assert_eq!(at, [0, 1, 2].map(Some));
    for (at, runtime) in drivers() {
        let came = index_launch(&runtime.mapper(mapper()), 40).unwrap();
        assert!(came.iter().map(|(i, _)| *i).eq(0..40), "{at}");
    }
    let refused = |slices: Slices, words: &[&str]| {
        for (at, runtime) in drivers() {
            let mapper = Arc::new(Answers { slices: Some(Box::new(slices)), ..Answers::default() });
            let e = index_launch(&runtime.mapper(mapper), 12).unwrap_err().to_string();
            assert!(words.iter().all(|w| e.contains(w)), "{at}: {e}");
        }
    };
    refused(
        |_| Slicing::Explicit(vec![(0..12, ProcessorId(77))]),
        &["`answers`", "slice_index", "illegal processor of slice 0: 77"],
    );
    refused(
        |_| Slicing::Explicit(vec![(0..11, ProcessorId(0))]),
        &["slice_index", "number of points in slices: 11; legal: 12"],
    );
    refused(|_| panic!("no slices today"), &["`answers`", "slice_index", "failed: no slices today"]);
    for (at, runtime) in drivers() {
        let mapper = Arc::new(Answers { slices: Some(Box::new(|_| panic!("never asked"))), ..Answers::default() });
        assert_eq!(index_launch(&runtime.mapper(mapper), 0), Ok(vec![]), "{at}: nothing to slice");
    }
}

/// Short tasks run at home. Long ones after them are given away, once the home has found that they are long.
#[test]
fn long_tasks_after_short_ones_are_given_away() {
    let anywhere = |input: &SliceInput<'_>| Slicing::Explicit(vec![(0..input.points, ProcessorId::ANYWHERE)]);
    let mapper = Answers { slices: Some(Box::new(anywhere)), ..Answers::default() };
    let machine = VirtualMachine { per_node: 8, ..VirtualMachine::default() };
    let program = |top: Top| async move {
        let shard = |shard: Shard, ()| async move {
            let all = |points: usize, takes: Duration| {
                shard.index_launch(points, |at: Arg<usize>| at.0, |i| (i.into(),)).takes(Some(takes)).go()
            };
            all(400, Duration::from_nanos(300))?.all().await?;
            let began = now();
            all(56, Duration::from_millis(1))?.all().await?;
            Ok(now() - began)
        };
        let (gang, task) = (top.gang("one", 1)?, top.register("points", shard));
        Ok(top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?[0])
    };
    let took =
        watched("points", || Runtime::virtual_time(machine).mapper(Arc::new(mapper)).run(program)).expect("a run").0;
    // 7 ms, and 7 more while the home runs the first 8 alone.
    assert!(took <= Duration::from_millis(15), "{took:?}");
}

/// Three launches that read and write the same blocks, and a region that is shared; the sum of all.
async fn thrice(top: Top) -> Result<u64, Error> {
    fn add(mut u: ReadWrite<u64>, by: Arg<u64>) {
        u.as_mut_slice().iter_mut().zip(0u64..).for_each(|(u, i)| *u = *u * 3 + *by + i);
    }
    fn sum(u: Read<u64>) -> u64 {
        u.as_slice().iter().sum()
    }
    async fn shard(shard: Shard, (block, shared, by): (Region, Region, u64)) -> Result<u64, Error> {
        let (block, shared) = (shard.region(block)?, shard.region(shared)?);
        shard.launch(|_: ReadShared<u64>| (), (shared.read_shared(U),)).go()?.detach();
        shard.launch(add, (block.read_write(U), by.into())).go()?.detach();
        shard.launch(sum, (block.read(U),)).go()?.await
    }
    const BLOCKS: u32 = 4;
    let tree = top.region_tree("line", Rect::line(0, 50), &[U.info()])?;
    let at = |lo, hi| Region::new(tree.tree, Rect::line(lo, hi));
    let gang = top.gang("all", BLOCKS)?;
    let task = top.register("adds", shard);
    let mut total = 0;
    for by in 0..3 {
        let done = top.launch_gang(&gang, &task, |s| {
            // In the second launch blocks are with other shards, elsewhere.
            let s = i64::from((s + (by as u32 % 2)) % BLOCKS);
            let (block, shared) = (at(10 * s, 10 * s + 10), at(40, 50));
            let start = ShardLaunch::new((block, shared, by)).writes(block, [U]);
            start.require(shared, [U], maniple_regions::Privilege::Read, Coherence::Simultaneous)
        })?;
        total += done.all().await?.iter().sum::<u64>();
    }
    Ok(total)
}

/// By the same arithmetic on a vector.
fn thrice_in_sequence() -> u64 {
    let mut u = [0u64; 40];
    let mut total = 0;
    for by in 0..3 {
        u.chunks_mut(10).for_each(|block| block.iter_mut().zip(0..).for_each(|(u, i)| *u = *u * 3 + by + i));
        total += u.iter().sum::<u64>();
    }
    total
}

#[test]
fn instances_are_where_the_mapper_says_with_the_values_of_those_before() {
    for (at, runtime) in drivers() {
        let asked = Arc::new(Mutex::new((0, 0)));
        let seen: Arc<Mutex<HashMap<(bool, MemoryKind), u32>>> = Arc::default();
        let (counts, memories) = (asked.clone(), seen.clone());
        let mapper = Answers {
            // Every time a new one, of the other kind.
            instance: Some(Box::new(move |input| {
                let mut counts = counts.lock().unwrap();
                counts.0 += 1;
                counts.1 += u32::from(input.found.is_some());
                assert!(input.found.is_none() || input.coherence == Coherence::Exclusive);
                InstanceChoice::Create(match input.found {
                    Some(MemoryKind::Registered) => MemoryKind::Ordinary,
                    _ => MemoryKind::Registered,
                })
            })),
            leaf: Some(Box::new(move |input| {
                for r in input.requirements.iter() {
                    let kind = input.machine.owner(r.memory).1;
                    let shared = r.coherence == Coherence::Simultaneous;
                    *memories.lock().unwrap().entry((shared, kind)).or_default() += 1;
                }
                LeafOutput::local(input)
            })),
            ..Answers::default()
        };
        let total = watched(&at, || runtime.mapper(Arc::new(mapper)).run(thrice)).map(|r| r.0);
        assert_eq!(total, Ok(thrice_in_sequence()), "{at}");
        let (asked, found) = *asked.lock().unwrap();
        assert!(asked > found && found > 0, "{at}: {asked} times, {found} of them with one there");
        let seen = seen.lock().unwrap();
        assert!(seen[&(false, MemoryKind::Registered)] > 0, "{at}: {seen:?}");
        assert!(seen[&(false, MemoryKind::Ordinary)] > 0, "{at}: {seen:?}");
    }
    for (at, runtime) in drivers() {
        let mapper = Answers { instance: Some(Box::new(|_| InstanceChoice::Find)), ..Answers::default() };
        let e = watched(&at, || runtime.mapper(Arc::new(mapper)).run(thrice)).unwrap_err().to_string();
        assert!(e.contains("map_instance") && e.contains("illegal instance: Find; legal: Create"), "{at}: {e}");
    }
}

/// One shard writes, all then read it, and a shard on yet another processor reads what several have by then.
async fn spread(top: Top) -> Result<Vec<u64>, Error> {
    fn put(mut u: Write<u64>) {
        u.fill_with(|[i]| 7 * i as u64 + 1);
    }
    async fn writer(shard: Shard, region: Region) -> Result<u64, Error> {
        let u = shard.region(region)?;
        shard.launch(put, (u.write(U),)).go()?.await?;
        Ok(0)
    }
    async fn reader(shard: Shard, region: Region) -> Result<u64, Error> {
        let u = shard.region(region)?;
        shard.launch(|u: Read<u64>| u.as_slice().iter().sum::<u64>(), (u.read(U),)).go()?.await
    }
    let line = top.region_tree("line", Rect::line(0, 100), &[U.info()])?;
    let p = top.processors();
    let (one, most, all) = (top.gang("one", 1)?, top.gang("most", p - 1)?, top.gang("all", p)?);
    let (writes, reads) = (top.register("writes", writer), top.register("reads", reader));
    top.launch_gang(&one, &writes, |_| ShardLaunch::new(line).writes(line, [U]))?.detach();
    top.launch_gang(&most, &reads, |_| ShardLaunch::new(line).reads(line, [U]))?.detach();
    top.launch_gang(&all, &reads, |_| ShardLaunch::new(line).reads(line, [U]))?.all().await
}

#[test]
fn copies_come_from_the_holder_the_mapper_selects() {
    let expected: u64 = (0..100).map(|i| 7 * i + 1).sum();
    for (at, runtime) in (0..10).map(|seed| (format!("seed {seed}"), Runtime::seeded(4, seed))) {
        for which in 0..3usize {
            let asked = Arc::new(Mutex::new(Vec::new()));
            let list = asked.clone();
            let select = move |input: &SourceInput<'_>| {
                list.lock().unwrap().push((input.to.0, input.holders.iter().map(|p| p.0).collect::<Vec<_>>()));
                input.holders[which % input.holders.len()]
            };
            let mapper = Arc::new(Answers { source: Some(Box::new(select)), ..Answers::default() });
            let sums = watched(&at, || runtime.clone().mapper(mapper).run(spread)).map(|r| r.0);
            assert_eq!(sums, Ok(vec![expected; 4]), "{at}, holder {which}");
            // Every node makes the same plan of the last launch: processor 3 needs what the other three have.
            assert_eq!(*asked.lock().unwrap(), vec![(3, vec![0, 1, 2]); 4], "{at}");
        }
        let mapper = Arc::new(Answers { source: Some(Box::new(|_| ProcessorId(3))), ..Answers::default() });
        let e = watched(&at, || runtime.mapper(mapper).run(spread)).unwrap_err().to_string();
        assert!(e.contains("select_source") && e.contains("illegal source: 3; legal: one of [0, 1, 2]"), "{at}: {e}");
    }
}

#[test]
fn the_mapper_is_told_how_long_the_tasks_took_that_it_asked_about() {
    const NAP: Duration = Duration::from_millis(3);
    async fn shard(shard: Shard, _: ()) -> Result<Option<u32>, Error> {
        shard.launch(|| (), ()).named("quick").go()?.await?;
        let nap = || {
            std::thread::sleep(NAP);
            here()
        };
        let ran = shard.launch(nap, ()).named("nap").go()?.await;
        // What comes after it in its place, also after one that failed, is not asked about.
        shard.launch(|| (), ()).named("quick").go()?.await?;
        let failed = shard.launch(|| panic!("no sleep"), ()).named("nap").go()?.await;
        assert!(failed.is_err_and(|e: Error| e.to_string().contains("no sleep")));
        shard.launch(|| (), ()).named("quick").go()?.await?;
        ran
    }
    for (at, runtime) in drivers() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let list = told.clone();
        let mapper = Answers {
            leaf: Some(Box::new(|input| {
                let mut node = input.machine.processors_of(input.machine.node_of(input.processor));
                let naps = input.task == "nap";
                let processor = if naps { node.next_back().unwrap() } else { input.processor };
                LeafOutput { profile: naps, processor, ..LeafOutput::local(input) }
            })),
            profile: Some(Box::new(move |p| {
                list.lock().unwrap().push((p.task.to_string(), p.shard, p.processor.0, p.ran_ns));
            })),
            ..Answers::default()
        };
        let program = |top: Top| async move {
            let (gang, task) = (top.gang("all", 3)?, top.register("naps", shard));
            Ok((top.processors(), top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?))
        };
        let (processors, ran) = watched(&at, || runtime.mapper(Arc::new(mapper)).run(program)).unwrap().0;
        let mut told = told.lock().unwrap().clone();
        told.sort_unstable();
        let threads = at.contains("threads");
        for (s, (task, shard, processor, ns)) in (0u32..).zip(&told) {
            let expected = if threads { processors - 1 } else { s % processors };
            assert_eq!((task.as_str(), *shard, *processor), ("nap", s, expected), "{at}");
            if threads {
                assert_eq!(ran[s as usize], Some(*processor), "{at}");
                // The seeded driver's clock counts steps, and a task takes none.
                assert!(u128::from(*ns) >= NAP.as_nanos(), "{at}: {ns} ns");
            }
        }
        assert_eq!(told.len(), 3, "{at}: {told:?}");
    }
}

#[test]
fn shared_writes_go_where_the_copies_are_made() {
    // A copy in registered memory of a region that another processor of the node has.
    fn put(mut u: WriteShared<u64>, x: Arg<u64>) {
        u.fill(*x);
    }
    async fn shard(shard: Shard, region: Region) -> Result<u64, Error> {
        let u = shard.region(region)?;
        if shard.index() == 0 {
            shard.launch(put, (u.write_shared(U), 9.into())).go()?.await?;
        }
        shard.launch(|u: ReadShared<u64>| u.get([3]), (u.read_shared(U),)).go()?.await
    }
    let copies = |input: &LeafInput<'_>| {
        let mut out = LeafOutput::local(input);
        for (i, r) in (0..).zip(input.requirements.iter()) {
            if r.privilege == maniple_regions::Privilege::Read {
                out.copied.push(i);
            }
        }
        LeafOutput { copies_in: MemoryKind::Registered, ..out }
    };
    let mapper = Arc::new(Answers { leaf: Some(Box::new(copies)), ..Answers::default() });
    let program = |top: Top| async move {
        let line = top.region_tree("line", Rect::line(0, 8), &[U.info()])?;
        let (gang, task) = (top.gang("all", 2)?, top.register("shares", shard));
        let all = |_| {
            ShardLaunch::new(line).require(line, [U], maniple_regions::Privilege::ReadWrite, Coherence::Simultaneous)
        };
        top.launch_gang(&gang, &task, all)?.all().await?;
        top.launch_gang(&gang, &task, all)?.all().await
    };
    let (values, stats) = watched("copies", || Runtime::threads(2).mapper(mapper).run(program)).unwrap();
    assert_eq!(values, [9, 9]);
    assert!(stats.region_copies >= 2, "{stats:?}");
}

/// A leaf task may have more than eight requirements, and the mapper decides about each. The instances are all with the first
/// shard; the task of the second has copies of two of them.
#[test]
fn the_mapper_decides_about_each_of_many_requirements() {
    const PARTS: i64 = 12;
    fn put(mut u: WriteShared<u64>, x: Arg<u64>) {
        u.fill(*x);
    }
    fn get(parts: Many<ReadShared<u64>>) -> Vec<u64> {
        (0..).zip(&*parts).map(|(i, part)| part.get([2 * i + 1])).collect()
    }
    fn part(line: Region, i: i64) -> Region {
        Region::new(line.tree, Rect::line(2 * i, 2 * i + 2))
    }
    async fn shard(shard: Shard, (line, launch): (Region, u32)) -> Result<Vec<u64>, Error> {
        let parts = (0..PARTS).map(|i| shard.region(part(line, i))).collect::<Result<Vec<_>, _>>()?;
        match (launch, shard.index()) {
            (0, 0) => {
                for (i, part) in (0u64..).zip(&parts) {
                    shard.launch(put, (part.write_shared(U), (7 * i + 1).into())).go()?.detach();
                }
            }
            (1, 1) => {
                let all = parts.iter().map(|part| part.read_shared(U)).collect();
                return shard.launch(get, (all,)).named("get").go()?.await;
            }
            _ => {}
        }
        Ok(Vec::new())
    }
    // Processors of one node: processors of others have copies of all they read.
    for workers in 2..=3 {
        let (at, runtime) = (format!("{workers} threads"), Runtime::threads(workers));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let list = asked.clone();
        let copies = move |input: &LeafInput<'_>| {
            let mut out = LeafOutput::local(input);
            if input.task == "get" {
                list.lock().unwrap().push(input.requirements.len());
                out.copied = vec![11, 9];
            }
            out
        };
        let mapper = Arc::new(Answers { leaf: Some(Box::new(copies)), ..Answers::default() });
        let program = |top: Top| async move {
            let line = top.region_tree("line", Rect::line(0, 2 * PARTS), &[U.info()])?;
            let (gang, task) = (top.gang("all", 2)?, top.register("shares", shard));
            let all = |launch| {
                let (privilege, coherence) = (Privilege::ReadWrite, Coherence::Simultaneous);
                let holds = move |start: ShardLaunch<_>, i| start.require(part(line, i), [U], privilege, coherence);
                move |_| (0..PARTS).fold(ShardLaunch::new((line, launch)), holds)
            };
            top.launch_gang(&gang, &task, all(0))?.all().await?;
            Ok(top.launch_gang(&gang, &task, all(1))?.all().await?.swap_remove(1))
        };
        let (values, stats) =
            watched(&at, || runtime.mapper(mapper).run(program)).unwrap_or_else(|e| panic!("{at}: {e}"));
        assert_eq!(values, (0..PARTS as u64).map(|i| 7 * i + 1).collect::<Vec<_>>(), "{at}");
        assert_eq!(*asked.lock().unwrap(), [PARTS as usize], "{at}");
        assert_eq!((stats.region_copies, stats.region_copy_bytes), (2, 2 * 16), "{at}");
    }
}

/// Whoever is refused what it needs can try again, and then gets it.
#[test]
fn what_was_refused_is_not_taken_for_done() {
    async fn again(top: Top) -> Result<(String, Vec<u64>), Error> {
        fn put(mut u: Write<u64>) {
            u.fill_with(|[i]| 7 * i as u64 + 1);
        }
        async fn shard(shard: Shard, (region, writes): (Region, bool)) -> Result<u64, Error> {
            let u = shard.region(region)?;
            if writes {
                shard.launch(put, (u.write(U),)).go()?.detach();
            }
            shard.launch(|u: Read<u64>| u.as_slice().iter().sum::<u64>(), (u.read(U),)).go()?.await
        }
        let line = top.region_tree("line", Rect::line(0, 100), &[U.info()])?;
        let p = top.processors();
        let (one, most, all) = (top.gang("one", 1)?, top.gang("most", p - 1)?, top.gang("all", p)?);
        let task = top.register("shard", shard);
        top.launch_gang(&one, &task, |_| ShardLaunch::new((line, true)).writes(line, [U]))?.all().await?;
        let reads = |_| ShardLaunch::new((line, false)).reads(line, [U]);
        top.launch_gang(&most, &task, reads)?.all().await?;
        let refused = top.launch_gang(&all, &task, reads).expect_err("the first answer is illegal").to_string();
        Ok((refused, top.launch_gang(&all, &task, reads)?.all().await?))
    }
    let sum = (0..100).map(|i| 7 * i + 1).sum::<u64>();
    // With several nodes each would have to be refused in the same way, which a mapper of two moods can't do.
    for workers in 3..=4 {
        let asked = Arc::new(Mutex::new(0));
        let source = move |input: &SourceInput<'_>| {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            if *asked == 1 { ProcessorId(77) } else { input.holders[0] }
        };
        let mapper = Arc::new(Answers { source: Some(Box::new(source)), ..Answers::default() });
        let (refused, sums) = watched("again", || Runtime::threads(workers).mapper(mapper).run(again)).unwrap().0;
        assert!(refused.contains("illegal source: 77"), "{refused}");
        assert_eq!(sums, vec![sum; workers as usize]);
    }
}

/// Whether a launch is planned anew or comes again, the mapper is asked once about each copy, and is heard, even if it answers
/// another question in another way than last time.
#[test]
fn a_mapper_that_changes_its_mind_is_asked_once() {
    const V: Field<u64> = Field::new(1, "v");
    fn put(mut u: Write<u64>, mut v: Write<u64>) {
        u.fill_with(|[i]| i as u64);
        v.fill_with(|[i]| 3 * i as u64);
    }
    fn sum(field: Read<u64>) -> u64 {
        field.as_slice().iter().sum()
    }
    /// Shard 0 writes; then 1 reads `u` and 2 reads `v`; then 3 reads both.
    async fn part(shard: Shard, (line, step): (Region, u32)) -> Result<[u64; 2], Error> {
        let (me, mut sums) = (shard.index(), [0, 0]);
        if (step, me) == (0, 0) {
            let line = shard.region(line)?;
            shard.launch(put, (line.write(U), line.write(V))).go()?.await?;
        }
        for (at, (field, reader)) in [(U, 1), (V, 2)].into_iter().enumerate() {
            if [(1, reader), (2, 3)].contains(&(step, me)) {
                sums[at] = shard.launch(sum, (shard.region(line)?.read(field),)).go()?.await?;
            }
        }
        Ok(sums)
    }
    async fn again(top: Top) -> Result<[u64; 2], Error> {
        let line = top.region_tree("line", Rect::line(0, 100), &[U.info(), V.info()])?;
        let all = top.gang("all", 4)?;
        let task = top.register("part", part);
        let mut sums = [0, 0];
        for _ in 0..6 {
            for step in 0..3 {
                let launch = |shard: u32| {
                    let launch = ShardLaunch::new((line, step));
                    match (step, shard) {
                        (0, 0) => launch.writes(line, [U, V]),
                        (1, 1) => launch.reads(line, [U]),
                        (1, 2) => launch.reads(line, [V]),
                        (2, 3) => launch.reads(line, [U, V]),
                        _ => launch,
                    }
                };
                sums = top.launch_gang(&all, &task, launch)?.all().await?[3];
            }
        }
        Ok(sums)
    }
    let asked = Arc::new(Mutex::new(Vec::new()));
    let list = asked.clone();
    let source = move |input: &SourceInput<'_>| {
        let mut asked = list.lock().unwrap();
        asked.push((input.field, input.to.0, input.holders.iter().map(|holder| holder.0).collect::<Vec<_>>()));
        // Processor 1 has `u`. Processors 0 and 2 have `v`, and are taken in turn.
        let turn = if input.field == V.id() { asked.len() / 2 % 2 } else { 1 };
        input.holders[turn]
    };
    let mapper = Arc::new(Answers { source: Some(Box::new(source)), ..Answers::default() });
    let (sums, _) = watched("again", || Runtime::threads(4).mapper(mapper).run(again)).unwrap();
    assert_eq!(sums, [4950, 3 * 4950]);
    let each = vec![(U.id(), 3, vec![0, 1]), (V.id(), 3, vec![0, 2])];
    assert_eq!(*asked.lock().unwrap(), vec![each; 6].concat());
}

/// The home of a shared region refuses to make an instance: whoever asked for it is told, and need not wait for the end.
#[test]
fn whoever_asks_for_an_instance_that_is_refused_is_told() {
    async fn shard(shard: Shard, region: Region) -> Result<String, Error> {
        if shard.index() == 0 {
            return Ok(String::new());
        }
        let u = shard.region(region)?;
        let mut value = shard.launch(|u: ReadShared<u64>| u.get([0]), (u.read_shared(U),)).go()?;
        loop {
            match shard.timeout(Duration::from_millis(1), &mut value).await {
                Err(Error::TimedOut { .. }) => {}
                Err(told) => return Ok(told.to_string()),
                Ok(value) => panic!("{value} of an instance that is not there"),
            }
        }
    }
    for (at, runtime) in drivers() {
        let find = |input: &InstanceInput<'_>| match input.coherence {
            Coherence::Simultaneous => InstanceChoice::Find,
            _ => InstanceChoice::Create(MemoryKind::Ordinary),
        };
        let mapper = Arc::new(Answers { instance: Some(Box::new(find)), ..Answers::default() });
        let program = |top: Top| async move {
            let line = top.region_tree("line", Rect::line(0, 8), &[U.info()])?;
            let (gang, task) = (top.gang("all", 2)?, top.register("patient", shard));
            let start = |s| {
                let start = ShardLaunch::new(line);
                // The first reader's processor is the home.
                let privilege = maniple_regions::Privilege::Read;
                if s < 2 { start.require(line, [U], privilege, Coherence::Simultaneous) } else { start }
            };
            top.launch_gang(&gang, &task, start)?.all().await
        };
        let told = watched(&at, || runtime.mapper(mapper).run(program)).unwrap_or_else(|e| panic!("{at}: {e}")).0;
        assert!(told[1].contains("illegal instance: Find; legal: Create"), "{at}: {told:?}");
    }
}

/// Gives each launch's shared region the home that is its turn.
struct Moves {
    homes: [u32; 6],
    asked: Mutex<usize>,
    made: Mutex<Vec<u32>>,
}

impl Mapper for Moves {
    fn name(&self) -> &str {
        "moves"
    }
    fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
        Placement::Cyclic
    }
    fn place_shared(&self, _: &PlaceSharedInput<'_>) -> ProcessorId {
        let mut asked = self.asked.lock().unwrap();
        *asked += 1;
        ProcessorId(self.homes[*asked - 1])
    }
    fn map_instance(&self, input: &InstanceInput<'_>) -> InstanceChoice {
        if input.coherence == Coherence::Simultaneous && input.found.is_none() {
            self.made.lock().unwrap().push(input.processor.0);
        }
        input.found.map_or(InstanceChoice::Create(MemoryKind::Ordinary), |_| InstanceChoice::Find)
    }
}

fn count(mut u: ReadWriteShared<u64>) -> u64 {
    let next = u.get([0]) + 1;
    u.set([0], next);
    next
}

async fn first_counts(shard: Shard, u: Region) -> Result<u64, Error> {
    let u = shard.region(u)?;
    if shard.index() > 0 {
        return Ok(0);
    }
    shard.launch(count, (u.read_write_shared(U),)).go()?.await
}

/// The plan of a launch that comes again is remembered, but what the mapper says is not.
#[test]
fn a_launch_that_comes_again_goes_where_the_mapper_says_then() {
    let homes = [0, 0, 0, 1, 1, 0];
    for workers in [2, 3] {
        let mapper = Arc::new(Moves { homes, asked: Mutex::default(), made: Mutex::default() });
        let runtime = Runtime::threads(workers).mapper(mapper.clone());
        let counts = common::run("moves", &runtime, move |top: Top| async move {
            let u = top.region_tree("u", Rect::line(0, 1), &[U.info()])?;
            let (gang, task) = (top.gang("both", 2)?, top.register("counts", first_counts));
            let mut counts = Vec::new();
            for _ in homes {
                let start = |_| ShardLaunch::new(u).shares(u, [U], Privilege::ReadWrite);
                counts.push(top.launch_gang(&gang, &task, start)?.all().await?[0]);
            }
            Ok(counts)
        });
        assert_eq!(counts.unwrap(), [1, 2, 3, 4, 5, 6], "{workers} workers");
        assert_eq!(*mapper.asked.lock().unwrap(), homes.len(), "{workers} workers");
        let mut made = mapper.made.lock().unwrap().clone();
        made.dedup();
        assert_eq!(made, [0, 1], "{workers} workers");
    }
}

/// An index launch asks the mapper about all its tasks before it takes a generation. So after a refusal no point runs,
/// and the same launch can be made again.
#[test]
fn a_refused_index_launch_takes_no_generation_and_can_be_made_again() {
    type Ends = (Edges, Edges);
    async fn shard(shard: Shard, (go, over): Ends) -> Result<(String, Vec<u64>, u64), Error> {
        let ran = Arc::new(AtomicU64::new(0));
        let (start, begin) = (go.producer(&shard, 0)?, go.consumer(&shard, 0)?);
        let (end, ended) = (over.producer(&shard, 0)?, over.consumer(&shard, 0)?);
        let point = {
            let ran = ran.clone();
            move |i: Arg<u64>, earlier: Arg<u64>| {
                ran.fetch_add(1, Ordering::Relaxed);
                *i + *earlier
            }
        };
        shard.arrive(start.ready());
        let earlier = shard.launch(|| 5, ()).go()?;
        let launch = || {
            let points = shard.index_launch(4, point.clone(), |i| ((i as u64).into(), (&earlier).into()));
            points.named("point").wait(begin.ready()).arrive(end.ready()).go()
        };
        let refused = launch().expect_err("an illegal decision").to_string();
        shard.launch(|_: Arg<u64>| (), ((&earlier).into(),)).go()?.await?;
        assert_eq!(ran.load(Ordering::Relaxed), 0, "a point of a refused launch ran");
        let points = launch()?;
        // The arrival is the first that anybody has launched.
        shard.wait(ended.ready()).await?;
        Ok((refused, points.all().await?, ran.load(Ordering::Relaxed)))
    }
    for (at, runtime) in drivers() {
        // A point, or the task that follows the points.
        for (task, nth) in [("point", 0), ("point", 2), ("end of points", 0)] {
            let asked = AtomicU64::new(0);
            let leaf = move |input: &LeafInput<'_>| {
                let local = LeafOutput::local(input);
                let refuse = input.task == task && asked.fetch_add(1, Ordering::Relaxed) == nth;
                LeafOutput { processor: if refuse { ProcessorId(99) } else { local.processor }, ..local }
            };
            let mapper = Arc::new(Answers { leaf: Some(Box::new(leaf)), ..Answers::default() });
            let at = format!("{task} {nth} refused, {at}");
            let came = run(&at, &runtime.clone().mapper(mapper), |top| async move {
                let gang = top.gang("one", 1)?;
                let edges = (top.edges("go", &gang, [(0, 0)], 1)?, top.edges("over", &gang, [(0, 0)], 1)?);
                top.launch_gang(&gang, &top.register("again", shard), |_| ShardLaunch::new(edges))?.all().await
            });
            let (refused, values, ran) = came.expect(&at).remove(0);
            assert!(refused.contains("illegal processor: 99") && refused.contains(task), "{at}: {refused}");
            assert_eq!((values, ran), (vec![5, 6, 7, 8], 4), "{at}");
        }
    }
}

/// The priority of an index launch holds until its arrival, which does not queue behind other tasks.
#[test]
fn an_index_launch_arrives_with_its_own_priority() {
    async fn shard(shard: Shard, over: Edges) -> Result<(u64, u64), Error> {
        let (end, ended) = (over.producer(&shard, 0)?, over.consumer(&shard, 0)?);
        let ran = Arc::new(AtomicU64::new(0));
        let count = move || ran.fetch_add(1, Ordering::Relaxed);
        let points = shard.index_launch(3, |_: Arg<usize>| (), |i| (i.into(),));
        points.priority(Priority::RAISED).arrive(end.ready()).go()?.detach();
        let after = shard.launch(count.clone(), ()).priority(Priority::RAISED).wait(ended.ready()).go()?;
        let mut others = (0..20).map(|_| shard.launch(count.clone(), ()).go()).collect::<Result<Vec<_>, _>>()?;
        let first = others.remove(0).await?;
        for other in others {
            other.await?;
        }
        Ok((after.await?, first))
    }
    let came = run("priorities", &Runtime::threads(1), |top| async move {
        let gang = top.gang("one", 1)?;
        let over = top.edges("over", &gang, [(0, 0)], 1)?;
        top.launch_gang(&gang, &top.register("priorities", shard), |_| ShardLaunch::new(over))?.all().await
    });
    assert_eq!(came, Ok(vec![(0, 1)]), "the task after the index launch, and the first of the others");
}
