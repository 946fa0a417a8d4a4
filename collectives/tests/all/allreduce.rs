//! Executed allreduces against a fold in rank order, and in the schedule's own brackets where the operator does not
//! associate.

use crate::common;
use crate::common::size::part;
use crate::common::{
    Calls, Chosen, Combiner, HOWS, How, Many, One, affine, any_f64, any_mapper, any_runtime, brackets, bytes, exact,
    lawless, matrices, mix, rounding, subtasks, tree, watched,
};
use maniple_collectives::{Algorithm, Collective, Operator, Order};
use maniple_mapper::{Access, CollectiveOutput, MemoryKind, Placement, Priority};
use maniple_regions::{Element, Vector};
use maniple_runtime::{Error, Payload, Place, Runtime, Shard, ShardLaunch, VirtualMachine};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// One kind of each operator at every number of shards, elements and vectors in turn, on a runtime drawn from both. With more
/// than 17 shards two kinds are drawn, one with elements and one with vectors.
fn every_size<T: Element>(kinds: &[Combiner<T>]) {
    let check = |kind, shards, elements, number| {
        let (at, runtime) = any_runtime(number);
        let plan = Arc::new(Calls { seed: number, ..Calls::new(kind, shards, elements, 2) });
        if elements == 1 {
            plan.check::<One>(&runtime, &at);
        } else {
            plan.check::<Many>(&runtime, &at);
        }
    };
    for shards in 1..=17 {
        for (number, kind) in (0u64..).zip(kinds) {
            let number = number + 7 * u64::from(shards);
            let elements = if number.is_multiple_of(2) { 1 } else { 1 + number as usize % 6 };
            check(kind, shards, elements, number);
        }
    }
    for shards in (18..=40).chain([64, 100, 300]) {
        for (turn, elements) in [(0, 1), (1, 2 + shards as usize % 5)] {
            let drawn = mix(u64::from(shards) << 16 | (size_of::<T>() as u64) << 8 | turn);
            check(&kinds[(drawn >> 32) as usize % kinds.len()], shards, elements, drawn >> 16);
        }
    }
}

macro_rules! integer_kinds {
    ($t:ty) => {
        [
            Combiner {
                operator: Operator::<$t>::sum(),
                combine: |a, b| a.wrapping_add(*b),
                make: |x| x as $t,
                associative: true,
            },
            Combiner {
                operator: Operator::product(),
                combine: |a, b| a.wrapping_mul(*b),
                make: |x| x as $t | 1,
                associative: true,
            },
            Combiner { operator: Operator::min(), combine: |a, b| *a.min(b), make: |x| x as $t, associative: true },
            Combiner { operator: Operator::max(), combine: |a, b| *a.max(b), make: |x| x as $t, associative: true },
            Combiner {
                operator: Operator::user("last and first", |a: &$t, b: &$t| b.wrapping_mul(3) ^ a.wrapping_mul(5)),
                combine: |a, b| b.wrapping_mul(3) ^ a.wrapping_mul(5),
                make: |x| x as $t,
                associative: false,
            },
        ]
    };
}

macro_rules! float_kinds {
    ($t:ty) => {{
        /// Both zeros, small numbers and now and then a NaN of either sign with a payload.
        fn special(x: u64) -> $t {
            match x % 64 {
                0 => <$t>::from_bits(<$t>::INFINITY.to_bits() | (x >> 40) as u16 as <$t as Bits>::B | 1),
                1 => -<$t>::NAN,
                n if n < 16 => 0.0,
                n if n < 32 => -0.0,
                _ => x as i8 as $t,
            }
        }
        fn any(x: u64) -> $t {
            any_f64(x) as $t
        }
        fn pick(a: $t, b: $t, first: bool) -> $t {
            if a.is_nan() || b.is_nan() {
                <$t>::NAN.abs()
            } else if first {
                a
            } else {
                b
            }
        }
        [
            // Whole numbers below 2^16, whose sums are exact in whatever order.
            Combiner {
                operator: Operator::<$t>::sum(),
                combine: |a, b| a + b,
                make: |x| x as i16 as $t,
                associative: true,
            },
            // Powers of two, whose products are.
            Combiner {
                operator: Operator::product(),
                combine: |a, b| a * b,
                make: |x| [0.5, 1.0, 2.0, -1.0, -0.5, -2.0][x as usize % 6],
                associative: true,
            },
            Combiner { operator: Operator::sum(), combine: |a, b| a + b, make: any, associative: false },
            Combiner { operator: Operator::product(), combine: |a, b| a * b, make: any, associative: false },
            Combiner {
                operator: Operator::min(),
                combine: |a, b| pick(*a, *b, a.total_cmp(b).is_le()),
                make: special,
                associative: true,
            },
            Combiner {
                operator: Operator::max(),
                combine: |a, b| pick(*a, *b, a.total_cmp(b).is_ge()),
                make: special,
                associative: true,
            },
            Combiner { operator: Operator::min(), combine: |a, b| a.min(*b), make: any, associative: true },
            Combiner {
                operator: Operator::user("half", |a: &$t, b: &$t| a * 0.5 + b),
                combine: |a, b| a * 0.5 + b,
                make: any,
                associative: false,
            },
        ]
    }};
}

