//! What the drivers owe a program: every run ends, wakers work from anywhere, and a deadlock is reported when it is one.

use crate::common;
use crate::common::{any_virtual, mix, watched};
use maniple_runtime::{
    Edges, Error, Gang, InnerTask, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch, ShardTask,
};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Both drivers, with one to three processors.
fn drivers() -> Vec<(String, Runtime)> {
    let seeded = (0..9).map(|seed| (format!("seed {seed}"), Runtime::seeded(1 + (seed % 3) as u32, seed)));
    seeded
        .chain((0..6).map(any_virtual))
        .chain((1..=3).map(|n| (format!("{n} threads"), Runtime::threads(n))))
        .collect()
}

fn report_of<R: std::fmt::Debug>(at: &str, outcome: Result<R, Error>) -> String {
    match outcome {
        Err(Error::Deadlock { report, .. }) => report,
        other => panic!("{at}: expected a deadlock, came {other:?}"),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn tasks_have_the_stack_of_the_run() {
    for (name, runtime) in drivers() {
        common::stacks::tasks_have_the_stack_of_the_run(&name, &runtime);
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
    async fn shard(shard: Shard, (edge, from): (Edges, u32)) -> Result<(), Error> {
        if shard.index() == from {
            let mine = edge.outgoing(&shard)?.remove(0);
            for _ in 0..20_000 {
                shard.arrive(mine.ready());
            }
        }
        Ok(())
    }
    let top = move |top: maniple_runtime::Top| async move {
        let gang = top.gang("all", shards)?;
        let edge = top.edges("unheard", &gang, [(from, to)], 1)?;
        let task = top.register("shouts", shard);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((edge, from)))?.all().await?;
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

/// Ready once somebody else has said so; gives its waker to `hand` when first polled.
struct Outside<F> {
    hand: Option<F>,
    said: Arc<AtomicBool>,
}

impl<F: FnOnce(Waker, Arc<AtomicBool>)> Outside<F> {
    fn new(hand: F) -> Self {
        Self { hand: Some(hand), said: Arc::default() }
    }
}

impl<F: FnOnce(Waker, Arc<AtomicBool>) + Unpin> Future for Outside<F> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.said.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        if let Some(hand) = self.hand.take() {
            hand(cx.waker().clone(), self.said.clone());
        }
        Poll::Pending
    }
}

/// Another thread says so after a while.
fn said_after(time: Duration) -> impl Future<Output = ()> {
    Outside::new(move |waker, said| {
        std::thread::spawn(move || {
            std::thread::sleep(time);
            said.store(true, Ordering::Release);
            waker.wake();
        });
    })
}

#[test]
fn a_shard_may_await_a_thread_of_its_own() {
    async fn shard(shard: Shard, _: ()) -> Result<u32, Error> {
        if shard.index() == 1 {
            said_after(Duration::from_millis(150)).await;
            said_after(Duration::from_millis(1)).await;
        }
        Ok(shard.index())
    }
    for (at, runtime) in drivers() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 3)?;
                let task = top.register("awaits a thread", shard);
                let values = top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?;
                said_after(Duration::from_millis(1)).await;
                Ok(values)
            })
        });
        assert_eq!(outcome.expect(&at).0, [0, 1, 2], "{at}");
    }
}

#[test]
fn a_waker_that_is_dropped_without_a_wake_is_awaited_no_longer() {
    async fn shard(shard: Shard, _: ()) -> Result<(), Error> {
        if shard.index() == 2 {
            let dropped = Outside::new(|waker, _| {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(120));
                    drop(waker);
                });
            });
            dropped.await;
        }
        Ok(())
    }
    for (at, runtime) in drivers() {
        let began = Instant::now();
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 3)?;
                let task = top.register("forgotten", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            })
        });
        let report = report_of(&at, outcome);
        assert!(report.contains("`forgotten`"), "{at}: {report}");
        // Until it is dropped, it may yet wake somebody.
        assert!(began.elapsed() >= Duration::from_millis(120), "{at}");
    }
}

