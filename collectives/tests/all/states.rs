//! Built-in operators, and collectives whose running values are not elements: exact sums, places, and a mean with its variance.

use crate::common::{any_runtime, bytes, mix, watched};
use bytemuck::{Pod, Zeroable};
use maniple_collectives::{Algorithm, Collective, Goal, Operator, Order};
use maniple_regions::{ExactSum, Located, Stateful, Vector, argmax, argmin, exact_sum};
use maniple_runtime::{Arg, Error, Runtime, Shard, ShardLaunch};

type Exact<I, O = I> = Collective<I, O, ExactSum<f64>>;

/// A multiple of 2^-40 with 53 significant bits. Sums of them depend on the order.
fn summand(bits: u64) -> i128 {
    let significant = i128::from(bits >> 11) << (bits % 40);
    if bits & 1 << 10 == 0 { significant } else { -significant }
}

fn float(multiple: i128) -> f64 {
    // Rounded to the nearest, once; the power of two is exact.
    multiple as f64 * 2f64.powi(-40)
}

fn own(shard: u32, call: u64, element: u64) -> i128 {
    summand(mix(u64::from(shard) << 40 ^ call << 20 ^ element))
}

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Sums {
    all: Exact<f64>,
    vectors: Exact<[f64]>,
    some: Exact<f64>,
    scan: Exact<f64>,
    before: Exact<[f64]>,
    blocks: Exact<[f64], f64>,
}

type Results = (f64, Vec<f64>, f64, f64, Vec<f64>, f64);

async fn sums(shard: Shard, (sums, call): (Sums, u64)) -> Result<Results, Error> {
    let (me, p) = (shard.index(), u64::from(shard.shards()));
    let own = |element: u64| float(own(me, call, element));
    let later = shard.launch(|x: Arg<f64>| *x, (own(0).into(),)).go()?;
    let all = sums.all.call(&shard, &later)?;
    let vectors = sums.vectors.call(&shard, (0..3).map(own).collect::<Vec<_>>())?;
    sums.some.contribute(&shard, own(0))?.detach();
    let scan = sums.scan.call(&shard, own(0))?;
    let before = sums.before.call(&shard, vec![own(0), own(1)])?;
    let blocks = sums.blocks.call(&shard, (0..p).map(own).collect::<Vec<_>>())?;
    let some = if u64::from(me) == p - 1 { sums.some.receive(&shard)?.await? } else { 0.0 };
    let before = before.await?.into_vec();
    Ok((all.await?, vectors.await?.into_vec(), some, scan.await?, before, blocks.await?))
}

/// A case by its number: its name, a runtime, a number of shards, and an algorithm of their allreduce.
fn drawn(number: u64) -> (String, Runtime, u32, Algorithm) {
    let (at, runtime) = any_runtime(number);
    let shards = 1 + mix(number) as u32 % 9;
    let algorithms: Vec<Algorithm> = Algorithm::all_for(&Goal::allreduce(shards, 1)).collect();
    let algorithm = algorithms[number as usize % algorithms.len()];
    (format!("{at}, {shards} shards, {algorithm}"), runtime, shards, algorithm)
}

/// Against sums of integers, for every algorithm: the sum is associative, so none is refused.
#[test]
fn exact_sums_are_rounded_once() {
    let mut rounds = 0;
    for number in 0..60 {
        let (at, runtime, shards, algorithm) = drawn(number);
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let all = || Collective::allreduce(exact_sum::<f64>());
                let made = Sums {
                    all: all().algorithm(algorithm).make(&top, &gang, "all")?,
                    vectors: all().elements(3).algorithm(algorithm).make(&top, &gang, "vectors")?,
                    some: Collective::reduce(exact_sum(), [shards - 1]).make(&top, &gang, "some")?,
                    scan: Collective::scan(exact_sum()).make(&top, &gang, "scan")?,
                    before: Collective::exscan(exact_sum(), 0.5).elements(2).make(&top, &gang, "before")?,
                    blocks: Collective::reduce_scatter(exact_sum()).make(&top, &gang, "blocks")?,
                };
                let task = top.register("sums", sums);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((made, number)))?.all().await
            })
        });
        let upto = |last: u32, element: u64| float((0..=last).map(|s| own(s, number, element)).sum());
        let sum = |element: u64| upto(shards - 1, element);
        let results = outcome.unwrap_or_else(|e| panic!("{at}: {e}")).0;
        for (me, (all, vectors, some, scan, before, block)) in (0..).zip(results) {
            assert_eq!(bytes(&vectors), bytes(&[sum(0), sum(1), sum(2)]), "{at}");
            let earlier = if me == 0 { [0.5; 2] } else { [upto(me - 1, 0), upto(me - 1, 1)] };
            assert_eq!(bytes(&before), bytes(&earlier), "{at}, shard {me}");
            let some = if me == shards - 1 { some } else { sum(0) };
            let came = [all, some, scan, block];
            assert_eq!(bytes(&came), bytes(&[sum(0), sum(0), upto(me, 0), sum(me.into())]), "{at}, shard {me}");
        }
        let plain: f64 = (0..shards).map(|s| float(own(s, number, 0))).sum();
        rounds += u32::from(plain != sum(0));
    }
    assert!(rounds > 10, "a plain sum rounds in {rounds} of 60 only");
}

