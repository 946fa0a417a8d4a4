//! The memory of vectors: what is copied, what is shared, and what is used again.

use crate::common::{Chosen, watched};
use maniple_collectives::{
    Algorithm, Collective, CollectiveBuilder, Combine, Contribution, Goal, Operator, Part, Schedule,
};
use maniple_mapper::{Access, CollectiveOutput, MemoryKind, Placement};
use maniple_regions::{Lendable, Vector};
use maniple_runtime::{Arg, Error, FutureMap, Runtime, Shard, ShardLaunch};
use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

const SHARDS: u32 = 8;
const ELEMENTS: usize = 1000;

type Of = Collective<[u64]>;

/// What a task of eight shards on two workers returns, the first four on one of them.
fn on_all<R, F>(access: Access, of: fn() -> CollectiveBuilder<[u64]>, shard: fn(Shard, Of) -> F) -> Vec<R>
where
    R: serde::Serialize + serde::de::DeserializeOwned + Clone + Send + 'static,
    F: Future<Output = Result<R, Error>> + 'static,
{
    let exchange = CollectiveOutput { memory: MemoryKind::Registered, access, ..CollectiveOutput::default() };
    let mapper = Arc::new(Chosen { placement: Placement::Blocked, exchange });
    watched("vectors", move || {
        let run = Runtime::threads(2).mapper(mapper).run(move |top| async move {
            let gang = top.gang("all", SHARDS)?;
            let made = of().make(&top, &gang, "vectors")?;
            let task = top.register("shard", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(made))?.all().await
        });
        run.expect("a run").0
    })
}

fn own(shard: &Shard, call: u64) -> Vec<u64> {
    (0..ELEMENTS as u64).map(|i| call << 40 | u64::from(shard.index()) << 32 | i).collect()
}

fn at(values: &[u64]) -> usize {
    values.as_ptr() as usize
}

#[test]
fn a_broadcast_in_one_process_copies_only_if_the_mapper_asks_for_it() {
    async fn given(shard: Shard, all: Of) -> Result<(usize, usize), Error> {
        let mine = Vector::from(own(&shard, 0));
        broadcast_from_5(shard, all, mine).await
    }
    async fn shared(shard: Shard, all: Of) -> Result<(usize, usize), Error> {
        let mine = Vector::from(own(&shard, 0));
        let found = broadcast_from_5(shard, all, mine.clone()).await;
        drop(mine);
        found
    }
    /// Of a vector with blocks, which some collectives give.
    async fn part(shard: Shard, all: Of) -> Result<(usize, usize), Error> {
        let mut longer = Lendable::from([own(&shard, 0), own(&shard, 0)].concat());
        let mine = Vector::from(longer.lend(ELEMENTS..2 * ELEMENTS));
        broadcast_from_5(shard, all, mine).await
    }
    async fn broadcast_from_5(shard: Shard, all: Of, mine: Vector<u64>) -> Result<(usize, usize), Error> {
        let sent = if shard.index() == 5 { at(&mine) } else { 0 };
        let came = match shard.index() {
            5 => all.call(&shard, mine)?.await?,
            _ => all.receive(&shard)?.await?,
        };
        assert!(came.iter().zip(0..).all(|(came, i)| *came == 5 << 32 | i));
        // Until all have theirs, no memory is used twice.
        shard.yield_now().await;
        Ok((sent, at(&came)))
    }
    let broadcast = || Collective::<u64>::broadcast(5).elements(ELEMENTS).algorithm(Algorithm::Binomial);
    for places in [
        on_all(Access::InPlace, broadcast, given),
        on_all(Access::InPlace, broadcast, shared),
        on_all(Access::InPlace, broadcast, part),
    ] {
        assert!(places.iter().all(|(_, came)| *came == places[5].0), "{places:?}");
    }
    let places = on_all(Access::Copy, broadcast, given);
    // Each message from one worker to the other makes a copy, which others on that worker share.
    let mut memories: Vec<usize> = places.iter().map(|(_, came)| *came).collect();
    memories.sort_unstable();
    memories.dedup();
    assert!(memories.len() > 1 && places[..4].iter().all(|(_, came)| *came != places[5].0), "{places:?}");
}

