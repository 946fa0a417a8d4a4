//! The words of reports: what a run says that cannot go on, line by line.

use crate::common::{any_virtual, run, virtual_nodes};
use maniple_regions::{Field, Rect, Region, Write};
use maniple_runtime::{
    Arg, Edges, Error, FutureMap, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch, TaskFuture, Top,
};
use std::collections::BTreeSet;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::task::Poll;

const U: Field<u64> = Field::new(0, "u");

/// Threads, the seeded driver and machines in virtual time.
fn drivers() -> Vec<(String, Runtime)> {
    let seeded = (0..9).map(|seed| (format!("seed {seed}"), Runtime::seeded(1 + (seed % 3) as u32, seed)));
    let threads = (1..=3).map(|workers| (format!("{workers} threads"), Runtime::threads(workers)));
    seeded.chain((0..6).map(any_virtual)).chain(threads).collect()
}

/// The lines of the report that a program ends with, without the lines of other nodes' copies of the top-level task.
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

fn no_line_twice(at: &str, lines: &[String]) {
    let mut said = BTreeSet::new();
    for line in lines {
        assert!(said.insert(line.trim()), "{at}: twice `{line}` in\n{}", lines.join("\n"));
    }
}

fn nothing(_: Arg<u64>) {}

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
            let task = top.register("ahead", ahead);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(gate))?.all().await
        });
        let said = outcome.expect_err(&at).to_string();
        assert!(said.starts_with("phase barrier `gate`: over-arrival: arriver 0"), "{at}: {said}");
    }
}

