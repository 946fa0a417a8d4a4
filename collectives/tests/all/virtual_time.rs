//! Times in virtual time against what the model says they are.

use crate::common::watched;
use maniple_collectives::{Algorithm, Collective, CollectiveBuilder, Combine, Goal, Operator, Part, Schedule};
use maniple_regions::{ExactSum, exact_sum};
use maniple_runtime::{
    Costs, Edges, Error, Link, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch, TaskFuture, TraceFile,
    VirtualMachine, now,
};
use std::time::Duration;

const CALLS: u32 = 10;

async fn calls(shard: Shard, total: Collective<u64>) -> Result<(u64, u64), Error> {
    // The first calls bring all into step.
    let mut x = total.call(&shard, u64::from(shard.index()))?.await?;
    for _ in 0..CALLS {
        x = total.call(&shard, x)?.await? / u64::from(shard.shards());
    }
    let began = now();
    for _ in 0..CALLS {
        x = total.call(&shard, x)?.await? / u64::from(shard.shards());
    }
    Ok((x, (now() - began).as_nanos() as u64))
}

/// Nanoseconds of a call on the slowest shard, of one shard a node.
fn call_ns(machine: VirtualMachine, shards: u32, algorithm: Algorithm) -> f64 {
    let machine = VirtualMachine { nodes: shards, ..machine };
    let (results, _) = Runtime::virtual_time(machine)
        .run(move |top| async move {
            let gang = top.gang("all", shards)?;
            let total = Collective::allreduce(Operator::sum()).algorithm(algorithm).make(&top, &gang, "total")?;
            let task = top.register("calls", calls);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(total))?.all().await
        })
        .unwrap();
    let sum: u64 = (0..u64::from(shards)).sum();
    assert!(results.iter().all(|(x, _)| *x == sum), "{results:?}");
    results.iter().map(|(_, ns)| *ns).max().unwrap() as f64 / f64::from(CALLS)
}

#[test]
fn where_only_the_network_takes_time_a_call_takes_its_rounds() {
    let on = |network| VirtualMachine { network, ..VirtualMachine::default() };
    let latency = Link { latency_ns: 1000.0, ..Link::default() };
    let overheads = Link { latency_ns: 700.0, send_ns: 40.0, receive_ns: 60.0, ..Link::default() };
    for log in 1..=6 {
        let (shards, rounds) = (1 << log, f64::from(log));
        assert_eq!(call_ns(on(latency), shards, Algorithm::RecursiveDoubling), 1000.0 * rounds, "{shards} shards");
        let eager = VirtualMachine { acknowledge: false, ..on(overheads) };
        assert_eq!(call_ns(eager, shards, Algorithm::RecursiveDoubling), 800.0 * rounds, "{shards} shards");
        // That a value has been read is known by a message, too, which may come right before the one that is waited for.
        let ns = call_ns(on(overheads), shards, Algorithm::RecursiveDoubling);
        let others = if log == 1 { 0.0 } else { 100.0 };
        assert!((800.0 * rounds..=(800.0 + others) * rounds).contains(&ns), "{shards} shards: {ns}");
    }
    // A surplus folds in before the rounds and out after them, while others are ahead: at most one of the two is seen.
    for shards in [3, 5, 7, 33] {
        let (least, ns) =
            (f64::from(shards).log2().floor(), call_ns(on(latency), shards, Algorithm::RecursiveDoubling));
        assert!((1000.0 * (least + 1.0)..=1000.0 * (least + 2.0)).contains(&ns), "{shards} shards: {ns}");
    }
}

#[test]
fn large_values_take_what_combining_their_bytes_takes() {
    async fn once(shard: Shard, (total, elements): (Collective<[u64]>, usize)) -> Result<(Vec<u64>, u64), Error> {
        let total = total.call(&shard, vec![1; elements])?.await?;
        Ok((total.into_vec(), now().as_nanos() as u64))
    }
    let costs = Costs { combine_byte_ns: 0.25, ..Costs::default() };
    for (elements, bytes) in [(1, 0), (3, 0), (4, 32), (1000, 8000)] {
        for log in 1..=3 {
            let (results, stats) =
                Runtime::virtual_time(VirtualMachine { nodes: 1 << log, costs, ..VirtualMachine::default() })
                    .run(move |top| async move {
                        let gang = top.gang("all", 1 << log)?;
                        let total = Collective::allreduce(Operator::<u64>::sum())
                            .elements(elements)
                            .algorithm(Algorithm::RecursiveDoubling)
                            .make(&top, &gang, "total")?;
                        let task = top.register("once", once);
                        top.launch_gang(&gang, &task, move |_| ShardLaunch::new((total, elements)))?.all().await
                    })
                    .unwrap();
            // A round combines all of the value, and nothing else takes any time.
            let ns = u64::from(log as u32) * bytes / 4;
            assert!(results.iter().all(|r| *r == (vec![1 << log; elements], ns)), "{elements}: {results:?}");
            assert_eq!(stats.combined_bytes, bytes * (log << log));
        }
    }
}

