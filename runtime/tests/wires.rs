//! What the drivers owe a program: every run ends, wakers work from anywhere, and a deadlock is reported when it is one.

mod common;

use common::watched;
use maniple_runtime::{Error, Pairs, Runtime, Shard, Start};

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
