//! Results and contributions in parts: who holds up whom, what fails with what, and in which order parts come. Their values are
//! compared in `kinds`.

use crate::common;
use crate::common::size::part;
use crate::common::{any_runtime, mix, tree, watched};
use maniple_collectives::{Algorithm, Collective, Combine, Contribution, Goal, Kind, Operator, Part, Ranks, Schedule};
use maniple_regions::{Field, Privilege, ReadShared, ReadWriteShared, Rect, Region, Vector};
use maniple_runtime::{
    Arg, Check, Error, FutureMap, PhaseArriver, PhaseBarrier, PhaseOptions, PhaseWaiter, Runtime, Shard, ShardLaunch,
    TaskFuture,
};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SHARDS: u32 = 5;
const CALLS: u64 = 6;

/// What one shard has for another in a call.
fn block(from: u32, to: u32, call: u64, elements: usize) -> Vec<u64> {
    vec![u64::from(from) << 40 | u64::from(to) << 20 | call; elements]
}

fn blocks(shard: &Shard, call: u64, elements: usize) -> Contribution<[u64]> {
    Contribution::in_blocks((0..shard.shards()).map(|to| block(shard.index(), to, call, elements)))
}

/// The first element of a block, by a task.
fn first(shard: &Shard, part: &TaskFuture<Vector<u64>>) -> Result<TaskFuture<u64>, Error> {
    shard.launch(|part: Arg<Vector<u64>>| part[0], (part.into(),)).go()
}

type AllToAll = Collective<[u64]>;

/// Runs a shard task with an all-to-all by `direct`.
fn run<R, F>(
    runtime: &Runtime,
    (elements, slots): (usize, u32),
    shard: fn(Shard, (AllToAll, PhaseBarrier, usize)) -> F,
) -> Result<Vec<R>, Error>
where
    R: serde::Serialize + serde::de::DeserializeOwned + Clone + Send + 'static,
    F: Future<Output = Result<R, Error>> + 'static,
{
    let outcome = runtime.run(move |top| async move {
        let gang = top.gang("all", SHARDS)?;
        let of = Collective::<u64>::all_to_all().elements(elements).slots(slots).algorithm(Algorithm::Direct);
        let exchange = of.make(&top, &gang, "exchange")?;
        let all = top.phase_barrier("all", &gang, PhaseOptions::all(&gang))?;
        let task = top.register("shard", shard);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((exchange, all, elements)))?.all().await
    });
    outcome.map(|(results, _)| results)
}

/// A shard's ends of a barrier of all.
struct Meeting(PhaseArriver, PhaseWaiter);

impl Meeting {
    async fn meet(&self, shard: &Shard) -> Result<(), Error> {
        shard.arrive(&self.0);
        shard.wait(&self.1).await
    }
}

/// In each call one shard contributes only once all others have had all parts of each other, and tasks on them.
async fn late(shard: Shard, (exchange, others, elements): (AllToAll, PhaseBarrier, usize)) -> Result<(), Error> {
    let (others, me) = (Meeting(others.arriver(&shard)?, others.waiter(&shard)?), shard.index());
    for call in 0..CALLS {
        let late = call as u32 % SHARDS;
        if me == late {
            others.meet(&shard).await?;
        }
        let parts = exchange.call_parts(&shard, blocks(&shard, call, elements))?;
        if me != late {
            let tasks: Vec<_> = parts.iter().map(|part| first(&shard, part)).collect::<Result<_, _>>()?;
            for (from, task) in (0..).zip(tasks).filter(|(from, _)| *from != late) {
                assert_eq!(task.await?, block(from, me, call, 1)[0]);
            }
            assert!(!parts.get(late as usize)?.is_settled(), "it has not contributed");
            others.meet(&shard).await?;
        }
        for (from, part) in (0..).zip(parts.all().await?) {
            assert_eq!(part, block(from, me, call, elements));
        }
    }
    Ok(())
}

#[test]
fn a_shard_that_is_late_holds_up_nobody_elses_parts() {
    for (number, elements) in (0..).zip([1, 3, 4, 600, 1000].repeat(4)) {
        let (at, runtime) = any_runtime(number);
        let at = format!("{at}, {elements} elements");
        for slots in [1, 2] {
            watched(&at, || run(&runtime, (elements, slots), late)).unwrap_or_else(|e| panic!("{at}: {e}"));
        }
    }
}