/// A closure is called by the function that it is in, however deep, and the line of its launch.
#[test]
fn a_closure_is_called_by_its_function_and_line() {
    fn bomb() {
        panic!("bomb");
    }
    fn bomb_of<T>() {
        panic!("bomb of {}", size_of::<T>());
    }
    const FIRST: u32 = line!();
    async fn explodes(shard: Shard, how: u32) -> Result<(), Error> {
        match how {
            0 => shard.launch(|_: Arg<u64>| bomb(), (1.into(),)).go()?.await,
            1 => {
                let launch = || shard.launch(|_: Arg<u64>| bomb(), (1.into(),)).go();
                launch()?.await
            }
            2 => generic::<Vec<u64>>(shard).await,
            _ => {
                [(), ()]
                    .map(TaskFuture::ready)
                    .into_iter()
                    .collect::<FutureMap<()>>()
                    .fold(&shard, |_: Arg<()>, _: Arg<()>| bomb())?
                    .await
            }
        }
    }
    async fn generic<T: 'static>(shard: Shard) -> Result<(), Error> {
        shard.launch(|_: Arg<u64>| bomb_of::<T>(), (1.into(),)).go()?.await
    }
    for (at, runtime) in drivers() {
        for (how, function, line) in [(0, "explodes", 3), (1, "explodes", 5), (2, "generic", 20), (3, "explodes", 14)] {
            let name = format!("closure in {function}, {}:{}", file!(), FIRST + line);
            let outcome = run(&at, &runtime, move |top| async move {
                let (gang, task) = (top.gang("one", 1)?, top.register("main", explodes));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(how))?.all().await
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
        shard.index_launch(2, set, |_| (u.write(U),)).go()?.all().await.map(drop)
    }
    for (at, runtime) in drivers() {
        let outcome = run(&at, &runtime, |top| async move {
            let line = top.region_tree("line", Rect::line(0, 4), &[U.info()])?;
            let (gang, task) = (top.gang("one", 1)?, top.register("main", main));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(line).writes(line, [U]))?.all().await
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

/// The one that runs is not the one that has not been started. No data is under way, and nothing is said of any.
#[test]
fn two_launches_of_a_gang_are_two() {
    let program = |top: Top| async move {
        let line = top.region_tree("line", Rect::line(0, 4), &[U.info()])?;
        let gang = top.gang("one", 1)?;
        let (first, second) = (top.register("first", waits_outside), top.register("second", nothing_to_do));
        let first = top.launch_gang(&gang, &first, |_| ShardLaunch::new(()).writes(line, [U]))?;
        let second = top.launch_gang(&gang, &second, |_| ShardLaunch::new(()).writes(line, [U]))?;
        second.all().await?;
        first.all().await
    };
    let expected = [
        "  task `top level` waits for a launch",
        "    task `first`, launch 0 of `top level`: shard 0 is not over on processor 0",
        "      task `first` of shard 0 waits for something that is not the framework's",
        "    task `second`, launch 1 of `top level` waits on processor 0 for earlier launches",
        "  shard 0 has not been started: task `second`, launch 1 of `top level`",
    ];
    for (at, runtime) in drivers() {
        let said = lines(&at, &runtime, program);
        assert_eq!(said, expected, "{at}");
    }
}

/// Of data it is said from where it has not come.
#[test]
fn the_source_of_awaited_data_is_named() {
    let program = |top: Top| async move {
        let line = top.region_tree("line", Rect::line(0, 4), &[U.info()])?;
        let gang = top.gang("both", 2)?;
        let (first, second) = (top.register("first", waits_outside), top.register("second", nothing_to_do));
        let first = top.launch_gang(&gang, &first, |s| {
            if s == 0 { ShardLaunch::new(()).writes(line, [U]) } else { ShardLaunch::new(()) }
        })?;
        let second = top.launch_gang(&gang, &second, |s| {
            if s == 1 { ShardLaunch::new(()).reads(line, [U]) } else { ShardLaunch::new(()) }
        })?;
        second.all().await?;
        first.all().await
    };
    for seed in 0..20 {
        let at = format!("seed {seed}");
        let said = lines(&at, &Runtime::seeded(2, seed), program);
        let words = "launch 1 of `top level` waits on processor 1 for earlier launches or data from processor 0";
        assert!(said.iter().any(|line| line.ends_with(words)), "{at}: {}", said.join("\n"));
    }
}

/// Two launches of one gang may run side by side; what one of them awaits is not what the other awaits.
#[test]
fn two_launches_of_a_gang_that_run_are_two() {
    async fn patient(shard: Shard, gate: PhaseBarrier) -> Result<(), Error> {
        shard.wait(&gate.waiter(&shard)?).await
    }
    for (at, runtime) in drivers() {
        let said = lines(&at, &runtime, |top| async move {
            let gang = top.gang("one", 1)?;
            let gate = top.phase_barrier("gate", &gang, PhaseOptions::all(&gang))?;
            let (first, second) = (top.register("first", waits_outside), top.register("second", patient));
            let first = top.launch_gang(&gang, &first, |_| ShardLaunch::new(()))?;
            let second = top.launch_gang(&gang, &second, |_| ShardLaunch::new(gate))?;
            second.all().await?;
            first.all().await
        });
        let waits = "generation 0 of phase barrier `gate`";
        let expected = [
            format!("  missing for {waits}: shard 0"),
            format!("  a cycle: task `second` of shard 0 → {waits} → task `second` of shard 0"),
            "  task `top level` waits for a launch".into(),
            "    task `first`, launch 0 of `top level`: shard 0 is not over on processor 0".into(),
            "      task `first` of shard 0 waits for something that is not the framework's".into(),
            "    task `second`, launch 1 of `top level`: shard 0 is not over on processor 0".into(),
            format!("      task `second` of shard 0 waits for {waits}; none is over"),
        ];
        assert_eq!(said, expected, "{at}");
    }
}

/// A task that will arrive has been launched: it is waited for, and its shard is not blamed.
#[test]
fn a_task_that_is_about_to_arrive_is_waited_for() {
    async fn swaps(shard: Shard, pairs: Edges) -> Result<(), Error> {
        let other = 1 - shard.index();
        let (to, from) = (pairs.producer(&shard, other)?, pairs.consumer(&shard, other)?);
        shard.launch(nothing, (0u64.into(),)).wait(from.ready()).arrive(to.ready()).go()?.await
    }
    for (at, runtime) in drivers() {
        let said = lines(&at, &runtime, |top| async move {
            let gang = top.gang("both", 2)?;
            let pairs = top.edges("ghosts", &gang, (0..2).map(|s| (s, 1 - s)), 1)?;
            let task = top.register("swaps", swaps);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(pairs))?.all().await
        });
        let all = said.join("\n");
        assert!(!all.contains("has launched nothing"), "{at}: {all}");
        let tasks = (0..2).all(|s| said[0].contains(&format!("task `nothing` of shard {s}")));
        assert!(said[0].starts_with("  a cycle: ") && tasks, "{at}: {all}");
        no_line_twice(&at, &said);
    }
}

/// Who owes an arrival is a shard of the same launch, if that has one.
#[test]
fn a_shard_of_another_launch_is_not_to_blame() {
    async fn rounds(shard: Shard, (pairs, round): (Edges, u32)) -> Result<(), Error> {
        match (shard.index(), round) {
            (0, 0) => shard.wait(pairs.consumer(&shard, 1)?.ready()).await,
            _ => Ok(()),
        }
    }
    let program = |top: Top| async move {
        let line = top.region_tree("line", Rect::line(0, 4), &[U.info()])?;
        let gang = top.gang("both", 2)?;
        let pairs = top.edges("ghosts", &gang, (0..gang.shards()).map(|s| (s, 1 - s)), 1)?;
        let task = top.register("rounds", rounds);
        let blocks = [Rect::line(0, 2), Rect::line(2, 4)].map(|rect| Region::new(line.tree, rect));
        let block = |s: u32| blocks[s as usize];
        let first = top.launch_gang(&gang, &task, |s| ShardLaunch::new((pairs, 0)).writes(block(1 - s), [U]))?;
        // Shard 1 needs what shard 0 of the first launch has.
        let second = top.launch_gang(&gang, &task, |s| ShardLaunch::new((pairs, 1)).writes(block(s), [U]))?;
        first.all().await?;
        second.all().await
    };
    for (at, runtime) in drivers() {
        let said = lines(&at, &runtime, program);
        let waits = "task `rounds` of shard 0 waits for generation 0 of `ghosts` ready of edge shard 1 -> shard 0";
        assert_eq!(said[0], format!("  shard 1 is over, and {waits}; none is complete"), "{at}: {}", said.join("\n"));
        no_line_twice(&at, &said);
    }
}

/// Shard 1 of the first launch runs, and keeps shard 1 of the second from starting.
#[test]
fn a_shard_of_another_launch_does_not_stand_in() {
    async fn rounds(shard: Shard, (pairs, round): (Edges, u32)) -> Result<(), Error> {
        match (shard.index(), round) {
            (1, 0) => pending().await,
            (0, 1) => shard.wait(pairs.consumer(&shard, 1)?.ready()).await,
            _ => Ok(()),
        }
    }
    for (at, runtime) in drivers() {
        let said = lines(&at, &runtime, |top| async move {
            let line = top.region_tree("line", Rect::line(0, 4), &[U.info()])?;
            let gang = top.gang("both", 2)?;
            let pairs = top.edges("ghosts", &gang, (0..gang.shards()).map(|s| (s, 1 - s)), 1)?;
            let task = top.register("rounds", rounds);
            for round in 0..2 {
                let start = |s| {
                    if s == 1 {
                        ShardLaunch::new((pairs, round)).writes(line, [U])
                    } else {
                        ShardLaunch::new((pairs, round))
                    }
                };
                top.launch_gang(&gang, &task, start)?.detach();
            }
            pending::<Result<(), Error>>().await
        });
        let all = said.join("\n");
        let line = |words: &str| said.iter().any(|line| line.trim() == words);
        assert!(line("task `rounds` of shard 1 waits for something that is not the framework's"), "{at}: {all}");
        assert!(line("shard 1 has not been started: task `rounds`, launch 1 of `top level`"), "{at}: {all}");
        assert!(!all.contains("is over\n") && !all.contains("a cycle"), "{at}: {all}");
        no_line_twice(&at, &said);
    }
}

/// Only the framework settles such a future, so nobody outside is awaited.
#[test]
fn a_dropped_resolver_is_nobody_outside() {
    async fn awaits(_: Shard, (): ()) -> Result<u64, Error> {
        let (resolver, future) = TaskFuture::<u64>::pending();
        drop(resolver);
        future.await
    }
    let words =
        "waits for a future that nobody will settle: no task makes it, and its `Resolver` was dropped or is idle";
    for (at, runtime) in drivers() {
        let said = lines(&at, &runtime, |top| async move {
            let (gang, task) = (top.gang("one", 1)?, top.register("awaits", awaits));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        });
        let expected = [
            "  task `top level` waits for a launch".into(),
            "    task `awaits`, launch 0 of `top level`: shard 0 is not over on processor 0".into(),
            format!("      task `awaits` of shard 0 {words}"),
        ];
        assert_eq!(said, expected, "{at}");
        let said = lines(&at, &runtime, |_| async move { TaskFuture::<u64>::pending().1.await });
        assert_eq!(said, [format!("  task `top level` {words}")], "{at}");
    }
}

/// What was awaited once, and has been settled since, is not what is awaited now.
#[test]
fn a_future_that_was_settled_is_not_awaited() {
    async fn main(shard: Shard, (): ()) -> Result<(), Error> {
        let mut value = shard.launch(|x: Arg<u64>| *x, (7.into(),)).go()?;
        let outcome = poll_fn(|cx| Poll::Ready(Pin::new(&mut value).poll(cx))).await;
        assert!(outcome.is_pending());
        pending::<()>().await;
        value.await.map(drop)
    }
    for (at, runtime) in drivers() {
        let said = lines(&at, &runtime, |top| async move {
            let (gang, task) = (top.gang("one", 1)?, top.register("main", main));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        });
        let words = "      task `main` of shard 0 waits for something that is not the framework's";
        assert_eq!(said[2], words, "{at}: {}", said.join("\n"));
    }
}

/// What several processes say in the same words is said once, with their number.
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
            let (gang, task) = (top.gang("one", 1)?, top.register("launches", launches));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        });
        let expected = [
            "  task `top level` waits for a launch",
            "    task `launches`, launch 0 of `top level`: shard 0 is not over on processor 0",
            "      task `launches` of shard 0 waits for the result of task `nothing` of shard 0",
            "        task `nothing` of shard 0 waits for 1 earlier task or input ×5",
        ];
        assert_eq!(said, expected, "{at}");
    }
}

