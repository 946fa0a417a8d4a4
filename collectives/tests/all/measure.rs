//! Measuring the algorithms of a collective: which ones, that they give the same bits on all nodes, and that the fastest is fast.

use crate::common;
use crate::common::size::part;
use crate::common::{mix, tree, watched};
use maniple_collectives::{Algorithm, Collective, CollectiveBuilder, Goal, Operator, Order, measure};
use maniple_regions::exact_sum;
use maniple_runtime::{Costs, Error, Link, Runtime, Shard, ShardLaunch, VirtualMachine, now};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

fn runtimes() -> Vec<(String, Runtime)> {
    common::processes::runtimes().unwrap_or_else(|| {
        let threads = (1..=3).map(|n| (format!("{n} threads"), Runtime::threads(n)));
        threads.chain((0..part(6)).map(|s| (format!("seed {s}"), Runtime::seeded(1 + s as u32 % 3, s)))).collect()
    })
}

/// A number that no two orders of addition add up alike.
fn given(shard: u32) -> f64 {
    let bits = mix(shard.into());
    (bits % 1000) as f64 * 10f64.powi((bits >> 32) as i32 % 17 - 8)
}

type Ranking = Vec<(Algorithm, Duration)>;

/// Sums of floats: algorithms with other bits are never measured, and each algorithm once.
fn algorithms_with_the_usual_bits_are_measured() {
    for (at, runtime) in runtimes() {
        for (shards, order) in [1, 2, 3, 6, 13].into_iter().flat_map(|n| [(n, Order::Doubling), (n, Order::Any)]) {
            let run = watched(&format!("{at}, {shards} shards"), || {
                runtime.run(move |top| async move {
                    let gang = top.gang("all", shards)?;
                    let sum = || Collective::allreduce(Operator::<f64>::sum()).order(order);
                    let ranking = measure(&top, &gang, 2, sum, f64::from).await?;
                    // All copies of the top-level task go on with the same algorithms, or the run fails.
                    let totals = ranking.iter().map(|(algorithm, _)| {
                        sum().algorithm(*algorithm).make(&top, &gang, &format!("total by {algorithm}"))
                    });
                    let totals = totals.collect::<Result<Vec<_>, Error>>()?;
                    let task = top.register("sums", |shard: Shard, totals: Vec<Collective<f64>>| async move {
                        let mut bits = Vec::new();
                        for total in totals {
                            bits.push(total.call(&shard, given(shard.index()))?.await?.to_bits());
                        }
                        Ok(bits)
                    });
                    let bits = top.launch_gang(&gang, &task, |_| ShardLaunch::new(totals.clone()))?.all().await?;
                    Ok((ranking, bits))
                })
            });
            let ((ranking, bits), _): ((Ranking, Vec<Vec<u64>>), _) =
                run.unwrap_or_else(|e| panic!("{at}, {shards} shards: {e}"));
            let all: Vec<f64> = (0..shards).map(given).collect();
            let right = tree(&all, |a, b| a + b).to_bits();
            assert!(bits.iter().flatten().all(|bits| *bits == right), "{at}, {shards} shards: {ranking:?}: {bits:?}");
            let names: Vec<String> = ranking.iter().map(|(algorithm, _)| algorithm.to_string()).collect();
            assert!(names.contains(&"radix-2".into()) && names.contains(&"sliced".into()), "{names:?}");
            assert!(!names.iter().any(|name| name.starts_with("diss") || name.starts_with("five")), "{names:?}");
            // Of groups that hold all ranks there is one.
            assert_eq!(names.contains(&"radix-8".into()), shards > 4, "{names:?}");
            assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{names:?}");
            assert!(ranking.is_sorted_by_key(|(_, time)| *time), "{ranking:?}");
        }
    }
}

#[test]
fn what_gives_the_usual_bits_is_measured() {
    algorithms_with_the_usual_bits_are_measured();
}

#[test]
fn every_kind_is_measured() {
    kinds_are_measured();
}

#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "measure::on_processes",
        &[
            ("what_gives_the_usual_bits_is_measured", algorithms_with_the_usual_bits_are_measured),
            ("every_kind_is_measured", kinds_are_measured),
        ],
    );
}

/// The numbers of `command/machines/infiniband.toml` and of the host that it is like.
fn infiniband(nodes: u32) -> VirtualMachine {
    let network =
        Link { latency_ns: 900.0, send_ns: 50.0, receive_ns: 50.0, gap_ns: 5.0, byte_ns: 0.04, ..Link::default() };
    let costs = Costs {
        replayed_ns: 8.0,
        combine_byte_ns: 0.033,
        call_ns: 44.0,
        arrival_ns: 31.0,
        poll_ns: 13.5,
        message_ns: 43.0,
        shard_ns: 1155.0,
        ..Costs::default()
    };
    VirtualMachine { nodes, network, costs, ..VirtualMachine::default() }
}

