//! Calls of one collective that do not fit together, and schedules that can't be run: who is wrong, and what was expected.

mod schedules;

use crate::common;
use crate::common::size::part;
use crate::common::watched;
use maniple_collectives::{Algorithm, Collective, CollectiveBuilder, Number, Operator, Plan};
use maniple_regions::{ExactSum, Field, Privilege, ReadShared, Rect, Region, WriteShared, exact_sum};
use maniple_runtime::{Arg, Check, Error, Gang, Runtime, Shard, ShardLaunch, TaskFuture, Top};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn runtimes(seeds: u64) -> Vec<(String, Runtime)> {
    if let Some(all) = common::processes::runtimes() {
        return all;
    }
    let seeded = (0..part(seeds)).map(|s| (format!("seed {s}"), Runtime::seeded(1 + (s % 4) as u32, s)));
    let threads = (1..=3).map(|n| (format!("{n} threads"), Runtime::threads(n)));
    seeded.chain(threads).collect()
}

const P: u32 = 5;
const WRONG: u32 = 3;

/// One shard contributes another length, or one value where there are several: its error says so, and every other shard's
/// names that shard. The next call is as it should be.
#[test]
fn a_wrong_length_names_the_shard_and_both_lengths_on_every_shard() {
    for (name, runtime) in runtimes(40) {
        for algorithm in common::allreduces(P) {
            for how in 0..4 {
                let at = format!("{name}, {algorithm:?}, {how}");
                let elements = if how == 3 { 1 } else { 4 };
                let errors = watched(&at, || {
                    runtime.run(move |top| async move {
                        let gang = top.gang("all", P)?;
                        let total = Collective::allreduce(Operator::<u64>::sum())
                            .elements(elements)
                            .algorithm(algorithm)
                            .make(&top, &gang, "total")?;
                        let task = top.register("calls", move |shard: Shard, _: ()| async move {
                            let error = match (shard.index() == WRONG, how) {
                                (true, 0) => total.call(&shard, vec![1; 3])?.await.map(drop),
                                (true, 1) => total.call(&shard, vec![1; 5])?.await.map(drop),
                                (true, 2) => total.call(&shard, vec![1])?.await.map(drop),
                                (true, _) => total.call(&shard, vec![1; 2])?.await.map(drop),
                                (false, _) => total.call(&shard, vec![1; elements])?.await.map(drop),
                            };
                            let again = total.call(&shard, vec![1; elements])?.await?;
                            assert_eq!(again, vec![u64::from(P); elements]);
                            Ok(error.err())
                        });
                        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                    })
                });
                let (errors, _) = errors.unwrap_or_else(|e| panic!("{at}: {e}"));
                let came = ["3", "5", "1", "2"][how as usize];
                let origin = Error::Misuse {
                    what: format!("input of `total` in shard {WRONG}"),
                    expected: format!("{elements} elements"),
                    came: came.into(),
                };
                for (shard, error) in (0u32..).zip(errors) {
                    let error = error.unwrap_or_else(|| panic!("{at}: shard {shard} has a result"));
                    assert_eq!(error.origin(), &origin, "{at}: shard {shard}: {error}");
                    let whose = format!("task `total` of shard {shard} cannot go on: ");
                    assert!(error.to_string().starts_with(&whose), "{at}: {error}");
                }
            }
        }
    }
}

