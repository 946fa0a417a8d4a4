//! What must not grow: memory over ten million generations of a barrier and a million waits given up, memory and threads
//! over a thousand runs.

use crate::common::processes::alone;
use crate::common::resident::resident;
use crate::common::watched;
use maniple_regions::Operator;
use maniple_runtime::{Arg, Edges, Error, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Wide, so that processors that have to share a core need not take turns often.
const WINDOW: u64 = 1000;

/// Names of the processors' threads in this process.
fn processors() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("comm")).ok());
    names.filter(|n| n.starts_with("maniple ")).collect()
}

/// Arrivals that each shard has begun, counted beside the barrier.
static BEGUN: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

fn weight(shard: u64, generation: u64) -> u64 {
    generation.wrapping_mul(2 * shard + 3)
}

/// Shard 0 waits for every generation before its next arrival; shard 1 runs ahead as far as the window lets it, and the
/// other does not begin before it has. Returns by how many kB memory grew after the first tenth, and the greatest lead.
async fn lopsided(
    shard: Shard,
    (barrier, begin, n, sums): (PhaseBarrier, Edges, u64, bool),
) -> Result<(u64, u64), Error> {
    let me = shard.index() as usize;
    let (arriver, waiter) = (barrier.arriver(&shard)?, barrier.waiter(&shard)?);
    let lead = if me == 1 { WINDOW } else { 0 };
    let (mut before, mut furthest) = (0, 0);
    if me == 0 {
        shard.wait(begin.consumer(&shard, 1)?.ready()).await?;
    }
    for step in 0..n + lead + 1 {
        if step < n {
            BEGUN[me].store(step + 1, Ordering::Release);
            match sums {
                true => shard.arrive_with(&arriver, weight(me as u64, step)),
                false => shard.arrive(&arriver),
            }
        }
        if me == 1 && step == lead.min(n - 1) {
            shard.arrive(begin.producer(&shard, 1 - shard.index())?.ready());
        }
        let Some(g) = step.checked_sub(lead).filter(|g| *g < n) else { continue };
        if sums {
            let value = shard.wait_value(&waiter).await?;
            assert_eq!(value, weight(0, g).wrapping_mul(31).wrapping_add(weight(1, g)), "generation {g}");
        } else {
            shard.wait(&waiter).await?;
        }
        if me == 0 {
            // Generation g has ended, and g + 1 cannot be: shard 0 has not arrived for it.
            let other = BEGUN[1].load(Ordering::Acquire);
            assert!(other > g && other <= n.min(g + 2 + WINDOW), "{other} arrivals in generation {g}");
            furthest = furthest.max(other - g - 1);
            if g == n / 10 {
                before = resident();
            }
        }
    }
    Ok((resident().saturating_sub(before), furthest))
}

fn generations(n: u64, root: u32, sums: bool) {
    let name = format!("{n} generations, root at shard {root}, sums {sums}");
    let start = Instant::now();
    BEGUN.iter().for_each(|b| b.store(0, Ordering::Relaxed));
    let outcome = watched(&name, || {
        Runtime::threads(2).run(move |top| async move {
            let gang = top.gang("pair", 2)?;
            // The first waiter's processor combines the arrivals.
            let options = PhaseOptions::between([0, 1], [root, 1 - root]).window(WINDOW);
            let options = if sums {
                options.reduce(Operator::user("digest", |a: &u64, b: &u64| a.wrapping_mul(31).wrapping_add(*b)))
            } else {
                options
            };
            let barrier = top.phase_barrier("lopsided", &gang, options)?;
            let begin = top.edges("begin", &gang, (0..gang.shards()).map(|s| (s, 1 - s)), 1)?;
            let task = top.register("lopsided", lopsided);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new((barrier, begin, n, sums)))?.all().await
        })
    });
    let (came, stats) = outcome.unwrap_or_else(|e| panic!("{name}: {e}"));
    let (grown, furthest) = came[0];
    println!("{name}: {:.1?}, grew by {grown} kB, lead of {furthest}", start.elapsed());
    assert!(stats.arrivals >= 2 * n, "{name}: {stats:?}");
    assert!(furthest >= WINDOW, "{name}: lead of {furthest}");
    // Ten million generations that each left a byte would leave ten megabytes.
    assert!(grown < n / 10_000 + 400, "{name}: grew by {grown} kB");
}

/// The arriver that is late combines.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn ten_million_generations() {
    alone("generations::ten_million_generations", || {
        generations(10_000_000, 0, false);
    });
}

