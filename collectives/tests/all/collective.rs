//! What a collective refuses, and what it promises beside its results: order, timing, messages, deadlines.

use crate::common;
use crate::common::{any_f64, any_runtime, bytes, mix, watched};
use maniple_collectives::{
    Algorithm, Collective, Combine, Goal, Operator, Order, Part, Schedule, Schedules, halving_doubling,
    recursive_doubling,
};
use maniple_regions::Vector;
use maniple_runtime::{Check, Error, Runtime, Shard, ShardLaunch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The text of an error of misuse.
fn misuse<T>(refused: Result<T, Error>) -> String {
    match refused {
        Err(Error::Misuse { what, expected, came }) => format!("{what}: expected {expected}, got {came}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[test]
fn what_cannot_be_made_is_refused() {
    let outcome = watched("refused", || {
        Runtime::threads(1).run(|top| async move {
            let gang = top.gang("all", 4)?;
            let sum = Operator::<u64>::sum;
            let same = |text: String, expected: &str| assert_eq!(text, expected);
            same(
                misuse(Collective::reduce(sum(), [4]).make(&top, &gang, "far")),
                "collective `far`: expected shards in 0..4, got shard 4, which receives",
            );
            same(
                misuse(Collective::reduce(sum(), [0]).participants([1, 9]).make(&top, &gang, "far")),
                "collective `far`: expected shards in 0..4, got shard 9, which contributes",
            );
            same(
                misuse(Collective::reduce(sum(), []).make(&top, &gang, "nobody")),
                "collective `nobody`: expected at least one shard that receives, got none",
            );
            same(
                misuse(Collective::<u64>::broadcast(7).make(&top, &gang, "root")),
                "collective `root`: expected shards in 0..4, got shard 7, which contributes",
            );
            // The largest number of a shard is no reason to count on from 0.
            let last = u32::MAX;
            same(
                misuse(Collective::<u64>::broadcast(last).make(&top, &gang, "root")),
                "collective `root`: expected shards in 0..4, got shard 4294967295, which contributes",
            );
            same(
                misuse(Collective::reduce(sum(), [last]).make(&top, &gang, "sum")),
                "collective `sum`: expected shards in 0..4, got shard 4294967295, which receives",
            );
            same(
                misuse(Collective::allreduce(sum()).participants([last, last - 1]).make(&top, &gang, "sum")),
                "collective `sum`: expected shards in 0..4, got shard 4294967295, which contributes",
            );
            same(
                misuse(Collective::<u64>::broadcast(1).participants([1]).make(&top, &gang, "root")),
                "collective `root`: expected one shard that contributes, and `receivers` for the others, got \
                 `participants`",
            );
            same(
                misuse(Collective::scan(sum()).participants([1, 3]).receivers([3, 0]).make(&top, &gang, "scan")),
                "collective `scan`: expected no receiver before shard 1, the first that contributes, got shard 0",
            );
            same(
                misuse(Collective::<u64>::allgather().sizes([1, 2]).make(&top, &gang, "blocks")),
                "collective `blocks`: expected the sizes of 4 blocks, got the sizes of 2",
            );
            same(
                misuse(Collective::allreduce(sum()).sizes([1, 2]).make(&top, &gang, "blocks")),
                "collective `blocks`: expected `elements` for an allreduce, got `sizes`",
            );
            same(
                misuse(Collective::<u64>::allgather().sizes_between(|_, _| 1).make(&top, &gang, "blocks")),
                "collective `blocks`: expected `elements` or `sizes` for an allgather, got `sizes_between`",
            );
            same(
                misuse(Collective::<u64>::all_to_all().sizes([1, 2, 3, 4]).make(&top, &gang, "blocks")),
                "collective `blocks`: expected `elements` or `sizes_between` for an all-to-all, got `sizes`",
            );
            let both = Collective::allreduce(sum()).schedules("own", neighbours).algorithm(Algorithm::Direct);
            same(
                misuse(both.make(&top, &gang, "both")),
                "collective `both`: expected `schedules` or `algorithm`, got both: schedules `own` and direct",
            );
            same(
                misuse(Collective::allreduce(sum()).slots(1 << 29).make(&top, &gang, "slots")),
                "allreduce `slots`: expected fewer than 2^31 slots of all shards together, got 536870912 slots in each of 4 \
                 shards",
            );
            let text = misuse(Collective::<u64>::allreduce(sum()).algorithm(Algorithm::Ring).make(&top, &gang, "ring"));
            assert!(text.contains("allreduce `ring`") && text.contains("ring"), "{text}");
            let floats = Collective::allreduce(Operator::<f64>::sum()).algorithm(Algorithm::Dissemination(1));
            let text = misuse(floats.make(&top, &gang, "floats"));
            same(
                text,
                "allreduce `floats`: expected an operator that is associative bit for bit, as dissemination-1 needs, got \
                 `sum`, which is not",
            );
            // Five cases do not exist for 13 shards, so Bruck and Ho's dissemination is taken.
            let thirteen = top.gang("thirteen", 13)?;
            let added = Collective::<u64>::allreduce(Operator::sum()).algorithm(Algorithm::FiveCases(1));
            let added = added.make(&top, &thirteen, "thirteen")?;
            let task = top.register("add", |shard: Shard, sum: Collective<u64>| async move {
                sum.call(&shard, u64::from(shard.index()))?.await
            });
            assert_eq!(top.launch_gang(&thirteen, &task, |_| ShardLaunch::new(added))?.all().await?, [78; 13]);
            // Numbers that an algorithm can't have.
            for algorithm in [Algorithm::FiveCases(0), Algorithm::Dissemination(255), Algorithm::Radix(3)] {
                let text = misuse(Collective::allreduce(sum()).algorithm(algorithm).make(&top, &gang, "sum"));
                assert!(text.contains(" to 64 after `") && text.ends_with(&format!("`, got {algorithm}")), "{text}");
            }
            same(
                misuse(Collective::<u64>::broadcast(0).algorithm(Algorithm::Chain(0)).make(&top, &gang, "news")),
                "broadcast `news`: expected a number from 1 to 64 after `chain`, got chain-0",
            );
            let many = top.gang("many", 8193)?;
            same(
                misuse(Collective::<u64>::gather([0, 1]).make(&top, &many, "blocks")),
                "gather `blocks`: expected at most 8192 shards for a gather, got 8193; let fewer take part, or take an \
                 allgather or a gather at one shard, which are for any number",
            );
            let left = Collective::allreduce(Operator::<f64>::sum()).order(Order::Left);
            same(
                misuse(left.algorithm(Algorithm::RecursiveDoubling).make(&top, &gang, "left")),
                "allreduce `left`: expected an algorithm that combines in the order of a loop: sliced or direct, got \
                 recursive-doubling",
            );
            // Groups of three and two shards, on two workers.
            let five = top.gang("five", 5)?;
            let uneven = || Collective::allreduce(Operator::<f64>::sum()).algorithm(Algorithm::TwoLevel);
            same(
                misuse(uneven().make(&top, &five, "uneven")),
                "allreduce `uneven`: expected an operator that is associative bit for bit, as two-level needs unless all \
                 groups have the same power of two of shards, or the order `Any`, got `sum`, which is not",
            );
            uneven().order(Order::Any).make(&top, &five, "any")?;
            // The last size counts.
            let three = Collective::allreduce(sum()).sizes([1, 2]).elements(3).algorithm(Algorithm::HalvingDoubling);
            let three = three.make(&top, &gang, "three")?;
            let task = top.register("shard", |shard: Shard, three: Collective<[u64]>| async move {
                three.call(&shard, vec![1, 2, 3])?.await
            });
            let came = top.launch_gang(&gang, &task, |_| ShardLaunch::new(three))?.all().await?;
            assert!(came.iter().all(|sums| **sums == [4, 8, 12]));
            for algorithm in [None, Some(Algorithm::RecursiveDoubling)] {
                let left = Collective::allreduce(Operator::<f64>::sum()).order(Order::Left).algorithm(algorithm);
                same(
                    misuse(left.make(&top, &many, "left")),
                    "allreduce `left`: expected at most 8192 shards in the order of a loop, or an associative operator, got \
                     8193",
                );
            }
            // Its brackets are not the brackets of recursive doubling.
            let scan = Collective::scan(Operator::<f64>::sum()).algorithm(Algorithm::Direct);
            let text = misuse(scan.make(&top, &gang, "scan"));
            assert!(text.contains("an operator that is associative bit for bit, as direct needs"), "{text}");
            Ok(())
        })
    });
    outcome.unwrap();
}

/// The sum of two neighbours at each rank: not what an allreduce promises.
fn neighbours(goal: &Goal, rank: u32) -> Schedule {
    let mut schedule = Schedule::new(rank, goal.ranks(), 1);
    let (next, before) = ((rank + 1) % goal.ranks(), (rank + goal.ranks() - 1) % goal.ranks());
    schedule.update(next, 0, Part::block(0, 0));
    schedule.read(before, 0, Part::block(0, 0), maniple_collectives::Combine::IncomingIsLower);
    schedule
}

/// Everybody combines all in the order of a loop in register 255, with swapped operands at odd ranks.
fn mirrored(goal: &Goal, rank: u32) -> Schedule {
    let (own, sum) = (|| Part::block(0, 0), || Part::block(255, 0));
    let others = |of: u32| (0..goal.ranks()).filter(move |&peer| peer != of);
    let mut schedule = Schedule::new(rank, goal.ranks(), 1).with_result(255);
    let number = |of: u32, to: u32| to - u32::from(to > of);
    others(rank).for_each(|peer| schedule.update(peer, number(peer, rank), own()));
    for of in 0..goal.ranks() {
        let how = match (of, rank % 2) {
            (0, _) => Combine::Replace,
            (_, 0) => Combine::IncomingIsHigher,
            _ => Combine::IncomingIsLower,
        };
        match of == rank {
            true => schedule.local(own(), sum(), how),
            false => schedule.read(of, number(of, rank), sum(), how),
        }
    }
    schedule
}

#[test]
fn schedules_of_the_program_are_proved_and_run() {
    async fn shard(shard: Shard, sum: Collective<[u64]>) -> Result<Vec<u64>, Error> {
        sum.call(&shard, (0..10).map(|i| i + 100 * u64::from(shard.index())).collect::<Vec<_>>())?
            .await
            .map(Vector::into_vec)
    }
    let outcome = watched("own", || {
        Runtime::threads(2).run(|top| async move {
            let gang = top.gang("all", 5)?;
            let make = || Collective::<u64>::allreduce(Operator::sum());
            let text = misuse(make().schedules("neighbours", neighbours).make(&top, &gang, "sum"));
            assert_eq!(
                text,
                "allreduce `sum`: expected in block 0 the contributions at positions 0..5, with 1, got (4 0) at rank 0 after \
                 its last step of the schedules `neighbours`"
            );
            // Swapped operands need no associativity, and may be in the order of a loop.
            let sums: [Collective<f64>; 2] = [Order::Doubling, Order::Left].map(|order| {
                let floats = Collective::<f64>::allreduce(Operator::sum()).order(order);
                floats.schedules("mirrored", mirrored).make(&top, &gang, "floats").unwrap()
            });
            let add = top.register("add", |shard: Shard, sums: [Collective<f64>; 2]| async move {
                let own = 0.1 + f64::from(shard.index());
                Ok([sums[0].call(&shard, own)?.await?, sums[1].call(&shard, own)?.await?])
            });
            let came = top.launch_gang(&gang, &add, |_| ShardLaunch::new(sums))?.all().await?;
            assert_eq!(came, [[(1..5).fold(0.1, |sum, i| sum + (0.1 + f64::from(i))); 2]; 5]);
            // A vector in blocks, as many as the schedules say.
            let halves = |goal: &Goal, rank: u32| halving_doubling(rank, goal.ranks());
            let floats = Collective::<f64>::allreduce(Operator::sum()).order(Order::Left);
            let doubling = |goal: &Goal, rank: u32| recursive_doubling(rank, goal.ranks());
            let text = misuse(floats.schedules("doubling", doubling).make(&top, &gang, "left"));
            assert!(text.ends_with("got doubling, which has other brackets"), "{text}");
            let sum = make().elements(10).schedules("halves", halves).make(&top, &gang, "sum")?;
            top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(sum))?.all().await
        })
    });
    let expected: Vec<u64> = (0..10).map(|i| 5 * i + 1000).collect();
    assert_eq!(outcome.unwrap().0, vec![expected; 5]);
}

#[test]
fn a_shard_makes_only_the_calls_that_are_for_it() {
    // Shards 0 and 1 contribute, 1 and 2 receive, 3 does neither.
    async fn shard(shard: Shard, sum: Collective<u64>) -> Result<u64, Error> {
        let me = shard.index();
        let refused = |text: String, call: &str, does: &str| {
            assert!(text.starts_with(&format!("`{call}` of `sum` in shard {me}: ")), "{text}");
            assert!(text.contains(does), "{text}");
        };
        if me != 1 {
            let does = ["only contributes", "", "only receives", "takes no part"][me as usize];
            refused(misuse(sum.call(&shard, 5)), "call", does);
        }
        match me {
            0 => {
                refused(misuse(sum.receive(&shard)), "receive", "only contributes");
                sum.contribute(&shard, 5)?.await?;
                Ok(0)
            }
            1 => {
                let early = misuse(sum.receive(&shard));
                assert!(
                    early.starts_with("`receive` of `sum` in shard 1: expected a `contribute` before each"),
                    "{early}"
                );
                sum.contribute(&shard, 6)?.await?;
                let result = sum.receive(&shard)?.await?;
                assert!(misuse(sum.receive(&shard)).contains("none of this type whose result was not asked for"));
                Ok(result)
            }
            2 => {
                refused(misuse(sum.contribute(&shard, 1)), "contribute", "only receives");
                sum.receive(&shard)?.await
            }
            _ => {
                refused(misuse(sum.contribute(&shard, 1)), "contribute", "takes no part");
                refused(misuse(sum.receive(&shard)), "receive", "takes no part");
                Ok(0)
            }
        }
    }
    for number in 0..12 {
        let (at, runtime) = any_runtime(number);
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 4)?;
                let sum = Collective::reduce(Operator::sum(), [1, 2]).participants([0, 1]).make(&top, &gang, "sum")?;
                top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(sum))?.all().await
            })
        });
        assert_eq!(outcome.unwrap_or_else(|e| panic!("{at}: {e}")).0, [0, 11, 11, 0], "{at}");
    }
}

