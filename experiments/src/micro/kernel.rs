//! `maniple kernel`.

use super::{Common, field, now, repeat};
use crate::Failure;
use maniple_stencil::reference::{DominantMode, verify_mode};
use maniple_stencil::{Config, kernel};

/// The stencil's sequential kernel on one vector: derivative, square sum and scaling, without shards and tasks
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The reports say:
  iteration_us       time of an iteration: derivative, square sum and scaling of the whole vector
  per_1000_cells_ns  the same for each 1000 cells
  verified           whether every square sum and the last vector are what they must be

Exit codes: 0, every run was verified; 1, one was not, or failed; 2, the arguments are at fault.")]
pub struct Args {
    /// Cells of the vector, at least 4
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = crate::count, allow_negative_numbers = true)]
    cells: usize,

    /// Iterations a run, after a tenth as many to warm up
    #[arg(long, value_name = "I", default_value_t = 20_000, value_parser = crate::count)]
    #[arg(allow_negative_numbers = true)]
    iterations: usize,

    #[command(flatten)]
    common: Common,
}

/// One run on the dominant mode; nanoseconds an iteration, and whether every root and the last vector are right.
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

/// Measures and reports.
pub fn execute(args: &Args) -> Result<(), Failure> {
    let (cells, iterations) = (args.cells, super::at_least_one("iterations", args.iterations)?);
    let config = Config { shards: 1, cells: Some(cells), iterations, ..Config::default() };
    config.check().and_then(|()| config.check_memory(cells)).map_err(|e| Failure::Usage(e.to_string()))?;
    repeat(&args.common, |_| {
        let (ns, verified) = measure(cells, iterations)?;
        let record = vec![
            field("program", "kernel"),
            field("cells", cells),
            field("iterations", iterations),
            field("verified", verified),
            field("iteration_us", ns / 1000.0),
            field("per_1000_cells_ns", ns * 1000.0 / cells as f64),
        ];
        Ok((record, verified))
    })
}
