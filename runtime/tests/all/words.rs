//! What errors and reports say of leaf tasks, in the words of those who wrote the program.

use crate::common::processes::on_processes;
use crate::common::{run, watched};
use maniple_regions::{Field, Operator, Read, ReadShared, ReadWrite, Rect, Reduce, Region, Write, WriteShared};
use maniple_runtime::{Arg, Edges, Error, Get, Many, Put, RegionView, Runtime, Shard, ShardLaunch, TaskFuture, Top};
use std::future::Future;

const U: Field<u64> = Field::new(0, "u");
const V: Field<u64> = Field::new(1, "v");

fn drivers() -> Vec<(String, Runtime)> {
    let seeded = (0..6).map(|seed| (format!("seed {seed}"), Runtime::seeded(1 + (seed % 3) as u32, seed)));
    seeded.chain((1..=2).map(|workers| (format!("{workers} threads"), Runtime::threads(workers)))).collect()
}

/// Runs one shard, which has the line [0, 8).
fn shard<F, Fut, R>(at: &str, runtime: &Runtime, main: F) -> Result<R, Error>
where
    F: Fn(Shard, Region) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Error>> + 'static,
    R: Clone + Send + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned + 'static,
{
    run(at, runtime, move |top: Top| {
        let main = main.clone();
        async move {
            let line = top.region_tree("line", Rect::line(0, 8), &[U.info(), V.info()])?;
            let (gang, task) = (top.gang("one", 1)?, top.register("main", main));
            let start = |_| ShardLaunch::new(line).writes(line, [U, V]);
            Ok(top.launch_gang(&gang, &task, start)?.all().await?.remove(0))
        }
    })
}

#[test]
fn a_parameter_of_another_dimension_names_its_task() {
    fn square(_: Read<u64, 2>) {}
    for (at, runtime) in drivers() {
        let outcome = shard(&at, &runtime, |shard, line| async move {
            let u = shard.region(line)?;
            shard.launch(square, (u.read(U),)).go()?.await
        });
        let said = outcome.expect_err(&at).to_string();
        let expected = "task `square` of shard 0: expected 1 dimension(s) in Read of field `u`, got 2: use the region's own \
                        dimension";
        assert_eq!(said, expected, "{at}");
    }
}

/// All pairs of accessors, by name.
macro_rules! pairs {
    ($launch:ident: [$($one:ident)*] $others:tt) => {$(pairs!(@ $launch $one $others);)*};
    (@ $launch:ident $one:ident [$($other:ident)*]) => {$($launch!($one $other);)*};
}

/// A launch is refused if and only if one of its arguments writes points that another uses.
#[test]
fn arguments_on_the_same_data_are_refused() {
    const PARTS: [(i64, i64); 5] = [(0, 8), (2, 6), (5, 8), (0, 2), (3, 3)];
    type Pair = (&'static str, bool, fn(&Shard, RegionView, RegionView, bool) -> Result<TaskFuture<()>, Error>);
    trait Uses {
        const WRITES: bool;
    }
    impl Uses for Read<'_, u64> {
        const WRITES: bool = false;
    }
    impl Uses for ReadWrite<'_, u64> {
        const WRITES: bool = true;
    }
    impl Uses for Write<'_, u64> {
        const WRITES: bool = true;
    }
    impl Uses for Reduce<'_, u64> {
        const WRITES: bool = true;
    }
    macro_rules! argument {
        (Read $view:ident $field:ident) => {
            $view.read($field)
        };
        (ReadWrite $view:ident $field:ident) => {
            $view.read_write($field)
        };
        (Write $view:ident $field:ident) => {
            $view.write($field)
        };
        (Reduce $view:ident $field:ident) => {
            $view.reduce($field, Operator::sum())
        };
    }
    let mut pairs: Vec<Pair> = Vec::new();
    macro_rules! pair {
        ($a:ident $b:ident) => {
            fn launch(shard: &Shard, a: RegionView, b: RegionView, same: bool) -> Result<TaskFuture<()>, Error> {
                fn both(_: $a<u64>, _: Arg<u8>, _: $b<u64>) {}
                let other = if same { U } else { V };
                shard.launch(both, (argument!($a a U), 1.into(), argument!($b b other))).go()
            }
            pairs.push((
                concat!(stringify!($a), " ", stringify!($b)),
                <$a<u64> as Uses>::WRITES || <$b<u64> as Uses>::WRITES,
                launch,
            ));
        };
    }
    macro_rules! scoped {
        ($a:ident $b:ident) => {{
            pair!($a $b);
        }};
    }
    pairs!(scoped: [Read ReadWrite Write Reduce] [Read ReadWrite Write Reduce]);
    assert_eq!(pairs.len(), 16);
    for (at, runtime) in drivers() {
        let pairs = pairs.clone();
        let outcome = shard(&at, &runtime, move |shard, line| {
            let pairs = pairs.clone();
            async move {
                let part = |(lo, hi)| shard.region(Region::new(line.tree, Rect::line(lo, hi)));
                for (names, writes, launch) in pairs {
                    for (one, other) in PARTS.iter().flat_map(|one| PARTS.iter().map(move |other| (*one, *other))) {
                        for same in [true, false] {
                            let meet = (0..8).any(|i| (one.0..one.1).contains(&i) && (other.0..other.1).contains(&i));
                            let outcome = launch(&shard, part(one)?, part(other)?, same);
                            let case = format!("{names} of {one:?} and {other:?}, {same}");
                            if writes && meet && same {
                                let said = outcome.expect_err(&case).to_string();
                                let head = "the launch of `both` in task `main` of shard 0: expected arguments on different \
                                            data, unless both read or both are shared, got the first argument (";
                                let of = |(lo, hi): (i64, i64)| {
                                    format!(" of field `u` of [{lo}, {hi}) of region tree `line`)")
                                };
                                let (first, second) = (of(one) + " and the third argument (", of(other));
                                let second = second + "; give the task one `read_write` argument instead";
                                assert!(said.starts_with(head), "{case}: {said}");
                                assert!(said.contains(&first) && said.ends_with(&second), "{case}: {said}");
                            } else {
                                outcome.map_err(|e| Error::user(format!("{case}: {e}")))?.await?;
                            }
                        }
                    }
                }
                Ok(())
            }
        });
        assert_eq!(outcome, Ok(()), "{at}");
    }
}