#[test]
fn memory_of_results_is_used_again_when_nobody_holds_them() {
    async fn shard(shard: Shard, all: Of) -> Result<(usize, usize), Error> {
        let (mut places, mut held) = (HashSet::new(), Vec::new());
        for call in 0..20 {
            let came = all.call(&shard, own(&shard, call))?.await?;
            places.insert(at(&came));
        }
        let dropped = places.len();
        places.clear();
        for call in 20..40 {
            held.push(all.call(&shard, own(&shard, call))?.await?);
            places.insert(at(&held[held.len() - 1]));
        }
        for (call, came) in (20..).zip(&held) {
            let expected = (0..SHARDS as u64 * ELEMENTS as u64).map(|i| {
                let (from, i) = (i / ELEMENTS as u64, i % ELEMENTS as u64);
                call << 40 | from << 32 | i
            });
            assert!(came.iter().copied().eq(expected), "call {call} has changed");
        }
        Ok((dropped, places.len()))
    }
    let allgather = || Collective::<u64>::allgather().elements(ELEMENTS).algorithm(Algorithm::Direct);
    for (dropped, held) in on_all(Access::InPlace, allgather, shard) {
        // Two slots, and two spare ones of each for peers that still read.
        assert!(dropped <= 6, "{dropped}");
        assert_eq!(held, 20);
    }
}

/// The memory of a given contribution takes the place of the result's memory, which the program gets. For a shared one the
/// collective has to keep memory for later results.
#[test]
fn a_result_is_lent_if_the_contribution_was_shared_and_handed_over_if_it_was_given() {
    async fn shard(shard: Shard, all: Of) -> Result<Vec<usize>, Error> {
        let shared = Vector::from(own(&shard, 0));
        let mut holders = Vec::new();
        for call in 0..12 {
            let mine = if call % 4 < 2 { shared.clone() } else { own(&shard, 0).into() };
            let came = all.call(&shard, mine)?.await?;
            assert!(came.iter().zip(0..).all(|(came, i)| *came == (28 << 32) + 8 * i));
            holders.push(Arc::strong_count(&came.into_shared().expect("all of a vector")));
        }
        // A result whose future goes straight into the next call is given to that.
        let first = all.call(&shard, own(&shard, 0))?;
        let second = all.call(&shard, &first)?;
        drop(first);
        let came = second.await?;
        assert!(came.iter().zip(0..).all(|(came, i)| *came == 8 * ((28 << 32) + 8 * i)));
        holders.push(Arc::strong_count(&came.into_shared().expect("all of a vector")));
        Ok(holders)
    }
    let sum =
        || Collective::allreduce(Operator::<u64>::sum()).elements(ELEMENTS).algorithm(Algorithm::RecursiveDoubling);
    for holders in on_all(Access::InPlace, sum, shard) {
        assert_eq!(holders, [2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 1]);
    }
}

/// Shards of a processor that combine first share their result. Only the first of them keeps it for later calls: it can be
/// used again when it has one owner.
#[test]
fn a_result_that_several_share_is_kept_by_one() {
    async fn shard(shard: Shard, all: Of) -> Result<usize, Error> {
        let shared = Vector::from(own(&shard, 0));
        let first = all.call(&shard, shared.clone())?.await?;
        let first = (shard.index() == 0).then_some(first);
        // It comes after everybody has let go of the first result.
        all.call(&shard, shared)?.await?;
        Ok(first.map_or(0, |first| Arc::strong_count(&first.into_shared().expect("all of a vector"))))
    }
    let sum = || Collective::allreduce(Operator::<u64>::sum()).elements(ELEMENTS).algorithm(Algorithm::TwoLevel);
    assert_eq!(on_all(Access::InPlace, sum, shard)[0], 2);
}

