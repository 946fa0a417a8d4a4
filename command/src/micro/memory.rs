//! `maniple memory`.
//!
//! Every run is a process of its own: memory that one run has given back is used again by the next, and would not count. A
//! small gang goes first, so that code and the runtime's own memory are there before the first look.

use super::{Bench, SHARD_BYTES, run_error};
use crate::Failure;
use crate::host::resident;
use crate::options::help::exit_codes;
use crate::options::numbers::check_memory;
use crate::options::wire::Invocation;
use crate::options::workers::OnWorkers;
use crate::options::{AllreduceAlgorithm, ReportedRuns, Shards, Traced};
use crate::output::field;
use maniple::collectives::{Algorithm, Order};
use maniple::prelude::*;
use maniple_stencil::plural;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};

/// Measure the memory of a shard that waits in an allreduce
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Columns of the report:
  machine, nodes   in virtual time: the name of the machine, and the number of its nodes
  per_shard_bytes  growth of the resident set of a new process, divided by the number of shards. It is measured when all \
shards but one wait in the third of three allreduces of one 64-bit float

", exit_codes!()))]
#[command(mut_arg("shards", |arg| arg.default_value("4096")))]
pub struct MemoryOptions {
    #[command(flatten)]
    shards: Shards,

    #[command(flatten)]
    collective: AllreduceAlgorithm,

    /// Do one run in this process, and print only a number of bytes
    #[arg(long, hide = true)]
    here: bool,

    #[command(flatten)]
    on: OnWorkers,

    #[command(flatten)]
    runs: ReportedRuns,
}

impl MemoryOptions {
    /// Whether another process of this program started this one, for one of its runs.
    pub fn is_part_of_another(&self) -> bool {
        self.here
    }
}

/// The number of shards that have not called yet, and the last shard, which waits for them. It is woken directly, because a
/// barrier would add its own memory to the result.
static MISSING: AtomicU32 = AtomicU32::new(0);
static LAST: Mutex<Option<Waker>> = Mutex::new(None);

/// Calls before the one that is measured: one for each slot of the allreduce, which allocates with its first call.
const WARM_UP: u32 = 2;

/// Waits in an allreduce for the last shard, which first reads the memory used. Returns its answer, and the sum.
async fn wait(shard: Shard, total: Collective<f64>) -> Result<(Option<Result<u64, String>>, f64), Error> {
    for _ in 0..WARM_UP {
        total.call(&shard, 1.0)?.await?;
    }
    let mut found = None;
    let sum = if shard.index() + 1 == shard.shards() {
        std::future::poll_fn(|cx| {
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            if MISSING.load(Ordering::SeqCst) == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        found = Some(resident());
        total.call(&shard, 1.0)?
    } else {
        let sum = total.call(&shard, 1.0)?;
        if MISSING.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(waker) = LAST.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            waker.wake();
        }
        sum
    };
    Ok((found, sum.await?))
}

/// The bytes by which the resident set grows until `shards` shards wait.
fn grown(runtime: &Runtime, shards: u32, algorithm: Algorithm) -> Result<u64, Failure> {
    MISSING.store(shards - 1, Ordering::SeqCst);
    let outcome = runtime.run(move |top| async move {
        let before = resident();
        let gang = top.gang("all", shards)?;
        let total = Collective::allreduce(Operator::sum())
            .algorithm(algorithm)
            .order(Order::Any)
            .slots(WARM_UP)
            .make(&top, &gang, "total")?;
        let task = top.register("wait", wait);
        Ok((before, top.launch_gang(&gang, &task, |_| ShardLaunch::new(total))?.all().await?))
    });
    let ((before, mut all), _) = outcome.map_err(run_error)?;
    if let Some((_, sum)) = all.iter().find(|(_, sum)| *sum != f64::from(shards)) {
        return Err(Failure::Run(format!("not verified: expected the sum {shards}, found {sum}")));
    }
    let waiting = all.pop().and_then(|(found, _)| found).unwrap_or_else(|| Err("the last shard did not look".into()));
    Ok(waiting.map_err(Failure::Run)?.saturating_sub(before.map_err(Failure::Run)?))
}

/// Does one run in a process of its own, with this invocation. Returns the bytes of a shard.
pub fn measure(shards: u32, invocation: &Invocation, algorithm: Algorithm) -> Result<f64, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::Run(format!("can't find this program: {e}")))?;
    let mut command = Command::new(program);
    command.args(["memory", "--here", "--shards", &shards.to_string(), "--collective", algorithm.name()]);
    command.args(&invocation.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let failed = |e| Failure::Run(format!("can't start this program again: {e}"));
    let mut process = command.spawn().map_err(failed)?;
    if let Some(mut input) = process.stdin.take() {
        // A process that does not read it reports the reason itself.
        let _ = input.write_all(invocation.input.as_bytes());
    }
    let output = process.wait_with_output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim().parse::<u64>() {
        Ok(bytes) if output.status.success() => Ok(bytes as f64 / f64::from(shards)),
        _ => Err(Failure::Run(format!("expected a number of bytes from {command:?}, found {}: {text}", output.status))),
    }
}

/// The bytes that a shard with its part of an allreduce takes up at least.
fn shard_bytes(algorithm: Algorithm, shards: u32) -> u128 {
    const ROUND: u128 = 128;
    const IN_PROCESSOR: u128 = 600;
    let part = if algorithm == Algorithm::TwoLevel { IN_PROCESSOR } else { ROUND * u128::from(shards.max(1).ilog2()) };
    SHARD_BYTES + part
}

/// Measures and reports.
pub fn execute(args: &MemoryOptions) -> Result<(), Failure> {
    args.on.workers.wire.in_virtual_time()?;
    let (shards, algorithm) = (args.shards.number()?, args.collective.collective);
    check_memory(&plural(shards as usize, "shard"), shards as usize, shard_bytes(algorithm, shards))?;
    let (workers, runtime, _) = args.on.runtime(args.shards.shards, &Traced::default())?;
    if args.here {
        grown(&runtime, 4, algorithm)?;
        let bytes = grown(&runtime, shards, algorithm)?;
        return crate::output::Stdout::lock().write(&format!("{bytes}\n"));
    }
    let invocation = args.on.invocation()?;
    let bench = Bench::on("memory", &args.on, args.shards.shards, &args.runs)?;
    bench.report(
        || measure(shards, &invocation, algorithm),
        |bytes, _| {
            let fields = vec![
                field("shards", shards),
                field("workers", workers),
                field("collective", algorithm.name()),
                field("mapper", args.on.mapper.name()),
                field("per_shard_bytes", bytes),
            ];
            (fields, true)
        },
    )
}
