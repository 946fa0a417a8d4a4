//! Collectives that measure their algorithms: they give what any of them gives, all shards agree, and who wins is fast.

use crate::common;
use crate::common::size::part;
use crate::common::{mix, tree, watched};
use maniple_collectives::{Algorithm, Collective, CollectiveBuilder, Goal, Operator, Order, Tuned};
use maniple_mapper::{AlgorithmInput, Mapper};
use maniple_runtime::{Costs, Error, Link, Runtime, Shard, ShardLaunch, VirtualMachine, now};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// A number whose sums have other bits in every order of addition.
fn given(shard: u32, call: usize) -> f64 {
    let bits = mix(u64::from(shard) << 32 | call as u64);
    (bits % 1000) as f64 * 10f64.powi((bits >> 32) as i32 % 17 - 8)
}

fn runtimes() -> Vec<(String, Runtime)> {
    common::processes::runtimes().unwrap_or_else(|| {
        let threads = (1..=3).map(|n| (format!("{n} threads"), Runtime::threads(n)));
        threads.chain((0..part(6)).map(|s| (format!("seed {s}"), Runtime::seeded(1 + s as u32 % 3, s)))).collect()
    })
}

const CALLS: u32 = 2;

/// What a shard saw: the bits of each result, and the ranking.
type Seen = (Vec<u64>, Vec<(String, u64)>);

/// Calls until it is settled, then a few more, and two of these in flight.
async fn sums(shard: Shard, tuned: Tuned<f64>) -> Result<Seen, Error> {
    let trials = tuned.candidates().len() * (2 + CALLS as usize);
    let mut tuning = tuned.begin();
    let mut bits = Vec::new();
    while tuning.settled().is_none() {
        assert!(bits.len() < trials && tuning.ranking().is_empty());
        bits.push(tuning.call(&shard, given(shard.index(), bits.len())).await?.to_bits());
    }
    assert_eq!(bits.len(), trials);
    bits.push(tuning.call(&shard, given(shard.index(), trials)).await?.to_bits());
    let settled = tuning.settled().expect("it stays settled");
    let next = settled.call(&shard, given(shard.index(), trials + 1))?;
    bits.push(settled.call(&shard, given(shard.index(), trials + 2))?.await?.to_bits());
    bits.insert(trials + 1, next.await?.to_bits());
    let ranking = tuning.ranking().into_iter().map(|(a, time)| (a.to_string(), time.as_nanos() as u64)).collect();
    Ok((bits, ranking))
}

fn sums_are_those_of_any_algorithm() {
    for (at, runtime) in runtimes() {
        // Where the brackets do not matter to the program, times still decide on no bit.
        for (shards, order) in [1, 2, 3, 6, 13].into_iter().flat_map(|n| [(n, Order::Doubling), (n, Order::Any)]) {
            let seen = watched(&format!("{at}, {shards} shards"), || {
                runtime.run(move |top| async move {
                    let gang = top.gang("all", shards)?;
                    let sum = || Collective::allreduce(Operator::sum()).order(order);
                    let tuned = Tuned::make(&top, &gang, "total", CALLS, sum)?;
                    let names: Vec<String> = tuned.candidates().map(|a| a.to_string()).collect();
                    assert!(names.contains(&"radix-2".into()) && names.contains(&"sliced".into()), "{names:?}");
                    assert!(
                        !names.iter().any(|name| name.starts_with("diss") || name.starts_with("five")),
                        "{names:?}"
                    );
                    // Of groups that hold all ranks there is one.
                    assert_eq!(names.contains(&"radix-8".into()), shards > 4, "{names:?}");
                    let task = top.register("sums", sums);
                    top.launch(&gang, &task, move |_| ShardLaunch::new(tuned.clone()))?.all().await
                })
            });
            let (seen, _): (Vec<Seen>, _) = seen.unwrap_or_else(|e| panic!("{at}, {shards} shards: {e}"));
            let right = |call: usize| {
                let all: Vec<f64> = (0..shards).map(|shard| given(shard, call)).collect();
                tree(&all, |a, b| a + b).to_bits()
            };
            for (bits, ranking) in &seen {
                assert_eq!(*bits, (0..bits.len()).map(right).collect::<Vec<_>>(), "{at}, {shards} shards");
                assert_eq!(*ranking, seen[0].1, "{at}, {shards} shards: they do not agree");
                assert!(ranking.is_sorted_by_key(|(_, ns)| *ns), "{ranking:?}");
            }
        }
    }
}

#[test]
fn it_sums_as_any_algorithm_does_and_all_agree() {
    sums_are_those_of_any_algorithm();
}