/// A waker of a combinator's own, which passes wakes on to the shard's and counts them.
#[derive(Default)]
struct Inner {
    outer: Mutex<Option<Waker>>,
    woken: AtomicU32,
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
        if let Some(outer) = &*self.outer.lock().expect("nobody panics") {
            outer.wake_by_ref();
        }
    }
}

/// Polls with a waker of its own and keeps the shard's, as `FuturesUnordered` does.
async fn under_another_waker<T>(future: impl Future<Output = T>) -> T {
    let inner = Arc::new(Inner::default());
    let waker = Waker::from(inner.clone());
    let mut future = pin!(future);
    poll_fn(|cx| {
        *inner.outer.lock().expect("nobody panics") = Some(cx.waker().clone());
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

#[test]
fn a_combinator_that_keeps_the_waker_raises_no_false_alarm() {
    async fn shard(shard: Shard, _: ()) -> Result<(), Error> {
        let time = Duration::from_millis(100 * u64::from(shard.index()));
        under_another_waker(said_after(time)).await;
        Ok(())
    }
    for (at, runtime) in drivers() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 3)?;
                let task = top.register("combines", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            })
        });
        outcome.expect(&at);
    }
}

#[test]
fn wakes_from_outside_are_never_taken_for_a_deadlock() {
    const ROUNDS: u64 = 10_000;
    /// Wakes shard 0's processor over and over through a waker whose shard has ended, so that it keeps looking around.
    async fn stale(_: Shard, stop: Arc<AtomicBool>) -> Result<(), Error> {
        Outside::new(move |waker, said| {
            said.store(true, Ordering::Release);
            waker.wake_by_ref();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    waker.wake_by_ref();
                    std::thread::sleep(Duration::from_micros(5));
                }
            });
        })
        .await;
        Ok(())
    }
    async fn awaits(shard: Shard, rounds: u64) -> Result<u64, Error> {
        if shard.index() == 0 {
            return Ok(0);
        }
        let (hand, work) = std::sync::mpsc::channel::<(Waker, Arc<AtomicBool>, u64)>();
        std::thread::spawn(move || {
            for (waker, said, spins) in work {
                (0..spins).for_each(|_| std::hint::spin_loop());
                said.store(true, Ordering::Release);
                waker.wake();
            }
        });
        for round in 0..rounds {
            let hand = hand.clone();
            Outside::new(move |waker, said| drop(hand.send((waker, said, mix(round) % 3000)))).await;
        }
        Ok(rounds)
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    let outcome = watched("wakes", || {
        Runtime::threads(2).run(move |top| {
            let stop = stopping.clone();
            async move {
                let (one, two) = (top.gang("one", 1)?, top.gang("two", 2)?);
                let first = top.register("stale", move |shard, ()| stale(shard, stop.clone()));
                top.launch_gang(&one, &first, |_| ShardLaunch::new(()))?.all().await?;
                let second = top.register("awaits", awaits);
                top.launch_gang(&two, &second, |_| ShardLaunch::new(ROUNDS))?.all().await
            }
        })
    });
    stop.store(true, Ordering::Relaxed);
    assert_eq!(outcome.expect("somebody outside always wakes them").0, [0, ROUNDS]);
}

/// Polls once with a waker that leads nowhere, then with the shard's own.
async fn first_polled_by_another<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let elsewhere = Waker::from(Arc::new(Inner::default()));
    if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&elsewhere)) {
        return value;
    }
    future.await
}

/// The other way round: first with the shard's own waker.
async fn then_polled_by_another<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        Poll::Ready(value) => value,
        Poll::Pending => under_another_waker(future).await,
    }
}