/// In each call one block of one shard fails.
async fn failing(shard: Shard, (exchange, _, elements): (AllToAll, PhaseBarrier, usize)) -> Result<(), Error> {
    let me = shard.index();
    for call in 0..CALLS {
        let (from, to) = (call as u32 % SHARDS, (call as u32 * 2 + 1) % SHARDS);
        let fails = call % 2 == 0;
        let pack = move |own: Arg<Vec<u64>>| {
            if fails && own.0[0] >> 20 == u64::from(from) << 20 | u64::from(to) {
                return Err(Error::user("no block"));
            }
            Ok(own.0)
        };
        let pack = |to| shard.try_launch(pack, (block(me, to, call, elements).into(),)).go();
        let packed: Vec<TaskFuture<Vec<u64>>> = (0..SHARDS).map(pack).collect::<Result<_, _>>()?;
        let own: FutureMap<Vec<u64>> = packed.iter().cloned().collect();
        let parts = exchange.call_parts(&shard, own)?;
        for (at, part) in (0..).zip(parts.iter()) {
            match part.clone().await {
                Ok(part) => assert_eq!(part, block(at, me, call, elements)),
                Err(error) => {
                    assert!(fails && (at, me) == (from, to), "{error}");
                    assert!(error.to_string().contains("no block"), "{error}");
                }
            }
        }
        for (at, packed) in (0..).zip(packed) {
            assert_eq!(packed.await.is_err(), fails && (me, at) == (from, to));
        }
    }
    Ok(())
}

#[test]
fn a_block_that_fails_spoils_its_own_part_only() {
    for (number, elements) in (0..).zip([1, 5, 1000].repeat(4)) {
        let (at, runtime) = any_runtime(number);
        watched(&at, || run(&runtime, (elements, 2), failing)).unwrap_or_else(|e| panic!("{at}: {e}"));
    }
}

/// What a kind gives from one shard to another in a call, of so many elements.
fn of_kind(kind: Kind, from: u32, to: u32, call: u64, elements: usize) -> Vec<u64> {
    block(from, if kind == Kind::AllToAll || kind == Kind::Scatter { to } else { 0 }, call, elements)
}

/// In every other call the contribution of one shard fails. Parts are awaited, dropped, or taken as a whole.
async fn failing_or_dropped(
    shard: Shard,
    (on, kind, elements, seed): (AllToAll, Kind, usize, u64),
) -> Result<(), Error> {
    let (me, all) = (shard.index(), matches!(kind, Kind::AllToAll | Kind::Gather));
    for call in 0..CALLS {
        let from = if all { (mix(seed ^ call) % u64::from(SHARDS)) as u32 } else { 1 };
        let fails = call % 2 == 0;
        let to = if kind == Kind::AllToAll || kind == Kind::Scatter { SHARDS } else { 1 };
        let own: Vec<u64> = (0..to).flat_map(|to| of_kind(kind, me, to, call, elements)).collect();
        let own = shard.try_launch(
            move |own: Arg<Vec<u64>>| if fails && me == from { Err(Error::user("no block")) } else { Ok(own.0) },
            (own.into(),),
        );
        let contributes = all || me == 1;
        let own = if contributes { Some(own.go()?) } else { None };
        let expected: Vec<Vec<u64>> = match all {
            true => (0..SHARDS).map(|from| of_kind(kind, from, me, call, elements)).collect(),
            false => vec![of_kind(kind, 1, me, call, elements)],
        };
        let is_expected = |error: &Error| assert!(fails && error.to_string().contains("no block"), "{error}");
        if mix(seed ^ call << 8 ^ u64::from(me)).is_multiple_of(3) {
            let whole = match &own {
                Some(own) => on.call(&shard, own)?,
                None => on.receive(&shard)?,
            };
            match whole.await {
                Ok(whole) => assert_eq!(whole, expected.concat()),
                Err(error) => is_expected(&error),
            }
        } else {
            let parts = match &own {
                Some(own) => on.call_parts(&shard, own)?,
                None => on.receive_parts(&shard)?,
            };
            if !fails && mix(seed ^ call << 16 ^ u64::from(me)).is_multiple_of(2) {
                parts.detach();
            } else {
                let cut = parts.len() != expected.len();
                let mut came = Vec::new();
                for (at, part) in parts.iter().enumerate() {
                    match part.clone().await {
                        Ok(part) if cut => came.extend_from_slice(&part),
                        Ok(part) => assert_eq!(part, expected[at]),
                        Err(error) => is_expected(&error),
                    }
                }
                assert!(!cut || fails || came == expected.concat());
            }
        }
        if let Some(own) = own {
            assert_eq!(own.await.is_err(), fails && me == from);
        }
    }
    Ok(())
}

