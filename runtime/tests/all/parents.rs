//! Parents: what they hold, write and pass on to gangs, one after the other.

use crate::common::{mix, runtimes, virtual_nodes, watched};
use maniple_mapper::{Mapper, PlaceShardsInput, PlaceSharedInput, Placement, ProcessorId};
use maniple_regions::{Field, Privilege, Read, ReadShared, ReadWrite, Rect, Region, Write, WriteShared};
use maniple_runtime::{
    Arg, Error, FutureMap, Gang, InnerTask, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch, ShardTask,
    TaskFuture,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const A: Field<i64> = Field::new(0, "a");

pub(crate) fn part(region: Region, lo: i64, hi: i64) -> Region {
    Region::new(region.tree, Rect::line(lo, hi))
}

/// Shared regions are at home on the last processor, or wherever a hash of who names them says.
struct Homes {
    last: bool,
}

impl Mapper for Homes {
    fn name(&self) -> &str {
        "homes"
    }
    fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
        Placement::Cyclic
    }
    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> ProcessorId {
        let n = input.machine.processors();
        ProcessorId(if self.last { n - 1 } else { (mix(input.namers.len() as u64) % u64::from(n)) as u32 })
    }
}

fn with_homes(seeds: u64) -> Vec<(String, Runtime)> {
    let mut all = runtimes(seeds / 2);
    for seed in 0..seeds {
        let mapper = Arc::new(Homes { last: seed % 2 == 0 });
        let processors = 1 + (seed / 2 % 4) as u32;
        let name = format!("homes, last {}, seed {seed}, {processors}", mapper.last);
        all.push((format!("{name} processors"), Runtime::seeded(processors, seed).mapper(mapper.clone())));
        let (machine, runtime) = virtual_nodes(processors, seed);
        all.push((format!("{name}, {machine}"), runtime.mapper(mapper.clone())));
        all.push((format!("{name} threads"), Runtime::threads(processors.min(3)).mapper(mapper)));
    }
    all
}

pub(crate) fn put(mut a: Write<i64>, v: Arg<i64>) {
    a.fill(*v);
}

pub(crate) fn put_shared(mut a: WriteShared<i64>, v: Arg<i64>) {
    a.fill(*v);
}

pub(crate) fn first(a: Read<i64>) -> i64 {
    a.as_slice()[0]
}

pub(crate) fn first_shared(a: ReadShared<i64>) -> i64 {
    a.get([a.rect().lo(0)])
}

fn dump(a: Read<i64>) -> Vec<i64> {
    a.as_slice().to_vec()
}

pub(crate) fn bump(mut a: ReadWrite<i64>) -> i64 {
    a.as_mut_slice().iter_mut().for_each(|v| *v += 1);
    a.as_slice()[0]
}

async fn read_shared(shard: Shard, at: Region) -> Result<i64, Error> {
    shard.launch(first_shared, (shard.region(at)?.read_shared(A),)).go()?.await
}

async fn write_shared(shard: Shard, at: Region) -> Result<i64, Error> {
    if shard.index() == 0 {
        shard.launch(put_shared, (shard.region(at)?.write_shared(A), 20.into())).go()?.await?;
    }
    Ok(0)
}

async fn add_one(shard: Shard, at: Region) -> Result<i64, Error> {
    shard.launch(bump, (shard.region(at)?.read_write(A),)).go()?.await
}

pub(crate) async fn look(shard: Shard, at: Region) -> Result<i64, Error> {
    shard.launch(first, (shard.region(at)?.read(A),)).go()?.await
}

/// The results of gangs, and then of leaf tasks.
async fn results(gangs: Vec<FutureMap<i64>>, tasks: Vec<TaskFuture<i64>>) -> Result<Vec<i64>, Error> {
    let mut all = Vec::new();
    for gang in gangs {
        all.extend(gang.all().await?);
    }
    for one in tasks {
        all.push(one.await?);
    }
    Ok(all)
}

type Gangs = (Gang, ShardTask<Region, i64>, ShardTask<Region, i64>, Region);

