//! Deadlines: every kind of wait can be given up and taken up again, and a run with deadlines ends as one without.

mod kinds;
mod programs;

use crate::common::{any_virtual, mix, run, watched};
use maniple_regions::{Field, Operator, Partition, Read, Rect, Region, Write};
use maniple_runtime::{
    Arg, Edges, Error, Gang, InnerTask, PhaseBarrier, PhaseOptions, Place, Runtime, Shard, ShardLaunch, ShardTask,
    TaskFuture, Top,
};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(100);

fn drivers(seeds: u64) -> Vec<(String, Runtime)> {
    let seeded = (0..seeds).map(|seed| (format!("seed {seed}"), Runtime::seeded(1 + (seed % 4) as u32, seed)));
    seeded
        .chain((0..seeds / 2).map(any_virtual))
        .chain((1..=3).map(|n| (format!("{n} threads"), Runtime::threads(n))))
        .collect()
}

/// `outcome` is a time-out of shard 0 of `task` after `limit`.
fn timed_out<T: std::fmt::Debug>(outcome: Result<T, Error>, task: &str, limit: Duration) {
    let place = Place { task: task.into(), shard: Some(0) };
    assert_eq!(outcome.map(|v| format!("{v:?}")), Err(Error::TimedOut { place, limit }));
}

fn is_time_out(e: &Error) -> bool {
    matches!(e, Error::TimedOut { .. })
}

/// What the shards of a test wait for.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Links {
    /// From shard 0 to shard 1, which lets it go on.
    go: Edges,
    there: Edges,
    phase: PhaseBarrier,
    sums: PhaseBarrier,
}

fn links(top: &Top, shards: u32) -> Result<(Gang, Links), Error> {
    let gang = top.gang("all", shards)?;
    let links = Links {
        go: top.edges("go", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % shards)), 1)?,
        there: top.edges("there", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % shards)), 1)?,
        phase: top.phase_barrier("phase", &gang, PhaseOptions::all(&gang))?,
        sums: top.phase_barrier("sums", &gang, PhaseOptions::all(&gang).reduce(Operator::<u64>::sum()))?,
    };
    Ok((gang, links))
}

const LIMITS: [Duration; 4] =
    [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(3), Duration::from_millis(2)];

/// A number drawn below `n`.
fn draw(dice: &mut u64, n: u64) -> u64 {
    *dice = mix(*dice);
    *dice % n
}

