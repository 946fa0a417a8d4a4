//! Times in virtual time against what the model says they are: values of edges that stand for larger ones.

use crate::common::run;
use maniple_runtime::{Edges, Error, Get, Link, Put, Runtime, Shard, ShardLaunch, TaskCost, VirtualMachine, now};

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