#[test]
fn whoever_polled_last_is_woken() {
    async fn late(shard: &Shard) {
        for _ in 0..50 {
            shard.yield_now().await;
        }
    }
    fn one() -> u32 {
        1
    }
    async fn shard(shard: Shard, (pairs, all): (Edges, PhaseBarrier)) -> Result<(), Error> {
        let (mine, before) = (
            pairs.producer(&shard, (shard.index() + 1) % shard.shards())?,
            (shard.index() + shard.shards() - 1) % shard.shards(),
        );
        let (theirs, arriver, waiter) = (pairs.consumer(&shard, before)?, all.arriver(&shard)?, all.waiter(&shard)?);
        for round in 0..4 {
            // The last to arrive makes the others wait.
            if shard.index() == round % shard.shards() {
                late(&shard).await;
            }
            shard.arrive(mine.ready());
            shard.arrive(&arriver);
            if round % 2 == 0 {
                first_polled_by_another(shard.wait(theirs.ready())).await?;
                first_polled_by_another(shard.wait(&waiter)).await?;
            } else {
                then_polled_by_another(shard.wait(theirs.ready())).await?;
                then_polled_by_another(shard.wait(&waiter)).await?;
            }
        }
        assert_eq!(first_polled_by_another(shard.launch(one, ()).go()?).await?, 1);
        assert_eq!(then_polled_by_another(shard.launch(one, ()).go()?).await?, 1);
        Ok(())
    }
    for (at, runtime) in drivers() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 3)?;
                let pairs = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % 3)), 1)?;
                let all = top.phase_barrier("all", &gang, PhaseOptions::all(&gang))?;
                let task = top.register("moves", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((pairs, all)))?.all().await
            })
        });
        outcome.expect(&at);
    }
}

#[test]
fn polling_again_and_again_registers_once() {
    /// Wakers that `future` holds after each of two has polled it many times in turn, and which of them a wake reached.
    async fn polled<T>(future: impl Future<Output = T>, arrive: impl FnOnce()) -> [(usize, u32); 2] {
        let inner: [Arc<Inner>; 2] = Default::default();
        let wakers = inner.clone().map(Waker::from);
        let mut future = pin!(future);
        for waker in (0..100).flat_map(|_| [&wakers[0], &wakers[0], &wakers[1], &wakers[1]]) {
            assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        let held = inner.each_ref().map(|i| Arc::strong_count(i) - 2);
        arrive();
        future.await;
        let woken = inner.map(|i| i.woken.load(Ordering::Relaxed));
        [(held[0], woken[0]), (held[1], woken[1])]
    }
    fn one() -> u32 {
        1
    }
    async fn shard(shard: Shard, (pairs, all): (Edges, PhaseBarrier)) -> Result<(), Error> {
        let (mine, theirs) =
            (pairs.producer(&shard, (shard.index() + 1) % shard.shards())?, pairs.consumer(&shard, shard.index())?);
        let (arriver, waiter) = (all.arriver(&shard)?, all.waiter(&shard)?);
        let last_only = [(0, 0), (1, 1)];
        assert_eq!(polled(shard.wait(theirs.ready()), || shard.arrive(mine.ready())).await, last_only, "a pair");
        assert_eq!(polled(shard.wait(&waiter), || shard.arrive(&arriver)).await, last_only, "a phase barrier");
        assert_eq!(polled(shard.launch(one, ()).go()?, || {}).await.map(|p| p.0), [0, 1], "a task's future");
        // A second wait beside a first one for an earlier generation.
        let (early, late) = (shard.wait(theirs.ready()), shard.wait(theirs.ready()));
        let (mut early, arrive) = (pin!(early), || (0..2).for_each(|_| shard.arrive(mine.ready())));
        assert!(poll_fn(|cx| Poll::Ready(early.as_mut().poll(cx))).await.is_pending());
        assert_eq!(polled(late, arrive).await, last_only, "a later generation");
        early.await
    }
    for (at, runtime) in drivers() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("one", 1)?;
                let pairs = top.edges("own", &gang, (0..gang.shards()).map(|s| (s, s)), 1)?;
                let all = top.phase_barrier("own", &gang, PhaseOptions::all(&gang))?;
                let task = top.register("polls", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((pairs, all)))?.all().await
            })
        });
        outcome.expect(&at);
    }
}

