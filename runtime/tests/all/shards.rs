//! How shards begin, yield and end: what one of them does wrong ends it alone, and its processor goes on.

use crate::common;
use crate::common::{runtimes, watched};
use maniple_runtime::replay::{MadeChains, Replay, ReplayCx, ReplaySpec, RunningValue, Subtask};
use maniple_runtime::{Error, InnerTask, PhaseBarrier, PhaseOptions, Resolver, Shard, ShardLaunch, TaskFuture};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a_shard_that_yields_lets_leaf_tasks_run() {
    for (at, runtime) in runtimes(5) {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 3)?;
                let task = top.register("yields", |shard: Shard, _: ()| async move {
                    let leaf = shard.launch(|| 1i64, ()).go()?;
                    // Without end, if the leaf task does not run.
                    while !leaf.is_settled() {
                        shard.yield_now().await;
                    }
                    leaf.await
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            })
        });
        assert_eq!(outcome.map(|(v, _)| v).map_err(|e| e.to_string()), Ok(vec![1; 3]), "{at}");
    }
}

#[test]
fn shards_that_yield_alternate() {
    for (at, runtime) in runtimes(0).into_iter().take(1) {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 2)?;
                let turns = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
                let task = top.register("alternates", move |shard: Shard, _: ()| {
                    let turns = turns.clone();
                    async move {
                        let (mine, other) = (shard.index() as usize, 1 - shard.index() as usize);
                        while turns[other].load(Ordering::Relaxed) == 0 {
                            turns[mine].store(1, Ordering::Relaxed);
                            shard.yield_now().await;
                        }
                        let mut most = 0;
                        for turn in 1..1000 {
                            turns[mine].store(turn, Ordering::Relaxed);
                            most = most.max(turn.abs_diff(turns[other].load(Ordering::Relaxed)));
                            shard.yield_now().await;
                        }
                        turns[mine].store(1000, Ordering::Relaxed);
                        Ok(most)
                    }
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            })
        });
        let most = outcome.map(|(v, _)| v).unwrap();
        assert!(most.iter().all(|&m| m <= 2), "{at}: one shard was ahead of the other by {most:?} turns");
    }
}

/// Waits for a barrier that only the shard that fails has not arrived at.
async fn wait_for_all(shard: Shard, all: PhaseBarrier) -> Result<i64, Error> {
    let (arriver, waiter) = (all.arriver(&shard)?, all.waiter(&shard)?);
    shard.arrive(&arriver);
    shard.wait(&waiter).await?;
    Ok(0)
}

#[test]
fn a_panic_before_the_first_await_of_a_shard_ends_the_shard() {
    for (at, runtime) in runtimes(10) {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 4)?;
                let all = top.phase_barrier("everybody", &gang, PhaseOptions::all(&gang))?;
                let task = top.register("refuses", move |shard: Shard, _: ()| {
                    assert!(shard.index() != 1, "shard 1 refuses");
                    wait_for_all(shard, all)
                });
                let shards = top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?;
                let mut errors = Vec::new();
                for shard in shards.iter() {
                    errors.push(shard.clone().await.err());
                }
                Ok(errors)
            })
        });
        // Each shard's error was looked at, and the program itself is content.
        let (errors, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
        for (shard, error) in errors.iter().enumerate() {
            let Some(error) = error else { panic!("{at}: shard {shard} does not know about the failure") };
            let Error::Panicked { place, message } = error.origin() else { panic!("{at}: {error}") };
            assert_eq!((&*place.task, place.shard, &**message), ("refuses", Some(1), "shard 1 refuses"), "{at}");
        }
    }
}

/// What cannot be decoded where it is 1, and panics where it is 2.
#[derive(serde::Serialize, Clone, Copy)]
struct Odd(u32);

impl<'de> serde::Deserialize<'de> for Odd {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match u32::deserialize(d)? {
            1 => Err(serde::de::Error::custom("no ones")),
            2 => panic!("no twos"),
            other => Ok(Self(other)),
        }
    }
}