/// With any number of arguments; the entries of a `Many` are named by their places.
#[test]
fn entries_on_the_same_data_are_refused() {
    fn fill(all: Many<Write<u64>>, _: Arg<u64>, more: Many<Read<u64>>) -> usize {
        all.len() + more.len()
    }
    for number in [2usize, 3, 8, 17, 18, 40] {
        let at = format!("{number} entries");
        let outcome = run(&at, &Runtime::threads(2), move |top| async move {
            let line = top.region_tree("line", Rect::line(0, 100), &[U.info()])?;
            let task = top.register("main", move |shard: Shard, line: Region| async move {
                let one = |i: usize| shard.region(Region::new(line.tree, Rect::line(i as i64, i as i64 + 1)));
                let all = |twice: Option<(usize, usize)>| {
                    let at = |i| twice.filter(|twice| twice.1 == i).map_or(i, |twice| twice.0);
                    (0..number).map(|i| Ok(one(at(i))?.write(U))).collect::<Result<Many<_>, Error>>()
                };
                let reads = |at: &[usize]| at.iter().map(|i| Ok(one(*i)?.read(U))).collect::<Result<Many<_>, Error>>();
                let launch = |all, reads| shard.launch(fill, (all, 1.into(), reads)).go();
                let filled = launch(all(None)?, reads(&[number, number, 50])?)?.await?;
                assert_eq!(filled, number + 3);
                for (first, second) in [(0, 1), (0, number - 1), (number / 2, number - 1)] {
                    if first == second {
                        continue;
                    }
                    let said = launch(all(Some((first, second)))?, reads(&[])?).expect_err("twice").to_string();
                    let names = format!("got entry {first} of the first argument (");
                    assert!(said.contains(&names), "{said}");
                    assert!(said.contains(&format!(") and entry {second} of the first argument (")), "{said}");
                }
                let said = launch(all(None)?, reads(&[number, 1])?).expect_err("read too").to_string();
                assert!(said.contains("got entry 1 of the first argument (write-discard of"), "{said}");
                assert!(said.contains(" and entry 1 of the third argument (read of"), "{said}");
                Ok(())
            });
            top.launch_gang(&top.gang("one", 1)?, &task, |_| ShardLaunch::new(line).writes(line, [U]))?.all().await
        });
        assert_eq!(outcome, Ok(vec![()]), "{at}");
    }
}

/// Under simultaneous coherence the program itself keeps uses apart, or need not.
#[test]
fn arguments_may_share_data() {
    fn both(from: ReadShared<u64>, mut into: WriteShared<u64>) -> u64 {
        into.set([0], from.get([1]) + 7);
        from.get([0])
    }
    for (at, runtime) in drivers() {
        let outcome = run(&at, &runtime, |top| async move {
            let line = top.region_tree("line", Rect::line(0, 8), &[U.info()])?;
            let task = top.register("main", |shard: Shard, line: Region| async move {
                let u = shard.region(line)?;
                shard.launch(both, (u.read_shared(U), u.write_shared(U))).go()?.await
            });
            let privilege = maniple_regions::Privilege::ReadWrite;
            top.launch_gang(&top.gang("one", 1)?, &task, |_| ShardLaunch::new(line).shares(line, [U], privilege))?
                .all()
                .await
        });
        assert_eq!(outcome, Ok(vec![7]), "{at}");
    }
}

