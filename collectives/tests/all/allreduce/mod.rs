//! Executed allreduces against a fold in rank order, and in the schedule's own brackets where the operator does not
//! associate.

mod counts;
mod failures;
mod kinds;
mod sizes;

use self::kinds::{Bits, float_kinds};
use crate::common;
use crate::common::size::part;
use crate::common::{
    Calls, Combiner, HOWS, How, Many, One, affine, any_f64, any_mapper, any_runtime, brackets, bytes, exact, lawless,
    matrices, mix, rounding, tree, watched,
};
use maniple_collectives::{Algorithm, Collective, Operator};
use maniple_regions::Element;
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
use proptest::prelude::*;
use std::sync::Arc;

/// Independent and chained calls, more than slots, submitted before the first result is awaited.
#[test]
fn calls_in_flight() {
    let mut number = 0;
    for slots in [1, 2, 3, 8] {
        for shards in [1, 2, 3, 4, 5, 6, 8, 13] {
            for ahead in [1, 2, 5, 21] {
                number += 1;
                let (at, runtime) = any_runtime(number);
                let hows = (0..21).map(|c| HOWS[mix(number << 8 ^ c) as usize % 4]).collect();
                let plan =
                    Calls { slots, ahead, hows, uneven: true, seed: number, ..Calls::new(&affine(), shards, 1, 0) };
                Arc::new(plan).check::<One>(&runtime, &at);
            }
        }
    }
}

/// A chain of calls each of which takes the future of the one before as it is.
#[test]
fn a_long_chain() {
    for slots in [1, 2, 3] {
        for shards in [1, 2, 3, 7] {
            let (at, runtime) = any_runtime(u64::from(slots * 10 + shards));
            let hows = vec![How::Chained; 100];
            let plan = Calls { slots, hows, ahead: 100, ..Calls::new(&brackets(), shards, 2, 0) };
            Arc::new(plan).check::<Many>(&runtime, &at);
        }
    }
}

/// Runs a plan on 1 to 4 workers and under several seeds. The comparison with the expected bits makes all runs equal.
fn any_driver<T: Element>(plan: Calls<T>) {
    let plan = Arc::new(plan);
    let run = |runtime: Runtime, at: String| match plan.elements {
        1 => plan.check::<One>(&runtime, &at),
        _ => plan.check::<Many>(&runtime, &at),
    };
    let mapper = |n: u64| any_mapper(mix(plan.seed ^ n));
    for workers in 1..=4 {
        run(Runtime::threads(workers).mapper(mapper(u64::from(workers))), format!("{workers} threads"));
    }
    for n in 0..4 {
        let (processors, seed) = (1 + (mix(plan.seed ^ n) % 5) as u32, plan.seed ^ n);
        let at = format!("{processors} seeded processors, seed {seed}");
        run(Runtime::seeded(processors, seed).mapper(mapper(n)), at);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: part(200) as u32, ..ProptestConfig::default() })]

    /// The same bits on any driver, with any number of workers, for any program of calls.
    #[test]
    fn the_same_bits_everywhere(
        shards in prop_oneof![4 => 1u32..=9, 1 => 10u32..=40],
        slots in 1u32..=5,
        elements in prop_oneof![3 => Just(1), 4 => 0usize..=9, 1 => Just(513usize)],
        operator in 0..6,
        which: usize,
        hows in prop::collection::vec(prop::sample::select(HOWS.to_vec()), 1..12),
        ahead in 1usize..12,
        uneven: bool,
        seed: u64,
    ) {
        fn plan<T>(kind: Combiner<T>, p: Calls<u64>) -> Calls<T> {
            let Calls { shards, elements, slots, hows, ahead, uneven, seed, algorithm, .. } = p;
            Calls { kind, shards, elements, slots, hows, ahead, uneven, seed, algorithm }
        }
        // How two levels group depends on the mapper. An exact sum may have any algorithm.
        let suitable: Vec<Algorithm> = match operator {
            5 => common::allreduces(shards),
            _ => lawless(shards).into_iter().filter(|a| *a != Algorithm::TwoLevel).collect(),
        };
        let algorithm = suitable[which % suitable.len()];
        let rest = Calls { kind: brackets(), shards, elements, slots, hows, ahead, uneven, seed, algorithm };
        match operator {
            0 => any_driver(rest),
            1 => any_driver(plan(rounding(), rest)),
            2 => any_driver(plan(affine(), rest)),
            3 => any_driver(plan(matrices(), rest)),
            5 => any_driver(plan(exact(), rest)),
            _ => {
                let [.., half] = float_kinds!(f32);
                any_driver(plan(half, rest));
            }
        }
    }
}