/// The bits of a loop over the shards, for sums of floats that round. The mapper chooses the algorithm, or the program does.
#[test]
fn the_order_of_a_loop() {
    type Sums = (Collective<[f64]>, [Collective<f64>; 3]);
    async fn shard(shard: Shard, (all, scans): Sums) -> Result<(Vec<f64>, [f64; 3]), Error> {
        let own = |i: u64| any_f64(mix(u64::from(shard.index()) << 8 | i));
        let all = all.call(&shard, (0..9).map(own).collect::<Vec<_>>())?;
        let [chosen, named, before] = scans.map(|scan| scan.call(&shard, own(0)));
        Ok((all.await?.into_vec(), [chosen?.await?, named?.await?, before?.await?]))
    }
    let mut others = 0;
    for number in 0..20 {
        let (at, runtime) = any_runtime(number);
        let shards = 1 + number as u32;
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let all = Collective::<f64>::allreduce(Operator::sum()).elements(9).order(Order::Left);
                let scan = || Collective::<f64>::scan(Operator::sum()).order(Order::Left);
                let before = Collective::<f64>::exscan(Operator::sum(), 0.5).order(Order::Left);
                let scans = [
                    scan().make(&top, &gang, "chosen")?,
                    scan().algorithm(Algorithm::Direct).make(&top, &gang, "named")?,
                    before.algorithm(Algorithm::Direct).make(&top, &gang, "before")?,
                ];
                let sums = (all.make(&top, &gang, "all")?, scans);
                top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(sums))?.all().await
            })
        });
        let own = |s: u32, i: u64| any_f64(mix(u64::from(s) << 8 | i));
        let upto = |last: u32, i: u64| (1..=last).fold(own(0, i), |sum, s| sum + own(s, i));
        let all: Vec<f64> = (0..9).map(|i| upto(shards - 1, i)).collect();
        for (s, (came, scans)) in (0..).zip(outcome.unwrap_or_else(|e| panic!("{at}: {e}")).0) {
            assert_eq!(bytes(&came), bytes(&all), "{at}, {shards} shards");
            let before = if s == 0 { 0.5 } else { upto(s - 1, 0) };
            assert_eq!(bytes(&scans), bytes(&[upto(s, 0), upto(s, 0), before]), "{at}, {shards} shards");
        }
        let values: Vec<f64> = (0..shards).map(|s| own(s, 0)).collect();
        others += u32::from(common::tree(&values, |a, b| a + b).to_bits() != all[0].to_bits());
    }
    assert!(others > 5, "the brackets of recursive doubling have other bits");
}