/// By every algorithm a part is what it should be or the error of a contribution of that call, and later calls are not affected.
#[test]
fn failing_contributors_and_dropped_parts_by_every_algorithm() {
    let mut tried = 0;
    for kind in [Kind::AllToAll, Kind::Gather, Kind::Scatter, Kind::Broadcast] {
        for (number, &algorithm) in (0..).zip(Algorithm::ALL) {
            for seed in 0..part(40).max(4) {
                let elements = [1, 5, 600][seed as usize % 3];
                let (at, runtime) = any_runtime(mix(seed << 8 | number));
                let at = format!("{kind:?} by {algorithm}, {elements} elements, {at}");
                let run = || {
                    runtime.run(move |top| async move {
                        let gang = top.gang("all", SHARDS)?;
                        let of = match kind {
                            Kind::AllToAll => Collective::<u64>::all_to_all().elements(elements),
                            Kind::Gather => Collective::<u64>::allgather().elements(elements),
                            Kind::Scatter => Collective::<u64>::scatter(1).elements(elements),
                            _ => Collective::<u64>::broadcast(1).elements(elements),
                        };
                        let Ok(on) = of.algorithm(algorithm).make(&top, &gang, "on") else { return Ok(0) };
                        let task = top.register("shard", failing_or_dropped);
                        let start = |_| ShardLaunch::new((on, kind, elements, seed));
                        top.launch_gang(&gang, &task, start)?.all().await.map(|all| all.len())
                    })
                };
                let (shards, _) = watched(&at, run).unwrap_or_else(|e| panic!("{at}: {e}"));
                tried += shards;
            }
        }
    }
    assert!(tried >= 4 * 10 * SHARDS as usize, "{tried}");
}

/// Each part comes once by `next`, the late one last, and a deadline loses nothing.
async fn in_order(shard: Shard, (exchange, others, elements): (AllToAll, PhaseBarrier, usize)) -> Result<(), Error> {
    let (others, me) = (Meeting(others.arriver(&shard)?, others.waiter(&shard)?), shard.index());
    for call in 0..CALLS {
        let late = call as u32 % SHARDS;
        if me == late {
            others.meet(&shard).await?;
        }
        let mut parts = exchange.call_parts(&shard, blocks(&shard, call, elements))?;
        let mut seen = Vec::new();
        while seen.len() < SHARDS as usize {
            if me != late && seen.len() + 1 == SHARDS as usize {
                let waited = shard.timeout(Duration::from_nanos(1), async { Ok(parts.next().await) }).await;
                assert!(waited.is_err(), "it has not contributed");
                others.meet(&shard).await?;
            }
            let Some((from, part)) = parts.next().await else { panic!("some are missing after {seen:?}") };
            assert_eq!(part?, block(from as u32, me, call, elements));
            assert!(!seen.contains(&from), "{from} came twice");
            seen.push(from);
        }
        assert!(parts.next().await.is_none());
        assert!(me == late || seen.last() == Some(&(late as usize)));
    }
    Ok(())
}

#[test]
fn next_gives_each_part_once_in_the_order_in_which_they_come() {
    for (number, elements) in (0..).zip([1, 1000].repeat(4)) {
        let (at, runtime) = any_runtime(number);
        watched(&at, || run(&runtime, (elements, 2), in_order)).unwrap_or_else(|e| panic!("{at}: {e}"));
    }
}

/// A block whose length nobody else knows.
fn of_any_size(seed: u64, from: u32, to: u32, call: u64) -> Vec<u64> {
    let bits = mix(seed ^ u64::from(from) << 40 ^ u64::from(to) << 20 ^ call);
    let elements = [0, 1, 2, 3, 4, 30, 513, 700][bits as usize % 8];
    (0..elements).map(|at| mix(bits ^ at)).collect()
}

type OfAnySize = (Collective<[u64]>, Kind, u64);

