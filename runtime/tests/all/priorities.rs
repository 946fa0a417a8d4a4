//! An urgent task does not wait behind plain ones, nor do the tasks that it waits for.

use crate::common::{any_virtual, run};
use maniple_mapper::{Priority, stock};
use maniple_regions::{Field, Privilege, Read, ReadWrite, Rect, Region, Write, WriteShared};
use maniple_runtime::{Arg, Edges, Error, Runtime, Shard, ShardLaunch};
use std::sync::{Arc, Mutex, PoisonError};

const U: Field<u64> = Field::new(0, "u");
const OTHERS: usize = 60;
const BACKGROUND: Priority = Priority(0);

/// What the urgent task waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Future,
    Region,
    /// A task that uses a region, after another that takes a future.
    Both,
}

#[derive(Debug, Clone, PartialEq)]
enum Event {
    /// One of the tasks that keep the worker busy began.
    Other,
    Launched,
    Urgent,
}

type Log = Arc<Mutex<Vec<Event>>>;

fn note(log: &Log, event: Event) {
    log.lock().unwrap_or_else(PoisonError::into_inner).push(event);
}

/// Shard 1 keeps the worker busy. Shard 0 then launches tasks of `low` priority and one of `high`.
async fn shard(
    shard: Shard,
    (way, low, high, filled): (Way, Priority, Priority, Priority),
    (busy, region): (Edges, Region),
    log: Log,
) -> Result<u64, Error> {
    if shard.index() == 1 {
        for _ in 0..OTHERS {
            let log = log.clone();
            shard.launch(move || note(&log, Event::Other), ()).priority(filled).go()?.detach();
        }
        shard.arrive(busy.producer(&shard, 0)?.ready());
        return Ok(0);
    }
    shard.wait(busy.consumer(&shard, 1)?.ready()).await?;
    let x = shard.region(region)?;
    let load = |mut x: Write<u64>| {
        x.fill(3);
        4
    };
    let loaded = shard.launch(load, (x.write(U),)).priority(low).go()?;
    let of_urgent = log.clone();
    let noted = move |value: u64| {
        note(&of_urgent, Event::Urgent);
        value
    };
    let urgent = match way {
        Way::Future => shard.launch(move |v: Arg<u64>| noted(*v), ((&loaded).into(),)).priority(high).go()?,
        Way::Region => {
            shard.launch(move |x: Read<u64>| noted(x.as_slice()[0] + 1), (x.read(U),)).priority(high).go()?
        }
        Way::Both => {
            let add = |mut x: ReadWrite<u64>, v: Arg<u64>| x.as_mut_slice()[0] += *v;
            shard.launch(add, (x.read_write(U), (&loaded).into())).priority(low).go()?.detach();
            shard.launch(move |x: Read<u64>| noted(x.as_slice()[0] - 3), (x.read(U),)).priority(high).go()?
        }
    };
    drop(loaded);
    note(&log, Event::Launched);
    urgent.await
}

fn before_the_urgent_task(at: &str, runtime: &Runtime, way: Way, priorities: [Priority; 3]) -> usize {
    let [low, high, filled] = priorities;
    let log = Log::default();
    let of_run = log.clone();
    let results = run(at, runtime, move |top| {
        let log = of_run.clone();
        async move {
            let gang = top.gang("both", 2)?;
            let busy = top.edges("busy", &gang, [(1, 0)], 1)?;
            let region = top.region_tree("x", Rect::line(0, 1), &[U.info()])?;
            let task = top.register("main", move |s, ends| shard(s, (way, low, high, filled), ends, log.clone()));
            let start = |s| match s {
                0 => ShardLaunch::new((busy, region)).writes(region, [U]),
                _ => ShardLaunch::new((busy, region)),
            };
            top.launch_gang(&gang, &task, start)?.all().await
        }
    });
    assert_eq!(results, Ok(vec![4, 0]), "{at}");
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(log.iter().filter(|e| **e == Event::Other).count(), OTHERS, "{at}");
    let launched = log.iter().position(|e| *e == Event::Launched).expect("launched");
    let urgent = log.iter().position(|e| *e == Event::Urgent).expect("it ran");
    log[launched..urgent].iter().filter(|e| **e == Event::Other).count()
}