/// Each contributor has a part of its own at a receiver, and numbers of more than 12 bits tell them apart.
#[test]
fn thousands_of_shards_send_to_each_receiver() {
    const P: u32 = 5000;
    type Three = (Collective<u32, [u32]>, Collective<[u32], u32>, Collective<f64>);
    type Came = (Option<Vec<u32>>, Option<u32>, Option<u64>);
    async fn shard(shard: Shard, (blocks, sums, left): Three) -> Result<Came, Error> {
        let own = shard.index();
        blocks.contribute(&shard, own)?.detach();
        sums.contribute(&shard, vec![own, own + 1])?.detach();
        left.contribute(&shard, any_f64(mix(own.into())))?.detach();
        let mut came = Came::default();
        if [1, 4321].contains(&own) {
            came.0 = Some(blocks.receive(&shard)?.await?.into_vec());
        }
        if [3, 4999].contains(&own) {
            came.1 = Some(sums.receive(&shard)?.await?);
        }
        if own == 4097 {
            came.2 = Some(left.receive(&shard)?.await?.to_bits());
        }
        Ok(came)
    }
    for number in [0, 1] {
        let (at, runtime) = any_runtime(number);
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", P)?;
                let three = (
                    Collective::gather([1, 4321]).make(&top, &gang, "blocks")?,
                    Collective::reduce_scatter(Operator::sum()).receivers([3, 4999]).make(&top, &gang, "sums")?,
                    Collective::reduce(Operator::sum(), [4097]).order(Order::Left).make(&top, &gang, "left")?,
                );
                top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(three))?.all().await
            })
        });
        let all: Vec<u32> = (0..P).collect();
        let sum: u32 = all.iter().sum();
        let left = (0..P).map(|s| any_f64(mix(s.into()))).reduce(|a, b| a + b).map(f64::to_bits);
        for (s, came) in (0..).zip(outcome.unwrap_or_else(|e| panic!("{at}: {e}")).0) {
            let blocks = [1, 4321].contains(&s).then(|| all.clone());
            let sum = [3, 4999].contains(&s).then(|| if s == 3 { sum } else { sum + P });
            assert!(came == (blocks, sum, left.filter(|_| s == 4097)), "{at}, shard {s}");
        }
    }
}

