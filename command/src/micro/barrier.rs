//! `maniple barrier`.

use super::{OnWorkersTraced, SHARD_BYTES, now, run_error};
use crate::Failure;
use crate::options::help::{cache_line_column, exit_codes, machine_columns};
use crate::options::numbers::check_memory;
use crate::options::{Iterations, Shards};
use crate::output::field;
use maniple::prelude::*;
use maniple_stencil::plural;

/// The most shards. Each arrival looks for its shard in the list of all, so more shards would take hours.
const MOST: u32 = 1 << 20;

/// The bytes of a shard's part of the barrier, beside the shard.
const PART_BYTES: u128 = 400;

/// Measure a phase barrier of all shards, one generation after the other
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Columns of the report:\n",
    machine_columns!(),
    "  barrier_us      time of a generation, on the shard that took longest, from its arrival until all others have arrived: \
the mean of all generations after the warm-up
  verified        whether every shard counted all arrivals in every generation
",
    cache_line_column!(),
    "\n",
    exit_codes!()
))]
#[command(mut_arg("shards", |arg| arg.help("Number of shards, at most 1048576")))]
#[command(mut_arg("iterations", |arg| {
    arg.default_value("1000").help("Generations of each run. A tenth as many come before them to warm up")
}))]
pub struct BarrierOptions {
    #[command(flatten)]
    shards: Shards,

    #[command(flatten)]
    iterations: Iterations,

    #[command(flatten)]
    bench: OnWorkersTraced,
}

/// Passes the generations. Returns the sum of arrivals over all generations, and the nanoseconds of the measured ones.
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
pub fn execute(args: &BarrierOptions) -> Result<(), Failure> {
    let shards = args.shards.number()?;
    let iterations = args.iterations.number()? as u64;
    let warm_up = iterations.div_ceil(10);
    if shards > MOST {
        return Err(Failure::Usage(format!("expected at most {MOST} shards for a barrier, found {shards}")));
    }
    check_memory(&plural(shards as usize, "shard"), shards as usize, SHARD_BYTES + PART_BYTES)?;
    let (bench, workers, runtime) = args.bench.bench("barrier", args.shards.shards)?;
    let measure = |runtime: &Runtime| {
        let outcome = runtime.run(move |top| async move {
            let gang = top.gang("all", shards)?;
            let all = top.phase_barrier("all", &gang, PhaseOptions::all(&gang).reduce(Operator::<u64>::sum()))?;
            let task = top.register("pass", pass);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new((all, warm_up, iterations)))?.all().await
        });
        Ok(outcome.map_err(run_error)?.0)
    };
    bench.with_yardstick()?.report_on(&runtime, measure, |results, cache_line_ns| {
        let verified = results.iter().all(|r| r.0 == u64::from(shards) * (warm_up + iterations));
        let ns = results.iter().map(|r| r.1).max().unwrap_or(0) as f64 / iterations as f64;
        let fields = vec![
            field("shards", shards),
            field("workers", workers),
            field("iterations", iterations),
            field("mapper", args.bench.on.mapper.name()),
            field("verified", verified),
            field("barrier_us", ns / 1000.0),
            field("cache_line_ns", cache_line_ns),
        ];
        (fields, verified)
    })
}