#[test]
fn a_parent_passes_a_region_it_shares_on_from_its_home() {
    async fn parent(parent: InnerTask, (gang, read, write, cell): Gangs) -> Result<Vec<i64>, Error> {
        let mine = parent.region(cell)?;
        parent.launch(put_shared, (mine.write_shared(A), 9.into())).go()?.await?;
        let seen =
            parent.launch_gang(&gang, &read, |_| ShardLaunch::new(cell).shares(cell, [A], Privilege::Read)).await?;
        let mut seen = seen.all().await?;
        let held = |_| ShardLaunch::new(cell).shares(cell, [A], Privilege::ReadWrite);
        parent.launch_gang(&gang, &write, held).await?.all().await?;
        seen.push(parent.launch(first_shared, (mine.read_shared(A),)).go()?.await?);
        parent.launch(put_shared, (mine.write_shared(A), 31.into())).go()?.await?;
        seen.extend(parent.launch_gang(&gang, &read, held).await?.all().await?);
        Ok(seen)
    }
    for (name, runtime) in with_homes(60) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cell = top.region_tree("cell", Rect::line(0, 1), &[A.info()])?;
                let two = top.gang("two", 2)?;
                let args = (two, top.register("read", read_shared), top.register("write", write_shared), cell);
                let start = || ShardLaunch::new(args).shares(cell, [A], Privilege::ReadWrite);
                let mut seen = top.run_inner(&top.register_inner("parent", parent), start).await?;
                // And what the parent leaves is found by those that come after it.
                let one = top.gang("one", 1)?;
                seen.extend(
                    top.launch_gang(&one, &top.register("look", look), |_| ShardLaunch::new(cell).reads(cell, [A]))?
                        .all()
                        .await?,
                );
                Ok(seen)
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![9, 9, 20, 31, 31, 31]), "{name}");
    }
}

/// The parent runs before the data, or even its own launch, has reached the region's home.
#[test]
fn a_gang_finds_what_its_parents_launch_brings_to_a_shared_region() {
    async fn parent(parent: InnerTask, (gang, read, _, cell): Gangs) -> Result<Vec<i64>, Error> {
        let held = |_| ShardLaunch::new(cell).shares(cell, [A], Privilege::Read);
        parent.launch_gang(&gang, &read, held).await?.all().await
    }
    async fn write(shard: Shard, cell: Region) -> Result<(), Error> {
        shard.launch(put, (shard.region(cell)?.write(A), 5.into())).go()?.await
    }
    for (name, runtime) in with_homes(200) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cell = top.region_tree("cell", Rect::line(0, 1), &[A.info()])?;
                let (one, two, read) = (top.gang("one", 1)?, top.gang("two", 2)?, top.register("read", read_shared));
                let held = |_| ShardLaunch::new(cell).writes(cell, [A]);
                top.launch_gang(&one, &top.register("write", write), held)?.all().await?;
                let start = || ShardLaunch::new((two, read, read, cell)).shares(cell, [A], Privilege::Read);
                top.run_inner(&top.register_inner("parent", parent), start).await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![5, 5]), "{name}");
    }
}

#[test]
fn a_parent_passes_an_exclusive_region_on_to_shards_that_share_it() {
    async fn parent(parent: InnerTask, (gang, read, write, cell): Gangs) -> Result<Vec<i64>, Error> {
        let mine = parent.region(cell)?;
        parent.launch(put, (mine.write(A), 9.into())).go()?.await?;
        let held = |_| ShardLaunch::new(cell).shares(cell, [A], Privilege::ReadWrite);
        let mut seen = parent.launch_gang(&gang, &read, held).await?.all().await?;
        let _ = parent.launch_gang(&gang, &write, held).await?;
        seen.push(parent.launch(bump, (mine.read_write(A),)).go()?.await?);
        seen.extend(parent.launch_gang(&gang, &read, held).await?.all().await?);
        Ok(seen)
    }
    for (name, runtime) in with_homes(20) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cell = top.region_tree("cell", Rect::line(0, 1), &[A.info()])?;
                let two = top.gang("two", 2)?;
                let args = (two, top.register("read", read_shared), top.register("write", write_shared), cell);
                top.run_inner(&top.register_inner("parent", parent), || ShardLaunch::new(args).writes(cell, [A])).await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![9, 9, 21, 21, 21]), "{name}");
    }
}