#[test]
fn an_argument_that_cannot_be_decoded_ends_the_shard_and_poisons_what_it_owes() {
    for bad in [1, 2] {
        let mut refused = 0;
        for (at, runtime) in runtimes(20) {
            let outcome = watched(&at, || {
                runtime.run(move |top| async move {
                    let gang = top.gang("all", 4)?;
                    let all = top.phase_barrier("everybody", &gang, PhaseOptions::all(&gang))?;
                    let task = top.register("decodes", move |shard: Shard, _: Odd| wait_for_all(shard, all));
                    let parent = top.register_inner("parent", move |parent: InnerTask, _: ()| async move {
                        let start = |s| ShardLaunch::new(Odd(if s == 3 { bad } else { 0 }));
                        parent.launch_gang(&gang, &task, start).await?.all().await
                    });
                    top.run_inner(&parent, || ShardLaunch::new(())).await
                })
            });
            // Within a node values are moved.
            let Err(e) = outcome else { continue };
            refused += 1;
            match e.origin() {
                Error::Encoding { .. } if bad == 1 => {}
                Error::Panicked { place, message } if bad == 2 => {
                    assert_eq!((&*place.task, place.shard, &**message), ("decodes", Some(3), "no twos"), "{at}");
                }
                other => panic!("{at}: {other}"),
            }
        }
        assert!(refused > 0 || common::processes::is_one());
    }
}

/// A result that cannot be dropped.
#[derive(serde::Serialize, serde::Deserialize, Clone)]
struct Grim(u32);

impl Drop for Grim {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped {}", self.0);
    }
}

#[test]
fn what_a_task_captured_and_returned_goes_with_it_though_its_memory_stays() {
    for (at, runtime) in runtimes(5) {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 2)?;
                let task = top.register("counts", |shard: Shard, _: ()| async move {
                    let probe = Arc::new(());
                    for round in 0..3 {
                        let (one, other) = (probe.clone(), probe.clone());
                        let kept = shard.launch(move || one.clone(), ()).go()?;
                        shard.launch(move || vec![other.clone(); round], ()).go()?.detach();
                        drop(kept.await?);
                    }
                    // Tasks of one priority may run in any order: a hundred others leave none behind.
                    for _ in 0..100 {
                        shard.launch(|| (), ()).go()?.await?;
                    }
                    Ok(Arc::strong_count(&probe) as u64)
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            })
        });
        assert_eq!(outcome.map(|(v, _)| v).map_err(|e| e.to_string()), Ok(vec![1; 2]), "{at}");
    }
}

#[test]
fn a_panic_in_the_destructor_of_a_result_that_nobody_kept_is_an_error_of_the_run() {
    for (at, runtime) in runtimes(10) {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 2)?;
                let task = top.register("grim", |shard: Shard, _: ()| async move { Ok(Grim(shard.index())) });
                drop(top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?);
                Ok(())
            })
        });
        let e = outcome.map(|_| ()).expect_err(&at);
        let Error::Panicked { message, .. } = e.origin() else { panic!("{at}: {e}") };
        assert!(message.starts_with("dropped"), "{at}: {e}");
    }
}

/// A collective made for one test: chains as `subtasks` says, with a value whose destructor panics if `grim`.
struct Odds {
    subtasks: fn(u32) -> Vec<Subtask>,
    slots: u32,
    grim: bool,
}

impl ReplaySpec for Odds {
    fn name(&self) -> &str {
        "odds"
    }
    fn slots(&self) -> u32 {
        self.slots
    }
    fn cells(&self, _: u32) -> u32 {
        2
    }
    fn cell_bytes(&self) -> usize {
        1
    }
    fn chains(&self, shards: &[u32], _: bool) -> MadeChains {
        let subtasks = shards.iter().map(|shard| (self.subtasks)(*shard)).collect();
        (subtasks, Box::new(OddChains { calls: shards.iter().map(|_| None).collect(), grim: self.grim }))
    }
}

struct OddChains {
    calls: Vec<Option<Resolver<()>>>,
    grim: bool,
}

struct OddValue(bool);

impl RunningValue for OddValue {
    fn size(&self, _: u16) -> usize {
        1
    }
    fn bytes(&self, _: u16) -> &[u8] {
        &[1]
    }
    fn combine(&mut self, _: u16, _: u8, _: &[u8]) {}
}

impl Drop for OddValue {
    fn drop(&mut self) {
        assert!(!self.0 || std::thread::panicking(), "dropped a value");
    }
}

impl Replay for OddChains {
    type Running<'a> = OddValue;

