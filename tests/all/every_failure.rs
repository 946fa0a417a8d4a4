//! Every failure reaches somebody: the product of what fails, of who would learn of it, and of what was handled before,
//! against the rule. Whoever launched what failed fails with it, unless one of its own awaits has returned the failure or an
//! error that follows from it.

#![cfg(target_os = "linux")]

use crate::processes;
use maniple::collectives::Algorithm;
use maniple::halo::{Ghosts, Halo, HaloOptions, Halos};
use maniple::prelude::*;
use maniple::runtime::InnerTask;
use serde::{Deserialize, Serialize};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

const U: Field<i64> = Field::new(0, "u");
const V: Field<i64> = Field::new(1, "v");

/// What fails, in shard 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Fails {
    Leaf,
    /// The second of three points; the others succeed.
    Point,
    /// A shard of a gang that an inner task launches.
    Gang,
    /// An inner task that an inner task launches.
    Inner,
    /// A fill that waits for a barrier.
    Fill,
    /// A copy to a region of another size.
    Copy,
    /// A task that puts a value on an edge.
    Put,
    /// A task that makes the contribution to an allreduce.
    Contribution,
    /// The operator of an allreduce.
    Operator,
    /// The same, of a call in two halves, of which the first is given up.
    Halves,
    /// A task that writes a block whose halo is then sent.
    Halo,
}

const FAILS: [Fails; 11] = {
    use Fails::*;
    [Leaf, Point, Gang, Inner, Fill, Copy, Put, Contribution, Operator, Halves, Halo]
};

