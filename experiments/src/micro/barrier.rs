//! `maniple barrier`.

use super::{Common, OnWorkers, SHARD_BYTES, Traced, check_memory, field, now, repeat, run_error, shards};
use crate::Failure;
use maniple::prelude::*;

/// The most shards: each arrival looks for its shard in the list of all, so that more would take hours.
const MOST: u32 = 1 << 20;

/// What a shard's part of the barrier takes up, beside the shard.
const PART_BYTES: u128 = 400;

/// A phase barrier of all shards, one generation after the other
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The reports say:
  machine, nodes  in virtual time: the machine's name, and its nodes
  barrier_us      time of a generation, from a shard's arrival until it has heard of the others': of all after those to warm \
up, on the shard that took longest, divided by their number
  verified        whether in every generation every shard found all to have arrived
  exchange_ns     the exchange of a cache line between two threads right after the run, one way: the yardstick that \
`maniple exchange` measures; in virtual time a message of 32 bytes on the machine's link; none with one processor

Exit codes: 0, every run was verified; 1, one was not, or failed, or the report could not be written; 2, the arguments are at fault.")]
pub struct Args {
    /// Shards, at most 1048576
    #[arg(long, value_name = "P", default_value_t = 16, value_parser = crate::count, allow_negative_numbers = true)]
    shards: usize,

    /// Generations a run, after a tenth as many to warm up
    #[arg(long, value_name = "I", default_value_t = 1000, value_parser = crate::count, allow_negative_numbers = true)]
    iterations: usize,

    #[command(flatten)]
    on: OnWorkers,

    #[command(flatten)]
    traced: Traced,

    #[command(flatten)]
    common: Common,
}

/// Passes the generations; how many shards each found to have arrived is added up, beside the nanoseconds it took.
async fn pass(shard: Shard, (all, warm_up, iterations): (PhaseBarrier, u64, u64)) -> Result<(u64, u64), Error> {
    let (arrive, wait) = (all.arriver(&shard)?, all.waiter(&shard)?);
    let (mut sum, mut start) = (0, 0);
    for generation in 0..warm_up + iterations {
        if generation == warm_up {
            start = now();
        }
        shard.arrive_with(&arrive, 1);
        sum += shard.wait_value(&wait).await?;
    }
    Ok((sum, now() - start))
}

/// Measures and reports.
pub fn execute(args: &Args) -> Result<(), Failure> {
    let shards = shards(args.shards)?;
    let iterations = super::at_least_one("iterations", args.iterations)? as u64;
    let warm_up = iterations.div_ceil(10);
    if shards > MOST {
        return Err(Failure::Usage(format!("expected at most {MOST} shards for a barrier, found {shards}")));
    }
    check_memory("shards", shards as usize, SHARD_BYTES + PART_BYTES)?;
    let (workers, runtime) = args.on.runtime(args.shards, &args.traced)?;
    let exchange_ns = args.on.yardstick_ns(args.shards)?;
    let machine = args.on.workers.machine(args.shards)?;
    repeat(&args.common, machine.as_ref(), |_| {
        let outcome = runtime.run(move |top| async move {
            let gang = top.gang("all", shards)?;
            let all = top.phase_barrier("all", &gang, PhaseOptions::all(&gang).reduce(|a, b| a + b))?;
            let task = top.task("pass", pass);
            top.launch(&gang, &task, |_| Start::new((all, warm_up, iterations)))?.all().await
        });
        let (results, _) = outcome.map_err(run_error)?;
        let verified = results.iter().all(|r| r.0 == u64::from(shards) * (warm_up + iterations));
        let ns = results.iter().map(|r| r.1).max().unwrap_or(0) as f64 / iterations as f64;
        let record = vec![
            field("program", "barrier"),
            field("wire", args.on.workers.wire.name()),
            field("machine", machine.as_ref().map(|m| &*m.name)),
            field("nodes", machine.as_ref().map(|m| m.nodes)),
            field("shards", shards),
            field("workers", workers),
            field("iterations", iterations),
            field("mapper", args.on.mapper.name()),
            field("verified", verified),
            field("barrier_us", ns / 1000.0),
            field("exchange_ns", exchange_ns()),
        ];
        Ok((record, verified))
    })
}
