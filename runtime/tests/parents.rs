//! Parents: what they hold, write and pass on to gangs, one after the other.

mod common;

use common::{mix, runtimes, watched};
use maniple_mapper::{Mapper, PlaceShardsInput, PlaceSharedInput, Placement};
use maniple_regions::{Field, Privilege, Read, ReadShared, ReadWrite, Rect, Region, Write, WriteShared};
use maniple_runtime::{Error, Gang, Parent, Runtime, Shard, ShardTask, Start, Val};
use std::sync::Arc;

const A: Field<i64> = Field::new(0, "a");

fn part(region: Region, lo: i64, hi: i64) -> Region {
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
    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> u32 {
        let n = input.machine.processors();
        if self.last { n - 1 } else { (mix(input.namers.len() as u64) % u64::from(n)) as u32 }
    }
}

fn with_homes(seeds: u64) -> Vec<(String, Runtime)> {
    let mut all = runtimes(seeds / 2);
    for seed in 0..seeds {
        let mapper = Arc::new(Homes { last: seed % 2 == 0 });
        let processors = 1 + (seed / 2 % 4) as u32;
        let name = format!("homes, last {}, seed {seed}, {processors}", mapper.last);
        all.push((format!("{name} processors"), Runtime::seeded(processors, seed).mapper(mapper.clone())));
        all.push((format!("{name} threads"), Runtime::threads(processors.min(3)).mapper(mapper)));
    }
    all
}

fn put(mut a: Write<i64>, v: Val<i64>) {
    a.fill(*v);
}

fn put_shared(mut a: WriteShared<i64>, v: Val<i64>) {
    a.fill(*v);
}

fn first(a: Read<i64>) -> i64 {
    a.as_slice()[0]
}

fn first_shared(a: ReadShared<i64>) -> i64 {
    a.get([a.rect().lo(0)])
}

fn dump(a: Read<i64>) -> Vec<i64> {
    a.as_slice().to_vec()
}

fn bump(mut a: ReadWrite<i64>) -> i64 {
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

async fn look(shard: Shard, at: Region) -> Result<i64, Error> {
    shard.launch(first, (shard.region(at)?.read(A),)).go()?.await
}

type Gangs = (Gang, ShardTask<Region, i64>, ShardTask<Region, i64>, Region);

#[test]
fn a_parent_passes_a_region_it_shares_on_from_its_home() {
    async fn parent(parent: Parent, (gang, read, write, cell): Gangs) -> Result<Vec<i64>, Error> {
        let mine = parent.region(cell)?;
        parent.launch(put_shared, (mine.write_shared(A), 9.into())).go()?.await?;
        let seen = parent.launch_gang(&gang, &read, |_| Start::new(cell).shares(cell, [A], Privilege::Read)).await?;
        let mut seen = seen.all().await?;
        let held = |_| Start::new(cell).shares(cell, [A], Privilege::ReadWrite);
        let _ = parent.launch_gang(&gang, &write, held).await?;
        let mine = parent.map(cell, [A], Privilege::ReadWrite).await?;
        seen.push(parent.launch(first_shared, (mine.read_shared(A),)).go()?.await?);
        parent.launch(put_shared, (mine.write_shared(A), 31.into())).go()?.await?;
        seen.extend(parent.launch_gang(&gang, &read, held).await?.all().await?);
        Ok(seen)
    }
    for (name, runtime) in with_homes(60) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cell = top.tree("cell", Rect::line(0, 1), &[A.info()])?;
                let two = top.gang("two", 2)?;
                let args = (two, top.task("read", read_shared), top.task("write", write_shared), cell);
                let start = || Start::new(args).shares(cell, [A], Privilege::ReadWrite);
                let mut seen = top.single(&top.parent("parent", parent), start).await?;
                // And what the parent leaves is found by those that come after it.
                let one = top.gang("one", 1)?;
                seen.extend(
                    top.launch(&one, &top.task("look", look), |_| Start::new(cell).reads(cell, [A]))?.all().await?,
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
    async fn parent(parent: Parent, (gang, read, _, cell): Gangs) -> Result<Vec<i64>, Error> {
        let held = |_| Start::new(cell).shares(cell, [A], Privilege::Read);
        parent.launch_gang(&gang, &read, held).await?.all().await
    }
    async fn write(shard: Shard, cell: Region) -> Result<(), Error> {
        shard.launch(put, (shard.region(cell)?.write(A), 5.into())).go()?.await
    }
    for (name, runtime) in with_homes(200) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cell = top.tree("cell", Rect::line(0, 1), &[A.info()])?;
                let (one, two, read) = (top.gang("one", 1)?, top.gang("two", 2)?, top.task("read", read_shared));
                let held = |_| Start::new(cell).writes(cell, [A]);
                top.launch(&one, &top.task("write", write), held)?.all().await?;
                let start = || Start::new((two, read, read, cell)).shares(cell, [A], Privilege::Read);
                top.single(&top.parent("parent", parent), start).await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![5, 5]), "{name}");
    }
}

