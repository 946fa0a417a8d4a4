//! Launches that are refused: shards and points that interfere, other runs' gangs, regions that are not held that way.

use super::{A, B, CELLS, dump, rect_of, update};
use crate::common::{runtimes, watched};
use maniple_regions::{
    Coherence, Operator, Partition, Privilege, ReadShared, ReadWrite, ReadWriteShared, Rect, Reduce, Region,
    WriteShared,
};
use maniple_runtime::{Arg, Error, InnerTask, Runtime, Shard, ShardLaunch};

fn refused(message: &[&str], start: impl Fn(Region, u32) -> ShardLaunch<()> + Send + Sync + Copy + 'static) {
    async fn never(_: Shard, _: ()) -> Result<(), Error> {
        panic!("was launched")
    }
    for runtime in [Runtime::seeded(3, 1), Runtime::threads(2)] {
        let outcome = watched("refused", || {
            runtime.run(move |top| async move {
                let tree = top.region_tree("line", Rect::line(0, 30), &[A.info(), B.info()])?;
                let (gang, task) = (top.gang("all", 4)?, top.register("never", never));
                top.launch_gang(&gang, &task, |s| start(tree, s)).map(|_| ())
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
        top.launch_gang(&gang, &task, |_| -> ShardLaunch<()> { unreachable!("nothing starts") })?.all().await
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
                misused(top.launch_gang(&gang, &task, held), &words);
            }
            let (one, asks) = (top.gang("one", 1)?, top.register("asks", asks));
            // No points are outside.
            let empty = rect_of(tree, 20, 20);
            top.launch_gang(&one, &asks, |_| ShardLaunch::new(tree).reads(tree, [A]).reads(empty, [A]))?.all().await
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
        top.launch_gang(&gang, &top.register("shard", shard), start)?.all().await?;
        top.launch_gang(&gang, &top.register("nothing", nothing), |_| ShardLaunch::new(tree))?.all().await
    });
    assert_eq!(outcome.map(|r| r.0), Ok(vec![()]));
}

#[test]
fn an_inner_task_is_told_what_it_can_pass_on_and_a_copy_which_regions_differ() {
    async fn nothing(_: Shard, _: ()) -> Result<(), Error> {
        Ok(())
    }
    let outcome = Runtime::threads(1).run(|top| async move {
        let tree = top.region_tree("line", Rect::line(0, 8), &[A.info()])?;
        let (one, nothing, held) = (top.gang("one", 1)?, top.register("nothing", nothing), rect_of(tree, 0, 2));
        let inner = top.register_inner("inner", move |inner: InnerTask, _: ()| async move {
            let launched = inner.launch_gang(&one, &nothing, |_| ShardLaunch::new(()).reads(tree, [A])).await;
            let words = [
                "what shard 0 is to hold, launched by task `inner`: expected a part of",
                "[read-write under exclusive coherence on [0, 2) of region tree `line`]",
                "got read under exclusive coherence on [0, 8) of region tree `line`",
            ];
            misused(launched, &words);
            Ok(())
        });
        top.run_inner(&inner, || ShardLaunch::new(()).writes(held, [A])).await?;
        let (from, into) =
            (top.region(tree)?.read(A), top.region_tree("other", Rect::new([0, 0], [2, 2]), &[A.info()])?);
        top.copy(from, top.region(into)?.write(A)).go()?.await
    });
    let words = "expected regions with the same number of points, found [0, 8) with 8 and [0, 2) x [0, 2) with 4";
    let error = outcome.map(|r| r.0).expect_err("the numbers differ").to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
pub(super) fn slices_and_shared_accessors_are_for_what_is_held_that_way() {
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
                top.launch_gang(&gang, &task, held)?.all().await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![()]), "{name}");
    }
}

#[test]
pub(super) fn an_index_launch_asks_for_each_argument_once_and_launches_all_or_nothing() {
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
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(tree).writes(tree, [A]))?.all().await
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
        let done = top.launch_gang(&gang, &task, |s| {
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
pub(super) fn interfering_points_of_an_index_launch_are_refused() {
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
                top.launch_gang(&gang, &task, start)?.all().await
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(vec![1]), "{name}");
    }
}
