//! Deadlines on calls of collectives: a call that was given up goes on and is taken up again.

use crate::common;
use crate::common::size::part;
use crate::common::{mix, watched};
use maniple_collectives::{Algorithm, Collective, Operator};
use maniple_runtime::{Error, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(100);

fn is_time_out(e: &Error) -> bool {
    matches!(e, Error::TimedOut { .. })
}

/// Shard 0 makes its call only once all others have given theirs up; then all go on.
async fn late(shard: Shard, (total, given_up): (Collective<i64>, PhaseBarrier)) -> Result<Vec<i64>, Error> {
    let me = i64::from(shard.index());
    let (arriver, waiter) = (given_up.arriver(&shard)?, given_up.waiter(&shard)?);
    let mut came = Vec::new();
    for call in 0..5 {
        if me == 0 {
            shard.arrive(&arriver);
            shard.wait(&waiter).await?;
            came.push(total.call(&shard, 1000 * call)?.await?);
            continue;
        }
        let mut sum = total.call(&shard, me + call)?;
        for limit in [0, 1, 3000, 200_000].map(Duration::from_nanos) {
            assert!(shard.timeout(limit, &mut sum).await.is_err_and(|e| is_time_out(&e)));
            assert!(shard.timeout(limit, sum.clone()).await.is_err_and(|e| is_time_out(&e)));
        }
        shard.arrive(&arriver);
        shard.timeout(LONG, shard.wait(&waiter)).await?;
        came.push(shard.timeout(LONG, sum).await?);
    }
    Ok(came)
}

/// Calls side by side under limits drawn at random, awaited in any order.
async fn drawn(shard: Shard, (total, seed): (Collective<i64>, u64)) -> Result<Vec<i64>, Error> {
    let me = u64::from(shard.index());
    let mut dice = mix(seed ^ me << 32);
    let mut roll = |n: u64| {
        dice = mix(dice);
        dice % n
    };
    let mut came = Vec::new();
    for round in 0..6u64 {
        let calls: Vec<_> =
            (0..4).map(|c| total.call(&shard, (me * 10 + round * 4 + c) as i64)).collect::<Result<_, _>>()?;
        let mut open: Vec<_> = calls.into_iter().enumerate().collect();
        let mut sums = [0; 4];
        while !open.is_empty() {
            let at = roll(open.len() as u64) as usize;
            let range = 1 << roll(18);
            let limit = Duration::from_nanos(roll(range));
            match shard.timeout(limit, &mut open[at].1).await {
                Ok(sum) => sums[open.swap_remove(at).0] = sum,
                Err(e) if is_time_out(&e) => {}
                Err(e) => return Err(e),
            }
        }
        came.extend(sums);
    }
    Ok(came)
}

fn runtimes(seeds: u64) -> Vec<(String, Runtime)> {
    if let Some(all) = common::processes::runtimes() {
        return all;
    }
    let seeded = (0..part(seeds)).map(|s| (format!("seed {s}"), Runtime::seeded(1 + (s % 4) as u32, s)));
    seeded.chain((1..=3).map(|n| (format!("{n} threads"), Runtime::threads(n)))).collect()
}

#[test]
fn a_call_that_was_given_up_is_taken_up_again() {
    for (at, runtime) in runtimes(30) {
        for algorithm in [Algorithm::RecursiveDoubling, Algorithm::TwoLevel] {
            for shards in [2i64, 3, 7] {
                let at = format!("{at}, {algorithm:?}, {shards} shards");
                let outcome = watched(&at, || {
                    runtime.run(move |top| async move {
                        let gang = top.gang("all", shards as u32)?;
                        let total =
                            Collective::allreduce(Operator::sum()).algorithm(algorithm).make(&top, &gang, "total")?;
                        let given_up = top.phase_barrier("given up", &gang, PhaseOptions::all(&gang))?;
                        let task = top.register("late", late);
                        top.launch_gang(&gang, &task, |_| ShardLaunch::new((total, given_up)))?.all().await
                    })
                });
                let (came, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
                let others = shards - 1;
                let expected: Vec<i64> = (0..5).map(|call| 1000 * call + others * shards / 2 + others * call).collect();
                came.iter().for_each(|c| assert_eq!(*c, expected, "{at}"));
            }
        }
    }
}

#[test]
fn calls_side_by_side_under_random_limits_give_their_sums() {
    for (at, runtime) in runtimes(150) {
        let (seed, shards) = (mix(at.len() as u64 ^ u64::from(at.as_bytes()[at.len() - 1])), 2 + at.len() as i64 % 4);
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards as u32)?;
                let total = Collective::<i64>::allreduce(Operator::sum()).make(&top, &gang, "total")?;
                let task = top.register("drawn", drawn);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((total, seed)))?.all().await
            })
        });
        let (came, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
        let expected: Vec<i64> = (0..24).map(|c| 10 * shards * (shards - 1) / 2 + c * shards).collect();
        came.iter().for_each(|c| assert_eq!(*c, expected, "{at}"));
    }
}

