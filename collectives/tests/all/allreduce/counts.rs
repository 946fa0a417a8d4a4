//! Subtasks, messages, copies and the order of subtasks, as documented.

use crate::common::{Calls, Chosen, Many, One, affine, brackets, rounding, subtasks, watched};
use maniple_collectives::{Collective, Operator};
use maniple_mapper::{Access, CollectiveOutput, MemoryKind, Placement, Priority};
use maniple_runtime::{Runtime, Shard, ShardLaunch};
use std::sync::{Arc, Mutex};

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
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
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
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
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