/// Calls belong to the object, not to the order in which a shard makes them.
#[test]
fn objects_may_be_called_in_any_order() {
    for (name, runtime) in runtimes(60) {
        let came = watched(&name, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", P)?;
                let sum = Collective::allreduce(Operator::<u64>::sum()).make(&top, &gang, "sum")?;
                let max = Collective::allreduce(Operator::<u64>::max()).make(&top, &gang, "max")?;
                let task = top.register("calls", move |shard: Shard, _: ()| async move {
                    let me = u64::from(shard.index());
                    let calls =
                        |first: Collective<u64>, second: Collective<u64>| -> Result<[TaskFuture<u64>; 2], Error> {
                            Ok([first.call(&shard, me)?, second.call(&shard, me)?])
                        };
                    if shard.index().is_multiple_of(2) {
                        let [a, b] = calls(sum, max)?;
                        Ok((a.await?, b.await?))
                    } else {
                        let [b, a] = calls(max, sum)?;
                        Ok((a.await?, b.await?))
                    }
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            })
        });
        assert_eq!(came.map(|c| c.0), Ok(vec![(10, 4); P as usize]), "{name}");
    }
}

/// One node makes the collective in another way: both ways are named.
#[test]
fn a_collective_made_differently_on_a_node_is_named() {
    fn with<T: Number>(operator: Operator<T>, elements: usize, slots: u32) -> CollectiveBuilder<[T]> {
        Collective::allreduce(operator).elements(elements).slots(slots).algorithm(Algorithm::RecursiveDoubling)
    }
    let cases = [
        ("length", "allreduce of 8 x u64 by operator `sum`, 2 slots"),
        ("type", "allreduce of 4 x i64 by operator `sum`, 2 slots"),
        ("operator", "allreduce of 4 x u64 by operator `max`, 2 slots"),
        ("slots", "allreduce of 4 x u64 by operator `sum`, 3 slots"),
        ("nothing", ""),
    ];
    for seed in 0..40 {
        for (odd, words) in cases {
            let at = format!("{odd}, seed {seed}");
            let who = (seed % 3) as u32;
            let begun = Arc::new(AtomicU32::new(0));
            let outcome = watched(&at, || {
                Runtime::seeded(3, seed).check(Check::ControlReplication).run(move |top| {
                    let odd = if begun.fetch_add(1, Ordering::Relaxed) == who { odd } else { "nothing" };
                    async move {
                        let gang = top.gang("all", P)?;
                        let n = "total";
                        match odd {
                            "length" => drop(with(Operator::<u64>::sum(), 8, 2).make(&top, &gang, n)?),
                            "type" => drop(with(Operator::<i64>::sum(), 4, 2).make(&top, &gang, n)?),
                            "operator" => drop(with(Operator::<u64>::max(), 4, 2).make(&top, &gang, n)?),
                            "slots" => drop(with(Operator::<u64>::sum(), 4, 3).make(&top, &gang, n)?),
                            _ => drop(with(Operator::<u64>::sum(), 4, 2).make(&top, &gang, n)?),
                        }
                        let task = top.register("nothing", |_: Shard, _: ()| async { Ok(()) });
                        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                    }
                })
            });
            if odd == "nothing" {
                assert!(outcome.is_ok(), "{at}: {:?}", outcome.err());
                continue;
            }
            let e = outcome.map(|_| ()).expect_err(&at);
            let Error::Divergence { call: 1, expected, came, .. } = &e else { panic!("{at}: {e}") };
            let usual = "`total` of gang `all`: allreduce of 4 x u64 by operator `sum`, 2 slots";
            let (first, second) = if who == 0 { (words, usual) } else { (usual, words) };
            assert!(expected.contains(first) && came.contains(second), "{at}: {e}");
        }
    }
}

const U: Field<u64> = Field::new(0, "u");

fn put(mut slot: WriteShared<u64>, value: Arg<u64>) -> u64 {
    slot.fill(*value);
    *value
}
fn get(slot: ReadShared<u64>, _: Arg<u64>) -> u64 {
    slot.get([slot.rect().lo(0)])
}

