//! `maniple flow`.

use super::{OnWorkersTraced, TaskSet, now, run_error};
use crate::Failure;
use crate::host::resident;
use crate::options::help::{exit_codes, machine_columns};
use crate::options::numbers::{at_least_one, check_memory, count};
use crate::output::field;
use maniple::prelude::*;
use maniple_stencil::plural;
use std::time::{Duration, Instant};

/// Measure leaf tasks of the top-level task, from launch to end, on a working set of regions that is dealt to all nodes
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Each node's copy of the top-level task goes through the whole flow, and runs the tasks whose regions it has. A task changes a \
region, and reads others of the same node. The tasks take the regions of the working set in turn.\n\n",
    "Columns of the report:\n",
    machine_columns!(),
    "  task_ns         time from the first launch until all tasks are done, divided by the number of tasks
  memory_bytes    memory that this process took up for the flow, at most
  verified        whether every task ran

",
    exit_codes!()
))]
pub struct FlowOptions {
    #[command(flatten)]
    set: TaskSet,

    /// Regions of each task, 1 to 3
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = count, allow_negative_numbers = true)]
    regions: usize,

    /// Tasks of a window: as many as may not have ended on a node
    #[arg(long, value_name = "W", default_value_t = 4096, value_parser = count, allow_negative_numbers = true)]
    window: usize,

    /// Nanoseconds that a task takes longer in the first process
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = count, allow_negative_numbers = true)]
    slow: usize,

    #[command(flatten)]
    bench: OnWorkersTraced,
}

const X: Field<u64> = Field::new(0, "x");

/// The flow of a run.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    count: usize,
    regions: usize,
    set: usize,
    window: u32,
    slow: Duration,
}

impl Flow {
    /// A flow of so many tasks, each on one of `set` regions.
    pub fn of_one_region(count: usize, set: usize, window: u32) -> Self {
        Self { count, regions: 1, set, window, slow: Duration::ZERO }
    }

    /// Launches the tasks. Returns the nanoseconds, the sum of all values at the end, and the memory.
    async fn run(self, top: Top) -> Result<(u64, u64, u64), Error> {
        let line = top.region_tree("line", Rect::line(0, self.set as i64), &[X.info()])?;
        let parts = Partition::equal(line, line.rect.volume())?;
        let parts: Vec<RegionView> = parts.iter().map(|r| top.region(r)).collect::<Result<_, _>>()?;
        for part in &parts {
            top.fill(part.write(X), 0).go()?.detach();
        }
        top.done().await?;
        let used = || resident().unwrap_or(0);
        let (before, mut most) = (used(), 0);
        // Of several processes, the first one is slow.
        let slow = if Runtime::process_number() == 0 { self.slow } else { Duration::ZERO };
        let add = move |mut x: ReadWrite<u64>| {
            x.as_mut_slice()[0] += 1;
            if !slow.is_zero() {
                let began = Instant::now();
                while began.elapsed() < slow {
                    std::hint::spin_loop();
                }
            }
        };
        let add_2 = |_: Read<u64>, mut x: ReadWrite<u64>| x.as_mut_slice()[0] += 1;
        let add_3 = |_: Read<u64>, _: Read<u64>, mut x: ReadWrite<u64>| x.as_mut_slice()[0] += 1;
        let other = |task: usize, n: usize| &parts[(task + n * 64) % parts.len()];
        let start = now();
        for task in 0..self.count {
            let x = parts[task % parts.len()].read_write(X);
            match self.regions {
                1 => top.launch(add, (x,)).go()?.detach(),
                2 => top.launch(add_2, (other(task, 1).read(X), x)).go()?.detach(),
                _ => top.launch(add_3, (other(task, 1).read(X), other(task, 2).read(X), x)).go()?.detach(),
            }
            top.window(self.window).await;
            if task % 4096 == 0 {
                most = most.max(used());
            }
        }
        top.done().await?;
        let time = now() - start;
        let sum = |x: Read<u64>| x.as_slice().iter().sum::<u64>();
        let sum = top.launch(sum, (top.region(line)?.read(X),)).go()?.await?;
        Ok((time, sum, most.saturating_sub(before)))
    }
}

/// Does one run. Returns the nanoseconds of a task, the memory, and whether each task ran once.
pub fn measure(runtime: &Runtime, flow: Flow) -> Result<(f64, u64, bool), Failure> {
    let ((time, sum, memory), _) = runtime.run(move |top| flow.run(top)).map_err(run_error)?;
    Ok((time as f64 / flow.count as f64, memory, sum == flow.count as u64))
}

/// Measures and reports.
pub fn execute(args: &FlowOptions) -> Result<(), Failure> {
    let (count, regions, set) = (at_least_one("count", args.set.count)?, args.regions, args.set.working_set);
    if !(1..=3).contains(&regions) {
        return Err(Failure::Usage(format!("--regions: expected 1 to 3 for each task, found {regions}")));
    }
    at_least_one("working-set", set)?;
    let window = at_least_one("window", args.window)?;
    let window = u32::try_from(window)
        .map_err(|_| Failure::Usage(format!("--window: expected at most {}, found {window}", u32::MAX)))?;
    if regions > 1 && set <= 128 {
        return Err(Failure::Usage(format!(
            "--working-set: expected more than 128 regions for these tasks, found {set}"
        )));
    }
    check_memory(&plural(set, "region"), set, 512)?;
    let (bench, workers, runtime) = args.bench.bench("flow", 1)?;
    let flow = Flow { count, regions, set, window, slow: Duration::from_nanos(args.slow as u64) };
    bench.report_on(
        &runtime,
        |runtime| measure(runtime, flow),
        |(ns, memory, verified), _| {
            let fields = vec![
                field("workers", workers),
                field("count", count),
                field("regions", regions),
                field("working_set", set),
                field("window", args.window),
                field("slow", args.slow),
                field("mapper", args.bench.on.mapper.name()),
                field("verified", verified),
                field("memory_bytes", memory),
                field("task_ns", ns),
            ];
            (fields, verified)
        },
    )
}