/// Nanoseconds of a call by an algorithm on the shard that is slowest in it, the mean of ten calls. Measured alone.
fn alone(shards: u32, algorithm: Algorithm) -> f64 {
    let (found, _) = Runtime::virtual_time(infiniband(shards))
        .run(move |top| async move {
            let gang = top.gang("all", shards)?;
            let start = Collective::barrier().algorithm(Algorithm::RecursiveDoubling).make(&top, &gang, "start")?;
            let total = Collective::allreduce(Operator::sum()).algorithm(algorithm).make(&top, &gang, "total")?;
            let task =
                top.register("calls", |shard: Shard, (start, total): (Collective<()>, Collective<i64>)| async move {
                    let mut ns = Vec::new();
                    for call in 0..12 {
                        start.call(&shard, ())?.await?;
                        let began = now();
                        total.call(&shard, 1)?.await?;
                        if call >= 2 {
                            ns.push((now() - began).as_nanos() as u64);
                        }
                    }
                    Ok(ns)
                });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new((start, total)))?.all().await
        })
        .unwrap();
    let slowest = |call: usize| found.iter().map(|ns: &Vec<u64>| ns[call]).max().unwrap();
    (0..10).map(slowest).sum::<u64>() as f64 / 10.0
}

/// In virtual time, where the choice is within 5 % of the best n, and of the best algorithm.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn the_choice_is_near_the_best() {
    for shards in [2, 3, 5, 8, 12, 36, 64, 65, 96] {
        let (ranking, _) = Runtime::virtual_time(infiniband(shards))
            .run(move |top| async move {
                let gang = top.gang("all", shards)?;
                measure(&top, &gang, 15, || Collective::allreduce(Operator::<i64>::sum()), i64::from).await
            })
            .unwrap();
        let few = if shards <= 64 { &["direct", "sliced"][..] } else { &[] };
        let others = ["recursive-doubling", "radix-2", "radix-4", "radix-8", "radix-16", "halving-doubling"];
        let others = others.iter().chain(few).map(|name| name.parse().unwrap());
        let goal = Goal::allreduce(shards, 1);
        let cases = (1..8).map(Algorithm::FiveCases).filter(|a| a.is_for(&goal));
        let n_only = |algorithm: &Algorithm| matches!(algorithm, Algorithm::Dissemination(_));
        let all: Vec<Algorithm> = (1..8).map(Algorithm::Dissemination).chain(others).chain(cases).collect();
        let all: Vec<(Algorithm, f64)> =
            all.into_iter().map(|algorithm| (algorithm, alone(shards, algorithm))).collect();
        let chosen = [ranking.first(), ranking.iter().find(|(algorithm, _)| n_only(algorithm))];
        for ((chosen, _), of_n) in chosen.map(Option::unwrap).into_iter().zip([false, true]) {
            let among = all.iter().filter(|(algorithm, _)| !of_n || n_only(algorithm));
            let best = among.map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min);
            let ns = alone(shards, *chosen);
            println!("{shards} shards, n only {of_n}: {chosen} {ns} ns, best {best} ns");
            assert!(ns <= 1.05 * best, "{shards} shards: {chosen} takes {ns} ns, the best {best} ns");
        }
    }
}

/// The root begins a call 1 µs after the receiver, when it hears from it. The value takes another 1 µs. There are more slots than
/// calls, so that nothing else holds the root up.
#[test]
fn a_measured_call_comes_after_a_barrier() {
    let network = Link { latency_ns: 1000.0, ..Link::default() };
    let (ranking, _) = Runtime::virtual_time(VirtualMachine { nodes: 2, network, ..VirtualMachine::default() })
        .run(|top| async move {
            let gang = top.gang("both", 2)?;
            measure(&top, &gang, 5, || Collective::broadcast(0).slots(8), u64::from).await
        })
        .unwrap();
    assert!(!ranking.is_empty() && ranking.iter().all(|(_, took)| took.as_nanos() == 2 * 1000), "{ranking:?}");
}