/// Of seven ranks three take the result of another one.
#[test]
fn a_result_that_is_read_as_a_whole_is_not_copied() {
    async fn shard(shard: Shard, all: Of) -> Result<usize, Error> {
        if shard.index() == 7 {
            return Ok(0);
        }
        let shared = Vector::from(own(&shard, 0));
        let first = all.call(&shard, shared.clone())?.await?;
        // Everybody holds the first result when the second one is there.
        all.call(&shard, shared)?.await?;
        Ok(at(&first))
    }
    let sum = || {
        let all = Collective::allreduce(Operator::<u64>::sum()).elements(ELEMENTS).participants(0..7);
        all.algorithm(Algorithm::RecursiveDoubling)
    };
    let places = on_all(Access::InPlace, sum, shard);
    assert_eq!(places[..7].iter().collect::<HashSet<_>>().len(), 4, "{places:?}");
}

/// Not where it is lent block by block, either.
#[test]
fn a_shared_contribution_is_not_copied() {
    async fn shard(shard: Shard, all: Of) -> Result<bool, Error> {
        let mine = Vector::from(own(&shard, 0));
        Ok(match shard.index() {
            5 => at(&all.call(&shard, mine.clone())?.await?) == at(&mine),
            _ => all.receive(&shard)?.await?.iter().zip(0..).all(|(came, i)| *came == 5 << 32 | i),
        })
    }
    let broadcast = || Collective::<u64>::broadcast(5).elements(ELEMENTS).algorithm(Algorithm::Chain(4));
    assert_eq!(on_all(Access::InPlace, broadcast, shard), [true; SHARDS as usize]);
}

/// A shard that only contributes has no use for the memory after the call.
#[test]
fn contributions_to_a_reduction_are_freed() {
    async fn shard(shard: Shard, all: Of) -> Result<usize, Error> {
        let mut given = Vec::new();
        for call in 0..6 {
            let mine = Arc::new(own(&shard, call));
            given.push(Arc::downgrade(&mine));
            let mine = Vector::from(mine);
            match shard.index() {
                0 => drop(all.call(&shard, mine)?.await?),
                _ => all.contribute(&shard, mine)?.await?,
            }
        }
        Ok(given.iter().filter(|given| given.strong_count() > 0).count())
    }
    let reduce = || {
        let all = Collective::reduce(Operator::<u64>::sum(), [0]).elements(ELEMENTS);
        all.algorithm(Algorithm::RecursiveDoubling)
    };
    let kept = on_all(Access::InPlace, reduce, shard);
    // Every other shard sends its own and reads nothing.
    assert!(kept.iter().skip(1).step_by(2).all(|&kept| kept == 0), "{kept:?}");
}

