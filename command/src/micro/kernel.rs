//! `maniple kernel`.

use super::{Bench, WithoutWorkers, now, run_error};
use crate::Failure;
use crate::machines::reduced;
use crate::options::help::exit_codes;
use crate::options::numbers::count;
use crate::output::field;
use crate::stencil::session::Config;
use maniple::halo::{Halo, HaloOptions, Halos};
use maniple::prelude::*;
use maniple::runtime::VirtualMachine;
use maniple_stencil::kernel;
use maniple_stencil::reference::{DominantMode, verify_mode};
use maniple_stencil::shards::{D, advance, load, store};

/// Measure the stencil's kernel on one vector, without shards and tasks
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Columns of the report:
  machine, nodes     in virtual time: the name of the machine, and 1 node
  iteration_us       time of an iteration: derivative, square sum and scaling of the whole vector
  per_1000_cells_ns  time of an iteration for each 1000 cells
  verified           whether every square sum and the last vector are right

In virtual time the kernel runs as the leaf task `advance` of a single shard, and takes the time in the machine's file. Nothing \
else takes time. The task works on the vector and on four ghost cells at each end.

", exit_codes!()))]
#[command(mut_arg("iterations", |arg| {
    let what = "Iterations of each run. A tenth as many come before them to warm up [default: 20000, in virtual time 200]";
    arg.help(what)
}))]
pub struct KernelOptions {
    /// Cells of the vector, at least 4
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count, allow_negative_numbers = true)]
    cells: usize,

    #[command(flatten)]
    bench: WithoutWorkers,
}

/// Does one run on the dominant mode. Returns the nanoseconds of an iteration, and whether every root and the last vector are
/// right.
pub fn measure(cells: usize, iterations: usize) -> Result<(f64, bool), Failure> {
    let mode = DominantMode::new(cells);
    let mut d: Vec<f64> = mode.vector(0).collect();
    let (mut root, h) = (1.0, 1.0 / cells as f64);
    let warm_up = iterations.div_ceil(10);
    let (mut roots, mut start) = (Vec::with_capacity(warm_up + iterations), 0);
    for iteration in 0..warm_up + iterations {
        if iteration == warm_up {
            start = now();
        }
        let (left, right) = ([d[cells - 2], d[cells - 1]], [d[0], d[1]]);
        let sum = kernel::step(&mut d, left, right, root, h);
        root = kernel::root(iteration + 1, sum).map_err(|e| Failure::Run(e.to_string()))?;
        roots.push(root);
    }
    let ns = (now() - start) as f64 / iterations as f64;
    let mut u = vec![0.0; cells];
    kernel::scale(&d, root, &mut u);
    Ok((ns, verify_mode(&mode, &roots, &u).failure.is_none()))
}

/// The number of iterations in virtual time, where all take equally long.
pub const ENOUGH: usize = 200;

/// Does one run as the leaf tasks of a shard on a machine in virtual time, where only leaf tasks take time.
pub fn measure_on(machine: &VirtualMachine, cells: usize, iterations: usize) -> Result<(f64, bool), Failure> {
    let machine = reduced::tasks_alone(reduced::one_processor(machine));
    let mode = DominantMode::new(cells);
    let outcome = Runtime::virtual_time(machine).run(move |top| async move {
        let line = top.region_tree("line", Rect::line(0, cells as i64), &[D.info()])?;
        let (gang, task) = (top.gang("one", 1)?, top.register("iterate", iterate));
        let options = HaloOptions::new(kernel::GHOSTS).periodic([true]);
        let halos = Halos::new(&top, "ghosts", &gang, &Partition::equal(line, 1)?, options)?;
        top.launch_gang(&gang, &task, |s| ShardLaunch::new((line, halos.of(s), iterations)).writes(line, [D]))?
            .all()
            .await
    });
    let (mut results, _) = outcome.map_err(run_error)?;
    let (ns, sums, last) = results.pop().ok_or_else(|| Failure::Run("the shard gave no result".into()))?;
    let roots = (1..).zip(sums).map(|(i, sum)| kernel::root(i, sum));
    let roots = roots.collect::<Result<Vec<_>, _>>().map_err(|e| Failure::Run(e.to_string()))?;
    Ok((ns as f64 / iterations as f64, verify_mode(&mode, &roots, &last).failure.is_none()))
}

/// The nanoseconds of the measured iterations, the square sums of all iterations, and the last vector.
type Iterated = (u64, Vec<f64>, Vec<f64>);

async fn iterate(shard: Shard, (line, halo, iterations): (Region, Halo<f64>, usize)) -> Result<Iterated, Error> {
    let cells = line.rect.volume();
    let (d, halo) = (shard.region(line)?, halo.join(&shard)?);
    let first: Vec<f64> = DominantMode::new(cells).vector(0).collect();
    shard.launch(load, (d.write(D), halo.borders(), first.into())).go()?.await?;
    let (warm_up, mut total, mut start, mut sums) = (iterations.div_ceil(10), 1.0, 0, Vec::new());
    for iteration in 0..warm_up + iterations {
        if iteration == warm_up {
            start = now();
        }
        let h = 1.0 / cells as f64;
        let args = (d.read_write(D), halo.ghosts(), halo.borders(), total.into(), h.into());
        total = shard.launch(advance, args).go()?.await?;
        sums.push(total);
    }
    let ns = now() - start;
    Ok((ns, sums, shard.launch(store, (d.read(D), total.into())).go()?.await?))
}

/// Measures and reports.
pub fn execute(args: &KernelOptions) -> Result<(), Failure> {
    if args.bench.wire.in_virtual_time()? && args.bench.wire.nodes().is_some() {
        let refusal = "--nodes is not for kernel, which runs on a single processor of the machine";
        return Err(Failure::Usage(refusal.into()));
    }
    let machine = args.bench.wire.machine(1)?.as_ref().map(reduced::one_processor);
    let (cells, iterations) = (args.cells, args.bench.iterations.or(if machine.is_some() { ENOUGH } else { 20_000 })?);
    let config = Config { shards: 1, cells: Some(cells), iterations, ..Config::default() };
    config.check_run(cells)?;
    let bench = Bench::new("kernel", &args.bench.wire, machine, &args.bench.runs)?;
    let measure = || match &bench.machine {
        None => measure(cells, iterations),
        Some(machine) => measure_on(machine, cells, iterations),
    };
    bench.report(measure, |(ns, verified), _| {
        let fields = vec![
            field("cells", cells),
            field("iterations", iterations),
            field("verified", verified),
            field("iteration_us", ns / 1000.0),
            field("per_1000_cells_ns", ns * 1000.0 / cells as f64),
        ];
        (fields, verified)
    })
}
