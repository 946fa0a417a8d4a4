//! `maniple fft`.

use crate::Failure;
use crate::arrays;
use crate::measure::stats::median;
use crate::options::Mode;
use crate::options::help::{exit_codes, machine_columns};
use crate::options::numbers::{at_least_one, check_memory, count, shards};
use crate::output::{Record, field};
use crate::runs::{AppOptions, Ran};
use maniple_apps::fft::{Array, C, FftError, Outcome, Problem, run, sides};
use maniple_stencil::plural;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Transform a complex array of 2 or 3 dimensions (FFT), with tasks that start on parts of an exchange
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Each shard transforms lines (rows along one axis) and exchanges blocks, so that it then has lines along the next axis. In mode partial a \
task transforms what has come from one shard as soon as it is there, and in mode whole when everything is there. \
The spectrum has the same bits in both.\n\n",
    "Without --input the values are pseudo-random. Every run is verified: weighted sums of the spectrum are compared with \
values computed from the array.\n\n",
    "Columns of the report:\n",
    machine_columns!(),
    "  shape, shards   the array, and the number of shards
  mode            whole or partial
  verified        whether the error is small: at most 16 ε log₂ N
  error           the largest error of such a sum, relative to its largest possible value
  seconds         time of a transform, the median of --iterations
  gflops          10⁹ operations per second, counting 5 N log₂ N

",
    exit_codes!()
))]
pub struct FftOptions {
    /// Shape of the array, with 2 or 3 dimensions [default: 1024x1024]
    #[arg(long, value_name = "NxM[xK]")]
    size: Option<Shape>,

    /// Number of shards [default: as many as workers]
    #[arg(long, value_name = "P", value_parser = count, allow_negative_numbers = true)]
    shards: Option<usize>,

    /// When a task that needs data of others may start
    #[arg(long, value_enum, default_value_t = Mode::Partial)]
    mode: Mode,

    /// Cut a shard's work on its lines into at most this many tasks
    #[arg(long, value_name = "G", default_value_t = 8, value_parser = count, allow_negative_numbers = true)]
    groups: usize,

    /// Transforms of a run, of the same array
    #[arg(long, value_name = "I", default_value_t = 3, value_parser = count, allow_negative_numbers = true)]
    iterations: usize,

    /// Transform the array in this file, of complex, real or whole numbers. Each process reads it
    #[arg(long, value_name = "FILE.npy")]
    input: Option<PathBuf>,

    /// Write the spectrum to this file
    #[arg(long, value_name = "FILE.npy")]
    output: Option<PathBuf>,

    #[command(flatten)]
    app: AppOptions,
}

/// The lengths of the axes of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shape(Vec<usize>);

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lengths = text.split(['x', '×']).map(count).collect::<Result<Vec<_>, _>>();
        match lengths {
            Ok(lengths) if [2, 3].contains(&lengths.len()) => Ok(Self(lengths)),
            _ => Err(format!("expected 2 or 3 lengths, such as 1024x512, found `{text}`")),
        }
    }
}

/// Does the runs and reports them.
pub fn execute(args: &FftOptions) -> Result<(), Failure> {
    at_least_one("groups", args.groups)?;
    at_least_one("iterations", args.iterations)?;
    let wanted = args.app.target(&[("--input", args.input.as_deref())], args.output.as_deref())?;
    let count = args.app.on.workers.shards_or_processors(args.shards)?;
    let array = array(args)?;
    let shards = exchanging(count, array.shape())?;
    let mut problem = Problem {
        mode: args.mode.into(),
        groups: args.groups,
        iterations: args.iterations,
        ..Problem::new(array, shards)
    };
    let shape = problem.array.shape().to_vec();
    let transform = |runtime: &_, spectrum| {
        problem.spectrum = spectrum;
        let outcome = run(runtime, &problem).map_err(failure)?;
        Ok(Ran { fields: fields(args, &problem, &outcome), failure: outcome.failure, stats: outcome.stats })
    };
    args.app.run("fft", (count, None), wanted, transform, |target, spectrum: &[C]| {
        let numbers = spectrum.iter().flat_map(|x| [x.re.to_le_bytes(), x.im.to_le_bytes()]);
        target.write_array("<c16", &shape, numbers)
    })
}

fn fields(args: &FftOptions, problem: &Problem, outcome: &Outcome) -> Record {
    let seconds = median(outcome.times.iter().map(Duration::as_secs_f64));
    let shape: Vec<String> = problem.array.shape().iter().map(usize::to_string).collect();
    vec![
        field("shape", shape.join("×")),
        field("shards", problem.shards),
        field("mode", args.mode.name()),
        field("verified", outcome.failure.is_none()),
        field("error", outcome.error),
        field("seconds", seconds),
        field("gflops", problem.operations() / seconds / 1e9),
    ]
}

/// So many shards. Those of a group exchange blocks, for which each pair has its state.
fn exchanging(count: usize, shape: &[usize]) -> Result<u32, Failure> {
    const MOST: usize = 8192;
    /// Measured: 1075 with 2000 shards.
    const OF_A_PAIR: u128 = 1000;
    let shards = shards(count)?;
    let groups = sides(<[usize; 3]>::try_from(shape).unwrap_or([1; 3]), count);
    if let Some(found) = groups.into_iter().find(|found| *found > MOST) {
        let expected = format!("expected at most {MOST} that exchange blocks with each other");
        return Err(Failure::Usage(format!("--shards: {expected}, found {found}")));
    }
    let pairs = groups.iter().map(|members| *members as u128).sum::<u128>();
    check_memory(&format!("exchanges among {}", plural(count, "shard")), count, pairs * OF_A_PAIR)?;
    Ok(shards)
}

fn array(args: &FftOptions) -> Result<Array, Failure> {
    // The lines before and after an exchange, and the blocks that are exchanged; a file, and the spectrum for one.
    let fits = |shape: &[usize]| {
        let copies = 3 + u128::from(args.input.is_some()) + u128::from(args.output.is_some());
        let values = shape.iter().fold(1, |values: u128, length| values.saturating_mul(*length as u128));
        let what = shape.iter().map(usize::to_string).collect::<Vec<_>>().join("×");
        check_memory(&format!("an array of {what} values"), 1, values.saturating_mul(copies * size_of::<C>() as u128))
    };
    let Some(path) = &args.input else {
        let shape = args.size.as_ref().map_or(vec![1024, 1024], |shape| shape.0.clone());
        for length in &shape {
            at_least_one("size", *length)?;
        }
        fits(&shape)?;
        return Array::generated(&shape).map_err(failure);
    };
    let (shape, values) = arrays::read_complex(path)?;
    if args.size.as_ref().is_some_and(|asked| asked.0 != shape) {
        let holds = format!("{}: holds an array of shape {shape:?}", path.display());
        return Err(Failure::Usage(format!("{holds}, but another one was asked for; leave the size out")));
    }
    fits(&shape)?;
    let values = values.into_iter().map(|[re, im]| C::new(re, im)).collect();
    Array::given(&shape, values).map_err(|e| Failure::Usage(format!("{}: {e}", path.display())))
}

fn failure(e: FftError) -> Failure {
    match e {
        FftError::Runtime(_) => Failure::Run(e.to_string()),
        e => Failure::Usage(e.to_string()),
    }
}