    fn running(&mut self, _: u32) -> OddValue {
        OddValue(self.grim)
    }
    fn begin(&mut self, chain: u32, _: impl FnOnce() -> u32) -> Result<bool, Error> {
        Ok(self.calls[chain as usize].is_some())
    }
    fn end(&mut self, chain: u32, outcome: Result<(), Box<Error>>, cx: &mut ReplayCx<'_>) -> bool {
        if let Some(call) = self.calls[chain as usize].take() {
            cx.resolve(chain, &call, outcome.map_err(|e| *e));
        }
        false
    }
}

/// Makes an `Odds` for two shards and has each of them call it once.
fn odds(subtasks: fn(u32) -> Vec<Subtask>, grim: bool, check: impl Fn(&str, Result<(), Error>)) {
    for (at, runtime) in runtimes(10) {
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", 2)?;
                let odds = top.replayed(&gang, Arc::new(Odds { subtasks, slots: 1, grim }))?;
                let task = top.register("calls", move |shard: Shard, _: ()| async move {
                    let (resolver, over) = TaskFuture::pending();
                    shard.replay(
                        odds,
                        |_, _| Ok(None),
                        |chains: &mut OddChains, (position, _), cx| {
                            chains.calls[position as usize] = Some(resolver);
                            cx.submit(chains, position);
                        },
                    )?;
                    over.await
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await.map(drop)
            })
        });
        check(&at, outcome.map(drop));
    }
}

/// Each of two shards gives the other its value.
fn exchange(shard: u32) -> Vec<Subtask> {
    vec![Subtask::Update { peer: 1 - shard, at: 0, part: 0 }, Subtask::Read { peer: 1 - shard, at: 0, part: 0, how: 0 }]
}

#[test]
fn a_chain_that_panics_again_while_it_hands_its_error_on_fails() {
    odds(exchange, false, |at, outcome| assert!(outcome.is_ok(), "{at}: {outcome:?}"));
    odds(exchange, true, |at, outcome| {
        let e = outcome.expect_err(at);
        let Error::Panicked { message, .. } = e.origin() else { panic!("{at}: {e}") };
        assert_eq!(message, "dropped a value", "{at}");
    });
}

#[test]
fn a_chain_that_names_what_is_not_there_is_refused() {
    let chains: [fn(u32) -> Vec<Subtask>; 4] = [
        |_| vec![Subtask::Update { peer: 2, at: 0, part: 0 }],
        |_| vec![Subtask::Update { peer: 1, at: 2, part: 0 }],
        |s| vec![Subtask::Read { peer: s, at: u16::MAX, part: 0, how: 0 }],
        |s| vec![Subtask::Update { peer: 1 - s, at: 0, part: 0 }; 3],
    ];
    for chain in chains {
        odds(chain, false, |at, outcome| {
            // The node of the shard says so. If others know of no error, they differ from it.
            let e = outcome.expect_err(at);
            assert!(e.to_string().contains("the chain of shard"), "{at}: {e}");
        });
    }
}

#[test]
fn more_slots_than_can_be_numbered_are_refused() {
    for (at, runtime) in runtimes(1) {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 2)?;
                top.replayed(&gang, Arc::new(Odds { subtasks: exchange, slots: 1 << 31, grim: false })).map(drop)
            })
        });
        let e = outcome.map(drop).expect_err(&at);
        assert!(e.to_string().contains("2^31"), "{at}: {e}");
    }
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "shards::on_processes",
        &[
            ("a_shard_that_yields_lets_leaf_tasks_run", a_shard_that_yields_lets_leaf_tasks_run),
            (
                "a_panic_before_the_first_await_of_a_shard_ends_the_shard",
                a_panic_before_the_first_await_of_a_shard_ends_the_shard,
            ),
            (
                "an_argument_that_cannot_be_decoded_ends_the_shard_and_poisons_what_it_owes",
                an_argument_that_cannot_be_decoded_ends_the_shard_and_poisons_what_it_owes,
            ),
            (
                "what_a_task_captured_and_returned_goes_with_it_though_its_memory_stays",
                what_a_task_captured_and_returned_goes_with_it_though_its_memory_stays,
            ),
            (
                "a_panic_in_the_destructor_of_a_result_that_nobody_kept_is_an_error_of_the_run",
                a_panic_in_the_destructor_of_a_result_that_nobody_kept_is_an_error_of_the_run,
            ),
            ("more_slots_than_can_be_numbered_are_refused", more_slots_than_can_be_numbered_are_refused),
        ],
    );
}