/// A law that does not hold for values of a call is found, and the call fails.
#[test]
fn laws_are_tried_on_real_values() {
    for (law, text) in [("associative", Some("(a ⊕ b) ⊕ c")), ("commutative", None), ("none", None)] {
        for number in 0..12 {
            let (at, runtime) = any_runtime(number);
            let outcome = watched(&at, || {
                runtime.check(Check::Laws).run(move |top| async move {
                    let gang = top.gang("all", 5)?;
                    // Commutes, but is not associative for all values.
                    let mean = Operator::user("mean", |a: &u64, b: &u64| a / 2 + b / 2);
                    let mean = match law {
                        "associative" => mean.associative(),
                        "commutative" => mean.commutative(),
                        _ => mean,
                    };
                    let mean = Collective::allreduce(mean).elements(2).make(&top, &gang, "mean")?;
                    let task = top.register("shard", move |shard: Shard, _: ()| async move {
                        let own = u64::from(shard.index()) * 8;
                        let mut last = vec![own, own + 1];
                        for _ in 0..3 {
                            last = mean.call(&shard, last)?.await?.into_vec();
                        }
                        Ok(())
                    });
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                })
            });
            match (outcome, text) {
                (Ok(_), None) => {}
                (Err(e), Some(text)) => {
                    let message = e.origin().to_string();
                    assert!(message.contains("`mean` breaks its law") && message.contains(text), "{at}: {message}");
                }
                (outcome, _) => panic!("{at}, {law}: {:?}", outcome.map(drop)),
            }
        }
    }
}