/// When the slowest shard has the result of an allreduce by these schedules, and the subtasks and bytes of the run. All shards
/// call at time 0. Only subtasks and combined bytes take time: 100 ns and a quarter of a nanosecond.
fn once_by(
    (nodes, each): (u32, u32),
    elements: usize,
    by: impl Fn(CollectiveBuilder<[u64], [u64]>) -> CollectiveBuilder<[u64], [u64]> + Send + Sync + Clone + 'static,
) -> (u64, u64, u64) {
    async fn once(shard: Shard, (total, elements): (Collective<[u64]>, usize)) -> Result<(Vec<u64>, u64), Error> {
        let total = total.call(&shard, vec![1 << shard.index(); elements])?.await?;
        Ok((total.into_vec(), now().as_nanos() as u64))
    }
    let costs = Costs { replayed_ns: 100.0, combine_byte_ns: 0.25, ..Costs::default() };
    let shards = nodes * each;
    let (results, stats) = Runtime::virtual_time(VirtualMachine { nodes, costs, ..VirtualMachine::default() })
        .run(move |top| {
            let by = by.clone();
            async move {
                let gang = top.gang("all", shards)?;
                let total = by(Collective::allreduce(Operator::<u64>::sum()).elements(elements));
                let total = total.make(&top, &gang, "total")?;
                let task = top.register("once", once);
                top.launch_gang(&gang, &task, move |_| ShardLaunch::new((total, elements)))?.all().await
            }
        })
        .unwrap();
    assert!(results.iter().all(|(sum, _)| *sum == vec![(1 << shards) - 1; elements]), "{results:?}");
    let last = results.iter().map(|(_, ns)| *ns).max().unwrap();
    (last, stats.chain_subtasks, stats.combined_bytes)
}

/// The subtasks and the vectors that are combined or copied are written out for each algorithm. All ranks do the same
/// at the same time, so a call takes as long as one rank's subtasks and combinations.
#[test]
fn a_local_step_takes_the_time_of_a_subtask_and_of_its_bytes() {
    let own = |_: &Goal, rank: u32| {
        let mut schedule = Schedule::new(rank, 2, 1);
        schedule.update(1 - rank, 0, Part::block(0, 0));
        schedule.read(1 - rank, 0, Part::block(1, 0), Combine::Replace);
        let how = if rank == 0 { Combine::IncomingIsHigher } else { Combine::IncomingIsLower };
        schedule.local(Part::block(1, 0), Part::block(0, 0), how);
        schedule
    };
    for (elements, bytes) in [(1, 0), (3, 0), (4, 32), (400, 3200), (1000, 8000)] {
        let is = |shards: u32, (subtasks, vectors): (u64, u64), (took, counted, combined): (u64, u64, u64)| {
            let all = u64::from(shards);
            assert_eq!((counted, combined), (all * subtasks, all * vectors * bytes), "{shards}, {elements} elements");
            assert_eq!(took, 100 * subtasks + vectors * bytes / 4, "{shards} shards, {elements} elements");
        };
        let by = |shards, algorithm: Algorithm| once_by((shards, 1), elements, move |c| c.algorithm(algorithm));
        // An update, a read into another register, and a local step.
        is(2, (3, 2), once_by((2, 1), elements, move |c| c.schedules("own", own)));
        // No local steps.
        is(4, (4, 2), by(4, Algorithm::RecursiveDoubling));
        // Updates and reads: 2 of each in both rounds. Between the rounds a value is copied and one is combined with the
        // copy, and at the end the rank's own value is combined.
        is(8, (4 + 2 + 4 + 1, 4 + 3), by(8, Algorithm::Dissemination(2)));
        // 3 updates and 3 reads. Two of the values are combined with each other before they are combined with the rank's own.
        is(4, (3 + 3 + 1, 3 + 1), by(4, Algorithm::Radix(4)));
        // The rank's own value is kept for the last of two rounds with a message each.
        is(3, (1 + 4, 1 + 2), by(3, Algorithm::FiveCases(1)));
        // A join and a hand-out of two subtasks each, and a round. The join combines a vector.
        let (took, subtasks, combined) = once_by((2, 2), elements, |c| c.algorithm(Algorithm::TwoLevel));
        assert_eq!((took, subtasks, combined), (600 + 2 * bytes / 4, 2 * 6, 2 * 2 * bytes), "{elements} elements");
    }
}