#[test]
fn a_parent_task_may_run_as_a_gang() {
    async fn parent(
        parent: InnerTask,
        (gang, task, line): (Gang, ShardTask<Region, i64>, Region),
    ) -> Result<i64, Error> {
        let block = part(line, 4 * i64::from(parent.index()), 4 * i64::from(parent.index()) + 4);
        let mine = parent.region(block)?;
        parent.launch(put, (mine.write(A), (10 * i64::from(parent.index())).into())).go()?.await?;
        let mut seen = 0;
        for _ in 0..3 {
            let held = |s| {
                let half = part(line, block.rect.lo(0) + 2 * i64::from(s), block.rect.lo(0) + 2 * i64::from(s) + 2);
                ShardLaunch::new(half).writes(half, [A])
            };
            seen = parent.launch_gang(&gang, &task, held).await?.all().await?[1];
        }
        Ok(seen)
    }
    async fn all(shard: Shard, line: Region) -> Result<Vec<i64>, Error> {
        shard.launch(dump, (shard.region(line)?.read(A),)).go()?.await
    }
    for (name, runtime) in with_homes(20) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let line = top.region_tree("line", Rect::line(0, 12), &[A.info()])?;
                let (three, two, one) = (top.gang("three", 3)?, top.gang("two", 2)?, top.gang("one", 1)?);
                let args = (two, top.register("add one", add_one), line);
                let parents = top.launch_gang(&three, &top.register_inner("parent", parent), |s| {
                    let at = 4 * i64::from(s);
                    ShardLaunch::new(args).writes(part(line, at, at + 4), [A])
                })?;
                let parents = parents.all().await?;
                let end =
                    top.launch_gang(&one, &top.register("all", all), |_| ShardLaunch::new(line).reads(line, [A]))?;
                Ok((parents, end.all().await?.swap_remove(0)))
            })
        });
        let expected = (vec![3, 13, 23], vec![3, 3, 3, 3, 13, 13, 13, 13, 23, 23, 23, 23]);
        assert_eq!(outcome.map(|r| r.0), Ok(expected), "{name}");
    }
}

/// A task whose writing takes long, and nobody waits for it.
fn put_slowly(mut a: Write<i64>, v: Arg<i64>) {
    std::thread::sleep(std::time::Duration::from_millis(2));
    a.fill(*v);
}

#[test]
fn gangs_and_the_parents_own_tasks_come_in_the_order_of_the_program() {
    async fn parent(parent: InnerTask, (gang, task, _, cells): Gangs) -> Result<Vec<i64>, Error> {
        let mine = parent.region(cells)?;
        let half = |s: u32| part(cells, 2 * i64::from(s), 2 * i64::from(s) + 2);
        let (mut seen, mut gangs) = (Vec::new(), Vec::new());
        for k in [10, 20, 30] {
            parent.launch(put_slowly, (mine.write(A), k.into())).go()?.detach();
            let held = |s| ShardLaunch::new(half(s)).writes(half(s), [A]);
            gangs.push(parent.launch_gang(&gang, &task, held).await?);
            // The halves are written elsewhere. Then all is used here, and then a part.
            seen.push(parent.launch(bump, (mine.read_write(A),)).go()?);
            let half = parent.region(half(1))?;
            seen.push(parent.launch(bump, (half.read_write(A),)).go()?);
        }
        results(gangs, seen).await
    }
    for (name, runtime) in with_homes(16) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cells = top.region_tree("cells", Rect::line(0, 4), &[A.info()])?;
                let two = top.gang("two", 2)?;
                let task = top.register("add one", add_one);
                let start = || ShardLaunch::new((two, task, task, cells)).writes(cells, [A]);
                top.run_inner(&top.register_inner("parent", parent), start).await
            })
        });
        let expected = vec![11, 11, 21, 21, 31, 31, 12, 13, 22, 23, 32, 33];
        assert_eq!(outcome.map(|r| r.0), Ok(expected), "{name}");
    }
}

#[test]
fn what_a_failed_task_of_the_parent_should_have_written_fails_a_gang() {
    fn bomb(_: Write<i64>) {
        panic!("bomb")
    }
    async fn parent(parent: InnerTask, (gang, task, _, cells): Gangs) -> Result<i64, Error> {
        parent.launch(bomb, (parent.region(cells)?.write(A),)).go()?.detach();
        let held = |_| ShardLaunch::new(cells).writes(cells, [A]);
        let e = parent.launch_gang(&gang, &task, held).await?.all().await.expect_err("its data is not there");
        assert!(matches!(e.origin(), Error::Panicked { message, .. } if message == "bomb"), "{e:?}");
        // What nobody looks at may be written over.
        parent.launch(put, (parent.region(cells)?.write(A), 4.into())).go()?.await?;
        assert_eq!(parent.launch_gang(&gang, &task, held).await?.all().await?, [5]);
        Ok(1)
    }
    let outcome = watched("bomb", || {
        Runtime::threads(2).run(|top| async move {
            let cells = top.region_tree("cells", Rect::line(0, 4), &[A.info()])?;
            let one = top.gang("one", 1)?;
            let task = top.register("add one", add_one);
            let start = || ShardLaunch::new((one, task, task, cells)).writes(cells, [A]);
            top.run_inner(&top.register_inner("parent", parent), start).await
        })
    });
    assert_eq!(outcome.map(|r| r.0), Ok(1), "the parent has learned of the failure from its gang");
}