/// Count, sum, and sum of squares.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Moments([f64; 3]);

#[test]
fn contribution_state_and_result_may_all_differ() {
    type MeanAndVariance = Collective<u32, [f64; 2], Moments>;
    async fn shard(shard: Shard, both: MeanAndVariance) -> Result<[f64; 2], Error> {
        both.call(&shard, shard.index())?.await
    }
    for number in 0..12 {
        let (at, runtime) = any_runtime(number);
        let shards = 1 + number as u32;
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let add = |a: &Moments, b: &Moments| Moments(std::array::from_fn(|i| a.0[i] + b.0[i]));
                let lift = |x: &u32| Moments([1.0, f64::from(*x), f64::from(*x).powi(2)]);
                let lower = |Moments([n, sum, squares]): &Moments| [sum / n, squares / n - (sum / n).powi(2)];
                let both = Stateful::new(Operator::user("moments", add), lift, lower);
                let both = Collective::allreduce(both).make(&top, &gang, "mean and variance")?;
                top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(both))?.all().await
            })
        });
        // Of 0 to n - 1.
        let n = f64::from(shards);
        let (mean, variance) = ((n - 1.0) / 2.0, (n * n - 1.0) / 12.0);
        for came in outcome.unwrap_or_else(|e| panic!("{at}: {e}")).0 {
            assert!((came[0] - mean).abs() < 1e-12 && (came[1] - variance).abs() < 1e-12, "{at}: {came:?}");
        }
    }
}

/// A failed input, a wrong length and a panic when states are combined reach those who wait for a result.
#[test]
fn failures_reach_results() {
    async fn shard(shard: Shard, (sum, bad): (Exact<[f64]>, u32)) -> Result<Vec<f64>, Error> {
        let own = if shard.index() == bad { vec![1.0] } else { vec![1.0, 2.0] };
        let first = sum.call(&shard, own)?.await;
        let text = first.expect_err("one is too short").origin().to_string();
        assert!(text.ends_with("expected 2 elements, got 1"), "{text}");
        let second = if shard.index() == bad {
            sum.call(&shard, &shard.launch(|| -> Vec<f64> { panic!("broken input") }, ()).go()?)?
        } else {
            sum.call(&shard, vec![1.0, 2.0])?
        };
        let text = second.await.expect_err("one has no input").origin().to_string();
        assert!(text.contains("broken input"), "{text}");
        sum.call(&shard, vec![1.0, 0.5])?.await.map(Vector::into_vec)
    }
    for number in 0..12 {
        let (at, runtime) = any_runtime(number);
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", 4)?;
                let sum = Collective::allreduce(exact_sum::<f64>()).elements(2).make(&top, &gang, "sum")?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((sum, number as u32 % 4)))?.all().await
            })
        });
        assert_eq!(outcome.unwrap_or_else(|e| panic!("{at}: {e}")).0, vec![vec![4.0, 2.0]; 4], "{at}");
    }
}