/// Each of two shards has an update, a read and a local step. A whole call copies the block that comes and the shard's own one. In
/// parts nothing is copied, as what comes from another process is read where it came.
#[test]
fn whole_results_take_the_time_of_their_copies_and_parts_have_none() {
    async fn once(shard: Shard, (all, elements, parts): (Collective<[u64]>, usize, bool)) -> Result<u64, Error> {
        let own = vec![u64::from(shard.index()); 2 * elements];
        let came = match parts {
            true => all.call_parts(&shard, own)?.all().await?.concat(),
            false => all.call(&shard, own)?.await?.into_vec(),
        };
        assert_eq!(came, [vec![0; elements], vec![1; elements]].concat());
        Ok(now().as_nanos() as u64)
    }
    let costs = Costs { replayed_ns: 100.0, combine_byte_ns: 0.25, ..Costs::default() };
    let took = |nodes: u32, elements: usize, parts: bool| {
        let machine = VirtualMachine { nodes, per_node: 2 / nodes, costs, ..VirtualMachine::default() };
        let run = Runtime::virtual_time(machine).run(move |top| async move {
            let gang = top.gang("all", 2)?;
            let all = Collective::<u64>::all_to_all().elements(elements).algorithm(Algorithm::Direct);
            let all = all.make(&top, &gang, "all")?;
            let task = top.register("once", once);
            top.launch_gang(&gang, &task, move |_| ShardLaunch::new((all, elements, parts)))?.all().await
        });
        let (ends, stats) = run.unwrap();
        assert_eq!(ends[0], ends[1], "{nodes} nodes, {elements} elements, parts: {parts}");
        (ends[0], stats.combined_bytes)
    };
    for (elements, bytes) in [(1, 0), (3, 0), (4, 32), (400, 3200), (4000, 32_000)] {
        let at = format!("{elements} elements");
        for nodes in [1, 2] {
            assert_eq!(
                took(nodes, elements, false),
                (300 + 2 * bytes / 4, 2 * 2 * bytes),
                "{at}, whole, {nodes} nodes"
            );
            assert_eq!(took(nodes, elements, true), (300, 0), "{at}, in parts, {nodes} nodes");
        }
    }
}

/// The values of a barrier have no bytes, so the local steps of dissemination are left out.
#[test]
fn a_barrier_has_no_local_steps() {
    let costs = Costs { replayed_ns: 100.0, ..Costs::default() };
    let (ends, stats) = Runtime::virtual_time(VirtualMachine { nodes: 8, costs, ..VirtualMachine::default() })
        .run(|top| async move {
            let gang = top.gang("all", 8)?;
            let all = Collective::barrier().algorithm(Algorithm::Dissemination(2)).make(&top, &gang, "all")?;
            let task = top.register("once", async |shard: Shard, all: Collective<()>| {
                all.call(&shard, ())?.await?;
                Ok(now().as_nanos() as u64)
            });
            top.launch_gang(&gang, &task, move |_| ShardLaunch::new(all))?.all().await
        })
        .unwrap();
    assert_eq!((ends, stats.chain_subtasks), (vec![800; 8], 8 * 8));
}

