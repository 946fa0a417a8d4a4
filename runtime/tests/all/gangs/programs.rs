//! Random programs of gangs over different partitions: data follows from launch to launch.

use super::{A, B, CELLS, dump, everywhere, joined, rect_of, update};
use crate::common::size;
use crate::common::watched;
use maniple_regions::{Coherence, Field, Privilege, Read, ReadShared, Rect, Region, Write, WriteShared};
use maniple_runtime::{Arg, Error, Gang, InnerTask, PhaseBarrier, PhaseOptions, Shard, ShardLaunch, ShardTask};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

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

/// Bounds of a part of the cells.
fn part(k: i64) -> (i64, i64) {
    let lo = k.rem_euclid(7) * 3;
    (lo, CELLS - k.rem_euclid(CELLS - lo))
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
    let all = parent.region(args.tree)?;
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
    let some = parent.region(rect_of(args.tree, lo, hi))?;
    let second = parent.launch(update, (some.read_write(field(b)), first.into())).go()?.await?;
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
        let done = top.launch_gang(&gang, &task, |s| {
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
    let end = top.launch_gang(&one, &last, |_| ShardLaunch::new(tree).reads(tree, [A, B]))?;
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