/// Calls with blocks of sizes that differ from call to call, received in parts or whole.
async fn any_sizes(shard: Shard, (on, kind, seed): OfAnySize) -> Result<(), Error> {
    let me = shard.index();
    let (gives, has_blocks) = (!kind.has_root() || me == 0, kind.has_block_for_each_receiver());
    for call in 0..CALLS {
        let draw = mix(seed ^ call ^ u64::from(me) << 32);
        let to = |to| if has_blocks { to } else { 0 };
        let expected: Vec<Vec<u64>> = match kind {
            Kind::Broadcast | Kind::Scatter => vec![of_any_size(seed, 0, to(me), call)],
            _ => (0..SHARDS).map(|from| of_any_size(seed, from, to(me), call)).collect(),
        };
        let own: Vec<Vec<u64>> =
            (0..if has_blocks { SHARDS } else { 1 }).map(|to| of_any_size(seed, me, to, call)).collect();
        let own: Contribution<[u64]> = match draw % 3 {
            0 => shard.index_launch(own.len(), |own: Arg<Vec<u64>>| own.0, |at| (own[at].clone().into(),)).go()?.into(),
            1 if own.len() == 1 => own.concat().into(),
            _ => Contribution::in_blocks(own),
        };
        if (draw >> 8).is_multiple_of(3) {
            let whole = if gives { on.call(&shard, own)? } else { on.receive(&shard)? };
            assert_eq!(whole.await?, expected.concat());
            continue;
        }
        let parts = if gives { on.call_parts(&shard, own)? } else { on.receive_parts(&shard)? };
        let parts = parts.all().await?;
        // A broadcast has the parts in which it was sent.
        match kind {
            Kind::Broadcast => assert_eq!(parts.concat(), expected.concat()),
            _ => assert_eq!(parts, expected),
        }
    }
    Ok(())
}

#[test]
fn blocks_of_any_sizes_come_as_they_were_sent() {
    let kinds = [
        (Kind::AllToAll, vec![None, Some(Algorithm::Direct)]),
        (Kind::Gather, vec![None, Some(Algorithm::Direct), Some(Algorithm::Ring)]),
        (Kind::Scatter, vec![None, Some(Algorithm::Direct)]),
        (Kind::Broadcast, vec![None, Some(Algorithm::Direct), Some(Algorithm::Binomial), Some(Algorithm::Chain(4))]),
    ];
    let mut number = 0;
    for (kind, algorithms) in kinds {
        for algorithm in algorithms {
            for slots in [1, 2, 3] {
                let (at, runtime) = any_runtime(number);
                let (at, seed) = (format!("{at}, {kind} by {algorithm:?}"), number);
                number += 1;
                let run = watched(&at, || {
                    runtime.run(move |top| async move {
                        let gang = top.gang("all", SHARDS)?;
                        let all = Ranks::all(SHARDS);
                        let from = if kind.has_root() { Ranks::one(0) } else { all.clone() };
                        let of = Collective::of_kind(kind, from, all, (Operator::sum(), 0_u64)).any_sizes();
                        let on = of.slots(slots).algorithm(algorithm).make(&top, &gang, "any")?;
                        let task = top.register("shard", any_sizes);
                        top.launch_gang(&gang, &task, |_| ShardLaunch::new((on, kind, seed)))?.all().await
                    })
                });
                run.unwrap_or_else(|e| panic!("{at}: {e}"));
            }
        }
    }
}

/// Shard 1 receives, but fails. The others learn of that from parts that have not come, and fail themselves in no case.
#[test]
fn a_shard_that_fails_leaves_the_parts_that_have_come() {
    async fn shard(shard: Shard, all: Collective<[u64]>) -> Result<(), Error> {
        // In the second, shard 1 has not given back what it got in the first.
        for call in 0..2 {
            match shard.index() {
                0 => {
                    for part in all.call_parts(&shard, vec![call; 2])?.iter() {
                        drop(part.clone().await);
                    }
                }
                1 => return Err(Error::user("no more")),
                _ => drop(all.contribute(&shard, vec![call; 3])?.await),
            }
        }
        Ok(())
    }
    for number in 0..40 {
        let (at, runtime) = any_runtime(number);
        let run = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", 3)?;
                let all = Collective::<u64>::gather([0, 1]).participants([0, 2]).any_sizes();
                let all = all.slots(1).algorithm(Algorithm::Direct).make(&top, &gang, "all")?;
                let ends = top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(all))?;
                let mut failed = Vec::new();
                for end in ends.iter() {
                    failed.push(end.clone().await.is_err());
                }
                Ok(failed)
            })
        });
        let (failed, _) = run.unwrap_or_else(|e| panic!("{at}: {e}"));
        assert_eq!(failed, [false, true, false], "{at}");
    }
}

