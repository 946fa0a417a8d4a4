//! `maniple remote`.

use super::{OnWorkersTraced, now, run_error};
use crate::Failure;
use crate::options::help::{cache_line_column, exit_codes, machine_columns};
use crate::options::numbers::check_memory;
use crate::options::{Elements, Iterations};
use crate::output::field;
use maniple::prelude::*;
use maniple::regions::{Privilege, ReadShared, WriteShared};
use maniple::runtime::Stats;

/// Measure a leaf task on a region that another shard changes
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "There are two shards. The first changes an element, and the second sums all of them; edges order the two. The mapper \
decides where the region is.\n\n",
    "Columns of the report:\n",
    machine_columns!(),
    "  task_us         time from one sum to the next: mean over the measured iterations
  copied_bytes    bytes that the runtime has copied for each sum
  result          the last sum, which is the number of iterations, including the warm-up
  verified        whether every sum was right
",
    cache_line_column!(),
    "\n",
    exit_codes!()
))]
#[command(mut_arg("elements", |arg| arg.default_value("131072").help("Elements of the region, 64-bit floats, at least 1")))]
#[command(mut_arg("iterations", |arg| {
    arg.default_value("100").help("Sums of each run. Preceded by a tenth as many to warm up")
}))]
pub struct RemoteOptions {
    #[command(flatten)]
    elements: Elements,

    #[command(flatten)]
    iterations: Iterations,

    #[command(flatten)]
    bench: OnWorkersTraced,
}

const X: Field<f64> = Field::new(0, "x");

/// Sums before those that are measured.
pub fn warm_up(iterations: usize) -> usize {
    iterations.div_ceil(10)
}

/// The element that is not 0 in an iteration.
fn element(iteration: usize, elements: usize) -> usize {
    iteration.wrapping_mul(7919) % elements
}

/// Sets the element of an iteration to its number, and the element of the iteration before to 0.
fn put(mut x: WriteShared<f64>, iteration: Arg<u64>) {
    let elements = x.len();
    changes(*iteration as usize, elements).for_each(|(at, value)| x.set([at as i64], value));
}

/// The elements that an iteration changes, with their values.
pub fn changes(iteration: usize, elements: usize) -> impl Iterator<Item = (usize, f64)> {
    [(element(iteration - 1, elements), 0.0), (element(iteration, elements), iteration as f64)].into_iter()
}

fn sum(x: ReadShared<f64>) -> f64 {
    const PART: usize = 2048;
    let (mut part, mut lanes, rect) = ([0.0; PART], [0.0; 8], x.rect());
    let mut first = rect.lo(0);
    while first < rect.hi(0) {
        let end = rect.hi(0).min(first + PART as i64);
        let part = &mut part[..(end - first) as usize];
        x.copy_part_to(Rect::line(first, end), part);
        add(part, &mut lanes);
        first = end;
    }
    lanes.iter().sum()
}

/// Adds values in eight lanes, which a processor can do at once.
pub fn add(values: &[f64], lanes: &mut [f64; 8]) {
    let (eights, rest) = values.as_chunks::<8>();
    for eight in eights {
        lanes.iter_mut().zip(eight).for_each(|(lane, value)| *lane += value);
    }
    lanes[0] += rest.iter().sum::<f64>();
}

/// Returns the number of wrong sums, the last one, and the nanoseconds of those that are measured.
async fn share(shard: Shard, (x, edges, iterations): (Region, Edges, u64)) -> Result<(u64, f64, u64), Error> {
    let x = shard.region(x)?;
    let (mut wrong, mut last, mut start) = (0, 0.0, 0);
    let warm_up = warm_up(iterations as usize) as u64;
    if shard.index() == 0 {
        let full = edges.producer(&shard, 1)?;
        for iteration in 1..=warm_up + iterations {
            let put = shard.launch(put, (x.write_shared(X), iteration.into()));
            put.wait(full.empty()).arrive(full.ready()).go()?.await?;
        }
        return Ok((0, 0.0, 0));
    }
    let full = edges.consumer(&shard, 0)?;
    for iteration in 1..=warm_up + iterations {
        last = shard.launch(sum, (x.read_shared(X),)).wait(full.ready()).arrive(full.empty()).go()?.await?;
        wrong += u64::from(last != iteration as f64);
        if iteration == warm_up {
            start = now();
        }
    }
    Ok((wrong, last, now() - start))
}

/// Does one run. Returns the last sum, whether all were right, the microseconds of a sum, and the counts.
pub fn measure(runtime: &Runtime, elements: usize, iterations: usize) -> Result<(f64, bool, f64, Stats), Failure> {
    let outcome = runtime.run(move |top| async move {
        let x = top.region_tree("x", Rect::line(0, elements as i64), &[X.info()])?;
        let gang = top.gang("two", 2)?;
        let edges = top.edges("full", &gang, [(0, 1)], 1)?;
        let task = top.register("share", share);
        let launch = |shard| {
            let privilege = if shard == 0 { Privilege::ReadWrite } else { Privilege::Read };
            ShardLaunch::new((x, edges, iterations as u64)).shares(x, [X], privilege)
        };
        top.launch_gang(&gang, &task, launch)?.all().await
    });
    let (results, stats) = outcome.map_err(run_error)?;
    let (wrong, last, ns) = results[1];
    Ok((last, wrong == 0, ns as f64 / iterations as f64 / 1000.0, stats))
}

/// The bytes that were copied for each sum. The staged bytes are among the moved ones.
pub fn copied_bytes(stats: &Stats, iterations: usize) -> f64 {
    stats.moved_bytes as f64 / (warm_up(iterations) + iterations) as f64
}

/// Measures and reports.
pub fn execute(args: &RemoteOptions) -> Result<(), Failure> {
    let (elements, iterations) = (args.elements.number()?, args.iterations.number()?);
    // The region, and a copy of it.
    check_memory(&format!("a region of {elements} elements"), elements, 16)?;
    let (bench, workers, runtime) = args.bench.bench("remote", 2)?;
    bench.with_yardstick()?.report_on(
        &runtime,
        |runtime| measure(runtime, elements, iterations),
        |(result, verified, us, stats), cache_line_ns| {
            let fields = vec![
                field("workers", workers),
                field("elements", elements),
                field("iterations", iterations),
                field("mapper", args.bench.on.mapper.name()),
                field("verified", verified),
                field("result", result),
                field("task_us", us),
                field("copied_bytes", copied_bytes(&stats, iterations)),
                field("cache_line_ns", cache_line_ns),
            ];
            (fields, verified)
        },
    )
}
