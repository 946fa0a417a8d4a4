//! Region trees of one shard: tasks on any parts of them, beside plain arrays; their memory; failures; refusals.

use crate::common;
use crate::common::{mix, run, runtimes};
use maniple_regions::{
    Field, Operator, Privilege, Read, ReadShared, ReadWrite, Rect, Reduce, Region, Write, WriteShared,
};
use maniple_runtime::{Arg, Check, Error, Gang, InnerTask, RegionView, Runtime, Shard, ShardLaunch, ShardTask, Top};

const X: Field<u64> = Field::new(0, "x");
const Y: Field<u32> = Field::new(1, "y");

/// Numbers that look random.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = mix(self.0);
        (self.0 % n as u64) as i64
    }

    /// A part of a rectangle, perhaps without points.
    fn part(&mut self, of: Rect) -> Rect {
        let mut ends = |d: usize| {
            let (a, b) = (self.below(of.extent(d) as i64 + 1), self.below(of.extent(d) as i64 + 1));
            [of.lo(d) + a.min(b), of.lo(d) + a.max(b)]
        };
        let (i, j) = (ends(0), ends(1));
        Rect::new([i[0], j[0]], [i[1], j[1]])
    }
}

/// A tree, and its values as plain arrays.
struct Modelled {
    view: RegionView,
    x: Vec<u64>,
    y: Vec<u32>,
}

impl Modelled {
    fn new(shard: &Shard, draw: &mut Draw) -> Result<Self, Error> {
        let lo = [draw.below(9) - 4, draw.below(9) - 4];
        let all = Rect::new(lo, [lo[0] + 1 + draw.below(6), lo[1] + 1 + draw.below(6)]);
        let view = shard.region_tree("own", all, &[X.info(), Y.info().with_padding(draw.below(2) as usize)])?;
        Ok(Self { view, x: vec![0; all.volume()], y: vec![0; all.volume()] })
    }

    /// The places of a part in the arrays.
    fn places(&self, part: Rect) -> impl Iterator<Item = usize> + use<> {
        let all = self.view.region().rect;
        part.points::<2>().map(move |point| all.position(point).expect("a part"))
    }
}

fn set(mut x: Write<u64, 2>, value: Arg<u64>) {
    x.fill_with(|_| *value);
}
fn change(mut x: ReadWrite<u64, 2>, mut y: ReadWrite<u32, 2>) {
    for point in x.rect().points() {
        x.set(point, 3 * x.get(point) + 1);
        y.set(point, y.get(point) + 1);
    }
}
fn add(mut x: Reduce<u64, 2>, value: Arg<u64>) {
    for point in x.rect().points() {
        x.fold(point, *value);
    }
}
fn sums(x: Read<u64, 2>, y: Read<u32, 2>) -> (u64, u64) {
    (x.rows().flatten().sum(), y.rows().flatten().map(|y| u64::from(*y)).sum())
}