/// After a call nobody but its owner holds a contribution, in kinds whose values have blocks too.
#[test]
fn contributions_are_let_go_when_a_call_is_over() {
    async fn shard(shard: Shard, (all, root, done): (Of, u32, Collective<()>)) -> Result<usize, Error> {
        let mut kept = 0;
        for call in 0..3 {
            let sends = root == SHARDS || root == shard.index();
            let blocks = if root == 0 { 1 } else { SHARDS as usize };
            let mine = Arc::new(own(&shard, call)[..ELEMENTS / SHARDS as usize * blocks].to_vec());
            let given = mine.clone();
            match sends {
                true => drop(all.call(&shard, Vector::from(mine))?.await?),
                false => drop((mine, all.receive(&shard)?.await?)),
            }
            done.call(&shard, ())?.await?;
            kept += Arc::strong_count(&given) - 1;
        }
        Ok(kept)
    }
    type Make = fn() -> CollectiveBuilder<[u64]>;
    const BLOCK: usize = ELEMENTS / SHARDS as usize;
    let of: [(Make, Algorithm, u32); 7] = [
        (
            || Collective::allreduce(Operator::<u64>::sum()).elements(SHARDS as usize * BLOCK),
            Algorithm::TwoLevel,
            SHARDS,
        ),
        (
            || Collective::allreduce(Operator::<u64>::sum()).elements(SHARDS as usize * BLOCK),
            Algorithm::RecursiveDoubling,
            SHARDS,
        ),
        (|| Collective::<u64>::broadcast(0).elements(BLOCK), Algorithm::Chain(4), 0),
        (|| Collective::<u64>::scatter(5).elements(BLOCK), Algorithm::Binomial, 5),
        (|| Collective::<u64>::all_to_all().elements(BLOCK), Algorithm::Direct, SHARDS),
        (|| Collective::<u64>::all_to_all().elements(BLOCK), Algorithm::Bruck, SHARDS),
        (|| Collective::<u64>::reduce_scatter(Operator::sum()).elements(BLOCK), Algorithm::Direct, SHARDS),
    ];
    for (make, algorithm, root) in of {
        let kept = watched("contributions", move || {
            let run = Runtime::threads(2).run(move |top| async move {
                let gang = top.gang("all", SHARDS)?;
                let all = make().algorithm(algorithm).make(&top, &gang, "all")?;
                let done = Collective::barrier().make(&top, &gang, "done")?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, move |_| ShardLaunch::new((all, root, done)))?.all().await
            });
            run.expect("a run").0
        });
        assert_eq!(kept, [0; SHARDS as usize], "{algorithm} with root {root}");
    }
}

/// An allreduce in which all send to all, one half of the vector after the other. While a shard changes the first of them, it
/// still needs its own values in the other.
fn in_halves(order: [u32; 2]) -> CollectiveBuilder<[u64]> {
    let steps = move |rank: u32, ranks: u32| {
        let mut schedule = Schedule::new(rank, ranks, 2);
        let parts = order.map(|half| Part::block(0, half));
        for part in &parts {
            (0..ranks).filter(|&peer| peer != rank).for_each(|peer| schedule.send(peer, part.clone()));
        }
        for part in &parts {
            (0..rank).rev().for_each(|peer| schedule.receive(peer, part.clone(), Combine::IncomingIsLower));
            (rank + 1..ranks).for_each(|peer| schedule.receive(peer, part.clone(), Combine::IncomingIsHigher));
        }
        schedule
    };
    let linked = move |goal: &Goal, rank| Schedule::linked(rank, |rank| steps(rank, goal.ranks()));
    Collective::allreduce(Operator::<u64>::sum()).elements(ELEMENTS).schedules("in halves", linked)
}

#[test]
fn a_contribution_that_is_shared_does_not_change() {
    async fn shard(shard: Shard, all: Of) -> Result<bool, Error> {
        let mine = Vector::from(own(&shard, 0));
        let first = all.call(&shard, mine.clone())?.await?;
        let second = all.call(&shard, first.clone())?.await?;
        let expected = |factor: u64| {
            (0..ELEMENTS as u64).map(move |i| factor * ((0..u64::from(SHARDS)).sum::<u64>() << 32) + factor * 8 * i)
        };
        assert!(first.iter().copied().eq(expected(1)));
        assert!(second.iter().copied().eq(expected(8)));
        Ok(mine == own(&shard, 0))
    }
    for of in [
        || Collective::allreduce(Operator::<u64>::sum()).elements(ELEMENTS).algorithm(Algorithm::HalvingDoubling),
        || Collective::allreduce(Operator::<u64>::sum()).elements(ELEMENTS).algorithm(Algorithm::RecursiveDoubling),
        || Collective::allreduce(Operator::<u64>::sum()).elements(ELEMENTS).algorithm(Algorithm::TwoLevel),
        || in_halves([0, 1]),
        || in_halves([1, 0]),
    ] {
        assert!(on_all(Access::InPlace, of, shard).into_iter().all(|same| same));
    }
}

type Build = fn() -> CollectiveBuilder<[u64]>;

