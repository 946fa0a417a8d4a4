//! Every kind of collective against sequential code: random participants, receivers, sizes, types of calls and wires.

use crate::common;
use crate::common::cases::{Case, Item, Triple, runtime};
use crate::common::size::part;
use crate::common::{affine, any_runtime, bytes, mix, watched};
use maniple_collectives::{Algorithm, Collective, Contribution, Goal, Ranks};
use maniple_regions::Vector;
use maniple_runtime::{Arg, Error, FutureMap, Runtime, Shard, ShardLaunch, TaskFuture};
use std::collections::VecDeque;
use std::sync::Arc;

/// A result to come: whole, or in parts.
enum Pending<T> {
    Whole(TaskFuture<Vector<T>>),
    Parts(FutureMap<Vector<T>>),
}

impl<T: Item> Pending<T> {
    /// The whole result. Parts are awaited from the last to the first if `backwards`.
    async fn result(self, backwards: bool) -> Result<Vector<T>, Error> {
        let parts = match self {
            Pending::Whole(result) => return result.await,
            Pending::Parts(parts) => parts,
        };
        if backwards {
            let mut came = Vec::new();
            for part in (0..parts.len()).rev() {
                came.insert(0, parts.get(part)?.clone().await?);
            }
            return Ok(came.concat().into());
        }
        Ok(parts.all().await?.concat().into())
    }
}

/// The contribution of a call, whole or in blocks, which may be the results of tasks.
fn input<T: Item>(shard: &Shard, own: Vec<Vec<T>>, draw: u64) -> Result<Contribution<[T]>, Error> {
    let echo = |own: Arg<Vec<T>>| own.0;
    Ok(match draw % 6 {
        0 => (&shard.launch(echo, (own.concat().into(),)).go()?).into(),
        1 => Contribution::in_blocks(own),
        2 => shard.index_launch(own.len(), echo, |point| (own[point].clone().into(),)).go()?.into(),
        3 => {
            let echo = |own: Arg<Vector<T>>| own.0;
            shard.index_launch(own.len(), echo, |point| (Vector::from(own[point].clone()).into(),)).go()?.into()
        }
        _ => own.concat().into(),
    })
}

/// All calls of one shard. Returns how the first wrong result differs.
async fn shard<T: Item>(case: Arc<Case>, shard: Shard, on: Collective<[T]>) -> Result<Option<String>, Error> {
    let me = shard.index();
    let position = |ranks: &[u32]| ranks.iter().position(|&rank| rank == me);
    let (from, to) = (position(&case.from), position(&case.to));
    let (mut pending, mut results) = (VecDeque::<Pending<T>>::new(), Vec::new());
    let has_parts = !case.kind.combines();
    let mut over = Vec::new();
    for call in 0..case.calls {
        let draw = mix(case.seed ^ call ^ u64::from(me));
        let own = from.map(|from| input(&shard, case.contribution::<T>(call, from), draw)).transpose()?;
        let in_parts = has_parts && (draw >> 20).is_multiple_of(2);
        match (own, to) {
            (Some(own), Some(_)) if case.split => {
                over.push(on.contribute(&shard, own)?);
                if call % 2 == 1 || call + 1 == case.calls {
                    // Two results at a time.
                    for _ in 0..1 + call % 2 {
                        pending.push_back(Pending::Whole(on.receive(&shard)?));
                    }
                }
            }
            (Some(own), Some(_)) if in_parts => pending.push_back(Pending::Parts(on.call_parts(&shard, own)?)),
            (Some(own), Some(_)) => pending.push_back(Pending::Whole(on.call(&shard, own)?)),
            (Some(own), None) => over.push(on.contribute(&shard, own)?),
            (None, Some(_)) if in_parts => pending.push_back(Pending::Parts(on.receive_parts(&shard)?)),
            (None, Some(_)) => pending.push_back(Pending::Whole(on.receive(&shard)?)),
            (None, None) => {}
        }
        while pending.len() >= case.ahead
            && let Some(oldest) = pending.pop_front()
        {
            results.push(oldest.result(draw.is_multiple_of(2)).await?);
        }
    }
    for future in pending {
        results.push(future.result(false).await?);
    }
    for future in over {
        future.await?;
    }
    assert_eq!(results.len() as u64, to.map_or(0, |_| case.calls));
    // None has changed since it came.
    Ok((0..).zip(&results).find_map(|(call, came)| {
        let expected = case.expected::<T>(call, to?);
        let differs = (0..came.len().min(expected.len())).find(|&i| bytes(&came[i..=i]) != bytes(&expected[i..=i]));
        if let Some(at) = differs {
            return Some(format!("call {call}: {:x?} at {at}, expected {:x?}", came[at], expected[at]));
        }
        let (came, expected) = (came.len(), expected.len());
        (came != expected).then(|| format!("call {call}: {came} elements, expected {expected}"))
    }))
}

fn check_as<T: Item>(case: &Arc<Case>, runtime: &Runtime, at: &str) {
    let at = format!("{at}: {} in {case:?}", std::any::type_name::<T>());
    let differ = watched(&at, || case.run(runtime, shard::<T>)).unwrap_or_else(|e| panic!("{at}: {e}"));
    for (shard, differs) in (0u32..).zip(differ) {
        assert_eq!(differs, None, "{at}: shard {shard}");
    }
}