/// Makes trees, launches tasks on parts of them, and drops trees while tasks are under way. Tells how many sums were wrong.
async fn any_tasks(shard: Shard, seed: u64) -> Result<usize, Error> {
    let mut draw = Draw(seed ^ u64::from(shard.index()));
    let mut trees = Vec::new();
    let mut sent = Vec::new();
    for _ in 0..120 {
        if trees.is_empty() || draw.below(10) == 0 {
            trees.push(Modelled::new(&shard, &mut draw)?);
        }
        let at = draw.below(trees.len() as i64) as usize;
        if draw.below(12) == 0 {
            trees.swap_remove(at);
            continue;
        }
        let tree = &mut trees[at];
        let region = tree.view.region();
        let part = draw.part(region.rect);
        let view = match draw.below(3) {
            0 => shard.region(Region::new(region.tree, part))?,
            _ => tree.view.clone(),
        };
        let (part, value) = (view.region().rect, draw.below(1000) as u64);
        match draw.below(4) {
            0 => {
                shard.launch(set, (view.write(X), value.into())).go()?.detach();
                tree.places(part).for_each(|place| tree.x[place] = value);
            }
            1 => {
                shard.launch(change, (view.read_write(X), view.read_write(Y))).go()?.detach();
                for place in tree.places(part) {
                    (tree.x[place], tree.y[place]) = (tree.x[place].wrapping_mul(3).wrapping_add(1), tree.y[place] + 1);
                }
            }
            2 => {
                shard.launch(add, (view.reduce(X, Operator::sum()), value.into())).go()?.detach();
                tree.places(part).for_each(|place| tree.x[place] += value);
            }
            _ => {
                let sum = tree.places(part).fold((0, 0), |(x, y), p| (x + tree.x[p], y + u64::from(tree.y[p])));
                sent.push((shard.launch(sums, (view.read(X), view.read(Y))).go()?, sum));
            }
        }
    }
    let mut wrong = 0;
    for (came, expected) in sent {
        wrong += usize::from(came.await? != expected);
    }
    Ok(wrong)
}

#[test]
fn tasks_use_a_private_tree_in_program_order() {
    for (seed, (name, runtime)) in (0u64..).zip(runtimes(60)) {
        let shards = [1, 2, 3, 7][seed as usize % 4];
        let wrong = run(&name, &runtime, move |top| async move {
            let gang = top.gang("all", shards)?;
            top.launch_gang(&gang, &top.register("any", any_tasks), |_| ShardLaunch::new(seed))?.all().await
        });
        assert_eq!(wrong, Ok(vec![0; shards as usize]), "{shards} shards, {name}");
    }
}

/// Trees take memory only while somebody has a view or a task uses them, also if tasks are under way when the view is dropped.
#[cfg(target_os = "linux")]
#[test]
fn many_trees_leave_no_memory() {
    async fn shard(shard: Shard, trees: u64) -> Result<(u64, [u64; 2]), Error> {
        let (mut after, mut last) = ([0; 2], None);
        for number in 0..trees {
            shard.window(Shard::WINDOW).await;
            let tree = shard.region_tree("many", Rect::line(0, 50), &[X.info(), Y.info()])?;
            let half = shard.region(Region::new(tree.region().tree, Rect::line(0, 25)))?;
            let fill = |mut x: Write<u64>, value: Arg<u64>| x.fill(*value);
            shard.launch(fill, (half.write(X), number.into())).go()?.detach();
            let sum = shard.launch(|x: Read<u64>| x.as_slice().iter().sum::<u64>(), (tree.read(X),)).go()?;
            if number == trees / 10 {
                after[0] = common::resident::resident();
            }
            if let Some(last) = last.replace(sum) {
                assert_eq!(last.await?, 25 * (number - 1));
            }
        }
        after[1] = common::resident::resident();
        let sum = match last {
            Some(last) => last.await?,
            None => 0,
        };
        Ok((sum, after))
    }
    common::processes::alone("private_trees::many_trees_leave_no_memory", || {
        let trees = 100_000;
        for runtime in [Runtime::threads(1), Runtime::threads(1).check(Check::Races)] {
            let (came, _) = runtime
                .run(move |top| async move {
                    let gang = top.gang("one", 1)?;
                    top.launch_gang(&gang, &top.register("many", shard), |_| ShardLaunch::new(trees))?.all().await
                })
                .expect("a run");
            let (sum, after) = came[0];
            assert_eq!(sum, 25 * (trees - 1));
            assert!(after[1] < after[0] + 4000, "{after:?} kB");
        }
    });
}