/// Who would learn of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Learns {
    Nobody,
    /// The shard awaits the future.
    Awaits,
    /// The shard polls the future once, and drops it.
    Drops,
    /// The shard awaits the future, but not long enough.
    TimesOut,
    /// A task of the shard that depends on it through this.
    Through(Way, Then),
    /// Shard 1 awaits a value of an edge. It is not its failure.
    OtherShard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Way {
    Future,
    Region,
    Edge,
    Collective,
    Barrier,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Then {
    Detached,
    Awaited,
}

const LEARNS: [Learns; 15] = {
    use Learns::*;
    use Then::*;
    use Way::*;
    [
        Nobody,
        Awaits,
        Drops,
        TimesOut,
        OtherShard,
        Through(Future, Detached),
        Through(Future, Awaited),
        Through(Region, Detached),
        Through(Region, Awaited),
        Through(Edge, Detached),
        Through(Edge, Awaited),
        Through(Collective, Detached),
        Through(Collective, Awaited),
        Through(Barrier, Detached),
        Through(Barrier, Awaited),
    ]
};

/// What else the shard has handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Handled {
    Nothing,
    /// Before, a failure with the same text.
    SameText,
    OtherText,
    /// Afterwards, a failure with the same text.
    SameTextLater,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Case {
    fails: Fails,
    learns: Learns,
    handled: Handled,
    /// It fails only after all else is launched.
    late: bool,
    /// The top-level task awaits each shard. If not it awaits none.
    watched: bool,
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for fails in FAILS {
        for learns in LEARNS {
            for handled in [Handled::Nothing, Handled::SameText, Handled::OtherText, Handled::SameTextLater] {
                for late in [true, false] {
                    // A wait for what has failed already ends at once.
                    if matches!(learns, Learns::TimesOut | Learns::Drops) && !late {
                        continue;
                    }
                    all.extend([true, false].map(|watched| Case { fails, learns, handled, late, watched }));
                }
            }
        }
    }
    all
}

const TEXT: &str = "no input file";
const OTHER: &str = "no output file";
/// What a copy of two values to a region of one says.
const COPY: &str = "expected regions with the same number of points, found [0, 2) with 2 and [0, 1) with 1";

fn bomb(_: Arg<()>) {
    panic!("{TEXT}")
}
fn other_bomb(_: Arg<()>) {
    panic!("{OTHER}")
}

/// What the shards use.
#[derive(Clone, Serialize, Deserialize)]
struct Tools {
    case: Case,
    one: Region,
    two: Region,
    gate: Edges,
    own: Edges<i64>,
    across: Edges<i64>,
    phase: PhaseBarrier,
    /// Of shard 0 alone, for a failure of its own.
    failing: PhaseBarrier,
    sum: Collective<i64>,
    product: Collective<i64>,
    broken: Collective<i64>,
    halo: Halo<i64, 1>,
}

/// A shard, or an inner task with tasks for a gang of one shard: one that fails, and an inner task that fails.
enum Actor<'a> {
    Shard,
    Inner(&'a InnerTask, Gang, [ShardTask<(), ()>; 2]),
}

/// The texts of failures that awaits of a shard have returned.
type Told = Vec<String>;

fn told<T>(outcome: Result<T, Error>) -> Told {
    match outcome {
        Ok(_) => Vec::new(),
        Err(e) => match e.origin() {
            Error::Panicked { message, .. } => vec![message.clone()],
            other => vec![other.to_string()],
        },
    }
}

/// Launches what depends on the future, and learns of its failure or not.
async fn learn<T: Clone + Send + 'static>(
    shard: &Shard,
    tools: &Tools,
    mut future: TaskFuture<T>,
    open: impl AsyncFnOnce(),
) -> Result<Told, Error> {
    fn put<T>(mut to: Put<i64>, _: Arg<T>) {
        to[0] = 1;
    }
    fn touch<T>(mut u: ReadWrite<i64>, _: Arg<T>) {
        u.as_mut_slice().fill(7);
    }
    let Learns::Through(way, then) = tools.case.learns else {
        return Ok(match tools.case.learns {
            Learns::Awaits => {
                open().await;
                told(if tools.case.watched { future.await } else { future.take().await })
            }
            Learns::Drops => {
                assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut future).poll(cx).is_pending())).await);
                drop(future);
                open().await;
                Vec::new()
            }
            Learns::TimesOut => {
                let outcome = shard.timeout(Duration::ZERO, &mut future).await;
                assert!(matches!(outcome, Err(Error::TimedOut { .. })), "{:?}", told(outcome));
                open().await;
                Vec::new()
            }
            Learns::OtherShard => {
                let to = tools.across.producer(shard, 1)?;
                shard.launch(put::<T>, (to.put(1), (&future).into())).go()?.detach();
                open().await;
                Vec::new()
            }
            _ => {
                drop(future);
                open().await;
                Vec::new()
            }
        });
    };
    let dependent = match way {
        Way::Future => shard.launch(|_: Arg<T>| (), ((&future).into(),)).go()?,
        Way::Region => {
            let two = shard.region(tools.two)?;
            shard.launch(touch::<T>, (two.read_write(V), (&future).into())).go()?.detach();
            shard.launch(|_: Read<i64>| (), (two.read(V),)).go()?
        }
        Way::Edge => {
            let (to, from) = (tools.own.producer(shard, 0)?, tools.own.consumer(shard, 0)?);
            shard.launch(put::<T>, (to.put(1), (&future).into())).go()?.detach();
            shard.launch(|_: Get<i64>| (), (from.get(),)).go()?
        }
        Way::Collective => {
            let value = shard.launch(|_: Arg<T>| 1, ((&future).into(),)).go()?;
            let sum = tools.sum.call(shard, &value)?;
            drop(value);
            open().await;
            return match then {
                Then::Detached => Ok(Vec::new()),
                Then::Awaited => Ok(told(sum.await)),
            };
        }
        Way::Barrier => {
            let (arrive, wait) = (tools.phase.arriver(shard)?, tools.phase.waiter(shard)?);
            shard.launch(|_: Arg<T>| (), ((&future).into(),)).arrive(&arrive).go()?.detach();
            match then {
                Then::Detached => shard.launch(|| (), ()).wait(&wait).go()?,
                Then::Awaited => {
                    drop(future);
                    open().await;
                    return Ok(told(shard.wait(&wait).await));
                }
            }
        }
    };
    drop(future);
    open().await;
    match then {
        Then::Detached => Ok(Vec::new()),
        Then::Awaited => Ok(told(dependent.await)),
    }
}