/// The bits of a float.
trait Bits {
    type B;
}
impl Bits for f32 {
    type B = u32;
}
impl Bits for f64 {
    type B = u64;
}

#[test]
fn i32_at_every_size() {
    every_size::<i32>(&integer_kinds!(i32));
}

#[test]
fn i64_at_every_size() {
    every_size::<i64>(&integer_kinds!(i64));
}

#[test]
fn u64_at_every_size() {
    every_size::<u64>(&integer_kinds!(u64));
}

#[test]
fn f32_at_every_size() {
    every_size::<f32>(&float_kinds!(f32));
}

#[test]
fn f64_at_every_size() {
    every_size::<f64>(&float_kinds!(f64));
}

/// Composition, matrix products and a hash of the bracketing see any two operands that change places.
#[test]
fn structs_and_operators_that_do_not_commute_at_every_size() {
    every_size(&[affine()]);
    every_size(&[matrices()]);
    every_size(&[brackets()]);
}

/// Elements aligned to more than a word are copied from where an arrival holds them.
#[test]
fn elements_with_large_alignment() {
    let combine = |a: &u128, b: &u128| a.wrapping_mul(3) ^ b.rotate_left(77);
    let make = |x| u128::from(x) << 64 | u128::from(mix(x));
    every_size(&[Combiner { operator: Operator::user("u128", combine), combine, make, associative: false }]);
}

/// Lengths on both sides of what an arrival holds and of what gets a buffer for each round, and none at all.
#[test]
fn vectors_of_any_length() {
    fn lengths<T: Element>(kind: &Combiner<T>, most: usize) {
        let inline = Payload::INLINE / size_of::<T>();
        let page = 4096 / size_of::<T>();
        let lengths = [0, 1, 2, 5, 7, inline, inline + 1, page - 1, page, page + 1, 512, 513, most];
        for (i, elements) in (0u64..).zip(lengths) {
            for shards in [1, 2, 3, 4, 6, 7] {
                for number in [2 * (i + u64::from(shards)), 2 * i + 1 + 2 * u64::from(shards)] {
                    let (at, runtime) = any_runtime(number);
                    let plan = Calls { seed: number, slots: 1 + shards % 2, ..Calls::new(kind, shards, elements, 3) };
                    Arc::new(Calls { ahead: 3, ..plan }).check::<Many>(&runtime, &at);
                }
            }
        }
    }
    lengths(&rounding(), 2000);
    lengths(&affine(), 1000);
    let kinds = integer_kinds!(i32);
    lengths(&kinds[4], 3000);
}

/// Vectors far larger than anything that could be kept on a stack or in a message.
#[test]
fn long_vectors() {
    for shards in [2, 3, 5] {
        for (at, runtime) in [("threads", Runtime::threads(2)), ("seeded", Runtime::seeded(2, 3))] {
            let plan = Calls { slots: 1, ahead: 2, ..Calls::new(&rounding(), shards, 100_000, 2) };
            Arc::new(plan).check::<Many>(&runtime, at);
        }
    }
}

/// 16 MiB from each shard, twice through one slot; every element is looked at where it arrives.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn vectors_of_16_mib() {
    const LENGTH: usize = 16 << 17;
    async fn shard(shard: Shard, total: Collective<[f64]>) -> Result<(usize, usize), Error> {
        let p = u64::from(shard.shards());
        let base = f64::from(shard.index() * 1000);
        let input: Vec<f64> = (0..LENGTH).map(|i| base + (i % 1009) as f64).collect();
        let first = total.call(&shard, input)?;
        let second = total.call(&shard, &first)?;
        // Whole numbers below 2^53: exact.
        let sum = |i: usize| p * (i % 1009) as u64 + 500 * p * (p - 1);
        let right = |v: &[f64], times: u64| (0..LENGTH).filter(|&i| v[i] == (times * sum(i)) as f64).count();
        Ok((right(&first.await?, 1), right(&second.await?, p)))
    }
    let (halving, sliced) = (Algorithm::HalvingDoubling, Algorithm::Sliced);
    let machine = VirtualMachine { nodes: 2, ..VirtualMachine::default() };
    let runs = match common::processes::runtimes() {
        None => vec![
            (2, Runtime::threads(2), Algorithm::RecursiveDoubling),
            (3, Runtime::threads(2), sliced),
            (2, Runtime::seeded(2, 1), halving),
            (3, Runtime::virtual_time(machine), Algorithm::Radix(4)),
        ],
        Some(all) => std::iter::zip([3, 2], all).zip([halving, sliced]).map(|((p, (_, r)), a)| (p, r, a)).collect(),
    };
    for (shards, runtime, algorithm) in runs {
        let at = format!("16 MiB, {shards} shards, {algorithm}");
        let (right, _) = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let total = Collective::<f64>::allreduce(Operator::sum())
                    .elements(LENGTH)
                    .slots(1)
                    .algorithm(algorithm)
                    .order(Order::Any)
                    .make(&top, &gang, "total")?;
                let task = top.register("shard", shard);
                top.launch(&gang, &task, |_| ShardLaunch::new(total))?.all().await
            })
        })
        .unwrap();
        assert_eq!(right, vec![(LENGTH, LENGTH); shards as usize], "{at}");
    }
}

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
                        top.launch(&gang, &task, |_| ShardLaunch::new(()))?.all().await
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