/// One shard fails before it calls. Another contributes only once the third has seen the error of that part. So nobody's error
/// waits for anybody's contribution, and what comes after it is not spoilt.
#[test]
fn an_error_in_place_of_a_part_waits_for_no_other_part() {
    type Arguments = (AllToAll, PhaseBarrier, [u32; 3]);
    async fn shard(shard: Shard, (exchange, seen, [sees, fails, late]): Arguments) -> Result<(), Error> {
        let me = shard.index();
        if me == fails {
            return Err(Error::user("no more"));
        }
        if me == late {
            shard.wait(&seen.waiter(&shard)?).await?;
        }
        let parts = exchange.call_parts(&shard, blocks(&shard, 0, 3))?;
        let error = parts.get(fails as usize)?.clone().await.expect_err("it contributes nothing");
        assert!(error.to_string().contains("no more"), "{error}");
        if me == sees {
            shard.arrive(&seen.arriver(&shard)?);
        }
        for from in [sees, late] {
            assert_eq!(parts.get(from as usize)?.clone().await?, block(from, me, 0, 3));
        }
        // Later calls fail, and end.
        for part in exchange.call_parts(&shard, blocks(&shard, 1, 3))?.iter() {
            drop(part.clone().await);
        }
        Ok(())
    }
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for (number, roles) in (0..).zip(orders.repeat(10)) {
        let (at, runtime) = any_runtime(number);
        let at = format!("{at}, {roles:?}");
        let run = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", 3)?;
                let of = Collective::<u64>::all_to_all().elements(3).slots(1 + number as u32 % 2);
                let exchange = of.algorithm(Algorithm::Direct).make(&top, &gang, "exchange")?;
                let seen = top.phase_barrier("seen", &gang, PhaseOptions::between([roles[0]], [roles[2]]))?;
                let task = top.register("shard", shard);
                let ends = top.launch_gang(&gang, &task, |_| ShardLaunch::new((exchange, seen, roles)))?;
                let mut failed = Vec::new();
                for end in ends.iter() {
                    failed.push(end.clone().await.is_err());
                }
                Ok(failed)
            })
        });
        let (failed, _) = run.unwrap_or_else(|e| panic!("{at}: {e}"));
        assert_eq!(failed, [0, 1, 2].map(|shard| shard == roles[1]), "{at}");
    }
}

/// Parts that tasks combine, in brackets that no order of arrival changes.
#[test]
fn a_fold_has_the_brackets_of_recursive_doubling() {
    fn pair(a: u64, b: u64) -> u64 {
        mix(a.wrapping_mul(31) ^ b.rotate_left(17))
    }
    async fn shard(shard: Shard, all: Collective<u64, [u64]>) -> Result<u64, Error> {
        let parts = all.call_parts(&shard, mix(shard.index().into()))?;
        let tasks = parts.iter().map(|part| first(&shard, part)).collect::<Result<FutureMap<u64>, Error>>()?;
        tasks.fold(&shard, |a: Arg<u64>, b: Arg<u64>| pair(a.0, b.0))?.await
    }
    for number in 0..30 {
        let (at, runtime) = any_runtime(number);
        let shards = 1 + number as u32 % 13;
        let run = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let all = Collective::<u64>::allgather().make(&top, &gang, "all")?;
                top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(all))?.all().await
            })
        });
        let (folded, _) = run.unwrap_or_else(|e| panic!("{at}: {e}"));
        let values: Vec<u64> = (0..shards).map(|shard| mix(shard.into())).collect();
        assert_eq!(folded, vec![tree(&values, |a, b| pair(*a, *b)); shards as usize], "{at}");
    }
}

/// A value that counts how often it is cloned.
#[derive(Debug)]
struct Counted(Arc<AtomicU32>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

#[test]
fn a_task_that_holds_the_last_reference_to_a_future_takes_its_value() {
    async fn shard(shard: Shard, (): ()) -> Result<[u32; 3], Error> {
        let clones = Arc::new(AtomicU32::new(0));
        let counted = clones.clone();
        let values = shard.index_launch(7, move |_: Arg<usize>| Counted(counted.clone()), |at| (at.into(),)).go()?;
        drop(values.fold(&shard, |a: Arg<Counted>, _: Arg<Counted>| a.0)?.take().await?);
        let folded = clones.load(Ordering::Relaxed);
        let value = Counted(clones.clone());
        let value = shard.launch(move || Counted(value.0.clone()), ()).go()?;
        let other = shard.launch(|_: Arg<Counted>| {}, ((&value).into(),)).go()?;
        other.await?;
        let cloned = clones.load(Ordering::Relaxed);
        shard.launch(|_: Arg<Counted>| {}, (value.into(),)).go()?.await?;
        Ok([folded, cloned, clones.load(Ordering::Relaxed)])
    }
    let run = Runtime::threads(2).run(|top| async move {
        let gang = top.gang("all", 1)?;
        top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(()))?.all().await
    });
    // One that somebody else holds is cloned.
    assert_eq!(run.unwrap().0, [[0, 1, 1]]);
}

/// Where the elements of a vector are.
fn place(vector: &[u64]) -> usize {
    vector.as_ptr() as usize
}

