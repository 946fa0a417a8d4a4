//! Objects that the top-level task destroys: launches before that use them to the end, later ones are refused, and their memory
//! is given back when the last user has ended.

mod refused;

use crate::common;
use crate::common::{Scatter, pause, run, runtimes};
use maniple_regions::{Field, Operator, Partition, Read, Rect, Region, Write};
use maniple_runtime::{
    Arg, Check, Destroy, Edges, Error, Faults, Gang, Get, InnerTask, PhaseBarrier, PhaseOptions, Put, Runtime, Shard,
    ShardLaunch, ShardTask, Top,
};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Waker};

const X: Field<u64> = Field::new(0, "x");

/// Fewer runtimes, for tests of many cases.
fn few(seeds: u64) -> Vec<(String, Runtime)> {
    let on_processes = common::processes::runtimes().map(|mut all| all.split_off(all.len() - 1));
    on_processes.unwrap_or_else(|| {
        let seeded = |seed| (format!("seed {seed}"), Runtime::seeded(1 + (seed % 4) as u32, seed));
        let threads = (1..=3).map(|workers| (format!("{workers} threads"), Runtime::threads(workers)));
        threads.chain((0..seeds).map(seeded)).chain([common::any_virtual(seeds)]).collect()
    })
}

/// Keeps shards waiting until the top-level task opens it. There is one for each copy of that task, with the shards of its
/// node.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    fn open(&self) {
        let mut gate = self.0.lock().expect("no panic");
        gate.0 = true;
        gate.1.drain(..).for_each(Waker::wake);
    }

    async fn pass(&self) {
        poll_fn(|cx| {
            let mut gate = self.0.lock().expect("no panic");
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Everything that can be destroyed, of a gang of four.
#[derive(Clone, Copy)]
struct Made {
    tree: Region,
    gang: Gang,
    task: ShardTask<(), u32>,
    ring: Edges<u64>,
    sum: PhaseBarrier,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tree,
    Gang,
    Task,
    Edges,
    Phase,
}

impl Kind {
    fn object(self) -> &'static str {
        match self {
            Kind::Tree => "region tree `cells`",
            Kind::Gang => "gang `four`",
            Kind::Task => "task `index`",
            Kind::Edges => "edges `ring`",
            Kind::Phase => "phase barrier `sum`",
        }
    }

    /// Destroys the object. Returns the line of the call.
    fn destroy(self, top: &Top, made: &Made) -> Result<u32, Error> {
        let (destroyed, line) = match self {
            Kind::Tree => (top.destroy(made.tree), line!()),
            Kind::Gang => (top.destroy(made.gang), line!()),
            Kind::Task => (top.destroy(made.task), line!()),
            Kind::Edges => (top.destroy(made.ring), line!()),
            Kind::Phase => (top.destroy(made.sum), line!()),
        };
        destroyed.map(|()| line)
    }
}

fn all_of(gang: &Gang) -> impl Iterator<Item = (u32, u32)> + use<> {
    let n = gang.shards();
    (0..n).map(move |s| (s, (s + 1) % n))
}

fn make(top: &Top) -> Result<Made, Error> {
    let gang = top.gang("four", 4)?;
    Ok(Made {
        tree: top.region_tree("cells", Rect::line(0, 10), &[X.info()])?,
        task: top.register("index", |shard: Shard, ()| async move { Ok(shard.index()) }),
        ring: top.edges("ring", &gang, all_of(&gang), 1)?,
        sum: top.phase_barrier("sum", &gang, PhaseOptions::all(&gang).reduce(Operator::<u64>::sum()))?,
        gang,
    })
}

/// A launch that uses everything: each shard sends a number round the ring, and all know the sum of another. What each gets is
/// known.
async fn uses_all(
    shard: Shard,
    (ring, sum, block, k): (Edges<u64>, PhaseBarrier, Region, u64),
) -> Result<[u64; 3], Error> {
    let (me, n) = (shard.index(), shard.shards());
    let cells = shard.region(block)?;
    let (next, previous) = (ring.producer(&shard, (me + 1) % n)?, ring.consumer(&shard, (me + n - 1) % n)?);
    let mut last = 0;
    for round in 0..3 {
        let number = 1000 * k + 10 * u64::from(me) + round;
        shard.launch(|mut out: Put<u64>, x: Arg<u64>| out[0] = *x, (next.put(1), number.into())).go()?.detach();
        last = shard.launch(|came: Get<u64>| came[0], (previous.get(),)).go()?.await?;
    }
    shard.arrive_with(&sum.arriver(&shard)?, u64::from(me * me) + k);
    let total = shard.wait_value(&sum.waiter(&shard)?).await?;
    shard
        .launch(|mut x: Write<u64>, k: Arg<u64>| x.fill_with(|[i]| *k + i as u64), (cells.write(X), k.into()))
        .go()?
        .detach();
    let cells = shard.launch(|x: Read<u64>| x.as_slice().iter().sum::<u64>(), (cells.read(X),)).go()?.await?;
    Ok([last, total, cells])
}

/// What [`uses_all`] gives all shards of a gang of `n`, on equal blocks of `cells`.
fn expected(n: u64, cells: u64, k: u64) -> Vec<[u64; 3]> {
    let shard = |s: u64| {
        let last = 1000 * k + 10 * ((s + n - 1) % n) + 2;
        let total = (0..n).map(|s| s * s + k).sum();
        let first = |s: u64| s * (cells / n) + s.min(cells % n);
        [last, total, (first(s)..first(s + 1)).map(|i| i + k).sum()]
    };
    (0..n).map(shard).collect()
}

/// Refuses anything but the error that says where the object was destroyed.
fn assert_destroyed(at: &str, error: &Error, object: &str, place: &str) {
    let Error::Destroyed { object: named, at: where_to, .. } = error.origin() else { panic!("{at}: {error}") };
    assert_eq!((&**named, &**where_to), (object, place), "{at}: {error}");
    assert!(
        error.to_string().contains(&format!("{object} is no longer there: it was destroyed at {place};")),
        "{at}: {error}"
    );
}

/// In one step everything is made, used by a launch, and destroyed while that is under way. In the end all results are right.
async fn pipeline(top: Top, steps: u64) -> Result<(), Error> {
    let mut launches = Vec::new();
    for k in 0..steps {
        let n = 1 + k % 4;
        let gang = top.gang("step", n as u32)?;
        let tree = top.region_tree("cells", Rect::line(0, 10), &[X.info()])?;
        let ring = top.edges("ring", &gang, all_of(&gang), 1 + (k % 3) as u32)?;
        let sum = top.phase_barrier("sum", &gang, PhaseOptions::all(&gang).reduce(Operator::<u64>::sum()))?;
        let task = top.register("uses all", uses_all);
        let blocks: Vec<Region> = Partition::equal(tree, n as usize)?.iter().collect();
        let start = |s: u32| ShardLaunch::new((ring, sum, blocks[s as usize], k)).writes(blocks[s as usize], [X]);
        launches.push((k, n, top.launch_gang(&gang, &task, start)?));
        // One call or several; the gang first, which takes the others along, or last.
        match k % 4 {
            0 => top.destroy((gang, tree, task))?,
            1 => top.destroy((&[ring], vec![sum], (tree, (gang, task))))?,
            2 => {
                top.destroy(ring)?;
                top.destroy(sum)?;
                top.destroy(task)?;
                top.destroy(gang)?;
                top.destroy(tree)?;
            }
            _ => {
                top.destroy(tree)?;
                top.destroy(gang)?;
                top.destroy(task)?;
            }
        }
    }
    for (k, n, launch) in launches {
        assert_eq!(launch.all().await?, expected(n, 10, k), "step {k}");
    }
    Ok(())
}

#[test]
fn what_is_destroyed_while_launches_use_it_stays_until_they_are_over() {
    for (name, runtime) in runtimes(24) {
        assert_eq!(run(&name, &runtime, |top| pipeline(top, 9)), Ok(()), "{name}");
    }
}

#[test]
fn checks_find_nothing_wrong_with_that() {
    for seed in 0..30 {
        for check in [Check::Races, Check::ControlReplication] {
            let runtime = Runtime::seeded(1 + (seed % 4) as u32, seed).check(check);
            assert_eq!(run("seeded", &runtime, |top| pipeline(top, 8)), Ok(()), "{check:?}, seed {seed}");
        }
    }
    let runtime = Runtime::threads(3).check(Check::Races).mapper(Arc::new(Scatter::default()) as Arc<_>);
    assert_eq!(run("threads", &runtime, |top| pipeline(top, 30)), Ok(()));
}

/// Makes everything, launches some uses and destroys one object: at once, or once they have ended. Returns its place.
async fn destroyed(top: &Top, kind: Kind, at_once: bool, gate: &Gate) -> Result<(Made, String), Error> {
    let made = make(top)?;
    for _ in 0..3 {
        let reads = top.launch_gang(&made.gang, &made.task, |_| ShardLaunch::new(()).reads(made.tree, [X]))?;
        assert_eq!(reads.all().await?, [0, 1, 2, 3]);
    }
    let waits = top.register("waits", {
        let gate = gate.clone();
        move |_: Shard, ()| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(())
            }
        }
    });
    let waits = top.launch_gang(&made.gang, &waits, |_| ShardLaunch::new(()).reads(made.tree, [X]))?;
    if !at_once {
        gate.open();
        waits.all().await?;
    }
    let line = kind.destroy(top, &made)?;
    Ok((made, format!("{}:{line}", file!())))
}