/// A collective orders tasks: what made the inputs of a call comes before whoever waits for a result. Without the result
/// as an input, or with the result of the call before, it is a race.
#[test]
fn results_of_collectives_order_accesses() {
    for (name, runtime) in runtimes(40) {
        let runtime = runtime.check(Check::Races);
        for how in 0..4 {
            let at = format!("{name}, {how}");
            let outcome = watched(&at, || {
                runtime.run(move |top| async move {
                    let gang = top.gang("all", P)?;
                    let total = Collective::allreduce(Operator::<u64>::sum()).make(&top, &gang, "total")?;
                    let slots = top.region_tree("slots", Rect::line(0, P.into()), &[U.info()])?;
                    let task = top.register("shard", move |shard: Shard, slots: Region| async move {
                        let slot = |s: u32| {
                            let s = i64::from(s % P);
                            shard.region(Region::new(slots.tree, Rect::line(s, s + 1)))
                        };
                        let mut before = TaskFuture::ready(0);
                        for _ in 0..5 {
                            let made =
                                shard.launch(put, (slot(shard.index())?.write_shared(U), (&before).into())).go()?;
                            let filled = total.call(&shard, &made)?;
                            let read = slot(shard.index() + 1)?.read_shared(U);
                            let seen = match how {
                                // As an input, and awaited.
                                0 => shard.launch(get, (read, (&filled).into())).go()?,
                                1 => {
                                    let sum = filled.await?;
                                    shard.launch(get, (read, sum.into())).go()?
                                }
                                // Not at all, and the call before it.
                                2 => shard.launch(get, (read, 0.into())).go()?,
                                _ => shard.launch(get, (read, (&before).into())).go()?,
                            };
                            before = total.call(&shard, &seen)?;
                        }
                        before.await
                    });
                    let done = top.launch_gang(&gang, &task, |_| {
                        ShardLaunch::new(slots).shares(slots, [U], Privilege::ReadWrite)
                    })?;
                    done.all().await
                })
            });
            match outcome {
                Ok(_) => assert!(how < 2, "{at}: no race found"),
                Err(e) => assert!(how >= 2 && matches!(e.origin(), Error::Race { .. }), "{at}: {e}"),
            }
        }
    }
}

/// The error of a call whose shards contribute and receive apart is seen in either of their two futures. Results stay in the
/// order of contributions.
#[test]
fn an_error_that_the_contribution_shows_is_seen() {
    for (name, runtime) in runtimes(20) {
        for how in 0..4 {
            let at = format!("{name}, {how}");
            let outcome = watched(&at, || {
                runtime.run(move |top| async move {
                    let gang = top.gang("all", P)?;
                    let total = Collective::allreduce(Operator::<u64>::sum()).elements(4).make(&top, &gang, "total")?;
                    let task = top.register("calls", move |shard: Shard, _: ()| async move {
                        let elements = if shard.index() == WRONG { 3 } else { 4 };
                        let over = total.contribute(&shard, vec![1; elements])?;
                        match how {
                            0 => assert!(over.await.is_err()),
                            1 => {
                                over.detach();
                                assert!(total.receive(&shard)?.await.is_err());
                            }
                            2 => {
                                assert!(over.await.is_err());
                                total.contribute(&shard, vec![1; 4])?.await?;
                                assert!(total.receive(&shard)?.await.is_err());
                                assert_eq!(total.receive(&shard)?.await?, [u64::from(P); 4]);
                            }
                            // Nobody looks.
                            _ => over.detach(),
                        }
                        Ok(())
                    });
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await.map(drop)
                })
            });
            match outcome {
                Ok(_) => assert!(how < 3, "{at}: nobody has seen the error"),
                Err(e) => assert!(how == 3 && e.to_string().contains("expected 4 elements, got 3"), "{at}: {e}"),
            }
        }
    }
}

/// What a run makes.
#[derive(Clone)]
struct Made {
    total: Collective<u64>,
    blocks: Collective<u64, [u64]>,
    exact: Collective<f64, f64, ExactSum<f64>>,
    plan: Plan<(Collective<u64>, Collective<[u64]>)>,
}