fn refused(
    shards: u32,
    calls: u32,
    make: impl Fn() -> CollectiveBuilder<f64> + Send + Sync + Copy + 'static,
) -> String {
    let run = Runtime::seeded(2, 1).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        measure(&top, &gang, calls, make, f64::from).await
    });
    run.map(drop).expect_err("refused").to_string()
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let sum = || Collective::allreduce(Operator::sum());
    let own = move || sum().schedules("mine", |_, _| unreachable!("not asked for"));
    let minus = || Collective::allreduce(Operator::user("minus", |a: &f64, b: &f64| a - b)).order(Order::Left);
    for (said, expected) in [
        (refused(3, 0, sum), "measuring of allreduce: expected at least one call of each algorithm, got 0"),
        (refused(3, 1, own), "measuring of allreduce: expected a builder without `schedules`, got schedules `mine`"),
        (refused(9000, 1, minus), "gives the operator's usual bits, got none"),
        (refused(3, 1, move || sum().participants([5])), "shards in 0..3"),
        (refused(3, 1, move || sum().slots(0)), "expected at least one slot"),
    ] {
        assert!(said.contains(expected), "{said}");
    }
}

/// In the order of a loop only one algorithm is left for a scan. One that panics fails the measurement, and what follows goes on.
#[test]
fn one_is_left_or_the_calls_fail() {
    let run = Runtime::seeded(2, 1).run(|top| async move {
        let gang = top.gang("all", 5)?;
        let scan = || Collective::<f64>::scan(Operator::sum()).order(Order::Left);
        let ranking = measure(&top, &gang, 1, scan, f64::from).await?;
        let panics = || Collective::allreduce(Operator::user("panics", |_: &f64, _: &f64| panic!("no sum")));
        let failed = measure(&top, &gang, 1, panics, f64::from).await.expect_err("it panics").to_string();
        let task = top.register("goes on", |shard: Shard, ()| async move { Ok(shard.index()) });
        assert_eq!(top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?, [0, 1, 2, 3, 4]);
        Ok((ranking, failed))
    });
    let ((ranking, failed), _) = run.unwrap();
    assert_eq!(ranking.iter().map(|(algorithm, _)| *algorithm).collect::<Vec<_>>(), [Algorithm::Direct]);
    assert!(failed.contains("no sum"), "{failed}");
}

/// What the operator and the function of values have captured is dropped, also if a call fails.
#[test]
fn what_was_made_to_measure_is_destroyed() {
    for (name, fails) in [("a sum", false), ("a failure", true)] {
        let run = Runtime::seeded(1, 1).run(move |top| async move {
            let gang = top.gang("all", 3)?;
            let captured: [Arc<()>; 2] = Default::default();
            let weak = captured.each_ref().map(Arc::downgrade);
            let [by_operator, by_values] = captured;
            let sum = move || {
                let captured = by_operator.clone();
                Collective::allreduce(Operator::user("sum", move |a: &u64, b: &u64| {
                    let _ = &captured;
                    assert!(!fails, "no sum");
                    a + b
                }))
            };
            let value = move |shard| {
                let _ = &by_values;
                u64::from(shard)
            };
            assert_eq!(measure(&top, &gang, 1, sum, value).await.is_err(), fails, "{name}");
            // What is destroyed is gone when the launches before have ended everywhere.
            let idle = top.register("idle", |_: Shard, ()| async { Ok(()) });
            for _ in 0..3 {
                top.launch_gang(&gang, &idle, |_| ShardLaunch::new(()))?.all().await?;
            }
            assert_eq!(weak.map(|weak| weak.strong_count()), [0; 2], "{name}");
            Ok(())
        });
        assert_eq!(run.map(drop), Ok(()), "{name}");
    }
}

/// Other kinds and vectors, operators with a state, shards that only contribute or only receive, and some that do neither.
fn kinds_are_measured() {
    for (at, runtime) in runtimes() {
        let run = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 6)?;
                let names = |ranking: Ranking| {
                    let mut names: Vec<String> = ranking.iter().map(|(algorithm, _)| algorithm.to_string()).collect();
                    names.sort();
                    names
                };
                let blocks = |shard: u32| vec![u64::from(shard); 3];
                let all = || Collective::<u64>::all_to_all().participants([1, 3, 5]);
                assert_eq!(names(measure(&top, &gang, 3, all, blocks).await?), ["bruck", "direct"]);
                let some = || Collective::reduce(Operator::<u64>::sum(), [0, 4]).participants([1, 2, 4]);
                assert!(measure(&top, &gang, 3, some, u64::from).await?.len() > 1);
                let root = || Collective::<u64>::broadcast(3).receivers([0, 5]);
                assert!(measure(&top, &gang, 1, root, u64::from).await?.len() > 1);
                let exact = || Collective::<f64>::scan(exact_sum());
                assert!(measure(&top, &gang, 1, exact, f64::from).await?.len() > 1);
                Ok(())
            })
        });
        run.unwrap_or_else(|e: Error| panic!("{at}: {e}"));
    }
}