/// A refused launch has taken no generation and leaves nothing behind.
#[test]
fn after_a_refusal_the_launch_can_be_made_again() {
    fn pass(from: Read<u64>, _: Write<u64>, mut out: Put<u64>) {
        out[0] = from.as_slice()[0];
    }
    for (at, runtime) in drivers() {
        let outcome = run(&at, &runtime, |top| async move {
            let line = top.region_tree("line", Rect::line(0, 8), &[U.info(), V.info()])?;
            let gang = top.gang("one", 1)?;
            let own = top.edges::<u64>("own", &gang, [(0, 0)], 1)?;
            let task = top.register("main", |shard: Shard, (line, own): (Region, Edges<u64>)| async move {
                let (u, to, from) = (shard.region(line)?, own.producer(&shard, 0)?, own.consumer(&shard, 0)?);
                shard.fill(u.write(U), 5).go()?.detach();
                for _ in 0..3 {
                    shard.launch(pass, (u.read(U), u.write(U), to.put(1))).go().expect_err("refused");
                }
                shard.launch(pass, (u.read(U), u.write(V), to.put(1))).go()?.detach();
                shard.launch(|came: Get<u64>| came[0], (from.get(),)).go()?.await
            });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new((line, own)).writes(line, [U, V]))?.all().await
        });
        assert_eq!(outcome, Ok(vec![5]), "{at}");
    }
}

/// The lines of the report of a gang of two with edges between them, both ways.
fn report(at: &str, runtime: &Runtime, depth: u32, main: fn(Shard, Edges<u64>) -> Main) -> Vec<String> {
    let outcome = watched(at, || {
        runtime.run(move |top| async move {
            let gang = top.gang("both", 2)?;
            let pairs = top.edges("pairs", &gang, [(0, 1), (1, 0)], depth)?;
            let task = top.register("main", main);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(pairs))?.all().await
        })
    });
    match outcome {
        Err(Error::Deadlock { report, .. }) => report.lines().map(str::to_string).collect(),
        other => panic!("{at}: expected a deadlock, came {other:?}"),
    }
}

type Main = std::pin::Pin<Box<dyn Future<Output = Result<(), Error>>>>;

fn give(mut out: Put<u64>) {
    out[0] = 1;
}

fn take(_: Get<u64>) {}

/// A user of puts and gets does not know that an edge has two barriers.
#[test]
fn a_value_that_nobody_gets_is_called_that() {
    fn main(shard: Shard, pairs: Edges<u64>) -> Main {
        Box::pin(async move {
            if shard.index() == 0 {
                let to = pairs.producer(&shard, 1)?;
                for _ in 0..4 {
                    shard.launch(give, (to.put(1),)).go()?.detach();
                }
                return Ok(());
            }
            let from = pairs.consumer(&shard, 0)?;
            shard.launch(take, (from.get(),)).go()?.await
        })
    }
    for (at, runtime) in drivers() {
        let said = report(&at, &runtime, 2, main);
        let edge = "`pairs`, edge shard 0 -> shard 1";
        let waits = format!(
            "task `give` of shard 0 waits to put value 3 of {edge}; the edge holds at most 2, and value 0 has been got"
        );
        assert_eq!(said[0], format!("  shard 1 is over, and {waits}"), "{at}: {}", said.join("\n"));
        let all = said.join("\n");
        assert!(!all.contains("empty") && !all.contains("generation"), "{at}: {all}");
    }
}

#[test]
fn a_value_that_nobody_puts_is_called_that() {
    fn main(shard: Shard, pairs: Edges<u64>) -> Main {
        Box::pin(async move {
            let (to, from) = (pairs.producer(&shard, 1 - shard.index())?, pairs.consumer(&shard, 1 - shard.index())?);
            // Each waits for the other, but for the first value.
            for round in 0..3 {
                let took = shard.launch(take, (from.get(),));
                if round == 0 {
                    shard.launch(give, (to.put(1),)).go()?.detach();
                    took.go()?.await?;
                } else {
                    took.go()?.await?;
                    shard.launch(give, (to.put(1),)).go()?.detach();
                }
            }
            Ok(())
        })
    }
    for (at, runtime) in drivers() {
        let said = report(&at, &runtime, 3, main);
        for (me, other) in [(0, 1), (1, 0)] {
            let value = format!("value 1 of `pairs`, edge shard {other} -> shard {me}");
            let expected = format!("  task `main` of shard {other} has launched nothing that puts {value}");
            assert!(said[..2].contains(&expected), "{at}: {}", said.join("\n"));
            let expected = format!("task `take` of shard {me} waits to get {value}; value 0 has been put");
            assert!(said.iter().any(|line| line.trim() == expected), "{at}: {}", said.join("\n"));
        }
        let all = said.join("\n");
        assert!(!all.contains("ready") && !all.contains("generation"), "{at}: {all}");
    }
}

/// A copy of the program may end before it meets the others, who wait for it.
#[test]
fn last_words_before_the_first_run_are_shown() {
    on_processes("words::last_words_before_the_first_run_are_shown", &[(2, 1), (3, 1)], |runtime| {
        if Runtime::process_number() == 1 {
            Runtime::last_words("there is no file `input.txt`");
            Runtime::last_words("this comes too late");
            std::process::exit(3);
        }
        let e = runtime.run(|top| async move { top.gang("all", 2).map(drop) }).expect_err("one is lost");
        let Error::ProcessLost { process: 1, why, .. } = &e else { panic!("{e}") };
        assert!(why.contains("there is no file `input.txt`") && !why.contains("too late"), "{why}");
    });
}