/// What a failed task should have written fails later tasks, until something writes it.
#[test]
fn failures_stay_within_their_data() {
    async fn shard(shard: Shard, (): ()) -> Result<[String; 4], Error> {
        let tree = shard.region_tree("own", Rect::line(0, 10), &[X.info()])?;
        let part = |lo, hi| shard.region(Region::new(tree.region().tree, Rect::line(lo, hi)));
        let (left, right) = (part(0, 5)?, part(5, 10)?);
        let fails = shard.launch(|x: Write<u64>| assert!(x.rect().is_empty(), "no values"), (left.write(X),)).go()?;
        let sum = |x: Read<u64>| x.as_slice().iter().sum::<u64>();
        let of = |view: &RegionView| shard.launch(sum, (view.read(X),)).go();
        let (all, other) = (of(&tree)?, of(&right)?);
        shard.launch(|mut x: Write<u64>| x.fill(2), (left.write(X),)).go()?.detach();
        let after = of(&tree)?;
        drop((tree, left, right));
        let said = |sum: Result<u64, Error>| sum.map_or_else(|e| e.origin().to_string(), |sum| sum.to_string());
        let fails = fails.await.map_or_else(|e| e.to_string(), |()| String::new());
        Ok([fails, said(all.await), said(other.await), said(after.await)])
    }
    for (name, runtime) in runtimes(12) {
        let came = run(&name, &runtime, |top| async move {
            let gang = top.gang("two", 2)?;
            top.launch_gang(&gang, &top.register("fails", shard), |_| ShardLaunch::new(()))?.all().await
        });
        for [fails, all, other, after] in came.expect(&name) {
            assert!(fails.contains("no values") && all.contains("no values"), "{name}: {fails}; {all}");
            assert_eq!([&other, &after], ["0", "10"], "{name}");
        }
    }
}

/// An inner task has leaf tasks on its own tree between its gangs, and brings values from there.
#[test]
fn an_inner_task_may_have_private_trees() {
    type Given = (Gang, ShardTask<Region, ()>, Region);
    async fn double(shard: Shard, at: Region) -> Result<(), Error> {
        let twice = |mut x: ReadWrite<u64>| x.as_mut_slice().iter_mut().for_each(|x| *x *= 2);
        shard.launch(twice, (shard.region(at)?.read_write(X),)).go()?.await
    }
    async fn inner(inner: InnerTask, (gang, task, held): Given) -> Result<Vec<u64>, Error> {
        let own = inner.region_tree("own", Rect::line(0, 4), &[X.info()])?;
        inner.launch(|mut x: Write<u64>| x.fill_with(|[i]| i as u64), (own.write(X),)).go()?.detach();
        let all = inner.region(held)?;
        for _ in 0..3 {
            inner.copy(own.read(X), all.write(X)).go()?.detach();
            inner.launch_gang(&gang, &task, |_| ShardLaunch::new(held).writes(held, [X])).await?.detach();
            inner.copy(all.read(X), own.write(X)).go()?.detach();
            let one_more = |mut x: ReadWrite<u64>| x.as_mut_slice().iter_mut().for_each(|x| *x += 1);
            inner.launch(one_more, (own.read_write(X),)).go()?.detach();
        }
        let refused =
            inner.launch_gang(&gang, &task, |_| ShardLaunch::new(own.region()).reads(own.region(), [X])).await;
        let refused = refused.expect_err("its own").to_string();
        assert!(refused.contains("of a private tree, which only the shard that has made it can use"), "{refused}");
        inner.launch(|x: Read<u64>| x.as_slice().to_vec(), (own.read(X),)).go()?.await
    }
    for (name, runtime) in runtimes(20) {
        // The check for races needs one address space.
        let checked = common::processes::runtimes().is_none().then(|| runtime.clone().check(Check::Races));
        for runtime in [Some(runtime), checked].iter().flatten() {
            let came = run(&name, runtime, |top| async move {
                let tree = top.region_tree("held", Rect::line(0, 4), &[X.info()])?;
                let gang = top.gang("one", 1)?;
                let (double, inner) = (top.register("double", double), top.register_inner("inner", inner));
                top.run_inner(&inner, || ShardLaunch::new((gang, double, tree)).writes(tree, [X])).await
            });
            // ((i * 2 + 1) * 2 + 1) * 2 + 1
            assert_eq!(came, Ok((0..4).map(|i| 8 * i + 7).collect()), "{name}");
        }
    }
}