#[test]
fn a_parents_tasks_find_what_its_gangs_left() {
    async fn parent(parent: InnerTask, (gang, task, look, cells): Gangs) -> Result<Vec<i64>, Error> {
        let (all, left, right) = (parent.region(cells)?, part(cells, 0, 2), part(cells, 2, 4));
        let (l, r) = (parent.region(left)?, parent.region(right)?);
        let writes = |region| move |_| ShardLaunch::new(region).writes(region, [A]);
        let reads = |region| move |_| ShardLaunch::new(region).reads(region, [A]);
        parent.launch(put, (all.write(A), 1.into())).go()?.detach();
        let mut gangs = vec![parent.launch_gang(&gang, &task, writes(left)).await?];
        let mut seen = vec![parent.launch(bump, (r.read_write(A),)).go()?];
        let values = parent.launch(dump, (all.read(A),)).go()?;
        seen.push(parent.launch(bump, (all.read_write(A),)).go()?);
        gangs.push(parent.launch_gang(&gang, &look, reads(right)).await?);
        seen.push(parent.launch(first, (all.read(A),)).go()?);
        seen.push(parent.launch(bump, (l.read_write(A),)).go()?);
        // It does not disturb the gang that reads.
        parent.launch(put, (all.write(A), 7.into())).go()?.detach();
        gangs.push(parent.launch_gang(&gang, &look, reads(right)).await?);
        assert_eq!(values.await?, [2, 2, 2, 2]);
        results(gangs, seen).await
    }
    for (name, runtime) in with_homes(10) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cells = top.region_tree("cells", Rect::line(0, 4), &[A.info()])?;
                let one = top.gang("one", 1)?;
                let args = (one, top.register("add one", add_one), top.register("look", look), cells);
                top.run_inner(&top.register_inner("parent", parent), || ShardLaunch::new(args).writes(cells, [A])).await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![2, 3, 7, 2, 3, 3, 4]), "{name}");
    }
}

/// Threads, and the first seeds.
fn two_processors(seeds: u64) -> Vec<(String, Runtime)> {
    let seeded = (0..seeds).map(|seed| (format!("seed {seed}"), Runtime::seeded(2, seed)));
    (0..4).map(|k| (format!("threads {k}"), Runtime::threads(2))).chain(seeded).collect()
}

/// Shards that end only when all of their gang have started.
async fn meet(shard: Shard, barrier: PhaseBarrier) -> Result<i64, Error> {
    let (arriver, waiter) = (barrier.arriver(&shard)?, barrier.waiter(&shard)?);
    shard.arrive(&arriver);
    shard.wait(&waiter).await?;
    Ok(1)
}