/// An inner task that was launched before launches gangs after it; one that was launched after is refused.
#[test]
fn inner_tasks_use_what_was_there_when_they_were_launched() {
    for (name, runtime) in few(12) {
        let said = name.clone();
        let outcome = run(&name, &runtime, move |top| {
            let said = said.clone();
            async move {
                let (made, gate) = (make(&top)?, Gate::default());
                let uses = top.register("uses all", uses_all);
                let inner = {
                    let gate = gate.clone();
                    top.register_inner("inner", move |inner: InnerTask, (tree, k): (Region, u64)| {
                        let gate = gate.clone();
                        async move {
                            gate.pass().await;
                            let blocks: Vec<Region> = Partition::equal(tree, 4)?.iter().collect();
                            let start = |s: u32| {
                                let block = blocks[s as usize];
                                ShardLaunch::new((made.ring, made.sum, block, k)).writes(block, [X])
                            };
                            inner.launch_gang(&made.gang, &uses, start).await?.all().await
                        }
                    })
                };
                let one = top.gang("one", 1)?;
                let other = top.region_tree("other", Rect::line(0, 10), &[X.info()])?;
                let hold = |tree, k| move |_| ShardLaunch::new((tree, k)).writes(tree, [X]);
                let first = top.launch_gang(&one, &inner, hold(made.tree, 7))?;
                let (gone, line) = (top.destroy(made.gang), line!());
                gone?;
                top.destroy(uses)?;
                let second = top.launch_gang(&one, &inner, hold(other, 8))?;
                top.destroy(made.tree)?;
                gate.open();
                assert_eq!(first.all().await?, [expected(4, 10, 7)], "{said}");
                let error = second.all().await.expect_err(&said);
                assert_destroyed(&said, &error, "gang `four`", &format!("{}:{line}", file!()));
                Ok(())
            }
        });
        assert_eq!(outcome, Ok(()), "{name}");
    }
}

