//! Times in virtual time against what the model says they are: values of edges that stand for larger ones.

use crate::common::run;
use maniple_runtime::{
    Costs, Edges, Error, Get, Link, Put, Runtime, Shard, ShardLaunch, TaskCost, VirtualMachine, now,
};
use std::time::Duration;

/// How long a ring of edges takes whose values have so many elements, each of which stands for `bytes`. The tasks that get and put
/// values take time by their bytes, and so does the network.
fn ring(elements: usize, bytes: usize) -> u64 {
    async fn shard(shard: Shard, (edges, elements): (Edges<u64>, usize)) -> Result<u64, Error> {
        let (next, last) = ((shard.index() + 1) % shard.shards(), (shard.index() + 3) % shard.shards());
        let (out, into) = (edges.producer(&shard, next)?, edges.consumer(&shard, last)?);
        for step in 0..3 {
            let fill = move |mut to: Put<u64>| to.fill(step);
            shard.launch(fill, (out.put(elements),)).named("put").go()?.await?;
            let check = move |came: Get<u64>| assert_eq!(came[..], vec![step; came.len()]);
            shard.launch(check, (into.get(),)).named("get").go()?.await?;
        }
        Ok(now().as_nanos() as u64)
    }
    let network = Link { latency_ns: 500.0, gap_ns: 10.0, byte_ns: 0.5, ..Link::default() };
    let cost = |byte_ns| TaskCost { task_ns: 100.0, byte_ns };
    let tasks = [("put".into(), cost(2.0)), ("get".into(), cost(1.0))].into();
    let machine = VirtualMachine { nodes: 4, network, tasks, ..VirtualMachine::default() };
    let all = run("ring", &Runtime::virtual_time(machine), move |top| async move {
        let gang = top.gang("ring", 4)?;
        let edges = top.edges_standing_for("ring", &gang, (0..4).map(|from| (from, (from + 1) % 4)), 3, bytes)?;
        let task = top.register("shard", shard);
        top.launch_gang(&gang, &task, move |_| ShardLaunch::new((edges, elements)))?.all().await
    });
    all.unwrap().into_iter().max().unwrap()
}

#[test]
fn small_values_of_edges_that_stand_for_large_ones_take_as_long() {
    // A put, a message and a get, three times: 100 + 2 · 48,000, then 500 + 0.5 · 48,032, then 100 + 48,000 ns.
    let full = 3 * (100 + 96_000 + 500 + 24_016 + 100 + 48_000);
    assert_eq!(ring(6000, 0), full);
    for elements in [1, 2, 3, 4, 500, 600, 6000] {
        assert_eq!(ring(elements, 48_000 / elements), full, "{elements} elements");
    }
    assert!(ring(600, 0) < full / 9);
}

/// When tasks begin that are behind long ones, in nanoseconds from when their shards begin. Both shards are on the utility
/// processor, and each has a worker of its own. The long task of the first takes 10 µs, and that of the second `other`. At 5 µs the
/// first shard launches three tasks, 100 ns each.
fn begin_behind((workers, utility_shares): (u32, bool), other: Duration) -> Vec<u64> {
    async fn shard(shard: Shard, other: Duration) -> Result<u64, Error> {
        let began = now();
        let long = if shard.index() == 0 { Duration::from_micros(10) } else { other };
        let long = shard.launch(|| (), ()).takes(long).go()?;
        let mut launched = 1;
        if shard.index() == 0 {
            let never = std::future::pending::<Result<(), Error>>();
            shard.timeout(Duration::from_micros(5), never).await.expect_err("it is over");
            launched = 3;
        }
        let all: Result<Vec<_>, _> = (0..launched).map(|_| shard.launch(now, ()).go()).collect();
        let mut begin = Vec::new();
        for one in all? {
            begin.push(one.await? - began);
        }
        long.await?;
        Ok(begin[0].as_nanos() as u64)
    }
    let costs = Costs { launch_ns: 100.0, ..Costs::default() };
    let machine =
        VirtualMachine { per_node: workers + 1, utility: 1, utility_shares, costs, ..VirtualMachine::default() };
    let all = run("shares", &Runtime::virtual_time(machine), move |top| async move {
        let gang = top.gang("both", 2)?;
        let task = top.register("shard", shard);
        top.launch_gang(&gang, &task, move |_| ShardLaunch::new(other))?.all().await
    });
    all.unwrap()
}

#[test]
fn a_utility_processor_without_a_core_takes_the_time_of_the_worker_that_is_free_first() {
    let us = Duration::from_micros;
    // A long task begins when it has been launched, and on the second worker when the task behind it has been, too.
    for (other, free_first) in [(20, Some(0)), (8, Some(1)), (1, None)] {
        let alone = [100 + 10_000, 200 + 1000 * other];
        assert_eq!(begin_behind((2, false), us(other)), alone);
        assert_eq!(begin_behind((3, false), us(other)), alone);
        assert_eq!(begin_behind((3, true), us(other)), alone, "the third worker is idle");
        let mut shared = alone;
        free_first.into_iter().for_each(|first: usize| shared[first] += 300);
        assert_eq!(begin_behind((2, true), us(other)), shared, "{other} µs");
    }
}

#[test]
fn without_utility_processors_none_shares() {
    let machine = VirtualMachine { utility_shares: true, ..VirtualMachine::default() };
    let refused = machine.check().unwrap_err().to_string();
    assert!(refused.contains("utility_shares: expected at least one utility processor, got none"), "{refused}");
}