/// Most memory this process has used so far, in bytes.
#[cfg(target_os = "linux")]
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("a process has one");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// In a process of its own, whose memory no other test uses.
#[test]
#[cfg(target_os = "linux")]
fn hundreds_of_workers_take_little_memory() {
    static SUM: AtomicU64 = AtomicU64::new(0);
    async fn shard(shard: Shard, _: ()) -> Result<(), Error> {
        SUM.fetch_add(u64::from(shard.index()), Ordering::Relaxed);
        Ok(())
    }
    common::processes::on_processes("wires::hundreds_of_workers_take_little_memory", &[(1, 1)], |_| {
        watched("300 workers", || {
            Runtime::threads(300)
                .run(|top| async move {
                    let gang = top.gang("all", 300)?;
                    let task = top.register("sums", shard);
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                })
                .expect("nothing is wrong")
        });
        assert_eq!(SUM.load(Ordering::Relaxed), 299 * 300 / 2);
        assert!(most_memory() < 400 << 20, "{} MiB", most_memory() >> 20);
    });
}

#[test]
fn a_report_names_tasks_shards_and_parents() {
    async fn shard(shard: Shard, barrier: PhaseBarrier) -> Result<(), Error> {
        // Shards 0 and 2 have ended, the others wait for them.
        if shard.index().is_multiple_of(2) {
            return Ok(());
        }
        let end = (barrier.arriver(&shard)?, barrier.waiter(&shard)?);
        shard.arrive(&end.0);
        shard.wait(&end.1).await
    }
    type Args = (Gang, ShardTask<PhaseBarrier, ()>, PhaseBarrier);
    async fn parent(parent: InnerTask, (gang, task, barrier): Args) -> Result<(), Error> {
        parent.launch_gang(&gang, &task, |_| ShardLaunch::new(barrier)).await?.all().await.map(|_| ())
    }
    for (at, runtime) in drivers() {
        let by_top = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 4)?;
                let barrier = top.phase_barrier("never", &gang, PhaseOptions::all(&gang))?;
                let task = top.register("stays", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(barrier))?.all().await
            })
        });
        let by_parent = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 4)?;
                let barrier = top.phase_barrier("never", &gang, PhaseOptions::all(&gang))?;
                let (task, single) = (top.register("stays", shard), top.register_inner("leads", parent));
                top.run_inner(&single, || ShardLaunch::new((gang, task, barrier))).await
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

/// Eight times as many workers as cores, which sleep and wake all the time: whoever has no turn looks idle.
#[test]
fn a_crowd_that_goes_on_is_never_taken_for_a_deadlock() {
    async fn shard(shard: Shard, (ring, step): (Edges, PhaseBarrier)) -> Result<u32, Error> {
        let (me, n) = (shard.index(), shard.shards());
        let (to, from) =
            (ring.producer(&shard, (shard.index() + 1) % shard.shards())?, ring.consumer(&shard, (me + n - 1) % n)?);
        let (arrive, wait) = (step.arriver(&shard)?, step.waiter(&shard)?);
        for round in 0..40u32 {
            // Only one shard has something to do now and then, while all others wait for it.
            let naps = round % 8 == 0 && me == round * 7 % n;
            let nap = move || std::thread::sleep(Duration::from_micros(if naps { 300 } else { 0 }));
            shard.launch(nap, ()).wait(to.empty()).arrive(to.ready()).arrive(&arrive).go()?.detach();
            shard.launch(|| (), ()).wait(from.ready()).arrive(from.empty()).go()?.detach();
            shard.wait(&wait).await?;
        }
        Ok(me)
    }
    let workers = 8 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    for run in 0..20 {
        let at = format!("{workers} workers, run {run}");
        let done = watched(&at, || {
            Runtime::threads(workers).run(move |top| async move {
                let gang = top.gang("all", 2 * workers)?;
                let ring = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % (2 * workers))), 1)?;
                let step = top.phase_barrier("step", &gang, PhaseOptions::all(&gang))?;
                let task = top.register("crowd", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((ring, step)))?.all().await
            })
        });
        assert_eq!(done.map(|r| r.0), Ok((0..2 * workers).collect()), "{at}");
    }
}

