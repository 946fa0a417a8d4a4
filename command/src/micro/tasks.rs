//! `maniple tasks`.

use super::{OnWorkersTraced, TaskSet, now, run_error};
use crate::Failure;
use crate::options::help::{exit_codes, machine_columns};
use crate::options::numbers::{at_least_one, check_memory, count};
use crate::output::field;
use maniple::prelude::*;
use maniple_stencil::plural;

/// Measure leaf tasks of one shard, from launch to end, on a working set of regions
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Each task is launched, mapped, ordered and run. The tasks take the regions of the working set in turn.\n\n",
    "Columns of the report:\n",
    machine_columns!(),
    "  task_ns         time from the first launch until all tasks are done, divided by the number of tasks
  verified        whether every task ran, and changed each of its regions once

",
    exit_codes!()
))]
pub struct TasksOptions {
    #[command(flatten)]
    set: TaskSet,

    /// Region requirements of each task, 1 to 4
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = count, allow_negative_numbers = true)]
    regions: usize,

    #[command(flatten)]
    bench: OnWorkersTraced,
}

const X: Field<u64> = Field::new(0, "x");

fn add(x: &mut ReadWrite<u64>) {
    x.as_mut_slice()[0] += 1;
}

fn add_1(mut a: ReadWrite<u64>) {
    add(&mut a);
}
fn add_2(mut a: ReadWrite<u64>, mut b: ReadWrite<u64>) {
    add(&mut a);
    add(&mut b);
}
fn add_3(mut a: ReadWrite<u64>, mut b: ReadWrite<u64>, mut c: ReadWrite<u64>) {
    add(&mut a);
    add(&mut b);
    add(&mut c);
}
fn add_4(mut a: ReadWrite<u64>, mut b: ReadWrite<u64>, mut c: ReadWrite<u64>, mut d: ReadWrite<u64>) {
    add(&mut a);
    add(&mut b);
    add(&mut c);
    add(&mut d);
}

fn sum(x: Read<u64>) -> u64 {
    x.as_slice().iter().sum()
}

/// The bytes of a region of the working set at least: its instance, and the records of the shard and of the mapper.
const REGION_BYTES: u128 = 128;

/// Tasks under way before the shard waits for the last of them.
const AHEAD: usize = 1024;

/// Launches the tasks. Returns the sum of all values at the end, and the nanoseconds.
async fn launch(shard: Shard, (line, count, regions): (Region, usize, usize)) -> Result<(u64, u64), Error> {
    let parts = Partition::equal(line, line.rect.volume())?;
    let parts: Vec<RegionView> = parts.iter().map(|r| shard.region(r)).collect::<Result<_, _>>()?;
    let mut next = 0;
    let mut x = || {
        next = if next + 1 < parts.len() { next + 1 } else { 0 };
        parts[next].read_write(X)
    };
    let start = now();
    for task in 1..=count {
        let done = match regions {
            1 => shard.launch(add_1, (x(),)).go()?,
            2 => shard.launch(add_2, (x(), x())).go()?,
            3 => shard.launch(add_3, (x(), x(), x())).go()?,
            _ => shard.launch(add_4, (x(), x(), x(), x())).go()?,
        };
        if task % AHEAD == 0 || task == count {
            done.await?;
        } else {
            done.detach();
        }
    }
    // The last task may be done before others. The sum follows all of them.
    let all = shard.region(line)?;
    let sum = shard.launch(sum, (all.read(X),)).go()?.await?;
    Ok((sum, now() - start))
}

/// Does one run of `count` tasks. Returns the nanoseconds of a task, and whether each changed its regions once.
pub fn measure(runtime: &Runtime, count: usize, regions: usize, set: usize) -> Result<(f64, bool), Failure> {
    let outcome = runtime.run(move |top| async move {
        let line = top.region_tree("line", Rect::line(0, set as i64), &[X.info()])?;
        let (gang, task) = (top.gang("one", 1)?, top.register("tasks", launch));
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((line, count, regions)).writes(line, [X]))?.all().await
    });
    let (results, stats) = outcome.map_err(run_error)?;
    let verified = results[0].0 == (count * regions) as u64 && stats.leaf_tasks == count as u64 + 1;
    Ok((results[0].1 as f64 / count as f64, verified))
}

/// Measures and reports.
pub fn execute(args: &TasksOptions) -> Result<(), Failure> {
    let (count, regions) = (at_least_one("count", args.set.count)?, args.regions);
    if !(1..=4).contains(&regions) {
        return Err(Failure::Usage(format!("--regions: expected 1 to 4 for each task, found {regions}")));
    }
    if args.set.working_set < regions {
        let set = args.set.working_set;
        let least = plural(regions, "region");
        return Err(Failure::Usage(format!("--working-set: expected at least the {least} of a task, found {set}")));
    }
    let set = args.set.working_set;
    check_memory(&plural(set, "region"), set, REGION_BYTES)?;
    let (bench, workers, runtime) = args.bench.bench("tasks", 1)?;
    bench.report_on(
        &runtime,
        |runtime| measure(runtime, count, regions, set),
        |(ns, verified), _| {
            let fields = vec![
                field("workers", workers),
                field("count", count),
                field("regions", regions),
                field("working_set", set),
                field("mapper", args.bench.on.mapper.name()),
                field("verified", verified),
                field("task_ns", ns),
            ];
            (fields, verified)
        },
    )
}