/// Without replay a launch names both ends of each edge, and maps the cells at one of them.
#[test]
fn without_replay_a_launch_pays_for_the_ends_of_its_edges() {
    let costs = Costs { requirement_ns: 7.0, map_ns: 1000.0, ..Costs::default() };
    let took = |replay: bool, edges: &'static [(u32, u32)]| {
        let machine = VirtualMachine { nodes: 1, replay, costs, ..VirtualMachine::default() };
        let run = Runtime::virtual_time(machine).run(move |top| async move {
            let (gang, other) = (top.gang("all", 3)?, top.gang("other", 3)?);
            let _: Edges<u64> = top.edges("of another gang", &other, [(0, 1)], 1)?;
            let _: Edges<u64> = top.edges("edges", &gang, edges.iter().copied(), 1)?;
            let task = top.register("idle", async |_: Shard, (): ()| Ok(()));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?;
            Ok(now().as_nanos() as u64)
        });
        run.unwrap().0
    };
    let edges = &[(0, 1), (1, 2), (2, 0), (2, 2)];
    assert_eq!(took(false, edges) - took(false, &[]), 8 * 7 + 4 * 1000);
    assert_eq!(took(true, edges), took(true, &[]));
}

/// The node that an edge leads to maps its cells. The other one only names it.
#[test]
fn without_replay_each_end_of_an_edge_has_its_own_price() {
    let costs = Costs { requirement_ns: 7.0, map_ns: 1000.0, ..Costs::default() };
    let began = |edges: &'static [(u32, u32)]| {
        let machine = VirtualMachine { nodes: 2, replay: false, costs, ..VirtualMachine::default() };
        let run = Runtime::virtual_time(machine).run(move |top| async move {
            let gang = top.gang("all", 2)?;
            let _: Edges<u64> = top.edges("edges", &gang, edges.iter().copied(), 1)?;
            let task = top.register("looks", async |_: Shard, (): ()| Ok(now().as_nanos() as u64));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        });
        run.unwrap().0
    };
    let (with, without) = (began(&[(0, 1)]), began(&[]));
    let more: Vec<u64> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
    assert_eq!(more, [7, 7 + 1000]);
}

#[test]
fn the_same_run_twice_leaves_the_same_trace() {
    let link = Link { latency_ns: 900.0, send_ns: 55.5, receive_ns: 44.25, gap_ns: 80.0, byte_ns: 0.2, first_ns: 12.5 };
    let costs = Costs { replayed_ns: 71.0, arrival_ns: 13.0, poll_ns: 90.0, message_ns: 31.0, ..Costs::default() };
    let machine =
        VirtualMachine { network: link, memory: link, costs, per_node: 2, noise: 0.2, ..VirtualMachine::default() };
    let traced = |seed: u64, name: &str| {
        let path = std::env::temp_dir().join(format!("maniple-virtual-{name}-{}.json", std::process::id()));
        let machine = VirtualMachine { nodes: 3, seed, ..machine.clone() };
        let runtime = Runtime::virtual_time(machine).trace(TraceFile::create(&path).unwrap());
        let top = |top: maniple_runtime::Top| async move {
            let gang = top.gang("all", 9)?;
            let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
            let task = top.register("calls", calls);
            let all = top.launch_gang(&gang, &task, |_| ShardLaunch::new(total))?.all().await?;
            Ok(all.iter().map(|(_, ns)| *ns).max())
        };
        let took = runtime.run(top).unwrap().0;
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        (took, bytes)
    };
    let first = traced(1, "a");
    assert_eq!(first, traced(1, "b"));
    let other = traced(2, "c");
    assert!(first.0 != other.0 && first.1 != other.1, "noise makes a difference");
}

#[test]
fn a_machine_that_can_not_be_is_refused() {
    let refused = |machine: VirtualMachine| {
        let outcome = Runtime::virtual_time(machine).run(|top| async move { top.gang("all", 1).map(drop) });
        outcome.map(drop).unwrap_err().to_string()
    };
    let good = VirtualMachine::default;
    assert!(refused(VirtualMachine { nodes: 0, ..good() }).contains("0 nodes of 1"));
    assert!(refused(VirtualMachine { utility: 1, ..good() }).contains("fewer than the 1 of a node"));
    let network = Link { latency_ns: f64::NAN, ..Link::default() };
    assert!(refused(VirtualMachine { network, ..good() }).contains("network.latency_ns"));
    let costs = Costs { map_ns: -1.0, ..Costs::default() };
    assert!(refused(VirtualMachine { costs, ..good() }).contains("costs.map_ns"));
    assert!(refused(VirtualMachine { noise: 1001.0, ..good() }).contains("noise: expected a fraction of a time"));
    for round_requirements in [1000.5, -1.0, f64::NAN] {
        let message = refused(VirtualMachine { round_requirements, ..good() });
        assert!(message.contains("collectives.round_requirements: expected 0 to 1000"), "{message}");
    }
    // This many would not fit into any host.
    assert!(refused(VirtualMachine { nodes: 1 << 31, ..good() }).contains("1 to 2^24"));
}

