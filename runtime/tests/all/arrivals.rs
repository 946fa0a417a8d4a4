//! Arrivals in any order, arrivals of tasks that fail, folds that panic, and launches that are not made.

use crate::common;
use crate::common::size::part;
use crate::common::{any_virtual, run};
use maniple_mapper::{LeafInput, LeafOutput, Mapper, PlaceShardsInput, Placement};
use maniple_regions::{Coherence, Field, Operator, Privilege, Rect, Region, Write};
use maniple_runtime::{Arg, Edges, Error, Gang, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch, Top};
use std::sync::{Arc, Mutex, PoisonError};

const U: Field<i64> = Field::new(0, "u");

/// Puts shards on processors in turn, and panics for leaf tasks named `unmapped`.
struct Cyclic;

impl Mapper for Cyclic {
    fn name(&self) -> &str {
        "cyclic"
    }
    fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
        Placement::Cyclic
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        assert!(input.task != "unmapped", "mapper bomb");
        LeafOutput::local(input)
    }
}

fn runtimes(seeds: u64) -> Box<dyn Iterator<Item = (String, Runtime)>> {
    let seeds = part(seeds);
    let cyclic = |(name, r): (String, Runtime)| (name, r.mapper(Arc::new(Cyclic)));
    if let Some(all) = common::processes::runtimes() {
        return Box::new(all.into_iter().map(cyclic));
    }
    let seeded = (0..seeds).map(|seed| {
        let processors = 1 + (seed % 4) as u32;
        (format!("{processors} processors, seed {seed}"), Runtime::seeded(processors, seed))
    });
    let threads = (1..=3).map(|workers| (format!("{workers} threads"), Runtime::threads(workers)));
    Box::new(seeded.chain((0..seeds / 2).map(any_virtual)).chain(threads).map(cyclic))
}

fn nothing() {}

fn bomb() {
    panic!("leaf bomb")
}

/// Whether this is the panic of the fold of `sums`.
fn fold_bomb(e: &Error) -> bool {
    match e.origin() {
        Error::Panicked { place, message } => place.task.contains("`sums`") && message.contains("fold bomb"),
        _ => false,
    }
}

fn explosive() -> Operator<u64> {
    Operator::user("explosive", |a: &u64, b: &u64| {
        assert!(*a != 13 && *b != 13, "fold bomb");
        a + b
    })
}

/// Generation 0 has its value, later ones the panic, whether shards wait as they go or have arrived for all before.
#[test]
fn a_fold_that_panics_poisons_its_generation_and_all_after() {
    async fn shard(shard: Shard, (sums, ahead): (PhaseBarrier, bool)) -> Result<Vec<Result<u64, Error>>, Error> {
        let waiter = sums.waiter(&shard)?;
        let mut came = Vec::new();
        for value in [5, 13, 7, 8] {
            if shard.index() < 2 {
                shard.arrive_with(&sums.arriver(&shard)?, value);
            }
            if !ahead {
                came.push(shard.wait_value(&waiter).await);
            }
        }
        while came.len() < 4 {
            came.push(shard.wait_value(&waiter).await);
        }
        Ok(came)
    }
    for (name, runtime) in runtimes(100) {
        for ahead in [false, true] {
            let at = format!("fold that panics, ahead {ahead}, on {name}");
            let all = Arc::new(Mutex::new(Vec::new()));
            let seen = all.clone();
            let outcome = run(&at, &runtime, move |top| {
                let seen = seen.clone();
                async move {
                    let gang = top.gang("all", 3)?;
                    // The processor of shard 2, which only waits, is the root of the tree.
                    let sums = PhaseOptions::between([0, 1], [2, 0, 1]).reduce(explosive());
                    let sums = top.phase_barrier("sums", &gang, sums)?;
                    let task = top.register("shard", shard);
                    let came = top.launch_gang(&gang, &task, |_| ShardLaunch::new((sums, ahead)))?.all().await?;
                    *seen.lock().unwrap_or_else(PoisonError::into_inner) = came;
                    Ok(())
                }
            });
            assert!(outcome.as_ref().is_err_and(fold_bomb), "{at}: {outcome:?}");
            let all = all.lock().unwrap_or_else(PoisonError::into_inner);
            assert_eq!(all.len(), 3, "{at}");
            for came in all.iter() {
                assert_eq!(came[0], Ok(10), "{at}: {came:?}");
                assert!(came[1..].iter().all(|c| c.as_ref().is_err_and(fold_bomb)), "{at}: {came:?}");
            }
        }
    }
}

