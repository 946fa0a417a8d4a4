//! `maniple cholesky`.

use crate::Failure;
use crate::arrays;
use crate::options::help::{exit_codes, machine_columns};
use crate::options::numbers::{at_least_one, check_memory, count};
use crate::options::sends::Sends;
use crate::output::{Record, field};
use crate::runs::{AppOptions, Ran};
use maniple_apps::cholesky::{CholeskyError, Matrix, Outcome, Problem, Real, run};
use maniple_stencil::plural;
use std::path::PathBuf;

/// Factor a symmetric positive definite matrix, A = L Lᵀ, by a flow of tasks on tiles
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "The tasks are ordered by the tiles that they use. A tile is factored where its tasks write it, and the nodes have the tiles of \
the matrix in turn, in two dimensions.\n\n",
    "Without --input the matrix is D + w wᵀ, whose factor is known in closed form. Every run is verified.\n\n",
    "Columns of the report:\n",
    machine_columns!(),
    "  size, tile      rows of the matrix, and of a tile
  tasks           tasks of the factorisation
  broadcast       way of tiles that several nodes need, if one is given
  under_way       large values that may be leaving a node at a time
  verified        whether the errors are small: at most 30 N ε
  residual        ‖A − L Lᵀ‖ / ‖A‖
  error           the largest relative error of a value of L, without --input
  seconds         time of the factorisation
  gflops          N³/3 operations in that time, in thousand millions a second
  sends           messages with a tile from the node that wrote it, each along a way to one node or more
  recipients      nodes that these were for, added up
  forwards        messages of nodes that passed a tile on

",
    exit_codes!()
))]
pub struct CholeskyOptions {
    /// Rows and columns of the matrix [default: 2048]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    size: Option<usize>,

    /// Rows and columns of a tile
    #[arg(long, value_name = "T", default_value_t = 256, value_parser = count, allow_negative_numbers = true)]
    tile: usize,

    /// Type of the numbers
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = Type::F64)]
    element: Type,

    /// Factor the matrix in this file, of which only the lower triangle is looked at. Each process reads it
    #[arg(long, value_name = "FILE.npy")]
    input: Option<PathBuf>,

    /// Write the factor of the last run to this file, with zeros above the diagonal
    #[arg(long, value_name = "FILE.npy")]
    output: Option<PathBuf>,

    #[command(flatten)]
    sends: Sends,

    #[command(flatten)]
    app: AppOptions,
}

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Type {
    /// 64-bit floats
    F64,
    /// 32-bit floats
    F32,
}

/// Does the runs and reports them.
pub fn execute(args: &CholeskyOptions) -> Result<(), Failure> {
    match args.element {
        Type::F64 => execute_on::<f64, 8>(args, f64::to_le_bytes),
        Type::F32 => execute_on::<f32, 4>(args, f32::to_le_bytes),
    }
}

fn execute_on<T: Real, const B: usize>(args: &CholeskyOptions, bytes: fn(T) -> [u8; B]) -> Result<(), Failure> {
    at_least_one("tile", args.tile)?;
    let wanted = args.app.target(&[("--input", args.input.as_deref())], args.output.as_deref())?;
    let mut problem = Problem::new(matrix::<T>(args)?, args.tile);
    let size = problem.matrix.size();
    let factor = |runtime: &_, factor| {
        problem.factor = factor;
        let outcome = run(runtime, &problem).map_err(failure)?;
        let mut fields = vec![
            field("size", problem.matrix.size()),
            field("tile", args.tile),
            field("type", T::NAME),
            field("tasks", problem.tasks()),
        ];
        fields.extend(args.sends.fields());
        fields.extend(measured(&outcome, problem.operations()));
        Ok(Ran { fields, failure: outcome.failure, stats: outcome.stats })
    };
    args.app.run("cholesky", (1, Some(&args.sends)), wanted, factor, |target, factor: &[T]| {
        target.write_array(&format!("<f{B}"), &[size; 2], factor.iter().map(|x| bytes(*x)))
    })
}

fn measured(outcome: &Outcome, operations: f64) -> Record {
    let seconds = outcome.time.as_secs_f64();
    vec![
        field("verified", outcome.failure.is_none()),
        field("residual", outcome.residual),
        field("error", outcome.error),
        field("seconds", seconds),
        field("gflops", operations / seconds / 1e9),
        field("sends", outcome.stats.sends),
        field("recipients", outcome.stats.recipients),
        field("forwards", outcome.stats.forwards),
    ]
}

/// The elements in the tiles of the lower triangle, with those on the diagonal in full.
fn elements_of_tiles(size: usize, tile: usize) -> u128 {
    let (size, tile) = (size as u128, tile as u128);
    let last = match size % tile {
        0 => tile.min(size),
        rest => rest,
    };
    (size * size + (size - last) * tile + last * last) / 2
}

fn matrix<T: Real>(args: &CholeskyOptions) -> Result<Matrix<T>, Failure> {
    const SIZE: usize = 2048;
    let fits = |size: usize| {
        let files = u128::from(args.input.is_some()) + u128::from(args.output.is_some());
        let elements = elements_of_tiles(size, args.tile) + files * (size as u128).pow(2);
        check_memory(
            &format!("a matrix of {}", plural(size, "row")),
            1,
            elements.saturating_mul(size_of::<T>() as u128),
        )
    };
    let Some(path) = &args.input else {
        let size = at_least_one("size", args.size.unwrap_or(SIZE))?;
        fits(size)?;
        return Ok(Matrix::generated(size));
    };
    let (size, values) = arrays::read_matrix(path)?;
    if let Some(asked) = args.size.filter(|asked| *asked != size) {
        let holds = format!("{}: holds {}", path.display(), plural(size, "row"));
        return Err(Failure::Usage(format!("{holds}, but {asked} were asked for; leave the size out")));
    }
    fits(size)?;
    Matrix::given(values.into_iter().map(T::from_f64).collect()).map_err(failure)
}

fn failure(e: CholeskyError) -> Failure {
    match e {
        CholeskyError::Runtime(_) | CholeskyError::NotPositiveDefinite { .. } => Failure::Run(e.to_string()),
        CholeskyError::Zero { .. } | CholeskyError::NotSquare { .. } => Failure::Usage(e.to_string()),
    }
}