#[test]
fn a_task_takes_what_its_launch_says() {
    async fn naps(shard: Shard, _: ()) -> Result<(u64, u64), Error> {
        let began = now();
        let nap = || now().as_nanos() as u64;
        let at = shard.launch(nap, ()).takes(Duration::from_micros(250)).go()?.await?;
        Ok((at - began.as_nanos() as u64, (now() - began).as_nanos() as u64))
    }
    let costs = Costs { launch_ns: 1000.0, map_ns: 200.0, start_ns: 30.0, complete_ns: 4.0, ..Costs::default() };
    let machine = VirtualMachine { costs, ..VirtualMachine::default() };
    let (all, _) = Runtime::virtual_time(machine)
        .run(|top| async move {
            let (gang, task) = (top.gang("one", 1)?, top.register("naps", naps));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        })
        .unwrap();
    // It is called after it has been launched, mapped and started, and over after its work and its end.
    assert_eq!(all, [(1230, 251_234)]);
}

#[test]
fn a_stamp_says_when_and_takes_no_time() {
    async fn naps(shard: Shard, stamped: bool) -> Result<Vec<u64>, Error> {
        let ns = |at: Duration| at.as_nanos() as u64;
        let nap = shard.launch(|| (), ()).takes(Duration::from_micros(250)).go()?;
        let (before, none) = (stamped.then(|| nap.stamp()), nap.stamp().at());
        assert_eq!(none, None);
        nap.await?;
        let awaited = now();
        let at = before.and_then(|stamp| stamp.at());
        let later = TaskFuture::ready(1).stamp().at();
        Ok([at, Some(awaited), later].into_iter().flatten().map(ns).collect())
    }
    let costs = Costs { launch_ns: 1000.0, map_ns: 200.0, start_ns: 30.0, complete_ns: 4.0, ..Costs::default() };
    let run = |costs, stamped| {
        let machine = VirtualMachine { costs, ..VirtualMachine::default() };
        let top = move |top: maniple_runtime::Top| async move {
            let (gang, task) = (top.gang("one", 1)?, top.register("naps", naps));
            top.launch_gang(&gang, &task, move |_| ShardLaunch::new(stamped))?.all().await
        };
        Runtime::virtual_time(machine).run(top).unwrap().0.remove(0)
    };
    // The shard has been launched and mapped, too, and is polled at no cost as soon as the nap ends.
    assert_eq!(run(costs, true), [1200 + 251_234; 3]);
    // Where polls cost, the stamp is from before them, and costs nothing itself.
    let slow = Costs { poll_ns: 500.0, ..costs };
    let (with, without) = (run(slow, true), run(slow, false));
    assert!(with[0] < with[1] && with[1..] == without[..], "{with:?}, {without:?}");
}

#[test]
fn a_stamp_is_nobody_who_sees_an_error() {
    async fn fails(shard: Shard, _: ()) -> Result<(), Error> {
        let wrong = shard.launch(|| -> u64 { panic!("on purpose") }, ()).go()?;
        let stamp = wrong.stamp();
        drop(wrong);
        shard.launch(|| (), ()).takes(Duration::from_micros(1)).go()?.await?;
        assert!(stamp.at().is_some());
        Ok(())
    }
    let outcome = Runtime::virtual_time(VirtualMachine::default()).run(|top| async move {
        let (gang, task) = (top.gang("one", 1)?, top.register("fails", fails));
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
    });
    assert!(outcome.unwrap_err().to_string().contains("on purpose"));
}