/// The first shard: something fails, and perhaps something is handled before or afterwards.
async fn first(shard: &Shard, actor: Actor<'_>, tools: &Tools) -> Result<Told, Error> {
    let case = tools.case;
    let same_text = async || -> Result<Told, Error> {
        Ok(match &actor {
            Actor::Inner(inner, gang, [task, _]) => {
                told(inner.launch_gang(gang, task, |_| ShardLaunch::new(())).await?.all().await)
            }
            Actor::Shard if case.fails == Fails::Copy => {
                told(shard.copy(shard.region(tools.two)?.read(U), shard.region(tools.one)?.write(U)).go()?.await)
            }
            Actor::Shard => told(shard.launch(bomb, (().into(),)).go()?.await),
        })
    };
    let mut all = match case.handled {
        Handled::Nothing | Handled::SameTextLater => Vec::new(),
        Handled::SameText => same_text().await?,
        Handled::OtherText => told(shard.launch(other_bomb, (().into(),)).go()?.await),
    };
    all.extend(fails(shard, &actor, tools).await?);
    if case.handled == Handled::SameTextLater {
        all.extend(same_text().await?);
    }
    Ok(all)
}

async fn fails(shard: &Shard, actor: &Actor<'_>, tools: &Tools) -> Result<Told, Error> {
    let case = tools.case;
    if let Actor::Inner(inner, gang, tasks) = actor {
        let task = &tasks[usize::from(case.fails == Fails::Inner)];
        let done = inner.launch_gang(gang, task, |_| ShardLaunch::new(())).await?;
        return learn(shard, tools, done.get(0)?.clone(), async || ()).await;
    }
    let (gate, opens) = (tools.gate.consumer(shard, 0)?, tools.gate.producer(shard, 0)?);
    if !case.late {
        shard.arrive(opens.ready());
    }
    let open = async || {
        if case.late {
            shard.arrive(opens.ready());
        }
    };
    let one = shard.region(tools.one)?;
    let when = shard.launch(|| (), ()).wait(gate.ready()).go()?;
    let now = || -> Input<()> { (&when).into() };
    // An early failure is there before anybody depends on it.
    let settle = async || {
        if !case.late {
            shard.window(0).await;
        }
    };
    match case.fails {
        Fails::Leaf => {
            let future = shard.launch(bomb, (now(),)).go()?;
            settle().await;
            learn(shard, tools, future, open).await
        }
        Fails::Point => {
            fn point(at: Arg<usize>, _: Arg<()>) {
                if *at == 1 {
                    panic!("{TEXT}")
                }
            }
            let points = shard.index_launch(3, point, |at| (at.into(), now())).go()?;
            settle().await;
            learn(shard, tools, points.get(1)?.clone(), open).await
        }
        Fails::Gang | Fails::Inner => unreachable!("an inner task"),
        Fails::Fill => {
            let (arrive, wait) = (tools.failing.arriver(shard)?, tools.failing.waiter(shard)?);
            shard.launch(bomb, (now(),)).arrive(&arrive).go()?.detach();
            let future = shard.fill(one.write(U), 3).wait(&wait).go()?;
            settle().await;
            learn(shard, tools, future, open).await
        }
        Fails::Copy => {
            fn hold(_: ReadWrite<i64>, _: Arg<()>) {}
            let two = shard.region(tools.two)?;
            shard.launch(hold, (two.read_write(U), now())).go()?.detach();
            let future = shard.copy(two.read(U), one.write(U)).go()?;
            settle().await;
            learn(shard, tools, future, open).await
        }
        Fails::Put => {
            fn put(_: Put<i64>, _: Arg<()>) {
                panic!("{TEXT}")
            }
            let (to, from) = (tools.own.producer(shard, 0)?, tools.own.consumer(shard, 0)?);
            shard.launch(put, (to.put(1), now())).go()?.detach();
            let future = shard.launch(|_: Get<i64>| (), (from.get(),)).go()?;
            settle().await;
            learn(shard, tools, future, open).await
        }
        Fails::Contribution => {
            let value = shard.launch(|_: Arg<()>| -> i64 { panic!("{TEXT}") }, (now(),)).go()?;
            let future = tools.product.call(shard, &value)?;
            drop(value);
            settle().await;
            learn(shard, tools, future, open).await
        }
        Fails::Operator => {
            let value = shard.launch(|_: Arg<()>| 1, (now(),)).go()?;
            let future = tools.broken.call(shard, &value)?;
            settle().await;
            learn(shard, tools, future, open).await
        }
        Fails::Halves => {
            let value = shard.launch(|_: Arg<()>| 1, (now(),)).go()?;
            tools.broken.contribute(shard, &value)?.detach();
            let future = tools.broken.receive(shard)?;
            settle().await;
            learn(shard, tools, future, open).await
        }
        Fails::Halo => {
            fn write(_: Write<i64>, _: Arg<()>) {
                panic!("{TEXT}")
            }
            let (ends, block) = (tools.halo.clone().join(shard)?, shard.region(tools.halo.block())?);
            shard.launch(write, (block.write(U), now())).go()?.detach();
            ends.send(block.read(U))?;
            let future = shard.launch(|_: Ghosts<i64>| (), (ends.ghosts(),)).go()?;
            settle().await;
            learn(shard, tools, future, open).await
        }
    }
}