/// 2·P·log₂ P subtasks a call for a power of two, with any number of workers; what the schedule states for others.
#[test]
fn subtasks_are_counted_exactly() {
    // Written out for some, so that the formula is not its own witness.
    let known =
        [(1, 0), (2, 4), (3, 8), (4, 16), (5, 20), (6, 24), (7, 28), (8, 48), (64, 768), (100, 912), (512, 9216)];
    for (shards, expected) in known {
        assert_eq!(subtasks(shards), expected, "{shards} shards");
    }
    for shards in (1..=33).chain([64, 100, 128, 256, 300, 512]) {
        let runtimes = [Runtime::threads(1), Runtime::threads(2), Runtime::seeded(1, 7), Runtime::seeded(3, 7)];
        for (at, runtime) in runtimes.into_iter().enumerate() {
            for mapper in ["default", "collective"] {
                let runtime = runtime.clone().mapper(maniple_mapper::stock(mapper).unwrap());
                let plan = Calls { ahead: 3, ..Calls::new(&brackets(), shards, 1, 3) };
                // The second call's result goes to a leaf task.
                let stats = Arc::new(plan).check::<One>(&runtime, &format!("runtime {at}, {mapper}"));
                assert_eq!(stats.chain_subtasks, 3 * subtasks(shards), "{shards} shards, runtime {at}, {mapper}");
                assert_eq!(stats.leaf_tasks, u64::from(shards));
            }
        }
    }
}

/// Between two processors each call of a chain of small values takes a message each way: what is given back for the call
/// before travels with it, unless the value was there already when the call was made. Large values are given back at once.
#[test]
fn a_dependent_call_takes_a_message_each_way() {
    const CALLS: u64 = 1000;
    for (elements, least, most) in [(1, 2, 3), (600, 4, 4)] {
        let (_, stats) = Runtime::threads(2)
            .run(move |top| async move {
                let gang = top.gang("all", 2)?;
                let total =
                    Collective::<u64>::allreduce(Operator::sum()).elements(elements).make(&top, &gang, "total")?;
                let task = top.register("calls", move |shard: Shard, _: ()| async move {
                    let mut all = vec![u64::from(shard.index()); elements];
                    for _ in 0..CALLS {
                        all = total.call(&shard, all)?.take().await?.into_vec();
                    }
                    Ok(all[0])
                });
                top.launch(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            })
            .unwrap();
        // Beside them a few that start and end the run.
        let (least, most) = (least * CALLS, most * CALLS + CALLS / 4);
        assert!((least..most).contains(&stats.messages), "{elements} elements: {} messages", stats.messages);
    }
}

/// The mapper places a collective once, whatever the number of calls.
#[test]
fn the_mapper_is_not_asked_about_calls() {
    let asked = |calls| {
        let plan = Calls::new(&affine(), 5, 1, calls);
        Arc::new(plan).check::<One>(&Runtime::seeded(3, 1), "mapper calls").mapper_calls
    };
    // One of three calls gives its result to a leaf task, about which each shard asks.
    assert_eq!(asked(1) + 5, asked(3));
    assert_eq!(asked(3) + 5 * 10, asked(23));
}

/// Sender and receiver of every message of a call, as the documentation of recursive doubling describes them.
fn messages(shards: u32) -> Vec<(u32, u32)> {
    let rounds = shards.ilog2();
    let surplus = shards - (1 << rounds);
    let of_block = |b: u32| if b < surplus { 2 * b } else { b + surplus };
    let mut all: Vec<(u32, u32)> = (0..surplus).flat_map(|i| [(2 * i, 2 * i + 1), (2 * i + 1, 2 * i)]).collect();
    for round in 0..rounds {
        let distance = 1 << round;
        for block in 0..1 << rounds {
            let partner = if block / distance % 2 == 0 { block + distance } else { block - distance };
            all.push((of_block(partner), of_block(block)));
        }
    }
    all
}

/// The paper's flags show in the counters: a round that comes from another processor is copied once where copies are
/// asked for, nothing is copied where they are not; unregistered memory is staged.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn copies_are_counted_exactly() {
    for shards in [1, 2, 3, 4, 5, 6, 8, 13, 16] {
        for processors in [1, 2, 3, shards] {
            for placement in [Placement::Blocked, Placement::Cyclic] {
                let at = |s: u32| match placement {
                    Placement::Blocked => s * processors / shards,
                    _ => s % processors,
                };
                let crossing = messages(shards).iter().filter(|(from, to)| at(*from) != at(*to)).count() as u64;
                if processors == shards && shards.is_power_of_two() {
                    // Every shard on its own: one read a round crosses.
                    assert_eq!(crossing, u64::from(shards * shards.ilog2()));
                }
                for (memory, access) in [
                    (MemoryKind::Ordinary, Access::Copy),
                    (MemoryKind::Ordinary, Access::InPlace),
                    (MemoryKind::Registered, Access::Copy),
                    (MemoryKind::Registered, Access::InPlace),
                ] {
                    for (elements, runtime) in [
                        (1, Runtime::threads(processors)),
                        (9, Runtime::threads(processors)),
                        (1, Runtime::seeded(processors, 5)),
                        (9, Runtime::seeded(processors, 5)),
                    ] {
                        let exchange = CollectiveOutput { memory, access, priority: Priority::NORMAL };
                        let runtime = runtime.mapper(Arc::new(Chosen { placement: placement.clone(), exchange }));
                        let what = format!("{processors} processors, {placement:?}, {memory:?}, {access:?}");
                        let plan = Arc::new(Calls::new(&rounding(), shards, elements, 4));
                        let stats = plan.check::<Many>(&runtime, &what);
                        let copies = if access == Access::Copy { 4 * crossing } else { 0 };
                        let staged = if memory == MemoryKind::Ordinary { 4 * crossing } else { 0 };
                        let bytes = 8 * elements as u64;
                        assert_eq!(stats.region_copies, copies, "{shards} shards, {what}");
                        assert_eq!(stats.region_copy_bytes, copies * bytes, "{shards} shards, {what}");
                        assert_eq!(stats.staged_bytes, staged * bytes, "{shards} shards, {what}");
                    }
                }
            }
        }
    }
}