#[test]
fn an_urgent_task_lends_its_priority_to_those_it_waits_for() {
    let runtimes = || {
        let mut all: Vec<_> = (0..20).map(|seed| (format!("seed {seed}"), Runtime::seeded(1, seed))).collect();
        all.push(("a thread".into(), Runtime::threads(1)));
        all
    };
    let urgent = Priority(Priority::LEVELS - 1);
    for (at, runtime) in runtimes() {
        for way in [Way::Future, Way::Region, Way::Both] {
            for priorities in
                [[Priority::NORMAL, urgent, Priority::NORMAL], [BACKGROUND, Priority::RAISED, Priority::NORMAL]]
            {
                let at = format!("{way:?}, {priorities:?} on {at}");
                let before = before_the_urgent_task(&at, &runtime, way, priorities);
                assert!(before <= 2, "{at}: {before} other tasks began first");
            }
        }
    }
}

/// Nothing lent, nothing changed: a plain task waits for its turn.
#[test]
fn a_plain_task_stays_behind_those_that_were_ready_before() {
    let plain = [Priority::NORMAL; 3];
    let before = before_the_urgent_task("a thread", &Runtime::threads(1), Way::Future, plain);
    assert!(before > OTHERS / 2, "{before}");
}

#[test]
fn in_virtual_time_too() {
    let urgent = Priority(Priority::LEVELS - 1);
    for seed in 0..10 {
        let (at, runtime) = any_virtual(seed);
        for way in [Way::Future, Way::Region, Way::Both] {
            before_the_urgent_task(&at, &runtime, way, [Priority::NORMAL, urgent, Priority::NORMAL]);
        }
    }
}

/// A task that has been lent a priority is in the queue twice. It runs once, even if its changes go to another processor
/// after it has run.
#[test]
fn a_task_that_was_lent_a_priority_runs_once() {
    async fn shard(shard: Shard, board: Region, runs: Log) -> Result<u64, Error> {
        let (board, urgent) = (shard.region(board)?, Priority(Priority::LEVELS - 1));
        let mut sum = 0;
        for round in 0..8 {
            for _ in 0..4 {
                shard.launch(|| (), ()).go()?.detach();
            }
            let of_task = runs.clone();
            let write = move |mut board: WriteShared<u64>| {
                note(&of_task, Event::Other);
                board.fill(round);
                round
            };
            let written = shard.launch(write, (board.write_shared(U),)).go()?;
            sum += shard.launch(|v: Arg<u64>| *v, ((&written).into(),)).priority(urgent).go()?.await?;
        }
        Ok(sum)
    }
    for seed in 0..60 {
        let runs = Log::default();
        let of_run = runs.clone();
        let mapper = stock(&format!("random,seed={seed}")).expect("a stock mapper");
        let runtime = Runtime::seeded(2, seed).mapper(mapper);
        let sums = run(&format!("seed {seed}"), &runtime, move |top| {
            let runs = of_run.clone();
            async move {
                let gang = top.gang("both", 2)?;
                let board = top.region_tree("board", Rect::line(0, 3), &[U.info()])?;
                let task = top.register("main", move |s, board| shard(s, board, runs.clone()));
                let start = |_| ShardLaunch::new(board).shares(board, [U], Privilege::ReadWrite);
                top.launch_gang(&gang, &task, start)?.all().await
            }
        });
        assert_eq!(sums, Ok(vec![28, 28]), "seed {seed}");
        assert_eq!(runs.lock().unwrap_or_else(PoisonError::into_inner).len(), 16, "seed {seed}");
    }
}