#[test]
fn a_parent_passes_an_exclusive_region_on_to_shards_that_share_it() {
    async fn parent(parent: Parent, (gang, read, write, cell): Gangs) -> Result<Vec<i64>, Error> {
        let mine = parent.region(cell)?;
        parent.launch(put, (mine.write(A), 9.into())).go()?.await?;
        let held = |_| Start::new(cell).shares(cell, [A], Privilege::ReadWrite);
        let mut seen = parent.launch_gang(&gang, &read, held).await?.all().await?;
        parent.launch_gang(&gang, &write, held).await?.all().await?;
        let mine = parent.map(cell, [A], Privilege::ReadWrite).await?;
        seen.push(parent.launch(bump, (mine.read_write(A),)).go()?.await?);
        seen.extend(parent.launch_gang(&gang, &read, held).await?.all().await?);
        Ok(seen)
    }
    for (name, runtime) in with_homes(20) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cell = top.tree("cell", Rect::line(0, 1), &[A.info()])?;
                let two = top.gang("two", 2)?;
                let args = (two, top.task("read", read_shared), top.task("write", write_shared), cell);
                top.single(&top.parent("parent", parent), || Start::new(args).writes(cell, [A])).await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![9, 9, 21, 21, 21]), "{name}");
    }
}

#[test]
fn a_parent_task_may_run_as_a_gang() {
    async fn parent(parent: Parent, (gang, task, line): (Gang, ShardTask<Region, i64>, Region)) -> Result<i64, Error> {
        let block = part(line, 4 * i64::from(parent.index()), 4 * i64::from(parent.index()) + 4);
        let mine = parent.region(block)?;
        parent.launch(put, (mine.write(A), (10 * i64::from(parent.index())).into())).go()?.await?;
        let mut seen = 0;
        for _ in 0..3 {
            let held = |s| {
                let half = part(line, block.rect.lo(0) + 2 * i64::from(s), block.rect.lo(0) + 2 * i64::from(s) + 2);
                Start::new(half).writes(half, [A])
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
                let line = top.tree("line", Rect::line(0, 12), &[A.info()])?;
                let (three, two, one) = (top.gang("three", 3)?, top.gang("two", 2)?, top.gang("one", 1)?);
                let args = (two, top.task("add one", add_one), line);
                let parents = top.launch(&three, &top.parent("parent", parent), |s| {
                    let at = 4 * i64::from(s);
                    Start::new(args).writes(part(line, at, at + 4), [A])
                })?;
                let parents = parents.all().await?;
                let end = top.launch(&one, &top.task("all", all), |_| Start::new(line).reads(line, [A]))?;
                Ok((parents, end.all().await?.swap_remove(0)))
            })
        });
        let expected = (vec![3, 13, 23], vec![3, 3, 3, 3, 13, 13, 13, 13, 23, 23, 23, 23]);
        assert_eq!(outcome.map(|r| r.0), Ok(expected), "{name}");
    }
}

/// A task whose writing takes long, and nobody waits for it.
fn put_slowly(mut a: Write<i64>, v: Val<i64>) {
    std::thread::sleep(std::time::Duration::from_millis(2));
    a.fill(*v);
}

#[test]
fn a_gang_and_a_mapping_come_after_the_parents_own_tasks() {
    async fn parent(parent: Parent, (gang, task, _, cells): Gangs) -> Result<Vec<i64>, Error> {
        let mine = parent.region(cells)?;
        let half = |s: u32| part(cells, 2 * i64::from(s), 2 * i64::from(s) + 2);
        let mut seen = Vec::new();
        for k in [10, 20, 30] {
            parent.launch(put_slowly, (mine.write(A), k.into())).go()?.detach();
            let held = |s| Start::new(half(s)).writes(half(s), [A]);
            seen.extend(parent.launch_gang(&gang, &task, held).await?.all().await?);
            // The halves were written elsewhere: to bring them here, nobody may use what is here.
            let mine = parent.map(cells, [A], Privilege::ReadWrite).await?;
            parent.launch(put_slowly, (mine.write(A), (k + 5).into())).go()?.detach();
            let mine = parent.map(half(1), [A], Privilege::ReadWrite).await?;
            seen.push(parent.launch(bump, (mine.read_write(A),)).go()?.await?);
        }
        Ok(seen)
    }
    for (name, runtime) in with_homes(16) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cells = top.tree("cells", Rect::line(0, 4), &[A.info()])?;
                let two = top.gang("two", 2)?;
                let task = top.task("add one", add_one);
                let start = || Start::new((two, task, task, cells)).writes(cells, [A]);
                top.single(&top.parent("parent", parent), start).await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![11, 11, 16, 21, 21, 26, 31, 31, 36]), "{name}");
    }
}