/// Within a node a part is the vector that a task of the sender returned.
#[test]
fn vectors_of_tasks_are_not_copied() {
    type Places = Vec<(usize, usize)>;
    async fn shard(shard: Shard, (all, _, elements): (AllToAll, PhaseBarrier, usize)) -> Result<Places, Error> {
        let places = Arc::new(Mutex::new(vec![0; SHARDS as usize]));
        let made = places.clone();
        let pack = move |to: Arg<usize>| {
            let block = vec![to.0 as u64; elements];
            made.lock().unwrap()[to.0] = place(&block);
            block
        };
        let blocks = shard.index_launch(SHARDS as usize, pack, |to| (to.into(),)).go()?;
        let parts = all.call_parts(&shard, blocks)?.all().await?;
        let made = places.lock().unwrap().clone();
        Ok(made.into_iter().zip(parts.iter().map(|part| place(part))).collect())
    }
    let shards = run(&Runtime::threads(2), (1000, 2), shard).unwrap();
    for (from, sent) in shards.iter().enumerate() {
        for (to, came) in shards.iter().enumerate() {
            assert_eq!(sent[to].0, came[from].1, "the block of shard {from} for shard {to}");
        }
    }
}

/// Within a node a part is the sender's memory, also if others have passed it on.
#[test]
fn parts_are_not_copied_within_a_node() {
    type Places = (usize, Vec<usize>);
    async fn shard(shard: Shard, all: Collective<[u64]>) -> Result<Places, Error> {
        let own = Vector::from(vec![u64::from(shard.index()); 1000]);
        let parts = all.call_parts(&shard, own.clone())?.all().await?;
        Ok((place(&own), parts.iter().map(|part| place(part)).collect()))
    }
    for algorithm in [Algorithm::Direct, Algorithm::Ring] {
        let run = Runtime::threads(3).run(move |top| async move {
            let gang = top.gang("all", SHARDS)?;
            let all = Collective::<u64>::allgather().elements(1000).algorithm(algorithm).make(&top, &gang, "all")?;
            let task = top.register("shard", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(all))?.all().await
        });
        let (places, _) = run.unwrap();
        let own: Vec<usize> = places.iter().map(|(own, _)| *own).collect();
        assert!(places.iter().all(|(_, parts)| *parts == own), "{algorithm}: {places:?}");
    }
}

/// Once nobody holds a part any more its sender's memory is free, also if no other call follows.
#[test]
fn nothing_keeps_a_part_that_was_dropped() {
    async fn shard(shard: Shard, (exchange, all, elements): (AllToAll, PhaseBarrier, usize)) -> Result<(), Error> {
        let all = Meeting(all.arriver(&shard)?, all.waiter(&shard)?);
        let own: Vec<_> = (0..SHARDS).map(|to| Arc::new(block(shard.index(), to, 0, elements))).collect();
        let weak: Vec<_> = own.iter().map(Arc::downgrade).collect();
        let parts = exchange.call_parts(&shard, Contribution::in_blocks(own.into_iter().map(Vector::from)))?;
        let tasks: Vec<_> = parts.iter().map(|part| first(&shard, part)).collect::<Result<_, _>>()?;
        for task in tasks {
            task.await?;
        }
        drop(parts.all().await?);
        drop(parts);
        // The others do so as well, and calls end.
        for _ in 0..3 {
            all.meet(&shard).await?;
        }
        // A small part stays, which for others is a copy.
        let kept = (0..).zip(&weak).find(|(to, own)| own.upgrade().is_some() && (elements > 3 || *to != shard.index()));
        assert!(kept.is_none(), "of {elements} elements");
        Ok(())
    }
    for elements in [1, 3, 4, 1000] {
        for slots in [1, 2] {
            run(&Runtime::threads(1), (elements, slots), shard).unwrap();
            run(&Runtime::threads(2), (elements, slots), shard).unwrap();
        }
    }
}

/// An all-to-all of four ranks in place: in round k a block changes bit k of its rank with bit k of its position. So round 1
/// passes on what round 0 brought, from where the contribution was.
fn in_place(_: &Goal, rank: u32) -> Schedule {
    Schedule::linked(rank, |rank| {
        let mut schedule = Schedule::new(rank, 4, 4);
        for bit in [1, 2] {
            let moved = |block: &u32| block & bit != rank & bit;
            (0..4).filter(moved).for_each(|block| schedule.send(rank ^ bit, Part::block(0, block)));
            // What comes has the places of what goes: bit k is the other rank's, in both.
            (0..4)
                .filter(moved)
                .for_each(|block| schedule.receive(rank ^ bit, Part::block(0, block), Combine::Replace));
        }
        schedule
    })
}

