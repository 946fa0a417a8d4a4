//! What laws mean where an operator fails, and where a contribution meets no other.

use crate::common::{any_runtime, watched};
use maniple_collectives::{Algorithm, Collective, Combine, Goal, Laws, Operator, Order, Part, Schedule};
use maniple_regions::{Located, Number};
use maniple_runtime::{Arg, Error, Input, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch};
use std::fmt::Debug;

/// Addition that panics where it overflows, with any laws that a program may declare.
fn checked(infallible: bool) -> Operator<i64> {
    let sum = Operator::user("checked sum", |a: &i64, b: &i64| a.checked_add(*b).expect("an overflow"));
    let sum = sum.associative().commutative();
    if infallible { sum.infallible() } else { sum }
}

/// The results of the shards in a sum of these numbers.
fn sums(number: u64, algorithm: Option<Algorithm>, given: Vec<i64>) -> Result<Vec<Option<i64>>, Error> {
    let (at, runtime) = any_runtime(number);
    let run = watched(&at, || {
        runtime.run(move |top| {
            let given = given.clone();
            async move {
                let gang = top.gang("all", given.len() as u32)?;
                let sum = Collective::allreduce(checked(false)).order(Order::Any).algorithm(algorithm);
                let sum = sum.make(&top, &gang, "sum")?;
                let task = top.register("adds", move |shard: Shard, sum: Collective<i64>| {
                    let own = given[shard.index() as usize];
                    async move { Ok(sum.call(&shard, own)?.await.ok()) }
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(sum))?.all().await
            }
        })
    });
    run.map(|(sums, _)| sums)
}

/// (`MAX` + 1) + −1 fails, and `MAX` + (1 + −1) does not. Whatever a program declares, all shards of a call fail or none.
#[test]
fn an_overflow_is_seen_by_all_or_by_none() {
    let (mut failed, mut refused) = (0, 0);
    for shards in [2, 3, 4, 5, 7, 8] {
        let goal = Goal::allreduce(shards, 1);
        let algorithms = Algorithm::all_for(&goal).flat_map(Algorithm::variants).filter(|a| a.is_for(&goal));
        for (number, algorithm) in (0..).zip(algorithms.map(Some).chain([None; 8])) {
            for first in 0..shards {
                let given: Vec<i64> = (0..shards)
                    .map(|s| *[i64::MAX, 1, -1].get(((s + first) % shards) as usize).unwrap_or(&0))
                    .collect();
                match sums(number, algorithm, given.clone()) {
                    Ok(sums) => {
                        let right = given.iter().map(|x| i128::from(*x)).sum::<i128>();
                        let fails = sums[0].is_none();
                        assert!(sums.iter().all(|sum| sum.is_none() == fails), "{algorithm:?}, {given:?}: {sums:?}");
                        let is_right = |sum: &i64| i128::from(*sum) == right;
                        assert!(sums.iter().flatten().all(is_right), "{algorithm:?}, {given:?}: {sums:?}");
                        failed += u32::from(fails);
                    }
                    Err(e) => {
                        let (text, algorithm) = (e.to_string(), algorithm.expect("one was named").to_string());
                        let expected = format!(
                            "allreduce `sum`: expected an operator that is infallible bit for bit, as {algorithm} needs, got \
                             `checked sum`, for which that is not declared; declare what holds (`Operator::infallible` \
                             if it never panics), or take another algorithm"
                        );
                        assert_eq!(text, expected);
                        assert!(
                            algorithm.starts_with("dissemination") || algorithm.starts_with("five-cases"),
                            "{text}"
                        );
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(failed > 50 && refused > 50, "{failed} failed, {refused} refused");
}

/// Rank 1 adds what nobody receives, which may fail there alone.
#[test]
fn steps_without_a_result_may_not_fail_either() {
    let own = |goal: &Goal, rank: u32| {
        let mut schedule = Schedule::new(rank, goal.ranks(), 1);
        schedule.update(1 - rank, 0, Part::block(0, 0));
        let way = if rank == 0 { Combine::IncomingIsHigher } else { Combine::IncomingIsLower };
        schedule.read(1 - rank, 0, Part::block(0, 0), way);
        if rank == 1 {
            schedule.local(Part::block(0, 0), Part::block(1, 0), Combine::Replace);
            schedule.local(Part::block(0, 0), Part::block(1, 0), Combine::IncomingIsHigher);
        }
        schedule
    };
    let laws =
        maniple_collectives::check(&Goal::allreduce(2, 1), |rank| own(&Goal::allreduce(2, 1), rank)).unwrap().laws;
    assert_eq!(laws, Laws { infallible: true, ..Laws::NONE });
    for infallible in [false, true] {
        let run = Runtime::threads(1).run(move |top| async move {
            let gang = top.gang("all", 2)?;
            let sum = Collective::allreduce(checked(infallible)).schedules("own", own).make(&top, &gang, "sum")?;
            let task =
                top.register("adds", |shard: Shard, sum: Collective<i64>| async move { sum.call(&shard, 4)?.await });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(sum))?.all().await
        });
        match run {
            Ok((sums, _)) => assert!(infallible && sums == [8, 8], "{sums:?}"),
            Err(e) => assert!(!infallible && e.to_string().contains("infallible bit for bit, as own needs"), "{e}"),
        }
    }
}

/// All that shards receive of contributions that meet no other, by kind and shape.
fn alone<T: Number + Debug>(number: u64, operator: fn() -> Operator<T>, given: T) -> Vec<Vec<u8>> {
    let (at, runtime) = any_runtime(number);
    let identity = operator().identity().unwrap();
    let run = watched(&at, || {
        runtime.run(move |top| async move {
            let gang = top.gang("all", 3)?;
            let one = || Collective::allreduce(operator()).participants([1]);
            let kinds = [
                one().make(&top, &gang, "one")?,
                one().receivers(0..3).make(&top, &gang, "to all")?,
                Collective::scan(operator()).make(&top, &gang, "scan")?,
                Collective::exscan(operator(), identity).make(&top, &gang, "exscan")?,
            ];
            let mut vectors = Vec::new();
            for elements in [1, 3, 700] {
                let reduce_scatter = Collective::<T>::reduce_scatter(operator()).participants([1]);
                vectors.extend([
                    one().elements(elements).make(&top, &gang, "one")?,
                    one().elements(elements).receivers(0..3).make(&top, &gang, "to all")?,
                    Collective::scan(operator()).elements(elements).make(&top, &gang, "scan")?,
                    reduce_scatter.receivers([1, 2]).elements(elements).make(&top, &gang, "blocks")?,
                ]);
            }
            let task = top.register("shard", move |shard: Shard, (): ()| {
                let vectors = vectors.clone();
                async move {
                    let me = shard.index();
                    let mut seen: Vec<Vec<u8>> = Vec::new();
                    let bytes = |x: T| bytemuck::bytes_of(&x).to_vec();
                    // A value, and the future of one.
                    for later in [false, true] {
                        let input = || match later {
                            false => Ok::<Input<T>, Error>(given.into()),
                            true => Ok((&shard.launch(|x: Arg<T>| *x, (given.into(),)).go()?).into()),
                        };
                        if me == 1 {
                            seen.push(bytes(kinds[0].call(&shard, input()?)?.await?));
                            seen.push(bytes(kinds[1].call(&shard, input()?)?.await?));
                        } else {
                            seen.push(bytes(kinds[1].receive(&shard)?.await?));
                        }
                        let [scan, exscan] = [2, 3].map(|kind| kinds[kind].call(&shard, input()?));
                        let (scan, exscan) = (scan?.await?, exscan?.await?);
                        seen.extend((me == 0).then(|| bytes(scan)));
                        seen.extend((me == 1).then(|| bytes(exscan)));
                    }
                    for (elements, kinds) in [1, 3, 700].into_iter().zip(vectors.chunks(4)) {
                        let own = |blocks: usize| vec![given; blocks * elements];
                        let scan = kinds[2].call(&shard, own(1))?;
                        let mut results = Vec::new();
                        match me {
                            0 => results.push(scan),
                            _ => scan.detach(),
                        }
                        match me {
                            1 => {
                                results.push(kinds[0].call(&shard, own(1))?);
                                results.push(kinds[1].call(&shard, own(1))?);
                                results.push(kinds[3].call(&shard, own(2))?);
                            }
                            2 => {
                                results.push(kinds[1].receive(&shard)?);
                                results.push(kinds[3].receive(&shard)?);
                            }
                            _ => results.push(kinds[1].receive(&shard)?),
                        }
                        for result in results {
                            let result = result.await?;
                            assert_eq!(result.len(), elements);
                            seen.extend(result.iter().map(|x| bytes(*x)));
                        }
                    }
                    Ok(seen)
                }
            });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        })
    });
    run.unwrap_or_else(|e| panic!("{at}: {e}")).0.concat()
}

#[test]
fn a_contribution_that_meets_no_other_is_as_combined() {
    let same = |all: Vec<Vec<u8>>, right: &[u8], what: &str| {
        assert!(all.len() > 4900 && all.iter().all(|x| x == right), "{what}: {:?}", all.iter().find(|x| *x != right));
    };
    for number in 0..6 {
        for given in [0_u32, 1, 5, u32::MAX] {
            let truth = u32::from(given != 0).to_ne_bytes();
            same(alone(number, Operator::logical_or, given), &truth, "or");
            same(alone(number, Operator::logical_and, given), &truth, "and");
            same(alone(number, Operator::logical_xor, given), &truth, "xor");
            same(alone(number, Operator::sum, given), &given.to_ne_bytes(), "sum");
        }
        let nan = 0x7ff8_0000_0000_0000_u64.to_ne_bytes();
        for bits in [0xfff8_0000_0000_0000, 0x7ff8_0000_0000_0001, 0x7ff0_0000_dead_beef] {
            for (operator, name) in [(Operator::<f64>::sum as fn() -> _, "sum"), (Operator::max, "max")] {
                same(alone(number, operator, f64::from_bits(bits)), &nan, name);
            }
        }
        same(alone(number, Operator::sum, -0.0), &(-0.0_f64).to_ne_bytes(), "zero");
    }
}

/// Places have values of their own. A program's own operator is not asked.
#[test]
fn one_place_and_one_element_of_a_programs_own() {
    let run = Runtime::threads(1).run(|top| async move {
        let gang = top.gang("one", 1)?;
        let least = Collective::allreduce(Operator::minloc()).make(&top, &gang, "least")?;
        let own = Operator::user("own", |_: &u64, _: &u64| unreachable!("nothing to combine"));
        let own = Collective::allreduce(own).make(&top, &gang, "own")?;
        let task = top.register("shard", move |shard: Shard, (): ()| async move {
            let given = Located { value: f64::from_bits(0xfff8_0000_0000_0007), at: 3 };
            let least = least.call(&shard, given)?.await?;
            Ok((least.value.to_bits(), least.at, own.call(&shard, 77)?.await?))
        });
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
    });
    assert_eq!(run.unwrap().0, [(0x7ff8_0000_0000_0000, 3, 77)]);
}

#[test]
fn a_phase_barrier_with_one_arriver_does_the_same() {
    async fn shard(shard: Shard, votes: PhaseBarrier) -> Result<u64, Error> {
        if shard.index() == 0 {
            shard.arrive_with(&votes.arriver(&shard)?, 5);
        }
        shard.wait_value(&votes.waiter(&shard)?).await
    }
    let run = Runtime::threads(2).run(move |top| async move {
        let gang = top.gang("all", 2)?;
        let options = PhaseOptions::between(0..1, 0..2).reduce(Operator::<u64>::logical_or());
        let votes = top.phase_barrier("votes", &gang, options)?;
        top.launch_gang(&gang, &top.register("vote", shard), |_| ShardLaunch::new(votes))?.all().await
    });
    assert_eq!(run.unwrap().0, [1, 1]);
}
