//! How shards begin, yield and end: what one of them does wrong ends it alone, and its processor goes on.

mod common;

use common::{runtimes, watched};
use maniple_runtime::{Error, Parent, PhaseBarrier, PhaseOptions, Shard, Start};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_shard_that_yields_lets_leaf_tasks_run() {
    for (at, runtime) in runtimes(5) {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 3)?;
                let task = top.task("yields", |shard: Shard, _: ()| async move {
                    let leaf = shard.launch(|| 1i64, ()).go()?;
                    let begun = Instant::now();
                    while !leaf.is_settled() {
                        // On threads another processor may have to be given a core first.
                        if begun.elapsed() > Duration::from_secs(5) {
                            return Err(Error::user("the leaf task does not run"));
                        }
                        shard.yield_now().await;
                    }
                    leaf.await
                });
                top.launch(&gang, &task, |_| Start::new(()))?.all().await
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
                let task = top.task("alternates", move |shard: Shard, _: ()| {
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
                top.launch(&gang, &task, |_| Start::new(()))?.all().await
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
                let task = top.task("refuses", move |shard: Shard, _: ()| {
                    assert!(shard.index() != 1, "shard 1 refuses");
                    wait_for_all(shard, all)
                });
                let shards = top.launch(&gang, &task, |_| Start::new(()))?;
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
            let Some(error) = error else { panic!("{at}: shard {shard} does not know of the failure") };
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
                    let task = top.task("decodes", move |shard: Shard, _: Odd| wait_for_all(shard, all));
                    let parent = top.parent("parent", move |parent: Parent, _: ()| async move {
                        let start = |s| Start::new(Odd(if s == 3 { bad } else { 0 }));
                        parent.launch_gang(&gang, &task, start).await?.all().await
                    });
                    top.single(&parent, || Start::new(())).await
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
        assert!(refused > 0);
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
fn a_panic_in_the_destructor_of_a_result_that_nobody_kept_is_an_error_of_the_run() {
    for (at, runtime) in runtimes(10) {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 2)?;
                let task = top.task("grim", |shard: Shard, _: ()| async move { Ok(Grim(shard.index())) });
                drop(top.launch(&gang, &task, |_| Start::new(()))?);
                Ok(())
            })
        });
        let e = outcome.map(|_| ()).expect_err(&at);
        let Error::Panicked { message, .. } = e.origin() else { panic!("{at}: {e}") };
        assert!(message.starts_with("dropped"), "{at}: {e}");
    }
}
