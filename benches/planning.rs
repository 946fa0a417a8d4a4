//! The time that it takes to plan collectives of many shards on one node, a shard: until the object is made, and until all
//! shards have made their first call. The second one contains the launch of the shards.
//!
//! ```text
//! cargo bench -p maniple-benches --bench planning
//! ```

use maniple_collectives::{Algorithm, Collective, CollectiveBuilder, Operator, Plan};
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
use std::time::{Duration, Instant};

/// The times of making a collective of some shards, and of its first call.
fn planned(shards: u32, of: fn() -> CollectiveBuilder<[u64]>, algorithm: Algorithm) -> [Duration; 2] {
    let run = Runtime::threads(2).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let start = Instant::now();
        let all = of().algorithm(algorithm).make(&top, &gang, "all")?;
        let made = start.elapsed();
        let task = top.register("call", move |shard: Shard, all: Collective<[u64]>| async move {
            // A block for each shard, or one element. In a broadcast the others only receive.
            let blocks = matches!(algorithm, Algorithm::Bruck | Algorithm::Halving);
            let mine = vec![1; if blocks { shard.shards() as usize } else { 1 }];
            let call = if shard.index() == 0 || !matches!(algorithm, Algorithm::Binomial) {
                all.call(&shard, mine)?
            } else {
                all.receive(&shard)?
            };
            call.await.map(drop)
        });
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(all))?.all().await?;
        Ok([made, start.elapsed()])
    });
    run.expect("a run").0
}

/// The same for two reductions in a plan.
fn balanced(shards: u32) -> Result<Duration, Error> {
    let run = Runtime::threads(2).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let start = Instant::now();
        let sum = |to: u32| Collective::reduce(Operator::<u64>::sum(), [to]);
        Plan::make(&top, &gang, (("first", sum(0)), ("last", sum(shards - 1))))?;
        Ok(start.elapsed())
    });
    run.map(|(took, _)| took)
}

fn main() {
    let (shards, rounds) = if maniple_benches::is_test() { (16, 1) } else { (4096, 5) };
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6 / f64::from(shards)
    };
    type Make = fn() -> CollectiveBuilder<[u64]>;
    let allreduce: Make = || Collective::allreduce(Operator::<u64>::sum()).elements(1);
    let of: [(&str, Make, Algorithm); 9] = [
        ("allreduce", allreduce, Algorithm::RecursiveDoubling),
        ("allreduce", allreduce, Algorithm::TwoLevel),
        ("allreduce", allreduce, Algorithm::Radix(4)),
        ("allreduce", allreduce, Algorithm::Dissemination(3)),
        ("allreduce", allreduce, Algorithm::FiveCases(3)),
        ("scan", || Collective::scan(Operator::<u64>::sum()).elements(1), Algorithm::RecursiveDoubling),
        ("reduce-scatter", || Collective::reduce_scatter(Operator::<u64>::sum()).elements(1), Algorithm::Halving),
        ("broadcast", || Collective::<u64>::broadcast(0).elements(1), Algorithm::Binomial),
        ("all-to-all", || Collective::<u64>::all_to_all().elements(1), Algorithm::Bruck),
    ];
    for (kind, make, algorithm) in of {
        let times: Vec<_> = (0..rounds).map(|_| planned(shards, make, algorithm)).collect();
        let [made, called] = [0, 1].map(|what| median(times.iter().map(|both| both[what]).collect()));
        println!("{kind} by {algorithm}, {shards} shards: {made:.2} µs a shard, {called:.2} with the first call");
    }
    let times = (0..rounds).map(|_| balanced(shards).expect("a plan")).collect();
    println!("a plan of two reductions, {shards} shards: {:.2} µs a shard", median(times));
}