/// Every generation goes to the other processor and back.
#[test]
fn generations_combined_by_the_arriver_ahead() {
    alone("generations::generations_combined_by_the_arriver_ahead", || {
        generations(100_000, 1, false);
    });
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn generations_of_a_reduction() {
    alone("generations::generations_of_a_reduction", || {
        generations(300_000, 0, true);
        generations(30_000, 1, true);
    });
}

/// Shards that end, that fail, and that wait for ever.
async fn in_a_ring(shard: Shard, (ring, how): (Edges, u64)) -> Result<u32, Error> {
    let from = (shard.index() + shard.shards() - 1) % shard.shards();
    let (out, inn) = (ring.producer(&shard, (shard.index() + 1) % shard.shards())?, ring.consumer(&shard, from)?);
    for _ in 0..3 {
        shard.launch(|| (), ()).wait(out.empty()).arrive(out.ready()).go()?.detach();
        shard.launch(|| (), ()).wait(inn.ready()).arrive(inn.empty()).go()?.await?;
    }
    match how {
        1 if shard.index() == 1 => Err(Error::user("enough")),
        2 => shard.wait(inn.ready()).await.map(|()| 0),
        _ => Ok(shard.index()),
    }
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_thousand_runs_leave_no_thread_and_no_memory() {
    alone("generations::a_thousand_runs_leave_no_thread_and_no_memory", || {
        let once = |i: u64| {
            let how = i % 4;
            let outcome = Runtime::threads(1 + (i % 3) as u32).run(move |top| async move {
                let gang = top.gang("ring", 4)?;
                let ring = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % 4)), 1)?;
                let task = top.register("in a ring", in_a_ring);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((ring, how)))?.all().await
            });
            match (how, outcome) {
                (1, Err(e)) => assert_eq!(e.origin(), &Error::user("enough")),
                (2, Err(Error::Deadlock { .. })) | (0 | 3, Ok(_)) => {}
                (_, other) => panic!("run {i}: {:?}", other.map(|r| r.0)),
            }
        };
        watched("a thousand runs", || {
            (0..200).for_each(once);
            let before = resident();
            (200..1200).for_each(once);
            let grown = resident().saturating_sub(before);
            println!("a thousand runs: grew by {grown} kB");
            assert!(grown < 2000, "a thousand runs left {grown} kB behind");
            // A thread that has been joined may be listed for a moment longer.
            let mut left = processors();
            for _ in 0..1000 {
                if left.is_empty() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
                left = processors();
            }
            assert!(left.is_empty(), "threads left behind: {left:?}");
        });
    });
}

/// Gives up waiting for a future, all of a map and barriers, `n` times; returns by how many kB memory grew after the first
/// tenth, and the number of waits that were over nevertheless.
async fn gives_up(shard: Shard, (own, sums, n): (Edges, PhaseBarrier, u64)) -> Result<(u64, u64), Error> {
    let (producer, consumer) = (own.producer(&shard, 0)?, own.consumer(&shard, 0)?);
    let sum = sums.waiter(&shard)?;
    let late = shard.launch(|| 7u64, ()).wait(consumer.ready()).go()?;
    let map = shard.index_launch(3, |x: Arg<u64>| *x, |_| ((&late).into(),)).go()?;
    // It is registered before the others and stays so.
    let mut older = late.clone();
    let (mut before, mut over) = (0, 0);
    for i in 0..n {
        let limit = Duration::from_nanos(u64::from(i % 100 == 0));
        // The one before goes when the next is registered.
        let mut newer = late.clone();
        over += u64::from(shard.timeout(limit, &mut newer).await.is_ok());
        older = std::mem::replace(&mut newer, older);
        over += u64::from(shard.timeout(limit, newer).await.is_ok());
        over += u64::from(shard.timeout(limit, map.all()).await.is_ok());
        over += u64::from(shard.timeout(limit, shard.wait(consumer.ready())).await.is_ok());
        over += u64::from(shard.timeout(limit, shard.wait(&sum)).await.is_ok());
        over += u64::from(shard.timeout(limit, shard.wait_value(&sum)).await.is_ok());
        if i == n / 10 {
            before = resident();
        }
    }
    let grown = resident().saturating_sub(before);
    shard.arrive(producer.ready());
    assert_eq!((older.await?, map.all().await?), (7, vec![7; 3]));
    shard.arrive_with(&sums.arriver(&shard)?, 5);
    assert_eq!(shard.wait_value(&sum).await?, 5);
    Ok((grown, over))
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_million_waits_given_up_leave_nothing_behind() {
    alone("generations::a_million_waits_given_up_leave_nothing_behind", || {
        for runtime in [Runtime::threads(1), Runtime::seeded(1, 1)] {
            let outcome = watched("waits given up", || {
                runtime.run(|top| async move {
                    let gang = top.gang("one", 1)?;
                    let own = top.edges("own", &gang, (0..gang.shards()).map(|s| (s, 0)), 1)?;
                    let sums =
                        top.phase_barrier("sums", &gang, PhaseOptions::all(&gang).reduce(Operator::<u64>::sum()))?;
                    let task = top.register("gives up", gives_up);
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new((own, sums, 1_000_000)))?.all().await
                })
            });
            let (came, _) = outcome.unwrap_or_else(|e| panic!("{e}"));
            let (grown, over) = came[0];
            println!("six million waits given up: grew by {grown} kB");
            assert_eq!(over, 0);
            // A million that each left a byte would leave a megabyte.
            assert!(grown < 500, "grew by {grown} kB");
        }
    });
}

/// Threads of processors are known by their name, as the test above takes for granted.
#[test]
fn a_run_has_a_thread_for_each_processor() {
    alone("generations::a_run_has_a_thread_for_each_processor", || {
        async fn shard(shard: Shard, all: PhaseBarrier) -> Result<usize, Error> {
            shard.arrive(&all.arriver(&shard)?);
            shard.wait(&all.waiter(&shard)?).await?;
            Ok(processors().len())
        }
        let outcome = Runtime::threads(3).run(|top| async move {
            let gang = top.gang("all", 3)?;
            let all = top.phase_barrier("all", &gang, PhaseOptions::all(&gang))?;
            top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(all))?.all().await
        });
        let (counts, _) = outcome.unwrap_or_else(|e| panic!("{e}"));
        assert!(counts.iter().all(|n| *n >= 3), "{counts:?}");
    });
}