/// A message that is sent later does not keep the way in from one that is sent before, even if the one who sends it has begun
/// its work first.
#[test]
fn messages_take_the_ways_in_the_order_of_their_times() {
    const LATE: Duration = Duration::from_millis(1);
    async fn waits(shard: Shard, gates: [PhaseBarrier; 2]) -> Result<u64, Error> {
        let [late, early] = gates;
        if shard.index() == 2 {
            let began = now();
            shard.wait(&early.waiter(&shard)?).await?;
            let took = now() - began;
            shard.wait(&late.waiter(&shard)?).await?;
            return Ok(took.as_nanos() as u64);
        }
        if shard.index() == 0 {
            shard.launch(|| (), ()).takes(LATE).arrive(&late.arriver(&shard)?).go()?.await?;
        } else {
            // After the other has begun.
            let wait = Duration::from_micros(1);
            shard.launch(|| (), ()).takes(wait).go()?.await?;
            shard.launch(|| (), ()).takes(wait).arrive(&early.arriver(&shard)?).go()?.await?;
        }
        Ok(0)
    }
    // Nodes of a processor each; or with the senders on one node, whose way out they share.
    for (nodes, per_node) in [(3, 1), (2, 2)] {
        for (gap_ns, byte_ns) in [(0.0, 0.0), (50.0, 0.0), (0.0, 1.0)] {
            let network = Link { latency_ns: 1000.0, gap_ns, byte_ns, ..Link::default() };
            let machine = VirtualMachine { nodes, per_node, network, ..VirtualMachine::default() };
            let (took, _) = Runtime::virtual_time(machine)
                .run(|top| async move {
                    let gang = top.gang("all", 3)?;
                    let gate = |name, from| top.phase_barrier(name, &gang, PhaseOptions::between([from], [2]));
                    let gates = [gate("late", 0)?, gate("early", 1)?];
                    let task = top.register("waits", waits);
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new(gates))?.all().await
                })
                .unwrap();
            let took = took[2];
            assert!((2_000..4_000).contains(&took), "{nodes} nodes, gap {gap_ns} ns, {byte_ns} ns a byte: {took} ns");
        }
    }
}