#[test]
fn blocks_that_came_in_the_place_of_the_contribution_are_passed_on() {
    async fn shard(shard: Shard, (all, elements): (AllToAll, usize)) -> Result<(), Error> {
        let me = shard.index();
        for call in 0..CALLS {
            let own: Vec<Vec<u64>> = (0..4).map(|to| block(me, to, call, elements)).collect();
            let own: Contribution<[u64]> = match (call + u64::from(me)) % 3 {
                0 => own.concat().into(),
                1 => (&shard.launch(|own: Arg<Vec<u64>>| own.0, (own.concat().into(),)).go()?).into(),
                _ => Contribution::in_blocks(own),
            };
            let came = match (call + u64::from(me)) % 4 {
                0 => all.call(&shard, own)?.await?,
                _ => all.call_parts(&shard, own)?.all().await?.concat().into(),
            };
            assert_eq!(came, (0..4).map(|from| block(from, me, call, elements)).collect::<Vec<_>>().concat());
        }
        Ok(())
    }
    for (number, elements) in (0..).zip([1, 5, 600].repeat(4)) {
        let (at, runtime) = any_runtime(number);
        let run = || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", 4)?;
                let all = Collective::<u64>::all_to_all().elements(elements).schedules("in place", in_place);
                let all = all.make(&top, &gang, "all")?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((all, elements)))?.all().await
            })
        };
        watched(&at, run).unwrap_or_else(|e| panic!("{at}: {e}"));
    }
}

#[test]
fn what_has_no_parts_is_refused() {
    type Arguments = (Collective<f64>, Collective<[u64]>, Collective<u64, [u64]>);
    async fn shard(shard: Shard, (sum, all, some): Arguments) -> Result<Vec<String>, Error> {
        let refused = [
            sum.call_parts(&shard, 1.0).map(FutureMap::detach),
            all.receive_parts(&shard).map(FutureMap::detach),
            all.call_parts(&shard, Contribution::in_blocks([vec![1_u64], vec![]]))?.all().await.map(drop),
            all.call_parts(&shard, Contribution::in_blocks([vec![1_u64, 2], vec![1], vec![]]))?.all().await.map(drop),
            some.call_parts(&shard, 1_u64).map(FutureMap::detach),
            if shard.index() == 2 { Ok(()) } else { some.receive_parts(&shard).map(FutureMap::detach) },
        ];
        Ok(refused.map(|refused| refused.err().map_or_else(String::new, |error| error.to_string())).into())
    }
    let run = Runtime::threads(1).run(|top| async move {
        let gang = top.gang("all", 3)?;
        let sum = Collective::allreduce(Operator::sum()).make(&top, &gang, "sum")?;
        let all = Collective::<u64>::all_to_all().make(&top, &gang, "all")?;
        let some = Collective::<u64>::gather([2]).participants([1]).make(&top, &gang, "some")?;
        let task = top.register("shard", shard);
        let outcomes = top.launch_gang(&gang, &task, |_| ShardLaunch::new((sum, all, some)))?;
        outcomes.all().await
    });
    let (said, _) = run.unwrap();
    assert_eq!(
        said[1][..3],
        [
            "a call in parts of `sum` in shard 1: expected a collective that combines nothing, got one whose result is a \
             combination",
            "a call in parts of `all` in shard 1: expected `call_parts`, as the shard contributes, too, got `receive_parts`",
            "task `all` of shard 1 cannot go on: input of `all` in shard 1: expected 3 blocks, got 2",
        ]
    );
    assert_eq!(
        [&said[1][4..], &said[2][4..5]].concat(),
        [
            "`call_parts` of `some` in shard 1: expected a shard that contributes and receives, got one that only contributes: \
             use `contribute`",
            "`receive_parts` of `some` in shard 1: expected a shard that receives, got one that only contributes: use \
             `contribute`",
            "`call_parts` of `some` in shard 2: expected a shard that contributes and receives, got one that only receives: use \
             `receive_parts`",
        ]
    );
    // Blocks that are too long or too short are errors of those who would receive them.
    let blocks = said.iter().map(|said| said[3].find("of the input of `all` in shard ").is_some());
    assert_eq!(blocks.collect::<Vec<_>>(), [true, false, true], "{said:?}");
}