/// A call that can never be over, because shard 0 makes none, ends in time-outs; the deadlock is seen after them.
#[test]
fn a_call_that_nobody_joins_times_out_and_then_is_a_deadlock() {
    for (at, runtime) in runtimes(10) {
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", 3)?;
                let total = Collective::<i64>::allreduce(Operator::sum()).make(&top, &gang, "total")?;
                let task = top.register("alone", move |shard: Shard, _: ()| async move {
                    if shard.index() == 0 {
                        return Ok(0);
                    }
                    let mut sum = total.call(&shard, 1i64)?;
                    for _ in 0..3 {
                        let late = shard.timeout(Duration::from_millis(5), &mut sum).await;
                        assert!(late.is_err_and(|e| is_time_out(&e)));
                    }
                    sum.await
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            })
        });
        let Err(Error::Deadlock { report, .. }) = outcome else {
            panic!("{at}: expected a deadlock, came {outcome:?}")
        };
        assert!(report.contains("missing in call 0 of `total`: shard 0"), "{at}: {report}");
    }
}

/// A report says who awaits parts, and leaves out who has given that up.
#[test]
fn a_report_says_who_awaits_the_next_part_and_who_does_no_more() {
    for (number, (at, runtime)) in runtimes(20).into_iter().enumerate() {
        let gives_up = number % 2 == 1;
        let at = format!("{at}, gives up: {gives_up}");
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", 3)?;
                let all = Collective::<u64>::allgather().algorithm(Algorithm::Direct).make(&top, &gang, "values")?;
                let never = top.phase_barrier("never", &gang, PhaseOptions::all(&gang))?;
                let task = top.register("alone", move |shard: Shard, _: ()| async move {
                    if shard.index() == 0 {
                        return Ok(());
                    }
                    let mut parts = all.call_parts(&shard, 1_u64)?;
                    for _ in 1..3 {
                        parts.next().await.expect("a part").1?;
                    }
                    let late = shard.timeout(Duration::from_millis(1), async { Ok(parts.next().await) }).await;
                    assert!(late.is_err_and(|e| is_time_out(&e)));
                    if gives_up {
                        shard.wait(&never.waiter(&shard)?).await?;
                    }
                    parts.next().await.expect("a part").1.map(drop)
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            })
        });
        let Err(Error::Deadlock { report, .. }) = outcome else {
            panic!("{at}: expected a deadlock, came {outcome:?}")
        };
        assert!(report.contains("missing in call 0 of `values`: shard 0"), "{at}: {report}");
        assert_eq!(report.contains("waits for the result of `values`"), !gives_up, "{at}: {report}");
        assert!(!report.contains("a task "), "{at}: {report}");
    }
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "deadlines::on_processes",
        &[
            ("a_call_that_was_given_up_is_taken_up_again", a_call_that_was_given_up_is_taken_up_again),
            (
                "calls_side_by_side_under_random_limits_give_their_sums",
                calls_side_by_side_under_random_limits_give_their_sums,
            ),
            (
                "a_call_that_nobody_joins_times_out_and_then_is_a_deadlock",
                a_call_that_nobody_joins_times_out_and_then_is_a_deadlock,
            ),
        ],
    );
}