/// In which order one processor ran leaf tasks (`l`) and combinations (`c`): each of the shards launches five leaf tasks
/// and then makes its call.
fn order(runtime: Runtime, shards: u32, priority: Priority) -> String {
    let exchange = CollectiveOutput { priority, ..CollectiveOutput::default() };
    let runtime = runtime.mapper(Arc::new(Chosen { placement: Placement::Blocked, exchange }));
    let log = Arc::new(Mutex::new(String::new()));
    let outer = log.clone();
    let (sums, _) = watched("priorities", || {
        runtime.run(move |top| {
            let log = log.clone();
            async move {
                let gang = top.gang("all", shards)?;
                let of_operator = log.clone();
                let add = move |a: &u64, b: &u64| {
                    of_operator.lock().unwrap().push('c');
                    a + b
                };
                let total = Collective::allreduce(Operator::user("logged sum", add)).make(&top, &gang, "total")?;
                let task = top.register("shard", move |shard: Shard, (): ()| {
                    let log = log.clone();
                    async move {
                        let leaves: Vec<_> = (0..5)
                            .map(|_| {
                                let log = log.clone();
                                shard.launch(move || log.lock().unwrap().push('l'), ()).go()
                            })
                            .collect::<Result<_, _>>()?;
                        let sum = total.call(&shard, u64::from(shard.index()))?.await?;
                        for leaf in leaves {
                            leaf.await?;
                        }
                        Ok(sum)
                    }
                });
                top.launch(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            }
        })
    })
    .unwrap();
    assert_eq!(sums, vec![u64::from(shards * (shards - 1) / 2); shards as usize]);
    let order = outer.lock().unwrap().clone();
    assert_eq!(order.matches('l').count() as u32, 5 * shards);
    order
}

/// Raised, a collective's subtasks run before leaf tasks that were launched earlier; at normal priority they mix; below it,
/// they run when nothing else does.
#[test]
fn raised_subtasks_overtake_leaf_tasks() {
    for shards in [2u32, 4, 8] {
        let combinations = "c".repeat((shards * shards.ilog2()) as usize);
        let leaves = "l".repeat(5 * shards as usize);
        let (first, last) = (format!("{combinations}{leaves}"), format!("{leaves}{combinations}"));
        assert_eq!(order(Runtime::threads(1), shards, Priority::RAISED), first, "raised");
        // Among equals no order is promised, but not all of either kind comes first.
        let normal = order(Runtime::threads(1), shards, Priority::NORMAL);
        assert!(normal.starts_with(&leaves[..5]) && normal != last, "normal: {normal}");
        assert_eq!(order(Runtime::threads(1), shards, Priority(0)), last, "lowest");
        for seed in 0..20 {
            assert_eq!(order(Runtime::seeded(1, seed), shards, Priority::RAISED), first, "raised, seed {seed}");
            assert_eq!(order(Runtime::seeded(1, seed), shards, Priority(0)), last, "lowest, seed {seed}");
        }
        // Among equals the seeded driver draws.
        let drawn: Vec<_> = (0..20).map(|seed| order(Runtime::seeded(1, seed), shards, Priority::NORMAL)).collect();
        assert!(drawn.iter().any(|o| !o.starts_with('c')), "{drawn:?}");
        assert!(drawn.iter().any(|o| *o != last), "{drawn:?}");
    }
}

/// What goes wrong in a program of calls.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The operator panics at the bad shard's contribution.
    Operator,
    /// The bad shard's input is the future of a leaf task that panics.
    Input,
    /// The bad shard's contribution is of another length.
    Length(usize),
    /// The bad shard panics before it makes the call.
    Panics,
    /// The bad shard returns an error before it makes the call.
    GivesUp,
}