/// Shards of one processor first, wherever the mapper puts them: the fold in rank order, of small and large values.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn two_levels_wherever_the_shards_are() {
    let mut number = 0;
    for shards in (1..=20).chain([33, 64, 100]) {
        for (elements, slots) in [(1, 1), (1, 2), (4, 3), (600, 2)] {
            number += 1;
            let (at, runtime) = any_runtime(number);
            let at = format!("{at}, {shards} shards, {elements} elements");
            let hows = (0..6).map(|c| HOWS[(mix(number) >> (8 * c)) as usize % HOWS.len()]).collect();
            let algorithm = Algorithm::TwoLevel;
            let plan =
                Calls { slots, hows, ahead: 4, uneven: true, algorithm, ..Calls::new(&affine(), shards, elements, 0) };
            Arc::new(plan).check::<Many>(&runtime, &at);
        }
    }
}

/// The algorithms that need no laws give the bits of recursive doubling, of an operator that tells every grouping apart. Two
/// levels do where all processors have the same power of two of shards.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn all_groupings_are_those_of_recursive_doubling() {
    for workers in 1..=4 {
        for each in [1, 2, 4, 8, 16] {
            for (elements, runtime) in [(1, Runtime::threads(workers)), (600, Runtime::seeded(workers, 9))] {
                let shards = workers * each;
                let results = lawless(shards).into_iter().map(|algorithm| {
                    let outcome = runtime.run(move |top| async move {
                        let gang = top.gang("all", shards)?;
                        let total = Collective::allreduce(brackets().operator)
                            .elements(elements)
                            .algorithm(algorithm)
                            .make(&top, &gang, "total")?;
                        let task = top.register("calls", move |shard: Shard, _: ()| async move {
                            let own: Vec<_> =
                                (0..elements as u64).map(|e| mix(u64::from(shard.index()) << 32 | e)).collect();
                            let first: Vec<u64> = total.call(&shard, own)?.take().await?.into_vec();
                            total
                                .call(&shard, first.iter().map(|v| v ^ u64::from(shard.index())).collect::<Vec<_>>())?
                                .take()
                                .await
                        });
                        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                    });
                    outcome.unwrap().0
                });
                let results: Vec<_> = results.collect();
                assert!(
                    results.iter().all(|r| *r == results[0]),
                    "{workers} workers with {each} shards, {elements} elements"
                );
            }
        }
    }
}

/// Calls are counted through all launches of a gang, one that nobody awaited at the end of a launch too.
#[test]
fn an_allreduce_outlives_a_launch() {
    async fn shard(shard: Shard, (total, from): (Collective<u64>, u64)) -> Result<Vec<u64>, Error> {
        let own = |call| mix((from + call) << 16 | u64::from(shard.index()));
        let calls: Vec<_> = (0..3).map(|c| total.call(&shard, own(c))).collect::<Result<_, _>>()?;
        total.call(&shard, own(3))?.detach();
        let mut sums = Vec::new();
        for call in calls {
            sums.push(call.await?);
        }
        Ok(sums)
    }
    for number in 0..20 {
        let (at, runtime) = any_runtime(number);
        let shards = 1 + number as u32 % 7;
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let total = Collective::allreduce(brackets().operator).make(&top, &gang, "total")?;
                let task = top.register("shard", shard);
                let mut all = Vec::new();
                for launch in 0..4 {
                    all.push(top.launch_gang(&gang, &task, |_| ShardLaunch::new((total, 4 * launch)))?.all().await?);
                }
                Ok(all)
            })
        });
        let (all, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
        let expected = |call: u64| {
            let own: Vec<_> = (0..u64::from(shards)).map(|s| mix(call << 16 | s)).collect();
            tree(&own, brackets().combine)
        };
        for (launch, by_shard) in (0..).zip(all) {
            let right: Vec<_> = (0..3).map(|c| expected(4 * launch + c)).collect();
            assert_eq!(by_shard, vec![right; shards as usize], "{at}: launch {launch}");
        }
    }
}