/// Followers of a group share the result that one of them has converted, of their own call, whichever calls are in flight.
#[test]
fn groups_convert_each_result_for_its_own_call() {
    const CALLS: u64 = 12;
    async fn shard(shard: Shard, sum: Exact<f64>) -> Result<Vec<f64>, Error> {
        let own_of = |call| float(own(shard.index(), call, 0));
        let mut results = Vec::new();
        let mut earlier = sum.call(&shard, own_of(0))?;
        for call in 1..CALLS {
            let later = sum.call(&shard, own_of(call))?;
            results.push(earlier.await?);
            earlier = later;
        }
        results.push(earlier.await?);
        Ok(results)
    }
    for number in 0..24 {
        let (at, runtime) = any_runtime(number);
        let shards = 2 + number as u32 % 7;
        let results = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let sum = Collective::allreduce(exact_sum()).algorithm(Algorithm::TwoLevel).make(&top, &gang, "sum")?;
                top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(sum))?.all().await
            })
        });
        let expected: Vec<f64> = (0..CALLS).map(|call| float((0..shards).map(|s| own(s, call, 0)).sum())).collect();
        assert_eq!(results.unwrap_or_else(|e| panic!("{at}: {e}")).0, vec![expected; shards as usize], "{at}");
    }
}

/// A conversion that panics fails the call: of a contribution on every shard, of a result on the shards that get it.
#[test]
fn conversions_that_panic_fail_the_call() {
    type Outcomes = ([Result<u64, String>; 2], Result<Vec<u64>, String>, u64);
    type Sum<V> = Collective<V, V, u64>;
    type Wide = Collective<u64, u64, [u64; 5]>;
    async fn shard(
        shard: Shard,
        (one, wide, many, later): (Sum<u64>, Wide, Sum<[u64]>, bool),
    ) -> Result<Outcomes, Error> {
        let me = u64::from(shard.index());
        let origin = |e: Error| e.origin().to_string();
        let (first, second, third) = if later {
            let element = shard.launch(|x: Arg<u64>| x.0, (me.into(),)).go()?;
            let vector = shard.launch(|x: Arg<Vec<u64>>| x.0, (vec![me; 3].into(),)).go()?;
            (one.call(&shard, &element)?, wide.call(&shard, &element)?, many.call(&shard, &vector)?)
        } else {
            (one.call(&shard, me)?, wide.call(&shard, me)?, many.call(&shard, vec![me; 3])?)
        };
        let elements = [first.await.map_err(origin), second.await.map_err(origin)];
        let vector = third.await.map(Vector::into_vec).map_err(origin);
        let after = [one.call(&shard, 10)?.await?, wide.call(&shard, 10)?.await?];
        assert_eq!(after[0], after[1]);
        Ok((elements, vector, after[0]))
    }
    fn checked(x: u64, bad: u64, what: &str) -> u64 {
        assert!(x != bad, "bad {what}");
        x
    }
    fn fails_at((lift, lower): (u64, u64)) -> Stateful<u64, u64> {
        Stateful::new(Operator::sum(), move |x| checked(*x, lift, "lift"), move |x| checked(*x, lower, "lower"))
    }
    /// The same with states that are too large to be moved from hand to hand.
    fn wide_fails_at((lift, lower): (u64, u64)) -> Stateful<u64, [u64; 5]> {
        let add = |a: &[u64; 5], b: &[u64; 5]| std::array::from_fn(|i| a[i] + b[i]);
        let lift = move |x: &u64| [checked(*x, lift, "lift"); 5];
        Stateful::new(Operator::user("five sums", add), lift, move |x| checked(x[4], lower, "lower"))
    }
    for number in 0..24 {
        let (at, runtime) = any_runtime(number);
        // A shard contributes its number, and the sum is 6.
        let (at_values, says) = match number % 4 {
            0 => ((3, 99), "bad lift"),
            2 => ((0, 99), "bad lift"),
            _ => ((99, 6), "bad lower"),
        };
        let outcomes = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", 4)?;
                let one = Collective::allreduce(fails_at(at_values)).make(&top, &gang, "one")?;
                let wide = Collective::allreduce(wide_fails_at(at_values));
                let wide = if number % 3 == 0 { wide.order(Order::Any).algorithm(Algorithm::TwoLevel) } else { wide };
                let wide = wide.make(&top, &gang, "wide")?;
                let many = Collective::allreduce(fails_at(at_values)).elements(3).make(&top, &gang, "many")?;
                let task = top.register("shard", shard);
                let later = number % 8 < 4;
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((one, wide, many, later)))?.all().await
            })
        });
        for (me, ([one, wide], many, after)) in
            outcomes.unwrap_or_else(|e| panic!("{at}: {e}")).0.into_iter().enumerate()
        {
            let place = if says == "bad lift" { at_values.0 as usize } else { me };
            let said = |name: &str| format!("task `{name}` of shard {place} panicked: {says}");
            assert_eq!((one, wide), (Err(said("one")), Err(said("wide"))), "{at}");
            assert_eq!(many, Err(said("many")), "{at}");
            assert_eq!(after, 40, "{at}");
        }
    }
}

