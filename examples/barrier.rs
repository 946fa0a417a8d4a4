//! A phase barrier of all shards that carries a reduction, and one with few arrivers and many waiters.

use maniple::prelude::*;
mod common;

const GENERATIONS: u64 = 500;

async fn shard(shard: Shard, (all, first): (PhaseBarrier, PhaseBarrier)) -> Result<Vec<u64>, Error> {
    let (arrive, wait) = (all.arriver(&shard)?, all.waiter(&shard)?);
    let mine = u64::from(shard.index()) + 1;
    let mut sums = Vec::new();
    for generation in 0..GENERATIONS {
        // An arrival never waits. The shard could do other work before it asks for the result.
        shard.arrive_with(&arrive, mine * generation);
        sums.push(shard.wait_value(&wait).await?);
    }
    // Only shard 0 arrives at this one; a handle is refused to the others.
    if shard.index() == 0 {
        shard.arrive(&first.arriver(&shard)?);
    } else if first.arriver(&shard).is_ok() {
        return Err(Error::user("a shard that is no arriver got the right to arrive"));
    }
    shard.wait(&first.waiter(&shard)?).await?;
    Ok(sums)
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (sums, _) = Runtime::threads(workers).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        // The fold is applied in the order of the arrivers, wherever the shards run.
        let all = top.phase_barrier("all", &gang, PhaseOptions::all(&gang).reduce(Operator::<u64>::sum()))?;
        let first = top.phase_barrier("first", &gang, PhaseOptions::between([0], 0..shards))?;
        let task = top.register("barrier", shard);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((all, first)))?.all().await
    })?;
    let p = u64::from(shards);
    let expected: Vec<u64> = (0..GENERATIONS).map(|g| g * p * (p + 1) / 2).collect();
    for of_shard in sums {
        common::verify("sum of each generation", &of_shard, &expected)?;
    }
    Ok(format!("{shards} shards passed {GENERATIONS} generations"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
