//! Times in virtual time against what the model says they are: values of edges that stand for larger ones, utility
//! processors without cores, long messages.

use crate::common::run;
use maniple_mapper::NodeId;
use maniple_regions::{Field, Read, Rect};
use maniple_runtime::{
    Costs, Edges, Error, Get, Link, Put, Runtime, Shard, ShardLaunch, TaskCost, VirtualMachine, now,
};
use std::time::Duration;

const U: Field<u64> = Field::new(0, "u");

/// How long a ring of edges takes whose values have so many elements, each of which stands for `bytes`. The tasks that get and put
/// values take time by their bytes, and so does the network.
fn ring(elements: usize, bytes: usize, rendezvous_bytes: Option<u64>) -> u64 {
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
    let machine = VirtualMachine { nodes: 4, network, rendezvous_bytes, tasks, ..VirtualMachine::default() };
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
    assert_eq!(ring(6000, 0, None), full);
    for elements in [1, 2, 3, 4, 500, 600, 6000] {
        assert_eq!(ring(elements, 48_000 / elements, None), full, "{elements} elements");
    }
    assert!(ring(600, 0, None) < full / 9);
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

/// When a shard on node 1 has values of these numbers of elements, in nanoseconds. All are put at 0 on node 0, one after the other.
/// Behind them, and on node 1 at 0, a task takes so many microseconds. A message has 32 bytes and its elements, takes 1000 ns and
/// one for each byte, and its processors 100 and 150 ns.
fn arrive(rendezvous_bytes: Option<u64>, utility: u32, values: &'static [usize], busy: [u64; 2]) -> Vec<u64> {
    async fn shard(shard: Shard, (edges, values, busy): (Edges<u64>, Vec<usize>, [u64; 2])) -> Result<Vec<u64>, Error> {
        let takes = Duration::from_micros(busy[shard.index() as usize]);
        let task = || shard.launch(|| (), ()).takes(takes).go();
        if shard.index() == 0 {
            for (end, elements) in edges.outgoing(&shard)?.iter().zip(values) {
                shard.launch(|mut to: Put<u64>| to.fill(7), (end.put(elements),)).go()?.detach();
            }
            task()?.await?;
            // The message that says that it is over comes after all others.
            let never = std::future::pending::<Result<(), Error>>();
            shard.timeout(Duration::from_millis(1), never).await.expect_err("it is over");
            return Ok(Vec::new());
        }
        let task = task()?;
        let mut come = Vec::new();
        for end in edges.incoming(&shard)? {
            shard.wait(end.ready()).await?;
            come.push(now().as_nanos() as u64);
        }
        task.await?;
        Ok(come)
    }
    let network = Link { latency_ns: 1000.0, send_ns: 100.0, receive_ns: 150.0, byte_ns: 1.0, ..Link::default() };
    let machine = VirtualMachine {
        nodes: 2,
        per_node: 1 + utility,
        utility,
        network,
        rendezvous_bytes,
        ..VirtualMachine::default()
    };
    let all = run("arrive", &Runtime::virtual_time(machine), move |top| async move {
        let gang = top.gang("two", 2)?;
        let edges = top.edges("all", &gang, (0..values.len() as u32).map(|tag| (0, 1, tag)), 1)?;
        let task = top.register("shard", shard);
        top.launch_gang(&gang, &task, move |_| ShardLaunch::new((edges, values.to_vec(), busy)))?.all().await
    });
    all.unwrap().remove(1)
}

#[test]
fn a_long_message_moves_when_both_ends_have_looked_at_it() {
    // 1000 bytes.
    let long: &[usize] = &[121];
    for rendezvous in [None, Some(1000)] {
        assert_eq!(arrive(rendezvous, 0, long, [0, 0]), [100 + 2000 + 150]);
    }
    let message = |bytes: u64| 100 + 1000 + bytes;
    // The request, its handling and the answer, the handling of that and the data.
    let idle = message(32) + 150 + message(32) + 150 + message(1000) + 150;
    let receiver_busy = 10_000 + 150 + message(32) + 150 + message(1000) + 150;
    let sender_busy = 100 + 10_000 + 150 + message(1000) + 150;
    for rendezvous in [999, 32, 0] {
        let rendezvous = Some(rendezvous);
        assert_eq!(arrive(rendezvous, 0, long, [0, 0]), [idle]);
        assert_eq!(arrive(rendezvous, 0, long, [0, 10]), [receiver_busy]);
        assert_eq!(arrive(rendezvous, 0, long, [10, 0]), [sender_busy]);
        // Utility processors are free, whatever the others do.
        assert_eq!(arrive(rendezvous, 1, long, [0, 10]), [idle]);
        assert_eq!(arrive(rendezvous, 1, long, [10, 0]), [idle]);
    }
}

#[test]
fn messages_behind_a_long_one_come_behind_it() {
    // The requests leave at 100 and 200, and the small message at 300. It comes at 1340.
    let requests = [100, 200].map(|leaves| leaves + 1000 + 32);
    let answered = [requests[0] + 250, requests[0] + 2 * 250];
    let answers = answered.map(|leaves| leaves + 1000 + 32);
    assert!(requests[1] < answered[0] && answers[1] == answers[0] + 250);
    // Both messages of 1000 bytes have been asked for before the first has left. The second waits for the way.
    let first = answers[0] + 250 + 1000 + 1000;
    let second = first + 1000;
    // The small one is handled before the shard looks at the second.
    let last = second + 150 + 150;
    assert_eq!(arrive(Some(500), 0, &[121, 121, 1], [0, 0]), [first + 150, last, last]);
    // Before a long one it waits for nothing. The request that comes meanwhile is handled before the shard looks.
    assert_eq!(arrive(Some(500), 0, &[1, 121], [0, 0])[0], 100 + 1000 + 40 + 150 + 250);
}

#[test]
fn values_are_the_same_by_rendezvous() {
    assert_eq!(ring(600, 0, Some(4832)), ring(600, 0, None));
    for rendezvous in [4831, 100, 0] {
        assert!(ring(600, 0, Some(rendezvous)) > ring(600, 0, None) + 3 * 1000);
    }
}

/// When a task on node 1 begins that reads 100,000 bytes from node 0.
fn moves(rendezvous_bytes: Option<u64>, sharing: bool) -> u64 {
    let network = Link { latency_ns: 1000.0, send_ns: 100.0, receive_ns: 150.0, byte_ns: 1.0, ..Link::default() };
    let machine = VirtualMachine { nodes: 2, network, sharing, rendezvous_bytes, ..VirtualMachine::default() };
    let came = run("moves", &Runtime::virtual_time(machine), |top| async move {
        let all = top.region(top.region_tree("all", Rect::line(0, 12_500), &[U.info()])?)?;
        let first = |u: Read<u64>| (u.get([0]), now().as_nanos() as u64);
        top.fill(all.write(U), 7).on(NodeId(0)).go()?.detach();
        top.launch(first, (all.read(U),)).on(NodeId(1)).go()?.await
    });
    let (value, began) = came.unwrap();
    assert_eq!(value, 7);
    began
}

#[test]
fn large_values_move_by_rendezvous_whether_they_share_ways_or_not() {
    for sharing in [false, true] {
        let at_once = moves(None, sharing);
        assert_eq!(moves(Some(200_000), sharing), at_once);
        // A request and an answer.
        assert_eq!(moves(Some(90_000), sharing), at_once + 2 * (100 + 1000 + 32 + 150));
    }
}

/// The request and the answer of a long message don't wait for another long message that is on its way.
#[test]
fn long_messages_in_both_directions_do_not_wait_for_each_other() {
    async fn shard(shard: Shard, edges: Edges<u64>) -> Result<u64, Error> {
        let me = shard.index();
        let (out, into) = (edges.producer(&shard, 1 - me)?, edges.consumer(&shard, 1 - me)?);
        let began = now();
        let never = std::future::pending::<Result<(), Error>>();
        let late = Duration::from_micros(50) * me;
        shard.timeout(late, never).await.expect_err("it is over");
        shard.launch(|mut to: Put<u64>| to.fill(7), (out.put(12_500),)).go()?.detach();
        let came = shard.launch(|came: Get<u64>| assert_eq!(came.len(), 12_500), (into.get(),)).go()?;
        came.await?;
        Ok((now() - began).as_nanos() as u64)
    }
    let network = Link { latency_ns: 1000.0, send_ns: 100.0, receive_ns: 150.0, byte_ns: 1.0, ..Link::default() };
    let machine = VirtualMachine { nodes: 2, network, rendezvous_bytes: Some(90_000), ..VirtualMachine::default() };
    let all = run("both", &Runtime::virtual_time(machine), |top| async move {
        let gang = top.gang("both", 2)?;
        let edges = top.edges("both", &gang, [(0, 1), (1, 0)], 1)?;
        top.launch_gang(&gang, &top.register("shard", shard), move |_| ShardLaunch::new(edges))?.all().await
    });
    // A request, an answer, and the data, from the time at which it is put.
    let takes = 3 * (100 + 1000 + 32 + 150) + 100_000;
    let [first, second] = all.unwrap()[..] else { panic!("two shards") };
    // They don't begin at the very same time.
    for (took, expected) in [(first, 50_000 + takes), (second, takes)] {
        assert!((expected..expected + 1000).contains(&took), "{took} ns, expected {expected}");
    }
}