/// The second shard takes part, and handles what it learns of.
async fn takes_part(shard: &Shard, tools: &Tools) -> Result<Told, Error> {
    let mut all = Vec::new();
    match tools.case.fails {
        Fails::Contribution => all.extend(told(tools.product.call(shard, 1)?.await)),
        Fails::Operator => all.extend(told(tools.broken.call(shard, 1)?.await)),
        Fails::Halves => {
            tools.broken.contribute(shard, 1)?.detach();
            all.extend(told(tools.broken.receive(shard)?.await));
        }
        _ => {}
    }
    match tools.case.learns {
        Learns::Through(Way::Collective, _) => all.extend(told(tools.sum.call(shard, 1)?.await)),
        Learns::OtherShard => all.extend(told(shard.wait(tools.across.consumer(shard, 0)?.ready()).await)),
        _ => {}
    }
    Ok(all)
}

type Outcome = Result<Told, String>;

fn outcome(result: Result<Told, Error>) -> Outcome {
    result.map_err(|e| told::<()>(Err(e)).concat())
}

/// Runs a case. Gives the outcomes of both shards if the top-level task awaits them.
fn run(runtime: Runtime, case: Case) -> Result<Vec<Outcome>, Error> {
    let top = move |top: Top| async move {
        let gang = top.gang("both", 2)?;
        let one = top.region_tree("one", Rect::line(0, 1), &[U.info()])?;
        let two = top.region_tree("two", Rect::line(0, 2), &[U.info(), V.info()])?;
        let ring = top.region_tree("ring", Rect::line(0, 2), &[U.info()])?;
        let blocks = Partition::blocks(ring, &[2, 0])?;
        let halos = Halos::<i64, 1>::new(&top, "halo", &gang, &blocks, HaloOptions::new(1).periodic([true]))?;
        let allreduce = |name: &str, operator| Collective::allreduce(operator).make(&top, &gang, name);
        let broken =
            Operator::user("broken", |_: &i64, _: &i64| -> i64 { panic!("{TEXT}") }).associative().commutative();
        let own = || PhaseOptions::between([0], [0]);
        let tools = Tools {
            case,
            one,
            two,
            gate: top.edges("gate", &gang, [(0, 0)], 1)?,
            own: top.edges("own", &gang, [(0, 0)], 2)?,
            across: top.edges("across", &gang, [(0, 1)], 1)?,
            phase: top.phase_barrier("phase", &gang, own())?,
            failing: top.phase_barrier("failing", &gang, own())?,
            sum: allreduce("sum", Operator::sum())?,
            product: allreduce("product", Operator::product())?,
            broken: allreduce("broken", broken)?,
            halo: halos.of(0),
        };
        let task = if matches!(case.fails, Fails::Gang | Fails::Inner) {
            let single = top.gang("single", 1)?;
            let fails = top.register("fails", async |_: Shard, ()| -> Result<(), Error> { panic!("{TEXT}") });
            let inner = top.register_inner("inner", async |_: InnerTask, ()| -> Result<(), Error> { panic!("{TEXT}") });
            top.register_inner("main", move |inner_task: InnerTask, tools: Tools| {
                let actor = (single, [fails, inner]);
                async move {
                    match inner_task.index() {
                        0 => first(&inner_task, Actor::Inner(&inner_task, actor.0, actor.1), &tools).await,
                        _ => takes_part(&inner_task, &tools).await,
                    }
                }
            })
        } else {
            top.register("main", |shard: Shard, tools: Tools| async move {
                match shard.index() {
                    0 => first(&shard, Actor::Shard, &tools).await,
                    _ => takes_part(&shard, &tools).await,
                }
            })
        };
        let done = top.launch_gang(&gang, &task, |s| {
            let launch = ShardLaunch::new(tools.clone());
            match s {
                0 => launch.writes(one, [U]).writes(two, [U, V]).writes(ring, [U]),
                _ => launch,
            }
        })?;
        let mut outcomes = Vec::new();
        if case.watched {
            for shard in done.iter() {
                outcomes.push(outcome(shard.clone().await));
            }
        }
        Ok(outcomes)
    };
    runtime.run(top).map(|(outcomes, _)| outcomes)
}

