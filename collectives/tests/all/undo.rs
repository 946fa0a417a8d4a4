//! Schedules that take operands out again, with operators that have an inverse and with one that has none.

use crate::common::any_runtime;
use maniple_collectives::{Adaption, Algorithm, Collective, Goal, Operator, Schedules, check, five_cases};
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};

type Vector = Collective<[i64], [i64]>;

/// In a message, and lent.
const SIZES: [usize; 2] = [3, 900];

async fn shard(shard: Shard, (one, many): (Collective<i64>, [Vector; 2])) -> Result<(i64, [Vec<i64>; 2]), Error> {
    let own = i64::from(shard.index()).pow(3) - 40;
    let vector = |size| [own, i64::MAX.wrapping_sub(own), -own].repeat(size / 3);
    let one = one.call(&shard, own)?;
    let [few, many] = [0, 1].map(|at| many[at].call(&shard, vector(SIZES[at])));
    Ok((one.await?, [few?.await?.to_vec(), many?.await?.to_vec()]))
}

/// Numbers of shards, and of messages a round, where an operand is taken out.
fn taken_out() -> impl Iterator<Item = (u32, u32)> {
    let adapted = (2..=40_u32).flat_map(|shards| (1..=3).map(move |n| (shards, n)));
    adapted.filter(|&(shards, n)| Adaption::find(shards, n).is_some_and(|a| a.left_out() > 0))
}

#[test]
fn five_cases_with_an_inverse_and_without() {
    let mut runs = 0;
    for (shards, n) in taken_out().take(8) {
        for own in [false, true] {
            let operator = move || match own {
                false => Operator::sum(),
                // The same sum as a program's own operator.
                true => Operator::user("own sum", |a: &i64, b: &i64| a.wrapping_add(*b))
                    .associative()
                    .commutative()
                    .infallible()
                    .with_inverse(|all, b| all.wrapping_sub(*b)),
            };
            for algorithm in [Algorithm::FiveCasesInverse(n as u8), Algorithm::FiveCases(n as u8)] {
                let (at, runtime) = any_runtime(runs);
                let at = format!("{at}, {shards} shards, {algorithm}");
                let (came, _) = runtime
                    .run(move |top| async move {
                        let gang = top.gang("all", shards)?;
                        let one = Collective::allreduce(operator()).algorithm(algorithm).make(&top, &gang, "one")?;
                        let many =
                            |at: usize| Collective::allreduce(operator()).elements(SIZES[at]).algorithm(algorithm);
                        let many = [many(0).make(&top, &gang, "few")?, many(1).make(&top, &gang, "many")?];
                        let task = top.register("shard", shard);
                        top.launch_gang(&gang, &task, |_| ShardLaunch::new((one, many)))?.all().await
                    })
                    .unwrap_or_else(|e| panic!("{at}: {e}"));
                let all = || (0..shards).map(|s| i64::from(s).pow(3) - 40);
                let sum = |f: fn(i64) -> i64| all().map(f).fold(0, i64::wrapping_add);
                let three = [sum(|x| x), sum(|x| i64::MAX.wrapping_sub(x)), sum(|x| -x)];
                let expected = (three[0], SIZES.map(|size| three.repeat(size / 3)));
                assert!(came.iter().all(|came| *came == expected), "{at}");
                runs += 1;
            }
        }
    }
    assert_eq!(runs, 32);
}

#[test]
fn an_operator_without_an_inverse_is_refused() {
    let (shards, n) = taken_out().next().unwrap();
    let refused = |own: bool| {
        let outcome = Runtime::threads(1).run(move |top| async move {
            let gang = top.gang("all", shards)?;
            let largest = Collective::allreduce(Operator::<i64>::max());
            let schedules = move |_: &_, rank| five_cases(rank, shards, n, true).expect("there is an adaption");
            let largest = match own {
                true => largest.schedules("undoing", schedules),
                false => largest.algorithm(Algorithm::FiveCasesInverse(n as u8)),
            };
            largest.make(&top, &gang, "largest").map(|_| ())
        });
        outcome.map(|_| ()).unwrap_err().to_string()
    };
    for (own, name) in [(true, "undoing".to_owned()), (false, format!("five-cases-inverse-{n}"))] {
        let (error, needs) = (refused(own), format!("an operator that is invertible bit for bit, as {name} needs"));
        assert!(error.contains(&needs) && error.contains("`max`"), "{error}");
    }
}

/// Where nothing is left out, an inverse has nothing to do.
#[test]
fn without_anything_to_leave_out_the_five_cases_are_taken_as_they_are() {
    for (shards, n) in (1..=40).flat_map(|shards| (1..=7).map(move |n| (shards, n))) {
        let goal = Goal::allreduce(shards, 1);
        let exists = Adaption::exists(shards, n);
        let leaves_out =
            exists && (0..shards).any(|rank| five_cases(rank, shards, n, true) != five_cases(rank, shards, n, false));
        let [inverse, plain] = [Algorithm::FiveCasesInverse(n as u8), Algorithm::FiveCases(n as u8)];
        if leaves_out {
            let invertible = |algorithm| {
                let schedules = Schedules::new(&goal, algorithm);
                check(&goal, |rank| schedules.of(rank)).unwrap().laws.invertible
            };
            assert_eq!([inverse, plain].map(invertible), [true, false], "{inverse}, {shards} shards");
        }
        let taken = match (exists, leaves_out) {
            (_, true) => inverse,
            (true, false) => plain,
            (false, false) => Algorithm::Dissemination(n as u8),
        };
        assert_eq!(inverse.taken_for(&goal), taken, "{shards} shards");
    }
}