/// One shard, on a machine on which nothing takes any time.
fn alone<Fut>(program: impl Fn(Shard) -> Fut + Clone + Send + Sync + 'static) -> Result<Vec<Duration>, Error>
where
    Fut: Future<Output = Result<Duration, Error>> + 'static,
{
    let run = Runtime::virtual_time(VirtualMachine::default()).run(move |top| {
        let program = program.clone();
        async move {
            let gang = top.gang("one", 1)?;
            let task = top.register("alone", move |shard: Shard, _: ()| program(shard));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        }
    });
    run.map(|(all, _)| all)
}

#[test]
fn a_run_that_would_be_longer_than_virtual_time_says_so() {
    async fn naps(shard: Shard, days: u64) -> Result<Duration, Error> {
        let nap = Duration::from_hours(24).saturating_mul(days as u32);
        shard.launch(|| (), ()).takes(nap).go()?.await?;
        shard.launch(|| (), ()).takes(nap).go()?.await?;
        Ok(now())
    }
    assert_eq!(alone(|shard| naps(shard, 10)).unwrap(), [Duration::from_hours(20 * 24)]);
    for days in [14, 200, 1 << 31] {
        let e = alone(move |shard| naps(shard, days)).unwrap_err().to_string();
        assert!(e.contains("virtual time: expected a run of at most 26 days"), "{e}");
    }
}

#[test]
fn deadlines_cost_one_event_each_and_those_after_the_end_of_time_are_none() {
    let stuck = watched("a year", || {
        alone(|shard| async move {
            let never = std::future::pending::<Result<(), Error>>();
            shard.timeout(Duration::from_hours(24 * 365), never).await?;
            Ok(now())
        })
    });
    assert!(stuck.as_ref().is_err_and(|e| e.to_string().contains("deadlock")), "{stuck:?}");

    const TIMES: u64 = 2000;
    let run = Runtime::virtual_time(VirtualMachine::default()).run(|top| async move {
        let gang = top.gang("one", 1)?;
        let task = top.register("in time", |shard: Shard, _: ()| async move {
            for _ in 0..TIMES {
                let task = shard.launch(|| (), ()).takes(Duration::from_micros(1)).go()?;
                shard.timeout(Duration::from_micros(1500), task).await?;
            }
            Ok(())
        });
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
    });
    let (_, stats) = run.unwrap();
    assert!(stats.events < 10 * TIMES, "{} events", stats.events);
}

/// How long programs take whose values have so many elements (in an all-to-all each block), each of which stands for `bytes`.
/// Two nodes of two shards each; everything that depends on bytes costs. The bits of the results come along, for equal
/// contributions.
fn took_with((elements, bytes): (usize, usize)) -> Vec<(&'static str, u64)> {
    const SHARDS: u32 = 4;
    type All = (Collective<[u64]>, Collective<[u64]>, usize);
    async fn program(shard: Shard, (how, (total, exchange, elements)): (usize, All)) -> Result<u64, Error> {
        let began = now();
        for _ in 0..3 {
            let all = vec![u64::from(shard.index()); SHARDS as usize * elements];
            match how {
                0 => {
                    let sum = total.call(&shard, all[..elements].to_vec())?.await?;
                    assert_eq!(&sum[..], vec![6; elements]);
                }
                1 => {
                    let came = exchange.call(&shard, all)?.await?;
                    assert!(came.iter().zip(0..).all(|(of, at)| *of == (at / elements) as u64));
                }
                _ => {
                    let came = exchange.call_parts(&shard, all)?.all().await?;
                    assert!(came.iter().zip(0..).all(|(block, from)| *block == vec![from; elements]));
                }
            }
        }
        Ok((now() - began).as_nanos() as u64)
    }
    let network =
        Link { latency_ns: 1000.0, send_ns: 100.0, receive_ns: 150.0, gap_ns: 40.0, byte_ns: 0.25, ..Link::default() };
    let memory = Link { latency_ns: 50.0, byte_ns: 0.125, ..Link::default() };
    let costs = Costs { replayed_ns: 30.0, combine_byte_ns: 0.5, arrival_ns: 20.0, ..Costs::default() };
    let machine = VirtualMachine { nodes: 2, per_node: 2, network, memory, costs, ..VirtualMachine::default() };
    let took = |(how, name): (usize, &'static str)| {
        let (all, _) = Runtime::virtual_time(machine.clone())
            .run(move |top| async move {
                let gang = top.gang("all", SHARDS)?;
                // The mapper chooses the algorithms, by the bytes.
                let total = Collective::allreduce(Operator::<u64>::sum()).elements(elements).standing_for(bytes);
                let exchange = Collective::<u64>::all_to_all().elements(elements).standing_for(bytes);
                let both = (total.make(&top, &gang, "total")?, exchange.make(&top, &gang, "exchange")?, elements);
                let task = top.register("program", program);
                top.launch_gang(&gang, &task, move |_| ShardLaunch::new((how, both)))?.all().await
            })
            .unwrap();
        (name, all.into_iter().max().unwrap())
    };
    (0..).zip(["allreduce", "whole", "in parts"]).map(took).collect()
}

#[test]
fn small_values_that_stand_for_large_ones_take_as_long() {
    for full in [6000, 600_000] {
        let expected = took_with((full, 0));
        for elements in [1, 3, 4, 60, 600, 1200, full] {
            let found = took_with((elements, 8 * full / elements));
            // The algorithm of the allreduce cuts the vector into four.
            let from = if elements < 4 { 1 } else { 0 };
            assert_eq!(found[from..], expected[from..], "{elements} elements for {full}");
        }
        assert!(took_with((600, 0)).iter().zip(&expected).all(|(small, full)| small < full));
    }
}

/// A state is as much larger than a contribution as it would be at full size, and an element without bytes stays so.
#[test]
fn what_a_contribution_stands_for_counts_for_its_state_too() {
    let run = |elements: usize, bytes: usize| {
        let costs = Costs { combine_byte_ns: 1.0, ..Costs::default() };
        let machine = VirtualMachine { nodes: 2, costs, ..VirtualMachine::default() };
        let run = Runtime::virtual_time(machine).run(move |top| async move {
            let gang = top.gang("all", 2)?;
            let sum = Collective::allreduce(exact_sum()).elements(elements).standing_for(bytes);
            let sum = sum.make(&top, &gang, "sum")?;
            let barrier = Collective::barrier().standing_for(bytes).make(&top, &gang, "barrier")?;
            type Both = (Collective<[f64], [f64], ExactSum<f64>>, Collective<()>);
            let task = top.register("once", move |shard: Shard, (sum, barrier): Both| async move {
                barrier.call(&shard, ())?.await?;
                Ok((sum.call(&shard, vec![0.5; elements])?.await?.into_vec(), now()))
            });
            top.launch_gang(&gang, &task, move |_| ShardLaunch::new((sum, barrier)))?.all().await
        });
        let (all, stats) = run.unwrap();
        assert!(all.iter().all(|(sum, _)| *sum == vec![1.0; elements]));
        (all[0].1, stats.combined_bytes)
    };
    assert_eq!(run(10, 160), run(200, 0));
}