/// What the rule says of both shards.
fn expected(case: Case) -> [Outcome; 2] {
    let text = |text: &str| vec![text.to_string()];
    let failure = if case.fails == Fails::Copy { COPY } else { TEXT };
    let (before, after) = match case.handled {
        Handled::Nothing => (Vec::new(), Vec::new()),
        Handled::SameText => (text(failure), Vec::new()),
        Handled::OtherText => (text(OTHER), Vec::new()),
        Handled::SameTextLater => (Vec::new(), text(failure)),
    };
    let learns = matches!(case.learns, Learns::Awaits | Learns::Through(_, Then::Awaited));
    let first = if learns { Ok([before, text(failure), after].concat()) } else { Err(failure.into()) };
    let mut second = Vec::new();
    if matches!(case.fails, Fails::Contribution | Fails::Operator | Fails::Halves) {
        second.extend(text(failure));
    }
    if matches!(case.learns, Learns::OtherShard | Learns::Through(Way::Collective, _)) {
        second.extend(text(failure));
    }
    [first, Ok(second)]
}

fn check(at: &str, runtime: Runtime, case: Case) {
    let came = run(runtime, case);
    let [own, others] = expected(case);
    let right = match &came {
        Ok(outcomes) if case.watched => *outcomes == [own.clone(), others.clone()],
        Ok(_) => own.is_ok(),
        Err(e) => !case.watched && own.is_err() && outcome(Err(e.clone())) == own,
    };
    assert!(right, "{case:?} on {at}:\n  came {came:?}\n  expected {own:?}, {others:?}");
}

/// The panics on purpose would hide what tests say.
fn silent() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        let on_purpose = text.is_some_and(|text| [TEXT, OTHER, COPY].contains(&text));
        if !on_purpose {
            print(info);
        }
    }));
}

#[test]
fn every_failure_reaches_somebody_once() {
    silent();
    for (seed, case) in (0..).zip(cases()) {
        check("two threads", Runtime::threads(2), case);
        check(&format!("seed {seed}"), Runtime::seeded(1 + (seed % 3) as u32, seed), case);
    }
}

/// How shard 1 learns that a task of shard 0 has failed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Meets {
    Edge,
    Barrier,
    Allreduce,
    TwoLevel,
}