/// No shard waits for the generation whose fold panics, or any later one.
#[test]
fn a_fold_that_panics_unseen_fails_the_run() {
    async fn shard(shard: Shard, sums: PhaseBarrier) -> Result<(), Error> {
        let (arriver, waiter) = (sums.arriver(&shard)?, sums.waiter(&shard)?);
        for value in [5, 13, 7] {
            shard.arrive_with(&arriver, value);
        }
        shard.wait(&waiter).await
    }
    for (name, runtime) in runtimes(50) {
        let at = format!("unseen fold on {name}");
        let outcome = run(&at, &runtime, |top| async move {
            let gang = top.gang("all", 3)?;
            let sums = top.phase_barrier("sums", &gang, PhaseOptions::all(&gang).reduce(explosive()))?;
            let task = top.register("shard", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(sums))?.all().await
        });
        assert!(outcome.as_ref().is_err_and(fold_bomb), "{at}: {outcome:?}");
    }
}

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Links {
    ring: Edges,
    gate: PhaseBarrier,
    begin: Edges,
}

fn links(top: &Top, shards: u32, gate: PhaseOptions) -> Result<(Gang, Links), Error> {
    let gang = top.gang("all", shards)?;
    let ring = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % shards)), 1)?;
    let begin = top.edges("begin", &gang, (0..gang.shards()).map(|s| (s, s)), 1)?;
    let gate = top.phase_barrier("gate", &gang, gate)?;
    Ok((gang, Links { ring, gate, begin }))
}