/// Shard 1 fails, shard 2 waits for somebody outside, and shard 3 waits for shard 1.
async fn one_fails(shard: Shard, (gate, panics): (PhaseBarrier, bool)) -> Result<(), Error> {
    match shard.index() {
        1 if panics => panic!("no input file"),
        1 => Err(Error::user("no input file")),
        2 => pending().await,
        3 => shard.wait(&gate.waiter(&shard)?).await,
        _ => Ok(()),
    }
}

#[test]
fn a_shard_that_failed_leads_the_report() {
    let virtual_time = [(2, 1), (3, 2)].map(|(nodes, seed)| virtual_nodes(nodes, seed));
    for (at, runtime) in drivers().into_iter().chain(virtual_time) {
        for (panics, failed) in [(false, "failed: no input file"), (true, "panicked: no input file")] {
            let said = lines(&at, &runtime, move |top| async move {
                let (gang, task) = (top.gang("all", 4)?, top.register("main", one_fails));
                let gate = top.phase_barrier("gate", &gang, PhaseOptions::between([1], [3]))?;
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((gate, panics)))?.all().await
            });
            let all = said.join("\n");
            assert_eq!(said[0], format!("  task `main` of shard 1 {failed}"), "{at}: {all}");
            let waits = "task `main` of shard 2 waits for something that is not the framework's";
            assert!(said.iter().any(|line| line.trim() == waits), "{at}: {all}");
            assert_eq!(said.iter().filter(|line| line.contains("no input file")).count(), 1, "{at}: {all}");
            no_line_twice(&at, &said);
        }
    }
}