#[test]
fn on_processes() {
    let name = "it_sums_as_any_algorithm_does_and_all_agree";
    common::processes::bodies_on_processes("tuned::on_processes", &[(name, sums_are_those_of_any_algorithm)]);
}

/// Answers with one algorithm, or with the first choice if that is not offered, and keeps what was offered.
#[derive(Default)]
struct Naming {
    algorithm: &'static str,
    offered: Mutex<Vec<(String, Vec<String>)>>,
}

impl Mapper for Naming {
    fn name(&self) -> &str {
        "naming"
    }
    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        let choices = input.choices.iter().map(|name| name.to_string()).collect();
        self.offered.lock().unwrap().push((format!("{} `{}`", input.kind, input.collective), choices));
        input.choices.iter().position(|choice| choice.to_string() == self.algorithm).unwrap_or(0)
    }
}

#[test]
fn a_mapper_names_the_algorithm_or_has_it_measured() {
    for (algorithm, settled) in [("measured", None), ("dissemination-2", Some("dissemination-2")), ("bruck", None)] {
        let mapper = Arc::new(Naming { algorithm, ..Naming::default() });
        let runtime = Runtime::threads(2).mapper(mapper.clone());
        let (names, _) = watched(algorithm, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", 4)?;
                let tuned = Tuned::make(&top, &gang, "it", 2, || Collective::allreduce(Operator::<u64>::sum()))?;
                let task = top.register("calls", |shard: Shard, tuned: Tuned<u64>| async move {
                    let candidates = tuned.candidates().len();
                    let mut tuning = tuned.begin();
                    let at_once = tuning.ranking();
                    assert_eq!(tuning.settled().is_some(), candidates == 1);
                    for call in 0..3 {
                        assert_eq!(tuning.call(&shard, call).await?, 4 * call);
                    }
                    Ok(at_once
                        .iter()
                        .map(|(algorithm, time)| (algorithm.to_string(), time.as_nanos() as u64))
                        .collect())
                });
                top.launch(&gang, &task, move |_| ShardLaunch::new(tuned.clone()))?.all().await
            })
        })
        .unwrap();
        let expected: Vec<_> = settled.iter().map(|name| (name.to_string(), 0)).collect();
        assert!(names.iter().all(|found: &Vec<(String, u64)>| *found == expected), "{algorithm}: {names:?}");
        let offered = mapper.offered.lock().unwrap();
        let (of, choices) = &offered[0];
        assert_eq!((&**of, &*choices[0]), ("allreduce `it`", "measured"));
        // 13 algorithms, each once.
        assert_eq!((choices.len(), choices.iter().collect::<HashSet<_>>().len()), (14, 14), "{choices:?}");
        assert!(offered[1..].iter().all(|(_, choices)| !choices.contains(&"measured".into())), "{offered:?}");
    }
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
            top.launch(&gang, &task, |_| ShardLaunch::new((start, total)))?.all().await
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
        for n_only in [true, false] {
            let (found, _) = Runtime::virtual_time(infiniband(shards))
                .run(move |top| async move {
                    let gang = top.gang("all", shards)?;
                    let all = || Collective::allreduce(Operator::<i64>::sum());
                    let tuned = match n_only {
                        true => Tuned::among(&top, &gang, "total", 15, (1..8).map(Algorithm::Dissemination), all)?,
                        false => Tuned::make(&top, &gang, "total", 15, all)?,
                    };
                    let task = top.register("tunes", |shard: Shard, tuned: Tuned<i64>| async move {
                        let mut tuning = tuned.begin();
                        while tuning.settled().is_none() {
                            assert_eq!(tuning.call(&shard, 2).await?, 2 * i64::from(shard.shards()));
                        }
                        Ok(tuning.ranking().first().map(|(a, _)| a.to_string()).unwrap_or_default())
                    });
                    top.launch(&gang, &task, move |_| ShardLaunch::new(tuned.clone()))?.all().await
                })
                .unwrap();
            assert!(found.iter().all(|name| *name == found[0]), "{shards} shards chose {found:?}");
            let few = if shards <= 64 { &["direct", "sliced"][..] } else { &[] };
            let others = ["recursive-doubling", "radix-2", "radix-4", "radix-8", "radix-16", "halving-doubling"];
            let others = others.iter().chain(few).filter(|_| !n_only).map(|name| name.parse().unwrap());
            let goal = Goal::allreduce(shards, 1);
            let cases = (1..8).map(Algorithm::FiveCases).filter(|a| !n_only && a.is_for(&goal));
            let all = (1..8).map(Algorithm::Dissemination).chain(others).chain(cases);
            let best = all.map(|a| alone(shards, a)).fold(f64::INFINITY, f64::min);
            let chosen = alone(shards, found[0].parse().unwrap());
            println!("{shards} shards, n only {n_only}: {} {chosen} ns, best {best} ns", found[0]);
            assert!(chosen <= 1.05 * best, "{shards} shards: {} takes {chosen} ns, the best {best} ns", found[0]);
        }
    }
}