/// Two allreduces of a gang, of different types, do not disturb each other; nobody need look at a result.
#[test]
fn objects_are_independent() {
    type Both = (Collective<u64>, Collective<[f64]>);
    async fn shard(shard: Shard, (first, second): Both) -> Result<(u64, Vec<f64>), Error> {
        let own = u64::from(shard.index());
        for call in 0..5 {
            let unseen = first.call(&shard, call)?;
            unseen.detach();
            if own % 2 == call % 2 {
                shard.yield_now().await;
            }
            second.call(&shard, vec![1.0, own as f64, 0.5, call as f64])?.detach();
        }
        let (a, b) = (first.call(&shard, mix(own))?, second.call(&shard, vec![any_f64(mix(own)); 4])?);
        Ok((a.await?, b.await?.into_vec()))
    }
    for number in 0..30 {
        let (at, runtime) = any_runtime(number);
        let shards = 1 + number as u32 % 9;
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let first = Collective::allreduce(brackets().operator).make(&top, &gang, "first")?;
                let second = Collective::<f64>::allreduce(Operator::sum())
                    .elements(4)
                    .slots(3)
                    .algorithm(Algorithm::RecursiveDoubling)
                    .make(&top, &gang, "second")?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((first, second)))?.all().await
            })
        });
        let (results, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
        let own: Vec<u64> = (0..u64::from(shards)).map(mix).collect();
        let floats: Vec<f64> = own.iter().map(|&x| any_f64(x)).collect();
        let expected = (tree(&own, brackets().combine), bytes(&[tree(&floats, |a, b| a + b); 4]));
        for (shard, (a, b)) in results.iter().enumerate() {
            assert_eq!((*a, bytes(b)), expected, "{at}: shard {shard}");
        }
    }
}

/// What cannot be made or called is refused where it is tried.
#[test]
fn misuse_is_refused() {
    async fn foreign(shard: Shard, total: Collective<f64>) -> Result<(), Error> {
        let refused = total.call(&shard, 1.0).unwrap_err();
        assert!(matches!(&refused, Error::Misuse { .. }) && refused.to_string().contains("`foreign`"), "{refused}");
        Ok(())
    }
    let outcome = watched("misuse", || {
        Runtime::threads(2).run(|top| async move {
            let (gang, other) = (top.gang("all", 3)?, top.gang("other", 3)?);
            let refused =
                Collective::<f64>::allreduce(Operator::sum()).slots(0).make(&top, &gang, "no slots").unwrap_err();
            assert_eq!(refused.to_string(), "allreduce `no slots`: expected at least one slot, got 0");
            for (elements, slots) in [(usize::MAX, 1), (usize::MAX / 8, 1), (1, u32::MAX), (1, 1 << 30)] {
                let refused = Collective::<f64>::allreduce(Operator::sum())
                    .elements(elements)
                    .slots(slots)
                    .make(&top, &gang, "vast")
                    .unwrap_err();
                assert!(matches!(&refused, Error::Misuse { what, .. } if what == "allreduce `vast`"), "{refused}");
            }
            let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
            let task = top.register("foreign", foreign);
            top.launch_gang(&other, &task, |_| ShardLaunch::new(total))?.all().await
        })
    });
    outcome.unwrap();
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "allreduce::on_processes",
        &[
            ("f64_at_every_size", sizes::f64_at_every_size),
            (
                "structs_and_operators_that_do_not_commute_at_every_size",
                sizes::structs_and_operators_that_do_not_commute_at_every_size,
            ),
            ("elements_with_large_alignment", sizes::elements_with_large_alignment),
            ("vectors_of_any_length", sizes::vectors_of_any_length),
            ("vectors_of_16_mib", sizes::vectors_of_16_mib),
            ("calls_in_flight", calls_in_flight),
            ("a_long_chain", a_long_chain),
            ("two_levels_wherever_the_shards_are", two_levels_wherever_the_shards_are),
            (
                "a_shard_that_panics_between_calls_reaches_every_shard",
                failures::a_shard_that_panics_between_calls_reaches_every_shard,
            ),
            ("a_wrong_length_is_an_error", failures::a_wrong_length_is_an_error),
            (
                "a_call_that_some_shards_do_not_make_is_a_deadlock",
                failures::a_call_that_some_shards_do_not_make_is_a_deadlock,
            ),
            ("an_allreduce_outlives_a_launch", an_allreduce_outlives_a_launch),
            ("detached_calls_are_not_forgotten", failures::detached_calls_are_not_forgotten),
            ("objects_are_independent", objects_are_independent),
        ],
    );
}