/// A built-in operator, and what it does to two numbers.
type BuiltIn = (&'static str, fn() -> Operator<u64>, fn(u64, u64) -> u64);

const BUILT_IN: [BuiltIn; 10] = [
    ("sum", Operator::sum, u64::wrapping_add),
    ("product", Operator::product, u64::wrapping_mul),
    ("min", Operator::min, |a, b| if b < a { b } else { a }),
    ("max", Operator::max, |a, b| if b > a { b } else { a }),
    ("and", Operator::and, |a, b| a & b),
    ("or", Operator::or, |a, b| a | b),
    ("xor", Operator::xor, |a, b| a ^ b),
    ("logical_and", Operator::logical_and, |a, b| u64::from(a != 0 && b != 0)),
    ("logical_or", Operator::logical_or, |a, b| u64::from(a != 0 || b != 0)),
    ("logical_xor", Operator::logical_xor, |a, b| u64::from((a != 0) != (b != 0))),
];

/// Numbers with few and with many bits, and zeros.
fn number(shard: u32, element: u64) -> u64 {
    let bits = mix(u64::from(shard) << 8 | element);
    if bits & 4 == 0 { bits } else { bits & 1 }
}

type All = (Collective<[u64]>, Collective<[u64]>, Collective<u64>, Place, Place);
type Place = Collective<Located<f64>, u64, Located<f64>>;
type Found = (Vec<u64>, Vec<u64>, u64, u64, u64);

async fn built_in(shard: Shard, (all, scan, one, least, greatest): All) -> Result<Found, Error> {
    let me = shard.index();
    let own: Vec<u64> = (0..3).map(|element| number(me, element)).collect();
    let value = Located { value: (number(me, 9) % 4) as f64, at: u64::from(me) };
    let (all, scan) = (all.call(&shard, own.clone())?, scan.call(&shard, own.clone())?);
    let (one, least, greatest) = (one.call(&shard, own[0])?, least.call(&shard, value)?, greatest.call(&shard, value)?);
    Ok((all.await?.into_vec(), scan.await?.into_vec(), one.await?, least.await?, greatest.await?))
}

#[test]
fn built_in_operators_combine_as_a_loop_does() {
    for (case, (name, operator, combine)) in (0..40).zip(BUILT_IN.into_iter().cycle()) {
        let (at, runtime, shards, algorithm) = drawn(case);
        let at = format!("{at}, {name}");
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let all =
                    Collective::allreduce(operator()).elements(3).algorithm(algorithm).make(&top, &gang, "all")?;
                let scan = Collective::scan(operator()).elements(3).make(&top, &gang, "scan")?;
                let one = Collective::allreduce(operator()).algorithm(algorithm).make(&top, &gang, "one")?;
                let least = Collective::allreduce(argmin::<f64>()).make(&top, &gang, "least")?;
                let greatest = Collective::allreduce(argmax::<f64>()).make(&top, &gang, "greatest")?;
                let task = top.register("built in", built_in);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((all, scan, one, least, greatest)))?.all().await
            })
        });
        let found: Vec<Found> = outcome.unwrap_or_else(|e| panic!("{at}: {e}")).0;
        // One contribution alone is a truth value as well.
        let of = |shard, element| match number(shard, element) {
            truth if name.starts_with("logical_") => u64::from(truth != 0),
            number => number,
        };
        let folded = |element, last| (0..=last).map(|shard| of(shard, element)).reduce(combine).unwrap();
        let values: Vec<u64> = (0..shards).map(|shard| number(shard, 9) % 4).collect();
        let place = |of: Option<&u64>| values.iter().position(|value| Some(value) == of).unwrap() as u64;
        let places = (place(values.iter().min()), place(values.iter().max()));
        for (shard, (all, scan, one, least, greatest)) in (0..).zip(&found) {
            let total: Vec<u64> = (0..3).map(|element| folded(element, shards - 1)).collect();
            let before: Vec<u64> = (0..3).map(|element| folded(element, shard)).collect();
            assert_eq!((all, scan, *one), (&total, &before, total[0]), "{at}, shard {shard}");
            assert_eq!((*least, *greatest), places, "{at}, shard {shard}");
        }
    }
}