/// Nobody leaves a barrier before all have come, whatever the algorithm.
#[test]
fn a_barrier_holds_everybody() {
    let algorithms: Vec<Option<Algorithm>> =
        Algorithm::all_for(&Goal::allreduce(6, 1)).map(Some).chain([None]).collect();
    for (number, algorithm) in (0..).zip(algorithms) {
        for seed in 0..4 {
            let (at, runtime) = any_runtime(8 * number + seed);
            let come = Arc::new(AtomicU32::new(0));
            let outcome = watched(&at, || {
                let come = come.clone();
                runtime.run(move |top| {
                    let come = come.clone();
                    async move {
                        let gang = top.gang("all", 6)?;
                        let barrier = Collective::barrier().algorithm(algorithm).make(&top, &gang, "barrier")?;
                        let task = top.register("shard", move |shard: Shard, _: ()| {
                            let come = come.clone();
                            async move {
                                for round in 1..=10 {
                                    for _ in 0..mix(u64::from(shard.index()) ^ round << 9) % 5 {
                                        shard.yield_now().await;
                                    }
                                    come.fetch_add(1, Ordering::SeqCst);
                                    barrier.call(&shard, ())?.await?;
                                    let now = come.load(Ordering::SeqCst);
                                    if u64::from(now) < 6 * round {
                                        return Err(Error::user(format!("{now} have come in round {round}")));
                                    }
                                }
                                Ok(())
                            }
                        });
                        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                    }
                })
            });
            outcome.unwrap_or_else(|e| panic!("{at}, {algorithm:?}: {e}"));
        }
    }
}