/// Calls of vectors of three numbers, one of which goes wrong.
#[derive(Debug, Clone, Copy)]
struct Faulty {
    fault: Fault,
    shards: u32,
    slots: u32,
    calls: usize,
    /// Which shard and which call.
    bad: (u32, usize),
    /// Every call is made before the first is awaited.
    ahead: bool,
    algorithm: Algorithm,
}

/// The operator of a test with any algorithm: how two levels bracket depends on where the shards are.
fn node(algorithm: Algorithm) -> fn(&u64, &u64) -> u64 {
    match algorithm {
        Algorithm::TwoLevel => |a, b| a.wrapping_add(*b),
        _ => |a, b| (a + b) >> 1,
    }
}

const ELEMENTS: usize = 3;
const BOMB: u64 = u64::MAX;

/// What a shard saw of each call.
type Seen = Vec<Result<Vec<u64>, Error>>;

impl Faulty {
    fn own(call: usize, shard: u32) -> Vec<u64> {
        (0..ELEMENTS as u64).map(|e| mix(mix((call as u64) << 32 | u64::from(shard)) ^ e) >> 1).collect()
    }

    /// What a call would give if nothing were wrong.
    fn expected(&self, call: usize) -> Vec<u64> {
        let node = node(self.algorithm);
        let of = |e| (0..self.shards).map(|s| Self::own(call, s)[e]).collect::<Vec<_>>();
        (0..ELEMENTS).map(|e| tree(&of(e), node)).collect()
    }

    async fn calls(self, shard: Shard, total: Collective<[u64]>) -> Result<Seen, Error> {
        fn bomb() -> Vec<u64> {
            panic!("leaf bomb")
        }
        let mut pending = Vec::new();
        let mut seen = Vec::new();
        for call in 0..self.calls {
            let mut own = Self::own(call, shard.index());
            let mut input = None;
            if self.bad == (shard.index(), call) {
                match self.fault {
                    Fault::Operator => own[1] = BOMB,
                    Fault::Input => input = Some(shard.launch(bomb, ()).named("bomb").go()?),
                    Fault::Length(other) => own = vec![1; other],
                    Fault::Panics => panic!("shard bomb"),
                    Fault::GivesUp => return Err(Error::user("shard gives up")),
                }
            }
            let future = match input {
                Some(input) => total.call(&shard, &input)?,
                None => total.call(&shard, own)?,
            };
            if self.ahead {
                pending.push(future);
            } else {
                seen.push(future.await.map(Vector::into_vec));
            }
        }
        for future in pending {
            seen.push(future.await.map(Vector::into_vec));
        }
        Ok(seen)
    }

    fn run(self, runtime: &Runtime) -> Result<Vec<Result<Seen, Error>>, Error> {
        let run = runtime.run(move |top| async move {
            let gang = top.gang("all", self.shards)?;
            let node = node(self.algorithm);
            let operator = Operator::user("brackets", move |a: &u64, b: &u64| {
                if *a == BOMB || *b == BOMB {
                    panic!("operator bomb");
                }
                node(a, b)
            });
            let total = Collective::allreduce(operator)
                .elements(ELEMENTS)
                .slots(self.slots)
                .algorithm(self.algorithm)
                .order(Order::Any)
                .make(&top, &gang, "total")?;
            let task = top.register("shard", move |shard, (): ()| self.calls(shard, total));
            let done = top.launch(&gang, &task, |_| ShardLaunch::new(()))?;
            let mut all = Vec::new();
            for shard in done.iter() {
                all.push(shard.clone().await);
            }
            Ok(all)
        });
        run.map(|(all, _)| all)
    }

    /// Whether an error leads to what was done.
    fn is_cause(&self, origin: &Error) -> bool {
        let panicked = |of: &str, text: &str| match origin {
            Error::Panicked { place: Place { task, shard }, message } => {
                task == of && message == text && (of == "total" || *shard == Some(self.bad.0))
            }
            _ => false,
        };
        match self.fault {
            Fault::Operator => panicked("total", "operator bomb"),
            Fault::Input => panicked("bomb", "leaf bomb"),
            Fault::Panics => panicked("shard", "shard bomb"),
            Fault::GivesUp => *origin == Error::user("shard gives up"),
            Fault::Length(other) => {
                let text = format!("input of `total` in shard {}: expected 3 elements, got {other}", self.bad.0);
                origin.to_string() == text
            }
        }
    }