/// Tasks on a private tree come one after the other, and so do what they share. The check for races knows that, and sees others.
#[test]
fn the_check_for_races_knows_their_order() {
    async fn shard(shard: Shard, (shared, ordered): (Region, bool)) -> Result<u64, Error> {
        let shared = shard.region(shared)?;
        let own = shard.region_tree("own", Rect::line(0, 2), &[X.info()])?;
        let part = |at| shard.region(Region::new(own.region().tree, Rect::line(at, at + 1)));
        let (first, second) = (part(0)?, part(i64::from(!ordered))?);
        let both = |mut s: WriteShared<u64>, mut x: Write<u64>| {
            s.set([0], 1);
            x.fill(1);
        };
        shard.launch(both, (shared.write_shared(X), first.write(X))).go()?.detach();
        let look = |s: ReadShared<u64>, _: Read<u64>| s.get([0]);
        shard.launch(look, (shared.read_shared(X), second.read(X))).go()?.await
    }
    for ordered in [true, false] {
        for seed in 0..20 {
            let runtime = Runtime::seeded(1 + (seed % 3) as u32, seed).check(Check::Races);
            let came = run(&format!("seed {seed}"), &runtime, move |top: Top| async move {
                let tree = top.region_tree("shared", Rect::line(0, 1), &[X.info()])?;
                let gang = top.gang("one", 1)?;
                let start = |_| ShardLaunch::new((tree, ordered)).shares(tree, [X], Privilege::ReadWrite);
                top.launch_gang(&gang, &top.register("races", shard), start)?.all().await
            });
            match ordered {
                true => assert_eq!(came, Ok(vec![1]), "seed {seed}"),
                false => assert!(came.is_err_and(|e| matches!(e.origin(), Error::Race { .. })), "seed {seed}"),
            }
        }
    }
}

/// A private tree does not order leaf tasks of an inner task after its gangs, which never use it.
#[test]
fn the_check_for_races_knows_that_gangs_have_no_private_trees() {
    type Given = (Gang, ShardTask<Region, ()>, Region);
    async fn sets(shard: Shard, shared: Region) -> Result<(), Error> {
        let set = |mut s: WriteShared<u64>| s.set([0], 1);
        shard.launch(set, (shard.region(shared)?.write_shared(X),)).go()?.await
    }
    async fn inner(inner: InnerTask, (gang, sets, shared): Given) -> Result<u64, Error> {
        let own = inner.region_tree("own", Rect::line(0, 2), &[X.info()])?;
        let start = |_| ShardLaunch::new(shared).shares(shared, [X], Privilege::ReadWrite);
        inner.launch_gang(&gang, &sets, start).await?.detach();
        let look = |s: ReadShared<u64>, _: Read<u64>| s.get([0]);
        inner.launch(look, (inner.region(shared)?.read_shared(X), own.read(X))).go()?.await
    }
    for seed in 0..20 {
        let runtime = Runtime::seeded(1 + (seed % 3) as u32, seed).check(Check::Races);
        let came = run(&format!("seed {seed}"), &runtime, |top| async move {
            let tree = top.region_tree("shared", Rect::line(0, 1), &[X.info()])?;
            let (gang, sets) = (top.gang("one", 1)?, top.register("sets", sets));
            let start = || ShardLaunch::new((gang, sets, tree)).shares(tree, [X], Privilege::ReadWrite);
            top.run_inner(&top.register_inner("inner", inner), start).await
        });
        assert!(came.is_err_and(|e| matches!(e.origin(), Error::Race { .. })), "seed {seed}");
    }
}

