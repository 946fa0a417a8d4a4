//! Values whose tasks decide their length, and messages of shards: any mix of ways to send and to receive, beside the words
//! that each message has by its number; where the elements lie; failures.

use super::runtimes;
use crate::common::{mix, run};
use maniple_runtime::{
    Arg, Edges, Error, Get, Link, Many, Put, PutVec, Runtime, Shard, ShardLaunch, TaskFuture, VirtualMachine,
};
use std::collections::BTreeSet;
use std::time::Duration;

const STEPS: u64 = 12;

/// A message of a seed: who sends it, and in which step.
type Message = (u64, u32, u64);

fn draw((seed, from, step): Message, what: u64) -> u64 {
    mix(seed ^ mix(what) ^ mix(u64::from(from) << 32 | step))
}

/// The words of a message. Some are none, some fit the record of an arrival.
fn words(message: Message) -> Vec<u128> {
    let length = [0, 1, 3, 40, 1000][draw(message, 1) as usize % 5];
    (0..length).map(|i| u128::from(draw(message, 100 + i)) << 60).collect()
}

fn put(mut out: Put<u128>, message: Arg<Message>) {
    out.copy_from_slice(&words(*message));
}

fn put_vec(mut out: PutVec<u128>, message: Arg<Message>) {
    assert!(out.is_empty(), "a vector is empty at first");
    out.extend(words(*message));
}

fn put_some(mut out: Many<Option<PutVec<u128>>>, message: Arg<Message>) {
    out.iter_mut().flatten().for_each(|out| **out = words(*message));
}

/// Each shard sends to the next one and receives from the one before, in a way drawn for each step. Tells how many messages were
/// wrong.
async fn ring(shard: Shard, (seed, ring, how_far): (u64, Edges<u128>, u64)) -> Result<usize, Error> {
    let (me, all) = (shard.index(), shard.shards());
    let (to, previous) = (ring.producer(&shard, (me + 1) % all)?, (me + all - 1) % all);
    let from = ring.consumer(&shard, previous)?;
    let mut got: Vec<(u64, TaskFuture<Vec<u128>>)> = Vec::new();
    let mut wrong = 0;
    for step in 0..STEPS + how_far {
        if step < STEPS {
            let message = (seed, me, step);
            match draw(message, 2) % 5 {
                0 => shard.launch(put, (to.put(words(message).len()), message.into())).go()?.detach(),
                1 => shard.launch(put_vec, (to.put_vec(), message.into())).go()?.detach(),
                2 => {
                    let some = [None, Some(to.put_vec())].into_iter().collect();
                    shard.launch(put_some, (some, message.into())).go()?.detach();
                }
                3 => shard.send(&to, words(message))?.detach(),
                _ => shard.send(&to, maniple_regions::Vector::from(words(message)))?.await?,
            }
        }
        let Some(step) = step.checked_sub(how_far) else { continue };
        let message = (seed, previous, step);
        match draw(message, 3) % 2 {
            0 => got.push((step, shard.launch(|came: Get<u128>| came.to_vec(), (from.get(),)).go()?)),
            _ => wrong += usize::from(shard.receive(&from).await? != words(message)),
        }
    }
    for (step, got) in got {
        wrong += usize::from(got.await? != words((seed, previous, step)));
    }
    Ok(wrong)
}

#[test]
pub(super) fn messages_of_any_length_are_sent_and_received_in_any_way() {
    for (number, (name, runtime)) in (0u64..).zip(runtimes(60)) {
        let shards = [1, 2, 3, 7][number as usize % 4];
        let how_far = number % 3;
        let at = format!("{shards} shards, {how_far} steps ahead, {name}");
        let wrong = run(&at, &runtime, move |top| async move {
            let gang = top.gang("ring", shards)?;
            let edges = (0..shards).map(|s| (s, (s + 1) % shards));
            // One more than it is ahead: a shard awaits some of what it sends.
            let edges = top.edges("ring", &gang, edges, how_far as u32 + 1)?;
            let start = |_| ShardLaunch::new((number, edges, how_far));
            top.launch_gang(&gang, &top.register("ring", ring), start)?.all().await
        });
        assert_eq!(wrong, Ok(vec![0; shards as usize]), "{at}");
    }
}

