//! A planted bug shows within 200 seeds in the very check that the other tests make.
#![cfg(feature = "plant")]

mod common;

use common::{How, Many, One, Plan, affine, any_f64, bytes, mix, rounding, tree, watched};
use maniple_collectives::{Collective, Operator};
use maniple_regions::Element;
use maniple_runtime::plant::Bug;
use maniple_runtime::{Error, Place, Runtime, Shard, ShardLaunch};
use std::sync::Arc;

/// Those that strike in collectives.
const BUGS: [Bug; 7] = [
    Bug::SkippedEmptyWait,
    Bug::SkippedReadyWait,
    Bug::LostArrival,
    Bug::DoubledArrival,
    Bug::WrongPartner,
    Bug::EarlySlotReuse,
    Bug::MissingPoison,
];

/// A bug and its first occasion.
type Planted = Option<(Bug, u64)>;

fn runtime(seed: u64, planted: Planted) -> Runtime {
    let runtime = Runtime::seeded(2 + (seed % 3) as u32, seed);
    match planted {
        // Most waits for room are over when they begin, so that leaving out one of them seldom matters.
        Some((bug, first)) => runtime.plant(bug, first, if bug == Bug::SkippedEmptyWait { 3 } else { u64::MAX }),
        None => runtime,
    }
}

/// Many calls in flight through few slots, none of which depends on another, at shards of very different speeds: a shard
/// can be a call ahead of its partner, and only the waits of the protocol keep it from running further.
fn independent_calls(seed: u64, planted: Planted) -> Result<(), String> {
    fn run<T: Element>(plan: Plan<T>, seed: u64, planted: Planted) -> Result<(), String> {
        let (plan, runtime) = (Arc::new(plan), runtime(seed, planted));
        let expected = plan.expected();
        let stats = match plan.elements {
            1 => plan.outcome::<One>(&runtime, &expected),
            _ => plan.outcome::<Many>(&runtime, &expected),
        };
        stats.map(drop)
    }
    let shards = [2, 3, 4, 5, 6, 7, 8][(seed / 3 % 7) as usize];
    let slots = 1 + (seed / 21 % 2) as u32;
    let hows = vec![How::Value; 8];
    // Elements in a message, lent with a buffer for each round, and with two.
    match seed % 3 {
        0 => {
            run(Plan { slots, hows, ahead: 8, uneven: true, seed, ..Plan::new(&affine(), shards, 1, 0) }, seed, planted)
        }
        1 => {
            run(Plan { slots, hows, ahead: 8, uneven: true, seed, ..Plan::new(&affine(), shards, 3, 0) }, seed, planted)
        }
        _ => {
            let plan = Plan::new(&rounding(), shards, 600, 0);
            run(Plan { slots, hows, ahead: 8, uneven: true, seed, ..plan }, seed, planted)
        }
    }
}

/// A shard panics between two calls while the others go on: whoever waits for it must be told why.
fn a_shard_dies(seed: u64, planted: Planted) -> Result<(), String> {
    async fn calls(shard: Shard, total: Collective<f64>, bad: u32) -> Result<Vec<Result<f64, Error>>, Error> {
        let mut sums = Vec::new();
        for call in 0..4 {
            assert!(call < 2 || shard.index() != bad, "shard bomb");
            sums.push(total.call(&shard, own(call, shard.index()))?.await);
        }
        Ok(sums)
    }
    fn own(call: u64, shard: u32) -> f64 {
        any_f64(mix(call << 32 | u64::from(shard)))
    }
    let shards = 2 + (seed % 6) as u32;
    let bad = mix(seed) as u32 % shards;
    let slots = 1 + (seed / 6 % 3) as u32;
    let run = runtime(seed, planted).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let total = Collective::allreduce(Operator::sum()).slots(slots).make(&top, &gang, "total")?;
        let task = top.register("shard", move |shard, (): ()| calls(shard, total, bad));
        let done = top.launch(&gang, &task, |_| ShardLaunch::new(()))?;
        let mut all = Vec::new();
        for shard in done.iter() {
            all.push(shard.clone().await);
        }
        Ok(all)
    });
    let (all, _) = run.map_err(|e| e.to_string())?;
    let is_bomb = |e: &Error| match e.origin() {
        Error::Panicked { place: Place { task, shard }, message } => {
            task == "shard" && *shard == Some(bad) && message == "shard bomb"
        }
        _ => false,
    };
    for (shard, sums) in (0u32..).zip(all) {
        let right = match sums {
            Err(e) => shard == bad && is_bomb(&e),
            Ok(sums) => (0u64..).zip(&sums).all(|(call, sum)| match sum {
                Ok(sum) => {
                    let all: Vec<_> = (0..shards).map(|s| own(call, s)).collect();
                    call < 2 && bytes(&[*sum]) == bytes(&[tree(&all, |a, b| a + b)])
                }
                Err(e) => call >= 2 && is_bomb(e),
            }),
        };
        if !right {
            return Err(format!("shard {shard} saw something else than a bomb in shard {bad}"));
        }
    }
    Ok(())
}

/// What a seed shows, with a bug or without.
fn check(seed: u64, planted: Planted) -> Result<(), String> {
    watched(&format!("seed {seed}, {planted:?}"), || {
        independent_calls(seed, planted).map_err(|e| format!("independent calls: {e}"))?;
        a_shard_dies(seed, planted).map_err(|e| format!("a shard that dies: {e}"))
    })
}

/// Most strike once in a run, somewhere among their first occasions (a failure, once not passed on, never is). Printed is
/// which seed finds each first, how many do, and what they find.
#[test]
fn every_planted_bug_is_caught_within_200_seeds() {
    let mut missed = Vec::new();
    for bug in BUGS {
        let found: Vec<_> =
            (0..200).filter_map(|seed| Some((seed, check(seed, Some((bug, mix(seed) % 40))).err()?))).collect();
        match found.first() {
            Some((seed, how)) => {
                let how: Vec<_> = how.lines().take(2).collect();
                println!("{bug:?}: seed {seed} and {} of 200: {}", found.len(), how.join(" "));
            }
            None => missed.push(bug),
        }
    }
    assert_eq!(missed, [], "not caught within 200 seeds");
}

/// The same programs, without a bug.
#[test]
fn without_a_bug_2000_seeds_are_right() {
    for seed in 0..2000 {
        if let Err(e) = check(seed, None) {
            panic!("seed {seed}: {e}");
        }
    }
}