/// Slow messages: some come when their object is gone, and a gang that an inner task launches may be ahead of the call that
/// destroys its edges.
#[test]
fn messages_may_come_late() {
    /// Arrives at all others, waits for all, and frees the buffers that nobody waits for.
    async fn meets(shard: Shard, pairs: Edges) -> Result<(), Error> {
        pairs.outgoing(&shard)?.iter().for_each(|other| shard.arrive(other.ready()));
        for other in pairs.incoming(&shard)? {
            shard.wait(other.ready()).await?;
            shard.arrive(other.empty());
        }
        Ok(())
    }
    for seed in 0..200 {
        let n = 2 + (seed % 5) as u32;
        let runtime = Runtime::seeded(n, seed).faults(Faults::drawn(seed, n, false));
        let runtime = runtime.mapper(maniple_mapper::stock("round-robin").expect("a stock mapper"));
        let at = format!("{n} processors, seed {seed}");
        let outcome = run(&at, &runtime, move |top| async move {
            let meets = top.register("meets", meets);
            for _ in 0..3 {
                let gang = top.gang("all", n)?;
                let all = (0..n).flat_map(|from| (0..n).map(move |to| (from, to)));
                let pairs: Edges = top.edges("pairs", &gang, all, 1)?;
                let met = top.launch_gang(&gang, &meets, |_| ShardLaunch::new(pairs))?;
                top.destroy(gang)?;
                met.all().await?;
            }
            let (gang, one) = (top.gang("four", 4)?, top.gang("one", 1)?);
            let ring: Edges = top.edges("ring", &gang, all_of(&gang), 1)?;
            let late = top.register("late", move |shard: Shard, ()| async move {
                Ok(matches!(ring.outgoing(&shard), Err(Error::Destroyed { .. })))
            });
            let inner = top.register_inner("inner", move |inner: InnerTask, ()| async move {
                inner.launch_gang(&gang, &late, |_| ShardLaunch::new(())).await?.all().await
            });
            // Copies of the top-level task learn of its end at different times.
            let idle = top.register("idle", |_: Shard, ()| async { Ok(()) });
            top.launch_gang(&gang, &idle, |_| ShardLaunch::new(()))?.all().await?;
            top.destroy(ring)?;
            assert_eq!(top.launch_gang(&one, &inner, |_| ShardLaunch::new(()))?.all().await?, [[true; 4]]);
            Ok(())
        });
        assert_eq!(outcome, Ok(()), "{at}");
    }
}