/// The drawing of a deadlock: a node for each who waits or is waited for, an edge for each wait, a cycle in red.
#[test]
fn a_deadlock_is_drawn() {
    async fn shard(shard: Shard, ring: Edges) -> Result<(), Error> {
        let (me, n) = (shard.index(), shard.shards());
        let (to, from) =
            (ring.producer(&shard, (shard.index() + 1) % shard.shards())?, ring.consumer(&shard, (me + n - 1) % n)?);
        shard.wait(from.ready()).await?;
        shard.arrive(to.ready());
        Ok(())
    }
    for (at, runtime) in drivers() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 3)?;
                let ring = top.edges("a \"ring\"", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % 3)), 1)?;
                let task = top.register("waits", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(ring))?.all().await
            })
        });
        let Err(Error::Deadlock { report, graph }) = outcome else { panic!("{at}: {outcome:?}") };
        assert!(graph.starts_with("digraph deadlock {\n") && graph.ends_with("}\n"), "{graph}");
        assert_eq!(graph.matches("color = red").count(), 3, "{at}: {graph}");
        for s in 0..3 {
            assert!(graph.contains(&format!("[label = \"task `waits` of shard {s}\"]")), "{at}: {graph}");
            let wait = format!("`a \\\"ring\\\"` ready of edge shard {} -> shard {s}", (s + 2) % 3);
            assert!(graph.contains(&wait), "{at}: {wait} is not in {graph}");
        }
        assert_eq!(report.lines().filter(|l| l.contains("a cycle: ")).count(), 1, "{at}: {report}");
    }
}

/// Who is to blame is the launch that does not end, not the shards that it keeps from starting.
#[test]
fn shards_that_have_not_started_are_not_taken_for_over() {
    const U: maniple_regions::Field<u64> = maniple_regions::Field::new(0, "u");
    async fn again(shard: Shard, (round, pairs): (u32, Edges)) -> Result<(), Error> {
        if round == 0 {
            return Ok(());
        }
        if shard.index() == 1 {
            shard.arrive(pairs.producer(&shard, (shard.index() + 1) % shard.shards())?.ready());
            return Ok(());
        }
        shard.wait(pairs.consumer(&shard, 1)?.ready()).await
    }
    async fn culprit(_: Shard, (): ()) -> Result<(), Error> {
        std::future::pending().await
    }
    for (at, runtime) in drivers() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let line = top.region_tree("line", maniple_regions::Rect::line(0, 8), &[U.info()])?;
                let (gang, one) = (top.gang("all", 2)?, top.gang("one", 1)?);
                let pairs = top.edges("ghosts", &gang, (0..gang.shards()).map(|s| (s, 1 - s)), 1)?;
                let (again, culprit) = (top.register("again", again), top.register("culprit", culprit));
                top.launch_gang(&gang, &again, |_| ShardLaunch::new((0, pairs)))?.all().await?;
                let other = top.launch_gang(&one, &culprit, |_| ShardLaunch::new(()).writes(line, [U]))?;
                let second = top.launch_gang(&gang, &again, |s| {
                    let start = ShardLaunch::new((1, pairs));
                    // Shard 1 needs what the culprit has.
                    if s == 1 { start.writes(line, [U]) } else { start }
                })?;
                second.all().await?;
                other.all().await
            })
        });
        let report = report_of(&at, outcome);
        assert!(!report.contains("is over"), "{at}: {report}");
        let culprit = "task `culprit` of shard 0 waits for something that is not the framework's";
        assert!(report.contains(culprit), "{at}: {report}");
        assert!(report.contains("shard 1 has not been started"), "{at}: {report}");
    }
}
