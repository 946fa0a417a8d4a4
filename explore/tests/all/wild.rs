//! A mapper that may answer anything: a program gives what it gives under any other, or an error that says what the mapper
//! did.

use maniple::prelude::*;
use maniple_explore::Wild;
use std::sync::Arc;

/// Sums of numbers that every grouping adds up to other bits, of integers, and the least of floats.
type Totals = (Collective<f64>, Collective<u64>, Collective<f64>);

async fn shard(shard: Shard, (sum, exact, least): Totals) -> Result<(u64, u64, u64), Error> {
    let x = f64::from(shard.index() + 1).sqrt() * 10f64.powi(shard.index() as i32 % 9 - 4);
    let (a, b, c) = (sum.call(&shard, x)?, exact.call(&shard, x.to_bits())?, least.call(&shard, x)?);
    Ok((a.await?.to_bits(), b.await?, c.await?.to_bits()))
}

fn totals(runtime: &Runtime, shards: u32) -> Result<Vec<(u64, u64, u64)>, Error> {
    let program = move |top: Top| async move {
        let gang = top.gang("all", shards)?;
        let sum = Collective::allreduce(Operator::sum()).make(&top, &gang, "sum")?;
        let exact = Collective::allreduce(Operator::sum()).make(&top, &gang, "exact")?;
        let least = Collective::allreduce(Operator::min()).make(&top, &gang, "least")?;
        let task = top.register("shard", shard);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((sum, exact, least)))?.all().await
    };
    runtime.run(program).map(|r| r.0)
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_wild_mapper_of_collectives_is_blamed() {
    let (mut blamed, mut ended) = (0, 0);
    for seed in 0..600_u64 {
        let (shards, n) = (1 + (seed * 7 % 13) as u32, 1 + (seed % 4) as u32);
        let wild = Arc::new(Wild::new(seed));
        let runtime = if seed % 6 == 0 { Runtime::threads(n) } else { Runtime::seeded(n, seed).most_steps(100_000) };
        let at = format!("{shards} shards, wild mapper {seed}, {n} processors");
        match totals(&runtime.mapper(wild.clone()), shards) {
            Ok(came) => {
                assert_eq!(Ok(came), totals(&Runtime::seeded(1, 0), shards), "{at}");
                assert_eq!(wild.strikes(), 0, "unpunished: {at}");
                ended += 1;
            }
            Err(e) => {
                assert!(wild.owns(&e), "{at}: {e}\n{wild:?}");
                blamed += 1;
            }
        }
    }
    assert!(blamed > 100 && ended > 100, "{blamed} blamed, {ended} ended");
}