/// The collectives whose contributions are written into memory of earlier ones.
const COLLECTIVES: [(&str, Build, bool); 5] = [
    ("allreduce", || Collective::allreduce(Operator::<u64>::sum()).elements(ELEMENTS), false),
    ("two-level", || Collective::<u64>::allgather().elements(ELEMENTS).algorithm(Algorithm::TwoLevel), false),
    ("direct", || Collective::<u64>::allgather().elements(ELEMENTS).algorithm(Algorithm::Direct), false),
    ("all-to-all", || Collective::<u64>::all_to_all().elements(ELEMENTS), true),
    ("reduce-scatter", || Collective::reduce_scatter(Operator::<u64>::sum()).elements(ELEMENTS), true),
];

/// Value i of the block of one shard for another.
fn value(call: u64, from: u32, to: u32, i: usize) -> u64 {
    call << 40 | u64::from(from) << 32 | u64::from(to) << 24 | i as u64
}

/// Contributions of steady calls are written into a few vectors, however many calls there are.
#[test]
fn contributions_are_written_into_memory_of_earlier_ones() {
    type Task = (Of, bool, bool);
    /// Whatever was there must be gone.
    fn write(mut own: Arg<Vec<u64>>, call: Arg<u64>, from: Arg<u32>, to: Arg<u32>) -> Vec<u64> {
        for (i, own) in own.0.iter_mut().enumerate() {
            *own = value(*call, *from, *to, i);
        }
        own.0
    }
    async fn shard(shard: Shard, (all, in_blocks, in_parts): Task) -> Result<(usize, Vec<u64>), Error> {
        let (me, mut places, mut last) = (shard.index(), HashSet::new(), Vec::new());
        for call in 0..40 {
            let to = if in_blocks { 0..shard.shards() } else { 0..1 };
            let mut blocks = Vec::new();
            for to in to {
                let own = all.spare(&shard, ELEMENTS)?;
                places.insert(at(&own));
                blocks.push(shard.launch(write, (own.into(), call.into(), me.into(), to.into())).go()?);
            }
            let own: Contribution<[u64]> = match in_blocks {
                true => blocks.into_iter().collect::<FutureMap<_>>().into(),
                false => blocks.remove(0).into(),
            };
            last = match in_parts {
                true => all.call_parts(&shard, own)?.all().await?.concat(),
                false => all.call(&shard, own)?.await?.into_vec(),
            };
        }
        Ok((places.len(), last))
    }
    for (name, of, in_blocks) in COLLECTIVES {
        for in_parts in [false, true] {
            if in_parts && matches!(name, "allreduce" | "reduce-scatter") {
                continue;
            }
            let at = format!("{name}, {}", if in_parts { "in parts" } else { "whole" });
            let ends = watched(&at, || {
                let run = Runtime::threads(2).run(move |top| async move {
                    let gang = top.gang("all", SHARDS)?;
                    let made = of().make(&top, &gang, "it")?;
                    let task = top.register("shard", shard);
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new((made, in_blocks, in_parts)))?.all().await
                });
                run.expect("a run").0
            });
            for ((places, last), me) in ends.into_iter().zip(0..) {
                // A shard that is ahead by a call still holds what the others send.
                let blocks = if in_blocks { SHARDS as usize } else { 1 };
                assert!(places <= 4 * blocks, "{at}: {places} places of {blocks} blocks");
                let of = |from, i| value(39, from, if in_blocks { me } else { 0 }, i);
                let expected: Vec<u64> = match name {
                    "allreduce" | "reduce-scatter" => {
                        (0..ELEMENTS).map(|i| (0..SHARDS).map(|from| of(from, i)).sum()).collect()
                    }
                    _ => (0..SHARDS).flat_map(|from| (0..ELEMENTS).map(move |i| of(from, i))).collect(),
                };
                assert!(last == expected, "{at}: shard {me}");
            }
        }
    }
}

