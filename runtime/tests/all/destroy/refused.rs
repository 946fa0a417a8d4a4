//! Uses of what was destroyed, and of objects of another run, are refused.

use super::{Gate, Kind, Made, X, assert_destroyed, destroyed, few, make};
use crate::common::run;
use maniple_regions::{Rect, Region};
use maniple_runtime::{Error, InnerTask, PhaseOptions, Runtime, Shard, ShardLaunch, Top};

type UseOf<T> = (Kind, fn(&T, &Made) -> Result<(), Error>);

const BY_TOP: [UseOf<Top>; 8] = [
    (Kind::Gang, |top, made| top.launch_gang(&made.gang, &made.task, |_| ShardLaunch::new(())).map(drop)),
    (Kind::Task, |top, made| top.launch_gang(&made.gang, &made.task, |_| ShardLaunch::new(())).map(drop)),
    (Kind::Tree, |top, made| {
        let block = Region { rect: Rect::line(3, 5), ..made.tree };
        top.launch_gang(&made.gang, &made.task, |_| ShardLaunch::new(()).reads(block, [X])).map(drop)
    }),
    // The same launch as one that was planned before.
    (Kind::Tree, |top, made| {
        top.launch_gang(&made.gang, &made.task, |_| ShardLaunch::new(()).reads(made.tree, [X])).map(drop)
    }),
    (Kind::Gang, |top, made| top.placement(&made.gang).map(drop)),
    (Kind::Gang, |top, made| top.edges::<()>("mine", &made.gang, [(0, 0)], 1).map(drop)),
    (Kind::Gang, |top, made| top.phase_barrier("mine", &made.gang, PhaseOptions::all(&made.gang)).map(drop)),
    (Kind::Gang, |top, made| {
        top.choose_algorithm(
            &made.gang,
            |_| true,
            ("a", maniple_mapper::Kind::Scan),
            8,
            &[maniple_mapper::Algorithm::Direct],
        )
        .map(drop)
    }),
];

const BY_SHARD: [UseOf<Shard>; 5] = [
    (Kind::Edges, |shard, made| made.ring.producer(shard, (shard.index() + 1) % 4).map(drop)),
    (Kind::Edges, |shard, made| made.ring.incoming(shard).map(drop)),
    (Kind::Phase, |shard, made| made.sum.arriver(shard).map(drop)),
    (Kind::Phase, |shard, made| made.sum.waiter(shard).map(drop)),
    (Kind::Tree, |shard, made| shard.region(made.tree).map(drop)),
];

#[test]
pub(super) fn the_top_level_task_is_refused_what_it_has_destroyed() {
    for (name, runtime) in few(8) {
        for (nth, (kind, use_of)) in BY_TOP.into_iter().enumerate() {
            let at = format!("use {nth} of {kind:?}, {name}");
            for at_once in [true, false] {
                let said = at.clone();
                let outcome = run(&at, &runtime, move |top| {
                    let said = said.clone();
                    async move {
                        let gate = Gate::default();
                        let (made, place) = destroyed(&top, kind, at_once, &gate).await?;
                        for _ in 0..2 {
                            let error = use_of(&top, &made).expect_err(&said);
                            assert_destroyed(&said, &error, kind.object(), &place);
                            // Twice.
                            let error = kind.destroy(&top, &made).expect_err(&said);
                            assert_destroyed(&said, &error, kind.object(), &place);
                            assert!(error.to_string().starts_with("`Top::destroy`: "), "{error}");
                            gate.open();
                            // All processors are told what is free before this.
                            let other = make(&top)?;
                            top.launch_gang(&other.gang, &other.task, |_| ShardLaunch::new(()))?.all().await?;
                        }
                        Ok(())
                    }
                });
                assert_eq!(outcome, Ok(()), "{at}");
            }
        }
    }
}

#[test]
pub(super) fn shards_of_later_launches_are_refused_what_was_destroyed() {
    for (name, runtime) in few(8) {
        for (nth, (kind, use_of)) in BY_SHARD.into_iter().enumerate() {
            for (at_once, inner) in [(true, false), (false, false), (true, true), (false, true)] {
                let at = format!("use {nth} of {kind:?} by a shard, at once {at_once}, inner {inner}, {name}");
                let said = at.clone();
                let outcome = run(&at, &runtime, move |top| {
                    let said = said.clone();
                    async move {
                        let gate = Gate::default();
                        let (made, place) = destroyed(&top, kind, at_once, &gate).await?;
                        let late = top.register("late", move |shard: Shard, ()| async move { use_of(&shard, &made) });
                        let launched = match inner {
                            false => top.launch_gang(&made.gang, &late, |_| ShardLaunch::new(()))?,
                            true => {
                                let inner = top.register_inner("inner", move |inner: InnerTask, ()| async move {
                                    let late = inner.launch_gang(&made.gang, &late, |_| ShardLaunch::new(())).await?;
                                    late.all().await.map(drop)
                                });
                                let one = top.gang("one", 1)?;
                                top.launch_gang(&one, &inner, |_| ShardLaunch::new(()))?
                            }
                        };
                        let error = launched.all().await.expect_err(&said);
                        assert_destroyed(&said, &error, kind.object(), &place);
                        gate.open();
                        Ok(())
                    }
                });
                assert_eq!(outcome, Ok(()), "{at}");
            }
        }
    }
}

#[test]
fn objects_of_another_run_are_refused() {
    let (send, made) = std::sync::mpsc::channel();
    let kept = Runtime::threads(1).run(move |top| {
        let made = make(&top);
        let sent = made.map(|made| send.send(made).expect("it is waited for"));
        async move { sent }
    });
    kept.expect("nothing is wrong");
    let old = made.recv().expect("sent");
    let outcome = run("threads", &Runtime::threads(2), move |top| async move {
        let own = make(&top)?;
        for kind in [Kind::Gang, Kind::Task, Kind::Edges, Kind::Phase] {
            let error = kind.destroy(&top, &old).expect_err("of another run");
            assert!(error.to_string().contains("expected an object that this run has made"), "{error}");
        }
        top.launch_gang(&own.gang, &own.task, |_| ShardLaunch::new(()))?.all().await.map(drop)
    });
    assert_eq!(outcome, Ok(()));
}