#[test]
fn a_gang_takes_along_what_was_made_for_it() {
    for (name, runtime) in few(4) {
        let said = name.clone();
        let outcome = run(&name, &runtime, move |top| {
            let said = said.clone();
            async move {
                let (made, other) = (make(&top)?, make(&top)?);
                let (gone, line) = (top.destroy(made.gang), line!());
                gone?;
                for (kind, error) in [(Kind::Edges, top.destroy(made.ring)), (Kind::Phase, top.destroy(made.sum))] {
                    let place = format!("{}:{line}, with gang `four`", file!());
                    assert_destroyed(&said, &error.expect_err(&said), kind.object(), &place);
                }
                // Objects of another gang, trees and tasks stay.
                let blocks: Vec<Region> = Partition::equal(made.tree, 4)?.iter().collect();
                let uses = top.register("uses all", uses_all);
                let start = |s: u32| {
                    let block = blocks[s as usize];
                    ShardLaunch::new((other.ring, other.sum, block, 5)).writes(block, [X])
                };
                assert_eq!(top.launch_gang(&other.gang, &uses, start)?.all().await?, expected(4, 10, 5));
                top.launch_gang(&other.gang, &made.task, |_| ShardLaunch::new(()))?.all().await?;
                Ok(())
            }
        });
        assert_eq!(outcome, Ok(()), "{name}");
    }
}

/// If one object of a call can't be destroyed, the others are still there.
#[test]
fn a_call_destroys_all_or_nothing() {
    for (name, runtime) in few(4) {
        let outcome = run(&name, &runtime, move |top| async move {
            let made = make(&top)?;
            let part = Region { rect: Rect::line(0, 9), ..made.tree };
            let error = top.destroy((made.gang, made.task, part)).expect_err("a part");
            let said =
                "`Top::destroy`: expected the whole region of tree `cells`, which is [0, 10), got a part of it, [0, 9)";
            assert_eq!(error.to_string(), said);
            top.launch_gang(&made.gang, &made.task, |_| ShardLaunch::new(()).reads(made.tree, [X]))?.all().await?;
            let nothing: Vec<Gang> = Vec::new();
            top.destroy(&nothing)?;
            top.destroy(made.task)?;
            top.destroy((made.gang, made.task)).expect_err("twice");
            top.placement(&made.gang).map(drop)
        });
        assert_eq!(outcome, Ok(()), "{name}");
    }
}