#[test]
fn parents_with_interleaved_blocks_do_not_wait_for_each_other() {
    let block = |cells, k: u32| part(cells, i64::from(k), i64::from(k) + 1);
    for (name, runtime) in two_processors(20) {
        let outcome = watched(&name, || {
            runtime.run(move |top| async move {
                let cells = top.region_tree("cells", Rect::line(0, 8), &[A.info()])?;
                let (parents, gangs) = (top.gang("parents", 2)?, [top.gang("even", 4)?, top.gang("odd", 4)?]);
                let met = [
                    top.phase_barrier("even", &gangs[0], PhaseOptions::all(&gangs[0]))?,
                    top.phase_barrier("odd", &gangs[1], PhaseOptions::all(&gangs[1]))?,
                ];
                let meet = top.register("meet", meet);
                let parent = top.register_inner("parent", move |p: InnerTask, _: ()| async move {
                    let (me, i) = (p.index(), p.index() as usize);
                    let held = |s| ShardLaunch::new(met[i]).writes(block(cells, 2 * s + me), [A]);
                    p.launch_gang(&gangs[i], &meet, held).await?.all().await
                });
                let held = |s| (0..4).fold(ShardLaunch::new(()), |start, k| start.writes(block(cells, 2 * k + s), [A]));
                top.launch_gang(&parents, &parent, held)?.all().await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![vec![1; 4]; 2]), "{name}");
    }
}

#[test]
fn parents_that_only_read_do_not_wait_for_each_other() {
    async fn read(shard: Shard, (cells, barrier): (Region, PhaseBarrier)) -> Result<i64, Error> {
        let before = shard.launch(dump, (shard.region(cells)?.read(A),)).go()?;
        meet(shard.clone(), barrier).await?;
        let after = shard.launch(dump, (shard.region(cells)?.read(A),)).go()?.await?;
        assert_eq!(before.await?, after);
        Ok(after.iter().sum())
    }
    for (name, runtime) in two_processors(60) {
        let outcome = watched(&name, || {
            runtime.run(move |top| async move {
                let cells = top.region_tree("cells", Rect::line(0, 8), &[A.info()])?;
                let (parents, gangs) = (top.gang("parents", 2)?, [top.gang("a", 2)?, top.gang("b", 2)?]);
                let met = [
                    top.phase_barrier("a", &gangs[0], PhaseOptions::all(&gangs[0]))?,
                    top.phase_barrier("b", &gangs[1], PhaseOptions::all(&gangs[1]))?,
                ];
                let (write, read) = (top.register("add one", add_one), top.register("read", read));
                let all = |_| ShardLaunch::new(cells).writes(cells, [A]);
                top.launch_gang(&top.gang("one", 1)?, &write, all)?.all().await?;
                let parent = top.register_inner("parent", move |p: InnerTask, _: ()| async move {
                    let i = p.index() as usize;
                    // All of it, and then a part, which comes from what the first gang got.
                    let whole = |_| ShardLaunch::new((cells, met[i])).reads(cells, [A]);
                    let half = part(cells, 0, 4);
                    let part = |_| ShardLaunch::new((half, met[i])).reads(half, [A]);
                    let first = p.launch_gang(&gangs[i], &read, whole).await?.all().await?;
                    let then = p.launch_gang(&gangs[i], &read, part).await?.all().await?;
                    Ok([first, then].concat())
                });
                top.launch_gang(&parents, &parent, |_| ShardLaunch::new(()).reads(cells, [A]))?.all().await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![vec![8, 8, 4, 4]; 2]), "{name}");
    }
}

#[test]
fn a_parent_launched_by_a_parent_launches_gangs() {
    for (name, runtime) in with_homes(20) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cells = top.region_tree("cells", Rect::line(0, 8), &[A.info()])?;
                let (two, task) = (top.gang("two", 2)?, top.register("add one", add_one));
                // The inner parent is on a processor with none of the outer one, where there are two.
                let inner = top.register_inner("inner", move |p: InnerTask, at: Region| async move {
                    let half = |s| part(at, at.rect.lo(0) + 2 * i64::from(s), at.rect.lo(0) + 2 * i64::from(s) + 2);
                    let held = |s| ShardLaunch::new(half(s)).writes(half(s), [A]);
                    let _ = p.launch_gang(&two, &task, held).await?;
                    Ok(p.launch_gang(&two, &task, held).await?.all().await?[1])
                });
                let outer = top.register_inner("outer", move |p: InnerTask, _: ()| async move {
                    let half = |s| part(cells, 4 * i64::from(s), 4 * i64::from(s) + 4);
                    let held = |s| {
                        if s == 1 {
                            ShardLaunch::new(half(1)).writes(half(1), [A])
                        } else {
                            ShardLaunch::new(half(0)).writes(half(0), [A])
                        }
                    };
                    let seen = p.launch_gang(&two, &inner, held).await?.all().await?;
                    let mine = p.region(cells)?;
                    Ok((seen, p.launch(dump, (mine.read(A),)).go()?.await?))
                });
                top.run_inner(&outer, || ShardLaunch::new(()).writes(cells, [A])).await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok((vec![2, 2], vec![2; 8])), "{name}");
    }
}

#[test]
fn each_task_of_a_parent_sees_the_gangs_before_it() {
    async fn write(shard: Shard, (cells, v): (Region, i64)) -> Result<(), Error> {
        if shard.index() == 1 {
            shard.launch(put, (shard.region(cells)?.write(A), v.into())).go()?.await?;
        }
        Ok(())
    }
    for (name, runtime) in two_processors(8) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cells = top.region_tree("cells", Rect::line(0, 8), &[A.info()])?;
                let (gang, write) = (top.gang("two", 2)?, top.register("write", write));
                let parent = top.register_inner("parent", move |p: InnerTask, _: ()| async move {
                    let held = |v: i64| {
                        move |s| {
                            let start = ShardLaunch::new((cells, v));
                            if s == 1 { start.writes(cells, [A]) } else { start }
                        }
                    };
                    let mut seen = Vec::new();
                    for v in 0..20 {
                        let _ = p.launch_gang(&gang, &write, held(v)).await?;
                        let mine = p.region(part(cells, v % 5, 3 + v % 5))?;
                        seen.push(p.launch(first, (mine.read(A),)).go()?);
                    }
                    let mut all = Vec::new();
                    for one in seen {
                        all.push(one.await?);
                    }
                    Ok(all)
                });
                top.run_inner(&parent, || ShardLaunch::new(()).writes(cells, [A])).await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok((0..20).collect::<Vec<i64>>()), "{name}");
    }
}