#[test]
fn memory_for_contributions_is_refused_where_none_is_contributed() {
    async fn shard(shard: Shard, all: Of) -> Result<(), Error> {
        let refused = |elements| all.spare(&shard, elements).expect_err("it is refused").to_string();
        if shard.index() == 0 {
            let most = refused(usize::MAX);
            assert!(most.contains("`spare` of `it` in shard 0: expected a vector that fits into memory"), "{most}");
            return all.contribute(&shard, all.spare(&shard, 1)?)?.await;
        }
        let expected = "`spare` of `it` in shard 1: expected a shard that contributes, got one that only receives";
        assert!(refused(1).contains(expected), "{}", refused(1));
        all.receive(&shard)?.await.map(drop)
    }
    let run = Runtime::seeded(2, 3).run(|top| async move {
        let gang = top.gang("both", 2)?;
        let all = Collective::<u64>::broadcast(0).receivers([1]).elements(1).make(&top, &gang, "it")?;
        top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(all))?.all().await
    });
    run.unwrap();
}

/// With several shards on a processor and with one; parts are slices of the result.
#[test]
fn an_allgather_has_one_result_on_each_node() {
    const LARGE: usize = 40_000;
    async fn shard(shard: Shard, all: Of) -> Result<Vec<usize>, Error> {
        let mut places = Vec::new();
        let value = |call: u64, from: u64| move |i| call << 40 | from << 32 | i;
        for call in 0..6 {
            let own = || (0..LARGE as u64).map(value(call, shard.index().into())).collect::<Vec<_>>();
            let whole = all.call(&shard, own())?.await?;
            let parts = all.call_parts(&shard, own())?.all().await?;
            let expected = |from| (0..LARGE as u64).map(value(call, from));
            for (from, part) in (0..).zip(&parts) {
                assert!(part.iter().copied().eq(expected(from)), "part {from} of call {call}");
                assert_eq!(at(part), at(&parts[0]) + 8 * LARGE * from as usize);
            }
            assert!(whole.iter().copied().eq((0..shard.shards().into()).flat_map(expected)), "call {call}");
            places.extend([at(&whole), at(&parts[0])]);
        }
        Ok(places)
    }
    for (shards, workers) in [(SHARDS, 2), (4, 1), (2, 2), (4, 3), (6, 3)] {
        let places = watched("one result", move || {
            let run = Runtime::threads(workers).run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let all = Collective::<u64>::allgather().elements(LARGE).algorithm(Algorithm::TwoLevel);
                let all = all.make(&top, &gang, "all")?;
                top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(all))?.all().await
            });
            run.expect("a run").0
        });
        assert!(places.iter().all(|of| *of == places[0]), "{shards} shards, {workers} workers: {places:?}");
    }
}

/// Nothing comes from some shards, at either end or from the first one of a processor.
#[test]
fn blocks_of_nothing_are_gathered() {
    async fn shard(shard: Shard, (all, sizes): (Of, Vec<usize>)) -> Result<(), Error> {
        let own = |rank: usize| vec![rank as u64 + 7; sizes[rank]];
        let expected: Vec<u64> = (0..sizes.len()).flat_map(own).collect();
        for _ in 0..3 {
            let (kept, own) = (Vector::from(own(shard.index() as usize)), own(shard.index() as usize));
            assert_eq!(all.call(&shard, own)?.await?, expected);
            assert_eq!(all.call(&shard, kept.clone())?.await?, expected);
            assert_eq!(all.call_parts(&shard, kept)?.all().await?.concat(), expected);
        }
        Ok(())
    }
    let sizes: [&[usize]; 8] =
        [&[8, 0], &[1, 0], &[0, 1], &[0, 0], &[0, 8, 0], &[1, 0, 1, 0], &[0, 50_000, 0, 1], &[0, 0, 50_000]];
    for (sizes, workers) in sizes.into_iter().flat_map(|sizes| [(sizes, 1), (sizes, 2), (sizes, 3)]) {
        watched("blocks of nothing", move || {
            let run = Runtime::threads(workers).run(move |top| async move {
                let gang = top.gang("all", sizes.len() as u32)?;
                let all = Collective::<u64>::allgather().sizes(sizes.iter().copied()).algorithm(Algorithm::TwoLevel);
                let all = all.make(&top, &gang, "all")?;
                let start = |_| ShardLaunch::new((all, sizes.to_vec()));
                top.launch_gang(&gang, &top.register("shard", shard), start)?.all().await
            });
            run.unwrap_or_else(|e| panic!("{sizes:?} on {workers} workers: {e}"));
        });
    }
}