fn refused(
    shards: u32,
    calls: u32,
    make: impl Fn() -> CollectiveBuilder<f64> + Send + Sync + Copy + 'static,
    among: &'static [Algorithm],
) -> String {
    let run = Runtime::seeded(2, 1).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        Tuned::among(&top, &gang, "mine", calls, among.iter().copied(), make).map(drop)
    });
    run.map(drop).expect_err("refused").to_string()
}

#[test]
fn what_cannot_be_tuned_is_refused() {
    let sum = || Collective::allreduce(Operator::sum());
    for (said, expected) in [
        (
            refused(3, 0, sum, Algorithm::ALL),
            "tuned allreduce `mine`: expected at least one call of each algorithm, got 0",
        ),
        (
            refused(3, 1, sum, &[Algorithm::RecursiveDoubling, Algorithm::FiveCases(0)]),
            "tuned allreduce `mine`: expected a number from 1 to 64 after `five-cases`, got five-cases-0",
        ),
        (
            refused(3, 1, || Collective::broadcast(0), Algorithm::ALL),
            "tuned broadcast `mine`: expected receivers that are the participants",
        ),
        (
            refused(3, 1, || Collective::reduce(Operator::sum(), [1]), Algorithm::ALL),
            "tuned reduce `mine`: expected receivers",
        ),
        (
            refused(3, 1, sum, &[Algorithm::Dissemination(2), Algorithm::Ring]),
            "gives the operator's usual bits, got dissemination-2, ring",
        ),
        (refused(3, 1, sum, &[]), "got no algorithm"),
        (refused(3, 1, move || sum().order(Order::Left), &[Algorithm::RecursiveDoubling]), "got recursive-doubling"),
        (refused(3, 1, move || sum().participants([5]), Algorithm::ALL), "shards in 0..3"),
        (refused(3, 1, move || sum().slots(0), Algorithm::ALL), "expected at least one slot"),
    ] {
        assert!(said.contains(expected), "{said}");
    }
}

/// In the order of a loop only one algorithm is left for a scan.
#[test]
fn a_scan_in_the_order_of_a_loop_has_one_candidate() {
    let run = Runtime::seeded(2, 1).run(|top| async move {
        let gang = top.gang("all", 5)?;
        let scan = || Collective::<f64>::scan(Operator::sum()).order(Order::Left);
        let scan = Tuned::make(&top, &gang, "scan", 1, scan)?;
        Ok(scan.candidates().collect::<Vec<_>>())
    });
    assert_eq!(run.unwrap().0, [Algorithm::Direct]);
}

/// Other kinds and vectors, and shards that take no part.
#[test]
fn kinds_with_blocks_and_some_shards_only() {
    async fn shard(shard: Shard, (all, scan): (Tuned<[u64]>, Tuned<u64>)) -> Result<(), Error> {
        let (mut all, mut scan) = (all.begin(), scan.begin());
        let me = shard.index();
        for call in 0..40 {
            if me % 2 == 1 {
                let blocks: Vec<u64> = (0..3).map(|to| call * 100 + u64::from(me) * 10 + to).collect();
                let position = u64::from(me / 2);
                let right: Vec<u64> = (0..3).map(|from| call * 100 + (2 * from + 1) * 10 + position).collect();
                assert_eq!(all.call(&shard, blocks).await?, right);
            }
            let sum: u64 = (0..=u64::from(me)).map(|rank| rank + call).sum();
            assert_eq!(scan.call(&shard, u64::from(me) + call).await?, sum);
        }
        assert_eq!((me % 2 == 1, true), (all.settled().is_some(), scan.settled().is_some()));
        Ok(())
    }
    for (at, runtime) in [("threads", Runtime::threads(2)), ("seed 3", Runtime::seeded(3, 3))] {
        let run = watched(at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 6)?;
                let all = Tuned::make(&top, &gang, "all", 3, || Collective::all_to_all().participants([1, 3, 5]))?;
                let scan = Tuned::make(&top, &gang, "scan", 3, || Collective::scan(Operator::sum()))?;
                assert_eq!(
                    all.candidates().collect::<Vec<_>>(),
                    [Algorithm::Bruck, Algorithm::Pairwise, Algorithm::Direct]
                );
                let task = top.register("shard", shard);
                top.launch(&gang, &task, move |_| ShardLaunch::new((all.clone(), scan.clone())))?.all().await
            })
        });
        run.unwrap_or_else(|e| panic!("{at}: {e}"));
    }
}