/// A shard that fails poisons what belongs to its gang. Its launch came after the edges were destroyed, so an earlier launch
/// goes on to use them.
#[test]
fn a_failure_does_not_reach_what_was_destroyed_before() {
    for (name, runtime) in few(12) {
        let outcome = run(&name, &runtime, move |top| async move {
            let (made, gate) = (make(&top)?, Gate::default());
            let waits = {
                let gate = gate.clone();
                top.register("waits", move |shard: Shard, args: (Edges<u64>, PhaseBarrier, Region, u64)| {
                    let gate = gate.clone();
                    async move {
                        gate.pass().await;
                        uses_all(shard, args).await
                    }
                })
            };
            let blocks: Vec<Region> = Partition::equal(made.tree, 4)?.iter().collect();
            let start = |s: u32| {
                let block = blocks[s as usize];
                ShardLaunch::new((made.ring, made.sum, block, 3)).writes(block, [X])
            };
            let first = top.launch_gang(&made.gang, &waits, start)?;
            top.destroy((made.ring, made.sum))?;
            let fails = top.register("fails", |shard: Shard, ()| async move {
                if shard.index() == 2 { Err(Error::user("no")) } else { Ok(()) }
            });
            let error =
                top.launch_gang(&made.gang, &fails, |_| ShardLaunch::new(()))?.all().await.expect_err("it fails");
            assert_eq!(error.origin(), &Error::user("no"));
            gate.open();
            assert_eq!(first.all().await?, expected(4, 10, 3));
            Ok(())
        });
        assert_eq!(outcome, Ok(()), "{name}");
    }
}

/// Values that tasks and operators have captured are dropped when the last launch that may use them has ended, and no earlier.
#[test]
fn memory_is_given_back_when_the_last_user_is_over() {
    let alone = |seed| (format!("one processor, seed {seed}"), Runtime::seeded(1, seed));
    for (name, runtime) in few(10).into_iter().chain((0..10).map(alone)) {
        let said = name.clone();
        let alone = name.contains("threads") || name.starts_with("one processor");
        let outcome = run(&name, &runtime, move |top| {
            let said = said.clone();
            async move {
                let gate = Gate::default();
                let captured: [Arc<()>; 4] = Default::default();
                let weak: Vec<Weak<()>> = captured.iter().map(Arc::downgrade).collect();
                let there = || weak.iter().map(|weak| weak.strong_count() > 0).collect::<Vec<_>>();
                let [by_task, by_inner, by_fold, by_other] = captured;
                let gang = top.gang("four", 4)?;
                let other = top.gang("other", 3)?;
                let task = {
                    let gate = gate.clone();
                    top.register("waits", move |_: Shard, ()| {
                        let (gate, captured) = (gate.clone(), by_task.clone());
                        async move {
                            gate.pass().await;
                            drop(captured);
                            Ok(())
                        }
                    })
                };
                let inner = top.register_inner("never runs", move |_: InnerTask, ()| {
                    let _ = &by_inner;
                    async { Ok(()) }
                });
                let folds = |captured: Arc<()>| {
                    let fold = move |a: &u64, b: &u64| {
                        let _ = &captured;
                        a + b
                    };
                    Operator::user("sum", fold)
                };
                top.phase_barrier("sum", &gang, PhaseOptions::all(&gang).reduce(folds(by_fold)))?;
                top.phase_barrier("sum", &other, PhaseOptions::all(&other).reduce(folds(by_other)))?;
                assert_eq!(there(), [true; 4], "{said}");
                let idle = top.register("idle", |_: Shard, ()| async { Ok(()) });
                let everywhere = top.gang("everywhere", 4 * top.processors())?;
                // Nothing that waits for it may hold up what it does not use.
                let waits = top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?;
                top.destroy((gang, task))?;
                top.destroy((other, inner))?;
                for _ in 0..3 {
                    top.launch_gang(&everywhere, &idle, |_| ShardLaunch::new(()))?.all().await?;
                }
                // Processors that have no shards may be told late.
                let becomes = async |expected: [bool; 4]| {
                    for _ in 0..100_000 {
                        if there() == expected {
                            break;
                        }
                        pause().await;
                    }
                    assert_eq!(there(), expected, "{said}");
                };
                // Another copy of the top-level task may have opened the gate of all shards.
                if alone {
                    becomes([true, false, true, false]).await;
                }
                gate.open();
                waits.all().await?;
                becomes([false; 4]).await;
                Ok(())
            }
        });
        assert_eq!(outcome, Ok(()), "{name}");
    }
}