fn make(top: &Top, gang: &Gang) -> Result<Made, Error> {
    let sum = || Collective::allreduce(Operator::<u64>::sum());
    Ok(Made {
        total: sum().make(top, gang, "total")?,
        blocks: Collective::allgather().make(top, gang, "blocks")?,
        exact: Collective::allreduce(exact_sum()).make(top, gang, "exact")?,
        plan: Plan::make(top, gang, (("one", sum()), ("many", sum().elements(3))))?,
    })
}

/// Uses all that one run has made, and says what was refused.
fn uses(shard: &Shard, made: Made) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut used = |outcome: Result<(), Error>| errors.extend(outcome.err());
    used(made.total.call(shard, 1).map(TaskFuture::detach));
    used(made.total.contribute(shard, 1).map(TaskFuture::detach));
    used(made.total.receive(shard).map(TaskFuture::detach));
    used(made.blocks.contribute(shard, 1).map(TaskFuture::detach));
    used(made.blocks.receive(shard).map(TaskFuture::detach));
    used(made.exact.call(shard, 1.0).map(TaskFuture::detach));
    used(made.exact.contribute(shard, 1.0).map(TaskFuture::detach));
    used(made.exact.receive(shard).map(TaskFuture::detach));
    used(made.plan.collectives.0.call(shard, 1).map(TaskFuture::detach));
    used(made.plan.collectives.1.call(shard, vec![1; 3]).map(TaskFuture::detach));
    errors
}

const USES: usize = 10;

/// Also where this run has the same object, or one with another type of results, under the same number.
#[test]
fn collectives_of_another_run_are_refused() {
    for (from, first) in runtimes(4) {
        let (send, made) = std::sync::mpsc::channel();
        let run = watched(&from, || {
            first.run(move |top| {
                let send = send.clone();
                async move {
                    send.send(make(&top, &top.gang("all", P)?)?).expect("it is waited for");
                    Ok(())
                }
            })
        });
        run.unwrap_or_else(|e| panic!("{from}: {e}"));
        let old = made.recv().expect("sent");
        for (to, second) in runtimes(4) {
            for (shards, earlier) in [(P, 0), (P, 1), (P + 2, 0)] {
                let (old, at) = (old.clone(), format!("{from}, then {to}, {shards} shards, {earlier} earlier"));
                let outcome = watched(&at, || {
                    second.run(move |top| {
                        let old = old.clone();
                        async move {
                            let gang = top.gang("all", shards)?;
                            for _ in 0..earlier {
                                Collective::allreduce(Operator::<u64>::max()).make(&top, &gang, "earlier")?;
                            }
                            let new = make(&top, &gang)?;
                            let task = top.register("uses", move |shard: Shard, _: ()| {
                                let (old, new) = (old.clone(), new.clone());
                                async move {
                                    // Whoever calls an object may hold another handle, too.
                                    for turn in 0..2 {
                                        let refused = uses(&shard, old.clone());
                                        assert_eq!(refused.len(), USES, "turn {turn}: {refused:?}");
                                        for error in refused {
                                            let text = error.to_string();
                                            let expected =
                                                "expected a collective made in this run, got one of another run";
                                            assert!(text.contains("a call in ") && text.contains(expected), "{text}");
                                        }
                                        let fine = uses(&shard, new.clone());
                                        assert!(fine.is_empty(), "turn {turn}: {fine:?}");
                                    }
                                    Ok(())
                                }
                            });
                            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                        }
                    })
                });
                outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
            }
        }
    }
}