/// A receiver of one block that takes all of them, in a register of its own.
#[test]
fn a_result_that_is_some_of_what_comes_is_that_part() {
    fn all_to_each(goal: &Goal, rank: u32) -> Schedule {
        let mut schedule = Schedule::new(rank, goal.ranks(), goal.ranks()).with_result(u8::from(rank > 0));
        if rank == 0 {
            (1..goal.ranks()).for_each(|peer| schedule.send(peer, Part::new(0, 0..goal.ranks())));
        } else {
            schedule.receive(0, Part::new(1, 0..goal.ranks()), Combine::Replace);
        }
        schedule
    }
    async fn shard(shard: Shard, all: Of) -> Result<(), Error> {
        for call in 0..6 {
            let values = |rank: u32| (0..ELEMENTS as u64).map(move |i| value(call, rank, 0, i as usize));
            let given = (0..shard.shards()).flat_map(values).collect::<Vec<_>>();
            let came = if shard.index() == 0 { all.call(&shard, given)? } else { all.receive(&shard)? };
            assert!(came.await?.iter().copied().eq(values(shard.index())), "call {call}");
        }
        Ok(())
    }
    for workers in [1, 2, 3] {
        watched("a scatter", move || {
            let run = Runtime::threads(workers).run(|top| async move {
                let gang = top.gang("all", 3)?;
                let make = |goal: &Goal, rank| Schedule::linked(rank, |rank| all_to_each(goal, rank));
                let all = Collective::<u64>::scatter(0).elements(ELEMENTS).schedules("all", make);
                let all = all.make(&top, &gang, "all")?;
                top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(all))?.all().await
            });
            run.expect("a run");
        });
    }
}

/// A contribution that fails is the error of the whole call on all shards, and of its parts. The next call works.
#[test]
fn a_contribution_that_fails_in_a_group_fails_its_call_alone() {
    async fn shard(shard: Shard, (all, wrong): (Of, u32)) -> Result<(), Error> {
        for call in 0..8 {
            let fails = call % 2 == 1 && shard.index() == wrong;
            let task = move || if fails { panic!("no vector") } else { vec![call; 3] };
            let own = shard.launch(task, ()).go()?;
            let failed = match call % 4 < 2 {
                true => all.call(&shard, own)?.await.map(|came| assert_eq!(came, vec![call; came.len()])),
                false => all.call_parts(&shard, own)?.all().await.map(|parts| {
                    assert_eq!(parts.len(), shard.shards() as usize);
                    assert!(parts.iter().all(|part| *part == [call; 3]));
                }),
            };
            match failed {
                Ok(()) => assert!(call % 2 == 0, "call {call}"),
                Err(error) => assert!(call % 2 == 1 && error.to_string().contains("no vector"), "call {call}: {error}"),
            }
        }
        Ok(())
    }
    for (shards, number) in [1, 2, 3, 7].into_iter().zip(0..) {
        for (wrong, runtime) in
            (0..shards).flat_map(|wrong| [(wrong, Runtime::threads(2)), (wrong, Runtime::seeded(2, number))])
        {
            let run = watched("a failure", || {
                runtime.run(move |top| async move {
                    let gang = top.gang("all", shards)?;
                    let all = Collective::<u64>::allgather().elements(3).algorithm(Algorithm::TwoLevel);
                    let all = all.make(&top, &gang, "all")?;
                    top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new((all, wrong)))?
                        .all()
                        .await
                })
            });
            run.unwrap_or_else(|error| panic!("{shards} shards: {error}"));
        }
    }
}
