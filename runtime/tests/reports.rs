//! The words of reports: what a run says that cannot go on, line by line.

mod common;

use common::{any_virtual, run, virtual_nodes};
use maniple_regions::{Field, Rect, Region, Write};
use maniple_runtime::{Error, Pairs, PhaseBarrier, PhaseOptions, Runtime, Shard, Start, TaskFuture, Top, Val};
use std::collections::BTreeSet;
use std::future::{Future, pending};

const U: Field<u64> = Field::new(0, "u");

/// Threads, the seeded driver and machines in virtual time.
fn drivers() -> Vec<(String, Runtime)> {
    let seeded = (0..9).map(|seed| (format!("seed {seed}"), Runtime::seeded(1 + (seed % 3) as u32, seed)));
    let threads = (1..=3).map(|workers| (format!("{workers} threads"), Runtime::threads(workers)));
    seeded.chain((0..6).map(any_virtual)).chain(threads).collect()
}

/// The lines of the report that a program ends with, without those of other nodes' copies of the top-level task.
fn lines<F, Fut, R>(at: &str, runtime: &Runtime, top: F) -> Vec<String>
where
    F: Fn(Top) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Error>> + 'static,
    R: Send + std::fmt::Debug + 'static,
{
    match run(at, runtime, top) {
        Err(Error::Deadlock { report, .. }) => report.lines().map(str::to_string).collect(),
        other => panic!("{at}: expected a deadlock, came {other:?}"),
    }
}

fn nothing(_: Val<u64>) {}

#[test]
fn a_barrier_is_called_by_its_kind_once() {
    async fn ahead(shard: Shard, gate: PhaseBarrier) -> Result<(), Error> {
        let arriver = gate.arriver(&shard)?;
        if shard.index() == 0 {
            (0..5).for_each(|_| shard.arrive(&arriver));
        }
        Ok(())
    }
    for (at, runtime) in drivers() {
        let outcome = run(&at, &runtime, |top| async move {
            let gang = top.gang("all", 2)?;
            let gate = top.phase_barrier("gate", &gang, PhaseOptions::all(&gang).window(2))?;
            let task = top.task("ahead", ahead);
            top.launch(&gang, &task, |_| Start::new(gate))?.all().await
        });
        let said = outcome.expect_err(&at).to_string();
        assert!(said.starts_with("phase barrier `gate`: over-arrival: arriver 0"), "{at}: {said}");
    }
}

/// A closure is called by the function that it is in, however deep.
#[test]
fn a_closure_is_called_by_its_function() {
    async fn explodes(shard: Shard, how: u32) -> Result<(), Error> {
        match how {
            0 => shard.launch(|_: Val<u64>| panic!("bomb"), (1.into(),)).go()?.await,
            1 => {
                let launch = || shard.launch(|_: Val<u64>| panic!("bomb"), (1.into(),)).go();
                launch()?.await
            }
            _ => generic::<Vec<u64>>(shard).await,
        }
    }
    async fn generic<T: 'static>(shard: Shard) -> Result<(), Error> {
        shard.launch(|_: Val<u64>| panic!("bomb of {}", size_of::<T>()), (1.into(),)).go()?.await
    }
    for (at, runtime) in drivers() {
        for (how, name) in [(0, "explodes::{{closure}}"), (1, "explodes::{{closure}}"), (2, "generic::{{closure}}")] {
            let outcome = run(&at, &runtime, move |top| async move {
                let (gang, task) = (top.gang("one", 1)?, top.task("main", explodes));
                top.launch(&gang, &task, |_| Start::new(how))?.all().await
            });
            let error = outcome.expect_err(&at);
            let Error::Panicked { place, .. } = error.origin() else { panic!("{at}: {error}") };
            assert_eq!(place.to_string(), format!("task `{name}` of shard 0"), "{at}");
        }
    }
}

#[test]
fn points_that_interfere_are_called_by_their_function() {
    fn set(_: Write<u64>) {}
    async fn main(shard: Shard, line: Region) -> Result<(), Error> {
        let u = shard.region(line)?;
        shard.index_launch(2, set, |_| (u.write(U),))?.all().await.map(drop)
    }
    for (at, runtime) in drivers() {
        let outcome = run(&at, &runtime, |top| async move {
            let line = top.tree("line", Rect::line(0, 4), &[U.info()])?;
            let (gang, task) = (top.gang("one", 1)?, top.task("main", main));
            top.launch(&gang, &task, |_| Start::new(line).writes(line, [U]))?.all().await
        });
        let said = outcome.expect_err(&at).to_string();
        assert!(said.starts_with("task `set` of shard 0: point 0 ("), "{at}: {said}");
    }
}

async fn waits_outside(_: Shard, (): ()) -> Result<(), Error> {
    pending().await
}

async fn nothing_to_do(_: Shard, (): ()) -> Result<(), Error> {
    Ok(())
}

/// Of data it is said how much has come.
#[test]
fn data_that_is_awaited_is_counted() {
    let program = |top: Top| async move {
        let line = top.tree("line", Rect::line(0, 4), &[U.info()])?;
        let gang = top.gang("both", 2)?;
        let (first, second) = (top.task("first", waits_outside), top.task("second", nothing_to_do));
        let first =
            top.launch(&gang, &first, |s| if s == 0 { Start::new(()).writes(line, [U]) } else { Start::new(()) })?;
        let second =
            top.launch(&gang, &second, |s| if s == 1 { Start::new(()).reads(line, [U]) } else { Start::new(()) })?;
        second.all().await?;
        first.all().await
    };
    for seed in 0..20 {
        let at = format!("seed {seed}");
        let said = lines(&at, &Runtime::seeded(2, seed), program);
        let words = "launch 1 of `top level` waits on processor 1 for earlier launches or data (0 of 1 came)";
        assert!(said.iter().any(|line| line.ends_with(words)), "{at}: {}", said.join("\n"));
    }
}

/// What several say alike is said once, with how many they are.
#[test]
fn nothing_is_said_twice() {
    async fn launches(shard: Shard, (): ()) -> Result<(), Error> {
        let (_resolver, never) = TaskFuture::<u64>::pending();
        let launch = |_| shard.launch(nothing, ((&never).into(),)).go();
        let all = (0..5).map(launch).collect::<Result<Vec<_>, _>>()?;
        for one in all {
            one.await?;
        }
        Ok(())
    }
    for (at, runtime) in drivers() {
        let said = lines(&at, &runtime, |top| async move {
            let (gang, task) = (top.gang("one", 1)?, top.task("launches", launches));
            top.launch(&gang, &task, |_| Start::new(()))?.all().await
        });
        let expected = [
            "  task `top level` waits for a launch",
            "    task `launches`, launch 0 of `top level`: shard 0 is not over on processor 0",
            "      task `launches` of shard 0 waits for the result of task `nothing` of shard 0",
            "        task `nothing` of shard 0 waits for 1 predecessors or inputs ×5",
        ];
        assert_eq!(said, expected, "{at}");
    }
}
