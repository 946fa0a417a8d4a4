//! Collectives that the top-level task destroys: calls of launches before get their results, later ones are refused, on whichever
//! processors and in whichever order.

use crate::common;
use crate::common::size::part;
use crate::common::{any_runtime, watched};
use maniple_collectives::{Collective, Operator, Plan};
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch, TaskFuture};
use std::collections::VecDeque;

fn runtimes(most: u64) -> Vec<(String, Runtime)> {
    common::processes::runtimes().unwrap_or_else(|| (0..part(most)).map(any_runtime).collect())
}

type Made = (Collective<u64>, Collective<[u64]>, Collective<u64, [u64]>);

/// Calls with several in flight. Returns the last results: a sum, a broadcast vector and all that was gathered.
async fn calls(shard: Shard, ((sum, wide, all), k): (Made, u64)) -> Result<(u64, Vec<u64>, Vec<u64>), Error> {
    let me = u64::from(shard.index());
    let mut flying: VecDeque<TaskFuture<u64>> = VecDeque::new();
    let mut last = 0;
    for call in 0..5 {
        flying.push_back(sum.call(&shard, me + call + k)?);
        if flying.len() == 2 {
            last = flying.pop_front().expect("two").await?;
        }
    }
    for future in flying {
        last = future.await?;
    }
    let wide = match me {
        0 => wide.call(&shard, vec![k; 1000])?.await?,
        _ => wide.receive(&shard)?.await?,
    };
    let all = all.call(&shard, me * me + k)?.await?;
    Ok((last, wide.to_vec(), all.to_vec()))
}

/// Each step makes collectives of its own for a gang that lasts or for a new one, and destroys them while shards call them.
#[test]
fn calls_of_launches_before_get_their_results() {
    for (name, runtime) in runtimes(60) {
        let outcome = watched(&name, || {
            runtime.run(move |top| async move {
                let lasting = top.gang("lasting", 5)?;
                let task = top.register("calls", calls);
                let mut launches = Vec::new();
                for k in 0..8u64 {
                    let n = if k.is_multiple_of(2) { 5 } else { 1 + k as u32 };
                    let gang = if k.is_multiple_of(2) { lasting } else { top.gang("own", n)? };
                    let made: Made = (
                        Collective::allreduce(Operator::sum()).make(&top, &gang, "sum")?,
                        Collective::<u64>::broadcast(0).elements(1000).make(&top, &gang, "wide")?,
                        Collective::<u64>::allgather().make(&top, &gang, "all")?,
                    );
                    let launch = top.launch_gang(&gang, &task, |_| ShardLaunch::new((made, k)))?;
                    launches.push((k, u64::from(n), launch));
                    match k % 4 {
                        0 => top.destroy(made)?,
                        2 => {
                            top.destroy(made.1)?;
                            top.destroy([made.0])?;
                            top.destroy(made.2)?;
                        }
                        _ => top.destroy(gang)?,
                    }
                }
                for (k, n, launch) in launches {
                    let sum = (0..n).map(|s| s + 4 + k).sum();
                    let one = (sum, vec![k; 1000], (0..n).map(|s| s * s + k).collect());
                    assert_eq!(launch.all().await?, vec![one; n as usize], "step {k}");
                }
                Ok(())
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(()), "{name}");
    }
}

#[test]
fn calls_of_later_launches_are_refused() {
    for (name, runtime) in runtimes(30) {
        let said = name.clone();
        let outcome = watched(&name, || {
            runtime.run(move |top| {
                let said = said.clone();
                async move {
                    let gang = top.gang("four", 4)?;
                    let sum = Collective::allreduce(Operator::<u64>::sum()).make(&top, &gang, "sum")?;
                    let task = top.register("adds", |shard: Shard, (sum, calls): (Collective<u64>, u64)| async move {
                        let mut last = 0;
                        for _ in 0..calls {
                            last = sum.call(&shard, 1)?.await?;
                        }
                        Ok(last)
                    });
                    // Shards that have called it before are refused too, once they are of a later launch.
                    let before = top.launch_gang(&gang, &task, |_| ShardLaunch::new((sum, 3)))?;
                    let long = top.launch_gang(&gang, &task, |_| ShardLaunch::new((sum, 0)))?;
                    let (gone, line) = (top.destroy(sum), line!());
                    gone?;
                    let late = top.launch_gang(&gang, &task, |_| ShardLaunch::new((sum, 1)))?;
                    assert_eq!(before.all().await?, [4; 4], "{said}");
                    assert_eq!(long.all().await?, [0; 4], "{said}");
                    for late in late.iter() {
                        let error = late.clone().await.expect_err(&said);
                        let Error::Destroyed { what, object, at } = error.origin() else { panic!("{said}: {error}") };
                        assert_eq!((&**object, &**at), ("`sum`", &*format!("{}:{line}", file!())), "{said}");
                        assert!(what.starts_with("a call in task `adds` of shard "), "{said}: {error}");
                    }
                    let after =
                        top.launch_gang(&gang, &task, |_| ShardLaunch::new((sum, 1)))?.all().await.expect_err(&said);
                    assert!(matches!(after.origin(), Error::Destroyed { .. }), "{said}: {after}");
                    let twice = top.destroy(sum).expect_err(&said);
                    assert!(matches!(twice, Error::Destroyed { .. }), "{said}: {twice}");
                    Ok(())
                }
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(()), "{name}");
    }
}

/// What is made of several collectives is destroyed as a whole.
#[test]
fn plans_are_destroyed_with_all_that_they_are_made_of() {
    for (name, runtime) in runtimes(12) {
        let outcome = watched(&name, || {
            runtime.run(|top| async move {
                let gang = top.gang("four", 4)?;
                let sum = || Collective::allreduce(Operator::<u64>::sum());
                let plan = Plan::make(&top, &gang, (("a", sum()), vec![("b", sum()), ("c", sum())]))?;
                let (a, rest) = plan.collectives.clone();
                let task = top.register("adds", |shard: Shard, all: Vec<Collective<u64>>| async move {
                    let mut sums = Vec::new();
                    for sum in all {
                        sums.push(sum.call(&shard, 2)?.await?);
                    }
                    Ok(sums)
                });
                let all = [a, rest[0], rest[1]];
                let adds = top.launch_gang(&gang, &task, |_| ShardLaunch::new(all.to_vec()))?;
                top.destroy(&plan)?;
                assert_eq!(adds.all().await?, vec![vec![8; 3]; 4]);
                for sum in all {
                    let late = top.launch_gang(&gang, &task, |_| ShardLaunch::new(vec![sum]))?.all().await;
                    assert!(matches!(late.expect_err("late").origin(), Error::Destroyed { .. }));
                }
                Ok(())
            })
        });
        assert_eq!(outcome.map(|r| r.0), Ok(()), "{name}");
    }
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "destroy::on_processes",
        &[
            ("calls_of_launches_before_get_their_results", calls_of_launches_before_get_their_results),
            ("calls_of_later_launches_are_refused", calls_of_later_launches_are_refused),
            ("plans_are_destroyed_with_all_that_they_are_made_of", plans_are_destroyed_with_all_that_they_are_made_of),
        ],
    );
}