#[test]
fn a_parent_that_panics_is_over_after_its_gangs() {
    for at_once in [false, true] {
        for (name, runtime) in two_processors(8) {
            let running = Arc::new(AtomicU32::new(0));
            let seen = running.clone();
            let outcome = watched(&name, || {
                runtime.run(move |top| {
                    let (seen, running) = (seen.clone(), seen.clone());
                    async move {
                        let gang = top.gang("four", 4)?;
                        let slow = top.register("slow", move |shard: Shard, _: ()| {
                            let running = running.clone();
                            running.fetch_add(1, Ordering::SeqCst);
                            async move {
                                for _ in 0..2000 {
                                    shard.yield_now().await;
                                }
                                running.fetch_sub(1, Ordering::SeqCst);
                                Ok(())
                            }
                        });
                        let parent = top.register_inner("parent", move |p: InnerTask, _: ()| async move {
                            let _ = p.launch_gang(&gang, &slow, |_| ShardLaunch::new(())).await?;
                            for _ in 0..if at_once { 0 } else { 300 } {
                                p.yield_now().await;
                            }
                            if p.index() == 0 {
                                panic!("asked to");
                            }
                            Ok(())
                        });
                        let e = top.run_inner(&parent, || ShardLaunch::new(())).await.expect_err("the parent panicked");
                        Ok((e, seen.load(Ordering::SeqCst)))
                    }
                })
            });
            let (e, still) = outcome.expect("the top-level task dealt with it").0;
            let Error::Panicked { place, message } = e.origin() else { panic!("{e:?}") };
            assert_eq!((place.task.as_str(), place.shard, message.as_str()), ("parent", Some(0), "asked to"), "{name}");
            assert_eq!(still, 0, "{name}: no shard runs any more");
        }
    }
}

#[test]
fn a_parent_that_only_read_leaves_no_stale_copy_behind() {
    async fn write(shard: Shard, (cells, v): (Region, i64)) -> Result<(), Error> {
        shard.launch(put, (shard.region(cells)?.write(A), v.into())).go()?.await
    }
    for (name, runtime) in two_processors(8) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cells = top.region_tree("cells", Rect::line(0, 8), &[A.info()])?;
                let (one, two) = (top.gang("one", 1)?, top.gang("two", 2)?);
                // What is not of this type has another task of its own.
                let write = top.register("write", move |shard: Shard, v: i64| async move {
                    if shard.index() == 1 { write(shard, (cells, v)).await } else { Ok(()) }
                });
                let held = |v| {
                    move |s| {
                        if s == 1 { ShardLaunch::new(v).writes(cells, [A]) } else { ShardLaunch::new(v) }
                    }
                };
                top.launch_gang(&two, &write, held(1))?.all().await?;
                let parent = top.register_inner("parent", |p: InnerTask, _: ()| async move {
                    for _ in 0..3000 {
                        p.yield_now().await;
                    }
                    Ok(())
                });
                let parent = top.launch_gang(&one, &parent, |_| ShardLaunch::new(()).reads(cells, [A]))?;
                top.launch_gang(&two, &write, held(2))?.all().await?;
                parent.all().await?;
                top.launch_gang(&one, &top.register("look", look), |_| ShardLaunch::new(cells).reads(cells, [A]))?
                    .all()
                    .await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![2]), "{name}");
    }
}