    /// Every call at every shard has the right result or an error that names its cause, and the error wherever it must.
    fn check(self, runtime: &Runtime, at: &str) {
        let at = format!("{self:?} on {at}");
        let all = watched(&at, || self.run(runtime)).unwrap_or_else(|e| panic!("{at}: {e}"));
        let expected: Vec<_> = (0..self.calls).map(|c| self.expected(c)).collect();
        let dies = matches!(self.fault, Fault::Panics | Fault::GivesUp);
        for (shard, seen) in (0u32..).zip(&all) {
            let seen = match seen {
                Ok(seen) => seen,
                Err(e) => {
                    assert!(dies && shard == self.bad.0 && self.is_cause(e.origin()), "{at}: shard {shard}: {e:?}");
                    continue;
                }
            };
            assert_eq!(seen.len(), self.calls, "{at}: shard {shard}");
            let mut failed = vec![false; self.slots as usize];
            for (call, outcome) in seen.iter().enumerate() {
                let slot = call % self.slots as usize;
                let must = match dies {
                    // What the shard had in flight when it died has its contribution.
                    true => call >= self.bad.1,
                    // A failed call is alone in its failure.
                    false => call == self.bad.1,
                };
                match outcome {
                    Ok(values) => {
                        assert!(!(must || dies && failed[slot]), "{at}: shard {shard}, call {call} has a result");
                        assert_eq!(*values, expected[call], "{at}: shard {shard}, call {call}");
                    }
                    Err(e) => {
                        assert!(must, "{at}: shard {shard}, call {call}: {e}");
                        assert!(self.is_cause(e.origin()), "{at}: shard {shard}, call {call}: {e:?}");
                        let text = e.to_string();
                        assert!(text.contains(&format!("`total` of shard {shard}")), "{at}: {text}");
                        failed[slot] = true;
                    }
                }
            }
        }
    }
}

fn fails(fault: Fault) {
    let mut number = 0;
    for (shards, bad) in [(1, 0), (2, 0), (2, 1), (3, 1), (4, 2), (5, 4), (6, 0), (8, 7)] {
        if shards == 1 && fault == Fault::Operator {
            continue;
        }
        for slots in 1..=3 {
            for call in [0, 1, 3] {
                for ahead in [false, true] {
                    for _ in 0..4 {
                        number += 1;
                        let (at, runtime) = any_runtime(number);
                        let algorithms = lawless(shards);
                        let algorithm = algorithms[(mix(number) >> 32) as usize % algorithms.len()];
                        let faulty = Faulty { fault, shards, slots, calls: 7, bad: (bad, call), ahead, algorithm };
                        faulty.check(&runtime, &at);
                    }
                }
            }
        }
    }
}

#[test]
fn a_panic_in_the_operator_reaches_every_shard() {
    fails(Fault::Operator);
}

#[test]
fn a_failed_input_reaches_every_shard() {
    fails(Fault::Input);
}

/// The error names the allreduce, the shard and both lengths, everywhere.
#[test]
fn a_wrong_length_reaches_every_shard() {
    for other in [0, 1, 2, 4, 1000] {
        fails(Fault::Length(other));
    }
}

#[test]
fn a_shard_that_panics_between_calls_reaches_every_shard() {
    fails(Fault::Panics);
}

#[test]
fn a_shard_that_gives_up_between_calls_reaches_every_shard() {
    fails(Fault::GivesUp);
}

/// One element where three belong, and none where one belongs.
#[test]
fn a_wrong_length_is_an_error() {
    async fn shard(shard: Shard, (one, three): (Collective<[f64]>, Collective<[f64]>)) -> Result<(), Error> {
        let names = |e: Error, text: &str| assert_eq!(e.origin().to_string(), text);
        let of = shard.index();
        let first = three.call(&shard, vec![1.0])?.await;
        if shard.shards() == 1 {
            names(first.unwrap_err(), "input of `three` in shard 0: expected 3 elements, got 1");
        } else {
            let text = first.unwrap_err().origin().to_string();
            assert!(text.starts_with("input of `three` in shard ") && text.ends_with("got 1"), "{text}");
        }
        // A failure of one object is none of another.
        assert_eq!(one.call(&shard, vec![f64::from(of)])?.await?.len(), 1);
        let none = one.call(&shard, vec![])?.await.unwrap_err();
        assert!(none.to_string().contains("expected 1 elements, got 0"), "{none}");
        Ok(())
    }
    for number in 0..12 {
        let (at, runtime) = any_runtime(number);
        for shards in [1, 2, 3, 5] {
            let outcome = watched(&at, || {
                runtime.run(move |top| async move {
                    let gang = top.gang("all", shards)?;
                    let one = Collective::<f64>::allreduce(Operator::sum()).elements(1).make(&top, &gang, "one")?;
                    let three = Collective::<f64>::allreduce(Operator::sum()).elements(3).make(&top, &gang, "three")?;
                    let task = top.register("shard", shard);
                    top.launch(&gang, &task, |_| ShardLaunch::new((one, three)))?.all().await
                })
            });
            outcome.unwrap_or_else(|e| panic!("{at}, {shards} shards: {e}"));
        }
    }
}