/// One vector for several consumers, and for none.
#[test]
pub(super) fn a_vector_may_be_for_several() {
    async fn shard(shard: Shard, edges: Edges<u32>) -> Result<Vec<u32>, Error> {
        let (incoming, outgoing) = (edges.incoming(&shard)?, edges.outgoing(&shard)?);
        let mut sums = Vec::new();
        for round in 0..20u32 {
            let fill = |mut out: PutVec<u32>, round: Arg<u32>| out.resize(*round as usize, *round);
            shard.launch(fill, (PutVec::to(&outgoing), round.into())).go()?.detach();
            for from in &incoming {
                sums.push(shard.receive(from).await?.iter().sum());
            }
        }
        Ok(sums)
    }
    for (name, runtime) in runtimes(20) {
        let came = run(&name, &runtime, |top| async move {
            let gang = top.gang("all", 3)?;
            let edges = top.edges("edges", &gang, [(0, 1), (0, 2), (0, 0)], 2)?;
            top.launch_gang(&gang, &top.register("several", shard), |_| ShardLaunch::new(edges))?.all().await
        });
        let squares: Vec<u32> = (0..20).map(|round| round * round).collect();
        assert_eq!(came.expect(&name), vec![squares; 3], "{name}");
    }
}

/// Within a node the receiver has the elements where the sender has put them. The memory of a `PutVec` comes back.
#[test]
fn elements_stay_where_they_are() {
    async fn shard(shard: Shard, edges: Edges<u64>) -> Result<usize, Error> {
        let (to, from) = (edges.producer(&shard, 0)?, edges.consumer(&shard, 0)?);
        let own: Vec<u64> = (0..100).collect();
        let at = own.as_ptr() as usize;
        shard.send(&to, own)?.await?;
        let came = shard.receive(&from).await?;
        assert_eq!(came.as_ptr() as usize, at);
        let came = came.into_vec();
        assert_eq!((came.as_ptr() as usize, came.len()), (at, 100));
        // Short values are copied into their arrivals, and the vector is free at once.
        let mut short = Vec::new();
        for number in 0..3u64 {
            let put = |mut out: PutVec<u64>, number: Arg<u64>| {
                out.push(*number);
                out.as_ptr() as usize
            };
            let place = shard.launch(put, (to.put_vec(), number.into())).go()?.await?;
            short.push((shard.receive(&from).await?, place));
        }
        assert!((0u64..).zip(&short).all(|(number, (came, place))| *came == [number] && *place == short[0].1));
        let mut places = BTreeSet::new();
        for round in 0..1000usize {
            let fill = |mut out: PutVec<u64>, round: Arg<usize>| {
                out.extend((0..4 + *round % 100).map(|i| i as u64));
                out.as_ptr() as usize
            };
            let place = shard.launch(fill, (to.put_vec(), round.into())).go()?.await?;
            let get = |came: Get<u64>| (came.as_ptr() as usize, came.len());
            let (seen, len) = match round % 2 {
                0 => shard.launch(get, (from.get(),)).go()?.await?,
                _ => {
                    let came = shard.receive(&from).await?;
                    (came.as_ptr() as usize, came.len())
                }
            };
            assert_eq!((seen, len), (place, 4 + round % 100));
            if round >= 200 {
                places.insert(place);
            }
        }
        Ok(places.len())
    }
    for workers in 1..=2 {
        let (places, _) = Runtime::threads(workers)
            .run(|top| async move {
                let gang = top.gang("one", 1)?;
                let edges = top.edges("own", &gang, [(0, 0)], 1)?;
                top.launch_gang(&gang, &top.register("places", shard), |_| ShardLaunch::new(edges))?.all().await
            })
            .unwrap();
        // Long values grow the vectors of the first rounds, and then none is allocated any more.
        assert!(places[0] <= 2, "{places:?} places on {workers}");
    }
}