/// Two leaf tasks that nothing orders arrive one after the other at a pair and at a phase barrier, the later one first;
/// so for several rounds, and the next shard waits for each.
#[test]
fn leaf_tasks_may_arrive_in_any_order() {
    async fn shard(shard: Shard, links: Links) -> Result<(), Error> {
        let from = (shard.index() + shard.shards() - 1) % shard.shards();
        let (out, inn) =
            (links.ring.producer(&shard, (shard.index() + 1) % shard.shards())?, links.ring.consumer(&shard, from)?);
        let (arriver, waiter) = (links.gate.arriver(&shard)?, links.gate.waiter(&shard)?);
        let (begin, begun) =
            (links.begin.producer(&shard, shard.index())?, links.begin.consumer(&shard, shard.index())?);
        for _ in 0..5 {
            shard.launch(nothing, ()).wait(begun.ready()).arrive(out.ready()).arrive(&arriver).go()?.detach();
            for _ in 0..3 {
                shard.launch(nothing, ()).arrive(out.ready()).arrive(&arriver).go()?.await?;
            }
            let last = shard.launch(nothing, ()).wait(inn.ready()).wait(&waiter).go()?;
            let none = shard.launch(nothing, ()).wait(inn.ready()).wait(&waiter).go()?;
            shard.arrive(begin.ready());
            for _ in 0..2 {
                shard.wait(inn.ready()).await?;
                shard.wait(&waiter).await?;
            }
            last.await?;
            none.await?;
        }
        Ok(())
    }
    for (name, runtime) in runtimes(100) {
        let at = format!("any order on {name}");
        let outcome = run(&at, &runtime, |top| async move {
            let (gang, links) = links(&top, 3, PhaseOptions::between(0..3, 0..3).window(8).arity(1))?;
            let task = top.register("shard", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
        });
        assert_eq!(outcome, Ok(vec![(); 3]), "{at}");
    }
}

/// Tasks that wait for the same generations in any order are all told.
#[test]
fn waits_of_a_pair_may_be_in_any_order() {
    async fn shard(shard: Shard, links: Links) -> Result<(), Error> {
        let (own, inn) = (links.begin.producer(&shard, shard.index())?, links.begin.consumer(&shard, shard.index())?);
        let mut tasks = Vec::new();
        for g in [5, 3, 4, 3, 0, 5] {
            inn.ready().seek(g);
            tasks.push((g, shard.launch(nothing, ()).wait(inn.ready()).go()?));
        }
        for g in 0..6 {
            shard.arrive(own.ready());
            for (_, task) in tasks.extract_if(.., |(of, _)| *of == g) {
                task.await?;
            }
        }
        Ok(())
    }
    for (name, runtime) in runtimes(50) {
        let at = format!("waits in any order on {name}");
        let outcome = run(&at, &runtime, |top| async move {
            let (gang, links) = links(&top, 3, PhaseOptions::between(0..3, 0..3))?;
            let task = top.register("shard", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
        });
        assert_eq!(outcome, Ok(vec![(); 3]), "{at}");
    }
}

/// A leaf fails, its shard handles that and goes on with leaves that arrive, and so does who waits for them.
#[test]
fn a_failure_that_is_handled_does_not_fail_the_run() {
    async fn shard(shard: Shard, (links, how): (Links, u32)) -> Result<Vec<bool>, Error> {
        let from = (shard.index() + shard.shards() - 1) % shard.shards();
        let (out, inn) =
            (links.ring.producer(&shard, (shard.index() + 1) % shard.shards())?, links.ring.consumer(&shard, from)?);
        let (arriver, waiter) = (links.gate.arriver(&shard)?, links.gate.waiter(&shard)?);
        let launch = |fails: bool| {
            let leaf = if fails { bomb } else { nothing };
            match how & 1 {
                0 => shard.launch(leaf, ()).arrive(out.ready()).go(),
                _ => shard.launch(leaf, ()).arrive(&arriver).go(),
            }
        };
        let mut leaves = Vec::new();
        for g in 0..6 {
            let leaf = launch(g == 2 && shard.index() == 1)?;
            if how & 2 == 0 {
                assert_eq!(leaf.clone().await.is_err(), g == 2 && shard.index() == 1);
            }
            leaves.push(leaf);
        }
        let mut came = Vec::new();
        for _ in 0..6 {
            let outcome = match how & 1 {
                0 => shard.wait(inn.ready()).await,
                _ => shard.wait(&waiter).await,
            };
            came.push(outcome.is_ok());
        }
        for leaf in leaves {
            drop(leaf.await);
        }
        Ok(came)
    }
    for (name, runtime) in runtimes(100) {
        for how in 0..4 {
            let at = format!("handled failure {how} on {name}");
            let outcome = run(&at, &runtime, move |top| async move {
                let (gang, links) = links(&top, 3, PhaseOptions::between(0..3, 0..3).arity(1))?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((links, how)))?.all().await
            });
            let (fine, poisoned) = (vec![true; 6], vec![true, true, false, false, false, false]);
            let expected = match how & 1 {
                0 => vec![fine.clone(), fine, poisoned],
                _ => vec![poisoned; 3],
            };
            assert_eq!(outcome, Ok(expected), "{at}");
        }
    }
}

/// A failed leaf's shard arrives more often than any window allows, with no effect, and nothing is said about that.
#[test]
fn arrivals_after_a_failure_are_dropped_silently() {
    async fn shard(shard: Shard, links: Links) -> Result<u32, Error> {
        let (own, inn) = (links.begin.producer(&shard, shard.index())?, links.begin.consumer(&shard, shard.index())?);
        let (arriver, waiter) = (links.gate.arriver(&shard)?, links.gate.waiter(&shard)?);
        shard.launch(bomb, ()).arrive(own.ready()).arrive(&arriver).go()?.await.expect_err("it panics");
        for _ in 0..200 {
            shard.arrive(own.ready());
            shard.arrive(&arriver);
        }
        let mut failed = 0;
        for _ in 0..3 {
            failed += u32::from(shard.wait(inn.ready()).await.is_err());
            failed += u32::from(shard.wait(&waiter).await.is_err());
        }
        Ok(failed)
    }
    for (name, runtime) in runtimes(50) {
        let at = format!("arrivals without effect on {name}");
        let outcome = run(&at, &runtime, |top| async move {
            let (gang, links) = links(&top, 3, PhaseOptions::between(0..3, 0..3).window(4))?;
            let task = top.register("shard", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
        });
        assert_eq!(outcome, Ok(vec![6; 3]), "{at}");
    }
}

/// A launch that is dropped, or refused, neither waits nor arrives: whoever waits gets the next one that is made.
#[test]
fn a_launch_that_is_not_made_takes_no_generation() {
    fn put(mut u: Write<i64>, _: Arg<i64>) {
        u.fill(1);
    }
    async fn shard(shard: Shard, (links, region, how): (Links, Region, u32)) -> Result<(), Error> {
        let from = (shard.index() + shard.shards() - 1) % shard.shards();
        let (out, inn) =
            (links.ring.producer(&shard, (shard.index() + 1) % shard.shards())?, links.ring.consumer(&shard, from)?);
        let (arriver, waiter) = (links.gate.arriver(&shard)?, links.gate.waiter(&shard)?);
        let u = shard.region(region)?;
        for round in 0..4 {
            if how == 0 {
                drop(shard.launch(nothing, ()).wait(inn.ready()).wait(&waiter).arrive(out.ready()).arrive(&arriver));
            } else if how == 1 {
                // The shard may only read.
                let launch = shard.launch(put, (u.write(U), 1.into()));
                let launch = launch.wait(inn.ready()).wait(&waiter).arrive(out.ready()).arrive(&arriver);
                launch.go().expect_err("it holds less");
            } else {
                let launch = shard.launch(nothing, ()).named("unmapped");
                let launch = launch.wait(inn.ready()).wait(&waiter).arrive(out.ready()).arrive(&arriver);
                launch.go().expect_err("the mapper panics");
            }
            assert_eq!((out.ready().generation(), arriver.generation()), (round, round));
            assert_eq!((inn.ready().generation(), waiter.generation()), (round, round));
            shard.launch(nothing, ()).arrive(out.ready()).arrive(&arriver).go()?.detach();
            shard.launch(nothing, ()).wait(inn.ready()).wait(&waiter).go()?.await?;
        }
        Ok(())
    }
    for (name, runtime) in runtimes(50) {
        for how in 0..3 {
            let at = format!("launch that is not made, {how}, on {name}");
            let outcome = run(&at, &runtime, move |top| async move {
                let (gang, links) = links(&top, 3, PhaseOptions::between(0..3, 0..3))?;
                let tree = top.region_tree("line", Rect::line(0, 3), &[U.info()])?;
                let task = top.register("shard", shard);
                let done = top.launch_gang(&gang, &task, |_| {
                    ShardLaunch::new((links, tree, how)).require(tree, [U.id()], Privilege::Read, Coherence::Exclusive)
                })?;
                done.all().await
            });
            assert_eq!(outcome, Ok(vec![(); 3]), "{at}");
        }
    }
}

/// However far arrivers may run ahead, a reduction does not keep every value it has ever had.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_reduction_without_a_window_keeps_a_bounded_number_of_values() {
    const KEPT: u64 = 1 << 16;
    async fn shard(shard: Shard, (sums, n): (PhaseBarrier, u64)) -> Result<bool, Error> {
        let (arriver, waiter) = (sums.arriver(&shard)?, sums.waiter(&shard)?);
        for g in 0..n {
            shard.arrive_with(&arriver, g);
        }
        for g in [n - 1, n - KEPT] {
            waiter.seek(g);
            assert_eq!(shard.wait_value(&waiter).await?, 2 * g);
        }
        waiter.seek(0);
        match shard.wait_value(&waiter).await {
            Err(Error::Misuse { came, .. }) if came == "generation 0" => Ok(false),
            value => value.map(|v| v == 0),
        }
    }
    for (name, runtime) in runtimes(2) {
        for n in [KEPT, KEPT + 1] {
            let at = format!("{n} values on {name}");
            let outcome = run(&at, &runtime, move |top| async move {
                let gang = top.gang("all", 2)?;
                let sums = PhaseOptions::all(&gang).window(u64::MAX).reduce(Operator::<u64>::sum());
                let sums = top.phase_barrier("sums", &gang, sums)?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((sums, n)))?.all().await
            });
            // The last value may be over on one processor before the other.
            assert_eq!(outcome, Ok(vec![n == KEPT; 2]), "{at}");
        }
    }
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "arrivals::on_processes",
        &[
            (
                "a_fold_that_panics_poisons_its_generation_and_all_after",
                a_fold_that_panics_poisons_its_generation_and_all_after,
            ),
            ("a_fold_that_panics_unseen_fails_the_run", a_fold_that_panics_unseen_fails_the_run),
            ("leaf_tasks_may_arrive_in_any_order", leaf_tasks_may_arrive_in_any_order),
            ("waits_of_a_pair_may_be_in_any_order", waits_of_a_pair_may_be_in_any_order),
            ("a_failure_that_is_handled_does_not_fail_the_run", a_failure_that_is_handled_does_not_fail_the_run),
            ("arrivals_after_a_failure_are_dropped_silently", arrivals_after_a_failure_are_dropped_silently),
            ("a_launch_that_is_not_made_takes_no_generation", a_launch_that_is_not_made_takes_no_generation),
            (
                "a_reduction_without_a_window_keeps_a_bounded_number_of_values",
                a_reduction_without_a_window_keeps_a_bounded_number_of_values,
            ),
        ],
    );
}