/// A shard that ends well without making its calls may make them in a later launch; if there is none, the run ends with
/// a report that names the collective and everybody who waits.
#[test]
fn a_call_that_some_shards_do_not_make_is_a_deadlock() {
    async fn shard(shard: Shard, total: Collective<u64>) -> Result<u64, Error> {
        let first = total.call(&shard, 1)?.await?;
        if shard.index() == 1 {
            return Ok(first);
        }
        total.call(&shard, 2)?.await
    }
    for number in 0..24 {
        let (at, runtime) = any_runtime(number / 2);
        let algorithms = lawless(4);
        let algorithm = algorithms[number as usize % algorithms.len()];
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", 4)?;
                let total = Collective::allreduce(Operator::sum())
                    .algorithm(algorithm)
                    .order(Order::Any)
                    .make(&top, &gang, "total")?;
                let task = top.register("shard", shard);
                top.launch(&gang, &task, |_| ShardLaunch::new(total))?.all().await
            })
        });
        let error = outcome.expect_err("shard 1 makes one call only");
        let Error::Deadlock { report, .. } = error.origin() else { panic!("{at}: {error:?}") };
        for waiter in [0, 2, 3] {
            let waits = report.lines().any(|l| l.contains("`total`") && l.contains(&format!("shard {waiter}")));
            assert!(waits, "{at}: shard {waiter} is not in\n{report}");
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
                    all.push(top.launch(&gang, &task, |_| ShardLaunch::new((total, 4 * launch)))?.all().await?);
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

/// What a shard does before one of its calls, in a program in which several things go wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mishap {
    None,
    Panics,
    GivesUp,
    BadOperand,
    BadInput,
    BadLength,
}

const MISHAPS: [Mishap; 6] =
    [Mishap::None, Mishap::Panics, Mishap::GivesUp, Mishap::BadOperand, Mishap::BadInput, Mishap::BadLength];

/// Up to three mishaps at up to three shards: no call hangs, none has a wrong result, each error leads to one of them; and
/// no call of a later launch has a result where a shard has died.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn several_failures_at_once() {
    const CALLS: u64 = 6;
    type Made = Vec<Result<u64, Error>>;
    fn own(call: u64, shard: u32) -> u64 {
        mix(call << 32 | u64::from(shard)) >> 1
    }
    fn mishap(seed: u64, call: u64, shard: u32, shards: u32) -> Mishap {
        let hits = |n| {
            let x = mix(seed ^ n << 50);
            x as u32 % shards == shard && (x >> 32) % CALLS == call
        };
        (0..3).find(|&n| hits(n)).map_or(Mishap::None, |n| MISHAPS[mix(seed ^ n << 40) as usize % 6])
    }
    async fn calls(shard: Shard, total: Collective<[u64]>, seed: u64, launch: u64) -> Result<Made, Error> {
        let mut calls = Vec::new();
        for call in 0..CALLS {
            let mut input = vec![own(launch * CALLS + call, shard.index())];
            let mut bad = None;
            if launch == 0 {
                match mishap(seed, call, shard.index(), shard.shards()) {
                    Mishap::None => {}
                    Mishap::Panics => panic!("mishap"),
                    Mishap::GivesUp => return Err(Error::user("mishap")),
                    Mishap::BadOperand => input[0] = BOMB,
                    Mishap::BadInput => bad = Some(shard.launch(|| -> Vec<u64> { panic!("mishap") }, ()).go()?),
                    Mishap::BadLength => input.push(1),
                }
            }
            let input: maniple_runtime::Input<Vec<u64>> = bad.map_or_else(|| input.into(), |b| (&b).into());
            calls.push(total.call(&shard, input)?);
            if mix(seed ^ call << 20).is_multiple_of(3) {
                let _ = calls[call as usize].clone().await;
            }
        }
        let mut all = Vec::new();
        for call in calls {
            all.push(call.await.map(|v| v[0]));
        }
        Ok(all)
    }
    for seed in 0..1200 {
        let (at, runtime) = any_runtime(seed);
        let shards = 2 + mix(seed) as u32 % 8;
        let algorithms = lawless(shards);
        let algorithm = algorithms[(seed / 6) as usize % algorithms.len()];
        let node = node(algorithm);
        let slots = 1 + mix(!seed) as u32 % 3;
        let at = format!("{at}, {shards} shards, {slots} slots, number {seed}");
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let operator = Operator::user("sum", move |a: &u64, b: &u64| {
                    assert!(*a != BOMB && *b != BOMB, "mishap");
                    node(a, b)
                });
                let total = Collective::allreduce(operator)
                    .elements(1)
                    .slots(slots)
                    .algorithm(algorithm)
                    .order(Order::Any)
                    .make(&top, &gang, "total")?;
                let task = top.register("shard", move |shard, launch| calls(shard, total, seed, launch));
                let mut all = Vec::new();
                for launch in 0..2 {
                    let done = top.launch(&gang, &task, |_| ShardLaunch::new(launch))?;
                    for shard in done.iter() {
                        all.push(shard.clone().await);
                    }
                }
                Ok(all)
            })
        });
        let (all, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
        let all_shards = || (0..shards).flat_map(|s| (0..CALLS).map(move |c| (c, s)));
        let of = |c, s| mishap(seed, c, s, shards);
        let death =
            all_shards().filter(|&(c, s)| matches!(of(c, s), Mishap::Panics | Mishap::GivesUp)).map(|d| d.0).min();
        let is_mishap = |e: &Error| {
            let text = e.origin().to_string();
            text.contains("mishap") || text.contains("`total` in shard") && text.ends_with("got 2")
        };
        for (i, made) in all.iter().enumerate() {
            let made = match made {
                Ok(made) => made,
                // A leaf task's failure is its shard's own where a call that had failed before did not look at it.
                Err(e) => {
                    let fatal = [Mishap::Panics, Mishap::GivesUp, Mishap::BadInput];
                    let own = (0..CALLS).any(|c| fatal.contains(&of(c, i as u32)));
                    assert!(own && i < shards as usize && is_mishap(e), "{at}: {e}");
                    continue;
                }
            };
            assert_eq!(made.len() as u64, CALLS, "{at}");
            for (call, outcome) in (0..).zip(made) {
                let launch = i as u64 / u64::from(shards);
                match outcome {
                    Err(e) => {
                        let own = launch == 0 && (0..shards).any(|s| of(call, s) != Mishap::None);
                        let owed = death.is_some_and(|d| launch > 0 || call >= d);
                        assert!(is_mishap(e) && (own || owed), "{at}: launch {launch}, call {call}: {e}");
                    }
                    Ok(came) => {
                        assert!(death.is_none_or(|d| launch == 0 && call < d), "{at}: call {call} has a result");
                        let own: Vec<_> = (0..shards).map(|s| own(launch * CALLS + call, s)).collect();
                        assert_eq!(*came, tree(&own, node), "{at}: launch {launch}, call {call}");
                    }
                }
            }
        }
    }
}