/// A call that nobody waits for any more goes on: the future can be awaited again, and later calls are in step.
#[test]
fn a_deadline_leaves_the_call_as_it_is() {
    async fn shard(shard: Shard, (gather, sum): (Collective<u64, [u64]>, Collective<u64>)) -> Result<Vec<u64>, Error> {
        let me = u64::from(shard.index());
        let mut all = Vec::new();
        for round in 0..20 {
            for _ in 0..mix(me ^ round << 8) % 4 {
                shard.yield_now().await;
            }
            let mut gathered = gather.call(&shard, me + 10 * round)?;
            if mix(me ^ round << 16).is_multiple_of(3) {
                // Nobody asks for this one.
                drop(sum.call(&shard, round)?);
            } else {
                sum.call(&shard, round)?.await?;
            }
            match shard.timeout(Duration::ZERO, &mut gathered).await {
                Err(Error::TimedOut { .. }) => all.extend(gathered.await?),
                done => all.extend(done?),
            }
        }
        Ok(all)
    }
    for number in 0..24 {
        let (at, runtime) = any_runtime(number);
        let shards = 1 + number % 7;
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards as u32)?;
                let all = (
                    Collective::allgather().make(&top, &gang, "gather")?,
                    Collective::allreduce(Operator::sum()).slots(1).make(&top, &gang, "sum")?,
                );
                top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(all))?.all().await
            })
        });
        let expected: Vec<u64> = (0..20).flat_map(|round| (0..shards).map(move |s| s + 10 * round)).collect();
        for came in outcome.unwrap_or_else(|e| panic!("{at}: {e}")).0 {
            assert_eq!(came, expected, "{at}");
        }
    }
}

/// Messages between processors are the messages of the schedule: nothing is given back where that is not needed, and
/// who takes no part gets none.
#[test]
fn messages_are_those_of_the_schedule() {
    const CALLS: u64 = 2000;
    const P: u32 = 6;
    let of = |participants: u32, algorithm: Algorithm| {
        let outcome = Runtime::threads(P).run(move |top| async move {
            let gang = top.gang("all", P)?;
            let sum = Collective::allreduce(Operator::<u64>::sum()).participants(0..participants);
            let sum = sum.algorithm(algorithm).make(&top, &gang, "sum")?;
            let task = top.register("shard", move |shard: Shard, _: ()| async move {
                let mut last = 1;
                if shard.index() < participants {
                    for _ in 0..CALLS {
                        last = sum.call(&shard, last)?.await? / u64::from(participants);
                    }
                }
                Ok(last)
            });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        });
        let (results, stats) = outcome.unwrap();
        assert_eq!(results, [1; P as usize]);
        stats.messages as f64 / CALLS as f64
    };
    for (participants, algorithm) in
        [(6, Algorithm::Dissemination(1)), (5, Algorithm::Dissemination(3)), (3, Algorithm::Direct)]
    {
        let ranks = participants;
        let goal = Goal::allreduce(ranks, 1);
        let schedules = Schedules::new(&goal, algorithm);
        let expected: usize = (0..ranks).map(|rank| schedules.of(rank).updates()).sum();
        let came = watched("messages", || of(participants, algorithm));
        let expected = expected as f64;
        assert!(
            (expected..expected * 1.02 + 0.1).contains(&came),
            "{algorithm}, {ranks}: {came} a call, not {expected}"
        );
    }
}
