//! Every operator at every number of shards, and vectors of any length.

use super::kinds::{Bits, float_kinds, integer_kinds};
use crate::common;
use crate::common::{
    Calls, Combiner, Many, One, affine, any_f64, any_runtime, brackets, matrices, mix, rounding, watched,
};
use maniple_collectives::{Algorithm, Collective, Operator, Order};
use maniple_regions::Element;
use maniple_runtime::{Error, Payload, Runtime, Shard, ShardLaunch, VirtualMachine};
use std::sync::Arc;

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
pub(super) fn f64_at_every_size() {
    every_size::<f64>(&float_kinds!(f64));
}

/// Composition, matrix products and a hash of the bracketing see any two operands that change places.
#[test]
pub(super) fn structs_and_operators_that_do_not_commute_at_every_size() {
    every_size(&[affine()]);
    every_size(&[matrices()]);
    every_size(&[brackets()]);
}

/// Elements aligned to more than a word are copied from where an arrival holds them.
#[test]
pub(super) fn elements_with_large_alignment() {
    let combine = |a: &u128, b: &u128| a.wrapping_mul(3) ^ b.rotate_left(77);
    let make = |x| u128::from(x) << 64 | u128::from(mix(x));
    every_size(&[Combiner { operator: Operator::user("u128", combine), combine, make, associative: false }]);
}

/// Lengths on both sides of what an arrival holds and of what gets a buffer for each round, and none at all.
#[test]
pub(super) fn vectors_of_any_length() {
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
pub(super) fn vectors_of_16_mib() {
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
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(total))?.all().await
            })
        })
        .unwrap();
        assert_eq!(right, vec![(LENGTH, LENGTH); shards as usize], "{at}");
    }
}