#[test]
fn what_is_given_up_gives_its_generation_back_if_it_is_the_last() {
    async fn shard(shard: Shard, links: Links) -> Result<(), Error> {
        let other = links.there.consumer(&shard, (shard.index() + shard.shards() - 1) % shard.shards())?;
        let phase = links.phase.waiter(&shard)?;
        let test = |w| shard.timeout(Duration::ZERO, w);
        for _ in 0..3 {
            assert!(test(shard.wait(other.ready())).await.is_err_and(|e| is_time_out(&e)));
            assert!(shard.timeout(LIMITS[1], shard.wait(&phase)).await.is_err_and(|e| is_time_out(&e)));
        }
        assert_eq!((other.ready().generation(), phase.generation()), (0, 0));
        // Last to first: both come back.
        let (mut first, mut second) = (Box::pin(shard.wait(other.ready())), Box::pin(shard.wait(other.ready())));
        assert!(shard.timeout(Duration::ZERO, &mut first).await.is_err());
        assert!(shard.timeout(Duration::ZERO, &mut second).await.is_err());
        assert_eq!(other.ready().generation(), 2);
        drop(second);
        drop(first);
        assert_eq!(other.ready().generation(), 0);
        // First to last: what the first was for is passed over.
        let (mut first, mut second) = (Box::pin(shard.wait(&phase)), Box::pin(shard.wait(&phase)));
        assert!(shard.timeout(Duration::ZERO, &mut first).await.is_err());
        assert!(shard.timeout(Duration::ZERO, &mut second).await.is_err());
        drop(first);
        drop(second);
        assert_eq!(phase.generation(), 1);
        // The other one of the two goes on.
        let (mut first, mut second) = (Box::pin(shard.wait(other.ready())), Box::pin(shard.wait(other.ready())));
        assert!(shard.timeout(Duration::ZERO, &mut first).await.is_err());
        assert!(shard.timeout(Duration::ZERO, &mut second).await.is_err());
        drop(first);
        let mine = links.there.producer(&shard, (shard.index() + 1) % shard.shards())?;
        shard.arrive(mine.ready());
        shard.arrive(mine.ready());
        shard.timeout(LONG, second).await?;
        assert_eq!(other.ready().generation(), 2);
        Ok(())
    }
    for (at, runtime) in drivers(20) {
        let outcome = run(&at, &runtime, |top| async move {
            let (gang, links) = links(&top, 1)?;
            let task = top.register("gives back", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
        });
        outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
    }
}

/// Shard 0 waits five times with a limit for what never comes, and then without.
#[test]
fn a_deadlock_is_reported_when_the_deadlines_are_over() {
    const LIMIT: Duration = Duration::from_millis(50);
    async fn shard(shard: Shard, (links, times): (Links, Arc<AtomicU64>)) -> Result<(), Error> {
        let from = (shard.index() + shard.shards() - 1) % shard.shards();
        let other = links.there.consumer(&shard, from)?;
        if shard.index() == 0 {
            for _ in 0..5 {
                timed_out(shard.timeout(LIMIT, shard.wait(other.ready())).await, "stuck", LIMIT);
                times.fetch_add(1, Ordering::Relaxed);
            }
        }
        shard.wait(other.ready()).await
    }
    for (at, runtime) in drivers(20) {
        let times: Arc<AtomicU64> = Arc::default();
        let counted = times.clone();
        let start = Instant::now();
        let outcome = run(&at, &runtime, move |top| {
            let counted = counted.clone();
            async move {
                let (gang, links) = links(&top, 3)?;
                let task = top.register("stuck", move |s, links| shard(s, (links, counted.clone())));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
            }
        });
        let Err(Error::Deadlock { report, .. }) = outcome else {
            panic!("{at}: expected a deadlock, came {outcome:?}")
        };
        for s in 0..3 {
            let line = format!("task `stuck` of shard {s} waits for generation 0 of ");
            assert!(report.contains(&line), "{at}: no `{line}` in\n{report}");
        }
        // Each is there once: what was given up left nothing behind.
        assert!(!report.contains('×'), "{at}: {report}");
        assert_eq!(times.load(Ordering::Relaxed), 5, "{at}");
        if at.contains("threads") {
            assert!(start.elapsed() >= 5 * LIMIT, "{at}: {:?}", start.elapsed());
        }
    }
}

/// All shards wait in a ring for each other; the one with a deadline then lets the next go on, and so on.
#[test]
fn a_deadline_ends_what_would_be_a_deadlock() {
    async fn shard(shard: Shard, links: Links) -> Result<bool, Error> {
        let from = (shard.index() + shard.shards() - 1) % shard.shards();
        let (other, mine) =
            (links.there.consumer(&shard, from)?, links.there.producer(&shard, (shard.index() + 1) % shard.shards())?);
        let mut late = false;
        if shard.index() == 0 {
            late = shard.timeout(Duration::from_millis(30), shard.wait(other.ready())).await.is_err();
            shard.arrive(mine.ready());
        }
        shard.wait(other.ready()).await?;
        if shard.index() != 0 {
            shard.arrive(mine.ready());
        }
        Ok(late)
    }
    for (at, runtime) in drivers(40) {
        let late = run(&at, &runtime, |top| async move {
            let (gang, links) = links(&top, 4)?;
            let task = top.register("ring", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
        });
        assert_eq!(late, Ok(vec![true, false, false, false]), "{at}");
    }
}

/// Every shard has limits of its own and nothing else happens: on each processor they end in their order, none early.
#[test]
fn timers_of_several_processors_end_in_their_order() {
    type Ended = Arc<Mutex<Vec<(u32, u64)>>>;
    async fn shard(shard: Shard, links: Links, ended: Ended) -> Result<(), Error> {
        let from = (shard.index() + shard.shards() - 1) % shard.shards();
        let other = links.there.consumer(&shard, from)?;
        let mut total = 0;
        for round in 0..4u64 {
            // 40 ms apart at least, with a permutation of the shards in each round.
            let millis = 40 * (1 + (u64::from(shard.index()) * 5 + round * 3) % 8);
            total += millis;
            let e = shard.timeout(Duration::from_millis(millis), shard.wait(other.ready())).await;
            assert!(e.is_err_and(|e| is_time_out(&e)));
            ended.lock().unwrap().push((shard.processor().0, total));
            if round == 0 {
                links_in_step(&shard, &links).await?;
                total = 0;
            }
        }
        Ok(())
    }
    /// All go on together.
    async fn links_in_step(shard: &Shard, links: &Links) -> Result<(), Error> {
        shard.arrive(&links.phase.arriver(shard)?);
        shard.wait(&links.phase.waiter(shard)?).await
    }
    for (at, runtime) in drivers(30) {
        let ended: Ended = Arc::default();
        let noted = ended.clone();
        let start = Instant::now();
        let outcome = run(&at, &runtime, move |top| {
            let noted = noted.clone();
            async move {
                let (gang, links) = links(&top, 8)?;
                let task = top.register("timed", move |s, links| shard(s, links, noted.clone()));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
            }
        });
        outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
        let ended = ended.lock().unwrap();
        assert_eq!(ended.len(), 32, "{at}");
        if at.contains("seed") {
            // The clock goes from one deadline to the next: exact times, in order, after the barrier as before it.
            let (before, after) = ended.split_at(8);
            assert!(before.is_sorted_by_key(|e| e.1) && after.is_sorted_by_key(|e| e.1), "{at}: {ended:?}");
        } else {
            assert!(start.elapsed() >= Duration::from_millis(320), "{at}: {:?}", start.elapsed());
        }
    }
}

#[test]
fn limits_within_limits() {
    async fn shard(shard: Shard, links: Links) -> Result<(), Error> {
        let other = links.there.consumer(&shard, 0)?;
        let (short, long) = (Duration::from_millis(1), Duration::from_millis(200));
        for (inner, outer) in [(short, long), (long, short)] {
            let wait = shard.timeout(outer, shard.timeout(inner, shard.wait(other.ready())));
            timed_out(wait.await, "nested", short);
        }
        // Beyond the end of the clock there is no deadline; here the arrival comes.
        shard.arrive(links.there.producer(&shard, (shard.index() + 1) % shard.shards())?.ready());
        shard.timeout(Duration::MAX, shard.wait(other.ready())).await?;
        // And for a value that is there no limit is too short.
        assert_eq!(shard.timeout(Duration::ZERO, TaskFuture::ready(7)).await, Ok(7));
        Ok(())
    }
    for (at, runtime) in drivers(20) {
        let outcome = run(&at, &runtime, |top| async move {
            let (gang, links) = links(&top, 1)?;
            let task = top.register("nested", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
        });
        outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
    }
}

/// A limit beyond the end of the clock is none: it hides no deadlock.
#[test]
fn a_limit_without_end_hides_no_deadlock() {
    for (at, runtime) in drivers(10) {
        let outcome = run(&at, &runtime, |top| async move {
            let (gang, links) = links(&top, 1)?;
            let task = top.register("endless", move |shard: Shard, links: Links| async move {
                let other = links.there.consumer(&shard, 0)?;
                shard.timeout(Duration::MAX, shard.wait(other.ready())).await
            });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
        });
        assert!(matches!(outcome, Err(Error::Deadlock { .. })), "{at}: {outcome:?}");
    }
}

/// Polls both; the first to end wins and the other is dropped.
async fn first<T>(mut a: Pin<&mut impl Future<Output = T>>, mut b: Pin<&mut impl Future<Output = T>>) -> T {
    poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Pending => b.as_mut().poll(cx),
        ready => ready,
    })
    .await
}

#[test]
fn the_loser_of_a_race_gives_its_generation_back() {
    async fn shard(shard: Shard, links: Links) -> Result<u64, Error> {
        let (me, both) = (shard.index(), shard.shards());
        let other = links.there.consumer(&shard, (me + both - 1) % both)?;
        let mine = links.there.producer(&shard, (shard.index() + 1) % shard.shards())?;
        if me == 1 {
            for _ in 0..30 {
                shard.wait(mine.empty()).await?;
                shard.arrive(mine.ready());
            }
            return Ok(0);
        }
        let mut raced = 0;
        for g in 0..30 {
            loop {
                let timer = shard.timeout(Duration::from_nanos(1 << (g % 13)), std::future::pending::<Result<(), _>>());
                match first(pin!(shard.wait(other.ready())), pin!(timer)).await {
                    Ok(()) => break,
                    Err(e) if is_time_out(&e) => raced += 1,
                    Err(e) => return Err(e),
                }
                assert_eq!(other.ready().generation(), g);
            }
            assert_eq!(other.ready().generation(), g + 1);
            shard.arrive(other.empty());
        }
        Ok(raced)
    }
    let mut raced = 0;
    for (at, runtime) in drivers(100) {
        let came = run(&at, &runtime, |top| async move {
            let (gang, links) = links(&top, 2)?;
            let task = top.register("races", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
        });
        raced += came.unwrap_or_else(|e| panic!("{at}: {e}"))[0];
    }
    assert!(raced > 100, "{raced}");
}

/// What happens to a leaf task that fails after somebody has given up waiting for it.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
enum After {
    /// Its future is dropped before it fails.
    Dropped,
    /// It is dropped after it has failed, without another look.
    NotLookedAt,
    LookedAt,
    /// It fails while somebody waits with a limit.
    InTime,
}

#[test]
fn an_error_counts_before_the_limit_and_as_unseen_when_nobody_looked() {
    async fn shard(shard: Shard, (links, after): (Links, After)) -> Result<(), Error> {
        if shard.index() == 1 {
            shard.wait(links.go.consumer(&shard, 0)?.ready()).await?;
            shard.arrive(links.there.producer(&shard, (shard.index() + 1) % shard.shards())?.ready());
            return Ok(());
        }
        let other = links.there.consumer(&shard, 1)?;
        let fails = || -> u64 { panic!("leaf bomb") };
        let mut future = shard.launch(fails, ()).named("fails").wait(other.ready()).go()?;
        for limit in LIMITS {
            timed_out(shard.timeout(limit, &mut future).await, "gives up", limit);
        }
        shard.arrive(links.go.producer(&shard, (shard.index() + 1) % shard.shards())?.ready());
        match after {
            After::Dropped => drop(future),
            After::NotLookedAt => {
                while !future.is_settled() {
                    shard.yield_now().await;
                }
                drop(future);
            }
            After::LookedAt => {
                while !future.is_settled() {
                    shard.yield_now().await;
                }
                let e = shard.timeout(Duration::ZERO, future).await.expect_err("it failed");
                assert!(matches!(e.origin(), Error::Panicked { .. }), "{e}");
            }
            After::InTime => {
                let e = shard.timeout(LONG, future).await.expect_err("it failed");
                assert!(matches!(e.origin(), Error::Panicked { .. }), "{e}");
            }
        }
        Ok(())
    }
    for (at, runtime) in drivers(20) {
        for after in [After::Dropped, After::NotLookedAt, After::LookedAt, After::InTime] {
            let at = format!("{at}, {after:?}");
            let outcome = run(&at, &runtime, move |top| async move {
                let (gang, links) = links(&top, 2)?;
                let task = top.register("gives up", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((links, after)))?.all().await
            });
            match after {
                After::Dropped | After::NotLookedAt => {
                    let e = outcome.expect_err(&at);
                    assert!(e.to_string().contains("leaf bomb"), "{at}: {e}");
                }
                After::LookedAt | After::InTime => assert!(outcome.is_ok(), "{at}: {outcome:?}"),
            }
        }
    }
}

#[test]
fn a_shard_that_fails_ends_a_wait_before_its_limit() {
    async fn shard(shard: Shard, links: Links) -> Result<bool, Error> {
        if shard.index() == 1 {
            shard.wait(links.go.consumer(&shard, 0)?.ready()).await?;
            return Err(Error::user("enough"));
        }
        let (other, phase) = (links.there.consumer(&shard, 1)?, links.phase.waiter(&shard)?);
        timed_out(shard.timeout(LIMITS[2], shard.wait(&phase)).await, "waits", LIMITS[2]);
        timed_out(shard.timeout(LIMITS[2], shard.wait(other.ready())).await, "waits", LIMITS[2]);
        shard.arrive(links.go.producer(&shard, (shard.index() + 1) % shard.shards())?.ready());
        let ends = [
            shard.timeout(LONG, shard.wait(&phase)).await,
            shard.timeout(Duration::ZERO, shard.wait(&phase)).await,
            shard.timeout(LONG, shard.wait(other.ready())).await,
        ];
        Ok(ends.into_iter().all(|end| end.is_err_and(|e| e.to_string().contains("enough"))))
    }
    for (at, runtime) in drivers(40) {
        let saw = run(&at, &runtime, |top| async move {
            let (gang, links) = links(&top, 2)?;
            let task = top.register("waits", shard);
            let done = top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?;
            assert!(done.get(1)?.clone().await.is_err());
            done.get(0)?.clone().await
        });
        assert_eq!(saw, Ok(true), "{at}");
    }
}

/// A leaf task of half the run, other shards busy, and a limit in between: it ends soon after the leaf task.
#[test]
fn a_busy_processor_looks_at_the_clock() {
    for workers in 1..=2 {
        let at = format!("{workers} threads");
        let came = run(&at, &Runtime::threads(workers), |top| async move {
            let (gang, links) = links(&top, 2)?;
            let over = Arc::new(AtomicU64::new(0));
            let task = top.register("busy", move |shard: Shard, links: Links| {
                let over = over.clone();
                async move {
                    if shard.index() == 1 {
                        let other = links.there.consumer(&shard, 0)?;
                        let limit = Duration::from_millis(20);
                        let outcome = shard.timeout(limit, shard.wait(other.ready())).await;
                        over.store(1, Ordering::Relaxed);
                        return Ok(outcome.is_err_and(|e| is_time_out(&e)));
                    }
                    // Busy until the other's time has passed, whatever this processor has to run.
                    while over.load(Ordering::Relaxed) == 0 {
                        shard.launch(|| std::hint::black_box(0), ()).go()?.await?;
                        shard.yield_now().await;
                    }
                    Ok(true)
                }
            });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
        });
        assert_eq!(came, Ok(vec![true, true]), "{at}");
    }
}

const A: Field<i64> = Field::new(0, "a");

/// A parent gives up waiting for its own leaf task, which follows its gang, until it has ended.
#[test]
fn a_parent_gives_up_and_goes_on_too() {
    async fn child(shard: Shard, block: Region) -> Result<i64, Error> {
        let a = shard.region(block)?;
        let fill = |mut a: Write<i64>, v: Arg<i64>| a.fill(*v);
        shard.launch(fill, (a.write(A), block.rect.lo(0).into())).go()?.detach();
        Ok(i64::from(shard.index()))
    }
    type Given = (Gang, ShardTask<Region, i64>, Region, Vec<Region>, u64);
    async fn parent(
        parent: InnerTask,
        (gang, task, line, blocks, seed): Given,
    ) -> Result<(Vec<i64>, Vec<i64>, u64), Error> {
        let (mut dice, mut late) = (seed, 0);
        let mut limit = || Duration::from_nanos(draw(&mut dice, 1 << 15) & !7);
        let start = |s: u32| ShardLaunch::new(blocks[s as usize]).writes(blocks[s as usize], [A]);
        let done = parent.launch_gang(&gang, &task, start).await?;
        let local = parent.region(line)?;
        let values = parent.launch(|a: Read<i64>| a.as_slice().to_vec(), (local.read(A),)).go()?;
        let values = loop {
            match parent.timeout(limit(), values.clone()).await {
                Err(e) if is_time_out(&e) => late += 1,
                other => break other?,
            }
        };
        Ok((values, parent.timeout(LONG, done.all()).await?, late))
    }
    let mut all_late = 0;
    for (seed, (at, runtime)) in (0..).zip(drivers(100)) {
        let came = run(&at, &runtime, move |top| async move {
            let line = top.region_tree("line", Rect::line(0, 6), &[A.info()])?;
            let blocks: Vec<Region> = Partition::equal(line, 3)?.iter().collect();
            let (gang, task) = (top.gang("children", 3)?, top.register("child", child));
            let parent = top.register_inner("parent", parent);
            let given = || (gang, task, line, blocks.clone(), mix(seed));
            top.run_inner(&parent, || ShardLaunch::new(given()).writes(line, [A])).await
        });
        let (values, indices, late) = came.unwrap_or_else(|e| panic!("{at}: {e}"));
        assert_eq!((values, indices), (vec![0, 0, 2, 2, 4, 4], vec![0, 1, 2]), "{at}");
        all_late += late;
    }
    assert!(all_late > 100, "{all_late}");
}

/// What comes from another thread comes in that thread's time, on both drivers.
#[test]
fn what_comes_from_outside_is_waited_for_as_long_as_it_takes_outside() {
    async fn shard(shard: Shard, _: ()) -> Result<Duration, Error> {
        let said = Arc::new(Mutex::new((false, None::<Waker>)));
        let outside = said.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(250));
            let (said, waker) = &mut *outside.lock().unwrap();
            *said = true;
            waker.take().into_iter().for_each(Waker::wake);
        });
        let mut heard = pin!(poll_fn(|cx| {
            let (said, waker) = &mut *said.lock().unwrap();
            *waker = Some(cx.waker().clone());
            if *said { Poll::Ready(Ok(())) } else { Poll::Pending }
        }));
        let began = Instant::now();
        let limit = Duration::from_millis(70);
        timed_out(shard.timeout(limit, &mut heard).await, "listens", limit);
        let late = began.elapsed();
        shard.timeout(LONG, heard).await?;
        assert!(late >= limit && began.elapsed() >= Duration::from_millis(200));
        Ok(late)
    }
    for (at, runtime) in drivers(2) {
        let late = run(&at, &runtime, |top| async move {
            let (gang, task) = (top.gang("one", 1)?, top.register("listens", shard));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        });
        late.unwrap_or_else(|e| panic!("{at}: {e}"));
    }
}

#[test]
fn a_time_out_says_who_waited_how_long_and_what_now() {
    let outcome = watched("text", || {
        Runtime::threads(1).run(|top| async move {
            let (gang, links) = links(&top, 1)?;
            let task = top.register("asks", move |shard: Shard, links: Links| async move {
                let other = links.there.consumer(&shard, 0)?;
                shard.timeout(Duration::from_millis(2), shard.wait(other.ready())).await
            });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?.all().await
        })
    });
    let text = outcome.expect_err("nobody arrives").to_string();
    for part in ["task `asks` of shard 0", "2ms", "still under way", "awaited again"] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}
