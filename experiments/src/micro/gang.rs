//! `maniple gang`.

use super::{Common, OnWorkers, SHARD_BYTES, Traced, check_memory, field, now, repeat, run_error, shards};
use crate::Failure;
use maniple::prelude::*;

/// The launch of a gang, up to the first instruction of its last shard
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The reports say:
  machine, nodes  in virtual time: the machine's name, and its nodes
  launch_us       time from the launch to the first instruction of the last shard, mean of the launches
  per_shard_us    the same divided by the shards
  verified        whether each launch started every shard once
  exchange_ns     the exchange of a cache line between two threads right after the run, one way: the yardstick that \
`maniple exchange` measures; in virtual time a message of 32 bytes on the machine's link; none with one processor

Exit codes: 0, every run was verified; 1, one was not, or failed, or the report could not be written; 2, the arguments are at fault.")]
pub struct Args {
    /// Shards
    #[arg(long, value_name = "P", default_value_t = 4096, value_parser = crate::count, allow_negative_numbers = true)]
    shards: usize,

    /// Launches a run, one after the other, after one to warm up
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = crate::count, allow_negative_numbers = true)]
    launches: usize,

    #[command(flatten)]
    on: OnWorkers,

    #[command(flatten)]
    traced: Traced,

    #[command(flatten)]
    common: Common,
}

/// Who started, and when.
async fn started(shard: Shard, _: ()) -> Result<(u32, u64), Error> {
    let at = now();
    Ok((shard.index(), at))
}

/// One run; nanoseconds a launch, and whether each started every shard once.
pub fn measure(runtime: &Runtime, shards: u32, launches: usize) -> Result<(f64, bool), Failure> {
    let outcome = runtime.run(move |top| async move {
        let (gang, task) = (top.gang("all", shards)?, top.task("started", started));
        let (mut ns, mut verified) = (0, true);
        for launch in 0..=launches {
            let start = now();
            let all = top.launch(&gang, &task, |_| Start::new(()))?.all().await?;
            verified &= all.iter().map(|(shard, _)| *shard).eq(0..shards) && all.iter().all(|(_, at)| *at >= start);
            if launch > 0 {
                ns += all.iter().map(|(_, at)| *at).max().unwrap_or(start) - start;
            }
        }
        Ok((ns, verified))
    });
    let ((ns, verified), _) = outcome.map_err(run_error)?;
    Ok((ns as f64 / launches as f64, verified))
}

/// Measures and reports.
pub fn execute(args: &Args) -> Result<(), Failure> {
    let (shards, launches) = (shards(args.shards)?, super::at_least_one("launches", args.launches)?);
    check_memory("shards", shards as usize, SHARD_BYTES)?;
    let (workers, runtime) = args.on.runtime(args.shards, &args.traced)?;
    let exchange_ns = args.on.yardstick_ns(args.shards)?;
    let machine = args.on.workers.machine(args.shards)?;
    repeat(&args.common, machine.as_ref(), |_| {
        let (ns, verified) = measure(&runtime, shards, launches)?;
        let record = vec![
            field("program", "gang"),
            field("wire", args.on.workers.wire.name()),
            field("machine", machine.as_ref().map(|m| &*m.name)),
            field("nodes", machine.as_ref().map(|m| m.nodes)),
            field("shards", shards),
            field("workers", workers),
            field("launches", launches),
            field("mapper", args.on.mapper.name()),
            field("verified", verified),
            field("launch_us", ns / 1000.0),
            field("per_shard_us", ns / 1000.0 / f64::from(shards)),
            field("exchange_ns", exchange_ns()),
        ];
        Ok((record, verified))
    })
}