/// Also where the launch has ended, and where the top-level task itself waits.
#[test]
fn a_failure_that_nobody_looked_at_leads_the_report() {
    async fn fails(_: Shard, (): ()) -> Result<(), Error> {
        Err(Error::user("no input file"))
    }
    for (at, runtime) in drivers() {
        for waits_itself in [false, true] {
            let said = lines(&at, &runtime, move |top| async move {
                let gang = top.gang("one", 1)?;
                let (fails, waits) = (top.register("fails", fails), top.register("waits", waits_outside));
                let failed = top.launch_gang(&gang, &fails, |_| ShardLaunch::new(()))?;
                if waits_itself {
                    pending::<()>().await;
                }
                top.launch_gang(&gang, &waits, |_| ShardLaunch::new(()))?.all().await?;
                failed.all().await
            });
            let all = said.join("\n");
            assert_eq!(said[0], "  task `fails` of shard 0 failed: no input file", "{at}: {all}");
            no_line_twice(&at, &said);
        }
    }
}

/// What the program has dealt with is not to blame for what comes after.
#[test]
fn a_failure_that_was_handled_is_not_in_the_report() {
    for (at, runtime) in drivers() {
        let said = lines(&at, &runtime, |top| async move {
            let (two, one) = (top.gang("two", 2)?, top.gang("one", 1)?);
            let (fails, waits) = (top.register("fails", one_fails), top.register("waits", waits_outside));
            let gate = top.phase_barrier("gate", &two, PhaseOptions::all(&two))?;
            top.launch_gang(&two, &fails, |_| ShardLaunch::new((gate, false)))?.all().await.expect_err("shard 1 fails");
            top.launch_gang(&one, &waits, |_| ShardLaunch::new(()))?.all().await
        });
        assert_eq!(said[0], "  task `top level` waits for a launch", "{at}: {}", said.join("\n"));
    }
}