/// `send` does not wait, and its future ends when there is a buffer. A message that has not been received stays for the next wait.
#[test]
pub(super) fn a_message_waits_for_a_buffer_and_for_its_receiver() {
    async fn shard(shard: Shard, edges: Edges<u8>) -> Result<Vec<u8>, Error> {
        if shard.index() == 0 {
            let to = edges.producer(&shard, 1)?;
            let mut sent = Vec::new();
            for number in 0..5u8 {
                sent.push(shard.send(&to, vec![number; 100])?);
            }
            for sent in sent.iter_mut().take(2) {
                sent.await?;
            }
            // The third waits until the first has been received, which is after the signal.
            let late = shard.timeout(Duration::ZERO, &mut sent[2]).await;
            assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
            let own = edges.producer(&shard, 2)?;
            shard.send(&own, [7].to_vec())?.await?;
            for sent in sent {
                sent.await?;
            }
            return Ok(Vec::new());
        }
        let from = edges.consumer(&shard, if shard.index() == 1 { 2 } else { 0 })?;
        if shard.index() == 2 {
            let signal = shard.receive(&from).await?;
            shard.send(&edges.producer(&shard, 1)?, signal)?.await?;
            return Ok(Vec::new());
        }
        let early = shard.timeout(Duration::ZERO, shard.receive(&from)).await;
        assert!(matches!(early, Err(Error::TimedOut { .. }) | Ok(_)), "{early:?}");
        let mut all = early.map_or(Vec::new(), |signal| signal.into_vec());
        if all.is_empty() {
            all = shard.receive(&from).await?.into_vec();
        }
        let from = edges.consumer(&shard, 0)?;
        for _ in 0..5 {
            all.push(shard.receive(&from).await?[99]);
        }
        Ok(all)
    }
    for (name, runtime) in runtimes(30) {
        let came = run(&name, &runtime, |top| async move {
            let gang = top.gang("three", 3)?;
            let edges = top.edges("edges", &gang, [(0, 1), (0, 2), (2, 1)], 2)?;
            top.launch_gang(&gang, &top.register("waits", shard), |_| ShardLaunch::new(edges))?.all().await
        });
        assert_eq!(came.expect(&name)[1], [7, 0, 1, 2, 3, 4], "{name}");
    }
}

/// The receiver learns why nothing comes, and the sender why nobody takes it.
#[test]
pub(super) fn failures_reach_both_ends() {
    async fn shard(shard: Shard, (edges, who): (Edges<u64>, u32)) -> Result<String, Error> {
        let said = |e: Error| {
            let told = e.to_string();
            format!("{told} ({})", e.origin())
        };
        match (shard.index(), who) {
            // The task fails that should have put a value.
            (0, 0) => {
                let fails = |out: PutVec<u64>| assert!(!out.is_empty(), "no value");
                let put = shard.launch(fails, (edges.producer(&shard, 1)?.put_vec(),)).go()?;
                put.await.map(|()| String::new()).or_else(|e| Ok(said(e)))
            }
            // The shard fails before it has sent.
            (0, 1) => Err(Error::user("no value")),
            (1, 2) => Err(Error::user("no value")),
            (0, _) => {
                let to = edges.producer(&shard, 1)?;
                shard.send(&to, vec![1])?.await?;
                shard.send(&to, vec![2])?.await.map(|()| String::new()).or_else(|e| Ok(said(e)))
            }
            _ => {
                let from = edges.consumer(&shard, 0)?;
                shard.receive(&from).await.map(|_| String::new()).or_else(|e| Ok(said(e)))
            }
        }
    }
    for who in 0..3 {
        for (name, runtime) in runtimes(12) {
            let at = format!("{who}, {name}");
            let came = run(&at, &runtime, move |top| async move {
                let gang = top.gang("two", 2)?;
                let edges = top.edges("edge", &gang, [(0, 1)], 1)?;
                let shards =
                    top.launch_gang(&gang, &top.register("fails", shard), |_| ShardLaunch::new((edges, who)))?;
                let mut said = Vec::new();
                for shard in shards.iter() {
                    said.push(shard.clone().await.unwrap_or_else(|e| format!("shard: {e}")));
                }
                Ok(said)
            });
            let came = came.expect(&at);
            assert!(came.iter().all(|said| said.contains("no value")), "{at}: {came:?}");
        }
    }
}

