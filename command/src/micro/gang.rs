//! `maniple gang`.

use super::{OnWorkersTraced, SHARD_BYTES, now, run_error};
use crate::Failure;
use crate::options::Shards;
use crate::options::help::{cache_line_column, exit_codes, machine_columns};
use crate::options::numbers::{at_least_one, check_memory, count};
use crate::output::field;
use maniple::prelude::*;
use maniple::runtime::Driver;
use maniple_stencil::plural;

/// Measure the launch of a gang, up to the first instruction of its last shard
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Columns of the report:\n",
    machine_columns!(),
    "  launch_us       time from a launch to the first instruction of its last shard: the mean of all launches
  per_shard_us    launch_us divided by the number of shards
  verified        whether each launch started every shard once
",
    cache_line_column!(),
    "\n",
    exit_codes!()
))]
#[command(mut_arg("shards", |arg| arg.default_value("4096")))]
pub struct GangOptions {
    #[command(flatten)]
    shards: Shards,

    /// Launches of each run, one after the other. One comes before them to warm up
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count, allow_negative_numbers = true)]
    launches: usize,

    #[command(flatten)]
    bench: OnWorkersTraced,
}

/// Returns the shard that started, and the time.
async fn started(shard: Shard, _: ()) -> Result<(u32, u64), Error> {
    let at = now();
    Ok((shard.index(), at))
}

/// Does one run. Returns the nanoseconds of a launch, and whether each launch started every shard once.
pub fn measure(runtime: &Runtime, shards: u32, launches: usize) -> Result<(f64, bool), Failure> {
    // Each of several processes has its own launch, and the shards of the others may start before it.
    let one = !matches!(runtime.driver(), Driver::Processes { .. } | Driver::Mpi { .. });
    let outcome = runtime.run(move |top| async move {
        let (gang, task) = (top.gang("all", shards)?, top.register("started", started));
        let (mut ns, mut verified) = (0, true);
        for launch in 0..=launches {
            let start = now();
            let all = top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?;
            verified &= all.iter().map(|(shard, _)| *shard).eq(0..shards);
            verified &= !one || all.iter().all(|(_, at)| *at >= start);
            if launch > 0 {
                ns += all.iter().map(|(_, at)| *at).max().unwrap_or(start).saturating_sub(start);
            }
        }
        Ok((ns, verified))
    });
    let ((ns, verified), _) = outcome.map_err(run_error)?;
    Ok((ns as f64 / launches as f64, verified))
}

/// Measures and reports.
pub fn execute(args: &GangOptions) -> Result<(), Failure> {
    let (shards, launches) = (args.shards.number()?, at_least_one("launches", args.launches)?);
    check_memory(&plural(shards as usize, "shard"), shards as usize, SHARD_BYTES)?;
    let (bench, workers, runtime) = args.bench.bench("gang", args.shards.shards)?;
    bench.with_yardstick()?.report_on(
        &runtime,
        |runtime| measure(runtime, shards, launches),
        |(ns, verified), cache_line_ns| {
            let fields = vec![
                field("shards", shards),
                field("workers", workers),
                field("launches", launches),
                field("mapper", args.bench.on.mapper.name()),
                field("verified", verified),
                field("launch_us", ns / 1000.0),
                field("per_shard_us", ns / 1000.0 / f64::from(shards)),
                field("cache_line_ns", cache_line_ns),
            ];
            (fields, verified)
        },
    )
}