/// Handles come and go as arguments and results: the handles of this run stay good.
#[test]
fn collectives_that_travelled_are_still_good() {
    for (at, runtime) in runtimes(8) {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", P)?;
                let Made { total, blocks, exact, .. } = make(&top, &gang)?;
                let back = top.register("back", |shard: Shard, all: Travels| async move {
                    all.0.call(&shard, 1)?.await?;
                    Ok(all)
                });
                let all = top.launch_gang(&gang, &back, |_| ShardLaunch::new((total, blocks, exact)))?;
                let all: Vec<Travels> = all.all().await?;
                let task = top.register("uses", |shard: Shard, (total, blocks, exact): Travels| async move {
                    let exact = exact.call(&shard, 0.5)?.await?;
                    let blocks = blocks.call(&shard, 1)?.await?;
                    Ok((total.call(&shard, 1)?.await?, blocks.len() as u64, exact))
                });
                top.launch_gang(&gang, &task, |s| ShardLaunch::new(all[s as usize]))?.all().await
            })
        });
        let p = u64::from(P);
        assert_eq!(outcome.unwrap_or_else(|e| panic!("{at}: {e}")).0, [(p, p, 2.5); P as usize], "{at}");
    }
}

type Travels = (Collective<u64>, Collective<u64, [u64]>, Collective<f64, f64, ExactSum<f64>>);

/// A gang of as many shards, of fewer and of more, before and after the shards of the object's gang call it.
#[test]
fn collectives_of_another_gang_are_refused() {
    async fn shard(shard: Shard, (total, is_own): (Collective<u64>, bool)) -> Result<u64, Error> {
        let called = total.call(&shard, 1);
        if is_own {
            return called?.await;
        }
        for refused in [called.map(drop), total.contribute(&shard, 1).map(drop), total.receive(&shard).map(drop)] {
            let text = refused.expect_err("of another gang").to_string();
            assert!(text.contains("expected an object made for this shard's gang, got `total`"), "{text}");
        }
        Ok(0)
    }
    for (at, runtime) in runtimes(12) {
        for others in [P, 1, 9] {
            let outcome = watched(&at, || {
                runtime.run(move |top| async move {
                    let (own, other) = (top.gang("own", P)?, top.gang("other", others)?);
                    let total = Collective::allreduce(Operator::<u64>::sum()).make(&top, &own, "total")?;
                    let task = top.register("shard", shard);
                    let mut sums = Vec::new();
                    for _ in 0..2 {
                        let refused = top.launch_gang(&other, &task, |_| ShardLaunch::new((total, false)))?;
                        sums.extend(top.launch_gang(&own, &task, |_| ShardLaunch::new((total, true)))?.all().await?);
                        refused.all().await?;
                    }
                    Ok(sums)
                })
            });
            let expected = [u64::from(P); 2 * P as usize];
            assert_eq!(outcome.unwrap_or_else(|e| panic!("{at}, {others}: {e}")).0, expected, "{at}, {others}");
        }
    }
}

/// A handle that was read back with another type of results.
#[test]
fn a_result_of_another_type_is_refused() {
    for (at, runtime) in runtimes(4) {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", P)?;
                let total = Collective::allreduce(Operator::<u64>::sum()).make(&top, &gang, "total")?;
                let task = top.register("calls", |shard: Shard, total: Collective<u64>| async move {
                    let bytes = postcard::to_stdvec(&total).expect("plain data");
                    let other: Collective<u64, [u64]> = postcard::from_bytes(&bytes).expect("it has no more fields");
                    let over = total.contribute(&shard, 1)?;
                    let refused = other.receive(&shard).map(drop).expect_err("another type");
                    assert!(
                        refused.to_string().contains("none of this type whose result was not asked for"),
                        "{refused}"
                    );
                    over.await?;
                    total.receive(&shard)?.await
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(total))?.all().await
            })
        });
        assert_eq!(outcome.unwrap_or_else(|e| panic!("{at}: {e}")).0, [u64::from(P); P as usize], "{at}");
    }
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "misuse::on_processes",
        &[
            (
                "a_wrong_length_names_the_shard_and_both_lengths_on_every_shard",
                a_wrong_length_names_the_shard_and_both_lengths_on_every_shard,
            ),
            ("objects_may_be_called_in_any_order", objects_may_be_called_in_any_order),
            ("collectives_that_travelled_are_still_good", collectives_that_travelled_are_still_good),
        ],
    );
}
