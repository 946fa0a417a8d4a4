//! `maniple cg`.

use crate::Failure;
use crate::arrays;
use crate::market;
use crate::options::Mode;
use crate::options::help::{exit_codes, machine_columns};
use crate::options::numbers::{at_least_one, check_memory, count, number, shards};
use crate::output::{Record, field};
use crate::runs::{AppOptions, Ran};
use maniple_apps::cg::{self, CgError, Outcome, Problem, System, run};
use maniple_stencil::plural;
use std::path::PathBuf;
use std::sync::Arc;

/// Solve a sparse symmetric positive definite system by conjugate gradients (CG), with HPCG's operator or a matrix of a file
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Each shard has rows of the matrix and sends its neighbours the values that they need. With `partial`, rows of the product \
that need a neighbour's values wait for that neighbour only; with `whole`, all rows wait for all neighbours. Steps of the preconditioner \
wait for all values in both. The residuals have the same bits.\n\n",
    "Without --input the system is that of HPCG: a grid of N × N × N points for each shard, in which a point and its up to 26 neighbours make \
an equation. Preconditioners: multigrid (HPCG's, on up to 4 grids), gauss-seidel (a symmetric step on each shard's rows), none \
(as MiniFE). Without --right, b is such that every x is 1. Every run is verified.\n\n",
    "Columns of the report:\n",
    machine_columns!(),
    "  shards          number of shards
  rows, values    rows of the matrix, and values that are not 0
  preconditioner, grids  as asked for, and the number of grids
  mode            whole or partial
  iterations      steps that were taken
  verified        whether b − A x, computed anew, agrees with the residual of the iteration
  residual        ‖b − A x‖ / ‖b‖
  error           ‖x − 1‖ / ‖1‖, without --right
  seconds         time of all iterations
  each_ms         time of an iteration, in milliseconds

",
    exit_codes!()
))]
pub struct CgOptions {
    /// Points of each shard's part of the grid along each axis [default: 32]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    points: Option<usize>,

    /// Number of shards [default: as many as workers]
    #[arg(long, value_name = "P", value_parser = count, allow_negative_numbers = true)]
    shards: Option<usize>,

    /// When a task that needs data of others may start
    #[arg(long, value_enum, default_value_t = Mode::Partial)]
    mode: Mode,

    /// Preconditioner [default: multigrid, or gauss-seidel for a matrix of a file]
    #[arg(long, value_enum)]
    preconditioner: Option<Preconditioner>,

    /// The most iterations
    #[arg(long, value_name = "I", default_value_t = 50, value_parser = count, allow_negative_numbers = true)]
    iterations: usize,

    /// Stop when ‖r‖ / ‖b‖ is at most T [0: never]. If it never is, the solution is written, and the exit code is 1
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = number, allow_negative_numbers = true)]
    tolerance: f64,

    /// Solve with the matrix in this file (Matrix Market, coordinate). Each process reads it
    #[arg(long, value_name = "FILE.mtx")]
    input: Option<PathBuf>,

    /// Right-hand side, a vector (.npy, .csv or .txt)
    #[arg(long, value_name = "FILE")]
    right: Option<PathBuf>,

    /// Write the solution of the last run to this file
    #[arg(long, value_name = "FILE.npy")]
    output: Option<PathBuf>,

    #[command(flatten)]
    app: AppOptions,
}

/// A preconditioner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Preconditioner {
    /// No preconditioner
    None,
    /// A symmetric Gauss–Seidel step on each shard's rows
    GaussSeidel,
    /// HPCG's multigrid
    Multigrid,
}

impl From<Preconditioner> for cg::Preconditioner {
    fn from(preconditioner: Preconditioner) -> Self {
        match preconditioner {
            Preconditioner::None => Self::None,
            Preconditioner::GaussSeidel => Self::GaussSeidel,
            Preconditioner::Multigrid => Self::Multigrid,
        }
    }
}