/// A detached task of shard 0 fails, so both shards fail. The top-level task awaits shard 1 alone: it has learned of the
/// failure, as the failure of shard 1 follows from it.
fn effect(at: &str, runtime: Runtime, meets: Meets) {
    let run = runtime.run(move |top| async move {
        let gang = top.gang("both", 2)?;
        let edges = top.edges::<i64>("edge", &gang, [(0, 1)], 1)?;
        let phase = top.phase_barrier("phase", &gang, PhaseOptions::between([0], [1]))?;
        let sum = Collective::allreduce(Operator::<i64>::sum());
        let sum = match meets {
            Meets::TwoLevel => sum.algorithm(Algorithm::TwoLevel),
            _ => sum,
        };
        let sum = sum.make(&top, &gang, "sum")?;
        let task = top.register("main", move |shard: Shard, ()| async move {
            match (shard.index(), meets) {
                (0, Meets::Edge) => {
                    let put = |mut to: Put<i64>| -> () {
                        to[0] = 1;
                        panic!("{TEXT}")
                    };
                    shard.launch(put, (edges.producer(&shard, 1)?.put(1),)).go()?.detach();
                }
                (0, Meets::Barrier) => {
                    let arriver = phase.arriver(&shard)?;
                    shard.launch(bomb, (().into(),)).arrive(&arriver).go()?.detach();
                }
                (0, _) => {
                    let value = shard.launch(|| -> i64 { panic!("{TEXT}") }, ()).go()?;
                    sum.call(&shard, &value)?.detach();
                }
                (_, Meets::Edge) => shard.wait(edges.consumer(&shard, 0)?.ready()).await?,
                (_, Meets::Barrier) => shard.wait(&phase.waiter(&shard)?).await?,
                (..) => drop(sum.call(&shard, 1)?.await?),
            }
            Ok(())
        });
        let done = top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?;
        Ok(told(done.get(1)?.clone().await))
    });
    assert_eq!(run.map(|(told, _)| told), Ok(vec![TEXT.to_string()]), "{meets:?} on {at}");
}

const MEETS: [Meets; 4] = [Meets::Edge, Meets::Barrier, Meets::Allreduce, Meets::TwoLevel];

#[test]
fn whoever_learns_of_an_effect_has_learned_of_its_cause() {
    silent();
    for meets in MEETS {
        for seed in 0..20 {
            effect(&format!("seed {seed}"), Runtime::seeded(1 + (seed % 3) as u32, seed), meets);
        }
        (1..=2).for_each(|workers| effect("threads", Runtime::threads(workers), meets));
    }
}

/// An error of an earlier run is no failure of this one until it is returned.
#[test]
fn an_error_of_another_run_is_a_failure_of_its_own() {
    silent();
    async fn fails(shard: Shard, (): ()) -> Result<(), Error> {
        let value = shard.launch(bomb, (().into(),)).go()?;
        shard.launch(|_: Arg<()>| (), ((&value).into(),)).go()?.await
    }
    let error = Runtime::threads(1)
        .run(|top| async move {
            let task = top.register("fails", fails);
            top.launch_gang(&top.gang("one", 1)?, &task, |_| ShardLaunch::new(()))?.all().await
        })
        .expect_err("it fails");
    // The first failure of the second run would have the same number.
    let again = error.clone();
    let run = Runtime::threads(1).run(move |top| {
        let again = again.clone();
        async move {
            let task = top.register("again", move |shard: Shard, ()| {
                let again = again.clone();
                async move {
                    told(fails(shard, ()).await);
                    Err::<(), Error>(again)
                }
            });
            let (gang, other) = (top.gang("one", 1)?, top.register("fails", fails));
            told(top.launch_gang(&gang, &other, |_| ShardLaunch::new(()))?.all().await);
            // Each time that it is returned it is another failure.
            told(top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.detach();
            Ok(())
        }
    });
    assert_eq!(run.map(drop), Err(error));
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn on_processes() {
    silent();
    processes::on_processes("every_failure::on_processes", &[(2, 1)], |_| {
        silent();
        for case in cases() {
            check("two processes", Runtime::processes(2).workers(1), case);
        }
        MEETS.into_iter().for_each(|meets| effect("two processes", Runtime::processes(2).workers(1), meets));
    });
}