/// A call that nobody looks at still fails its shard, and one that not all make is still missed.
#[test]
fn detached_calls_are_not_forgotten() {
    async fn shard(shard: Shard, (total, skips): (Collective<u64>, bool)) -> Result<(), Error> {
        if !(skips && shard.index() == 1) {
            total.call(&shard, u64::from(shard.index()))?.detach();
        }
        Ok(())
    }
    for number in 0..20 {
        for skips in [false, true] {
            let (at, runtime) = any_runtime(number);
            let outcome = watched(&at, || {
                runtime.run(move |top| async move {
                    let gang = top.gang("all", 3)?;
                    let operator =
                        Operator::user("bomb", |a: &u64, b: &u64| if *b == 1 { panic!("bomb") } else { a + b });
                    let total = Collective::allreduce(operator).make(&top, &gang, "total")?;
                    let task = top.register("shard", shard);
                    top.launch(&gang, &task, |_| ShardLaunch::new((total, skips)))?.all().await
                })
            });
            let error = outcome.expect_err(&at);
            match (skips, error.origin()) {
                (true, Error::Deadlock { report, .. }) => {
                    assert!(report.contains("missing in call 0 of `total`: shard 1"), "{at}: {report}");
                }
                (false, Error::Panicked { message, .. }) => assert_eq!(message, "bomb", "{at}"),
                _ => panic!("{at}: {error}"),
            }
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
                top.launch(&gang, &task, |_| ShardLaunch::new((first, second)))?.all().await
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
            top.launch(&other, &task, |_| ShardLaunch::new(total))?.all().await
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
            ("f64_at_every_size", f64_at_every_size),
            (
                "structs_and_operators_that_do_not_commute_at_every_size",
                structs_and_operators_that_do_not_commute_at_every_size,
            ),
            ("elements_with_large_alignment", elements_with_large_alignment),
            ("vectors_of_any_length", vectors_of_any_length),
            ("vectors_of_16_mib", vectors_of_16_mib),
            ("calls_in_flight", calls_in_flight),
            ("a_long_chain", a_long_chain),
            ("two_levels_wherever_the_shards_are", two_levels_wherever_the_shards_are),
            (
                "a_shard_that_panics_between_calls_reaches_every_shard",
                a_shard_that_panics_between_calls_reaches_every_shard,
            ),
            ("a_wrong_length_is_an_error", a_wrong_length_is_an_error),
            ("a_call_that_some_shards_do_not_make_is_a_deadlock", a_call_that_some_shards_do_not_make_is_a_deadlock),
            ("an_allreduce_outlives_a_launch", an_allreduce_outlives_a_launch),
            ("detached_calls_are_not_forgotten", detached_calls_are_not_forgotten),
            ("objects_are_independent", objects_are_independent),
        ],
    );
}