/// Nobody but the shard uses its tree, and the shard only with a view, with its fields, and alone.
#[test]
fn what_is_not_the_shards_own_is_refused() {
    async fn makes(shard: Shard, _: Option<Region>) -> Result<(Region, Vec<String>), Error> {
        let own = shard.region_tree("own", Rect::line(0, 4), &[X.info()])?;
        let region = own.region();
        let look = |_: ReadShared<u64>| ();
        // After a use that is right, too.
        shard.launch(|_: Read<u64>| (), (own.read(X),)).go()?.detach();
        let twice = shard.region_tree("twice", Rect::line(0, 4), &[X.info(), X.info()]);
        let huge = shard.region_tree("huge", Rect::line(0, i64::MAX), &[X.info()]);
        let mut said = vec![
            shard.launch(look, (own.read_shared(X),)).go().expect_err("shared").to_string(),
            shard.launch(|_: Read<u32>| (), (own.read(Y),)).go().expect_err("another field").to_string(),
            shard.region(Region::new(region.tree, Rect::line(2, 5))).expect_err("outside").to_string(),
            twice.expect_err("two fields").to_string(),
            huge.expect_err("too large").to_string(),
        ];
        drop(own);
        said.push(shard.region(region).expect_err("nobody has it").to_string());
        Ok((region, said))
    }
    async fn uses(shard: Shard, other: Option<Region>) -> Result<(Region, Vec<String>), Error> {
        let other = other.ok_or_else(|| Error::user("a region"))?;
        // Of the same number, perhaps.
        let own = shard.region_tree("another", Rect::line(0, 2), &[X.info()])?;
        let refused = match shard.region(other) {
            Ok(_) => "another tree of this number".into(),
            Err(e) => e.to_string(),
        };
        Ok((own.region(), vec![refused]))
    }
    for (name, runtime) in runtimes(8) {
        let came = run(&name, &runtime, |top| async move {
            let gang = top.gang("two", 2)?;
            let made = top.launch_gang(&gang, &top.register("makes", makes), |_| ShardLaunch::new(None))?.all().await?;
            let ((region, mut said), uses) = (made[0].clone(), top.register("uses", uses));
            let start = |_| ShardLaunch::new(None).reads(region, [X]);
            said.push(top.launch_gang(&gang, &uses, start).expect_err("no launch").to_string());
            said.push(top.region(region).expect_err("no task of a flow").to_string());
            said.push(top.destroy(region).expect_err("nothing to destroy").to_string());
            let used = top.launch_gang(&gang, &uses, |_| ShardLaunch::new(Some(region)))?.all().await?;
            Ok((said, used))
        });
        let (said, used) = came.expect(&name);
        let expected: [&[&str]; 9] = [
            &["expected field `x`", "as the shard holds", "region tree `own`", "(use `read`)"],
            &["region tree `own`", "got field 1"],
            &["expected a part of", "region tree `own`"],
            &["region tree `twice`"],
            &["region tree `huge`", "field `x`"],
            &["whose views are dropped"],
            &["which only the shard that has made it can use"],
            &["which only the shard that has made it can use"],
            &["goes with its last view"],
        ];
        assert_eq!(said.len(), expected.len());
        for (said, parts) in said.iter().zip(expected) {
            assert!(parts.iter().all(|part| said.contains(part)), "{name}: {said}");
        }
        for (_, refused) in used {
            let parts = ["another tree of this number", "another shard has made", "expected a part of"];
            assert!(parts.iter().any(|part| refused[0].contains(part)), "{name}: {refused:?}");
        }
    }
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "private_trees::on_processes",
        &[
            ("tasks_use_a_private_tree_in_program_order", tasks_use_a_private_tree_in_program_order),
            ("failures_stay_within_their_data", failures_stay_within_their_data),
            ("an_inner_task_may_have_private_trees", an_inner_task_may_have_private_trees),
            ("what_is_not_the_shards_own_is_refused", what_is_not_the_shards_own_is_refused),
        ],
    );
}