#[test]
fn a_failed_task_of_the_parent_is_still_unseen_after_a_gang_and_a_mapping() {
    fn bomb(_: Write<i64>) {
        panic!("bomb")
    }
    async fn parent(parent: Parent, (gang, task, _, cells): Gangs) -> Result<i64, Error> {
        parent.launch(bomb, (parent.region(cells)?.write(A),)).go()?.detach();
        let held = |_| Start::new(cells).writes(cells, [A]);
        parent.launch_gang(&gang, &task, held).await?.all().await?;
        parent.map(cells, [A], Privilege::ReadWrite).await?;
        Ok(1)
    }
    let outcome = watched("bomb", || {
        Runtime::threads(2).run(|top| async move {
            let cells = top.tree("cells", Rect::line(0, 4), &[A.info()])?;
            let one = top.gang("one", 1)?;
            let task = top.task("add one", add_one);
            let start = || Start::new((one, task, task, cells)).writes(cells, [A]);
            top.single(&top.parent("parent", parent), start).await
        })
    });
    let e = outcome.expect_err("a task of the parent panicked");
    assert!(matches!(e.origin(), Error::Panicked { message, .. } if message == "bomb"), "{e:?}");
}

#[test]
fn what_a_gang_got_is_mapped_before_the_parent_uses_it() {
    fn refused<T>(outcome: Result<T, Error>, words: &[&str]) {
        let e = outcome.err().expect("refused");
        assert!(matches!(e, Error::Misuse { .. }), "{e:?}");
        for words in words.iter().chain(&["task `parent` of shard 0", "Parent::map", "field `a`"]) {
            assert!(e.to_string().contains(words), "`{words}` is not in: {e}");
        }
    }
    async fn parent(parent: Parent, (gang, task, look, cells): Gangs) -> Result<i64, Error> {
        let (all, left, right) = (parent.region(cells)?, part(cells, 0, 2), part(cells, 2, 4));
        let (l, r) = (parent.region(left)?, parent.region(right)?);
        parent.launch(put, (all.write(A), 1.into())).go()?.await?;
        parent.launch_gang(&gang, &task, |_| Start::new(left).writes(left, [A])).await?.all().await?;
        let words = ["tree 1 [0, 4)", "read of", "writes part of it"];
        refused(parent.launch(first, (all.read(A),)).go(), &words);
        refused(parent.launch(first, (l.read(A),)).go(), &["tree 1 [0, 2)"]);
        refused(parent.launch(put, (l.write(A), 1.into())).go(), &["write-discard of", "uses part of it"]);
        // The other half is the parent's as before.
        assert_eq!(parent.launch(bump, (r.read_write(A),)).go()?.await?, 2);
        // A mapping to read is one to read.
        parent.map(left, [A], Privilege::Read).await?;
        assert_eq!(parent.launch(dump, (all.read(A),)).go()?.await?, [2, 2, 2, 2]);
        refused(parent.launch(bump, (all.read_write(A),)).go(), &["tree 1 [0, 4)"]);
        parent.map(cells, [A], Privilege::ReadWrite).await?;
        assert_eq!(parent.launch(bump, (all.read_write(A),)).go()?.await?, 3);
        // A gang that reads leaves reading to the parent.
        let seen = parent.launch_gang(&gang, &look, |_| Start::new(right).reads(right, [A])).await?;
        assert_eq!(parent.launch(first, (all.read(A),)).go()?.await?, 3);
        refused(parent.launch(bump, (all.read_write(A),)).go(), &["read-write of"]);
        assert_eq!(parent.launch(bump, (l.read_write(A),)).go()?.await?, 4);
        parent.map(right, [A], Privilege::WriteDiscard).await?;
        parent.launch(put, (all.write(A), 7.into())).go()?.await?;
        assert_eq!(seen.all().await?, [3]);
        let last = parent.launch_gang(&gang, &look, |_| Start::new(right).reads(right, [A])).await?;
        last.get(0)?.clone().await
    }
    for (name, runtime) in with_homes(10) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let cells = top.tree("cells", Rect::line(0, 4), &[A.info()])?;
                let one = top.gang("one", 1)?;
                let args = (one, top.task("add one", add_one), top.task("look", look), cells);
                top.single(&top.parent("parent", parent), || Start::new(args).writes(cells, [A])).await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(7), "{name}");
    }
}