/// A parent that panics waits for its gang, and the gang for somebody outside.
#[test]
fn a_parent_that_failed_leads_the_report() {
    for (at, runtime) in drivers() {
        let said = lines(&at, &runtime, |top| async move {
            let (gang, waits) = (top.gang("one", 1)?, top.register("waits", waits_outside));
            let parent = top.register_inner("parent", move |parent: maniple_runtime::InnerTask, ()| async move {
                parent.launch_gang(&gang, &waits, |_| ShardLaunch::new(())).await?.detach();
                if gang.shards() == 1 {
                    panic!("no input file");
                }
                Ok(())
            });
            top.run_inner(&parent, || ShardLaunch::new(())).await
        });
        let all = said.join("\n");
        assert_eq!(said[0], "  task `parent` of shard 0 panicked: no input file", "{at}: {all}");
        no_line_twice(&at, &said);
    }
}

/// A run that is ended, since who waits for somebody outside may still be woken, says who failed.
#[test]
fn a_run_that_is_ended_says_which_shard_failed() {
    async fn fails_or_polls(shard: Shard, (): ()) -> Result<(), Error> {
        if shard.index() == 1 {
            return Err(Error::user("no input file"));
        }
        loop {
            shard.yield_now().await;
        }
    }
    let (_, virtual_time) = virtual_nodes(2, 1);
    for (at, runtime) in [("seeded", Runtime::seeded(2, 3)), ("virtual time", virtual_time)] {
        let outcome = run(at, &runtime.most_steps(20_000), |top| async move {
            let (gang, task) = (top.gang("both", 2)?, top.register("main", fails_or_polls));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        });
        let expected = "the run ended before it was over: task `main` of shard 1 failed: no input file; it has taken \
                        20000 steps, the most it may";
        assert_eq!(outcome.expect_err(at).to_string(), expected, "{at}");
    }
}