/// With elements of a type drawn from the seed.
fn check(case: Case, runtime: &Runtime, at: &str) {
    let as_type = match mix(case.seed) % 8 {
        0 => check_as::<u8>,
        1 => check_as::<i32>,
        2 | 3 => check_as::<f64>,
        4 => check_as::<Triple>,
        5 => check_as::<()>,
        _ => check_as::<u64>,
    };
    as_type(&Arc::new(case), runtime, at);
}

#[test]
fn all_kinds_give_what_sequential_code_gives() {
    // A run of several processes takes longer.
    let cases = if common::processes::runtimes().is_some() { part(250) } else { part(2000) };
    for seed in 0..cases {
        let (at, runtime) = runtime(seed);
        check(Case::draw(mix(seed)), &runtime, &at);
    }
}

#[test]
fn one_block_may_be_giant_and_the_others_empty() {
    let cases = if common::processes::runtimes().is_some() { 4 } else { part(12) };
    for seed in 0..cases {
        let (at, runtime) = runtime(seed);
        check(Case::draw_giant(seed), &runtime, &at);
    }
}

#[test]
fn scans_keep_the_order_of_shards() {
    let kind = affine();
    for shards in 1..=17 {
        let operator = kind.operator.clone();
        let (sums, _) = Runtime::threads(2)
            .run(move |top| {
                let operator = operator.clone();
                async move {
                    let gang = top.gang("all", shards)?;
                    let all = Collective::scan(operator).make(&top, &gang, "all")?;
                    let make = kind.make;
                    let task = top.register("shard", move |shard: Shard, (): ()| async move {
                        Ok(common::bytes(&[all.call(&shard, make(shard.index().into()))?.await?]))
                    });
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                }
            })
            .unwrap();
        let mut expected = (kind.make)(0);
        assert_eq!(sums[0], common::bytes(&[expected]));
        for shard in 1..shards {
            expected = (kind.combine)(&expected, &(kind.make)(shard.into()));
            assert_eq!(sums[shard as usize], common::bytes(&[expected]));
        }
    }
}

/// Algorithms with several registers, too, although a barrier has nothing to put there.
#[test]
fn barriers_by_every_algorithm() {
    for shards in 1..=9 {
        for algorithm in Algorithm::all_for(&Goal::allreduce(shards, 1)) {
            for seed in 0..3 {
                let (at, runtime) = any_runtime(seed);
                let at = format!("{at}: {algorithm}, {shards} shards");
                let outcome = watched(&at, || {
                    runtime.run(move |top| async move {
                        let gang = top.gang("all", shards)?;
                        let barrier = Collective::barrier().algorithm(algorithm).make(&top, &gang, "barrier")?;
                        let task = top.register("shard", move |shard: Shard, (): ()| async move {
                            for _ in 0..5 {
                                barrier.call(&shard, ())?.await?;
                            }
                            Ok(())
                        });
                        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                    })
                });
                outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
            }
        }
    }
}

/// What comes at each shard, contributors or not, has its length, although its elements have no bytes.
#[test]
fn vectors_of_nothing_have_their_length() {
    type Both = (Collective<[()]>, Collective<[()]>);
    async fn shard(shard: Shard, (sent, met): Both) -> Result<(usize, usize), Error> {
        let (own, last) = (|| vec![(); 5], shard.shards() - 1);
        let sent = if shard.index() == 0 { sent.call(&shard, own())? } else { sent.receive(&shard)? };
        // The first only contributes, the last only receives.
        let met = match shard.index() {
            0 => {
                met.contribute(&shard, own())?.await?;
                5
            }
            rank if rank == last => met.receive(&shard)?.await?.len(),
            _ => met.call(&shard, own())?.await?.len(),
        };
        Ok((sent.await?.len(), met))
    }
    for shards in 2..=7 {
        let (from, to) = (Ranks::of(0..shards - 1), Ranks::of(1..shards));
        let sends: Vec<_> = Algorithm::all_for(&Goal::broadcast_to(shards, 0, Ranks::of(0..shards), 1)).collect();
        let meets: Vec<_> = Algorithm::all_for(&Goal::reduce(shards, from, to, 1)).collect();
        for (seed, send) in (0..).zip(sends) {
            for &meet in &meets {
                let (at, runtime) = any_runtime(seed);
                let at = format!("{at}: {send} and {meet}, {shards} shards");
                let outcome = watched(&at, || {
                    runtime.run(move |top| async move {
                        let gang = top.gang("all", shards)?;
                        let sent = Collective::<()>::broadcast(0).elements(5).algorithm(send);
                        let met = Collective::barrier().participants(0..shards - 1).receivers(1..shards);
                        let met = met.elements(5).algorithm(meet).make(&top, &gang, "met")?;
                        let both = (sent.make(&top, &gang, "sent")?, met);
                        let task = top.register("shard", shard);
                        top.launch_gang(&gang, &task, |_| ShardLaunch::new(both))?.all().await
                    })
                });
                let (lengths, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
                assert!(lengths.iter().all(|&lengths| lengths == (5, 5)), "{at}: {lengths:?}");
            }
        }
    }
}

#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "kinds::on_processes",
        &[
            ("all_kinds_give_what_sequential_code_gives", all_kinds_give_what_sequential_code_gives),
            ("one_block_may_be_giant_and_the_others_empty", one_block_may_be_giant_and_the_others_empty),
        ],
    );
}