/// A destructor that panics is an error of the run, and spoils nothing else.
#[test]
fn a_destructor_that_panics_is_an_error_of_the_run() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("never drop me");
        }
    }
    for (name, runtime) in [("threads", Runtime::threads(2)), ("seeded", Runtime::seeded(1, 3))] {
        let outcome = run(name, &runtime, move |top| async move {
            let made = make(&top)?;
            let bomb = Bomb;
            let task = top.register("bomb", move |_: Shard, ()| {
                let _ = &bomb;
                async { Ok(()) }
            });
            top.launch_gang(&made.gang, &task, |_| ShardLaunch::new(()))?.all().await?;
            top.destroy(task)?;
            let after = top.launch_gang(&made.gang, &made.task, |_| ShardLaunch::new(()))?.all().await?;
            assert_eq!(after, [0, 1, 2, 3]);
            Ok(())
        });
        let error = outcome.expect_err(name).to_string();
        assert_eq!(error, "task `bomb` panicked: never drop me", "{name}");
    }
}

/// One copy of the top-level task that destroys something else than the others is found.
#[test]
fn copies_that_destroy_different_objects_diverge() {
    fn destroy_one(top: &Top, which: impl Destroy) -> Result<(), Error> {
        top.destroy(which)
    }
    for seed in 0..20 {
        let begun = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let runtime = Runtime::seeded(3, seed).check(Check::ControlReplication);
        let outcome = run("seeded", &runtime, move |top| {
            let odd = begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 2;
            async move {
                let (one, two) = (top.gang("one", 1)?, top.gang("two", 2)?);
                destroy_one(&top, if odd { two } else { one })?;
                top.gang("three", 3).map(drop)
            }
        });
        let error = outcome.expect_err("they differ");
        let Error::Divergence { call: 2, expected, came, .. } = &error else { panic!("seed {seed}: {error}") };
        assert!(expected.contains("destruction of [gang `one` (object 1)]"), "seed {seed}: {error}");
        assert!(came.contains("destruction of [gang `two` (object 2)]"), "seed {seed}: {error}");
    }
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "destroy::on_processes",
        &[
            (
                "what_is_destroyed_while_launches_use_it_stays_until_they_are_over",
                what_is_destroyed_while_launches_use_it_stays_until_they_are_over,
            ),
            (
                "the_top_level_task_is_refused_what_it_has_destroyed",
                refused::the_top_level_task_is_refused_what_it_has_destroyed,
            ),
            (
                "shards_of_later_launches_are_refused_what_was_destroyed",
                refused::shards_of_later_launches_are_refused_what_was_destroyed,
            ),
            (
                "inner_tasks_use_what_was_there_when_they_were_launched",
                inner_tasks_use_what_was_there_when_they_were_launched,
            ),
            ("a_gang_takes_along_what_was_made_for_it", a_gang_takes_along_what_was_made_for_it),
            ("a_call_destroys_all_or_nothing", a_call_destroys_all_or_nothing),
            ("a_failure_does_not_reach_what_was_destroyed_before", a_failure_does_not_reach_what_was_destroyed_before),
            ("memory_is_given_back_when_the_last_user_is_over", memory_is_given_back_when_the_last_user_is_over),
        ],
    );
}
