//! What the drivers owe a program: every run ends, wakers work from anywhere, and a deadlock is reported when it is one.

mod common;

use common::watched;
use maniple_runtime::{Error, Gang, Pairs, Parent, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardTask, Start};

/// Both drivers, with one to three processors.
fn drivers() -> Vec<(String, Runtime)> {
    let seeded = (0..9).map(|seed| (format!("seed {seed}"), Runtime::seeded(1 + (seed % 3) as u32, seed)));
    seeded.chain((1..=3).map(|n| (format!("{n} threads"), Runtime::threads(n)))).collect()
}

fn report_of<R: std::fmt::Debug>(at: &str, outcome: Result<R, Error>) -> String {
    match outcome {
        Err(Error::Deadlock { report }) => report,
        other => panic!("{at}: expected a deadlock, came {other:?}"),
    }
}

#[test]
fn a_run_ends_however_much_its_top_level_task_has_said() {
    for workers in 2..=3 {
        watched("many gangs", || {
            Runtime::threads(workers)
                .run(|top| async move {
                    for i in 0..5000 {
                        top.gang(&format!("g{i}"), 1)?;
                    }
                    Ok(())
                })
                .expect("nothing is wrong with many gangs")
        });
    }
}

/// Shard `from` arrives 20,000 times at a cell on the processor of shard `to`.
fn arrivals_nobody_awaits(runtime: &Runtime, shards: u32, from: u32, to: u32) -> Result<(), Error> {
    async fn shard(shard: Shard, (pairs, from): (Pairs, u32)) -> Result<(), Error> {
        if shard.index() == from {
            let mine = pairs.producer(&shard)?;
            for _ in 0..20_000 {
                shard.arrive(&mine.ready);
            }
        }
        Ok(())
    }
    let top = move |top: maniple_runtime::Top| async move {
        let gang = top.gang("all", shards)?;
        let pairs = top.pairs("unheard", &gang, move |_| to)?;
        let task = top.task("shouts", shard);
        top.launch(&gang, &task, |_| Start::new((pairs, from)))?.all().await?;
        Ok(())
    };
    runtime.run(top).map(|_| ())
}

#[test]
fn a_run_ends_behind_arrivals_that_nobody_awaits() {
    for processors in 2..=3 {
        for from in 0..processors {
            for to in 0..processors {
                let at = format!("{processors} processors, {from} to {to}");
                for _ in 0..5 {
                    let threads = Runtime::threads(processors);
                    watched(&at, || arrivals_nobody_awaits(&threads, processors, from, to)).expect(&at);
                }
            }
        }
    }
    watched("seeded", || arrivals_nobody_awaits(&Runtime::seeded(2, 7), 2, 1, 0)).expect("seeded");
}

#[test]
fn a_report_names_tasks_shards_and_parents() {
    async fn shard(shard: Shard, barrier: PhaseBarrier) -> Result<(), Error> {
        // Shards 0 and 2 are over, the others wait for them.
        if shard.index() % 2 == 0 {
            return Ok(());
        }
        let end = (barrier.arriver(&shard)?, barrier.waiter(&shard)?);
        shard.arrive(&end.0);
        shard.wait(&end.1).await
    }
    type Args = (Gang, ShardTask<PhaseBarrier, ()>, PhaseBarrier);
    async fn parent(parent: Parent, (gang, task, barrier): Args) -> Result<(), Error> {
        parent.launch_gang(&gang, &task, |_| Start::new(barrier))?.all().await.map(|_| ())
    }
    for (at, runtime) in drivers() {
        let by_top = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 4)?;
                let barrier = top.phase_barrier("never", &gang, PhaseOptions::all(&gang))?;
                let task = top.task("stays", shard);
                top.launch(&gang, &task, |_| Start::new(barrier))?.all().await
            })
        });
        let by_parent = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 4)?;
                let barrier = top.phase_barrier("never", &gang, PhaseOptions::all(&gang))?;
                let (task, single) = (top.task("stays", shard), top.parent("leads", parent));
                top.single(&single, || Start::new((gang, task, barrier))).await
            })
        });
        for (report, by) in [(report_of(&at, by_top), "`top level`"), (report_of(&at, by_parent), "`leads`")] {
            let lines = || report.lines().filter(|l| l.contains("not over") && l.contains("`stays`"));
            assert!(lines().next().is_some() && lines().all(|l| l.contains(by)), "{at}: {report}");
            let named: Vec<&str> = lines().flat_map(|l| l.split(|c: char| !c.is_ascii_alphanumeric())).collect();
            assert!(["1", "3"].iter().all(|s| named.contains(s)), "{at}: {report}");
            assert!(!report.contains("0x"), "{at}: {report}");
        }
    }
}