/// An arrival without a value is an error of the receiver.
#[test]
pub(super) fn a_message_without_a_value_is_an_error() {
    async fn shard(shard: Shard, edges: Edges<u64>) -> Result<String, Error> {
        shard.arrive(edges.producer(&shard, 0)?.ready());
        let nothing = shard.receive(&edges.consumer(&shard, 0)?).await.expect_err("no value");
        // The arrival took no buffer, so one message still has one.
        shard.send(&edges.producer(&shard, 0)?, vec![1])?.await?;
        let next = shard.send(&edges.producer(&shard, 0)?, vec![1])?.await.expect_err("its buffer is never free");
        Ok(format!("{nothing}; {next}"))
    }
    for (name, runtime) in runtimes(12) {
        let came = run(&name, &runtime, |top| async move {
            let gang = top.gang("one", 1)?;
            let edges = top.edges("half", &gang, [(0, 0)], 1)?;
            top.launch_gang(&gang, &top.register("half", shard), |_| ShardLaunch::new(edges))?.all().await
        });
        let said = came.expect(&name).remove(0);
        let both = said.matches("generation 0 came without a value").count() == 2;
        assert!(both && said.contains("`half` ready of edge shard 0 -> shard 0"), "{name}: {said}");
    }
}

/// In virtual time a message takes the time of its bytes, also where its elements stand for others.
#[test]
fn messages_take_the_time_of_their_bytes() {
    async fn shard(shard: Shard, (edges, how): (Edges<u64>, u32)) -> Result<u64, Error> {
        let began = maniple_runtime::now();
        if shard.index() == 0 {
            let to = edges.producer(&shard, 1)?;
            match how {
                0 => shard.launch(|mut out: Put<u64>| out.fill(1), (to.put(1000),)).takes(Duration::ZERO).go()?,
                1 => {
                    let fill = |mut out: PutVec<u64>| out.resize(1000, 1);
                    shard.launch(fill, (to.put_vec(),)).takes(Duration::ZERO).go()?
                }
                _ => shard.send(&to, vec![1; 1000])?,
            }
            .await?;
            return Ok(0);
        }
        shard.receive(&edges.consumer(&shard, 0)?).await?;
        Ok((maniple_runtime::now() - began).as_nanos() as u64)
    }
    let network = Link { latency_ns: 500.0, byte_ns: 2.0, ..Link::default() };
    for stands_for in [8, 80] {
        let took = [0, 1, 2].map(|how| {
            let machine = VirtualMachine { nodes: 2, per_node: 1, network, ..VirtualMachine::default() };
            let came = run("two nodes", &Runtime::virtual_time(machine), move |top| async move {
                let gang = top.gang("two", 2)?;
                let edges = top.edges_standing_for("edge", &gang, [(0, 1)], 1, stands_for)?;
                top.launch_gang(&gang, &top.register("sends", shard), |_| ShardLaunch::new((edges, how)))?.all().await
            });
            came.expect("two shards")[1]
        });
        let bytes = 2 * 1000 * stands_for as u64;
        assert!(took.iter().all(|ns| (bytes..bytes + 5000).contains(ns)), "{took:?} ns for {bytes}");
    }
}