/// Blocks one after another are as long as the whole contribution, but not where the others look for them.
#[test]
fn blocks_that_are_not_the_collectives_are_refused() {
    type Objects = (Collective<[u64]>, Collective<[u64]>, Collective<[u64]>);
    async fn shard(shard: Shard, (sums, sum, one): Objects) -> Result<Vec<String>, Error> {
        let blocks = |sizes: [usize; 2]| Contribution::in_blocks(sizes.map(|elements| vec![1_u64; elements]));
        assert_eq!(sums.call(&shard, blocks([3, 3]))?.await?, [2; 3]);
        assert_eq!(sum.call(&shard, Contribution::in_blocks([vec![1_u64; 6]]))?.await?, [2; 6]);
        let mut refused = vec![sums.call(&shard, blocks([2, 4]))?.await, sum.call(&shard, blocks([3, 3]))?.await];
        refused.push(if shard.index() == 0 {
            one.call(&shard, blocks([3, 3]))?.await
        } else {
            one.receive(&shard)?.await
        });
        Ok(refused
            .into_iter()
            .map(|refused| refused.map_or_else(|error| error.to_string(), |_| String::new()))
            .collect())
    }
    let run = Runtime::threads(1).run(|top| async move {
        let gang = top.gang("all", 2)?;
        let sums = Collective::reduce_scatter(Operator::<u64>::sum()).elements(3).make(&top, &gang, "sums")?;
        let sum = Collective::allreduce(Operator::<u64>::sum()).elements(6).make(&top, &gang, "sum")?;
        let one = Collective::<u64>::broadcast(0).elements(6).make(&top, &gang, "one")?;
        let task = top.register("shard", shard);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((sums, sum, one)))?.all().await
    });
    let (said, _) = run.unwrap();
    for said in said {
        for (said, expected) in said.iter().zip([
            "block 0 of the input of `sums` in shard 0: expected 3 elements, got 2",
            "input of `sum` in shard 0: expected 1 block, got 2",
            "input of `one` in shard 0: expected 1 block, got 2",
        ]) {
            assert!(said.replace("shard 1", "shard 0").contains(expected), "{said}");
        }
    }
}

/// A part comes after its contributor's input, and after nobody else's: the check for races finds what only that orders.
#[test]
fn a_part_comes_after_its_own_contributor_only() {
    const U: Field<i64> = Field::new(0, "u");
    type Arguments = (AllToAll, Region, u32);
    // Shard 0 writes before it contributes. Shard 1 reads once it has a part: that of shard 0, or its own.
    async fn shard(shard: Shard, (exchange, u, from): Arguments) -> Result<(), Error> {
        let u = shard.region(Region::new(u.tree, Rect::line(0, 3)))?;
        if shard.index() == 0 {
            shard.launch(|mut u: ReadWriteShared<i64>| u.set([0], 1), (u.read_write_shared(U),)).go()?.await?;
        }
        let parts = exchange.call_parts(&shard, blocks(&shard, 0, 1))?;
        if shard.index() == 1 {
            let part = parts.get(from as usize)?;
            part.clone().await?;
            shard.launch(|u: ReadShared<i64>| assert!(u.get([0]) < 2), (u.read_shared(U),)).go()?.await?;
        }
        parts.all().await.map(drop)
    }
    for (seed, from) in (0..40).zip([0, 1].repeat(20)) {
        let outcome = Runtime::seeded(2, seed).check(Check::Races).run(move |top| async move {
            let gang = top.gang("all", 2)?;
            let exchange =
                Collective::<u64>::all_to_all().algorithm(Algorithm::Direct).make(&top, &gang, "exchange")?;
            let u = top.region_tree("u", Rect::line(0, 3), &[U.info()])?;
            let task = top.register("shard", shard);
            let launch = |_| ShardLaunch::new((exchange, u, from)).shares(u, [U], Privilege::ReadWrite);
            top.launch_gang(&gang, &task, launch)?.all().await
        });
        let races = outcome.as_ref().is_err_and(|e| matches!(e.origin(), Error::Race { .. }));
        assert!(races || outcome.is_ok(), "seed {seed}: {:?}", outcome.err());
        assert_eq!(races, from == 1, "seed {seed}: {:?}", outcome.err());
    }
}

#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "parts::on_processes",
        &[
            ("a_shard_that_is_late_holds_up_nobody_elses_parts", a_shard_that_is_late_holds_up_nobody_elses_parts),
            ("a_block_that_fails_spoils_its_own_part_only", a_block_that_fails_spoils_its_own_part_only),
            (
                "an_error_in_place_of_a_part_waits_for_no_other_part",
                an_error_in_place_of_a_part_waits_for_no_other_part,
            ),
            ("blocks_of_any_sizes_come_as_they_were_sent", blocks_of_any_sizes_come_as_they_were_sent),
            (
                "next_gives_each_part_once_in_the_order_in_which_they_come",
                next_gives_each_part_once_in_the_order_in_which_they_come,
            ),
        ],
    );
}