/// Does the runs and reports them.
pub fn execute(args: &CgOptions) -> Result<(), Failure> {
    at_least_one("iterations", args.iterations)?;
    if !(0.0..1.0).contains(&args.tolerance) {
        return Err(Failure::Usage(format!(
            "--tolerance: expected a number from 0 to below 1, found {}",
            args.tolerance
        )));
    }
    let inputs = [("--input", args.input.as_deref()), ("--right", args.right.as_deref())];
    let wanted = args.app.target(&inputs, args.output.as_deref())?;
    let count = args.app.on.workers.shards_or_processors(args.shards)?;
    let shards = shards(count)?;
    let mut problem = Problem { mode: args.mode.into(), ..Problem::new(system(args, shards)?, shards) };
    (problem.iterations, problem.tolerance) = (args.iterations, args.tolerance);
    match args.preconditioner {
        Some(Preconditioner::Multigrid) if args.input.is_some() => {
            return Err(Failure::Usage(
                "--preconditioner multigrid needs a grid; use gauss-seidel for a matrix".into(),
            ));
        }
        Some(preconditioner) => problem.preconditioner = preconditioner.into(),
        None => {}
    }
    problem.right = args.right.as_deref().map(arrays::read_vector).transpose()?.map(Arc::new);
    let mut missed = None;
    let solve = |runtime: &_, solution| {
        problem.solution = solution;
        let outcome = run(runtime, &problem).map_err(failure)?;
        missed = is_missed(args.tolerance, &outcome);
        Ok(Ran { fields: fields(args, &problem, &outcome), failure: outcome.failure, stats: outcome.stats })
    };
    args.app.run("cg", (count, None), wanted, solve, |target, solution: &[f64]| {
        target.write_array("<f8", &[solution.len()], solution.iter().map(|x| x.to_le_bytes()))
    })?;
    missed.map_or(Ok(()), |missed| Err(Failure::Run(missed)))
}

/// What is said if the tolerance is not reached.
fn is_missed(tolerance: f64, outcome: &Outcome) -> Option<String> {
    let (first, last) = (outcome.residuals.first()?, outcome.residuals.last()?);
    let found = last / first.max(f64::MIN_POSITIVE);
    let iterations = plural(outcome.residuals.len() - 1, "iteration");
    let what =
        || format!("--tolerance: expected ‖r‖ / ‖b‖ of at most {tolerance:e}, found {found:e} after {iterations}");
    (tolerance > 0.0 && found > tolerance).then(|| what() + ". More --iterations may reach it")
}

fn fields(args: &CgOptions, problem: &Problem, outcome: &Outcome) -> Record {
    let (rows, values) = problem.size();
    let (iterations, seconds) = (outcome.residuals.len() - 1, outcome.time.as_secs_f64());
    vec![
        field("shards", problem.shards),
        field("rows", rows),
        field("values", values),
        field("preconditioner", problem.preconditioner.name()),
        field("grids", problem.levels()),
        field("mode", args.mode.name()),
        field("iterations", iterations),
        field("verified", outcome.failure.is_none()),
        field("residual", outcome.residual),
        field("error", outcome.error),
        field("seconds", seconds),
        field("each_ms", seconds * 1e3 / iterations.max(1) as f64),
    ]
}

fn system(args: &CgOptions, shards: u32) -> Result<System, Failure> {
    if let Some(path) = &args.input {
        if args.points.is_some() {
            return Err(Failure::Usage("--points is for HPCG's grid; leave it out with --input".into()));
        }
        return Ok(System::Given(Arc::new(market::read(path)?)));
    }
    let points = at_least_one("points", args.points.unwrap_or(32))?;
    // A row has 27 values with their columns, and is in five vectors.
    let bytes = (points as u128).saturating_pow(3).saturating_mul(27 * 12 + 5 * 8);
    check_memory(
        &format!("{points}³ points for each of {}", plural(shards as usize, "shard")),
        shards as usize,
        bytes,
    )?;
    Ok(System::Stencil { points: [points; 3] })
}

fn failure(e: CgError) -> Failure {
    match e {
        CgError::Runtime(_) | CgError::NotPositiveDefinite { .. } => Failure::Run(e.to_string()),
        CgError::NoRightSide => Failure::Usage(format!("{e} with --right")),
        e => Failure::Usage(e.to_string()),
    }
}
